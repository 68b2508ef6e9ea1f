"""Traces at random: no analysis fails on one, and what is a part of something adds up to it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.properties import check_every_pane, opened
from tracetui.analysis.comparing.comparison import comparison
from tracetui.analysis.comparing.side import side
from tracetui.analysis.idle.idleness import idleness
from tracetui.analysis.linking.links import links
from tracetui.analysis.linking.steps import steps
from tracetui.analysis.panes import PANES
from tracetui.model.intervals import covered
from tracetui.model.table import NULL, Table
from tracetui.model.trace import LaneKind, Trace

Events = list[dict[str, Any]]

OPS = ("aten::mm", "aten::t", "aten::add", "aten::linear", "mine::op", "ProfilerStep#3", "TorchDynamo Cache Lookup")
CALLS = (
    "cudaLaunchKernel",
    "cudaMemcpyAsync",
    "cudaGraphLaunch",
    "cudaDeviceSynchronize",
    "cudaStreamSynchronize",
    "cudaOccupancyMaxActiveBlocksPerMultiprocessor",
    "cudaMalloc",
    "hipModuleLaunchKernel",
)
KERNELS = ("void gemm<float>(int)", "triton_poi_fused_add_0", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(int)", "k")
CPU_CATEGORIES = ("cpu_op", "user_annotation", "python_function", "cuda_runtime", "cuda_driver", "overhead")
SHAPES: tuple[Any, ...] = ([[4, 8], [8, 2]], [[], []], [[0], [3]], "", None, [[[1], [2]]])
times = st.integers(0, 400)
lengths = st.one_of(st.integers(0, 120), st.just(0))
ids = st.integers(0, 6)


@st.composite
def cpu_slices(draw: st.DrawFn) -> dict[str, Any]:
    """An operator, annotation, frame or call, on one of two threads; they may overlap in any way."""
    category = draw(st.sampled_from(CPU_CATEGORIES))
    name = draw(st.sampled_from(CALLS if category.startswith("cuda_") else OPS))
    args: dict[str, Any] = {"External id": draw(ids)}
    if category.startswith("cuda_"):
        args["correlation"] = draw(ids)
    elif draw(st.booleans()):
        args |= {"Input Dims": draw(st.sampled_from(SHAPES)), "Input type": ["float", "float"]}
    if draw(st.booleans()):
        args |= {"Sequence number": draw(ids), "Fwd thread id": draw(st.integers(0, 2))}
    return slice_of(category, name, 1, draw(st.integers(1, 2)), draw(times), draw(lengths), args)


@st.composite
def gpu_slices(draw: st.DrawFn) -> dict[str, Any]:
    """A kernel, copy or fill on one of two streams of one of two devices, with or without a launch."""
    category = draw(st.sampled_from(("kernel", "gpu_memcpy", "gpu_memset")))
    names = {"gpu_memcpy": "Memcpy HtoD (Pageable -> Device)", "gpu_memset": "Memset (Device)"}
    name = names.get(category) or draw(st.sampled_from(KERNELS))
    device, stream = draw(st.integers(0, 1)), draw(st.sampled_from((7, 20)))
    args: dict[str, Any] = {"correlation": draw(ids), "External id": draw(ids), "device": device, "stream": stream}
    if draw(st.booleans()):
        args |= {"grid": [draw(ids), 1, 1], "block": [32, 1, 1], "registers per thread": 64, "shared memory": 49152}
    if category != "kernel":
        args["bytes"] = draw(st.integers(0, 1 << 20))
    return slice_of(category, name, device, stream, draw(times), draw(lengths), args)


@st.composite
def step_slices(draw: st.DrawFn) -> dict[str, Any]:
    """A step, whose number and time may be those of another."""
    name = f"ProfilerStep#{draw(st.integers(1, 4))}"
    return slice_of("user_annotation", name, 1, draw(st.integers(1, 2)), draw(times), draw(st.integers(1, 300)), {})


@st.composite
def allocations(draw: st.DrawFn) -> dict[str, Any]:
    """An allocation or a free."""
    args: dict[str, Any] = {"Addr": draw(ids), "Bytes": draw(st.integers(-(1 << 40), 1 << 40))}
    if draw(st.booleans()):
        args |= {"Device Type": 1, "Device Id": draw(ids), "Total Allocated": draw(st.integers(0, 1 << 40))}
    return {"ph": "i", "s": "t", "name": "[memory]", "pid": 1, "tid": 1, "ts": draw(times), "args": args}


def slice_of(category: str, name: str, pid: int, tid: int, ts: int, dur: int, args: dict[str, Any]) -> dict[str, Any]:
    """An event of the file."""
    return {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def programs() -> st.SearchStrategy[Events]:
    """Up to forty events of all sorts."""
    some = st.one_of(cpu_slices(), gpu_slices(), step_slices(), allocations())
    return st.lists(some, min_size=1, max_size=40)


def text_of(events: Events) -> bytes:
    """The file of some events."""
    return json.dumps({"schemaVersion": 1, "traceEvents": events}).encode()


usual = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@usual
@given(programs())
def test_every_pane_can_be_made(events):
    with opened(text_of(events)) as trace:
        if trace is not None:
            check_every_pane(trace)


@usual
@given(programs())
def test_sums_add_up(events):
    with opened(text_of(events)) as trace:
        if trace is not None:
            check_kernels(trace)
            check_gaps(trace)
            check_steps(trace)
            check_self_times(trace)


@usual
@given(programs(), programs())
def test_any_two_traces_can_be_compared(before, after):
    with opened(text_of(before)) as a, opened(text_of(after)) as b:
        if a is None or b is None:
            return
        told = comparison(side(a, "all"), side(b, "all"))
        assert told.statement
        for mine, calls, micros in ((told.a, "calls_a", "a_us"), (told.b, "calls_b", "b_us")):
            rows, _ = mine.work()
            assert total(told.kernels, calls) == len(rows)
            np.testing.assert_allclose(total(told.kernels, micros), mine.trace.slices.dur[rows].sum() / 1000)


def total(table: Table, name: str) -> float:
    """The sum of a column, null counting nothing."""
    column = table[name]
    return float(column.values[~column.nulls()].sum())


def made(trace: Trace, pane: str, by: str | None = None) -> Table:
    """A pane of the whole trace."""
    return PANES[pane].build(trace, by=by)


def check_kernels(trace: Trace) -> None:
    """However GPU work is grouped, it is all of it."""
    work = links(trace).gpu
    time = trace.slices.dur[work].sum() / 1000
    assert len(made(trace, "kernels")) == len(work)
    for by in ("name", "op", "family", "annotation", "stream"):
        table = made(trace, "kernels", by)
        assert total(table, "calls") == len(work)
        np.testing.assert_allclose(total(table, "total_us"), time)


def check_gaps(trace: Trace) -> None:
    """Gaps have lengths, their parts add up to them where a launch is known, and to all of them by cause."""
    gaps, idle = made(trace, "gaps"), idleness(trace)
    assert (gaps["dur_us"].values.astype(float) > 0).all()
    parts = (idle.cpu_late + idle.in_launch + idle.waiting)[idle.known]
    assert np.array_equal(parts, idle.dur[idle.known])
    by_cause = made(trace, "gaps", "cause")
    np.testing.assert_allclose(total(by_cause, "total_us"), total(gaps, "dur_us"))
    assert total(by_cause, "gaps") == len(gaps)


def check_steps(trace: Trace) -> None:
    """Work of steps is the work that says so, and a GPU is never longer busy than it takes from first to last."""
    table, kernels = made(trace, "steps"), made(trace, "kernels")
    assert len(table) == len(steps(trace))
    held = int((kernels["step"].values != NULL).sum()) if len(kernels) else 0
    assert total(table, "kernels") + total(table, "copies") == held
    busy, span = table["gpu_busy_us"].values, table["gpu_span_us"].values
    assert (np.nan_to_num(busy) <= np.nan_to_num(span) + 1e-6).all()


def check_self_times(trace: Trace) -> None:
    """On a thread whose slices nest, what slices do themselves is all the time that any of them is open."""
    slices = trace.slices
    for lane in trace.lanes:
        if lane.kind != LaneKind.CPU:
            continue
        mine = slice(lane.first, lane.last)
        start, end = slices.start[mine], slices.end[mine]
        assert (slices.self_time[mine] >= 0).all()
        if is_nested(start, end):
            assert int(slices.self_time[mine].sum()) == covered(start, end)


def is_nested(start: np.ndarray, end: np.ndarray) -> bool:
    """Whether of any two slices one holds the other or they do not touch; in order of their start."""
    open_until: list[int] = []
    for begin, finish in zip(start.tolist(), end.tolist(), strict=True):
        while open_until and open_until[-1] <= begin:
            open_until.pop()
        if open_until and finish > open_until[-1]:
            return False
        open_until.append(finish)
    return True
