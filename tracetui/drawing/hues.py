"""Colours with a meaning, and bars made of cells: what the overview, the lanes, lists and comparisons draw with.

Three hues are never taken for each other: what computes is blue, what communicates amber, idle time neutral and
hatched. Parts of a step on the CPU are greens, the optimizer yellow, data loading coral. Where there are 16 colours or
none, a texture tells them apart as well. Text on the ground has a contrast of at least 4.5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum

from rich.cells import cell_len

from tracetui.frozen import frozen
from tracetui.kernel_names.slice_names import Family
from tracetui.linking.autograd import Phase
from tracetui.model.quantities import short_percent


@frozen(eq=True)
class Ink:
    """The colours of a hue, as indices of a terminal's palette, and what stands for it without them."""

    dark: int
    """Of the 256, on a dark ground."""
    light: int
    """Of the 256, on a light ground."""
    basic: int
    """Of the first 16."""
    texture: str
    """One cell, where there are 16 colours or none."""
    plain: str
    """The same in ASCII."""


class Hue(Enum):
    """Meaning of a colour."""

    GEMM = Ink(75, 25, 12, "█", "#")
    ATTENTION = Ink(153, 24, 14, "█", "@")
    ELEMENTWISE = Ink(68, 62, 4, "▓", "e")
    REDUCTION = Ink(99, 92, 6, "▓", "r")
    OTHER = Ink(103, 60, 4, "▓", "k")
    COMMUNICATION = Ink(215, 94, 11, "▒", "%")
    COPY = Ink(218, 89, 13, "=", "=")
    IDLE = Ink(248, 241, 7, "·", ".")
    FORWARD = Ink(79, 29, 10, "█", "F")
    BACKWARD = Ink(36, 23, 2, "▓", "B")
    OPTIMIZER = Ink(222, 58, 3, "▒", "O")
    DATA = Ink(173, 130, 9, "=", "D")
    CPU = Ink(109, 59, 7, "░", "-")
    ANNOTATION = Ink(146, 97, 7, "█", "A")
    RUNTIME = Ink(144, 95, 6, "▒", "c")
    PYTHON = Ink(244, 242, 8, "░", "p")
    PROFILER = Ink(138, 96, 5, "░", "x")
    MAJOR = Ink(209, 124, 9, "█", "#")
    MINOR = Ink(215, 94, 11, "▓", "#")
    NOTE = Ink(146, 59, 7, "░", "#")
    GOOD = Ink(115, 29, 10, "█", "#")
    QUIET = Ink(103, 242, 8, "░", "-")

    def colour(self, colours: int, dark: bool = True) -> int:
        """Index of the colour in a terminal with 256 or 16."""
        return self.value.basic if colours < 256 else self.value.dark if dark else self.value.light


HATCH = "╱"
"""What idle time is filled with where there is no word."""
HATCH_GROUND = (236, 254)
"""Behind idle time, of the 256: on a dark and on a light ground."""

FAMILY_HUES = {
    Family.GEMM: Hue.GEMM,
    Family.ATTENTION: Hue.ATTENTION,
    Family.POINTWISE: Hue.ELEMENTWISE,
    Family.REDUCTION: Hue.REDUCTION,
    Family.OTHER: Hue.OTHER,
    Family.COPY: Hue.COPY,
    Family.COMMUNICATION: Hue.COMMUNICATION,
    Family.OP: Hue.CPU,
    Family.ANNOTATION: Hue.ANNOTATION,
    Family.RUNTIME: Hue.RUNTIME,
    Family.PYTHON: Hue.PYTHON,
    Family.OVERHEAD: Hue.PROFILER,
}
"""The hue of each family of slices; of an operator in a phase that of the phase comes before."""
PHASE_HUES = {
    Phase.NONE: Hue.CPU,
    Phase.FORWARD: Hue.FORWARD,
    Phase.BACKWARD: Hue.BACKWARD,
    Phase.OPTIMIZER: Hue.OPTIMIZER,
    Phase.DATA: Hue.DATA,
}
"""The hue of each part of a step on the CPU."""
SEVERITY_HUES = {
    "major": Hue.MAJOR,
    "minor": Hue.MINOR,
    "doubt": Hue.MINOR,
    "note": Hue.NOTE,
    "fine": Hue.QUIET,
    "ok": Hue.QUIET,
}
"""The hue of a severity, of findings and of checks of the trace."""


def is_plain(environment: Mapping[str, str]) -> bool:
    """True where the variables of the environment name a locale whose terminal shows nothing but ASCII.

    Without any of them nothing is known, and the terminal is taken for one of today.
    """
    # Python itself sets LC_CTYPE to this where LANG is C (PEP 538).
    names = {key: environment.get(key, "") for key in ("LC_ALL", "LC_CTYPE", "LANG")}
    if names["LC_CTYPE"] in ("C.UTF-8", "C.utf8", "UTF-8") and names["LANG"] in ("C", "POSIX"):
        names["LC_CTYPE"] = ""
    locale = next((name for name in names.values() if name), "")
    return bool(locale) and "utf8" not in locale.lower().replace("-", "")


# Bars.

_EIGHTHS = " ▏▎▍▌▋▊▉█"


def bar(share: float, width: int, plain: bool = False) -> str:
    """A bar of at most `width` cells for a share from 0 to 1, in eighths of a cell; more than nothing is seen.

    Plain, it is made of `#` in whole cells.
    """
    share = min(max(share, 0.0), 1.0)
    if plain:
        return "#" * max(round(share * width), int(share > 0))
    eighths = max(round(share * width * 8), int(share > 0))
    return "█" * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")


def whole_cells(parts: Sequence[float], width: int) -> list[int]:
    """Number of `width` cells for each part, by the largest remainder: together all of them.

    None has a cell more or less than its share. Parts that are all 0 have none.
    """
    total = sum(parts)
    if total <= 0 or width <= 0:
        return [0] * len(parts)
    exact = [part / total * width for part in parts]
    cells = [int(each) for each in exact]
    by_rest = sorted(range(len(parts)), key=lambda index: (cells[index] - exact[index], index))
    for index in by_rest[: width - sum(cells)]:
        cells[index] += 1
    return cells


def sparkline(values: Sequence[float | None]) -> str:
    """A line of one cell per value with the median at half height, so that equal values are level; blank for none."""
    known = sorted(value for value in values if value is not None)
    middle = known[(len(known) - 1) // 2] if known else 0.0
    levels = "▁▂▃▄▅▆▇█"

    def level(value: float | None) -> str:
        if value is None:
            return " "
        if middle <= 0:
            return levels[0] if value <= 0 else levels[-1]
        return levels[min(round(value / middle * 4) - 1, 7)] if value > 0.125 * middle else levels[0]

    return "".join(map(level, values))


# Words that fit.


def three_digits(ns: float) -> str:
    """A time with three digits: `346 ms`, `14.7 ms`, `8.00 µs`; from 1,000 s on with more."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= size * 0.9995 or unit == "µs":
            value = ns / size
            return f"{value:,.{0 if value >= 99.95 else 1 if value >= 9.995 else 2}f} {unit}"
    return ""


def share_words(share: float) -> str:
    """A share (0 to 1) in six cells at most: `40 %`, `0.4 %`, `<0.1 %`."""
    return "100 %" if 0.995 <= share < 1.0 else short_percent(100 * share)


def label_in(
    width: int, name: str, brief: str, ns: float, whole: float, time_words: Callable[[float], str] = three_digits
) -> str:
    """The longest that leaves a blank at both ends of a part of a bar; empty where nothing fits.

    `GEMM 82.9 ms 24 %`, `GEMM 24 %`, the brief name and the share, or one of the three alone; nothing without a name.
    """
    if not name:
        return ""
    share = share_words(ns / whole) if whole else ""
    texts = (f"{name} {time_words(ns)} {share}", f"{name} {share}", f"{brief} {share}", name, brief, share)
    return next((text for text in texts if 0 < cell_len(text) <= width - 2), "")
