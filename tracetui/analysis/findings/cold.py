"""The rule about the first step, which pays for what later steps find done."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracetui.analysis.common.groups import group
from tracetui.analysis.findings.finding import Finding, Scope, Severity
from tracetui.analysis.findings.words import time
from tracetui.analysis.idle.idleness import idleness
from tracetui.analysis.linking.links import links
from tracetui.analysis.linking.placement import step_index
from tracetui.analysis.linking.steps import Steps, steps
from tracetui.model.trace import Kind, Trace

SLOWER = 1.5
"""A first step is cold when it takes this many times as long as the others' median."""
_TELLING = (Kind.CPU_OP, Kind.RUNTIME, Kind.ANNOTATION, Kind.OVERHEAD)


def cold_step(scope: Scope) -> Iterator[Finding]:
    """The first recorded step is slower than the others: what it did that they did not, and where nothing ran."""
    trace, every = scope.trace, steps(scope.trace)
    if len(every) < 3 or scope.step not in (None, int(every.number[0])):
        return
    lasted = every.end - every.start
    usual = float(np.median(lasted[1:]))
    if lasted[0] <= SLOWER * usual:
        return
    culprit, extra = _excess(trace, every)
    cost = int(lasted[0] - usual)
    dead = _dead_window(trace, every)
    evidence = f"step {every.number[0]} took {time(int(lasted[0]))}, the others {time(usual)}"
    if culprit >= 0:
        evidence += f"; {time(extra)} more of it in {trace.name_of(culprit)}"
    if dead:
        evidence += f"; {dead}"
    yield Finding(
        "cold-step",
        Severity.MINOR,
        "The first step is cold",
        evidence,
        "Modules are loaded, libraries initialised and memory allocated the first time. Leave it out of every average, "
        "and give the profiler's schedule a warm-up step or two.",
        culprit if culprit >= 0 else int(every.row[0]),
        cost,
    )


def _excess(trace: Trace, every: Steps) -> tuple[int, float]:
    """The slice of the first step under whose name the first step spent most beyond the others' mean; and how much."""
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
    """The longest time in which the device waited in the first step, and for what, in words; empty without a GPU."""
    idle = idleness(trace)
    mine = np.flatnonzero((step_index(trace, idle.after) == 0) & (idle.start >= every.start[0]))
    if len(mine) == 0:
        return ""
    gap = mine[np.argmax(idle.dur[mine])]
    around = _owner(trace, int(idle.launch[gap]))
    return f"the GPU stood still for {time(int(idle.dur[gap]))}" + (f" before {around} launched" if around else "")


def _owner(trace: Trace, launch: int) -> str:
    if launch < 0:
        return ""
    owner = links(trace).owner_of(launch)
    return trace.name_of(owner) if owner >= 0 else ""
