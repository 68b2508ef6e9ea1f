"""GPU activities by what was around their launch, and whether launches hold the program up."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from tracetui.findings.idle_time import idle_cost, launching_parts
from tracetui.findings.scope import Scope
from tracetui.idle.gpu_spans import communicates
from tracetui.linking.groups import combinations
from tracetui.linking.links import links, names_of
from tracetui.linking.trees import Axis, Stretches
from tracetui.model.intervals import Bool, Int64, covered, without
from tracetui.model.quantities import duration, rounded_percent
from tracetui.model.trace import Kind, Trace
from tracetui.operators.key_averages import Signature, signatures


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


# Operator calls of kernels with the shapes of their inputs, for rules that look at shapes.

Shape = tuple[int, ...]

FIRST_OPERANDS = {"aten::mm": 0, "aten::bmm": 0, "aten::matmul": 0, "aten::addmm": 1, "aten::baddbmm": 1}
FIRST_OPERANDS |= {"aten::linear": 0, "aten::_scaled_mm": 0, "aten::_int_mm": 0}
"""Operators of matrix products and the index of their left operand; the right one follows."""
MAX_SIZE = 1 << 40
"""Maximum size of a dimension of a plausible tensor."""
TRANSPOSED_RIGHT = ("aten::linear",)
"""Those whose right operand is [columns, depth]."""


@dataclass(frozen=True, eq=False)
class Calls:
    """The operator calls that launched some kernels; parallel arrays, one entry per kernel."""

    kernel: Int64
    """Rows of the kernels."""
    op: Int64
    """Row of the operator, -1 where it is not known."""
    name: Int64
    """Id of its name, -1 likewise."""
    signature: Int64
    """Index in `known`, -1 where no shapes were recorded."""
    known: list[Signature]

    def take(self, keep: np.ndarray[tuple[int], np.dtype[np.generic]]) -> Calls:
        """The calls of some of the kernels, by mask or index."""
        return Calls(self.kernel[keep], self.op[keep], self.name[keep], self.signature[keep], self.known)


def calls_of(scope: Scope, kernels: Int64) -> Calls:
    """The operator calls of kernels that no graph replayed."""
    trace = scope.trace
    trace_links = links(trace)
    replayed = np.zeros(len(trace.slices), bool)
    replayed[trace_links.launched[np.repeat(trace_links.counts > 1, trace_links.counts)]] = True
    op = np.where(replayed[kernels], -1, trace_links.owner[kernels]).astype(np.int64)
    inputs = signatures(trace, op)
    return Calls(kernels, op, names_of(trace, op), np.where(op >= 0, inputs.id, -1), inputs.known)


@dataclass(frozen=True, slots=True)
class Product:
    """Sizes of a matrix product: `batch` times [rows, depth] x [depth, columns]."""

    batch: int
    rows: int
    depth: int
    columns: int
    element: str
    """Type of the elements as recorded, empty where it was not."""

    @property
    def text(self) -> str:
        """The sizes in words: `[16, 5185, 64] x [16, 64, 5185]`."""
        batch = [self.batch] if self.batch > 1 else []
        return f"{[*batch, self.rows, self.depth]} x {[*batch, self.depth, self.columns]}"


def product_of(name: str, signature: Signature) -> Product | None:
    """The matrix product that a call computes; None for any other operator and for shapes that do not fit."""
    first = FIRST_OPERANDS.get(name)
    if first is None or len(signature.dims) < first + 2:
        return None
    left, right = shape_of(signature.dims[first]), shape_of(signature.dims[first + 1])
    if left is None or right is None or len(left) < 2 or len(right) < 2:
        return None
    if name in TRANSPOSED_RIGHT:
        right = (*right[:-2], right[-1], right[-2])
    if left[-1] != right[-2] or not math.prod(left) * right[-1]:
        return None
    rows, batch = (left[-2], math.prod(left[:-2])) if len(right) > 2 else (math.prod(left[:-1]), 1)
    element = signature.types[first] if len(signature.types) > first else ""
    return Product(batch, rows, left[-1], right[-1], element)


@dataclass(frozen=True, eq=False)
class Products:
    """The matrix products of some calls."""

    known: list[Product | None]
    """The product of each distinct operator and signature."""
    index: Int64
    """Index in `known` of each call."""

    def where(self, wanted: Callable[[Product], bool]) -> Bool:
        """Mask of the calls whose product satisfies `wanted`."""
        mask: Bool = np.array([each is not None and wanted(each) for each in self.known], bool)[self.index]
        return mask

    def of(self, call: int) -> Product | None:
        """The product of a call by its position."""
        return self.known[int(self.index[call])]

    def used(self, calls: Bool | None = None) -> list[Product]:
        """The distinct products of all calls or of some of them."""
        index = np.unique(self.index if calls is None else self.index[calls])
        return [product for number in index.tolist() if (product := self.known[number]) is not None]


def products_of(trace: Trace, calls: Calls) -> Products:
    """The product of each call, computed once per operator and signature."""
    pairs = combinations(calls.name, calls.signature)
    return Products([_one(trace, calls, call) for call in pairs.first.tolist()], pairs.member)


def _one(trace: Trace, calls: Calls, call: int) -> Product | None:
    name, signature = int(calls.name[call]), int(calls.signature[call])
    return product_of(trace.names[name], calls.known[signature]) if name >= 0 and signature >= 0 else None


def shape_of(dims: Iterable[object]) -> Shape | None:
    """Sizes of a tensor; None for a list of tensors, and for what are no sizes."""
    sizes = [_size(each) for each in dims]
    known = tuple(size for size in sizes if size is not None)
    return known if len(known) == len(sizes) else None


def _size(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < MAX_SIZE else None
