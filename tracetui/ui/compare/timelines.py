"""Two timelines, one above the other, that share one axis and one window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual import on
from textual.app import ComposeResult
from textual.message import Message
from textual.widget import Widget

from tracetui.drawing.timeline.raster import Picture
from tracetui.drawing.timeline.window import Window
from tracetui.model.intervals import Int64
from tracetui.ui.base.analysis_safe import AnalysisSafe
from tracetui.ui.compare.compare_lanes import CompareLanes
from tracetui.ui.compare.compare_words import MARKS, part_parts
from tracetui.ui.compare.partners import NO_ROWS
from tracetui.ui.compare.shown_part import ShownParts
from tracetui.ui.widgets.bar import Bar
from tracetui.ui.widgets.lanes import LanesView

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
        """What the sides are called in place of their scopes, None for these."""
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
        self, parts: ShownParts, pictures: Sequence[Picture], representative: tuple[int, int], whole: bool = True
    ) -> None:
        """Show other sides; `representative` are the parts that stand for the others.

        If not their `whole` parts, the window stays as far from their starts as it was.
        """
        self._representative = representative
        windows = [lanes.window for lanes in self.lanes]
        for lanes, part, picture, window in zip(self.lanes, parts, pictures, windows, strict=True):
            lanes.show_part(part, picture)
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
        self, rows: tuple[int, int], lit: tuple[frozenset[int], frozenset[int]], groups: tuple[Int64, Int64]
    ) -> None:
        """Select a slice of each side, -1 for none, and light those that belong with them; `f` fits the `groups`."""
        self._groups = groups
        for lanes, row, others in zip(self.lanes, rows, lit, strict=True):
            lanes.selected = row
            # What lies outside of the window is pointed at where it is among the lit.
            lanes.lit = others | {row} if row >= 0 else others

    def reveal(self, side: int, row: int) -> None:
        """Pan both as little as it takes to have a slice of one side on screen."""
        self.lanes[side].reveal(row)

    def fit_parts(self) -> None:
        """Show both parts from their start to the end of the longer one."""
        if self._parts is not None:
            self._fit(0, max(part.length for part in self._parts), 0.02)

    def fit_lit(self, leading: int) -> None:
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
            self.fit_lit(message.side)

    @on(Bar.Pressed)
    def _press(self, message: Bar.Pressed) -> None:
        message.stop()
        self.post_message(self.PartChosen(int(str(message.bar.id)[-1]), int(message.key)))
