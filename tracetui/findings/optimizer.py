"""Rule about optimizers that update one parameter at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tracetui.findings.finding import Finding
from tracetui.findings.idle_time import idle_cost, launching_parts
from tracetui.findings.launches import alone, launched_within
from tracetui.findings.program import OPTIMIZER_STEP
from tracetui.findings.scope import Scope, longest
from tracetui.idle.idleness import idleness
from tracetui.kernel_names import Family, decode
from tracetui.linking.groups import group
from tracetui.linking.lanes import is_named
from tracetui.linking.links import links, names_of
from tracetui.linking.placement import within
from tracetui.model.intervals import Int64, covered_within, union
from tracetui.model.quantities import duration
from tracetui.model.trace import Kind

_IN_PLACE = re.compile(r"^aten::[a-z]\w*_$")
_MANY_AT_ONCE = re.compile(r"^aten::_(foreach|fused)_")
MIN_PARAMETERS = 10
"""Minimum calls of one in-place op within a step of the optimizer that are a loop over parameters."""
MIN_PLAIN_SHARE = 0.8
"""Minimum share of the kernels of the optimizer that compute one elementwise operation on one tensor."""
MIN_IN_PLACE_SHARE = 0.5
"""Minimum share of these that in-place ops launched."""


@dataclass(frozen=True, eq=False)
class OptimizerLoop:
    """The steps of an optimizer that runs one set of kernels for each parameter."""

    rows: Int64
    """Slices of `Optimizer.step`; none where there is no such loop."""
    kernels: Int64
    """Kernels launched inside them."""
    sets: int
    """Kernels of a set: launches for each parameter."""


_NO_LOOP = OptimizerLoop(np.empty(0, np.int64), np.empty(0, np.int64), 1)


def optimizer_loop(scope: Scope) -> Iterator[Finding]:
    """The optimizer launches one set of kernels for each parameter instead of a few for all of them."""
    trace, loop = scope.trace, loop_of(scope)
    if len(loop.rows) == 0:
        return
    idle, above = _idle(scope, loop), _above_one_pass(scope, loop)
    parts = [f"the GPU idle inside it for {duration(idle)}"] if idle else []
    parts += [f"{duration(above)} of its kernels beyond one pass over the parameters"] if above else []
    yield from scope.priced(
        "optimizer-loop",
        idle + above,
        "The optimizer updates one parameter after another",
        f"{scope.per_step(len(loop.kernels), 'kernel')} inside {trace.name_of(int(loop.rows[0]))}, "
        f"{duration(int(trace.slices.dur[loop.kernels].sum()))}, launched in "
        f"{duration(int(trace.slices.dur[loop.rows].sum()))} of CPU time; " + ", ".join(parts),
        "Make the optimizer with foreach=True (PyTorch 1.12 and later; the default since 2.0 where all parameters "
        "allow it), or with fused=True for SGD, Adam and AdamW: one kernel then updates many parameters.",
        longest(trace, loop.rows),
        action="make the optimizer with foreach=True or fused=True",
    )


def is_optimizer_loop(scope: Scope) -> bool:
    """Whether the optimizer runs one set of kernels for each parameter, and a finding says so."""
    return scope.trace.remember(("is optimizer loop", scope.step), lambda: any(True for _ in optimizer_loop(scope)))


def optimizer_loop_idle(scope: Scope) -> int:
    """Idle time in ns that belongs to the finding `optimizer-loop` and to no other; 0 without that finding."""
    return _idle(scope, loop_of(scope)) if is_optimizer_loop(scope) else 0


def loop_of(scope: Scope) -> OptimizerLoop:
    """The optimizer's loop over parameters; without rows where it has none."""
    return scope.trace.remember(("optimizer loop", scope.step), lambda: _find(scope))


def _find(scope: Scope) -> OptimizerLoop:
    trace = scope.trace
    rows = trace.slices.of_kind(Kind.ANNOTATION, Kind.CPU_OP)
    rows = within(trace, rows[is_named(trace, rows, OPTIMIZER_STEP.search)], scope.step)
    if len(rows) == 0:
        return _NO_LOOP
    work = launched_within(scope, rows)
    kernels = work[trace.slices.kind[work] == Kind.KERNEL]
    owners = names_of(trace, links(trace).owner[kernels])
    ops = group(owners[owners >= 0])
    names = [trace.names[key] for key in ops.key.tolist()]
    if len(names) == 0 or any(_MANY_AT_ONCE.search(name) for name in names):
        return _NO_LOOP
    plain = is_named(trace, kernels, _is_plain)
    in_place = np.zeros(len(kernels), bool)
    in_place[owners >= 0] = np.array([bool(_IN_PLACE.search(name)) for name in names])[ops.member]
    in_place &= plain
    if plain.sum() < MIN_PLAIN_SHARE * len(kernels) or in_place.sum() < max(MIN_IN_PLACE_SHARE * plain.sum(), 1):
        return _NO_LOOP
    calls = group(owners[in_place]).calls
    parameters = int(calls[calls >= 0.25 * calls.max()].min())
    if parameters < MIN_PARAMETERS * len(rows):
        return _NO_LOOP
    return OptimizerLoop(rows, kernels, max(round(len(kernels) / parameters), 1))


def _is_plain(name: str) -> bool:
    """Whether a kernel computes one elementwise operation of PyTorch on one tensor."""
    decoded = decode(name)
    return decoded.family == Family.POINTWISE and decoded.operation != "optimizer" and "foreach" not in decoded.flags


def _idle(scope: Scope, loop: OptimizerLoop) -> int:
    """Launch overhead in ns between the kernels of the loop, and before and after them while the optimizer ran."""
    slices, gaps, parts = scope.trace.slices, idleness(scope.trace), launching_parts(scope)
    after, before = np.isin(gaps.after, loop.kernels)[parts.gap], np.isin(gaps.before, loop.kernels)[parts.gap]
    parts = parts.take(after | before)
    steps = union(slices.start[loop.rows], slices.end[loop.rows])
    inside = np.where((after & before)[after | before], parts.dur, covered_within(*steps, parts.start, parts.end))
    return idle_cost(scope, replace(parts, end=parts.start + inside))


def _above_one_pass(scope: Scope, loop: OptimizerLoop) -> int:
    """GPU time in ns of the loop that one pass over all parameters would not take.

    A pass takes no launch of a kernel, which the shortest kernels are, and reads and writes each parameter once. Where
    the launches are late as well, one pass saves both them and the kernels.
    """
    dur = scope.trace.slices.dur[loop.kernels]
    launch = float(np.quantile(dur, 0.1)) if len(dur) else 0.0
    one_pass = float(np.maximum(dur - launch, 0).sum()) / loop.sets
    total = max(int(dur.sum()), 1)
    return int(alone(scope, loop.kernels) * max(1 - one_pass / total, 0.0))
