"""Rules about matrix products: misaligned operands, few rows for their weights, and loops of small ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tracetui.devices.kernel_work import kernel_work
from tracetui.devices.operands import size_of
from tracetui.devices.roofline import CACHE, MEMORY, roofline
from tracetui.findings.calls import Calls, Product, calls_of, products_of
from tracetui.findings.finding import Finding
from tracetui.findings.launches import kernel_time
from tracetui.findings.scope import Scope, longest
from tracetui.kernel_names import decode
from tracetui.kernel_names.slice_names import short_kernel
from tracetui.linking.groups import group
from tracetui.linking.lanes import is_named
from tracetui.model.intervals import Int64
from tracetui.model.quantities import counted, duration, rate, rounded_percent, size
from tracetui.model.trace import Kind, Trace

MIN_ALIGNED_ELEMENTS = 4
"""Minimum alignment in elements; a kernel for less loads one or two elements at a time."""
EVEN_ELEMENTS = 8
"""Elements to whose multiples a size is to be padded."""
MAX_NAMED_SIZES = 3
"""Maximum odd sizes named per sentence."""
MIN_NAMED_SHARE = 0.1
"""Minimum share of the time of the first named size."""


def misaligned_products(scope: Scope) -> Iterator[Finding]:
    """Matrix kernels for misaligned operands, because a size is odd."""
    trace = scope.trace
    rows = misaligned_rows(scope)
    if len(rows) == 0:
        return
    example = longest(trace, rows)
    sizes = _odd_sizes(scope, rows)
    named = f", for sizes that are no multiple of {EVEN_ELEMENTS}: {', '.join(f'{each:,}' for each in sizes)}"
    yield from scope.priced(
        "misaligned-gemm",
        scope.gpu_cost(rows),
        "Matrix products of misaligned operands",
        f"{kernel_time(scope, rows)}{named if sizes else ''}; the longest, {short_kernel(trace.name_of(example))}",
        f"A size that is no multiple of {EVEN_ELEMENTS} makes the library load single elements and often take a kernel "
        "of an older generation. Pad it (sequence length, vocabulary, hidden size) to a multiple of 8, better of 64.",
        example,
        action=f"pad {sizes[0]:,} to a multiple of {EVEN_ELEMENTS}" if sizes else "pad odd sizes to a multiple of 8",
    )


def misaligned_rows(scope: Scope) -> Int64:
    """The kernels of Tensor Cores that load one or two elements at a time."""
    return np.compress(is_named(scope.trace, scope.computing, _is_misaligned), scope.computing)


def _is_misaligned(name: str) -> bool:
    decoded = decode(name)
    small = decoded.align is not None and decoded.align < MIN_ALIGNED_ELEMENTS
    # A double is as long as four halves: loading one at a time is how its kernels work.
    return small and decoded.tensor_core is True and decoded.a != "f64"


def _odd_sizes(scope: Scope, rows: Int64) -> list[int]:
    """Sizes of the products that are no multiple of 8, those that took most time first; none without shapes."""
    spent: dict[int, float] = {}
    products = products_of(scope.trace, calls_of(scope, rows))
    time = np.bincount(products.index, scope.trace.slices.dur[rows], len(products.known))
    for product, dur in zip(products.known, time.tolist(), strict=True):
        for each in {product.rows, product.depth, product.columns} if product else ():
            if each % EVEN_ELEMENTS and each > 1:
                spent[each] = spent.get(each, 0.0) + dur
    ranked = sorted(spent, key=lambda each: (-spent[each], each))
    return [each for each in ranked[:MAX_NAMED_SIZES] if spent[each] >= MIN_NAMED_SHARE * spent[ranked[0]]]


MAX_FEW_ROWS = 15
"""Maximum rows of a product that reads its weights for few vectors."""
MIN_BANDWIDTH_SHARE = 0.5
"""Minimum share of the bandwidth at which a product is held up by reading its weights."""
MIN_FEW_ROWS_NS = 5_000
"""Minimum duration of such a product; a shorter one is held up by its launch."""


def small_batch_products(scope: Scope) -> Iterator[Finding]:
    """Products of so few rows that reading the weights takes all their time (decoding, gathered experts)."""
    trace = scope.trace
    calls = calls_of(scope, _with_memory_bound(scope))
    calls = calls.take(products_of(trace, calls).where(_has_few_rows))
    rows = calls.kernel
    if len(rows) == 0:
        return
    at = int(np.argmax(trace.slices.dur[rows]))
    product = products_of(trace, calls).of(at)
    assert product is not None
    weights, span = _weights(product), int(trace.slices.dur[rows[at]])
    few_rows = "one row" if product.rows == 1 else f"{product.rows} rows"
    moved = f", {size(weights)} of weights at {rate(weights, span)}" if weights else ""
    yield from scope.priced(
        "small-batch-products",
        scope.gpu_cost(rows),
        "Matrix products read their weights for few rows",
        f"{kernel_time(scope, rows)}; the longest, {trace.name_of(int(calls.op[at]))} of {few_rows}, {product.text}, "
        f"{duration(span)}{moved}, {_rate_words(scope, rows)}",
        "The time is that of reading the weights once, however few rows there are: batch more requests, use a grouped "
        "GEMM over tokens sorted by expert where weights are chosen per token, or quantise the weights.",
        int(rows[at]),
        action="multiply more rows at once (batch requests, grouped GEMM)",
    )


def _with_memory_bound(scope: Scope) -> Int64:
    """Main kernels of calls that reach half of the bandwidth of their device, or come from its cache."""
    work, rooflines = kernel_work(scope.trace), roofline(scope.trace)
    at = work.at(scope.computing)
    share = np.nan_to_num(rooflines.share[at])
    bound = rooflines.bound[at]
    near = ((bound == MEMORY) & (share >= MIN_BANDWIDTH_SHARE)) | (bound == CACHE)
    near &= scope.trace.slices.dur[scope.computing] >= MIN_FEW_ROWS_NS
    return np.compress(near, scope.computing)


def _has_few_rows(product: Product) -> bool:
    return product.rows <= MAX_FEW_ROWS and min(product.columns, product.depth) > EVEN_ELEMENTS * product.rows


def _weights(product: Product) -> float:
    """Bytes of the operand that the few rows are multiplied with; 0 where the type is not known."""
    element = size_of(product.element) or 0
    return product.batch * product.depth * product.columns * element


def _rate_words(scope: Scope, rows: Int64) -> str:
    """The share of the bandwidth that all these products reach, in words."""
    work, rooflines = kernel_work(scope.trace), roofline(scope.trace)
    at = work.at(rows)
    known = ~np.isnan(rooflines.share[at])
    least, span = float(rooflines.roofline_ns[at][known].sum()), float(work.span[at][known].sum())
    return f"{rounded_percent(min(100 * least / span, 100))} of the bandwidth" if span else "out of the GPU's cache"


MIN_LOOP_CALLS = 8
"""Minimum equal products in a row that are a loop."""
MAX_LOOP_PRODUCT_NS = 50_000
"""Maximum median duration of the products of a loop that one batched product would shorten."""


def batchable_products(scope: Scope) -> Iterator[Finding]:
    """The same small product many times in a row, which one batched product could replace."""
    trace, dur, found = scope.trace, scope.trace.slices.dur, _batchable(scope)
    rows, index, example = found.rows, found.index, found.example
    if len(rows) == 0:
        return
    kept, spent = float(dur[rows[group(index).largest(dur[rows])]].sum()), float(dur[rows].sum())
    product = products_of(trace, example).of(0)
    yield from scope.priced(
        "batchable-products",
        int(scope.gpu_cost(rows) * (1 - kept / max(spent, 1))),
        "A loop of small matrix products could be one batched product",
        f"{kernel_time(scope, rows)}, in {counted(int(index[-1]) + 1, 'loop')} of up to "
        f"{int(np.bincount(index).max()):,} equal products; the longest loop, {trace.name_of(int(example.op[0]))} "
        f"of {product.text if product else ''}",
        "Stack the operands and multiply once: torch.bmm, torch.baddbmm or torch.einsum, or vmap over the loop.",
        int(example.kernel[0]),
        action="multiply them as one batch (torch.bmm)",
    )


def batchable_rows(scope: Scope) -> Int64:
    """The kernels of loops of small products that one batched product could replace, in order of start."""
    return _batchable(scope).rows


@dataclass(frozen=True, eq=False)
class _Batchable:
    """Kernels of loops of small products; parallel arrays."""

    rows: Int64
    index: Int64
    """Number of the loop of each."""
    example: Calls
    """The first call of the longest loop; none without loops."""


def _batchable(scope: Scope) -> _Batchable:
    def find() -> _Batchable:
        calls = calls_of(scope, scope.computing)
        calls = calls.take(np.append(True, calls.op[1:] != calls.op[:-1]) if len(calls.op) else np.empty(0, bool))
        loops = _loops(scope, calls)
        if len(loops) == 0:
            none = np.empty(0, np.int64)
            return _Batchable(none, none, calls.take(none))
        first, last = loops.T
        index = np.repeat(np.arange(len(loops)), last - first)
        at = np.arange(len(index)) - np.repeat(np.cumsum(last - first) - (last - first), last - first) + first[index]
        return _Batchable(calls.kernel[at], index, calls.take(first[[int(np.argmax(last - first))]]))

    return scope.trace.remember(("batchable products", scope.step), find)


def _loops(scope: Scope, calls: Calls) -> Int64:
    """First and last index (exclusive) of each run of equal, independent products of one caller on one stream."""
    trace = scope.trace
    if len(calls.kernel) == 0:
        return np.empty((0, 2), np.int64)
    loose = products_of(trace, calls).where(_is_independent)
    same = np.ones(len(calls.kernel) - 1, bool)
    for values in (calls.name, calls.signature, _callers(trace, calls.op), trace.slices.lane[calls.kernel]):
        same &= values[1:] == values[:-1]
    edges = np.concatenate([[0], np.flatnonzero(~same) + 1, [len(calls.kernel)]]).astype(np.int64)
    first, last = edges[:-1], edges[1:]
    run = np.repeat(np.arange(len(first)), last - first)
    kept = loose[first] & (last - first >= MIN_LOOP_CALLS)
    kept &= group(run).median(trace.slices.dur[calls.kernel]) <= MAX_LOOP_PRODUCT_NS
    return np.stack([first[kept], last[kept]], axis=1)


def _callers(trace: Trace, ops: Int64) -> Int64:
    """What the outermost operator around each operator was called by: a frame, an annotation or -1."""
    caller = ops.copy()
    while (climbing := (caller >= 0) & (trace.slices.kind[caller] == Kind.CPU_OP)).any():
        caller[climbing] = trace.slices.parent[caller[climbing]]
    return caller


def _is_independent(product: Product) -> bool:
    """Whether the result cannot be an operand of the next product, because its sizes are others."""
    result = (product.rows, product.columns)
    return result not in ((product.rows, product.depth), (product.depth, product.columns))
