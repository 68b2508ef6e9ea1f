"""Words wrapped to a width in cells: lines break at spaces, and only a word longer than a line within it. Pure.

A number keeps its unit.
"""

from __future__ import annotations

import re

from rich.cells import cell_len, chop_cells

_AMOUNT = re.compile(r"(?<=\d) (?=(?:%|ns|µs|ms|s|[kKMGTP]?i?B(?:/s)?|[kMGTP]?FLOP(?:/s)?)(?![\w]))")
_HELD = "\xa0"
MIN_CELLS = 8
"""Minimum cells of a line, however little room there is."""


def wrapped(text: str, cells: int) -> list[str]:
    """The lines of a text, each at most so many cells wide; at least one."""
    cells = max(cells, MIN_CELLS)
    lines, line, used = [], "", 0
    for word in _words(text):
        width = cell_len(word)
        if line and used + 1 + width <= cells:
            line, used = f"{line} {word}", used + 1 + width
            continue
        if line:
            lines.append(line)
        *whole, line = chop_cells(word, cells) if width > cells else [word]
        lines += whole
        used = cell_len(line)
    return [*lines, line] if line or not lines else lines


def _words(text: str) -> list[str]:
    """The words of a text, a number and its unit as one."""
    held = _AMOUNT.sub(_HELD, " ".join(text.split()))
    return [word.replace(_HELD, " ") for word in held.split(" ") if word]
