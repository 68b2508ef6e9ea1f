"""Amounts of work of two sides: tokens, batch, context and sizes of images, as far as they were recorded (R3.53).

A time of 16,384 tokens beside one of 1,024 is no speed-up. Sizes come from the shapes of operators whose weights are
the same on both sides, as GEMMs with one K and N, convolutions with one weight, attention of as many heads;
of a server from the names of its steps. A size differs where each side has one that the other lacks altogether, so that
operators that only one side recorded make no difference.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from tracetui.comparing.change_rows import Total
from tracetui.comparing.noise import BEYOND_NOISE, representative
from tracetui.comparing.side import STEP, Side, kept_with_side
from tracetui.devices.formulas import Operands
from tracetui.frozen import frozen
from tracetui.kernel_names import Family, decode
from tracetui.linking.groups import combinations
from tracetui.linking.links import op_rows
from tracetui.linking.step_kinds import step_kinds
from tracetui.linking.steps import steps
from tracetui.model.table import NULL
from tracetui.operators.key_averages import signatures

MIN_SIZE_CHANGE = 0.01
"""Minimum relative difference of two sizes: below it times are not called different either."""
MIN_CONTEXT_CHANGE = 0.05
"""The same of contexts, which grow by a token in each step."""
MAX_CALL_CHANGE = 0.1
"""Maximum relative difference between the ratio of a size per call and that per part, for times per token to be told:
beyond it one side makes more calls of that size."""
MIN_WORK_SHARE = 0.5
"""Minimum share of the operations with the same weights of which a size differs: experts get other rows every time."""
MIN_TYPE_SHARE = 0.05
"""Minimum share of a type in the time of GEMMs, convolutions and attention for a side to use it."""

TOKENS, ROWS, BATCH, CONTEXT, PIXELS, REQUESTS = "tokens", "rows", "batch", "context", "pixels", "requests"
_WORDS = {
    TOKENS: "{} tokens",
    ROWS: "{} rows of its GEMMs",
    BATCH: "batch {}",
    CONTEXT: "context {}",
    PIXELS: "{} pixels of its convolutions",
    REQUESTS: "{} requests",
}
"""Sizes in words, in the order in which they are told."""
_UNITS = {TOKENS: "token", ROWS: "row", PIXELS: "pixel", BATCH: "sample", REQUESTS: "request"}
"""Sizes by which a time is divided, the first that differs."""


class _Call(NamedTuple):
    """The sizes of one call, for the weights that it has."""

    weights: tuple[Any, ...]
    operations: float
    sizes: Mapping[str, int]


def _product(first: int) -> Callable[[Operands], _Call | None]:
    """A matrix of activations times one of weights."""

    def rule(inputs: Operands) -> _Call | None:
        left, right = inputs.shape(first), inputs.shape(first + 1)
        if not left or not right or len(left) != 2 or len(right) != 2 or left[1] != right[0]:
            return None
        return _Call((ROWS, *right), math.prod(left) * right[1], {ROWS: left[0]})

    return rule


def _convolution(inputs: Operands) -> _Call | None:
    """A batch of images and a weight."""
    given, weight = inputs.shape(0), inputs.shape(1)
    if not given or not weight or len(given) != len(weight) or len(given) < 3:
        return None
    sizes = {BATCH: given[0], PIXELS: given[0] * math.prod(given[2:])}
    return _Call((PIXELS, *weight), sizes[PIXELS] * math.prod(weight), sizes)


def _attention(inputs: Operands) -> _Call | None:
    """Queries and keys, heads before positions."""
    query, key = inputs.shape(0), inputs.shape(1)
    if not query or not key or len(query) != 4 or len(key) != 4:
        return None
    batch, heads, length, width = query
    sizes = {TOKENS: batch * length, BATCH: batch, **({CONTEXT: key[2]} if key[2] != length else {})}
    return _Call((TOKENS, heads, width), math.prod(query) * key[2], sizes)


_RULES: dict[str, Callable[[Operands], _Call | None]] = {
    "mm": _product(0),
    "_scaled_mm": _product(0),
    "addmm": _product(1),
    "convolution": _convolution,
    "scaled_dot_product_attention": _attention,
    "_scaled_dot_product_flash_attention": _attention,
    "_scaled_dot_product_efficient_attention": _attention,
    "_scaled_dot_product_cudnn_attention": _attention,
}
_WorkSizes = Mapping[tuple[Any, ...], Mapping[int, tuple[float, int]]]
"""For weights and the name of a size: the sizes that occur, each with its operations and its calls."""


@kept_with_side
def _work_sizes(side: Side) -> _WorkSizes:
    """The sizes of the calls in the representative part, found once."""
    trace = side.trace
    rows = op_rows(trace)
    rows = rows[side.part_of(rows) == representative(side)] if len(side) else rows[:0]
    given = signatures(trace, rows)
    groups = combinations(trace.slices.name[rows], given.id)
    often = np.bincount(groups.member, minlength=len(groups))
    sizes: dict[tuple[Any, ...], dict[int, tuple[float, int]]] = defaultdict(dict)
    for first, count in zip(groups.first.tolist(), often.tolist(), strict=True):
        rule, signature = _RULES.get(trace.name_of(int(rows[first])).removeprefix("aten::")), given.of(first)
        call = rule(Operands(signature)) if rule and signature else None
        if call is None or not call.operations:
            continue
        for name, size in call.sizes.items():
            known = sizes[*call.weights, name]
            done, calls = known.get(size, (0.0, 0))
            known[size] = done + count * call.operations, calls + count
    return sizes


@frozen(eq=True)
class SizeChange:
    """A size that differs."""

    name: str
    before: float
    after: float
    is_per_part: bool
    """The sizes of all calls of a part have the same ratio."""

    @property
    def words(self) -> str:
        """`1,024 → 16,384 tokens`."""
        return _WORDS[self.name].format(f"{self.before:,g} → {self.after:,g}")

    @property
    def ratio(self) -> float:
        """The size of B by that of A."""
        return self.after / self.before


def size_changes(a: Side, b: Side) -> list[SizeChange]:
    """The sizes that differ, in the order of `_WORDS`; empty where none does or none was recorded."""
    changed = {each.name: each for each in (*_by_shapes(a, b), *_by_names(a, b))}
    if TOKENS in changed:
        # Rows of GEMMs are tokens, or samples times tokens.
        changed.pop(ROWS, None)
    if PIXELS in changed and any(
        name in changed and math.isclose(changed[PIXELS].ratio, changed[name].ratio) for name in (TOKENS, BATCH)
    ):
        del changed[PIXELS]
    return [changed[name] for name in _WORDS if name in changed]


def _by_shapes(a: Side, b: Side) -> Iterator[SizeChange]:
    """For each size the weights with the most operations of which it differs, where most operations are of such."""
    left, right = _work_sizes(a), _work_sizes(b)
    largest: dict[str, tuple[float, SizeChange]] = {}
    whole, differing = defaultdict[str, float](float), defaultdict[str, float](float)
    for key in (key for key in left if key in right):
        mine, theirs, name = left[key], right[key], key[-1]
        operations = sum(done for each in (mine, theirs) for done, _ in each.values())
        whole[name] += operations
        before, after = _main_size(mine), _main_size(theirs)
        if before in theirs or after in mine or abs(after - before) <= MIN_SIZE_CHANGE * min(before, after):
            continue
        differing[name] += operations
        sums = [sum(size * calls for size, (_, calls) in each.items()) for each in (mine, theirs)]
        is_per_part = abs(sums[1] / sums[0] * before / after - 1) <= MAX_CALL_CHANGE
        if name not in largest or operations > largest[name][0]:
            largest[name] = operations, SizeChange(name, before, after, is_per_part)
    yield from (each for name, (_, each) in largest.items() if differing[name] >= MIN_WORK_SHARE * whole[name])


def _main_size(sizes: Mapping[int, tuple[float, int]]) -> int:
    """The size with the most operations, of several the least."""
    return min(sizes, key=lambda size: (-sizes[size][0], size))


def _by_names(a: Side, b: Side) -> Iterator[SizeChange]:
    """Tokens and requests of a server's steps, medians over the parts; none where a part does not tell."""
    if (a.part_kind, b.part_kind) != (STEP, STEP):
        return
    for name in _OF_STEPS:
        before, after = (_size_of_steps(side, name) for side in (a, b))
        least = MIN_CONTEXT_CHANGE if name == CONTEXT else MIN_SIZE_CHANGE
        if before is not None and after is not None and abs(after - before) > least * min(before, after):
            yield SizeChange(name, before, after, True)


_OF_STEPS = (REQUESTS, TOKENS, CONTEXT)
"""Sizes that the names of a server's steps tell."""


def _size_of_steps(side: Side, name: str) -> float | None:
    """Median of a size over the steps of a side, the context that of a request; None where a step does not tell."""
    kinds, mine = step_kinds(side.trace), np.isin(steps(side.trace).row, side.row)
    size = {REQUESTS: kinds.requests, TOKENS: kinds.tokens, CONTEXT: kinds.context}[name][mine]
    requests = kinds.requests[mine]
    if len(size) == 0 or (size == NULL).any() or size.min() <= 0:
        return None
    if name != CONTEXT:
        return float(np.median(size))
    return float(np.median(size / requests)) if (requests != NULL).all() and requests.min() > 0 else None


def same_work(a: Side, b: Side) -> str:
    """The sizes of a server's steps in words, `32 requests, 32 tokens`, where both sides have the same of each that is
    known; empty where they differ, where none is known, and where one is known of one side only.
    """
    if (a.part_kind, b.part_kind) != (STEP, STEP) or size_changes(a, b):
        return ""
    sizes = [(name, _size_of_steps(a, name), _size_of_steps(b, name)) for name in _OF_STEPS]
    if any((before is None) != (after is None) for _, before, after in sizes):
        return ""
    return ", ".join(_WORDS[name].format(f"{before:,g}") for name, before, _ in sizes if before is not None)


def work_ratios(a: Side, b: Side, totals: Mapping[str, Total]) -> list[UnitOfWork]:
    """The units that tell the work of a server's steps and differ: token, request, FLOP; the size of B by that of A."""
    changed = {each.name: each for each in _by_names(a, b)}
    units = [UnitOfWork(unit, changed[name].ratio) for name, unit in _UNITS.items() if name in changed]
    flops = totals.get("flops")
    if units and flops and flops.change in BEYOND_NOISE and flops.difference.a.median > 0:
        units.append(UnitOfWork("FLOP", flops.difference.ratio))
    return units


@frozen(eq=True)
class UnitOfWork:
    """A unit by which a time is divided where two sides did different amounts of work."""

    name: str
    """`token`, `FLOP`; empty where the sizes differ and nothing tells by how much the work does."""
    ratio: float
    """The size of B by that of A."""


def unit_of_work(a: Side, b: Side, totals: Mapping[str, Total]) -> UnitOfWork | None:
    """The unit by which times are to be divided; None where no size differs."""
    changed = {each.name: each for each in size_changes(a, b)}
    if not changed:
        return None
    flops = totals.get("flops")
    named = next(((changed[name], unit) for name, unit in _UNITS.items() if name in changed), None)
    if named and named[0].is_per_part:
        return UnitOfWork(named[1], named[0].ratio)
    if flops and flops.change in BEYOND_NOISE and flops.difference.a.median > 0:
        return UnitOfWork("FLOP", flops.difference.ratio)
    return UnitOfWork("", math.nan)


@kept_with_side
def types(side: Side) -> dict[str, float]:
    """Types that GEMMs, convolutions and attention read, by their names, and the share of each in their time.

    The largest share comes first.
    """
    rows, _ = side.activities()
    names, member = np.unique(side.trace.slices.name[rows], return_inverse=True)
    spent = np.bincount(member, side.times(rows), len(names))
    time: dict[str, float] = defaultdict(float)
    for name, ns in zip(names.tolist(), spent.tolist(), strict=True):
        kernel = decode(side.trace.names[name])
        if kernel.family in (Family.GEMM, Family.ATTENTION) and kernel.a and "helper" not in kernel.operation:
            time[kernel.a] += ns
    whole = sum(time.values())
    return {kind: ns / whole for kind, ns in sorted(time.items(), key=lambda item: -item[1])} if whole else {}


def type_change(a: Side, b: Side) -> tuple[str, str] | None:
    """The main types of both sides where neither side uses that of the other; None otherwise."""
    left, right = types(a), types(b)
    if not left or not right:
        return None
    before, after = next(iter(left)), next(iter(right))
    is_shared = right.get(before, 0.0) >= MIN_TYPE_SHARE or left.get(after, 0.0) >= MIN_TYPE_SHARE
    return None if is_shared else (before, after)
