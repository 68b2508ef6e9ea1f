"""A trace opened, walked through and left, at the sizes that the screen is designed for."""

from __future__ import annotations

import sys

import pytest

from tests.support.paths import SAMPLES
from tests.support.terminal.walks import CLEAN, left, opened

EAGER = SAMPLES / "mlp_eager_cpu.json.gz"
TINY = "d16_b300_tiny.json.gz"
# What is in between is tested without a terminal: here the two layouts do, the wide one and the narrow one.
SIZES = [(200, 50), (80, 24)]

pytestmark = pytest.mark.full


@pytest.mark.parametrize("size", [SIZES[0], pytest.param(SIZES[1], marks=pytest.mark.smoke)])
def test_a_walk_through_a_cpu_trace(start, size):
    tmux = opened(start, size, EAGER)
    tmux.wait_for(EAGER.name, "mlp_fwd", "aten::linear", "[2]")
    tmux.press("0")
    whole = tmux.wait_for("ProfilerStep#2", "ProfilerStep#4")
    tmux.press("w")
    tmux.press("w")
    tmux.press("l")
    # All of the trace fits no longer.
    assert "Kernels" in tmux.wait_for_change(whole)
    tmux.press("?")
    tmux.wait_for("Help: keys")
    tmux.press("?")
    tmux.wait_until_gone("Help: keys")
    tmux.press(":kernels", "Enter")
    tmux.wait_for("There is no GPU activity")
    tmux.press("]")
    tmux.press("]")
    tmux.wait_for("[4]")
    tmux.press("[")
    tmux.press("[")
    tmux.wait_for("[2]")
    tmux.press(":ops", "Enter")
    tmux.wait_for("aten::mm", "aten::gelu")
    tmux.press(":views", "Enter")
    tmux.wait_for("aten::as_strided")
    left(tmux)


@pytest.mark.parametrize("size", SIZES)
def test_kernels_of_a_gpu_trace(start, size, shared_trace):
    tmux = opened(start, size, shared_trace(TINY))
    tmux.wait_for("GEMM bf16 64x8x64 TN", "topk<bf16>", "▸ 1", *(["aten::topk"] if size[0] >= 120 else []))
    tmux.press(".")
    tmux.press(".")
    tmux.wait_for("▸ 3")
    if size[0] >= 120:
        tmux.press("g")
        tmux.wait_for("LaunchKernel")
    left(tmux)


def test_a_search_and_the_palette(start):
    tmux = opened(start, (120, 40), EAGER)
    tmux.wait_for("aten::mm", "ops 14")
    # Typed in one burst, it loses no letter.
    tmux.type("/linear")
    tmux.wait_for("lanes / linear", "/9")
    tmux.press("Enter")
    tmux.wait_for("n N next and previous")
    tmux.press("Escape")
    tmux.wait_until_gone("n N next and previous")
    tmux.press("/")
    tmux.wait_until_gone("/ search")
    tmux.type("linear")
    tmux.wait_for("/9")
    # At once, too: what follows enter is no longer for the line.
    tmux.press("Enter", "n")
    tmux.wait_for("2/9")
    tmux.press("Escape")
    tmux.wait_until_gone("2/9")
    tmux.press("C-p")
    tmux.wait_for("Search for commands")
    tmux.type("fit the trace")
    tmux.wait_for("Fit the trace")
    tmux.press("Enter")
    tmux.wait_for("ProfilerStep#2", "ProfilerStep#4")
    left(tmux)


def test_standard_input(start):
    tmux = start(120, 40)
    tmux.type(f"cat {EAGER} | {sys.executable} -m tracetui - --at ops; echo exit status $?")
    tmux.press("Enter")
    tmux.wait_for("mlp_fwd", "Kernels")
    tmux.press(":ops", "Enter")
    tmux.wait_for("aten::mm")
    left(tmux)


def test_a_file_that_is_no_trace_leaves_a_sentence(start, tmp_path):
    path = tmp_path / "odd.json"
    path.write_text("hello")
    tmux = start(120, 40)
    tmux.command(sys.executable, "-m", "tracetui", str(path))
    assert tmux.exit_status() == 1
    screen = tmux.screen()
    assert "odd.json" in screen
    assert "Traceback" not in screen
    assert tmux.state() == CLEAN


def test_a_dumb_terminal_is_refused(start):
    tmux = start(120, 40)
    tmux.command("env", "TERM=dumb", sys.executable, "-m", "tracetui", str(EAGER))
    assert tmux.exit_status() == 2
    assert "tracetui show" in tmux.screen()
