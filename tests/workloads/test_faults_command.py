"""The command that records is killed, stopped, or no longer listened to: what it started ends with it."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest
from tracetui_workloads.recording.launcher import Note, Stage, record

from tests.support.waiting import POLL_SECONDS, PROCESS_SECONDS, SOON
from tests.support.workloads.children import LIGHT_TORCH, asked, is_gone, needs_torch, own_function
from tests.support.workloads.faults import contents, light, own
from tracetui.cli.streams import RecordingProgress

pytestmark = pytest.mark.full

FAMILY = """
import multiprocessing, os, signal, subprocess, time
def step():
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    subprocess.Popen(["sleep", "601"])
    subprocess.Popen(["sleep", "602"], start_new_session=True)
    multiprocessing.Process(target=time.sleep, args=(603,)).start()
    if os.fork() == 0:
        os.setsid()
        open("../there", "w").close()
    time.sleep(600)
"""
"""Deaf, with children in its group and out of it."""

CLOSING = """
import time, torch
from tracetui_workloads.api import Prepared
def step() -> Prepared:
    return Prepared(lambda: torch.ones(4) + 1, "closing", close=lambda: time.sleep(600))
"""
"""Waits where the trace is written and has not got its name yet."""

FAST = "import torch\ndef step():\n    for _ in range(100): torch.ones(4) + 1"

linux = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody adopts what leaves its group")


@linux
def test_a_command_that_is_killed_takes_the_whole_family_with_it(tmp_path):
    run = light(tmp_path, FAMILY)
    run.wait_for((tmp_path / "there").exists)
    assert len(run.processes()) >= 7
    run.kill()
    ended = run.ended(SOON)
    ended.left_nothing()
    assert ended.files == {}


@linux
@pytest.mark.parametrize(
    ("start", "number"),
    [
        (light, signal.SIGKILL),
        (light, signal.SIGINT),
        pytest.param(own, signal.SIGTERM, marks=needs_torch),
        (light, signal.SIGHUP),
        (light, signal.SIGQUIT),
    ],
)
def test_a_trace_that_has_no_name_yet_goes_with_the_command(tmp_path, start, number):
    run = start(tmp_path, CLOSING)
    run.wait_for(lambda: list(run.out.glob("*.part")) and not list(run.out.glob("*.raw.part")))
    run.process.send_signal(number)
    ended = run.ended(SOON)
    ended.left_nothing()
    assert ended.files == {}
    if number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        ended.failed(128 + number, "Cancelled while writing trace; nothing was written.")


BUSY = {
    "sleeps": "import time\ndef wait(): time.sleep(600)",
    "loops": "def wait():\n    while True: pass",
    "loops in C": "import collections, itertools\ndef wait(): collections.deque(itertools.count(), maxlen=0)",
    "waits in its own handler": """import signal, time
def wait():
    signal.signal(signal.SIGINT, lambda *_: time.sleep(600))
    time.sleep(600)
""",
}
"""What does not end by itself, and in part not when it is asked to."""


@pytest.mark.parametrize("name", BUSY)
def test_ctrl_c_stops_a_workload_that(tmp_path, name):
    run = light(tmp_path, f"{BUSY[name]}\ndef step():\n    open('../there', 'w').close()\n    wait()")
    run.wait_for((tmp_path / "there").exists)
    run.process.send_signal(signal.SIGINT)
    run.ended().failed(130, "Cancelled while making the first call; nothing was written.")


@linux
@needs_torch
def test_compile_workers_go_with_the_command(tmp_path):
    source = "import torch\nf = torch.compile(lambda x: (x.sin() + 1).cos())\ndef step(): f(torch.ones(100))"
    run = own(tmp_path, source, environment={"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")})
    run.wait_for(lambda: [words for words in run.processes().values() if "compile_worker" in words])
    run.kill()
    run.ended(SOON).left_nothing()


@linux
@pytest.mark.parametrize(("start", "count", "longest"), [(light, 8, 0.8), pytest.param(own, 3, 2.5, marks=needs_torch)])
def test_killed_at_any_moment(tmp_path, start, count, longest):
    """Those without torch at every stage, those with it mostly while it is imported."""
    moments = random.Random(5)
    for number in range(count):
        run = start(tmp_path / str(number), FAST)
        time.sleep(moments.uniform(0.1, longest))
        run.kill()
        ended = run.ended(SOON)
        ended.left_nothing()
        for content in ended.files.values():
            assert len(json.loads(content)["traceEvents"]) > 300


@linux
@pytest.mark.parametrize("which", ["supervisor", "recorder"])
def test_whoever_else_is_killed(tmp_path, which):
    run = light(tmp_path, "import time\ndef step():\n    open('../there', 'w').close()\n    time.sleep(600)")
    run.wait_for((tmp_path / "there").exists)
    supervisor, recorder = (pid for pid in sorted(run.processes()) if pid != run.process.pid)
    os.kill(supervisor if which == "supervisor" else recorder, signal.SIGKILL)
    run.ended().failed(4, "The system killed the recording while making the first call")


@linux
def test_a_supervisor_ends_as_its_recorder_did(tmp_path):
    """What a shell or a launcher sees of the recorder is what it would see without a supervisor."""
    from tracetui_workloads.recording.launcher import command
    from tracetui_workloads.recording.protocol import Request

    (tmp_path / "own.py").write_text("import os\ndef step(): os.abort()")
    parent_pipe, held = os.pipe()
    pipe = os.open(os.devnull, os.O_WRONLY)
    request = Request(f"{tmp_path / 'own.py'}:step", str(tmp_path / "x.json"))
    done = subprocess.run(
        command(sys.executable, (pipe, parent_pipe), "token", request),
        pass_fds=(pipe, parent_pipe),
        env={**os.environ, **LIGHT_TORCH},
        capture_output=True,
        timeout=PROCESS_SECONDS,
    )
    for file in (parent_pipe, held, pipe):
        os.close(file)
    assert done.returncode == -signal.SIGABRT
    assert done.stderr.count(b"Fatal Python error") == 1


def test_two_recordings_to_the_same_place_both_end_whole_and_are_kept(tmp_path):
    runs = [light(tmp_path / name, FAST, out="../../x.json") for name in "ab"]
    for run in runs:
        ended = run.ended()
        assert (ended.code, ended.left) == (0, []), ended
    for name in ("x.json", "x-2.json"):
        assert len(json.loads((tmp_path / name).read_text())["traceEvents"]) > 300
    assert sorted(contents(tmp_path)) == sorted(
        ["x.json", "x-2.json"]
        + [f"{name}/{file}" for name in "ab" for file in ("here/own.py", "stderr.log", "stdout.log")]
    )


def test_a_listener_that_fails_ends_the_recording_at_once(tmp_path):
    pids = []

    def hear(event):
        if hasattr(event, "pid"):
            pids.append(event.pid)
        if event == Stage("first call"):
            raise LookupError("mine")

    request = asked(own_function(tmp_path / "own.py", "import time\ndef step(): time.sleep(600)"), tmp_path / "x.json")
    began = time.monotonic()
    with pytest.raises(LookupError):
        asyncio.run(record(request, hear, environment=LIGHT_TORCH))
    assert time.monotonic() - began < POLL_SECONDS
    assert is_gone(pids[0])


def test_remarks_that_nobody_reads_cost_no_recording():
    ours, theirs = os.pipe()
    os.close(ours)
    stream = os.fdopen(theirs, "w", buffering=1)
    with RecordingProgress("x", stream) as bar:
        bar.hear(Note("info", "No GPU here"))
    with pytest.raises(BrokenPipeError):
        stream.close()
