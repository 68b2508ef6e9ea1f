"""The words of tabs above a list: all in one line, or in groups of which one is open."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from tracetui.frozen import frozen
from tracetui.ui.widgets.bar import BarPart

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
