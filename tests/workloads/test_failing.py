"""Recordings that go wrong, each provoked in a real child: what is said, the exit code, and that nothing is left."""

from __future__ import annotations

import asyncio
import json
import os

import pytest
from tracetui_workloads.recording.launcher import Options, plan

from tests.support.workloads.children import LIGHT_TORCH, all_of, asked, followed, is_gone, needs_torch, own_function

pytestmark = [pytest.mark.full, needs_torch]

OWN = {
    "raises": "def step(): raise ValueError('not today\\n\\x1b[31msecond line')",
    "prints without end": "import torch\ndef step():\n    for _ in range(3000): print('y' * 1000)\n    torch.ones(1)",
    "no memory": "import torch\ndef step(): torch.empty(1 << 50)",
    "crash": "import ctypes\ndef step(): ctypes.string_at(0)",
    "leaves": "import os\ndef step(): os._exit(7)",
    "imports": "import nowhere_to_be_found\ndef step(): pass",
    "typo": "def other(): pass\ndef another(): pass",
    "fullgraph": (
        "import torch\n@torch.compile(fullgraph=True, backend='eager')\n"
        "def step():\n    torch._dynamo.graph_break()\n    return torch.ones(1) + 1"
    ),
    "nothing to compile": "def step(): return 1",
    "interrupts itself": "import os, signal\ndef step(): os.kill(os.getpid(), signal.SIGINT)",
    "wrong": (
        "from tracetui_workloads.api import Prepared\n"
        "def check(): raise AssertionError('Tensor-likes are not close!')\n"
        "def step() -> Prepared: return Prepared(lambda: None, 'wrong', check=check)"
    ),
}

OF_TORCH = ("no memory", "crash", "fullgraph", "nothing to compile")
"""Those that go wrong in torch, or look otherwise with it."""

WANTED = {
    "raises": ("error", 4, "ValueError while making the first call: not today (raises.py:1)"),
    "no memory": ("oom", 4, "it requested 4,194,304.0 GiB; this machine has"),
    "crash": ("crash", 4, "SIGSEGV"),
    "leaves": ("crash", 4, "exit code 7"),
    "imports": ("missing:nowhere_to_be_found", 3, "nowhere_to_be_found is not installed"),
    "typo": ("usage", 2, "it has other, another"),
    "fullgraph": ("compile", 4, "torch.compile failed"),
    "nothing to compile": ("compile", 4, "compiled nothing"),
    "interrupts itself": ("cancelled", 130, "Cancelled"),
    "wrong": ("wrong-result", 4, "Tensor-likes are not close!"),
    "no torch": ("missing:torch", 3, "PyTorch is not installed in"),
    "broken torch": ("missing:torch", 3, "libcudart.so.12"),
    "no compiler": ("missing:compiler", 3, "C++ compiler"),
    "no such device": ("device", 3, "There is no xpu device"),
    "odd device": ("usage", 2, "--device is"),
    "cudnn": ("unavailable", 3, "no cudnn backend on the CPU; there are math and flash"),
}


def fake_torch(folder, line):
    """An environment in which `import torch` runs one line."""
    (folder / "torch").mkdir(parents=True)
    (folder / "torch" / "__init__.py").write_text(line)
    return {"PYTHONPATH": str(folder)}


def requests(folder, out):
    """Everything that shall fail, or survive."""
    special: dict[str, dict] = {"fullgraph": {}, "nothing to compile": {"compile": True, "backend": "eager"}}
    made = {
        name: asked(own_function(folder / f"{name}.py", source), out / f"{name}.json", **special.get(name, {}))
        for name, source in OWN.items()
    }
    refused = {
        "no torch": Options(),
        "broken torch": Options(),
        "no compiler": Options(device="cpu", compile=True),
        "no such device": Options(device="xpu"),
        "odd device": Options(device="nonsense"),
    }
    made |= {name: plan("matmul_add", {}, options, out / f"{name}.json") for name, options in refused.items()}
    made["cudnn"] = plan("attention", {"impl": "sdpa", "backend": "cudnn"}, Options(device="cpu"), out / "cudnn.json")
    return made


@pytest.fixture(scope="module")
def failed(tmp_path_factory):
    """Every recording, two at a time."""
    folder, out = tmp_path_factory.mktemp("own"), tmp_path_factory.mktemp("out")
    missing = "raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')"
    broken = "raise ImportError('libcudart.so.12: cannot open shared object file')"
    environments = {name: LIGHT_TORCH for name in OWN if name not in OF_TORCH}
    environments |= {
        "no torch": fake_torch(folder / "missing", missing),
        "broken torch": fake_torch(folder / "broken", broken),
        "no compiler": {"CXX": "no-such-compiler"},
    }
    return asyncio.run(all_of(requests(folder, out), environments)), out


@pytest.mark.parametrize("name", WANTED)
def test_what_is_said_of_a_failure(failed, name):
    stories, _ = failed
    story, (kind, code, words) = stories[name], WANTED[name]
    failure = story.outcome.failure
    assert failure, story
    assert (failure.kind, failure.exit_code) == (kind, code), failure
    assert words in failure.message
    assert len(failure.message) < 700
    assert failure.message.isprintable(), "what a workload says must not steer the terminal"
    assert story.outcome.path is None


def test_nothing_is_left_of_what_failed(failed):
    stories, out = failed
    assert [path.name for path in out.iterdir()] == ["prints without end.json"]
    assert all(is_gone(story.pid) for story in stories.values())


def test_who_prints_without_end_is_recorded_and_little_of_it_kept(failed):
    outcome = failed[0]["prints without end"].outcome
    assert outcome.failure is None
    assert 1000 < len(outcome.log) <= 1 << 16


def test_a_crash_shows_the_call_that_crashed(failed):
    details = failed[0]["crash"].outcome.failure.details
    assert "Fatal Python error: Segmentation fault" in details
    assert "in step" in details
    assert len(details.splitlines()) <= 20


def test_hints_name_what_to_do(failed):
    hints = {name: story.outcome.failure.hint for name, story in failed[0].items() if story.outcome.failure}
    assert "--python" in hints["no torch"]
    assert "aot_eager" in hints["no compiler"]
    assert "--device cpu" in hints["no such device"]


def test_the_whole_traceback_is_kept_for_who_wants_it(failed):
    assert "raise ValueError" in failed[0]["raises"].outcome.failure.details


def test_a_python_that_is_not_there(tmp_path):
    story = asyncio.run(followed(asked("linear", tmp_path / "x.json"), python=str(tmp_path / "python")))
    assert (story.kind, story.outcome.exit_code) == ("usage", 2)
    assert not list(tmp_path.iterdir())


def test_a_python_that_cannot_run_it(tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'unknown option -P' >&2\nexit 2\n")
    python.chmod(0o755)
    story = asyncio.run(followed(asked("linear", tmp_path / "x.json"), python=str(python)))
    assert (story.kind, story.outcome.exit_code) == ("missing:python", 3)
    assert "unknown option -P" in str(story.outcome.failure)


@pytest.mark.parametrize(
    ("out", "reason"),
    [("folder", "it is a folder"), ("file/x.json", "is not a folder"), ("locked/x.json", "is not writable")],
)
def test_a_destination_that_cannot_be_is_told_before_anything_runs(tmp_path, out, reason):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "locked").mkdir(mode=0o500)
    if os.access(tmp_path / "locked", os.W_OK) and "locked" in out:
        pytest.skip("this user may write everywhere")
    story = asyncio.run(followed(asked("linear", tmp_path / out)))
    assert (story.kind, story.events) == ("destination", [])
    assert reason in str(story.outcome.failure)


def test_a_folder_that_vanishes_is_made_again(tmp_path):
    source = f"import shutil, torch\ndef step():\n    shutil.rmtree({str(tmp_path / 'out')!r}, True)\n    torch.ones(1)"
    (tmp_path / "out").mkdir()
    request = asked(own_function(tmp_path / "own.py", source), tmp_path / "out" / "x.json", cold=True)
    story = asyncio.run(followed(request, environment=LIGHT_TORCH))
    assert story.outcome.path
    assert json.loads(story.outcome.path.read_text())["tracetui"]["label"] == "own.step"


def test_a_module_beside_the_caller_does_not_hide_ours(tmp_path, monkeypatch):
    (tmp_path / "tracetui_workloads.py").write_text("raise RuntimeError('the wrong one')")
    (tmp_path / "json.py").write_text("raise RuntimeError('the wrong one')")
    (tmp_path / "mine.py").write_text("import torch\ndef step(): torch.ones(1)")
    monkeypatch.chdir(tmp_path)
    request = asked("mine:step", tmp_path / "x.json", active=1)
    story = asyncio.run(followed(request, environment=LIGHT_TORCH))
    assert story.outcome.failure is None, story.outcome.failure
