"""Attaching to a real PyTorch process, with and without a trace at the end.

The process has the pinned torch and, where `TRACETUI_NEWEST_TORCH` names an interpreter with a newer one, that too.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.newest_torch import NoNewerTorch, named_torch
from tests.support.waiting import wait_until

LIMIT = 900

LOOP = """
import time
import torch
import torch.profiler

layer = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.01)
while True:
    optimizer.zero_grad()
    layer(torch.ones(4, 8)).sum().backward()
    optimizer.step()
    print("step", flush=True)
    time.sleep(0.05)
"""
NO_ITERATIONS = """
import time
import torch

while True:
    torch.ones(4, 8).sum()
    print("step", flush=True)
    time.sleep(0.05)
"""

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Kineto asks for requests on Linux only"),
]


@pytest.fixture(params=("pinned", "newest"))
def python(request) -> str:
    """An interpreter with torch."""
    if request.param == "pinned":
        return sys.executable
    try:
        return named_torch().python
    except NoNewerTorch as reason:
        pytest.skip(str(reason))


@contextmanager
def job(python: str, code: str, tmp_path: Path) -> Iterator[tuple[subprocess.Popen, dict[str, str]]]:
    """A loop that can be attached to, and the environment that it shares with the command."""
    with tempfile.TemporaryDirectory(prefix="att") as folder, tmp_path.joinpath("steps.txt").open("wb") as steps:
        variables = {**os.environ, "KINETO_USE_DAEMON": "1", "KINETO_IPC_SOCKET_DIR": folder, "OMP_NUM_THREADS": "1"}
        # The newest torch writes nowhere else than here.
        variables["KINETO_ONDEMAND_TRACE_DIR"] = str(tmp_path)
        running = subprocess.Popen([python, "-c", code], env=variables, stdout=steps, stderr=subprocess.DEVNULL)
        try:
            wait_until(lambda: steps_of(tmp_path) > 3, "the loop did not begin", LIMIT)
            yield running, variables
            assert running.poll() is None
            assert not Path(f"/tmp/libkineto_activities_{running.pid}.json").exists()
        finally:
            running.kill()
            running.wait()


def steps_of(folder):
    return folder.joinpath("steps.txt").read_bytes().count(b"step")


def attach(variables, cwd, *words):
    command = [sys.executable, "-m", "tracetui", "attach", *map(str, words)]
    return subprocess.Popen(command, env=variables, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_cancelled_trace_then_two_iterations_of_a_training_loop(python, tmp_path):
    with job(python, LOOP, tmp_path) as (running, variables):
        given_up = attach(variables, tmp_path, running.pid, "--seconds", 2)
        # Its folder is there once the process has been asked.
        wait_until(lambda: list(tmp_path.glob(f"tracetui-attach-*/{running.pid}")), "it was never asked", LIMIT)
        given_up.send_signal(signal.SIGINT)
        given_up.communicate(timeout=LIMIT)
        assert given_up.returncode == 130
        assert not list(tmp_path.rglob("*.json*")) and not list(tmp_path.glob("tracetui-attach-*"))

        before = steps_of(tmp_path)
        words = ("--iterations", 2, "--shapes", "--memory", "--no-open", "-o", "loop.json")
        taken = attach(variables, tmp_path, running.pid, *words)
        output, trouble = taken.communicate(timeout=LIMIT)
        assert (taken.returncode, output) == (0, "loop.json\n"), trouble
        # What was given up before has written nothing.
        assert [path.name for path in tmp_path.rglob("*.json*")] == ["loop.json"]
        assert steps_of(tmp_path) > before
    events = json.loads(tmp_path.joinpath("loop.json").read_text())["traceEvents"]
    names = [event.get("name") for event in events]
    assert "aten::addmm" in names and names.count("Optimizer.step#SGD.step") == 2
    assert any("Input Dims" in event.get("args", {}) for event in events)
    assert ("[memory]" in names) != ("no allocations" in trouble)


def test_a_process_that_counts_no_iterations_refuses_them(python, tmp_path):
    with job(python, NO_ITERATIONS, tmp_path) as (running, variables):
        refused = attach(variables, tmp_path, running.pid, "--iterations", 2, "--no-open", "-o", "loop.json")
        _, trouble = refused.communicate(timeout=LIMIT)
        assert refused.returncode == 4 and "it counts no iterations" in trouble
        assert not list(tmp_path.rglob("*.json*"))
