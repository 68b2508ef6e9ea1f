"""Shapes of matrix instructions as libraries squeeze them into names, and the letters of accumulators."""

from __future__ import annotations

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
"""Type that the letter before the instruction accumulates in."""

CONVOLUTIONS = {"fprop": "forward", "dgrad": "dgrad", "wgrad": "wgrad", "deconv": "deconvolution"}
"""What a convolution computes: the output, the gradient of the input or that of the weight."""

RELU_CAPABLE = "relu-capable"
MISALIGNED = "align {}: misaligned shapes, slow path"
"""Warning for operands that need no alignment, or next to none."""


def shape_of(digits: str | None) -> str | None:
    """MxNxK for the digits of an instruction, None where they are not known."""
    return SHAPES.get(digits) if digits else None


def misalignment(align: int | None) -> tuple[str, ...]:
    """The warning for a kernel that loads one or two elements at a time."""
    return (MISALIGNED.format(align),) if align is not None and align <= 2 else ()


def sizes(text: str | None) -> tuple[int, ...]:
    """`128x64x32` as numbers."""
    return tuple(int(part) for part in text.split("x")) if text else ()
