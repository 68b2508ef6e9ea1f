"""What is compared, and the threads in which it is: the screen is answerable meanwhile."""

from __future__ import annotations

from dataclasses import dataclass

from textual import work
from textual.message import Message
from textual.worker import get_current_worker

from tracetui.analysis.comparing.comparison import Comparison
from tracetui.analysis.comparing.matching.match import Matching, match
from tracetui.analysis.comparing.sides.composition import representative
from tracetui.analysis.comparing.sides.side import Side
from tracetui.errors import TracetuiError
from tracetui.model.table import Table
from tracetui.ui.compare.compare_list import table_of
from tracetui.ui.compare.partners import Partners
from tracetui.ui.compare.shown_part import ShownPart
from tracetui.ui.compare.timelines import Parts
from tracetui.ui.widgets.hinted_view import HintedView


class ComparedView(HintedView):
    """Base of the view of two traces."""

    @dataclass
    class Made(Message):
        """A part of the comparison is there, or the sentence why it is not."""

        told: Comparison
        name: str
        """A tab, or `statement`."""
        result: Table | tuple[str, ...] | str

    @dataclass
    class Matched(Message):
        """It is known which work of the two parts goes together."""

        parts: Parts
        matching: Matching

    def __init__(self, told: Comparison) -> None:
        super().__init__()
        self.told = told
        """What is compared; A is before, B after."""
        self.partners = Partners(self.standing())
        """The parts that are shown, and what goes with what."""
        self.statement: tuple[str, ...] = ()
        """What is said of them, once that is known."""

    @property
    def sides(self) -> tuple[Side, Side]:
        """A and B."""
        return self.told.a, self.told.b

    @property
    def parts(self) -> Parts:
        """The parts that are shown."""
        return self.partners.parts

    def standing(self) -> Parts:
        """The parts that stand for the others."""
        first, second = (ShownPart(side, representative(side)) for side in self.sides)
        return first, second

    # Without a description, textual makes one of the arguments: every column of both traces as text, on the event loop.
    @work(thread=True, exclusive=True, group="compare", description="tables")
    def compare(self, told: Comparison, tabs: list[str]) -> None:
        """Make the tables in a thread, in the order of the tabs, then the statement."""
        worker = get_current_worker()
        for name in (*tabs, "statement"):
            if worker.is_cancelled:
                return
            made: Table | tuple[str, ...] | str
            try:
                made = told.statement if name == "statement" else table_of(told, name)
            except TracetuiError as error:
                made = str(error)
            self.post_message(self.Made(told, name, made))

    @work(thread=True, exclusive=True, group="match", description="partners")
    def match(self, parts: Parts) -> None:
        """Find out in a thread what goes with what in two parts."""
        a, b = parts
        self.post_message(self.Matched(parts, match(a.side, a.part, b.side, b.part)))
