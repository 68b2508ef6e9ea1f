"""Tabs over one list, which a person sorts, filters, groups and searches, with details beside it.

The words of tabs stand in one line, or in groups of which one is open. A `ListArrangement` outlives the table that it
is applied to: another step's kernels come up sorted and filtered as the last ones were. Subclasses provide the tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from tracetui.checking.row_filter import is_condition, kept_rows
from tracetui.checking.values import ExpressionError
from tracetui.drawing.drawn_columns import RowGraphics
from tracetui.drawing.format import shorten
from tracetui.frozen import frozen
from tracetui.kernel_names.slice_names import short_kernel
from tracetui.model.quantities import count
from tracetui.model.table import Cell, Table, TextKind
from tracetui.text import clean
from tracetui.ui.base import keys
from tracetui.ui.base.keys import command
from tracetui.ui.base.overlay import AnalysisSafe
from tracetui.ui.widgets.bar import Bar, BarPart, SplitBar
from tracetui.ui.widgets.details import Details
from tracetui.ui.widgets.table_view import TableView

TAB_GAP = " · "
"""Between the tabs of a group."""


@frozen(eq=True)
class Tab:
    """A tab: the pane's name, its title, how many rows it lists, as text, and its key."""

    name: str
    title: str
    count: str
    key: str
    is_empty: bool = False
    """True where it is known that it lists nothing."""


def tab_parts(tabs: Sequence[Tab], current: str, remarks: str, width: int) -> tuple[BarPart, ...]:
    """The tabs with their keys; where the line is short without counts, then only those around the current one."""
    here = next((index for index, tab in enumerate(tabs) if tab.name == current), 0)
    room = width - len(remarks)
    words = [_tab_words(tab, counted=True) for tab in tabs]
    if sum(map(len, words)) > room:
        words = [_tab_words(tab, counted=index == here) for index, tab in enumerate(tabs)]
    first, last = _fitting([len(text) for text in words], here, room)
    parts: list[BarPart] = [BarPart("‹ ", "dim", tabs[first - 1].name)] if first else []
    for tab, text in zip(tabs[first:last], words[first:last], strict=True):
        title = text[len(tab.key) : -1]
        parts += [
            BarPart(tab.key, "dim", tab.name),
            BarPart(title, "current" if tab.name == current else "empty" if tab.is_empty else "plain", tab.name),
        ]
        parts.append(BarPart(" "))
    if last < len(tabs):
        parts.append(BarPart("›", "dim", tabs[last].name))
    return (*parts, BarPart(remarks, "warn"))


@frozen(eq=True)
class TabGroup:
    """Tabs under one title, of which the others are hidden while one is open."""

    title: str
    key: str
    tabs: Sequence[Tab]
    opens: str
    """Name of the tab that its key opens."""


def group_parts(groups: Sequence[TabGroup], current: str, remarks: str, width: int) -> tuple[BarPart, ...]:
    """The groups with their keys, and behind the open one its tabs: `2 Kernels: kernels 3,874+584 · ops 63 · …`.

    Where the line is short all counts but that of the current tab give way, then tabs, then titles of other groups.
    """
    opened = next(group for group in groups if any(tab.name == current for tab in group.tabs))
    tabs = opened.tabs
    here = next(index for index, tab in enumerate(tabs) if tab.name == current)
    room = width - cell_len(remarks) - sum(len(f"{group.key} {group.title}  ") for group in groups)
    # No gap stands behind the last tab.
    room += len(TAB_GAP) - 2 * bool(remarks)
    is_short = room < len(_inner_words(tabs[here], True)) + len(TAB_GAP) + 4
    if is_short:
        room += sum(len(f" {group.title}") for group in groups if group is not opened)
    words = [_inner_words(tab, True) for tab in tabs]
    if sum(len(text) + len(TAB_GAP) for text in words) > room:
        words = [_inner_words(tab, at == here) for at, tab in enumerate(tabs)]
    first, last = _fitting([len(text) + len(TAB_GAP) for text in words], here, room)
    parts: list[BarPart] = []
    for group in groups:
        is_empty = all(tab.is_empty for tab in group.tabs)
        look = "key" if group is opened else "empty" if is_empty else "plain"
        parts.append(BarPart(group.key, "dim", group.opens))
        if group is not opened:
            parts.append(BarPart("  " if is_short else f" {group.title}  ", look, group.opens))
            continue
        if len(tabs) == 1:
            parts += [BarPart(" "), BarPart(group.title, "current", current), BarPart("  ")]
            continue
        parts.append(BarPart(f" {group.title}: ", look, group.opens))
        if first:
            parts.append(BarPart("‹ ", "dim", tabs[first - 1].name))
        for index in range(first, last):
            tab = tabs[index]
            look = "current" if tab.name == current else "empty" if tab.is_empty else "plain"
            parts += [BarPart(TAB_GAP, "dim")] if index > first else []
            parts += [BarPart(f"{tab.key} ", "dim", tab.name)] if tab.key else []
            parts.append(BarPart(words[index].removeprefix(f"{tab.key} "), look, tab.name))
        parts.append(BarPart(" ›  ", "dim", tabs[last].name) if last < len(tabs) else BarPart("  "))
    return (*parts, BarPart(remarks, "warn"))


def _inner_words(tab: Tab, counted: bool) -> str:
    """Key, title and count of a tab within its group."""
    words = (tab.key, tab.title[:1].lower() + tab.title[1:], tab.count if counted else "")
    return " ".join(filter(None, words))


def _tab_words(tab: Tab, counted: bool) -> str:
    """Key and title with the spaces around them."""
    return f"{tab.key} {tab.title}{f' {tab.count}' if tab.count and counted else ''}  "


def _fitting(widths: Sequence[int], here: int, room: int) -> tuple[int, int]:
    """The stretch of tabs, first and last (exclusive), that fits with the current one in it; marks take two cells."""
    first, last, taken = here, here + 1, widths[here] + 4
    while True:
        # Those before come first: who walks along the tabs sees the next one appear.
        if first and taken + widths[first - 1] <= room:
            first -= 1
            taken += widths[first]
        elif last < len(widths) and taken + widths[last] <= room:
            taken += widths[last]
            last += 1
        else:
            break
    whole = sum(widths) <= room
    return (0, len(widths)) if whole else (first, last)


MAX_SHOWN_FILTER = 60
"""Maximum characters of a filter in a sentence about it."""


@frozen(eq=True)
class OpenGroup:
    """A group whose rows are listed in place of the groups."""

    by: str
    """The grouping that it belongs to."""
    label: str
    """Name of the group, as it was listed."""
    key: tuple[tuple[str, Cell], ...]
    """Columns that are equal in all rows of the group, with their values."""
    lane: int = -1
    """The lane of all rows of the group; -1 where the columns decide."""
    sort: str | None = None
    descending: bool = False
    """Direction in which the groups were sorted."""
    cursor: int = 0
    """Index of the cursor among the groups."""
    slices: tuple[int, ...] = ()
    """The slices of all rows of a group that no grouping lists; empty for other groups."""


@frozen(eq=True)
class ListArrangement:
    """Sort column, direction, filter text and grouping of one list."""

    sort: str | None = None
    """Name of the column; None for the order of the analysis."""
    descending: bool = False
    filter: str = ""
    """Only rows that this filter keeps are listed: a text, or a condition on columns."""
    by: str | None = None
    """The grouping of the rows, in the analysis's words; None for single rows."""
    group: OpenGroup | None = None
    """The group of which single rows are listed; None for all rows."""

    def sorted_by(self, name: str, table: Table) -> ListArrangement:
        """Sort by a column, numbers from the largest, texts from A; by the same again, the other way."""
        if self.sort == name:
            return replace(self, descending=not self.descending)
        return replace(self, sort=name, descending=not table[name].is_text)


def arrange(table: Table, arrangement: ListArrangement) -> NDArray[np.int64]:
    """The rows of a table to list, in order.

    Raises: ExpressionError for a filter that is a condition and does not fit the table.
    """
    if arrangement.sort is not None and arrangement.sort in table:
        # What is shown without namespaces and parameters is sorted so.
        names_kernels = table[arrangement.sort].spec.text is TextKind.KERNEL
        order = table.order(arrangement.sort, arrangement.descending, short_kernel if names_kernels else None)
    else:
        order = np.arange(len(table))
    if arrangement.filter:
        order = order[kept_rows(table, arrangement.filter)[order]]
    return order


class TabbedList(AnalysisSafe, Widget):
    """Tabs, below them the list of the current tab, and details beside it."""

    HELP_WHERE = "list"

    BINDINGS: ClassVar[list[BindingType]] = [
        command(
            keys.SORT,
            "sort(1)",
            "Sort by the next column",
            "Numbers from the largest; an arrow marks the column.",
            "sort",
        ),
        command(keys.REVERSE, "reverse", "Reverse the sort order", "", "sort"),
        command(
            keys.GROUP,
            "group",
            "Group the rows",
            "By name, then by whatever else there is, then single rows again.",
            "group",
        ),
    ]
    DEFAULT_CSS = """
    TabbedList { layout: vertical; height: 1fr; width: 1fr; }
    TabbedList > Bar { background: $panel; }
    """

    pane: reactive[str] = reactive("", repaint=False, init=False)
    """Name of the tab that is shown."""

    class Opened(Message):
        """Another list is shown, or other rows of it."""

    def __init__(self, tabs: Sequence[str], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.set_reactive(TabbedList.pane, tabs[0])
        self.arrangements = {name: ListArrangement() for name in tabs}
        """Sort, filter and grouping of each tab."""
        self.view, self.details = TableView(), Details()
        self._bar = SplitBar()
        self._cursors: dict[str, int] = {}
        """Index at which the cursor of each tab was left."""

    def compose(self) -> ComposeResult:
        """Tabs above the list, details beside it."""
        yield self._bar
        with Horizontal():
            yield self.view
            yield self.details

    def on_mount(self) -> None:
        """Name the tabs before there is any table."""
        self._show(0)

    def on_resize(self) -> None:
        """Fit the tabs to the new width."""
        self._show_tabs()

    @property
    def table(self) -> Table | None:
        """The whole table of the current tab, None while there is none."""
        raise NotImplementedError

    @property
    def arrangement(self) -> ListArrangement:
        """Sort, filter and grouping of the current tab."""
        return self.arrangements[self.pane]

    @property
    def groupings(self) -> Sequence[str]:
        """The groupings of the current tab."""
        raise NotImplementedError

    @property
    def tab_keys(self) -> list[str]:
        """The keys of the tabs."""
        return [tab.key for tab in self._tabs()]

    @property
    def layout_name(self) -> str:
        """The name of the column layout of the current tab."""
        return self.pane

    def open_tab(self, name: str) -> None:
        """Show a tab by its name."""
        if name in self.arrangements:
            self.pane = name

    def watch_pane(self, old: str, new: str) -> None:
        """Show another tab, its cursor where it was."""
        self._cursors[old] = self.view.cursor
        self._show(self._cursors.get(new, 0))

    def arrange_by(self, arrangement: ListArrangement, select_first: bool = False) -> None:
        """Sort, filter or group the current tab; `select_first` selects the first row once it is listed."""
        raise NotImplementedError

    def open_group(self, row: int) -> bool:
        """List the single rows of the group at a row of the grouped table; False where its rows are not known."""
        table, arrangement = self.table, self.arrangement
        group = self._group_at(table, row) if table is not None and arrangement.by is not None else None
        if group is None:
            return False
        group = replace(
            group, sort=arrangement.sort, descending=arrangement.descending, cursor=max(self.view.cursor, 0)
        )
        sort, descending = self._first_sort(None)
        opened = replace(arrangement, by=None, sort=sort, descending=descending, group=group)
        self.arrange_by(opened, select_first=True)
        return True

    def list_only(self, name: str, words: str, slices: Sequence[int]) -> None:
        """List in a tab the rows of some slices, until it is left or the group closed; `words` say of what."""
        arrangement = ListArrangement(group=OpenGroup("for", words, (), slices=tuple(slices)))
        if name == self.pane:
            self.arrange_by(arrangement)
        else:
            self.arrangements[name] = arrangement
            self.open_tab(name)

    def close_group(self) -> None:
        """List the groups again, the cursor on the one that was open; beside some slices all of them."""
        group = self.arrangement.group
        if group is not None and group.slices:
            self.arrange_by(ListArrangement())
        elif group is not None:
            self._cursors[self.pane] = group.cursor
            closed = replace(self.arrangement, by=group.by, sort=group.sort, descending=group.descending, group=None)
            self.arrange_by(closed)
            self.view.put_cursor(group.cursor)
            self.view.announce_row()

    def _first_sort(self, by: str | None) -> tuple[str | None, bool]:
        """By what rows in a grouping are sorted at first, and whether the largest comes first."""
        return None, False

    def _group_at(self, table: Table, row: int) -> OpenGroup | None:
        """The group at a row of the grouped table; None where its rows are not known."""
        return None

    def _in_group(self, table: Table, group: OpenGroup) -> NDArray[np.bool_]:
        """Mask of the single rows of a group."""
        mask = np.ones(len(table), bool)
        for name, value in group.key:
            mask &= table[name].equal(value) if name in table else False
        return mask

    def matches(self, text: str) -> NDArray[np.int64]:
        """Indices, in the list, of the rows that contain a text."""
        table = self.table
        if table is None or not text:
            return np.empty(0, np.int64)
        return np.flatnonzero(table.matching(text)[self.view.order])

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Sorting needs rows, grouping something to group by."""
        if action == "group":
            return bool(self.groupings)
        if action in ("sort", "reverse"):
            return self.table is not None
        return True

    def action_sort(self, direction: int) -> None:
        """Sort by the next of the columns on screen, and after the last by none."""
        if self.table is None:
            return
        names = [None, *(name for name in self.view.shown_columns if name != "index" and name in self.table)]
        current = self.arrangement.sort
        index = names.index(current) if current in names else 0
        name = names[(index + direction) % len(names)]
        plain = replace(self.arrangement, sort=None, descending=False)
        self.arrange_by(plain if name is None else plain.sorted_by(name, self.table))

    def action_reverse(self) -> None:
        """Turn the order round."""
        name = self.arrangement.sort or next(iter(self.view.shown_columns), None)
        if self.table is not None and name is not None:
            self.arrange_by(replace(self.arrangement, sort=name, descending=not self.arrangement.descending))

    def action_group(self) -> None:
        """Group by one grouping after the other, then list single rows again."""
        groupings = (None, *self.groupings)
        if len(groupings) > 1:
            self.group_by(groupings[(groupings.index(self.arrangement.by) + 1) % len(groupings)])

    def group_by(self, by: str | None) -> None:
        """Group the rows, None for single rows."""
        sort, descending = self._first_sort(by)
        self.arrange_by(replace(self.arrangement, by=by, sort=sort, descending=descending, group=None))

    @on(TableView.HeaderClicked)
    def _sort_by_title(self, message: TableView.HeaderClicked) -> None:
        message.stop()
        if self.table is not None:
            self.arrange_by(self.arrangement.sorted_by(message.name, self.table))

    @on(Bar.Pressed)
    def _press_tab(self, message: Bar.Pressed) -> None:
        message.stop()
        self.open_tab(message.key)

    def _show(self, cursor: int) -> None:
        """List the current table, or the note in place of one that is not there."""
        table, arrangement = self.table, self.arrangement
        self.view.below = "" if table is None else self._note_below(table)
        if table is None:
            self.view.show(self.pane, None, np.empty(0, np.int64), note=self._missing_note())
        else:
            order, note = self._arranged(table)
            sort = (arrangement.sort, arrangement.descending)
            shown, states = self._readable(table), self._states()
            self.view.show(self.layout_name, shown, order, cursor, sort, note, arrangement.by, states, self._graphics())
            self._rows_listed()
        self._show_tabs()
        self.post_message(self.Opened())

    def _arranged(self, table: Table) -> tuple[NDArray[np.int64], str]:
        """The rows to list, in order, and the note in their place where there are none."""
        arrangement, wanted = self.arrangement, shorten(clean(self.arrangement.filter), MAX_SHOWN_FILTER)
        remedy = f"{keys.FILTER} changes the filter, esc clears it."
        try:
            order = arrange(table, arrangement)
        except ExpressionError as mistake:
            return np.empty(0, np.int64), f"{wanted!r} does not fit this list: {mistake} {remedy}"
        if arrangement.group is not None:
            order = order[self._in_group(table, arrangement.group)[order]]
        if not wanted and arrangement.group is None:
            return order, self._empty_note(table)
        if not wanted:
            return order, "Nothing here is in this group. esc lists the others."
        verb = "fits" if is_condition(table, arrangement.filter) else "contains"
        return order, f"No row {verb} {wanted!r}. {remedy}"

    def _show_tabs(self) -> None:
        self._bar.parts = self._tab_parts(self.size.width - 2)

    def _tab_parts(self, width: int) -> tuple[BarPart, ...]:
        """The tabs in a line of some cells."""
        return tab_parts(self._tabs(), self.pane, self._remarks(), width)

    def _remarks(self) -> str:
        """Grouping and filter in words, behind the tabs."""
        arrangement = self.arrangement
        remarks = f" by {arrangement.by}" if arrangement.by else ""
        if arrangement.group is not None:
            remarks = f" {arrangement.group.by} {shorten(arrangement.group.label, 24)} {count(len(self.view.order))}"
        if arrangement.filter:
            remarks += f" filter {shorten(clean(arrangement.filter).strip(), 24)!r} {count(len(self.view.order))}"
        return remarks

    def _tabs(self) -> Sequence[Tab]:
        """The tabs with their titles and counts."""
        raise NotImplementedError

    def _missing_note(self) -> str:
        """The note in place of a table that is not there."""
        raise NotImplementedError

    def _empty_note(self, table: Table) -> str:
        """The note in place of rows where the table has none."""
        return table.note or "There is nothing to list."

    def _note_below(self, table: Table) -> str:
        """The note below the rows; empty where it stands elsewhere."""
        return ""

    def _readable(self, table: Table) -> Table:
        """The table as it is shown."""
        return table

    def _states(self) -> NDArray[np.int64] | None:
        """Of a tree, which rows are open; None for a list."""
        return None

    def _graphics(self) -> RowGraphics | None:
        """Drawings beside the cells; None for nothing."""
        return None

    def _rows_listed(self) -> None:
        """Follow up once rows are listed."""
