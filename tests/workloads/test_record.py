"""`record()` around a loop of one's own; the loops run in one process of their own, for torch is in no test's."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.support.paths import IMPORT_PATH
from tests.support.waiting import PROCESS_SECONDS
from tests.support.workloads.children import QUICK, content_of, events_of, needs_torch
from tracetui import load
from tracetui.linking.steps import steps

pytestmark = [pytest.mark.full, needs_torch]

LOOPS = """
import json, os, resource, signal, sys, warnings
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
import torch
from tracetui import record

x = torch.ones(4, 4)
told, said = {}, {}

def loop(name, steps, out=None, fails_at=None, action="always", **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter(action)
        try:
            with record(out or f"{name}.json.gz", **options) as step:
                for number in range(steps):
                    x @ x
                    if number == fails_at:
                        raise ValueError("mine")
                    step()
                    if step.written:
                        told.setdefault(name, number)
                told.setdefault(name, "went on")
        except Exception as error:
            told[name] = f"{type(error).__name__}: {error}"
    said[name] = [str(each.message) for each in caught if "profiler" not in str(each.message)]

loop("whole", 9, out="deep/er/whole.json.gz", label="train", params={"lr": 0.1})
loop("exact", 2, out="exact.json", label="mine", wait=0, warmup=1, active=1, shapes=False)
loop("early", 2)
loop("again", 2, out="exact.json", label="again", wait=0, warmup=1, active=1, shapes=False)
loop("replaced", 2, out="exact.json", label="mine", wait=0, warmup=1, active=1, shapes=False, replace=True)
loop("raises", 9, fails_at=3)
loop("odd", 1, active=0)
loop("nowhere", 5, out="/proc/nowhere/x.json")
home = os.getcwd()
with record("forked.json") as step:
    for number in range(6):
        x @ x
        if number == 2:
            os.chdir("/")
        if number == 3 and not (child := os.fork()):
            break
        step()
if not child:
    os._exit(0)
told["child"] = os.waitpid(child, 0)[1]
os.chdir(home)
os.mkfifo("fifo")
loop("special", 5, out="fifo")
os.unlink("fifo")
loop("short", 3)
loop("strict", 2, action="error")

real = torch.profiler.profile.step
def fail(self):
    raise RuntimeError("a broken recorder")
torch.profiler.profile.step = fail
loop("broken", 5)
torch.profiler.profile.step = real

resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))
loop("full", 5, out="full.json")
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

os.environ.update(RANK="1", WORLD_SIZE="2")
loop("many", 5, out="many.json")
os.environ.update(RANK="0", WORLD_SIZE="1")
loop("alone", 5, out="alone.json")
print(json.dumps([told, said]))
"""


@pytest.fixture(scope="module")
def loops(tmp_path_factory):
    """What became of several loops, the folder they ran in, the warnings of each, and standard error."""
    folder = tmp_path_factory.mktemp("record")
    result = subprocess.run(
        [sys.executable, "-c", LOOPS, "--mine"],
        cwd=folder,
        text=True,
        capture_output=True,
        timeout=PROCESS_SECONDS,
        env={**os.environ, **QUICK, "PYTHONPATH": IMPORT_PATH},
    )
    assert result.returncode == 0, result.stderr
    told, said = json.loads(result.stdout.splitlines()[-1])
    return told, folder, said, result.stderr


def names(path):
    """Names of the annotations and operators of a trace."""
    return [event["name"] for event in events_of(path) if event.get("cat") in ("user_annotation", "cpu_op")]


def test_the_trace_is_there_before_the_loop_ends(loops):
    told, folder, *_ = loops
    assert told["whole"] == 4, "wait 1, warm up 1, record 3"
    found = names(folder / "deep" / "er" / "whole.json.gz")
    assert found.count("train") == found.count("aten::mm") == 3
    assert {f"ProfilerStep#{number}" for number in (2, 3, 4)} <= set(found)


def test_tracetui_opens_what_it_recorded(loops):
    trace = load(str(loops[1] / "deep" / "er" / "whole.json.gz"))
    assert steps(trace).number.tolist() == [2, 3, 4]
    assert trace.names.find("train") >= 0
    assert not trace.quality.notes


def test_what_it_says_of_itself(loops):
    metadata = content_of(loops[1] / "deep" / "er" / "whole.json.gz")["tracetui"]
    assert (metadata["workload"], metadata["params"], metadata["argv"]) == ("train", {"lr": 0.1}, ["-c", "--mine"])
    assert metadata["options"]["shapes"] is True
    assert {"device", "torch", "python", "threads", "gpu"} <= metadata.keys()
    assert "seed" not in metadata, "not ours to know"


def test_a_schedule_of_its_own(loops):
    told, folder, *_ = loops
    assert told["exact"] == 1
    assert names(folder / "exact.json").count("mine") == 1
    assert content_of(folder / "exact.json")["traceName"] == "exact.json"


def test_a_loop_that_ends_before_anything_is_recorded(loops):
    told, _, said, _ = loops
    assert told["early"] == "went on"
    [warning] = said["early"]
    assert warning.startswith("There is no trace early.json.gz: The loop made 2 steps")


def test_a_loop_that_ends_while_it_is_recorded(loops):
    folder = loops[1]
    assert loops[2]["short"] == [
        "The loop ended after 3 steps: the trace holds 1 of 3, and the start of the next.",
    ]
    assert names(folder / "short.json.gz").count("aten::mm") == 1


def test_what_the_program_raises_goes_through(loops):
    assert loops[0]["raises"] == "ValueError: mine"


def test_an_impossible_schedule(loops):
    assert loops[0]["odd"].startswith("BadRequest")


def test_a_place_that_cannot_be_written(loops):
    assert loops[0]["nowhere"] == "went on"
    [warning] = loops[2]["nowhere"]
    assert warning.startswith("There is no trace x.json: ")
    assert "/proc/nowhere" in warning


def test_a_full_disk_is_a_warning(loops):
    assert loops[0]["full"] == "went on"
    [warning] = loops[2]["full"]
    assert warning.startswith("There is no trace full.json: ")


def test_a_profiler_that_fails_is_a_warning(loops):
    assert loops[0]["broken"] == "went on"
    assert loops[2]["broken"] == ["There is no trace broken.json.gz: a broken recorder"]


def test_where_warnings_are_errors_the_loop_goes_on(loops):
    assert loops[0]["strict"] == "went on"
    assert "tracetui: There is no trace strict.json.gz: The loop made 2 steps" in loops[3]


def test_each_rank_writes_its_own_file(loops):
    told, folder, *_ = loops
    assert (told["many"], told["alone"]) == (4, 4)
    assert content_of(folder / "many-rank1.json")["distributedInfo"] == {"rank": 1, "world_size": 2}
    assert "distributedInfo" not in content_of(folder / "alone.json")


def test_a_program_that_forks_and_goes_elsewhere_has_one_trace(loops):
    told, folder, *_ = loops
    assert told["child"] == 0
    assert names(folder / "forked.json").count("aten::mm") == 3


def test_a_second_recording_gets_a_number_and_says_so(loops):
    folder = loops[1]
    assert loops[2]["again"] == ["exact.json exists: the trace is in exact-2.json; replace=True replaces it."]
    assert "again" in names(folder / "exact-2.json")
    assert "again" not in names(folder / "exact.json")


def test_a_pipe_is_not_replaced_by_a_trace(loops):
    assert loops[0]["special"] == "went on"
    assert "fifo cannot be written: it is not a regular file" in loops[2]["special"][0]


def test_nothing_else_is_left(loops):
    assert sorted(path.name for path in loops[1].rglob("*") if path.is_file()) == [
        "alone.json",
        "exact-2.json",
        "exact.json",
        "forked.json",
        "many-rank1.json",
        "short.json.gz",
        "whole.json.gz",
    ]
