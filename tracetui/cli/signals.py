"""Ends a command in order when a signal asks it to: partial files are removed and the terminal is as it was."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""Signals at whose default the system ends a process on the spot."""


@contextmanager
def ending_in_order() -> Iterator[None]:
    """While a command runs, these signals raise SystemExit with the code that shells have for them.

    Handlers that a program has set itself stay, and so does everything where this runs in another thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handled = [number for number in SIGNALS if signal.getsignal(number) is signal.SIG_DFL]
    for number in handled:
        signal.signal(number, _end)
    try:
        yield
    finally:
        for number in handled:
            if signal.getsignal(number) is _end:
                signal.signal(number, signal.SIG_DFL)


def _end(number: int, _: FrameType | None) -> NoReturn:
    # Asked once more, it would stop in the middle of tidying up.
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise SystemExit(128 + number)
