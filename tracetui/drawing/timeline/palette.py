"""Colours of slices, as indices into the terminal's palette.

What a colour means is declared in `hues`. A family has two shades that alternate along a row, so that two slices
that touch do not read as one. Where there are 16 colours or none, a texture stands for the family as well, and a
line for the start of a slice.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len

from tracetui.drawing.format import shorten
from tracetui.drawing.hues import FAMILY_HUES, HATCH_GROUND, PHASE_HUES, Hue
from tracetui.frozen import frozen
from tracetui.kernel_names.slice_names import Family, short_kernel
from tracetui.linking.autograd import Phase
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

PHASES = tuple(phase for phase in Phase if phase is not Phase.NONE)
"""The parts of a step that operators have a hue of."""

FIRST_PHASE = len(Family) + VARIED
"""The family of operators in the first of `PHASES`; those of the others follow."""

FAMILIES = FIRST_PHASE + len(PHASES)
"""Families that are told apart by colour: those of `Family`, slices of unknown kinds, operators by phase."""

_HUES = (*(FAMILY_HUES[family] for family in Family), *(PHASE_HUES[phase] for phase in PHASES))
# The second shade of a hue, of the 256, on a dark and on a light ground.
_SECOND = {
    Hue.GEMM: (74, 26),
    Hue.ATTENTION: (117, 18),
    Hue.ELEMENTWISE: (67, 61),
    Hue.REDUCTION: (98, 91),
    Hue.OTHER: (104, 96),
    Hue.COMMUNICATION: (179, 130),
    Hue.COPY: (182, 90),
    Hue.FORWARD: (115, 28),
    Hue.BACKWARD: (29, 22),
    Hue.OPTIMIZER: (186, 100),
    Hue.DATA: (174, 131),
    Hue.CPU: (110, 66),
    Hue.ANNOTATION: (103, 60),
    Hue.RUNTIME: (101, 131),
    Hue.PYTHON: (242, 245),
    Hue.PROFILER: (131, 132),
}
# What is drawn over the fill of a slice so that as much of it is seen as of the texture.
_OVER_FILL = {"█": " ", "▓": "░", "▒": "▒", "░": "▓"}
_VARIED = ((109, 66), (139, 96), (144, 101), (108, 65), (174, 131), (110, 67), (180, 137))
_VARIED_OF_16 = (14, 13, 11, 10, 9, 12, 7)
_RGB_OF_16 = (
    (0, 0, 0), (128, 0, 0), (0, 128, 0), (128, 128, 0), (0, 0, 128), (128, 0, 128), (0, 128, 128),
    (192, 192, 192), (128, 128, 128), (255, 0, 0), (0, 255, 0), (255, 255, 0), (80, 80, 255), (255, 0, 255),
    (0, 255, 255), (255, 255, 255),
)  # fmt: skip


@frozen
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
    idle: int
    """Colour of idle time of a device, and of its cause in words."""
    hatch: int
    """Background of idle time; GROUND for no colour of its own."""
    textures: NDArray[np.uint32] | None
    """Code point of what is drawn over the slices of each family, None where colours suffice."""
    colours: int
    """256, 16, or 0 for none."""
    alike: NDArray[np.bool_]
    """True where a family's colour is near that of highlighted (1) and selected (2) slices; shape (FAMILIES, 3)."""
    veil: int = GROUND
    """Colour of slices that are not what the timeline is about; GROUND for no colour of their own."""
    tint: int = GROUND
    """Background of a range of time; GROUND for no colour of its own."""
    is_plain: bool = False
    """True where the terminal shows nothing but ASCII."""
    stippled: bool = False
    """True where highlighted and selected slices carry a pattern as well, so that no colour is mistaken for them."""

    @property
    def mono(self) -> bool:
        """True where cells may carry no colour, only attributes."""
        return self.colours == 0

    @property
    def words(self) -> NDArray[np.int16]:
        """Colours of words about the slices of each family, on the widget's own background."""
        first = self.shades[:, 0]
        if self.colours == 16:
            # The dark ones of the 16 are not read on a dark ground, nor the bright ones on a light one.
            return first | 8 if self.selected == 15 else first & 7
        return np.full_like(first, GROUND) if self.mono else first

    @property
    def on_fill(self) -> int:
        """Attributes of cells that are filled where there is no colour to fill them with."""
        return REVERSE if self.mono else 0


@lru_cache(maxsize=16)
def palette(colours: int = 256, dark: bool = True, is_plain: bool = False) -> Palette:
    """The palette for a number of colours (256, 16, or 0 for none) on a dark or a light background."""
    if colours == 256:
        own = [(hue.colour(256, dark), _SECOND[hue][not dark]) for hue in _HUES]
        varied = list(_VARIED)
        marks = (231, 229, 244) if dark else (16, 53, 244)
    else:
        own = [(hue.value.basic,) * 2 for hue in _HUES]
        varied = [(colour, colour) for colour in _VARIED_OF_16]
        marks = (15, 7, 8) if dark else (0, 8, 8)
    shades = np.array([*own[: len(Family)], *varied, *own[len(Family) :]], np.int16)
    ink = np.array([_ink(colour, colours) for colour in range(256)], np.int16)
    of_hue = [hue.value.plain if is_plain else _OVER_FILL.get(hue.value.texture, hue.value.texture) for hue in _HUES]
    textures = [*of_hue[: len(Family)], *["x" if is_plain else "░"] * VARIED, *of_hue[len(Family) :]]
    alike = np.array([[False, _is_near(pair, marks[1]), _is_near(pair, marks[0])] for pair in shades.tolist()])
    return Palette(
        shades,
        ink,
        *marks,
        idle=Hue.IDLE.colour(colours, dark),
        hatch=HATCH_GROUND[not dark] if colours == 256 else GROUND,
        textures=None if colours == 256 else np.array([ord(each) for each in textures], np.uint32),
        colours=colours,
        alike=alike,
        veil=(237 if dark else 252) if colours == 256 else GROUND,
        tint=(17 if dark else 189) if colours == 256 else GROUND,
        is_plain=is_plain,
    )


@lru_cache(maxsize=16)
def stippled(colours: int = 256, dark: bool = True, is_plain: bool = False) -> Palette:
    """The palette in which highlighted slices carry a pattern."""
    return replace(palette(colours, dark, is_plain), stippled=True)


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

    def brief(self, name: int, kind: int) -> str:
        """The label without what many names begin with."""
        return self._of(name, kind)[1]

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
