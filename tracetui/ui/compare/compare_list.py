"""The lower half of the screen of two traces: what changed, as kernels, as operators, and in sum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.reactive import reactive

from tracetui.analysis.comparing.comparison import Comparison
from tracetui.drawing.format import clean, count, shorten
from tracetui.model.table import Table
from tracetui.ui.compare.change_words import grouped, readable_changes, readable_totals, with_calls
from tracetui.ui.widgets.arranged_list import ArrangedList, Arrangement, arrange
from tracetui.ui.widgets.bar import Bar
from tracetui.ui.widgets.columns import titles_of
from tracetui.ui.widgets.details import Details
from tracetui.ui.widgets.headline import Tab, tab_parts
from tracetui.ui.widgets.table_view import TableView

KERNELS, OPS, TOTALS = "kernels", "ops", "totals"
CHANGE_TABS = (KERNELS, OPS, TOTALS)
"""The tabs, in order."""
CHANGE_KEYS = dict(zip(CHANGE_TABS, "123", strict=True))
"""The key of each tab."""
GROUPS: dict[str, tuple[str, ...]] = {KERNELS: ("family", "op", "mark"), OPS: ("kind", "mark"), TOTALS: ()}
"""The columns by which the rows of each tab can be grouped."""
MANY = 1000
"""More rows than any screen has lines."""
_IDENTITY = {KERNELS: ("short_name", "op"), OPS: ("kind", "name"), TOTALS: ("measure",)}
"""The columns that tell the rows of each tab apart."""
_READABLE = {KERNELS: readable_changes, OPS: readable_changes, TOTALS: readable_totals}


class CompareList(ArrangedList):
    """Tabs over the tables of one comparison."""

    DEFAULT_CSS = """
    CompareList { layout: vertical; height: 1fr; width: 1fr; }
    CompareList > Bar { background: $panel; }
    """

    pane: reactive[str] = reactive(KERNELS, repaint=False, init=False)
    """Name of the tab that is shown."""

    class Opened(Message):
        """Another list is shown, or other rows of it."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.arrangements: dict[str, Arrangement] = {name: Arrangement() for name in CHANGE_TABS}
        self._tables: dict[str, Table | str] = {}
        self._stale: set[str] = set()
        """Tabs whose tables are of what was compared before."""
        self._row: tuple[object, ...] = ()
        """What the row under the cursor stood for in those."""
        self._cursors: dict[str, int] = {}

    def compose(self) -> ComposeResult:
        """Tabs above the list, details beside it."""
        yield Bar()
        with Horizontal():
            yield TableView()
            yield Details()

    def on_mount(self) -> None:
        """Say what there will be."""
        self._show(0)

    def on_resize(self) -> None:
        """Fit the tabs to the new width."""
        self._show_tabs()

    @property
    def table(self) -> Table | None:
        """The rows of the current tab, grouped as wanted; None until they are there."""
        found = self._tables.get(self.pane)
        if not isinstance(found, Table) or self.pane in self._stale:
            return None
        return grouped(found, self.arrangement.by) if self.arrangement.by else found

    @property
    def arrangement(self) -> Arrangement:
        """How the current tab is sorted, filtered and grouped."""
        return self.arrangements[self.pane]

    @property
    def change(self) -> int:
        """The row of the current tab's whole table under the cursor, -1 for none or for a group."""
        return -1 if self.arrangement.by else self.view.row

    @property
    def titles(self) -> dict[str, str]:
        """The titles on screen of the columns, by name."""
        return titles_of(self._layout(), self.arrangement.by)

    def clear(self) -> None:
        """Forget the tables: other sides are compared."""
        self._tables.clear()
        self._stale.clear()
        self._cursors.clear()
        self._show(0)

    def expect(self) -> None:
        """Other sides are compared: the rows stay until the new ones are there, and the cursor finds its row again."""
        if self.table is not None and self.view.row >= 0:
            self._row = self._identity(self.table, self.view.row)
        self._stale = set(self._tables)
        self._show_tabs()

    @property
    def longest(self) -> int:
        """Rows of the longest list of what ran; a large number while that is not known."""
        tables = [self._tables.get(name) for name in (KERNELS, OPS)]
        return max(
            len(found) if isinstance(found, Table) else 0 if isinstance(found, str) else MANY for found in tables
        )

    def has(self, name: str) -> bool:
        """Whether the table of a tab is there."""
        return isinstance(self._tables.get(name), Table) and name not in self._stale

    def take(self, name: str, table: Table | str) -> None:
        """Show a table once it is made, or the sentence that says why there is none."""
        self._tables[name] = table
        stale = name in self._stale
        self._stale.discard(name)
        if name == self.pane:
            self._show(self.view.cursor if stale else self._cursors.get(name, 0))
            self._find_row()
        else:
            self._show_tabs()

    def open_tab(self, name: str) -> None:
        """Show a tab by its name."""
        if name in CHANGE_TABS:
            self.pane = name

    def watch_pane(self, old: str, new: str) -> None:
        """Show another tab, its cursor where it was."""
        self._cursors[old] = self.view.cursor
        self._show(self._cursors.get(new, 0))

    def arrange_by(self, arrangement: Arrangement, tell: bool = False) -> None:
        """Sort, filter or group the current tab; what someone sorts for is at the top."""
        self.arrangements[self.pane] = arrangement
        self._show(0)
        if not arrangement.filter or tell:
            self.view.tell()

    def place_on(self, change: int) -> None:
        """Move the cursor to a row of the whole table; -1, or one that is not listed, leaves it where it was."""
        wanted = -1 if self.arrangement.by or change < 0 else change
        found = np.flatnonzero(self.view.order == wanted)
        if len(found):
            self.view.place(int(found[0]))
        self.view.located = len(found) > 0

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Sorting needs rows, grouping something to group by."""
        if action == "group":
            return self.table is not None and bool(self._groups())
        if action in ("sort", "reverse"):
            return self.table is not None
        return True

    def action_group(self) -> None:
        """Group by one column after the other, then list single rows again."""
        groups: list[str | None] = [None, *self._groups()]
        by = groups[(groups.index(self.arrangement.by) + 1) % len(groups)]
        self.arrange_by(replace(self.arrangement, by=by, sort=None, descending=False))

    @on(Bar.Pressed)
    def _press_tab(self, message: Bar.Pressed) -> None:
        message.stop()
        self.open_tab(message.key)

    def _groups(self) -> Sequence[str]:
        found = self._tables.get(self.pane)
        return [by for by in GROUPS[self.pane] if isinstance(found, Table) and by in found]

    def _show(self, cursor: int) -> None:
        found, table, arrangement = self._tables.get(self.pane), self.table, self.arrangement
        if table is None:
            self.view.show(self.pane, None, np.empty(0, np.int64), note=found if isinstance(found, str) else "…")
        else:
            order = arrange(table, arrangement)
            shown = (with_calls if arrangement.by else _READABLE[self.pane])(table)
            sort = (arrangement.sort, arrangement.descending)
            self.view.show(self._layout(), shown, order, cursor, sort, self._empty(table), arrangement.by)
        self._show_tabs()
        self.post_message(self.Opened())

    def _identity(self, table: Table, row: int) -> tuple[object, ...]:
        """What a row is of, whatever it is compared with."""
        by = self.arrangement.by
        names = (by,) if by else _IDENTITY[self.pane]
        return (self.pane, by, *(table[name].cell(row) for name in names))

    def _find_row(self) -> None:
        """Put the cursor on what it was on before."""
        table, wanted = self.table, self._row
        self._row = ()
        if table is not None and wanted:
            places = (
                place for place, row in enumerate(self.view.order.tolist()) if self._identity(table, row) == wanted
            )
            self.view.place(next(places, self.view.cursor))

    def _layout(self) -> str:
        return self.pane if self.pane == TOTALS else f"changed {self.pane}"

    def _empty(self, table: Table) -> str:
        if self.arrangement.filter:
            return f"No row contains {self.arrangement.filter!r}. F changes the filter, esc clears it."
        if self.pane == KERNELS:
            return f"Neither side put work on a GPU. {table.note} 2 lists the operators."
        return table.note or "There is nothing to compare."

    def _show_tabs(self) -> None:
        arrangement = self.arrangement
        remarks = f" by {arrangement.by}" if arrangement.by else ""
        if arrangement.filter:
            remarks += f" filter {shorten(clean(arrangement.filter), 24)!r} {count(len(self.view.order))}"
        if self.pane in self._stale:
            remarks += " comparing …"
        tabs = [Tab(name, name.title(), self._count(name), CHANGE_KEYS[name]) for name in CHANGE_TABS]
        self.query_one(Bar).parts = tab_parts(tabs, self.pane, remarks, self.size.width - 2)

    def _count(self, name: str) -> str:
        found = self._tables.get(name)
        return count(len(found)) if isinstance(found, Table) else ""


def table_of(told: Comparison, name: str) -> Table:
    """The table of a tab; this makes it, which may take a while."""
    return {KERNELS: lambda: told.kernels, OPS: lambda: told.ops, TOTALS: lambda: told.totals}[name]()
