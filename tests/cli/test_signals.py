"""A command that is asked to end tidies up, and says so with the code that shells have for the signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.paths import ROOT, SAMPLES
from tests.support.processes import free_port
from tests.support.waiting import PROCESS_SECONDS
from tracetui.cli.main import ending_in_order

SAMPLE = str(SAMPLES / "mlp_eager_cpu.json.gz")


def ended(number: int, wait_for: str, *words: str, folder: Path, times: int = 1) -> int:
    """The exit code of a command that gets a signal once something was written."""
    command = subprocess.Popen(
        [sys.executable, "-m", "tracetui", *words],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(folder)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert command.stdout is not None
    for line in command.stdout:
        if wait_for in line:
            break
    for _ in range(times):
        command.send_signal(number)
    command.communicate(timeout=PROCESS_SECONDS)
    return command.returncode


@pytest.mark.parametrize(
    ("number", "times"), [(signal.SIGTERM, 1), (signal.SIGHUP, 1), (signal.SIGQUIT, 1), (signal.SIGTERM, 3)]
)
@pytest.mark.full
def test_what_was_cut_for_the_server_is_removed(tmp_path, number, times):
    words = ("perfetto", SAMPLE, "--steps", "3", "--port", str(free_port()))
    assert ended(number, "nowhere else", *words, folder=tmp_path, times=times) == 128 + number
    assert list(tmp_path.iterdir()) == []


def test_a_cut_that_is_ended_leaves_no_part(tmp_path):
    pipe = tmp_path / "trace.json"
    os.mkfifo(pipe)
    out = tmp_path / "out.json"
    command = subprocess.Popen([sys.executable, "-m", "tracetui", "cut", str(pipe), "-o", str(out)], cwd=ROOT)
    with pipe.open("w") as writer:
        writer.write('[{"ph":"X","name":"a","pid":1,"tid":1,"ts":1,"dur":2},')
        writer.flush()
        time.sleep(1.0)
        command.terminate()
        assert command.wait(PROCESS_SECONDS) == 128 + signal.SIGTERM
    assert [path.name for path in tmp_path.iterdir()] == ["trace.json"]


def test_handlers_are_put_back():
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)]
    with ending_in_order():
        pass
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)] == before


def test_a_handler_of_ones_own_is_kept():
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with ending_in_order():
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)
