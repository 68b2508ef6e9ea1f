"""Rules about waiting: reads that stop the CPU, copies of memory that is not pinned, and streams that wait."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from tracetui.analysis.common.groups import group
from tracetui.analysis.common.lanes import is_named
from tracetui.analysis.common.stretches import Axis
from tracetui.analysis.findings.finding import Finding
from tracetui.analysis.findings.idle_time import idle_cost, longest_part, parts_of
from tracetui.analysis.findings.launches import alone
from tracetui.analysis.findings.scope import Scope, longest
from tracetui.analysis.idle.cause_words import Cause
from tracetui.analysis.idle.idleness import idleness
from tracetui.analysis.idle.thread_causes import MIN_COPY_BYTES
from tracetui.analysis.idle.waits import sync_calls
from tracetui.analysis.linking.links import links, names_of
from tracetui.analysis.memory.copies import PAGEABLE, bytes_of
from tracetui.model.intervals import Int64, covered
from tracetui.model.quantities import duration, rate, size
from tracetui.model.table import NULL
from tracetui.model.trace import Kind, Trace

MAX_NAMED_OPS = 3
"""Maximum operators named in a sentence, the most frequent first."""
MIN_DEPENDENCY_NS = 100_000
"""Minimum ns of a wait that is more than the handling of an event that has happened."""
_BACK = re.compile(r"DtoH|DeviceToHost", re.IGNORECASE)


def host_sync(scope: Scope) -> Iterator[Finding]:
    """The CPU stops to read a value from the GPU, and then the GPU has nothing queued (R3.60)."""
    trace = scope.trace
    parts = parts_of(scope, Cause.HOST_SYNC)
    cost = idle_cost(scope, parts)
    syncs, copies = scope.inside(sync_calls(trace)), _blocking_copies(scope)
    reads = _reads(trace, syncs, copies)
    if cost == 0 or len(reads) == 0:
        return
    slices, rows = trace.slices, np.union1d(syncs, copies)
    waited = covered(slices.start[rows], slices.end[rows])
    yield from scope.priced(
        "host-sync",
        cost,
        f"The CPU waits for the GPU{_purpose(trace, reads, copies)}, and then the GPU for the CPU",
        f"{scope.per_step(len(reads), 'wait')}{_by_op(trace, reads)}, {duration(waited)} in all, "
        f"{_copied(copies)}afterwards the GPU was idle for "
        f"{duration(cost)}",
        "Nothing can be queued while the CPU waits. Read values less often (.item(), .cpu(), nonzero, an if on a "
        "tensor), keep them on the GPU, or read them a step later, and leave torch.cuda.synchronize() out of the loop; "
        "torch.cuda.set_sync_debug_mode('warn') finds them.",
        longest_part(scope, parts),
        action="read values from the GPU less often",
    )


def _copied(copies: Int64) -> str:
    return f"{len(copies):,} of them copies to the CPU; " if len(copies) else ""


def _purpose(trace: Trace, reads: Int64, copies: Int64) -> str:
    """What most of the waits are for: values that are read, where a copy or an operator waits."""
    reading = np.isin(reads, copies) | (links(trace).owner[reads] >= 0)
    return " to read a value" if 2 * reading.sum() > len(reads) else ""


def _blocking_copies(scope: Scope) -> Int64:
    """Calls of copies to the CPU that returned when the copy had ended; the CPU waits in them."""
    slices, copies = scope.trace.slices, _copies(scope)
    copies = copies[is_named(scope.trace, copies, _BACK.search)]
    launch = links(scope.trace).launch[copies].astype(np.int64)
    held = (launch >= 0) & (slices.end[launch] >= slices.end[copies])
    return np.unique(launch[held])


def _copies(scope: Scope) -> Int64:
    return np.asarray(scope.activities[scope.trace.slices.kind[scope.activities] == Kind.MEMCPY])


def _reads(trace: Trace, syncs: Int64, copies: Int64) -> Int64:
    """Calls that wait, once for each read: a wait right behind the copy that it is for is no second one."""
    slices = trace.slices
    axis = Axis.around(slices.start, slices.end)
    calls = slices.of_kind(Kind.RUNTIME)
    at = axis.position(slices.lane[calls], slices.start[calls])
    previous = np.searchsorted(at, axis.position(slices.lane[syncs], slices.start[syncs])) - 1
    same = np.isin(np.append(calls, -1)[previous], copies)
    return np.sort(np.concatenate([copies, syncs[~same]]))


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
    rows = _copies(scope)
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
        + f"; {duration(exposed)} of it with nothing else on the GPU, and {duration(idle)} of idle time in their calls",
        "Such a copy goes through a staging buffer while the CPU waits. Allocate the buffers pinned (pin_memory=True "
        "in the DataLoader, or torch.empty(..., pin_memory=True)) and copy with non_blocking=True; to pin a tensor "
        "only for its copy may be slower.",
        longest(trace, rows),
        action="pin the memory",
    )


def _direction(trace: Trace, rows: Int64) -> str:
    back = is_named(trace, rows, _BACK.search)
    return "from and to" if back.any() and not back.all() else "from" if back.all() else "to"


def dependency(scope: Scope) -> Iterator[Finding]:
    """Launched activities wait because their stream was told to wait for an event (R3.29)."""
    trace, parts = scope.trace, parts_of(scope, Cause.STREAM)
    parts = parts.take(parts.dur >= MIN_DEPENDENCY_NS)
    if len(parts) == 0:
        return
    cost = idle_cost(scope, parts)
    after = idleness(trace).after[parts.gap]
    waiting = group(trace.slices.lane[after])
    lane = trace.lanes[int(waiting.key[np.argmax(waiting.sum(parts.dur))])]
    row = longest_part(scope, parts)
    yield from scope.priced(
        "dependency",
        cost,
        "Launched activities wait for an event of another stream while the GPU is idle",
        f"{scope.per_step(len(parts), 'wait')} of at most {duration(int(parts.dur.max()))}, most of it on {lane.name}, "
        f"the longest before {trace.name_of(row)}",
        "See which event the stream waits for, and start what records it earlier.",
        row,
        action="start what the stream waits for earlier",
    )
