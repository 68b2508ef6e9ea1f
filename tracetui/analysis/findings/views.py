"""Rules about views of tensors: what they cost together, and the few that took impossibly long."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracetui.analysis.findings.finding import Finding, Scope, Severity, most_common
from tracetui.analysis.findings.words import counted, time
from tracetui.analysis.linking.links import links
from tracetui.analysis.operators.ops import self_times
from tracetui.analysis.operators.views import idle_view_rows
from tracetui.model.intervals import Int64

STALL = 1_000_000
"""A view writes a few sizes: one that takes this many ns was not running all that time."""
BEYOND = 100
"""How many times the median of all views it must take besides."""


def view_tax(scope: Scope) -> Iterator[Finding]:
    """Views of tensors cost CPU time and put nothing on the GPU (R3.20)."""
    rows, own, stalled = _views(scope)
    rows, own = rows[~stalled], own[~stalled]
    if len(rows) == 0:
        return
    cost = int(own.sum())
    # Without a GPU the CPU is not what holds it up.
    severity = scope.weigh(cost) if len(links(scope.trace).gpu) else min(scope.weigh(cost), Severity.MINOR)
    yield Finding(
        "view-ops",
        severity,
        "Views cost CPU time and launch nothing",
        f"{scope.per_step(len(rows), 'call')}, {time(cost)} of their own, {scope.share(cost)}; most often "
        f"{most_common(scope.trace, rows)}",
        "t, view, transpose and the like only write new sizes and strides. They matter where the CPU is what limits; "
        "torch.compile removes them.",
        int(rows[np.argmax(own)]),
        cost,
    )


def stalled_thread(scope: Scope) -> Iterator[Finding]:
    """Some views took as long as a thread that is not running."""
    rows, own, stalled = _views(scope)
    rows, own = rows[stalled], own[stalled]
    if len(rows) == 0:
        return
    cost = int(own.sum())
    worst = int(rows[np.argmax(own)])
    yield Finding(
        "stalled-thread",
        scope.weigh(cost),
        "The CPU stood still in the middle of nothing",
        f"{counted(len(rows), 'call')} of views took {time(cost)}, {scope.share(cost)}; the longest, "
        f"{scope.trace.name_of(worst)}, {time(int(own.max()))}",
        "A view takes a microsecond. Here the thread was not running: another thread held the GIL, the process was "
        "given no processor, or the profiler wrote its buffers. Look for other work on the machine.",
        worst,
        cost,
    )


def _views(scope: Scope) -> tuple[Int64, Int64, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Views that put nothing on the GPU, their own time in ns, and which of them cannot have run all that time."""
    rows = scope.inside(idle_view_rows(scope.trace))
    own = self_times(scope.trace)[rows]
    usual = float(np.median(own)) if len(own) else 0.0
    return rows, own, own > max(STALL, BEYOND * usual)
