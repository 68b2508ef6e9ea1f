"""What the user says about a trace means the same to every command that opens one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tracetui.cli.main import main
from tracetui.errors import UsageError
from tracetui.linking.steps import steps
from tracetui.opening.trace_opening import OpenOptions, open_trace
from tracetui.reading.load import load

BOTH = ["--steps-by", "train", "--device", "H100"]


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A trace without profiler steps, with four runs of `train` that launch a kernel each; the GPU is not described."""
    events: list[dict[str, object]] = []
    for number in range(4):
        at = 1000 * number
        place = {"ph": "X", "pid": 1, "tid": 1}
        shape = {"grid": [64, 1, 1], "block": [128, 1, 1], "registers per thread": 32, "shared memory": 0}
        args = {"correlation": number, "stream": 7, "device": 0, **shape}
        gpu = {"ph": "X", "pid": 0, "tid": 7, "args": args}
        events += [
            {**place, "cat": "user_annotation", "name": "train", "ts": at, "dur": 800 + number},
            {**place, "cat": "cpu_op", "name": "aten::mm", "ts": at + 10, "dur": 100},
            {**place, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": at + 20, "dur": 10}
            | {"args": {"correlation": number}},
            {**gpu, "cat": "kernel", "name": "mine", "ts": at + 40, "dur": 50 + number},
        ]
    file = tmp_path / "t.json"
    file.write_text(json.dumps({"traceEvents": events}))
    return str(file)


def test_steps_and_device_are_in_the_trace_and_the_file_stays(path: str) -> None:
    trace = open_trace(path, OpenOptions("train", "H100"))
    assert steps(trace).number.tolist() == [1, 2, 3, 4]
    assert [device.name for device in trace.devices] == ["H100 SXM"]
    assert len(steps(load(path))) == 0 and not load(path).devices


@pytest.mark.parametrize("options", [OpenOptions("mm"), OpenOptions(device="Voodoo 2"), OpenOptions("train", "Voodoo")])
def test_what_a_trace_cannot_have_is_refused(path: str, options: OpenOptions) -> None:
    with pytest.raises(UsageError):
        open_trace(path, options)


def test_a_device_may_be_chosen_against_the_file(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = Path(path)
    whole = json.loads(file.read_text())
    file.write_text(json.dumps({"deviceProperties": [{"id": 0, "name": "NVIDIA \x1b[31mB200"}], **whole}))
    assert main(["show", "summary", path, "--device", "H100", "--format", "json"]) == 0
    out, err = capsys.readouterr()
    assert "H100 SXM (--device)" in out
    assert "--device: all GPUs are taken to be H100 SXM, though the file says NVIDIA" in err
    assert "\x1b" not in out + err
    assert main(["show", "summary", path, "--format", "json"]) == 0
    out, err = capsys.readouterr()
    assert "B200" in out and "--device" not in out + err


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main([*words, *BOTH]) == 0
    return capsys.readouterr().out


@pytest.mark.full
def test_every_command_that_opens_a_trace_takes_both(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = json.loads(printed(capsys, "show", "kernels", path, "--step", "3", "--format", "json"))["rows"]
    assert row["dur_us"] == 52 and row["occupancy_pct"] is not None
    assert "1 of 1 holds" in printed(capsys, "check", f"{path}#2", "dur_us == 801us")
    compared = json.loads(printed(capsys, "compare", path, "#1", "#4", "--format", "json"))
    assert (compared["a"]["numbers"], compared["b"]["numbers"]) == ([1], [4])
    for words in (["report", path, "--step", "3"], ["report", f"{path}#1", f"{path}#4"]):
        assert printed(capsys, *words, "-o", "-").startswith("<!doctype html>")


def test_a_part_is_cut_by_the_steps_that_were_chosen(path: str, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    assert main(["cut", path, "--steps", "2", "--steps-by", "train", "-o", str(out)]) == 0
    assert [event["dur"] for event in json.loads(out.read_text())["traceEvents"] if event["name"] == "train"] == [801]
