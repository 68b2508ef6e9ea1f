"""The time axis: ticks at round moments.

A tick's cell and label depend on the grid and not on the window, so a pan moves them and changes none.
"""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from tracetui.drawing.timeline.labels import codes
from tracetui.drawing.timeline.window import Window

SPACING = 14
"""Cells between ticks, at least."""

_UNITS = (("s", 1_000_000_000), ("ms", 1_000_000), ("µs", 1_000), ("ns", 1))


def tick_step(ns_per_cell: float) -> int:
    """The distance between ticks in ns: 1, 2 or 5 times a power of ten."""
    least = max(ns_per_cell * SPACING, 1.0)
    power: int = 10 ** math.floor(math.log10(least))
    return next(times * power for times in (1, 2, 5, 10, 20) if times * power >= least)


def tick_label(moment: int, step: int) -> str:
    """A moment in the unit that suits it, with the decimals that tell it from the next tick: `1.25 ms`."""
    if moment == 0:
        return "0"
    unit, scale = next((unit, scale) for unit, scale in _UNITS if abs(moment) >= scale)
    decimals = max(0, math.ceil(math.log10(scale / step) - 1e-9))
    text = f"{moment / scale:.{decimals}f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} {unit}"


def axis(
    window: Window, width: int, origin_ns: int = 0, origin: str = "", marked: Collection[int] = ()
) -> NDArray[np.uint32]:
    """The axis as `width` code points: a line at each tick and its distance from the origin, or the origin's name.

    A label makes room for the marked cells: it is written behind those that it would cover, where the next tick
    leaves space for it, and else left out.
    """
    cells = np.full(width, ord(" "), np.uint32)
    step = tick_step(window.ns_per_cell)
    first = math.floor((window.start_ns - origin_ns) / step) - 1
    last = math.ceil((window.end_ns(width) - origin_ns) / step)
    for number in range(first, last + 1):
        at = window.cell_of(origin_ns + number * step)
        label = origin if number == 0 and origin else tick_label(number * step, step)
        letters = codes(f"│{_beside(label, at + 1, marked)}")
        if at < 0:
            continue
        behind = window.cell_of(origin_ns + (number + 1) * step)
        if at + len(letters) > min(width, behind) or len(label) >= SPACING:
            # Half a number is a wrong number.
            letters = letters[:1]
        low, high = max(at, 0), min(at + len(letters), width)
        if low < high:
            cells[low:high] = letters[low - at : high - at]
    return cells


def _beside(label: str, at: int, marked: Collection[int]) -> str:
    """A label that begins at a cell, moved behind the marked cells among its own by blanks."""
    blanks = 0
    while covered := [cell for cell in marked if 0 <= cell - at - blanks < len(label)]:
        # A blank behind the mark: it does not stand at the moment that the label names.
        blanks = max(covered) - at + 2
    return " " * blanks + label
