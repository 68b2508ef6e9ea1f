"""What holds of every trace: parts of gaps cover them exactly, and no clock is ahead by more than a launch allows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.build import Event, kernel, launch, make_trace, op, python
from tests.support.paths import SHARED
from tests.support.traces import given_traces
from tracetui.errors import TracetuiError
from tracetui.idle.idle_parts import MIN_LAUNCHES, IdleParts, clock_skew, idle_contents, idle_parts
from tracetui.idle.thread_causes import thread_causes
from tracetui.idle.waits import idleness, queueing
from tracetui.model.trace import Trace
from tracetui.reading.load import load

US, MS = 1_000, 1_000_000
FOLDERS = ("d*.json*", "inference/i*.json*", "pairs/*.json*", "puzzlers/*.json*", "edge/[er]*.json*")
FILES = given_traces(*FOLDERS)
OTHER_STREAM = "stream 20"


def check_cover(trace: Trace, parts: IdleParts) -> None:
    """The parts of each gap follow one another from its start to its end, and there is no other part."""
    idle = idleness(trace)
    head = np.diff(parts.gap, prepend=-1) != 0
    tail = np.append(head[1:], True)[: len(head)]
    assert np.array_equal(parts.gap[head], np.arange(len(idle)))
    assert np.array_equal(parts.start[head], idle.start)
    assert np.array_equal(parts.end[tail], idle.end)
    assert np.array_equal(parts.start[~head], parts.end[~tail])
    assert (parts.dur > 0).all()


def check_invariants(trace: Trace) -> None:
    check_cover(trace, idle_contents(trace))
    check_cover(trace, idle_parts(trace))
    latency = queueing(trace).latency
    assert clock_skew(trace) <= max(int(latency.min()) if len(latency) else 0, 0)
    if clock_skew(trace) < 0:
        assert (latency < 0).any()


@pytest.mark.parametrize("name", FILES)
@pytest.mark.full
def test_every_real_trace(name: str) -> None:
    try:
        trace = load(str(SHARED / name))
    except TracetuiError as error:
        pytest.skip(f"no trace: {error}")
    check_invariants(trace)


def test_real_traces_are_there() -> None:
    if not SHARED.exists():
        pytest.skip("needs ../shared/traces, which is not there")
    assert len(FILES) > 40


@st.composite
def programs(draw: st.DrawFn) -> list[Event]:
    """A loop that launches more than a queue needs to be judged; its GPU may lag, and its clock may be anywhere."""
    skew = draw(st.sampled_from([0, 30 * US, -30 * US, 400 * MS, -400 * MS]))
    lag = draw(st.sampled_from([0, 0, 20 * US, 40 * MS]))
    period = draw(st.sampled_from([20 * US, 100 * US, 3 * MS]))
    length, pause = draw(st.integers(1_000, 90 * US)), draw(st.sampled_from([0, 6 * US, 50 * US]))
    count = draw(st.sampled_from([3, MIN_LAUNCHES + 20]))
    early = draw(st.sets(st.integers(0, 2)))
    made: list[Event] = []
    free = {"stream 7": 0, OTHER_STREAM: 0}
    for number in range(count):
        at = number * period
        made += [op("aten::mm", at - 12 * US, 10 * US), launch(at, 4 * US, number + 1)]
        lane = draw(st.sampled_from(sorted(free))) if number < 3 else "stream 7"
        start = max(at + 5 * US + (0 if number in early else lag), free[lane])
        made.append(kernel("k", start + skew, length, lane, correlation=number + 1))
        free[lane] = start + length + pause
    if draw(st.booleans()):
        made.append(python("train.py(1): train", -20 * US, count * period + 20 * US))
    if draw(st.booleans()):
        # One record is wrong: its activity ran before it was launched.
        made += [launch(count * period, 4 * US, 9_999), kernel("k", -MS + skew, 10, correlation=9_999)]
    return made


@given(programs())
def test_every_simulated_loop(events: list[Event]) -> None:
    check_invariants(make_trace(events))


def lagging(first: int) -> Trace:
    """Kernels 40 ms behind their launches with gaps between them; the first one starts so soon after its launch."""
    events: list[Event] = []
    for number in range(MIN_LAUNCHES + 20):
        start = first if number == 0 else 40 * MS + number * 20 * US
        events += [op("aten::mm", number * 10 * US - 4 * US, 3 * US), launch(number * 10 * US, 4 * US, number + 1)]
        events.append(kernel("k", start, 10 * US, correlation=number + 1))
    return make_trace(events)


def test_a_queue_is_no_clock_where_one_launch_was_quick() -> None:
    trace = lagging(5 * US)
    assert clock_skew(trace) == 0
    check_invariants(trace)


def test_every_launch_late_by_as_much_is_a_clock() -> None:
    trace = lagging(40 * MS)
    assert clock_skew(trace) == 40 * MS - 5 * US
    check_invariants(trace)


WINDOWS = st.tuples(st.integers(0, 1), st.integers(-500, 900), st.integers(1, 300))
SLICES = st.tuples(st.sampled_from("12"), st.integers(0, 400), st.integers(0, 100), st.sampled_from([0, 1 << 46]))


@given(st.lists(SLICES, min_size=1, max_size=8), st.lists(WINDOWS, min_size=1, max_size=6))
def test_windows_are_cut_and_never_lost_wherever_the_slices_are(
    slices: list[tuple[str, int, int, int]], windows: list[tuple[int, int, int]]
) -> None:
    """Before the first slice, behind the last one, and in a pause of hours that is shortened."""
    made = [op("aten::item", at + far, length, lane=("1", thread)) for thread, at, length, far in slices]
    trace = make_trace([*made, op("aten::mm", 0, 1, lane=("1", "1")), op("aten::mm", 0, 1, lane=("1", "2"))])
    lane, low, length = (np.array(column, np.int64) for column in zip(*windows, strict=True))
    low = low + int(trace.slices.start.min())
    high = low + length
    lanes = np.arange(len(trace.lanes))
    window, start, end, cause = thread_causes(trace, lanes, low, high).within(lane, low, high)
    for index in range(len(windows)):
        mine = np.flatnonzero(window == index)
        assert (start[mine[0]], end[mine[-1]]) == (low[index], high[index])
        assert np.array_equal(start[mine[1:]], end[mine[:-1]])
    first, last = int(trace.slices.start.min()), int(trace.slices.end.max())
    outside = (end <= first) | (start >= last)
    assert len(set(cause[outside].tolist())) <= 1, "nothing is on any thread there"
