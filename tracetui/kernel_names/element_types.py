"""Element types as C++ and BLAS libraries write them, and shapes of matrix instructions in names."""

from __future__ import annotations

import re

from tracetui.lazy_pattern import lazy_pattern

SHAPES = {
    "884": "8x8x4",
    "1684": "16x8x4",
    "1688": "16x8x8",
    "16816": "16x8x16",
    "16832": "16x8x32",
    "16864": "16x8x64",
    "8816": "8x8x16",
    "8832": "8x8x32",
    "161616": "16x16x16",
    "32816": "32x8x16",
    "83216": "8x32x16",
}
"""MxNxK of the digits in `s16816gemm`."""

ACCUMULATORS = {"s": "f32", "h": "f16", "d": "f64", "i": "i32", "c": "c64", "z": "c128", "q": "f8"}
"""Accumulator type by the letter before the instruction."""

CONVOLUTIONS = {"fprop": "forward", "dgrad": "dgrad", "wgrad": "wgrad", "deconv": "deconvolution"}
"""What a convolution computes: the output, the gradient of the input or that of the weight."""

RELU_CAPABLE = "relu-capable"
MISALIGNED = "align {}: misaligned shapes, slow path"
"""Warning for operands with an alignment of one or two elements."""


def shape_of(digits: str | None) -> str | None:
    """MxNxK for the digits of an instruction, None where they are not known."""
    return SHAPES.get(digits) if digits else None


def misalignment(align: int | None) -> tuple[str, ...]:
    """The warning for a kernel that loads one or two elements at a time."""
    return (MISALIGNED.format(align),) if align is not None and align <= 2 else ()


def sizes(text: str | None) -> tuple[int, ...]:
    """`128x64x32` as numbers."""
    return tuple(int(part) for part in text.split("x")) if text else ()


_CPP = {
    "c10::BFloat16": "bf16",
    "__nv_bfloat16": "bf16",
    "nv_bfloat16": "bf16",
    "__hip_bfloat16": "bf16",
    "hip_bfloat16": "bf16",
    "cutlass::bfloat16_t": "bf16",
    "std::bfloat16_t": "bf16",
    "at::BFloat16": "bf16",
    "c10::Half": "f16",
    "at::Half": "f16",
    "__half": "f16",
    "half": "f16",
    "_Float16": "f16",
    "cutlass::half_t": "f16",
    "cutlass::tfloat32_t": "tf32",
    "c10::Float8_e4m3fn": "f8e4m3",
    "c10::Float8_e4m3fnuz": "f8e4m3",
    "__nv_fp8_e4m3": "f8e4m3",
    "cutlass::float_e4m3_t": "f8e4m3",
    "c10::Float8_e5m2": "f8e5m2",
    "c10::Float8_e5m2fnuz": "f8e5m2",
    "__nv_fp8_e5m2": "f8e5m2",
    "cutlass::float_e5m2_t": "f8e5m2",
    "cutlass::float_e2m1_t": "f4e2m1",
    "c10::complex<float>": "c64",
    "c10::complex<double>": "c128",
    "float": "f32",
    "double": "f64",
    "long long": "i64",
    "long": "i64",
    "int64_t": "i64",
    "int": "i32",
    "int32_t": "i32",
    "short": "i16",
    "signed char": "i8",
    "int8_t": "i8",
    "char": "i8",
    "unsigned char": "u8",
    "uint8_t": "u8",
    "unsigned short": "u16",
    "unsigned int": "u32",
    "unsigned long long": "u64",
    "unsigned long": "u64",
    "bool": "bool",
}
_BRIEF = {
    "bf16": "bf16",
    "f16": "f16",
    "fp16": "f16",
    "f32": "f32",
    "fp32": "f32",
    "tf32": "tf32",
    "f64": "f64",
    "fp64": "f64",
    "e4m3": "f8e4m3",
    "e5m2": "f8e5m2",
    "f8e4m3": "f8e4m3",
    "f8e5m2": "f8e5m2",
    "e2m1": "f4e2m1",
    "mxfp4": "mxfp4",
    "ue8m0": "ue8m0",
    "ue4m3": "ue4m3",
    "fp8": "f8",
    "s8": "i8",
    "i8": "i8",
    "int8": "i8",
    "u8": "u8",
    "s32": "i32",
    "i32": "i32",
    "u32": "u32",
    "i64": "i64",
    "u64": "u64",
    "float": "f32",
    "half": "f16",
    "double": "f64",
    "int8_t": "i8",
    "uint8_t": "u8",
    "int32_t": "i32",
    "uint32_t": "u32",
    "int64_t": "i64",
    "uint64_t": "u64",
    "bfloat16": "bf16",
    "float16": "f16",
    "c32": "c64",
    "cf32": "c64",
    "cf64": "c128",
}
FLOATS = frozenset({"bf16", "f16", "f32", "tf32", "f64", "f8e4m3", "f8e5m2", "f4e2m1", "f8", "c64", "c128"})
"""Types that hold values, not indices or counts."""

SIXTEEN_BIT = frozenset({"bf16", "f16"})

BRIEF = r"(?:bf16|tf32|fp?\d{1,2}|u?e\dm\d|mxfp\d|[usi]\d{1,2}|int\d|cf?\d{2})"
"""Pattern of the spellings that libraries use within a name."""

_QUALIFIER = lazy_pattern(r"\bconst\b|\bvolatile\b|[*&]")
_CUTLASS = lazy_pattern(r"cutlass_\w*::")
_OPAQUE = lazy_pattern(r"OpaqueType<(\d+)")
_CPP_PATTERN = lazy_pattern(
    r"(?<![\w:])(?:" + "|".join(sorted(map(re.escape, _CPP), key=len, reverse=True)) + r")(?![\w:<])"
)


def cpp_type(text: str) -> str | None:
    """The short name of a C++ type such as `c10::BFloat16 const*`; None for what is no element type."""
    spelling = _CPP.get(text)
    if spelling is not None:
        return spelling
    plain = _CUTLASS.sub("cutlass::", _QUALIFIER.sub("", text)).strip()
    if plain in _CPP:
        return _CPP[plain]
    opaque = _OPAQUE.search(plain) if plain.endswith(">") and "<" in plain else None
    return f"{opaque.group(1)}-byte" if opaque else None


def brief_type(text: str | None) -> str | None:
    """The short name of a type as libraries write it within a name: `fp16`, `e4m3`, `s8`."""
    return _BRIEF.get(text) if text else None


def types_in(text: str) -> list[str]:
    """The short names of all C++ types in a text, in order."""
    return [_CPP[word] for word in _CPP_PATTERN.findall(_CUTLASS.sub("cutlass::", text))]


def first_float(types: list[str]) -> str | None:
    """The first type that holds values, else the first of all; libraries put index types first."""
    return next((kind for kind in types if kind in FLOATS), types[0] if types else None)
