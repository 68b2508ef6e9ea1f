"""Steps: those that are recorded, and time that is not profiled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.support.autograd import backward, forward
from tests.support.build import Event, kernel, launch, make_trace, op, step
from tests.support.traces import loaded
from tracetui.comparing.side import side
from tracetui.comparing.statement import Comparison
from tracetui.devices.descriptions import with_device
from tracetui.errors import UsageError
from tracetui.health.summary import facts
from tracetui.linking.placement import activities_of_step, before_capture, step_index, within
from tracetui.linking.step_kinds import partial_steps, time_ratio, unprofiled_time
from tracetui.linking.step_sources import step_markers, with_steps
from tracetui.linking.steps import steps
from tracetui.model.trace import Kind, Trace
from tracetui.panes import PANES

AUTOGRAD = ("1", "2")


def two_steps() -> Trace:
    """A deep queue: everything runs after both steps have ended on the CPU."""
    return make_trace(
        [
            step(7, 0, 100_000),
            step(8, 120_000, 100_000),
            op("aten::mm", 10_000, 20_000),
            launch(15_000, 2_000, 1),
            op("aten::mm", 105_000, 5_000),
            launch(106_000, 1_000, 2),
            op("MmBackward0", 130_000, 40_000, lane=AUTOGRAD),
            launch(150_000, 3_000, 3, lane=AUTOGRAD),
            launch(160_000, 3_000, 4, "cudaMemcpyAsync", lane=AUTOGRAD),
            kernel("lost", 1_000, 1_000, correlation=99),
            kernel("a", 300_000, 10_000, correlation=1),
            kernel("b", 320_000, 10_000, correlation=2),
            kernel("a", 340_000, 10_000, correlation=3),
            Event("Memcpy DtoH", 345_000, 10_000, Kind.MEMCPY, ("0", "stream 9"), correlation=4),
        ]
    )


def test_steps_are_cpu_slices_by_name_in_order_of_start() -> None:
    trace = make_trace(
        [
            step(10, 200, 100),
            step(9, 0, 100),
            Event("ProfilerStep#9", 0, 500, Kind.GPU_ANNOTATION, ("0", "7")),
            Event("ProfilerStep#x", 300, 50, Kind.ANNOTATION),
            Event("ProfilerStep#11", 400, 50, Kind.CPU_OP),
        ]
    )
    assert steps(trace).number.tolist() == [9, 10, 11]


def test_gpu_work_belongs_to_the_step_of_its_launch() -> None:
    trace = two_steps()
    rows = trace.slices.of_kind(Kind.KERNEL, Kind.MEMCPY)
    found = dict(zip(map(trace.name_of, rows.tolist()), step_index(trace, rows).tolist(), strict=True))
    assert found == {"lost": -1, "a": 1, "b": -1, "Memcpy DtoH": 1}
    assert len(within(trace, rows, 7)) == 1


def test_ops_belong_to_the_step_that_is_open_on_any_thread() -> None:
    trace = two_steps()
    rows = trace.slices.of_kind(Kind.CPU_OP)
    assert step_index(trace, rows).tolist() == [0, -1, 1]


def test_an_end_is_outside() -> None:
    every = steps(make_trace([step(1, 0, 10), step(2, 10, 10)]))
    assert every.of_moment(np.array([-1, 0, 9, 10, 19, 20])).tolist() == [-1, 0, 0, 1, 1, -1]


def test_after_a_step_within_a_step_the_outer_one_goes_on() -> None:
    every = steps(make_trace([step(1, 0, 100), step(2, 10, 40), step(3, 20, 10), step(4, 60, 40), step(5, 100, 10)]))
    moments = {0: 1, 9: 1, 10: 2, 20: 3, 29: 3, 30: 2, 50: 1, 59: 1, 60: 4, 99: 4, 100: 5, 109: 5, 110: None, -1: None}
    found = every.of_moment(np.array(list(moments)))
    assert [int(every.number[index]) if index >= 0 else None for index in found] == list(moments.values())


def test_threads_that_profile_on_their_own_keep_their_steps() -> None:
    other, worker = ("1", "5"), ("1", "6")
    trace = make_trace(
        [
            step(1, 0, 100),
            step(1, 50, 100, lane=other),
            op("mine", 60, 5),
            op("theirs", 60, 5, lane=other),
            op("early", 10, 5, lane=worker),
            op("unclear", 60, 5, lane=worker),
            op("late", 120, 5, lane=worker),
            op("elsewhere", 10, 5, lane=("2", "1")),
        ]
    )
    rows = trace.slices.of_kind(Kind.CPU_OP)
    found = dict(zip(map(trace.name_of, rows.tolist()), step_index(trace, rows).tolist(), strict=True))
    assert found == {"mine": 0, "theirs": 1, "early": 0, "unclear": -1, "late": 1, "elsewhere": -1}
    assert len(within(trace, rows, 1)) == 4


def test_the_pane_counts_by_launch() -> None:
    first, second = PANES["steps"].build(two_steps()).rows()
    assert (first["step"], first["kernels"], first["copies"], first["launches"], first["cpu_ops"]) == (7, 1, 0, 1, 1)
    assert (second["kernels"], second["copies"], second["launches"]) == (1, 1, 2)
    # Its period begins with the end of the first step's work; in between something of no step ran.
    assert (second["gpu_busy_us"], second["gpu_span_us"]) == (15.0, 15.0)
    assert (second["period_us"], second["gpu_idle_us"], second["wait_before_us"]) == (45.0, 20.0, 10.0)
    assert first["launch_delay_us"] == 285.0
    assert first["fingerprint"] == second["fingerprint"]


def test_a_step_without_gpu_work_has_no_gpu_times() -> None:
    (row,) = PANES["steps"].build(make_trace([step(1, 0, 10)])).rows()
    assert (row["kernels"], row["gpu_busy_us"], row["launch_delay_us"], row["fingerprint"]) == (0, None, None, None)


def test_the_last_wait_of_the_capture_is_the_profilers() -> None:
    trace = make_trace(
        [
            step(1, 0, 100_000),
            launch(1_000, 1_000, 1),
            Event("cudaDeviceSynchronize", 5_000, 3_000, Kind.RUNTIME),
            Event("cudaDeviceSynchronize", 50_000, 40_000, Kind.RUNTIME),
            kernel("a", 3_000, 1_000, correlation=1),
        ]
    )
    assert PANES["steps"].build(trace)["sync_us"].cell(0) == 3.0


def test_an_unknown_step_is_refused_in_words() -> None:
    with pytest.raises(UsageError, match="no step 3; the steps of this trace are numbered 7, 8"):
        PANES["kernels"].build(two_steps(), step=3)
    with pytest.raises(UsageError, match="has no steps"):
        PANES["kernels"].build(make_trace([op("a", 0, 1)]), step=3)


def test_where_steps_overlap_the_backward_thread_belongs_to_its_forward_thread() -> None:
    one, two, engine = ("1", "1"), ("1", "2"), ("1", "9")
    trace = make_trace(
        [
            step(1, 0, 1_000, lane=one),
            step(1, 50, 1_000, lane=two),
            forward("aten::mm", 60, 10, 3, lane=two),
            *backward("MmBackward0", 200, 100, 3, lane=engine),
            launch(210, 5, 1, lane=engine),
            kernel("back", 300, 10, correlation=1),
        ]
    )
    rows = np.flatnonzero(trace.slices.lane == trace.slices.lane[trace.slices.kind == Kind.RUNTIME][0])
    assert steps(trace).overlap
    assert set(step_index(trace, rows).tolist()) == {1}
    assert [trace.name_of(row) for row in activities_of_step(trace, 1).tolist()] == ["back"]


def steps_with(*kernels: int) -> Trace:
    """Steps with so many kernels each."""
    events = [step(number, number * 10_000, 9_000) for number in range(len(kernels))]
    for number, count in enumerate(kernels):
        for place in range(count):
            at, key = number * 10_000 + place * 100, number * 100 + place + 1
            events += [launch(at, 10, key), kernel("k", at + 50, 10, correlation=key)]
    return make_trace(events)


def test_a_first_or_last_step_with_far_less_work_was_cut() -> None:
    assert partial_steps(steps_with(10, 10, 10, 4)).tolist() == [False, False, False, True]
    assert partial_steps(steps_with(3, 10, 10)).tolist() == [True, False, False]
    assert partial_steps(steps_with(14, 10, 4, 10)).tolist() == [False] * 4
    assert partial_steps(steps_with(2, 10)).tolist() == [False, False]


def test_work_that_was_launched_before_the_capture_runs_before_any_of_the_capture() -> None:
    trace = make_trace(
        [
            launch(100, 10, 1),
            kernel("warm-up", 50, 20),
            kernel("deep in the queue", 200, 20),
            kernel("captured", 300, 20, correlation=1),
            kernel("no record", 400, 20),
        ]
    )
    assert [trace.name_of(row) for row in before_capture(trace).tolist()] == ["warm-up", "deep in the queue"]
    assert len(before_capture(make_trace([kernel("alone", 0, 10)]))) == 0


def test_a_real_trace_holds_the_end_of_its_warm_up(shared_trace: Callable[[str], Path]) -> None:
    assert len(before_capture(loaded(shared_trace("d07_mi300x_8rank_3steps_stack.json.gz")))) == 968


def iterations() -> Trace:
    """No steps, but an annotation that repeats, with others in it and a library's own beside it."""
    events = []
    for number in range(4):
        at = number * 1_000
        events += [
            Event(f"train {number}", at, 800 + number, Kind.ANNOTATION),
            Event("forward", at + 10, 300, Kind.ANNOTATION),
            op("aten::mm", at + 20, 100),
            Event("Optimizer.step#SGD.step", at + 850, 100, Kind.ANNOTATION),
            Event("uneven", at + 960, 3**number, Kind.ANNOTATION),
        ]
    return make_trace(events)


def test_what_repeats_at_top_level_is_offered_as_a_marker_of_steps() -> None:
    (found,) = step_markers(iterations())
    assert (found.name, len(found.rows), found.total) == ("train #", 4, 3_206)
    assert ("train # (4)") in [row["value"] for row in PANES["summary"].build(iterations()).rows()]
    assert step_markers(two_steps()) == []


def test_steps_can_be_taken_from_what_runs_and_from_nothing_else() -> None:
    trace = iterations()
    marked = with_steps(trace, "train #")
    assert steps(marked).number.tolist() == [1, 2, 3, 4]
    assert PANES["steps"].build(marked)["cpu_ops"].values.tolist() == [1, 1, 1, 1]
    assert (len(steps(trace)), steps(trace).found_by) == (4, "repeating optimizer")
    with pytest.raises(UsageError, match=r"'backward' cannot mark the steps of this trace.*'train #'"):
        with_steps(trace, "backward")


@pytest.mark.parametrize("is_device_first", [True, False])
def test_chosen_steps_and_a_chosen_device_do_not_undo_each_other(is_device_first: bool) -> None:
    trace = iterations()
    if is_device_first:
        both = with_steps(with_device(trace, "H100"), "train #")
    else:
        both = with_device(with_steps(trace, "train #"), "H100")
    assert steps(both).number.tolist() == [1, 2, 3, 4]
    assert [device.name for device in both.devices] == ["H100 SXM"]
    assert steps(trace).found_by == "repeating optimizer" and not trace.devices


TIMES = {"median_us": 20.0, "low_us": 19.8, "high_us": 20.3, "profiled_us": 37.0, "session": "one"}


def recorded(scale=1.0, **changes):
    """A trace of three steps with such times."""
    times = {name: value * scale if isinstance(value, float) else value for name, value in TIMES.items()} | changes
    events = []
    for number in range(3):
        events += [
            step(number, number * 1_000_000, int(37_000 * scale)),
            op("aten::mm", number * 1_000_000 + 10, 20_000),
        ]
    return replace(make_trace(events), metadata={"tracetui": {"unprofiled": times}})


def test_what_the_profiler_adds():
    time = unprofiled_time(recorded())
    assert time is not None
    assert time.median_us == 20.0
    assert time.profiler_adds_pct == pytest.approx(85)
    lines = {fact.key: fact.value for fact in facts(recorded())}
    assert lines["unprofiled_us"] == 20.0
    assert lines["profiler_adds_pct"] == pytest.approx(85)
    assert "unprofiled_us" not in {fact.key for fact in facts(make_trace([op("aten::mm", 0, 1)]))}


@pytest.mark.parametrize("value", [None, "x", -1.0, 0, float("nan"), float("inf"), True, [1]])
def test_what_is_no_time_counts_as_not_there(value):
    assert unprofiled_time(recorded(median_us=value)) is None
    time = unprofiled_time(recorded(low_us=value))
    assert time is not None and time.low_us is None


@pytest.mark.parametrize("metadata", [{}, {"tracetui": "x"}, {"tracetui": {"unprofiled": [1]}}])
def test_a_trace_without_times(metadata):
    assert unprofiled_time(replace(recorded(), metadata=metadata)) is None


def test_an_interval_that_does_not_hold_its_median_is_none():
    time = unprofiled_time(recorded(low_us=21.0))
    assert time is not None and time.low_us is None and time.high_us is None
    other = unprofiled_time(recorded())
    assert other is not None and time_ratio(time, other) is None


def said(a, b):
    """The sentence about times without the profiler."""
    return [line for line in Comparison(side(a), side(b)).statement if line.startswith("Without the profiler")]


def test_two_recordings_in_a_sentence():
    assert said(recorded(), recorded(0.5)) == [
        "Without the profiler 20.0 → 10.0 µs per step: 2.00 times as fast (1.95 to 2.05)."
    ]
    assert said(recorded(), recorded(3.0))[0].endswith("3.00 times as long (2.93 to 3.08).")


def test_overlapping_intervals_cannot_tell():
    assert said(recorded(), recorded(1.01))[0].endswith("cannot tell, the intervals of the medians overlap.")
    assert said(recorded(), recorded(0.5, low_us=None))[0].endswith("cannot tell, too few samples for an interval.")


def test_recordings_that_were_not_timed_in_turns_are_compared_with_a_reservation():
    [line] = said(recorded(), recorded(0.5, session="two"))
    assert line.endswith("; timed one after the other, not in turns.")


def test_without_times_on_both_sides_nothing_is_said():
    assert said(recorded(), replace(recorded(0.5), metadata={})) == []
    trace = recorded()
    assert said(trace, trace) == []
