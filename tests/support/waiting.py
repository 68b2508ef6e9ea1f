"""Waiting for what is awaited, and not for so many seconds: how busy the machine is decides nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from textual.pilot import Pilot, WaitForScreenTimeout

POLL_SECONDS = 120.0
"""Seconds after which something does not come any more; a test that passes never waits so long, on no machine."""
PROCESS_SECONDS = 300.0
"""Seconds after which a process, a recording too, does not end any more."""
SOON = 60.0
"""Seconds within which what was stopped has gone: mostly at once. What is stopped in tests would last 600 seconds."""
LOOK = 0.02
"""Seconds between two looks."""

T = TypeVar("T")


def wait_until(holds: Callable[[], T], missing: str = "it did not happen", seconds: float = POLL_SECONDS) -> T:
    """The first true value of a function.

    Raises: AssertionError when there is none for so many seconds.
    """
    end = time.monotonic() + seconds
    while not (value := holds()):
        assert time.monotonic() < end, missing
        time.sleep(LOOK)
    return value


async def until(pilot: Pilot[Any], holds: Callable[[], T], missing: str = "it did not happen") -> T:
    """The first true value of a function, with the app at work in between.

    Raises: AssertionError when there is none for `POLL_SECONDS` seconds.
    """
    end = time.monotonic() + POLL_SECONDS
    delay = None
    while True:
        # Textual's own patience is shorter than what a busy machine may need.
        with suppress(WaitForScreenTimeout):
            await pilot.pause(delay)
        if value := holds():
            return value
        assert time.monotonic() < end, missing
        delay = LOOK
