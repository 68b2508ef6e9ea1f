"""A trace made ready to draw: its tracks, what lies where, and the cells of any window.

A track is one row of a lane. A lane whose ops stand on top of Python frames has its rows twice: all of them, and
*compact* without the frames, which may be a hundred deep. Counters come last, one track each. Idle time has a row with
its device, which names the causes. The index is built once per trace, from columns alone; a frame then costs
milliseconds however many slices there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tracetui.devices.counters import counter_samples
from tracetui.drawing.hues import HATCH, Hue
from tracetui.drawing.timeline.cells import (
    FROM_BOTTOM,
    SPACE,
    Frame,
    IndexColumns,
    Painter,
    Part,
    SliceIndex,
    index_columns,
)
from tracetui.drawing.timeline.legend import FAMILY_WORDS
from tracetui.drawing.timeline.palette import GROUND, VARIED, Labels, Palette, codes, palette
from tracetui.drawing.timeline.window import (
    BLOCK_CELLS,
    LayerLookup,
    PhaseLookup,
    Run,
    Window,
    block_edges,
    placed_below,
    runs_in,
)
from tracetui.errors import AnalysisFailed
from tracetui.idle.gaps import IdleBlocks
from tracetui.idle.waits import WORDS
from tracetui.kernel_names.slice_names import Family, families_by_name
from tracetui.linking.autograd import phase_spans
from tracetui.linking.trees import active_streams, lane_numbers
from tracetui.memory.allocator import memory_curves
from tracetui.model.hardware_counters import short_counter, with_unit
from tracetui.model.intervals import Int64, covered_within, nest, union
from tracetui.model.quantities import significant, size
from tracetui.model.results import guarded, kept
from tracetui.model.trace import GPU_WORK, Counter, Kind, LaneKind, Slices, Trace

# Counters as one row of bars: the highest value that a counter has in each cell.

FLAT_SHARE = 0.5
"""A counter of a GPU whose lowest value is above this share of its highest is drawn from the lowest on."""


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
        elif counter.gpu >= 0 and len(self._value) and float(self._value.min()) > FLAT_SHARE * self.high:
            # A temperature or a clock would fill its row.
            self.low = float(self._value.min())
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
        """The highest value as text, with the lowest where the bars begin there: `≤3 W`, `290–310 W`, `5 W`."""
        highest = self.text(self._highest)
        return (
            f"≤{highest}"
            if self.low <= 0
            else highest
            if self.low == self._highest
            else f"{significant(self.low)}–{highest}"
        )

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
        # The last of the stretches ends where these values do, not with the trace.
        begin = int(bounds.min())
        padded = np.append(self._value[begin : int(bounds.max())], -np.inf)
        # Where a value holds in part of a cell, it is the cell's.
        peaks: NDArray[np.float64] = np.where(known, np.fmax.reduceat(padded, bounds - begin)[::2], np.nan)
        return peaks

    def bars(self, edges: Int64) -> NDArray[np.uint32]:
        """The values as code points of bars."""
        values = self.highest(edges)
        known = ~np.isnan(values)
        # By halves, whose differences are numbers whatever the values.
        half = self.low / 2
        share = (np.where(known, values, self.low) / 2 - half) / max(self.high / 2 - half, 1e-300)
        # Where the lowest is no zero it is no empty cell either.
        level = np.clip(np.ceil(share * 8), int(self.low > 0), 8).astype(np.int64)
        return np.where(known, FROM_BOTTOM[level], np.uint32(SPACE))


# The stretches in which a device ran nothing, as one row that is hatched and says why.
#
# They are empty until the causes have been worked out, which is done after a trace is on screen.

_HATCH = np.uint32(ord(HATCH))
_MOSTLY = 0.5
"""A cell in which the device ran nothing for this share of the time is hatched."""
_SOME = 0.1
"""A cell in which it did for this share has a dot."""
_DOT = np.uint32(ord(Hue.IDLE.value.texture))
_MAX_GAPS = 200_000
"""Where a window holds more gaps, only those with room for a label get one."""


class IdleBand:
    """The idle time of one device, ready to draw."""

    def __init__(self, process: int, device: str) -> None:
        self.process = process
        """Number of the device in `lane_numbers`."""
        self.device = device
        """Name of the device."""
        none = np.empty(0, np.int64)
        self._start, self._end, self._after, self._cause = none, none, none, none

    def fill(self, blocks: IdleBlocks) -> None:
        """Take the blocks of this device."""
        mine = blocks.process == self.process
        self._start, self._end = blocks.start[mine], blocks.end[mine]
        self._after, self._cause = blocks.after[mine], blocks.cause[mine].astype(np.int64)

    def work_after(self, start_ns: int, end_ns: int) -> int:
        """The GPU activity that ends the longest gap in [start_ns, end_ns), -1 where there is none."""
        first, last = self._touching(start_ns, max(end_ns, start_ns + 1))
        if first >= last:
            return -1
        return int(self._after[first + np.argmax((self._end - self._start)[first:last])])

    def draw(self, frame: Frame, row: int, window: Window, colours: Palette) -> None:
        """Draw the band on a row of a grid, in a neutral colour, with the causes in words."""
        width = frame.shape[1]
        edges = window.edges(width)
        first, last = self._touching(int(edges[0]), int(edges[-1]))
        if first >= last:
            return
        start, end = self._start[first:last], self._end[first:last]
        share = covered_within(start, end, edges[:-1], edges[1:]) / np.diff(edges)
        hatched = share >= _MOSTLY
        frame.chars[row] = np.where(hatched, _HATCH, np.where(share >= _SOME, _DOT, np.uint32(SPACE)))
        if not colours.mono:
            frame.fg[row, share >= _SOME] = colours.idle
            frame.bg[row, hatched] = colours.hatch
        self._letter(frame, row, window, slice(first, last))

    def _touching(self, start_ns: int, end_ns: int) -> tuple[int, int]:
        """First and last gap (exclusive) that touch a stretch of time."""
        return int(np.searchsorted(self._end, start_ns, side="right")), int(np.searchsorted(self._start, end_ns))

    def _letter(self, frame: Frame, row: int, window: Window, some: slice) -> None:
        """Write the cause into every gap that has room for it, and into runs of gaps that have none."""
        start, end, cause = self._start[some], self._end[some], self._cause[some]
        wide = np.flatnonzero(end - start >= BLOCK_CELLS * window.ns_per_cell)
        labels = [
            Run(window.cell_of(low - 1) + 1, window.cell_of(high), why, 1, high - low, -1)
            for low, high, why in zip(*(column[wide].tolist() for column in (start, end, cause)), strict=True)
        ]
        if len(start) <= _MAX_GAPS:
            labels += runs_in(start, end, cause, window, frame.shape[1], narrow=BLOCK_CELLS, least=_MOSTLY)
        is_free = np.ones(frame.shape[1], bool)
        for each in labels:
            left, right = max(each.begin, 0), min(each.end, frame.shape[1])
            room = right - left
            text = next((text for text in each.words(WORDS[each.sort]) if len(text) + 2 <= room), "")
            at = left + (room - len(text)) // 2
            if text and room >= BLOCK_CELLS and is_free[at - 1 : at + len(text) + 1].all():
                is_free[at - 1 : at + len(text) + 1] = False
                # The colours of hatched cells stay: where the run has a cell that is not, the word has no ground.
                frame.chars[row, at - 1 : at + len(text) + 1] = codes(f" {text} ")
                frame.fg[row, at - 1 : at + len(text) + 1] = frame.fg[row, left] if room else GROUND


TICK = ord("╵")
"""Marks an instant where its lane's first row is empty."""

MANY = 50
"""From so many slices on they are looked up in a table of all."""

MAX_IN_RUNS = 200_000
"""So many slices of a row in the window at most are looked at; where there are more no runs are named."""


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
        self.phases: PhaseLookup | None = None
        """The phases of the threads, None where they could not be worked out."""
        with suppress(AnalysisFailed), guarded("The phases of the threads"):
            self.phases = PhaseLookup(phase_spans(trace))
        self.layers: LayerLookup | None = None
        """The layers of the devices, None where they could not be worked out."""
        with suppress(AnalysisFailed), guarded("The layers of the devices"):
            self.layers = LayerLookup(trace)
        phase_at = None if self.phases is None else self.phases.at
        self._painter = Painter(self.index, trace.slices, families, self.labels, phase_at)
        self._runs: dict[tuple[int, Window, int], tuple[list[Run], list[int]]] = {}
        self._row_widths: tuple[tuple[Window, int], tuple[Int64, NDArray[np.float64]]] | None = None

    def counter_track(self, number: int) -> int:
        """The track of a counter."""
        return self._slice_tracks + number

    def band_of(self, row: int) -> int:
        """The number of the band of idle time of the device of a GPU activity, -1 for none."""
        process = int(lane_numbers(self.trace).process[self.trace.slices.lane[row]]) if row >= 0 else -1
        return next((number for number, band in enumerate(self.idles) if band.process == process), -1)

    def idle_track(self, number: int) -> int:
        """The track of the idle time of a device."""
        return self._slice_tracks + len(self.curves) + number

    def idle_of(self, track: int) -> int:
        """Number of the device whose idle time a track is, -1 for any other track."""
        number = track - self.idle_track(0)
        return number if 0 <= number < len(self.idles) else -1

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
        parts: Sequence[Part] = (),
    ) -> Frame:
        """The cells of some tracks, one row each, in the order given; a track of -1 gives an empty row.

        `parts` says which part of each track is drawn, all of it without them.
        """
        colours = colours or palette()
        wanted = np.fromiter(tracks, np.int64)
        frame = Frame.blank(len(wanted), max(width, 0))
        if width < 1:
            return frame
        edges = window.edges(width)
        drawn = np.flatnonzero((wanted >= 0) & (wanted < self._slice_tracks))
        chosen = self._places([selected] if selected >= 0 else ())
        shown = [parts[line] for line in drawn.tolist()] if parts else ()
        cells = self._painter.paint(wanted[drawn], edges, colours, chosen, self._places(highlighted), shown)
        for i, line in enumerate(drawn.tolist()):
            frame.put(line, 0, cells, i)
        for line in np.flatnonzero(wanted >= self._slice_tracks).tolist():
            number = int(wanted[line]) - self._slice_tracks
            if number < len(self.curves):
                frame.chars[line] = self.curves[number].bars(edges)
                frame.fg[line] = GROUND if colours.mono else colours.quiet
            else:
                self.idles[number - len(self.curves)].draw(frame, line, window, colours)
        self._draw_instants(frame, wanted, edges, colours)
        return frame

    def family(self, places: Int64) -> NDArray[np.uint8]:
        """The families, as rows of a palette's shades, of the slices at some places of the index."""
        return self._painter.family(places)

    def rows_in(self, window: Window, width: int) -> tuple[Int64, NDArray[np.float64]]:
        """Of every track the number of slices in a window, and how many cells the longest of them takes."""
        if self._row_widths is None or self._row_widths[0] != (window, width):
            edges = window.edges(width)[[0, -1]]
            touching = self.index.touching(np.arange(self._slice_tracks), edges)
            first, last = touching.first[:, 0], touching.last[:, 0]
            cells = np.zeros(len(first))
            (used,) = np.nonzero(last > first)
            if len(used):
                longest = self.index.longest_exactly(first[used], last[used])
                cells[used] = (self.index.end(longest) - self.index.start(longest)) / window.ns_per_cell
            self._row_widths = (window, width), (last - first, cells)
        return self._row_widths[1]

    def runs(self, track: int, window: Window, width: int, by_name: bool) -> tuple[list[Run], list[int]]:
        """The runs of narrow slices on a track, by family or by name, and the family of each.

        The `most` of a run is a place of the index.
        """
        key = (track, window, width)
        if key not in self._runs:
            if len(self._runs) > MANY:
                self._runs.clear()
            touching = self.index.touching(np.array([track]), block_edges(window, width)[[0, -1]])
            first, last = int(touching.first[0, 0]), int(touching.last[0, 0])
            if last - first > MAX_IN_RUNS:
                first = last
            places = np.arange(first, last)
            names = self.trace.slices.name[self.index.rows[places]].astype(np.int64)
            sort = names if by_name else self.family(places).astype(np.int64)
            found = runs_in(
                self.index.start(places), self.index.end(places), sort, window, width, names=None if by_name else names
            )
            found = [replace(run, most=run.most + first) for run in found]
            self._runs[key] = found, self.family(np.array([run.most for run in found], np.int64)).tolist()
        return self._runs[key]

    def words_below(self, track: int, window: Window, width: int) -> list[tuple[Run, int, str]]:
        """The runs of a stream that have room for words, with the cell from which on these stand on a line below it."""
        runs, words = self.runs(track, window, width, by_name=False)[0], []
        for run in runs:
            row = int(self.index.rows[run.most])
            most = self.labels.text(int(self.trace.slices.name[row]), int(self.trace.slices.kind[row]))
            words.append(run.words(FAMILY_WORDS[Family(run.sort)] if run.sort < len(Family) else most, most))
        return list(placed_below(runs, words, width))

    def highest_bar(self, track: int, window: Window, width: int) -> float:
        """The highest bar of a track as a share of its line; 0 where no cell has more than two slices."""
        edges = window.edges(width)
        touching = self.index.touching(np.array([track]), edges)
        is_bar = touching.last - touching.first > 2
        return float(np.where(is_bar, touching.busy / np.diff(edges), 0.0).max(initial=0.0))

    def slice_at(self, track: int, start_ns: int, end_ns: int) -> int:
        """The row of the longest slice of a track that touches [start_ns, end_ns), -1 for none.

        Of idle time it is the work that ended it.
        """
        if (idle := self.idle_of(track)) >= 0:
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
        kinds = np.array([lane.kind for lane in self.trace.lanes], np.uint8)
        same = np.flatnonzero(slices.name == slices.name[row])
        same = same[kinds[slices.lane[same]] == kinds[slices.lane[row]]]
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


def _rows_without_frames(slices: Slices, lanes: int) -> NDArray[np.int16] | None:
    """Row of each slice when Python frames are left out of lanes that hold other slices too; -1 elsewhere."""
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


@kept(on_disk=True)
def track_layout(
    trace: Trace,
) -> tuple[dict[int, Int64], NDArray[np.int16] | None, Int64, IndexColumns, NDArray[np.uint8]]:
    """Parts that take long: instants by lane, rows without frames, the first track of each lane, index, families."""
    # Allocator events are far too many to show.
    drawn = (trace.instants.name != trace.names.find("[memory]")) & (trace.instants.lane >= 0)
    lane_of, time = trace.instants.lane[drawn], trace.instants.time[drawn]
    instants = {number: np.sort(time[lane_of == number]) for number in np.unique(lane_of).tolist()}
    heights = [max(lane.rows, number in instants) for number, lane in enumerate(trace.lanes)]
    compact_rows = _rows_without_frames(trace.slices, len(trace.lanes))
    compact_heights = np.zeros(len(trace.lanes), np.int64)
    if compact_rows is not None:
        np.maximum.at(compact_heights, trace.slices.lane, compact_rows + 1)
    bounds = np.concatenate([[0], np.cumsum(np.concatenate([np.array(heights, np.int64), compact_heights]))])
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
