"""Writes what Textual wants to show as differences of cells, and no faster than the terminal takes them.

It stands in for `App._display` and uses other parts of Textual that may change without notice.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeGuard

from rich.control import Control
from textual._ansi_sequences import SYNC_END, SYNC_START
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.app import App

from tracetui.ui.base.cell_differ import CellDiffer, Update

if TYPE_CHECKING:
    from tracetui.ui.base.terminal_driver import TerminalDriver

RETRY_SECONDS = 0.05
"""Time after which a frame that was held back is tried again, should no answer of the terminal come before."""


class FrameWriter:
    """The way from Textual's updates to the terminal."""

    def __init__(self, app: App[Any], driver: TerminalDriver, retry: Callable[[], None]) -> None:
        """`retry` is called a while after a frame was held back, and is to call `resume`."""
        self._app = app
        self._retry = retry
        self._driver = driver
        self._differ = CellDiffer(app.console, erases_in_colour(os.environ))
        self._takeovers = driver.takeovers
        self._cursor: tuple[int, int] | None = None
        self._is_held = False

    @staticmethod
    def is_update(renderable: object) -> TypeGuard[Update]:
        """Whether it is an update of the kinds that are known."""
        return isinstance(renderable, LayoutUpdate | ChopsUpdate)

    def show(self, update: Update) -> None:
        """Show an update, now or when the terminal has taken the frames before it."""
        if self._takeovers != self._driver.takeovers:
            self._takeovers = self._driver.takeovers
            self.forget()
        self._differ.apply(update, *self._app.size)
        self.write()

    def forget(self) -> None:
        """Write every cell with the next frame: what the terminal shows is not known."""
        self._differ.forget()
        self._cursor = None

    def write(self) -> None:
        """Write what has changed if the terminal is ready for it, else later."""
        if not self._driver.is_ready():
            if not self._is_held:
                self._is_held = True
                asyncio.get_running_loop().call_later(RETRY_SECONDS, self._retry)
            return
        self._is_held = False
        frame = self._differ.difference()
        cursor = self._app.screen.outer_size.clamp_offset(self._app.cursor_position)
        if not frame and cursor == self._cursor:
            return
        self._cursor = self._app._previous_cursor_position = cursor
        frame += Control.move_to(*cursor).segment.text
        if self._app._sync_available:
            frame = f"{SYNC_START}{frame}{SYNC_END}"
        self._driver.write(frame + self._driver.flow.question())
        self._driver.flush()

    def resume(self) -> None:
        """Write what was held back."""
        if self._is_held:
            self._is_held = False
            self.write()


def erases_in_colour(environment: Mapping[str, str]) -> bool:
    """Whether the terminal erases with the background that is set, as its description says (`bce`)."""
    try:
        # A Python may have been built without it.
        import curses

        curses.setupterm(environment.get("TERM", ""), 1)
        return curses.tigetflag("bce") > 0
    except (ImportError, curses.error):
        return False
