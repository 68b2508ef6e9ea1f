"""The interface of the trace view for navigation and search: selection, window, step, and the widgets."""

from __future__ import annotations

from typing import Protocol

from tracetui.drawing.timeline.window import Window
from tracetui.model.trace import Trace
from tracetui.ui.trace.pane_list import PaneList
from tracetui.ui.widgets.hints_bar import FocusedPart, HintsBar
from tracetui.ui.widgets.lanes import LanesView
from tracetui.ui.widgets.search_line import SearchLine


class BrowsedTrace(Protocol):
    """A trace on screen."""

    trace: Trace
    steps: list[int]
    """Numbers of the steps, in order."""
    lanes: LanesView
    panes: PaneList
    search_line: SearchLine
    hints: HintsBar
    selected: int
    """Row of the selected slice, -1 for none."""
    gap: int
    """Index in `idleness(trace)` of the selected gap, -1 where a slice is selected."""
    window: Window | None
    """The stretch of time that the lanes show."""
    step: int | None
    """Number of the step that the panes list, None for all of them."""

    def show_sentence(self) -> None:
        """Show at the top what holds back what is listed, or what is said about the range of time."""

    def select(self, row: int, jump: bool = False) -> None:
        """Select a slice; a jump can be undone."""

    def select_gap(self, gap: int, jump: bool = False) -> None:
        """Select a gap and fit it with its neighbours in the window; a jump can be undone."""

    def show_step(self, number: int) -> None:
        """List a step, fit it in the window and select what it launched first."""

    def focused_part(self) -> FocusedPart:
        """The part of the screen that has the focus, and its name."""

    def focus_part(self, name: str) -> None:
        """Give the focus to the part of a name."""
