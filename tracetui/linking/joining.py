"""Joins of slices by the profiler's ids, and by enclosure in time."""

from __future__ import annotations

import numpy as np

from tracetui.linking.groups import distinct
from tracetui.linking.lanes import lane_numbers
from tracetui.linking.trees import disorderly_lanes, forest, nearest, nearest_slice
from tracetui.model.intervals import Bool, Int64
from tracetui.model.membership import index_of
from tracetui.model.trace import Int32, Kind, Trace


def latest(ids: Int64, start: Int64, wanted: Int64, moment: Int64) -> Int64:
    """For each wanted id the index of the last candidate that starts at or before the time (ns).

    The first one where all of them start later; -1 where no candidate has the id.
    """
    index = index_of(ids, wanted)
    return _latest(ids, start, wanted, moment) if index is None else index


def _latest(ids: Int64, start: Int64, wanted: Int64, moment: Int64) -> Int64:
    """The same where ids repeat or lie far apart."""
    if len(ids) == 0:
        return np.full(len(wanted), -1, np.int64)
    order = np.lexsort((start, ids))
    known, first = np.unique(ids[order], return_index=True)
    index = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    hit = known[index] == wanted
    if len(known) == len(order):
        return np.where(hit, order[index], -1)
    ticks, width = np.sort(start), len(start) + 1
    key = np.repeat(np.arange(len(known)), np.diff(np.append(first, len(order)))) * width
    key += np.searchsorted(ticks, start[order], side="right")
    spot = np.searchsorted(key, index * width + np.searchsorted(ticks, moment, side="right"), side="right") - 1
    return np.where(hit, order[np.maximum(spot, first[index])], -1)


def row_of(rows: Int64, index: Int64) -> Int64:
    """The rows at some indices, -1 where the index is -1."""
    if len(rows) == 0:
        return np.full(len(index), -1, np.int64)
    return np.where(index >= 0, rows[index], -1)


def join_launches(trace: Trace, calls: Int64, gpu: Int64) -> Int64:
    """The runtime call of each GPU activity by correlation id; ids below 1 join nothing."""
    ids = trace.slices.correlation
    calls = calls[ids[calls] > 0]
    joined = _join(trace, calls, gpu)
    if len(distinct(ids[calls])) < len(calls):
        joined = _join_merged(trace, calls, gpu, joined)
    return np.where(ids[gpu] > 0, joined, -1)


def _join(trace: Trace, calls: Int64, gpu: Int64) -> Int64:
    ids, start = trace.slices.correlation, trace.slices.start
    return row_of(calls, latest(ids[calls], start[calls], ids[gpu], start[gpu]))


def _join_merged(trace: Trace, calls: Int64, gpu: Int64, joined: Int64) -> Int64:
    """The same where ids repeat because processes were merged into one file.

    Each device is joined with one process: that in which most of its activities start after the launch, and soonest.
    Activities that this process did not launch stay as `joined`.
    """
    ids, start = trace.slices.correlation, trace.slices.start
    process = lane_numbers(trace).process[trace.slices.lane]
    result = joined.copy()
    for device in distinct(process[gpu]).tolist():
        mine = np.flatnonzero((process[gpu] == device) & (ids[gpu] > 0))
        moment = start[gpu[mine]]
        best = (0, 0)
        for owner in distinct(process[calls]).tolist():
            trial = _join(trace, calls[process[calls] == owner], gpu[mine])
            fits = (trial >= 0) & (start[trial] <= moment)
            score = (int(fits.sum()), -int((moment - start[trial])[fits].sum()))
            if score > best:
                best = score
                result[mine] = np.where(fits, trial, joined[mine])
    return result


def around(trace: Trace, inner: Int64, outer: Int64) -> Int32:
    """For every slice among `inner` the innermost of the `outer` slices around it (R3.8)."""
    slices = trace.slices
    is_outer = np.zeros(len(slices), bool)
    is_outer[outer] = True
    is_outer[inner] = False
    result = np.full(len(slices), -1, np.int32)
    result[inner] = nearest_slice(trace, is_outer)[inner]
    mixed = disorderly_lanes(trace)[slices.lane[inner]]
    if mixed.any():
        # There the tree depends on which slices take part.
        is_outer[inner[mixed]] = True
        rows = np.flatnonzero(is_outer)
        rows = rows[disorderly_lanes(trace)[slices.lane[rows]]]
        is_outer[inner[mixed]] = False
        enclosing = row_of(rows, nearest(forest(trace, rows), is_outer[rows]))
        asked = ~is_outer[rows]
        result[rows[asked]] = enclosing[asked]
    return result


def pass_on(target: Int32, gpu: Int64, launch: Int32) -> None:
    """Copy the values of launches to the activities that they launched."""
    launched = gpu[launch[gpu] >= 0]
    target[launched] = target[launch[launched]]


def external_ids_name_ops(trace: Trace, gpu: Int64) -> bool:
    """Whether `External id` names ops (R3.7): where most equal the activity's own correlation id, it does not."""
    external, correlation = trace.slices.external[gpu], trace.slices.correlation[gpu]
    given = external > 0
    return bool(given.any() and (external[given] == correlation[given]).mean() <= 0.5)


def prefer_named(trace: Trace, owner: Int32, rows: Int64, launch: Int32, ops: Int64) -> None:
    """Replace owners by the op that the `External id` of a call or activity names, if that op began before it."""
    slices = trace.slices
    ops = ops[slices.external[ops] > 0]
    call = np.where(launch[rows] >= 0, launch[rows], rows)
    wanted, moment = slices.external[rows], slices.start[call]
    named = row_of(ops, latest(slices.external[ops], slices.start[ops], wanted, moment))
    good: Bool = (named >= 0) & (wanted > 0)
    good &= slices.start[named] <= moment
    process, lane = lane_numbers(trace).process, slices.lane
    good &= (process[lane[named]] == process[lane[call]]) | (slices.kind[call] != Kind.RUNTIME)
    owner[rows[good]] = named[good]
