"""A screen that is laid over others until something was picked, read or recorded: it closes once, and only itself.

Textual's `dismiss` takes away whatever screen is on top. A second enter in the same burst, or a recording that ends
while the help is open, would so take away a screen that nobody was done with, in the end the last one.
"""

from __future__ import annotations

from typing import TypeVar

from textual.await_complete import AwaitComplete
from textual.screen import Screen

from tracetui.ui.base.analysis_safe import AnalysisSafe

OverlayResult = TypeVar("OverlayResult")


class Overlay(AnalysisSafe, Screen[OverlayResult]):
    """Base of lists to pick from, forms, the help and the palette."""

    _is_over_with = False
    """Whether it is done with, and waits for what lies over it."""
    _picked: OverlayResult | None = None

    def dismiss(self, result: OverlayResult | None = None) -> AwaitComplete:
        """Close with a result: now, or when it is on top again; nothing happens once it is closed."""
        if self.app.screen is self:
            return super().dismiss(result)
        self._is_over_with, self._picked = self in self.app.screen_stack, result
        return AwaitComplete()

    def on_screen_resume(self) -> None:
        """Close if it was done with meanwhile."""
        if self._is_over_with:
            self.dismiss(self._picked)
