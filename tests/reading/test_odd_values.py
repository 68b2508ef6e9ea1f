"""Values that a well-behaved writer never writes: each ends in a trace whose panes can all be made."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.fuzz.properties import check_every_pane
from tracetui.kernel_names.text import demangled
from tracetui.model.trace import Kind, LaneKind, Trace
from tracetui.reading.json_repair import literal_paths
from tracetui.reading.lanes import MAX_SERIES
from tracetui.reading.load import load
from tracetui.ui.trace.slice_description import facts_of_args

Panes = Callable[[bytes], Trace]
EPOCH = 1.7e15
DEVICE = {
    "id": 0, "name": "NVIDIA H100", "totalGlobalMem": 85_000_000_000, "computeMajor": 9, "computeMinor": 0,
    "warpSize": 32, "numSms": 132, "regsPerMultiprocessor": 65_536, "sharedMemPerMultiprocessor": 233_472,
}  # fmt: skip


def op(ts: float) -> dict[str, Any]:
    """An operator of 10 µs."""
    return {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 9, "tid": 1, "ts": ts, "dur": 10, "args": {}}


def call(ts: float, number: int) -> dict[str, Any]:
    """A launch."""
    args = {"correlation": number}
    return {
        "ph": "X",
        "cat": "cuda_runtime",
        "name": "cudaLaunchKernel",
        "pid": 9,
        "tid": 1,
        "ts": ts,
        "dur": 2,
        "args": args,
    }


def kernel(ts: float, number: int, device: int = 0, **args: Any) -> dict[str, Any]:
    """A kernel of 5 µs."""
    every = {"correlation": number, "grid": [8, 1, 1], "block": [128, 1, 1], "registers per thread": 32, **args}
    return {"ph": "X", "cat": "kernel", "name": "gemm", "pid": device, "tid": 7, "ts": ts, "dur": 5, "args": every}


def events(at: float = 0, args: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """Two operators that launch a kernel each."""
    first, second = kernel(at + 120, 1, **(args or {})), kernel(at + 150, 2, **(args or {}))
    return [op(at + 100), call(at + 102.5, 1), first, op(at + 130), call(at + 132, 2), second]


def document(listed: list[dict[str, Any]], **device: Any) -> bytes:
    """A file with these events."""
    return json.dumps({"schemaVersion": 1, "deviceProperties": [DEVICE | device], "traceEvents": listed}).encode()


@pytest.fixture
def panes(tmp_path: Path) -> Callable[[bytes], Trace]:
    """A function from the bytes of a file to its trace, once all its panes could be made."""

    def made(data: bytes) -> Trace:
        path = tmp_path / "odd.json"
        path.write_bytes(data)
        trace = load(str(path))
        check_every_pane(trace)
        return trace

    return made


def test_a_counter_whose_process_is_a_list(panes: Panes) -> None:
    trace = panes(document([*events(), {"ph": "C", "name": "c", "pid": [1, 2], "ts": 100, "args": {"v": 1}}]))
    assert [(counter.pid, counter.value.tolist()) for counter in trace.counters] == [("[1,2]", [1.0])]


def test_a_counter_of_four_hundred_digits_is_told_and_the_others_stay(panes: Panes) -> None:
    samples = [{"ph": "C", "name": "c", "pid": 1, "ts": 100 + n, "args": {"v": 777 + n}} for n in range(2)]
    trace = panes(document([*events(), *samples]).replace(b"777", b"7" * 400))
    assert [counter.value.tolist() for counter in trace.counters] == [[778.0]]
    assert trace.quality.notes == ["1 value of a counter is beyond every number and not shown."]


def test_series_beyond_reason_are_told(tmp_path: Path) -> None:
    args = {f"s{n}": 1 for n in range(MAX_SERIES + 5)}
    path = tmp_path / "odd.json"
    path.write_bytes(document([*events(), {"ph": "C", "name": "c", "pid": 1, "ts": 1, "args": args}]))
    trace = load(str(path))
    assert len(trace.counters) == MAX_SERIES
    assert "5 values of further ones are not shown" in trace.quality.notes[0]


@pytest.mark.parametrize("ts", [9.2e15, -9.2e15, 9.3e15, 1e18, 1e300, 8e15, -8e15])
@pytest.mark.full
def test_a_time_that_cannot_be_is_none(panes: Panes, ts: float) -> None:
    trace = panes(document([*events(EPOCH), op(ts), kernel(ts, 3)]))
    assert (len(trace.slices), trace.quality.dropped) == (6, 2)
    assert trace.window[1] == 55_000


@pytest.mark.parametrize("ts", [0, 1.0, 999.5, 2.99e15, -2.99e15])
@pytest.mark.parametrize("many", [1, 2])
@pytest.mark.full
def test_a_few_kernels_far_from_all_others_do_not_make_the_window(panes: Panes, ts: float, many: int) -> None:
    trace = panes(document([*events(EPOCH), *(kernel(ts + 10 * number, 3 + number) for number in range(many))]))
    assert len(trace.slices) == 6
    assert trace.window[1] == 55_000
    assert "days away from all the others" in trace.quality.notes[0]
    assert trace.quality.dropped == many


def test_a_timeline_of_weeks_keeps_its_quiet_days(panes: Panes) -> None:
    day = 86_400e6
    busy = [op(EPOCH + 20 * number) for number in range(50)]
    quiet = [op(EPOCH + number * 3 * day) for number in range(1, 9)]
    trace = panes(document([*busy, *quiet]))
    assert (len(trace.slices), trace.quality.dropped) == (58, 0)


@pytest.mark.parametrize("apart", [1e12, 1e14, 2.9e15])
@pytest.mark.full
def test_times_far_apart_on_many_devices(panes: Panes, apart: float) -> None:
    listed = []
    for device in range(150):
        at = 1000 + apart * (device % 7) / 7
        for number in (2 * device, 2 * device + 1):
            listed += [call(at + 10 * number, number), kernel(at + 10 * number + 5, number, device)]
    trace = panes(document(listed))
    assert len(trace.slices) == 600


def crossed(keys: Sequence[str], values: Sequence[object]) -> list[Any]:
    """Each key with each value; in the quick tier each value once, and each key."""
    return [
        pytest.param(key, value, marks=[pytest.mark.full] * ((number - index) % len(keys) > 0))
        for number, value in enumerate(values)
        for index, key in enumerate(keys)
    ]


@pytest.mark.parametrize(
    ("key", "value"),
    crossed(
        ["regsPerMultiprocessor", "sharedMemPerMultiprocessor", "totalGlobalMem", "numSms", "id"],
        [10**30, -(10**30), 1e30, 2**63, 2**53 + 1, "NaN", None, [], True],
    ),
)
@pytest.mark.full
def test_properties_of_a_device_beyond_reason(panes: Panes, key: str, value: object) -> None:
    panes(document(events(), **{key: value}))


@pytest.mark.parametrize(
    ("key", "value"),
    crossed(
        ["est. achieved occupancy %", "registers per thread", "shared memory", "grid", "bytes"],
        ["N/A", "NaN", None, [], {}, 1e30, 2**62, -1, float("nan"), float("inf"), [2**62] * 3],
    ),
)
@pytest.mark.full
def test_odd_arguments_of_kernels(panes: Panes, key: str, value: object) -> None:
    trace = panes(document(events(args={key: value})))
    shown = dict(facts_of_args(trace.event_of(int(trace.slices.of_kind(Kind.KERNEL)[0]))["args"]))
    assert not any("None" in text or "nan %" in text or "inf %" in text for text in shown.values())


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("N/A", "N/A"),
        ("NaN", "NaN"),
        ("nan", "NaN"),
        ("-nan(ind)", "NaN"),
        ("Infinity", "Infinity"),
        ("-inf", "-Infinity"),
        ("undefined", "undefined"),
        ("12.5", "12.5 %"),
    ],
)
@pytest.mark.full
def test_a_value_that_is_no_number_is_shown_as_what_it_is(panes: Panes, word: str, shown: str) -> None:
    key = "est. achieved occupancy %"
    trace = panes(document(events(args={key: "??"})).replace(b'"??"', word.encode()))
    row = int(trace.slices.of_kind(Kind.KERNEL)[0])
    assert dict(facts_of_args(trace.event_of(row)["args"]))["occupancy (est.)"] == shown


@pytest.mark.parametrize("start", ["_Z1fI", "_Z1fIJ", "_Z1fIN1aI", "_Z1fINS_"])
@pytest.mark.parametrize("more", ["J", "N1aI", "LJ", "PJ"])
@pytest.mark.full
def test_a_mangled_name_that_nests_without_end(panes: Panes, start: str, more: str) -> None:
    assert demangled(start + more * 30_000) is None
    panes(document([*events(), kernel(200, 3) | {"name": start + more * 3_000}]))


@pytest.mark.parametrize("path", [r"D:\new\bench.py", r"C:\temp\fuse\render.py", r"c:\Users\x\new.py", r"D:\bin\u0041"])
@pytest.mark.parametrize("is_damaged", [False, True])
@pytest.mark.full
def test_a_path_whose_backslashes_are_not_escaped_stays_a_path(panes: Panes, path: str, is_damaged: bool) -> None:
    frame = op(160) | {"cat": "python_function", "name": "??", "args": {"Call stack": "f;??(3): main"}}
    data = document([*events(), frame, op(300)]).replace(b"??", path.encode())
    trace = panes(data.replace(b'"dur": 10, "args": {"Call', b'"dur": nan, "args": {"Call') if is_damaged else data)
    row = int(trace.slices.of_kind(Kind.PYTHON)[0])
    assert trace.name_of(row) == path
    assert trace.event_of(row)["args"]["Call stack"] == f"f;{path}(3): main"
    assert trace.quality.repaired == 1
    assert len(trace.slices) == 8


def test_new_lines_and_escaped_paths_stay_what_they_are(
    panes: Panes,
) -> None:
    for text in (r"D:\\new\\bench.py", r"of a:\nb", r"Error:\nfoo", r"a\tb", r"x:\/y", r"\"D:\"", r"a: \n"):
        assert literal_paths(f'"{text}"') == f'"{text}"'


def test_a_legacy_export_of_autograd_is_a_trace_of_pytorch_with_a_device(panes: Panes) -> None:
    def function(name: str, process: str, ts: float, **more: Any) -> dict[str, Any]:
        return {"name": name, "ph": "X", "ts": ts, "dur": 4, "tid": 0, "pid": process, "args": {}, **more}

    listed = [function("aten::mul", "CPU functions", 10, tid=1), function("aten::mul", "CUDA functions", 20)]
    trace = panes(json.dumps(listed).encode())
    assert trace.is_torch
    assert [(lane.process, lane.kind) for lane in trace.lanes] == [
        ("CPU functions", LaneKind.CPU),
        ("GPU 0", LaneKind.GPU),
    ]
    assert trace.slices.kind[np.argsort(trace.slices.start)].tolist() == [Kind.CPU_OP, Kind.KERNEL]


def test_an_escape_behind_a_colon_is_no_path():
    r"""`"A:\u001f"` is JSON for a letter, a colon and a control sign; `"D:\new"` can only be a path."""
    assert literal_paths(r'"A:\u001f" "D:\new\u00.py"') == r'"A:\u001f" "D:\\new\\u00.py"'


def test_arguments_beside_a_field_of_another_type_stay_as_they_stand(panes: Panes) -> None:
    listed = events(args={"block": [128, 1, 1]})
    listed[0]["name"] = 5
    trace = panes(document([*listed, {"ph": "X", "ts": "160", "pid": [1], "args": True}]))
    assert trace.work_args.strings == ["[8, 1, 1]", "[128, 1, 1]"]
    assert sorted(map(trace.name_of, range(len(trace.slices))))[:2] == ["5", "[No name]"]
