"""A list on screen: which columns there is room for, and its rows as text in hues, in cells or as cards. Pure."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len, set_cell_size

from tracetui.config import config
from tracetui.drawing.drawn_columns import MIN_CELLS_OF_BARS, DrawnColumn, Piece
from tracetui.drawing.format import INDENT, CardLine, cell_at, cut_name, finding_cards, ordered
from tracetui.drawing.hues import SEVERITY_HUES, Hue, bar
from tracetui.frozen import frozen
from tracetui.kernel_names.slice_names import short_kernel
from tracetui.linking.step_kinds import UNKNOWN
from tracetui.model.table import Column, ColumnSpec, Table, TextKind
from tracetui.panes import PANES

GAP = 2
"""Cells between two columns."""

ESSENTIAL = 6
"""So many columns are kept for as long as they fit at all."""


MIN_BESIDE_PROSE = 4
"""Minimum columns that stay where a verdict needs room."""

REPEATED = {"gpu_wall_us": "device_total_us"}
"""Columns that tell nothing where they equal another one wherever that has a time: torch counts none for calls."""
MIN_ROWS_ALIKE = 4
"""Minimum rows that are alike by more than chance."""

MAX_NAMES = 4
"""Maximum columns at the left that stay while the others are scrolled."""


@frozen(eq=True)
class ShownColumn:
    """A column on the screen."""

    spec: ColumnSpec
    title: str
    """Its heading, marked where some of its numbers are doubtful."""
    width: int
    """Cells; for a column that grows, the least that it needs."""
    comfort: int = 0
    """Cells that a column that grows would like to have: as its values need, within reason."""
    is_text: bool = False
    """True where its values are texts rather than numbers."""
    direction: int = 0
    """1 where its values ascend from row to row of the table, -1 where they descend, 0 where they do neither."""
    drawn: DrawnColumn | None = None
    """The drawing that takes the place of cells."""


def layout_of(pane: str, table: Table, by: str | None = None) -> list[ShownColumn]:
    """The columns of a table that go on screen, as wide as their values; those without any value are left out.

    Columns that the settings name are all there, in their order.
    """
    if chosen := [table[name] for name in config().columns_of(pane, by) if name in table]:
        return [measured(column, table.heading(column.name)) for column in chosen]
    layout = ordered(table, pane, by)
    filled = [column for column in layout if not column.nulls().all()]
    if pane in PANES and len(table) >= MIN_ROWS_ALIKE:
        filled = _telling(filled)
    return [measured(column, table.heading(column.name)) for column in filled or layout]


def _telling(columns: list[Column]) -> list[Column]:
    """The columns without those that tell nothing: equal to one before in every row, 0 or unknown in every row."""
    kept: list[Column] = []
    for column in columns:
        is_repeated = any(_are_equal(column, other) for other in kept)
        if column.spec.is_key or not (is_repeated or _is_empty(column)):
            kept.append(column)
    return kept


def _are_equal(column: Column, other: Column) -> bool:
    """True for two columns of times that have the same value in every row."""
    if column.unit != "us" or other.unit != "us" or column.spec.is_moment or other.spec.is_moment:
        return False
    if REPEATED.get(column.name) == other.name:
        has_time = np.nan_to_num(other.values) != 0
        return bool(np.array_equal(column.values[has_time], other.values[has_time], equal_nan=True))
    return bool(np.array_equal(column.values, other.values, equal_nan=True))


def _is_empty(column: Column) -> bool:
    """True where no row has a time, or a kind that is known."""
    if column.is_text:
        return bool((column.nulls() | column.equal(UNKNOWN)).all())
    return column.unit == "us" and not column.spec.is_moment and not np.nan_to_num(column.values).any()


def _direction(column: Column) -> int:
    """1 where the numbers of a column ascend from row to row, -1 where they descend, else 0; nulls may stand last."""
    values = column.values[~column.nulls()] if not column.is_text else column.values[:0]
    if len(values) < 2 or values[0] == values[-1] or column.nulls()[: len(values)].any():
        return 0
    steps = np.diff(values)
    return 1 if (steps >= 0).all() else -1 if (steps <= 0).all() else 0


def sorting_column(layout: list[ShownColumn], main: tuple[str, ...]) -> tuple[str | None, bool]:
    """The column that the rows of a table come sorted by, and whether descending: one of `main`, the largest first.

    Any other column may be in order by chance.
    """
    ordering = [column.spec.name for column in layout if column.direction < 0 and column.spec.name in main]
    return (ordering[0], True) if ordering else (None, False)


def measured(column: Column, title: str) -> ShownColumn:
    """A column no wider than its title and its widest value; one that grows learns what it would like."""
    spec = column.spec
    needed = max(_widest(column), cell_len(title) + 1)
    if spec.grow:
        return ShownColumn(spec, title, spec.width, min(needed, 2 * spec.width), column.is_text)
    # Part of a number is a wrong number.
    width = needed if column.is_number else min(spec.width, needed)
    return ShownColumn(spec, title, width, 0, column.is_text, _direction(column))


def _widest(column: Column) -> int:
    """Cells of the widest of the first texts, or of the largest numbers."""
    if len(column) == 0:
        return 0
    is_marked = False
    if column.is_text:
        rows = list(range(min(len(column), 500)))
    else:
        values = np.where(column.nulls(), 0, column.values)
        # A cell further down may have the mark `~` before it.
        is_marked = column.doubtful is not None and bool(column.doubtful.any())
        rows = [int(values.argmin()), int(values.argmax()), *range(min(len(column), 50))]
    return max(cell_len(cell_text(column, row)) for row in rows) + is_marked


def fitted(layout: list[ShownColumn], width: int, names: int = 1) -> list[tuple[ShownColumn, int]]:
    """Columns with widths that together take `width` cells; the last are dropped until the rest fits.

    Beyond the first few, columns are dropped already where the growing ones could not have what they like. A verdict at
    the end is read in full before the number beside it is, unless that is the first behind the names: scrolling would
    pass over it.
    """
    chosen = list(layout)
    while len(chosen) > ESSENTIAL and sum(max(column.width, column.comfort) + GAP for column in chosen) > width:
        chosen.pop()
    while len(chosen) > 1 and _cells(chosen) > width:
        chosen.pop()
    last = chosen[-1].spec if chosen else None
    is_verdict = last is not None and last.is_key and last.text is TextKind.PROSE and last.grow > 0
    if len(chosen) > max(MIN_BESIDE_PROSE, names + 2) and is_verdict:
        others = _cells(chosen[:-1])
        if others + chosen[-1].comfort + GAP > width:
            del chosen[-2]
    spare = max(width - _cells(chosen), 0)
    shares = sum(column.spec.grow for column in chosen)
    widths = [column.width + (spare * column.spec.grow // shares if shares else 0) for column in chosen]
    return list(zip(chosen, widths, strict=True))


def scrolled(layout: list[ShownColumn], columns: int, width: int) -> tuple[list[tuple[ShownColumn, int]], bool]:
    """The columns on screen without the first ones behind the names, and whether there are more to the right.

    The names stay for as long as the next column fits beside them, so that every column can be reached.
    """
    # One cell for the mark that says that there are more.
    room = width - 1
    names = _fitting(_names(layout), lambda count: layout[: count + 1], room)
    rest = layout[names + columns :]
    kept = names if not columns else _fitting(names, lambda count: [*layout[:count], *rest[:1]], room)
    remaining = [*layout[:kept], *rest]
    fitting = fitted(remaining, width, kept)
    return (fitting, False) if len(fitting) == len(remaining) else (fitted(remaining, room, kept), True)


def with_drawn(
    layout: list[ShownColumn], drawn: list[DrawnColumn], skipped: int, width: int
) -> tuple[list[tuple[ShownColumn, int]], bool]:
    """As `scrolled`, with as many of some drawn columns as leave room for the first others."""
    for count in range(len(drawn), -1, -1):
        chosen = drawn[:count]
        room = width - sum(each.width + GAP for each in chosen)
        beside = max((each.beside for each in chosen), default=0)
        if count and room < _cells(layout[:beside]):
            continue
        drawn_names = {each.instead_of for each in chosen}
        listed = [column for column in layout if column.spec.name not in drawn_names]
        columns, has_more = scrolled(listed, skipped, room)
        names = [column.spec.name for column, _ in columns]
        if all(not each.after or each.after in names for each in chosen):
            return _placed(columns, chosen), has_more
    return scrolled(layout, skipped, width)


def _placed(columns: list[tuple[ShownColumn, int]], drawn: list[DrawnColumn]) -> list[tuple[ShownColumn, int]]:
    """Columns with the drawn ones behind those that they belong to, or at the end."""
    placed: list[tuple[ShownColumn, int]] = []
    for column, width in columns:
        placed.append((column, width))
        placed += [(_shown(each), each.width) for each in drawn if each.after == column.spec.name]
    return [*placed, *((_shown(each), each.width) for each in drawn if not each.after)]


def _shown(drawn: DrawnColumn) -> ShownColumn:
    return ShownColumn(ColumnSpec("", drawn.title), drawn.title, drawn.width, drawn=drawn)


def _names(layout: list[ShownColumn]) -> int:
    """Number of columns at the left that say which row it is: up to a growing name, or else the texts at the start.

    A sentence is no name, and a name that stands behind many numbers leaves no room to scroll them.
    """
    start = layout[:MAX_NAMES]
    for index, column in enumerate(start):
        if column.spec.grow and column.spec.text is not TextKind.PROSE:
            return index + 1
    texts = next((index for index, column in enumerate(start) if not column.is_text), len(start))
    return max(texts, 1)


def _fitting(names: int, beside: Callable[[int], list[ShownColumn]], width: int) -> int:
    """The most of some names that fit together with the column beside so many."""
    return next((count for count in range(names, 0, -1) if _cells(beside(count)) <= width), 0)


def _cells(layout: list[ShownColumn]) -> int:
    """Cells that columns take at least, with the gaps behind them."""
    return sum(column.width + GAP for column in layout)


def cell_text(column: Column, row: int) -> str:
    """A cell as it stands in a list, not yet cut to a width."""
    text = cell_at(column, row)
    return short_kernel(text) if column.spec.text is TextKind.KERNEL else text


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
