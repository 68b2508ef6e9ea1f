"""The cells of the terminal that have to change, and a short text that changes them.

`CellDiffer` holds two grids: the cells that are wanted, to which each update of Textual's compositor is applied, and
those that the terminal shows. What differs is written: cursor moves where they cost fewer bytes than the cells between,
pens as differences, erasing in place of spaces. The grids may be far apart: frames in between are never written.

A stretch with a link, or with characters that terminals measure differently (wide, combined, without a width, from
right to left), is written whole, as Textual would write it, and with it all that stands to the right of it.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len
from rich.color import ColorSystem
from rich.console import COLOR_SYSTEMS, Console
from textual.strip import Strip

from tracetui.ui.base.textual_internals import ChopsUpdate, LayoutUpdate, codes_of

Update = LayoutUpdate | ChopsUpdate

MAX_GAP = 12
"""Maximum unchanged cells between two changed ones that are considered for writing rather than stepping over."""
MIN_ERASED = 6
"""Minimum blank cells at the end of a run that are erased."""
MIN_STEPPED_OVER = 12
"""Minimum blank cells that are erased and stepped over where the run goes on."""
MIN_ERASED_REST = 4
"""Minimum changed cells of the blank rest of a row, for which that is erased."""
MAX_STRETCHES = 2048
"""Maximum stretches written whole that are kept, on screen or not."""

SPACE = 32
UNKNOWN = -1
"""In place of a code point: what the terminal shows is not known. Smaller numbers stand for stretches written whole."""
RESET = "\x1b[m"

_UNSEEN_ON_BLANKS = 0b111
"""Bold, dim and italic."""
_ENDED_BY = {0: "22", 1: "22", 2: "23", 3: "24", 6: "27", 7: "28", 8: "29"}
"""The code that ends an attribute, by its bit; others are ended by a reset."""
_ATTRIBUTE_CODES = ("1", "2", "3", "4", "5", "6", "7", "8", "9", "21", "51", "52", "53")
_BIT_OF = {code: bit for bit, code in enumerate(_ATTRIBUTE_CODES)}
_ODD_CATEGORIES = {"Mn", "Me", "Mc", "Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"}
_FROM_RIGHT = {"R", "AL", "AN"}

Cells = NDArray[np.int32]


Key = TypeVar("Key")
Value = TypeVar("Value")


class _Computed(dict[Key, Value]):
    """Values that are made when they are first asked for."""

    def __init__(self, make: Callable[[Key], Value]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: Key) -> Value:
        value = self[key] = self._make(key)
        return value


class Pen(NamedTuple):
    """The look of cells, as SGR codes; empty codes for the terminal's own colours."""

    attributes: int = 0
    """One bit for each attribute that is on, in the order of rich."""
    colour: str = ""
    background: str = ""
    is_blank: bool = False
    """True for a pen of spaces alone, on which the colour of the text is not seen."""


class Pens:
    """Every pen that was used, by number, and how to get from one to another."""

    def __init__(self) -> None:
        self._all: list[Pen] = []
        self._numbers: dict[Pen, int] = {}
        self.of_codes: dict[str, int] = _Computed(lambda codes: self.number(_parsed(codes)))
        """The number of the pen that SGR codes make behind a reset."""
        self.changes: dict[tuple[int, int], tuple[str, int]] = _Computed(self._change)
        """The codes that lead from one pen to another, and the pen that the terminal has then.

        For a blank that is any pen with which a space looks right.
        """
        self.blanks = np.zeros(64, np.int32)
        """For each pen the one that draws a space so that it looks the same."""
        self.number(Pen())

    def __getitem__(self, number: int) -> Pen:
        return self._all[number]

    def number(self, pen: Pen) -> int:
        """The number of a pen; that of the terminal's own colours is 0."""
        number = self._numbers.get(pen)
        if number is None:
            number = self._numbers[pen] = len(self._all)
            self._all.append(pen)
            is_seen = pen.attributes & ~_UNSEEN_ON_BLANKS
            blank = number if is_seen or pen.is_blank else self.number(Pen(0, "", pen.background, True))
            if number >= len(self.blanks):
                self.blanks = np.concatenate([self.blanks, np.zeros_like(self.blanks)])
            self.blanks[number] = blank
        return number

    def _change(self, pair: tuple[int, int]) -> tuple[str, int]:
        now, then = self._all[pair[0]], self._all[pair[1]]
        options = [then]
        if then.is_blank:
            options = [Pen(0, "", then.background)]
            options.insert(0, Pen(now.attributes & _UNSEEN_ON_BLANKS, now.colour, then.background))
        codes, pen = min(((_shortest(now, pen), pen) for pen in options), key=lambda option: len(option[0]))
        return codes, self.number(pen)


def _parsed(codes: str) -> Pen:
    """The pen that SGR codes make behind a reset."""
    attributes, colour, background = 0, "", ""
    parts = iter(codes.split(";") if codes else ())
    for part in parts:
        code = part
        if part in ("38", "48"):
            form = next(parts)
            code = ";".join([part, form, *(next(parts) for _ in range(1 if form == "5" else 3))])
        if part in _BIT_OF:
            attributes |= 1 << _BIT_OF[part]
        elif part == "39":
            colour = ""
        elif part == "49":
            background = ""
        elif part[-2:-1] in ("3", "9"):
            colour = code
        else:
            background = code
    return Pen(attributes, colour, background)


def _shortest(now: Pen, then: Pen) -> str:
    """The shorter of the difference of two pens, and the second one behind a reset."""
    if now == then:
        return ""
    on = [code for bit, code in enumerate(_ATTRIBUTE_CODES) if then.attributes >> bit & 1]
    whole = ";".join(["0", *on, *filter(None, (then.colour, then.background))])
    whole = RESET if whole == "0" else f"\x1b[{whole}m"
    difference = _difference(now, then)
    return whole if difference is None or len(whole) < len(difference) else difference


def _difference(now: Pen, then: Pen) -> str | None:
    """The codes that turn one pen into another, None where only a reset does."""
    ended = [bit for bit in range(len(_ATTRIBUTE_CODES)) if (now.attributes & ~then.attributes) >> bit & 1]
    if not _ENDED_BY.keys() >= set(ended):
        return None
    codes = list(dict.fromkeys(_ENDED_BY[bit] for bit in ended))
    # The code that ends bold ends dim as well, and the other way round.
    kept = now.attributes & ~(0b11 if "22" in codes else 0)
    codes += [code for bit, code in enumerate(_ATTRIBUTE_CODES) if (then.attributes & ~kept) >> bit & 1]
    if now.colour != then.colour:
        codes.append(then.colour or "39")
    if now.background != then.background:
        codes.append(then.background or "49")
    return f"\x1b[{';'.join(codes)}m"


class CharWidths:
    """Finds the characters that are not one cell wide on every terminal, whatever stands beside them."""

    def __init__(self) -> None:
        self._kinds = np.zeros(0x10000, np.int8)
        """By code point: 1 for one cell wide everywhere, -1 for others, 0 where it was not asked for yet."""
        # It is no character, and stands for all code points behind it.
        self._kinds[-1] = -1

    def not_single(self, chars: Cells) -> NDArray[np.intp]:
        """The indices of the characters that are not."""
        codes = np.minimum(chars, 0xFFFF)
        kinds = self._kinds[codes]
        if not kinds.all():
            for code in np.unique(codes[kinds == 0]).tolist():
                letter = chr(code)
                is_single = (
                    unicodedata.category(letter) not in _ODD_CATEGORIES
                    and unicodedata.bidirectional(letter) not in _FROM_RIGHT
                    and cell_len(letter) == 1
                )
                self._kinds[code] = 1 if is_single else -1
            kinds = self._kinds[codes]
        return np.flatnonzero(kinds < 0)


class CellDiffer:
    """The cells that are wanted and those that are shown, for one terminal."""

    def __init__(self, console: Console, can_erase_colour: bool) -> None:
        """`can_erase_colour` says whether the terminal erases with the background of the pen, not with its own."""
        self._console = console
        colours = COLOR_SYSTEMS.get(console.color_system or "", ColorSystem.TRUECOLOR)
        self._render_codes = partial(Strip.render_ansi, color_system=colours)
        self._can_erase_colour = can_erase_colour
        self._pens = Pens()
        self._char_widths = CharWidths()
        self._stretches: dict[str, int] = {}
        self._written_whole: dict[int, Strip] = {}
        self._size = (0, 0)
        self._resize(0, 0)

    def apply(self, update: Update, width: int, height: int) -> None:
        """Have the cells of an update wanted, on a screen of a size."""
        if (width, height) != self._size:
            self._resize(width, height)
        if isinstance(update, LayoutUpdate):
            for y, line in enumerate(update.strips, update.region.y):
                x = update.region.x
                for strip in line:
                    self._put(y, x, strip, width)
                    x += strip.cell_length
            return
        for y, left, right in update.spans:
            for end, (x, part) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
                if part is not None and x <= right and end > left:
                    self._put(y, x, part, min(end, right))

    def invalidate(self) -> None:
        """Take nothing for granted of what the terminal shows: all that is wanted is written again."""
        self._shown_chars.fill(UNKNOWN)
        self._changed_rows.update(range(self._size[1]))

    def difference(self) -> str:
        """The text that turns the cells that are shown into those that are wanted, which are shown from now on."""
        self._put_cells()
        rows = np.array(sorted(self._changed_rows), np.intp)
        self._changed_rows.clear()
        # What nobody has asked for is left as it is.
        chars, pens = self._chars[rows], self._pen_of[rows]
        differs = ((chars != self._shown_chars[rows]) | (pens != self._shown_pens[rows])) & (chars != UNKNOWN)
        writer = _RowWriter(self._pens, self._can_erase_colour)
        changed = differs.any(axis=1)
        if changed.any():
            self._write_rows(writer, rows[changed], chars[changed], pens[changed], differs[changed])
            self._shown_chars[rows], self._shown_pens[rows] = chars, pens
        return writer.finish()

    def _resize(self, width: int, height: int) -> None:
        """Start over: nothing is wanted, and the content of the screen is unknown."""
        self._size = (width, height)
        shape = (height, width)
        self._chars, self._shown_chars = np.full(shape, UNKNOWN, np.int32), np.full(shape, UNKNOWN, np.int32)
        self._pen_of, self._shown_pens = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
        self._strips: list[dict[int, tuple[Strip, int]]] = [{} for _ in range(height)]
        self._to_put: dict[tuple[int, int, int], Strip] = {}
        """By row, begin and end: strips that are wanted, in order, whose cells are not in the grid yet."""
        self._changed_rows: set[int] = set()

    def _put(self, y: int, x: int, strip: Strip, right: int) -> None:
        """Have a strip wanted on a row from a cell on, up to another."""
        width, height = self._size
        end = min(x + strip.cell_length, right, width)
        if not (0 <= y < height and 0 <= x < end):
            return
        there = self._strips[y]
        known = there.get(x)
        if known is not None and known[1] == end and (known[0] is strip or known[0] == strip):
            return
        if known is None or known[1] != end:
            for begin in [begin for begin, (_, stop) in there.items() if begin < end and x < stop]:
                del there[begin]
        there[x] = strip, end
        self._changed_rows.add(y)
        self._to_put.pop((y, x, end), None)
        self._to_put[y, x, end] = strip

    def _put_cells(self) -> None:
        """Put the cells of the strips that are wanted into the grid."""
        if not self._to_put:
            return
        strips = list(self._to_put.values())
        chars, pens, begins, whole = self._cells(strips)
        for index, (y, x, end) in enumerate(self._to_put):
            if index in whole:
                cells = self._stretch(strips[index])
                self._chars[y, x:end], self._pen_of[y, x:end] = cells[0][: end - x], cells[1][: end - x]
                continue
            begin = begins[index]
            stop = begin + end - x
            self._chars[y, x:end], self._pen_of[y, x:end] = chars[begin:stop], pens[begin:stop]
        self._to_put.clear()

    def _cells(self, strips: list[Strip]) -> tuple[Cells, Cells, list[int], set[int]]:
        """Code points and pens of strips one behind the other, where each begins, and those that are written whole."""
        of_codes, render_codes = self._pens.of_codes, self._render_codes
        texts: list[str] = []
        numbers, firsts, whole = [], [], set()
        for index, strip in enumerate(strips):
            firsts.append(len(texts))
            for part, style, control in strip:
                texts.append(part)
                if style is None:
                    numbers.append(0)
                else:
                    codes = codes_of(style)
                    numbers.append(of_codes[render_codes(style) if codes is None else codes])
                    if style.link:
                        whole.add(index)
                if control:
                    whole.add(index)
        # Half of a pair that makes one character is no character: it is found to be none below.
        chars = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), "<i4")
        lengths = np.array(list(map(len, texts)), np.intp)
        begins = (np.cumsum(lengths) - lengths)[np.array(firsts, np.intp)]
        others = self._char_widths.not_single(chars)
        if len(others):
            whole.update((np.searchsorted(begins, others, "right") - 1).tolist())
        pens = np.array(numbers, np.int32).repeat(lengths)
        return chars, np.where(chars == SPACE, self._pens.blanks[pens], pens), begins.tolist(), whole

    def _stretch(self, strip: Strip) -> tuple[Cells, Cells]:
        written = strip.render(self._console)
        number = self._stretches.get(written)
        if number is None:
            if len(self._stretches) >= MAX_STRETCHES:
                self._drop_stretches()
            number = self._stretches[written] = min(self._written_whole, default=UNKNOWN) - 1
            self._written_whole[number] = strip
        length = strip.cell_length
        return np.full(length, number, np.int32), np.arange(length, dtype=np.int32)

    def _drop_stretches(self) -> None:
        """Drop the stretches that are neither wanted nor on screen."""
        used = set(np.unique(self._chars).tolist()) | set(np.unique(self._shown_chars).tolist())
        self._stretches = {written: number for written, number in self._stretches.items() if number in used}
        self._written_whole = {number: strip for number, strip in self._written_whole.items() if number in used}

    def _write_rows(
        self, writer: _RowWriter, rows: NDArray[np.intp], chars: Cells, pens: Cells, differs: NDArray[np.bool_]
    ) -> None:
        """Write what differs on some rows."""
        even = np.flatnonzero(chars.min(axis=1) >= UNKNOWN)
        row_of = {index: row for row, index in enumerate(even.tolist())}
        if len(even) < len(rows):
            chars, pens = chars[even], pens[even]
        pieces = _Pieces(self._pens, chars, pens, differs[even])
        for index, y in enumerate(rows.tolist()):
            if index in row_of:
                writer.write(y, pieces, row_of[index])
            else:
                self._write_row_with_stretches(writer, y, differs[index])

    def _write_row_with_stretches(self, writer: _RowWriter, y: int, differs: NDArray[np.bool_]) -> None:
        """Write what differs on a row with stretches that are written whole."""
        chars, pens = self._chars[y], self._pen_of[y]
        whole = np.flatnonzero(chars < UNKNOWN)
        # Terminals may have other opinions of how wide a stretch is: all that stands to the right is placed again.
        first = next((x for x in whole.tolist() if differs[x]), len(chars))
        while 0 < first < len(chars) and chars[first] == chars[first - 1] and pens[first] == pens[first - 1] + 1:
            first -= 1
        differs = differs.copy()
        differs[first:] = chars[first:] != UNKNOWN
        # Of a cell within a stretch the pen is its place there, which may be the number of the pen beside it.
        own_pens = np.where(chars < UNKNOWN, UNKNOWN, pens)
        for begin, end in self._pieces(chars, pens):
            if chars[begin] < UNKNOWN and differs[begin]:
                cells = self._written_whole[int(chars[begin])].crop(int(pens[begin]), int(pens[end - 1]) + 1)
                writer.write_whole(y, begin, cells.render(self._console))
            elif chars[begin] > UNKNOWN:
                part = np.zeros_like(differs)
                part[begin:end] = differs[begin:end]
                writer.write(y, _Pieces(self._pens, chars[None], own_pens[None], part[None]), 0)

    @staticmethod
    def _pieces(chars: Cells, pens: Cells) -> Iterator[tuple[int, int]]:
        """Begin and end of each stretch that is written whole, and of what lies between."""
        is_whole = chars < UNKNOWN
        goes_on = (is_whole[1:] == is_whole[:-1]) & (
            ~is_whole[1:] | ((chars[1:] == chars[:-1]) & (pens[1:] == pens[:-1] + 1))
        )
        goes_on &= (chars[1:] == UNKNOWN) == (chars[:-1] == UNKNOWN)
        yield from pairwise([0, *(np.flatnonzero(~goes_on) + 1).tolist(), len(chars)])


class _Pieces:
    """Rows of a grid that are wanted, cut where the pen changes and where cells that differ begin or end.

    Positions are indices of the cells of all rows, one behind the other; numpy is asked once for all of them.
    """

    def __init__(self, pens: Pens, chars: Cells, numbers: Cells, differs: NDArray[np.bool_]) -> None:
        count, self.width = chars.shape
        self.text = np.where(chars < 0, SPACE, chars).astype("<u4").tobytes().decode("utf-32-le")
        has_other_pen = np.ones(chars.shape, np.bool_)
        np.not_equal(numbers[:, 1:], numbers[:, :-1], out=has_other_pen[:, 1:])
        begins_piece = has_other_pen.copy()
        begins_piece[:, 1:] |= differs[:, 1:] != differs[:, :-1]
        begins = np.flatnonzero(begins_piece)
        changed = np.flatnonzero(differs.ravel()[begins])
        self.begins: list[int] = begins.tolist()
        self.begins.append(count * self.width)
        self.pens: list[int] = numbers.ravel()[begins].tolist()
        self.changed: list[int] = changed.tolist()
        """The pieces that differ."""
        self.firsts = np.searchsorted(begins[changed], np.arange(count + 1) * self.width).tolist()
        """For each row its first one in them."""
        self.can_be_bridged: list[bool] = np.greater(chars.min(axis=1), UNKNOWN).tolist()
        """For each row: True where all its cells can be written again by themselves."""
        # Where the last run of each row begins, and how many of its cells differ.
        last_begins = self.width - 1 - has_other_pen[:, ::-1].argmax(axis=1)
        self._rests = (last_begins + np.arange(count) * self.width).tolist()
        self._is_space_last = (chars[:, -1] == SPACE).tolist()
        in_rest = np.arange(self.width) >= last_begins.reshape(-1, 1)
        self._changed_in_rest = np.count_nonzero(differs & in_rest, axis=1).tolist()
        self._last_pens = numbers[:, -1].tolist()
        self._pens = pens

    def blank_rest(self, row: int) -> tuple[int, int] | None:
        """The begin of the blank rest of a row and its pen, if so much of it differs that erasing it pays."""
        pen = self._last_pens[row]
        is_blank = self._is_space_last[row] and self._pens[pen].is_blank
        pays = is_blank and self._changed_in_rest[row] >= MIN_ERASED_REST
        return (self._rests[row], pen) if pays else None


class _RowWriter:
    """Writes parts of rows, and knows where the cursor is and which pen the terminal has."""

    def __init__(self, pens: Pens, can_erase_colour: bool) -> None:
        self._pens = pens
        self._can_erase_colour = can_erase_colour
        self._out: list[str] = []
        self._pen = 0
        self._cursor = (-1, -1)

    def finish(self) -> str:
        """All that was written; the terminal then has the pen that it began with."""
        if self._pen:
            self._out.append(RESET)
        return "".join(self._out)

    def write_whole(self, y: int, x: int, written: str) -> None:
        """Write a stretch that a terminal may take to have another width."""
        self._move(y, x)
        if self._pen:
            self._out.append(RESET)
            self._pen = 0
        self._out.append(written)
        self._cursor = (-1, -1)

    def write(self, y: int, pieces: _Pieces, row: int) -> None:
        """Write the pieces of a row that differ."""
        changed = pieces.changed[pieces.firsts[row] : pieces.firsts[row + 1]]
        rest = pieces.blank_rest(row)
        if rest is not None and not self._can_erase(rest[1]):
            rest = None
        offset, begins, pens = row * pieces.width, pieces.begins, pieces.pens
        end = offset + pieces.width if rest is None else rest[0]
        changes, out, text = self._pens.changes, self._out, pieces.text
        pen = self._pen
        cursor = offset + self._cursor[1] if self._cursor[0] == y else UNKNOWN
        for piece in changed:
            begin, stop, number = begins[piece], begins[piece + 1], pens[piece]
            if begin >= end:
                break
            if begin != cursor:
                way, pen = self._way(y, row, pieces, piece, begin, cursor, pen)
                out.append(way)
            codes, pen = changes[pen, number]
            if codes:
                out.append(codes)
            cursor = stop
            if stop - begin >= MIN_ERASED and self._can_erase(number):
                goes_on = stop < end and piece + 1 in changed
                if stop - begin >= MIN_STEPPED_OVER or not goes_on:
                    out.append(f"\x1b[{stop - begin}X{_forward(stop - begin) if goes_on else ''}")
                    cursor = stop if goes_on else begin
                    continue
            out.append(text[begin:stop])
        if rest is not None:
            way, pen = self._way(y, row, pieces, bisect_left(begins, rest[0]), rest[0], cursor, pen)
            codes, pen = changes[pen, rest[1]]
            out.append(f"{way}{codes}\x1b[K")
            cursor = rest[0]
        self._pen = pen
        # Terminals differ in where the cursor is behind the last cell.
        self._cursor = (y, cursor - offset) if offset <= cursor < offset + pieces.width else (-1, -1)

    def _can_erase(self, number: int) -> bool:
        """True where erasing leaves cells as a pen draws spaces."""
        pen = self._pens[number]
        return pen.is_blank and (self._can_erase_colour or not pen.background)

    def _way(self, y: int, row: int, pieces: _Pieces, piece: int, begin: int, cursor: int, pen: int) -> tuple[str, int]:
        """Codes that move the cursor to a piece, or write the cells between where that is shorter, and the pen then."""
        gap = begin - cursor
        if cursor == UNKNOWN or gap < 0:
            return _to(y, begin - row * pieces.width), pen
        if gap == 0:
            return "", pen
        if gap > MAX_GAP or not pieces.can_be_bridged[row]:
            return _forward(gap), pen
        changes, after = self._pens.changes, pieces.pens[piece]
        direct = len(_FORWARD[gap]) + len(changes[pen, after][0])
        # Each cell is a byte at least.
        if gap <= direct:
            bridge, pen_then = self._bridge(pieces, piece, cursor, pen)
            size = len(bridge) if bridge.isascii() else len(bridge.encode())
            if size + len(changes[pen_then, after][0]) <= direct:
                return bridge, pen_then
        return _FORWARD[gap], pen

    def _bridge(self, pieces: _Pieces, end: int, cursor: int, pen: int) -> tuple[str, int]:
        """The text that writes the cells from the cursor to a piece again, and the pen that the terminal has then."""
        changes, begins, text = self._pens.changes, pieces.begins, pieces.text
        first = end - 1
        if begins[first] <= cursor:
            codes, pen = changes[pen, pieces.pens[first]]
            return codes + text[cursor : begins[end]], pen
        while begins[first] > cursor:
            first -= 1
        parts = []
        for piece in range(first, end):
            codes, pen = changes[pen, pieces.pens[piece]]
            parts += [codes, text[max(begins[piece], cursor) : begins[piece + 1]]]
        return "".join(parts), pen

    def _move(self, y: int, x: int) -> None:
        """Move the cursor to a cell."""
        line, cell = self._cursor
        if (line, cell) == (y, x):
            return
        self._out.append(_forward(x - cell) if line == y and cell < x else _to(y, x))
        self._cursor = (y, x)


def _forward(cells: int) -> str:
    return f"\x1b[{cells}C" if cells > 1 else "\x1b[C"


_FORWARD = [_forward(cells) for cells in range(MAX_GAP + 1)]


def _to(y: int, x: int) -> str:
    return f"\x1b[{y + 1};{x + 1}H" if x else f"\x1b[{y + 1}H"
