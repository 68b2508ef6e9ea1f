"""The last line of a screen: key hints, in whose place notices stand for a while."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from textual.dom import DOMNode
from textual.timer import Timer

from tracetui.safe_text import clean
from tracetui.ui.base.commands import commands_in_focus, reason_against
from tracetui.ui.base.text_cutting import fitting_line
from tracetui.ui.widgets.bar import Bar, BarPart
from tracetui.ui.widgets.bar_texts import hint_parts

NOTICE_SECONDS = 8.0
"""How long a notice stands in the place of the key hints."""

AFTER_KEY_SECONDS = 0.05
"""How long a notice stays after the next key, which may bring up another one."""

FocusedPart = tuple[DOMNode | None, str]
"""The part of the screen whose hints come first, and its name; None and an empty name for no part in particular."""


class HintsBar(Bar):
    """The keys that work right now, or a notice."""

    def __init__(self, focused_part: Callable[[], FocusedPart] = lambda: (None, ""), *, id: str = "hints") -> None:
        """`focused_part` returns the part of the screen that has the keys; it is called whenever hints are shown."""
        super().__init__(id=id)
        self._focused_part = focused_part
        self._notice: Timer | None = None

    def notice(self, text: str, warn: bool = False) -> None:
        """Show a notice in place of the key hints for a while."""
        self.parts = (BarPart(fitting_line(clean(text), self._width), "warn" if warn else "strong"),)
        if self._notice is not None:
            self._notice.stop()
        self._notice = self.set_timer(NOTICE_SECONDS, self.end_notice)

    def take_key(self, name: str, character: str | None) -> None:
        """Let go of a notice that stood here before a key, and say where the key works if it does nothing here.

        To be called before the key is carried out.
        """
        if self._notice is not None:
            # What the key brings up is painted in the same stroke, and may be another notice.
            self.set_timer(AFTER_KEY_SECONDS, partial(self._end_old_notice, self._notice))
        sentence = reason_against(self.screen, name, character)
        if sentence:
            self.notice(sentence)

    def _end_old_notice(self, notice: Timer) -> None:
        if self._notice is notice:
            self.end_notice()

    def end_notice(self) -> None:
        """Let the key hints come back."""
        if self._notice is not None:
            self._notice.stop()
        self._notice = None
        self.show_hints()

    def show_hints(self) -> None:
        """Name the keys that there are, those of the focused part first, unless a notice stands here."""
        if self._notice is None:
            commands = [command for _, group in commands_in_focus(self.screen) for command in group]
            self.parts = hint_parts(commands, self._width, *self._focused_part())

    @property
    def _width(self) -> int:
        """Cells of the line; before the first layout those of the terminal."""
        return (self.screen.size.width or self.app.size.width) - 2
