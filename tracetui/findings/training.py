"""Rules about optimizers that update one parameter at a time, and unneeded gradients."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tracetui.findings.idle_time import alone, idle_cost, launching_parts
from tracetui.findings.scope import MIN_SHARES, Finding, Scope, longest, optimizer_steps, severity_of_share
from tracetui.frozen import frozen
from tracetui.idle.waits import idleness
from tracetui.kernel_names import Family, decode
from tracetui.linking.groups import group
from tracetui.linking.links import links, names_of, op_rows
from tracetui.linking.placement import within
from tracetui.linking.step_sources import step_sources
from tracetui.linking.steps import steps
from tracetui.linking.trees import Stretches, is_named, lane_axis
from tracetui.memory.allocator import CPU, allocator
from tracetui.model.intervals import Bool, Int64, covered_within, is_among, union
from tracetui.model.quantities import counted, duration, size, size_change
from tracetui.model.table import NULL
from tracetui.model.trace import Kind, Trace
from tracetui.operators.ops import has_allocations

_IN_PLACE = re.compile(r"^aten::[a-z]\w*_$")
_MANY_AT_ONCE = re.compile(r"^aten::_(foreach|fused)_")
MIN_PARAMETERS = 10
"""Minimum calls of one in-place op within a step of the optimizer that are a loop over parameters."""
MIN_PLAIN_SHARE = 0.8
"""Minimum share of the kernels of the optimizer that compute one elementwise operation on one tensor."""
MIN_IN_PLACE_SHARE = 0.5
"""Minimum share of these that in-place ops launched."""


@frozen
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
    yield from scope.trace.keep(("finding of the optimizer loop", scope.step), lambda: list(_loop_finding(scope)))


def _loop_finding(scope: Scope) -> Iterator[Finding]:
    trace, loop = scope.trace, loop_of(scope)
    if len(loop.rows) == 0:
        return
    dur = trace.slices.dur[loop.kernels]
    # One pass over all parameters takes no launch of a kernel, which the shortest kernels are, and reads and writes
    # each parameter once. Where the launches are late as well, it saves both them and the kernels.
    launch = float(np.quantile(dur, 0.1)) if len(dur) else 0.0
    one_pass = float(np.maximum(dur - launch, 0).sum()) / loop.sets
    above = int(alone(scope, loop.kernels) * max(1 - one_pass / max(int(dur.sum()), 1), 0.0))
    idle = _loop_idle(scope, loop)
    parts = [f"the GPU idle inside it for {duration(idle)}"] if idle else []
    parts += [f"{duration(above)} of its kernels beyond one pass over the parameters"] if above else []
    yield from scope.with_cost(
        "optimizer-loop",
        idle + above,
        "The optimizer updates one parameter after another",
        f"{scope.per_step(len(loop.kernels), 'kernel')} inside {trace.name_of(int(loop.rows[0]))}, "
        f"{duration(int(dur.sum()))}, launched in "
        f"{duration(int(trace.slices.dur[loop.rows].sum()))} of CPU time; " + ", ".join(parts),
        "Make the optimizer with foreach=True (PyTorch 1.12 and later; the default since 2.0 where all parameters "
        "allow it), or with fused=True for SGD, Adam and AdamW: one kernel then updates many parameters.",
        longest(trace, loop.rows),
        action="make the optimizer with foreach=True or fused=True",
    )


def is_optimizer_loop(scope: Scope) -> bool:
    """True where the optimizer runs one set of kernels for each parameter, and a finding says so."""
    return any(True for _ in optimizer_loop(scope))


def optimizer_loop_idle(scope: Scope) -> int:
    """Idle time in ns that belongs to the finding `optimizer-loop` and to no other; 0 without that finding."""
    return _loop_idle(scope, loop_of(scope)) if is_optimizer_loop(scope) else 0


def loop_of(scope: Scope) -> OptimizerLoop:
    """The optimizer's loop over parameters; without rows where it has none."""

    def find() -> OptimizerLoop:
        trace = scope.trace
        rows = within(trace, optimizer_steps(trace), scope.step)
        if len(rows) == 0:
            return _NO_LOOP
        work = _launched_within(scope, rows)
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

    return scope.trace.keep(("optimizer loop", scope.step), find)


def _launched_within(scope: Scope, rows: Int64) -> Int64:
    """The activities whose launch began inside one of the slices, on its thread; in order of start."""
    slices, axis = scope.trace.slices, lane_axis(scope.trace)
    inside_of = Stretches.of(axis, slices.lane[rows], slices.start[rows], slices.end[rows])
    launch = links(scope.trace).launch[scope.activities].astype(np.int64)
    at = axis.position(slices.lane[launch], slices.start[launch])
    index = np.searchsorted(inside_of.starts, at, side="right") - 1
    inside = (launch >= 0) & (index >= 0) & (at < np.append(inside_of.ends, 0)[index])
    return np.compress(inside, scope.activities)


def _is_plain(name: str) -> bool:
    """True for kernels that compute one elementwise operation of PyTorch on one tensor."""
    decoded = decode(name)
    return decoded.family == Family.POINTWISE and decoded.operation != "optimizer" and "foreach" not in decoded.flags


def _loop_idle(scope: Scope, loop: OptimizerLoop) -> int:
    """Launch overhead in ns between the kernels of the loop, and before and after them while the optimizer ran."""
    slices, gaps, parts = scope.trace.slices, idleness(scope.trace), launching_parts(scope)
    after, before = (is_among(ended[parts.gap], loop.kernels) for ended in (gaps.after, gaps.before))
    parts = parts.take(after | before)
    steps = union(slices.start[loop.rows], slices.end[loop.rows])
    inside = np.where((after & before)[after | before], parts.dur, covered_within(*steps, parts.start, parts.end))
    return idle_cost(scope, replace(parts, end=parts.start + inside))


# Graphs that autograd records for a backward pass that never comes, and that fill the memory.
#
# The rule needs allocator events with running totals and at least three iterations. Memory that grows and then stays,
# as that of a cache does, is no finding.

MIN_ITERATIONS = 3
"""Minimum iterations in all of which memory grows."""
MIN_GROWTH = MIN_SHARES[0][0]
"""Minimum growth over the iterations, as a share of the memory without it."""
MIN_LAST_GROWTH = 0.5
"""Minimum growth in the last iteration relative to the median one; less is a cache that fills up."""

_NEXT_BATCH = re.compile(r"^enumerate\(DataLoader\)#")


@frozen
class _Iterations:
    """Repetitions of the same work, in order; parallel arrays."""

    row: Int64
    """Slices of steps, of an annotation or function that repeats, or of reads of the next batch."""
    start: Int64
    end: Int64
    """In ns; each ends before or when the next one starts."""
    word: str
    """Name of one of them in a sentence."""


@frozen(eq=True)
class _Growth:
    """Growth of the memory of a device."""

    device: str
    start: int
    """Bytes allocated when the first iteration began."""
    end: int
    """Bytes allocated when the last one had ended."""
    each: int
    """Median growth per iteration in bytes."""
    share: float
    """Growth over all iterations at the median rate, as a share of the memory without it."""


def missing_no_grad(scope: Scope) -> Iterator[Finding]:
    """Memory grows in every iteration of a program that records gradients and computes none."""
    trace, program = scope.trace, scope.program
    if scope.step is not None or program.has_backward or program.has_optimizer or not has_allocations(trace):
        return
    rounds = _iterations(trace)
    if len(rounds.row) < MIN_ITERATIONS or not _records_gradients(trace, rounds):
        return
    growth = max(_growths(trace, rounds), key=lambda each: each.share, default=None)
    severity = None if growth is None or growth.share < MIN_GROWTH else severity_of_share(growth.share)
    if growth is None or severity is None:
        return
    yield Finding(
        "missing-no-grad",
        severity,
        f"Memory grows by {size(growth.each)} in every {rounds.word}: autograd records for a backward pass that never "
        "runs",
        f"{growth.device}: {size_change(growth.start, growth.end)} in {counted(len(rounds.row), rounds.word)}; "
        "operators carry autograd sequence numbers, no backward pass and no optimizer ran",
        "Run it under torch.inference_mode() or torch.no_grad(); where results are kept, keep .detach() or .item() of "
        "them.",
        int(rounds.row[-1]),
        action="run it under torch.inference_mode()",
    )


def _iterations(trace: Trace) -> _Iterations:
    """The steps, else slices that repeat and cover most of the time, else the stretches between reads of batches."""
    all_steps, slices = steps(trace), trace.slices
    if len(all_steps):
        return _Iterations(all_steps.row, all_steps.start, all_steps.end, "step")
    low, high = trace.window
    for source in step_sources(trace):
        if source.is_certain and len(source.rows) >= MIN_ITERATIONS and 2 * source.covered(trace) >= high - low:
            return _Iterations(source.rows, slices.start[source.rows], source.end, "iteration")
    rows = slices.of_kind(Kind.ANNOTATION, Kind.CPU_OP)
    rows = rows[is_named(trace, rows, _NEXT_BATCH.search)]
    rows = rows[np.argsort(slices.start[rows], kind="stable")]
    return _Iterations(rows[:-1], slices.start[rows[:-1]], slices.start[rows[1:]], "iteration")


def _records_gradients(trace: Trace, rounds: _Iterations) -> bool:
    """True where operators of every iteration advance the sequence number, which only recorded operations do."""
    ops, slices = op_rows(trace), trace.slices
    number = trace.op_args.number("Sequence number", slices.event[ops])
    ops, number = ops[number != NULL], number[number != NULL]
    order = np.argsort(slices.start[ops], kind="stable")
    start, reach = slices.start[ops[order]], np.maximum.accumulate(number[order])
    if len(start) == 0:
        return False
    first = np.searchsorted(start, rounds.start)
    last = np.searchsorted(start, rounds.end) - 1
    return bool((last > first).all() and (reach[last] > reach[np.minimum(first, len(reach) - 1)]).all())


def _growths(trace: Trace, rounds: _Iterations) -> Iterator[_Growth]:
    """The devices whose memory grows in every iteration and does not level off."""
    events = allocator(trace)
    moments = np.append(rounds.start, rounds.end[-1])
    numbers = range(len(events.devices))
    # The host's memory counts where there is no other.
    for number in [each for each in numbers if not events.devices[each].startswith(CPU)] or numbers:
        mine: Bool = (events.device == number) & ~events.failed
        if not mine.any() or (events.total[mine] == NULL).any():
            continue
        time, total = events.time[mine], events.total[mine]
        index = np.searchsorted(time, moments) - 1
        before = int(total[0] - events.bytes[mine][0])
        level = np.where(index >= 0, total[np.maximum(index, 0)], before)
        grown = np.diff(level)
        each = int(np.median(grown))
        base = max(int(level[0]), int(level[1]) - each, 1)
        if (grown > 0).all() and grown[-1] >= MIN_LAST_GROWTH * each:
            yield _Growth(events.devices[number], int(level[0]), int(level[-1]), each, len(grown) * each / base)
