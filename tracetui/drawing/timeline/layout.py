"""The tracks on each line of the screen: folding, scrolling, and the devices kept in sight.

Threads stand above, devices below. When not everything fits, each part scrolls on its own, so that a launch
and its kernel are seen together however deep the stack above. A lane is folded to one row, compact (its first
rows, without Python frames), or full. Rows on which nothing is in the window take no line, and of the rows of a compact
thread whose slices are all too narrow for a name only the first is shown, with its runs in words. Lines that are left
over go to streams: words below them, and taller bars.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from enum import IntEnum

import numpy as np

from tracetui.drawing.timeline.cells import Part
from tracetui.drawing.timeline.palette import SHORTEST
from tracetui.drawing.timeline.raster import TimelineIndex
from tracetui.drawing.timeline.window import Window
from tracetui.frozen import frozen
from tracetui.linking.links import profiler_steps
from tracetui.linking.trees import lane_numbers
from tracetui.model.trace import Kind, LaneKind, Trace

ON_DEVICE = (LaneKind.GPU, LaneKind.GPU_ANNOTATION, LaneKind.SYNC)
"""Kinds of lanes that are kept in sight at the bottom."""

RULED = 6
"""From so many lines on one of them separates threads and devices."""
LAYERED = 7
"""From so many lines on one of them has the layers of a device."""
_BUSY_LANES = (LaneKind.CPU, LaneKind.GPU, LaneKind.GPU_ANNOTATION, LaneKind.ASYNC)
_CAPS = (4, 5, 6, 8, 10, 12, 16, 24, 32)
_IDLE_SHARE = 1000
_TALLEST = 3
"""Lines of the bars of a stream, at most."""


class Fold(IntEnum):
    """The rows of a lane that are shown."""

    FOLDED = 0
    COMPACT = 1
    FULL = 2


class Shows(IntEnum):
    """Contents of a line of a lane."""

    SLICES = 0
    RUNS = 1
    """Slices, and over them in words what they are, for none is wide enough for a name."""
    PHASES = 2
    """The phases of the thread, and no slices."""
    WORDS = 3
    """What the runs of the stream above are, and no slices."""
    QUIET = 4
    """How many quiet lanes are folded here."""
    LAYERS = 5
    """The layers of the device whose first stream stands below."""


@frozen(eq=True, slots=True)
class Line:
    """One line of the screen."""

    lane: int
    """Index of the lane, -1 for a counter, idle time, or the rule between the two parts."""
    track: int
    """Track that is drawn on it, -1 for nothing."""
    number: int = 0
    """Index among the lane's shown rows, from 0."""
    note: str = ""
    """Number of rows that are not shown here: rows of this lane, or of the part above a rule."""
    head: bool = False
    """True where the lane's name stands here: on its first row, or the first that is not scrolled out."""
    is_pinned: bool = False
    """True where the lane stays at the top."""
    shows: Shows = Shows.SLICES
    part: Part = (0, 1)
    """Which line of the bars of a stream it is."""

    @property
    def is_rule(self) -> bool:
        """True where this line separates threads and devices."""
        return self.lane < 0 and self.track < 0 and self.shows != Shows.QUIET


class Layout:
    """The lines of a timeline on a screen of some height; what a person folded and scrolled is kept here."""

    def __init__(self, timeline_index: TimelineIndex, only: Collection[int] | None = None) -> None:
        """With `only`, just these lanes are shown, and neither counters nor idle time."""
        self._timeline_index = timeline_index
        lanes = timeline_index.trace.lanes
        idle = idle_lanes(timeline_index.trace)
        self.folds = [
            Fold.COMPACT if lane.kind in _BUSY_LANES and i not in idle else Fold.FOLDED for i, lane in enumerate(lanes)
        ]
        """The state of each lane."""
        shown = [i for i in range(len(lanes)) if _is_shown(timeline_index, i) and (only is None or i in only)]
        self.quiet = sorted(quiet_lanes(timeline_index.trace) & set(shown)) if only is None else []
        """Lanes of little interest, which stand folded in one line."""
        self._every_above = [i for i in shown if lanes[i].kind not in ON_DEVICE]
        self._every_below = [i for i in shown if lanes[i].kind in ON_DEVICE]
        self.shows_quiet = len(self.quiet) == len(shown)
        """True where quiet lanes have lines of their own."""
        self._idle = _lanes_under_idle(timeline_index) if only is None else {}
        layers, process = timeline_index.layers, lane_numbers(timeline_index.trace).process
        self._layered = {
            lane: int(process[lane]) for lane in self._idle if layers is not None and int(process[lane]) in layers
        }
        """The devices with layers, by the first stream of each, which has a line of these above it."""
        self._curves = len(timeline_index.curves) if only is None else 0
        self._under = _curves_under(timeline_index, self._every_below) if only is None else {}
        """Numbers of the curves of a GPU's counters, by the last lane of the GPU."""
        self._loose_curves = _loose_curves(timeline_index, self._under) if only is None else ((), ())
        self._pinned: list[int] = []
        self._top = 0
        self._offset: dict[int, int] = {}
        self._scroll = [0, 0]
        self._height = 0
        self._lines: list[Line] | None = None
        self._depths: dict[int, int] = {}
        self._split = 0
        self._seen: tuple[Window, int] | None = None
        self._forced: dict[int, int] = {}
        """Rows that lanes show in any case, because a slice on them was asked for at this scale."""
        self._tall: dict[int, int] = {}
        """Lines of the bars of streams that have more than one."""
        self._worded: set[int] = set()
        """Streams whose runs have a line of words."""
        self._held: frozenset[int] = frozenset()
        """Lanes that are shown though nothing on them is in the window."""

    @property
    def _above(self) -> list[int]:
        return [lane for lane in self._every_above if self.shows_quiet or lane not in self.quiet]

    @property
    def _below(self) -> list[int]:
        return [lane for lane in self._every_below if self.shows_quiet or lane not in self.quiet]

    @property
    def height(self) -> int:
        """The number of lines that it is laid out for."""
        return self._height

    def resize(self, height: int) -> None:
        """Lay out for a number of lines."""
        if height != self._height:
            self._height = height
            self._changed()

    def see(self, window: Window, width: int) -> None:
        """Lay out for the slices in a window of `width` cells."""
        if self._seen == (window, width):
            return
        if self._seen is None or self._seen[0].ns_per_cell != window.ns_per_cell:
            self._forced.clear()
        self._seen = window, width
        self._changed()

    def hold(self, rows: Collection[int]) -> bool:
        """Keep the lanes of some slices on screen though these are outside of the window; whether a lane is another."""
        lanes = frozenset(np.unique(self._timeline_index.trace.slices.lane[list(rows)]).tolist())
        is_new = lanes != self._held
        if is_new:
            self._held = lanes
            self._changed()
        return is_new

    def wanted(self, limit: int) -> int:
        """Lines that it takes to show all rows, at most `limit`; the layout is left at that height.

        It does not depend on the window: who zooms in finds the lines that it takes.
        """
        seen, scroll = self._seen, self._scroll
        self._seen, self._height = None, limit
        self._changed()
        wanted = len(self.lines)
        self._seen, self._height, self._scroll = seen, wanted, scroll
        self._changed()
        return wanted

    def pin(self, lane: int) -> None:
        """Pin a lane below those pinned before, or unpin it."""
        if lane in self._pinned:
            self._pinned.remove(lane)
        elif lane in (*self._above, *self._below):
            self._pinned.append(lane)
        self._changed()

    @property
    def lines(self) -> list[Line]:
        """The lines on screen, from the top; shorter than the screen when there is less to show."""
        if self._lines is None:
            self._lines = self._lay_out()
        return self._lines

    @property
    def tracks(self) -> list[int]:
        """Every track that can be reached line by line, from the top; folded lanes have one."""
        others = [lane for lane in (*self._above, *self._below) if lane not in self._pinned]
        return [track for lane in (*self._pinned, *others) for track in self._reachable(lane)]

    @property
    def device_tracks(self) -> list[int]:
        """Those of streams on which something ran."""
        lanes = self._timeline_index.trace.lanes
        streams = (lane for lane in self._below if lanes[lane].kind == LaneKind.GPU)
        return [track for lane in streams for track in self._reachable(lane)]

    def lane_at(self, line: int) -> int:
        """The lane on a line, -1 for none."""
        return self.lines[line].lane if 0 <= line < len(self.lines) else -1

    def line_of(self, row: int) -> int:
        """The line on which a slice is drawn, -1 when that is not on screen.

        Of a slice on a row that takes no line it is the last line of its thread, which stands for all below it.
        """
        own = self._own_line_of(row)
        if own >= 0 or row < 0 or self._seen is None:
            return own
        lane = int(self._timeline_index.trace.slices.lane[row])
        last = max((i for i, line in enumerate(self.lines) if line.lane == lane and line.track >= 0), default=-1)
        below = self._timeline_index.tracks_of(row)[-1] > self.lines[last].track if last >= 0 else False
        return last if below and self._depth(lane) < len(self._base(lane)) else -1

    def _own_line_of(self, row: int) -> int:
        if row < 0:
            return -1
        tracks = self._timeline_index.tracks_of(row)
        return next((i for i, line in enumerate(self.lines) if line.track in tracks), -1)

    def toggle_quiet(self) -> None:
        """Give quiet lanes lines of their own, or fold them into one again."""
        self.shows_quiet = not self.shows_quiet
        self._changed()

    def fold(self, lane: int) -> Fold:
        """Bring a lane to its next state that looks different: compact, full, folded, and round again."""
        start = self.folds[lane]
        self._forced.pop(lane, None)
        before = self._base(lane), self._shown_rows(lane, self._cap())
        for steps in (1, 2):
            self.folds[lane] = Fold((start + steps) % 3)
            if (self._base(lane), self._shown_rows(lane, self._cap())) != before:
                break
        self._changed()
        return self.folds[lane]

    def scroll(self, line: int, rows: int) -> None:
        """Scroll the part of the screen that a line belongs to."""
        above = len(self._part_lines(0))
        part = int(bool(self._split) and line - self._top >= above + self._rule_lines)
        self._scroll[part] = max(0, self._scroll[part] + rows)
        self._changed()

    def reveal(self, row: int, unfold: bool = True) -> bool:
        """Scroll so that a slice is on screen; whether anything moved.

        With `unfold`, its lane is opened as far as that takes; otherwise a hidden row stays hidden: lines that come and
        go with every step from kernel to kernel would be worse.
        """
        if row < 0 or (self._own_line_of(row) if unfold else self.line_of(row)) >= 0:
            return False
        lane = int(self._timeline_index.trace.slices.lane[row])
        if lane not in self._above and lane not in self._below:
            if not unfold or lane not in self.quiet:
                return False
            self.shows_quiet = True
        tracks = self._timeline_index.tracks_of(row)
        track = tracks[-1]
        if track not in self._base(lane):
            if not unfold:
                return False
            self.folds[lane], track = Fold.FULL, tracks[0]
        elif unfold and self.folds[lane] == Fold.FOLDED:
            self.folds[lane] = Fold.COMPACT
        self._changed()
        self._bring_in(lane, track)
        return True

    def _bring_in(self, lane: int, track: int) -> None:
        """Move the shown rows of a lane, and then the part it is in, until a track is on screen."""
        base = self._base(lane)
        self._forced[lane] = max(track - base.start + 1, self._forced.get(lane, 0))
        self._changed()
        shown = self._shown_rows(lane, self._cap())
        wanted = track - base.start
        offset = self._offset.get(lane, 0)
        self._offset[lane] = max(min(offset, wanted), wanted - shown + 1)
        if lane in self._pinned:
            return
        part = int(lane in self._below)
        tracks = [line.track for line in self._part(part, self._cap())]
        place = tracks.index(track)
        height = len(self._part_lines(part))
        self._scroll[part] = max(min(self._scroll[part], place), place - height + 1)
        self._changed()

    def _part_lines(self, part: int) -> list[Line]:
        lines = self.lines[self._top :]
        if not self._split:
            return lines
        return lines[self._split + self._rule_lines :] if part else lines[: self._split]

    def _base(self, lane: int) -> range:
        """The tracks that a lane shows some of."""
        compact = self._timeline_index.compact[lane]
        return compact if len(compact) and self.folds[lane] != Fold.FULL else self._timeline_index.full[lane]

    def _reachable(self, lane: int) -> range:
        base = self._base(lane)
        if self.folds[lane] != Fold.FOLDED:
            return base
        first = base.start + self._offset.get(lane, 0)
        return range(first, first + 1)

    def _changed(self) -> None:
        """Lay out again when the lines are next asked for."""
        self._lines = None
        self._depths.clear()

    def _depth(self, lane: int) -> int:
        """The rows of a lane that are worth a line in the window: none where nothing is in it."""
        if lane not in self._depths:
            self._depths[lane] = self._worth_showing(lane)
        return self._depths[lane]

    def _worth_showing(self, lane: int) -> int:
        base = self._base(lane)
        if self._seen is None:
            return len(base)
        counts, cells = self._timeline_index.rows_in(*self._seen)
        (used,) = np.nonzero(counts[base.start : base.stop])
        depth = int(used[-1]) + 1 if len(used) else int(lane in self._pinned or lane in self._held)
        if self._has_runs(lane):
            (readable,) = np.nonzero(cells[base.start : base.stop] >= SHORTEST)
            depth = min(depth, int(readable[-1]) + 2 if len(readable) else 1)
        return min(max(depth, self._forced.get(lane, 0)), len(base))

    def _has_runs(self, lane: int) -> bool:
        """True where the rows of a lane that cannot be read are drawn as one."""
        is_thread = self._timeline_index.trace.lanes[lane].kind == LaneKind.CPU
        return self._seen is not None and is_thread and self.folds[lane] == Fold.COMPACT

    def _is_dense(self, lane: int, row: int) -> bool:
        """True where no slice of a row of a lane has room for a name."""
        return self._seen is not None and (
            self._timeline_index.rows_in(*self._seen)[1][self._base(lane).start + row] < SHORTEST
        )

    def _shown_rows(self, lane: int, cap: int) -> int:
        fold = self.folds[lane]
        whole = self._depth(lane)
        return whole if fold == Fold.FULL else min(whole, cap if fold == Fold.COMPACT else 1)

    def _cap(self) -> int:
        """The number of rows of a compact lane: as many as fit on the screen for all, and some in any case."""
        least = 8 if self._height >= 24 else 5 if self._height >= 10 else 4
        lanes = [*self._above, *self._below]
        room = self._height - self._curves - len(self._idle) - sum(map(self._has_phases, self._above))
        room -= sum(map(self._has_layers, self._below))
        fitting = [cap for cap in _CAPS if cap > least and sum(self._shown_rows(lane, cap) for lane in lanes) <= room]
        return max(fitting, default=least)

    def _has_layers(self, lane: int) -> bool:
        """True where the layers of a device stand above a lane; they go with the lane where that is folded."""
        layers = self._timeline_index.layers
        if layers is None or lane not in self._layered or self.folds[lane] == Fold.FOLDED or self._height < LAYERED:
            return False
        return self._seen is None or layers.is_seen(self._layered[lane], *self._seen)

    def _has_phases(self, lane: int) -> bool:
        """True where a lane has a line of phases: they tell what the rows that cannot be read belong to."""
        phases = self._timeline_index.phases
        if phases is None or self._seen is None or not self._has_runs(lane):
            return False
        window, width = self._seen
        depth = self._depth(lane)
        return (
            depth > 0 and self._is_dense(lane, depth - 1) and phases.is_in(lane, window.start_ns, window.end_ns(width))
        )

    def _part(self, part: int, cap: int) -> list[Line]:
        """All lines of one part, as if the screen had no end."""
        lines: list[Line] = []
        counter_track = self._timeline_index.counter_track
        for lane in self._below if part else self._above:
            if lane in self._idle:
                lines.append(Line(-1, self._idle[lane]))
            if self._has_layers(lane):
                lines.append(Line(lane, -1, shows=Shows.LAYERS))
            if lane not in self._pinned:
                lines += self._of_lane(lane, cap)
            lines += [Line(-1, counter_track(number)) for number in self._under.get(lane, ())]
        lines += [Line(-1, counter_track(number)) for number in self._loose_curves[part]]
        if part == 0 and not self.shows_quiet and any(map(self._depth, self.quiet)):
            lines.append(Line(-1, -1, shows=Shows.QUIET))
        return lines

    def _of_lane(self, lane: int, cap: int) -> list[Line]:
        base, shown, depth = self._base(lane), self._shown_rows(lane, cap), self._depth(lane)
        offset = min(self._offset.get(lane, 0), depth - shown)
        note = f"rows {offset + 1}–{offset + shown} of {depth}" if shown < depth else ""
        lines = []
        if self._has_phases(lane):
            lines.append(Line(lane, -1, shows=Shows.PHASES))
        for i in range(max(shown, 0)):
            is_run = self._has_runs(lane) and self._is_dense(lane, offset + i)
            line = Line(
                lane,
                base.start + offset + i,
                len(lines),
                note if i == shown - 1 else "",
                shows=Shows.RUNS if is_run else Shows.SLICES,
            )
            tall = self._tall.get(lane, 1) if i == 0 else 1
            lines += [replace(line, number=len(lines) + tall - 1 - below, part=(below, tall)) for below in range(tall)][
                ::-1
            ]
        if lane in self._worded and lines:
            lines.append(Line(lane, -1, len(lines), shows=Shows.WORDS))
        # The name of a stream stands where its bars do.
        head = lines[0].part[1] - 1 if lines else 0
        return [replace(line, head=number == head) for number, line in enumerate(lines)]

    def _lay_out(self) -> list[Line]:
        self._tall, self._worded = {}, set()
        cap = self._cap()
        above, below = self._part(0, cap), self._part(1, cap)
        pinned = [replace(line, is_pinned=True) for lane in self._pinned for line in self._of_lane(lane, cap)]
        pinned = pinned[: self._height // 2]
        spare = self._give_to_streams(self._height - len(pinned) - len(above) - len(below))
        self._give_to_threads(spare, cap)
        above, below = self._part(0, cap), self._part(1, cap)
        self._split, self._top = 0, len(pinned)
        height = self._height - len(pinned)
        if len(above) + len(below) <= height:
            self._scroll = [0, 0]
            return pinned + above + below
        room = height - self._rule_lines
        lower = min(len(below), max(height // 2, room - len(above)))
        upper = max(room - lower, 0)
        self._split = upper
        tops = [
            min(scroll, max(len(part) - room, 0))
            for scroll, part, room in zip(self._scroll, (above, below), (upper, lower), strict=True)
        ]
        self._scroll = tops
        hidden = len(above) - upper
        note = _hidden_words(tops[0], hidden - tops[0]) if hidden > 0 else ""
        if len(below) > lower:
            more = len(below) - lower
            note += f"{'; ' if note else ''}devices: {more} row{'' if more == 1 else 's'} hidden"
        rule = Line(-1, -1, 0, note)
        parts = above[tops[0] : tops[0] + upper], below[tops[1] : tops[1] + lower]
        for lines in parts:
            lines[:1] = [replace(line, head=line.lane >= 0) for line in lines[:1]]
        return [*pinned, *parts[0], *[rule][: self._rule_lines], *parts[1]][: self._height]

    def _give_to_streams(self, spare: int) -> int:
        """Give lines that are left over to the streams in the window with runs: to each one for words, then for bars.

        Returns how many are left then.
        """
        if self._seen is None or spare <= 0:
            return 0
        window, width = self._seen
        index = self._timeline_index
        lanes = (lane for lane in self._below if index.trace.lanes[lane].kind == LaneKind.GPU)
        streams = [lane for lane in lanes if lane not in self._pinned and self._depth(lane)]
        runs = {lane: index.runs(index.full[lane].start, window, width, by_name=False)[0] for lane in streams[:spare]}
        busy = sorted((lane for lane in runs if runs[lane]), key=lambda lane: -sum(run.busy_ns for run in runs[lane]))
        # A line of words on which none has room, and one above all bars of a stream, would be empty.
        self._worded = set([lane for lane in busy if index.words_below(index.full[lane].start, window, width)][:spare])
        spare -= len(self._worded)
        bars = {lane: index.highest_bar(index.full[lane].start, window, width) for lane in busy if spare > 0}
        for lines in range(2, _TALLEST + 1):
            taller = [lane for lane in busy if bars.get(lane, 0.0) * lines > lines - 1][: max(spare, 0)]
            self._tall.update(dict.fromkeys(taller, lines))
            spare -= len(taller)
        return spare

    def _give_to_threads(self, spare: int, cap: int) -> None:
        """Give spare lines to deeper rows of threads, whose slices are too narrow for names."""
        if self._seen is None:
            return
        counts, _ = self._timeline_index.rows_in(*self._seen)
        while spare > 0:
            deeper = [
                lane
                for lane in self._above
                if self._has_runs(lane)
                and 0 < self._depth(lane) < min(cap, len(self._base(lane)))
                and counts[self._base(lane).start + self._depth(lane)]
            ]
            for lane in deeper[:spare]:
                self._depths[lane] += 1
            spare -= len(deeper)
            if not deeper:
                return

    @property
    def _rule_lines(self) -> int:
        """Lines between the parts: none where every one is needed."""
        return int(self._height >= RULED)


def _hidden_words(above: int, below: int) -> str:
    """The number of rows above and below those shown: `2 rows above, 1 below`."""
    hidden = [(count, where) for count, where in ((above, "above"), (below, "below")) if count > 0]
    first = [f"{count} row{'' if count == 1 else 's'} {where}" for count, where in hidden[:1]]
    return ", ".join([*first, *(f"{count} {where}" for count, where in hidden[1:])])


def _lanes_under_idle(timeline_index: TimelineIndex) -> dict[int, int]:
    """The first stream of each device, and the track of the device's idle time, which stands above it."""
    process = lane_numbers(timeline_index.trace).process
    tracks = {band.process: timeline_index.idle_track(number) for number, band in enumerate(timeline_index.idles)}
    found: dict[int, int] = {}
    for number, lane in enumerate(timeline_index.trace.lanes):
        if lane.kind == LaneKind.GPU and _is_shown(timeline_index, number) and int(process[number]) in tracks:
            found[number] = tracks.pop(int(process[number]))
    return found


def _curves_under(timeline_index: TimelineIndex, below: Collection[int]) -> dict[int, list[int]]:
    """The curves of the counters of each GPU, under the last of its lanes that are shown."""
    lanes, numbered = timeline_index.trace.lanes, lane_numbers(timeline_index.trace)
    pid_of = {int(device): lane.pid for lane, device in zip(lanes, numbered.device.tolist(), strict=True)}
    last = {lanes[lane].pid: lane for lane in below}
    under: dict[int, list[int]] = {}
    for number, curve in enumerate(timeline_index.curves):
        lane = last.get(pid_of.get(curve.counter.gpu, ""), -1) if curve.counter.gpu >= 0 else -1
        if lane >= 0:
            under.setdefault(lane, []).append(number)
    return under


def _loose_curves(timeline_index: TimelineIndex, under: dict[int, list[int]]) -> tuple[list[int], list[int]]:
    """The other curves: those of programs below the threads, and below the devices what belongs to a device."""
    held = {number for numbers in under.values() for number in numbers}
    loose = [number for number in range(len(timeline_index.curves)) if number not in held]
    curves, own = timeline_index.curves, timeline_index.file_curves
    # What is full is a device: its curve stays in sight with its streams.
    on_device = [number >= own or curves[number].counter.gpu >= 0 for number in loose]
    return (
        [number for number, is_device in zip(loose, on_device, strict=True) if not is_device],
        [number for number, is_device in zip(loose, on_device, strict=True) if is_device],
    )


def _is_shown(timeline_index: TimelineIndex, lane: int) -> bool:
    """True where a lane is shown at all: not the profiler's own span, nor PyTorch's lanes of instants only."""
    trace = timeline_index.trace
    if trace.lanes[lane].kind == LaneKind.BOOKKEEPING or len(timeline_index.full[lane]) == 0:
        return False
    return trace.lanes[lane].rows > 0 or not trace.is_torch


def quiet_lanes(trace: Trace) -> set[int]:
    """Lanes of little interest: idle threads, the profiler's own, and those of a device that repeat the steps."""
    lanes, slices = trace.lanes, trace.slices
    quiet = idle_lanes(trace) | {number for number, lane in enumerate(lanes) if lane.kind == LaneKind.OVERHEAD}
    for number, lane in enumerate(lanes):
        if lane.kind == LaneKind.GPU_ANNOTATION and lane.last > lane.first:
            names = set(slices.name[lane.first : lane.last].tolist())
            if all(trace.names[name].startswith("ProfilerStep#") for name in names):
                quiet.add(number)
    return quiet


def idle_lanes(trace: Trace) -> set[int]:
    """Threads with next to nothing on them: a thousandth of the busiest one's slices, or none in any step.

    Python frames do not count where any thread has other slices.
    """
    lanes, slices = trace.lanes, trace.slices
    threads = {i: slice(lane.first, lane.last) for i, lane in enumerate(lanes) if lane.kind == LaneKind.CPU}
    work = {i: int(np.count_nonzero(slices.kind[rows] != Kind.PYTHON)) for i, rows in threads.items()}
    most = max(work.values(), default=0)
    steps = profiler_steps(trace).row
    begin, end = (slices.start[steps].min(), slices.end[steps].max()) if len(steps) else trace.window
    idle = set()
    for i, rows in threads.items():
        is_busy = work[i] * _IDLE_SHARE >= most
        if rows.stop > rows.start and not (is_busy and ((slices.start[rows] < end) & (slices.end[rows] > begin)).any()):
            idle.add(i)
    return idle
