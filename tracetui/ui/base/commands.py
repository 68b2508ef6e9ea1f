"""What a person can do, declared once: a command is a Textual binding with a title, a help sentence, a hint.

The key hint line, the help and the palette are all generated from the `BINDINGS` of the widgets that are on
screen, so a command cannot be in one and missing from another. Whether a command can be used right now is
asked of its widget's `check_action`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from textual.actions import parse
from textual.binding import Binding
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.dom import DOMNode
from textual.screen import Screen
from textual.widgets import Input

from tracetui.ui.base.keys import TABS, Key, shown_key, where_it_works


def command(key: Key, action: str, title: str, help: str = "", hint: str = "", before_typing: bool = False) -> Binding:
    """Declare a user command.

    Args:
        key: One of the keys that `keys` declares.
        hint: words for the key hint line; neighbours with the same words share them, as in `[ ] step`.
        before_typing: whether text follows the key, perhaps in the same burst: the command is then carried out
            before the next key is looked at.
    """
    group = Binding.Group(hint) if hint else None
    return Binding(
        key.names, action, title, show=bool(hint), tooltip=help, id=action, group=group, priority=before_typing
    )


@dataclass(frozen=True)
class Command:
    """A declared command and the widget that carries it out."""

    node: DOMNode
    binding: Binding

    @property
    def keys(self) -> list[str]:
        """Its keys as a person reads them."""
        return [shown_key(name) for name in self.binding.key.split(",")]

    @property
    def available(self) -> bool:
        """Whether it can be used right now."""
        _, name, parameters = parse(self.binding.action)
        return bool(self.node.check_action(name, parameters))

    async def run(self) -> None:
        """Carry it out, unless another screen has come up since it was picked."""
        app = self.node.app
        if self.node in (app, *app.screen.walk_children(with_self=True)):
            await app.run_action(self.binding.action, default_namespace=self.node)


def commands_of(node: DOMNode) -> list[Command]:
    """The commands that a widget, screen or app of this package declares, in order."""
    return [Command(node, binding) for binding in _declared(type(node))]


def commands_in_focus(screen: Screen[Any]) -> Iterator[tuple[DOMNode, list[Command]]]:
    """What the keys mean right now: from the focused widget up to the app."""
    start: DOMNode = screen.focused or screen
    for node in start.ancestors_with_self:
        commands = commands_of(node)
        if commands:
            yield node, commands


def reason_against(screen: Screen[Any], name: str, character: str | None) -> str:
    """A sentence about a key that does nothing on a screen right now, and where it does; empty for one that works."""
    if isinstance(screen.focused, Input):
        # What is typed is for the line, as the keys that end it are.
        return ""
    start: DOMNode = screen.focused or screen
    reasons = []
    for node in start.ancestors_with_self:
        for each in _commands_by_key(type(node)).get(name, ()):
            _, action, parameters = parse(each.action)
            if node.check_action(action, parameters):
                return ""
            explain = getattr(node, "reason", None)
            reasons.append(explain(action) if explain is not None else "")
    if reasons:
        return next(filter(None, reasons), "")
    return _other_tabs(screen, name) or where_it_works(name, character, _parts_for(screen, name))


def _other_tabs(screen: Screen[Any], name: str) -> str:
    """A sentence about the key of a tab that is not on a screen with others."""
    here = next((keys for node in screen.walk_children() if (keys := getattr(node, "tab_keys", ()))), ())
    if not here or name not in TABS.names.split(","):
        return ""
    return f"{shown_key(name)} is no tab here: the tabs are {', '.join(here)}."


def _parts_for(screen: Screen[Any], name: str) -> list[str]:
    """Names of the parts of a screen that declare a command for a key."""
    nodes = [node for node in screen.walk_children() if name in _commands_by_key(type(node))]
    return list(dict.fromkeys(str(getattr(node, "HELP_WHERE", "")) for node in nodes if hasattr(node, "HELP_WHERE")))


@cache
def _commands_by_key(kind: type[DOMNode]) -> dict[str, list[Binding]]:
    """The commands that a class declares, by key."""
    found: dict[str, list[Binding]] = {}
    for binding in _declared(kind):
        for name in binding.key.split(","):
            found.setdefault(name, []).append(binding)
    return found


def _declared(kind: type[DOMNode]) -> Iterator[Binding]:
    """The bindings that a class of this package declares, in order."""
    for base in kind.__mro__:
        if base.__module__.startswith("tracetui"):
            yield from (each for each in base.__dict__.get("BINDINGS", ()) if isinstance(each, Binding))


def all_commands(screen: Screen[Any]) -> Iterator[Command]:
    """Every command of a screen and its app, each title once; what moves a cursor comes last."""
    seen: set[str] = set()
    nodes = [node for node, _ in commands_in_focus(screen)][::-1]
    nodes += [node for node in screen.walk_children() if node not in nodes]
    for node in nodes:
        for each in commands_of(node):
            if each.binding.description not in seen:
                seen.add(each.binding.description)
                yield each


class CommandProvider(Provider):
    """The palette's entries: every command that is available, with its key."""

    async def discover(self) -> Hits:
        """All of them, before anything is typed."""
        for each in self._commands():
            yield DiscoveryHit(self._title(each), partial(self._run, each), help=each.binding.tooltip)

    async def search(self, query: str) -> Hits:
        """Those whose title matches."""
        matcher = self.matcher(query)
        for each in self._commands():
            title = self._title(each)
            score = matcher.match(title)
            if score > 0:
                yield Hit(score, matcher.highlight(title), partial(self._run, each), help=each.binding.tooltip)

    def _commands(self) -> list[Command]:
        commands = all_commands(self.screen)
        return [each for each in commands if each.available and each.binding.action != "command_palette"]

    @staticmethod
    def _title(each: Command) -> str:
        return f"{each.binding.description}  ({' '.join(each.keys)})"

    async def _run(self, each: Command) -> None:
        await each.run()
