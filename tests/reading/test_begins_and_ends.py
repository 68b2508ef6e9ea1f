"""Begins and ends, each case by hand: which end closes which begin, and what a begin that nothing closes lasts."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tracetui.model.trace import Trace
from tracetui.reading import spans
from tracetui.reading.load import load
from tracetui.reading.spans import pair

NO_NAME = 0
A, B = 1, 2
Event = tuple[int, int, str, int]
"""Group, time, B or E, and name."""


def paired(*events: Event) -> tuple[list[tuple[int, int]], list[int], list[int]]:
    """Begins with their ends, begins without one, ends without a begin."""
    group, time, kind, name = zip(*events, strict=True) if events else ((), (), (), ())
    is_begin = np.array([letter == "B" for letter in kind], bool)
    columns = [np.array(each, np.int64) for each in (group, time, name)]
    found = pair(columns[0], columns[1], is_begin, columns[2], NO_NAME)
    return sorted(zip(found.begin.tolist(), found.end.tolist(), strict=True)), found.open.tolist(), found.stray.tolist()


@pytest.mark.parametrize(
    ("events", "pairs", "opened", "stray"),
    [
        ([], [], [], []),
        ([(0, 1, "B", A), (0, 2, "E", A)], [(0, 1)], [], []),
        ([(0, 1, "B", A), (0, 2, "E", NO_NAME)], [(0, 1)], [], []),
        ([(0, 1, "B", A), (0, 2, "E", B)], [], [0], [1]),
        ([(0, 1, "E", A), (0, 2, "B", A)], [], [1], [0]),
        ([(0, 1, "E", A), (0, 2, "E", A)], [], [], [0, 1]),
        ([(0, 1, "B", A)], [], [0], []),
        ([(0, 1, "E", A)], [], [], [0]),
        # Events of one time are in the order of the file.
        ([(0, 1, "B", A), (0, 1, "E", A), (0, 1, "B", B), (0, 1, "E", B)], [(0, 1), (2, 3)], [], []),
        ([(0, 2, "E", A), (0, 1, "B", A)], [(1, 0)], [], []),
        # An end closes the innermost begin of its name, whatever is open within it.
        ([(0, 1, "B", A), (0, 2, "B", B), (0, 3, "E", A)], [(0, 2)], [1], []),
        ([(0, 1, "B", A), (0, 2, "B", B), (0, 3, "E", A), (0, 4, "E", B)], [(0, 2), (1, 3)], [], []),
        ([(0, 1, "B", A), (0, 2, "B", A), (0, 3, "E", A)], [(1, 2)], [0], []),
        ([(0, 1, "B", A), (0, 2, "B", B), (0, 3, "E", NO_NAME)], [(1, 2)], [0], []),
        ([(0, 1, "B", A), (0, 2, "B", B), (0, 3, "E", NO_NAME), (0, 4, "E", NO_NAME)], [(0, 3), (1, 2)], [], []),
        ([(0, 1, "B", A), (0, 2, "E", A), (0, 3, "E", A), (0, 4, "B", A)], [(0, 1)], [3], [2]),
    ],
)
def test_ends_close_the_innermost_begin_of_their_name(events, pairs, opened, stray) -> None:
    assert paired(*events) == (pairs, opened, stray)
    # Beside others, whose groups are in order or not.
    whole = [(5, 1, "B", A), (5, 2, "E", A)]
    torn = [(6, 1, "B", B), (6, 2, "B", A), (6, 3, "E", B)]
    behind = len(events)
    expected = [*pairs, (behind, behind + 1), (behind + 2, behind + 4)]
    assert paired(*events, *whole, *torn) == (expected, [*opened, behind + 3], stray)
    shift = len(whole) + len(torn)
    first = [(group - 9, time, kind, name) for group, time, kind, name in (*torn, *whole)]
    moved = [(begin + shift, end + shift) for begin, end in pairs]
    assert paired(*first, *events) == (
        [(0, 2), (3, 4), *moved],
        [1, *(row + shift for row in opened)],
        [row + shift for row in stray],
    )


def test_groups_whose_events_alternate_are_paired_apart() -> None:
    events = [(group, time, kind, A) for time, kind in enumerate("BBEE") for group in (1, 2, 3)]
    assert paired(*events)[0] == [(0, 9), (1, 10), (2, 11), (3, 6), (4, 7), (5, 8)]


def test_groups_that_only_together_are_in_order_have_open_begins_and_stray_ends() -> None:
    assert paired((1, 1, "B", A), (2, 2, "E", A)) == ([], [0], [1])
    assert paired((2, 1, "B", A), (1, 2, "E", A)) == ([], [0], [1])
    assert paired((1, 1, "B", A), (1, 2, "B", A), (2, 3, "E", A), (2, 4, "E", A)) == ([], [0, 1], [2, 3])
    assert paired((1, 1, "B", A), (2, 1, "B", A), (2, 2, "E", A), (3, 2, "E", A)) == ([(1, 2)], [0], [3])


@pytest.mark.parametrize(
    ("more", "walked"),
    [
        ([], []),
        ([(7, 1, "B", A), (7, 2, "B", B), (7, 3, "E", A), (7, 4, "E", B)], [4]),
        ([(1, 1, "E", A), (1, 2, "B", A)], [2]),
        ([(1, 1, "E", A), (1, 2, "E", A), (1, 3, "B", A), (1, 4, "B", A)], [4]),
        ([(7, 1, "B", A), (7, 2, "B", A)], [2]),
        ([(2, 1, "B", A), (2, 2, "E", B)], [2]),
    ],
)
def test_only_groups_out_of_order_are_walked(monkeypatch, more: list[Event], walked: list[int]) -> None:
    """Two groups are in order, one of 8 events and one of 2; of the others the number of events counts."""
    order = [(3, 1, "B", A), (3, 2, "B", B), (3, 2, "E", B), (3, 3, "B", B), (3, 4, "E", NO_NAME), (3, 5, "E", A)]
    events = [*order, (3, 6, "B", A), (3, 7, "E", A), (5, 1, "B", A), (5, 9, "E", NO_NAME), *more]
    walk, lengths = spans._walk, []

    def counted(first: int, is_begin: list[bool], *rest: Any) -> None:
        lengths.append(len(is_begin))
        walk(first, is_begin, *rest)

    monkeypatch.setattr(spans, "_walk", counted)
    pairs, _, _ = paired(*events)
    assert {(0, 5), (1, 2), (3, 4), (6, 7), (8, 9)} <= set(pairs)
    assert lengths == walked


def event(phase: str, ts: int, name: str | None = "a", tid: int = 1, **more: Any) -> dict[str, Any]:
    given = {"ph": phase, "ts": ts, "pid": 1, "tid": tid, "cat": "c"} | more
    return given if name is None else given | {"name": name}


@pytest.fixture
def read(tmp_path):
    def write_and_load(*events: dict[str, Any]) -> Trace:
        path = tmp_path / "t.json"
        path.write_text(json.dumps({"traceEvents": events}))
        return load(str(path))

    return write_and_load


def slices(trace: Trace) -> list[tuple[str, int, int]]:
    """Name, start and duration in us from the first event on, by start."""
    spans = trace.slices
    found = [(trace.name_of(row), int(spans.start[row]), int(spans.dur[row])) for row in range(len(spans))]
    return sorted((name, start // 1000, dur // 1000) for name, start, dur in found)


def test_a_begin_that_nothing_closes_lasts_to_the_end_of_its_thread(read) -> None:
    trace = read(
        event("B", 10),
        event("X", 20, "x", dur=30),
        event("B", 15, "other", tid=2),
        event("B", 16, "closed", tid=2),
        event("E", 25, "closed", tid=2),
        event("X", 90, "apart", tid=3, dur=10),
    )
    assert slices(trace) == [("a", 0, 40), ("apart", 80, 10), ("closed", 6, 9), ("other", 5, 10), ("x", 10, 30)]
    assert (trace.quality.unfinished, trace.quality.unmatched_ends) == (2, 0)


def test_a_begin_at_the_end_of_its_thread_lasts_no_time(read) -> None:
    trace = read(event("B", 10), event("E", 12), event("B", 14, "last"), event("E", 11, "stray"))
    assert slices(trace) == [("a", 0, 2), ("last", 4, 0)]
    assert (trace.quality.unfinished, trace.quality.unmatched_ends) == (1, 1)


def test_a_complete_slice_without_a_duration_is_unfinished(read) -> None:
    trace = read(event("X", 10, "whole", dur=0), event("X", 20, "half"))
    assert slices(trace) == [("half", 10, 0), ("whole", 0, 0)]
    assert trace.quality.unfinished == 1


def test_arguments_of_an_end_are_those_of_its_slice(read) -> None:
    trace = read(
        event("B", 10, "outer", args={"at": "begin"}),
        event("B", 11, "inner"),
        event("E", 12, "inner", args={"at": "inner end"}),
        event("E", 13, "outer", args={"more": "outer end"}),
        event("b", 20, "task", id=3),
        event("e", 30, "task", id=3, args={"more": "task end"}),
    )
    rows = {trace.name_of(row): trace.event_of(row)["args"] for row in range(len(trace.slices))}
    assert rows["outer"] == {"at": "begin", "more": "outer end"}
    assert (rows["inner"], rows["task"]) == ({"at": "inner end"}, {"more": "task end"})


def test_asynchronous_slices_belong_together_by_id_and_their_moments_are_instants(read) -> None:
    trace = read(
        event("b", 10, "one", id=1),
        event("b", 12, "two", id=2),
        event("n", 15, "moment", id=1),
        event("e", 20, "two", id=2),
        event("e", 30, "one", id=1),
        event("S", 40, "old", id=3),
        event("F", 45, "old", id=3),
        event("b", 50, "open", id=4),
        event("e", 60, "stray", id=5),
    )
    # An open one has no thread whose end it could last to but that of its lane.
    assert slices(trace) == [("old", 30, 5), ("one", 0, 20), ("open", 40, 10), ("two", 2, 8)]
    assert [trace.names[name] for name in trace.instants.name.tolist()] == ["moment"]
    assert (trace.instants.time // 1000).tolist() == [5]
    assert (trace.quality.unfinished, trace.quality.unmatched_ends) == (1, 1)
