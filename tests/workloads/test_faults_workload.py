"""What a workload can do to its own recording: each fault injected for real, and nothing left but a sentence."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from tests.support.waiting import SOON
from tests.support.workloads.children import LIGHT_TORCH, needs_torch
from tests.support.workloads.faults import all_of, light, own

pytestmark = [pytest.mark.full, needs_torch]


@dataclass(frozen=True)
class Fault:
    """A function of one's own that fails, with what is said of it."""

    source: str
    said: str
    code: int = 4
    words: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=lambda: LIGHT_TORCH)


FAILING = {
    "raises what it made up": Fault("class B(BaseException): pass\ndef step(): raise B('odd')", "raised B while"),
    "raises SystemExit": Fault(
        "def step(): raise SystemExit('\\x1b[31mred')", "called sys.exit('\\x1b[31mred') while making the first call"
    ),
    "raises KeyboardInterrupt": Fault("def step(): raise KeyboardInterrupt", "Cancelled while making", 130),
    "cannot say what it is": Fault(
        "class X(Exception):\n    def __str__(self): raise SystemExit(0)\ndef step(): raise X", "raised X while"
    ),
    "half a character": Fault("def step(): raise ValueError('a\\udcff\\x9b31mb')", "ValueError while making the first"),
    "a name that steers": Fault("def step(): raise type('\\x1b[31mE\\n', (Exception,), {})('odd')", "raised E while"),
    "recurses": Fault("def step(): step()", "RecursionError while making the first call"),
    "leaves with 0": Fault("import os\ndef step(): os._exit(0)", "with exit code 0 and no error message"),
    "aborts": Fault("import os\ndef step(): os.abort()", "crashed while making the first call: SIGABRT"),
    "an alarm": Fault(
        "import signal, time\ndef step(): signal.setitimer(signal.ITIMER_REAL, 0.05); time.sleep(600)", "SIGALRM"
    ),
    "kills its group": Fault("import os\ndef step(): os.killpg(0, 9)", "The system killed the recording"),
    "kills its parent": Fault(
        "import os, time\ndef step():\n    os.kill(os.getppid(), 9)\n    time.sleep(600)",
        "The system killed the recording",
    ),
    "memory that is limited": Fault(
        "import resource\ndef step():\n    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\n"
        "    return [bytearray(1 << 27) for _ in range(40)]",
        "Not enough memory while making the first call",
        environment={},
    ),
    "sleeps": Fault("import time\ndef step(): time.sleep(600)", "Stopped after 1 s", words=("--timeout", "1")),
    "closes everything": Fault(
        "import os, time\ndef step():\n    os.closerange(0, 1000)\n"
        "    for n in range(20): os.open(f'../mine{n}', os.O_CREAT | os.O_WRONLY)\n    time.sleep(600)",
        "The workload closed files of the recorder while making the first call",
        environment={},
    ),
    "deletes its folder": Fault(
        "import os, shutil\ndef step(): shutil.rmtree(os.path.dirname(__file__), True)",
        "The current folder was deleted",
        environment={},
    ),
    "prints megabytes and aborts": Fault(
        "import os\ndef step():\n    for _ in range(2000):\n"
        "        os.write(1, b'\\x1b[31m\\x1b]0;t\\x07\\x9b31m\\xff' + b'y' * 1000 + b'\\r\\n')\n"
        "        os.write(2, b'\\x1b[?1049h' + b'z' * 1000)\n    os.abort()",
        "SIGABRT",
        words=("--details",),
    ),
    "a child that sleeps": Fault(
        "import os, time\ndef step():\n    if os.fork() == 0: time.sleep(600)\n    raise ValueError('x')",
        "raised ValueError",
    ),
    "a process in another session": Fault(
        "import subprocess\ndef step():\n    subprocess.Popen(['sleep', '600'], start_new_session=True)\n    1 / 0",
        "ZeroDivisionError",
    ),
    "a daemon that is deaf": Fault(
        """import os, signal, time
def step():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for number in (1, 2, 15):
                signal.signal(number, signal.SIG_IGN)
            time.sleep(600)
        os._exit(0)
    time.sleep(0.2)
    os._exit(3)
""",
        "with exit code 3",
    ),
    "processes of multiprocessing": Fault(
        "import multiprocessing, time\ndef step():\n"
        "    for how in ('fork', 'spawn'):\n"
        "        multiprocessing.get_context(how).Process(target=time.sleep, args=(600,)).start()\n"
        "    time.sleep(0.5)\n    raise ValueError('x')",
        "raised ValueError",
    ),
}

WORKS = "import torch\ndef step():\n    torch.ones(4) + 1\n"
FINE = {
    "comes back twice": "import os, torch\ndef step():\n    torch.ones(4) + 1\n    os.fork()",
    "leaves others behind": f"""import multiprocessing, subprocess, threading, time
{WORKS}
    multiprocessing.Process(target=time.sleep, args=(600,)).start()
    subprocess.Popen(["sleep", "600"], start_new_session=True, env={{}})
    threading.Thread(target=time.sleep, args=(600,)).start()
""",
    "goes elsewhere": f"""import locale, os, signal
{WORKS}
    os.chdir("/")
    os.environ.clear()
    locale.setlocale(locale.LC_ALL, "C")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_IGN)
""",
    "closes 0, 1 and 2": f"{WORKS}    import os; os.closerange(0, 3)",
    "no output": f"{WORKS}    import sys; sys.stdout = None; sys.stderr.close()",
    "an odd output": f"{WORKS}    import sys; sys.stdout = type('Odd', (), {{'write': lambda *_: 0}})()",
    "other modules": f"""import builtins, json, time
{WORKS}
    json.dumps = json.loads = builtins.print = time.sleep = time.monotonic_ns = None
""",
    "prints megabytes": f"{WORKS}    import os\n    for _ in range(500):\n"
    "        os.write(1, b'\\x1b[31m\\x1b]0;t\\x07\\x9b\\xff' + b'y' * 1000); os.write(2, b'\\x1b[?1049h\\n\\r')",
    "speaks in our place": f"""{WORKS}
    import os
    for file in range(3, 30):
        try:
            os.write(file, b'x\\n{{"ev": "stage", "name": 3}}\\n{{"ev": "result", "path": 3, "bytes": "x"}}\\n'
                b'{{"ev": "progress", "stage": "recording", "done": "x", "total": null}}\\n')
        except OSError:
            pass
""",
}

NOT_OF_TORCH = ("prints megabytes", "speaks in our place")
"""Those that make no difference to what torch does itself."""


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """Every run by name, and the folder that they were in."""
    folder = tmp_path_factory.mktemp("faults")
    runs = {
        name: lambda name=name, fault=fault: own(
            folder / name, fault.source, *fault.words, environment=fault.environment
        ).ended()
        for name, fault in FAILING.items()
    }
    odd = {"CUDA_VISIBLE_DEVICES": "nonsense,-3"}
    runs |= {
        name: lambda name=name, source=source: own(
            folder / name, source, "--table", environment={**odd, **(LIGHT_TORCH if name in NOT_OF_TORCH else {})}
        ).ended()
        for name, source in FINE.items()
    }
    return all_of(runs), folder


@pytest.mark.parametrize("name", FAILING)
def test_a_recording_fails_with_a_sentence_and_leaves_nothing(ended, name):
    fault = FAILING[name]
    ended[0][name].failed(fault.code, fault.said)


@pytest.mark.parametrize("name", FINE)
def test_a_recording_is_whole_and_nothing_else_is_left(ended, name):
    run = ended[0][name]
    run.left_nothing()
    run.spoke_cleanly()
    assert run.code == 0, run
    assert sorted(run.files) == ["x.json", "x.txt"]
    trace = json.loads(run.files["x.json"])
    assert trace["tracetui"]["label"] == "own.step"
    steps = [event["name"] for event in trace["traceEvents"] if event["name"].startswith("ProfilerStep#")]
    assert len(set(steps)) == len(steps) == 3, "of one process, and of every step"


def test_what_fails_is_told_at_once(ended):
    """None of them waits for what it was to be killed for."""
    slow = {name: run.seconds for name, run in ended[0].items() if run.seconds > SOON + 120}
    assert not slow


def test_files_of_the_workloads_own_are_left_alone(ended):
    """A number of the recorder's pipe that the workload has closed and opened again is the workload's."""
    mine = sorted((ended[1] / "closes everything").glob("mine*"))
    assert len(mine) > 10
    assert all(path.read_bytes() == b"" for path in mine)


def test_details_are_the_end_of_what_was_printed(ended):
    told = ended[0]["prints megabytes and aborts"].stderr
    assert "Fatal Python error: Aborted" in told
    assert len(told) < 20_000


def test_compressed_it_is_whole_too(tmp_path):
    run = light(tmp_path, FINE["closes 0, 1 and 2"], out="../out/x.json.gz").ended()
    assert run.code == 0, run
    assert len(json.loads(gzip.decompress(run.files["x.json.gz"]))["traceEvents"]) >= 9
