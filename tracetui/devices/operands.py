"""The tensors of a call from its signature: sizes, bytes, result type, and the precision of its products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tracetui.operators.signatures import Signature

_SIZES = {
    "bool": 1.0,
    "unsigned char": 1.0,
    "signed char": 1.0,
    "char": 1.0,
    "short": 2.0,
    "int": 4.0,
    "unsigned int": 4.0,
    "long": 8.0,
    "unsigned long": 8.0,
    "Half": 2.0,
    "BFloat16": 2.0,
    "float": 4.0,
    "double": 8.0,
    "complex<Half>": 4.0,
    "complex<float>": 8.0,
    "complex<double>": 16.0,
    # Two values in a byte; a dimension counts bytes.
    "Float4_e2m1fn_x2": 1.0,
}
_PRECISIONS = {
    "Half": "fp16",
    "BFloat16": "fp16",
    "float": "fp32",
    "signed char": "int8",
    "char": "int8",
    "Float4_e2m1fn_x2": "fp4",
}
_CODES = {5: "Half", 6: "float", 7: "double", 15: "BFloat16", 23: "Float8_e5m2", 24: "Float8_e4m3fn"}
"""Types by the number of `ScalarType` in the values of arguments."""


def plain_type(text: str) -> str:
    """A type without its namespace, and `long int` as `long`."""
    name = text.replace("c10::", "").removeprefix("at::")
    return name.removesuffix(" int") if name not in ("unsigned int", "int") else name


def type_of_code(text: str) -> str | None:
    """The type of a number of PyTorch's `ScalarType`, None for an unknown one."""
    return _CODES.get(int(text)) if text.isdecimal() else None


def size_of(text: str) -> float | None:
    """Bytes of an element, None for an unknown type or anything else."""
    name = plain_type(text)
    return 1.0 if name.startswith("Float8") else _SIZES.get(name)


def precision_of(text: str) -> str:
    """The column of `peaks.PRECISIONS` for products of such tensors, empty for none."""
    name = plain_type(text)
    return "fp8" if name.startswith("Float8") else _PRECISIONS.get(name, "")


def is_floating(text: str) -> bool:
    """Whether it is a floating-point type."""
    name = plain_type(text)
    return name in ("float", "double", "Half", "BFloat16") or name.startswith(("Float", "complex"))


Shape = tuple[int, ...]

MAX_ELEMENTS = 1 << 62
"""Maximum elements of a plausible tensor."""


@dataclass(frozen=True, slots=True)
class Work:
    """The work of one operator call; None is unknown."""

    flops: float | None = None
    """Floating-point operations, a multiplication and an addition being two."""
    bytes: float | None = None
    """Minimum memory traffic: every input read once, every output written once."""
    precision: str = ""
    """The applicable peak rate, one of `peaks.PRECISIONS`, before the kernel's name is considered."""


NOTHING = Work()


class Operands:
    """The inputs of a signature, validated: a trace may hold anything."""

    def __init__(self, signature: Signature) -> None:
        self._signature = signature

    def shape(self, index: int) -> Shape | None:
        """The sizes of an input; empty for a scalar, None where there is no such input or it is no tensor."""
        if index >= len(self._signature.dims):
            return None
        return _shape(self._signature.dims[index])

    def type(self, index: int) -> str:
        """The type of an input, empty where it was not recorded."""
        return self._signature.types[index] if index < len(self._signature.types) else ""

    def bytes(self, index: int) -> float | None:
        """Bytes of an input; None where its type or its sizes are unknown."""
        shape, size = self.shape(index), size_of(self.type(index))
        return None if shape is None or size is None else math.prod(shape) * size

    def result_type(self, indices: Sequence[int]) -> str:
        """The type that operators give to a result of these inputs: tensors decide before scalars, fractions before
        whole numbers, more bytes before fewer."""
        kinds = [(bool(self.shape(index)), self.type(index)) for index in indices if size_of(self.type(index))]
        if not kinds:
            return ""
        tensors = [kind for is_tensor, kind in kinds if is_tensor]
        if any(map(is_floating, tensors)) or not any(is_floating(kind) for _, kind in kinds):
            kinds = [(True, kind) for kind in tensors] or kinds
        return max((kind for _, kind in kinds), key=lambda kind: (is_floating(kind), size_of(kind) or 0))


def broadcast(shapes: Sequence[Shape]) -> Shape | None:
    """The broadcast shape, None where the shapes do not fit."""
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
    return value if math.prod(value) < MAX_ELEMENTS else None
