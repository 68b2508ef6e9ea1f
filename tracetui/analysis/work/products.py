"""Matrix products: operations and traffic of `mm`, `addmm`, `bmm` and the like, from the shapes of their inputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tracetui.analysis.operators.signatures import Signature
from tracetui.analysis.work.operands import NOTHING, Operands, Shape, Work, total
from tracetui.analysis.work.tensor_types import precision_of, size_of, type_of_code

Values = Sequence[str] | None


def product(op: str, signature: Signature, values: Values = None) -> Work | None:
    """The work of a matrix product, None for an operator that is none."""
    rule = _RULES.get(op)
    return rule(Operands(signature), values) if rule else None


def _plain(first: int, bias: bool) -> Callable[[Operands, Values], Work]:
    """A product of inputs `first` and the next, in front of which a bias may stand."""

    def work(inputs: Operands, values: Values) -> Work:
        left, right = inputs.shape(first), inputs.shape(first + 1)
        flops = _product_flops(left, right)
        if flops is None or left is None or right is None:
            return NOTHING
        kind = inputs.type(first)
        written = _times(math.prod((*left[:-1], *right[-1:])), kind)
        traffic = total(inputs.bytes(first), inputs.bytes(first + 1), written)
        if bias and not _is_nothing(values):
            traffic = total(traffic, inputs.bytes(first - 1))
        return Work(flops, traffic, precision_of(kind))

    return work


def _vector(first: int) -> Callable[[Operands, Values], Work]:
    """A matrix or a vector times a vector."""

    def work(inputs: Operands, _: Values) -> Work:
        left, right = inputs.shape(first), inputs.shape(first + 1)
        if not left or not right or len(right) != 1 or left[-1] != right[0] or len(left) > 2:
            return NOTHING
        written = _times(math.prod(left[:-1]), inputs.type(first))
        traffic = total(inputs.bytes(first), inputs.bytes(first + 1), written)
        return Work(2.0 * math.prod(left), traffic, precision_of(inputs.type(first)))

    return work


def _scaled(inputs: Operands, values: Values) -> Work:
    """`_scaled_mm` of 8 or 4 bits; scales count for nothing, the result has the type that was asked for."""
    left, right = inputs.shape(0), inputs.shape(1)
    flops = _product_flops(left, right)
    if flops is None or left is None or right is None:
        return NOTHING
    kind = inputs.type(0)
    precision = precision_of(kind)
    # Of two packed values per byte the shapes count bytes, along the dimension that is summed over.
    flops *= 2 if precision == "fp4" else 1
    asked = _result_type(values)
    written = _times(left[0] * right[1], asked) if asked else None
    return Work(flops, total(inputs.bytes(0), inputs.bytes(1), written), precision)


def _whole(inputs: Operands, _: Values) -> Work:
    """`_int_mm`: 8 bits in, 32 bits out."""
    left, right = inputs.shape(0), inputs.shape(1)
    flops = _product_flops(left, right)
    if flops is None or left is None or right is None:
        return NOTHING
    return Work(flops, total(inputs.bytes(0), inputs.bytes(1), left[0] * right[1] * 4.0), "int8")


def _grouped(inputs: Operands, _: Values) -> Work:
    """`_grouped_mm`: every row meets one of the matrices; an upper bound where the groups leave rows out."""
    left, right = inputs.shape(0), inputs.shape(1)
    if not left or not right or len(left) != 2 or len(right) != 3 or left[1] != right[1]:
        return NOTHING
    written = _times(left[0] * right[2], inputs.type(0))
    traffic = total(inputs.bytes(0), inputs.bytes(1), written)
    return Work(2.0 * left[0] * left[1] * right[2], traffic, precision_of(inputs.type(0)))


def _product_flops(left: Shape | None, right: Shape | None) -> float | None:
    """2MNK, or 2BMNK with a batch; None where the shapes are not those of a product."""
    if not left or not right or len(left) != len(right) or len(left) not in (2, 3):
        return None
    if left[-1] != right[-2] or left[:-2] != right[:-2]:
        return None
    return 2.0 * math.prod(left) * right[-1]


def _is_nothing(values: Values) -> bool:
    """Whether the bias is multiplied by 0, which is the fourth argument: then it is not read."""
    return values is not None and len(values) > 3 and values[3] in ("0", "0.", "0.0")


def _times(count: int, kind: str) -> float | None:
    size = size_of(kind)
    return None if size is None else count * size


def _result_type(values: Values) -> str | None:
    """The type that `_scaled_mm` was asked for: the seventh argument, a number of `ScalarType`."""
    return type_of_code(values[6]) if values is not None and len(values) > 6 else None


_RULES: dict[str, Callable[[Operands, Values], Work]] = {
    "aten::mm": _plain(0, bias=False),
    "aten::bmm": _plain(0, bias=False),
    "aten::addmm": _plain(1, bias=True),
    "aten::addmm_": _plain(1, bias=True),
    "aten::_addmm_activation": _plain(1, bias=True),
    "aten::baddbmm": _plain(1, bias=True),
    "aten::baddbmm_": _plain(1, bias=True),
    "aten::mv": _vector(0),
    "aten::dot": _vector(0),
    "aten::addmv": _vector(1),
    "aten::addmv_": _vector(1),
    "aten::_scaled_mm": _scaled,
    "aten::_int_mm": _whole,
    "aten::_grouped_mm": _grouped,
}
PRODUCTS_NEEDING_VALUES = frozenset({"aten::_scaled_mm", *(name for name in _RULES if "add" in name)})
"""Operators of which the values of arguments decide too."""
