"""The selection in both timelines: a slice with its partners, or the slices that a row of the list stands for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from textual.message import Message
from textual.widget import Widget
from textual.worker import get_current_worker

from tracetui.comparing.match import Matching, match
from tracetui.comparing.measures import calls, versionless_name
from tracetui.comparing.noise import representative
from tracetui.comparing.side import Side
from tracetui.comparing.statement import Comparison, Headline
from tracetui.drawing.timeline.raster import TimelineIndex
from tracetui.errors import AnalysisFailed, TracetuiError
from tracetui.linking.links import links
from tracetui.model.intervals import Int64
from tracetui.model.results import guarded
from tracetui.model.table import Table
from tracetui.model.trace import GPU_WORK
from tracetui.ui.compare.compare_list import KERNELS, OPS, TOTALS, CompareList, table_of
from tracetui.ui.compare.shown_part import NO_PARTNER, OWN_PARTNER, ROW_PARTNERS, ShownPart, ShownParts
from tracetui.ui.compare.timelines import NO_ROWS, PartnerLookup, Timelines
from tracetui.ui.trace.selection import MAX_HIGHLIGHTED, highlighted_with

# What is compared, the parts of it that are shown, and the threads that compute it: the screen answers meanwhile.

STATEMENT, HEADLINE = "statement", "headline"
"""Names of the results that are no table: the sentences about the comparison, and the ratio of the times."""


class ComparedSides:
    """Two sides, A before and B after, with the part of each that is shown and what is known of both."""

    @dataclass
    class Computed(Message):
        """A table or the statement of a comparison is there, or the sentence that says why not."""

        comparison: Comparison
        name: str
        """A tab, or `STATEMENT`."""
        result: Table | tuple[str, ...] | Headline | str

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
        self,
        owner: Widget,
        a: Side,
        b: Side,
        timeline_indexes: tuple[TimelineIndex, TimelineIndex],
        paths: tuple[str, str],
    ) -> None:
        """`owner` runs the threads and gets the messages."""
        self._owner = owner
        self.comparison = Comparison(a, b)
        self.timeline_indexes, self.paths = timeline_indexes, paths
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
        self.comparison = Comparison(*self.sides[::-1])
        self.timeline_indexes, self.paths = self.timeline_indexes[::-1], self.paths[::-1]
        self.partners = PartnerLookup(self.parts[::-1])

    def show_parts(self, parts: ShownParts) -> bool:
        """Take other parts; True when those are of other sides, which are compared from now on."""
        is_other = any(part.side is not side for part, side in zip(parts, self.sides, strict=True))
        if is_other:
            self.comparison = Comparison(parts[0].side, parts[1].side)
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
        for name in (tabs[0], HEADLINE, *tabs[1:], STATEMENT):
            if worker.is_cancelled:
                return
            result: Table | tuple[str, ...] | Headline | str
            try:
                with guarded(f"The tab {name}"):
                    if name == HEADLINE:
                        result = computed.headline
                    else:
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


class WalkedSlice(NamedTuple):
    """A slice that was selected by itself, not by a row of the list."""

    side: int
    row: int
    partners: str
    """`OWN_PARTNER`, `ROW_PARTNERS` or `NO_PARTNER`."""


class HighlightedSlices:
    """The slices that are highlighted on both sides, and the row of the list that they belong to."""

    def __init__(self, compared: ComparedSides, timelines: Timelines, changes: CompareList) -> None:
        self._compared, self._timelines, self._changes = compared, timelines, changes
        self.selected = (-1, -1)
        """Rows of the selected slices of A and of B, -1 for none."""
        self.leading = 0
        """The side on which the last one was selected."""
        self.apart: tuple[int, int] | None = None
        """Side and row of a slice whose selection leaves the list where it is; None for none."""
        self.walked: WalkedSlice | None = None
        """The slice that was walked to; None while the list leads."""

    def clear(self) -> None:
        """Select nothing."""
        self.selected, self.leading, self.walked = (-1, -1), 0, None

    def select(self, side: int, row: int) -> WalkedSlice:
        """Select a slice of a side, light its partners on the other, and put the list on its change."""
        partners = self._compared.partners
        others, siblings, kind = partners.of(side, row), partners.siblings(side, row), OWN_PARTNER
        if not len(others):
            # What is called less often has no partner for most of its calls: then the whole group goes together.
            siblings, others = self._group_of(side, row)
            kind = ROW_PARTNERS if len(others) else NO_PARTNER
        mine = np.append(row, siblings[siblings != row])
        self._light(side, *((others, mine) if side else (mine, others)))
        self.walked = WalkedSlice(side, row, kind)
        self._changes.put_cursor_on(-1 if (side, row) == self.apart else self._change_of(side, row))
        return self.walked

    def light_row(self) -> None:
        """Light what the current row of the list stands for, the first of it selected."""
        self.walked = None
        changes = self._changes
        if changes.table is None:
            return
        a, b = instances_of(self._compared.comparison, changes.pane, changes.change, self._compared.parts)
        if len(a) or len(b):
            self._light(0 if len(a) else 1, a, b)
        changes.view.located = len(a) > 0 or len(b) > 0 or changes.pane == TOTALS

    def side_to_open(self, partner: bool) -> int:
        """The side whose slice would be opened: that with the keys, else the leading one; or its partner's."""
        focused = self._timelines.focused
        side = self.leading if focused is None else focused
        return 1 - side if partner else side

    def row_to_open(self, partner: bool) -> int:
        """The selected slice of that side, -1 for none."""
        return self.selected[self.side_to_open(partner)]

    def _light(self, leading: int, a: Int64, b: Int64) -> None:
        """Light slices of both sides, with what launched the first of them."""
        rows = (int(a[0]) if len(a) else -1, int(b[0]) if len(b) else -1)
        self.leading, self.selected = leading, rows
        highlighted = [
            frozenset(some[:MAX_HIGHLIGHTED].tolist())
            | (highlighted_with(part.side.trace, row) if len(some) == 1 else frozenset())
            for some, row, part in zip((a, b), rows, self._compared.parts, strict=True)
        ]
        self._timelines.select(rows, (highlighted[0], highlighted[1]), (a, b))

    def _group_of(self, side: int, row: int) -> tuple[Int64, Int64]:
        """All instances, on its side and on the other one, of the change that a slice belongs to."""
        compared = self._compared
        on_gpu = int(compared.sides[side].trace.slices.kind[row]) in GPU_WORK
        tab = KERNELS if on_gpu else OPS
        if not self._changes.has(tab):
            return NO_ROWS, NO_ROWS
        change = change_of(compared.comparison, tab, side, row, compared.parts)
        instances = instances_of(compared.comparison, tab, change, compared.parts)
        return instances[side], instances[1 - side]

    def _change_of(self, side: int, row: int) -> int:
        """The row of the current tab that a slice belongs to, -1 for none or while there is no table."""
        if self._changes.table is None:
            return -1
        return change_of(self._compared.comparison, self._changes.pane, side, row, self._compared.parts)


def instances_of(comparison: Comparison, tab: str, change: int, parts: ShownParts) -> tuple[Int64, Int64]:
    """The slices of A and of B that a row of the whole table of a tab stands for; none for totals."""
    if change < 0:
        return NO_ROWS, NO_ROWS
    if tab == KERNELS:
        changes = comparison.kernel_changes
        return (
            parts[0].from_part(changes.part_a, changes.rows_a[change]),
            parts[1].from_part(changes.part_b, changes.rows_b[change]),
        )
    if tab == OPS:
        kind, name = str(comparison.ops["kind"].cell(change)), str(comparison.ops["name"].cell(change))
        mine, others = (part.calls_named(kind, name) for part in parts)
        return mine, others if len(others) else _run_as(parts[1], comparison.ops["fused_into"].cell(change))
    return NO_ROWS, NO_ROWS


def _run_as(part: ShownPart, name: object) -> Int64:
    """The slices under the name of a generated kernel: its call on a thread, or else its GPU activities."""
    if not name:
        return NO_ROWS
    trace = part.side.trace
    alike = [number for number, each in enumerate(trace.names) if str(name) in (each, versionless_name(each))]
    rows = np.flatnonzero(np.isin(trace.slices.name, alike))
    rows = rows[part.side.part_of(rows) == part.part]
    rows = np.take(rows, np.argsort(trace.slices.start[rows], kind="stable"))
    on_threads = rows[~np.isin(trace.slices.kind[rows], GPU_WORK)]
    return on_threads if len(on_threads) else rows


def change_of(comparison: Comparison, tab: str, side: int, row: int, parts: ShownParts) -> int:
    """The row of the whole table of a tab that a slice of a side belongs to, -1 for none."""
    trace = parts[side].side.trace
    if tab == KERNELS and int(trace.slices.kind[row]) in GPU_WORK:
        changes = comparison.kernel_changes
        part, rows = (changes.part_b, changes.rows_b) if side else (changes.part_a, changes.rows_a)
        there = ShownPart(parts[side].side, part).from_part(parts[side].part, np.array([row]))
        return next((index for index, some in enumerate(rows) if np.isin(there, some).any()), -1)
    if tab == OPS:
        owner = int(links(trace).owner[row]) if int(trace.slices.kind[row]) in GPU_WORK else row
        called = calls(parts[side].side)
        indices = np.flatnonzero(called.row == owner)
        if len(indices) == 0:
            return -1
        host = int(called.into[indices[0]])
        key = called.keys[host if host >= 0 else int(called.key[indices[0]])]
        names, (kinds, known) = (key.name, versionless_name(key.name)), (comparison.ops["kind"], comparison.ops["name"])
        ops = range(len(comparison.ops))
        return next((op for op in ops if known.cell(op) in names and kinds.cell(op) == key.kind), -1)
    return -1
