"""A set of ranks in a terminal: read by processes of its own, every table, a late moment, lanes, and a trace alone."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import pytest

from tests.support.paths import SHARED
from tracetui.opening.rank_reading import MIN_POOL_BYTES

SET = SHARED / "ranks" / "g2_step_8ranks_2hosts_missing"

pytestmark = [pytest.mark.full, pytest.mark.skipif(not SET.exists(), reason="the sets of ranks are not here")]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Traces of seven ranks, so large that processes read them, and a cache that knows none of them."""
    folder = tmp_path / "run"
    folder.mkdir()
    for path in SET.glob("*/*.json.gz"):
        (folder / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
    assert sum(path.stat().st_size for path in folder.iterdir()) > MIN_POOL_BYTES
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


@pytest.mark.parametrize("size", [(200, 50), (80, 24)])
def test_the_late_rank_is_found_and_every_table_opens(start, run, size):
    tmux = start(*size)
    tmux.command(sys.executable, "-m", "tracetui", str(run))
    tmux.wait_for("Rank 3 (node0) is late", "Others wait")
    shown = {"2": "all_to_all", "3": "for rank", "4": "▸all 8 ranks", "5": "longest", "6": "no file of it was found"}
    for key, words in shown.items():
        tmux.press(key)
        tmux.wait_for(words)
    tmux.press("1", "Enter")
    tmux.wait_for("late collective 1 of 3", "arrives")
    tmux.press("n")
    tmux.wait_for("late collective 2 of 3")
    tmux.press("Escape")
    tmux.wait_until_gone("late collective 2 of 3")
    tmux.wait_for("Others wait")
    tmux.press("D")
    tmux.wait_for("on one clock", "rank 3 node0")
    tmux.press("Escape")
    tmux.wait_for("Others wait")
    tmux.press("g")
    tmux.wait_for("rank3_trace")
    tmux.press("q")
    assert tmux.exit_status() == 0
    assert "Traceback" not in tmux.screen()


def test_a_run_and_a_pattern_are_taken_as_ranks_has_them(start, run):
    for path in list(run.iterdir()):
        path.rename(run / path.name.replace("rank", "gpu-"))
    tmux = start(120, 40)
    tmux.command(sys.executable, "-m", "tracetui", "open", str(run), "--rank-pattern", r"gpu-(\d+)", "--run", "1")
    tmux.wait_for("Rank 3 (node0) is late")
    tmux.press("q")
    assert tmux.exit_status() == 0
    tmux = start(120, 40)
    tmux.command(sys.executable, "-m", "tracetui", "open", str(run), "--run", "7")
    tmux.wait_for("There is no run 7: there are 1 ")
    assert tmux.exit_status() == 2
