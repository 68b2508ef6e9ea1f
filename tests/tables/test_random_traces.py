"""Traces at random: no analysis fails on one, and what is a part of something adds up to it."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.properties import check_every_pane, opened
from tests.support.sums import device, idle, memory, ops, ranges
from tests.support.sums.slices import SlowTrace
from tracetui.comparing.side import side
from tracetui.comparing.statement import Comparison
from tracetui.model.intervals import TimeRange, covered
from tracetui.model.table import Table
from tracetui.model.trace import LaneKind, Trace
from tracetui.panes import PANES

Events = list[dict[str, Any]]

SUMS = (
    ops.check_ops,
    ops.check_ops_by_shape,
    ops.check_ops_by_event,
    ops.check_walls,
    ops.check_views,
    device.check_kernels,
    device.check_graphs,
    device.check_launches,
    device.check_occupancy,
    device.check_roofline,
    idle.check_gaps,
    idle.check_verdict,
    idle.check_streams,
    idle.check_exposure,
    idle.check_steps,
    idle.check_summary,
    memory.check_memory,
    memory.check_peaks,
    memory.check_copies,
)
"""What the rows of panes must add up to, of a whole trace and of a step."""

OPS = (
    "aten::mm",
    "aten::t",
    "aten::add",
    "aten::linear",
    "mine::op",
    "ProfilerStep#3",
    "TorchDynamo Cache Lookup",
    "aten::is_leaf",
    "nccl:all_reduce",
)
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
FEW = (("overhead",), ("cpu_op", "cuda_runtime"), ("cuda_runtime", "overhead"), ("user_annotation", "python_function"))
"""Categories that a trace may have and no others."""
SHAPES: tuple[Any, ...] = ([[4, 8], [8, 2]], [[], []], [[0], [3]], "", None, [[[1], [2]]])
# Mostly whole, so that much begins and ends together; gaps of fewer than 30 ns count differently from longer ones.
times = st.one_of(st.integers(0, 400), st.integers(0, 400).map(lambda time: time + 0.01))
lengths = st.one_of(st.integers(0, 120), st.just(0), st.just(0.02))
ids = st.integers(0, 6)


@st.composite
def cpu_slices(draw: st.DrawFn, categories: tuple[str, ...]) -> dict[str, Any]:
    """An operator, annotation, frame or call, on one of two threads; they may overlap in any way."""
    category = draw(st.sampled_from(categories))
    name = draw(st.sampled_from(CALLS if category.startswith("cuda_") else OPS))
    args: dict[str, Any] = {"External id": draw(ids)}
    if category.startswith("cuda_"):
        args["correlation"] = draw(ids)
    elif draw(st.booleans()):
        args |= {"Input Dims": draw(st.sampled_from(SHAPES)), "Input type": ["float", "float"]}
    if draw(st.booleans()):
        args |= {"Sequence number": draw(ids), "Fwd thread id": draw(st.integers(0, 2))}
    if draw(st.integers(0, 5)) == 0:
        args["finished"] = False
    place = (-1, 0) if category == "overhead" and draw(st.booleans()) else (1, draw(st.integers(1, 2)))
    return slice_of(category, name, *place, draw(times), draw(lengths), args)


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
def marks(draw: st.DrawFn) -> dict[str, Any]:
    """An annotation of a device, a wait of a stream, or the span over the capture."""
    category = draw(st.sampled_from(("gpu_user_annotation", "cuda_sync", "Trace")))
    if category == "Trace":
        return slice_of(category, "PyTorch Profiler (0)", "Spans", "PyTorch Profiler", 0, draw(times), {})
    args = {"correlation": draw(ids), "External id": draw(ids)}
    return slice_of(category, draw(st.sampled_from(OPS)), 0, 7, draw(times), draw(lengths), args)


@st.composite
def step_slices(draw: st.DrawFn) -> dict[str, Any]:
    """A step, whose number and time may be those of another."""
    name = f"ProfilerStep#{draw(st.integers(1, 4))}"
    return slice_of("user_annotation", name, 1, draw(st.integers(1, 2)), draw(times), draw(st.integers(1, 300)), {})


@st.composite
def allocations(draw: st.DrawFn) -> dict[str, Any]:
    """An allocation, one that failed, or a free."""
    size = st.one_of(st.sampled_from((-512, 512)), st.integers(-(1 << 40), 1 << 40))
    args: dict[str, Any] = {"Addr": draw(ids), "Bytes": draw(size)}
    if draw(st.booleans()):
        args |= {"Device Type": 1, "Device Id": draw(st.integers(0, 1))}
    if draw(st.integers(0, 7)):
        args["Total Allocated"] = draw(st.integers(0, 1 << 40))
    name = draw(st.sampled_from(("[memory]", "[memory]", "[memory]", "[OutOfMemory]")))
    tid = draw(st.integers(1, 2))
    return {"ph": "i", "s": "t", "name": name, "pid": 1, "tid": tid, "ts": draw(times), "args": args}


def slice_of(
    category: str, name: str, pid: int | str, tid: int | str, ts: float, dur: float, args: dict[str, Any]
) -> dict[str, Any]:
    """An event of the file."""
    return {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


@st.composite
def dispatches(draw: st.DrawFn) -> Events:
    """An op inside another that asks for an occupancy, launches and allocates, and what that puts on a GPU."""
    start, tid, number = draw(times), draw(st.integers(1, 2)), draw(st.integers(1, 30))
    inner, shapes = draw(st.one_of(st.sampled_from(OPS), st.just("aten::mm"))), st.sampled_from(SHAPES)
    op = {"External id": number, "Input Dims": draw(st.one_of(shapes, st.just(SHAPES[0])))}
    call = {"External id": number, "correlation": draw(st.sampled_from((number, 100 + number)))}
    if draw(st.booleans()):
        op |= {"Sequence number": draw(ids), "Fwd thread id": draw(st.integers(0, 1))}
    found = [
        slice_of("cpu_op", draw(st.sampled_from((inner, "aten::linear"))), 1, tid, start, 40, {"External id": 50}),
        slice_of("cpu_op", inner, 1, tid, start + 1, 30, {**op, "Input type": ["float", "float"]}),
        slice_of("cuda_runtime", CALLS[5], 1, tid, start + 2, 1, {}),
        slice_of("cuda_runtime", draw(st.sampled_from(CALLS)), 1, tid, start + 4, draw(st.integers(0, 60)), call),
    ]
    for work in draw(st.lists(gpu_slices(), min_size=1, max_size=3)):
        found.append({**work, "ts": start + draw(st.integers(0, 150)), "args": {**work["args"], **call}})
    given, size = draw(allocations()), draw(st.integers(1, 1 << 30))
    for moment, changed in ((start + 3, size), (start + draw(st.integers(4, 99)), -size)):
        found.append({**given, "ts": moment, "tid": tid, "args": {**given["args"], "Bytes": changed}})
    return draw(st.sampled_from((found, found, found[:-1], found[:-2])))


@st.composite
def programs(draw: st.DrawFn) -> Events:
    """Up to some sixty events of all sorts, or of few: what most traces have is missing in some."""
    single = st.one_of(cpu_slices(CPU_CATEGORIES), gpu_slices(), step_slices(), marks(), allocations())
    few = st.one_of(cpu_slices(draw(st.sampled_from(FEW))), gpu_slices())
    sort = draw(st.sampled_from((single, single, few)))
    events = draw(st.lists(sort, min_size=draw(st.sampled_from((1, 10))), max_size=40))
    for more in draw(st.lists(dispatches(), min_size=draw(st.integers(0, 2)), max_size=4)) if sort is single else ():
        events += more
    return events


def text_of(events: Events) -> bytes:
    """The file of some events."""
    return json.dumps({"schemaVersion": 1, "traceEvents": events}).encode()


usual = settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.full
@usual
@given(programs())
def test_every_pane_can_be_made(events):
    with opened(text_of(events)) as trace:
        if trace is not None:
            check_every_pane(trace)


@settings(usual)
@given(programs(), st.sampled_from((None, None, 1, 2, 3, 4)))
@pytest.mark.full
def test_sums_add_up(events, step):
    with opened(text_of(events)) as trace:
        if trace is None:
            return
        check_self_times(trace)
        slow = SlowTrace(trace)
        asked = step if slow.numbered(step) else None
        for check in SUMS:
            check(slow, asked)


@pytest.mark.full
@settings(usual)
@given(programs(), st.lists(st.integers(0, 500_000), min_size=1, max_size=3, unique=True))
def test_ranges_add_up(events, cuts):
    """Ranges from before the first event to behind the last, cut anywhere."""
    with opened(text_of(events)) as trace:
        if trace is None:
            return
        slow = SlowTrace(trace)
        moments = trace.instants.time.tolist()
        low, high = min([trace.window[0], *moments]) - 1, max([trace.window[1], *moments]) + 1
        edges = sorted({low, *(cut for cut in cuts if low < cut < high), high})
        parts = [TimeRange(*pair) for pair in pairwise(edges)]
        for part in parts:
            ranges.check_range(slow, part)
            for pane in PANES.values():
                for by in (None, *pane.groups):
                    pane.build(trace, step=part, by=by)
        ranges.check_partition(slow, parts)
        ranges.check_whole(slow, TimeRange(low, high))


@pytest.mark.full
@usual
@given(programs(), programs())
def test_any_two_traces_can_be_compared(before, after):
    with opened(text_of(before)) as a, opened(text_of(after)) as b:
        if a is None or b is None:
            return
        told = Comparison(side(a, "all"), side(b, "all"))
        assert told.statement
        for mine, calls, micros in ((told.a, "calls_a", "a_us"), (told.b, "calls_b", "b_us")):
            rows, _ = mine.activities()
            assert total(told.kernels, calls) == len(rows)
            np.testing.assert_allclose(total(told.kernels, micros), mine.trace.slices.dur[rows].sum() / 1000)


def total(table: Table, name: str) -> float:
    """The sum of a column, null counting nothing."""
    column = table[name]
    return float(column.values[~column.nulls()].sum())


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
