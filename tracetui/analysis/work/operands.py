"""The tensors of a call, read from its signature: sizes, bytes, the type of the result."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tracetui.analysis.operators.signatures import Signature
from tracetui.analysis.work.tensor_types import is_floating, size_of

Shape = tuple[int, ...]

MOST_ELEMENTS = 1 << 62
"""A tensor with more is a fault of the trace."""


@dataclass(frozen=True, slots=True)
class Work:
    """What one call of an operator has to do; None is unknown."""

    flops: float | None = None
    """Floating-point operations, a multiplication and an addition being two."""
    bytes: float | None = None
    """The least traffic with memory: every input read once, every output written once."""
    precision: str = ""
    """Which peak rate applies, one of `peaks.PRECISIONS`, before the kernel's name is asked."""


NOTHING = Work()


class Operands:
    """A signature with checks: a trace may hold anything."""

    def __init__(self, signature: Signature) -> None:
        self._signature = signature

    def shape(self, place: int) -> Shape | None:
        """The sizes of an input; empty for a scalar, None where there is no such input or it is no tensor."""
        if place >= len(self._signature.dims):
            return None
        return _shape(self._signature.dims[place])

    def type(self, place: int) -> str:
        """The type of an input, empty where it was not recorded."""
        return self._signature.types[place] if place < len(self._signature.types) else ""

    def bytes(self, place: int) -> float | None:
        """Bytes of an input; None where its type or its sizes are not known."""
        shape, size = self.shape(place), size_of(self.type(place))
        return None if shape is None or size is None else math.prod(shape) * size

    def result_type(self, places: Sequence[int]) -> str:
        """The type that operators give to a result of these inputs: tensors decide before scalars, fractions before
        whole numbers, more bytes before fewer."""
        kinds = [(bool(self.shape(place)), self.type(place)) for place in places if size_of(self.type(place))]
        if not kinds:
            return ""
        tensors = [kind for is_tensor, kind in kinds if is_tensor]
        if any(map(is_floating, tensors)) or not any(is_floating(kind) for _, kind in kinds):
            kinds = [(True, kind) for kind in tensors] or kinds
        return max((kind for _, kind in kinds), key=lambda kind: (is_floating(kind), size_of(kind) or 0))


def broadcast(shapes: Sequence[Shape]) -> Shape | None:
    """The shape that these become together, None where they do not fit."""
    longest = max((len(shape) for shape in shapes), default=0)
    padded = [(1,) * (longest - len(shape)) + shape for shape in shapes]
    together = []
    for sizes in zip(*padded, strict=True):
        wide = {size for size in sizes if size != 1}
        if len(wide) > 1:
            return None
        together.append(wide.pop() if wide else 1)
    return tuple(together)


def total(*parts: float | None) -> float | None:
    """The sum, None where a part is unknown."""
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def _shape(value: object) -> Shape | None:
    if not isinstance(value, tuple) or not all(type(size) is int and size >= 0 for size in value):
        return None
    return value if math.prod(value) < MOST_ELEMENTS else None
