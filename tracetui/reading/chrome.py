"""Collected columns to the parts of a Trace: pairs begins and ends, finds lanes, sorts, nests and packs.

This is the reading of the Chrome trace event format for any producer; what is PyTorch's is in `torch`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracetui.model import intervals
from tracetui.model.intervals import Int64
from tracetui.model.strings import Strings
from tracetui.model.trace import Counter, EventStore, Flows, Instants, Kind, Lane, LaneKind, Quality, Slices, Trace
from tracetui.reading import torch
from tracetui.reading.clock import settle_times
from tracetui.reading.columns import Collector
from tracetui.reading.decode import NO_NAME
from tracetui.reading.keys import Keys
from tracetui.reading.lanes import Naming
from tracetui.reading.source import Source
from tracetui.reading.spans import Columns, Spans

_PACKED = (LaneKind.GPU, LaneKind.GPU_ANNOTATION, LaneKind.SYNC, LaneKind.ASYNC)
_MAX_TABLE = 1 << 20
"""Maximum entries of a table that is longer than the columns that it is used on."""
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
    columns["category"] = keys.category_of(columns.pop("key"))
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


def trace_of(source: Source, collector: Collector, parts: TraceParts, store: EventStore, form: str) -> Trace:
    """The trace of a file; `form` says what wrote it and how. Its origin is the file's own, its metadata are empty."""
    return Trace(
        label=source.label,
        path=source.path,
        format=form if source.wrapping == "plain" else f"{form}, {source.wrapping}",
        size_bytes=source.consumed if source.size is None else source.size,
        events=collector.events,
        is_torch=parts.is_torch,
        names=parts.names,
        categories=parts.categories,
        slices=parts.slices,
        lanes=parts.lanes,
        instants=parts.instants,
        flows=parts.flows,
        counters=parts.counters,
        devices=(),
        metadata={},
        origin_us=parts.origin / 1000,
        origin_ns=parts.origin,
        window=parts.window,
        quality=collector.quality,
        op_args=collector.arguments.ops.arguments(),
        work_args=collector.arguments.work.arguments(),
        memory_args=collector.arguments.memory.arguments(),
        store=store,
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
    columns["scope"] = gathered.take("scope", "u1")
    if len(moments["time"]):
        moments = moments | {"scope": np.zeros(len(moments["time"]), np.uint8)}
        for name in columns:
            columns[name] = np.concatenate([columns[name], moments[name].astype(columns[name].dtype)])
    return columns


def _slices(columns: Columns, keys: Keys, order: list[int], quality: Quality, stage: Callable[[str], None]) -> Slices:
    """Sort the columns by lane and time, and find parents and rows."""
    stage("sorting")
    order_in_lanes = intervals.sorted_order(columns["lane"], columns["start"], columns["dur"])
    for name in columns:
        columns[name] = columns[name][order_in_lanes]
    del order_in_lanes
    stage("nesting")
    lane, start, dur = columns["lane"], columns["start"], columns["dur"]
    is_packed = [keys.lanes.keys[number][2] in _PACKED and number not in keys.nesting for number in order]
    nested = _arrange(lane, start, dur, np.array(is_packed, bool), quality)
    return Slices(
        start=start,
        dur=dur,
        name=columns["name"],
        category=columns["category"],
        kind=columns["kind"],
        lane=lane,
        parent=nested.parent,
        depth=nested.depth,
        row=nested.row,
        self_time=nested.self_time,
        correlation=columns["correlation"],
        external=columns["external"],
        event=columns["event"],
    )


def _arrange(
    lane: NDArray[Any], start: Int64, dur: Int64, packed: NDArray[np.bool_], quality: Quality
) -> intervals.NestedSlices:
    """Parent, depth, row and self time: threads nest, streams are packed. `packed` has an entry per lane."""
    bounds = np.searchsorted(lane, np.arange(len(packed) + 1, dtype=lane.dtype)).astype(np.int64)
    nested = intervals.nest_slices(bounds[:-1][~packed], bounds[1:][~packed], start, dur)
    quality.overlaps += nested.overlaps
    # Lanes in a row that are all packed are packed at once: there may be thousands with a few slices each.
    edges = np.flatnonzero(np.diff(packed, prepend=False, append=False))
    for first, last in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        rows = slice(bounds[first], bounds[last])
        packing = intervals.pack(lane[rows], start[rows], start[rows] + dur[rows])
        nested.row[rows] = np.minimum(packing, intervals.MAX_DEPTH)
    return nested


def _lanes(order: list[int], keys: Keys, naming: Naming, slices: Slices) -> tuple[Lane, ...]:
    bounds = np.searchsorted(slices.lane, np.arange(len(order) + 1, dtype=np.int32)).tolist()
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
    key = columns.pop("key")
    phase = keys.phase_is(key, "f").astype(np.uint8)
    phase *= 2
    phase += keys.phase_is(key, "t")
    return Flows(
        time=columns["time"],
        lane=columns["lane"],
        phase=phase,
        key=numbered_pairs(keys.category_of(key), columns["name"]),
        id=columns["id"],
        event=columns["event"],
    )


def numbered_pairs(first: NDArray[Any], second: NDArray[Any]) -> NDArray[np.int32]:
    """The rank of each pair among the distinct pairs of two columns of small numbers from 0."""
    width = int(second.max(initial=0)) + 1
    size = (int(first.max(initial=0)) + 1) * width
    code = first.astype(np.int64) * width + second
    if size > max(len(code), _MAX_TABLE):
        return np.unique(code, return_inverse=True)[1].astype(np.int32)
    used = np.zeros(size, bool)
    used[code] = True
    rank = np.cumsum(used, dtype=np.int32) - np.int32(1)
    return np.asarray(rank[code])


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
