"""From slices to the characters and colours of a grid of cells.

A cell that holds more than two slices shows how busy it is as a block that grows from the bottom, in the
colour of the longest. A cell with one or two shows where they start and end to an eighth of a cell. Whole
cells of a slice are spaces on its colour; names are written over them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tracetui.drawing.timeline.palette import (
    BOLD,
    FIRST_PHASE,
    GROUND,
    REVERSE,
    SHORTEST,
    UNDERLINE,
    Codes,
    Labels,
    Palette,
)
from tracetui.frozen import frozen
from tracetui.kernel_names.slice_names import Family
from tracetui.model.trace import Slices

# Slices sorted by track and start, so that the whole screen is found with one search.
#
# A *track* is one row of a lane. The work per frame depends on the number of cells and hardly on that of slices: one
# `searchsorted` over all tracks and cell edges, prefix sums for how busy a cell is, and a table of the longest slice
# of 1, 2, 4, ... blocks for what a cell is busy with.

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]

BLOCK = 32
"""Slices per block of the table of longest slices."""


@frozen
class Touching:
    """Slices that touch cells; all arrays have the shape (tracks, cells)."""

    first: Int64
    """Place of the first slice that touches the cell."""
    last: Int64
    """Place after the last one; equal to `first` where the cell is empty."""
    busy: Int64
    """Time in ns of the cell that is covered."""
    crossing: Int64
    """Place of the slice that goes on beyond the cell's right edge, else -1."""


IndexColumns = tuple[Int32, Int64, Int64, NDArray[np.float32], Int64, list[Int32], int, int, int]
"""Columns that `index_columns` makes of slices: in the order of the attributes of a `SliceIndex`."""


def index_columns(slices: Slices, rows: Int64, tracks: NDArray[np.integer], count: int) -> IndexColumns:
    """The columns of an index of the slices `rows`, each on its track; rows of one track come sorted by start."""
    narrow = tracks.astype(np.uint16) if count <= 1 << 16 else tracks
    order = np.argsort(narrow, kind="stable")
    row: Int32 = rows[order].astype(np.int32)
    track = tracks[order]
    heads: Int64 = np.searchsorted(track, np.arange(count + 1))
    start = slices.start[row]
    dur = slices.dur[row]
    room = np.append(np.diff(start), np.iinfo(np.int64).max)
    room[heads[1:-1][(heads[1:-1] > 0)] - 1] = np.iinfo(np.int64).max
    dur = np.maximum(np.minimum(dur, room), 0)
    total: Int64 = np.concatenate([np.zeros(1, np.int64), np.cumsum(dur)])
    weight = dur.astype(np.float32)
    low = int(start.min()) if len(start) else 0
    length = int(start.max()) - low + 2 if len(start) else 2
    # A clock gone wild must not overflow the key; then moments are only found to within 2**shift ns.
    shift = max(0, (length * max(count, 1)).bit_length() - 62)
    span = (length >> shift) + 2
    key = track.astype(np.int64)
    key *= span
    key += (start - low) >> shift
    return row, heads, total, weight, key, _longest_of_blocks(weight), low, shift, span


class SliceIndex:
    """Slices in the order (track, start); a number in this order is called a *place*.

    A slice is cut where the next one of its track starts, so nothing is ever drawn over. The same slice may
    stand on two tracks.
    """

    def __init__(self, slices: Slices, columns: IndexColumns) -> None:
        """The index that `index_columns` made of the slices."""
        self.rows: Int32
        """Row of the slice at each place."""
        self.heads: Int64
        """Place of each track's first slice, and the number of places."""
        self._slices = slices
        self._sum: Int64
        self._weight: NDArray[np.float32]
        self._key: Int64
        self._longest: list[Int32]
        self.rows, self.heads, self._sum, self._weight, self._key, self._longest = columns[:6]
        self._low, self._shift, self._span = columns[6:]

    def __len__(self) -> int:
        return len(self.rows)

    def start(self, places: Int64) -> Int64:
        """Starts in ns."""
        return self._slices.start[self.rows[places]]

    def end(self, places: Int64) -> Int64:
        """Ends in ns, cut where the next slice of the track starts."""
        return self.start(places) + self._sum[places + 1] - self._sum[places]

    def before(self, tracks: Int64, moments: Int64) -> Int64:
        """The number of places before the first slice of a track that starts at a moment or later."""
        within = np.clip((moments - self._low) >> self._shift, 0, self._span - 1)
        places: Int64 = np.searchsorted(self._key, tracks * self._span + within)
        return places

    def touching(self, tracks: Int64, edges: Int64) -> Touching:
        """Slices that touch the cells between consecutive edges, on each of the tracks."""
        shape = (len(tracks), len(edges) - 1)
        if len(self) == 0:
            nothing = np.zeros(shape, np.int64)
            return Touching(nothing, nothing, nothing, nothing - 1)
        heads = self.heads[tracks][:, None]
        after = self.before(tracks[:, None], edges[None, :])
        started = after > heads
        latest = np.where(started, after - 1, np.minimum(heads, len(self) - 1))
        overshoot = np.where(started, np.maximum(self.end(latest) - edges, 0), 0)
        busy = np.diff(self._sum[after] - overshoot, axis=1)
        opened = overshoot > 0
        first = np.where(opened[:, :-1], latest[:, :-1], after[:, :-1])
        return Touching(first, after[:, 1:], busy, np.where(opened[:, 1:], latest[:, 1:], -1))

    def longest(self, first: Int64, last: Int64) -> Int64:
        """The place of the longest slice of each non-empty range [first, last).

        Of a range that holds whole blocks only these are looked at, so a slice at its rims may be missed.
        """
        result = np.empty(len(first), np.int64)
        low, high = -(-first // BLOCK), last // BLOCK
        blocks = high > low
        if blocks.any():
            result[blocks] = self._longest_block(low[blocks], high[blocks])
        few = ~blocks
        if few.any():
            result[few] = self._longest_few(first[few], last[few])
        return result

    def longest_exactly(self, first: Int64, last: Int64) -> Int64:
        """The same with the rims: the place of the longest slice."""
        head, tail = np.minimum(-(-first // BLOCK) * BLOCK, last), np.maximum(last // BLOCK * BLOCK, first)
        best = self.longest(first, last)
        for low, high in ((first, head), (tail, last)):
            some = np.flatnonzero(high > low)
            if len(some):
                other = self._longest_few(low[some], high[some])
                longer = self._weight[other] > self._weight[best[some]]
                best[some[longer]] = other[longer]
        return best

    def place(self, track: int, row: int) -> int:
        """The place of a slice on a track, -1 when it is not there."""
        moment = self._slices.start[row : row + 1]
        begin = int(self.before(np.array([track]), moment)[0])
        end = int(self.before(np.array([track]), moment + (1 << self._shift))[0])
        hits = np.flatnonzero(self.rows[begin:end] == row)
        return begin + int(hits[0]) if len(hits) else -1

    def nearest(self, track: int, moment: float) -> int:
        """The place of the slice of a track that covers a moment or lies nearest to it, -1 for none."""
        head, tail = int(self.heads[track]), int(self.heads[track + 1])
        if head == tail:
            return -1
        after = int(self.before(np.array([track]), np.array([int(moment) + 1]))[0])
        around = np.arange(max(after - 1, head), min(after + 1, tail))
        distance = np.maximum(self.start(around) - moment, moment - self.end(around))
        return int(around[np.argmin(distance)])

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the index takes."""
        columns = self.rows.nbytes + self._sum.nbytes + self._weight.nbytes + self._key.nbytes
        return columns + sum(array.nbytes for array in self._longest)

    def _longest_block(self, low: Int64, high: Int64) -> Int64:
        """Longest of the blocks [low, high): the better of two runs of blocks that overlap."""
        result = np.empty(len(low), np.int64)
        level = np.frexp((high - low).astype(np.float64))[1] - 1
        for number in np.flatnonzero(np.bincount(level)).tolist():
            mine = level == number
            table = self._longest[number]
            left, right = table[low[mine]], table[high[mine] - (1 << number)]
            result[mine] = np.where(self._weight[left] >= self._weight[right], left, right)
        return result

    def _longest_few(self, first: Int64, last: Int64) -> Int64:
        """Longest of ranges shorter than two blocks, by looking at every slice."""
        counts = last - first
        heads = np.cumsum(counts) - counts
        places = np.arange(int(counts.sum())) + np.repeat(first - heads, counts)
        weight = self._weight[places]
        best = np.maximum.reduceat(weight, heads)
        hits = np.flatnonzero(weight == np.repeat(best, counts))
        owner = np.searchsorted(heads, hits, side="right") - 1
        result = np.empty(len(first), np.int64)
        result[owner[::-1]] = places[hits[::-1]]
        return result


def _longest_of_blocks(weight: NDArray[np.float32]) -> list[Int32]:
    """For 1, 2, 4, ... consecutive blocks, from every block on, the place of the longest slice."""
    blocks = len(weight) // BLOCK
    if blocks == 0:
        return []
    places = weight[: blocks * BLOCK].reshape(blocks, BLOCK).argmax(axis=1)
    levels: list[Int32] = [(places + np.arange(blocks) * BLOCK).astype(np.int32)]
    step = 1
    while 2 * step <= blocks:
        left, right = levels[-1][:-step], levels[-1][step:]
        levels.append(np.where(weight[left] >= weight[right], left, right))
        step *= 2
    return levels


Bool = NDArray[np.bool_]
PhaseAt = Callable[[NDArray[np.integer], Int64], tuple[Int64, Int64]]
"""Gives the phase at a moment of a lane, 0 for none, and its end in ns; parallel arrays."""
Part = tuple[int, int]
"""A line of a track that is drawn on several: how many of its lines are below, and how many it has."""
Looks = tuple[NDArray[np.uint32], NDArray[np.int16], NDArray[np.int16], NDArray[np.uint8]]
"""Characters, text colours, backgrounds and attributes of some cells."""

SPACE = 32
FROM_BOTTOM = np.array([ord(letter) for letter in " ▁▂▃▄▅▆▇█"], np.uint32)
"""A cell filled from the bottom by so many eighths."""
FROM_LEFT = np.array([ord(letter) for letter in " ▏▎▍▌▋▊▉█"], np.uint32)
"""A cell filled from the left by so many eighths."""
_THIN = np.array([ord(letter) for letter in "▏││▕"], np.uint32)
_HALF = np.array([ord(letter) for letter in "▌▌▐▐"], np.uint32)
_IN_ASCII = {
    "▁▂": "_", "▃▄": "-", "▅▆": "+", "▇█": "#", "▏▎▍▌▋▊│▐▕": "|", "▉▓": "#", "▒": "%", "░┊╎": ":", "╱": "/", "·": ".",
    "╌─–": "-", "╵": "'", "╰": "`", "▼▾": "v", "▽": "u", "◀": "<", "▶▸→": ">", "▪◆": "*", "…": "~", "×": "x", "µ": "u",
    "≤": "<", "Δ": "d", "↔": "=",
}  # fmt: skip
_START = np.uint32(ord("▏"))
_HATCH = ord("▒")
_STIPPLE = ord("░")
_MARK_ATTRIBUTES = np.array([0, UNDERLINE, BOLD | UNDERLINE], np.uint8)


@frozen
class Frame:
    """A grid of cells; every array has the shape (rows, cells)."""

    chars: NDArray[np.uint32]
    """Code points."""
    fg: NDArray[np.int16]
    """Palette indices, or GROUND for the widget's own."""
    bg: NDArray[np.int16]
    attributes: NDArray[np.uint8]
    """BOLD, UNDERLINE, REVERSE, DIM."""

    @classmethod
    def blank(cls, rows: int, cells: int) -> Frame:
        """A grid of spaces."""
        shape = (rows, cells)
        return cls(
            np.full(shape, SPACE, np.uint32),
            np.full(shape, GROUND, np.int16),
            np.full(shape, GROUND, np.int16),
            np.zeros(shape, np.uint8),
        )

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and cells."""
        return self.chars.shape

    def copy(self) -> Frame:
        """The same grid in arrays of its own."""
        return Frame(self.chars.copy(), self.fg.copy(), self.bg.copy(), self.attributes.copy())

    def in_ascii(self) -> Frame:
        """The same grid for a terminal that shows nothing else; a letter that nothing stands for is a `?`."""
        chars = self.chars.copy()
        for letter in np.unique(chars[chars > 126]).tolist():
            found = (plain for letters, plain in _IN_ASCII.items() if chr(letter) in letters)
            chars[chars == letter] = ord(next(found, "?"))
        return Frame(chars, self.fg, self.bg, self.attributes)

    def put(self, row: int, cell: int, other: Frame, line: int) -> None:
        """Copy a row of another grid onto this one, from a cell on."""
        for name in ("chars", "fg", "bg", "attributes"):
            getattr(self, name)[row, cell : cell + other.shape[1]] = getattr(other, name)[line]

    def write(self, row: int, cell: int, letters: Codes, fg: int = GROUND, attributes: int = 0) -> None:
        """Write text on a row, cut at both ends of it."""
        width = self.shape[1]
        low, high = max(cell, 0), min(cell + len(letters), width)
        if low >= high:
            return
        self.chars[row, low:high] = letters[low - cell : high - cell]
        self.fg[row, low:high] = fg
        self.attributes[row, low:high] = attributes

    def differing(self, other: Frame) -> Bool:
        """The mask of cells that look different; both grids have the same shape."""
        differs: Bool = self.chars != other.chars
        differs |= self.bg != other.bg
        differs |= self.attributes != other.attributes
        differs |= (self.fg != other.fg) & ((self.chars != SPACE) | (self.attributes != 0))
        return differs

    def text(self, row: int) -> str:
        """The characters of one row."""
        return str(self.chars[row].astype("<u4").tobytes(), "utf-32-le")


@frozen
class _Few:
    """Cells with one or two slices; every array has one entry per cell."""

    left: Int64
    """Place of the first slice."""
    right: Int64
    """Place of the last; that of the first where it is alone."""
    levels: tuple[NDArray[np.uint8], NDArray[np.uint8]]
    """Marks of these two, as `_mark_level` has it."""
    width: Int64
    """Of the cell, in ns."""
    place: Int64
    """Of the two, what the cell shows."""
    low: Int64
    """From which eighth of the cell that fills it."""
    high: Int64
    """To which."""
    seam: Int64
    """The eighth at which one slice takes over from the other in a cell that both fill; 0 for none."""
    fresh: Bool
    """True where what the cell shows begins in it."""

    @cached_property
    def level(self) -> NDArray[np.uint8]:
        """The higher of the two levels."""
        return np.maximum(*self.levels)


class Painter:
    """Draws tracks of an index, in the colours of a table of families."""

    def __init__(
        self,
        index: SliceIndex,
        slices: Slices,
        families: NDArray[np.uint8],
        labels: Labels,
        phase_at: PhaseAt | None = None,
    ) -> None:
        """`families` holds the family of each (name, kind); shape (names, kinds)."""
        self._index = index
        self._slices = slices
        self._families = families
        self._labels = labels
        self._phase_at = phase_at

    def paint(
        self,
        tracks: Int64,
        edges: Int64,
        colours: Palette,
        selected: Sequence[int] = (),
        highlighted: Sequence[int] = (),
        parts: Sequence[Part] = (),
    ) -> Frame:
        """Draw tracks between the edges; `selected` and `highlighted` are ascending places to bring out.

        `parts` says which part of each track is drawn, all of it without them.
        """
        frame = Frame.blank(len(tracks), len(edges) - 1)
        touching = self._index.touching(tracks, edges)
        marks = (np.asarray(highlighted, np.int64), np.asarray(selected, np.int64))
        count = touching.last - touching.first
        self._dense(frame, touching, np.diff(edges), count > 2, marks, colours, parts)
        self._sparse(frame, touching, edges, (count > 0) & (count <= 2), marks, colours)
        if colours.stippled:
            # Fill the whole cells of highlighted slices with one pattern, those of the selected one with a denser one.
            whole = (frame.bg != GROUND) & ((frame.attributes & UNDERLINE) > 0)
            whole &= (frame.chars < 128) | (frame.chars == _HATCH)
            frame.chars[whole] = np.where(frame.attributes[whole] & BOLD, np.uint32(_HATCH), np.uint32(_STIPPLE))
        upper = [line for line, (below, _) in enumerate(parts) if below]
        # A name stands once, on the lowest line.
        touching.crossing[upper] = -1
        self._letter(frame, touching, edges, colours)
        if colours.mono:
            # Reverse video alone; a selected slice stands out by not being reversed.
            frame.attributes[(frame.bg != GROUND) & ((frame.attributes & BOLD) == 0)] |= REVERSE
            frame.fg[:], frame.bg[:] = GROUND, GROUND
        return frame

    def family(self, places: Int64) -> NDArray[np.uint8]:
        """The family of the slices at some places."""
        rows = self._index.rows[places]
        family = self._families[self._slices.name[rows], self._slices.kind[rows]]
        if self._phase_at is not None:
            on_thread = np.flatnonzero((family == Family.OP) | (family == Family.ANNOTATION))
            mine = rows[on_thread]
            slices = self._slices
            phase, until = self._phase_at(slices.lane[mine], slices.start[mine])
            # An annotation may hold more than a phase.
            phase[(family[on_thread] == Family.ANNOTATION) & (slices.end[mine] > until)] = 0
            family[on_thread] = np.where(phase > 0, FIRST_PHASE - 1 + phase, family[on_thread])
        return family

    def _dense(
        self,
        frame: Frame,
        touching: Touching,
        widths: Int64,
        dense: Bool,
        marks: tuple[Int64, Int64],
        colours: Palette,
        parts: Sequence[Part],
    ) -> None:
        """Fill the cells with more than two slices."""
        if not dense.any():
            return
        first, last = touching.first[dense], touching.last[dense]
        colour = colours.shades[self.family(self._index.longest(first, last)), 0]
        width = np.broadcast_to(widths, dense.shape)[dense]
        below, lines = (
            np.broadcast_to(np.array(parts, np.int64).reshape(-1, 2)[:, [which]], dense.shape)[dense]
            if parts
            else whole
            for which, whole in enumerate((0, 1))
        )
        level = np.clip(np.maximum(-(-touching.busy[dense] * 8 * lines // width), 1) - 8 * below, 0, 8)
        looks = (colours.highlighted, UNDERLINE), (colours.selected, BOLD | UNDERLINE)
        for places, (marked, attribute) in zip(marks, looks, strict=True):
            within = np.searchsorted(places, last) > np.searchsorted(places, first)
            if within.any():
                colour[within], level[within] = marked, 8
                frame.attributes[dense] = np.where(within, np.uint8(attribute), frame.attributes[dense])
        full = level == 8
        frame.chars[dense] = np.where(full, SPACE, FROM_BOTTOM[level])
        frame.fg[dense] = np.where(full, colours.ink[colour], colour)
        frame.bg[dense] = np.where(full, colour, GROUND)
        if colours.mono:
            frame.chars[dense & (frame.bg == colours.selected)] = _HATCH

    def _sparse(
        self,
        frame: Frame,
        touching: Touching,
        edges: Int64,
        sparse: Bool,
        marks: tuple[Int64, Int64],
        colours: Palette,
    ) -> None:
        """Fill the cells with one or two slices."""
        flat = np.flatnonzero(sparse)
        if len(flat) == 0:
            return
        few = self._few(touching, edges, flat, marks)
        self._widen(few, colours)
        char, fg, bg, attributes = self._looks(few, colours)
        for grid, values in (frame.chars, char), (frame.fg, fg), (frame.bg, bg), (frame.attributes, attributes):
            grid.reshape(-1)[flat] = values

    def _few(self, touching: Touching, edges: Int64, flat: Int64, marks: tuple[Int64, Int64]) -> _Few:
        """The contents of cells with one or two slices, by their places in the grid."""
        cell = flat % touching.first.shape[1]
        edge, width = edges[cell], edges[cell + 1] - edges[cell]
        left, right = touching.first.ravel()[flat], touching.last.ravel()[flat] - 1
        scale = 8 / width
        la, ra = self._eighths(left, edge, scale)
        lb, rb = self._eighths(right, edge, scale)
        levels = _mark_level(left, marks), _mark_level(right, marks)
        joined = (right > left) & (lb - ra <= 1)
        longer = (levels[1] > levels[0]) | ((levels[1] == levels[0]) & (rb - lb > ra - la))
        second = (right > left) & longer
        place = np.where(second, right, left)
        return _Few(
            left,
            right,
            levels,
            width,
            place=place,
            low=np.where(second & ~joined, lb, la),
            high=np.where(second | joined, rb, ra),
            seam=np.where(joined & (la == 0) & (rb == 8), np.clip((ra + lb) // 2, 1, 7), 0),
            fresh=self._index.start(place) >= edge,
        )

    def _widen(self, few: _Few, colours: Palette) -> None:
        """Widen marked slivers to whole cells, so that they are visible."""
        sliver = (few.level > 0) & (few.low > 0) & (few.high < 8)
        if colours.stippled:
            # A pattern needs whole cells: what is short has all that it touches.
            sliver |= (few.level > 0) & (self._index.end(few.place) - self._index.start(few.place) < 2 * few.width)
        few.low[sliver], few.high[sliver], few.seam[sliver] = 0, 8, 0

    def _looks(self, few: _Few, colours: Palette) -> Looks:
        """Characters, text colours, backgrounds and attributes of cells with one or two slices."""
        level, family = few.level, self.family(few.place)
        colour = _colour(family, few.place, level, colours)
        char, fg, bg, attributes = _edges_in_cell(few.low, few.high, colour, colours)
        seam = np.flatnonzero(few.seam)
        char[seam] = FROM_LEFT[few.seam[seam]]
        for cells, places, levels in ((fg, few.left, few.levels[0]), (bg, few.right, few.levels[1])):
            cells[seam] = _colour(self.family(places[seam]), places[seam], levels[seam], colours)
        # A line under a sliver would be all there is to see of it.
        marked = _MARK_ATTRIBUTES[level]
        attributes |= np.where((bg != GROUND) | colours.mono, marked, marked & BOLD)
        if colours.textures is not None:
            whole = np.flatnonzero((char == SPACE) & (level < 2))
            # A line for the start of a slice, in the place of a second shade.
            char[whole] = np.where(few.fresh[whole], _START, colours.textures[family[whole]])
        if colours.mono:
            char[(char == SPACE) & (level == 2)] = _HATCH
        else:
            near = (char == SPACE) & (bg != GROUND) & colours.alike[family, level]
            char[near] = np.where(level[near] == 2, np.uint32(_HATCH), np.uint32(_STIPPLE))
        return char, fg, bg, attributes

    def _eighths(self, places: Int64, edge: Int64, scale: NDArray[np.float64]) -> tuple[Int64, Int64]:
        """Starts and ends of slices in their cells, in eighths of a cell, at least one apart."""
        low = np.rint(np.clip((self._index.start(places) - edge) * scale, 0, 7)).astype(np.int64)
        high = np.rint(np.clip((self._index.end(places) - edge) * scale, 0, 8)).astype(np.int64)
        return low, np.maximum(high, low + 1)

    def _letter(self, frame: Frame, touching: Touching, edges: Int64, colours: Palette) -> None:
        """Write names over the slices that are wide enough."""
        crossing = touching.crossing
        fresh = crossing >= 0
        fresh[:, 1:] &= crossing[:, 1:] != crossing[:, :-1]
        line, cell = np.nonzero(fresh)
        places = crossing[line, cell]
        start, end = self._index.start(places), self._index.end(places)
        wide = end - start >= (SHORTEST - 1) * (edges[-1] - edges[0]) / (len(edges) - 1)
        line, cell, places = line[wide], cell[wide], places[wide]
        begin = np.where(start[wide] <= edges[cell], cell, cell + 1)
        stop = np.minimum(np.searchsorted(edges, end[wide], side="right") - 1, len(edges) - 1)
        roomy = stop - begin >= SHORTEST
        rows = self._index.rows[places[roomy]]
        fit = self._labels.fit
        for y, x, room, name, kind in zip(
            line[roomy].tolist(),
            begin[roomy].tolist(),
            (stop - begin)[roomy].tolist(),
            self._slices.name[rows].tolist(),
            self._slices.kind[rows].tolist(),
            strict=True,
        ):
            if colours.textures is None and frame.chars[y, x] >= _STIPPLE:
                # Some of the pattern is left on either side.
                x, room = x + 1, room - 2
            if colours.textures is not None and room > SHORTEST:
                # The line at its start, and a blank between the name and the texture.
                x, room = x + 1, room - 1
            label = fit(name, kind, room)
            frame.chars[y, x : x + len(label)] = label
            if colours.textures is not None and len(label) < room:
                frame.chars[y, x + len(label)] = SPACE


def _colour(family: NDArray[np.uint8], places: Int64, level: NDArray[np.uint8], colours: Palette) -> NDArray[np.int16]:
    """Colours of slices; neighbours on a track get different shades."""
    colour: NDArray[np.int16] = colours.shades[family, places & 1]
    colour[level == 1] = colours.highlighted
    colour[level == 2] = colours.selected
    return colour


def _edges_in_cell(low: Int64, high: Int64, colour: NDArray[np.int16], colours: Palette) -> Looks:
    """Character, text colour, background and attributes of cells filled from `low` to `high` eighths."""
    full, begins, ends = (low == 0) & (high == 8), (low > 0) & (high == 8), (low == 0) & (high < 8)
    third = np.minimum((low + high) // 4, 3)
    inside = np.where(high - low <= 2, _THIN[third], _HALF[third])
    char = np.select([full, begins, ends], [np.uint32(SPACE), FROM_LEFT[low], FROM_LEFT[high]], inside)
    fg = np.where(full, colours.ink[colour], colour)
    bg = np.where(full, colour, np.int16(GROUND))
    # There are no blocks that fill from the right: what lies left of the slice is drawn, in reverse.
    attributes = np.where(begins, np.uint8(REVERSE), np.uint8(0))
    return char, fg, bg, attributes


def _mark_level(places: Int64, marks: tuple[Int64, Int64]) -> NDArray[np.uint8]:
    """0 for ordinary slices, 1 for highlighted ones, 2 for the selected one."""
    level = np.zeros(len(places), np.uint8)
    for number, marked in enumerate(marks, start=1):
        if len(marked):
            nearest = marked[np.minimum(np.searchsorted(marked, places), len(marked) - 1)]
            level[nearest == places] = number
    return level
