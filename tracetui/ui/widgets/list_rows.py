"""The rows of a list as text in hues: cells cut to their columns, and cards of several lines. Pure."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len, set_cell_size

from tracetui.drawing.drawn_columns import MIN_CELLS_OF_BARS, Piece
from tracetui.drawing.format import INDENT, CardLine, cell_at, cut_name, finding_cards
from tracetui.drawing.hues import SEVERITY_HUES, Hue, bar
from tracetui.kernel_names.slice_names import short_kernel
from tracetui.model.table import Column, Table, TextKind
from tracetui.ui.widgets.columns import GAP, ShownColumn

# The rows of a list that are cards of several lines: which line belongs to which row, and what stands in it. Pure.


EDGE = "▌"
"""Stands at the left of every line of a card, in the hue of how severe it is."""
CELLS_PER_CARD_BAR, MAX_CARD_BAR = 8, 16
"""Cells of a list for each cell of a card's bar, and the most that a bar has."""

MIN_CELLS_BESIDE_TITLE = 100
"""Minimum cells of a list in which the bar stands beside the title of a card."""


class CardRows:
    """The cards of the listed rows, one below the other."""

    def __init__(self, table: Table, order: NDArray[np.int64], width: int) -> None:
        self._bar_cells = min(width // CELLS_PER_CARD_BAR, MAX_CARD_BAR) if width >= MIN_CELLS_OF_BARS else 0
        self._bar_line = 0 if width >= MIN_CELLS_BESIDE_TITLE else 1
        room = width - (self._bar_cells + 1 if self._bar_line == 0 else 0)
        self._cards = finding_cards(table, order.tolist(), max(room, 1))
        cost = np.nan_to_num(table["cost_us"].values[order].astype(np.float64))
        self._shares = cost / max(float(cost.max(initial=0.0)), 1e-9)
        words = table[SEVERITY]
        self._hues = [SEVERITY_HUES.get(str(words.cell(row))) for row in order.tolist()]
        self._width = width
        self._tops = np.cumsum([0, *map(len, self._cards)])

    def __len__(self) -> int:
        """Lines of all cards."""
        return int(self._tops[-1])

    def top(self, index: int) -> int:
        """The first line of a card."""
        return int(self._tops[min(index, len(self._cards))])

    def height(self, index: int) -> int:
        """Lines of a card, 0 behind the last."""
        return len(self._cards[index]) if index < len(self._cards) else 0

    def index_at(self, line: int) -> int:
        """The card to which a line belongs; as many as there are cards behind the last line."""
        return int(np.searchsorted(self._tops, line, side="right")) - 1 if line < len(self) else len(self._cards)

    def line(self, line: int) -> tuple[CardLine, list[Piece]]:
        """A line with the part of a card that it is, and its pieces: the first has how severe it is.

        Its bar stands at the right end of the first line, in a narrow list of the second, where that has room.
        """
        index = self.index_at(line)
        place = line - self.top(index)
        card, hue = self._cards[index][place], self._hues[index]
        pieces: list[Piece] = [(EDGE, hue), (card.text, None)]
        if place == 0:
            pieces[1:] = [(card.text[:INDENT], hue), (card.text[INDENT:], None)]
        left = self._width - self._bar_cells - cell_len(card.text)
        if place == self._bar_line and left > 0:
            pieces.append((" " * left + bar(float(self._shares[index]), self._bar_cells), hue))
        return card, pieces


# The text of a row: each cell cut or padded to the width of its column. Pure.

CARD_TITLE_GAP = " · "
"""Between the titles above cards."""
# Looking a member of an enumeration up takes as long as writing a short cell.
_KERNEL, _DECODED, _NAME = TextKind.KERNEL, TextKind.DECODED, TextKind.NAME


def placed(text: str, width: int, right: bool, middle: bool = False) -> str:
    """Text in exactly `width` cells, cut with `…`, at the end or in the middle, or padded on one side."""
    length = len(text) if text.isascii() else cell_len(text)
    if length > width and middle and width > 8 and text.isascii():
        tail = width // 3
        return f"{text[: width - tail - 1]}…{text[-tail:]}"
    if length > width:
        return set_cell_size(text, width - 1) + "…" if width > 0 else ""
    return " " * (width - length) + text if right else text + " " * (width - length)


SEVERITY = "severity"
"""Name of the column whose words have a hue."""
_SHOWN_WORDS = {"fine": "ok"}
"""Words for how severe something is that are shorter on the screen."""
_TONES = {"-": Hue.GOOD, "+": Hue.MINOR}
"""Hues of values that begin with a sign: less and more."""


def row_pieces(table: Table, row: int, columns: list[tuple[ShownColumn, int]], plain: bool = False) -> list[Piece]:
    """One row of a table as the text of its columns, each in its hue; `plain` asks for textures."""
    pieces: list[Piece] = []
    for visible, width in columns:
        if pieces:
            pieces.append((" " * GAP, None))
        if visible.drawn is not None:
            drawn = visible.drawn.pieces(row, width, plain)
            used = sum(len(text) for text, _ in drawn)
            pieces += [*drawn, (" " * (width - used), None)]
        else:
            pieces.append(_cell_piece(table[visible.spec.name], row, width))
    return pieces


def _cell_piece(column: Column, row: int, width: int) -> Piece:
    spec = column.spec
    in_middle = spec.text is _KERNEL or spec.text is _DECODED
    text = cell_at(column, row)
    hue = None
    if spec.text is _KERNEL:
        text = short_kernel(text)
    elif spec.text is _NAME and len(text) > width:
        text = cut_name(text, width)
    elif spec.name == SEVERITY:
        hue, text = SEVERITY_HUES.get(text), _SHOWN_WORDS.get(text, text)
    elif spec.is_signed:
        hue = _TONES.get(text[:1])
    return placed(text, width, column.is_number, in_middle), hue
