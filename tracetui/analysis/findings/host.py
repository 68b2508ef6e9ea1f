"""Rules about the CPU: a cold first step, stalled threads."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracetui.analysis.common.groups import group
from tracetui.analysis.findings.finding import Finding
from tracetui.analysis.findings.scope import Scope
from tracetui.analysis.idle.idleness import idleness
from tracetui.analysis.linking.links import links
from tracetui.analysis.linking.placement import step_index
from tracetui.analysis.linking.steps import Steps, steps
from tracetui.analysis.operators.ops import self_times
from tracetui.analysis.operators.views import idle_view_rows
from tracetui.model.intervals import Int64
from tracetui.model.quantities import counted, duration
from tracetui.model.trace import Kind, Trace

MIN_COLD_RATIO = 1.5
"""Minimum duration of a cold first step, relative to the median of the others."""
_TELLING = (Kind.CPU_OP, Kind.RUNTIME, Kind.ANNOTATION, Kind.OVERHEAD)


def cold_step(scope: Scope) -> Iterator[Finding]:
    """The first recorded step is slower than the others: what it did more of, and where the GPU was idle."""
    trace, every = scope.trace, steps(scope.trace)
    if len(every) < 3 or scope.step not in (None, int(every.number[0])):
        return
    lasted = every.end - every.start
    usual = float(np.median(lasted[1:]))
    if lasted[0] <= MIN_COLD_RATIO * usual:
        return
    culprit, extra = _excess(trace, every)
    cost = int(lasted[0] - usual)
    dead = _dead_window(trace, every)
    evidence = f"step {every.number[0]} took {duration(int(lasted[0]))}, the others {duration(usual)}"
    if culprit >= 0:
        evidence += f"; {duration(extra)} more of it in {trace.name_of(culprit)}"
    if dead:
        evidence += f"; {dead}"
    yield from scope.priced(
        "cold-step",
        cost,
        "The first step is cold",
        evidence,
        "Modules are loaded, libraries initialised and memory allocated the first time. Leave it out of every average, "
        "and give the profiler's schedule a warm-up step or two.",
        culprit if culprit >= 0 else int(every.row[0]),
    )


def _excess(trace: Trace, every: Steps) -> tuple[int, float]:
    """The slice of the first step whose name took most time beyond the mean of the other steps; and how much."""
    slices = trace.slices
    rows = slices.of_kind(*_TELLING)
    index = step_index(trace, rows)
    own = ~np.isin(rows, every.row)
    rows, index = rows[own & (index >= 0)], index[own & (index >= 0)]
    if len(rows) == 0:
        return -1, 0.0
    names = group(slices.name[rows])
    spent, first = slices.self_time[rows], index == 0
    more = names.sum(spent * first) - names.sum(spent * ~first) / (len(every) - 1)
    worst = int(np.argmax(more))
    here = rows[first & (names.member == worst)]
    if len(here) == 0 or more[worst] <= 0:
        return -1, 0.0
    return int(here[np.argmax(slices.self_time[here])]), float(more[worst])


def _dead_window(trace: Trace, every: Steps) -> str:
    """The longest gap of the first step and what ended it, in words; empty without a GPU."""
    idle = idleness(trace)
    mine = np.flatnonzero((step_index(trace, idle.after) == 0) & (idle.start >= every.start[0]))
    if len(mine) == 0:
        return ""
    gap = mine[np.argmax(idle.dur[mine])]
    around = _owner(trace, int(idle.launch[gap]))
    return f"the GPU was idle for {duration(int(idle.dur[gap]))}" + (f" before {around} launched" if around else "")


def _owner(trace: Trace, launch: int) -> str:
    if launch < 0:
        return ""
    owner = links(trace).owner_of(launch)
    return trace.name_of(owner) if owner >= 0 else ""


MIN_STALL_NS = 1_000_000
"""Minimum self time of a view during which the thread cannot have been running."""
MIN_STALL_RATIO = 100
"""Minimum self time of a stalled view, relative to the median of all views."""


def stalled_thread(scope: Scope) -> Iterator[Finding]:
    """Views that took so long that their thread was not running."""
    rows, own, stalled = _views(scope)
    rows, own = rows[stalled], own[stalled]
    if len(rows) == 0:
        return
    cost = int(own.sum())
    worst = int(rows[np.argmax(own)])
    yield from scope.priced(
        "stalled-thread",
        cost,
        "A CPU thread was not running",
        f"{counted(len(rows), 'call')} of views took {duration(cost)}, {scope.share(cost)}; the longest, "
        f"{scope.trace.name_of(worst)}, {duration(int(own.max()))}",
        "A view takes a microsecond. Here the thread was not running: another thread held the GIL, the process was "
        "given no processor, or the profiler wrote its buffers. Look for other work on the machine.",
        worst,
    )


def _views(scope: Scope) -> tuple[Int64, Int64, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Views that launch nothing, their self time in ns, and which of them were stalled."""
    rows = scope.inside(idle_view_rows(scope.trace))
    own = self_times(scope.trace)[rows]
    usual = float(np.median(own)) if len(own) else 0.0
    return rows, own, own > max(MIN_STALL_NS, MIN_STALL_RATIO * usual)
