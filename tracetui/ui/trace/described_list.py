"""A list of a trace whose details describe the row under the cursor.

What is expensive about a row is worked out in a thread once the cursor rests on it, and kept.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from textual import on, work
from textual.message import Message
from textual.worker import get_current_worker

from tracetui.drawing.drawn_columns import RowGraphics
from tracetui.drawing.text.pictures import PICTURES, list_picture
from tracetui.errors import AnalysisFailed
from tracetui.idle.gaps import gap_before
from tracetui.model.intervals import Part
from tracetui.model.results import guarded
from tracetui.model.table import Table
from tracetui.model.trace import Interrupted, Trace, interruptible
from tracetui.text import clean
from tracetui.ui.trace.row_description import PARTED_PANES, SLICE_PANES, Lines, RowParts, row_lines, row_parts
from tracetui.ui.trace.selection import describe_gap
from tracetui.ui.trace.slice_description import chain_of, describe
from tracetui.ui.widgets.details import DetailLine, folded
from tracetui.ui.widgets.tabbed_list import TabbedList
from tracetui.ui.widgets.table_view import TableView

ROW_SECONDS = 0.05
"""Seconds that the cursor rests on a row before it is worked out what that is made of."""
MAX_KEPT_ROWS = 300
"""Maximum rows of which it is kept what they are made of."""

TableKey = tuple[str, Part | None, str | None]
"""Pane, the number of a step or a range of time, and grouping."""


class DescribedList(TabbedList):
    """The panes of a trace with what the details say of their rows."""

    @dataclass
    class WorkedOut(Message):
        """It is known what a row is made of."""

        key: TableKey
        row: int
        parts: RowParts

    def __init__(self, trace: Trace, tabs: Sequence[str], *, id: str | None = None) -> None:
        super().__init__(tabs, id=id)
        self.trace = trace
        self._drawn: dict[TableKey, RowGraphics | None] = {}
        """What is drawn in the rows of each table."""
        self._row_parts: dict[tuple[TableKey, int], RowParts] = {}
        """What rows are made of, as far as it was worked out."""
        self._followed_slices: Sequence[int] = ()

    @property
    def lists_gaps(self) -> bool:
        """True where the rows of the current pane are single gaps."""
        return self.pane == "gaps" and self.arrangements[self.pane].by is None

    def _key(self, pane: str) -> TableKey:
        """The table that a pane shows."""
        raise NotImplementedError

    @on(TableView.RowHighlighted)
    def _turn_to_row(self) -> None:
        self._explain_row()
        self.details.turn_to_row(True)

    def _explain_row(self) -> None:
        """Have the details say what the current row stands for, and draw the list where it has a drawing."""
        by = self.arrangement.by
        picture = list_picture(self.pane, by, self.view.table, self.view.row) if (self.pane, by) in PICTURES else None
        self.details.explain_row(self._row_explanation(), picture)

    def _row_explanation(self) -> Lines | None:
        """A function for the lines about the current row; None where that is the selected slice, or there is no row."""
        view, pane, by, row = self.view, self.pane, self.arrangement.by, self.view.row
        table, whole = view.table, self.table
        if table is None or whole is None or row < 0:
            return None
        if pane in SLICE_PANES and by is None:
            is_selected = view.located and view.slice_row in self._followed_slices[:1]
            return None if is_selected else self._slice_explanation(view.slice_row)
        key, is_waiting = self._key(pane), self.details.is_waiting
        parts = self._row_parts.get((key, row))
        if parts is None and pane in PARTED_PANES:
            self._work_out_row(key, whole, row)
        lines = row_lines(self.trace, pane, by, table, row, self._drawn.get(key), parts or RowParts(), not is_waiting)
        return partial(self._with_note, lines, self._note_below(whole))

    def _with_note(self, lines: Lines, note: str, width: int) -> Sequence[DetailLine]:
        """The lines about a row, and at their end the note of the list where not all of it stands below the rows."""
        if not note or self.view.is_below_whole:
            return lines(width)
        pieces = [DetailLine(piece) for piece in folded(clean(note), width)]
        return [*lines(width), DetailLine(""), DetailLine("about this list", "label"), *pieces]

    def _slice_explanation(self, slice_row: int) -> Lines | None:
        """A function for the lines about a slice that is not selected, or about the gap before it."""
        if slice_row < 0 or self.details.is_waiting:
            return None
        gap = gap_before(self.trace, slice_row) if self.lists_gaps else -1
        if gap >= 0:
            return partial(describe_gap, self.trace, gap, True)
        return partial(describe, self.trace, slice_row, chain_of(self.trace, slice_row))

    @work(thread=True, exclusive=True, group="row")
    def _work_out_row(self, key: TableKey, table: Table, row: int) -> None:
        """Work out what a row is made of, unless the cursor moves on at once."""
        worker = get_current_worker()
        time.sleep(ROW_SECONDS)
        pane, part, by = key
        try:
            with interruptible(lambda: not worker.is_cancelled), guarded("What the row is made of"):
                parts = row_parts(self.trace, pane, by, table, row, part)
        except Interrupted:
            return
        except AnalysisFailed as failure:
            parts = RowParts(failure=str(failure))
        self.post_message(self.WorkedOut(key, row, parts))

    @on(WorkedOut)
    def _take_parts(self, message: WorkedOut) -> None:
        message.stop()
        while len(self._row_parts) >= MAX_KEPT_ROWS:
            self._row_parts.pop(next(iter(self._row_parts)))
        self._row_parts[message.key, message.row] = message.parts
        if (message.key, message.row) == (self._key(self.pane), self.view.row):
            self._explain_row()
