"""The lanes of several ranks, one below the other on the one clock; each rank is open in full."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import Screen
from textual.widget import Widget

from tracetui.comparing.side import Side, side
from tracetui.drawing.timeline.window import Window
from tracetui.model.trace import Trace
from tracetui.model.viewpoint import Viewpoint
from tracetui.ranks.moments import range_of
from tracetui.safe_text import clean
from tracetui.ui.base import keys
from tracetui.ui.base.analysis_safe import AnalysisSafe
from tracetui.ui.base.commands import command
from tracetui.ui.base.messages import Loaded
from tracetui.ui.compare.compare_lanes import CompareLanes
from tracetui.ui.compare.shown_part import ShownPart
from tracetui.ui.ranks.moment_screen import rank_words
from tracetui.ui.ranks.rank_messages import RankLanesAsked, RankTraceAsked
from tracetui.ui.widgets.bar import Bar, BarPart
from tracetui.ui.widgets.hints_bar import HintsBar
from tracetui.ui.widgets.lanes import LanesView, timeline_commands

MIN_RANK_LINES = 2
"""Minimum lines of lanes of each rank."""


class RankLanesView(AnalysisSafe, Widget):
    """Fills the screen: a title and the lanes of each rank."""

    def __init__(self, asked: RankLanesAsked, reads: Sequence[Loaded]) -> None:
        super().__init__()
        self.asked, self.reads = asked, reads
        self.lanes = [CompareLanes(number, id=f"rank-lanes-{number}") for number in range(len(reads))]

    def compose(self) -> ComposeResult:
        """Ranks from top to bottom."""
        ranks = self.asked.ranks
        for number, (index, lanes) in enumerate(zip(self.asked.members, self.lanes, strict=True)):
            bar = Bar(id=f"rank-{number}")
            bar.parts = (BarPart(f" {clean(rank_words(ranks, index))}", "strong"),)
            yield bar
            yield lanes


class RankLanesScreen(AnalysisSafe, Screen[None]):
    """Up to eight ranks on one axis."""

    stays_below: ClassVar[bool] = True
    """Whether a trace that is opened from it comes above it, to go back to it."""

    HELP_WHERE = "everywhere"
    BINDINGS: ClassVar[list[BindingType]] = [
        command(keys.NEXT_PART, "part(1)", "Next rank", "Gives its lanes the keys.", "rank"),
        command(keys.PREVIOUS_PART, "part(-1)", "Previous rank", "Gives its lanes the keys."),
        *timeline_commands("fit"),
        command(keys.FOLLOW, "open_rank", "Open the rank alone", "Its trace, at what is on screen here.", "open"),
        command(keys.ESCAPE, "leave", "Back", "To the table of ranks.", "back"),
        command(keys.BACK, "leave", "Back to where you were", "To the table of ranks."),
        command(keys.HELP, "help", "Help", "Keys of the lanes.", "help"),
    ]

    def __init__(self, asked: RankLanesAsked, reads: Sequence[Loaded]) -> None:
        super().__init__()
        self.asked, self.reads = asked, reads
        self._view = RankLanesView(asked, reads)
        self.hints = HintsBar(lambda: (self.focused, "lanes"))
        self._parts = [ShownPart(self._side(number), 0) for number in range(len(reads))]

    def _side(self, number: int) -> Side:
        """What all ranks recorded, in the trace of one of them."""
        ranks = self.asked.ranks
        whole = range_of(ranks, self.asked.members[number], ranks.window)
        return side(self.reads[number].trace, f"@{whole.text}")

    @property
    def traces(self) -> tuple[Trace, ...]:
        """What is shown."""
        return tuple(read.trace for read in self.reads)

    def compose(self) -> ComposeResult:
        """What is shown, the lanes, the key hints."""
        yield Bar(id="title")
        yield self._view
        yield self.hints

    def on_mount(self) -> None:
        """Show the stretch that was asked for."""
        ranks = self.asked.ranks
        names = ", ".join(str(ranks.ranks[index]) for index in self.asked.members)
        self.query_one("#title", Bar).parts = (
            BarPart(f"Ranks {names} on one clock", "strong"),
            BarPart("   0 is the moment at which all of them had begun to record", "dim"),
        )
        for lanes, part, read in zip(self._view.lanes, self._parts, self.reads, strict=True):
            lanes.show_part(part, read.picture)
            lanes.move_to(part, (0, part.length))
        self._view.lanes[0].focus()
        self.call_after_refresh(self._begin)

    def _begin(self) -> None:
        self.share()
        low, high = (each - self.asked.ranks.window[0] for each in self.asked.window)
        self._fit(low, high)
        self.hints.show_hints()

    def on_resize(self) -> None:
        """Distribute the lines anew."""
        self.share()
        self.hints.show_hints()

    def share(self) -> None:
        """Distribute the lines to the ranks; the first has the axis too."""
        room = self.size.height - 2 - len(self._view.lanes)
        each = max(room // max(len(self._view.lanes), 1), MIN_RANK_LINES)
        for number, lanes in enumerate(self._view.lanes):
            lanes.styles.height = min(each + (number == 0), lanes.wanted_height(each + (number == 0)))

    def _fit(self, low: int, high: int) -> None:
        window = Window.fit(low, max(high, low + 1), self._view.lanes[0].cells, 0.02)
        for lanes, part in zip(self._view.lanes, self._parts, strict=True):
            lanes.window = window.moved_to(part.start)

    @property
    def current(self) -> CompareLanes:
        """The lanes with the keys, else the first."""
        return next((lanes for lanes in self._view.lanes if lanes.has_focus), self._view.lanes[0])

    @on(LanesView.Panned)
    def _pan(self, message: LanesView.Panned) -> None:
        message.stop()
        if any(message.window == lanes.window for lanes in self._view.lanes):
            for lanes, part in zip(self._view.lanes, self._parts, strict=True):
                lanes.window = message.window.moved_to(part.start)

    @on(LanesView.Selected)
    def _select(self, message: LanesView.Selected) -> None:
        """Select a slice; it is named in the last line."""
        message.stop()
        for lanes in self._view.lanes:
            lanes.selected = message.row if lanes is message.lanes else -1
        if isinstance(message.lanes, CompareLanes):
            trace = self.reads[message.lanes.side].trace
            message.lanes.reveal(message.row)
            self.hints.notice(clean(trace.name_of(message.row)))

    @on(CompareLanes.Fitted)
    def _fit_asked(self, message: CompareLanes.Fitted) -> None:
        message.stop()
        part = self._parts[message.side]
        row = self._view.lanes[message.side].selected
        if message.what == "selection" and row >= 0:
            slices = part.side.trace.slices
            self._fit(int(slices.start[row]) - part.start, int(slices.end[row]) - part.start)
        else:
            self._fit(0, max(each.length for each in self._parts))

    @on(CompareLanes.Ended)
    def _end(self, message: CompareLanes.Ended) -> None:
        message.stop()
        self.hints.notice("There is nothing more on this row.")

    def action_part(self, direction: int) -> None:
        """Give the keys to the next rank."""
        lanes = self._view.lanes
        self.set_focus(lanes[(lanes.index(self.current) + direction) % len(lanes)])
        self.hints.show_hints()

    def action_zoom(self, direction: int) -> None:
        """Magnify or shrink."""
        self.current.action_zoom(direction)

    def action_pan(self, direction: int) -> None:
        """Pan all ranks."""
        self.current.action_pan(direction)

    def action_fit_trace(self) -> None:
        """Show all that was recorded."""
        self.current.action_fit_trace()

    def action_fit_selection(self) -> None:
        """Show the selected slice."""
        self.current.action_fit_selection()

    def action_same(self, direction: int) -> None:
        """Select the next or previous slice of the same name."""
        self.current.action_same(direction)

    def action_measure(self) -> None:
        """Set the measuring point."""
        self.current.action_measure()

    def action_pin(self) -> None:
        """Pin the lane of the selection."""
        self.current.action_pin()

    def action_fold(self) -> None:
        """Fold the lane of the selection."""
        self.current.action_fold()

    def action_open_rank(self) -> None:
        """Open the trace of the rank with the keys at what is on screen."""
        window = self.current.window
        path = self.reads[self.current.side].path
        viewpoint = Viewpoint()
        if window is not None:
            viewpoint = Viewpoint(start_ns=window.start_ns, length_ns=window.ns_per_cell * self.current.cells)
        self.post_message(RankTraceAsked(path, viewpoint))

    def action_leave(self) -> None:
        """Back to the table of ranks."""
        self.app.pop_screen()

    def action_help(self) -> None:
        """Show what the keys do."""
        # The help is needed only once it is asked for.
        from tracetui.ui.widgets.help_screen import HelpScreen, help_rows

        self.app.push_screen(HelpScreen(help_rows(self, None), "Help: keys", has_legend=True))
