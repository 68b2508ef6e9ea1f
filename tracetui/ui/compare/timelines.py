"""Two timelines, one above the other, that share one axis and one window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from textual import on
from textual.app import ComposeResult
from textual.message import Message
from textual.widget import Widget

from tracetui.comparing.match import Matching
from tracetui.comparing.measures import shared_name, versionless_name
from tracetui.comparing.side import CAPTURE
from tracetui.drawing.timeline.grid import AXIS_LINES, TimelineGrid
from tracetui.drawing.timeline.layout import Layout
from tracetui.drawing.timeline.palette import Palette, stippled
from tracetui.drawing.timeline.raster import TimelineIndex
from tracetui.drawing.timeline.window import Window
from tracetui.model.intervals import Int64
from tracetui.model.results import kept
from tracetui.model.trace import GPU_WORK, Trace
from tracetui.ui.base.overlay import AnalysisSafe
from tracetui.ui.compare.shown_part import MARKS, ShownPart, ShownParts, lanes_worth_showing, part_parts
from tracetui.ui.widgets.bar import Bar
from tracetui.ui.widgets.lanes import LanesView

# The timeline of one of two sides: lanes whose axis begins at the step, and whose window both sides share.


class CompareLanes(LanesView):
    """The lanes of A, with the axis, or those of B below it."""

    DRAWS_RANGES: ClassVar[bool] = False
    SHOWS_LAUNCHES: ClassVar[bool] = False
    HELP_WHERE = "timelines"

    DEFAULT_CSS = """
    CompareLanes { height: auto; min-height: 1; }
    """

    @dataclass
    class Fitted(Message):
        """The user wants both timelines to show something whole."""

        what: str
        """`parts`, or `selection`."""
        side: int

    @dataclass
    class Ended(Message):
        """There is nothing more of the part in that direction."""

        side: int
        direction: int

    def __init__(self, side: int, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.side = side
        """0 for A, 1 for B."""
        self._reach: tuple[int, int] | None = None
        self._part: ShownPart | None = None
        self._only: list[int] | None = None
        self.also: frozenset[int] = frozenset()
        """Lanes that are shown whatever ran on them."""

    @property
    def reach(self) -> tuple[int, int]:
        """The stretch of time that the window stays near: all of the longer trace."""
        return self._reach if self._reach is not None else super().reach

    @property
    def colours(self) -> Palette:
        """Colours with a pattern for highlighted slices, which are easily missed on the timeline without the focus."""
        plain = super().colours
        return stippled(plain.colours, self.app.current_theme.dark, plain.is_plain)

    def show_part(self, part: ShownPart, timeline_index: TimelineIndex) -> None:
        """Show the lanes of a side; the window is the parent's to set.

        The same lanes of the same trace stay as they are folded and scrolled.
        """
        only = lanes_worth_showing(part.side)
        only = None if only is None else sorted({*only, *self.also})
        if self._grid is None or self._grid.timeline_index is not timeline_index or only != self._only:
            self._only = only
            self.show_grid(TimelineGrid(timeline_index, Layout(timeline_index, only), 0 if self.side else AXIS_LINES))
        self.origin_ns = part.start

    def move_to(self, part: ShownPart, reach: tuple[int, int]) -> None:
        """Count time from the start of a part; `reach` in ns from there."""
        self._part = part
        self._inside = part.stretches if part.side.part_kind != CAPTURE else None
        self._reach = part.start + reach[0], part.start + reach[1]
        self.origin_ns = part.start
        if self.window is not None:
            self.window = self.window.moved_to(part.start)
        self.changed()

    def action_fit_trace(self) -> None:
        """Fit the parts that are compared."""
        self.post_message(self.Fitted("parts", self.side))

    def _walk_to(self, row: int, direction: int) -> None:
        """Go on within the part, or anywhere once the mouse has left it."""
        part = self._part
        if part is None or (row >= 0 and (part.holds(row) or not part.holds(self.selected))):
            super()._walk_to(row, direction)
        else:
            self.post_message(self.Ended(self.side, direction))

    def action_fit_selection(self) -> None:
        """Fit what is selected, on both sides."""
        self.post_message(self.Fitted("selection", self.side))


# Which slices of the two sides are partners: matched GPU activities, and on threads what is called alike. Pure.

NO_ROWS: Int64 = np.empty(0, np.int64)
"""No slices."""


class PartnerLookup:
    """The two parts on screen, A first, and which of their slices are partners."""

    def __init__(self, parts: ShownParts, matching: Matching | None = None) -> None:
        self.parts = parts
        self.matching = matching
        """None until it is made: until then GPU activities have no partners."""

    def of(self, side: int, row: int) -> Int64:
        """The partners, on the other side, of a slice of side 0 (A) or 1 (B); empty for none."""
        if row < 0:
            return NO_ROWS
        kind = int(self.parts[side].side.trace.slices.kind[row])
        if kind not in GPU_WORK:
            return self._named_alike(side, row)
        if self.matching is None:
            return NO_ROWS
        return self.matching.of_b(row) if side else self.matching.of_a(row)

    def siblings(self, side: int, row: int) -> Int64:
        """Other slices of the same side that share a partner with a slice: what was fused with it."""
        rows = [self.of(1 - side, other) for other in self.of(side, row).tolist()]
        return np.setdiff1d(np.concatenate(rows), [row]) if rows else NO_ROWS

    def _named_alike(self, side: int, row: int) -> Int64:
        """On threads: the slice with the same name and the same count of that name before it in its part."""
        here, there = self.parts[side], self.parts[1 - side]
        if row == here.side.row[here.part]:
            own = int(there.side.row[there.part])
            return np.array([own], np.int64) if own >= 0 else NO_ROWS
        name = _alike(here.side.trace.name_of(row))
        mine, theirs = (_rows_alike(part, name) for part in (here, there))
        index = int(np.searchsorted(here.side.trace.slices.start[mine], here.side.trace.slices.start[row]))
        while index < len(mine) and mine[index] != row:
            index += 1
        return theirs[index : index + 1] if index < len(mine) else NO_ROWS


def _rows_alike(part: ShownPart, name: str) -> Int64:
    """The slices of threads in a part whose name differs from a name by what changes from run to run only."""
    slices = part.side.trace.slices
    rows = np.flatnonzero(np.isin(slices.name, _names_alike(part.side.trace).get(name, [])))
    rows = rows[~np.isin(slices.kind[rows], GPU_WORK)]
    rows = rows[part.side.part_of(rows) == part.part]
    return np.take(rows, np.argsort(slices.start[rows], kind="stable"))


@kept
def _names_alike(trace: Trace) -> dict[str, list[int]]:
    """The indices of the names of a trace, by the name without what changes from run to run."""
    alike: dict[str, list[int]] = {}
    for number, name in enumerate(trace.names):
        alike.setdefault(_alike(name), []).append(number)
    return alike


def _alike(name: str) -> str:
    return versionless_name(shared_name(name))


MARGIN = 0.15
"""Share of the selection shown around it on either side."""
MIN_LANE_LINES = 1
"""Lines of lanes that each side has in any case."""
MAX_TOGETHER = 4
"""Maximum time range that shows both highlighted groups, in lengths of the longer group."""


class Timelines(AnalysisSafe, Widget):
    """A above B, each under a title that names its part."""

    DEFAULT_CSS = """
    Timelines { layout: vertical; height: auto; }
    Timelines > Bar { background: $panel; }
    """

    @dataclass
    class Selected(Message):
        """The user selected a slice in the timeline of a side."""

        side: int
        row: int

    @dataclass
    class PartChosen(Message):
        """The user picked a part of a side by its number."""

        side: int
        number: int

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.lanes = CompareLanes(0, id="lanes-0"), CompareLanes(1, id="lanes-1")
        """The timelines of A and of B."""
        self.names: tuple[str, str] | None = None
        """Names of the sides in place of their scopes, None for these."""
        self._parts: ShownParts | None = None
        self._representative = (-1, -1)
        self._groups: tuple[Int64, Int64] = (NO_ROWS, NO_ROWS)

    def compose(self) -> ComposeResult:
        """Two lines and two timelines."""
        for side in (0, 1):
            yield Bar(id=f"part-{side}")
            yield self.lanes[side]

    @property
    def focused(self) -> int | None:
        """The side whose timeline has the keys, None for neither."""
        return next((lanes.side for lanes in self.lanes if lanes.has_focus), None)

    def show(
        self,
        parts: ShownParts,
        timeline_indexes: Sequence[TimelineIndex],
        representative: tuple[int, int],
        whole: bool = True,
    ) -> None:
        """Show other sides; `representative` are the parts that stand for the others.

        If not their `whole` parts, the window stays as far from their starts as it was.
        """
        self._representative = representative
        windows = [lanes.window for lanes in self.lanes]
        for lanes, part, timeline_index, window in zip(self.lanes, parts, timeline_indexes, windows, strict=True):
            lanes.show_part(part, timeline_index)
            lanes.window = window
        self.select((-1, -1), (frozenset(), frozenset()), (NO_ROWS, NO_ROWS))
        self.show_parts(parts)
        if whole or None in windows:
            self.fit_parts()

    def show_parts(self, parts: ShownParts) -> None:
        """Show other parts of the same sides, in the same window after their starts."""
        self._parts = parts
        windows = [(part.side.trace.window, part.start) for part in parts]
        reach = min(low - start for (low, _), start in windows), max(high - start for (_, high), start in windows)
        for lanes, part in zip(self.lanes, parts, strict=True):
            lanes.move_to(part, reach)
        self.show_titles()

    def show_titles(self) -> None:
        """Name above each timeline its part, and mark the one with the focus."""
        if self._parts is None:
            return
        for side, part in enumerate(self._parts):
            words = part_parts(
                MARKS[side],
                part,
                self.focused == side,
                self.size.width - 2,
                part.part == self._representative[side],
                "" if self.names is None else self.names[side],
            )
            self.query_one(f"#part-{side}", Bar).parts = words

    def select(
        self, rows: tuple[int, int], highlighted: tuple[frozenset[int], frozenset[int]], groups: tuple[Int64, Int64]
    ) -> None:
        """Select a slice of each side, -1 for none, and light those that belong with them; `f` fits the `groups`."""
        self._groups = groups
        for lanes, row, others in zip(self.lanes, rows, highlighted, strict=True):
            lanes.selected = row
            # What lies outside of the window is pointed at where it is among the highlighted.
            lanes.highlighted = others | {row} if row >= 0 else others

    def fit_parts(self) -> None:
        """Show both parts from their start to the end of the longer one."""
        if self._parts is not None:
            self._fit(0, max(part.length for part in self._parts), 0.02)

    def fit_highlighted(self, leading: int) -> None:
        """Fit what is highlighted: that of the side with the focus, else of both sides.

        Where the groups of both are so far apart that neither would be seen, that of the `leading` side.
        """
        spans = self._spans()
        known = [span for span in spans if span is not None]
        if not known:
            return
        low, high = min(low for low, _ in known), max(high for _, high in known)
        longest = max(end - begin for begin, end in known)
        side = self.focused if self.focused is not None else leading if high - low > MAX_TOGETHER * longest else None
        if side is not None:
            low, high = spans[side] or known[0]
        self._fit(low, high, MARGIN)

    def _spans(self) -> list[tuple[int, int] | None]:
        """Begin and end of the highlighted group of each side, in ns after the start of its part."""
        spans: list[tuple[int, int] | None] = []
        for part, rows in zip(self._parts or (), self._groups, strict=False):
            slices = part.side.trace.slices
            span = (int(slices.start[rows].min()), int(slices.end[rows].max())) if len(rows) else None
            spans.append((span[0] - part.start, span[1] - part.start) if span is not None else None)
        return spans

    def share(self, lines: int) -> None:
        """Distribute lines, titles not counted, to the two sides as their lanes need."""
        first, second = self.lanes
        wanted = first.wanted_height(lines), second.wanted_height(lines)
        # The axis above A is none of its lanes.
        half = (lines - 1) // 2
        if sum(wanted) <= lines:
            heights = wanted
        elif wanted[0] <= lines - half:
            heights = wanted[0], lines - wanted[0]
        elif wanted[1] <= half:
            heights = lines - wanted[1], wanted[1]
        else:
            heights = lines - half, half
        for lanes, height in zip((first, second), heights, strict=True):
            lanes.styles.height = max(height, MIN_LANE_LINES)

    def _fit(self, low: int, high: int, margin: float) -> None:
        """Show a stretch of time, counted from the starts of the parts."""
        if self._parts is None:
            return
        window = Window.fit(low, high, self.lanes[0].cells, margin)
        for lanes, part in zip(self.lanes, self._parts, strict=True):
            lanes.window = window.moved_to(part.start)

    @on(LanesView.Panned)
    def _pan(self, message: LanesView.Panned) -> None:
        message.stop()
        # A window that was set here meanwhile is newer than the message.
        if any(message.window == lanes.window for lanes in self.lanes) and self._parts is not None:
            for lanes, part in zip(self.lanes, self._parts, strict=True):
                lanes.window = message.window.moved_to(part.start)

    @on(LanesView.Selected)
    def _select(self, message: LanesView.Selected) -> None:
        message.stop()
        if isinstance(message.lanes, CompareLanes):
            self.post_message(self.Selected(message.lanes.side, message.row))

    @on(CompareLanes.Fitted)
    def _fit_as_asked(self, message: CompareLanes.Fitted) -> None:
        message.stop()
        if message.what == "parts":
            self.fit_parts()
        else:
            self.fit_highlighted(message.side)

    @on(Bar.Pressed)
    def _press(self, message: Bar.Pressed) -> None:
        message.stop()
        self.post_message(self.PartChosen(int(str(message.bar.id)[-1]), int(message.key)))
