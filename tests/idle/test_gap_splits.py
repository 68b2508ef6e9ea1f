"""Gaps against a plain script, on small made-up traces moment by moment and on the real ones gap by gap."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.build import Event, launch, make_trace, op
from tests.support.slow_gaps import slow_gaps
from tests.support.traces import WITHOUT_GPU, given_traces, loaded
from tracetui.idle.gaps import longest
from tracetui.idle.idle_parts import (
    MIN_SPLIT_GAP_NS,
    idle_by_cause,
    idle_by_step,
    idle_contents,
    idle_parts,
    main_causes,
)
from tracetui.idle.waits import Cause, idleness
from tracetui.linking.trees import open_at
from tracetui.model.trace import Kind, Trace

MOMENTS = st.integers(0, 400)
NAMES = {
    Kind.CPU_OP: ("aten::item", "aten::mm", "DataLoader"),
    Kind.ANNOTATION: ("Optimizer.step#a", "c10d::x", "dynamo_timed", "else"),
    Kind.RUNTIME: ("cudaStreamSynchronize", "cudaMalloc", "cudaStreamWaitEvent", "cudaGetDevice"),
    Kind.PYTHON: ("f", "torch/cuda/memory.py(1): empty_cache"),
    Kind.OVERHEAD: ("Buffer Flush",),
}


@st.composite
def events(draw: st.DrawFn) -> list[Event]:
    """A few slices on two threads, and work on two devices of which most was launched."""
    made = []
    for _ in range(draw(st.integers(0, 12))):
        kind = draw(st.sampled_from(list(NAMES)))
        lane = ("-1", "0") if kind == Kind.OVERHEAD else ("9", draw(st.sampled_from("12")))
        made.append(Event(draw(st.sampled_from(NAMES[kind])), draw(MOMENTS), draw(MOMENTS), kind, lane))
    for number in range(1, draw(st.integers(1, 8))):
        if draw(st.booleans()):
            made.append(launch(draw(MOMENTS), draw(MOMENTS), number, lane=("9", draw(st.sampled_from("12")))))
        lane = draw(st.sampled_from([("0", "7"), ("0", "9"), ("1", "7")]))
        for _ in range(draw(st.integers(1, 2))):
            made.append(Event("k", draw(MOMENTS), draw(st.integers(0, 90)), Kind.KERNEL, lane, correlation=number))
    return nested(made)


def nested(made: list[Event]) -> list[Event]:
    """Those of the events that overlap none before them on their thread without one holding the other."""
    kept: list[Event] = []
    for event in made:
        low, high = event.start, event.start + event.dur
        same = [(each.start, each.start + each.dur) for each in kept if each.lane == event.lane]
        crossing = any(start < low < end < high or low < start < high < end for start, end in same)
        if not crossing or event.lane[0] != "9":
            kept.append(event)
    return kept


@given(events())
@pytest.mark.full
def test_small_traces_split_as_moment_by_moment(made: list[Event]) -> None:
    trace = make_trace(made)
    idle = idleness(trace)
    expected = slow_gaps(trace)
    assert found_gaps(trace) == Counter(gap.key for gap in expected)
    assert np.array_equal(sum(idle_by_cause(trace).values(), np.zeros(len(idle), np.int64)), idle.dur)
    sums = Counter[Cause]()
    for gap in expected:
        sums.update(gap.late_by_sort)
    contents = idle_contents(trace)
    contents = contents.take(idle.known[contents.gap])
    found = Counter[Cause]()
    for cause, dur in zip(contents.cause.tolist(), contents.dur.tolist(), strict=True):
        found[Cause(cause)] += dur
    assert {cause: found[cause] for cause in list(Cause)[: Cause.LAUNCH]} == {
        cause: sums[cause] for cause in list(Cause)[: Cause.LAUNCH]
    }
    assert int(idle_by_step(trace).sum()) == int(idle.dur.sum())
    check_partition(trace)


def check_partition(trace: Trace) -> None:
    """Parts cover every gap exactly, one after another, and a short gap is one part."""
    idle, parts = idleness(trace), idle_parts(trace)
    assert (parts.dur > 0).all()
    assert np.array_equal(np.bincount(parts.gap, parts.dur, len(idle)), idle.dur)
    head = np.ones(len(parts), bool)
    head[1:] = parts.gap[1:] != parts.gap[:-1]
    assert np.array_equal(parts.start[head], idle.start[parts.gap[head]])
    assert np.array_equal(parts.start[~head], parts.end[:-1][~head[1:]])
    short = idle.dur < MIN_SPLIT_GAP_NS
    assert (np.bincount(parts.gap, minlength=len(idle))[short] == 1).all()
    assert np.array_equal(parts.cause[short[parts.gap]], main_causes(trace)[short])
    assert (
        int(idle_by_step(trace).sum())
        == sum(int(spent.sum()) for spent in idle_by_cause(trace).values())
        == int(idle.dur.sum())
    )


def found_gaps(trace: Trace) -> Counter[tuple[int, ...]]:
    """Our gaps as the slow script writes them."""
    idle = idleness(trace)
    columns = (idle.device, idle.start, idle.end, idle.known, idle.cpu_late, idle.in_launch, idle.waiting)
    return Counter(zip(*(column.tolist() for column in columns), strict=True))


@given(events(), st.lists(st.tuples(st.sampled_from("12"), MOMENTS), max_size=8))
def test_what_is_open_at_a_moment_is_the_deepest_that_holds_it(made: list[Event], asked: list[tuple[str, int]]) -> None:
    """Where slices of a lane overlap, it may be none of them, but never one that is not open."""
    trace = make_trace(made)
    lanes = {lane.tid: number for number, lane in enumerate(trace.lanes) if lane.pid == "9"}
    asked = [(tid, moment) for tid, moment in asked if tid in lanes]
    lane = np.array([lanes[tid] for tid, _ in asked], np.int64)
    moment = np.array([moment for _, moment in asked], np.int64)
    slices = trace.slices
    for row, number, time in zip(open_at(trace, lane, moment).tolist(), lane.tolist(), moment.tolist(), strict=True):
        inside = np.flatnonzero((slices.lane == number) & (slices.start <= time) & (time < slices.end))
        assert row == -1 or row in inside
        mine = slices.lane == number
        nested = slices.parent[mine] >= 0
        above = slices.parent[mine][nested]
        orderly = (slices.row == slices.depth)[mine].all() and (slices.end[mine][nested] <= slices.end[above]).all()
        if orderly:
            assert row == (inside[-1] if len(inside) else -1)


@given(st.lists(st.tuples(MOMENTS, st.integers(1, 60)), min_size=1, max_size=12), MOMENTS, st.integers(1, 300))
def test_the_longest_op_of_a_window(ops: list[tuple[int, int]], low: int, length: int) -> None:
    apart: list[Event] = []
    for start, dur in sorted(ops):
        if not apart or start >= apart[-1].start + apart[-1].dur:
            apart.append(op("aten::mm", start, dur))
    high = low + length
    takes = [min(event.start + event.dur, high) - max(event.start, low) for event in apart]
    if max(takes) <= 0:
        return
    rows, window = np.arange(len(apart)), (np.array([low]), np.array([high]))
    begin, end, _ = longest(make_trace(apart), rows, np.array([0]), *window)
    assert int(end[0] - begin[0]) == max(takes)


@pytest.mark.parametrize("name", given_traces("d*.json*", without=WITHOUT_GPU))
@pytest.mark.full
def test_real_traces_split_as_the_plain_script_says(name: str, shared_trace: Callable[[str], Path]) -> None:
    trace = loaded(shared_trace(name))
    expected = slow_gaps(trace, sorts=False)
    assert found_gaps(trace) == Counter(gap.key for gap in expected)
    idle = idleness(trace)
    known = idle.known
    assert (idle.cpu_late + idle.in_launch + idle.waiting == np.where(known, idle.dur, 0)).all()
    assert idle_by_step(trace).sum() == idle.dur.sum()
    check_partition(trace)
