"""Small traces made by hand: `make_trace([op("aten::mm", 0, 10), kernel("gemm", 12, 5, correlation=1)])`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracetui.model.intervals import nest, pack, self_time, sorted_order
from tracetui.model.recorded import OP_NUMBERS, OP_TEXTS, WORK_NUMBERS, WORK_TEXTS, Arguments
from tracetui.model.table import NULL, Strings
from tracetui.model.trace import (
    NO_ID,
    Device,
    Flows,
    Instants,
    Kind,
    Lane,
    LaneKind,
    Quality,
    Slices,
    Trace,
)

CATEGORIES = {
    Kind.OTHER: "other",
    Kind.CPU_OP: "cpu_op",
    Kind.ANNOTATION: "user_annotation",
    Kind.RUNTIME: "cuda_runtime",
    Kind.PYTHON: "python_function",
    Kind.KERNEL: "kernel",
    Kind.MEMCPY: "gpu_memcpy",
    Kind.MEMSET: "gpu_memset",
    Kind.GPU_ANNOTATION: "gpu_user_annotation",
    Kind.SYNC: "cuda_sync",
    Kind.OVERHEAD: "overhead",
    Kind.BOOKKEEPING: "Trace",
    Kind.GRAPH_EVENT: "graph_event_node",
    Kind.GRAPH_HOST: "graph_host_node",
    Kind.LINE: "source_line",
}
ON_GPU = {Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET, Kind.GRAPH_EVENT, Kind.GRAPH_HOST}


@dataclass(frozen=True)
class Event:
    """One slice, times in ns."""

    name: str
    start: int
    dur: int
    kind: Kind = Kind.CPU_OP
    lane: tuple[str, str] = ("1", "1")
    correlation: int = NO_ID
    external: int = NO_ID
    args: Mapping[str, Any] | None = None


class ArgsInMemory:
    """An event store over the events that a trace was made of."""

    def __init__(self, events: Sequence[Event]) -> None:
        self._events = events

    def event(self, index: int) -> dict[str, Any]:
        event = self._events[index]
        return {"name": event.name, "ph": "X", "args": dict(event.args or {})}

    def args(self, indices: np.ndarray, keys: Sequence[str]) -> list[list[Any]]:
        rows = [self._events[int(index)].args or {} for index in indices]
        return [[row.get(key) for row in rows] for key in keys]


def op(name: str, start: int, dur: int, **more: Any) -> Event:
    """A CPU operator."""
    return Event(name, start, dur, Kind.CPU_OP, **more)


def step(number: int, start: int, dur: int, **more: Any) -> Event:
    """A profiler step."""
    return Event(f"ProfilerStep#{number}", start, dur, Kind.ANNOTATION, **more)


def launch(start: int, dur: int, correlation: int, name: str = "cudaLaunchKernel", **more: Any) -> Event:
    """A runtime call."""
    return Event(name, start, dur, Kind.RUNTIME, correlation=correlation, **more)


def kernel(name: str, start: int, dur: int, stream: str = "stream 7", **more: Any) -> Event:
    """A kernel on device 0."""
    return Event(name, start, dur, Kind.KERNEL, ("0", stream), **more)


def memcpy(name: str, start: int, dur: int, stream: str = "stream 7", **more: Any) -> Event:
    """A copy on device 0."""
    return Event(name, start, dur, Kind.MEMCPY, ("0", stream), **more)


def annotation(name: str, start: int, dur: int, **more: Any) -> Event:
    """A `record_function` of the user."""
    return Event(name, start, dur, Kind.ANNOTATION, **more)


def python(name: str, start: int, dur: int, **more: Any) -> Event:
    """A Python frame."""
    return Event(name, start, dur, Kind.PYTHON, **more)


def make_trace(slices: Sequence[Event], devices: Sequence[Device] = (), **fields: Any) -> Trace:
    """A trace of the given slices; lanes appear in the order in which they are first named."""
    keys = list(dict.fromkeys(event.lane for event in slices))
    lane = np.array([keys.index(event.lane) for event in slices], np.int32)
    start = np.array([event.start for event in slices], np.int64)
    dur = np.array([event.dur for event in slices], np.int64)
    order = sorted_order(lane, start, dur)
    lane, start, dur = lane[order], start[order], dur[order]
    ordered = [slices[int(index)] for index in order]
    names, categories = Strings(), Strings()
    nesting = nest(lane.astype(np.int64), start, start + dur)
    packed = pack(lane.astype(np.int64), start, start + dur)
    on_gpu = np.array([event.kind in ON_GPU for event in ordered], bool)
    row = np.where(on_gpu, packed, nesting.row)
    columns = Slices(
        start=start,
        dur=dur,
        name=np.array([names.intern(event.name) for event in ordered], np.int32),
        category=np.array([categories.intern(CATEGORIES[event.kind]) for event in ordered], np.int16),
        kind=np.array([event.kind for event in ordered], np.uint8),
        lane=lane,
        parent=np.where(on_gpu, -1, nesting.parent).astype(np.int32),
        depth=np.where(on_gpu, 0, nesting.depth).astype(np.int16),
        row=row.astype(np.int16),
        self_time=np.where(on_gpu, dur, self_time(nesting, start, start + dur)),
        correlation=np.array([event.correlation for event in ordered], np.int64),
        external=np.array([event.external for event in ordered], np.int64),
        event=order.astype(np.int32),
    )
    values: dict[str, Any] = {
        "label": "made.json",
        "path": None,
        "format": "PyTorch profiler, object, plain",
        "size_bytes": 1000,
        "events": len(slices),
        "is_torch": True,
        "names": names,
        "categories": categories,
        "slices": columns,
        "lanes": tuple(_lane(key, number, columns) for number, key in enumerate(keys)),
        "instants": _no_instants(),
        "flows": _no_flows(),
        "counters": (),
        "devices": tuple(devices),
        "metadata": {},
        "origin_us": 0.0,
        "origin_ns": 0,
        "window": (int(start.min(initial=0)), int((start + dur).max(initial=0))),
        "quality": Quality(),
        "op_args": _arguments(slices, OP_NUMBERS, OP_TEXTS),
        "work_args": _arguments(slices, WORK_NUMBERS, WORK_TEXTS),
        "store": ArgsInMemory(slices),
    }
    return Trace(**{**values, **fields})


def _arguments(events: Sequence[Event], numbers: Sequence[str], texts: Sequence[str]) -> Arguments:
    """What an importer keeps of the events' args."""
    args = [event.args or {} for event in events]
    strings = Strings()
    return Arguments(
        np.arange(len(events), dtype=np.int32),
        {name: np.array([each.get(name, NULL) for each in args], np.int64) for name in numbers},
        {
            name: np.array([strings.intern(json.dumps(each[name])) if name in each else -1 for each in args], np.int32)
            for name in texts
        },
        strings,
    )


def _lane(key: tuple[str, str], number: int, slices: Slices) -> Lane:
    first, last = np.searchsorted(slices.lane, [number, number + 1]).tolist()
    gpu = int(slices.kind[first]) in ON_GPU
    height = int(slices.row[first:last].max(initial=-1)) + 1
    return Lane(
        pid=key[0],
        tid=key[1],
        kind=LaneKind.GPU if gpu else LaneKind.CPU,
        name=key[1],
        process=f"GPU {key[0]}" if gpu else f"python {key[0]} (CPU)",
        first=first,
        last=last,
        rows=height,
    )


def _no_instants() -> Instants:
    none = np.empty(0, np.int64)
    small = none.astype(np.int32)
    return Instants(none, small, none.astype(np.int16), small, none.astype(np.uint8), small)


def _no_flows() -> Flows:
    none = np.empty(0, np.int64)
    small = none.astype(np.int32)
    return Flows(none, small, none.astype(np.uint8), small, none)
