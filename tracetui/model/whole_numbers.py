"""Whole numbers out of a file, with bounds: what is beyond is damage, and would overflow where it is counted with."""

from __future__ import annotations

import math

MAX_AMOUNT = 1 << 53
"""Bytes, registers or threads beyond which a number is none; a float still holds every smaller one."""
MAX_TIME_NS = 1 << 62
"""Nanoseconds beyond which a time is none."""


def whole_number(value: object, limit: int = MAX_AMOUNT) -> int | None:
    """The value if it is a whole number between `-limit` and `limit`, None for anything else."""
    if isinstance(value, int) and not isinstance(value, bool) and -limit <= value <= limit:
        return value
    return None


def number_name(value: float) -> str:
    """What a number is called that is none, or infinite."""
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
