"""The whole timeline as one grid of cells: axis, names of lanes, tracks, and marks."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable

import numpy as np
from numpy.typing import NDArray

from tracetui.drawing.format import shorten
from tracetui.drawing.timeline.cells import SPACE, Frame
from tracetui.drawing.timeline.launch_line import LaunchLine, launched_with
from tracetui.drawing.timeline.layout import ON_DEVICE, Fold, Layout, Line, Shows
from tracetui.drawing.timeline.palette import BOLD, DIM, GROUND, REVERSE, UNDERLINE, Palette, codes, single_width
from tracetui.drawing.timeline.raster import MANY, TimelineIndex
from tracetui.drawing.timeline.window import Window, write_label
from tracetui.frozen import frozen
from tracetui.linking.links import launch_delay
from tracetui.linking.trees import lane_numbers
from tracetui.model.quantities import duration
from tracetui.model.trace import GPU_WORK, Kind, Lane, LaneKind
from tracetui.text import clean

# The time axis: ticks at round moments.
#
# A tick's cell and label depend on the grid and not on the window, so a pan moves them and changes none.

SPACING = 14
"""Cells between ticks, at least."""

_UNITS = (("s", 1_000_000_000), ("ms", 1_000_000), ("µs", 1_000), ("ns", 1))


def tick_step(ns_per_cell: float) -> int:
    """The distance between ticks in ns: 1, 2 or 5 times a power of ten."""
    least = max(ns_per_cell * SPACING, 1.0)
    power: int = 10 ** math.floor(math.log10(least))
    return next(times * power for times in (1, 2, 5, 10, 20) if times * power >= least)


def tick_label(moment: int, step: int) -> str:
    """A moment in the unit that suits it, with the decimals that tell it from the next tick: `1.25 ms`."""
    if moment == 0:
        return "0"
    unit, scale = next((unit, scale) for unit, scale in _UNITS if abs(moment) >= scale)
    decimals = max(0, math.ceil(math.log10(scale / step) - 1e-9))
    text = f"{moment / scale:.{decimals}f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} {unit}"


def axis(
    window: Window, width: int, origin_ns: int = 0, origin: str = "", marked: Collection[int] = ()
) -> NDArray[np.uint32]:
    """The axis as `width` code points: a line at each tick and its distance from the origin, or the origin's name.

    A label makes room for the marked cells: it is written behind those that it would cover, where the next tick
    leaves space for it, and else left out.
    """
    cells = np.full(width, ord(" "), np.uint32)
    step = tick_step(window.ns_per_cell)
    first = math.floor((window.start_ns - origin_ns) / step) - 1
    last = math.ceil((window.end_ns(width) - origin_ns) / step)
    for number in range(first, last + 1):
        at = window.cell_of(origin_ns + number * step)
        label = origin if number == 0 and origin else tick_label(number * step, step)
        letters = codes(f"│{_beside(label, at + 1, marked)}")
        if at < 0:
            continue
        behind = window.cell_of(origin_ns + (number + 1) * step)
        if at + len(letters) > min(width, behind) or len(label) >= SPACING:
            # Half a number is a wrong number.
            letters = letters[:1]
        low, high = max(at, 0), min(at + len(letters), width)
        if low < high:
            cells[low:high] = letters[low - at : high - at]
    return cells


def _beside(label: str, at: int, marked: Collection[int]) -> str:
    """A label that begins at a cell, moved behind the marked cells among its own by blanks."""
    blanks = 0
    while covered := [cell for cell in marked if 0 <= cell - at - blanks < len(label)]:
        # A blank behind the mark: it does not stand at the moment that the label names.
        blanks = max(covered) - at + 2
    return " " * blanks + label


# What lies beside the stretch of time that a timeline is about: still there, but pale, with a line at its end.

END = ord("╎")
"""Stands in the empty cells of the first column behind the end."""

Stretch = tuple[int, int]
"""Begin and end in ns."""


def veil(frame: Frame, row: int, stretch: Stretch, window: Window, colours: Palette) -> None:
    """Make the cells of a row outside of a stretch pale; marked cells keep their look."""
    width = frame.shape[1]
    begin = min(max(math.floor(window.position(stretch[0])), 0), width)
    # A cell of which only the edge is touched belongs to what comes behind.
    end = min(max(math.ceil(window.position(stretch[1]) - 1e-6), begin), width)
    outside = np.ones(width, bool)
    outside[begin:end] = False
    outside &= (frame.attributes[row] & UNDERLINE) == 0
    # Without colours a whole cell is a letter in reverse, and so is the part of one that a slice leaves empty.
    reversed_letter = ((frame.attributes[row] & REVERSE) > 0) & (frame.chars[row] < 128)
    filled = outside & ((frame.bg[row] != GROUND) | reversed_letter)
    plain = outside & ~filled & (frame.chars[row] != SPACE)
    frame.bg[row, filled] = colours.veil
    frame.fg[row, filled] = GROUND if colours.mono else colours.quiet
    frame.fg[row, plain] = GROUND if colours.mono else colours.veil if colours.veil != GROUND else colours.quiet
    if colours.veil == GROUND:
        # Without shades to choose from, what is pale is what no longer fills its cells.
        frame.attributes[row, filled] = DIM
        frame.attributes[row, plain] |= DIM
    on_screen = window.position(stretch[1]) >= 0 and end < width
    if on_screen and frame.chars[row, end] == SPACE and frame.bg[row, end] == GROUND:
        frame.chars[row, end] = END
        frame.fg[row, end] = GROUND if colours.mono else colours.quiet


# A selected gap on the timeline: the time in which a device ran nothing, shaded on its lanes and on the threads.

DOT = ord("·")
"""Fills empty cells of the gap where there are too few colours for a shade."""


@frozen(eq=True)
class ShadedGap:
    """A gap, and the tracks on which it is shaded."""

    on_device: Stretch
    on_threads: Stretch
    """The same time on the clock of the CPU."""
    lanes: frozenset[int]
    """The lanes of the device, and of the threads that the gap depends on."""
    idle_band: int
    """Number of the device's band of idle time, -1 for none."""
    launch_ns: int | None
    """Time at which the activity after it was launched; None where that is not known."""


def shade(frame: Frame, row: int, stretch: Stretch, window: Window, colours: Palette) -> None:
    """Shade the cells of a row that a stretch of time touches, where no slice fills them."""
    width = frame.shape[1]
    begin = min(max(math.floor(window.position(stretch[0])), 0), width)
    end = min(max(math.ceil(window.position(stretch[1]) - 1e-6), begin), width)
    cells = np.arange(begin, end)
    free = cells[(frame.bg[row, begin:end] == GROUND) & ((frame.attributes[row, begin:end] & UNDERLINE) == 0)]
    if colours.veil != GROUND and not colours.mono:
        frame.bg[row, free] = colours.veil
        return
    empty = free[(frame.chars[row, free] == SPACE) & (frame.attributes[row, free] == 0)]
    frame.chars[row, empty] = DOT
    frame.fg[row, empty] = GROUND if colours.mono else colours.quiet


# A range of time on the timeline: a tint behind all lanes, and a line at both ends.

DOTS = ord(":")
"""Fills empty cells of the range where there are too few colours for a tint."""
BEGIN_SIGN, END_SIGN = "[", "]"
"""Stand on the axis at the first and the last cell of the range."""


def range_cells(stretch: Stretch, window: Window) -> tuple[int, int]:
    """The first cell that a range touches, and the one behind its last; not limited to those on screen."""
    begin = math.floor(window.position(stretch[0]))
    return begin, max(math.ceil(window.position(stretch[1]) - 1e-6), begin + 1)


def tint_range(frame: Frame, row: int, stretch: Stretch, window: Window, colours: Palette) -> None:
    """Tint the cells of a row that a range touches and no slice fills, and draw its ends."""
    width = frame.shape[1]
    begin, end = range_cells(stretch, window)
    inside = slice(min(max(begin, 0), width), min(max(end, 0), width))
    free = (frame.bg[row] == GROUND) & ((frame.attributes[row] & UNDERLINE) == 0)
    empty = free & (frame.chars[row] == SPACE) & (frame.attributes[row] == 0)
    if colours.tint != GROUND and not colours.mono:
        frame.bg[row, inside][free[inside]] = colours.tint
    else:
        # Mask of the cells of a row with something on both sides, as the spaces of a label have.
        filled = np.pad(frame.chars[row] != SPACE, 1)
        dotted = empty & ~np.asarray(filled[:-2] & filled[2:], np.bool_)
        frame.chars[row, inside][dotted[inside]] = DOTS
        frame.fg[row, inside][dotted[inside]] = GROUND if colours.mono else colours.quiet
    for edge in (begin - 1, end):
        if 0 <= edge < width and empty[edge]:
            frame.chars[row, edge] = END
            frame.fg[row, edge] = GROUND if colours.mono else colours.quiet


AXIS_LINES = 1
"""Lines above the first track, where the axis is drawn."""

FILLED_SHARE = 0.5
"""A run that covers this share of its cells is named on its colour, another one beside its slices."""

_THREAD = re.compile(r"thread (?P<id>-?\d+)(?: \((?P<name>.*)\))?")
_GENERIC = re.compile(r"(python[\d.]*|pt_main_thread)?")
_MARK = ord("┊")


FOCUS_SIGN = "▌"
"""Stands at the top left of the part of the screen that has the keys."""


@frozen(eq=True)
class View:
    """The state that a frame shows."""

    window: Window
    selected: int = -1
    """Row of the selected slice, -1 for none."""
    highlighted: frozenset[int] = frozenset()
    """Rows of the slices that belong with it."""
    mark_ns: int | None = None
    """The measuring point."""
    origin_ns: int = 0
    """The moment that the axis calls 0."""
    origin: str = ""
    """Name of that moment on the axis."""
    focused: bool = False
    gap: ShadedGap | None = None
    """The gap that is selected, and not the slice that ends it."""
    time_range: Stretch | None = None
    """Start and end in ns of the range of time that is marked."""
    inside: tuple[Stretch, Stretch] | None = None
    """Time range that the timeline is about, on threads and on devices, in ns; None for everything."""


def label_width(width: int) -> int:
    """Cells of the column of lane names on a timeline of some width in cells."""
    return 20 if width >= 140 else 16 if width >= 100 else 14


def lane_label(lane: Lane, room: int = 40) -> str:
    """The name of a lane in a few words: `main thread`, `pt_autograd_0`, `GPU 0 stream 7`."""
    if lane.kind in (LaneKind.GPU, LaneKind.SYNC):
        text = f"{lane.process} {lane.name}"
        text = text if len(text) <= room else text.replace("stream ", "s")
    elif lane.kind == LaneKind.GPU_ANNOTATION:
        text = " annotations"
    elif lane.kind == LaneKind.OVERHEAD:
        text = "profiler overhead"
    elif thread := _THREAD.fullmatch(lane.name):
        name = thread["name"] or ""
        generic = _GENERIC.fullmatch(name) is not None
        text = ("main thread" if lane.tid == lane.pid != "0" else f"thread {thread['id']}") if generic else name
    else:
        text = lane.name
    return shorten(single_width(clean(text)), room)


class TimelineGrid:
    """Draws a timeline as a layout arranges it."""

    def __init__(self, timeline_index: TimelineIndex, layout: Layout, axis_lines: int = AXIS_LINES) -> None:
        """`axis_lines` is 0 for a timeline under another one, whose axis it shares."""
        self.timeline_index = timeline_index
        self.layout = layout
        self.axis_lines = axis_lines

    def fits(self, height: int) -> bool:
        """True where the lines are laid out for a grid of that height, so that some of them can be drawn alone."""
        return self.layout.height == max(height - self.axis_lines, 0)

    def draw(self, view: View, width: int, height: int, colours: Palette) -> Frame:
        """The whole grid."""
        frame = Frame.blank(height, width)
        self.layout.resize(max(height - self.axis_lines, 0))
        self.layout.hold(view.highlighted)
        self.layout.see(view.window, max(width - label_width(width), 0))
        self.draw_axis(frame, view, colours)
        self.draw_lines(frame, range(len(self.layout.lines)), view, colours)
        return frame

    def draw_lines(self, frame: Frame, numbers: Iterable[int], view: View, colours: Palette) -> None:
        """Draw some lines of the layout onto a grid."""
        numbers = list(numbers)
        left = label_width(frame.shape[1])
        width = frame.shape[1] - left
        lines = [self.layout.lines[number] for number in numbers]
        tracks = self.timeline_index.frame(
            (line.track for line in lines),
            view.window,
            max(width, 0),
            selected=view.selected if view.gap is None else -1,
            highlighted=self._lit(view, width),
            colours=colours,
            parts=[line.part for line in lines],
        )
        for i, line in enumerate(lines):
            self._name_runs(tracks, i, line, view, colours)
            if view.inside is not None and line.lane >= 0:
                on_device = self.timeline_index.trace.lanes[line.lane].kind in ON_DEVICE
                veil(tracks, i, view.inside[on_device], view.window, colours)
            if view.gap is not None:
                self._shade_gap(tracks, i, line, view, colours)
            if view.time_range is not None:
                tint_range(tracks, i, view.time_range, view.window, colours)
        stand_ins = self._stand_ins(numbers, view)
        self._light_stand_ins(tracks, stand_ins, view, colours)
        before = self._point_at_highlighted(tracks, lines, view, stand_ins)
        selected = self._selected_tracks(view)
        marked = selected | self._tracks_of(view.highlighted)
        if view.mark_ns is not None:
            _draw_mark(tracks, view.window.cell_of(view.mark_ns), colours)
        for i, (number, line) in enumerate(zip(numbers, lines, strict=True)):
            y = number + self.axis_lines
            frame.put(y, left, tracks, i)
            self._draw_label(frame, y, line, left, view, colours)
            if i in before:
                frame.write(y, left - 1, codes("◀"), GROUND, BOLD)
            elif (line.track >= 0 and line.track in marked) or i in stand_ins:
                is_selected = line.track in selected
                ink = colours.selected if is_selected else colours.highlighted
                frame.write(y, left - 1, codes("▐" if is_selected else "▕"), GROUND if colours.mono else ink, BOLD)

    def launch_lines(self, row: int) -> range:
        """The lines between a launch and its GPU activity, one of which is the slice; none for any other."""
        these = launched_with(self.timeline_index.trace, row)
        top, bottom = self.layout.line_of(these.launch), self.layout.line_of(these.activity)
        return range(top + 1, bottom) if 0 <= top < bottom else range(0)

    def draw_launch_line(self, frame: Frame, view: View, colours: Palette) -> None:
        """Draw the line from the launch to the start of the selected GPU activity behind the slices of a drawn grid."""
        between = self.launch_lines(view.selected) if view.gap is None else range(0)
        if between:
            trace, lines = self.timeline_index.trace, self.layout.lines
            activity, launch, _ = launched_with(trace, view.selected)
            line = LaunchLine(
                range(between.start + self.axis_lines, between.stop + self.axis_lines),
                label_width(frame.shape[1]),
                int(trace.slices.end[launch]),
                int(trace.slices.start[activity]),
                int(launch_delay(trace, np.array([activity]))[0]),
            )
            idle = [number for number in between if self.timeline_index.idle_of(lines[number].track) >= 0]
            line.draw(frame, view.window, [number + self.axis_lines for number in idle], colours)

    def draw_axis(self, frame: Frame, view: View, colours: Palette) -> None:
        """Draw the axis, and what is measured, onto a grid."""
        height, width = frame.shape
        left = label_width(width)
        if not self.axis_lines or height < self.axis_lines or width <= left:
            return
        quiet = GROUND if colours.mono else colours.quiet
        frame.write(0, 0, codes(f" {self._reading(view, width - left, left - 1)}".ljust(left)))
        frame.attributes[0, :left] = BOLD if view.focused else 0
        if view.focused:
            frame.write(0, 0, codes(FOCUS_SIGN), GROUND if colours.mono else colours.selected, BOLD)
        moments = [(view.window.cell_of(moment), sign, ink) for moment, sign, ink in self._moments(view, colours)]
        if view.time_range is not None:
            begin, end = range_cells(view.time_range, view.window)
            moments += [(begin, BEGIN_SIGN, GROUND), (end - 1, END_SIGN, GROUND)]
        marked = {at for at, _, _ in moments}
        frame.write(0, left, axis(view.window, width - left, view.origin_ns, view.origin, marked), quiet)
        for at, sign, colour in moments:
            if 0 <= at < width - left:
                frame.write(0, left + at, codes(sign), GROUND if colours.mono else colour, BOLD)

    def _lit(self, view: View, width: int) -> frozenset[int]:
        """The highlighted slices; with a gap selected without annotations around all of the window."""
        if view.gap is None:
            return view.highlighted
        slices = self.timeline_index.trace.slices
        begin, end = view.window.start_ns, view.window.end_ns(width)
        return frozenset(
            row
            for row in view.highlighted
            if int(slices.kind[row]) not in (Kind.ANNOTATION, Kind.GPU_ANNOTATION)
            or slices.start[row] > begin
            or slices.end[row] < end
        )

    def _name_runs(self, tracks: Frame, i: int, line: Line, view: View, colours: Palette) -> None:
        """Draw the phases of a thread on a line, or say in words what runs stand there."""
        index, width = self.timeline_index, tracks.shape[1]
        if line.shows == Shows.PHASES and index.phases is not None:
            index.phases.draw(tracks, i, line.lane, view.window, colours)
        elif line.shows == Shows.LAYERS and index.layers is not None:
            index.layers.draw(tracks, i, int(lane_numbers(index.trace).process[line.lane]), view.window, colours)
        elif line.shows == Shows.WORDS:
            for run, begin, text in index.words_below(index.full[line.lane].start, view.window, width):
                tracks.write(i, begin, codes(text), int(colours.words[run.sort]))
        elif line.shows == Shows.RUNS:
            slices = index.trace.slices
            for run, family in zip(*index.runs(line.track, view.window, width, by_name=True), strict=True):
                kind = int(slices.kind[index.index.rows[run.most]])
                words = run.words(index.labels.brief(run.sort, kind))
                is_filled = run.share(view.window) >= FILLED_SHARE
                write_label(tracks, i, (run.begin, run.end), words, family, colours, is_filled)

    def _moments(self, view: View, colours: Palette) -> list[tuple[int, str, int]]:
        """The moments that the axis points at, the most important last: moment in ns, sign and colour.

        That is where the selected slice begins and, on the other side of the launch, what belongs with it: a launch
        and its kernel are found by these whatever their own colours are.
        """
        moments = [] if view.mark_ns is None else [(view.mark_ns, "◆", GROUND)]
        trace, row = self.timeline_index.trace, view.selected
        if view.gap is not None:
            launched = [] if view.gap.launch_ns is None else [(view.gap.launch_ns, "▽", colours.highlighted)]
            return [*moments, *launched, (view.gap.on_device[0], "▼", colours.selected)]
        if row < 0:
            return moments
        start, kind = trace.slices.start, trace.slices.kind
        selected_on_gpu = int(kind[row]) in GPU_WORK
        partners = [int(start[each]) for each in view.highlighted if (int(kind[each]) in GPU_WORK) != selected_on_gpu]
        if partners:
            # Of a kernel the launch, which is the last of what led to it; of an operator the first it launched.
            partner = max(partners) if selected_on_gpu else min(partners)
            moments.append((partner, "▽", colours.highlighted))
        return [*moments, (int(start[row]), "▼", colours.selected)]

    def _reading(self, view: View, width: int, room: int) -> str:
        """The length of the marked range or the window, or the distance of the selected slice from the measuring point.

        It takes at most `room` cells.
        """
        if view.time_range is not None:
            return shorten(f"↔ {duration(view.time_range[1] - view.time_range[0])}", room)
        if view.mark_ns is None:
            length = duration(view.window.ns_per_cell * width)
            return shorten(f"{length} wide" if len(length) + len(" wide") <= room else length, room)
        if view.selected < 0:
            return "Δ –"
        slices = self.timeline_index.trace.slices
        moment = int(slices.start[view.selected]) if view.gap is None else view.gap.on_device[0]
        distance = moment - view.mark_ns
        return shorten(f"Δ {'+' if distance > 0 else ''}{duration(distance)}", room)

    def _draw_label(self, frame: Frame, y: int, line: Line, left: int, view: View, colours: Palette) -> None:
        quiet = GROUND if colours.mono else colours.quiet
        if line.is_rule:
            text = f"── {line.note} " if line.note else ""
            frame.write(y, 0, codes(text.ljust(frame.shape[1], "─")[: frame.shape[1]]), quiet, DIM)
            return
        frame.write(y, 0, codes(" " * left))
        if line.shows == Shows.QUIET:
            lanes = self.timeline_index.trace.lanes
            names = ", ".join(lane_label(lanes[lane]).strip() for lane in self.layout.quiet)
            text = f"▸{len(self.layout.quiet)} quiet lane{'' if len(self.layout.quiet) == 1 else 's'}: {names}"
            frame.write(y, 0, codes(shorten(text, frame.shape[1])), quiet)
            return
        if line.lane < 0:
            frame.write(y, 1, codes(self._label_of_track(line.track, view, left - 2)), quiet)
            return
        lane = self.timeline_index.trace.lanes[line.lane]
        if line.shows == Shows.LAYERS:
            frame.write(y, 1, codes(shorten(single_width(clean(f"{lane.process} layers")), left - 2)), quiet)
        elif line.head:
            sign = {Fold.FOLDED: "▸", Fold.COMPACT: " ", Fold.FULL: "▾"}[self.layout.folds[line.lane]]
            sign = "▪" if line.is_pinned else sign if lane.rows > 1 else " "
            ink = quiet if lane.kind == LaneKind.GPU_ANNOTATION else GROUND
            frame.write(y, 0, codes(sign + lane_label(lane, left - 2)), ink)
        elif line.note:
            note = line.note if len(line.note) <= left - 2 else line.note.removeprefix("rows ")
            frame.write(y, 1, codes(shorten(note, left - 2)), quiet)
        elif line.number == 1 and lane.kind == LaneKind.CPU:
            frame.write(y, 1, codes(shorten(single_width(clean(lane.process)), left - 2)), quiet)

    def _shade_gap(self, tracks: Frame, i: int, line: Line, view: View, colours: Palette) -> None:
        """Shade the gap on a line, if that is one of its own."""
        gap = view.gap
        if gap is None:
            return
        if line.lane in gap.lanes:
            on_device = self.timeline_index.trace.lanes[line.lane].kind in ON_DEVICE
            shade(tracks, i, gap.on_device if on_device else gap.on_threads, view.window, colours)
        elif (
            colours.veil != GROUND
            and not colours.mono
            and gap.idle_band >= 0
            and line.track == self.timeline_index.idle_track(gap.idle_band)
        ):
            shade(tracks, i, gap.on_device, view.window, colours)

    def _selected_tracks(self, view: View) -> set[int]:
        """The track of the selected slice, or of the idle time with the selected gap."""
        if view.gap is not None:
            return {self.timeline_index.idle_track(view.gap.idle_band)} if view.gap.idle_band >= 0 else set()
        return self._tracks_of([view.selected] if view.selected >= 0 else [])

    def _tracks_of(self, rows: Iterable[int]) -> set[int]:
        """The tracks on which slices stand."""
        return {track for row in rows for track in self.timeline_index.tracks_of(row)}

    def lines_with_values(self) -> list[int]:
        """The lines whose names hold a value at the selection: counters of GPUs."""
        first, curves = self.timeline_index.counter_track(0), self.timeline_index.curves
        return [
            number
            for number, line in enumerate(self.layout.lines)
            if 0 <= line.track - first < len(curves) and curves[line.track - first].counter.gpu >= 0
        ]

    def _label_of_track(self, track: int, view: View, room: int) -> str:
        """The label of a counter, or of the idle time of a device.

        A counter of a GPU has its value at the selection, the others and those without one the highest of all.
        """
        idle = self.timeline_index.idle_of(track)
        if idle >= 0:
            return shorten(single_width(clean(f"{self.timeline_index.idles[idle].device} idle")), room)
        curve = self.timeline_index.curves[track - self.timeline_index.counter_track(0)]
        name = single_width(clean(curve.name))
        moment = self._moment(view) if curve.counter.gpu >= 0 else None
        value = float("nan") if moment is None else curve.value_at(moment)
        # The value stays whole: half a number is a wrong number.
        said = curve.limit if moment is None else "–" if value != value else curve.text(value)
        said = single_width(clean(said))
        return f"{shorten(name, max(room - len(said) - 1, 1))} {said}"[:room]

    def _moment(self, view: View) -> int | None:
        """The time in ns at which the selection begins, None without one."""
        if view.gap is not None:
            return view.gap.on_device[0]
        return int(self.timeline_index.trace.slices.start[view.selected]) if view.selected >= 0 else None

    def _stand_ins(self, numbers: list[int], view: View) -> dict[int, list[int]]:
        """Highlighted slices whose rows have no line of their own, by the index of the line that shows them."""
        found: dict[int, list[int]] = {}
        if len(view.highlighted) <= MANY:
            index_of = {number: i for i, number in enumerate(numbers)}
            for row in sorted(view.highlighted):
                number = self.layout.line_of(row)
                tracks = self.timeline_index.tracks_of(row)
                if number in index_of and self.layout.lines[number].track not in tracks:
                    found.setdefault(index_of[number], []).append(row)
        return found

    def _light_stand_ins(self, frame: Frame, stand_ins: dict[int, list[int]], view: View, colours: Palette) -> None:
        """Highlight slices without a line of their own on the lines that show them."""
        slices, width = self.timeline_index.trace.slices, frame.shape[1]
        for i, rows in stand_ins.items():
            for row in rows:
                begin, end = (view.window.cell_of(moment) for moment in (slices.start[row], slices.end[row] - 1))
                if end >= 0 and begin < width:
                    cells = slice(max(begin, 0), max(min(end, width - 1), begin, 0) + 1)
                    frame.chars[i, cells] = SPACE
                    frame.bg[i, cells] = GROUND if colours.mono else colours.highlighted
                    frame.attributes[i, cells] = UNDERLINE | colours.on_fill

    def _point_at_highlighted(
        self, frame: Frame, lines: list[Line], view: View, stand_ins: dict[int, list[int]]
    ) -> set[int]:
        """Mark lines whose highlighted slice lies after the window; return those where one lies before it.

        Those are pointed at beside the lane's name, where no slice begins.
        """
        before: set[int] = set()
        width = frame.shape[1]
        slices = self.timeline_index.trace.slices
        wanted = {track: row for row in view.highlighted for track in self.timeline_index.tracks_of(row)}
        begin, end = view.window.start_ns, view.window.end_ns(width)
        for i, line in enumerate(lines):
            row = wanted.get(line.track, stand_ins.get(i, [-1])[-1])
            if row < 0 or width < 1:
                continue
            if slices.start[row] >= end:
                frame.write(i, width - 1, codes("▶"), GROUND, BOLD)
                frame.bg[i, width - 1] = GROUND
            elif slices.end[row] <= begin:
                before.add(i)
        return before


def _draw_mark(frame: Frame, cell: int, colours: Palette) -> None:
    """A line down the empty cells of a column."""
    if 0 <= cell < frame.shape[1]:
        plain = (frame.attributes[:, cell] & UNDERLINE) == 0
        empty = (frame.chars[:, cell] == SPACE) & (frame.bg[:, cell] == GROUND) & plain
        frame.chars[empty, cell] = _MARK
        frame.fg[empty, cell] = GROUND if colours.mono else colours.quiet
