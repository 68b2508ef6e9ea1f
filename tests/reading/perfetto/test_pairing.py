"""Begins and ends: by position where a writer puts them in groups, by a stack where it writes as time goes."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracetui.reading.perfetto.other_events import pair_events

Event = tuple[int, int, str]
"""Track, time, and B or E."""


def paired(
    events: list[Event], sequences: list[int] | None = None, as_torch: bool = False
) -> tuple[list[tuple[int, int]], list[int], list[int]]:
    """Indices of begins with their ends, of begins without one, and of ends without a begin."""
    track, time, kind = zip(*events, strict=True) if events else ((), (), ())
    sequence = np.array(sequences or [1] * len(events), np.int64)
    is_begin = np.array([letter == "B" for letter in kind], bool)
    needs_state = is_begin if as_torch else np.ones(len(events), bool)
    found = pair_events(sequence, np.array(track, np.int64), np.array(time, np.int64), is_begin, needs_state)
    return sorted(zip(found.begin.tolist(), found.end.tolist(), strict=True)), found.open.tolist(), found.stray.tolist()


def test_ends_in_the_order_of_their_begins_close_these() -> None:
    events = [(1, 0, "B"), (1, 2, "B"), (1, 2, "B"), (1, 10, "E"), (1, 2, "E"), (1, 7, "E")]
    assert paired(events) == ([(0, 3), (1, 4), (2, 5)], [], [])


def test_ends_in_the_order_of_time_close_what_is_innermost() -> None:
    events = [(1, 0, "B"), (1, 2, "B"), (1, 3, "B"), (1, 4, "E"), (1, 7, "E"), (1, 10, "E")]
    assert paired(events) == ([(0, 5), (1, 4), (2, 3)], [], [])


def test_tracks_that_are_written_one_after_the_other_are_each_in_order() -> None:
    track = [(0, "B"), (2, "B"), (3, "E"), (9, "E")]
    events = [(number, time, kind) for number in (1, 2, 3) for time, kind in track]
    assert paired(events)[0] == [(base + begin, base + end) for base in (0, 4, 8) for begin, end in ((0, 3), (1, 2))]


def test_an_event_out_of_order_does_not_make_a_writer_one_in_groups() -> None:
    nested = [(1, time + offset, kind) for time in range(0, 300, 10) for offset, kind in enumerate("BBEE")]
    late = [*nested, (1, 5, "B"), (1, 6, "E")]
    pairs = paired(late)[0]
    assert (0, 3) in pairs and (1, 2) in pairs and (116, 119) in pairs


def test_slices_that_overlap_on_a_thread_keep_their_ends() -> None:
    group = [(1, 0, "B"), (1, 5, "B"), (1, 7, "E"), (1, 12, "E")]
    earlier = [(2, 100, "B"), (2, 101, "B"), (2, 110, "E"), (2, 105, "E")]  # The second end goes back in time.
    assert paired(earlier + group)[0] == [(0, 2), (1, 3), (4, 6), (5, 7)]


def test_flags_tell_a_writer_in_groups_whose_times_ascend() -> None:
    """Two slices that overlap, or one within the other: the times alone do not tell."""
    events = [(1, 0, "B"), (1, 5, "B"), (1, 7, "E"), (1, 12, "E")]
    assert paired(events, as_torch=True)[0] == [(0, 2), (1, 3)]
    assert paired(events)[0] == [(0, 3), (1, 2)]


def test_a_run_whose_tracks_do_not_fit_is_paired_by_a_stack() -> None:
    good = [(3, 100, "B"), (3, 101, "B"), (3, 102, "B"), (3, 120, "E"), (3, 110, "E"), (3, 105, "E")]
    odd = [(1, 0, "B"), (2, 1, "B"), (2, 3, "E"), (1, 5, "E")]
    assert paired(good + odd)[0] == [(0, 3), (1, 4), (2, 5), (6, 9), (7, 8)]


def test_a_run_whose_ends_come_before_its_begins_is_paired_by_a_stack() -> None:
    good = [(3, 100, "B"), (3, 101, "B"), (3, 102, "B"), (3, 120, "E"), (3, 110, "E"), (3, 105, "E")]
    odd = [(1, 0, "B"), (1, 4, "B"), (1, 6, "E"), (1, 2, "E")]
    pairs, opened, stray = paired(good + odd)
    assert pairs == [(0, 3), (1, 4), (2, 5), (6, 9), (7, 8)] and not opened and not stray


def test_a_torn_group_keeps_the_pairs_that_are_whole() -> None:
    begins = [(1, time, "B") for time in range(10)]
    ends = [(1, 20 - time, "E") for time in range(10)]
    for kept in range(11):
        pairs, opened, stray = paired(begins + ends[:kept])
        if kept > 1:
            assert pairs == [(row, 10 + row) for row in range(kept)]
        assert len(opened) == 10 - kept and not stray


def test_two_files_in_one_are_two_groups() -> None:
    one = [(1, 0, "B"), (1, 2, "B"), (1, 10, "E"), (1, 2, "E")]
    assert paired(one + one)[0] == [(0, 2), (1, 3), (4, 6), (5, 7)]


def test_sequences_that_alternate_are_told_apart() -> None:
    one = [(1, 0, "B"), (1, 2, "B"), (1, 10, "E"), (1, 3, "E")]
    mixed = [event for event in one for _ in range(2)]
    mixed = [(track + number % 2, time, kind) for number, (track, time, kind) in enumerate(mixed)]
    assert paired(mixed, [1, 2] * 4)[0] == [(0, 4), (1, 5), (2, 6), (3, 7)]


slices = st.lists(st.tuples(st.integers(1, 3), st.integers(0, 50), st.integers(0, 20)), min_size=1, max_size=20)


@given(st.lists(slices, min_size=2, max_size=4))
def test_every_slice_of_a_writer_in_groups_comes_back(groups: list[list[tuple[int, int, int]]]) -> None:
    """Slices of any times, also equal ones and overlapping ones, on any tracks."""
    # A slice behind the others in time, so that it is seen that the writer does not go by time.
    groups = [[(1, 1000, 5), *groups[0]], [(1, 60, 0), *groups[1]], *groups[2:]]
    events: list[Event] = []
    expected = []
    for group in groups:
        first = len(events)
        events += [(track, start, "B") for track, start, _ in group]
        events += [(track, start + length, "E") for track, start, length in group]
        expected += [(first + row, first + len(group) + row) for row in range(len(group))]
    assert paired(events) == (expected, [], [])


@given(st.lists(st.tuples(st.sampled_from("BE"), st.integers(0, 3)), max_size=40))
def test_a_writer_as_time_goes_is_paired_by_a_plain_stack(steps: list[tuple[str, int]]) -> None:
    time = 0
    stack: list[int] = []
    events: list[Event] = []
    expected, stray = [], []
    for row, (kind, wait) in enumerate(steps):
        time += wait
        events.append((1, time, kind))
        if kind == "B":
            stack.append(row)
        elif stack:
            expected.append((stack.pop(), row))
        else:
            stray.append(row)
    pairs, opened, found = paired(events)
    assert (pairs, sorted(opened), sorted(found)) == (sorted(expected), stack, stray)
