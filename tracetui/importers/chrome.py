"""Collected columns to the parts of a Trace: pairs begins and ends, finds lanes, sorts, nests and packs.

This is the reading of the Chrome trace event format for any producer; what is PyTorch's is in `torch`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracetui.importers import torch
from tracetui.importers.clock import settle_times
from tracetui.importers.columns import Collector
from tracetui.importers.decode import NO_NAME
from tracetui.importers.keys import Keys
from tracetui.importers.lanes import Naming
from tracetui.importers.spans import SPAN_COLUMNS, Columns, Spans
from tracetui.model import intervals
from tracetui.model.intervals import Int64
from tracetui.model.strings import Strings
from tracetui.model.trace import Counter, Flows, Instants, Kind, Lane, LaneKind, Quality, Slices

_PACKED = (LaneKind.GPU, LaneKind.GPU_ANNOTATION, LaneKind.SYNC, LaneKind.ASYNC)
_DEEPEST = np.iinfo(np.int16).max
LONGEST_NAME = 50_000
"""Maximum characters of a name; the longest of real kernels have a few thousand."""


@dataclass
class TraceParts:
    """The pieces of a Trace that come from events."""

    names: Strings
    categories: Strings
    slices: Slices
    lanes: tuple[Lane, ...]
    instants: Instants
    flows: Flows
    counters: tuple[Counter, ...]
    origin: int
    """The file's own time at time 0, in ns."""
    window: tuple[int, int]
    is_torch: bool
    ends: tuple[Int64, Int64]
    """Event numbers of begins, ascending, and of the ends that close them."""


def assemble(
    collector: Collector, quality: Quality, metadata: Mapping[str, Any], stage: Callable[[str], None]
) -> TraceParts:
    """Build the parts of a trace; `stage` hears what is being done. The collector's columns are given up."""
    naming = collector.naming
    stage("pairing")
    keys = Keys(collector)
    spans = Spans(collector, keys, quality)
    columns = spans.columns()
    columns["kind"] = keys.kind_of(columns["key"])
    flows, instants = _flow_columns(collector, keys), _instant_columns(collector, keys, spans.moments)
    moments = instants["time"].tolist() if len(columns["start"]) == 0 else []
    moments += collector.counters.times
    origin, window = settle_times(columns, moments, quality)
    for part, time in ((columns, "start"), (flows, "time"), (instants, "time")):
        part[time] -= origin
    order = sorted(range(len(keys.lanes.keys)), key=lambda lane: naming.sort_key(keys.lanes.keys[lane]))
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order))
    for part in (columns, flows, instants):
        part["lane"] = rank[part["lane"]]
    slices = _slices(columns, keys, order, quality, stage)
    return TraceParts(
        names=_texts(collector.names, quality),
        categories=keys.categories,
        lanes=_lanes(order, keys, naming, slices),
        slices=slices,
        instants=_instants(instants, keys),
        flows=_flows(flows, keys),
        counters=collector.counters.counters(naming, origin, quality),
        origin=origin,
        window=window,
        is_torch=torch.is_torch([Kind(kind) for kind in np.unique(slices.kind)], metadata),
        ends=spans.ends(),
    )


def _flow_columns(collector: Collector, keys: Keys) -> Columns:
    gathered = collector.flows
    key = gathered.take("key", "i4")
    return {
        "time": gathered.take("time", "i8"),
        "name": gathered.take("name", "i4"),
        "id": gathered.take("id", "i8"),
        "key": key,
        "lane": keys.nearest_lane(key),
        "event": gathered.take("event", "i4"),
    }


def _instant_columns(collector: Collector, keys: Keys, moments: Columns) -> Columns:
    """Instants, and the moments of asynchronous spans."""
    gathered = collector.instants
    key = gathered.take("key", "i4")
    columns = {
        "time": gathered.take("time", "i8"),
        "name": gathered.take("name", "i4"),
        "key": key,
        "lane": keys.nearest_lane(key),
        "event": gathered.take("event", "i4"),
    }
    for name in columns:
        columns[name] = np.concatenate([columns[name], moments[name].astype(columns[name].dtype)])
    columns["scope"] = np.concatenate([gathered.take("scope", "u1"), np.zeros(len(moments["time"]), np.uint8)])
    return columns


def _slices(columns: Columns, keys: Keys, order: list[int], quality: Quality, stage: Callable[[str], None]) -> Slices:
    """Sort the columns by lane and time, and find parents and rows."""
    stage("sorting")
    order_in_lanes = intervals.sorted_order(columns["lane"], columns["start"], columns["dur"])
    for name in (*SPAN_COLUMNS, "kind"):
        columns[name] = columns[name][order_in_lanes]
    del order_in_lanes
    stage("nesting")
    lane, start, dur = columns["lane"], columns["start"], columns["dur"]
    kinds = np.array([keys.lanes.keys[number][2] for number in order], np.uint8)
    parent, depth, row, self_time = _arrange(
        lane, start, dur, np.isin(kinds[lane], _PACKED) if len(lane) else np.empty(0, bool), quality
    )
    return Slices(
        start=start,
        dur=dur,
        name=columns["name"],
        category=keys.category_of(columns.pop("key")),
        kind=columns["kind"],
        lane=lane,
        parent=parent,
        depth=depth,
        row=row,
        self_time=self_time,
        correlation=columns["correlation"],
        external=columns["external"],
        event=columns["event"],
    )


def _arrange(
    lane: NDArray[Any], start: Int64, dur: Int64, packed: NDArray[np.bool_], quality: Quality
) -> tuple[NDArray[np.int32], NDArray[np.int16], NDArray[np.int16], Int64]:
    """Parent, depth, row and self time: threads nest, streams are packed."""
    count = len(start)
    parent, depth = np.full(count, -1, np.int32), np.zeros(count, np.int16)
    row, self_time = np.zeros(count, np.int16), dur.copy()
    rows = np.flatnonzero(packed)
    row[rows] = np.minimum(intervals.pack(lane[rows], start[rows], start[rows] + dur[rows]), _DEEPEST)
    rows = np.flatnonzero(~packed)
    begin, end = start[rows], start[rows] + dur[rows]
    nesting = intervals.nest(lane[rows], begin, end)
    quality.overlaps += nesting.overlaps
    if len(rows):
        parent[rows] = np.where(nesting.parent >= 0, rows[nesting.parent], -1)
    depth[rows] = np.minimum(nesting.depth, _DEEPEST)
    row[rows] = np.minimum(nesting.row, _DEEPEST)
    self_time[rows] = intervals.self_time(nesting, begin, end)
    return parent, depth, row, self_time


def _lanes(order: list[int], keys: Keys, naming: Naming, slices: Slices) -> tuple[Lane, ...]:
    bounds = np.searchsorted(slices.lane, np.arange(len(order) + 1)).tolist()
    lanes = []
    for number, first, last in zip(order, bounds, bounds[1:], strict=False):
        key = keys.lanes.keys[number]
        height = int(slices.row[first:last].max()) + 1 if last > first else 0
        lanes.append(Lane(*key, naming.lane_name(key), naming.process_name(key), first, last, height))
    return tuple(lanes)


def _instants(columns: Columns, keys: Keys) -> Instants:
    order = np.lexsort((columns["time"], columns["lane"]))
    return Instants(
        time=columns["time"][order],
        name=columns["name"][order],
        category=keys.category_of(columns["key"][order]),
        lane=columns["lane"][order],
        scope=columns["scope"][order],
        event=columns["event"][order],
    )


def _flows(columns: Columns, keys: Keys) -> Flows:
    key = columns["key"]
    phase = 2 * keys.phase_is(key, "f").astype(np.uint8) + keys.phase_is(key, "t")
    _, joined = np.unique(keys.category_of(key).astype(np.int64) << 32 | columns["name"], return_inverse=True)
    return Flows(
        time=columns["time"],
        lane=columns["lane"],
        phase=phase.astype(np.uint8),
        key=joined.astype(np.int32),
        id=columns["id"],
        event=columns["event"],
    )


def _texts(names: Iterable[str | None], quality: Quality) -> Strings:
    """The names under the numbers that they were given; one that is too long to be a name is clipped."""
    texts = Strings()
    clipped = 0
    for name in names:
        text = NO_NAME if name is None else name
        if len(text) > LONGEST_NAME:
            clipped += 1
            text = f"{text[:LONGEST_NAME]}… ({len(text):,} characters)"
        while text in texts:
            # Each has a number of its own, also where two come to read alike.
            text += " "
        texts.intern(text)
    if clipped:
        names, were = ("name", "was") if clipped == 1 else ("names", "were")
        quality.notes.append(f"{clipped:,} {names} of more than {LONGEST_NAME:,} characters {were} clipped.")
    return texts
