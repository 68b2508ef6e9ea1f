"""Which sequences are written in groups, at the borders of what decides it.

A `nested` group goes back in time and is paired alike by position and by a stack. An `overlapping` one ascends, and
only by position is its first begin closed by its first end.
"""

from __future__ import annotations

import numpy as np
import pytest

from tracetui.reading.perfetto.other_events import MAX_GROUPS, pair_events

Group = list[tuple[int, str]]
"""Time and B or E of events on one track, in the order of the file."""
NESTED: Group = [(0, "B"), (2, "B"), (10, "E"), (5, "E")]
OVERLAPPING: Group = [(0, "B"), (5, "B"), (7, "E"), (12, "E")]
SINGLE: Group = [(0, "B"), (1, "E")]


def pairs_of(*groups: Group, sequences: list[int] | None = None, tracks: list[int] | None = None) -> list[list[int]]:
    """The end of each begin of each group, by position within the group; -1 for none. Groups follow in time."""
    sequence, track, time, is_begin, head = [], [], [], [], [0]
    for number, group in enumerate(groups):
        sequence += [sequences[number] if sequences else 1] * len(group)
        track += [tracks[number] if tracks else 1] * len(group)
        time += [100 * number + at for at, _ in group]
        is_begin += [letter == "B" for _, letter in group]
        head.append(len(time))
    sequence_of, track_of, time_of = (np.array(each, np.int64) for each in (sequence, track, time))
    begins = np.array(is_begin, bool)
    found = pair_events(sequence_of, track_of, time_of, begins, np.ones(len(begins), bool))
    end = dict(zip(found.begin.tolist(), found.end.tolist(), strict=True))
    assert sorted([*end, *found.open.tolist()]) == np.flatnonzero(begins).tolist()
    assert sorted([*end.values(), *found.stray.tolist()]) == np.flatnonzero(~begins).tolist()
    return [
        [end.get(row, low - 1) - low for row in range(low, low + len(group)) if begins[row]]
        for group, low in zip(groups, head, strict=False)
    ]


BY_POSITION, BY_STACK = [2, 3], [3, 2]


@pytest.mark.parametrize(("groups", "overlapping"), [(MAX_GROUPS, BY_POSITION), (MAX_GROUPS + 1, BY_STACK)])
def test_of_sixteen_groups_one_that_goes_back_in_time_tells_of_all(groups: int, overlapping: list[int]) -> None:
    pairs = pairs_of(NESTED, OVERLAPPING, OVERLAPPING, *[SINGLE] * (groups - 3))
    assert pairs == [[2, 3], overlapping, overlapping, *[[1]] * (groups - 3)]


@pytest.mark.parametrize(("ascending", "overlapping"), [(2, BY_POSITION), (3, BY_STACK)])
def test_of_more_groups_those_with_half_of_the_pairs_tell(ascending: int, overlapping: list[int]) -> None:
    """Groups of one pair tell nothing, however many they are."""
    pairs = pairs_of(NESTED, NESTED, *[OVERLAPPING] * ascending, *[SINGLE] * 20)
    assert pairs == [[2, 3]] * 2 + [overlapping] * ascending + [[1]] * 20


def test_groups_count_by_their_pairs() -> None:
    larger: Group = [(0, "B"), (2, "B"), (4, "B"), (20, "E"), (9, "E"), (6, "E")]
    pairs = pairs_of(larger, larger, *[OVERLAPPING] * 3, *[SINGLE] * 20)
    assert pairs[:5] == [[3, 4, 5]] * 2 + [BY_POSITION] * 3


@pytest.mark.parametrize(("more", "overlapping"), [(0, BY_POSITION), (1, BY_STACK)])
def test_half_of_the_events_of_a_writer_in_groups_fit(more: int, overlapping: list[int]) -> None:
    odd: Group = [(0, "B"), (1, "B"), (2, "B"), (3, "E")]
    odder: Group = [*((0, "B") for _ in range(more)), *odd]
    pairs = pairs_of(odd, odder, NESTED, OVERLAPPING, tracks=[2, 2, 1, 1])
    assert pairs[2:] == [[2, 3], overlapping]


def test_a_run_with_fewer_ends_than_begins_is_paired_by_a_stack_if_others_follow() -> None:
    odd: Group = [(0, "B"), (1, "B"), (2, "B"), (3, "E"), (4, "E")]
    assert pairs_of(NESTED, odd, NESTED, tracks=[1, 2, 1]) == [[2, 3], [-1, 4, 3], [2, 3]]


def test_a_run_with_fewer_ends_than_begins_at_the_end_is_a_torn_group() -> None:
    torn: Group = [(0, "B"), (1, "B"), (6, "E")]
    larger: Group = [(0, "B"), (2, "B"), (4, "B"), (20, "E"), (9, "E"), (6, "E")]
    for before in ([NESTED], [larger], [NESTED, SINGLE]):
        assert pairs_of(*before, torn)[-1] == [2, -1]


def test_each_sequence_has_a_torn_group_of_its_own() -> None:
    torn: Group = [(0, "B"), (1, "B"), (6, "E")]
    pairs = pairs_of(NESTED, torn, NESTED, torn, sequences=[1, 1, 2, 2], tracks=[1, 1, 2, 2])
    assert pairs == [[2, 3], [2, -1], [2, 3], [2, -1]]


def test_a_run_with_more_ends_than_begins_is_paired_by_a_stack() -> None:
    odd: Group = [(0, "B"), (1, "B"), (2, "E"), (3, "E"), (4, "E")]
    assert pairs_of(NESTED, odd)[1] == [3, 2]


def test_each_sequence_is_judged_alone() -> None:
    """The first one goes by time, the second one in groups; they do not share a track."""
    pairs = pairs_of(OVERLAPPING, NESTED, OVERLAPPING, sequences=[1, 2, 2], tracks=[1, 2, 2])
    assert pairs == [BY_STACK, [2, 3], BY_POSITION]
    # A step back between two sequences or tracks is none.
    assert pairs_of(OVERLAPPING, OVERLAPPING, sequences=[2, 1], tracks=[1, 1]) == [BY_STACK, BY_STACK]
    assert pairs_of(OVERLAPPING, OVERLAPPING, tracks=[2, 1]) == [BY_STACK, BY_STACK]


def test_an_end_at_the_time_of_its_begin_fits_and_an_earlier_one_does_not() -> None:
    empty: Group = [(5, "B"), (5, "B"), (5, "E"), (9, "E")]
    early: Group = [(5, "B"), (6, "B"), (9, "E"), (5, "E")]
    assert pairs_of(NESTED, empty)[1] == [2, 3]
    assert pairs_of(NESTED, NESTED, early)[2] == [3, 2]


def test_without_events_there_are_no_pairs() -> None:
    assert pairs_of() == []
