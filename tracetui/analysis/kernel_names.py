"""Family and short name of slices, for lanes and tables; `names` decodes the whole name."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracetui.analysis.names import MAX_SHORT_NAME, Family, decode
from tracetui.model.intervals import Int64
from tracetui.model.trace import GPU_WORK, Kind, Trace

__all__ = ["MAX_SHORT_NAME", "Family", "families", "families_by_name", "family", "short_kernel"]


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


def short_kernel(name: str) -> str:
    """What a kernel does in at most 40 characters: `GEMM bf16 128x256x64 NN`, `add<bf16> vec4`."""
    return decode(name).short
