"""What is compared, the parts of it that are shown, and the threads that compute it: the screen answers meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from textual.message import Message
from textual.widget import Widget
from textual.worker import get_current_worker

from tracetui.comparing.comparison import Comparison, comparison
from tracetui.comparing.composition import representative
from tracetui.comparing.match import Matching, match
from tracetui.comparing.side import Side
from tracetui.drawing.timeline.raster import Picture
from tracetui.errors import AnalysisFailed, TracetuiError
from tracetui.model.guarding import guarded
from tracetui.model.table import Table
from tracetui.ui.compare.compare_list import table_of
from tracetui.ui.compare.partners import PartnerLookup
from tracetui.ui.compare.shown_part import ShownPart, ShownParts

STATEMENT = "statement"
"""Name of the result that is no table: the sentences about the comparison."""


class ComparedSides:
    """Two sides, A before and B after, with the part of each that is shown and what is known of both."""

    @dataclass
    class Computed(Message):
        """A table or the statement of a comparison is there, or the sentence that says why not."""

        comparison: Comparison
        name: str
        """A tab, or `STATEMENT`."""
        result: Table | tuple[str, ...] | str

    @dataclass
    class Matched(Message):
        """It is known which slices of two parts are partners."""

        parts: ShownParts
        matching: Matching

    @dataclass
    class Unmatched(Message):
        """It cannot be known which slices of two parts are partners; the sentence says why."""

        parts: ShownParts
        note: str

    def __init__(
        self, owner: Widget, a: Side, b: Side, pictures: tuple[Picture, Picture], paths: tuple[str, str]
    ) -> None:
        """`owner` runs the threads and gets the messages."""
        self._owner = owner
        self.comparison = comparison(a, b)
        self.pictures, self.paths = pictures, paths
        self.partners = PartnerLookup(self.representative_parts())
        """The parts that are shown, and which of their slices are partners."""
        self.statement: tuple[str, ...] = ()
        """Sentences about the comparison, empty until they are known."""

    @property
    def sides(self) -> tuple[Side, Side]:
        """A and B."""
        return self.comparison.a, self.comparison.b

    @property
    def parts(self) -> ShownParts:
        """The parts that are shown."""
        return self.partners.parts

    def representative_parts(self) -> ShownParts:
        """The part of each side that stands for the others."""
        first, second = (ShownPart(side, representative(side)) for side in self.sides)
        return first, second

    def swap(self) -> None:
        """Make A of B and B of A."""
        self.comparison = comparison(*self.sides[::-1])
        self.pictures, self.paths = self.pictures[::-1], self.paths[::-1]
        self.partners = PartnerLookup(self.parts[::-1])

    def show_parts(self, parts: ShownParts) -> bool:
        """Take other parts; True when those are of other sides, which are compared from now on."""
        is_other = any(part.side is not side for part, side in zip(parts, self.sides, strict=True))
        if is_other:
            self.comparison = comparison(parts[0].side, parts[1].side)
        self.partners = PartnerLookup(parts)
        return is_other

    def take_matching(self, message: Matched) -> bool:
        """Know the partners in the shown parts; False for those of other parts."""
        if message.parts is not self.parts:
            return False
        self.partners = PartnerLookup(message.parts, message.matching)
        return True

    def compute(self, tabs: Sequence[str]) -> None:
        """Make the tables in a thread, in the order of the tabs, then the statement."""
        self.statement = ()
        # Without a description, textual makes one of the arguments: every column of both traces as text.
        self._owner.run_worker(
            partial(self._compute, self.comparison, tabs),
            thread=True,
            exclusive=True,
            group="compare",
            description="tables",
        )

    def match(self) -> None:
        """Find the partners in the shown parts, in a thread."""
        self._owner.run_worker(
            partial(self._match, self.parts), thread=True, exclusive=True, group="match", description="partners"
        )

    def _compute(self, computed: Comparison, tabs: Sequence[str]) -> None:
        worker = get_current_worker()
        for name in (*tabs, STATEMENT):
            if worker.is_cancelled:
                return
            result: Table | tuple[str, ...] | str
            try:
                with guarded(f"The tab {name}"):
                    result = computed.statement if name == STATEMENT else table_of(computed, name)
            except TracetuiError as error:
                result = str(error)
            self._owner.post_message(self.Computed(computed, name, result))

    def _match(self, parts: ShownParts) -> None:
        a, b = parts
        try:
            with guarded("The search for partners"):
                matching = match(a.side, a.part, b.side, b.part)
        except AnalysisFailed as failure:
            self._owner.post_message(self.Unmatched(parts, str(failure)))
        else:
            self._owner.post_message(self.Matched(parts, matching))
