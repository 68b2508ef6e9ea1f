"""What the ops pane counts where names meet, where a slice never ends, and where only the profiler was at work."""

from __future__ import annotations

from dataclasses import replace

from tests.support.build import Event, make_trace, op
from tracetui.model.table import Cell
from tracetui.model.trace import Kind, LaneKind, Trace
from tracetui.operators.costs import costs, is_overlapped, self_cpu_sum
from tracetui.panes import PANES

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
