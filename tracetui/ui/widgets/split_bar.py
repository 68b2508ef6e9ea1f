"""A bar that is also the border between what is above and below it: dragged with the mouse, it asks to be moved."""

from __future__ import annotations

from textual.events import Click, MouseDown, MouseMove, MouseUp
from textual.message import Message

from tracetui.ui.widgets.bar import Bar


class SplitBar(Bar):
    """The tabs of a list, below the timeline."""

    class Dragged(Message):
        """The user wants the bar on another line of the screen."""

        def __init__(self, lines: int) -> None:
            super().__init__()
            self.lines = lines
            """Lines down from where the bar is; negative for up."""

    def __init__(self) -> None:
        super().__init__()
        self._is_held = self._was_dragged = False

    def on_mouse_down(self, event: MouseDown) -> None:
        """Take hold."""
        if event.button == 1:
            self._is_held, self._was_dragged = True, False
            self.capture_mouse()

    def on_mouse_move(self, event: MouseMove) -> None:
        """Ask to be moved to the line of the mouse."""
        lines = event.screen_y - self.region.y
        if self._is_held and lines:
            self._was_dragged = True
            self.post_message(self.Dragged(lines))

    def on_mouse_up(self, event: MouseUp) -> None:
        """Let go."""
        self._is_held = False
        self.release_mouse()

    def on_click(self, event: Click) -> None:
        """A drag ends on the bar, but picks no tab."""
        if self._was_dragged:
            event.prevent_default()
            event.stop()
