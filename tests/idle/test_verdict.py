"""The verdict on a step and on a trace, what it rests on, and what the devices did besides computing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.build import Event, kernel, launch, make_trace, op, step
from tests.support.traces import loaded
from tracetui.idle.gpu_spans import Exposure, exposure, step_exposure
from tracetui.idle.verdict import FRAMES, NOTHING_SEEN, step_verdicts, totals, verdict, verdict_on
from tracetui.model.trace import Device, Kind, Trace
from tracetui.panes import PANES

US = 1_000


def rhythm(*work: tuple[int, int, int], name: str = "k", more: tuple[Event, ...] = ()) -> Trace:
    """Work given as launch, start and duration in us; each launch call takes 1 us."""
    made = list(more)
    for number, (called, start, dur) in enumerate(work, 1):
        made.append(launch(called * US, US, number))
        made.append(kernel(name, start * US, dur * US, correlation=number))
    return make_trace(made)


def words(trace: Trace) -> str | None:
    found = verdict(trace)
    return found.words if found else None


def test_a_gpu_that_is_kept_busy() -> None:
    assert words(rhythm((0, 10, 100), (5, 111, 100))) == "GPU-bound"


def test_many_short_gaps_before_late_launches() -> None:
    trace = rhythm(*((100 * i, 100 * i + 5, 10) for i in range(20)))
    found = verdict(trace)
    assert found is not None
    assert found.words == "overhead-bound"
    assert (found.covered, found.idle, found.activities, found.late) == (200 * US, 19 * 90 * US, 20, 19)
    assert (found.cpu_late, found.in_launch, found.waiting) == (19 * 85 * US, 19 * US, 19 * 4 * US)
    assert (found.small, found.dependency) == (19 * 86 * US, 0)
    assert found.text == ("overhead-bound: GPU idle 90 % of the trace (89 % launch overhead)")


def test_some_idle_time_makes_gaps_and_no_other_verdict() -> None:
    trace = rhythm(*((100 * i, 100 * i + 5, 85) for i in range(20)))
    assert words(trace) == "GPU-bound with overhead gaps"


def test_a_few_long_gaps_are_a_stall_with_a_name() -> None:
    loading = op("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 200 * US, 9_000 * US)
    assert words(rhythm((0, 10, 100), (10_000, 10_005, 10), more=(loading,))) == "host-stall-bound (data loading)"


def test_queued_work_that_does_not_run_depends_on_something() -> None:
    trace = rhythm((0, 10, 100), (5, 1_000, 100), (6, 2_000, 100))
    found = verdict(trace)
    assert found is not None
    assert (found.words, found.remarks) == ("idle, cause unknown", (NOTHING_SEEN,))
    told = verdict(
        rhythm((0, 10, 100), (5, 1_000, 100), more=(Event("cudaStreamWaitEvent", 3 * US, 10, Kind.RUNTIME),))
    )
    assert told is not None and (told.words, told.remarks) == ("dependency-bound", ())


def test_short_waits_of_queued_work_are_mixed() -> None:
    trace = rhythm(*((i, 100 + 20 * i, 12) for i in range(10)))
    assert words(trace) == "mixed-bound"


def test_work_without_launches_leaves_the_cause_unknown() -> None:
    assert words(make_trace([kernel("a", 0, 100), kernel("b", 1_000, 100)])) == "idle, cause unknown"
    assert words(make_trace([kernel("a", 0, 1_000), kernel("b", 1_200, 100)])) == "GPU-bound with unexplained gaps"


def test_exposed_communication_decides_what_keeps_the_gpu_busy() -> None:
    assert words(rhythm((0, 10, 100), (5, 110, 100), name="ncclDevKernel_AllReduce")) == "communication-bound"


def test_what_keeps_the_gpu_busy_is_told_where_shapes_are_known() -> None:
    device = Device(0, "NVIDIA H100 80GB HBM3", {"computeMajor": 9, "computeMinor": 0, "numSms": 132})

    def busy_with(name: str, *sizes: list[int]) -> str | None:
        args = {"Input Dims": list(sizes), "Input type": ["c10::BFloat16"] * len(sizes)}
        called = [op(name, 0, 50 * US, args=args), launch(10 * US, US, 1)]
        trace = make_trace([*called, kernel("k", 20 * US, 2_000 * US, correlation=1)], [device])
        found = verdict(trace)
        return found.words if found else None

    assert busy_with("aten::mm", [8192, 8192], [8192, 8192]) == "compute-bound"
    assert busy_with("aten::add", [8192, 8192], [8192, 8192]) == "memory-bound"
    assert busy_with("my::op", [8192, 8192]) == "GPU-bound"


def test_python_frames_are_a_reason_to_doubt_overhead() -> None:
    frame = Event("f.py(1): f", 0, 10_000 * US, Kind.PYTHON)
    trace = rhythm(*((100 * i, 100 * i + 5, 10) for i in range(20)), more=(frame,))
    assert verdict(trace).remarks == (FRAMES,)  # type: ignore[union-attr]
    assert PANES["summary"].build(trace).note == FRAMES


def test_a_step_has_the_gaps_before_its_own_work() -> None:
    trace = rhythm(
        (0, 10, 100),
        (5, 110, 90),
        (250, 300, 50),
        (255, 350, 50),
        more=(step(1, 0, 200 * US), step(2, 200 * US, 100 * US), step(3, 300 * US, 100 * US)),
    )
    first, second, third = step_verdicts(trace)
    assert first is not None and second is not None
    assert (first.words, first.idle, first.covered) == ("GPU-bound", 0, 190 * US)
    assert (second.words, second.idle, second.covered, second.wait) == ("overhead-bound", 0, 100 * US, 100 * US)
    assert (second.idle_pct, second.judged.idle_pct) == (0, 50)
    assert (first.judged.time, first.judged.idle) == (200 * US, 10 * US)
    assert (second.judged.time, second.judged.idle) == (200 * US, 100 * US)
    assert third is None
    rows = list(PANES["steps"].build(trace).rows())
    assert [(row["verdict"], row["idle_pct"], row["late_pct"], row["exposed_comm_us"]) for row in rows] == [
        ("GPU-bound", 5.0, 0.0, 0.0),
        ("overhead-bound", 50.0, 50.0, 0.0),
        (None, None, None, None),
    ]


def test_the_summary_tells_what_the_verdict_rests_on() -> None:
    trace = rhythm(*((100 * i, 100 * i + 5, 10) for i in range(20)))
    found = {row["key"]: row["number"] for row in PANES["summary"].build(trace).rows()}
    parts = [found[f"idle_{name}_pct"] for name in ("cpu_late", "in_launch", "waiting", "unknown")]
    assert sum(map(float, parts)) == pytest.approx(100)  # type: ignore[arg-type]
    assert found["idle_pct"] == pytest.approx(100 * 1_710 / 1_910)
    assert found["late_pct"] == 95.0
    assert found["small_gaps_pct"] == 100.0


def test_without_a_gpu_there_is_no_verdict() -> None:
    trace = make_trace([op("aten::mm", 0, 10), step(1, 0, 100)])
    assert verdict(trace) is None
    assert step_verdicts(trace) == [None]
    found = {row["key"]: row["value"] for row in PANES["summary"].build(trace).rows()}
    assert (found["verdict"], found["idle_pct"], found["self_device_total_us"]) == (None, None, None)


def test_a_step_whose_work_ends_with_that_of_the_step_before_has_no_verdict_but_its_sums() -> None:
    trace = make_trace(
        [
            step(1, 0, 100),
            launch(10, 5, 1),
            step(2, 100, 100),
            launch(110, 5, 2),
            kernel("short", 120, 30, "stream 8", correlation=2),
            kernel("long", 20, 200, correlation=1),
        ]
    )
    assert [one is None for one in step_verdicts(trace)] == [False, True]
    found = {row["key"]: row["number"] for row in PANES["summary"].build(trace, 2).rows()}
    assert (found["idle_pct"], found["self_device_total_us"]) == (None, 0.03)


@pytest.mark.parametrize(
    ("cpu", "gpu", "reading"), [(200, 100, "overhead-bound"), (110, 100, "compute-bound"), (50, 100, None)]
)
def test_the_rule_of_the_tutorial(cpu: int, gpu: int, reading: str | None) -> None:
    trace = make_trace([op("aten::mm", 0, cpu), launch(0, 1, 1), kernel("a", 10, gpu, correlation=1)])
    sums = totals(trace)
    assert (sums.cpu, sums.device, sums.reading) == (cpu, gpu, reading)


NAMES = {"ncclDevKernel_AllReduce": Kind.KERNEL, "gemm": Kind.KERNEL, "Memcpy": Kind.MEMCPY, "Memset": Kind.MEMSET}


@st.composite
def steps_of_work(draw: st.DrawFn) -> list[Event]:
    """Work on two devices that two steps or none launched."""
    made = [step(1, 0, 100), step(2, 100, 100)]
    for number in range(1, draw(st.integers(1, 10))):
        name = draw(st.sampled_from(list(NAMES)))
        lane = draw(st.sampled_from([("0", "7"), ("0", "9"), ("1", "7")]))
        made.append(launch(draw(st.integers(0, 250)), 1, number))
        start, dur = draw(st.integers(0, 300)), draw(st.integers(1, 60))
        made.append(Event(name, start, dur, NAMES[name], lane, correlation=number))
    return made


@given(steps_of_work())
@pytest.mark.full
def test_what_is_exposed_as_counted_moment_by_moment(made: list[Event]) -> None:
    trace = make_trace(made)
    pids = list(dict.fromkeys(lane.pid for lane in trace.lanes))
    calls = {event.correlation: event.start for event in made if event.kind == Kind.RUNTIME}
    for found, count, belongs in (
        (exposure(trace), 1, lambda event, _: event.kind in NAMES.values()),
        (step_exposure(trace), 2, lambda event, index: calls.get(event.correlation, -1) // 100 == index),
    ):
        devices = sorted({pids.index(event.lane[0]) for event in made if event.kind in NAMES.values()})
        assert found.device.tolist() == devices * count
        for place, device in enumerate(devices * count):
            index = place // len(devices)
            mine = [
                event
                for event in made
                if event.kind in NAMES.values() and pids.index(event.lane[0]) == device and belongs(event, index)
            ]
            every = [event for event in made if event.kind in NAMES.values() and pids.index(event.lane[0]) == device]
            assert at(found, place) == moment_by_moment(mine, every)


def at(found: Exposure, place: int) -> tuple[int, ...]:
    columns = (
        found.span,
        found.compute,
        found.comm,
        found.exposed_comm,
        found.exposed_copy,
        found.others,
        found.idle,
    )
    return tuple(int(column[place]) for column in columns)


def moment_by_moment(work: list[Event], every: list[Event]) -> tuple[int, ...]:
    """Span, compute, communication, exposed communication, exposed copies, others, idle; `every` holds all steps'."""
    if not work:
        return (0,) * 7
    low, high = min(event.start for event in work), max(event.start + event.dur for event in work)
    found = Counter(dict.fromkeys(("compute", "comm", "exposed_comm", "exposed_copy", "others", "idle"), 0))
    for moment in range(low, high):
        own, running = ({e.name for e in some if e.start <= moment < e.start + e.dur} for some in (work, every))
        found["comm"] += "ncclDevKernel_AllReduce" in own
        if not running:
            found["idle"] += 1
        elif "gemm" in own:
            found["compute"] += 1
        elif "ncclDevKernel_AllReduce" in own and "gemm" not in running:
            found["exposed_comm"] += 1
        elif own and running <= {"Memcpy", "Memset"}:
            found["exposed_copy"] += 1
        else:
            found["others"] += 1
    return high - low, *found.values()


def test_devices_are_added_up_step_by_step() -> None:
    trace = make_trace(
        [
            step(1, 0, 100),
            launch(0, 1, 1),
            launch(1, 1, 2),
            kernel("ncclDevKernel_AllReduce", 10, 30, correlation=1),
            Event("ncclDevKernel_AllReduce", 10, 50, Kind.KERNEL, ("1", "7"), correlation=2),
        ]
    )
    assert at(step_exposure(trace).total(), 0) == (80, 0, 80, 80, 0, 0, 0)
    assert verdict_on(trace, 1) == step_verdicts(trace)[0]


CONTROL = "d04_a100_8rank_6steps_occ_nccl.json.gz"
OWLV2 = "d06_h100_stack_mem.json.gz"
RESNET = "d07_mi300x_8rank_3steps_stack.json.gz"


def test_owlv2_waits_for_its_data(shared_trace: Callable[[str], Path]) -> None:
    """Idle 47 %, late 3 %, small 2 %: see 3(g)."""
    found = verdict(loaded(shared_trace(OWLV2)))
    assert found is not None
    assert found.words == "host-stall-bound (data loading)"
    assert [round(number) for number in (found.idle_pct, found.late_pct, found.small_pct or 0)] == [47, 3, 2]


def test_resnet_keeps_its_gpu_busy(shared_trace: Callable[[str], Path]) -> None:
    """Three steps of 895 activities, idle for at most 1 %; what keeps the GPU busy is communication."""
    for found in step_verdicts(loaded(shared_trace(RESNET))):
        assert found is not None
        assert (found.activities, found.words) == (895, "communication-bound")
        assert found.idle_pct < 1


def test_the_control_run_has_overhead_gaps(shared_trace: Callable[[str], Path]) -> None:
    """Idle 12 to 23 % of the periods, small 73 to 83 % but for the fifth of its six steps."""
    found = [one for one in step_verdicts(loaded(shared_trace(CONTROL))) if one is not None]
    # In all but the first more time goes by with nothing but communication than for launches.
    words = ["GPU-bound with overhead gaps", *["communication-bound"] * 5]
    assert [one.words for one in found] == words
    assert np.allclose([one.judged.idle_pct for one in found], [23, 19, 14, 14, 12, 17], atol=0.6)
    assert np.allclose([one.small_pct or 0 for one in found], [73, 83, 74, 75, 100, 77], atol=0.6)


def test_a_step_whose_work_ended_before_that_of_the_step_before_has_no_verdict():
    """Its period is empty, and a GPU that is idle for 0 % of nothing is not busy."""
    events = [step(1, 0, 100_000), launch(10_000, 5_000, 1), kernel("long", 20_000, 500_000, correlation=1)]
    events += [step(2, 100_000, 100_000), launch(110_000, 5_000, 2)]
    events += [kernel("short", 120_000, 10_000, "stream 8", correlation=2)]
    verdicts = step_verdicts(make_trace(events))
    assert verdicts[0] is not None and verdicts[1] is None
