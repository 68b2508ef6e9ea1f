"""Rule about attention that writes all its scores to memory: a softmax between two batched products."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from tracetui.devices.formulas import size_of
from tracetui.devices.residency import configuration
from tracetui.findings.launches import Calls, Product, Products, calls_of, kernel_time, products_of, shape_of
from tracetui.findings.scope import Finding, Scope, longest
from tracetui.kernel_names import Family, decode
from tracetui.linking.groups import combinations
from tracetui.linking.lanes import is_named
from tracetui.model.intervals import Bool, Int64
from tracetui.model.quantities import counted, duration, size
from tracetui.model.trace import Trace

MAX_BETWEEN = 6
"""Maximum kernels (scale, mask, dropout, copies) between a product and its softmax."""
MIN_SCORES = 16
"""Minimum columns of a matrix of scores."""
MIN_BATCH = 4
"""Minimum depth of the grids of two neighbouring products that are taken for batched without their shapes."""
_BATCHED = ("aten::bmm", "aten::baddbmm", "aten::bmm_out", "aten::baddbmm_")
_ADVICE = (
    "torch.nn.functional.scaled_dot_product_attention computes this in one kernel that keeps the scores on the chip. "
)
_BACKENDS = (
    "Its FlashAttention backend takes any length and is_causal, the memory-efficient one also a mask, whose last "
    "dimension is then padded to a multiple of 8."
)


@dataclass(frozen=True, eq=False)
class Unfused:
    """Attention in separate kernels."""

    rows: Int64
    """All its kernels: products, softmax, and what lies between them."""
    softmax: Int64
    first: Product | None
    """The product whose scores took most room; None where no shapes tell."""
    has_more: bool
    """Whether other kernels, such as a mask, lie between the products."""


def attention_unfused(scope: Scope) -> Iterator[Finding]:
    """A softmax over all scores runs between two batched products."""
    trace, slices = scope.trace, scope.trace.slices
    unfused = unfused_attention(scope)
    fused = scope.computing[is_named(trace, scope.computing, _is_fused)]
    spent = int(slices.dur[unfused.rows].sum())
    if len(unfused.rows) == 0 or int(slices.dur[fused].sum()) >= spent:
        return
    softmax = int(slices.dur[unfused.softmax].sum())
    scores = _scores(unfused.first)
    odd = unfused.first is not None and unfused.first.columns % 8 != 0
    yield from scope.priced(
        "attention-unfused",
        scope.gpu_cost(unfused.rows),
        "Attention runs as separate kernels: a softmax between two batched products",
        f"{kernel_time(scope, unfused.rows)}, of which {duration(softmax)} in "
        f"{counted(len(unfused.softmax), 'softmax kernel')}{scores}",
        _ADVICE + (_BACKENDS if odd or unfused.has_more else ""),
        int(unfused.softmax[np.argmax(slices.dur[unfused.softmax])]),
        action="call scaled_dot_product_attention",
    )


def unfused_attention(scope: Scope) -> Unfused:
    """The kernels of attention that is not fused."""
    trace = scope.trace
    order = scope.computing[np.lexsort((trace.slices.start[scope.computing], trace.slices.lane[scope.computing]))]
    softmax = is_named(trace, order, _is_softmax)
    product = is_named(trace, order, _is_product)
    middle = np.flatnonzero(softmax)
    before, after = _neighbours(trace, order, product, softmax, middle)
    both = (before >= 0) & (after >= 0)
    middle, before, after = middle[both], before[both], after[both]
    if len(middle) == 0:
        return Unfused(order[:0], order[:0], None, False)
    left, right = calls_of(scope, order[before]), calls_of(scope, order[after])
    firsts, seconds = products_of(trace, left), products_of(trace, right)
    proven = _proven(trace, left, right, firsts, seconds) | is_named(trace, order[middle], _is_masked)
    middle, before, after = middle[proven], before[proven], after[proven]
    marks = np.zeros(len(order) + 1, np.int64)
    np.add.at(marks, before, 1)
    np.add.at(marks, after + 1, -1)
    rows = order[np.cumsum(marks)[:-1] > 0]
    largest = max(firsts.used(proven), key=lambda each: each.batch * each.rows * each.columns, default=None)
    return Unfused(rows, order[middle], largest, bool((after - before > 2).any()))


def _neighbours(trace: Trace, order: Int64, product: Bool, softmax: Bool, middle: Int64) -> tuple[Int64, Int64]:
    """Indices of the products before and after each softmax with little between them, -1 for none."""
    count = len(order)
    index = np.arange(count)
    before = np.maximum.accumulate(np.where(product, index, -1))[middle]
    after = np.minimum.accumulate(np.where(product, index, count)[::-1])[::-1][middle]
    lane = trace.slices.lane[order]
    foreign = np.cumsum(~(product | softmax | is_named(trace, order, _may_lie_between)))
    several = np.cumsum(softmax)
    close = (before >= 0) & (after < count) & (middle - before <= MAX_BETWEEN) & (after - middle <= MAX_BETWEEN)
    last = np.minimum(after, count - 1)
    close &= (lane[before] == lane[middle]) & (lane[last] == lane[middle])
    close &= (foreign[last] == foreign[before]) & (several[last] - several[before] == 1)
    return np.where(close, before, -1), np.where(close, after, -1)


def _proven(trace: Trace, left: Calls, right: Calls, firsts: Products, seconds: Products) -> Bool:
    """Whether the second product takes what the first one makes, by shapes, else by batched products in a row."""
    pairs = combinations(left.name, left.signature, right.name, right.signature)
    one = np.array([_is_attention(firsts.of(call), seconds.of(call)) for call in pairs.first.tolist()], bool)
    setup = configuration(trace, np.concatenate([left.kernel, right.kernel]))
    depth = np.array([shape[2] if len(shape) > 2 else 1 for shape in setup.shapes] + [0])[setup.grid]
    first, second = depth[: len(left.kernel)], depth[len(left.kernel) :]
    unknown = (left.signature < 0) & (right.signature < 0)
    batched = [number for name in _BATCHED if (number := trace.names.find(name)) >= 0]
    by_op = np.isin(left.name, batched) & np.isin(right.name, batched)
    by_grid = (left.op < 0) & (right.op < 0) & (first == second) & (first >= MIN_BATCH)
    proven: Bool = one[pairs.member] | (unknown & (by_op | by_grid))
    return proven


def _is_attention(first: Product | None, second: Product | None) -> bool:
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


def _is_masked(name: str) -> bool:
    """Whether a softmax exists for attention alone."""
    return "masked_softmax" in name


@cache
def _is_product(name: str) -> bool:
    decoded = decode(name)
    return decoded.family == Family.GEMM and decoded.operation == "gemm"


@cache
def _may_lie_between(name: str) -> bool:
    decoded = decode(name)
    return decoded.family in (Family.POINTWISE, Family.COPY) or "helper" in decoded.operation


def _is_fused(name: str) -> bool:
    decoded = decode(name)
    return decoded.family == Family.ATTENTION and decoded.operation == "attention"


def _scores(product: Product | None) -> str:
    """The sizes of the scores and the bytes that they take, in words."""
    if product is None:
        return ""
    count = product.batch * product.rows * product.columns * (size_of(product.element) or 0)
    room = f", {size(count)}" if count else ""
    return f"; the largest scores, [{product.batch}, {product.rows}, {product.columns}]{room}"


# Rule about index operators that copy a matrix of weights for each token before a batched product.

GATHERING = ("aten::index", "aten::index_select", "aten::embedding")
"""Operators that copy rows, whose first input is what they copy from."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """A set of matrices from which an operator copies more than there are."""

    matrices: int
    rows: int
    columns: int
    copies: int
    """Copies that one call makes, which the product then reads."""
    element: str


def gather(scope: Scope) -> Iterator[Finding]:
    """An index operator copies a matrix of weights for each token, and a batched product reads the copies."""
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
    yield from scope.priced(
        "gather",
        scope.gpu_cost(rows),
        f"{trace.name_of(int(calls.op[0]))} copies a {what} for each token",
        f"{kernel_time(scope, rows)}; the longest makes {counted(source.copies, 'copy')} out of "
        f"[{source.matrices}, {source.rows}, {source.columns}], which a batched product then reads once",
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
    """For the sizes of the right operands of batched products the largest number of them in one product."""
    batches: dict[tuple[int, int], int] = {}
    for product in products_of(scope.trace, calls_of(scope, scope.computing)).used():
        for sizes in ((product.depth, product.columns), (product.columns, product.depth)):
            batches[sizes] = max(batches.get(sizes, 0), product.batch)
    return batches


def _source(calls: Calls, signature: int, batches: dict[tuple[int, int], int]) -> Gathered | None:
    """What a call copies from, where a product reads more copies of its matrices than there are."""
    given = calls.known[signature]
    shape = shape_of(given.dims[0]) if given.dims else None
    if shape is None or len(shape) != 3 or min(shape) < 2:
        return None
    copies = batches.get((shape[1], shape[2]), 0)
    element = given.types[0] if given.types else ""
    return Gathered(*shape, copies, element) if copies > shape[0] else None
