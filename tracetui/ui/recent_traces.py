"""The traces that were read last, with their screens: going back to one of them takes no time.

Only a few are kept, for each holds memory in proportion to its events; one that is on screen always is. Once a trace
has been on screen for a moment, it is written to the cache on disk.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any
from weakref import ref

from textual.app import App
from textual.worker import get_current_worker

from tracetui.model.trace import Trace
from tracetui.model.viewpoint import Viewpoint
from tracetui.opening.trace_opening import keep_opened
from tracetui.ui.base.messages import Loaded, SliceAsked
from tracetui.ui.trace.history import Marks
from tracetui.ui.trace.trace_screen import TraceScreen

MAX_RECENT_TRACES = 4
"""Maximum traces kept beside those on screen."""
KEEPING_DELAYS = (1.0, 6.0, 30.0)
"""Seconds after which a trace is written to the cache, so that its first picture does not wait for that, and again with
what was found out about it since.
"""


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
        """Keep a trace that was read, and let go of those that were not used for long."""
        self._drop(read.path)
        self._traces[read.path] = read, modified(read.path)
        for delay in KEEPING_DELAYS:
            self._app.set_timer(delay, partial(self._keep_on_disk, ref(read.trace)))
        for path in list(self._traces)[:-MAX_RECENT_TRACES]:
            if not self._is_shown(self._traces[path][0].trace):
                self._drop(path)
                self._forget_screen(path)

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
        self._forget_screen(read.path)
        screen = TraceScreen(read.trace, read.picture, viewpoint or Viewpoint(), read.path, marks)
        self._screens[read.path] = screen
        self._app.install_screen(screen, f"trace {id(screen)}")
        return screen

    def _keep_on_disk(self, known: ref[Trace]) -> None:
        """Write a trace to the cache in a thread, which gives up when the app ends; one that is let go of is not."""
        trace = known()
        if trace is None:
            return

        def keep() -> None:
            worker = get_current_worker()
            keep_opened(trace, lambda: worker.is_cancelled)

        self._app.run_worker(keep, thread=True, group="cache", description="cache")

    def _drop(self, path: str) -> None:
        """Keep a trace no more, not even in what others know of it: they were compared with it."""
        dropped = self._traces.pop(path, None)
        if dropped is not None:
            for other, _ in self._traces.values():
                other.trace.forget(dropped[0].trace)

    def _is_shown(self, trace: Trace) -> bool:
        """Whether a screen that one can come back to shows the trace."""
        return any(trace in getattr(screen, "traces", ()) for screen in self._app.screen_stack)

    def _forget_screen(self, path: str) -> None:
        """End the screen of a trace; one that can be come back to ends after it was left."""
        if path in self._screens:
            self._leaving.append(self._screens.pop(path))
        for screen in [each for each in self._leaving if each not in self._app.screen_stack]:
            self._leaving.remove(screen)
            self._app.uninstall_screen(screen)
            if screen.is_running:
                screen.remove()


def modified(path: str) -> float:
    """When a file was modified last, in seconds since the epoch; 0 for standard input and missing files."""
    try:
        return Path(path).stat().st_mtime
    except OSError:
        return 0.0
