"""The stretch of time on screen, and a trace made ready to draw: its tracks, what lies where, the cells of any window.

Cell edges are multiples of `ns_per_cell` from the origin, so what one cell shows does not change when the window
pans: a terminal is then only sent what is new. Two traces share an axis when their windows differ in the origin alone.

A track is one row of a lane. A lane whose ops stand on top of Python frames has its rows twice: all of them, and
*compact* without the frames, which may be a hundred deep. Counters come last, one track each. The index is built once
per trace, from columns alone; a frame then costs milliseconds however many slices there are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tracetui.devices.counters import counter_samples
from tracetui.drawing.timeline.cells import FROM_BOTTOM, SPACE, Frame, IndexColumns, Painter, SliceIndex, index_columns
from tracetui.drawing.timeline.palette import GROUND, IDLE_CLASS, VARIED, Labels, Palette, codes, palette
from tracetui.idle.gaps import IdleBlocks
from tracetui.idle.waits import WORDS, Cause
from tracetui.kernel_names.slice_names import Family, families_by_name
from tracetui.linking.trees import active_streams, lane_numbers
from tracetui.memory.allocator import memory_curves
from tracetui.model.hardware_counters import short_counter, with_unit
from tracetui.model.intervals import covered_within, nest, union
from tracetui.model.quantities import significant, size
from tracetui.model.results import kept
from tracetui.model.trace import GPU_WORK, Counter, Kind, LaneKind, Trace

FINEST = 1.0
"""Nanoseconds per cell beyond which nothing more can be told apart."""
COARSEST = 1e16


@dataclass(frozen=True, slots=True)
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
        """The window magnified, with what is at a cell staying there."""
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
        """The same cells of a grid that begins elsewhere: what is shown is as far from its origin."""
        return replace(self, origin=origin)


def _limit(scale: float) -> float:
    return min(max(scale, FINEST), COARSEST)


# A trace made ready to draw: its tracks, what lies where, and the cells of any window.

# The stretches in which a device ran nothing, as one row of dashes that say why.
#
# The dashes keep apart from slices, which have a background: here nothing ran. They are empty until the causes have
# been worked out, which is done after a trace is on screen.
#
# Counters as one row of bars: the highest value that a counter has in each cell.


class Curve:
    """A counter made ready to draw: sorted by time, with the range of its values."""

    def __init__(self, counter: Counter, held: Int64 | None = None, owner: str = "") -> None:
        """`held` says for how long each of the counter's values holds, in ns and in order of time; None until the next.

        With it every value is finite. `owner` is what the name begins with.
        """
        self.counter = counter
        self._owner = owner
        order = np.argsort(counter.time, kind="stable")
        self._time: Int64 = counter.time[order]
        self._value = np.nan_to_num(counter.value[order])
        self.low = min(0.0, float(self._value.min(initial=0.0)))
        """Drawn as an empty cell; 0 unless the counter goes below it."""
        self.high = self._highest = float(self._value.max(initial=0.0))
        """Drawn as a full cell: the highest value, or of a share the whole."""
        if counter.gpu >= 0 and counter.unit == "%":
            # A share is drawn as one: half a row is half of the peak.
            self.high = max(self.high, 100.0)
        if held is not None:
            self._add_ends(held)

    def _add_ends(self, held: Int64) -> None:
        """Put an unknown value where one ends before the next begins."""
        end = self._time + held
        open_ends = np.flatnonzero(np.append(end[:-1] < self._time[1:], True)) if len(end) else np.empty(0, np.int64)
        self._time = np.insert(self._time, open_ends + 1, end[open_ends])
        self._value = np.insert(self._value, open_ends + 1, np.nan)

    @property
    def name(self) -> str:
        """The counter's and the series' name; of a GPU's counter without the unit, which stands behind its value."""
        counter = self.counter
        if counter.gpu >= 0:
            return f"{self._owner}{short_counter(counter.name)}"
        return counter.name if counter.series in ("", counter.name) else f"{counter.name} {counter.series}"

    @property
    def limit(self) -> str:
        """The highest value, as text."""
        return self.text(self._highest)

    def text(self, value: float) -> str:
        """A value with its unit."""
        if self.counter.unit == "bytes":
            return size(value)
        return with_unit(value, self.counter.unit) if self.counter.gpu >= 0 else significant(value)

    def value_at(self, moment: int) -> float:
        """The value that holds at a time in ns, NaN where none does."""
        index = int(np.searchsorted(self._time, moment, side="right")) - 1
        return float(self._value[index]) if index >= 0 else float("nan")

    def highest(self, edges: Int64) -> NDArray[np.float64]:
        """The largest value that holds anywhere in each cell, NaN where none does."""
        after = np.searchsorted(self._time, edges)
        first, last = np.maximum(after[:-1] - 1, 0), after[1:]
        # A sample exactly at the left edge replaces the value that held before it.
        begins = np.minimum(after[:-1], max(len(self._time) - 1, 0))
        if len(self._time) == 0:
            return np.full(len(edges) - 1, np.nan)
        first = np.where(self._time[begins] == edges[:-1], begins, first)
        known = last > 0
        bounds = np.stack([first, np.maximum(last, first + 1)], axis=1).ravel()
        padded = np.append(self._value, -np.inf)
        # Where a value holds in part of a cell, it is the cell's.
        peaks: NDArray[np.float64] = np.where(known, np.fmax.reduceat(padded, bounds)[::2], np.nan)
        return peaks

    def bars(self, edges: Int64) -> NDArray[np.uint32]:
        """The values as code points of bars."""
        values = self.highest(edges)
        known = ~np.isnan(values)
        # By halves, whose differences are numbers whatever the values.
        half = self.low / 2
        share = (np.where(known, values, self.low) / 2 - half) / max(self.high / 2 - half, 1e-300)
        level = np.clip(np.ceil(share * 8), 0, 8).astype(np.int64)
        return np.where(known, FROM_BOTTOM[level], np.uint32(SPACE))


DASH = ord("╌")
_FULL = 0.995
"""A cell in which the device ran nothing for this share of the time gets a dash, another one a bar."""
_CAUSES = len(Cause)


class IdleBand:
    """The idle time of one device, ready to draw."""

    def __init__(self, process: int, device: str) -> None:
        self.process = process
        """Number of the device in `lane_numbers`."""
        self.device = device
        """Name of the device."""
        none = np.empty(0, np.int64)
        self._start, self._end, self._after, self._key = none, none, none, none

    def fill(self, blocks: IdleBlocks) -> None:
        """Take the blocks of this device."""
        mine = blocks.process == self.process
        self._start, self._end = blocks.start[mine], blocks.end[mine]
        self._after = blocks.after[mine]
        # One more at the end, for `reduceat` takes no bound beyond the last.
        self._key = np.append((self._end - self._start) * _CAUSES + blocks.cause[mine], 0)

    def work_after(self, start_ns: int, end_ns: int) -> int:
        """The GPU activity that ends the longest gap in [start_ns, end_ns), -1 where there is none."""
        first, last = self._touching(np.array([start_ns, max(end_ns, start_ns + 1)]))
        if first[0] >= last[0]:
            return -1
        return int(self._after[first[0] + np.argmax(self._key[first[0] : last[0]])])

    def draw(self, frame: Frame, row: int, edges: Int64, colours: Palette) -> None:
        """Draw the band on a row of a grid."""
        if len(self._start) == 0:
            return
        share = covered_within(self._start, self._end, edges[:-1], edges[1:]) / np.diff(edges)
        first, last = self._touching(edges)
        some = np.flatnonzero((last > first) & (share > 0))
        if len(some) == 0:
            return
        level = np.clip(np.ceil(share[some] * 8), 1, 7).astype(np.int64)
        frame.chars[row, some] = np.where(share[some] >= _FULL, DASH, FROM_BOTTOM[level])
        cause = self._causes(first[some], last[some])
        if not colours.mono:
            frame.fg[row, some] = colours.idle[IDLE_CLASS[cause]]
        self._letter(frame, row, edges)

    def _touching(self, edges: Int64) -> tuple[Int64, Int64]:
        """First and last gap (exclusive) that touch each cell."""
        return np.searchsorted(self._end, edges[:-1], side="right"), np.searchsorted(self._start, edges[1:])

    def _causes(self, first: Int64, last: Int64) -> Int64:
        """The cause of the longest of each range of gaps; the ranges are not empty."""
        bounds = np.stack([first, last], axis=1).ravel()
        longest: Int64 = np.maximum.reduceat(self._key, bounds)[::2]
        return longest % _CAUSES

    def _letter(self, frame: Frame, row: int, edges: Int64) -> None:
        """Write the cause into every gap that has room for it."""
        low, high = np.searchsorted(self._end, edges[0], side="right"), np.searchsorted(self._start, edges[-1])
        left = np.searchsorted(edges, self._start[low:high])
        right = np.searchsorted(edges, self._end[low:high], side="right") - 1
        for gap in np.flatnonzero(right - left >= _SHORTEST).tolist():
            text = WORDS[int(self._key[low + gap]) % _CAUSES]
            room = int(right[gap] - left[gap])
            if len(text) + 2 <= room:
                at = int(left[gap]) + (room - len(text)) // 2
                ink = int(frame.fg[row, at])
                frame.write(row, at - 1, codes(f" {text} "), ink if ink != GROUND else GROUND)


_SHORTEST = min(map(len, WORDS)) + 2


__all__ = ["Frame", "TimelineIndex", "Window"]

Int64 = NDArray[np.int64]

TICK = ord("╵")
"""Marks an instant where its lane's first row is empty."""

MANY = 50
"""From so many slices on they are looked up in a table of all."""


class TimelineIndex:
    """Everything needed to draw a trace; `tracks` counts its rows, numbered from 0."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        instants, compact_rows, bounds, index, families = track_layout(trace)
        lanes = len(trace.lanes)
        self.full = [range(int(bounds[i]), int(bounds[i + 1])) for i in range(lanes)]
        """All tracks of each lane."""
        self.compact = [range(int(bounds[lanes + i]), int(bounds[lanes + i + 1])) for i in range(lanes)]
        """The tracks of each lane without Python frames; empty where that makes no difference."""
        self._compact_rows = compact_rows
        self._ticks = {
            tracks[0]: times
            for lane, times in instants.items()
            for tracks in (self.full[lane], self.compact[lane])
            if tracks
        }
        of_file = list(_counter_curves(trace))
        self.file_curves = len(of_file)
        """Number of curves that are counters of the file."""
        self.curves = [*of_file, *map(Curve, memory_curves(trace))]
        """The counters of the file, then the memory of the devices; curve i is the track `counter_track(i)`."""
        self._slice_tracks = int(bounds[-1])
        # One band, still empty, for each device that ran anything.
        process = lane_numbers(trace).process
        busy = {int(process[number]): trace.lanes[number].process for number in active_streams(trace)}
        self.idles = [IdleBand(number, name) for number, name in busy.items()]
        """The idle time of each device; band i is the track `idle_track(i)`."""
        self.tracks = self._slice_tracks + len(self.curves) + len(self.idles)
        """Number of tracks."""
        self.index = SliceIndex(trace.slices, index)
        self.labels = Labels(trace.names)
        self._painter = Painter(self.index, trace.slices, families, self.labels)

    def counter_track(self, number: int) -> int:
        """The track of a counter."""
        return self._slice_tracks + number

    def band_of(self, row: int) -> int:
        """The number of the band of idle time of the device of a GPU activity, -1 for none."""
        process = int(lane_numbers(self.trace).process[self.trace.slices.lane[row]]) if row >= 0 else -1
        return next((number for number, band in enumerate(self.idles) if band.process == process), -1)

    def is_idle_track(self, track: int) -> bool:
        """True where a track is the idle time of a device."""
        return track >= self.idle_track(0)

    def idle_track(self, number: int) -> int:
        """The track of the idle time of a device."""
        return self._slice_tracks + len(self.curves) + number

    def show_idle(self, blocks: IdleBlocks) -> None:
        """Take the idle time of all devices, so that it is drawn from now on."""
        for band in self.idles:
            band.fill(blocks)

    def tracks_of(self, row: int) -> tuple[int, ...]:
        """The tracks on which a slice stands: its lane's full one and its compact one, where it has one."""
        slices = self.trace.slices
        lane = int(slices.lane[row])
        tracks = [self.full[lane].start + int(slices.row[row])]
        if self._compact_rows is not None and self._compact_rows[row] >= 0:
            tracks.append(self.compact[lane].start + int(self._compact_rows[row]))
        return tuple(tracks)

    def frame(
        self,
        tracks: Iterable[int],
        window: Window,
        width: int,
        *,
        selected: int = -1,
        highlighted: Iterable[int] = (),
        colours: Palette | None = None,
    ) -> Frame:
        """The cells of some tracks, one row each, in the order given; a track of -1 gives an empty row."""
        colours = colours or palette()
        wanted = np.fromiter(tracks, np.int64)
        frame = Frame.blank(len(wanted), max(width, 0))
        if width < 1:
            return frame
        edges = window.edges(width)
        drawn = np.flatnonzero((wanted >= 0) & (wanted < self._slice_tracks))
        chosen = self._places([selected] if selected >= 0 else ())
        cells = self._painter.paint(wanted[drawn], edges, colours, chosen, self._places(highlighted))
        for i, line in enumerate(drawn.tolist()):
            frame.put(line, 0, cells, i)
        for line in np.flatnonzero(wanted >= self._slice_tracks).tolist():
            number = int(wanted[line]) - self._slice_tracks
            if number < len(self.curves):
                frame.chars[line] = self.curves[number].bars(edges)
                frame.fg[line] = GROUND if colours.mono else colours.quiet
            else:
                self.idles[number - len(self.curves)].draw(frame, line, edges, colours)
        self._draw_instants(frame, wanted, edges, colours)
        return frame

    def family(self, places: Int64) -> NDArray[np.uint8]:
        """The families, as rows of a palette's shades, of the slices at some places of the index."""
        return self._painter.family(places)

    def slice_at(self, track: int, start_ns: int, end_ns: int) -> int:
        """The row of the longest slice of a track that touches [start_ns, end_ns), -1 for none.

        Of idle time it is the work that ended it.
        """
        idle = track - self.idle_track(0)
        if 0 <= idle < len(self.idles):
            return self.idles[idle].work_after(start_ns, end_ns)
        if not 0 <= track < self._slice_tracks:
            return -1
        found = self.index.touching(np.array([track]), np.array([start_ns, max(end_ns, start_ns + 1)]))
        first, last = found.first[0], found.last[0]
        if last[0] <= first[0]:
            return -1
        return int(self.index.rows[self.index.longest(first, last)[0]])

    def nearest(self, track: int, moment: float) -> int:
        """The row of the slice of a track at a moment or nearest to it, -1 for none."""
        place = self.index.nearest(track, moment) if 0 <= track < self._slice_tracks else -1
        return int(self.index.rows[place]) if place >= 0 else -1

    def next_in_lane(self, row: int, step: int = 1) -> int:
        """The next (or previous) slice of a stream in order of start, or of a thread's row; -1 at the end."""
        slices = self.trace.slices
        lane = self.trace.lanes[int(slices.lane[row])]
        if lane.kind == LaneKind.CPU:
            track = self.tracks_of(row)[-1]
            place = self.index.place(track, row) + step
            inside = self.index.heads[track] <= place < self.index.heads[track + 1]
            return int(self.index.rows[place]) if inside else -1
        return row + step if lane.first <= row + step < lane.last else -1

    def end_of_lane(self, row: int, step: int) -> int:
        """The first (-1) or last slice of a stream in order of start, or of a thread's row."""
        lane = self.trace.lanes[int(self.trace.slices.lane[row])]
        if lane.kind == LaneKind.CPU:
            track = self.tracks_of(row)[-1]
            return int(self.index.rows[self.index.heads[track] if step < 0 else self.index.heads[track + 1] - 1])
        return lane.first if step < 0 else lane.last - 1

    def next_of_name(self, row: int, step: int = 1) -> int:
        """The next (or previous) slice of the same name by start, on lanes of the same kind, or -1."""
        slices = self.trace.slices
        lane_kind = self._lane_kinds[slices.lane[row]]
        same = np.flatnonzero(slices.name == slices.name[row])
        same = same[self._lane_kinds[slices.lane[same]] == lane_kind]
        same = same[np.argsort(slices.start[same], kind="stable")]
        place = int(np.flatnonzero(same == row)[0]) + step
        return int(same[place]) if 0 <= place < len(same) else -1

    def gpu_busy(self, window: Window, width: int) -> NDArray[np.float64]:
        """The share of each cell in which any device ran something; without one, in which any thread did."""
        edges = window.edges(width)
        starts, ends = self._busy
        return covered_within(starts, ends, edges[:-1], edges[1:]) / np.diff(edges)

    def busy_share(self, start_ns: int, end_ns: int) -> float:
        """The share of [start_ns, end_ns) in which any device, or without one any thread, ran something."""
        busy = covered_within(*self._busy, np.array([start_ns]), np.array([end_ns]))
        return float(busy[0]) / max(end_ns - start_ns, 1)

    @cached_property
    def has_gpu(self) -> bool:
        """True where any device did any work."""
        return bool(np.isin(self.trace.slices.kind, GPU_WORK).any())

    @cached_property
    def _busy(self) -> tuple[Int64, Int64]:
        slices = self.trace.slices
        work = slices.of_kind(*GPU_WORK)
        if len(work) == 0:
            on_thread = np.array([lane.kind == LaneKind.CPU for lane in self.trace.lanes], bool)
            work = slices.of_kind(Kind.CPU_OP, Kind.RUNTIME, Kind.OTHER)
            work = work[on_thread[slices.lane[work]]]
        return union(slices.start[work], slices.end[work])

    @cached_property
    def _lane_kinds(self) -> NDArray[np.uint8]:
        return np.array([lane.kind for lane in self.trace.lanes], np.uint8)

    def _places(self, rows: Iterable[int]) -> list[int]:
        """Places of slices in the index, ascending."""
        wanted = list(rows)
        if len(wanted) < MANY:
            return sorted(self.index.place(track, row) for row in wanted for track in self.tracks_of(row))
        places = np.sort(self._places_of_rows[:, wanted], axis=None)
        return places[places >= 0].tolist()  # type: ignore[no-any-return]

    @cached_property
    def _places_of_rows(self) -> NDArray[np.int32]:
        """The place of each slice in the index: on its lane's full track, and on its compact one; -1 for nowhere."""
        places = np.full((2, len(self.trace.slices)), -1, np.int32)
        first = int(self.index.heads[self.compact[0].start])
        for number, part in enumerate((slice(0, first), slice(first, len(self.index)))):
            places[number, self.index.rows[part]] = np.arange(part.start, part.stop)
        return places

    def _draw_instants(self, frame: Frame, tracks: Int64, edges: Int64, colours: Palette) -> None:
        """Mark instants in the empty cells of their lanes' first rows."""
        for line, track in enumerate(tracks.tolist()):
            times = self._ticks.get(track)
            if times is not None:
                empty = (frame.chars[line] == SPACE) & (frame.bg[line] < 0) & (frame.attributes[line] == 0)
                here = empty & (np.diff(np.searchsorted(times, edges)) > 0)
                frame.chars[line, here] = TICK
                frame.fg[line, here] = GROUND if colours.mono else colours.quiet


def _counter_curves(trace: Trace) -> Iterable[Curve]:
    """The counters of the file; what the profiler derived is no measurement and not drawn (R2.15)."""
    numbered = lane_numbers(trace).device
    shown = {int(numbered[lane]) for lane in active_streams(trace)}
    for number, counter in enumerate(trace.counters):
        if counter.gpu < 0:
            yield Curve(counter)
        elif not counter.is_derived:
            each = counter_samples(trace, number)
            # Of a GPU that ran nothing no lane above says whose counter it is.
            owner = "" if counter.gpu in shown else f"GPU {counter.gpu} "
            yield Curve(replace(counter, time=each.time, value=each.value), each.duration, owner)


def _instants_by_lane(trace: Trace) -> dict[int, Int64]:
    """Times of each lane's instants, ascending; allocator events are far too many to show."""
    instants = trace.instants
    shown = (instants.name != trace.names.find("[memory]")) & (instants.lane >= 0)
    lane, time = instants.lane[shown], instants.time[shown]
    return {number: np.sort(time[lane == number]) for number in np.unique(lane).tolist()}


def _rows_without_frames(trace: Trace) -> NDArray[np.int16] | None:
    """Row of each slice when Python frames are left out of lanes that hold other slices too; -1 elsewhere."""
    slices, lanes = trace.slices, len(trace.lanes)
    frames = slices.kind == Kind.PYTHON
    if not frames.any():
        return None
    mixed = (np.bincount(slices.lane[frames], minlength=lanes) > 0) & (
        np.bincount(slices.lane[~frames], minlength=lanes) > 0
    )
    kept = np.flatnonzero(~frames & mixed[slices.lane])
    result = np.full(len(slices), -1, np.int16)
    result[kept] = nest(slices.lane[kept], slices.start[kept], slices.end[kept]).row
    return result


def _heights(trace: Trace, rows: NDArray[np.int16] | None) -> list[int]:
    """One more than the largest row of each lane, 0 for a lane without any."""
    heights = np.zeros(len(trace.lanes), np.int64)
    if rows is not None:
        np.maximum.at(heights, trace.slices.lane, rows + 1)
    return [int(height) for height in heights]


@kept(on_disk=True)
def track_layout(
    trace: Trace,
) -> tuple[dict[int, Int64], NDArray[np.int16] | None, Int64, IndexColumns, NDArray[np.uint8]]:
    """Parts that take long: instants by lane, rows without frames, the first track of each lane, index, families."""
    instants = _instants_by_lane(trace)
    heights = [max(lane.rows, number in instants) for number, lane in enumerate(trace.lanes)]
    compact_rows = _rows_without_frames(trace)
    compact_heights = _heights(trace, compact_rows)
    bounds = np.concatenate([[0], np.cumsum(np.array([*heights, *compact_heights], np.int64))])
    # The family of each name and kind, those of unknown kinds told apart by name; shape (names, kinds).
    families = families_by_name(trace, trace.slices.of_kind(*GPU_WORK))
    families[:, Kind.OTHER] = len(Family) + np.arange(len(families)) % VARIED
    return instants, compact_rows, bounds, _index(trace, bounds, compact_rows), families


def _index(trace: Trace, bounds: Int64, compact_rows: NDArray[np.int16] | None) -> IndexColumns:
    """The columns of the index over full and compact tracks."""
    slices, lanes = trace.slices, len(trace.lanes)
    rows = np.arange(len(slices))
    tracks = bounds[:lanes][slices.lane] + slices.row
    if compact_rows is not None:
        shown = np.flatnonzero(compact_rows >= 0)
        rows = np.concatenate([rows, shown])
        tracks = np.concatenate([tracks, bounds[lanes:-1][slices.lane[shown]] + compact_rows[shown]])
    return index_columns(slices, rows, tracks, int(bounds[-1]))
