"""Rules about kernels that move more bytes than they need: weights copied for each token, tensors converted for
convolutions, and operators far below the roofline.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from tracetui.devices.descriptions import AMD, gpu_generation
from tracetui.devices.formulas import size_of
from tracetui.devices.kernel_work import kernel_work
from tracetui.devices.roofline import MEMORY, roofline
from tracetui.findings.fusion import unfused_attention, unfused_elementwise, unfused_kernels
from tracetui.findings.gemm import (
    Calls,
    batchable,
    calls_of,
    fp32_rows,
    gemms_of,
    is_convolution,
    is_misaligned,
    shape_of,
)
from tracetui.findings.idle_time import kernel_time
from tracetui.findings.kernel_times import underfilled
from tracetui.findings.scope import Finding, Scope, longest
from tracetui.findings.training import loop_of
from tracetui.frozen import frozen
from tracetui.kernel_names import LAYOUT_CONVERSION, decode
from tracetui.kernel_names.slice_names import Family, families, is_operand_conversion, short_kernel
from tracetui.linking.groups import distinct, group
from tracetui.linking.links import activities_between, links, names_of
from tracetui.linking.trees import is_named
from tracetui.model.intervals import Int64, covered_within, union, without
from tracetui.model.quantities import counted, duration, rounded_percent, size
from tracetui.model.trace import Float64, Trace

# Index operators that copy a matrix of weights for each token before a batched GEMM.

GATHERING = ("aten::index", "aten::index_select", "aten::embedding")
"""Operators that copy rows of their first input."""


@frozen(eq=True, slots=True)
class Gathered:
    """A set of matrices from which an operator copies more than there are."""

    matrices: int
    rows: int
    columns: int
    copies: int
    """Copies that one call makes, which the GEMM then reads."""
    element: str


def gather(scope: Scope) -> Iterator[Finding]:
    """An index operator copies a matrix of weights for each token, and a batched GEMM reads the copies."""
    trace = scope.trace
    rows = gathered(scope)
    if len(rows) == 0:
        return
    example = longest(trace, rows)
    calls = calls_of(scope, np.array([example], np.int64))
    source = _source(calls, int(calls.signature[0]), _batches(scope))
    assert source is not None
    each = math.prod((source.rows, source.columns)) * (size_of(source.element) or 0)
    what = f"matrix of {size(each)}" if each else "matrix"
    yield from scope.with_cost(
        "gather",
        scope.gpu_cost(rows),
        f"{trace.name_of(int(calls.op[0]))} copies a {what} for each token",
        f"{kernel_time(scope, rows)}; the longest makes {counted(source.copies, 'copy')} out of "
        f"[{source.matrices}, {source.rows}, {source.columns}], which a batched GEMM then reads once",
        "Each copy is read, written and read again. Sort the tokens by expert and multiply each group with its weights "
        "where they are (a grouped GEMM, torch._grouped_mm), or loop over the experts.",
        example,
        action="sort tokens by expert and use a grouped GEMM",
    )


def gathered(scope: Scope) -> Int64:
    """Kernels that copy weights for each token."""
    trace = scope.trace
    wanted = [number for name in GATHERING if (number := trace.names.find(name)) >= 0]
    calls = calls_of(scope, scope.computing)
    calls = calls.take(np.isin(calls.name, wanted) & (calls.signature >= 0))
    if len(calls.kernel) == 0:
        return calls.kernel
    batches = _batches(scope)
    used = np.unique(calls.signature)
    copying = [number for number in used.tolist() if _source(calls, number, batches) is not None]
    return np.compress(np.isin(calls.signature, copying), calls.kernel)


def _batches(scope: Scope) -> dict[tuple[int, int], int]:
    """The largest number of right operands in one batched GEMM, by their sizes."""
    batches: dict[tuple[int, int], int] = {}
    for gemm in gemms_of(scope.trace.names, calls_of(scope, scope.computing)).used():
        for sizes in ((gemm.depth, gemm.columns), (gemm.columns, gemm.depth)):
            batches[sizes] = max(batches.get(sizes, 0), gemm.batch)
    return batches


def _source(calls: Calls, signature: int, batches: dict[tuple[int, int], int]) -> Gathered | None:
    """The matrices that a call copies, where a GEMM reads more copies of them than there are; else None."""
    given = calls.known[signature]
    shape = shape_of(given.dims[0]) if given.dims else None
    if shape is None or len(shape) != 3 or min(shape) < 2:
        return None
    copies = batches.get((shape[1], shape[2]), 0)
    element = given.types[0] if given.types else ""
    return Gathered(*shape, copies, element) if copies > shape[0] else None


# Kernels that only convert tensors for convolutions: their layout, or their type before TF32 GEMMs.

_PADDING = "pad channels"
"""Operation that adds channels so that a convolution can compute in the other layout."""
MAX_CONVERTED_CALLS = 0.5
"""Maximum share of the convolutions that convert while channels_last counts as in use."""
_LAYOUT_STATEMENT = "Kernels convert the layout of tensors around convolutions (NCHW to NHWC and back)"
_TYPE_STATEMENT = "Kernels convert tensors before convolutions, to the type that these compute in"
_LAYOUT_ADVICE = (
    "Put the model and its inputs into channels_last (model.to(memory_format=torch.channels_last)): these convolutions "
    "compute in that layout."
)
_AMD_ADVICE = " ROCm needs PYTORCH_MIOPEN_SUGGEST_NHWC=1 for it."
_TF32_ADVICE = (
    "The library converts each fp32 tensor before it computes in TF32; under torch.autocast tensors have the type of "
    "the convolution from the start."
)
_TYPE_ADVICE = "The library converts what it computes to another type: keep tensors in that type."


def layout_conversion(scope: Scope) -> Iterator[Finding]:
    """Kernels that convert the layout or the type of tensors around convolutions."""
    trace, dur = scope.trace, scope.trace.slices.dur
    layout = scope.computing_named(_converts_layout)
    casts = scope.computing_named(is_operand_conversion)
    convolutions = scope.computing_named(is_convolution)
    if _is_channels_last(trace, convolutions, layout):
        layout = layout[:0]
    rows = np.union1d(layout, casts)
    if len(rows) == 0:
        return
    of_layout, of_type = int(dur[layout].sum()), int(dur[casts].sum())
    is_layout = of_layout >= of_type
    example = longest(trace, layout if is_layout else casts)
    beside = f", beside {duration(int(dur[convolutions].sum()))} of the convolutions" if len(convolutions) else ""
    parts = [f"{duration(of_layout)} for the layout"] if of_layout else []
    parts += [f"{duration(of_type)} for the type (tensor conversion)"] if of_type else []
    is_amd = gpu_generation(trace).vendor == AMD
    advice = [_LAYOUT_ADVICE + (_AMD_ADVICE if is_amd else "")] if of_layout else []
    if of_type and is_named(trace, convolutions, lambda name: decode(name).a == "tf32").any():
        advice.append(_TF32_ADVICE)
    yield from scope.with_cost(
        "layout-conversion",
        scope.gpu_cost(rows),
        _LAYOUT_STATEMENT if is_layout else _TYPE_STATEMENT,
        f"{kernel_time(scope, rows)}{beside}; {' and '.join(parts)}; the longest, "
        f"{short_kernel(trace.name_of(example))}",
        " ".join(advice) or _TYPE_ADVICE,
        example,
        action="use channels_last" if is_layout else "run convolutions under autocast",
    )


def _converts_layout(name: str) -> bool:
    decoded = decode(name)
    miopen = decoded.library == "MIOpen" and decoded.operation == "transpose"
    return miopen or decoded.operation == LAYOUT_CONVERSION or decoded.op == _PADDING


def _converts(name: str) -> bool:
    """True for kernels that convert layout or type of tensors for a convolution."""
    return _converts_layout(name) or is_operand_conversion(name)


def _is_channels_last(trace: Trace, convolutions: Int64, layout: Int64) -> bool:
    """True where most convolutions take tensors in the layout in which they compute, so that few convert."""
    owner = links(trace).owner
    nhwc = convolutions[is_named(trace, convolutions, lambda name: decode(name).layout == "nhwc" or "nhwc" in name)]
    calls = np.unique(owner[nhwc][owner[nhwc] >= 0])
    converted = np.unique(owner[layout][owner[layout] >= 0])
    if len(calls) == 0 or len(converted) == 0:
        return False
    return bool(np.isin(calls, converted).mean() < MAX_CONVERTED_CALLS)


# Operators that take more than twice what their bytes and operations need.

FAR_SHARE = 0.5
"""Share of the peak below which a call is far from the roofline."""
MIN_CALL_NS = 20_000
"""Minimum duration of a call that is compared with the roofline; a shorter one is held up by its launch."""
MAX_SHARED = 0.2
"""Maximum share of the time of a kernel with others beside it, which may have slowed it down."""
MAX_NAMED_OPS = 2
"""Maximum further operators named."""
MIN_NAMED_SHARE = 0.2
"""Minimum saving of a further operator, relative to the first."""
_MEMORY_ADVICE = (
    "Every byte is moved at that rate at best: read and write less. Fuse the op with its neighbours (torch.compile, or "
    "a fused form), use smaller types, keep inputs contiguous."
)
_COMPUTE_ADVICE = (
    "The Tensor Cores (Matrix Cores on AMD) could do more: see tile, alignment and blocks of its kernel, try "
    "max-autotune, larger or rounder shapes, or a lower precision."
)
_OWN_ADVICE = {
    "aten::_index_put_impl_": "Indexed stores write row by row and sort the indices where they accumulate: index_add_, "
    "index_copy_ or scatter_ of whole rows move more at once, and where each row has one source a gather by the "
    "inverse permutation needs no scatter at all.",
}
"""Advice for operators with a faster form."""


_PASSES = {"_norm_backward": 5 / 3, "batch_norm": 3 / 2, "group_norm": 3 / 2}
"""Reads and writes of operators that read their input twice, relative to reading it once."""


@frozen
class FarCalls:
    """Calls that are far from the roofline; parallel arrays with one entry per call."""

    main: Int64
    """Row of the main kernel."""
    op: Int64
    """Id of the operator's name."""
    span: Float64
    """Time in ns of the kernels of the call that no other rule is about."""
    least: Float64
    """Roofline time in ns."""
    bound: Int64


def far_from_roofline(scope: Scope) -> Iterator[Finding]:
    """The operator that loses most time against the roofline (3(i))."""
    trace = scope.trace
    far = _far_calls(scope)
    if len(far.main) == 0:
        return
    ops = group(far.op)
    excess, span, least = (ops.sum(values) for values in (far.span - far.least, far.span, far.least))
    candidates = np.argsort(-excess)[: MAX_NAMED_OPS + 1].tolist()
    # The part of the time of its calls that is above the roofline, as far as the GPU is the limit.
    work, conversions, prices = kernel_work(trace), scope.computing_named(_converts), {}
    for number in candidates:
        rows = work.rows[np.isin(work.main, work.at(far.main[ops.member == number]))]
        rows = rows[~np.isin(rows, conversions)]
        prices[number] = int(scope.gpu_cost(rows) * (1 - least[number] / span[number]))
    worst, *others = sorted(candidates, key=lambda number: -prices[number])
    mine = np.flatnonzero(ops.member == worst)
    at = int(mine[np.argmax(far.span[mine])])
    name = trace.names[int(ops.key[worst])]
    calls = calls_of(scope, far.main[[at]])
    like = [
        f"{trace.names[int(ops.key[number])]}, {duration(float(excess[number]))} above"
        for number in others
        if prices[number] > MIN_NAMED_SHARE * prices[worst]
    ]
    memory = far.bound[at] == MEMORY
    yield from scope.with_cost(
        "far-from-roofline",
        prices[worst],
        f"{name} is far below what the device can do",
        f"{scope.per_step(len(mine), 'call')}, {duration(float(span[worst]))}, at "
        f"{rounded_percent(100 * float(least[worst] / span[worst]))} of the {'bandwidth' if memory else 'peak rate'}, "
        f"{duration(float(excess[worst]))} above the roofline; the longest, {calls.known[int(calls.signature[0])].text}"
        + (f"; likewise {' and '.join(like)}" if like else ""),
        _OWN_ADVICE.get(name, _MEMORY_ADVICE if memory else _COMPUTE_ADVICE),
        int(far.main[at]),
        action=f"see why {name} is slow",
    )


def _far_calls(scope: Scope) -> FarCalls:
    """Calls of known shapes below half of the roofline that no other rule is about."""
    trace = scope.trace
    work, rooflines = kernel_work(trace), roofline(trace)
    # A more exact rule is about these.
    judged = [unfused_attention(scope).rows, gathered(scope), loop_of(scope).kernels, batchable(scope).rows]
    judged += [underfilled(scope).rows, fp32_rows(scope)]
    judged += [unfused_kernels(scope).joined] if any(unfused_elementwise(scope)) else []
    judged += [scope.computing_named(predicate) for predicate in (is_misaligned, _converts)]
    own = without(distinct(scope.computing), np.unique(np.concatenate(judged)))
    of_call = work.main[work.at(own)]
    dur = np.where(of_call >= 0, trace.slices.dur[own], 0)
    span: Float64 = np.bincount(np.maximum(of_call, 0), dur, len(work.rows)).astype(np.float64)
    at = work.at(own)
    op = names_of(trace, links(trace).owner[own])
    least = rooflines.roofline_ns[at] * _passes(trace, op)
    with np.errstate(invalid="ignore"):
        far = (work.group[at] >= 0) & (span[at] >= MIN_CALL_NS) & (least < FAR_SHARE * span[at])
    # What captured a replayed kernel is inferred, and ran only once.
    far &= ~work.captured[at]
    # Neither bytes nor products alone are the limit of attention: a softmax stands between its two products.
    far &= families(trace, work.rows[np.maximum(of_call, 0)]) != Family.ATTENTION
    far &= np.isfinite(least) & (op >= 0) & (rooflines.share[at] <= 1) & (_shared(trace, own) <= MAX_SHARED)
    return FarCalls(own[far], op[far], span[at][far], least[far], rooflines.bound[at][far])


def _shared(trace: Trace, rows: Int64) -> Float64:
    """The share of the time of each kernel in which activities of other streams ran beside it."""
    slices, shared = trace.slices, np.zeros(len(rows))
    if len(rows) == 0:
        return shared
    every = activities_between(trace, int(slices.start[rows].min()), int(slices.end[rows].max()))
    for lane in np.unique(slices.lane[rows]).tolist():
        mine = slices.lane[rows] == lane
        others = every[slices.lane[every] != lane]
        stretches = union(slices.start[others], slices.end[others])
        shared[mine] = covered_within(*stretches, slices.start[rows[mine]], slices.end[rows[mine]])
    share: Float64 = shared / np.maximum(slices.dur[rows], 1)
    return share


def _passes(trace: Trace, op: Int64) -> Float64:
    """Reads and writes of operators relative to the least: more than 1 for those that read their input twice."""
    factor = np.ones(len(trace.names) + 1)
    for number in np.unique(op[op >= 0]).tolist():
        name = trace.names[number]
        factor[number] = next((passes for part, passes in _PASSES.items() if part in name), 1.0)
    passes: Float64 = factor[op]
    return passes
