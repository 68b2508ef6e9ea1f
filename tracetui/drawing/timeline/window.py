"""The stretch of time on screen, and what is named in it: phases of a thread, and runs where slices are too narrow.

Cell edges are multiples of `ns_per_cell` from the origin, so what one cell shows does not change when the window
pans: a terminal is then only sent what is new. Two traces share an axis when their windows differ in the origin alone.

A run is made of neighbouring blocks of `BLOCK_CELLS` cells in which one name, family or cause has most of the time.
Blocks are cells of the endless grid of the window, so that a pan changes no run but those at the edges.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tracetui.drawing.hues import three_digits
from tracetui.drawing.timeline.cells import SPACE, Frame
from tracetui.drawing.timeline.palette import BOLD, FIRST_PHASE, GROUND, SHORTEST, UNDERLINE, Palette, codes
from tracetui.frozen import frozen
from tracetui.kernel_names import Family
from tracetui.linking.autograd import PHASE_WORDS, PhaseSpans
from tracetui.linking.trees import lane_numbers
from tracetui.model.intervals import Int64, covered_within
from tracetui.model.trace import Trace
from tracetui.tables.layers import layer_parts

FINEST = 1.0
"""Nanoseconds per cell beyond which nothing more can be told apart."""
COARSEST = 1e16


@frozen(eq=True, slots=True)
class Window:
    """Cell i of the screen covers [(first + i) * ns_per_cell, (first + i + 1) * ns_per_cell) after the origin."""

    first: int
    """Number of the leftmost cell of the endless grid."""
    ns_per_cell: float
    origin: int = 0
    """The moment in ns at which the grid's cell 0 begins."""

    @classmethod
    def fit(cls, start_ns: float, end_ns: float, width: int, margin: float = 0.02, origin: int = 0) -> Window:
        """A window of `width` cells around [start_ns, end_ns), with a share of it as margin on each side."""
        span = max(float(end_ns - start_ns), 1.0)
        scale = _limit(span * (1 + 2 * margin) / max(width - 1, 1))
        middle = ((start_ns + end_ns) / 2 - origin) / scale
        return cls(math.floor(middle - width / 2 + 0.5), scale, origin)

    @classmethod
    def over(cls, start_ns: float, length_ns: float, width: int) -> Window:
        """A window of `width` cells over a stretch of time, from its start to within half a cell."""
        scale = _limit(length_ns / max(width, 1))
        return cls(round(start_ns / scale), scale)

    @property
    def start_ns(self) -> float:
        """Left edge of the first cell."""
        return self.origin + self.first * self.ns_per_cell

    def end_ns(self, width: int) -> float:
        """Right edge of the last of `width` cells."""
        return self.origin + (self.first + width) * self.ns_per_cell

    def edges(self, width: int) -> NDArray[np.int64]:
        """The `width` + 1 edges in whole ns; cell i holds the moments edges[i] <= moment < edges[i + 1]."""
        cells = np.arange(self.first, self.first + width + 1)
        edges: NDArray[np.int64] = np.ceil(cells * self.ns_per_cell).astype(np.int64) + self.origin
        return edges

    def cell_of(self, moment: float) -> int:
        """The cell that holds a moment; below 0 or beyond the width when it is not on screen."""
        return math.floor((moment - self.origin) / self.ns_per_cell) - self.first

    def position(self, moment: float) -> float:
        """The position of a moment in cells from the left edge; 0.5 is the middle of the first cell."""
        return (moment - self.origin) / self.ns_per_cell - self.first

    def moment_at(self, cell: float) -> float:
        """The moment in the middle of a cell."""
        return self.origin + (self.first + cell + 0.5) * self.ns_per_cell

    def pan(self, cells: int) -> Window:
        """The window moved to later moments by a number of cells."""
        return replace(self, first=self.first + cells)

    def zoom(self, factor: float, about_cell: float) -> Window:
        """The window magnified about a cell, whose moment stays in place."""
        scale = _limit(self.ns_per_cell / factor)
        moment = (self.first + about_cell + 0.5) * self.ns_per_cell
        return replace(self, first=round(moment / scale - about_cell - 0.5), ns_per_cell=scale)

    def stretched(self, before: int, after: int) -> Window:
        """The window that shows on `after` cells what this one shows on `before`."""
        scale = _limit(self.ns_per_cell * before / after)
        return replace(self, first=round(self.first * self.ns_per_cell / scale), ns_per_cell=scale)

    def within(self, start_ns: float, end_ns: float, width: int) -> Window:
        """The nearest window that is at most a fifth longer than [start_ns, end_ns) and shows some of it."""
        widest = Window.fit(start_ns, end_ns, width, 0.1, self.origin)
        window = self if self.ns_per_cell <= widest.ns_per_cell else widest
        low = math.floor((start_ns - self.origin) / window.ns_per_cell - width * 0.9)
        high = math.ceil((end_ns - self.origin) / window.ns_per_cell - width * 0.1)
        return replace(window, first=min(max(window.first, low), high))

    def showing(self, begin: int, end: int, width: int, zoom: bool = False) -> Window:
        """The window, moved when a slice is not in it, and then so far that the next steps need not move it.

        With `zoom`, also magnified when the slice is narrower than half a cell.
        """
        left, right = self.start_ns, self.end_ns(width)
        if zoom and end - begin < self.ns_per_cell / 2:
            return Window.fit(begin, end, width, 10, self.origin)
        if begin >= left and end <= right:
            return self
        if end - begin > 0.9 * (right - left):
            covered = min(end, right) - max(begin, left)
            return self if covered > 0.5 * (right - left) else Window.fit(begin, end, width, 0.1, self.origin)
        size = (end - begin) / self.ns_per_cell
        ahead = min(width / 5, (width - size) / 2)
        if begin < left:
            return self.pan(int(self.cell_of(end) - width + ahead))
        return self.pan(int(self.cell_of(begin) - ahead))

    def without_void(self, start_ns: float, end_ns: float, width: int) -> Window:
        """The window moved so that it shows nothing before or behind [start_ns, end_ns), where it is no longer."""
        low, high = (self.cell_of(moment) for moment in (start_ns, end_ns))
        if high - low < width:
            return self
        return self.pan(int(max(low, 0) or min(high - width, 0)))

    def moved_to(self, origin: int) -> Window:
        """The same offset and scale on a grid with another origin."""
        return replace(self, origin=origin)


def _limit(scale: float) -> float:
    return min(max(scale, FINEST), COARSEST)


BLOCK_CELLS = 8
"""Cells for which it is decided together what has most of their time."""
MIN_SHARE = 0.05
"""Share of a block below which it belongs to no run."""
JOINED_CELLS = 2.0
"""Cells without a phase up to which the same phase on both sides is drawn as one stretch."""
MOST = ", most in "
"""Between what a run is of and the name that has most of its time."""


@frozen(eq=True, slots=True)
class Run:
    """Many narrow intervals of one sort, one after another."""

    begin: int
    """Its first cell; outside of the window where it begins before it."""
    end: int
    """The cell behind its last one."""
    sort: int
    count: int
    busy_ns: int
    """Time that they cover."""
    most: int
    """Number, among the intervals given, of one with the name that has most of this time."""

    def share(self, window: Window) -> float:
        """The share of its cells that it covers."""
        return self.busy_ns / ((self.end - self.begin) * window.ns_per_cell)

    def words(self, name: str, most: str = "") -> tuple[str, ...]:
        """Its labels, the longest first: `GEMM ×707 82.9 ms, most in GEMM f32 128x32 NT`, `GEMM ×707`."""
        brief = f"{name} ×{self.count:,}" if self.count > 1 else name
        whole = f"{brief} {three_digits(self.busy_ns)}"
        return (*((f"{whole}{MOST}{most}",) if most not in ("", name) else ()), whole, brief, name)


def block_edges(window: Window, width: int) -> Int64:
    """The edges in ns of the blocks that a window touches."""
    low, high = window.first // BLOCK_CELLS, -(-(window.first + width) // BLOCK_CELLS)
    return window.pan(low * BLOCK_CELLS - window.first).edges((high - low) * BLOCK_CELLS)[::BLOCK_CELLS]


def runs_in(
    start: Int64,
    end: Int64,
    sort: Int64,
    window: Window,
    width: int,
    *,
    names: Int64 | None = None,
    narrow: int = SHORTEST,
    least: float = MIN_SHARE,
) -> list[Run]:
    """The runs among intervals that do not overlap, sorted by start: of those of fewer than `narrow` cells.

    A block belongs to the sort that has most of it, to none where all have less than `least` or wide ones more.
    """
    edges = block_edges(window, width)
    blocks = len(edges) - 1
    is_narrow = end - start < narrow * window.ns_per_cell
    (mine,) = np.nonzero(is_narrow & (end > edges[0]) & (start < edges[-1]))
    if len(mine) < 2:
        return []
    taken = covered_within(start[~is_narrow], end[~is_narrow], edges[:-1], edges[1:])
    # What is narrow belongs to the block in which it begins.
    block = np.clip(np.searchsorted(edges, start[mine], side="right") - 1, 0, blocks - 1)
    sorts, number = _numbered(sort[mine])
    called = number if names is None else _numbered(names[mine])[1]
    dur = (end - start)[mine]
    times = np.bincount(block * len(sorts) + number, dur, blocks * len(sorts)).reshape(blocks, len(sorts))
    covered, best = times.sum(axis=1), times.argmax(axis=1)
    best[(covered < least * np.diff(edges)) | (covered < taken)] = -1
    run_of_block = np.cumsum(np.diff(best, prepend=-2) != 0) - 1
    members = np.flatnonzero(best[block] == number)
    owner = run_of_block[block[members]]
    heads = np.flatnonzero(np.diff(owner, prepend=-1)).tolist()
    found = []
    for low, high in zip(heads, [*heads[1:], len(owner)], strict=False):
        these = members[low:high]
        begin, stop = (window.cell_of(int(moment)) for moment in (start[mine[these[0]]], end[mine[these[-1]]] - 1))
        most = these[np.argmax(called[these] == np.bincount(called[these], dur[these]).argmax())]
        busy = int(dur[these].sum())
        found.append(Run(begin, max(stop, begin) + 1, int(sorts[number[these[0]]]), high - low, busy, int(mine[most])))
    return found


def _numbered(values: Int64) -> tuple[Int64, Int64]:
    """The small numbers that occur, ascending, and the index among them of each value."""
    occurring = np.flatnonzero(np.bincount(values))
    index = np.empty(int(occurring[-1]) + 1, np.int64)
    index[occurring] = np.arange(len(occurring))
    return occurring, index[values]


def write_label(
    frame: Frame,
    row: int,
    cells: tuple[int, int],
    words: Iterable[str],
    family: int,
    colours: Palette,
    is_filled: bool = True,
) -> None:
    """Write the longest of some words that fits, with a blank at both ends, in the middle of cells of a family.

    They are filled, or the words stand on the ground. What is marked there stays; labels have three letters or more.
    """
    begin, end = max(cells[0], 0), min(cells[1], frame.shape[1])
    marked = np.flatnonzero(frame.attributes[row, begin:end] & (UNDERLINE | BOLD))
    if len(marked):
        # Beside what is selected or related, on the longer side.
        bounds = [begin - 1, *(marked + begin).tolist(), end]
        begin, end = max(pairwise(bounds), key=lambda pair: pair[1] - pair[0])
        begin += 1
    text = next((each for each in words if len(each) + 2 <= end - begin), "")
    if len(text) < SHORTEST - 2:
        return
    at = begin + (end - begin - len(text)) // 2 - 1
    if is_filled:
        shade = colours.shades[family, 0]
        frame.write(row, at, codes(f" {text} "), GROUND if colours.mono else int(colours.ink[shade]), colours.on_fill)
        frame.bg[row, at : at + len(text) + 2] = GROUND if colours.mono else shade
    else:
        frame.write(row, at, codes(f" {text} "), int(colours.words[family]))
        frame.bg[row, at : at + len(text) + 2] = GROUND


def placed_below(runs: Sequence[Run], words: Sequence[tuple[str, ...]], width: int) -> Iterator[tuple[Run, int, str]]:
    """The runs with what is written below each of them, from which cell on; those without room are left out."""
    begins = [max(run.begin, 0) for run in runs]
    for number, (run, texts) in enumerate(zip(runs, words, strict=True)):
        # Where nothing follows at once there is room beyond its end.
        room = min(begins[number + 1] if number + 1 < len(runs) else width, width) - begins[number] - 1
        room = min(room, max(run.end - begins[number], len(texts[-1]) + 8))
        text = next((each for each in texts if len(each) + 1 <= room), "")
        if text:
            yield run, begins[number], f"╰{text}"


# The phases of a thread.


class PhaseLookup:
    """The phases of every thread of a trace, ready to be looked up and drawn."""

    def __init__(self, spans: PhaseSpans) -> None:
        lanes, first, count = np.unique(spans.lane, return_index=True, return_counts=True)
        self._of_lane = {
            lane: (spans.start[low:high], spans.end[low:high], spans.phase[low:high].astype(np.int64))
            for lane, low, high in zip(lanes.tolist(), first.tolist(), (first + count).tolist(), strict=True)
        }

    def at(self, lanes: NDArray[np.integer], moments: Int64) -> tuple[Int64, Int64]:
        """The phase at a moment of a lane, 0 for none, and its end in ns."""
        phase, until = np.zeros(len(moments), np.int64), np.zeros(len(moments), np.int64)
        for lane in np.unique(lanes).tolist():
            if lane in self._of_lane:
                start, end, phases = self._of_lane[lane]
                mine = np.flatnonzero(lanes == lane)
                index = np.searchsorted(start, moments[mine], side="right") - 1
                inside = (index >= 0) & (moments[mine] < end[index])
                phase[mine], until[mine] = np.where(inside, phases[index], 0), end[index]
        return phase, until

    def is_in(self, lane: int, start_ns: float, end_ns: float) -> bool:
        """True where a lane is in any phase between two moments."""
        if lane not in self._of_lane:
            return False
        start, end, _ = self._of_lane[lane]
        return bool(np.searchsorted(end, start_ns, side="right") < np.searchsorted(start, end_ns))

    def draw(self, frame: Frame, row: int, lane: int, window: Window, colours: Palette) -> None:
        """Draw the phases of a lane on a row, with their names and the time that each covers."""
        if lane not in self._of_lane:
            return
        start, end, phase = self._of_lane[lane]
        width = frame.shape[1]
        gap = start[1:] - end[:-1]
        heads = np.flatnonzero(np.append(True, (phase[1:] != phase[:-1]) | (gap > JOINED_CELLS * window.ns_per_cell)))
        begin, stop = start[heads], end[np.append(heads[1:], len(end)) - 1]
        busy = np.add.reduceat(end - start, heads)
        seen = np.flatnonzero((stop > window.start_ns) & (begin < window.end_ns(width)))
        # The longest last, so that no sliver hides it.
        for each in seen[np.argsort((stop - begin)[seen], kind="stable")].tolist():
            left = max(round(window.position(int(begin[each]))), 0)
            right = min(max(round(window.position(int(stop[each]))), left + 1), width)
            number = int(phase[heads[each]])
            family = FIRST_PHASE - 1 + number
            shade = int(colours.shades[family, 0])
            frame.chars[row, left:right] = SPACE if colours.textures is None else colours.textures[family]
            frame.fg[row, left:right] = GROUND if colours.mono else colours.ink[shade]
            frame.bg[row, left:right] = GROUND if colours.mono else shade
            frame.attributes[row, left:right] = colours.on_fill
            name = PHASE_WORDS[number]
            write_label(frame, row, (left, right), (f"{name} {three_digits(float(busy[each]))}", name), family, colours)


# The layers of the steps on a device.

MIN_LAYER_CELLS = 1.5
"""Minimum cells of a typical layer for a shade of its own: of narrower ones several share a shade, as in the strip."""
MAX_TOGETHER = 4
"""Maximum layers that share a shade on the timeline: a line of narrower ones would say nothing."""


class LayerLookup:
    """The layers of every device of a trace, ready to be drawn."""

    def __init__(self, trace: Trace) -> None:
        parts = layer_parts(trace)
        rows = np.flatnonzero(parts.layer)
        device = lane_numbers(trace).process[trace.slices.lane[parts.kernels[parts.first[rows]]]]
        self._of_device = {
            number: tuple(each[rows[device == number]] for each in (parts.start, parts.end, parts.layer, parts.step))
            for number in np.unique(device).tolist()
        }

    def __contains__(self, device: int) -> bool:
        return device in self._of_device

    def is_seen(self, device: int, window: Window, width: int) -> bool:
        """True where layers of a device are in a window, and wide enough to be distinguished."""
        start, end, *_ = self._of_device[device]
        is_in = (end > window.start_ns) & (start < window.end_ns(width))
        return bool(is_in.any()) and self._together(device, window) <= MAX_TOGETHER

    def _together(self, device: int, window: Window) -> int:
        start, end, *_ = self._of_device[device]
        return layers_per_shade(float(np.median(end - start)) / window.ns_per_cell)

    def draw(self, frame: Frame, row: int, device: int, window: Window, colours: Palette) -> None:
        """Draw the layers of a device on a row in two shades in turn, with their numbers.

        Where not all numbers have room, some layers from the first to the last have theirs: `L1  L10  L20 L24`.
        """
        start, end, layer, step = self._of_device[device]
        together = self._together(device, window)
        typical = float(np.median(end - start)) / window.ns_per_cell
        is_numbered = typical >= len(str(layer.max())) + 2
        band = (layer - 1) // together
        heads = np.flatnonzero((np.diff(band, prepend=-1) != 0) | (np.diff(step, prepend=-1) != 0))
        tails = np.append(heads[1:], len(start)) - 1
        width = frame.shape[1]
        seen = np.flatnonzero((end[tails] > window.start_ns) & (start[heads] < window.end_ns(width)))
        lefts = np.array([max(round(window.position(int(each))), 0) for each in start[heads[seen]].tolist()], np.int64)
        # Of what begins in one cell the last is seen.
        _, last = np.unique(lefts[::-1], return_index=True)
        for index in seen[len(seen) - 1 - last].tolist():
            first, until = int(heads[index]), int(tails[index])
            left = max(round(window.position(int(start[first]))), 0)
            right = min(max(round(window.position(int(end[until]))), left + 1), width)
            is_second = bool(band[first] % 2)
            shade = int(colours.shades[Family.ANNOTATION, int(is_second)])
            ink = GROUND if colours.mono else int(colours.ink[shade])
            # Annotations have no texture of their own: every second shade takes that of copies.
            textures = colours.textures if is_second else None
            frame.chars[row, left:right] = SPACE if textures is None else textures[Family.COPY]
            frame.fg[row, left:right] = ink
            frame.bg[row, left:right] = GROUND if colours.mono else shade
            frame.attributes[row, left:right] = colours.on_fill
            texts = (f"layer {layer[first]}", f"{layer[first]}") if is_numbered else ()
            text = next((each for each in texts if len(each) + 2 <= right - left), "")
            if text:
                at = left + (right - left - len(text)) // 2 - 1
                frame.write(row, at, codes(f" {text} "), ink, colours.on_fill)
                frame.bg[row, at : at + len(text) + 2] = GROUND if colours.mono else shade
        if is_numbered:
            return
        # Each row of layers: a series of a step.
        is_head = (np.diff(layer, prepend=0) != 1) | (np.diff(step, prepend=-1) != 0)
        for first, until in pairwise([*np.flatnonzero(is_head).tolist(), len(layer)]):
            inside = (end[first:until] > window.start_ns) & (start[first:until] < window.end_ns(width))
            rows = first + np.flatnonzero(inside)
            if len(rows):
                places = {int(layer[each]): max(round(window.position(int(start[each]))), 0) for each in rows.tolist()}
                _number_some(frame, row, places, min(round(window.position(int(end[rows[-1]]))), width), together)


def _number_some(frame: Frame, row: int, places: dict[int, int], right: int, together: int) -> None:
    """Write numbers into a row of layers that ends before a cell: first, last, and between them those with room.

    `places` has the first cell of each layer. Where several layers share a shade it is said between the two.
    """
    numbers, left = list(places), min(places.values())
    last = f" L{numbers[-1]}"
    texts = [(left, f"L{numbers[0]} ")]
    free, until = left + len(texts[0][1]), right - len(last)
    if free > until:
        return
    words = (f" {together} layers per shade ", f" {together} per shade ")
    text = next((each for each in words if len(each) <= until - free), "") if together > 1 else ""
    if text:
        texts.append(((free + until - len(text)) // 2, text))
    elif together == 1:
        longest = len(last) + 2
        step = next((each for each in (2, 5, 10, 20, 50, 100) if (right - left) * each >= longest * len(numbers)), 0)
        for number in numbers if step else ():
            if number % step == 0 and free < places[number] <= until - longest:
                texts.append((places[number], f"L{number} "))
    for at, text in [*texts, (until, last)]:
        # The shades stay, and only their signs make way.
        frame.chars[row, at : at + len(text)] = codes(text)


def layers_per_shade(cells: float) -> int:
    """Layers in a row that share a shade, of so many cells each: 1 where they have room, else as many as fill two.

    Shades that alternate in less than that beat with the cells, and show a pattern that no layers have.
    """
    return 1 if cells >= MIN_LAYER_CELLS or cells <= 0 else math.ceil(2 / cells)
