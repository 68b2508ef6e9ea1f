"""An app that gives the terminal back whatever happens, and reports a defect in two sentences.

Errors of messages that reach a widget after it was removed are ignored: see `is_for_removed_widget`.
"""

from __future__ import annotations

import os
import signal
import sys
from types import TracebackType

from rich.console import RenderableType
from textual._styles_cache import StylesCache
from textual.app import App
from textual.command import CommandPalette
from textual.css.query import NoMatches
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Event, Key
from textual.message_pump import MessagePump
from textual.widget import Widget
from textual.worker import WorkerFailed

from tracetui.drawing.text.crash_report import crash_message
from tracetui.ui.base.command_palette import SafePalette
from tracetui.ui.base.signal_handling import SignalHandling, in_background
from tracetui.ui.base.terminal_driver import TerminalDriver


def is_for_removed_widget(error: BaseException) -> bool:
    """Whether an error is that of a widget that was removed before its message arrived.

    Textual tells a palette that is closed how busy it is, and mounts a screen that is left already; there is nothing
    left that could show a wrong thing. The widget that handled the message gets no other after an error, so that has to
    be gone as well: an app that goes on deaf would be worse than one that ends.
    """
    return isinstance(error, NoMatches) and _is_gone(_hearer(error.__traceback__))


def _hearer(trace: TracebackType | None) -> MessagePump | None:
    """Who dealt with the message: the first in the traceback."""
    while trace is not None:
        owner = trace.tb_frame.f_locals.get("self")
        if isinstance(owner, MessagePump):
            return owner
        trace = trace.tb_next
    return None


def _is_gone(part: MessagePump | None) -> bool:
    if not isinstance(part, Widget):
        return False
    # A screen is taken from the stack first, then it loses its parts, and at last its parent.
    return not part.is_attached or part.screen not in part.app.screen_stack


class CrashSafeApp(App[int]):
    """Textual's own account of an error is a screenful of source with the values of variables: not for this app."""

    crash: str = ""
    """The report of a defect, printed once the terminal is given back."""

    def __init__(self) -> None:
        # Without colours at all, not in the greys that Textual makes of its own.
        super().__init__(ansi_color=True if "NO_COLOR" in os.environ else None)

    @property
    def is_plain(self) -> bool:
        """Whether the terminal has 16 colours, or is to have none."""
        return self.no_color or self.console.color_system in ("standard", "windows", None)

    def get_driver_class(self) -> type[Driver]:
        """The usual driver, tidier where it is the one for terminals."""
        usual = super().get_driver_class()
        return TerminalDriver if usual is LinuxDriver else usual

    def _handle_exception(self, error: Exception) -> None:
        cause = error.error if isinstance(error, WorkerFailed) else error
        if is_for_removed_widget(cause):
            return
        if not self.crash:
            self.crash = crash_message(cause)
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        self._close_messages_no_wait()

    def panic(self, *renderables: RenderableType) -> None:
        """End the app; `crash` has the report."""
        self._close_messages_no_wait()

    def _print_error_renderables(self) -> None:
        self._exit_renderables.clear()

    def _set_pointer_shape(self, shape: str) -> None:
        """Leave the mouse pointer as it is: terminals that do not know the sequence show it as text."""

    def on_mount(self) -> None:
        """From now on, a screen that was left leaves nothing behind."""
        self.screen_change_signal.subscribe(self, forget_drawings)

    async def on_event(self, event: Event) -> None:
        """Handle an event; keys that come after the one that quits are for the shell."""
        if not (self._exit and isinstance(event, Key)):
            await super().on_event(event)

    def action_command_palette(self) -> None:
        """Show the palette of commands, unless it is on screen."""
        if not isinstance(self.screen, CommandPalette):
            # The name by which Textual knows it.
            self.push_screen(SafePalette(id="--command-palette"))

    def action_suspend_process(self) -> None:
        """Give the terminal back and stop, until the shell continues the process in the foreground."""
        if self._driver is None or not self._driver.can_suspend:
            return
        with self.suspend():
            os.kill(os.getpid(), signal.SIGSTOP)
            while in_background(0):
                # Continued with `bg`: there is nothing to do without a terminal.
                os.kill(os.getpid(), signal.SIGSTOP)

    def leave(self, code: int) -> None:
        """End the app from a signal's handler; before it runs there is nothing to end but the process."""
        loop = self._loop
        if loop is None or loop.is_closed():
            raise SystemExit(code)
        loop.call_soon_threadsafe(self._leave, code)

    def _leave(self, code: int) -> None:
        self.exit(code, return_code=code)

    def run_safely(self) -> int:
        """Run to the end and return the exit code; a report of a defect goes to standard error afterwards."""
        try:
            with SignalHandling(self.leave):
                self.run()
        except Exception as error:
            self.crash = self.crash or crash_message(error)
        if self.crash:
            print(self.crash, file=sys.stderr)
            return 1
        return self.return_code or 0


def forget_drawings(_: object = None) -> None:
    """Let go of the lines of widgets that are gone; those of the others are made again when they are wanted.

    A cache of colours in Textual (https://github.com/Textualize/textual/issues/6665) has the caches of lines of the
    last 1024 widgets as its keys: 220 kB for each time that the palette was opened, up to some 40 MB.
    """
    forget = getattr(StylesCache.get_inner_outer, "cache_clear", None)
    if forget is not None:
        forget()
