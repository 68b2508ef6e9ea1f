"""The one idle time of a step: nothing of any step runs between its first GPU activity and its last (R3.30)."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.build import Event, kernel, launch, make_trace, op, step
from tests.support.traces import given_traces, loaded
from tracetui.checking.evaluate import Evaluator
from tracetui.checking.parser import parsed
from tracetui.comparing.change_rows import paired
from tracetui.comparing.measures import measures, recording_conditions
from tracetui.comparing.side import STEP, side
from tracetui.comparing.statement import statement
from tracetui.drawing.report.reports import trace_report
from tracetui.drawing.timeline.raster import TimelineIndex
from tracetui.findings.scope import Scope
from tracetui.health.summary import facts
from tracetui.idle.gpu_spans import GpuSpans, gaps_of, step_spans, trace_span
from tracetui.idle.idle_parts import idle_by_cause
from tracetui.idle.scope_times import step_overlaps, times_in_words
from tracetui.idle.verdict import IDLE_PARTS, step_verdicts, verdict
from tracetui.idle.waits import MIN_GAP_NS, idleness
from tracetui.model.trace import Kind, Trace
from tracetui.panes import PANES

US = 1_000


def overlapping(filled: bool) -> Trace:
    """Three steps, each with a hole of 40 us between its two kernels, which work of the next step fills or not."""
    made: list[Event] = []
    for number in range(3):
        begin = 100 * number
        made.append(step(number + 1, begin * US, 90 * US))
        for offset, start, dur in ((0, begin + 10, 20), (1, begin + 70, 20)):
            made.append(launch((begin + offset) * US, US, 10 * number + offset + 1))
            made.append(kernel("k", start * US, dur * US, correlation=10 * number + offset + 1))
    filler = [launch(320 * US + each * US, US, 100 + each) for each in range(4)]
    filler += [kernel("f", start * US, 40 * US, "stream 9", correlation=100 + each) for each, start in FILLED]
    made += [step(4, 315 * US, 50 * US), *filler] if filled else []
    return make_trace(made)


FILLED = tuple((each, 100 * each + 30) for each in range(3)) + ((3, 400),)
"""Number and start in us of the activities that fill the holes."""


@pytest.mark.parametrize(("filled", "idle"), [(True, 0.0), (False, 40.0)])
def test_work_of_other_steps_is_no_idle_time_anywhere(filled: bool, idle: float) -> None:
    trace = overlapping(filled)
    # With the wait before the first kernel, of 10 us in the first step and 20 in the others.
    times = [idle + 10, idle + 20, idle + 20]
    shares = [100 * times[0] / 90, times[1], times[2]]
    rows = list(PANES["steps"].build(trace).rows())[:3]
    assert [row["gpu_idle_us"] for row in rows] == times
    assert [row["idle_pct"] for row in rows] == pytest.approx(shares)
    assert [row["period_us"] for row in rows] == [90, 100, 100]
    assert [(row["gpu_busy_us"], row["gpu_span_us"], row["gpu_others_us"]) for row in rows] == [(40, 80, 40 - idle)] * 3
    assert [one.judged.idle_pct for one in step_verdicts(trace)[:3] if one] == pytest.approx(shares)
    for number, (time, share) in enumerate(zip(times, shares, strict=True), 1):
        found = measures(side(trace, str(number)))
        assert [found[name].values.tolist() for name in ("gpu_idle_us", "gpu_idle_pct")] == [
            [time],
            [pytest.approx(share)],
        ]
        lines = {fact.key: fact.value for fact in facts(trace, number)}
        assert [lines["idle_pct"], lines["step_idle_pct"]] == pytest.approx([share, share])
        assert Scope(trace, number).idle == time * US
        span = {
            row["what"]: row["total_us"] for row in PANES["range"].build(trace, number).rows() if row["what"] != "idle"
        }
        assert (span["range"], span["GPU idle"]) == (rows[number - 1]["period_us"], time)
    evaluator = Evaluator(side(trace, "1:3"))
    for name in ("gpu_idle_pct", "step[2].gpu_idle_pct", "step[2].idle_pct", "max(steps.idle_pct)"):
        value = evaluator.value(parsed(name))
        assert value.is_number
        assert value.one == pytest.approx(shares[1])


def test_the_statement_of_a_comparison_and_the_report_have_the_same_idle_time() -> None:
    busy, idle = overlapping(filled=True), overlapping(filled=False)
    totals = paired(side(idle, "1:3"), side(busy, "1:3"))
    assert [getattr(totals["gpu_idle_pct"].difference, name).median for name in "ab"] == [60, 20]
    text = "\n".join(statement(side(idle, "2"), side(busy, "2")))
    assert "Bottleneck: " in text
    assert "; busy with its own work for " in text
    assert "; busy for " in "\n".join(statement(side(idle, "2"), side(loading(0), "2")))
    assert recording_conditions(side(busy, "2")).verdict == step_verdicts(busy)[1].words  # type: ignore[union-attr]
    for trace, share in ((busy, "36 %"), (idle, "59 %")):
        said = trace_report(trace, TimelineIndex(trace)).verdict
        assert f"GPU idle {share} of the steps" in said


def loading(wait: int, outside: int = 0) -> Trace:
    """Four steps of 1 ms of kernels without a gap, each after a wait for data; then an activity of no step."""
    made: list[Event] = []
    moment = 0
    for number in range(4):
        made.append(step(number + 1, moment * US, (wait + 900) * US))
        if wait:
            made.append(op("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", moment * US, wait * US))
        begin = moment + wait
        for index in range(2):
            correlation = 10 * number + index + 1
            made.append(launch((begin + index * 3) * US, US, correlation))
            made.append(kernel("k", (begin + 2 + index * 500) * US, 500 * US, correlation=correlation))
        moment = begin + 1_002
    if outside:
        made += [launch((moment + outside) * US, US, 99), kernel("k", (moment + outside + 2) * US, US, correlation=99)]
    return make_trace(made)


def test_a_step_that_waits_for_its_data_before_its_first_kernel_is_called_so() -> None:
    trace = loading(2_000)
    first, *others = step_verdicts(trace)
    assert first is not None
    assert (first.words, first.wait) == ("host-stall-bound (data loading)", 0)
    for number, one in enumerate(others, 2):
        assert one is not None
        assert one.words == "host-stall-bound (data loading)"
        assert (one.idle, one.idle_pct, one.wait, one.judged.idle) == (0, 0, 2_002 * US, 2_002 * US)
        assert one.idle_text == f"GPU idle 67 % of step {number}"
    whole = verdict(trace)
    assert whole is not None
    assert whole.words == "host-stall-bound (data loading)"
    assert recording_conditions(side(trace)).verdict == whole.words
    assert {row["wait_before_us"] for row in PANES["steps"].build(trace).rows()} == {None, 2_002.0}
    assert {row["gpu_idle_us"] for row in PANES["steps"].build(trace).rows()} == {2_002.0}


def test_without_that_wait_nothing_of_it_is_said() -> None:
    trace = loading(0)
    assert [one.words for one in step_verdicts(trace) if one] == ["GPU-bound"] * 4
    assert verdict(trace).words == "GPU-bound"  # type: ignore[union-attr]


def test_a_comparison_says_how_the_wait_before_the_first_kernel_changed() -> None:
    text = "\n".join(statement(side(loading(2_000)), side(loading(1_000))))
    assert "GPU wait per step before its first kernel" in text
    assert "2.00 → 1.00 ms" in text
    assert "GPU wait" not in "\n".join(statement(side(loading(0)), side(loading(0))))


def test_a_trace_that_is_idle_outside_of_its_steps_is_not_judged_by_that() -> None:
    found = verdict(loading(0, outside=100_000))
    assert found is not None
    assert found.words == "GPU-bound"
    assert found.idle_pct > 90
    assert found.idle_text == "GPU idle 0.2 % of the steps"


def replays(hole: int) -> Trace:
    """Five replays of a graph of ten nodes, with a hole of some us before the same node of each."""
    made: list[Event] = []
    for number in range(5):
        begin = 10_000 * number
        made.append(launch(begin * US, 20 * US, number + 1, "cudaGraphLaunch"))
        for node in range(10):
            start = begin + 30 + 100 * node + (hole if node >= 5 else 0)
            made.append(kernel(f"k{node}", start * US, 99 * US, correlation=number + 1, args={"graph id": 3}))
        made.append(launch((begin + 1_100 + hole) * US, US, 100 + number))
        made.append(kernel("filler", (begin + 1_030 + hole) * US, (8_995 - hole) * US, correlation=100 + number))
    return make_trace(made)


def test_what_was_not_recorded_holds_nothing_back() -> None:
    found = verdict(replays(4_000))
    assert found is not None
    assert found.idle_pct > 35
    assert found.not_recorded == 5 * 4_001 * US
    assert found.words == "GPU-bound"
    assert "of the trace lies where nodes of a graph were not recorded" in found.remarks[0]
    assert "mostly where nodes of graphs were not recorded" in found.text


def test_without_holes_of_that_kind_no_idle_time_is_left_out() -> None:
    found = verdict(replays(0))
    assert found is not None
    assert (found.not_recorded, found.remarks) == (0, ())
    assert "not recorded" not in found.text


def unlaunched(next_call: int) -> Trace:
    """Pairs of kernels after gaps of 100 us, of which the first has no launch record and the second that call in us."""
    made: list[Event] = []
    for number in range(10):
        begin = 130 * number
        made.append(kernel("lost", begin * US, 10 * US, correlation=1_000 + number))
        made.append(launch((begin + next_call) * US, US, 10 + number))
        made.append(kernel("k", (begin + 11) * US, 10 * US, correlation=10 + number))
    return make_trace(made)


def test_the_cpu_was_late_for_work_without_a_launch_record_too() -> None:
    """Where the next activity was launched when the device was idle already, the one before it was as well."""
    found = verdict(unlaunched(-10))
    assert found is not None
    assert (found.words, found.unknown) == ("overhead-bound", 0)
    assert found.deduced > 0.7 * found.idle
    assert "launch overhead" in found.text


def test_nothing_is_deduced_where_the_next_activity_was_queued_before() -> None:
    found = verdict(unlaunched(-125))
    assert found is not None
    assert found.deduced == 0
    assert found.words == "idle, cause unknown"


def queued(correlation: int) -> Trace:
    """Two kernels without a launch record, 1 ms apart, and busy kernels with one."""
    first = [kernel("lost", 0, 10 * US, correlation=correlation), kernel("lost", 1_000 * US, 10 * US, correlation=2)]
    rest = [launch(1_000 * US + each * US, US, 100 + each) for each in range(5)]
    rest += [kernel("k", (1_010 + 100 * each) * US, 100 * US, correlation=100 + each) for each in range(5)]
    return make_trace([*first, *rest])


def test_idle_time_before_work_that_was_launched_before_the_capture_holds_nothing_back() -> None:
    found = verdict(queued(1))
    assert found is not None
    assert (found.before_capture, found.words) == (990 * US, "GPU-bound")
    assert found.idle_pct > 60
    assert "launched before the capture began" in found.remarks[0]
    assert "mostly before activities launched before the capture" in found.text


def test_that_of_work_that_was_launched_late_counts() -> None:
    trace = rhythm_of(1_000)
    found = verdict(trace)
    assert found is not None
    assert (found.before_capture, found.remarks) == (0, ())
    assert found.words != "GPU-bound"


def rhythm_of(gap: int) -> Trace:
    """Kernels of 100 us, each launched after a gap of so many us."""
    made: list[Event] = []
    for number in range(5):
        begin = (gap + 100) * number
        made += [launch((begin - 5) * US + 10 * US, US, number + 1)]
        made += [kernel("k", (begin + 10) * US, 100 * US, correlation=number + 1)]
    return make_trace(made)


@st.composite
def work_of_steps(draw: st.DrawFn) -> list[Event]:
    """Activities on two devices, launched in one of three steps, in none, or by nothing recorded."""
    made = [step(number + 1, 100 * number, 100) for number in range(3)]
    for number in range(1, draw(st.integers(1, 12))):
        lane = draw(st.sampled_from([("0", "7"), ("0", "9"), ("1", "7")]))
        if draw(st.integers(0, 5)):
            made.append(launch(draw(st.integers(0, 350)), 1, number))
        start, dur = draw(st.integers(0, 600)), draw(st.integers(0, 120))
        made.append(Event("k", start, dur, Kind.KERNEL, lane, correlation=number))
    return made


def slow_spans(trace: Trace) -> dict[tuple[int, str], Counter[str]]:
    """Idle time, wait, others' time and the ns of each cause by step and device, one ns after another."""
    slices, gaps = trace.slices, idleness(trace)
    spent = {int(cause): values.tolist() for cause, values in idle_by_cause(trace).items()}
    rows = [row for row in range(len(slices)) if slices.kind[row] == Kind.KERNEL]
    calls = {
        int(slices.correlation[row]): int(slices.start[row])
        for row in range(len(slices))
        if slices.kind[row] == Kind.RUNTIME
    }
    pids = list(dict.fromkeys(lane.pid for lane in trace.lanes))
    found: dict[tuple[int, str], Counter[str]] = {}
    for index in range(3):
        for pid in ("0", "1"):
            mine = [row for row in rows if trace.lanes[slices.lane[row]].pid == pid]
            times = [(int(slices.start[row]), int(slices.end[row])) for row in mine]
            called = [calls.get(int(slices.correlation[row]), -1) for row in mine]
            own = [time for time, call in zip(times, called, strict=True) if call >= 0 and call // 100 == index]
            counts = found.setdefault((index, pid), Counter())
            if not own:
                continue
            low, high = min(start for start, _ in own), max(end for _, end in own)
            for moment in range(low, high):
                running = any(start <= moment < end for start, end in times)
                counts["idle"] += not running
                counts["others"] += running and not any(start <= moment < end for start, end in own)
            earlier = [end for start, end in times if start < low]
            counts["wait"] = max(low - max(earlier), 0) if earlier else 0
            counts["known"] = bool(earlier)
            for gap in range(len(gaps)):
                inside = low <= gaps.start[gap] and gaps.end[gap] <= high
                if gaps.device[gap] == pids.index(pid) and (inside or gaps.end[gap] == low):
                    counts["gaps"] += 1
                    for cause, values in spent.items():
                        counts[f"cause {cause}"] += values[gap]
    return found


@given(work_of_steps())
def test_every_step_is_idle_as_counted_moment_by_moment(made: list[Event]) -> None:
    trace = make_trace(made)
    found, expected = step_spans(trace), slow_spans(trace)
    pids = list(dict.fromkeys(lane.pid for lane in trace.lanes))
    for index in range(3):
        mine = [expected[index, pid] for pid in ("0", "1")]
        assert found.total_idle[index] == sum(each["idle"] for each in mine)
        assert found.total_others[index] == sum(each["others"] for each in mine)
        assert found.total_wait[index] == sum(each["wait"] for each in mine)
        assert found.wait_known[index] == any(each["known"] for each in mine)
    for column, number in enumerate(found.device.tolist()):
        assert found.idle[:, column].tolist() == [expected[index, pids[number]]["idle"] for index in range(3)]
    part, gap = gaps_of(trace, found)
    assert np.bincount(part, minlength=3).tolist() == [
        expected[index, "0"]["gaps"] + expected[index, "1"]["gaps"] for index in range(3)
    ]
    for cause, values in idle_by_cause(trace).items():
        sums = np.bincount(part, values[gap], 3).tolist()
        assert sums == [sum(expected[index, pid][f"cause {int(cause)}"] for pid in "01") for index in range(3)]


@given(work_of_steps())
@pytest.mark.full
def test_parts_of_the_idle_time_add_up_and_shares_stay_below_a_hundred(made: list[Event]) -> None:
    trace = make_trace(made)
    for one in [*step_verdicts(trace), verdict(trace)]:
        if one is None:
            continue
        parts = [getattr(one, name) for name in (*IDLE_PARTS[:7], "pauses")]
        assert sum(parts) == one.idle + one.wait
        assert min(parts) >= 0
        assert one.pauses <= MIN_GAP_NS * (one.activities + len(trace.slices))
        assert 0 <= one.idle_pct <= 100
        assert 0 <= one.judged.idle_pct <= 100
        assert 0 <= one.exposed_comm <= one.total


@given(work_of_steps())
@pytest.mark.full
def test_unrelated_work_beside_it_leaves_no_idle_time(made: list[Event]) -> None:
    beside = [Event("f", 0, 1_000, Kind.KERNEL, (device, "99")) for device in "01"]
    trace = make_trace([*made, *beside])
    assert not step_spans(trace).idle.any()
    assert not trace_span(trace).idle.any()
    assert all(one.level == 0 for one in [*step_verdicts(trace), verdict(trace)] if one)


def totals_of(spans: GpuSpans) -> list[list[int]]:
    return [spans.total_span.tolist(), spans.total_idle.tolist(), spans.total_wait.tolist()]


def test_a_trace_without_gpu_activity_has_no_span() -> None:
    trace = make_trace([op("aten::mm", 0, 10), step(1, 0, 100)])
    assert totals_of(trace_span(trace)) == totals_of(step_spans(trace)) == [[0], [0], [0]]
    assert np.isnan(trace_span(trace).idle_pct).all()


@pytest.mark.parametrize("name", given_traces("d*.json*"))
def test_the_verdict_of_a_trace_and_a_comparison_agree(name, shared_trace) -> None:
    """In words, in the idle share, and in what the statement of a comparison says of it."""
    trace = loaded(shared_trace(name))
    one = side(trace)
    whole, found = verdict(trace), measures(one)
    if whole is None:
        assert np.isnan(found["gpu_idle_pct"].values).all()
        return
    if one.part_kind != STEP:
        assert found["gpu_idle_pct"].values.tolist() == [pytest.approx(whole.idle_pct)]
        return
    kept = [each for each in PANES["steps"].build(trace).rows() if each["step"] in set(one.number.tolist())]
    for measure, column in (("gpu_idle_pct", "idle_pct"), ("gpu_idle_us", "gpu_idle_us")):
        shown = [np.nan if each[column] is None else each[column] for each in kept]
        assert found[measure].values.tolist() == pytest.approx(shown, nan_ok=True)
    judged = [each for each in step_verdicts(trace) if each]
    assert recording_conditions(one).verdict in {each.words for each in judged}
    shares = [each.judged.idle_pct for each in judged]
    assert min(shares) - 1e-9 <= whole.judged.idle_pct <= max(shares) + 1e-9


def beside_the_last(ahead: int) -> Trace:
    """Steps of 1 ms on the GPU, whose first kernel runs on a stream of its own and for so many µs beside the last."""
    events: list[Event] = []
    for number in range(4):
        at, call = 1_000_000 * number, 2 * number
        events += [step(number, at, 900_000), launch(at, 5_000, call), launch(at + 10_000, 5_000, call + 1)]
        begin = 2_000_000 + 1_000_000 * number
        events.append(kernel("a", begin - 1_000 * ahead, 50_000 + 1_000 * ahead, "stream 9", correlation=call))
        events.append(kernel("b", begin + 50_000, 950_000, correlation=call + 1))
    return make_trace(events)


def test_steps_that_overlap_say_so_in_pane_times_and_comparison() -> None:
    trace, apart = beside_the_last(300), beside_the_last(0)
    assert (step_overlaps(trace) / 1000).tolist()[1:] == [300.0] * 3
    note = PANES["steps"].build(trace).note
    assert "3 of 4 begin before the step before ends, by 300.0 µs in the median" in note
    assert "(300.0 µs beside the step before)" in times_in_words(trace, 2)[0]
    assert "Steps of B overlap on the GPU" in "\n".join(statement(side(apart), side(trace)))
    assert "overlap" not in PANES["steps"].build(apart).note + "\n".join(statement(side(apart), side(loading(0))))
