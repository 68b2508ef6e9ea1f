"""Over a slow line, with a key held down: frames are left out, none is queued, and the screen ends up to date."""

from __future__ import annotations

import sys
import time

import pytest

from tests.support.paths import SAMPLES
from tests.support.terminal.cells import differing, screen_of
from tests.support.terminal.raw import Raw
from tests.support.terminal.slow_link import SlowLink
from tests.support.waiting import POLL_SECONDS

EAGER = str(SAMPLES / "mlp_eager_cpu.json.gz")
BYTES_PER_SECOND, DELAY = 20_000, 0.15
COLUMNS, ROWS = 200, 50
PRESSES, PRESSES_PER_SECOND = 90, 30


@pytest.mark.full
@pytest.mark.parametrize(("first", "held"), [("", "jjjjkkkk"), ("\t", "da")], ids=["rows", "pan"])
def test_no_frames_are_queued_while_a_key_is_held(first, held):
    raw = Raw(sys.executable, "-m", "tracetui", EAGER, "--at", "ops", columns=COLUMNS, rows=ROWS)
    link = SlowLink(raw, BYTES_PER_SECOND, DELAY)
    try:
        raw.wait_for("Kernels", "aten::linear")
        settle(link)
        link.send(first)
        settle(link)
        before, link.longest_queue = link.frames, 0.0
        for number in range(PRESSES):
            link.send(held[number % len(held)])
            time.sleep(1 / PRESSES_PER_SECOND)
        # What is wanted last waits for no more than a round trip.
        assert link.longest_queue <= 2 * DELAY
        released = link.frames
        settle(link)
        # What was under way when the last keys arrived, and what they changed: on a busy machine each key draws the
        # list, the details and the lanes one after the other. Frames in a queue would be as many as keys.
        assert link.frames - released <= 8
        assert 0 < link.frames - before < PRESSES
        # The screen then is the one that is wanted: writing it again changes no cell.
        before_redraw = screen_of(raw, COLUMNS, ROWS)
        link.send("\x0c")
        settle(link)
        assert not differing(before_redraw, screen_of(raw, COLUMNS, ROWS))
    finally:
        link.close()
        raw.close()


def settle(link):
    """Wait until nothing is under way, and nothing more comes of it."""
    end = time.monotonic() + POLL_SECONDS
    idle_since = None
    while idle_since is None or time.monotonic() - idle_since < 0.6:
        assert time.monotonic() < end, "the line never was idle"
        time.sleep(0.02)
        idle_since = (idle_since or time.monotonic()) if link.is_idle else None
