"""Two traces beside each other, walked through and left, at the sizes that the screen is designed for."""

from __future__ import annotations

import sys

import pytest

from tests.support.paths import SAMPLES

EAGER, COMPILED = SAMPLES / "mlp_eager_cpu.json.gz", SAMPLES / "mlp_compile_cpu.json.gz"

pytestmark = pytest.mark.full


@pytest.mark.parametrize("size", [(200, 50), (80, 24)])
def test_two_traces(start, size):
    tmux = start(*size)
    tmux.command(sys.executable, "-m", "tracetui", str(EAGER), str(COMPILED))
    screen = tmux.wait_for("425 → 368 ms", "- fused", "aten::gelu", "[2]", "[4]")
    lines = screen.splitlines()
    first, second = (next(i for i, line in enumerate(lines) if line.startswith(f"  {side}  step")) for side in "AB")
    assert first < second < next(i for i, line in enumerate(lines) if "2 Ops" in line)
    tmux.press("Tab", "Tab")
    tmux.wait_for(" B: ")
    tmux.press("V")
    tmux.wait_until_gone("main thread")
    tmux.wait_for("AOTDispatcher Runtime Wrapper Prologue")
    tmux.press("Escape")
    tmux.wait_for("main thread")
    tmux.press("X")
    tmux.wait_for("+ new", "368 → 425 ms")
    tmux.press("g")
    tmux.wait_for("5 Trace")
    tmux.press("BSpace")
    tmux.wait_for("368 → 425 ms")
    tmux.press("q")
    assert tmux.exit_status() == 0
    assert "Traceback" not in tmux.screen()


def test_a_step_that_is_not_there_leaves_a_sentence(start):
    tmux = start(120, 40)
    tmux.command(sys.executable, "-m", "tracetui", f"{EAGER}#3", f"{EAGER}#99")
    assert tmux.exit_status() == 2
    assert "There is no step 99" in tmux.screen()
