"""The modules pane, with modules of captured graphs."""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.build import Event, kernel, launch, make_trace, op, python
from tests.support.captures import CapturedLaunch, captured, recording
from tests.support.frames import model
from tests.support.graphs import replay
from tests.support.traces import loaded
from tracetui.model.table import Table
from tracetui.model.trace import Kind, Trace
from tracetui.panes import PANES
from tracetui.reading.load import load
from tracetui.tables.modules import NO_MODULES, OUTSIDE, holders

D06 = "d06_h100_stack_mem.json.gz"
D07 = "d07_mi300x_8rank_3steps_stack.json.gz"
PUZZLE = "puzzlers/fusion_mwe_trace.json.gz"


def frame(name: str, start: int, dur: int, **more: Any) -> Event:
    return Event(name, start, dur, Kind.PYTHON, **more)


def by_path(table: Table) -> dict[str, dict[str, Any]]:
    return {str(row["path"] or OUTSIDE): row for row in table.rows()}


def test_forward_and_backward_kernels_belong_to_the_module_of_the_forward_operator() -> None:
    gpt, mlp = PANES["modules"].build(make_trace(model())).rows()
    assert (gpt["tree"], mlp["tree"], mlp["path"], mlp["depth"]) == ("GPT_0", "  MLP_3", "GPT_0 / MLP_3", 1)
    assert (gpt["gpu_us"], gpt["own_gpu_us"]) == (0.02, 0.0)
    assert (mlp["gpu_us"], mlp["forward_gpu_us"], mlp["backward_gpu_us"]) == (0.02, 0.01, 0.01)
    assert (gpt["activities"], mlp["activities"], mlp["calls"]) == (2, 2, 1)
    assert (gpt["cpu_us"], gpt["own_cpu_us"], mlp["cpu_us"]) == (0.4, 0.1, 0.3)
    assert mlp["pct"] == 100.0


def layers(count: int = 2) -> Trace:
    """Two calls of a model of some layers; the last kernel is launched by no module."""
    events = [frame("train.py(1): main", 0, 10_000)]
    number = 0
    for call in range(2):
        at = 100 + 4_000 * call
        events += [frame("nn.Module: Net_0", at, 3_000), frame("net.py(3): forward", at + 10, 2_900)]
        for layer in range(count):
            number += 1
            begin = at + 100 + 1_000 * layer
            events += [
                frame(f"nn.Module: Linear_{layer}", begin, 500),
                op("aten::linear", begin + 10, 300),
                launch(begin + 20, 5, number),
                kernel("gemm", begin + 100, 100 * (layer + 1), correlation=number),
            ]
    events += [launch(9_000, 5, 99), kernel("loss", 9_100, 50, correlation=99)]
    return make_trace(events)


def test_calls_of_one_module_share_a_row_and_own_times_add_up() -> None:
    table = PANES["modules"].build(layers())
    rows = by_path(table)
    assert list(rows) == ["Net_0", "Net_0 / Linear_0", "Net_0 / Linear_1", OUTSIDE]
    assert [row["calls"] for row in rows.values()] == [2, 2, 2, None]
    assert [row["gpu_us"] for row in rows.values()] == [0.6, 0.2, 0.4, 0.05]
    assert [row["own_gpu_us"] for row in rows.values()] == [0.0, 0.2, 0.4, 0.05]
    assert table["own_gpu_us"].values.sum() == PANES["kernels"].build(layers())["dur_us"].values.sum()
    assert rows["Net_0"]["pct"] == pytest.approx(100 * 0.6 / 0.65)
    gaps = PANES["gaps"].build(layers())["dur_us"].values
    tops = [row["idle_us"] for row in rows.values() if row["depth"] == 0]
    assert sum(tops) == pytest.approx(gaps.sum())
    # The first call of each is where a row jumps to.
    assert layers().slices.start[table.slices[1]] == 200  # type: ignore[index]


def test_functions_and_single_calls_are_rows_too() -> None:
    rows = by_path(PANES["modules"].build(layers(1), by="function"))
    assert list(rows) == ["main", "main / Net_0", "main / Net_0 / forward", "main / Net_0 / forward / Linear_0"]
    assert rows["main"]["own_gpu_us"] == 0.05 and rows["main / Net_0"]["calls"] == 2
    single = list(PANES["modules"].build(layers(1), by="call").rows())
    assert [str(row["tree"]).strip() for row in single] == ["main", *["Net_0", "forward", "Linear_0"] * 2]
    assert {row["calls"] for row in single} == {1}


def test_a_step_holds_the_calls_that_begin_in_it() -> None:
    events = [Event(f"ProfilerStep#{n}", 4_000 * (n - 1), 4_000, Kind.ANNOTATION) for n in (1, 2)]
    for n in (0, 1):
        at = 4_000 * n + 100
        events += [frame("nn.Module: A_0", at, 1_000), launch(at + 10, 5, n + 1)]
        events += [kernel("k", at + 50, 10 + n, correlation=n + 1)]
    table = PANES["modules"].build(make_trace(events), step=2)
    assert [(row["calls"], row["gpu_us"]) for row in table.rows()] == [(1, 0.011)]
    # The call to which the row jumps is that of the step.
    assert table.slices is not None and make_trace(events).slices.start[table.slices[0]] == 4_100
    assert [(r["calls"], r["gpu_us"]) for r in PANES["modules"].build(make_trace(events)).rows()] == [(2, 0.021)]


def test_without_a_launch_record_the_own_start_decides_and_that_is_said() -> None:
    events = [frame("nn.Module: A_0", 0, 1_000), frame("nn.Module: B_0", 100, 500)]
    events += [launch(10, 5, 1), kernel("known", 50, 10, correlation=1), kernel("lone", 300, 20, correlation=7)]
    table = PANES["modules"].build(make_trace(events))
    rows = by_path(table)
    assert (rows["A_0 / B_0"]["gpu_us"], rows["A_0 / B_0"]["inferred"]) == (0.02, 1)
    assert (rows["A_0"]["own_gpu_us"], rows["A_0"]["inferred"]) == (0.01, 1)
    assert table.note.startswith("1 GPU activities have no launch record")


def test_what_is_missing_is_said() -> None:
    assert PANES["modules"].build(make_trace([op("aten::mm", 0, 10)])).note.endswith("record with with_stack=True.")
    without = make_trace([frame("a.py(1): f", 0, 10)])
    assert PANES["modules"].build(without).note == NO_MODULES
    (row,) = PANES["modules"].build(without, by="function").rows()
    # There is no GPU: its times are not 0 but unknown, and shares are of the CPU time.
    assert (row["gpu_us"], row["idle_us"], row["activities"], row["pct"]) == (None, None, None, 100.0)
    assert len(PANES["modules"].build(make_trace([]), by="call")) == 0


Shape = list[tuple[int, int, int]]


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 90), st.integers(2, 40), st.integers(0, 2)), max_size=10),
    st.lists(st.tuples(st.integers(0, 120), st.integers(1, 9)), max_size=8, unique_by=lambda pair: pair[0]),
)
def test_sums_agree_with_a_slow_search_on_random_nests(shape: Shape, launched: list[tuple[int, int]]) -> None:
    frames: list[tuple[int, int, str]] = []
    for start, dur, which in shape:
        if all(start >= b or start + dur <= a or nested((a, b), (start, start + dur)) for a, b, _ in frames):
            frames.append((start, start + dur, f"M_{which}"))
    events = [frame(f"nn.Module: {name}", a, b - a) for a, b, name in frames]
    for number, (at, dur) in enumerate(launched, 1):
        events += [launch(at, 0, number), kernel("k", 1_000 + 10 * number, dur, correlation=number)]
    wanted: dict[str, int] = defaultdict(int)
    for at, dur in launched:
        around = sorted([f for f in frames if f[0] <= at < f[1]], key=lambda f: (f[0], -f[1]))
        for end in range(1, len(around) + 1):
            wanted[" / ".join(name for _, _, name in around[:end])] += dur
    table = by_path(PANES["modules"].build(make_trace(events))) if frames else {}
    found = {path: round(1000 * row["gpu_us"]) for path, row in table.items() if path != OUTSIDE and row["gpu_us"]}
    assert found == dict(wanted)


def nested(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return (a[0] < b[0] and b[1] < a[1]) or (b[0] < a[0] and a[1] < b[1])


def events_of(path: Path) -> list[dict[str, Any]]:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt") as file:
        document = json.load(file)
    return [event for event in document["traceEvents"] if event.get("ph") == "X"]


class Slow:
    """The same by loops over the events of the file: windows of frames, launches by correlation."""

    def __init__(self, path: Path) -> None:
        self.modules: dict[Any, list[tuple[float, float, str]]] = defaultdict(list)
        self.launches: dict[int, dict[str, Any]] = {}
        self.work: list[dict[str, Any]] = []
        self.ops: list[dict[str, Any]] = []
        for event in events_of(path):
            category, name = event.get("cat"), event.get("name", "")
            if category == "python_function" and name.startswith("nn.Module: "):
                window = (event["ts"], event["ts"] + event["dur"], name.removeprefix("nn.Module: "))
                self.modules[event["tid"]].append(window)
            elif category in ("kernel", "gpu_memcpy", "gpu_memset"):
                self.work.append(event)
            elif category in ("cuda_runtime", "cuda_driver") and "correlation" in event.get("args", {}):
                self.launches[event["args"]["correlation"]] = event
            elif category == "cpu_op":
                self.ops.append(event)

    def path_at(self, thread: object, moment: float) -> list[str]:
        """The names of the modules around a moment of a thread."""
        around = [each for each in self.modules[thread] if each[0] <= moment < each[1]]
        return [name for _, _, name in sorted(around, key=lambda each: (each[0], -each[1]))]

    def totals(self, backward: bool = False) -> dict[str, float]:
        """GPU time in µs by path: of kernels launched within the frame's window on its thread, or instead of those in
        the backward pass of operators that ran within it.
        """
        sums: dict[str, float] = defaultdict(float)
        for event in self.work:
            call = self.launches.get(event["args"].get("correlation"))
            if call is None:
                continue
            names = self.path_at(call["tid"], call["ts"])
            if backward:
                names = [] if names else self.forward_path(call)
            for end in range(1, len(names) + 1):
                sums[" / ".join(names[:end])] += event["dur"]
        return sums

    def forward_path(self, call: dict[str, Any]) -> list[str]:
        """The modules around the forward operator whose sequence number the innermost node around a call has."""
        nodes = [
            each
            for each in self.ops
            if each["tid"] == call["tid"]
            and each["ts"] <= call["ts"] < each["ts"] + each["dur"]
            and each["args"].get("Fwd thread id", 0) > 0
        ]
        if not nodes:
            return []
        node = max(nodes, key=lambda each: each["ts"])
        wanted = node["args"].get("Sequence number")
        forward = [
            each
            for each in self.ops
            if each["args"].get("Sequence number") == wanted
            and not each["args"].get("Fwd thread id")
            and each["ts"] < node["ts"]
        ]
        if not forward:
            return []
        op = max(forward, key=lambda each: each["ts"])
        return self.path_at(op["tid"], op["ts"])


@pytest.mark.full
def test_every_module_of_a_real_trace_agrees_with_the_slow_script(shared_trace) -> None:
    path = shared_trace(D06)
    slow = Slow(path)
    table = PANES["modules"].build(load(str(path)))
    found = {path: row for path, row in by_path(table).items() if path != OUTSIDE}
    wanted = slow.totals()
    assert len(found) == 467
    for name, row in found.items():
        assert row["forward_gpu_us"] == pytest.approx(wanted.get(name, 0.0), abs=1e-3), name
        assert row["gpu_us"] == row["forward_gpu_us"] and row["backward_gpu_us"] == 0
    assert {name for name, value in wanted.items() if value} <= set(found)
    calls: dict[str, int] = defaultdict(int)
    for frames in slow.modules.values():
        for _, _, name in frames:
            calls[name] += 1
    counted: dict[str, int] = defaultdict(int)
    for row in found.values():
        counted[row["tree"].strip()] += row["calls"]
    assert counted == calls


@pytest.mark.full
def test_forward_and_backward_of_a_real_training_step_agree_too(shared_trace) -> None:
    path = shared_trace(D07)
    rows = by_path(PANES["modules"].build(load(str(path))))
    slow = Slow(path)
    earlier, later = slow.totals(), slow.totals(backward=True)
    assert sum(row["backward_gpu_us"] > 0 for row in rows.values()) > 60
    for name, row in rows.items():
        if name != OUTSIDE:
            assert row["forward_gpu_us"] == pytest.approx(earlier.get(name, 0.0), abs=1e-3), name
            assert row["backward_gpu_us"] == pytest.approx(later.get(name, 0.0), abs=1e-3), name
            assert row["gpu_us"] == pytest.approx(row["forward_gpu_us"] + row["backward_gpu_us"], abs=1e-3)
    assert {name for name, value in (earlier | later).items() if value} <= set(rows)


def test_the_four_variants_of_the_puzzler(shared_trace) -> None:
    table = PANES["modules"].build(loaded(shared_trace(PUZZLE)), by="call")
    variants = [row for row in table.rows() if re.fullmatch("(un)?fused", str(row["tree"]).strip())]
    assert [(str(row["tree"]).strip(), row["activities"]) for row in variants] == [
        ("unfused", 36),
        ("fused", 5),
        ("unfused", 19),
        ("fused", 4),
    ]
    assert [row["inferred"] for row in variants] == [0, 0, 17, 2]


@pytest.mark.full
@pytest.mark.parametrize("by", [None, "function", "call"])
def test_own_times_of_all_rows_are_those_of_the_trace(shared_trace, by: str | None) -> None:
    for file in (D06, D07, PUZZLE):
        trace = loaded(shared_trace(file))
        table = PANES["modules"].build(trace, by=by)
        total = PANES["kernels"].build(trace)["dur_us"].values.sum()
        assert table["own_gpu_us"].values.sum() == pytest.approx(total)
        assert table["pct"].values[table["depth"].values == 0].sum() == pytest.approx(100)
        depth = table["depth"].values
        assert (np.diff(depth) <= 1).all(), "a row comes before what it calls"


GRAPH = [
    CapturedLaunch("aten::mm", "gemm_kernel", "Linear_0", "model.py(9): project"),
    CapturedLaunch("aten::add", "add_kernel", line="model.py(1): forward"),
]
NAMES = ["gemm_kernel", "add_kernel"]
OWN = [
    python("nn.Module: Linear_0", 1_000, 1_000),
    op("aten::mm", 1_100, 500),
    launch(1_200, 100, 5),
    kernel("gemm_kernel", 2_000, 100, correlation=5),
    python("nn.Module: Model_0", 9_900, 500),
    *replay(10_000, 91, NAMES),
    *replay(20_000, 92, NAMES),
]


def rows(trace: Trace, by: str | None = None, step: int | None = None) -> dict[str, dict[str, Any]]:
    return {str(row["path"] or OUTSIDE): row for row in PANES["modules"].build(trace, step, by).rows()}


def served() -> Trace:
    return replace(make_trace(OWN), graph_recordings=(recording([GRAPH]),))


def test_replayed_activities_belong_to_the_module_that_captured_them():
    found = rows(served())
    assert {path: row["activities"] for path, row in found.items()} == {"Linear_0": 3, "Model_0": 1, OUTSIDE: 1}
    assert [row["gpu_us"] for row in found.values()] == [0.12, 0.01, 0.01]
    plain = rows(make_trace(OWN))
    assert {path: row["activities"] for path, row in plain.items()} == {"Linear_0": 1, "Model_0": 2, OUTSIDE: 2}
    for table in (found, plain):
        assert round(sum(row["own_gpu_us"] for row in table.values()), 6) == 0.14
    assert found["Linear_0"]["calls"] == plain["Linear_0"]["calls"] == 1


def test_a_module_that_was_called_at_capture_alone_has_no_calls_and_is_marked():
    events = [each for each in OWN if each.name not in ("nn.Module: Linear_0",)]
    table = PANES["modules"].build(replace(make_trace(events), graph_recordings=(recording([GRAPH]),)))
    paths = [row["path"] for row in table.rows()]
    assert paths == ["Model_0", "Linear_0", None]
    row = table.row(1)
    assert (row["calls"], row["cpu_us"], row["gpu_us"]) == (None, None, 0.02)
    assert [table["gpu_us"].is_doubtful(index) for index in range(3)] == [False, True, False]
    assert "2 GPU activities were replayed from graphs: they belong to the modules" in table.note
    assert [path for _, path in holders(served(), 0)][-1] == ""


def test_paths_of_the_capture_go_on_where_the_trace_has_the_same_modules():
    nested = [replace(GRAPH[0], module="Model_0"), replace(GRAPH[1], module="Model_0")]
    found = rows(replace(make_trace(OWN), graph_recordings=(recording([nested]),)))
    assert {path: row["activities"] for path, row in found.items()} == {"Linear_0": 1, "Model_0": 4}


def test_functions_of_the_capture_stand_beside_those_of_the_trace():
    found = rows(served(), "function")
    assert found["Linear_0 / project"]["activities"] == 2
    assert found["forward"]["activities"] == 2
    by_call = rows(served(), "call")
    assert "forward" not in by_call
    trace = make_trace([*captured([GRAPH]), *replay(10_000, 91, NAMES)])
    assert {path: row["activities"] for path, row in rows(trace).items()} == {"Linear_0": 1, OUTSIDE: 1}


def test_the_holder_of_a_replayed_activity_is_what_captured_it():
    trace = served()
    row = next(
        row
        for row in range(len(trace.slices))
        if trace.name_of(row) == "gemm_kernel" and trace.slices.start[row] > 9_000
    )
    assert [path for _, path in holders(trace, row)] == ["Linear_0", ""]
    assert [path for _, path in holders(make_trace(OWN), row)] == ["Model_0", ""]
    assert [path for _, path in holders(trace, row, "function")] == ["Linear_0 / project", "Linear_0", ""]
