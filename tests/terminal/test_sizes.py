"""Every size of window, and changes of size at bad moments."""

from __future__ import annotations

import os
import sys

import pytest

from tests.support.paths import SAMPLES
from tests.support.terminal.walks import left, opened

EAGER = SAMPLES / "mlp_eager_cpu.json.gz"
SENTENCE = "too small"

pytestmark = pytest.mark.full


def fits(tmux, columns, rows):
    """The lines of the screen once they fill the window; none is wider, and the last one has the key hints."""

    def is_whole(screen):
        lines = screen.rstrip("\n").split("\n")
        fills = len(lines) == rows and len(lines[0]) <= columns
        return fills and "Kernels" in screen and "help" in lines[-1] and "mlp_eager" in lines[0]

    return tmux.wait_until(is_whole, f"it does not fill {columns} x {rows}").rstrip("\n").split("\n")


def test_the_screen_fits(start):
    tmux = opened(start, (60, 12), EAGER)
    fits(tmux, 60, 12)
    tmux.press(":ops", "Enter")
    tmux.wait_for("self CPU")
    for columns, rows in ((60, 12), (200, 50)):
        tmux.resize(columns, rows)
        fits(tmux, columns, rows)
    left(tmux)


def test_below_the_least_size_there_is_a_sentence_and_a_storm_of_sizes_passes(start):
    tmux = opened(start, (120, 40), EAGER)
    # The header is whole once the sums of the summary are there.
    tmux.wait_for("aten::linear", "ops 14", "mlp_eager_cpu.json.gz  3 steps")
    before = fits(tmux, 120, 40)
    for columns, rows in ((80, 24), (60, 12)):
        tmux.resize(columns, rows)
        fits(tmux, columns, rows)
    for columns, rows in ((59, 12), (60, 11), (20, 3), (1, 1)):
        tmux.resize(columns, rows)
        if columns > 20:
            tmux.wait_for(SENTENCE)
        tmux.press("j")
    tmux.resize(100, 30)
    fits(tmux, 100, 30)
    storm(tmux, 120, 40)
    fits(tmux, 120, 40)
    # Lines are fitted to the new size after it was painted.
    tmux.wait_until(lambda screen: screen.split("\n")[0] == before[0], "the header stayed cut")
    left(tmux)


def test_resized_while_loading(start, tmp_path):
    endless = tmp_path / "mlp_eager.json"
    os.mkfifo(endless)
    tmux = start(120, 40)
    tmux.command(sys.executable, "-m", "tracetui", str(endless))
    tmux.wait_for("opening", "quit")
    with open(endless, "w") as pipe:
        pipe.write('{"traceEvents": [')
        pipe.flush()
        for columns, rows in ((30, 5), (200, 50), (10, 2), (80, 24)):
            tmux.resize(columns, rows)
        tmux.wait_for("opening", "quit")
        pipe.write('{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 5}]}')
    tmux.wait_for("aten::mm", "Kernels")
    fits(tmux, 80, 24)
    left(tmux)


def storm(tmux, columns, rows):
    """Thirty sizes in a row, the last one as given."""
    for number in range(30):
        tmux.resize(20 + 37 * number % 150, 4 + 11 * number % 46)
    tmux.resize(columns, rows)


def test_a_storm_in_another_screen(start):
    tmux = opened(start, (120, 40), EAGER)
    tmux.wait_for("aten::linear", "ops 14")
    for keys, shown in (("?", "scroll"), ("t", "Which trace?"), ("C-p", "Search for commands")):
        tmux.resize(120, 40)
        fits(tmux, 120, 40)
        tmux.press(keys)
        tmux.wait_for(shown)
        storm(tmux, 80, 24)
        tmux.wait_for(shown)
        tmux.press("Escape")
        tmux.wait_until_gone(shown)
        fits(tmux, 80, 24)
    left(tmux)


def test_a_storm_in_the_form_of_a_recording(start, tmp_path):
    tmux = start(120, 40)
    tmux.command(sys.executable, "-m", "tracetui", str(tmp_path))
    tmux.wait_for("Which trace?")
    tmux.press("r")
    tmux.wait_for("linear", "runs here")
    tmux.press("Enter")
    tmux.wait_for("tracetui run", "batch")
    storm(tmux, 80, 24)
    tmux.wait_for("tracetui run", "batch", "record")
    tmux.press("C-c")
    assert tmux.exit_status() == 0
