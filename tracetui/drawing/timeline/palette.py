"""Colours of slices, as indices into the terminal's palette.

The hues are those of Okabe and Ito, which people with any kind of colour vision tell apart, brought to the
256 colours that every terminal knows. A family has two shades that alternate along a row, so that two slices
that touch do not read as one. Where there are 16 colours or none, a letter stands for the family as well.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len

from tracetui.drawing.format import shorten
from tracetui.idle.waits import Cause
from tracetui.kernel_names.slice_names import Family, short_kernel
from tracetui.model.table import Strings
from tracetui.model.trace import Kind
from tracetui.text import clean

GROUND = -1
"""Stands for the widget's own background, or text colour, in arrays of colours."""

BOLD, UNDERLINE, REVERSE, DIM = 1, 2, 4, 8
"""Bits of a cell's attributes."""

NEAR_COLOURS = 118
"""Distance in red, green and blue (0 to 255) below which a pattern tells a marked slice from one of a family."""

VARIED = 7
"""Colours for slices of unknown kinds, chosen by name, so that foreign traces are not all grey."""

FAMILIES = len(Family) + VARIED
"""Families that are told apart by colour; those of `format.Family` come first."""

_SHADES = {
    Family.GEMM: (214, 172),
    Family.ATTENTION: (175, 133),
    Family.REDUCTION: (36, 29),
    Family.POINTWISE: (117, 74),
    Family.COPY: (227, 185),
    Family.COMMUNICATION: (202, 166),
    Family.OTHER: (250, 246),
    Family.OP: (32, 25),
    Family.ANNOTATION: (146, 103),
    Family.RUNTIME: (180, 137),
    Family.PYTHON: (242, 239),
    Family.OVERHEAD: (131, 95),
}
_SHADES_OF_16 = {
    Family.GEMM: (11, 3),
    Family.ATTENTION: (13, 5),
    Family.REDUCTION: (10, 2),
    Family.POINTWISE: (14, 6),
    Family.COPY: (11, 3),
    Family.COMMUNICATION: (9, 1),
    Family.OTHER: (7, 8),
    Family.OP: (12, 4),
    Family.ANNOTATION: (7, 8),
    Family.RUNTIME: (3, 11),
    Family.PYTHON: (8, 7),
    Family.OVERHEAD: (1, 9),
}
_IDLE, _IDLE_OF_16 = (175, 36, 178, 208, 32, 180, 110, 244), (13, 10, 11, 9, 14, 3, 12, 8)
# Idle time is thin lines and words: on a light ground they are darker.
_IDLE_ON_LIGHT, _IDLE_OF_16_ON_LIGHT = (132, 29, 136, 166, 25, 137, 67, 242), (5, 2, 3, 1, 6, 9, 4, 8)
_LETTERS = "garpcnxoutyv" + "x" * VARIED
_VARIED = ((109, 66), (139, 96), (144, 101), (108, 65), (174, 131), (110, 67), (180, 137))
_VARIED_OF_16 = ((14, 6), (13, 5), (11, 3), (10, 2), (9, 1), (12, 4), (7, 8))
_RGB_OF_16 = (
    (0, 0, 0), (128, 0, 0), (0, 128, 0), (128, 128, 0), (0, 0, 128), (128, 0, 128), (0, 128, 128),
    (192, 192, 192), (128, 128, 128), (255, 0, 0), (0, 255, 0), (255, 255, 0), (80, 80, 255), (255, 0, 255),
    (0, 255, 255), (255, 255, 255),
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Palette:
    """Everything about colour that drawing needs."""

    shades: NDArray[np.int16]
    """Colours by family and by whether a slice is an even or an odd one of its row; shape (FAMILIES, 2)."""
    ink: NDArray[np.int16]
    """The colour, black or white, that is readable on each of the 256."""
    selected: int
    """Colour of the selected slice."""
    highlighted: int
    """Colour of slices that belong with the selected one."""
    quiet: int
    """Colour of ticks, rules and secondary words on the widget's own background."""
    idle: NDArray[np.int16]
    """Colours of idle time of a device, by `idle_classes.IDLE_CLASS` of its cause."""
    letters: NDArray[np.uint32] | None
    """Code point of each family's letter, None where colours suffice."""
    colours: int
    """256, 16, or 0 for none."""
    alike: NDArray[np.bool_]
    """True where a family's colour is near that of highlighted (1) and selected (2) slices; shape (FAMILIES, 3)."""
    veil: int = GROUND
    """Colour of slices that are not what the timeline is about; GROUND for no colour of their own."""
    tint: int = GROUND
    """Background of a range of time; GROUND for no colour of its own."""
    stippled: bool = False
    """True where highlighted and selected slices carry a pattern as well, so that no colour is mistaken for them."""

    @property
    def mono(self) -> bool:
        """True where cells may carry no colour, only attributes."""
        return self.colours == 0


@lru_cache(maxsize=8)
def palette(colours: int = 256, dark: bool = True) -> Palette:
    """The palette for a number of colours (256, 16, or 0 for none) on a dark or a light background."""
    table, varied = (_SHADES, _VARIED) if colours == 256 else (_SHADES_OF_16, _VARIED_OF_16)
    shades = np.array([*(table[family] for family in Family), *varied], np.int16)
    ink = np.array([_ink(colour, colours) for colour in range(256)], np.int16)
    letters = None if colours == 256 else np.array([ord(letter) for letter in _LETTERS], np.uint32)
    if colours == 256:
        marks = (231, 229, 244) if dark else (16, 53, 244)
    else:
        marks = (15, 7, 8) if dark else (0, 8, 8)
    many, few = (_IDLE, _IDLE_OF_16) if dark else (_IDLE_ON_LIGHT, _IDLE_OF_16_ON_LIGHT)
    idle = np.array(many if colours == 256 else few, np.int16)
    veil = (237 if dark else 252) if colours == 256 else GROUND
    tint = (17 if dark else 189) if colours == 256 else GROUND
    alike = np.array([[False, _is_near(pair, marks[1]), _is_near(pair, marks[0])] for pair in shades.tolist()])
    return Palette(shades, ink, *marks, idle, letters, colours, alike, veil, tint)


@lru_cache(maxsize=8)
def stippled(colours: int = 256, dark: bool = True) -> Palette:
    """The palette in which highlighted slices carry a pattern."""
    return replace(palette(colours, dark), stippled=True)


def nearest_colour(red: int, green: int, blue: int) -> int:
    """The index of the colour of the 256 that comes nearest; the first 16, which terminals redefine, are left out."""
    wanted = np.array([red, green, blue])
    known = np.array([rgb(colour) for colour in range(16, 256)])
    return 16 + int(((known - wanted) ** 2).sum(axis=1).argmin())


def rgb(colour: int) -> tuple[int, int, int]:
    """Red, green and blue, 0 to 255, of one of the 256 colours."""
    if colour < 16:
        return _RGB_OF_16[colour]
    if colour >= 232:
        grey = 8 + 10 * (colour - 232)
        return grey, grey, grey
    levels = (0, 95, 135, 175, 215, 255)
    colour -= 16
    return levels[colour // 36], levels[colour // 6 % 6], levels[colour % 6]


def _is_near(pair: list[int], mark: int) -> bool:
    """True where one of two shades is easily taken for the colour of a mark."""
    wanted = np.array(rgb(mark))
    return any(int(((np.array(rgb(shade)) - wanted) ** 2).sum()) < NEAR_COLOURS**2 for shade in pair)


def _ink(colour: int, colours: int) -> int:
    """Black or white, whichever has the larger contrast by the WCAG's measure."""
    red, green, blue = ((channel / 255) ** 2.2 for channel in rgb(colour))
    bright = 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179
    return (16 if colours == 256 else 0) if bright else (231 if colours == 256 else 15)


# The classes of causes of idle time that have a colour of their own, on the screen and in reports.

_CLASSES: tuple[tuple[str, tuple[Cause, ...]], ...] = (
    ("idle: data loading", (Cause.DATA_LOADING,)),
    ("idle: start-up, memory", (Cause.START_UP, Cause.MEMORY, Cause.PROFILER, Cause.COMPILATION)),
    ("idle: CPU waited for GPU", (Cause.PAGEABLE, Cause.HOST_SYNC)),
    (
        "idle: Python, operators",
        (
            Cause.STALLED,
            Cause.LONG_GAP,
            Cause.OPTIMIZER,
            Cause.OPERATORS,
            Cause.CALLS,
            Cause.PYTHON,
            Cause.UNSEEN,
        ),
    ),
    ("idle: communication", (Cause.PEERS, Cause.COMMUNICATION)),
    ("idle: launch calls", (Cause.LAUNCH, Cause.SLOW_LAUNCH, Cause.FULL_QUEUE)),
    ("idle: launched, waiting", (Cause.LATENCY, Cause.GRAPH, Cause.STREAM, Cause.SCHEDULING)),
    ("idle: cause not recorded", (Cause.NOT_RECORDED, Cause.BEFORE_CAPTURE, Cause.UNKNOWN)),
)

IDLE_WORDS = tuple(words for words, _ in _CLASSES)
"""Names of the classes, in the order of `Palette.idle`."""

IDLE_CLASS = np.array([next(i for i, (_, causes) in enumerate(_CLASSES) if cause in causes) for cause in Cause])
"""The class of each `Cause`."""


# Names of slices, cut to the room that they have on a row.
#
# Every letter takes exactly one cell: what a terminal would draw wider, narrower or not at all is replaced.

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
