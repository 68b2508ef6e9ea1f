"""The state that a packet uses, and what a number means in it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracetui.reading.perfetto.sequences import InternedEntries, latest, sequence_states

PACKETS = st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.booleans()), max_size=30)


def columns(rows):
    sequence, clears, loses = zip(*rows, strict=True) if rows else ((), (), ())
    return np.array(sequence, np.int64), np.array(clears, bool), np.array(loses, bool)


@given(PACKETS)
def test_states_are_those_of_a_walk_over_the_packets(rows):
    states = sequence_states(*columns(rows))
    current: dict[int, tuple[int, int, bool]] = {}
    expected = []
    for sequence, clears, loses in rows:
        number, known = current.get(sequence, (sequence, 0, False))[1:]
        if clears or loses:
            number, known = number + 1, clears
        current[sequence] = (sequence, number, known)
        expected.append(current[sequence])
    assert states.is_known.tolist() == [known for *_, known in expected]
    pairs = {(number, each[:2]) for number, each in zip(states.number.tolist(), expected, strict=True)}
    assert len(pairs) == len({number for number, _ in pairs}) == len({each for _, each in pairs})


def test_a_clear_gives_a_number_another_meaning():
    states = sequence_states(np.array([1, 2, 1, 1, 2]), np.array([1, 1, 0, 1, 0], bool), np.zeros(5, bool))
    # Number 7 is interned in packets 0 and 3 of sequence 1.
    entries = InternedEntries(states.number[[0, 3]], np.array([0, 3]), np.array([7, 7]))
    wanted = np.array([2, 3, 4])
    assert entries.find(states.number[wanted], wanted, np.full(3, 7)).tolist() == [0, 1, -1]


def test_a_number_means_nothing_before_it_was_interned():
    entries = InternedEntries(np.array([0]), np.array([5]), np.array([7]))
    assert entries.find(np.array([0, 0]), np.array([4, 5]), np.array([7, 7])).tolist() == [-1, 0]


def test_numbers_of_64_bits_are_told_apart():
    entries = InternedEntries(np.zeros(2, np.int64), np.zeros(2, np.int64), np.array([-1, 2**62]))
    found = entries.find(np.zeros(3, np.int64), np.zeros(3, np.int64), np.array([2**62, -1, 2**63 - 1]))
    assert found.tolist() == [1, 0, -1]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=12),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), min_size=1, max_size=12),
)
def test_latest_is_the_last_entry_up_to_the_position(entries, wanted):
    keys, positions = (np.array(column, np.int64) for column in (zip(*entries, strict=True) if entries else ((), ())))
    wanted_keys, wanted_positions = (np.array(column, np.int64) for column in zip(*wanted, strict=True))
    found = latest(keys, positions, wanted_keys, wanted_positions).tolist()
    for (key, position), row in zip(wanted, found, strict=True):
        candidates = [(at, number) for number, (each, at) in enumerate(entries) if each == key and at <= position]
        assert row == (max(candidates)[1] if candidates else -1)
