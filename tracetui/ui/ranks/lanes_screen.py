"""The lanes of several ranks, one below the other on the one clock; each rank is open in full."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import Screen
from textual.widget import Widget

from tracetui.comparing.side import Side, side
from tracetui.drawing.timeline.raster import TimelineIndex
from tracetui.drawing.timeline.window import Window
from tracetui.model.intervals import TimeRange
from tracetui.model.quantities import duration
from tracetui.model.trace import Trace
from tracetui.model.viewpoint import Viewpoint
from tracetui.ranks.moments import entry_of, late_instances, late_moment, moment_sentences, range_of
from tracetui.ranks.rank_set import RankSet
from tracetui.text import clean
from tracetui.ui.base import keys
from tracetui.ui.base.keys import command
from tracetui.ui.base.overlay import AnalysisSafe, Loaded
from tracetui.ui.compare.compare_view import CompareScreen, CompareView
from tracetui.ui.compare.shown_part import ShownPart
from tracetui.ui.compare.timelines import CompareLanes
from tracetui.ui.ranks.rank_reader import MomentAsked, RankLanesAsked, RankTraceAsked
from tracetui.ui.widgets.bar import Bar, BarPart, HintsBar
from tracetui.ui.widgets.lanes import LanesView, timeline_commands
from tracetui.ui.widgets.searchable_view import TimelineActions

# A late rank beside a median one at a collective: the screen of two traces, with the arrivals marked on one axis.


class MomentView(CompareView):
    """Two ranks from the start of their stretches to the end of the collective; the wait is shaded on both."""

    BINDINGS: ClassVar[list[BindingType]] = []

    def __init__(
        self,
        a: Side,
        b: Side,
        timeline_indexes: tuple[TimelineIndex, TimelineIndex],
        paths: tuple[str, str],
        asked: MomentAsked,
    ) -> None:
        super().__init__(a, b, timeline_indexes, paths)
        self.asked = asked
        pair = (asked.moment.beside, asked.moment.late)
        self.timelines.names = (rank_words(asked.ranks, pair[0]), rank_words(asked.ranks, pair[1]))
        for lanes, index in zip(self.timelines.lanes, pair, strict=True):
            # The lane of the collective may hold nothing else.
            entry = entry_of(asked.ranks, asked.moment.instance, index)
            row = int(asked.ranks.matches.entries.row[entry])
            lanes.also = frozenset({int(asked.ranks.summaries[index].collectives.lane[row])})
        self.opening = tuple(clean(each) for each in moment_sentences(asked.ranks, asked.moment))

    def on_mount(self) -> None:
        """Select the collective of both ranks, once the handler of `CompareView` has begun to compare them."""
        self.call_later(self._show_moment)

    def _show_moment(self) -> None:
        ranks, moment = self.asked.ranks, self.asked.moment
        low, high = sorted(moment.arrivals)
        for lanes, index in zip(self.timelines.lanes, (moment.beside, moment.late), strict=True):
            span = range_of(ranks, index, (low, high))
            if high > low:
                lanes.time_range = TimeRange(span.start, span.end)
            lanes.mark_ns = span.end
        # What explains the delay is the largest change, on top of the list, and not the collective.
        self.highlighted.apart = (1, self._row(1))
        self.select(*self.highlighted.apart)

    def select(self, side: int, row: int) -> None:
        """Select a slice; with the collective of the late rank goes that of the other, whatever the lists compare."""
        super().select(side, row)
        other = self._row(0)
        if side == 1 and row == self._row(1) and other >= 0:
            self.timelines.lanes[0].highlighted = frozenset({other})

    def _row(self, side: int) -> int:
        """The slice of the collective in the trace of a side, -1 where it is not found."""
        ranks, moment = self.asked.ranks, self.asked.moment
        index = (moment.beside, moment.late)[side]
        entry = entry_of(ranks, moment.instance, index)
        own, summary = int(ranks.matches.entries.row[entry]), ranks.summaries[index]
        slices = self.compared.sides[side].trace.slices
        start = int(summary.collectives.start[own]) - (summary.header.begin_ns or 0)
        rows = np.flatnonzero((slices.start == start) & (slices.lane == int(summary.collectives.lane[own])))
        same = rows[slices.dur[rows] == int(summary.collectives.dur[own])]
        return int(same[0]) if len(same) else -1

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """`n` and `N` go from collective to collective where nothing is searched; the sides are not swapped."""
        if action == "hit" and not super().check_action(action, parameters):
            return self._next(int(str(parameters[0]))) is not None
        return action != "swap" and super().check_action(action, parameters)

    def action_hit(self, direction: int) -> None:
        """The next match of a search, or else the next collective that the rank came late to."""
        if len(self.finder.search.hits):
            super().action_hit(direction)
            return
        asked = self._next(direction)
        if asked is not None:
            self.post_message(asked)

    def reason(self, action: str) -> str:
        """The reason why a command makes no sense right now."""
        if action == "hit":
            return "There is no further collective that others waited for this rank in."
        return super().reason(action)

    def _next(self, direction: int) -> MomentAsked | None:
        ranks, moment = self.asked.ranks, self.asked.moment
        late = late_instances(ranks, moment.late).tolist()
        index = late.index(moment.instance) + direction if moment.instance in late else -1
        if not 0 <= index < len(late):
            return None
        other = late_moment(ranks, late[index], moment.late)
        return None if other is None else MomentAsked(ranks, other)

    def _show_header(self) -> None:
        ranks, moment = self.asked.ranks, self.asked.moment
        parts: list[BarPart] = []
        for letter, index in zip("AB", (moment.beside, moment.late), strict=True):
            parts += [BarPart(f"{'   ' if parts else ''}{letter} ", "key"), BarPart(rank_words(ranks, index), "strong")]
        late = late_instances(ranks, moment.late).tolist()
        if moment.instance in late:
            parts.append(BarPart(f"   late collective {late.index(moment.instance) + 1} of {len(late)}", "dim"))
        self.query_one("#header", Bar).parts = tuple(parts)


class MomentScreen(CompareScreen):
    """Composes one `MomentView`."""

    def __init__(
        self,
        a: Side,
        b: Side,
        timeline_indexes: tuple[TimelineIndex, TimelineIndex],
        paths: tuple[str, str],
        asked: MomentAsked,
    ) -> None:
        super().__init__(a, b, timeline_indexes, paths)
        self.view = MomentView(a, b, timeline_indexes, paths, asked)


def rank_words(ranks: RankSet, index: int) -> str:
    """A rank with its host and what its clock is ahead: `rank 42 node5 +12.40 ms ±300.0 µs`."""
    host, clocks = ranks.hosts[index], ranks.clocks
    words = f"rank {ranks.ranks[index]}{f' {clean(host)}' if host else ''}"
    own = int(clocks.host[index])
    if not clocks.is_known[own]:
        return f"{words} clock not known"
    shift, error = int(clocks.shift[own]), float(clocks.error[own])
    if not shift and not error:
        return words
    return f"{words} {'+' if shift > 0 else ''}{duration(shift)} ±{duration(error)}"


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


class RankLanesScreen(TimelineActions, AnalysisSafe, Screen[None]):
    """Up to eight ranks on one axis."""

    stays_below: ClassVar[bool] = True
    """A trace that is opened from it comes above it, to go back to it."""

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
        """The stretch that all ranks recorded, in the trace of one of them."""
        ranks = self.asked.ranks
        whole = range_of(ranks, self.asked.members[number], ranks.window)
        return side(self.reads[number].trace, f"@{whole.text}")

    @property
    def traces(self) -> tuple[Trace, ...]:
        """The traces on screen."""
        return tuple(read.trace for read in self.reads)

    def compose(self) -> ComposeResult:
        """A title, the lanes, the key hints."""
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
            lanes.show_part(part, read.timeline_index)
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
    def timeline(self) -> CompareLanes:
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
        self.set_focus(lanes[(lanes.index(self.timeline) + direction) % len(lanes)])
        self.hints.show_hints()

    def action_open_rank(self) -> None:
        """Open the trace of the rank with the keys at what is on screen."""
        window = self.timeline.window
        path = self.reads[self.timeline.side].path
        viewpoint = Viewpoint()
        if window is not None:
            viewpoint = Viewpoint(start_ns=window.start_ns, length_ns=window.ns_per_cell * self.timeline.cells)
        self.post_message(RankTraceAsked(path, viewpoint))

    def action_leave(self) -> None:
        """Back to the table of ranks."""
        self.app.pop_screen()

    def action_help(self) -> None:
        """Show what the keys do."""
        # The help is needed only once it is asked for.
        from tracetui.ui.widgets.picker import HelpScreen, help_rows

        self.app.push_screen(HelpScreen(help_rows(self, None), "Help: keys", has_legend=True))
