"""Ends a command in order when the system asks it to go: files that were begun are removed, nothing is left behind."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

ASKED = (signal.SIGTERM, signal.SIGHUP)
"""Signals at whose default the system ends a process on the spot."""


@contextmanager
def ending_in_order() -> Iterator[None]:
    """While a command runs, these signals raise SystemExit with the code that shells have for them.

    Who has an own way to end, or a program that calls this from another thread, keeps what it has.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    mine = [number for number in ASKED if signal.getsignal(number) is signal.SIG_DFL]
    for number in mine:
        signal.signal(number, _leave)
    try:
        yield
    finally:
        for number in mine:
            if signal.getsignal(number) is _leave:
                signal.signal(number, signal.SIG_DFL)


def _leave(number: int, _: FrameType | None) -> NoReturn:
    # Asked once more, it would stop in the middle of tidying up.
    for each in ASKED:
        signal.signal(each, signal.SIG_IGN)
    raise SystemExit(128 + number)
