"""The timeline of one of two sides: lanes whose axis begins at the step, and whose window both sides share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual.message import Message

from tracetui.comparing.side import CAPTURE
from tracetui.drawing.timeline.layout import Layout
from tracetui.drawing.timeline.palette import Palette, stippled
from tracetui.drawing.timeline.raster import Picture
from tracetui.drawing.timeline.scene import AXIS_LINES, Scene
from tracetui.ui.compare.shown_part import ShownPart, lanes_worth_showing
from tracetui.ui.widgets.lanes import LanesView


class CompareLanes(LanesView):
    """The lanes of A, with the axis, or those of B below it."""

    DRAWS_RANGES: ClassVar[bool] = False
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
        return stippled(plain.colours, self.app.current_theme.dark)

    def show_part(self, part: ShownPart, picture: Picture) -> None:
        """Show the lanes of a side; the window is the parent's to set.

        The same lanes of the same trace stay as they are folded and scrolled.
        """
        only = lanes_worth_showing(part.side)
        only = None if only is None else sorted({*only, *self.also})
        if self._scene is None or self._scene.picture is not picture or only != self._only:
            self._only = only
            self.show_scene(Scene(picture, Layout(picture, only), 0 if self.side else AXIS_LINES))
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
        """Go on within the part; who has left it by the mouse goes where he likes."""
        part = self._part
        if part is None or (row >= 0 and (part.holds(row) or not part.holds(self.selected))):
            super()._walk_to(row, direction)
        else:
            self.post_message(self.Ended(self.side, direction))

    def action_fit_selection(self) -> None:
        """Fit what is selected, on both sides."""
        self.post_message(self.Fitted("selection", self.side))
