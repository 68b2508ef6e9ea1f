"""Rule about index operators that copy a matrix of weights for each token before a batched product."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tracetui.analysis.findings.calls import Calls, calls_of, products_of, shape_of
from tracetui.analysis.findings.finding import Finding
from tracetui.analysis.findings.launches import kernel_time
from tracetui.analysis.findings.scope import Scope, longest
from tracetui.analysis.work.operands import size_of
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
    rows, sources = gathered(scope)
    if len(rows) == 0:
        return
    example = longest(trace, rows)
    position = int(np.flatnonzero(rows == example)[0])
    source = sources[position]
    calls = calls_of(scope, rows)
    each = math.prod((source.rows, source.columns)) * (size_of(source.element) or 0)
    what = f"matrix of {size(each)}" if each else "matrix"
    yield from scope.priced(
        "gather",
        scope.gpu_cost(rows),
        f"{trace.name_of(int(calls.op[position]))} copies a {what} for each token",
        f"{kernel_time(scope, rows)}; the longest makes {counted(source.copies, 'copy')} out of "
        f"[{source.matrices}, {source.rows}, {source.columns}], which a batched product then reads once",
        "Each copy is read, written and read again. Sort the tokens by expert and multiply each group with its weights "
        "where they are (a grouped GEMM, torch._grouped_mm), or loop over the experts.",
        example,
        action="sort tokens by expert and use a grouped GEMM",
    )


def gathered(scope: Scope) -> tuple[Int64, list[Gathered]]:
    """Kernels that copy weights for each token, and what each of them copies from."""
    trace = scope.trace
    wanted = [trace.names.find(name) for name in GATHERING]
    calls = calls_of(scope, scope.computing)
    batches = _batches(scope, calls)
    calls = calls.take(np.isin(calls.name, wanted) & (calls.name >= 0) & (calls.signature >= 0))
    sources = [_source(calls, signature, batches) for signature in range(len(calls.known))]
    found = [sources[signature] for signature in calls.signature.tolist()]
    keep = np.array([each is not None for each in found], bool)
    return calls.kernel[keep], [each for each in found if each is not None]


def _batches(scope: Scope, calls: Calls) -> dict[tuple[int, int], int]:
    """For the sizes of the right operands of batched products the largest number of them in one product."""
    batches: dict[tuple[int, int], int] = {}
    for product in {each for each in products_of(scope.trace, calls) if each is not None and each.batch > 1}:
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
