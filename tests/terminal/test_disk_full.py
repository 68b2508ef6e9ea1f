"""A disk without room: every way of writing a file says so, and leaves no part of one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.paths import SAMPLES
from tests.support.terminal.walks import left, opened
from tests.support.workloads.children import needs_torch

EAGER = SAMPLES / "mlp_eager_cpu.json.gz"
NO_ROOM = "No space left on device"
FILLER = "filler"

pytestmark = pytest.mark.full


@pytest.fixture
def full(tmp_path):
    """A folder on a file system of 64 KiB that is full."""
    folder = tmp_path / "full"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("needs to mount a small file system, which only root may")
    with pytest.raises(OSError, match=NO_ROOM), (folder / FILLER).open("wb", buffering=0) as file:
        while True:
            file.write(b"." * 1024)
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def files(folder):
    """Every file that is there, but for what fills the disk."""
    return sorted(path.name for path in folder.rglob("*") if path.is_file() and path.name != FILLER)


def test_what_the_app_writes(start, full, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(full))
    tmux = opened(start, (200, 40), EAGER)
    tmux.wait_for("aten::linear", "ops 14")
    tmux.press(":ops", "Enter")
    tmux.wait_for("aten::gelu", "self CPU", "list:")
    # Each is told in other words than the one before, so that none is taken for it.
    for key, told in (
        ("e", "could not be written"),
        ("y", "no file could be written"),
        ("C-s", "could not be written"),
    ):
        assert told not in tmux.screen()
        tmux.press(key)
        tmux.wait_for(told, NO_ROOM)
        assert files(full) == []
    left(tmux)


@needs_torch
def test_what_is_recorded(full):
    out = full / "a.json.gz"
    command = [sys.executable, "-m", "tracetui", "run", "linear", "--no-open", "-o", str(out)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert result.returncode == 4
    assert "Traceback" not in result.stderr
    assert files(full) == []
    assert os.path.exists(full / FILLER)
