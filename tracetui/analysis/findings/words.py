"""Numbers in sentences: durations, sizes and counts, to three digits."""

from __future__ import annotations


def time(nanoseconds: float) -> str:
    """A duration in words."""
    value = float(nanoseconds)
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if value >= size:
            return f"{_digits(value / size)} {unit}"
    return f"{value:.0f} ns"


def size(count: float) -> str:
    """A number of bytes in words; units of 1000."""
    for unit, step in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= step:
            return f"{_digits(count / step)} {unit}"
    return counted(round(count), "byte")


def rate(count: float, nanoseconds: float) -> str:
    """Bytes per time in words."""
    return f"{size(1e9 * count / max(nanoseconds, 1))}/s"


def counted(number: int, thing: str) -> str:
    """A number of things: `1 copy`, `12 copies`."""
    if number == 1:
        return f"1 {thing}"
    plural = thing[:-1] + "ies" if thing.endswith("y") else f"{thing}s"
    return f"{number:,} {plural}"


def _digits(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"
