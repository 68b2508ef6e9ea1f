"""The tables of a set of ranks under their tabs; rows of ranks appear while the files are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tracetui.drawing.text.rank_rows import bar_cells, readable_ranks
from tracetui.model import columns as col
from tracetui.model.quantities import ABSENT, count
from tracetui.model.table import NULL, ColumnSpec, Table, micros, numbers, texts
from tracetui.ranks.rank_groups import GROUPINGS, grouped_ranks
from tracetui.ranks.rank_runs import RankRun
from tracetui.ranks.rank_summary import RankSummary
from tracetui.ranks.rank_tables import TABLES
from tracetui.safe_text import clean
from tracetui.ui.widgets.bar_texts import Tab
from tracetui.ui.widgets.details import WAITING_NOTE
from tracetui.ui.widgets.tabbed_list import ListArrangement, OpenGroup, TabbedList

RANKS, COLLECTIVES, MATRIX, GROUPS, STEPS, FILES = TABLES
RANK_KEYS = dict(zip(TABLES, "123456", strict=True))
"""The key of each tab."""
RANK_TAB_HELP = {
    RANKS: "A row per rank, the one that others waited for most first.",
    COLLECTIVES: "Operations that ranks have in common: skew, transfer, who came last.",
    MATRIX: "Which rank waited for which, and how long.",
    GROUPS: "Process groups: waiting, transfer, bandwidth, imbalance.",
    STEPS: "Steps: how long, and for whom ranks waited most.",
    FILES: "Ranks that are not here, files that were left out or cut off, and why.",
}
"""What each tab lists."""
_MARK = ColumnSpec("mark", "", width=1)


class RankList(TabbedList):
    """The tables of one set."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(tuple(TABLES), id=id)
        self._tables: dict[str, Table] = {}
        self._failed: dict[str, str] = {}
        """Sentences about tabs whose tables could not be made."""
        self._grouped: dict[str, Table] = {}
        self.note = WAITING_NOTE
        """What is said in place of a table that is not there."""
        self.marked: list[int] = []
        """Numbers of the ranks that are marked, in order."""

    @property
    def table(self) -> Table | None:
        """The rows of the current tab, grouped as wanted; None until they are there."""
        by = self.arrangement.by
        return self._grouped_by(by) if by and self.pane == RANKS else self._tables.get(self.pane)

    @property
    def groupings(self) -> Sequence[str]:
        """The columns by which ranks can be grouped, of those that any rank has a value in."""
        table = self._tables.get(RANKS)
        if self.pane != RANKS or table is None:
            return ()
        return [by for by in GROUPINGS if by in table and not table[by].nulls().all()]

    @property
    def layout_name(self) -> str:
        """The name of the column layout of the current tab."""
        return RANKS if self.pane == RANKS else f"ranks by {self.pane}"

    def has(self, name: str) -> bool:
        """Whether the table of a tab is there."""
        return name in self._tables

    def whole(self, name: str) -> Table | None:
        """The table of a tab, not grouped."""
        return self._tables.get(name)

    def fail(self, name: str, sentence: str) -> None:
        """Say in a tab why there is no table; what was listed while files were read rests on no analysis, and goes."""
        self._failed[name] = sentence
        self._tables.pop(name, None)
        self._grouped.clear()
        self._show(0)

    def take(self, name: str, table: Table) -> None:
        """Show a table once it is made; the cursor of a tab stays on its row."""
        # What is said of the set stands above the tabs.
        table = replace(table, headline="")
        old = self.rank_at(self.view.row) if name == self.pane else None
        self._tables[name] = table
        self._grouped.clear()
        if name != self.pane:
            self._show_tabs()
            return
        self._show(self.view.cursor)
        if old is not None and name == RANKS and self.view.cursor > 0:
            self.put_cursor_on_rank(old)

    def rank_at(self, row: int) -> int | None:
        """The number of the rank of a row of the current tab, None where it is of none."""
        table = self.table
        if table is None or not 0 <= row < len(table) or "rank" not in table or self.arrangement.by:
            return None
        value = table["rank"].cell(row)
        return value if isinstance(value, int) else None

    def put_cursor_on_rank(self, rank: int) -> None:
        """Move the cursor to a rank, where it is listed."""
        table = self.table
        if table is not None and "rank" in table:
            indices = np.flatnonzero(table["rank"].values[self.view.order] == rank)
            if len(indices):
                self.view.put_cursor(int(indices[0]))

    def arrange_by(self, arrangement: ListArrangement, select_first: bool = False) -> None:
        """Sort, filter or group the current tab."""
        self.arrangements[self.pane] = arrangement
        self._show(0)
        if not arrangement.filter or select_first:
            self.view.announce_row()

    def show_marks(self) -> None:
        """Draw the rows again, with other marks."""
        self._show(self.view.cursor)

    def on_resize(self) -> None:
        """Fit the tabs and the bars to the new width."""
        super().on_resize()
        if self.pane == RANKS and self.table is not None:
            self._show(self.view.cursor)

    def _grouped_by(self, by: str) -> Table | None:
        table = self._tables.get(RANKS)
        if table is None or "wait_caused_us" not in table:
            return table
        if by not in self._grouped:
            self._grouped[by] = grouped_ranks(table, by)
        return self._grouped[by]

    def _group_at(self, table: Table, row: int) -> OpenGroup | None:
        by = self.arrangement.by
        if by is None or self.pane != RANKS:
            return None
        value = table[by].cell(row)
        return OpenGroup(by, ABSENT if value is None else clean(str(value)), ((by, value),))

    def _readable(self, table: Table) -> Table:
        if self.pane != RANKS or self.arrangement.by:
            return table
        shown = readable_ranks(table, bar_cells(self.app.size.width))
        marks = dict(zip(self.marked, map(str, range(1, 10)), strict=False))
        if marks:
            column = texts(_MARK, [marks.get(rank, "") for rank in table["rank"].values.tolist()])
            shown = replace(shown, columns=(column, *shown.columns))
        return shown

    def _missing_note(self) -> str:
        return self._failed.get(self.pane, self.note)

    def _empty_note(self, table: Table) -> str:
        return table.note or "There is nothing to list."

    def _tabs(self) -> Sequence[Tab]:
        return [Tab(name, name.title(), self._count(name), RANK_KEYS[name], self._is_empty(name)) for name in TABLES]

    def _is_empty(self, name: str) -> bool:
        table = self._tables.get(name)
        return table is not None and len(table) == 0

    def _count(self, name: str) -> str:
        table = self._tables.get(name)
        if table is None:
            return ""
        return count(len(self.view.order) if name == self.pane else len(table))


def reading_table(run: RankRun, summaries: Mapping[str, RankSummary], shown_path: str = "") -> Table:
    """The ranks that have been read so far, in order of rank: what each says alone."""
    files = [file for file in run.files if file.path in summaries]
    read = [summaries[file.path] for file in files]
    steps = [each.steps.end - each.steps.start for each in read]
    median = np.array([int(np.median(each)) if len(each) else NULL for each in steps], np.int64)
    return Table(
        (
            numbers(col.RANK, np.array([file.rank for file in files], np.int64)),
            texts(col.FILE, [file.path.removeprefix(shown_path).lstrip("/") for file in files]),
            texts(col.HOST, [file.host for file in files]),
            numbers(col.STEPS, np.array([len(each) for each in steps], np.int64)),
            micros(col.STEP_US.but(heading="median step"), median, null=median == NULL),
            numbers(
                col.COLLECTIVES.but(help="Collectives that it recorded."),
                np.array([len(each.collectives) for each in read], np.int64),
            ),
        )
    )
