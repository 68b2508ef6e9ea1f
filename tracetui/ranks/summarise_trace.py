"""A trace as the summary of its rank, in one pass over its columns (R5.2)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tracetui.linking.links import links
from tracetui.linking.placement import step_index
from tracetui.linking.steps import steps
from tracetui.model.intervals import Int64, covered_within
from tracetui.model.rank_header import RankHeader, header_fields
from tracetui.model.strings import Strings
from tracetui.model.trace import Trace
from tracetui.ranks.communication import Communication, communication
from tracetui.ranks.rank_summary import BusyCurve, Flag, RankCollectives, RankSteps, RankSummary, StretchNames
from tracetui.ranks.stretches import (
    RankActivity,
    busy_curve,
    contended,
    exposed_within,
    name_entries,
    phases,
    rank_activity,
    stretch_parts,
)


def summarise_trace(trace: Trace) -> RankSummary:
    """The summary of the rank that recorded a trace."""
    header = _header(trace)
    comm = communication(trace, header)
    activity = rank_activity(trace, comm)
    names = Strings()
    collectives = _collectives(trace, comm, activity, names)
    low, high = trace.window
    return RankSummary(
        header=header,
        is_gpu=comm.is_gpu,
        window=(low + trace.origin_ns, high + trace.origin_ns),
        groups=comm.groups,
        steps=_steps(trace, activity),
        collectives=collectives,
        stretch_names=_stretch_names(trace, comm, activity, names),
        curve=_curve(trace, comm, activity),
        names=tuple(names),
        loss=trace.quality.loss,
        truncated_at=trace.quality.truncated_at,
        notes=tuple(trace.quality.notes),
    )


def _header(trace: Trace) -> RankHeader:
    header = RankHeader(trace.path or trace.label, trace.size_bytes, **header_fields(trace.metadata))
    return replace(header, begin_ns=trace.origin_ns, is_whole=not trace.quality.is_part)


def _collectives(trace: Trace, comm: Communication, activity: RankActivity, names: Strings) -> RankCollectives:
    slices, rows = trace.slices, comm.rows
    parts = stretch_parts(trace, comm, activity)
    flags = np.where(comm.in_graph, Flag.IN_GRAPH, 0) | np.where(comm.is_guess, Flag.GUESS, 0)
    flags |= np.where(contended(trace, comm), Flag.CONTENDED, 0)
    return RankCollectives(
        start=slices.start[rows] + trace.origin_ns,
        dur=slices.dur[rows],
        operation=comm.operation,
        name=_interned(comm.names, names),
        token=_interned(comm.tokens, names),
        group=comm.group,
        seq=comm.seq,
        comms_id=comm.comms_id,
        lane=slices.lane[rows].astype(np.int64),
        peer=comm.peer,
        root=comm.root,
        bytes=comm.bytes,
        received=comm.received,
        step=_step(trace, comm),
        phase=phases(trace, comm),
        flags=flags.astype(np.int64),
        exposed=exposed_within(activity, slices.start[rows], slices.end[rows]),
        stretch=parts.stretch,
        input=parts.input,
        host=parts.host,
        busy=parts.busy,
        comm=parts.comm,
    )


def _step(trace: Trace, comm: Communication) -> Int64:
    """The step of each collective by its launch; by its own time where no launch is recorded at all."""
    rows = comm.rows
    if comm.is_gpu and (links(trace).launch[rows] < 0).all():
        return steps(trace).of_moment(trace.slices.start[rows])
    return step_index(trace, rows)


def _interned(texts: list[str], names: Strings) -> Int64:
    return np.fromiter(map(names.intern, texts), np.int64, len(texts))


def _steps(trace: Trace, activity: RankActivity) -> RankSteps:
    every = steps(trace)
    busy = covered_within(*activity.busy, every.start, every.end)
    exposed = exposed_within(activity, every.start, every.end)
    origin = trace.origin_ns
    return RankSteps(every.number.astype(np.int64), every.start + origin, every.end + origin, busy, exposed)


def _stretch_names(trace: Trace, comm: Communication, activity: RankActivity, names: Strings) -> StretchNames:
    entries = name_entries(trace, comm, activity)
    used = np.unique(entries.name[entries.name >= 0])
    ids = np.full(len(trace.names) + 1, -1, np.int64)
    ids[used] = [names.intern(trace.names[each]) for each in used.tolist()]
    return StretchNames(entries.collective, ids[entries.name], entries.calls, entries.time)


def _curve(trace: Trace, comm: Communication, activity: RankActivity) -> BusyCurve:
    every, slices = steps(trace), trace.slices
    edges = np.concatenate([np.array(trace.window, np.int64), every.start, every.end])
    inner = np.concatenate([slices.start[comm.rows], slices.end[comm.rows]])
    return busy_curve(activity, edges, inner, trace.origin_ns)
