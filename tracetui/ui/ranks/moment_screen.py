"""A late rank beside a median one at a collective: the screen of two traces, with the arrivals marked on one axis."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from textual.app import ComposeResult
from textual.binding import BindingType

from tracetui.comparing.side import Side
from tracetui.drawing.timeline.raster import Picture
from tracetui.model.quantities import duration
from tracetui.model.time_range import TimeRange
from tracetui.ranks.moments import entry_of, late_instances, late_moment, moment_sentences, range_of
from tracetui.ranks.rank_set import RankSet
from tracetui.safe_text import clean
from tracetui.ui.compare.compare_screen import CompareScreen
from tracetui.ui.compare.compare_view import CompareView
from tracetui.ui.ranks.rank_messages import MomentAsked
from tracetui.ui.widgets.bar import Bar, BarPart


class MomentView(CompareView):
    """Two ranks from the start of their stretches to the end of the collective; the wait is shaded on both."""

    BINDINGS: ClassVar[list[BindingType]] = []

    def __init__(
        self, a: Side, b: Side, pictures: tuple[Picture, Picture], paths: tuple[str, str], asked: MomentAsked
    ) -> None:
        super().__init__(a, b, pictures, paths)
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
        """Select the collective of both ranks."""
        super().on_mount()
        self._show_moment()

    def _show_moment(self) -> None:
        ranks, moment = self.asked.ranks, self.asked.moment
        low, high = sorted(moment.arrivals)
        for lanes, index in zip(self.timelines.lanes, (moment.beside, moment.late), strict=True):
            span = range_of(ranks, index, (low, high))
            if high > low:
                lanes.time_range = TimeRange(span.start, span.end)
            lanes.mark_ns = span.end
        row = self._row(1)
        if row >= 0:
            self.select(1, row)
        other = self._row(0)
        if other >= 0:
            self.timelines.lanes[0].lit = frozenset({other})

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
        """Why a command makes no sense right now."""
        if action == "hit":
            return "There is no further collective that others waited for this rank in."
        return super().reason(action)

    def _next(self, direction: int) -> MomentAsked | None:
        ranks, moment = self.asked.ranks, self.asked.moment
        late = late_instances(ranks, moment.late).tolist()
        index = late.index(moment.instance) + direction if moment.instance in late else -1
        if not 0 <= index < len(late):
            return None
        found = late_moment(ranks, late[index], moment.late)
        return None if found is None else MomentAsked(ranks, found)

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
        self, a: Side, b: Side, pictures: tuple[Picture, Picture], paths: tuple[str, str], asked: MomentAsked
    ) -> None:
        super().__init__(a, b, pictures, paths)
        self._view = MomentView(a, b, pictures, paths, asked)

    def compose_view(self) -> ComposeResult:
        """Both ranks."""
        yield self._view


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
