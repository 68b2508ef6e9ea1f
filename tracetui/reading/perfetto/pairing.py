"""Pairs the begins and ends of track events.

torch writes all begins of a group and then all their ends in the same order: the k-th end closes the k-th begin. Others
write ends in order of time, each of which closes the innermost open slice of its track. A stack would pair torch's
slices wrongly where times are equal or slices overlap; pairs by position would be wrong for the others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tracetui.model.intervals import Bool, Int64
from tracetui.reading.spans import PairedEvents, pair

_NO_NAME = 0
MAX_GROUPS = 16
"""Maximum runs of begins and ends in a sequence for which one that goes back in time tells how all are written.

torch writes some six groups; who writes as time goes makes a new run every few events.
"""


def pair_events(sequence: Int64, track: Int64, time: Int64, is_begin: Bool, needs_state: Bool) -> PairedEvents:
    """Pair events in the order of the file; `needs_state` are those whose flags say that they rest on interned data.

    In sequences that are written in groups the runs of begins and ends that fit each other are paired by position;
    everything else by a stack for each track, in order of time, then of the file.
    """
    order = np.argsort(sequence, kind="stable")
    as_torch = is_begin == needs_state
    begin, end = _by_position(sequence[order], track[order], time[order], is_begin[order], as_torch[order])
    begin, end = order[begin], order[end]
    rest = np.ones(len(time), bool)
    rest[begin] = rest[end] = False
    left = np.flatnonzero(rest)
    names = np.full(len(left), _NO_NAME, np.int64)
    others = pair(track[left], time[left], is_begin[left], names, _NO_NAME)
    return PairedEvents(
        np.concatenate([begin, left[others.begin]]),
        np.concatenate([end, left[others.end]]),
        left[others.open],
        left[others.stray],
    )


def _by_position(sequence: Int64, track: Int64, time: Int64, is_begin: Bool, as_torch: Bool) -> tuple[Int64, Int64]:
    """Pairs of the sequences that are written in groups; events of a sequence stand together."""
    nothing = np.empty(0, np.int64)
    if len(time) == 0:
        return nothing, nothing
    changes = (np.diff(sequence) != 0) | (is_begin[1:] != is_begin[:-1])
    head = np.flatnonzero(np.concatenate([[True], changes]))
    size = np.diff(np.append(head, len(time)))
    # A run of begins with the run of ends behind it.
    runs = np.flatnonzero(is_begin[head[:-1]] & ~is_begin[head[1:]] & (sequence[head[:-1]] == sequence[head[1:]]))
    is_last = np.append(sequence[head[1:]] != sequence[head[:-1]], True)[runs + 1] if len(runs) else np.empty(0, bool)
    # A torn file ends among the ends of its last group.
    fits = (size[runs] == size[runs + 1]) | (is_last & (size[runs] > size[runs + 1]))
    runs = runs[fits]
    count = size[runs + 1]
    member = np.repeat(np.arange(len(runs)), count)
    offset = np.arange(len(member)) - np.repeat(np.cumsum(count) - count, count)
    begin, end = head[runs][member] + offset, head[runs + 1][member] + offset
    wrong = (track[begin] != track[end]) | (time[end] < time[begin])
    bad = np.bincount(member[wrong], minlength=len(runs)) > 0
    good = np.flatnonzero(~bad)
    goes_back = _go_back(member, begin, end, track, time, len(runs))
    found = Runs(head[runs[good]], size[runs[good]] + size[runs[good] + 1], count[good], goes_back[good])
    grouped = _are_grouped(sequence, track, time, as_torch, found)
    kept = ~bad[member] & grouped[begin]
    return begin[kept], end[kept]


class Runs(NamedTuple):
    """Runs of begins that fit the runs of ends behind them."""

    head: Int64
    """The first event of each."""
    size: Int64
    """Events of each; the begins of a torn group count among them."""
    pairs: Int64
    goes_back: Bool
    """Whether the events of a track are out of order of time within the run."""


def _go_back(member: Int64, begin: Int64, end: Int64, track: Int64, time: Int64, count: int) -> Bool:
    """Which runs have events of one track that are out of order of time; `member` is the run of each pair."""
    run, event = np.concatenate([member, member]), np.concatenate([begin, end])
    order = np.lexsort((event, track[event], run))
    run, event = run[order], event[order]
    same = (np.diff(run) == 0) & (np.diff(track[event]) == 0)
    back = np.flatnonzero(same & (np.diff(time[event]) < 0))
    return np.bincount(run[back], minlength=count) > 0


def _are_grouped(sequence: Int64, track: Int64, time: Int64, as_torch: Bool, runs: Runs) -> Bool:
    """Whether each event's sequence is written in groups, and most of it in runs that fit.

    Groups are out of order of time on a track, which others are now and then at most, or have flags as torch sets
    them: on begins, and never on ends.
    """
    first = np.flatnonzero(np.diff(sequence, prepend=~sequence[0]))
    count = np.diff(np.append(first, len(time)))
    member = np.repeat(np.arange(len(first)), count)
    order = np.lexsort((np.arange(len(time)), track, sequence))
    same = (np.diff(sequence[order]) == 0) & (np.diff(track[order]) == 0)
    back = order[np.flatnonzero(same & (np.diff(time[order]) < 0))]
    is_unordered = np.bincount(member[back], minlength=len(first)) > 0
    has_flags = np.bincount(member[as_torch], minlength=len(first)) == count
    owner, several = member[runs.head], runs.pairs > 1
    of_all = np.bincount(owner, several * runs.pairs, len(first))
    of_those = np.bincount(owner, (several & runs.goes_back) * runs.pairs, len(first))
    is_few = np.bincount(owner, minlength=len(first)) <= MAX_GROUPS
    is_unordered &= is_few | (2 * of_those >= of_all)
    fitting = np.bincount(owner, runs.size, len(first))
    grouped: Bool = ((is_unordered | has_flags) & (2 * fitting >= count))[member]
    return grouped
