"""Family and short name of slices, for lanes and tables; `names` decodes the whole name."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracetui.analysis.names import LAYOUT_CONVERSION, MAX_SHORT_NAME, OPERAND_CONVERSION, Family, decode
from tracetui.model.intervals import Int64
from tracetui.model.trace import GPU_WORK, Kind, Trace

__all__ = [
    "MAX_SHORT_NAME",
    "Family",
    "families",
    "families_by_name",
    "family",
    "is_layout_conversion",
    "is_operand_conversion",
    "short_kernel",
]


def family(name: str, kind: Kind) -> Family:
    """The family of a slice, from its kind and, for kernels, its name."""
    return decode(name, kind).family


def families(trace: Trace, rows: Int64) -> Int64:
    """The `Family` of each slice as a number."""
    slices = trace.slices
    return families_by_name(trace, rows)[slices.name[rows], slices.kind[rows]].astype(np.int64)


def families_by_name(trace: Trace, rows: Int64) -> NDArray[np.uint8]:
    """The `Family` of each name and kind among some slices; shape (names, kinds), every name decoded once.

    What runs on no device has the family of its kind, whatever it is called.
    """
    occurs = np.zeros((len(trace.names), len(Kind)), bool)
    occurs[trace.slices.name[rows], trace.slices.kind[rows]] = True
    occurs &= np.isin(list(Kind), GPU_WORK)
    found = np.tile(np.array([family("", kind) for kind in Kind], np.uint8), (len(occurs), 1))
    for name, kind in zip(*(ids.tolist() for ids in np.nonzero(occurs)), strict=True):
        found[name, kind] = family(trace.names[name], Kind(kind))
    return found


def is_layout_conversion(name: str) -> bool:
    """Whether a kernel only rearranges a tensor between NCHW and NHWC, as channels_last would save."""
    return decode(name).operation == LAYOUT_CONVERSION


def is_operand_conversion(name: str) -> bool:
    """Whether a kernel converts the element type of an operand for a product or convolution, as cuDNN does for TF32."""
    return decode(name).operation == OPERAND_CONVERSION


def short_kernel(name: str) -> str:
    """What a kernel does in at most 40 characters: `GEMM bf16 128x256x64 NN`, `add<bf16> vec4`."""
    return decode(name).short
