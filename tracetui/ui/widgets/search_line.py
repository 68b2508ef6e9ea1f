"""The line at the bottom in which a search or a filter is typed, and where a search stands."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.events import Key
from textual.message import Message
from textual.widgets import Input

from tracetui.model.quantities import count
from tracetui.ui.base.commands import command
from tracetui.ui.widgets.bar import Bar, BarPart


@dataclass
class Search:
    """A search text, its hits, and which hit is current."""

    text: str = ""
    in_lanes: bool = False
    """Whether slices of all lanes are searched, or rows of the list."""
    hits: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    """Slices in order of time, or indices in the list, ascending."""
    index: int = -1
    selected: int = -1
    """The slice that was selected when it began."""
    cursor: int = 0
    """Where the list's cursor was then."""

    def go(self, index: int) -> int | None:
        """Make a hit current, going round at the ends, and return it; None without hits."""
        if len(self.hits) == 0:
            return None
        self.index = index % len(self.hits)
        return int(self.hits[self.index])

    @property
    def words(self) -> str:
        """For example `3/118`."""
        return f"{count(self.index + 1)}/{count(len(self.hits))}" if len(self.hits) else "no match"


class TypedText(Input):
    """An input for which enter and escape are the end: keys of the same burst are meant for what comes after it."""

    def __init__(self) -> None:
        super().__init__(compact=True, select_on_focus=False)
        self.cursor_blink = False
        self._ended = False
        self._early: list[Key] = []

    def begin(self) -> None:
        """Take keys again."""
        self._ended = False

    def on_key(self, event: Key) -> None:
        """Note the key that ends it and keep what follows: a binding is carried out later than a letter is typed."""
        if event.key in ("enter", "escape"):
            self._ended = True
        elif self._ended:
            self._early.append(Key(event.key, event.character))
            event.prevent_default()
            event.stop()

    def pass_on(self) -> None:
        """Give the keys that came early to what has the focus now."""
        for key in self._early:
            self.app.post_message(key)
        self._early.clear()


class SearchLine(Horizontal):
    """One line: a label, the typed text, and the number of hits."""

    BINDINGS: ClassVar[list[BindingType]] = [
        command("escape", "give_up", "Close and clear", "", "clear"),
    ]
    DEFAULT_CSS = """
    SearchLine {
        height: 1;
        display: none;
        background: $panel;
        &.-open { display: block; }
        Input { height: 1; width: 1fr; border: none; padding: 0; background: $panel; }
        Input:focus { border: none; }
        .label { width: auto; }
        .found { width: 26; }
    }
    """

    @dataclass
    class Typed(Message):
        """The text changed, or was accepted with enter, or given up with escape."""

        purpose: str
        """`search` or `filter`."""
        text: str
        accepted: bool = False
        given_up: bool = False

    purpose = "search"

    def compose(self) -> ComposeResult:
        """Label, input and count."""
        yield Bar(classes="label")
        yield TypedText()
        yield Bar(classes="found")

    def open(self, purpose: str, where: str, text: str = "") -> None:
        """Show the line in place of the key hints and type into it; `where` says what is searched."""
        self.purpose = purpose
        sign = f"{where} /" if purpose == "search" else "filter "
        label, count_bar = self.query(Bar)
        label.styles.width = len(sign) + 2
        label.parts, count_bar.parts = (BarPart(sign, "key"),), ()
        line = self.query_one(TypedText)
        line.begin()
        with self.prevent(Input.Changed):
            line.value = text
        # The next letter replaces what was there.
        line.action_select_all()
        self.add_class("-open")
        self.screen.add_class("-searching")
        # `focus()` waits for a turn of the loop, in which keys typed in one burst would go elsewhere.
        self.screen.set_focus(line)

    @property
    def is_open(self) -> bool:
        """Whether something is being typed."""
        return self.has_class("-open")

    def close(self) -> None:
        """Hide the line; whoever closes it has moved the focus."""
        self.remove_class("-open")
        self.screen.remove_class("-searching")
        self.query_one(TypedText).pass_on()

    def show_count(self, words: str) -> None:
        """Show the number of hits."""
        self.query(Bar).last().parts = (BarPart(words, "dim"),)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Search as it is typed."""
        event.stop()
        if self.is_open:
            self.post_message(self.Typed(self.purpose, event.value))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter: stay where the search stands."""
        event.stop()
        self.post_message(self.Typed(self.purpose, event.value, accepted=True))

    def action_give_up(self) -> None:
        """Escape: forget it."""
        self.post_message(self.Typed(self.purpose, "", given_up=True))
