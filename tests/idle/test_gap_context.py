"""What stands around a gap: the gap before an activity, its causes, and what the CPU did meanwhile."""

from __future__ import annotations

from tests.support.build import kernel, launch, make_trace, op, python
from tracetui.idle.gaps import cpu_names_of, cpu_slices_of, gap_before, gap_causes_of, gap_shares, gap_threads
from tracetui.idle.idle_parts import main_causes
from tracetui.idle.waits import WORDS, idleness
from tracetui.model.trace import Trace

MS = 1_000_000


def waiting() -> Trace:
    """A kernel, 10 ms in which the CPU is in a loader and then in an operator, and another kernel."""
    return make_trace(
        [
            python("train.py(7): step", 0, 12 * MS),
            launch(1_000, 5_000, 1),
            kernel("a", 10_000, 90_000, correlation=1),
            op("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 100_000, 8 * MS),
            op("aten::stack", 1 * MS, 5 * MS),
            op("aten::mm", 9 * MS, 1 * MS),
            launch(9_900_000, 5_000, 2),
            kernel("b", 10_100_000, 20_000, correlation=2),
            op("aten::elsewhere", 200_000, 9 * MS, lane=("1", "2")),
        ]
    )


def row_of(trace: Trace, name: str) -> int:
    """The only slice of a name."""
    (row,) = (row for row in range(len(trace.slices)) if trace.name_of(row) == name)
    return row


def test_the_gap_before_an_activity_is_found_and_only_there() -> None:
    trace = waiting()
    gap = gap_before(trace, row_of(trace, "b"))
    assert (int(idleness(trace).start[gap]), int(idleness(trace).end[gap])) == (100_000, 10_100_000)
    assert gap_before(trace, row_of(trace, "a")) == gap_before(trace, row_of(trace, "aten::mm")) == -1
    assert gap_before(trace, -1) == -1


def test_causes_add_up_to_the_gap_and_are_those_of_the_pane() -> None:
    trace = waiting()
    parts = gap_causes_of(trace, 0)
    assert sum(part.time for part in parts) == idleness(trace).dur[0] == 10 * MS
    assert [part.time for part in parts] == sorted((part.time for part in parts), reverse=True)
    first = WORDS[parts[0].cause]
    assert first == "data loading" == WORDS[int(main_causes(trace)[0])]
    shares, texts = gap_shares(trace)
    assert texts[int(shares[0])].startswith(f"{first} {round(parts[0].time / MS * 10)} %")


def test_names_have_the_time_that_they_spent_themselves_within_the_gap() -> None:
    trace = waiting()
    found = {trace.name_of(each.row): each.time for each in cpu_names_of(trace, 0, 10)}
    loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    assert found[loader] == 3 * MS
    assert found["aten::stack"] == 5 * MS
    assert found["aten::mm"] == MS - 5_000
    # The frame around all of it has what is left of the gap: 100 us after the loader's end and behind the operator.
    assert sum(found.values()) == 10 * MS
    assert "aten::elsewhere" not in found
    assert [each.time for each in cpu_names_of(trace, 0, 2)] == [5 * MS, 3 * MS]


def test_no_moment_counts_twice_where_slices_outlive_their_callers() -> None:
    trace = make_trace(
        [
            launch(0, 1_000, 1),
            kernel("a", 2_000, 8_000, correlation=1),
            op("aten::outer", 10_000, 40_000),
            op("aten::outlives", 20_000, 60_000),
            op("aten::overlaps", 30_000, 60_000),
            launch(95_000, 1_000, 2),
            kernel("b", 100_000, 8_000, correlation=2),
        ]
    )
    found = {trace.name_of(each.row): each.time for each in cpu_names_of(trace, 0, 10)}
    assert sum(found.values()) <= 90_000
    assert found["aten::overlaps"] == 60_000 and found["aten::outer"] == 10_000


def test_slices_count_that_lie_mostly_in_the_gap() -> None:
    trace = waiting()
    names = {trace.name_of(row) for row in cpu_slices_of(trace, 0).tolist()}
    assert {"aten::stack", "aten::mm", "train.py(7): step"} <= names
    assert "aten::elsewhere" not in names
    mostly_before = make_trace(
        [
            op("aten::before", 0, 50_000),
            launch(1_000, 5_000, 1),
            kernel("a", 10_000, 20_000, correlation=1),
            launch(60_000, 5_000, 2),
            kernel("b", 70_000, 20_000, correlation=2),
        ]
    )
    assert "aten::before" not in {mostly_before.name_of(row) for row in cpu_slices_of(mostly_before, 0).tolist()}


def test_without_a_launch_no_thread_is_named() -> None:
    trace = make_trace([kernel("a", 0, 1_000), op("aten::mm", 1_000, 5_000), kernel("b", 50_000, 1_000)])
    assert gap_threads(trace, 0).tolist() == []
    assert cpu_names_of(trace, 0, 5) == []
    assert sum(part.time for part in gap_causes_of(trace, 0)) == 49_000
