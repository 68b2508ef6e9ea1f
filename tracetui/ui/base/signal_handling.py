"""Ending the app from outside: by a signal, or because the connection to the terminal is gone.

The first signal ends the app as `q` does. When that takes too long, a thread ends the process, recordings
included. A terminal that is gone needs no care: then the process ends at once.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any

GRACE = 3.0
"""Seconds that the app has to end by itself."""

CANCELLED = 128
"""A process that a signal ended has this and the number of the signal as its exit code."""

_SIGNALS = (signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
_RESET = (
    # Mouse, focus and paste reports, resize reports; line wrap, keyboard protocol, the other screen, the cursor.
    "\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1016l\x1b[?1004l\x1b[?2004l\x1b[?2048l"
    "\x1b[?7h\x1b[<u\x1b[?1049l\x1b[?25h\x1b[0m"
)


class SignalHandling:
    """While this context lasts, signals end the app in an orderly way; afterwards the terminal is as it was."""

    def __init__(self, leave: Callable[[int], None], file: int = 0) -> None:
        """`leave` asks the app to end with an exit code, from the main thread; `file` is the terminal."""
        self._leave = leave
        self._file = file
        self._before: dict[signal.Signals, Any] = {}
        self._looks: list[Any] | None = None
        self._code = 0

    def __enter__(self) -> SignalHandling:
        self._looks = attributes(self._file)
        for number in _SIGNALS:
            self._before[number] = signal.signal(number, self._handle)
        threading.Thread(target=self._watch, name="watch-line", daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.give_back()
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def give_back(self) -> None:
        """Undo what the app did to the terminal, where it did not do so itself."""
        now = attributes(self._file)
        if self._looks is None or now is None or now[3] == self._looks[3] or in_background(self._file):
            return
        with suppress(termios.error):
            termios.tcsetattr(self._file, termios.TCSANOW, self._looks)
        # A terminal that takes nothing must not keep the process.
        if select.select([], [self._file], [], 0.5)[1]:
            with suppress(OSError):
                os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, _RESET.encode())

    def _handle(self, number: int, _: FrameType | None) -> None:
        """Ask the app to end; a second signal does not wait for it."""
        if self._code or is_cut(self._file) or in_background(self._file):
            self._end(CANCELLED + number)
        self._code = CANCELLED + number
        threading.Thread(target=self._insist, name="insist", daemon=True).start()
        self._leave(self._code)

    def _insist(self) -> None:
        time.sleep(GRACE)
        self._end(self._code)

    def _watch(self) -> None:
        """Notice a closed connection also without a signal: keys would be read from it without end."""
        poll = select.poll()
        # Nothing is asked for: a hang-up is told all the same, and this thread sleeps until then.
        poll.register(self._file, 0)
        while True:
            for _, event in poll.poll():
                if event & select.POLLHUP:
                    self._end(CANCELLED + signal.SIGHUP)
                if event & select.POLLNVAL:
                    return

    def _end(self, code: int) -> None:
        """End the process and its recordings, now."""
        launcher = sys.modules.get("tracetui_workloads.recording.launcher")
        if launcher is not None:
            launcher.kill_all()
        self.give_back()
        os._exit(code)


def attributes(file: int) -> list[Any] | None:
    """The settings of a terminal, None for a file that is no terminal or is closed."""
    try:
        return termios.tcgetattr(file)
    except termios.error:
        return None


def is_cut(file: int) -> bool:
    """True once a terminal's other end is gone."""
    poll = select.poll()
    poll.register(file, 0)
    return any(event & select.POLLHUP for _, event in poll.poll(0))


def in_background(file: int) -> bool:
    """True while another process group owns the terminal, as in a suspended app: using it would stop this process."""
    try:
        return os.tcgetpgrp(file) != os.getpgrp()
    except OSError:
        return False
