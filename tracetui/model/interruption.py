"""Stopping an analysis that runs in a thread and whose result nobody waits for any more.

A thread cannot be stopped from outside. Analyses are made of others, each of which goes through `Trace.remember`: there
a thread asks whether to go on, and there it may be made to wait.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Interrupted(Exception):
    """The result of an analysis is not wanted any more; nothing of it was kept."""


class _Thread(threading.local):
    goes_on: Callable[[], bool] | None = None


_thread = _Thread()


@contextmanager
def interruptible(goes_on: Callable[[], bool]) -> Iterator[None]:
    """Within it, analyses of this thread end with `Interrupted` once the function returns False.

    The function is called before every part of an analysis, and may wait.
    """
    before, _thread.goes_on = _thread.goes_on, goes_on
    try:
        yield
    finally:
        _thread.goes_on = before


def check_interruption() -> None:
    """Wait or end where the analyses of this thread are to do so.

    Raises: Interrupted when the result is not wanted any more.
    """
    if _thread.goes_on is not None and not _thread.goes_on():
        raise Interrupted
