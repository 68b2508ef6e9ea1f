"""Filtering a list in a terminal: by a condition, with what is wrong pointed at, completed names and odd letters."""

from __future__ import annotations

import sys

import pytest

from tests.support.paths import SAMPLES

EAGER = SAMPLES / "mlp_eager_cpu.json.gz"

pytestmark = pytest.mark.full


@pytest.mark.parametrize("size", [(200, 50), (80, 24)])
def test_a_condition_is_typed_and_mended(start, size):
    tmux = start(*size)
    tmux.command(sys.executable, "-m", "tracetui", str(EAGER), "--at", "ops")
    tmux.wait_for("ops 14" if size[0] > 100 else "ops")
    tmux.press(":ops", "Enter")
    tmux.wait_for("aten::gelu", "self CPU")
    tmux.press("F")
    tmux.type("self_c")
    tmux.wait_for("tab self_cpu_us")
    tmux.press("Tab")
    tmux.type(" > 10lightyears")
    screen = tmux.wait_for("^ 'lightyears' is no unit")
    typed = next(line for line in screen.splitlines() if "lightyears" in line and "filter" in line)
    caret = next(line for line in screen.splitlines() if "^ 'lightyears'" in line)
    assert typed.index("lightyears") == caret.index("^")
    assert "aten::gelu" in screen, "the rows stay"
    tmux.press(*["BSpace"] * len("lightyears"))
    tmux.wait_until_gone("lightyears")
    tmux.type("ms & op ~ gelu")
    tmux.wait_for(" 1 row")
    tmux.press("Enter")
    tmux.wait_for("filter 'self_cpu_us", "aten::gelu")
    tmux.press("F")
    tmux.type("名前" + "x" * 250)
    tmux.press("Enter")
    tmux.wait_for("No row contains")
    tmux.press("Escape")
    tmux.wait_until_gone("filter '")
    tmux.wait_for("aten::gelu")
    tmux.press("q")
    assert tmux.exit_status() == 0
    assert "Traceback" not in tmux.screen()
