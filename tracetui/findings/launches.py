"""GPU activities by what was around their launch, and whether launches hold the program up."""

from __future__ import annotations

import numpy as np

from tracetui.findings.idle_time import idle_cost, launching_parts
from tracetui.findings.scope import Scope
from tracetui.idle.exposure import communicates
from tracetui.linking.links import links
from tracetui.linking.stretches import Axis, Stretches
from tracetui.model.intervals import Int64, covered
from tracetui.model.membership import without
from tracetui.model.quantities import duration, rounded_percent
from tracetui.model.trace import Kind


def launched_within(scope: Scope, rows: Int64) -> Int64:
    """The activities whose launch began inside one of the slices, on its thread; in order of start."""
    slices, axis = scope.trace.slices, Axis.around(scope.trace.slices.start, scope.trace.slices.end)
    held = Stretches.of(axis, slices.lane[rows], slices.start[rows], slices.end[rows])
    launch = links(scope.trace).launch[scope.activities].astype(np.int64)
    at = axis.position(slices.lane[launch], slices.start[launch])
    index = np.searchsorted(held.starts, at, side="right") - 1
    inside = (launch >= 0) & (index >= 0) & (at < np.append(held.ends, 0)[index])
    return np.compress(inside, scope.activities)


def alone(scope: Scope, rows: Int64) -> int:
    """Time in ns in which some of the kernels ran and no other that computes: compute hides communication (R3.30)."""
    slices = scope.trace.slices
    start, end = slices.start, slices.end
    if len(rows) == 0:
        return 0
    # What ran before the first of them or after the last hides none of them.
    near = slices.of_kind(Kind.KERNEL)
    near = near[(start[near] < end[rows].max()) & (end[near] > start[rows].min())]
    others = without(near, rows)
    others = others[~communicates(scope.trace, others)]
    every = np.concatenate([others, rows])
    return covered(start[every], end[every]) - covered(start[others], end[others])


def waits_for_launches(scope: Scope, cost: int) -> bool:
    """Whether the GPU waited longer for late launches than a time in ns, so that these are to be treated first."""
    return idle_cost(scope, launching_parts(scope)) > cost


def kernel_time(scope: Scope, rows: Int64, thing: str = "kernel") -> str:
    """Number, GPU time and share of the GPU time of some kernels: `234 kernels (39 a step), 37.6 ms, 7.5 % of ...`."""
    slices = scope.trace.slices
    spent, total = int(slices.dur[rows].sum()), max(int(slices.dur[scope.activities].sum()), 1)
    share = rounded_percent(100 * spent / total)
    return f"{scope.per_step(len(rows), thing)}, {duration(spent)}, {share} of the GPU time"
