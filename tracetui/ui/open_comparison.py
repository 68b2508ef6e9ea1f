"""Opening a comparison: files that are not read yet are read one after the other, then the sides are found."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from textual.app import App
from textual.message import Message

from tracetui.analysis.comparing.sides.composition import representative
from tracetui.analysis.comparing.sides.side import Side, side
from tracetui.errors import TracetuiError, UsageError
from tracetui.opening import OpenOptions, SideName
from tracetui.ui.base.messages import Loaded
from tracetui.ui.compare.compare_screen import CompareScreen
from tracetui.ui.opening.loading_screen import LoadingScreen
from tracetui.ui.opening.trace_picker import TracePicker
from tracetui.ui.recent_traces import RecentTraces

_REMARKS = ("A, the first of two", "B, the second of two")


@dataclass
class SidesFound(Message):
    """Both sides are found, or the error that says why not."""

    wanted: tuple[SideName, SideName]
    reads: tuple[Loaded, Loaded]
    sides: tuple[Side, Side] | TracetuiError


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
        self._wanted: tuple[SideName, SideName] | None = None
        self._reads: dict[str, Loaded] = {}
        """What was read for it, by path; a file that is written to meanwhile is not read again."""
        self._tab = ""

    @property
    def is_under_way(self) -> bool:
        """Whether a comparison was requested and is not on screen yet."""
        return self._wanted is not None

    def start(self, a: SideName, b: SideName, tab: str = "") -> None:
        """Compare two sides."""
        self._wanted, self._tab = (a, b), tab
        reads = {name.path: self._recent.get(name.path) for name in (a, b)}
        self._reads = {path: read for path, read in reads.items() if read is not None}
        self._go_on()

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

        def take(chosen: str | list[str] | None) -> None:
            if isinstance(chosen, list):
                self.start(SideName(chosen[0]), SideName(chosen[-1]))
            elif chosen is not None:
                self.start(a, SideName(chosen))

        app.push_screen(TracePicker(self._host.folders_beside(a.path), title="Compare with which trace?"), take)

    def _go_on(self) -> None:
        """Read the next file, or find the sides once all are read."""
        if self._wanted is None:
            return
        app = self._app
        for remark, name in zip(_REMARKS, self._wanted, strict=True):
            if name.path not in self._reads:
                alone = self._wanted[0].path == self._wanted[1].path
                screen = LoadingScreen(name.path, self._host.options, "" if alone else remark)
                if isinstance(app.screen, LoadingScreen):
                    app.switch_screen(screen)
                else:
                    app.push_screen(screen)
                return
        a, b = self._wanted
        reads = self._reads[a.path], self._reads[b.path]
        find = partial(self._find, self._wanted, reads)
        # Without a description, textual writes out what is called: every column of both traces.
        app.run_worker(find, thread=True, group="sides", exclusive=True, description="sides")

    def _find(self, wanted: tuple[SideName, SideName], reads: tuple[Loaded, Loaded]) -> None:
        """Find the sides in a thread, and what the first view needs of them."""
        sides: tuple[Side, Side] | TracetuiError
        try:
            sides = _side(reads[0], wanted[0].scope), _side(reads[1], wanted[1].scope)
        except TracetuiError as error:
            sides = error
        self._app.post_message(SidesFound(wanted, reads, sides))

    def show(self, message: SidesFound) -> None:
        """Show the sides, or the error."""
        if message.wanted != self._wanted:
            return
        self._wanted = None
        if isinstance(message.sides, TracetuiError):
            self.fail(message.sides)
            return
        app, (a, b) = self._app, message.sides
        first, second = message.reads
        screen = CompareScreen(
            a, b, (first.picture, second.picture), (first.path, second.path), self._tab, self._host.has_list
        )
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


def _side(read: Loaded, scope: str) -> Side:
    """A side with something to show.

    Raises: UsageError for a scope that the trace does not hold, and for one without a complete step.
    """
    opened = side(read.trace, scope)
    if representative(opened) < 0:
        raise UsageError(f"{opened.name} holds no complete step: #all compares the whole capture.")
    return opened
