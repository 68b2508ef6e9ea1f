"""What packets of a sequence rest on: the state that a packet uses, and what was interned in it before.

A writer numbers its texts anew for each sequence, and again whenever it clears the state of the sequence: the same
number then means something else. Where packets were lost a clear may have been among them, so that a new state begins
as well.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tracetui.model.intervals import Bool, Int64


class States(NamedTuple):
    """The state that each packet uses."""

    number: Int64
    """Number of the state, from 0; those of different sequences differ."""
    is_known: Bool
    """Whether the state was begun by a clear, so that nothing of it is missing."""


def sequence_states(sequence: Int64, clears: Bool, loses: Bool) -> States:
    """The states of packets in the order of the file: their sequences, whether each clears, whether some were lost.

    A packet that clears uses the new state.
    """
    count = len(sequence)
    order = np.argsort(sequence, kind="stable")
    begins = (clears | loses)[order]
    first = np.diff(sequence[order], prepend=sequence[order[:1]] - 1) != 0
    number_in_order = np.cumsum(begins | first) - 1
    opening = np.flatnonzero(begins | first)
    known = clears[order][opening][number_in_order] if count else np.empty(0, bool)
    number, is_known = np.empty(count, np.int64), np.empty(count, bool)
    number[order], is_known[order] = number_in_order, known
    return States(number, is_known)


def latest(keys: Int64, positions: Int64, wanted_keys: Int64, wanted_positions: Int64) -> Int64:
    """For every wanted key the row of its last entry at or before a position, -1 where there is none.

    Keys and positions are not negative.
    """
    if len(keys) == 0 or len(wanted_keys) == 0:
        return np.full(len(wanted_keys), -1, np.int64)
    order = np.lexsort((np.arange(len(keys)), positions, keys))
    keys, positions = keys[order], positions[order]
    span = int(max(positions.max(), wanted_positions.max())) + 1
    distinct, dense = np.unique(keys, return_inverse=True)
    wanted = np.minimum(np.searchsorted(distinct, wanted_keys), len(distinct) - 1)
    row = np.searchsorted(dense * span + positions, wanted * span + wanted_positions, side="right") - 1
    has = (row >= 0) & (keys[row] == wanted_keys)
    return np.where(has, order[row], -1)


class InternedEntries:
    """Entries of one kind that packets refer to by number, each with the state and the packet it stands in."""

    def __init__(self, states: Int64, positions: Int64, iids: Int64) -> None:
        """`positions` are the packets of the entries, `states` the states of these."""
        self._states, self._positions = states, positions
        self._iids, self._dense = np.unique(iids, return_inverse=True)

    def find(self, states: Int64, positions: Int64, iids: Int64) -> Int64:
        """For each number used in a packet the row of the entry that it means, -1 where there is none."""
        if len(self._iids) == 0:
            return np.full(len(iids), -1, np.int64)
        dense = np.minimum(np.searchsorted(self._iids, iids), len(self._iids) - 1)
        size = len(self._iids)
        found = latest(self._states * size + self._dense, self._positions, states * size + dense, positions)
        found[self._iids[dense] != iids] = -1
        return found
