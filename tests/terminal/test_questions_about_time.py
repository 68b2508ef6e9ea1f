"""Questions about time that someone who read only the README answers in a few keys: the longest gap, and its cause."""

from __future__ import annotations

import pytest

from tests.support.terminal.walks import left, opened

SIZE = (120, 40)

pytestmark = pytest.mark.full


def test_the_longest_gap_and_what_the_cpu_did_in_it(start, shared_trace):
    """Four keys: the pane Gaps, the longest gap, its details, and a page of them."""
    tmux = opened(start, SIZE, shared_trace("d06_h100_stack_mem.json.gz"))
    tmux.press("6")
    tmux.wait_for("duration▾", "126.05 ms", "data loading")
    tmux.press("Enter")
    tmux.wait_for("Gap of 126.05 ms: GPU 0 ran nothing", "125.72 ms", "99.7 %")
    tmux.press("Tab")
    tmux.press("C-d")
    screen = tmux.wait_for("CPU was in", "dataloader.py(703):", "the CPU meanwhile")
    assert "104.47 ms" in screen and "83 %" in screen
    left(tmux)
