"""The family and the short name of a slice, as the lanes and tables show them; `names` decodes the whole name."""

from __future__ import annotations

from tracetui.analysis.names import SHORTEST, Family, decode
from tracetui.model.trace import Kind

__all__ = ["LONGEST", "Family", "family", "short_kernel"]

LONGEST = SHORTEST
"""Characters of a short name."""


def family(name: str, kind: Kind) -> Family:
    """The family of a slice, from its kind and, for kernels, its name."""
    return decode(name, kind).family


def short_kernel(name: str) -> str:
    """What a kernel does in at most 40 characters: `GEMM bf16 128x256x64 NN`, `add<bf16> vec4`."""
    return decode(name).short
