"""Parts of the lists of a trace's panes: the groups of panes, rows as a tree, and the overview as a picture.

An entry of the overview is a row of its table: the cursor goes from one to the next that lies in a direction on the
screen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from textual import work
from textual.binding import Binding
from textual.events import Click
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.worker import get_current_worker

from tracetui.drawing.drawn_columns import RowGraphics
from tracetui.drawing.overview.canvas import Item, Look
from tracetui.drawing.overview.picture import Picture, strip_cells
from tracetui.model.intervals import Part
from tracetui.model.table import Table, coded
from tracetui.model.trace import Trace
from tracetui.overview.facts import Entry, Overview
from tracetui.overview.overview_table import Strip as TimeStrip
from tracetui.overview.overview_table import kept_overview, strip_of
from tracetui.panes import PANE_GROUPS, PANES
from tracetui.tables.modules import holders
from tracetui.ui.base import keys
from tracetui.ui.base.keys import command
from tracetui.ui.trace.selection import step_of
from tracetui.ui.widgets.surface import colour_count
from tracetui.ui.widgets.tabbed_list import Tab, TabGroup
from tracetui.ui.widgets.table_view import CLOSED, LEAF, OPEN, TableView

TABS = tuple(name for names in PANE_GROUPS.values() for name in names if name in PANES)
"""Panes with a tab, group by group."""
GROUP_KEYS = {title: str(number) for number, title in enumerate(PANE_GROUPS, start=1)}
"""The key of each group of panes."""
OWN_KEYS = {name: PANES[name].key for name in TABS if PANES[name].key not in ("", *GROUP_KEYS.values())}
"""The keys of the panes that have one of their own."""


def tab_groups(tabs: Sequence[Tab], current: str) -> list[TabGroup]:
    """The groups of some tabs; a key opens the first pane that lists anything, in the open group the next one."""
    by_name = {tab.name: tab for tab in tabs}
    groups = []
    for title, names in PANE_GROUPS.items():
        offered = [by_name[name] for name in names if name in by_name]
        if not offered:
            continue
        here = next((index for index, tab in enumerate(offered) if tab.name == current), -1)
        ahead = [*offered[here + 1 :], *offered[: here + 1]]
        opens = next((tab.name for tab in ahead if not tab.is_empty), ahead[0].name)
        groups.append(TabGroup(title, str(keys.tab_key(GROUP_KEYS[title])), offered, opens))
    return groups


def _pane_words(title: str) -> str:
    """The panes of a group in words."""
    titles = [PANES[name].title for name in PANE_GROUPS[title] if name in PANES]
    listed = ", ".join([*titles[:1], *(each[:1].lower() + each[1:] for each in titles[1:])])
    return f"{listed}; again the next of them." if len(titles) > 1 else f"{listed}."


GROUP_COMMANDS = [
    command(keys.tab_key(GROUP_KEYS[title]), f"pane_group('{title}')", f"Panes of {title}", _pane_words(title))
    for title, names in PANE_GROUPS.items()
    if set(names) & set(TABS)
]
"""Commands that open a group."""
PANE_COMMANDS = [
    command(keys.tab_key(key), f"tab('{name}')", f"Pane {name}", PANES[name].help) for name, key in OWN_KEYS.items()
]
"""Commands that open a pane by a key of its own."""
COMMANDS_WITHOUT_KEY = [
    Binding(f":{name}", f"tab('{name}')", f"Pane {name}", tooltip=PANES[name].help)
    for name in TABS
    if name not in OWN_KEYS
]
"""Commands that open a pane without one, for the palette: with its words for the command line in place of a key."""


MAX_ROWS_AT_FIRST = 24
"""Maximum rows that are listed before any is opened by hand."""
_MARKS = {LEAF: "  ", CLOSED: "▸ ", OPEN: "▾ "}


@dataclass(eq=False)
class RowTree:
    """The rows of a table in which every row comes before those below it; its first column is their names."""

    table: Table
    depth: NDArray[np.int64]
    end: NDArray[np.int64]
    """Index behind the last row below each row."""
    opened: NDArray[np.bool_]
    """Mask of the rows that are open."""

    @classmethod
    def of(cls, table: Table, before: RowTree | None = None) -> RowTree:
        """The tree of a table with a column `depth`, open where another one is; without that, as many levels as fit."""
        depth = table["depth"].values.astype(np.int64)
        tree = cls(table, depth, _ends(depth), np.zeros(len(table), bool))
        if before is None:
            # The levels of which all rows fit on the screen together with those above.
            rows = np.cumsum(np.bincount(depth)) if len(depth) else np.zeros(1, np.int64)
            tree.opened = depth < max(int(np.searchsorted(rows, MAX_ROWS_AT_FIRST, side="right")) - 1, 0)
        else:
            paths = before.table["path"]
            wanted = {str(paths.cell(row)) for row in np.flatnonzero(before.opened).tolist()}
            tree.opened = table["path"].matching(lambda path: path in wanted)
        return tree

    @property
    def states(self) -> NDArray[np.int64]:
        """State of each row."""
        return np.where(self.end > np.arange(len(self.end)) + 1, np.where(self.opened, OPEN, CLOSED), LEAF)

    def listed(self) -> NDArray[np.int64]:
        """The rows of which everything above is open, in order."""
        closed = np.flatnonzero(self.states == CLOSED)
        change = np.zeros(len(self.depth) + 1, np.int64)
        np.add.at(change, closed + 1, 1)
        np.add.at(change, self.end[closed], -1)
        return np.flatnonzero(np.cumsum(change[:-1]) == 0)

    def readable(self) -> Table:
        """The table with a mark before each name that says whether the row is open."""
        key = self.table.columns[0]
        values = key.values.astype(np.int64) + self.states * len(key.strings or ())
        return Table(
            (coded(key.spec, values, self._marked_names), *self.table.columns[1:]),
            self.table.slices,
            self.table.note,
            self.table.doubts,
        )

    @cached_property
    def _marked_names(self) -> list[str]:
        """Every name of the table in each state."""
        texts = self.table.columns[0].strings or ()
        return [
            f"{' ' * (len(text) - len(text.lstrip(' ')))}{mark}{text.lstrip(' ')}"
            for mark in _MARKS.values()
            for text in texts
        ]


def _ends(depth: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each row the index of the next one that is not below it."""
    end = np.full(len(depth), len(depth), np.int64)
    for level in range(int(depth.max(initial=-1)) + 1):
        mine, stops = np.flatnonzero(depth == level), np.flatnonzero(depth <= level)
        index = np.searchsorted(stops, mine, side="right")
        end[mine] = np.append(stops, len(depth))[index]
    return end


# The index in a list of the row that stands for the selection, -1 where the cursor stays, and whether it does.


def place_in_tree(
    trace: Trace, table: Table, order: NDArray[np.int64], current: int, selected: int, by: str | None
) -> tuple[int, bool]:
    """The innermost listed row of a tree of modules that holds a slice; `current` is the row of the cursor."""
    for frame, path in holders(trace, selected, by):
        if by == "call":
            rows = np.flatnonzero(table.slices == frame) if table.slices is not None else np.empty(0, np.int64)
        else:
            rows = np.flatnonzero(table["path"].equal(path or None))
        if frame < 0:
            # What lies in nothing is no reason to leave the top for the row of all the rest.
            return -1, current in rows
        indices = np.flatnonzero(np.isin(order, rows))
        if len(indices):
            return int(indices[0]), True
    return -1, False


def place_on_step(
    trace: Trace, table: Table, order: NDArray[np.int64], selected: Sequence[int], step: int | None
) -> tuple[int, bool]:
    """The step that is listed, or else that of the first selected slice.

    A step owns what it launched, also where that runs after the step: the time of a GPU activity says nothing.
    """
    own = step_of(trace, next(iter(selected), -1))
    number = own if step is None else step
    if number is None:
        return -1, False
    indices = np.flatnonzero(table["step"].values[order] == number)
    if len(indices) == 0:
        return -1, False
    # Of steps of one number on several threads that of the selection.
    slices = table.slices if table.slices is not None else np.full(len(table), -1)
    of_selection = indices[np.isin(slices[order[indices]], selected)]
    return int((of_selection if len(of_selection) else indices)[0]), own == number


OVERVIEW = "overview"


class OverviewList(TableView):
    """A list that draws the table of the pane `overview` as a picture, and every other table as it is."""

    class Drawn(Message):
        """The strip of time for a width is there."""

        def __init__(self, overview: Overview, cells: int, strip: TimeStrip) -> None:
            super().__init__()
            self.overview, self.cells, self.strip = overview, cells, strip

    def __init__(self, trace: Trace, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.trace = trace
        self.part: Part | None = None
        """What the overview is of."""
        self.sketch: Overview | None = None
        """What is known of the overview while it is being made."""
        self._overview: Overview | None = None
        self._is_moved = False
        """True once the user has moved the cursor over a picture: until then it is on the first entry."""
        self._picture: Picture | None = None
        self._strip: tuple[Overview, int, TimeStrip] | None = None

    @property
    def is_picture(self) -> bool:
        """True while the overview is drawn."""
        return self._overview is not None

    @property
    def entry(self) -> Entry | None:
        """The entry under the cursor."""
        return self._overview.entries[self.row] if self._overview is not None and self.row >= 0 else None

    @property
    def where(self) -> str:
        """Kind of the rows about the place in the program: `line`, `module`, `operator`."""
        return self._overview.where if self._overview is not None else ""

    def show(
        self,
        pane: str,
        table: Table | None,
        order: NDArray[np.int64],
        cursor: int = 0,
        sort: tuple[str | None, bool] = (None, False),
        note: str = "",
        by: str | None = None,
        states: NDArray[np.int64] | None = None,
        graphics: RowGraphics | None = None,
    ) -> None:
        """Show rows of a table, or the overview."""
        is_picture = pane == OVERVIEW and table is not None and len(table) > 0
        # The table was made from one of the two: it is there.
        self._overview = (self.sketch or kept_overview(self.trace, self.part)) if is_picture else None
        self._picture = None
        if is_picture and table is not None:
            order, sort = np.arange(len(table)), (None, False)
        super().show(pane, table, order, cursor, sort, note, by, states, graphics)
        if is_picture:
            self.located = True
            self._enter(cursor)

    def _enter(self, cursor: int) -> None:
        """Put the cursor on an entry, or on the first that can be entered."""
        items = self._drawn.canvas.items if self._drawn is not None else []
        wanted = cursor if self._is_moved else 0
        if items and not any(item.index == wanted for item in items):
            wanted = next((item.index for item in items if self._section(item) == "todo"), items[0].index)
        if items:
            self.put_cursor(wanted)

    def _move_to(self, index: int) -> None:
        self._is_moved |= self.is_picture
        super()._move_to(index)

    def _section(self, item: Item) -> str:
        return self._overview.entries[item.index].section if self._overview is not None else ""

    @property
    def _drawn(self) -> Picture | None:
        """The picture at the size that the list has beside its scroll bar, None before it has one."""
        overview, size = self._overview, self.size
        if overview is None or size.width < 20 or size.height < 5:
            return None
        if self._picture is None:
            width = size.width - 1
            cells = strip_cells(width)
            known = self._strip
            strip = known[2] if known is not None and known[0] is overview and known[1] == cells else None
            if strip is None:
                self._make_strip(overview, cells)
            look = Look(colour_count(self.app), self.app.current_theme.dark)
            self._picture = Picture(overview, strip, width, size.height, look)
        return self._picture

    @work(thread=True, exclusive=True, group="strip")
    def _make_strip(self, overview: Overview, cells: int) -> None:
        """Find out what ran when."""
        strip = strip_of(self.trace, overview, cells)
        if not get_current_worker().is_cancelled:
            self.post_message(self.Drawn(overview, cells, strip))

    def on_overview_list_drawn(self, message: OverviewList.Drawn) -> None:
        """Draw it, unless another part is shown by now."""
        message.stop()
        if message.overview is self._overview:
            self._strip = message.overview, message.cells, message.strip
            self._redraw()

    def on_resize(self) -> None:
        """Draw at the new size."""
        super().on_resize()
        self._redraw()

    def notify_style_update(self) -> None:
        """Draw in other colours."""
        super().notify_style_update()
        self._redraw()

    def _redraw(self) -> None:
        if self._overview is not None:
            self._picture = None
            self._enter(self.cursor)
            self.refresh()

    def watch_cursor(self, old: int, new: int) -> None:
        """Repaint the lines of both entries."""
        if not self.is_picture:
            super().watch_cursor(old, new)
            return
        lines = [item.y for item in map(self._item, (old, new)) if item is not None]
        self.refresh(*(Region(0, line, self.size.width, 1) for line in lines))

    def _item(self, index: int) -> Item | None:
        picture = self._drawn
        return next((item for item in picture.canvas.items if item.index == index), None) if picture else None

    def _reveal(self) -> bool:
        return False if self.is_picture else super()._reveal()

    def _place_rows(self) -> None:
        if self.is_picture:
            self.set_length(0)
        else:
            super()._place_rows()

    def action_move(self, rows: int) -> None:
        """Go down or up: to the next entry that lies there."""
        if self.is_picture:
            self._go(0, rows)
        else:
            super().action_move(rows)

    def action_columns(self, direction: int) -> None:
        """Go right or left: to the next part that lies there."""
        if self.is_picture:
            self._go(direction, 0)
        else:
            super().action_columns(direction)

    def action_page(self, pages: int) -> None:
        """Go to the last or first entry of the column."""
        if not self.is_picture:
            super().action_page(pages)
            return
        for _ in range(8):
            self._go(0, pages)

    def action_go(self, index: int) -> None:
        """Go to the first or the last entry."""
        picture = self._drawn
        if not self.is_picture or picture is None or not picture.canvas.items:
            super().action_go(index)
        else:
            self._move_to(picture.canvas.items[-1 if index < 0 else 0].index)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Every direction leads somewhere on a picture."""
        return True if self.is_picture and action == "columns" else super().check_action(action, parameters)

    def _go(self, dx: int, dy: int) -> None:
        here, picture = self._item(self.cursor), self._drawn
        if here is None or picture is None:
            return

        def distance(item: Item) -> float:
            """Distance to an entry in the direction; what is not in it is out of reach."""
            down, right = item.y - here.y, item.x - here.x
            ahead = down * dy if dy else right * dx
            if ahead <= 0:
                return float("inf")
            return ahead + (8.0 * abs(right) / 10 if dy else 20.0 * abs(down))

        best = min(picture.canvas.items, key=distance)
        if distance(best) < float("inf"):
            self._move_to(best.index)

    def on_click(self, event: Click) -> None:
        """Go to the entry that was clicked; enter the current one."""
        picture = self._drawn
        if not self.is_picture or picture is None:
            super().on_click(event)
            return
        items = [item for item in picture.canvas.items if item.y == event.y and item.x <= event.x]
        if not items:
            return
        item = max(items, key=lambda each: each.x)
        if event.chain > 1 or item.index == self.cursor:
            self.action_choose()
        else:
            self._move_to(item.index)

    def _line(self, y: int) -> Strip:
        picture = self._drawn
        if picture is None:
            return super()._line(y)
        selected = self._item(self.cursor)
        if y >= picture.canvas.height:
            return Strip.blank(self.size.width, self.rich_style)
        segments = picture.canvas.segments(y, selected, self.rich_style)
        return Strip(segments).adjust_cell_length(self.size.width, self.rich_style)
