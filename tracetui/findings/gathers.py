"""Rule about index operators that copy a matrix of weights for each token before a batched product."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tracetui.devices.operands import size_of
from tracetui.findings.calls import Calls, calls_of, products_of, shape_of
from tracetui.findings.finding import Finding
from tracetui.findings.launches import kernel_time
from tracetui.findings.scope import Scope, longest
from tracetui.model.intervals import Int64
from tracetui.model.quantities import counted, size

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
