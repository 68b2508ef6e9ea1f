"""Opening a comparison: files that are not read yet are read one after the other, then the sides are found.

What compares is imported when two traces are compared: opening one does not wait for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from textual.app import App
from textual.message import Message
from textual.screen import Screen

from tracetui.errors import TracetuiError, UsageError
from tracetui.model.guarding import guarded
from tracetui.opening.trace_opening import OpenOptions, SideName
from tracetui.ui.base.messages import Loaded
from tracetui.ui.opening.loading_screen import LoadingScreen
from tracetui.ui.opening.trace_picker import TraceChoice, TracePicker
from tracetui.ui.ranks.rank_messages import MomentAsked, RankLanesAsked
from tracetui.ui.recent_traces import RecentTraces

if TYPE_CHECKING:
    from tracetui.comparing.several import Several
    from tracetui.comparing.side import Side
    from tracetui.model.table import Table

_REMARKS = ("A, the first of two", "B, the second of two")


@dataclass
class SidesFound(Message):
    """All sides are found, or the error that says why not."""

    wanted: tuple[SideName, ...]
    reads: tuple[Loaded, ...]
    sides: tuple[Side, ...] | TracetuiError
    several: tuple[Several, Table] | None = None
    """Of three sides or more their comparison, and its table."""


class ComparisonHost(Protocol):
    """What the app knows that a comparison is opened from."""

    options: OpenOptions
    """What the user says about every trace that is opened."""

    @property
    def has_list(self) -> bool:
        """Whether what is shown was picked from a list of traces."""

    def folders_beside(self, path: str) -> list[str]:
        """Where traces beside one of a path may be."""

    def warn(self, text: str) -> None:
        """Show a warning on the screen on top."""

    def end_with(self, error: TracetuiError) -> None:
        """End the app, which never showed anything."""


class ComparisonOpener:
    """What the app is about to compare, if anything."""

    def __init__(self, app: App[Any], host: ComparisonHost, recent: RecentTraces) -> None:
        """`host` is the app once more, for what Textual's apps do not know."""
        self._app, self._host, self._recent = app, host, recent
        self._wanted: tuple[SideName, ...] | None = None
        self._reads: dict[str, Loaded] = {}
        """What was read for it, by path; a file that is written to meanwhile is not read again."""
        self._tab = ""
        self._moment: MomentAsked | None = None
        """What is to be shown where the sides are two ranks at a collective."""
        self._lanes: RankLanesAsked | None = None
        """What is to be shown where the traces are those of ranks whose lanes are wanted."""

    @property
    def is_under_way(self) -> bool:
        """Whether a comparison was requested and is not on screen yet."""
        return self._wanted is not None

    def start(self, a: SideName, b: SideName, *others: SideName, tab: str = "") -> None:
        """Compare two sides, or more of them with the first."""
        self._tab, self._moment, self._lanes = tab, None, None
        self._want((a, b, *others))

    def _want(self, names: tuple[SideName, ...]) -> None:
        """Begin with what was read lately."""
        self._wanted = names
        reads = {name.path: self._recent.get(name.path) for name in names}
        self._reads = {path: read for path, read in reads.items() if read is not None}
        self._go_on()

    def start_moment(self, asked: MomentAsked) -> None:
        """Show a late rank beside another one, at a collective."""
        from tracetui.ranks.moments import range_of

        ranks, moment = asked.ranks, asked.moment
        a, b = (
            SideName(ranks.summaries[index].header.path, f"@{range_of(ranks, index, moment.window).text}")
            for index in (moment.beside, moment.late)
        )
        self.start(a, b)
        self._moment = asked

    def start_lanes(self, asked: RankLanesAsked) -> None:
        """Show the lanes of some ranks on one axis."""
        self._moment, self._lanes = None, asked
        self._want(tuple(SideName(asked.ranks.summaries[index].header.path) for index in asked.members))

    def _show_lanes(self, asked: RankLanesAsked, reads: tuple[Loaded, ...]) -> None:
        from tracetui.ui.ranks.lanes_screen import RankLanesScreen

        self._wanted, self._lanes = None, None
        screen = RankLanesScreen(asked, reads)
        if isinstance(self._app.screen, LoadingScreen):
            self._app.switch_screen(screen)
        else:
            self._app.push_screen(screen)

    def give_up(self) -> None:
        """Forget the requested comparison: something else is to be shown."""
        self._wanted = None

    def take(self, read: Loaded) -> None:
        """Go on with a trace that was read."""
        self._reads[read.path] = read
        self._go_on()

    def pick_other(self, a: SideName) -> None:
        """Let the user pick what to compare a trace with."""
        app = self._app

        def take(chosen: TraceChoice) -> None:
            if isinstance(chosen, tuple):
                self.start(*map(SideName, chosen))
            elif isinstance(chosen, list):
                self.start(SideName(chosen[0]), SideName(chosen[-1]))
            elif isinstance(chosen, str):
                self.start(a, SideName(chosen))

        app.push_screen(
            TracePicker(self._host.folders_beside(a.path), title="Compare with which trace?", offers_ranks=False), take
        )

    def _go_on(self) -> None:
        """Read the next file, or find the sides once all are read."""
        if self._wanted is None:
            return
        app = self._app
        for index, name in enumerate(self._wanted):
            if name.path not in self._reads:
                screen = LoadingScreen(name.path, self._host.options, _remark(index, self._wanted))
                if isinstance(app.screen, LoadingScreen):
                    app.switch_screen(screen)
                else:
                    app.push_screen(screen)
                return
        reads = tuple(self._reads[name.path] for name in self._wanted)
        if self._lanes is not None:
            self._show_lanes(self._lanes, reads)
            return
        find = partial(self._find, self._wanted, reads)
        # Without a description, textual writes out what is called: every column of both traces.
        app.run_worker(find, thread=True, group="sides", exclusive=True, description="sides")

    def _find(self, wanted: tuple[SideName, ...], reads: tuple[Loaded, ...]) -> None:
        """Find the sides in a thread, and what the first view needs of them."""
        from tracetui.comparing.several import Several

        sides: tuple[Side, ...] | TracetuiError
        several = None
        try:
            with guarded("The comparison"):
                sides = tuple(_side(read, name.scope) for read, name in zip(reads, wanted, strict=True))
                if len(sides) > 2:
                    compared = Several(sides)
                    several = compared, compared.totals
                    # The screen asks for both right away.
                    _ = compared.openings, compared.others
        except TracetuiError as error:
            sides = error
        self._app.post_message(SidesFound(wanted, reads, sides, several))

    def show(self, message: SidesFound) -> None:
        """Show the sides, or the error."""
        if message.wanted != self._wanted:
            return
        self._wanted = None
        if isinstance(message.sides, TracetuiError):
            self.fail(message.sides)
            return
        from tracetui.ui.compare.compare_screen import CompareScreen
        from tracetui.ui.compare.several_screen import SeveralScreen

        app = self._app
        screen: Screen[None]
        if message.several is not None:
            screen = SeveralScreen(message.several[0], message.wanted, message.several[1])
        else:
            (a, b), (first, second) = message.sides, message.reads
            pictures, paths = (first.picture, second.picture), (first.path, second.path)
            if self._moment is not None:
                from tracetui.ui.ranks.moment_screen import MomentScreen

                screen = MomentScreen(a, b, pictures, paths, self._moment)
            else:
                screen = CompareScreen(a, b, pictures, paths, self._tab, self._host.has_list)
        if isinstance(app.screen, LoadingScreen) and isinstance(app.screen_stack[-2], CompareScreen):
            # One comparison takes the place of another, also when a file had to be read for it.
            app.pop_screen()
        if isinstance(app.screen, LoadingScreen | CompareScreen):
            app.switch_screen(screen)
        else:
            app.push_screen(screen)

    def fail(self, error: TracetuiError) -> None:
        """Show an error on the screen from which the comparison was requested; without one, end the app with it."""
        app = self._app
        self._wanted = None
        below = [screen for screen in app.screen_stack[1:] if not isinstance(screen, LoadingScreen)]
        if not below:
            self._host.end_with(error)
            return
        if isinstance(app.screen, LoadingScreen):
            app.pop_screen()
        self._host.warn(str(error))


def _remark(index: int, wanted: Sequence[SideName]) -> str:
    """Which of the compared traces is being read; empty for one file."""
    if len({name.path for name in wanted}) == 1:
        return ""
    from tracetui.comparing.several import SIDE_NAMES

    return _REMARKS[index] if len(wanted) == 2 else f"{SIDE_NAMES[index]}, {index + 1} of {len(wanted)}"


def _side(read: Loaded, scope: str) -> Side:
    """A side with something to show.

    Raises: UsageError for a scope that the trace does not hold, and for one without a complete step.
    """
    from tracetui.comparing.composition import representative
    from tracetui.comparing.side import side

    opened = side(read.trace, scope)
    if representative(opened) < 0:
        raise UsageError(f"{opened.name} holds no complete step: #all compares the whole capture.")
    return opened
