"""PyTorch's reading of trace events: which category is what, from torch 1.8 to today (R2.2-R2.5).

The tables here are the only place that knows the categories of a producer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tracetui.model.recorded import whole_number
from tracetui.model.trace import Device, Kind, LaneKind

_KINDS: dict[str, Kind] = {
    "cpu_op": Kind.CPU_OP,
    "operator": Kind.CPU_OP,
    "hpu_op": Kind.CPU_OP,
    "user_annotation": Kind.ANNOTATION,
    "user": Kind.ANNOTATION,
    "python_function": Kind.PYTHON,
    "runtime": Kind.RUNTIME,
    "kernel": Kind.KERNEL,
    "gpu_memcpy": Kind.MEMCPY,
    "memcpy": Kind.MEMCPY,
    "gpu_memset": Kind.MEMSET,
    "memset": Kind.MEMSET,
    "gpu_user_annotation": Kind.GPU_ANNOTATION,
    "graph_event_node": Kind.GRAPH_EVENT,
    "graph_host_node": Kind.GRAPH_HOST,
    "cuda_sync": Kind.SYNC,
    "xpu_sync": Kind.SYNC,
    "cuda_event": Kind.SYNC,
    "overhead": Kind.OVERHEAD,
    "trace": Kind.BOOKKEEPING,
    "source_line": Kind.LINE,
} | {
    f"{vendor}_{layer}": Kind.RUNTIME
    for vendor in ("cuda", "hip", "xpu", "mtia", "glow", "privateuse1")
    for layer in ("runtime", "driver")
}

LANE_KINDS: dict[Kind, LaneKind] = {
    Kind.KERNEL: LaneKind.GPU,
    Kind.MEMCPY: LaneKind.GPU,
    Kind.MEMSET: LaneKind.GPU,
    Kind.GRAPH_EVENT: LaneKind.GPU,
    Kind.GRAPH_HOST: LaneKind.GPU,
    Kind.GPU_ANNOTATION: LaneKind.GPU_ANNOTATION,
    Kind.SYNC: LaneKind.SYNC,
    Kind.OVERHEAD: LaneKind.OVERHEAD,
    Kind.BOOKKEEPING: LaneKind.BOOKKEEPING,
}

_TORCH_KEYS = ("deviceProperties", "schemaVersion", "baseTimeNanoseconds", "traceName")

BOOKKEEPING_PROCESSES = ("Spans", "Traces", "")
"""The process where the profiler writes about itself (R2.2)."""


LEGACY_PROCESSES = {"CPU functions": Kind.CPU_OP, "CUDA functions": Kind.KERNEL}
"""Processes in what `torch.autograd.profiler` exports, without categories; a thread of the second is a device."""


def kind_of(category: str, pid: object = None) -> Kind:
    """The kind of a slice by its category; the first known one of a comma-separated list counts."""
    if not category and isinstance(pid, str):
        return LEGACY_PROCESSES.get(pid, Kind.OTHER)
    for part in category.split(","):
        kind = _KINDS.get(part.strip().casefold())
        if kind is Kind.BOOKKEEPING and pid != "Spans":
            return Kind.OTHER
        if kind is not None:
            return kind
    return Kind.OTHER


_SYNC_LANES = range(1_000_000, 2_000_000)
"""Numbers of the lanes on which Kineto since 2026 writes the waits on streams: the stream's plus a million."""


def lane_ids(pid: str, tid: str, kind: Kind = Kind.OTHER) -> tuple[str, str]:
    """Process and thread of a lane; a device of the legacy export is a process with one stream.

    A wait on a stream is on the lane of that stream's waits, whatever lane the file gives it (R2.14).
    """
    if kind is Kind.SYNC and tid.isascii() and tid.isdigit() and len(tid) < 10 and int(tid) in _SYNC_LANES:
        return pid, str(int(tid) - _SYNC_LANES.start)
    return (tid, "0") if LEGACY_PROCESSES.get(pid) is Kind.KERNEL else (pid, tid)


def is_torch(kinds: Iterable[Kind], metadata: Mapping[str, Any]) -> bool:
    """Tell whether the file comes from the PyTorch profiler."""
    return any(kind is not Kind.OTHER for kind in kinds) or any(key in metadata for key in _TORCH_KEYS)


def devices_of(metadata: Mapping[str, Any]) -> tuple[Device, ...]:
    """The devices listed in `deviceProperties`, in the order of the file."""
    entries = metadata.get("deviceProperties")
    devices = []
    for number, entry in enumerate(entries if isinstance(entries, list) else []):
        if isinstance(entry, dict):
            index, name = whole_number(entry.get("id")), entry.get("name")
            devices.append(Device(number if index is None else index, name if isinstance(name, str) else "", entry))
    return tuple(devices)
