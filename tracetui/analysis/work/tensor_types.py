"""Types of tensors as the profiler writes them: how many bytes an element has, and which units compute with it."""

from __future__ import annotations

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
"""Numbers of `ScalarType` in the values of arguments."""


def plain_type(text: str) -> str:
    """A type without its namespace, and `long int` as `long`."""
    name = text.replace("c10::", "").removeprefix("at::")
    return name.removesuffix(" int") if name not in ("unsigned int", "int") else name


def type_of_code(text: str) -> str | None:
    """The type that a number of PyTorch's `ScalarType` stands for, None where it is none of those known here."""
    return _CODES.get(int(text)) if text.isdecimal() else None


def size_of(text: str) -> float | None:
    """Bytes of an element, None for what is no type of a tensor or is not known."""
    name = plain_type(text)
    return 1.0 if name.startswith("Float8") else _SIZES.get(name)


def precision_of(text: str) -> str:
    """The column of `peaks.PRECISIONS` for products of such tensors, empty where there is none."""
    name = plain_type(text)
    return "fp8" if name.startswith("Float8") else _PRECISIONS.get(name, "")


def is_floating(text: str) -> bool:
    """Whether the type holds fractions."""
    name = plain_type(text)
    return name in ("float", "double", "Half", "BFloat16") or name.startswith(("Float", "complex"))
