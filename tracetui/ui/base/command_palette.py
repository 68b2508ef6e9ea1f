"""The palette of commands as Textual has it, made safe for keys and clicks that its list is not ready for."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.command import CommandList, CommandPalette
from textual.events import Click

from tracetui.ui.base.overlay import Overlay


class SafeCommandList(CommandList):
    """Ignores a click on a command that is not listed any more."""

    def on_click(self, event: Click) -> None:
        """Keep the click from Textual 8.2, which looks its index up in the present list."""
        index = event.style.meta.get("option")
        if index is not None and index >= self.option_count:
            event.prevent_default()
            event.stop()


class SafePalette(CommandPalette, Overlay[None]):
    """Palette that closes once, and ignores keys that move in its list until the list is laid out."""

    def compose(self) -> ComposeResult:
        """The usual parts with a list of our own."""
        for part in super().compose():
            yield SafeCommandList() if type(part) is CommandList else part

    def _action_command_list(self, action: str) -> None:
        # Textual 8.2 looks up the line of the current command without asking whether lines were made yet
        # (`OptionList._move_page`): pgup or pgdn right behind ctrl+p, in one burst, ended the app with `KeyError: 0`.
        lists = self.query(CommandList)
        if lists and lists.first().scrollable_content_region:
            super()._action_command_list(action)
