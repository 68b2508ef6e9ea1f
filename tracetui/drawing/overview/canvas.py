"""A grid of cells with letters and hues, on which the overview is drawn, and what a terminal shows of it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from rich.cells import cell_len, set_cell_size
from rich.color import Color
from rich.segment import Segment
from rich.style import Style

from tracetui.drawing.hues import HATCH, HATCH_GROUND, Hue, bar, label_in, whole_cells
from tracetui.drawing.timeline.palette import palette
from tracetui.frozen import frozen
from tracetui.text import clean


@frozen(eq=True)
class Look:
    """Abilities of a terminal."""

    colours: int = 256
    """256, 16, or 0 for none."""
    dark: bool = True
    plain: bool = False
    """True where only ASCII is written."""


@frozen(eq=True)
class Pen:
    """Colours and weight of a cell."""

    hue: Hue | None = None
    """Of the letter; None for the colour of text."""
    fill: Hue | None = None
    """Behind the letter; None for the ground."""
    bold: bool = False


PLAIN, STRONG, QUIET = Pen(), Pen(bold=True), Pen(Hue.QUIET)


@frozen(eq=True)
class Item:
    """The place of an entry on the canvas, where the cursor stands."""

    index: int
    """Of the entry."""
    x: int
    y: int
    width: int


_ASCII = str.maketrans(
    {
        "─": "-", "│": "|", "┌": "+", "┐": "+", "└": "+", "┘": "+", "├": "+", "┤": "+", "┴": "+", "µ": "u", "·": "-",
        "×": "x", "▲": "^", "…": "~", "−": "-", "–": "-", "→": ">", "≤": "<", "✓": "ok", "⚠": "!", "▸": ">", "╱": "/",
        "█": "#", "≥": ">", "»": ">",
    }
)  # fmt: skip


class Canvas:
    """Cells by row and column, blank at first."""

    def __init__(self, width: int, height: int, look: Look) -> None:
        self.width, self.height, self.look = width, height, look
        self.items: list[Item] = []
        """The entries that can be entered, in the order in which the cursor goes through them."""
        self._letters = [[" "] * width for _ in range(height)]
        self._pens = [[PLAIN] * width for _ in range(height)]

    def put(self, x: int, y: int, text: str, pen: Pen = PLAIN, width: int | None = None, right: bool = False) -> int:
        """Write a text, cut with `…` or padded to `width` cells; the column behind it."""
        text = clean(text)
        if self.look.plain:
            text = text.translate(_ASCII)
        if width is not None:
            length = cell_len(text)
            if length > width:
                text = set_cell_size(text, max(width - 1, 0)) + ("~" if self.look.plain else "…")[: max(width, 0)]
            text = " " * max(width - length, 0) + text if right else text + " " * max(width - length, 0)
        if 0 <= y < self.height:
            at = x
            for letter in text:
                cells = cell_len(letter)
                if cells == 0 or at < 0 or at + cells > self.width:
                    at += cells
                    continue
                self._letters[y][at] = letter
                self._pens[y][at] = pen
                for further in range(1, cells):
                    self._letters[y][at + further] = ""
                at += cells
        return x + cell_len(text)

    def fill(self, x: int, y: int, width: int, hue: Hue, text: str = "") -> None:
        """Fill cells with a hue, a text in their middle; idle time is hatched, without colours all have a texture."""
        if width <= 0 or not 0 <= y < self.height:
            return
        look, ink = self.look, hue.value
        if look.colours == 256:
            letter = HATCH if hue is Hue.IDLE else " "
        else:
            letter = ink.plain if look.plain else ink.texture
        for at in range(max(x, 0), min(x + width, self.width)):
            self._letters[y][at] = letter
            self._pens[y][at] = Pen(fill=hue) if look.colours == 256 else Pen(hue=hue)
        if text:
            words = text if look.colours == 256 else f" {text} "
            at = x + max((width - cell_len(words)) // 2, 0)
            self.put(at, y, words, Pen(fill=hue, bold=True) if look.colours == 256 else Pen(hue=hue, bold=True))

    def stacked(
        self, x: int, y: int, width: int, parts: list[tuple[str, str, float, Hue]], lines: int = 1
    ) -> list[tuple[int, int]]:
        """A bar of parts (name, brief name, ns, hue), labelled where there is room; first cell and cells of each."""
        whole = sum(ns for _, _, ns, _ in parts)
        cells, at, places = whole_cells([ns for _, _, ns, _ in parts], width), x, []
        for (name, brief, ns, hue), count in zip(parts, cells, strict=True):
            for line in range(lines):
                self.fill(
                    at, y + line, count, hue, label_in(count, clean(name), clean(brief), ns, whole) if line == 0 else ""
                )
            places.append((at, count))
            at += count
        return places

    def bar(self, x: int, y: int, width: int, share: float, hue: Hue) -> None:
        """A bar for a share, in eighths of a cell."""
        self.put(x, y, bar(share, width, self.look.plain), Pen(hue))

    def box(self, x: int, y: int, width: int, height: int, title: str, number: str = "") -> None:
        """A frame with a title, before it the number of the group that it opens."""
        inner = "─" * max(width - 2, 0)
        self.put(x, y, f"┌{inner}┐", QUIET)
        for line in range(y + 1, y + height - 1):
            self.put(x, line, "│", QUIET)
            self.put(x + width - 1, line, "│", QUIET)
        self.put(x, y + height - 1, f"└{inner}┘", QUIET)
        self._title(x + 2, y, title, number, width - 4)

    def rule(self, y: int, title: str, number: str = "") -> None:
        """A line with a title."""
        self.put(0, y, "─" * self.width, QUIET)
        self._title(1, y, title, number, self.width - 2)

    def _title(self, x: int, y: int, title: str, number: str, room: int) -> None:
        at = self.put(x, y, f" {number}", Pen(Hue.MINOR, bold=True)) if number else x
        text = clean(title)
        room -= at - x + 2
        self.put(at, y, f" {text if cell_len(text) <= room else set_cell_size(text, max(room - 1, 0)) + '…'} ", STRONG)

    def item(self, index: int, x: int, y: int, width: int) -> None:
        """An entry can be entered at these cells."""
        if 0 <= y < self.height:
            self.items.append(Item(index, x, y, width))

    def text_lines(self) -> Iterator[str]:
        """The letters alone, without blanks at the ends."""
        for letters in self._letters:
            yield "".join(letters).rstrip()

    def segments(self, y: int, selected: Item | None = None, ground: Style | None = None) -> list[Segment]:
        """A line for a terminal; the selected item is reversed."""
        marked = range(selected.x, selected.x + selected.width) if selected is not None and selected.y == y else ()
        line: list[Segment] = []
        run, before = "", None
        for x, (letter, pen) in enumerate(zip(self._letters[y], self._pens[y], strict=True)):
            kind = pen, x in marked
            if kind != before and run:
                line.append(self._segment(run, before, ground))
                run = ""
            run, before = run + letter, kind
        if run:
            line.append(self._segment(run, before, ground))
        return line

    def _segment(self, text: str, kind: tuple[Pen, bool] | None, ground: Style | None) -> Segment:
        pen, is_selected = kind or (PLAIN, False)
        style = _style(pen, is_selected, self.look)
        return Segment(text, ground + style if ground is not None else style)


@lru_cache(maxsize=1024)
def _style(pen: Pen, is_selected: bool, look: Look) -> Style:
    """The style of a pen in a terminal."""
    if look.colours == 0:
        return Style(bold=pen.bold or None, reverse=is_selected or None)
    letter = background = None
    if pen.fill is not None:
        filled = pen.fill.colour(look.colours, look.dark)
        if pen.fill is Hue.IDLE:
            background, letter = HATCH_GROUND[0 if look.dark else 1], filled
        else:
            background, letter = filled, int(palette(look.colours, look.dark).ink[filled])
    elif pen.hue is not None:
        letter = pen.hue.colour(look.colours, look.dark)
    return Style(
        color=None if letter is None else Color.from_ansi(letter),
        bgcolor=None if background is None else Color.from_ansi(background),
        bold=pen.bold or None,
        reverse=is_selected or None,
    )
