"""The pane of a range of time, and other panes limited to one (R3.58, R3.59); see `test_random_traces` for sums."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.support.build import annotation, kernel, launch, make_trace, memcpy, op, step
from tests.support.paths import SAMPLES
from tests.support.sums import ranges
from tests.support.sums.slices import SlowTrace
from tests.support.traces import loaded
from tracetui.linking.steps import steps
from tracetui.model.intervals import TimeRange
from tracetui.model.trace import Trace
from tracetui.panes import PANES
from tracetui.reading.load import load

ON_GPU = ("kernel", "gpu_memcpy", "gpu_memset")
TWO_KERNELS = [
    step(1, 0, 1000),
    op("aten::mm", 0, 300, external=1),
    launch(10, 20, 1, external=1),
    launch(100, 20, 2, external=1),
    kernel("first", 200, 100, correlation=1, external=1),
    kernel("second", 400, 200, correlation=2, external=1),
    op("aten::add", 350, 50, external=2),
]


def rows(trace: Trace, pane: str, part: TimeRange, by: str | None = None) -> list[dict[str, Any]]:
    """The rows of a pane, of a range."""
    return list(PANES[pane].build(trace, step=part, by=by).rows())


def told(trace: Trace, part: TimeRange) -> dict[tuple[str, str | None], tuple[int | None, float | None]]:
    """Count and time in us of each row of the pane."""
    return {(row["what"], row["name"]): (row["count"], row["total_us"]) for row in rows(trace, "range", part)}


def test_activities_count_by_their_own_time_and_not_by_their_launch():
    trace = make_trace(TWO_KERNELS)
    assert [row["name"] for row in rows(trace, "kernels", TimeRange(0, 150))] == []
    assert [row["name"] for row in rows(trace, "kernels", TimeRange(250, 450))] == ["first", "second"]
    assert [row["name"] for row in rows(trace, "kernels", TimeRange(300, 400))] == []
    assert len(rows(trace, "launches", TimeRange(0, 50))) == 1


def test_single_rows_are_whole_and_groups_add_up_what_lies_within():
    trace = make_trace(TWO_KERNELS)
    part = TimeRange(250, 450)
    assert [row["dur_us"] for row in rows(trace, "kernels", part)] == [0.1, 0.2]
    by_name = {row["name"]: row["total_us"] for row in rows(trace, "kernels", part, "name")}
    assert by_name == {"first": 0.05, "second": 0.05}


def test_the_index_is_that_in_the_step():
    trace = make_trace(TWO_KERNELS)
    assert [row["index"] for row in rows(trace, "kernels", TimeRange(350, 500))] == [2]
    assert [row["index"] for row in rows(trace, "launches", TimeRange(90, 500))] == [2]


def test_busy_and_idle_time_make_the_length_of_the_range():
    trace = make_trace(TWO_KERNELS)
    found = told(trace, TimeRange(250, 450))
    assert found["GPU busy", "GPU 0"] == (None, 0.1)
    assert found["GPU idle", "GPU 0"] == (None, 0.1)
    assert found["gaps", None] == (1, 0.1)
    # Behind the last activity there is no gap: nothing ends it.
    found = told(trace, TimeRange(550, 900))
    assert (found["GPU busy", "GPU 0"], found["GPU idle", "GPU 0"]) == ((None, 0.05), (None, 0.3))
    assert found["idle", "in no gap"] == (None, 0.3)


@pytest.mark.parametrize("cut", [150, 250, 450, 500, 599, 800])
@pytest.mark.full
def test_two_ranges_that_make_up_the_trace_add_up(cut):
    slow = SlowTrace(make_trace([*TWO_KERNELS, launch(600, 100, 9, name="cudaDeviceSynchronize")]))
    parts = [TimeRange(0, cut), TimeRange(cut, 1001)]
    ranges.check_partition(slow, parts)
    for part in parts:
        ranges.check_range(slow, part)


def test_an_op_that_is_over_has_the_time_of_what_it_launched():
    trace = make_trace(TWO_KERNELS)
    (product,) = [row for row in rows(trace, "ops", TimeRange(450, 500)) if row["name"] == "aten::mm"]
    assert (product["calls"], product["cpu_total_us"], product["device_total_us"]) == (0, 0.0, 0.05)
    (product,) = [row for row in rows(trace, "ops", TimeRange(250, 500)) if row["name"] == "aten::mm"]
    assert (product["calls"], product["cpu_total_us"], product["device_total_us"]) == (1, 0.05, 0.15)


def test_a_trace_without_a_gpu_has_no_rows_about_one():
    trace = make_trace([op("aten::mm", 0, 300), op("aten::add", 400, 50)])
    whats = {what for what, _ in told(trace, TimeRange(100, 420))}
    assert whats == {"range", "operators", "operator", "thread"}
    assert told(trace, TimeRange(100, 420))["thread", "1"] == (2, 0.22)


def test_what_a_device_ran_elsewhere_is_no_reason_to_leave_it_out():
    """Where a device ran nothing it was idle; a device that ran nothing in the whole trace is not known to be there."""
    trace = make_trace(TWO_KERNELS)
    assert told(trace, TimeRange(700, 900))["GPU idle", "GPU 0"] == (None, 0.2)
    assert told(trace, TimeRange(700, 900))["GPU busy", "GPU 0"] == (None, 0.0)


def test_waits_for_the_gpu_are_part_of_the_time_of_a_thread():
    trace = make_trace([*TWO_KERNELS, launch(600, 100, 9, name="cudaDeviceSynchronize")])
    found = told(trace, TimeRange(550, 650))
    assert found["thread", "1"] == (1, 0.05)
    assert found["waiting", "1: for the GPU"] == (1, 0.05)
    assert ("waiting", "1: for the GPU") not in told(trace, TimeRange(0, 600))


def test_the_sentence():
    trace = make_trace([*TWO_KERNELS, memcpy("Memcpy DtoH", 620, 10)])
    headline = PANES["range"].build(trace, step=TimeRange(250, 450)).headline
    assert headline.startswith("Range 250–450 ns (200 ns): 2 kernels, 2 operators; GPU busy 50 %, idle mostly ")
    assert PANES["range"].build(trace, step=TimeRange(900, 950)).headline == (
        "Range 900–950 ns (50 ns): no kernel, copy or operator; GPU busy 0 %."
    )
    assert (
        PANES["range"].build(trace, step=TimeRange(610, 640)).headline.startswith("Range 610–640 ns (30 ns): 1 copy;")
    )


def test_only_findings_of_the_range_are_listed():
    trace = loaded(SAMPLES / "mlp_train_cpu.json.gz")
    table = PANES["findings"].build(trace)
    assert table.slices is not None and "whole trace" not in table.note
    low, high = trace.window
    whole = PANES["findings"].build(trace, step=TimeRange(low, high + 1))
    assert len(whole) == int((table.slices >= 0).sum())
    assert len(PANES["findings"].build(trace, step=TimeRange(high + 10, high + 20))) == 0
    assert "whole trace" in whole.note


@pytest.mark.parametrize("pane", PANES)
@pytest.mark.parametrize("name", ["mlp_train_cpu", "linear_compile_cpu"])
@pytest.mark.full
def test_every_pane_has_a_range(pane, name):
    trace = loaded(SAMPLES / f"{name}.json.gz")
    low, high = trace.window
    for part in (TimeRange(low, high), TimeRange(low + (high - low) // 3, high // 2), TimeRange(high + 5, high + 6)):
        for by in (None, *PANES[pane].offered(trace)):
            PANES[pane].build(trace, step=part, by=by)


def test_a_trace_without_steps():
    trace = make_trace([annotation("mine", 0, 500), op("aten::mm", 0, 300)])
    assert told(trace, TimeRange(100, 200))["operators", None] == (1, 0.1)
    assert len(PANES["steps"].build(trace, step=TimeRange(100, 200))) == 0


@pytest.mark.full
@pytest.mark.parametrize(
    "name", ["d06_h100_stack_mem.json.gz", "d04_a100_8rank_6steps_occ_nccl.json.gz", "d12_cpu_only_resnet18.json"]
)
def test_the_range_of_a_step_of_a_real_trace(name, shared_trace):
    check_middle_step(shared_trace(name))


@pytest.mark.parametrize("name", ["mlp_train_cpu.json.gz", "mlp_compile_cpu.json.gz"])
def test_a_range_with_the_bounds_of_a_step_says_what_a_slow_script_says(name):
    check_middle_step(SAMPLES / name)


def check_middle_step(path: Path) -> None:
    """The pane of a range with the bounds of the middle step against `slow_range`; half the trace without steps."""
    trace = load(str(path))
    every = steps(trace)
    index = len(every) // 2
    low, high = trace.window
    part = TimeRange(int(every.start[index]), int(every.end[index])) if len(every) else TimeRange(low, high // 2)
    slow, found = slow_range(path, part), defaultdict(list)
    for row in rows(trace, "range", part):
        found[row["what"]].append((row["count"], row["total_us"]))
    busy = sorted(time for _, time in found["GPU busy"])
    assert busy == pytest.approx(sorted(slow["busy"].values()), abs=0.002)
    assert [time for _, time in found["GPU idle"]] == pytest.approx(
        [part.length / 1000 - time for _, time in found["GPU busy"]], abs=0.002
    )
    assert sum(count for count, _ in found["kernel"]) == slow["activities"]
    assert found["operators"][0][0] == slow["operators"]
    assert sorted(time for _, time in found["thread"]) == pytest.approx(sorted(slow["threads"].values()), abs=0.002)


def slow_range(path: Path, part: TimeRange) -> dict[str, Any]:
    """The file read as plain JSON, one event after another: what runs in a range of time, times in us."""
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    events = [event for event in json.loads(text)["traceEvents"] if event.get("ph") == "X"]
    first = min(nanoseconds(event["ts"]) for event in events if event.get("cat") != "Trace")
    spans: dict[tuple[str, Any], list[tuple[int, int]]] = defaultdict(list)
    activities = operators = 0
    devices = set()
    for event in events:
        start = nanoseconds(event["ts"]) - first
        end = start + nanoseconds(event["dur"])
        category, is_step = event.get("cat"), event["name"].startswith("ProfilerStep#")
        if category in ON_GPU:
            devices.add(event["pid"])
        if start >= part.end or end <= part.start:
            continue
        piece = max(start, part.start), min(end, part.end)
        if category in ON_GPU:
            activities += 1
            spans["device", event["pid"]].append(piece)
        elif category in ("cpu_op", "cuda_runtime", "cuda_driver") and not is_step:
            operators += category == "cpu_op"
            spans["thread", (event["pid"], event["tid"])].append(piece)
    busy = {device: union_us(spans["device", device]) for device in devices}
    threads = {key: union_us(pieces) for (kind, key), pieces in spans.items() if kind == "thread"}
    return {"busy": busy, "threads": threads, "activities": activities, "operators": operators}


def nanoseconds(microseconds: float) -> int:
    """A time of the file."""
    return round(microseconds * 1000)


def union_us(pieces: Iterable[tuple[int, int]]) -> float:
    """For how long at least one of the pieces lasts."""
    total, reach = 0, -1
    for start, end in sorted(pieces):
        total += max(end - max(start, reach), 0)
        reach = max(reach, end)
    return total / 1000


def test_kernels_side_by_side_are_marked_above_the_whole():
    both = [kernel("a", 0, 100), kernel("b", 0, 88, "stream 8")]
    table = PANES["range"].build(make_trace(both))
    row = next(row for row in range(len(table)) if table["what"].cell(row) == "kernels")
    assert table["pct"].cell(row) == 188
    assert table["pct"].is_doubtful(row) and "side by side" in table.note
    assert not any(table["pct"].is_doubtful(other) for other in range(len(table)) if other != row)
