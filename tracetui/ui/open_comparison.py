"""Opening a comparison: files that are not read yet are read one after the other, then the sides are found.

What compares is imported when two traces are compared: opening one does not wait for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Protocol
from weakref import ref

from textual.app import App
from textual.message import Message
from textual.screen import Screen
from textual.worker import get_current_worker

from tracetui.drawing.timeline.raster import TimelineIndex
from tracetui.errors import AnalysisFailed, TracetuiError, UsageError
from tracetui.linking.frames import module_paths
from tracetui.linking.links import links
from tracetui.linking.replays import replays
from tracetui.linking.step_sources import with_steps
from tracetui.model.results import guarded
from tracetui.model.trace import Interrupted, Trace, interruptible
from tracetui.model.viewpoint import Viewpoint
from tracetui.opening.trace_opening import OpenOptions, SideName, keep_opened
from tracetui.ui.base import keys
from tracetui.ui.base.overlay import Loaded, SliceAsked
from tracetui.ui.opening.loading_screen import LoadingScreen
from tracetui.ui.opening.trace_picker import TraceChoice, TracePicker
from tracetui.ui.ranks.rank_reader import MomentAsked, RankLanesAsked
from tracetui.ui.trace.navigator import Marks
from tracetui.ui.trace.trace_screen import StepsAsked, TraceScreen

if TYPE_CHECKING:
    from tracetui.comparing.side import Side
    from tracetui.comparing.statement import Several
    from tracetui.model.table import Table


# Showing a trace with other steps: the runs of something in it, which the user chose.


@dataclass
class StepsReady(Message):
    """A trace has other steps, or the error that says why not."""

    read: Loaded | UsageError
    asked: StepsAsked


def prepare_steps(app: App[Any], message: StepsAsked) -> None:
    """Give a trace other steps, in a thread, and post `StepsReady`."""
    read: Loaded | UsageError
    try:
        trace = with_steps(message.trace, message.name)
    except UsageError as error:
        read = error
    else:
        # The first view asks for these.
        links(trace)
        module_paths(trace)
        replays(trace)
        read = Loaded(message.path, trace, TimelineIndex(trace))
    app.post_message(StepsReady(read, message))


# The traces that were read last, with their screens: going back to one of them takes no time.
#
# Only a few are kept, for each holds memory in proportion to its events; one that is on screen always is. Once a trace
# has been on screen for a moment, it is written to the cache on disk.

MAX_RECENT_TRACES = 4
"""Maximum traces kept beside those on screen."""
KEEPING_DELAYS = (1.0, 30.0)
"""Seconds after which a trace is written to the cache, and again with what was found out about it since."""
MAX_BUILDING_SECONDS = 20.0
"""Seconds for which that waits while panes are built, whose results are kept with it."""
POLL_SECONDS = 0.1
"""Seconds between two looks at whether they are."""


class RecentTraces:
    """The traces that were read last, by path, the last used last."""

    def __init__(self, app: App[Any]) -> None:
        self._app = app
        self._traces: dict[str, tuple[Loaded, float]] = {}
        """The traces, and when their files had been modified last."""
        self._screens: dict[str, TraceScreen] = {}
        self._leaving: list[TraceScreen] = []
        """Screens of traces that are kept no more, which wait for their end."""

    def __len__(self) -> int:
        return len(self._traces)

    def put(self, read: Loaded) -> None:
        """Keep a trace that was read, and drop the least recently used ones."""
        self._drop(read.path)
        self._traces[read.path] = read, modified(read.path)
        for delay in KEEPING_DELAYS:
            self._app.set_timer(delay, partial(self._keep_on_disk, ref(read.trace)))
        for path in list(self._traces)[:-MAX_RECENT_TRACES]:
            trace = self._traces[path][0].trace
            if not any(trace in getattr(screen, "traces", ()) for screen in self._app.screen_stack):
                # No screen that one can come back to shows it.
                self._drop(path)
                self._drop_screen(path)

    def get(self, path: str) -> Loaded | None:
        """A trace that was read and whose file has not changed since, else None."""
        read, when = self._traces.get(path, (None, 0.0))
        if read is None or when != modified(path):
            return None
        self._traces[path] = self._traces.pop(path)
        return read

    def screen_of(
        self, read: Loaded | SliceAsked, viewpoint: Viewpoint | None = None, marks: Marks | None = None
    ) -> TraceScreen:
        """The screen of a trace: the one that it has, or a new one at a viewpoint, with marks."""
        known = self._screens.get(read.path)
        if known is not None and known.trace is read.trace:
            return known
        self._drop_screen(read.path)
        screen = TraceScreen(read.trace, read.timeline_index, viewpoint or Viewpoint(), read.path, marks)
        self._screens[read.path] = screen
        self._app.install_screen(screen, f"trace {id(screen)}")
        return screen

    def _keep_on_disk(self, known: ref[Trace]) -> None:
        """Write a trace to the cache in a thread, which gives up when the app ends; one that is let go of is not."""

        def keep() -> None:
            worker, until = get_current_worker(), monotonic() + MAX_BUILDING_SECONDS
            while not worker.is_cancelled and monotonic() < until:
                if not any(each.group == "panes" and each.is_running for each in self._app.workers):
                    break
                sleep(POLL_SECONDS)
            trace = known()
            if trace is not None:
                keep_opened(trace, lambda: worker.is_cancelled)

        self._app.run_worker(keep, thread=True, group="cache", description="cache")

    def _drop(self, path: str) -> None:
        """Keep a trace no more, not even in what others know of it: they were compared with it."""
        dropped = self._traces.pop(path, None)
        if dropped is not None:
            for other, _ in self._traces.values():
                other.trace.drop(dropped[0].trace)

    def _drop_screen(self, path: str) -> None:
        """End the screen of a trace; one that can be come back to ends after it was left."""
        if path in self._screens:
            self._leaving.append(self._screens.pop(path))
        for screen in [each for each in self._leaving if each not in self._app.screen_stack]:
            self._leaving.remove(screen)
            self._app.uninstall_screen(screen)
            if screen.is_running:
                screen.remove()


def modified(path: str) -> float:
    """Time at which a file was modified last, in seconds since the epoch; 0 for standard input and missing files."""
    try:
        return Path(path).stat().st_mtime
    except OSError:
        return 0.0


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
    """The part of the app that a comparison is opened from."""

    options: OpenOptions
    """Options for every trace that is opened."""

    @property
    def has_list(self) -> bool:
        """True where the trace was picked from a list of traces."""

    def folders_beside(self, path: str) -> list[str]:
        """Folders and files with traces beside one of a path."""

    def warn(self, text: str) -> None:
        """Show a warning on the screen on top."""

    def remark(self, text: str) -> None:
        """Show a sentence on the screen on top."""

    def end_with(self, error: TracetuiError) -> None:
        """End the app, which never showed anything."""


class ComparisonOpener:
    """The comparison that the app is about to open, if any."""

    def __init__(self, app: App[Any], host: ComparisonHost, recent: RecentTraces) -> None:
        """`host` is the app once more, for what Textual's apps do not know."""
        self._app, self._host, self._recent = app, host, recent
        self._wanted: tuple[SideName, ...] | None = None
        self._reads: dict[str, Loaded] = {}
        """Traces read for it, by path; a file that is written to meanwhile is not read again."""
        self._tab = ""
        self._moment: MomentAsked | None = None
        """The moment to show where the sides are two ranks at a collective."""
        self._lanes: RankLanesAsked | None = None
        """The lanes to show where the traces are those of ranks."""

    @property
    def is_under_way(self) -> bool:
        """True while a comparison was requested and is not on screen yet."""
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
        """Drop the requested comparison: something else is to be shown."""
        self._wanted = None

    @property
    def is_comparing(self) -> bool:
        """True while all files are read and the comparison is not on screen yet."""
        return self._wanted is not None and all(name.path in self._reads for name in self._wanted)

    def stop(self) -> None:
        """Give up comparing, and go back to the screen from which it was requested; without one, end the app."""
        app = self._app
        self.give_up()
        app.workers.cancel_group(app, "sides")
        if all(isinstance(screen, LoadingScreen) for screen in app.screen_stack[1:]):
            app.exit()
            return
        if isinstance(app.screen, LoadingScreen):
            app.pop_screen()
        self._host.remark("Nothing is compared.")

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
        a, b, *others = (_scope_words(name, self._wanted) for name in self._wanted)
        words = f"{a} with {b}" if not others else f"{len(self._wanted)} of them with {a}"
        if isinstance(app.screen, LoadingScreen):
            app.screen.say(f"comparing {words}", "give up comparing")
        else:
            self._host.remark(f"Comparing {words} …   {keys.ESCAPE} gives up")
        find = partial(self._find_sides, self._wanted, reads)
        # Without a description, textual writes out what is called: every column of both traces.
        app.run_worker(find, thread=True, group="sides", exclusive=True, description="sides")

    def _find_sides(self, wanted: tuple[SideName, ...], reads: tuple[Loaded, ...]) -> None:
        """Find the sides in a thread, and what the first view needs of them."""
        from tracetui.comparing.statement import Several

        sides: tuple[Side, ...] | TracetuiError
        several, worker = None, get_current_worker()
        try:
            with interruptible(lambda: not worker.is_cancelled), guarded("The comparison"):
                sides = tuple(_side(read, name.scope) for read, name in zip(reads, wanted, strict=True))
                if len(sides) > 2:
                    compared = Several(sides)
                    several = compared, compared.totals
                    # The screen asks for these right away.
                    _ = compared.openings, compared.others
                    with suppress(AnalysisFailed):
                        _ = compared.headline
        except Interrupted:
            return
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
        from tracetui.ui.compare.compare_view import CompareScreen
        from tracetui.ui.compare.several_screen import SeveralScreen

        app = self._app
        screen: Screen[None]
        if message.several is not None:
            screen = SeveralScreen(message.several[0], message.wanted, message.several[1])
        else:
            (a, b), (first, second) = message.sides, message.reads
            timeline_indexes, paths = (first.timeline_index, second.timeline_index), (first.path, second.path)
            if self._moment is not None:
                from tracetui.ui.ranks.lanes_screen import MomentScreen

                screen = MomentScreen(a, b, timeline_indexes, paths, self._moment)
            else:
                screen = CompareScreen(a, b, timeline_indexes, paths, self._tab, self._host.has_list)
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


def _scope_words(name: SideName, others: Sequence[SideName]) -> str:
    """The name of a side of which nothing else is known yet: the part of a trace, or the trace."""
    part = f"step {name.scope}" if name.scope.isdecimal() else name.scope
    return part if part and len({each.path for each in others}) == 1 else Path(name.path).name


def _remark(index: int, wanted: Sequence[SideName]) -> str:
    """The place of the trace that is being read among those compared; empty for one file."""
    if len({name.path for name in wanted}) == 1:
        return ""
    from tracetui.comparing.statement import SIDE_NAMES

    return _REMARKS[index] if len(wanted) == 2 else f"{SIDE_NAMES[index]}, {index + 1} of {len(wanted)}"


def _side(read: Loaded, scope: str) -> Side:
    """A side with something to show.

    Raises: UsageError for a scope that the trace does not hold, and for one without a complete step.
    """
    from tracetui.comparing.noise import representative
    from tracetui.comparing.side import side

    opened = side(read.trace, scope)
    if representative(opened) < 0:
        raise UsageError(f"{opened.name} holds no complete step: #all compares the whole capture.")
    return opened
