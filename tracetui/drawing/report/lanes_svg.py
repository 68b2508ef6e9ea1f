"""The lanes of a stretch of time as inline SVG, in the geometry and the colours of the screen.

A slice tells its name and duration on hovering; names stand on those that are wide enough, a letter for the family
on narrower ones. What is narrower than a line is merged. There is a budget of blocks, so that the file stays small.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tracetui.drawing.format import shorten
from tracetui.drawing.report.page import LETTERS, slice_class, text
from tracetui.drawing.timeline.grid import lane_label, tick_label, tick_step
from tracetui.drawing.timeline.layout import ON_DEVICE, Layout
from tracetui.drawing.timeline.legend import NUMBER_WORDS
from tracetui.drawing.timeline.palette import SHORTEST
from tracetui.drawing.timeline.raster import TimelineIndex
from tracetui.frozen import frozen
from tracetui.idle.gaps import idle_blocks
from tracetui.idle.waits import WORDS
from tracetui.kernel_names.slice_names import Family
from tracetui.linking.trees import lane_numbers
from tracetui.model.hardware_counters import Quantity, quantity_of
from tracetui.model.intervals import Int64
from tracetui.model.quantities import count, duration
from tracetui.model.trace import LaneKind

# Which tracks of a timeline stand on which line of a figure: those on which anything happens in a stretch of time.
#
# Slices as blocks to draw: those that would be too narrow to see are merged with their neighbours.
#
# The file stays small however many slices a stretch of time holds, and nothing that ran is missing from it: a merged
# block knows how many slices it stands for, and how much of its width they fill.

Float64 = NDArray[np.float64]


@frozen(eq=True)
class Stretch:
    """The stretch of time that is drawn, and on how many units of length."""

    start_ns: int
    end_ns: int
    width: float

    @property
    def per_ns(self) -> float:
        """Units of length per ns."""
        return self.width / max(self.end_ns - self.start_ns, 1)

    def place(self, moments: Int64) -> Float64:
        """Horizontal positions of moments; those outside stand at the edges."""
        within = np.clip(moments, self.start_ns, self.end_ns) - self.start_ns
        return np.asarray(within * self.per_ns, np.float64)


@frozen
class Blocks:
    """Parallel arrays, one entry per block, in order of their start."""

    first: Int64
    """The first of the intervals that a block stands for, as a number within what was given."""
    last: Int64
    """The number after the last one."""
    left: Float64
    right: Float64
    share: Float64
    """Share of the block that its intervals fill, from 0 to 1."""

    def __len__(self) -> int:
        return len(self.first)


def blocks(start: Int64, end: Int64, stretch: Stretch, finest: float) -> Blocks:
    """Intervals, sorted by start and free of overlap, as blocks that are at least `finest` wide."""
    left, right = stretch.place(start), stretch.place(end)
    if len(left) == 0:
        none = np.empty(0, np.int64)
        return Blocks(none, none, left, left, left)
    wide = right - left >= finest
    column = np.floor(left / finest)
    begins = np.ones(len(left), bool)
    begins[1:] = wide[1:] | wide[:-1] | (column[1:] != column[:-1])
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(left))
    begin, stop = left[first], np.maximum.reduceat(right, first)
    filled = np.add.reduceat(right - left, first)
    narrow = ~wide[first]
    begin = np.where(narrow, column[first] * finest, begin)
    # A block at the right edge stays inside.
    begin = np.minimum(begin, max(stretch.width - finest, 0.0))
    stop = np.where(narrow, begin + finest, stop)
    return Blocks(first, last, begin, stop, np.clip(filled / np.maximum(stop - begin, 1e-9), 0.0, 1.0))


MOST_LINES = 72
"""Lines of slices in a figure."""
MOST_ROWS = 14
"""Rows of one lane."""
MOST_CURVES = 4
LABEL = 21
"""Characters of the name of a lane."""


@frozen(eq=True)
class Row:
    """One line of slices."""

    track: int
    first: int
    """Place in the timeline's index of the first slice that touches the stretch."""
    last: int
    """Place after the last one."""
    label: str = ""
    """The lane's name on its first row; what is hidden on its last."""
    begins: bool = False
    """True where a lane begins here."""
    band: int = -1
    """Number of the timeline's idle band that stands above this row, -1 for none."""


@frozen(eq=True)
class Arrangement:
    """The lines of a figure, from the top."""

    rows: tuple[Row, ...]
    curves: tuple[int, ...]
    """Numbers of the timeline's curves, below the rows."""
    hidden: int
    """Lanes on which something happens and for which there is no room."""


def arrange(timeline_index: TimelineIndex, stretch: Stretch) -> Arrangement:
    """Threads above, devices below, in the order of the screen, without lanes that are idle all the time."""
    tracks = np.array(Layout(timeline_index).tracks, np.int64)
    moments = np.array([stretch.start_ns, max(stretch.end_ns, stretch.start_ns + 1)], np.int64)
    touching = timeline_index.index.touching(tracks, moments)
    first, last = touching.first[:, 0], touching.last[:, 0]
    by_lane: dict[int, list[int]] = {}
    # The lane of each track.
    lanes = np.full(timeline_index.tracks, -1, np.int64)
    for ranges in (timeline_index.full, timeline_index.compact):
        for number, these in enumerate(ranges):
            lanes[these.start : these.stop] = number
    for number, lane in enumerate(lanes[tracks].tolist()):
        by_lane.setdefault(lane, []).append(number)
    groups = []
    for lane, numbers in by_lane.items():
        used = [number for number in numbers if last[number] > first[number]]
        if used:
            groups.append((lane, [number for number in numbers if number <= used[-1]]))
    visible, hidden = _fitting(timeline_index, groups)
    bands = {band.process: number for number, band in enumerate(timeline_index.idles)}
    rows: list[Row] = []
    for lane, numbers in visible:
        band = (
            bands.pop(int(lane_numbers(timeline_index.trace).process[lane]), -1)
            if timeline_index.trace.lanes[lane].kind == LaneKind.GPU
            else -1
        )
        rows += _rows_of(timeline_index, lane, numbers, (tracks, first, last), band)
    # The curves of a figure: how busy GPUs and their memory were, then the last of the others.
    all_numbers = range(len(timeline_index.curves))
    counters = [curve.counter for curve in timeline_index.curves]
    use = (Quantity.SM_ACTIVE, Quantity.DRAM)
    telling = [n for n in all_numbers if counters[n].gpu >= 0 and quantity_of(counters[n].name) in use][:MOST_CURVES]
    others = [number for number in all_numbers if number not in telling]
    return Arrangement(
        tuple(rows), tuple(sorted([*telling, *others[len(others) - (MOST_CURVES - len(telling)) :]])), hidden
    )


def _fitting(
    timeline_index: TimelineIndex, groups: list[tuple[int, list[int]]]
) -> tuple[list[tuple[int, list[int]]], int]:
    """The lanes that fit, devices having half of the lines if they need them, and how many do not."""
    lanes = timeline_index.trace.lanes
    upper = [group for group in groups if lanes[group[0]].kind not in ON_DEVICE]
    lower = [group for group in groups if lanes[group[0]].kind in ON_DEVICE]
    needed = sum(min(len(numbers), MOST_ROWS) for _, numbers in lower)
    room = MOST_LINES - min(needed, MOST_LINES // 2)
    kept = []
    for part in (upper, lower):
        for lane, numbers in part:
            height = min(len(numbers), MOST_ROWS)
            if height <= room:
                kept.append((lane, numbers))
                room -= height
        room = MOST_LINES - sum(min(len(numbers), MOST_ROWS) for _, numbers in kept)
    return kept, len(groups) - len(kept)


def _rows_of(
    timeline_index: TimelineIndex, lane: int, numbers: list[int], places: tuple[Int64, Int64, Int64], band: int
) -> list[Row]:
    tracks, first, last = places
    visible = numbers[:MOST_ROWS]
    rows = []
    for place, number in enumerate(visible):
        label = lane_label(timeline_index.trace.lanes[lane], LABEL) if place == 0 else ""
        if place == len(visible) - 1 and len(numbers) > len(visible) > 1:
            label = f"+{len(numbers) - len(visible)} deeper rows"
        begins = place == 0
        rows.append(
            Row(int(tracks[number]), int(first[number]), int(last[number]), label, begins, band if begins else -1)
        )
    return rows


WIDTH, NAMES = 990, 148
"""Units of length of the time axis, and of the names of lanes beside it."""
ROW, BAR, GAP, AXIS = 15, 13, 6, 20
"""Height of a row and of a slice on it, space above a lane, height of the axis."""
BUDGET = 8000
"""So many blocks at most are drawn."""
FINENESS = (0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0)
"""Widths below which slices are merged, from the one that is tried first."""
LETTER, GLYPH = 9.0, 6.2
"""The least width for a letter, and the width of one in a name."""
TITLE = 120
"""Characters of a name that is shown on hovering."""


@frozen(eq=True)
class LanesFigure:
    """A figure, and the facts that its caption needs."""

    svg: str
    """Figure and legend as HTML."""
    blocks: int
    slices: int
    hidden_lanes: int


def lanes_figure(
    timeline_index: TimelineIndex,
    start_ns: int,
    end_ns: int,
    origin: str,
    key: str = "lanes",
    until_ns: int | None = None,
) -> LanesFigure:
    """The lanes between two moments; `origin` is what the first of them is called, `key` begins every id.

    What lies behind `until_ns` is not what the figure is about, and pale.
    """
    stretch = Stretch(start_ns, max(end_ns, start_ns + 1), WIDTH)
    arrangement = arrange(timeline_index, stretch)
    drawing = _Drawing(timeline_index, stretch, arrangement, key)
    body = drawing.draw()
    label = f"Lanes from {origin}, {duration(end_ns - start_ns)}"
    height = drawing.height
    svg = (
        f'<div class="lanes" tabindex="0" role="region" aria-label="{text(label)}">'
        f'<svg class="names" width="{NAMES}" height="{height}" viewBox="0 0 {NAMES} {height}" '
        f'preserveAspectRatio="xMinYMin slice" aria-hidden="true">'
        f"{''.join(drawing.names)}</svg>"
        f'<svg class="times" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-labelledby="{key}-title"><title id="{key}-title">{text(label)}</title>'
        f'<pattern id="{key}-idle" class="idle" width="6" height="6" patternUnits="userSpaceOnUse">'
        f'<path d="M-1 7L7 -1" stroke="currentColor" stroke-width="1.6"/></pattern>'
        f"{_axis(stretch, height, origin)}{body}{_beyond(stretch, height, until_ns)}</svg></div>"
        f"{_legend(drawing, key)}"
    )
    return LanesFigure(svg, drawing.drawn, drawing.slices, arrangement.hidden)


class _Drawing:
    """Collects what is drawn, from the top."""

    def __init__(self, timeline_index: TimelineIndex, stretch: Stretch, arrangement: Arrangement, key: str) -> None:
        self.timeline_index, self.stretch, self.key = timeline_index, stretch, key
        self.arrangement = arrangement
        self.names: list[str] = []
        self.height = AXIS
        self.drawn = self.slices = 0
        self.families: set[int] = set()
        self.has_idle = False
        self._shapes: list[str] = []
        self._words: list[str] = []

    def draw(self) -> str:
        """Everything below the axis."""
        rows = self.arrangement.rows
        blocks_by_row = _within_budget(self.timeline_index, rows, self.stretch)
        for row, row_blocks in zip(rows, blocks_by_row, strict=True):
            if row.begins:
                self.height += GAP
            if row.band >= 0:
                self._draw_idle(row.band)
            self._name(row.label, quiet=not row.begins)
            self._draw_row(row, row_blocks)
            self.height += ROW
        for number in self.arrangement.curves:
            self._draw_curve(number)
        self.height += 4
        shapes, words = "\n".join(self._shapes), "\n".join(self._words)
        return f'<g class="slices">\n{shapes}\n</g>\n<g class="words">\n{words}\n</g>'

    def _name(self, words: str, quiet: bool = False) -> None:
        if words:
            style = ' class="quiet"' if quiet else ""
            self.names.append(f'<text x="4" y="{self.height + 10.5:g}"{style}>{text(words)}</text>')

    def _draw_row(self, row: Row, row_blocks: Blocks) -> None:
        index, slices = self.timeline_index.index, self.timeline_index.trace.slices
        if len(row_blocks) == 0:
            return
        places = index.longest(row_blocks.first + row.first, row_blocks.last + row.first)
        family = self.timeline_index.family(places).tolist()
        rows = index.rows[places]
        self.families.update(family)
        self.drawn += len(row_blocks)
        self.slices += row.last - row.first
        for number, (place, kind, name, dur) in enumerate(
            zip(places.tolist(), family, slices.name[rows].tolist(), slices.dur[rows].tolist(), strict=True)
        ):
            many = int(row_blocks.last[number] - row_blocks.first[number])
            style = slice_class(kind, place & 1)
            of = int(slices.kind[index.rows[place]])
            title = f"{shorten(self.timeline_index.labels.text(name, of), TITLE)}, {duration(dur)}"
            if kind < Family.OP:
                title += f" ({NUMBER_WORDS[kind]})"
            if many > 1:
                title = f"{count(many)} slices, the longest {title}"
            left, width = float(row_blocks.left[number]), float(row_blocks.right[number] - row_blocks.left[number])
            self._block(style, left, width, float(row_blocks.share[number]) if many > 1 else 1.0, title)
            if many == 1 and width >= LETTER:
                self._label(style, left, width, name, of, kind)

    def _block(self, style: str, left: float, width: float, share: float, title: str) -> None:
        # What several slices fill in part grows from the bottom, as on the screen.
        tall = max(BAR * share, 2.0)
        self._shapes.append(
            f'<rect class="{style}" x="{left:.2f}" y="{self.height + BAR - tall:.4g}" width="{width:.2f}" '
            f'height="{tall:.3g}"><title>{text(title)}</title></rect>'
        )

    def _label(self, style: str, left: float, width: float, name: int, kind: int, family: int) -> None:
        room = int((width - 4) / GLYPH)
        if room < SHORTEST and family >= len(Family):
            # Slices of other programs have a colour by name, and no family.
            return
        if room >= SHORTEST:
            codes = self.timeline_index.labels.fit(name, kind, room)
            words = codes.astype("<u4").tobytes().decode("utf-32-le")
        else:
            words = LETTERS[family]
        self._words.append(f'<text class="i{style}" x="{left + 2.5:.2f}" y="{self.height + 10:g}">{text(words)}</text>')

    def _draw_idle(self, number: int) -> None:
        """The stretches in which a device ran nothing, hatched by their cause."""
        band = self.timeline_index.idles[number]
        idle = idle_blocks(self.timeline_index.trace)
        mine = np.flatnonzero(
            (idle.process == band.process) & (idle.end > self.stretch.start_ns) & (idle.start < self.stretch.end_ns)
        )
        self._name(f"{band.device} idle", quiet=True)
        start, end, cause = idle.start[mine], idle.end[mine], idle.cause[mine]
        idle_marks = blocks(start, end, self.stretch, 1.0)
        outline: list[str] = []
        gap_shapes: list[str] = []
        for i in range(len(idle_marks)):
            these = slice(int(idle_marks.first[i]), int(idle_marks.last[i]))
            longest = int(np.argmax((end - start)[these])) + these.start
            why = int(cause[longest])
            left, width = float(idle_marks.left[i]), float(idle_marks.right[i] - idle_marks.left[i])
            outline.append(f"M{left:.2f} {self.height + 2}h{width:.2f}v9h-{width:.2f}z")
            title = f"idle {duration(int(end[longest] - start[longest]))}: {WORDS[why]}"
            if these.stop - these.start > 1:
                title = f"{count(these.stop - these.start)} gaps, the longest {title}"
            gap_shapes.append(
                f'<rect class="gap" x="{left:.2f}" y="{self.height + 2}" width="{width:.2f}" height="9">'
                f"<title>{text(title)}</title></rect>"
            )
            if width >= GLYPH * (len(WORDS[why]) + 2):
                at = f'x="{left + width / 2:.2f}" y="{self.height + 10:g}"'
                self._words.append(f'<text class="cause" {at}>{text(WORDS[why])}</text>')
        if outline:
            self.has_idle = True
            self._shapes.append(self._hatching(f"{self.key}-gaps{number}", outline))
        self._shapes += gap_shapes
        self.height += ROW

    def _hatching(self, name: str, outline: list[str]) -> str:
        # One hatched strip behind a stencil: a pattern for every gap makes printing slow and its file large.
        return (
            f'<clipPath id="{name}"><path d="{"".join(outline)}"/></clipPath>'
            f'<rect fill="url(#{self.key}-idle)" clip-path="url(#{name})" x="0" y="{self.height + 2}" '
            f'width="{WIDTH}" height="9"/>'
        )

    def _draw_curve(self, number: int) -> None:
        """A counter as an area, from its lowest to its highest value."""
        curve = self.timeline_index.curves[number]
        steps = WIDTH // 2
        edges = np.linspace(self.stretch.start_ns, self.stretch.end_ns, steps + 1).astype(np.int64)
        edges = np.maximum.accumulate(edges)
        values = curve.highest(edges)
        if np.isnan(values).all() or np.nanmax(values) <= curve.low:
            return
        self.height += GAP
        tall = 2 * ROW - 4
        share = (np.nan_to_num(values, nan=curve.low) - curve.low) / max(curve.high - curve.low, 1e-300)
        bottom = self.height + tall
        points = "".join(f"H{i * 2}V{bottom - tall * y:.1f}" for i, y in enumerate(share.tolist()))
        self._name(shorten(curve.name, 20))
        title = f"{curve.name}, {curve.limit}"
        self._shapes.append(
            f'<path class="curve" d="M0 {bottom}{points}H{WIDTH}V{bottom}Z"><title>{text(title)}</title></path>'
        )
        self.height += ROW
        self._name(curve.limit, quiet=True)
        self.height += ROW


def _within_budget(timeline_index: TimelineIndex, rows: tuple[Row, ...], stretch: Stretch) -> list[Blocks]:
    """The blocks of every row, merged as far as it takes to have few enough."""
    blocks_by_row: list[Blocks] = []
    for finest in FINENESS:
        blocks_by_row = []
        for row in rows:
            places = np.arange(row.first, row.last)
            blocks_by_row.append(
                blocks(timeline_index.index.start(places), timeline_index.index.end(places), stretch, finest)
            )
        if sum(map(len, blocks_by_row)) <= BUDGET:
            break
    return blocks_by_row


def _axis(stretch: Stretch, height: int, origin: str) -> str:
    """Ticks at round moments, counted from the left edge."""
    step = tick_step(8 / stretch.per_ns)
    parts = []
    for number in range(math.floor((stretch.end_ns - stretch.start_ns) / step) + 1):
        at = number * step * stretch.per_ns
        label = origin if number == 0 else tick_label(number * step, step)
        parts.append(f'<path d="M{at:.2f} 0V{height}"/>')
        if at < WIDTH - GLYPH * len(label):
            parts.append(f'<text x="{at + 4:.2f}" y="12">{text(label)}</text>')
    return f'<g class="axis">{"".join(parts)}</g>'


def _beyond(stretch: Stretch, height: int, until_ns: int | None) -> str:
    """A veil over what comes too late."""
    if until_ns is None or until_ns >= stretch.end_ns:
        return ""
    at = (until_ns - stretch.start_ns) * stretch.per_ns
    return (
        f'<g class="beyond"><rect x="{at:.2f}" y="0" width="{WIDTH - at:.2f}" height="{height}"/>'
        f'<path d="M{at:.2f} 0V{height}"/></g>'
    )


def _legend(drawing: _Drawing, key: str) -> str:
    items = []
    for family in sorted(drawing.families):
        if family in NUMBER_WORDS:
            style, words = slice_class(family, 0), NUMBER_WORDS[family]
            sign = LETTERS[family] if family < len(LETTERS) else ""
            items.append(
                f'<li><svg width="16" height="14" aria-hidden="true"><rect class="{style}" width="16" height="14"/>'
                f'<text class="i{style}" x="5" y="10.5">{sign}</text></svg>{words}</li>'
            )
    if drawing.has_idle:
        items.append(
            f'<li><svg width="16" height="14" aria-hidden="true"><rect fill="url(#{key}-idle)" '
            f'width="16" height="14"/></svg>idle</li>'
        )
    return f'<ul class="legend" aria-label="Legend">{"".join(items)}</ul>' if items else ""
