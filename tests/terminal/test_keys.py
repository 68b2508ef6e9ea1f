"""Keys that a terminal sends in its own way, and notices that give way to the hints, in a real terminal."""

import sys

import pytest

from tests.support.paths import SAMPLES

EAGER = SAMPLES / "mlp_eager_cpu.json.gz"

pytestmark = pytest.mark.full


@pytest.mark.parametrize("size", [(200, 50), (80, 24)])
def test_parts_links_and_notices(start, size):
    tmux = start(*size)
    tmux.command(sys.executable, "-m", "tracetui", str(EAGER), "--at", "ops")
    tmux.wait_for("ops 14", "lanes: ")
    tmux.press("Tab")
    tmux.wait_until_gone("lanes: ")
    tmux.press("X")
    tmux.wait_for("X (swap A and B) works in a comparison.")
    tmux.press("j")
    tmux.wait_until_gone("works in a comparison")
    tmux.wait_for("? help")
    tmux.press("Z")
    tmux.wait_until_gone("main thread")
    tmux.press("Escape")
    tmux.wait_for("main thread", "ops 14")

    def list_line():
        return next(i for i, line in enumerate(tmux.screen().splitlines()) if "2 Kernels: " in line)

    before = list_line()
    tmux.press("C-Down")
    tmux.wait_until(lambda _: list_line() == before + 2, "the split stays")
    tmux.press("?")
    tmux.wait_for("GEMM", "measuring point")
    tmux.press("q")
    tmux.wait_until_gone("measuring point")
    tmux.press("q")
    assert tmux.exit_status() == 0
