"""The whole timeline as one grid of cells: axis, names of lanes, tracks, and what is marked on them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tracetui.drawing.format import shorten
from tracetui.drawing.timeline.axis import axis
from tracetui.drawing.timeline.cells import SPACE, Frame
from tracetui.drawing.timeline.gap_shading import ShadedGap, shade
from tracetui.drawing.timeline.labels import codes, single_width
from tracetui.drawing.timeline.layout import ON_DEVICE, Fold, Layout, Line
from tracetui.drawing.timeline.outside_shading import Stretch, veil
from tracetui.drawing.timeline.palette import BOLD, DIM, GROUND, UNDERLINE, Palette
from tracetui.drawing.timeline.range_shading import BEGIN_SIGN, END_SIGN, range_cells, tint_range
from tracetui.drawing.timeline.raster import Picture
from tracetui.drawing.timeline.window import Window
from tracetui.model.quantities import duration
from tracetui.model.trace import GPU_WORK, Lane, LaneKind
from tracetui.safe_text import clean

AXIS_LINES = 1
"""Lines above the first track, where the axis is drawn."""

_THREAD = re.compile(r"thread (?P<id>-?\d+)(?: \((?P<name>.*)\))?")
_GENERIC = re.compile(r"(python[\d.]*|pt_main_thread)?")
_MARK = ord("┊")


@dataclass(frozen=True)
class View:
    """What is to be seen."""

    window: Window
    selected: int = -1
    """Row of the selected slice, -1 for none."""
    lit: frozenset[int] = frozenset()
    """Rows of the slices that belong with it."""
    mark_ns: int | None = None
    """The measuring point."""
    origin_ns: int = 0
    """The moment that the axis calls 0."""
    origin: str = ""
    """What that moment is called on the axis."""
    focused: bool = False
    gap: ShadedGap | None = None
    """The gap that is selected, and not the slice that ends it."""
    time_range: Stretch | None = None
    """Start and end in ns of the range of time that is marked."""
    inside: tuple[Stretch, Stretch] | None = None
    """What the timeline is about, on threads and on devices, in ns; None for everything."""


def label_width(width: int) -> int:
    """Cells of the column of lane names, on a timeline of so many cells."""
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


class Scene:
    """Draws a picture as a layout arranges it."""

    def __init__(self, picture: Picture, layout: Layout, axis_lines: int = AXIS_LINES) -> None:
        """`axis_lines` is 0 for a timeline under another one, whose axis it shares."""
        self.picture = picture
        self.layout = layout
        self.axis_lines = axis_lines

    def fits(self, height: int) -> bool:
        """Whether the lines are laid out for a grid of that height, so that some of them can be drawn alone."""
        return self.layout.height == max(height - self.axis_lines, 0)

    def draw(self, view: View, width: int, height: int, colours: Palette) -> Frame:
        """The whole grid."""
        frame = Frame.blank(height, width)
        self.layout.resize(max(height - self.axis_lines, 0))
        self.draw_axis(frame, view, colours)
        self.draw_lines(frame, range(len(self.layout.lines)), view, colours)
        return frame

    def draw_lines(self, frame: Frame, numbers: Iterable[int], view: View, colours: Palette) -> None:
        """Draw some lines of the layout onto a grid."""
        numbers = list(numbers)
        left = label_width(frame.shape[1])
        width = frame.shape[1] - left
        lines = [self.layout.lines[number] for number in numbers]
        tracks = self.picture.frame(
            (line.track for line in lines),
            view.window,
            max(width, 0),
            selected=view.selected if view.gap is None else -1,
            lit=view.lit,
            colours=colours,
        )
        for i, line in enumerate(lines):
            if view.inside is not None and line.lane >= 0:
                on_device = self.picture.trace.lanes[line.lane].kind in ON_DEVICE
                veil(tracks, i, view.inside[on_device], view.window, colours)
            if view.gap is not None:
                self._shade_gap(tracks, i, line, view, colours)
            if view.time_range is not None:
                tint_range(tracks, i, view.time_range, view.window, colours)
        before = self._point_at_lit(tracks, lines, view)
        selected = self._selected_tracks(view)
        marked = selected | self._tracks_of(view.lit)
        if view.mark_ns is not None:
            _draw_mark(tracks, view.window.cell_of(view.mark_ns), colours)
        for i, (number, line) in enumerate(zip(numbers, lines, strict=True)):
            y = number + self.axis_lines
            frame.put(y, left, tracks, i)
            self._draw_label(frame, y, line, left, view, colours)
            if i in before:
                frame.write(y, left - 1, codes("◀"), GROUND, BOLD)
            elif line.track in marked:
                is_selected = line.track in selected
                ink = colours.selected if is_selected else colours.lit
                frame.write(y, left - 1, codes("▐" if is_selected else "▕"), GROUND if colours.mono else ink, BOLD)

    def draw_axis(self, frame: Frame, view: View, colours: Palette) -> None:
        """Draw the axis, and what is measured, onto a grid."""
        height, width = frame.shape
        left = label_width(width)
        if not self.axis_lines or height < self.axis_lines or width <= left:
            return
        quiet = GROUND if colours.mono else colours.quiet
        frame.write(0, 0, codes(self._reading(view, width - left, left - 1).ljust(left)))
        frame.attributes[0, :left] = BOLD if view.focused else 0
        moments = [(view.window.cell_of(moment), sign, ink) for moment, sign, ink in self._moments(view, colours)]
        if view.time_range is not None:
            begin, end = range_cells(view.time_range, view.window)
            moments += [(begin, BEGIN_SIGN, GROUND), (end - 1, END_SIGN, GROUND)]
        marked = {at for at, _, _ in moments}
        frame.write(0, left, axis(view.window, width - left, view.origin_ns, view.origin, marked), quiet)
        for at, sign, colour in moments:
            if 0 <= at < width - left:
                frame.write(0, left + at, codes(sign), GROUND if colours.mono else colour, BOLD)

    def _moments(self, view: View, colours: Palette) -> list[tuple[int, str, int]]:
        """What the axis points at, the most important last: moment in ns, sign and colour.

        That is where the selected slice begins and, on the other side of the launch, what belongs with it: a launch
        and its kernel are found by these whatever their own colours are.
        """
        moments = [] if view.mark_ns is None else [(view.mark_ns, "◆", GROUND)]
        trace, row = self.picture.trace, view.selected
        if view.gap is not None:
            launched = [] if view.gap.launch_ns is None else [(view.gap.launch_ns, "▽", colours.lit)]
            return [*moments, *launched, (view.gap.on_device[0], "▼", colours.selected)]
        if row < 0:
            return moments
        start, kind = trace.slices.start, trace.slices.kind
        selected_on_gpu = int(kind[row]) in GPU_WORK
        partners = [int(start[each]) for each in view.lit if (int(kind[each]) in GPU_WORK) != selected_on_gpu]
        if partners:
            # Of a kernel the launch, which is the last of what led to it; of an operator the first it launched.
            partner = max(partners) if selected_on_gpu else min(partners)
            moments.append((partner, "▽", colours.lit))
        return [*moments, (int(start[row]), "▼", colours.selected)]

    def _reading(self, view: View, width: int, room: int) -> str:
        """How long the marked range or the window is, or how far the selected slice is from the measuring point.

        It takes at most `room` cells.
        """
        if view.time_range is not None:
            return shorten(f"↔ {duration(view.time_range[1] - view.time_range[0])}", room)
        if view.mark_ns is None:
            length = duration(view.window.ns_per_cell * width)
            return shorten(f"{length} wide" if len(length) + len(" wide") <= room else length, room)
        if view.selected < 0:
            return "Δ –"
        slices = self.picture.trace.slices
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
        if line.lane < 0:
            frame.write(y, 1, codes(self._label_of_track(line.track, view, left - 2)), quiet)
            return
        lane = self.picture.trace.lanes[line.lane]
        if line.head:
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
            on_device = self.picture.trace.lanes[line.lane].kind in ON_DEVICE
            shade(tracks, i, gap.on_device if on_device else gap.on_threads, view.window, colours)
        elif (
            colours.veil != GROUND
            and not colours.mono
            and gap.idle_band >= 0
            and line.track == self.picture.idle_track(gap.idle_band)
        ):
            shade(tracks, i, gap.on_device, view.window, colours)

    def _selected_tracks(self, view: View) -> set[int]:
        """The track of the selected slice, or of the idle time with the selected gap."""
        if view.gap is not None:
            return {self.picture.idle_track(view.gap.idle_band)} if view.gap.idle_band >= 0 else set()
        return self._tracks_of([view.selected] if view.selected >= 0 else [])

    def _tracks_of(self, rows: Iterable[int]) -> set[int]:
        """The tracks on which slices stand."""
        return {track for row in rows for track in self.picture.tracks_of(row)}

    def lines_with_values(self) -> list[int]:
        """The lines whose names hold a value at the selection: counters of GPUs."""
        first, curves = self.picture.counter_track(0), self.picture.curves
        return [
            number
            for number, line in enumerate(self.layout.lines)
            if 0 <= line.track - first < len(curves) and curves[line.track - first].counter.gpu >= 0
        ]

    def _label_of_track(self, track: int, view: View, room: int) -> str:
        """What a counter or the idle time of a device is called.

        A counter of a GPU has its value at the selection, the others and those without one the highest of all.
        """
        idle = track - self.picture.idle_track(0)
        if idle >= 0:
            return shorten(single_width(clean(f"{self.picture.idles[idle].device} idle")), room)
        curve = self.picture.curves[track - self.picture.counter_track(0)]
        name = single_width(clean(curve.name))
        moment = self._moment(view) if curve.counter.gpu >= 0 else None
        value = float("nan") if moment is None else curve.value_at(moment)
        # The value stays whole: half a number is a wrong number.
        said = f"≤{curve.limit}" if moment is None else "–" if value != value else curve.text(value)
        said = single_width(clean(said))
        return f"{shorten(name, max(room - len(said) - 1, 1))} {said}"[:room]

    def _moment(self, view: View) -> int | None:
        """The time in ns at which the selection begins, None without one."""
        if view.gap is not None:
            return view.gap.on_device[0]
        return int(self.picture.trace.slices.start[view.selected]) if view.selected >= 0 else None

    def _point_at_lit(self, frame: Frame, lines: list[Line], view: View) -> set[int]:
        """Where a lit slice lies behind the window, say so on its line; the lines where one lies before it.

        Those are pointed at beside the lane's name, where no slice begins.
        """
        before: set[int] = set()
        width = frame.shape[1]
        slices = self.picture.trace.slices
        wanted = {track: row for row in view.lit for track in self.picture.tracks_of(row)}
        begin, end = view.window.start_ns, view.window.end_ns(width)
        for i, line in enumerate(lines):
            row = wanted.get(line.track, -1)
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
