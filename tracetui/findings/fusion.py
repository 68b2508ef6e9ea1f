"""Rules about kernels that one kernel could replace: attention in parts, element-wise kernels and norms of eager code,
small kernels in a row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache

import numpy as np

from tracetui.devices.formulas import size_of
from tracetui.devices.kernel_work import kernel_work
from tracetui.devices.residency import configuration
from tracetui.devices.roofline import roofline
from tracetui.findings.gemm import (
    Calls,
    Gemm,
    Gemms,
    calls_of,
    gemms_of,
    shape_of,
)
from tracetui.findings.idle_time import alone, kernel_time
from tracetui.findings.kernel_times import gpu_time_by_purpose, underfilled
from tracetui.findings.scope import Finding, Scope, longest
from tracetui.findings.training import is_optimizer_loop, loop_of
from tracetui.frozen import frozen
from tracetui.kernel_names import LAYOUT_CONVERSION, Family, decode
from tracetui.linking.groups import Groups, combinations, group
from tracetui.linking.links import links, names_of
from tracetui.linking.placement import step_index
from tracetui.linking.trees import is_named
from tracetui.model.intervals import Bool, Int64
from tracetui.model.quantities import counted, duration, rounded_percent, size
from tracetui.model.trace import Trace
from tracetui.operators.key_averages import Signature

# Attention in separate kernels: a softmax between two batched GEMMs.

MAX_BETWEEN = 6
"""Maximum kernels (scale, mask, dropout, copies) between a GEMM and its softmax."""
MIN_SCORES = 16
"""Minimum columns of a matrix of scores."""
MIN_BATCH = 4
"""Minimum depth of the grids of two neighbouring GEMMs that are taken for batched without their shapes."""
_BATCHED = ("aten::bmm", "aten::baddbmm", "aten::bmm_out", "aten::baddbmm_")
_ADVICE = (
    "torch.nn.functional.scaled_dot_product_attention computes this in one kernel that keeps the scores on the chip. "
)
_BACKENDS = (
    "Its FlashAttention backend takes any length and is_causal, the memory-efficient one also a mask, whose last "
    "dimension is then padded to a multiple of 8."
)


@frozen
class UnfusedAttention:
    """Attention in separate kernels."""

    rows: Int64
    """All its kernels: GEMMs, softmax, and what lies between them."""
    softmax: Int64
    first: Gemm | None
    """The GEMM with the largest scores; None without shapes."""
    has_more: bool
    """True where other kernels, such as a mask, lie between the GEMMs."""


def attention_unfused(scope: Scope) -> Iterator[Finding]:
    """A softmax over all scores runs between two batched GEMMs."""
    slices = scope.trace.slices
    unfused = unfused_attention(scope)
    fused = scope.computing_named(_is_fused)
    spent = int(slices.dur[unfused.rows].sum())
    if len(unfused.rows) == 0 or int(slices.dur[fused].sum()) >= spent:
        return
    softmax, scores = int(slices.dur[unfused.softmax].sum()), ""
    if first := unfused.first:
        room = first.batch * first.rows * first.columns * (size_of(first.element) or 0)
        scores = f"; the largest scores, [{first.batch}, {first.rows}, {first.columns}]"
        scores += f", {size(room)}" if room else ""
    odd = first is not None and first.columns % 8 != 0
    yield from scope.with_cost(
        "attention-unfused",
        scope.gpu_cost(unfused.rows),
        "Attention runs as separate kernels: a softmax between two batched GEMMs",
        f"{kernel_time(scope, unfused.rows)}, of which {duration(softmax)} in "
        f"{counted(len(unfused.softmax), 'softmax kernel')}{scores}",
        _ADVICE + (_BACKENDS if odd or unfused.has_more else ""),
        int(unfused.softmax[np.argmax(slices.dur[unfused.softmax])]),
        action="call scaled_dot_product_attention",
    )


def unfused_attention(scope: Scope) -> UnfusedAttention:
    """The kernels of attention that is not fused."""
    trace = scope.trace
    order = scope.computing[np.lexsort((trace.slices.start[scope.computing], trace.slices.lane[scope.computing]))]
    softmax, gemm = is_named(trace, order, _is_softmax), is_named(trace, order, _is_gemm)
    middle = np.flatnonzero(softmax)
    before, after = _neighbours(trace, order, gemm, softmax, middle)
    both = (before >= 0) & (after >= 0)
    middle, before, after = middle[both], before[both], after[both]
    if len(middle) == 0:
        return UnfusedAttention(order[:0], order[:0], None, False)
    left, right = calls_of(scope, order[before]), calls_of(scope, order[after])
    firsts, seconds = gemms_of(trace.names, left), gemms_of(trace.names, right)
    proven = _proven(trace, left, right, firsts, seconds)
    # A masked softmax exists for attention alone.
    proven |= is_named(trace, order[middle], lambda name: "masked_softmax" in name)
    middle, before, after = middle[proven], before[proven], after[proven]
    marks = np.zeros(len(order) + 1, np.int64)
    np.add.at(marks, before, 1)
    np.add.at(marks, after + 1, -1)
    rows = order[np.cumsum(marks)[:-1] > 0]
    largest = max(firsts.used(proven), key=lambda each: each.batch * each.rows * each.columns, default=None)
    return UnfusedAttention(rows, order[middle], largest, bool((after - before > 2).any()))


def _neighbours(trace: Trace, order: Int64, gemm: Bool, softmax: Bool, middle: Int64) -> tuple[Int64, Int64]:
    """Indices of the GEMMs before and after each softmax with little between them, -1 for none."""
    count = len(order)
    index = np.arange(count)
    before = np.maximum.accumulate(np.where(gemm, index, -1))[middle]
    after = np.minimum.accumulate(np.where(gemm, index, count)[::-1])[::-1][middle]
    lane = trace.slices.lane[order]
    foreign = np.cumsum(~(gemm | softmax | is_named(trace, order, _may_lie_between)))
    several = np.cumsum(softmax)
    close = (before >= 0) & (after < count) & (middle - before <= MAX_BETWEEN) & (after - middle <= MAX_BETWEEN)
    last = np.minimum(after, count - 1)
    close &= (lane[before] == lane[middle]) & (lane[last] == lane[middle])
    close &= (foreign[last] == foreign[before]) & (several[last] - several[before] == 1)
    return np.where(close, before, -1), np.where(close, after, -1)


def _proven(trace: Trace, left: Calls, right: Calls, firsts: Gemms, seconds: Gemms) -> Bool:
    """Mask of the pairs of GEMMs of which the second takes the result of the first: by shapes, else by their form."""
    pairs = combinations(left.name, left.signature, right.name, right.signature)
    by_shape = np.array([_is_attention(firsts.of(call), seconds.of(call)) for call in pairs.first.tolist()], bool)
    setup = configuration(trace, np.concatenate([left.kernel, right.kernel]))
    depth = np.array([shape[2] if len(shape) > 2 else 1 for shape in setup.shapes] + [0])[setup.grid]
    first, second = depth[: len(left.kernel)], depth[len(left.kernel) :]
    unknown = (left.signature < 0) & (right.signature < 0)
    batched = [number for name in _BATCHED if (number := trace.names.find(name)) >= 0]
    by_op = np.isin(left.name, batched) & np.isin(right.name, batched)
    by_grid = (left.op < 0) & (right.op < 0) & (first == second) & (first >= MIN_BATCH)
    proven: Bool = by_shape[pairs.member] | (unknown & (by_op | by_grid))
    return proven


def _is_attention(first: Gemm | None, second: Gemm | None) -> bool:
    if first is None or second is None or first.columns < MIN_SCORES or first.rows < 2:
        return False
    batched = first.batch > 1 and first.batch == second.batch
    scores = (first.rows, first.columns)
    return batched and (second.rows, second.depth) in (scores, scores[::-1])


@cache
def _is_softmax(name: str) -> bool:
    decoded = decode(name)
    fused = decoded.library == "Inductor" and any(
        op in ("_softmax", "softmax", "_safe_softmax") for op in decoded.fused_ops
    )
    return fused or (decoded.operation == "softmax" and decoded.op != "log_softmax")


@cache
def _is_gemm(name: str) -> bool:
    decoded = decode(name)
    return decoded.family == Family.GEMM and decoded.operation == "gemm"


@cache
def _may_lie_between(name: str) -> bool:
    decoded = decode(name)
    return decoded.family in (Family.POINTWISE, Family.COPY) or "helper" in decoded.operation


def _is_fused(name: str) -> bool:
    decoded = decode(name)
    return decoded.family == Family.ATTENTION and decoded.operation == "attention"


# Element-wise kernels, copies and norms of eager code, which move the same tensors again and again.

MIN_UNFUSED_SHARE = 0.2
"""Minimum share of such kernels in the GPU time."""
SAVED_SHARE = 2 / 3
"""Time that joining two neighbours saves, relative to the shorter one: it reads two tensors and writes one, and neither
its result is written nor the input of the other read; kernels with one input would save more [17].
"""
_ELEMENTWISE = frozenset({"pointwise", "activation", "copy", "fill", "norm", "reduction", "softmax", "loss"})
"""Operations that torch.compile joins."""
MAX_NAMED_UNFUSED = 3
"""Maximum operators named, those that take most time."""


@frozen
class UnfusedKernels:
    """Kernels of eager code that one kernel for several operators could replace."""

    rows: Int64
    """All of them, in order of stream and start."""
    joined: Int64
    """Those with a neighbour to be joined with, without small ones and slow ones, about which there are other rules."""
    saved: float
    """Time in ns of these that joining them saves."""


def unfused_elementwise(scope: Scope) -> Iterator[Finding]:
    """Element-wise kernels, copies and norms that nothing fuses take much of the GPU time."""
    trace, dur, unfused = scope.trace, scope.trace.slices.dur, unfused_kernels(scope)
    spent = int(dur[unfused.rows].sum())
    whole = int(dur[scope.activities].sum())
    if scope.program.is_wholly_compiled or spent < MIN_UNFUSED_SHARE * whole or unfused.saved == 0:
        return
    owner = names_of(trace, links(trace).owner[unfused.rows])
    ops = group(owner[owner >= 0])
    of_ops = ops.sum(dur[unfused.rows[owner >= 0]])
    order = np.argsort(-of_ops, kind="stable")[:MAX_NAMED_UNFUSED].tolist()
    most = ", ".join(f"{trace.names[int(ops.key[each])]} {duration(of_ops[each])}" for each in order)
    compiled = scope.program.is_compiled
    yield from scope.with_cost(
        "unfused-elementwise",
        int(scope.gpu_cost(unfused.joined) * unfused.saved / int(dur[unfused.joined].sum())),
        f"Element-wise kernels, copies and norms that nothing fuses take {rounded_percent(100 * spent / whole)} of the "
        "GPU time; fused they would save",
        f"{kernel_time(scope, unfused.rows)}: {gpu_time_by_purpose(scope, unfused.rows)}"
        + (f"; most in {most}" if most else "")
        + f"; {counted(len(unfused.joined), 'kernel')} of {duration(int(dur[unfused.joined].sum()))} run next to "
        "another one, and joining two saves two thirds of the shorter one's time",
        "Each kernel reads its inputs from memory and writes its result there. "
        + (
            "Compile the rest of the program too (TORCH_LOGS=graph_breaks tells what leaves it out)"
            if compiled
            else "torch.compile joins them"
        )
        + "; by hand, use fused forms of norms, activations"
        + (" and rotary embeddings." if scope.program.serves else ", rotary embeddings and losses."),
        longest(trace, unfused.rows),
        action="compile the rest of the program" if compiled else "fuse them with torch.compile",
    )


def unfused_kernels(scope: Scope) -> UnfusedKernels:
    """The kernels of eager code that could be joined, without those that a more exact rule is about."""

    def find() -> UnfusedKernels:
        trace, slices = scope.trace, scope.trace.slices
        order = scope.computing[np.lexsort((slices.start[scope.computing], slices.lane[scope.computing]))]
        good = is_named(trace, order, lambda name: is_fusible(name) and decode(name).operation in _ELEMENTWISE)
        left_out = [unfused_attention(scope).rows, underfilled(scope).rows]
        left_out += [loop_of(scope).kernels] if is_optimizer_loop(scope) else []
        good &= ~np.isin(order, np.concatenate(left_out))
        large = good & ~np.isin(order, tiny_runs(scope)[0])
        # What is as slow as this loses more above the roofline than joining could save.
        with np.errstate(invalid="ignore"):
            large &= ~(roofline(trace).share[kernel_work(trace).at(order)] < 1 - SAVED_SHARE)
        step, calls, dur = step_index(trace, order), calls_of(scope, order), slices.dur[order]
        next_to = large[:-1] & large[1:] & (step[:-1] == step[1:])
        next_to &= (slices.lane[order][:-1] == slices.lane[order][1:]) & _share_a_size(calls)
        first = np.flatnonzero(next_to)
        saved = SAVED_SHARE * float(np.minimum(dur[first], dur[first + 1]).sum())
        return UnfusedKernels(order[good], order[np.union1d(first, first + 1)], saved)

    return scope.trace.keep(("unfused kernels", scope.step), find)


def _share_a_size(calls: Calls) -> Bool:
    """Mask of the calls, without the last, that may hand a tensor to the next one: a size of inputs is the same.

    True too where shapes are not known, and for kernels of one call.
    """
    sizes = [_sizes(each) for each in calls.known]
    first, second = calls.signature[:-1], calls.signature[1:]
    known = np.flatnonzero((first >= 0) & (second >= 0) & (calls.op[:-1] != calls.op[1:]))
    share = np.ones(len(first), bool)
    pairs = combinations(first[known], second[known])
    both = zip(first[known][pairs.first].tolist(), second[known][pairs.first].tolist(), strict=True)
    share[known] = np.array([bool(sizes[one] & sizes[other]) for one, other in both], bool)[pairs.member]
    return share


def _sizes(signature: Signature) -> frozenset[int]:
    """Elements of the tensors among the inputs, and of all tensors of a list together, as `cat` puts them together."""
    sizes = set[int]()
    for dims in signature.dims:
        several = [shape_of(each) for each in dims if isinstance(each, tuple)]
        shapes = several if several else [shape_of(dims)]
        elements = [math.prod(shape) for shape in shapes if shape]
        sizes |= {*elements, sum(elements)}
    return frozenset(sizes - {0, 1})


# Runs of small elementwise kernels that one kernel could replace.

MAX_TINY_NS = 10_000
"""Maximum duration of a tiny kernel, which hardly takes longer than its launch."""
MIN_RUN_KERNELS = 3
"""Minimum tiny kernels in a row."""
_FUSIBLE = (Family.POINTWISE, Family.REDUCTION, Family.COPY)
_NOT_FUSIBLE = (
    "optimizer",
    "foreach",
    "sort",
    "select",
    "search",
    "sampling",
    "routing",
    "histogram",
    LAYOUT_CONVERSION,
)
"""Operations that no compiler fuses with their neighbours, or that are for many tensors at once."""


def tiny_kernels(scope: Scope) -> Iterator[Finding]:
    """Small elementwise kernels in a row on a stream, which one kernel could replace."""
    rows, runs = tiny_runs(scope)
    if len(rows) == 0:
        return
    start, dur, end = (getattr(scope.trace.slices, name)[rows] for name in ("start", "dur", "end"))
    total = float(dur.sum())
    if total == 0:
        # Recorded with less than a clock tick each: there is nothing to save.
        return
    # One kernel in place of a run takes at least as long as the shortest of them.
    kept = float(dur[runs.smallest(dur)].sum()) / total
    spent = int((end[runs.largest(end)] - start[runs.smallest(start)]).sum())
    advice, action = _fewer_kernels(scope, rows)
    yield from scope.with_cost(
        "tiny-kernels",
        int(alone(scope, rows) * (1 - kept)),
        "Small kernels in a row could be fewer",
        f"{kernel_time(scope, rows)}, in {counted(len(runs), 'run')} of up to {int(runs.calls.max()):,}, median "
        f"{duration(float(np.median(dur)))}; {duration(spent)} from the first of each run to its last, gaps included",
        advice,
        int(rows[int(np.argmax(runs.calls[runs.member]))]),
        action=action,
    )


def tiny_runs(scope: Scope) -> tuple[Int64, Groups]:
    """The tiny kernels in a row on a stream within a step, and the run of each."""
    trace, slices = scope.trace, scope.trace.slices
    rows = scope.kernels
    rows = rows[np.lexsort((slices.start[rows], slices.lane[rows]))]
    good = (slices.dur[rows] < MAX_TINY_NS) & _could_be_fewer(scope, rows)
    if is_optimizer_loop(scope):
        good &= ~np.isin(rows, loop_of(scope).kernels)
    fresh = np.ones(len(rows), bool)
    for values in (good, slices.lane[rows], step_index(trace, rows)):
        fresh[1:] &= values[1:] == values[:-1]
    fresh[1:] = ~fresh[1:]
    run = np.cumsum(fresh)
    kept = good & (np.bincount(run)[run] >= MIN_RUN_KERNELS)
    return rows[kept], group(run[kept])


def _could_be_fewer(scope: Scope, rows: Int64) -> Bool:
    """Mask of the kernels that a compiler could fuse, and of generated ones that are called several times in a row."""
    trace = scope.trace
    name, lane = trace.slices.name[rows], trace.slices.lane[rows]
    again = np.zeros(len(rows), bool)
    same = (name[1:] == name[:-1]) & (lane[1:] == lane[:-1])
    again[1:] |= same
    again[:-1] |= same
    return is_named(trace, rows, is_fusible) | (again & is_named(trace, rows, _is_generated))


def _read_between(scope: Scope, rows: Int64) -> bool:
    """True where the CPU reads a value between most of the kernels, so that no compiler can join them."""
    slices = scope.trace.slices
    copies = scope.copies_to_host
    order = np.lexsort((slices.start[rows], slices.lane[rows]))
    first, last = rows[order][:-1], rows[order][1:]
    read = np.searchsorted(slices.start[copies], slices.start[last]) > np.searchsorted(
        slices.start[copies], slices.start[first]
    )
    return bool(read.sum() > len(rows) / 2)


@cache
def is_fusible(name: str) -> bool:
    """True for kernels that a compiler could join with their neighbours; no transposes of libraries."""
    decoded = decode(name)
    plain = decoded.operation not in _NOT_FUSIBLE and "foreach" not in (*decoded.flags, decoded.operation)
    return plain and decoded.family in _FUSIBLE and decoded.library == "PyTorch"


@cache
def _is_generated(name: str) -> bool:
    """True for kernels that a compiler made from operators in their name."""
    decoded = decode(name)
    return decoded.library == "Inductor" and bool(decoded.fused_ops)


def _fewer_kernels(scope: Scope, rows: Int64) -> tuple[str, str]:
    """The advice, and the action, by what joins the kernels already."""
    if _read_between(scope, rows):
        return (
            "The CPU reads a value after most of them: vectorise the loop, so that one operation on a whole tensor "
            "replaces those on its elements, and read the result once.",
            "vectorise the loop",
        )
    if not scope.program.is_compiled:
        return (
            "Each kernel reads and writes memory and is launched on its own. torch.compile fuses them; by hand, write "
            "the expression as one kernel, batch the calls or use a fused op.",
            "compile them into fewer (torch.compile)",
        )
    if scope.program.is_wholly_compiled:
        return (
            "Compiled code launches most kernels already: batch calls that are equal (stack their inputs), so that "
            "each kernel does more.",
            "batch equal calls",
        )
    return (
        "Part of the program is compiled: see what leaves the others out (graph breaks, TORCH_LOGS=graph_breaks), and "
        "batch calls that are equal, so that each kernel does more.",
        "batch equal calls and compile the rest",
    )
