"""The app on a terminal, with the cell differ and without: the same screens, from fewer bytes."""

from __future__ import annotations

import sys

import pytest

from tests.support.paths import SAMPLES
from tests.support.terminal.cells import differing, screen_of
from tests.support.terminal.raw import Raw

EAGER = str(SAMPLES / "mlp_eager_cpu.json.gz")
COLUMNS, ROWS = 120, 40
KEYS = [":ops\r", "j", ".", "]", "\t", "ddw", "?", "\x1b", "1o", "\x0c", "/mm", "\x1b", "\x14"]
SYNC_QUESTION, SYNC_ANSWER = "\x1b[?2026$p", "\x1b[?2026;2$y"
SYNC_START, SYNC_END = "\x1b[?2026h", "\x1b[?2026l"


@pytest.mark.full
def test_the_same_cells_are_on_the_screen():
    words = sys.executable, "-m", "tracetui", EAGER, "--at", "ops"
    apps = [Raw(*words, columns=COLUMNS, rows=ROWS), Raw(*words, "--no-differ", columns=COLUMNS, rows=ROWS)]
    try:
        for raw in apps:
            raw.wait_for("Kernels", "aten::linear")
        for keys in KEYS:
            for raw in apps:
                raw.send(keys)
            for raw in apps:
                raw.wait_until_quiet(0.6)
            wrong = differing(*(screen_of(raw, COLUMNS, ROWS) for raw in apps))
            assert not wrong, (keys, wrong[:5])
        assert apps[0].length < apps[1].length / 2
    finally:
        for raw in apps:
            raw.close()


@pytest.mark.smoke
@pytest.mark.full
def test_a_frame_is_written_whole_where_the_terminal_can_show_it_at_once():
    raw = Raw(sys.executable, "-m", "tracetui", EAGER, "--at", "ops")
    try:
        raw.wait_for(SYNC_QUESTION)
        raw.send(SYNC_ANSWER)
        raw.wait_for("Kernels", "aten::linear")
        raw.wait_until_quiet()
        before = raw.length
        raw.send(":ops\r")
        raw.wait_until_quiet()
        raw.send("\x0c")
        raw.wait_until_quiet()
        # A terminal that does not answer is not asked for long.
        frames = raw.between(before).decode().replace("\x1b[6n", "").split(SYNC_END)
        assert len(frames) > 2
        assert frames.pop() == ""
        for frame in frames:
            assert frame.startswith(SYNC_START) and frame.count(SYNC_START) == 1
        # The whole screen again, with every one of its lines; what is worked out meanwhile may fill in after it.
        assert any(all(f"\x1b[{row}" in frame for row in range(1, 41)) for frame in frames)
    finally:
        raw.close()
