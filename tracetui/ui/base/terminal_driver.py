"""The terminal as Textual drives it, with more care for how it ends and for how it stops and goes on."""

from __future__ import annotations

import termios
from contextlib import suppress
from typing import Any

from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.events import CursorPosition
from textual.message import Message

from tracetui.ui.base.flow_control import FlowControl
from tracetui.ui.base.signal_handling import attributes, in_background

_EMPTY = "\x1b[H\x1b[J"
"""The cursor to the first cell, and nothing after it."""
MAX_QUEUED_WRITES = 2
"""Writes that wait for the thread that writes; at so many the terminal takes them slower than they come."""


class TerminalDriver(LinuxDriver):
    """Empties its screen before it gives the terminal back, and takes the terminal once only.

    tmux, when its window has grown meanwhile, otherwise moves lines of the app above the prompt.
    """

    _has_terminal = False
    """Whether the terminal is the app's, from the first setting that is changed to the last that is put back."""

    def __init__(self, app: App[Any], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None):
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self.flow = FlowControl()
        self.takeovers = 0
        """How often the terminal was taken; what it shows at first is not known."""

    def is_ready(self) -> bool:
        """Whether another frame may be written now."""
        waiting = getattr(self._writer_thread, "_queue", None)
        return self.flow.is_ready() and (waiting is None or waiting.qsize() < MAX_QUEUED_WRITES)

    def process_message(self, message: Message) -> None:
        """Hand a message on, unless it is the answer to a frame: nothing else asks where the cursor is."""
        if isinstance(message, CursorPosition):
            self.flow.take_answer()
            with suppress(RuntimeError):
                # The app may have ended meanwhile.
                self._loop.call_soon_threadsafe(self._app.resume_writing)  # type: ignore[attr-defined]
            return
        super().process_message(message)

    def run_input_thread(self) -> None:
        """Read keys; what goes wrong there is an error like any other."""
        try:
            super().run_input_thread()
        except Exception as error:
            self._app.call_later(self._app._handle_exception, error)

    def write(self, data: str) -> None:
        """Write to the terminal; output is dropped while the app does not have it."""
        if self._writer_thread is not None:
            super().write(data)

    def start_application_mode(self) -> None:
        """Take the terminal, unless the app has it: a second reader of keys would never end."""
        if self._has_terminal:
            return
        super().start_application_mode()  # type: ignore[no-untyped-call]
        # In the background the terminal is not to be had, and Textual leaves it at that.
        self._has_terminal = self._writer_thread is not None
        self.takeovers += 1
        self.flow.forget()

    def disable_input(self) -> None:
        """Read no more keys, once the terminal has answered all that it was asked."""
        self.flow.wait_for_answers()
        super().disable_input()

    def stop_application_mode(self) -> None:
        """Restore the terminal; also before the app is suspended."""
        if self._has_terminal:
            self.write(_EMPTY)
            super().stop_application_mode()
            self._has_terminal = False

    def close(self) -> None:
        """Write what waits to be written, and end the thread that writes."""
        super().close()
        self._writer_thread = None

    # Textual stops and goes on within the handler of a signal, which waits forever for a lock when the signal came
    # while the app was writing, and takes the terminal twice when the signal to go on is told late.

    def _sigtstp_application(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._app.action_suspend_process)

    def _sigcont_application(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._go_on)

    def _go_on(self) -> None:
        """Take the terminal again where another program has used it meanwhile, as a shell does after SIGSTOP."""
        if in_background(self.fileno) or (self._has_terminal and self._is_raw()):
            return
        self.suspend_application_mode()
        self.resume_application_mode()
        self._app.refresh(layout=True)

    def _is_raw(self) -> bool:
        now = attributes(self.fileno)
        return now is not None and not now[3] & termios.ICANON
