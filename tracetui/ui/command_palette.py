"""The palette of commands as Textual has it, made safe for keys that come before its list was laid out."""

from __future__ import annotations

from textual.command import CommandList, CommandPalette

from tracetui.ui.overlay import Overlay


class SafePalette(CommandPalette, Overlay[None]):
    """Closes once, and ignores the keys that move in the list for as long as the list has no place on screen."""

    def _action_command_list(self, action: str) -> None:
        # Textual 8.2 looks up the line of the current command without asking whether lines were made yet
        # (`OptionList._move_page`): pgup or pgdn right behind ctrl+p, in one burst, ended the app with `KeyError: 0`.
        found = self.query(CommandList)
        if found and found.first().scrollable_content_region:
            super()._action_command_list(action)
