"""The families of work: what colours a slice and what sums are grouped by."""

from __future__ import annotations

from enum import IntEnum


class Family(IntEnum):
    """What sort of work a slice does."""

    GEMM = 0
    """Matrix products and convolutions."""
    ATTENTION = 1
    REDUCTION = 2
    """Sums, norms, softmax, scans."""
    POINTWISE = 3
    COPY = 4
    """Copies, fills by the driver, transposes, gathers."""
    COMMUNICATION = 5
    """Collectives between devices."""
    OTHER = 6
    OP = 7
    ANNOTATION = 8
    RUNTIME = 9
    PYTHON = 10
    OVERHEAD = 11
