"""Sums by key as torch counts them, and costs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.build import Event, make_trace, op
from tests.support.newest_torch import NoNewerTorch, newest_torch
from tests.support.paths import IMPORT_PATH, ROOT, SAMPLES
from tests.support.slow_key_averages import slow_key_averages
from tests.support.traces import loaded
from tracetui.model.table import Cell, Table
from tracetui.model.trace import Kind, LaneKind, Trace
from tracetui.operators.costs import Costs, costs, is_overlapped, self_cpu_sum
from tracetui.operators.key_averages import KIND_WORDS, Averages, averages, grouped, some_member
from tracetui.operators.ops import torch_time
from tracetui.panes import PANES
from tracetui.reading.load import load
from tracetui.reading.load_progress import collector_off

QUICK = (
    "mlp_training",
    "loader",
    "loader_worker",
    "split_stack",
    "combined",
    "nested",
    "threads",
    "across",
    "stacks",
    "stacks_nested",
    "memory",
    "loose_memory",
    "collective",
)
PYTHON_EXPORT = "exported_twice"
"""Program whose recording is written by torch's exporter in Python too."""
WITH_FRAMES = ("stacks", "stacks_nested")
WITH_SHAPES = ("mlp_training", "loader", "split_stack", "combined", "nested", "collective", "compiled")
TIMES = ("self_cpu", "cpu_total", "self_device", "device_total")
ON_DEVICE = {"kernel", "memcpy", "memset", "GPU annotation", "wait"}


def record(folder: Path, *names: str, python: str = "") -> Path:
    """Record programs of `tests/support/programs.py` in a process of their own, with the torch of an interpreter."""
    if not python and find_spec("torch") is None:
        pytest.skip("needs torch to record a trace and its table")
    command = [python or sys.executable, "-W", "ignore", "-m", "tests.support.programs", str(folder), *names]
    environment = os.environ | {"PYTHONPATH": IMPORT_PATH}
    subprocess.run(command, check=True, cwd=ROOT, env=environment, capture_output=True, timeout=600)
    return folder


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the traces of all quick programs and torch's tables of them."""
    return record(tmp_path_factory.mktemp("recorded"), *QUICK)


def nanoseconds(value: Any) -> int:
    """A cell in whole ns; torch prints 0 for what it has not."""
    return 0 if value is None else round(1000 * value)


def our_rows(table: Table) -> list[tuple[Any, ...]]:
    return [
        (row["name"], "annotation" in str(row["kind"]), row["calls"], *(nanoseconds(row[f"{key}_us"]) for key in TIMES))
        for row in table.rows()
    ]


def torch_rows(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(row["name"], row["annotation"], row["calls"], *(row[key] for key in TIMES)) for row in rows]


def check_events(folder: Path, name: str, version: str = "") -> None:
    """Row by row, in torch's order, and the line below; the trace names the version where one is given."""
    tables = json.loads((folder / f"{name}.table.json").read_text())
    trace = load(str(folder / f"{name}.json"))
    if version:
        trace = replace(trace, metadata={**trace.metadata, "tracetui": {"torch": version}})
    by = "frame" if name in WITH_FRAMES and not version else "event"
    table = PANES["ops"].build(trace, by=by)
    assert our_rows(table) == torch_rows(tables["event"])
    total = torch_time(sum(row["self_cpu"] for row in tables["event"]))
    assert f"Self CPU time total: {total}." in table.note
    (line,) = tables["lines"]
    assert amount(total) == pytest.approx(amount(line.removeprefix("Self CPU time total: ")), abs=0.0011)


def amount(text: str) -> float:
    """The number of a printed duration; both sides use the same unit."""
    match = re.fullmatch(r"(-?\d+\.\d{3})(us|ms|s)", text)
    assert match is not None
    return float(match[1])


def check_shapes(folder: Path, name: str) -> None:
    """The same rows grouped by input shapes, in whatever order."""
    tables = json.loads((folder / f"{name}.table.json").read_text())
    table = PANES["ops"].build(load(str(folder / f"{name}.json")), by="shape")
    ours = [(row["input_shapes"], *rest) for row, rest in zip(table.rows(), our_rows(table), strict=True)]
    theirs = [(row["shapes"], *rest) for row, rest in zip(tables["shape"], torch_rows(tables["shape"]), strict=True)]
    assert sorted(ours) == sorted(theirs)


@pytest.mark.full
@pytest.mark.parametrize("name", QUICK)
def test_rows_are_those_that_torch_prints(recorded: Path, name: str) -> None:
    check_events(recorded, name)


@pytest.mark.full
@pytest.mark.parametrize("name", [name for name in QUICK if name in WITH_SHAPES])
def test_rows_by_input_shapes_are_those_that_torch_prints(recorded: Path, name: str) -> None:
    check_shapes(recorded, name)


@pytest.mark.full
def test_programs_show_what_they_are_here_for(recorded: Path) -> None:
    def rows(name: str) -> dict[str, dict[str, Any]]:
        tables = json.loads((recorded / f"{name}.table.json").read_text())
        return {row["name"]: row for row in tables["event"]}

    assert rows("nested")["a"]["calls"] == 2  # of six
    assert rows("nested")["b"]["calls"] == 6
    assert rows("loose_memory")["[memory]"]["calls"] > 0
    (collective,) = [row for name, row in rows("collective").items() if name.startswith("gloo:")]
    assert collective["annotation"]
    assert (collective["self_cpu"], collective["cpu_total"] > 0) == (0, True)
    assert any("DataLoader" in name for name in rows("loader_worker"))
    assert any(name.startswith("tests/support/programs.py") for name in rows("stacks"))
    unfinished = json.loads((recorded / "across.json").read_text())["traceEvents"]
    assert [event["name"] for event in unfinished if event.get("args", {}).get("finished") is False] == ["across"]
    shapes = json.loads((recorded / "mlp_training.table.json").read_text())["shape"]
    assert len(shapes) > len(rows("mlp_training"))


@pytest.mark.full
def test_a_list_of_tensors_has_no_shape_in_the_key(recorded: Path) -> None:
    rows = PANES["ops"].build(load(str(recorded / "split_stack.json")), by="shape").rows()
    assert {row["input_shapes"] for row in rows if row["name"] == "aten::stack"} == {"[[], []]"}


@pytest.mark.full
def test_without_recorded_shapes_there_are_none_to_group_by(recorded: Path) -> None:
    table = PANES["ops"].build(load(str(recorded / "threads.json")), by="shape")
    assert table["input_shapes"].nulls().all()
    assert "record_shapes=True" in table.note


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.txt")), ids=lambda path: path.stem)
def test_samples_read_as_the_tables_printed_beside_them(path: Path) -> None:
    *lines, total = path.read_text().splitlines()
    printed = [re.split(r"  +", line.strip()) for line in lines if not line.startswith("---")][1:]
    table = PANES["ops"].build(load(str(path.with_suffix(".json.gz"))), by="event")
    ours = [(name, torch_time(own), torch_time(cpu), calls) for name, _, calls, own, cpu, *_ in our_rows(table)]
    assert sorted(ours) == sorted((name, own, cpu, int(calls)) for name, _, own, _, cpu, _, calls in printed)
    assert f"{total}." in table.note


@pytest.mark.full
def test_rows_of_a_compiled_function_are_those_that_torch_prints(tmp_path: Path) -> None:
    record(tmp_path, "compiled")
    check_events(tmp_path, "compiled")
    check_shapes(tmp_path, "compiled")


# One of each kind: ids of operators that are trusted and that are not, NCCL, ROCm, frames, graphs. The slow script
# makes an object of every event: of the two largest kinds, d03 and d06, others show the same, the frames d07 and d10.
SHARED_TRACES = (
    ("d04_a100_8rank_6steps_occ_nccl.json.gz", "event"),
    ("d05a_a100_megatron_tp8_rank0.json", "event"),
    ("d05a_a100_megatron_tp8_rank0.json", "shape"),
    ("d07_mi300x_8rank_3steps_stack.json.gz", "event"),
    pytest.param("d07_mi300x_8rank_3steps_stack.json.gz", "frame", marks=pytest.mark.full),
    ("d08_b200_cuda13_ep_moe.json", "event"),
    ("d08_b200_cuda13_ep_moe.json", "shape"),
    ("d10_cudagraph_stack.json", "event"),
    ("d10_cudagraph_stack.json", "frame"),
    ("d16_b300_tiny.json.gz", "event"),
    ("d16_b300_tiny.json.gz", "shape"),
)


@pytest.mark.full
@pytest.mark.parametrize(("name", "by"), SHARED_TRACES)
def test_rows_of_real_traces_are_those_of_the_rules(shared_trace, name: str, by: str) -> None:
    path = shared_trace(name)
    with collector_off():
        expected = slow_key_averages(path, frames=by == "frame", by_shape=by == "shape")
    table = PANES["ops"].build(load(str(path)), by=by)
    ours = {}
    for row, values in zip(table.rows(), our_rows(table), strict=True):
        if row["kind"] != "allocation":
            key = (row["name"], row["kind"] in ON_DEVICE, values[1], row.get("input_shapes", ""))
            ours[key] = values[2:]
    if by == "shape":
        assert ours == {key: row for key, row in expected.rows.items() if not key[1]}
    else:
        assert list(ours.items()) == list(expected.rows.items())
    assert f"Self CPU time total: {torch_time(expected.self_cpu)}." in table.note
    assert f"Self CUDA time total: {torch_time(expected.self_device)}." in table.note


@pytest.mark.parametrize("name", ["d05a_a100_megatron_tp8_rank0.json", "d08_b200_cuda13_ep_moe.json"])
def test_the_plain_pane_has_the_same_rows_without_the_device(shared_trace, name: str) -> None:
    trace = loaded(shared_trace(name))
    plain, every = PANES["ops"].build(trace), PANES["ops"].build(trace, by="event")
    kinds = [row["kind"] for row in every.rows()]
    on_threads = [
        row for row, kind in zip(our_rows(every), kinds, strict=True) if kind not in {*ON_DEVICE, "allocation"}
    ]
    assert sorted(our_rows(plain)) == sorted(on_threads)
    assert plain.note == every.note


@pytest.fixture(scope="module")
def newest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A folder with the same of the newest torch that installs here, and its version."""
    with ExitStack() as stack:
        try:
            torch = stack.enter_context(newest_torch())
        except NoNewerTorch as reason:
            pytest.skip(str(reason))
        folder = record(tmp_path_factory.mktemp("newest"), *QUICK, PYTHON_EXPORT, python=torch.python)
        yield folder, torch.version


@pytest.mark.nightly
def test_rows_are_those_that_the_newest_torch_prints(newest: tuple[Path, str]) -> None:
    folder, version = newest
    for name in QUICK:
        check_events(folder, name, version)
    for name in set(QUICK) & set(WITH_SHAPES):
        check_shapes(folder, name)


@pytest.mark.nightly
def test_both_exporters_of_the_newest_torch_write_the_same(newest: tuple[Path, str]) -> None:
    """`export_chrome_trace(use_python_export=True)` beside Kineto's own, of one recording."""
    of_kineto, of_python = (load(str(newest[0] / f"{PYTHON_EXPORT}{kind}.json")) for kind in ("", ".python"))
    assert our_rows(PANES["ops"].build(of_kineto, by="event")) == our_rows(PANES["ops"].build(of_python, by="event"))
    both = [list(PANES["memory"].build(trace).rows()) for trace in (of_kineto, of_python)]
    assert [row["bytes"] for row in both[0]] == [row["bytes"] for row in both[1]] != []
    for trace in (of_kineto, of_python):
        found = {row["check"]: row["count"] for row in PANES["health"].build(trace).rows()}
        assert not any(found.get(check) for check in ("unknown categories", "skipped phases", "dropped events"))


DEVICE = {Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET, Kind.GPU_ANNOTATION, Kind.SYNC}


def costed(*slices: tuple[str, int, int, Kind]) -> tuple[Trace, Costs]:
    """Slices given as name, start, duration and kind; each owns GPU work as long as a tenth of it and two kernels."""
    lanes = {kind: ("0", f"stream {kind}") if kind in DEVICE else ("1", str(int(kind))) for kind in Kind}
    trace = make_trace([Event(name, start, dur, kind, lanes[kind]) for name, start, dur, kind in slices])
    row = np.arange(len(slices))
    dur = trace.slices.dur[row]
    on_device = np.isin(trace.slices.kind[row], list(DEVICE))
    cpu, device = np.where(on_device, 0, dur), np.where(on_device, dur, 0)
    name = trace.slices.name[row].astype(np.int64)
    return trace, Costs(row, name, trace.names, cpu, cpu // 2, device, device // 5, np.full(len(row), 2))


def summed(*slices: tuple[str, int, int, Kind]) -> tuple[Trace, Averages]:
    trace, cost = costed(*slices)
    return trace, averages(trace.slices, cost, grouped(trace.slices, cost))


def keys_of(*slices: tuple[str, int, int, Kind], shape: list[int] | None = None) -> int:
    """How many different keys some slices have."""
    trace, cost = costed(*slices)
    return len(grouped(trace.slices, cost, None if shape is None else np.array(shape)))


def test_torch_tells_devices_and_annotations_apart_and_no_other_kinds():
    assert keys_of(*(("x", 0, 10, kind) for kind in (Kind.CPU_OP, Kind.RUNTIME, Kind.OVERHEAD, Kind.PYTHON))) == 1
    assert keys_of(*(("x", 0, 10, kind) for kind in (Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET, Kind.SYNC))) == 1
    assert keys_of(*(("x", 0, 10, kind) for kind in Kind)) == 4


def test_a_name_is_not_the_next_name_on_a_device():
    """Names are numbered in the order of the slices."""
    both = ("a", 0, 10, Kind.GPU_ANNOTATION), ("b", 5, 10, Kind.GPU_ANNOTATION)
    assert keys_of(*both, ("b", 0, 10, Kind.CPU_OP), ("a", 20, 10, Kind.CPU_OP)) == 4


def test_a_name_on_a_device_is_not_the_name_after_the_next():
    assert keys_of(("a", 0, 9, Kind.KERNEL), ("b", 10, 9, Kind.CPU_OP), ("c", 20, 9, Kind.CPU_OP)) == 3


def test_a_slice_without_shapes_is_not_the_one_before_with_the_last_shape():
    slices = ("x", 0, 10, Kind.CPU_OP), ("x", 20, 10, Kind.CPU_OP), ("x", 0, 10, Kind.ANNOTATION)
    assert [keys_of(*slices, shape=shape) for shape in ([0, -1, 1], [1, 1, -1], [1, 1, 0])] == [3, 2, 2]


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        (Kind.CPU_OP, "op"),
        (Kind.ANNOTATION, "annotation"),
        (Kind.RUNTIME, "runtime"),
        (Kind.OVERHEAD, "overhead"),
        (Kind.OTHER, "slice"),
        (Kind.BOOKKEEPING, "slice"),
        (Kind.PYTHON, "frame"),
        (Kind.KERNEL, "kernel"),
        (Kind.MEMCPY, "memcpy"),
        (Kind.MEMSET, "memset"),
        (Kind.GPU_ANNOTATION, "GPU annotation"),
        (Kind.SYNC, "wait"),
    ],
)
def test_every_kind_has_its_word(kind, word):
    _, sums = summed(("x", 0, 10, kind))
    assert [KIND_WORDS[int(number)] for number in sums.kind] == [word]


def test_of_several_kinds_under_one_key_the_first_word_stands():
    _, sums = summed(("x", 0, 10, Kind.OVERHEAD), ("x", 0, 10, Kind.RUNTIME), ("x", 20, 5, Kind.PYTHON))
    assert [KIND_WORDS[int(number)] for number in sums.kind] == ["runtime"]


def test_sums_first_and_longest():
    trace, sums = summed(
        ("x", 0, 10, Kind.CPU_OP),
        ("x", 20, 30, Kind.CPU_OP),
        ("x", 60, 30, Kind.CPU_OP),
        ("y", 2, 4, Kind.CPU_OP),
    )
    order = np.argsort(sums.name)
    assert [trace.names[int(name)] for name in sums.name[order]] == ["x", "y"]
    assert sums.calls[order].tolist() == [3, 1]
    assert (sums.cpu[order].tolist(), sums.self_cpu[order].tolist()) == ([70, 4], [35, 2])
    assert (sums.device.tolist(), sums.kernels[order].tolist()) == ([0, 0], [6, 2])
    assert (sums.first[order].tolist(), sums.length[order].tolist()) == ([0, 2], [10, 4])
    assert trace.slices.start[sums.longest[order]].tolist() == [20, 2]


def test_on_a_device_the_time_is_the_device_s():
    trace, sums = summed(("k", 5, 10, Kind.KERNEL), ("k", 20, 40, Kind.KERNEL))
    assert (sums.cpu.tolist(), sums.self_cpu.tolist()) == ([0], [0])
    assert (sums.device.tolist(), sums.self_device.tolist()) == ([50], [10])
    assert (sums.first.tolist(), sums.length.tolist()) == ([5], [10])
    assert trace.slices.start[sums.longest].tolist() == [20]


def test_of_slices_that_began_together_the_longer_one_is_first():
    """On two threads: `a` begins with 3 ns and with 9, `b` at the same moment with 5, `c` before them."""
    trace, sums = summed(
        ("a", 10, 3, Kind.RUNTIME), ("b", 10, 5, Kind.OVERHEAD), ("a", 10, 9, Kind.CPU_OP), ("c", 9, 1, Kind.CPU_OP)
    )
    names = [trace.names[int(name)] for name in sums.name[sums.in_order()]]
    assert names == ["c", "a", "b"]
    assert sorted(sums.length.tolist()) == [1, 5, 9]


def test_an_allocator_event_takes_no_time_and_has_no_slice():
    trace, sums = summed(("x", 7, 10, Kind.CPU_OP), ("[memory]", 20, 5, Kind.OTHER))
    made = sums.with_instants(trace, {"[memory]": np.array([3, 4, 9])})
    assert (len(made.calls), made.calls[-1], made.first[-1], made.longest[-1]) == (len(sums.calls) + 1, 3, 3, -1)
    assert trace.names[int(made.name[-1])] == "[memory]"
    assert KIND_WORDS[int(made.kind[-1])] == "allocation"
    for column in (made.self_cpu, made.cpu, made.self_device, made.device, made.kernels, made.length):
        assert column[-1] == 0
    assert made.cpu[:-1].tolist() == sums.cpu.tolist()
    assert sums.with_instants(trace, {}) is sums


def test_a_member_of_each_group_is_one_of_its_rows():
    trace, cost = costed(("a", 0, 1, Kind.CPU_OP), ("b", 5, 1, Kind.CPU_OP), ("a", 10, 1, Kind.CPU_OP))
    names = grouped(trace.slices, cost)
    assert names.member[some_member(names)].tolist() == [0, 1]


CAPTURE = Event("PyTorch Profiler (0)", 0, 2_000, Kind.BOOKKEEPING, ("Spans", "PyTorch Profiler"))
PROFILER = ("-1", "0")
OPEN = {"finished": False}


def rows(trace: Trace) -> dict[object, dict[str, Cell]]:
    """The rows of the pane by name."""
    return {row["name"]: row for row in PANES["ops"].build(trace).rows()}


def test_a_row_with_an_op_in_it_is_of_an_op_wherever_the_others_stand() -> None:
    others = [Event("same", 200, 50, Kind.OVERHEAD, PROFILER), Event("same", 300, 50, Kind.RUNTIME)]
    for slices in ([op("same", 0, 100), *others], [*others, op("same", 0, 100, lane=("1", "2"))]):
        row = rows(make_trace(slices))["same"]
        assert (row["kind"], row["calls"]) == ("op", 3)


def test_overhead_of_a_trace_without_ops_takes_nothing_from_what_it_outlasts() -> None:
    made = make_trace(
        [
            Event("Buffer Flush", 0, 10_000, Kind.OVERHEAD, PROFILER),
            Event("Resource", 5_000, 6_000, Kind.OVERHEAD, PROFILER),
            Event("Unknown", 1_000, 1_000, Kind.OVERHEAD, PROFILER),
        ]
    )
    trace = replace(made, lanes=tuple(replace(lane, kind=LaneKind.OVERHEAD) for lane in made.lanes))
    own = {name: row["self_cpu_us"] for name, row in rows(trace).items()}
    assert own == {"Buffer Flush": 9.0, "Resource": 6.0, "Unknown": 1.0}


def test_a_name_that_torch_drops_is_no_row_when_it_never_ended() -> None:
    trace = make_trace([op("outer", 0, 1_000), op("aten::is_leaf", 500, 9_000, args=OPEN), CAPTURE])
    assert set(rows(trace)) == {"outer"}


def test_what_never_ended_and_began_after_the_recording_took_no_time() -> None:
    trace = make_trace([op("outer", 0, 1_000), op("late", 2_500, 9_000, args=OPEN), CAPTURE])
    assert rows(trace)["late"]["cpu_total_us"] == 0.0


def test_the_sum_of_self_times_is_that_of_all_costs() -> None:
    repeated = [op("outer", 0, 1_000), op("same", 100, 500), op("same", 150, 300), op("inner", 200, 100)]
    overlapping = [op("outer", 0, 100), op("a", 10, 80), op("b", 15, 80)]
    lone = [op("same", 0, 100), op("same", 0, 90), op("x", 0, 60), op("y", 20, 60)]
    for slices in (repeated, overlapping, lone, [*repeated, CAPTURE]):
        trace = make_trace(slices)
        own = costs(trace).self_cpu
        total = self_cpu_sum(make_trace(slices))
        assert (total.total, total.is_overlapped) == (int(own.sum()), bool(is_overlapped(own).any()))
