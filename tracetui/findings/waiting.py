"""Rules about waiting: reads that stop the CPU, copies of memory that is not pinned, and streams that wait."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tracetui.findings.finding import Finding, Severity
from tracetui.findings.idle_time import idle_cost, longest_part, parts_of
from tracetui.findings.launches import alone
from tracetui.findings.scope import Scope, blocking_copies, longest, most_common
from tracetui.idle.cause_words import Cause
from tracetui.idle.idle_parts import IdleParts, told_to_wait
from tracetui.idle.idleness import device_order, idleness
from tracetui.idle.thread_causes import MIN_COPY_BYTES
from tracetui.idle.waits import sync_calls
from tracetui.linking.groups import distinct, group
from tracetui.linking.lanes import is_named
from tracetui.linking.links import links, names_of
from tracetui.linking.stretches import Axis
from tracetui.memory.copies import DIRECTED, PAGEABLE, TO_HOST, bytes_of
from tracetui.model.intervals import Int64, covered, covered_within, union
from tracetui.model.quantities import duration, rate, size
from tracetui.model.table import NULL
from tracetui.model.trace import Kind, Trace

MAX_NAMED_OPS = 3
"""Maximum operators named in a sentence, the most frequent first."""
MIN_DEPENDENCY_NS = 100_000
"""Minimum ns of a wait that is more than the handling of an event that has happened."""
_READS = re.compile(r"^aten::")
"""Operators that wait for the GPU to read a value from it: `item`, `nonzero`, a boolean index."""


def host_sync(scope: Scope) -> Iterator[Finding]:
    """The CPU stops until the GPU has finished, and then the GPU has nothing queued (R3.60)."""
    trace = scope.trace
    parts = parts_of(scope, Cause.HOST_SYNC)
    cost = idle_cost(scope, parts)
    waits = _waits(scope)
    if cost == 0 or len(waits.calls) == 0:
        return
    reads = 2 * waits.reads >= len(waits.calls)
    # Where copies have no direction, a wait may be for one that reads a value.
    is_unknown = not reads and bool((~is_named(trace, scope.copies, DIRECTED.search)).any())
    why = "to read a value" if reads else f"in {most_common(trace, waits.calls)}"
    read = f", {waits.reads:,} of them to read values" if waits.reads else ", none of them to read a value"
    if is_unknown:
        others = f"{read}; whether the others do" if waits.reads else "; whether they read values"
        read = f"{others} is not known, as copies have no direction here"
    yield from scope.priced(
        "host-sync",
        cost,
        f"The CPU waits for the GPU {why}, and then the GPU for the CPU",
        f"{scope.per_step(len(waits.calls), 'wait')}{_by_op(trace, waits.calls)}, {duration(waits.time)} in all"
        f"{read}; afterwards the GPU was idle for {duration(cost)}",
        _READ_LESS if reads else _EITHER if is_unknown else _WAIT_LESS,
        longest_part(scope, parts),
        at_gap=True,
        action="read values from the GPU less often"
        if reads
        else "see what the waits are for"
        if is_unknown
        else "leave out the waits that nothing needs",
    )


_READ_LESS = (
    "Nothing can be queued while the CPU waits. Read values less often (.item(), .cpu(), nonzero, an if on a "
    "tensor), keep them on the GPU, or read them a step later; torch.cuda.set_sync_debug_mode('warn') finds them."
)
_WAIT_LESS = (
    "Nothing can be queued while the CPU waits. Leave out torch.cuda.synchronize() and the waits for streams and "
    "events that are there to measure time; let streams wait for each other instead (Event.record, Stream.wait_event)."
)


_EITHER = (
    "Nothing can be queued while the CPU waits. Where a value is read (.item(), .cpu(), an if on a tensor), read it "
    "less often or a step later; leave out torch.cuda.synchronize() and the waits that are there to measure time."
)


@dataclass(frozen=True, eq=False)
class _Waits:
    """The calls in which the CPU waits for the GPU, each read counted once."""

    calls: Int64
    reads: int
    """Number of those that read something from the GPU."""
    time: int
    """Time in ns in which the CPU waited."""


def _waits(scope: Scope) -> _Waits:
    """Waits, and copies to the CPU that wait; a wait right behind the copy that it is for is no second one."""
    trace, slices = scope.trace, scope.trace.slices
    syncs, copies = scope.inside(sync_calls(trace)), scope.copies_to_host
    launch, blocking = links(trace).launch[copies], blocking_copies(trace, copies)
    axis = Axis.around(slices.start, slices.end)
    calls = slices.of_kind(Kind.RUNTIME)
    at = axis.position(slices.lane[calls], slices.start[calls])
    previous = np.searchsorted(at, axis.position(slices.lane[syncs], slices.start[syncs])) - 1
    previous = np.append(calls, -1)[previous]
    rows = np.sort(np.concatenate([blocking, syncs[~np.isin(previous, blocking)]]))
    owner = links(trace).owner[rows]
    reads = np.isin(rows, blocking) | np.isin(rows, syncs[np.isin(previous, launch[launch >= 0])])
    reads |= (owner >= 0) & is_named(trace, owner, _READS.search)
    every = np.union1d(syncs, blocking)
    return _Waits(rows, int(reads.sum()), covered(slices.start[every], slices.end[every]))


def _by_op(trace: Trace, rows: Int64) -> str:
    """The operators around most of the waits: ` (20 in aten::item)`; empty without any."""
    owner = names_of(trace, links(trace).owner[rows])
    used = group(owner[owner >= 0])
    order = np.argsort(-used.calls, kind="stable")[:MAX_NAMED_OPS].tolist()
    named = [f"{used.calls[index]:,} in {trace.names[int(used.key[index])]}" for index in order]
    return f" ({', '.join(named)})" if named else ""


def pageable_copy(scope: Scope) -> Iterator[Finding]:
    """Copies from or to memory that is not pinned are staged, and the thread waits in their calls."""
    trace = scope.trace
    rows = scope.copies
    rows = rows[is_named(trace, rows, PAGEABLE.search)]
    moved = bytes_of(trace, rows)
    rows, moved = rows[(moved == NULL) | (moved >= MIN_COPY_BYTES)], moved[(moved == NULL) | (moved >= MIN_COPY_BYTES)]
    parts = parts_of(scope, Cause.PAGEABLE)
    if len(rows) == 0:
        return
    exposed, idle = alone(scope, rows), idle_cost(scope, parts)
    spent, total = int(trace.slices.dur[rows].sum()), int(moved[moved > 0].sum())
    yield from scope.priced(
        "pageable-copy",
        exposed + idle,
        f"Copies {_direction(trace, rows)} the GPU use memory that is not pinned",
        f"{scope.per_step(len(rows), 'copy')}, {duration(spent)}"
        + (f", {size(total)} at {rate(total, spent)}" if total else "")
        + f"; {duration(exposed)} of it with nothing else on the GPU"
        + (f", and {duration(idle)} of idle time in their calls" if idle else ""),
        "Such a copy goes through a staging buffer while the CPU waits. Allocate the buffers pinned (pin_memory=True "
        "in the DataLoader, or torch.empty(..., pin_memory=True)) and copy with non_blocking=True; to pin a tensor "
        "only for its copy may be slower.",
        longest(trace, rows),
        action="pin the memory",
    )


def _direction(trace: Trace, rows: Int64) -> str:
    back = is_named(trace, rows, TO_HOST.search)
    return "from and to" if back.any() and not back.all() else "from" if back.all() else "to"


def dependency(scope: Scope) -> Iterator[Finding]:
    """Launched activities wait because their stream was told to wait for an event (R3.29)."""
    trace = scope.trace
    for parts, early in ((parts_of(scope, Cause.STREAM), False), (_waiting_at_the_start(scope), True)):
        parts = parts.take(parts.dur >= MIN_DEPENDENCY_NS)
        if len(parts) == 0:
            continue
        after = idleness(trace).after[parts.gap]
        waiting = group(trace.slices.lane[after])
        lane = trace.lanes[int(waiting.key[np.argmax(waiting.sum(parts.dur))])]
        row = longest_part(scope, parts)
        yield from scope.priced(
            "dependency",
            idle_cost(scope, parts),
            "Activities launched as the recording began wait for an event while the GPU runs nothing that was recorded"
            if early
            else "Launched activities wait for an event while the GPU is idle",
            f"{scope.per_step(len(parts), 'wait')} of at most {duration(int(parts.dur.max()))}, most of it on "
            f"{lane.name}, the longest before {trace.name_of(row)}{_waited_for(scope, parts, early)}",
            "See which event the stream waits for"
            + (", and record from an earlier moment on." if early else ", and start what records it earlier."),
            row,
            at_gap=True,
            action="" if early else "start what the stream waits for earlier",
            at_most=Severity.NOTE if early else Severity.MAJOR,
        )


def _waiting_at_the_start(scope: Scope) -> IdleParts:
    """Waits of the first activities of streams, launched as the capture began behind a wait for an event."""
    parts = parts_of(scope, Cause.BEFORE_CAPTURE)
    return parts.take(told_to_wait(scope.trace)[parts.gap] & idleness(scope.trace).known[parts.gap])


def _waited_for(scope: Scope, parts: IdleParts, early: bool) -> str:
    """What the event may belong to: nothing of the device itself, which ran nothing meanwhile."""
    slices, order = scope.trace.slices, device_order(scope.trace)
    device = idleness(scope.trace).device[parts.gap]
    beside = 0
    for number in distinct(device).tolist():
        others = order.row[order.device != number]
        mine = device == number
        starts, ends = union(slices.start[others], slices.end[others])
        beside += int(covered_within(starts, ends, parts.start[mine], parts.end[mine]).sum())
    if 2 * beside > int(parts.dur.sum()):
        return "; other devices of the trace were busy meanwhile"
    before = "work launched before the recording, " if early else ""
    return f"; the event is of no recorded work of this device: it may be of {before}another device, or of the CPU"
