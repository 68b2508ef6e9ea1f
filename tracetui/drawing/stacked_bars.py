"""Bars of several parts, such as compute, communication and idle time, as pieces of text with a look; no widgets.

On a terminal with colours a part is a stretch of its hue with its name in it where that fits, idle time is hatched.
With 16 colours or none, and in text, a part has the texture of its hue instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from enum import Enum

from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from tracetui.drawing.hues import HATCH, HATCH_GROUND, Hue, label_in, three_digits, whole_cells
from tracetui.drawing.timeline.cells import Frame
from tracetui.drawing.timeline.palette import codes, palette
from tracetui.frozen import frozen


class Look(Enum):
    """Colours of a piece of text."""

    PLAIN = "plain"
    STRONG = "strong"
    """Bold."""
    DIM = "dim"
    """Secondary."""
    INK = "ink"
    """In the colour of its hue."""
    FILL = "fill"
    """On a ground in the colour of its hue."""


@frozen(eq=True)
class Piece:
    """A stretch of a line."""

    text: str
    look: Look = Look.PLAIN
    hue: Hue | None = None


@frozen(eq=True)
class BarPart:
    """A part of a bar."""

    hue: Hue
    name: str
    """`compute`."""
    brief: str
    """The same in a few letters."""
    ns: float
    texture: str = ""
    """In place of that of the hue, where a bar has another part of the same."""

    @property
    def cell(self) -> str:
        """One cell, where no hues are told apart."""
        return self.texture or self.hue.value.texture


Line = tuple[Piece, ...]


def text_of(line: Iterable[Piece]) -> str:
    """The line without its looks."""
    return "".join(piece.text for piece in line)


def in_ascii(line: Line) -> Line:
    """The line for a terminal that shows nothing else."""
    frame = Frame.blank(1, len(text_of(line)))
    frame.write(0, 0, codes(text_of(line)))
    text, at, pieces = frame.in_ascii().text(0), 0, []
    for piece in line:
        pieces.append(replace(piece, text=text[at : at + len(piece.text)]))
        at += len(piece.text)
    return tuple(pieces)


def stacked(
    parts: Sequence[BarPart],
    cells: int,
    whole: float,
    textured: bool = False,
    labelled: bool = True,
    time_words: Callable[[float], str] = three_digits,
) -> Line:
    """The parts side by side in `cells`, each with its name, time and share of a whole where that fits.

    `textured` is for terminals that tell no hues apart; `labelled` writes names into the parts, `time_words` ns.
    """
    line = []
    for part, width in zip(parts, whole_cells([part.ns for part in parts], cells), strict=True):
        if width:
            label = label_in(width, part.name, part.brief, part.ns, whole, time_words) if labelled else ""
            fill = part.cell if textured else HATCH if part.hue is Hue.IDLE else " "
            text = (f" {label} " if label else "").center(width, "\0").replace("\0", fill)
            line.append(Piece(text, Look.INK if textured else Look.FILL, part.hue))
    return tuple(line)


def single(share: float, cells: int, hue: Hue, textured: bool = False) -> Piece:
    """A bar of one part that fills a share of `cells`; at least one cell unless the share is 0."""
    length = max(round(share * cells), int(share > 0))
    return Piece((hue.value.texture if textured else "█") * length, Look.INK, hue)


def style_of(piece: Piece, colours: int, dark: bool) -> Style:
    """The look of a piece on a terminal with 256, 16 or no colours (0), on a dark or light ground."""
    if piece.look in (Look.STRONG, Look.DIM):
        return Style(bold=piece.look is Look.STRONG or None, dim=piece.look is Look.DIM or None)
    if piece.hue is None or not colours:
        return Style(bold=piece.hue in (Hue.GOOD, Hue.MAJOR) or None)
    colour = piece.hue.colour(colours, dark)
    if piece.look is Look.FILL and piece.hue is Hue.IDLE and colours == 256:
        return Style(color=Color.from_ansi(colour), bgcolor=Color.from_ansi(HATCH_GROUND[not dark]))
    if piece.look is Look.FILL:
        ink = int(palette(colours, dark).ink[colour])
        return Style(color=Color.from_ansi(ink), bgcolor=Color.from_ansi(colour), bold=True)
    return Style(color=Color.from_ansi(colour), bold=piece.hue in (Hue.GOOD, Hue.MAJOR) or None)


def segments(line: Line, colours: int, dark: bool, ground: Style) -> list[Segment]:
    """The line for a terminal, on the ground of a widget."""
    return [Segment(piece.text, ground + style_of(piece, colours, dark)) for piece in line if piece.text]


def rich_line(line: Line) -> Text:
    """The line for rich, which brings 256 colours down to those of the terminal."""
    text = Text()
    for piece in line:
        text.append(piece.text, style_of(piece, 256, dark=True))
    return text
