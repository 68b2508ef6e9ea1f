"""Names of slices, cut to the room that they have on a row.

Every letter takes exactly one cell: what a terminal would draw wider, narrower or not at all is replaced.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len

from tracetui.drawing.format import shorten
from tracetui.kernel_names.slice_names import short_kernel
from tracetui.model.strings import Strings
from tracetui.model.trace import Kind
from tracetui.safe_text import clean

SHORTEST = 5
"""Cells below which a slice gets no label."""

KEPT = 50_000
"""Labels kept ready; more than any one screen shows."""

_FRAME = re.compile(r"(?:.*[/\\])?(?P<file>[^/\\]*)\((?P<line>\d+)\): (?P<what>.+)")
_PREFIXES = (
    "autograd::engine::evaluate_function: ",
    "torch::autograd::",
    "aten::",
    "nn.Module: ",
    "cuda",
    "hip",
)

Codes = NDArray[np.uint32]


def single_width(text: str) -> str:
    """The text with every letter that is not one cell wide replaced by a dot."""
    if text.isascii():
        return text
    return "".join(letter if cell_len(letter) == 1 else "·" for letter in text)


def codes(text: str) -> Codes:
    """The code points of a text."""
    return np.frombuffer(text.encode("utf-32-le", "replace"), np.uint32)


class Labels:
    """The label of each (name, kind), made when it is first needed."""

    def __init__(self, names: Strings) -> None:
        self._names = names
        self._texts: dict[tuple[int, int], tuple[str, str]] = {}
        self._fitted: dict[tuple[int, int, int], Codes] = {}

    def fit(self, name: int, kind: int, room: int) -> Codes:
        """The label as code points, `room` of them at most."""
        key = (name, kind, min(room, 80))
        found = self._fitted.get(key)
        if found is None:
            if len(self._fitted) >= KEPT:
                self._fitted.clear()
            found = self._fitted[key] = codes(self._cut(name, kind, min(room, 80)))
        return found

    def text(self, name: int, kind: int) -> str:
        """The whole label."""
        return self._of(name, kind)[0]

    def _cut(self, name: int, kind: int, room: int) -> str:
        whole, brief = self._of(name, kind)
        return whole if len(whole) <= room else shorten(brief, room)

    def _of(self, name: int, kind: int) -> tuple[str, str]:
        found = self._texts.get((name, kind))
        if found is None:
            found = self._texts[name, kind] = _label(self._names[name], Kind(kind))
        return found


def _label(name: str, kind: Kind) -> tuple[str, str]:
    """A slice's name for a wide and for a narrow place."""
    if kind == Kind.KERNEL:
        text = single_width(clean(short_kernel(name)))
        return text, text
    text = single_width(clean(name))
    if kind == Kind.PYTHON and (frame := _FRAME.fullmatch(text)):
        return f"{frame['what']} ({frame['file']}:{frame['line']})", frame["what"]
    for prefix in _PREFIXES:
        if text.startswith(prefix) and len(text) > len(prefix):
            return text, text[len(prefix) :]
    return text, text
