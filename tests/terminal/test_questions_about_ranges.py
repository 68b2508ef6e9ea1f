"""Questions about what ran between two moments, which someone who read only the README answers in at most six keys."""

from __future__ import annotations

import re

import pytest

from tests.support.terminal.walks import left, opened
from tracetui.model.intervals import read_time_range
from tracetui.panes import PANES
from tracetui.reading.load import load

SIZE = (120, 40)

pytestmark = pytest.mark.full

ABOUT = r"range\s+([\d.]+us\+[\d.]+us)"


def counts(screen: str) -> dict[str, int]:
    """The counts of the pane by what they are of, for rows without a name."""
    found = re.findall(
        r"^[▸· ](kernels|copies and fills|gaps|launch calls|operators)\s+–\s+([\d,]+) ", screen, re.MULTILINE
    )
    return {what: int(number.replace(",", "")) for what, number in found}


def test_what_ran_between_two_kernels(start, shared_trace):
    """Six keys: a range from the first kernel to the fifth."""
    path = shared_trace("d06_h100_stack_mem.json.gz")
    tmux = opened(start, SIZE, path)
    tmux.wait_for("▸   1")
    tmux.press("v")
    tmux.wait_for("(800 ns)", "moving extends it")
    for _ in range(4):
        tmux.press(".")
    tmux.wait_for("(951.1 µs)")
    tmux.press("v")
    screen = tmux.wait_for("Range 128.843–129.794 ms", "GPU idle", "operators", "thread 21587")
    assert counts(screen) == {"kernels": 0, "copies and fills": 5, "gaps": 4, "launch calls": 6, "operators": 20}
    assert re.search(r"GPU busy\s+GPU 0\s+–\s+341\.8 µs\D+35\.9", screen)
    assert re.search(r"GPU idle\s+GPU 0\s+–\s+609\.4 µs\D+64\.1", screen)
    assert "↔ 951.1 µs" in screen
    left(tmux)


def test_what_ran_between_two_moments_of_the_timeline(start, shared_trace):
    """Six keys: the timeline, a range, three times to the right; what it says is what the pane as text says."""
    path = shared_trace("d03_v100_2rank_5steps_mem_occ_nccl.json.gz")
    tmux = opened(start, SIZE, path)
    tmux.wait_for("[2]", "3,874+584")
    tmux.press("Tab")
    tmux.press("v")
    tmux.wait_for("(3.0 µs)")
    for _ in range(3):
        tmux.press("Right")
    tmux.press("v")
    screen = tmux.wait_for("W lists everything", "GPU busy", "launch calls", "operators")
    match = re.search(ABOUT, screen)
    assert match is not None
    part = read_time_range(match[1])
    assert 100e6 < part.length < 300e6
    rows = {row["what"]: row["count"] for row in PANES["range"].build(load(str(path)), step=part).rows()}
    shown = counts(screen)
    assert shown["kernels"] > 1_000
    assert shown == {what: rows[what] for what in shown} and len(shown) == 5
    left(tmux)
