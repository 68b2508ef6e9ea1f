"""Recordings that are stopped, politely and not: no process and no file is left, whoever was asked and when."""

from __future__ import annotations

import asyncio
import random

import pytest
from tracetui_workloads.recording.launcher import Options, Stage, plan, record

from tests.support.workloads.children import LIGHT_TORCH, asked, followed, is_gone, needs_torch, own_function

pytestmark = pytest.mark.full

SLEEPS = "import time\ndef step(): time.sleep(600)"
STUBBORN = """
import time
def step():
    while True:
        try:
            time.sleep(600)
        except BaseException:
            pass
"""
DEAF = """
import signal, time
def step():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)
"""
HAS_CHILDREN = """
import subprocess, time
def step():
    subprocess.Popen(["sleep", "600"])
    time.sleep(600)
"""
FORGIVING = """
import time
def step():
    try:
        time.sleep(600)
    except BaseException:
        pass
"""


async def stopped_in(stage, request, **more):
    """Cancel a recording when a stage begins."""
    cancel = asyncio.Event()
    events = []

    def hear(event):
        events.append(event)
        if isinstance(event, Stage) and event.name == stage:
            # A moment later, so that the stage is under way.
            asyncio.get_running_loop().call_later(0.1, cancel.set)

    outcome = await record(request, hear, cancel, **more)
    return outcome, next(event.pid for event in events if hasattr(event, "pid"))


@needs_torch
@pytest.mark.parametrize("stage", ["importing torch", "loading profiler"])
def test_a_cancelled_recording_leaves_nothing(tmp_path, stage):
    request = plan("combined", {"batch_size": 2}, Options(device="cpu"), tmp_path / "x.json.gz")
    outcome, pid = asyncio.run(stopped_in(stage, request))
    assert (outcome.failure.kind, outcome.exit_code) == ("cancelled", 130)
    assert stage in outcome.failure.message
    assert not list(tmp_path.iterdir())
    assert is_gone(pid)


BEHAVIOUR = {"stubborn": STUBBORN, "deaf": DEAF, "has children": HAS_CHILDREN, "forgiving": FORGIVING}


@pytest.mark.parametrize("source", BEHAVIOUR.values(), ids=BEHAVIOUR)
def test_whatever_a_function_does_about_it(tmp_path, source):
    request = asked(own_function(tmp_path / "own.py", source), tmp_path / "x.json")
    outcome, pid = asyncio.run(stopped_in("first call", request, grace_s=0.3, environment=LIGHT_TORCH))
    assert outcome.failure.kind == "cancelled"
    assert is_gone(pid)
    assert not (tmp_path / "x.json").exists()


def test_a_task_that_is_cancelled_takes_the_child_with_it(tmp_path):
    request = asked(own_function(tmp_path / "own.py", SLEEPS), tmp_path / "x.json")
    pids = []

    async def main():
        def hear(event):
            if hasattr(event, "pid"):
                pids.append(event.pid)
                asyncio.get_running_loop().call_soon(task.cancel)

        task = asyncio.ensure_future(record(request, hear, environment=LIGHT_TORCH))
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert is_gone(pids[0])


def test_what_was_cancelled_leaves_an_older_trace_alone(tmp_path):
    (tmp_path / "x.json").write_text("older")
    request = asked(own_function(tmp_path / "own.py", SLEEPS), tmp_path / "x.json")
    asyncio.run(stopped_in("first call", request, environment=LIGHT_TORCH))
    assert (tmp_path / "x.json").read_text() == "older"


def test_a_cancel_after_the_end_is_too_late(tmp_path):
    request = asked(own_function(tmp_path / "own.py", "import torch\ndef step(): torch.ones(1)"), tmp_path / "x.json")

    async def main():
        cancel = asyncio.Event()
        task = asyncio.ensure_future(record(request, None, cancel, environment=LIGHT_TORCH))
        while not (tmp_path / "x.json").exists():
            await asyncio.sleep(0.001)
        cancel.set()
        return await task

    outcome = asyncio.run(main())
    assert outcome.failure is None
    assert outcome.path.exists()


@pytest.mark.parametrize(
    ("count", "longest", "environment"),
    [(16, 0.8, LIGHT_TORCH), pytest.param(5, 2.0, {}, marks=needs_torch)],
    ids=["light", "torch"],
)
def test_cancels_at_random_times(tmp_path, count, longest, environment):
    """Those without torch come at every stage, those with it mostly while it is imported."""
    moments = random.Random(3)
    name = own_function(tmp_path / "own.py", "import torch\ndef step(): torch.ones(1) + 1")
    out = tmp_path / "out"
    out.mkdir()

    async def main():
        for number in range(count):
            cancel = asyncio.Event()
            asyncio.get_running_loop().call_later(moments.uniform(0, longest), cancel.set)
            path = out / f"{number}.json.gz"
            story = await followed(asked(name, path, device="cpu"), cancel=cancel, environment=environment)
            assert story.outcome.exit_code in (0, 130)
            assert path.exists() == (story.outcome.exit_code == 0)
            assert not story.has_begun or is_gone(story.pid)

    asyncio.run(main())
    assert not [path for path in out.iterdir() if not path.name.endswith(".json.gz")]
