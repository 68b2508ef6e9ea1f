"""Numbers and names as people read them: one place for every `12.34 ms`, `1.2 GiB` and short kernel name.

Whatever text comes out of a trace passes through `safe_text.clean` before it reaches a terminal.
"""

from __future__ import annotations

from tracetui.analysis.kernel_names import Family, family, short_kernel
from tracetui.model.table import Cell, Column
from tracetui.safe_text import clean

__all__ = [
    "ABSENT",
    "Family",
    "cell",
    "clean",
    "count",
    "duration",
    "family",
    "micros",
    "percent",
    "short_kernel",
    "shorten",
    "size",
]

ABSENT = "–"
"""Stands where the trace holds no value; never 0."""


def duration(nanoseconds: float) -> str:
    """A length of time with four digits at most: `961 ns`, `48.9 µs`, `12.34 ms`, `1.203 s`, `2 min 05 s`."""
    size = abs(nanoseconds)
    if size < 999.5:
        return f"{nanoseconds:.0f} ns"
    for unit, scale, decimals in (("µs", 1e3, 1), ("ms", 1e6, 2), ("s", 1e9, 3)):
        value = nanoseconds / scale
        if round(abs(value), decimals) < (1000 if unit != "s" else 60):
            return f"{value:.{decimals}f} {unit}"
    minutes, seconds = divmod(round(size / 1e9), 60)
    return f"{'-' if nanoseconds < 0 else ''}{minutes} min {seconds:02d} s"


def micros(us: float) -> str:
    """Microseconds as a table cell: `48.9`, `1,203.4`; three decimals where one would read as zero."""
    return _positive_zero(f"{us:.3f}" if 0 < abs(us) < 0.05 else f"{us:,.1f}")


def count(n: float) -> str:
    """A whole number with thousands separated: `12,345`."""
    return f"{round(n):,}"


def size(number: float) -> str:
    """A number of bytes in binary units: `512 B`, `1.2 GiB`."""
    value, unit = float(number), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        if abs(value) < 1023.95:
            break
        value, unit = value / 1024, larger
    return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"


def percent(x: float) -> str:
    """A share with one decimal: `63.1 %`; without one where it is hundreds of times the whole: `1,066,565 %`."""
    return f"{_share(x)} %"


def _share(x: float) -> str:
    return f"{x:,.0f}" if abs(x) >= 10_000 else _positive_zero(f"{x:.1f}")


def _positive_zero(text: str) -> str:
    """A number as text, `0.0` for what rounds to nothing from below."""
    return text[1:] if text.startswith("-") and not text.strip("-0.,") else text


def shorten(text: str, width: int) -> str:
    """Text cut to `width` characters, its end replaced by `…` where something is missing."""
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"[:width]


def cell(column: Column, value: Cell) -> str:
    """A table cell as text without its unit, `–` for a value that the trace does not hold."""
    if value is None:
        return ABSENT
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return _integer(column, value)
    return _number(column, value)


def _integer(column: Column, value: int) -> str:
    if column.unit == "bytes":
        return size(value)
    if column.unit or column.name.endswith(("s", "count", "_total")):
        return count(value)
    # Identifiers, such as a step's number or a correlation, are copied more than they are compared.
    return str(value)


def _number(column: Column, value: float) -> str:
    if column.unit == "us":
        return micros(value)
    if column.unit == "%":
        return _share(value)
    if column.unit == "bytes":
        return size(value)
    if value.is_integer():
        return count(value)
    return f"{value:,.2f}" if abs(value) >= 1 else f"{value:.3g}"
