"""Collected columns to a Trace: pairs begins and ends, finds lanes, sorts, nests and packs.

This is the reading of the Chrome trace event format for any producer; what is PyTorch's is in `torch`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracetui.importers import torch
from tracetui.importers.columns import FLOW, INSTANT, NO_DUR, SLICE, Collector
from tracetui.importers.decode import NO_NAME
from tracetui.importers.lanes import LaneTable, Naming, lane_text
from tracetui.importers.pairing import Pairs, pair
from tracetui.model import intervals
from tracetui.model.strings import Strings
from tracetui.model.trace import NO_ID, Counter, Flows, Instants, Kind, Lane, LaneKind, Quality, Slices

Int64 = NDArray[np.int64]

_PACKED = (LaneKind.GPU, LaneKind.GPU_ANNOTATION, LaneKind.SYNC, LaneKind.ASYNC)
_FLOW_PHASES = {"s": 0, "t": 1, "f": 2}
_CLIP_FACTOR = 10
_COLUMNS = ("start", "dur", "name", "key", "lane", "kind", "correlation", "external", "event")


@dataclass
class Parts:
    """The pieces of a Trace that come from events."""

    names: Strings
    categories: Strings
    slices: Slices
    lanes: tuple[Lane, ...]
    instants: Instants
    flows: Flows
    counters: tuple[Counter, ...]
    origin: int
    window: tuple[int, int]
    is_torch: bool
    ends: tuple[Int64, Int64]
    """Event numbers of begins, ascending, and of the ends that close them."""


class Assembler:
    """Builds the parts of a trace from a collector; its columns are given up on the way."""

    def __init__(self, collector: Collector, quality: Quality, metadata: dict[str, Any]) -> None:
        self._collector = collector
        self._quality = quality
        self._metadata = metadata
        self._table = LaneTable()
        self._naming = Naming()
        self._keys: list[tuple[str, str, Any, Any]] = []
        self._kinds = np.empty(0, np.uint8)
        self._ends: list[tuple[Int64, Int64]] = []

    def build(self, stage: Callable[[str], None] = lambda _: None) -> Parts:
        """Do all of it; `stage` hears what is being done."""
        collector = self._collector
        for pid, tid, name, args in collector.metadata:
            self._naming.read(pid, tid, name, args)
        self._keys = list(collector.keys)
        self._kinds = np.array([torch.kind_of(key[1], key[2]) for key in self._keys], np.uint8)
        stage("pairing")
        columns = self._slice_columns()
        flows = self._flow_columns()
        instants = self._instant_columns()
        origin, window = self._settle_times(columns, instants["time"])
        for moments in (columns["start"], flows["time"], instants["time"]):
            moments -= origin
        order = sorted(range(len(self._table.keys)), key=lambda lane: self._naming.sort_key(self._table.keys[lane]))
        place = np.empty(len(order), np.int32)
        place[order] = np.arange(len(order))
        for column in (columns, flows, instants):
            column["lane"] = place[column["lane"]]
        stage("sorting")
        slices, categories = self._slices(columns, order, stage)
        names = Strings(NO_NAME if name is None else name for name in collector.names)
        return Parts(
            names=names,
            categories=categories,
            lanes=self._lanes(order, slices),
            slices=slices,
            instants=self._instants(instants, categories),
            flows=self._flows(flows),
            counters=self._counters(origin),
            origin=origin,
            window=window,
            is_torch=torch.is_torch([Kind(kind) for kind in np.unique(slices.kind)], self._metadata),
            ends=self._all_ends(),
        )

    def _lane_of_keys(self, wanted: int) -> NDArray[np.int32]:
        """Lane number of every key of the wanted class of phases, -1 for the others."""
        classes = self._collector.key_classes()
        lanes = np.full(len(self._keys), -1, np.int32)
        for number in np.flatnonzero(classes == wanted).tolist():
            phase, _, pid, tid = self._keys[number]
            if wanted in (FLOW, INSTANT):
                likes = LaneKind.GPU if phase == "f" else LaneKind.CPU
                lanes[number] = self._table.nearest(pid, tid, likes)
            else:
                kind = torch.lane_kind_of(Kind(int(self._kinds[number])))
                lanes[number] = self._table.number((lane_text(pid), lane_text(tid), kind))
        return lanes

    def _slice_columns(self) -> dict[str, NDArray[Any]]:
        """Complete slices and those made of begins and ends, in one set of columns."""
        gathered = self._collector.slices
        key = gathered.take("key", "i4")
        start = gathered.take("start", "i8")
        columns: dict[str, NDArray[Any]] = {
            "start": start,
            "dur": gathered.take("dur", "i8"),
            "name": gathered.take("name", "i4"),
            "key": key,
            "lane": self._lane_of_keys(SLICE)[key] if len(key) else np.empty(0, np.int32),
            "kind": self._kinds[key] if len(key) else np.empty(0, np.uint8),
            "correlation": gathered.take("correlation", "i8"),
            "external": gathered.take("external", "i8"),
            "event": gathered.take("event", "i4"),
        }
        unfinished = columns["dur"] == NO_DUR
        self._quality.unfinished += int(np.count_nonzero(unfinished))
        columns["dur"][unfinished] = 0
        for more in (self._paired(columns), self._async_paired()):
            if len(more["start"]):
                for name in _COLUMNS:
                    columns[name] = np.concatenate([columns[name], more[name].astype(columns[name].dtype)])
        return columns

    def _paired(self, complete: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Slices out of B and E events."""
        gathered = self._collector.pairs
        key, time = gathered.take("key", "i4"), gathered.take("time", "i8")
        name, event = gathered.take("name", "i4"), gathered.take("event", "i4")
        lane_of: dict[int, int] = {}
        for number in np.unique(key).tolist():
            _, _, pid, tid = self._keys[number]
            kind = torch.lane_kind_of(Kind(int(self._kinds[number])))
            lane_of[number] = self._table.number((lane_text(pid), lane_text(tid), kind))
        lane = _mapped(key, lane_of)
        begins = np.isin(key, [number for number in lane_of if self._keys[number][0] == "B"])
        return self._joined(lane, lane, time, begins, name, key, event, complete)

    def _async_paired(self) -> dict[str, NDArray[Any]]:
        """Slices out of asynchronous events; the ones that only mark a moment become instants."""
        items = self._collector.asyncs
        groups: dict[tuple[Any, ...], int] = {}
        rows: list[tuple[int, ...]] = []
        for time, name, key, event, item in items:
            phase, category, pid, _ = self._keys[key]
            lane = self._table.number((lane_text(pid), category, LaneKind.ASYNC))
            if phase in "nTp":
                self._collector.moments.append((time, name, key, lane, event))
                continue
            group = _async_group(item, category, pid, phase, name)
            rows.append((groups.setdefault(group, len(groups)), lane, time, phase in "bS", name, key, event))
        table = np.array(rows, np.int64).reshape(-1, 7)
        joined, lanes, times, begins, names, keys, events = table.T
        return self._joined(joined, lanes, times, begins.astype(bool), names, keys, events, None)

    def _joined(
        self,
        group: Int64,
        lane: Int64,
        time: Int64,
        begins: NDArray[np.bool_],
        name: NDArray[Any],
        key: NDArray[Any],
        event: NDArray[Any],
        complete: dict[str, NDArray[Any]] | None,
    ) -> dict[str, NDArray[Any]]:
        unnamed = self._collector.names.get(NO_NAME, -1)
        pairs = pair(np.asarray(group, np.int64), time, begins, np.asarray(name, np.int64), unnamed)
        self._quality.unmatched_ends += len(pairs.stray)
        self._quality.unfinished += len(pairs.open)
        self._remember_ends(event, pairs)
        begin = np.concatenate([pairs.begin, pairs.open])
        end = np.concatenate([time[pairs.end], _lane_ends(lane, time, complete)[pairs.open]])
        return {
            "start": time[begin],
            "dur": np.maximum(end - time[begin], 0),
            "name": name[begin],
            "key": key[begin],
            "lane": lane[begin],
            "kind": self._kinds[key[begin]] if len(begin) else np.empty(0, np.uint8),
            "correlation": np.full(len(begin), NO_ID, np.int64),
            "external": np.full(len(begin), NO_ID, np.int64),
            "event": event[begin],
        }

    def _remember_ends(self, event: NDArray[Any], pairs: Pairs) -> None:
        self._ends.append((event[pairs.begin].astype(np.int64), event[pairs.end].astype(np.int64)))

    def _all_ends(self) -> tuple[Int64, Int64]:
        begins = np.concatenate([begin for begin, _ in self._ends])
        ends = np.concatenate([end for _, end in self._ends])
        order = np.argsort(begins, kind="stable")
        return begins[order], ends[order]

    def _flow_columns(self) -> dict[str, NDArray[Any]]:
        gathered = self._collector.flows
        key = gathered.take("key", "i4")
        lanes = self._lane_of_keys(FLOW)
        return {
            "time": gathered.take("time", "i8"),
            "name": gathered.take("name", "i4"),
            "id": gathered.take("id", "i8"),
            "key": key,
            "lane": lanes[key] if len(key) else np.empty(0, np.int32),
        }

    def _instant_columns(self) -> dict[str, NDArray[Any]]:
        gathered = self._collector.instants
        key = gathered.take("key", "i4")
        lanes = self._lane_of_keys(INSTANT)
        more = np.array(self._collector.moments, np.int64).reshape(-1, 5).T
        time, name, more_key, lane, event = more

        def joined(first: NDArray[Any], second: Int64) -> NDArray[Any]:
            return np.concatenate([first, second.astype(first.dtype)])

        return {
            "time": joined(gathered.take("time", "i8"), time),
            "name": joined(gathered.take("name", "i4"), name),
            "scope": joined(gathered.take("scope", "u1"), np.zeros(len(time), np.int64)),
            "event": joined(gathered.take("event", "i4"), event),
            "lane": joined(lanes[key] if len(key) else np.empty(0, np.int32), lane),
            "key": joined(key, more_key),
        }

    def _settle_times(self, columns: dict[str, NDArray[Any]], instants: Int64) -> tuple[int, tuple[int, int]]:
        """Choose time 0, and clip durations that cannot be true (R0.1, R1.5)."""
        work = columns["kind"] != Kind.BOOKKEEPING
        self._drop_unplaced(columns, work)
        work = columns["kind"] != Kind.BOOKKEEPING
        start, dur = columns["start"][work], columns["dur"][work]
        if len(start) == 0:
            moments = [*instants.tolist(), *(time for times, _ in self._collector.counters.values() for time in times)]
            origin = min(moments, default=0)
            return origin, (0, max(moments, default=0) - origin)
        origin = int(start.min())
        end = start + dur - origin
        usual = int(np.partition(end, int(len(end) * 0.999))[int(len(end) * 0.999)])
        absurd = end > _CLIP_FACTOR * max(usual, 1)
        if absurd.any():
            self._quality.clipped += int(np.count_nonzero(absurd))
            rows = np.flatnonzero(work)[absurd]
            limit = origin + int(end[~absurd].max())
            columns["dur"][rows] = np.maximum(limit - columns["start"][rows], 0)
            end = end[~absurd]
        return origin, (0, int(end.max()))

    def _drop_unplaced(self, columns: dict[str, NDArray[Any]], work: NDArray[np.bool_]) -> None:
        """Drop slices at time 0 of a trace whose clock is far from it (kineto#109)."""
        start = columns["start"][work]
        if len(start) == 0 or start.min() > 0 or np.median(start) < 10**15:
            return
        keep = (columns["start"] > 0) | ~work
        self._quality.dropped += int(np.count_nonzero(~keep))
        self._quality.notes.append("Slices at time 0 lie outside the recording and were left out.")
        for name in _COLUMNS:
            columns[name] = columns[name][keep]

    def _slices(
        self, columns: dict[str, NDArray[Any]], order: list[int], stage: Callable[[str], None]
    ) -> tuple[Slices, Strings]:
        by_place = intervals.sorted_order(columns["lane"], columns["start"], columns["dur"])
        for name in _COLUMNS:
            columns[name] = columns[name][by_place]
        del by_place
        stage("nesting")
        kinds = np.array([self._table.keys[lane][2] for lane in order], np.uint8)
        lane, start, dur = columns["lane"], columns["start"], columns["dur"]
        packed = np.isin(kinds[lane], _PACKED) if len(lane) else np.empty(0, bool)
        parent, depth, row, self_time = self._arrange(lane, start, dur, packed)
        categories = Strings()
        category_of_key = np.array([categories.intern(key[1] or "") for key in self._keys], np.int16)
        slices = Slices(
            start=start,
            dur=dur,
            name=columns["name"],
            category=category_of_key[columns.pop("key")] if len(start) else np.empty(0, np.int16),
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
        return slices, categories

    def _arrange(
        self, lane: NDArray[Any], start: Int64, dur: Int64, packed: NDArray[np.bool_]
    ) -> tuple[NDArray[Any], ...]:
        """Parent, depth, row and self time: threads nest, streams are packed."""
        count = len(start)
        parent, depth = np.full(count, -1, np.int32), np.zeros(count, np.int16)
        row, self_time = np.zeros(count, np.int16), dur.copy()
        rows = np.flatnonzero(packed)
        row[rows] = intervals.pack(lane[rows], start[rows], start[rows] + dur[rows])
        rows = np.flatnonzero(~packed)
        begin, end = start[rows], start[rows] + dur[rows]
        nesting = intervals.nest(lane[rows], begin, end)
        self._quality.overlaps += nesting.overlaps
        parent[rows] = np.where(nesting.parent >= 0, rows[nesting.parent], -1) if len(rows) else -1
        depth[rows] = np.minimum(nesting.depth, np.iinfo(np.int16).max)
        row[rows] = np.minimum(nesting.row, np.iinfo(np.int16).max)
        self_time[rows] = intervals.self_time(nesting, begin, end)
        return parent, depth, row, self_time

    def _lanes(self, order: list[int], slices: Slices) -> tuple[Lane, ...]:
        bounds = np.searchsorted(slices.lane, np.arange(len(order) + 1)).tolist()
        lanes = []
        for place, number in enumerate(order):
            key = self._table.keys[number]
            first, last = bounds[place], bounds[place + 1]
            height = int(slices.row[first:last].max()) + 1 if last > first else 0
            name, process = self._naming.lane_name(key), self._naming.process_name(key)
            lanes.append(Lane(key[0], key[1], key[2], name, process, first, last, height))
        return tuple(lanes)

    def _instants(self, columns: dict[str, NDArray[Any]], categories: Strings) -> Instants:
        order = np.lexsort((columns["time"], columns["lane"]))
        category_of_key = np.array([categories.intern(key[1] or "") for key in self._keys], np.int16)
        category = category_of_key[columns["key"]] if len(order) else np.empty(0, np.int16)
        return Instants(
            time=columns["time"][order],
            name=columns["name"][order],
            category=category[order],
            lane=columns["lane"][order],
            scope=columns["scope"][order],
            event=columns["event"][order],
        )

    def _flows(self, columns: dict[str, NDArray[Any]]) -> Flows:
        key, name = columns["key"], columns["name"]
        phases = np.array([_FLOW_PHASES.get(key[0][:1], 0) for key in self._keys] or [0], np.uint8)
        categories = Strings()
        category = np.array([categories.intern(key[1] or "") for key in self._keys] or [0], np.int64)
        _, joined = np.unique(category[key] * (1 << 32) + name, return_inverse=True)
        return Flows(columns["time"], columns["lane"], phases[key], joined.astype(np.int32), columns["id"])

    def _counters(self, origin: int) -> tuple[Counter, ...]:
        counters = []
        for (pid, name, identity, series), (times, values) in self._collector.counters.items():
            order = np.argsort(times, kind="stable")
            process = self._naming.process.get(lane_text(pid), lane_text(pid))
            label = f"{name} {identity}".strip()
            moments = np.array(times, np.int64)[order] - origin
            counters.append(Counter(process, label, series, moments, np.array(values, np.float64)[order]))
        return tuple(counters)


def _mapped(key: NDArray[Any], numbers: dict[int, int]) -> Int64:
    table = np.zeros(max(numbers, default=-1) + 1, np.int64)
    for place, number in numbers.items():
        table[place] = number
    return table[key] if len(key) else np.empty(0, np.int64)


def _lane_ends(lane: Int64, time: Int64, complete: dict[str, NDArray[Any]] | None) -> Int64:
    """For every event the end of its lane, at which an open begin is closed."""
    if len(lane) == 0:
        return np.empty(0, np.int64)
    size = int(lane.max()) + 1
    ends = np.full(size, np.iinfo(np.int64).min)
    np.maximum.at(ends, lane, time)
    if complete is not None:
        here = complete["lane"] < size
        np.maximum.at(ends, complete["lane"][here], (complete["start"] + complete["dur"])[here])
    return ends[lane]


def _async_group(item: dict[str, Any], category: str, pid: Any, phase: str, name: int) -> tuple[Any, ...]:
    """What makes begin and end of an asynchronous slice belong together (1.3)."""
    scope, identity, owner = str(item.get("scope", "")), item.get("id"), ""
    double = item.get("id2")
    if isinstance(double, dict):
        identity = double.get("global")
        if "local" in double:
            identity, owner = double["local"], lane_text(pid)
    legacy = name if phase in "SF" else -1
    return (category, scope, lane_text(identity), owner, legacy)
