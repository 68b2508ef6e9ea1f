"""The groups of panes on the screen: their keys, what a key opens, and the commands for panes."""

from __future__ import annotations

from collections.abc import Sequence

from textual.binding import Binding

from tracetui.panes import PANE_GROUPS, PANES
from tracetui.ui.base import keys
from tracetui.ui.base.keys import command
from tracetui.ui.widgets.tabbed_list import Tab, TabGroup

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
