"""Beside a user's own `workloads`, a file or a folder on the import path, every command and `record()` work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings

import pytest

import tracetui
from tests.support.paths import SAMPLES
from tests.support.waiting import PROCESS_SECONDS
from tests.support.workloads.children import LIGHT_TORCH, QUICK, needs_torch
from tracetui.cli.main import COMMANDS

TRACE = str(SAMPLES / "linear_eager_cpu.json.gz")
OTHER = str(SAMPLES / "mlp_eager_cpu.json.gz")
OWN = "NAME = 'workloads of the user'\n"
FORBIDDEN = "raise RuntimeError('the workloads of the user were imported')\n"
HELP = [[name, "--help"] for name in COMMANDS]
REAL = [
    (0, ["show", "summary", TRACE]),
    (0, ["check", TRACE, "cpu_ops > 0"]),
    (0, ["compare", TRACE, OTHER]),
    (0, ["cut", TRACE, "--steps", "2:3", "-o", "cut.json"]),
    (0, ["repair", TRACE, "-o", "whole.json"]),
    (0, ["report", TRACE, "-o", "report.html"]),
    (0, ["ranks", "run", "--jobs", "2"]),
    (0, ["merge", "run", "-o", "merged.json"]),
    (0, ["run", "own.py:step", "--no-open", "-o", "recorded.json"]),
    (0, ["workloads"]),
    (0, ["workloads", "linear", "--json"]),
    (0, ["cache"]),
    (0, ["demo"]),
    (0, ["open", TRACE]),
    (0, ["history", "run"]),
    (128, ["bisect", "--good", TRACE, "--bad", TRACE, "--", "true"]),
    (0, ["sql", TRACE, "select count(*) from ops"]),
    (0, ["skill"]),
    (0, ["explain", "cudaLaunchKernel"]),
    (0, ["whatif", OTHER, "cpu(aten::gelu, 0.5)"]),
    (0, ["config"]),
    # What needs a process, a port or a peer gets as far as saying so.
    (1, ["mcp", "missing"]),
    (1, ["verify", "missing.json"]),
    (3, ["attach", "0"]),
    (1, ["perfetto", "missing.json"]),
]
"""Each command as it is used, with its exit code."""
ALL = """
import json, sys
from tracetui.cli.main import main
codes = []
for words in json.loads(sys.argv[1]):
    try:
        codes.append(main(words))
    except SystemExit as end:
        codes.append(end.code)
print(json.dumps(codes), file=sys.stderr)
"""


@pytest.fixture(params=["a file", "a folder"])
def beside(request, tmp_path):
    """A folder with a `workloads` of the user, which says so when it is imported."""
    if request.param == "a file":
        (tmp_path / "workloads.py").write_text(FORBIDDEN)
    else:
        (tmp_path / "workloads").mkdir()
        for name in ("__init__", "api", "registry"):
            (tmp_path / "workloads" / f"{name}.py").write_text(FORBIDDEN)
    return tmp_path


def run(folder, *words, **more):
    """Run Python in a folder, whose modules come first."""
    environment = {**os.environ, **QUICK, "XDG_CACHE_HOME": str(folder / ".cache"), "PYTHONPATH": ".", **more}
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=environment,
        text=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PROCESS_SECONDS,
    )


def exit_codes(folder, commands, **more):
    """The exit codes of several commands in one process, none of which was a defect."""
    done = run(folder, "-c", ALL, json.dumps(commands), **more)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr and "of the user" not in done.stderr + done.stdout
    return json.loads(done.stderr.splitlines()[-1])


def test_every_command_tells_its_help(beside):
    assert exit_codes(beside, [["--help"], ["--version"], *HELP]) == [0] * (2 + len(COMMANDS))


def test_as_a_module_in_that_folder(beside):
    done = run(beside, "-m", "tracetui", "show", "summary", TRACE, PYTHONPATH="")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.full
def test_every_command_does_what_it_is_for(beside):
    assert {words[0] for _, words in REAL} == set(COMMANDS)
    (beside / "own.py").write_text("def step(): pass")
    (beside / "run").mkdir()
    for rank in (0, 1):
        (beside / "run" / f"rank{rank}.json").write_text(
            json.dumps(
                {
                    "distributedInfo": {"rank": rank, "world_size": 2},
                    "traceEvents": [
                        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 10, "dur": 5}
                    ],
                }
            )
        )
    path = os.pathsep.join([".", LIGHT_TORCH["PYTHONPATH"]])
    assert exit_codes(beside, [words for _, words in REAL], PYTHONPATH=path) == [code for code, _ in REAL]
    assert {"cut.json", "whole.json", "report.html", "merged.json", "recorded.json"} <= set(os.listdir(beside))


@pytest.mark.full
@needs_torch
def test_a_built_in_program_is_recorded(tmp_path):
    (tmp_path / "workloads.py").write_text(FORBIDDEN)
    done = run(tmp_path, "-m", "tracetui", "run", "linear", "--device", "cpu", "--verify", "--time-seconds", "0")
    assert (done.returncode, len(list(tmp_path.rglob("*.json.gz")))) == (0, 1), done.stderr


STEP = """
import workloads

def step():
    assert workloads.NAME == "workloads of the user"
"""


@pytest.mark.full
@pytest.mark.parametrize("is_folder", [False, True], ids=["a file", "a folder"])
@pytest.mark.parametrize("target", ["my.py:step", "my:step"])
def test_a_function_gets_the_workloads_beside_it(tmp_path, is_folder, target):
    path = tmp_path / "workloads" / "__init__.py" if is_folder else tmp_path / "workloads.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text(OWN)
    (tmp_path / "my.py").write_text(STEP)
    done = run(tmp_path, "-m", "tracetui", "run", target, "--no-open", "-o", "x.json", **LIGHT_TORCH)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "x.json").exists()


LOOP = """
import warnings; warnings.simplefilter("error")
import torch, tracetui
with tracetui.record("x.json", wait=0, warmup=1, active=1) as step:
    for number in range(3):
        torch.ones(2).add(1)
        step()
print(step.written, number)
"""


@pytest.mark.full
@needs_torch
def test_record_in_the_users_program(beside):
    done = run(beside, "-c", LOOP)
    assert (done.returncode, done.stdout.split()) == (0, ["True", "2"]), done.stderr
    assert (beside / "x.json").exists()


def loop(**options):
    """The iterations of a loop that is to be recorded, and what was warned of."""
    done = 0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with tracetui.record("x.json", **options) as step:
            for _ in range(3):
                done += 1
                step()
    assert not step.written
    return done, [str(each.message) for each in caught], [each.filename for each in caught]


@pytest.mark.parametrize("name", ["tracetui_workloads.recording.record", "torch", "torch.profiler"])
def test_what_cannot_be_imported_is_a_warning_and_the_loop_goes_on(monkeypatch, tmp_path, name):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, name, None)
    if name == "torch.profiler":
        monkeypatch.setitem(sys.modules, "torch", type(sys)("torch"))
    done, texts, files = loop(label="mine", active=1)
    assert done == 3 and len(texts) == 1
    assert texts[0].startswith("There is no trace x.json: ")
    assert files == [__file__], "the warning names the loop"
    assert os.listdir(tmp_path) == []


def test_what_cannot_be_imported_ends_no_loop_where_warnings_are_errors(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tracetui_workloads.recording.record", None)
    warnings.simplefilter("error")
    with tracetui.record("x.json") as step:
        step()
    assert "There is no trace x.json" in capsys.readouterr().err


def test_an_exception_of_the_loop_goes_through_a_recorder_that_is_not_there(monkeypatch):
    monkeypatch.setitem(sys.modules, "tracetui_workloads.recording.record", None)
    with pytest.warns(UserWarning), pytest.raises(ZeroDivisionError), tracetui.record("x.json"):
        raise ZeroDivisionError
