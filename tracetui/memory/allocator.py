"""Allocator events: every allocation and free with its device, size, running total and the op around it.

These are the instants `[memory]` and `[OutOfMemory]` of `profile_memory=True`. Allocation and free are paired by device
and address, which torch 1.9 and older do not record; running totals are missing there too. `memory_curves` has the
allocated bytes of each device over time, to draw under its lanes.
"""

from __future__ import annotations

import re
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tracetui.frozen import Parallel, frozen
from tracetui.linking.groups import distinct, group
from tracetui.linking.links import links, no_gpu, op_rows
from tracetui.linking.placement import time_within, within
from tracetui.linking.trees import Axis, forest, lane_numbers, nearest
from tracetui.model import columns as col
from tracetui.model.intervals import Bool, Int64, Part
from tracetui.model.results import kept
from tracetui.model.table import NULL, Table, coded, micros, numbers, texts
from tracetui.model.trace import Counter, Kind, Trace


@kept(on_disk=True)
def memory_curves(trace: Trace) -> tuple[Counter, ...]:
    """Counters per device: bytes allocated, and bytes reserved where they change; the host only where it is alone.

    Names are short, for the column of lane names: `mem`, `Δmem` where only the change is known, `res`.
    """
    allocations = allocator(trace)
    all_devices = range(len(allocations.devices))
    devices = [number for number in all_devices if not allocations.devices[number].startswith(CPU)] or all_devices
    curves = []
    for device in devices:
        label = allocations.devices[device]
        prefix = f"{label} " if len(devices) > 1 else ""
        mine = (allocations.device == device) & ~allocations.failed
        time, reserved = allocations.time[mine], allocations.reserved[mine]
        has_totals = bool((allocations.total[mine] != NULL).all())
        level = allocations.level[mine].astype(np.float64)
        curves.append(Counter(label, f"{prefix}{'mem' if has_totals else 'Δmem'}", "", time, level, "bytes"))
        if len(distinct(reserved)) > 1 and (reserved != NULL).all():
            curves.append(Counter(label, f"{prefix}res", "", time, reserved.astype(np.float64), "bytes"))
    return tuple(curves)


CPU = "CPU"
"""Label of the host's allocator."""
_DEVICE_TYPES = {0: CPU, 1: "GPU", 6: "GPU", 9: "XLA", 12: "XPU", 13: "MPS", 15: "HPU", 19: "MTIA", 20: "device"}
"""Names by the number of c10's DeviceType; 1 is CUDA, 6 HIP."""
_ALLOCATES = re.compile(r"aten::(new_)?empty\w*|aten::resize\w*")
"""Ops that only allocate for the op above them."""


@frozen
class Allocator(Parallel):
    """Parallel arrays, one entry per event of an allocator, in the order of time."""

    time: Int64
    lane: Int64
    event: Int64
    """Number of the event in the file."""
    device: Int64
    """Index in `devices`, -1 where the event does not say."""
    devices: tuple[str, ...]
    """`CPU`, `GPU 0` and so on, with the process where the file holds several; the CPU's first."""
    bytes: Int64
    """Positive for an allocation, negative for a free; the requested bytes where an allocation failed."""
    failed: Bool
    """Mask of allocations that failed for lack of memory."""
    total: Int64
    """Bytes allocated on the device after the event, NULL where the trace does not say."""
    reserved: Int64
    """Bytes that the allocator had reserved on the device, NULL where the trace does not say."""
    since_start: Int64
    """Bytes allocated less bytes freed on the device since the recording began."""
    address: Int64
    """NULL where the trace does not say."""

    @cached_property
    def partner(self) -> Int64:
        """The free of an allocation and vice versa, the same bytes next at its address; -1 for none in the trace."""
        device, address, size = self.device, self.address, np.where(self.failed, 0, self.bytes)
        partner = np.full(len(device), -1, np.int64)
        order = np.lexsort((address, device))
        first, second = order[:-1], order[1:]
        pair = (device[first] == device[second]) & (address[first] == address[second]) & (address[first] != NULL)
        pair &= (size[first] > 0) & (size[second] == -size[first])
        partner[first[pair]], partner[second[pair]] = second[pair], first[pair]
        return partner

    @property
    def allocations(self) -> Bool:
        """Mask of successful allocations."""
        return (self.bytes > 0) & ~self.failed

    @property
    def level(self) -> Int64:
        """Bytes in use after each event: the total where all events of the device have it, else since the start."""
        given = np.ones(len(self.devices) + 1, bool)
        given[self.device[self.total == NULL]] = False
        return np.where(given[self.device], self.total, self.since_start)

    def lifetime(self) -> Int64:
        """Time from allocation to free in ns, NULL for everything but allocations whose free is in the trace."""
        known = self.allocations & (self.partner >= 0)
        return np.where(known, self.time[self.partner] - self.time, NULL)

    def alive_at(self, event: int) -> Int64:
        """The allocations of an event's device that were not yet freed; empty without addresses."""
        before = np.flatnonzero(self.allocations[: event + 1] & (self.device[: event + 1] == self.device[event]))
        return before[(self.partner[before] < 0) | (self.partner[before] > event)]

    def peak(self, events: Int64) -> dict[int, int]:
        """The first event with the highest level by device; the events are in order."""
        level, device = self.level[events], self.device[events]
        peaks = {}
        for number in range(len(self.devices)):
            mine = np.flatnonzero((device == number) & ~self.failed[events])
            if len(mine):
                peaks[number] = int(events[mine[np.argmax(level[mine])]])
        return peaks


@kept(on_disk=True)
def allocator(trace: Trace) -> Allocator:
    """The events of all allocators; none where memory was not recorded."""
    instants = trace.instants
    indices = np.flatnonzero(np.isin(instants.event, trace.memory_args.event))
    indices = indices[np.lexsort((instants.event[indices], instants.time[indices]))]
    time, lane = instants.time[indices], instants.lane[indices].astype(np.int64)
    event = instants.event[indices].astype(np.int64)
    given = trace.memory_args.all_numbers(event)
    absent = np.full(len(event), NULL)
    failed = instants.name[indices] == trace.names.find("[OutOfMemory]")
    size = given.get("Bytes", absent)
    size = np.where(size == NULL, 0, size)
    device, devices = _devices(trace, lane, given.get("Device Type", absent), given.get("Device Id", absent))
    # Sum of the bytes up to each event on its device.
    done = np.where(failed, 0, size)
    total = np.zeros(len(device), np.int64)
    for number in distinct(device).tolist():
        mine = device == number
        total[mine] = np.cumsum(done[mine])
    return Allocator(
        time=time,
        lane=lane,
        event=event,
        device=device,
        devices=devices,
        bytes=size,
        failed=failed,
        total=given.get("Total Allocated", absent),
        reserved=given.get("Total Reserved", absent),
        since_start=total,
        address=given.get("Addr", absent),
    )


@frozen
class Causes:
    """The ops behind the allocator events, one entry per event, as rows of slices; -1 for none."""

    made_by: Int64
    """The innermost op around the event on its thread; torch counts the bytes there."""
    op: Int64
    """The innermost op that does more than allocate; `made_by` where there is none."""


@kept
def allocation_causes(trace: Trace) -> Causes:
    """The ops behind all events of `allocator(trace)`."""
    allocations, ops = allocator(trace), op_rows(trace)
    innermost = enclosing(trace, ops, allocations.lane, allocations.time)
    if len(ops) == 0:
        return Causes(innermost, innermost)
    names = trace.slices.name[ops]
    allocating = [number for number in distinct(names).tolist() if _ALLOCATES.fullmatch(trace.names[number])]
    does_more = ~np.isin(names, allocating)
    above = nearest(forest(trace, ops), does_more)
    cause = np.where(does_more | (above < 0), np.arange(len(ops)), above)[innermost]
    return Causes(np.where(innermost >= 0, ops[innermost], -1), np.where(innermost >= 0, ops[cause], -1))


def enclosing(trace: Trace, rows: Int64, lane: NDArray[np.integer], moment: Int64) -> Int64:
    """The index in `rows` of the innermost slice around each time on a lane, -1 for none.

    `rows` ascends.
    """
    if len(rows) == 0:
        return np.full(len(moment), -1, np.int64)
    slices = trace.slices
    start, end = slices.start[rows], slices.end[rows]
    axis = Axis.around(np.append(start, moment), np.append(end, moment))
    parent = forest(trace, rows)
    innermost = np.searchsorted(axis.position(slices.lane[rows], start), axis.position(lane, moment), side="right") - 1
    innermost[slices.lane[rows[innermost]] != lane] = -1
    over = np.flatnonzero((innermost >= 0) & (end[innermost] <= moment))
    while len(over):
        innermost[over] = parent[innermost[over]]
        over = over[(innermost[over] >= 0) & (end[innermost[over]] <= moment[over])]
    return innermost


def _devices(trace: Trace, lane: Int64, kind: Int64, number: Int64) -> tuple[Int64, tuple[str, ...]]:
    """Index and label of the device of each event; processes have their own allocators."""
    process = lane_numbers(trace).process[lane]
    kinds, numbers = distinct(kind), distinct(number)
    several = len(distinct(process)) > 1
    lane_of = dict(zip(process.tolist(), lane.tolist(), strict=True)) if several else {}
    # There are few of each: one number stands for all three.
    packed = (np.searchsorted(kinds, kind) << 32) + (np.searchsorted(numbers, number) << 16) + process
    keys = distinct(packed[kind != NULL])
    labels = []
    for key in keys.tolist():
        kind_number, index = int(kinds[key >> 32]), int(numbers[key >> 16 & 0xFFFF])
        label = _DEVICE_TYPES.get(kind_number, f"device type {kind_number}")
        label = label if label == CPU or index < 0 else f"{label} {index}"
        labels.append(f"{label} of {trace.lanes[lane_of[key & 0xFFFF]].process}" if several else label)
    return np.where(kind == NULL, -1, np.searchsorted(keys, packed)), tuple(labels)


# Copies and fills by kind: direction, bytes, rate, and advice about slow ones.
#
# CUDA names say whether host memory was pinned; ROCm often omits that and the size.

NO_COPIES = "Nothing was copied or filled on the GPU."
PAGEABLE = re.compile(r"\bpageable\b", re.IGNORECASE)
"""Pattern of copies from or to pageable host memory."""
TO_HOST = re.compile(r"DtoH|DeviceToHost", re.IGNORECASE)
"""Pattern of copies from the GPU to the CPU."""
DIRECTED = re.compile(r"[HDAPU]to[HDAPU]|(Host|Device|Peer)\w*To\w*(Host|Device|Peer)|Memset|Fill", re.IGNORECASE)
"""Pattern of copies whose name has a direction, and of fills, which have none."""
_ADVICE = (
    (
        re.compile(r"(HtoD|HostToDevice).*pageable", re.IGNORECASE),
        "Staged through a pinned buffer while the CPU waits: pin_memory() or DataLoader(pin_memory=True), "
        "then to(device, non_blocking=True).",
    ),
    (
        re.compile(r"(DtoH|DeviceToHost).*pageable", re.IGNORECASE),
        "The CPU waits for the GPU (.item(), .cpu(), print): do it less often, or copy to pinned memory with "
        "non_blocking=True and synchronise once.",
    ),
)
"""Hints by the name of a copy; the first match counts."""


def copy_rows(trace: Trace, step: Part | None = None) -> Int64:
    """Rows of the copies and fills of the trace or of a step, by start."""
    rows = links(trace).gpu
    return within(trace, rows[np.isin(trace.slices.kind[rows], (Kind.MEMCPY, Kind.MEMSET))], step)


def bytes_of(trace: Trace, rows: Int64) -> Int64:
    """Bytes of each copy or fill, NULL where unknown."""
    return trace.work_args.number("bytes", trace.slices.event[rows])


def copies(trace: Trace, step: Part | None = None) -> Table:
    """One row per kind of copy, the longest in sum first."""
    rows = copy_rows(trace, step)
    size, dur = bytes_of(trace, rows), trace.slices.dur[rows]
    kinds = group(trace.slices.name[rows])
    known = size != NULL
    has_bytes = kinds.sum(known) > 0
    timed = known & (dur > 0)
    spent = kinds.sum(np.where(timed, dur, 0))
    # Bytes per ns are GB/s.
    rate = np.where(timed, size, 0) / np.maximum(dur, 1)
    total, longest = kinds.sum(time_within(trace, rows, step)), kinds.largest(dur)
    names = [trace.names[number] for number in kinds.key.tolist()]
    hints = [next((words for pattern, words in _ADVICE if pattern.search(name)), None) for name in names]
    table = Table(
        (
            coded(col.COPY, kinds.key, trace.names),
            numbers(col.CALLS.but(help="How often."), kinds.calls),
            numbers(col.BYTES, np.where(has_bytes, kinds.sum(np.where(known, size, 0)), np.nan)),
            micros(col.TOTAL_US.but(help="Sum of the durations."), total),
            numbers(col.GBPS, np.where(spent > 0, kinds.sum(np.where(timed, size, 0)) / np.maximum(spent, 1), np.nan)),
            numbers(col.MEDIAN_GBPS, _median(kinds.member, rate, timed, len(kinds))),
            numbers(col.MEDIAN_BYTES, _median(kinds.member, size, known, len(kinds))),
            micros(col.MEDIAN_US, kinds.median(dur)),
            micros(col.MAX_US, dur[longest]),
            numbers(col.UNSIZED, kinds.sum(~known).astype(np.int64)),
            texts(col.HINT, hints),
        ),
        rows[longest],
        "" if len(rows) else no_gpu(trace) or NO_COPIES,
    )
    return table.take(table.order("total_us", descending=True))


def _median(member: Int64, values: np.ndarray, known: np.ndarray, count: int) -> np.ndarray:
    """Median of the known values in each group, NaN for none."""
    result = np.full(count, np.nan)
    some = group(member[known])
    result[some.key] = some.median(values[known])
    return result
