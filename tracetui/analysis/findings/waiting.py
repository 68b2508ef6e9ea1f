"""Rules about waiting: the CPU for the GPU, and copies that make the CPU wait."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from tracetui.analysis.common.groups import group
from tracetui.analysis.common.lanes import is_named
from tracetui.analysis.findings.finding import Finding
from tracetui.analysis.findings.scope import Scope, longest
from tracetui.analysis.idle.cause_words import Cause
from tracetui.analysis.idle.gap_causes import gap_causes
from tracetui.analysis.idle.idleness import idleness
from tracetui.analysis.idle.waits import sync_calls
from tracetui.analysis.linking.links import links, names_of
from tracetui.analysis.memory.copies import PAGEABLE, bytes_of
from tracetui.model.intervals import Int64
from tracetui.model.quantities import duration, rate, size
from tracetui.model.trace import Kind, Trace

_OTHER_REASONS = (Cause.MEMORY, Cause.PROFILER, Cause.COMPILATION, Cause.SLOW_LAUNCH)
"""Causes of a gap that would exist without the wait."""
_ITEM = re.compile(r"^aten::(item|_local_scalar_dense|is_nonzero|nonzero|equal)$")
_COPY_ADVICE = {
    False: "Such a copy goes through a staging buffer and cannot run beside the CPU. Pin the memory (pin_memory=True "
    "in the DataLoader, or .pin_memory()) and copy with non_blocking=True.",
    True: "The CPU waits for each such copy from the GPU (.item(), .cpu(), .tolist()). Do it less often, gather "
    "values on the GPU first, or copy into pinned memory with non_blocking=True.",
}
"""Advice by whether most of it was read from the GPU."""


def host_sync(scope: Scope) -> Iterator[Finding]:
    """The CPU waits in a step until the GPU has finished, as `.item()` makes it do (R3.12)."""
    trace = scope.trace
    rows = scope.inside(sync_calls(trace))
    if len(rows) == 0:
        return
    waited = int(trace.slices.dur[rows].sum())
    culprits, count = _culprits(trace, rows)
    # A CPU that waits for a busy GPU loses nothing: what counts is how long the GPU then had nothing to do.
    cost = _idle_after(scope)
    yield from scope.priced(
        "host-sync",
        cost,
        "The CPU waits for the GPU inside the step",
        f"{scope.per_step(len(rows), 'wait')}, {duration(waited)}, {scope.share(waited)}"
        + (f", {count:,} of them inside {culprits}" if count else "")
        + f"; the GPU then had nothing to do for {duration(cost)}",
        "Nothing can be queued while the CPU waits. Read values less often (.item(), .cpu(), print, an if on a "
        "tensor), keep them on the GPU, or read them a step later.",
        longest(trace, rows),
    )


def pageable_copy(scope: Scope) -> Iterator[Finding]:
    """Copies from or to pageable memory are staged, and those to the host block."""
    trace = scope.trace
    rows = scope.activities[trace.slices.kind[scope.activities] == Kind.MEMCPY]
    rows = rows[is_named(trace, rows, PAGEABLE.search)]
    if len(rows) == 0:
        return
    cost = int(trace.slices.dur[rows].sum())
    moved = bytes_of(trace, rows)
    total = int(moved[moved > 0].sum())
    moved_words = f", {size(total)} at {rate(total, cost)}" if total else ""
    yield from scope.priced(
        "pageable-copy",
        cost,
        "Copies between the GPU and memory that is not pinned",
        f"{scope.per_step(len(rows), 'copy')}, {duration(cost)}{moved_words}",
        _COPY_ADVICE[_mostly_read(trace, rows)],
        longest(trace, rows),
    )


def _idle_after(scope: Scope) -> int:
    """Time in ns that the GPU was idle after the CPU had waited for it, other causes excluded."""
    idle, causes = idleness(scope.trace), gap_causes(scope.trace)
    held = causes.after_sync & ~np.isin(causes.cause, _OTHER_REASONS) & np.isin(idle.after, scope.activities)
    return int(idle.dur[held].sum())


def _mostly_read(trace: Trace, rows: Int64) -> bool:
    """Whether copies from the GPU took more time than copies to it."""
    back = is_named(trace, rows, lambda name: "DtoH" in name)
    dur = trace.slices.dur[rows]
    return bool(2 * dur[back].sum() > dur.sum())


def _culprits(trace: Trace, rows: Int64) -> tuple[str, int]:
    """Names of the ops that read a value from the GPU around the waits, and the number of these waits."""
    owner = names_of(trace, links(trace).owner[rows])
    used = group(owner[owner >= 0])
    found = [(int(calls), trace.names[int(key)]) for key, calls in zip(used.key, used.calls, strict=True)]
    reading = sorted((each for each in found if _ITEM.search(each[1])), reverse=True)
    return ", ".join(name for _, name in reading[:3]), sum(calls for calls, _ in reading)
