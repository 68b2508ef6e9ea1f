"""The screen while a trace is read: bytes, events, rate and time left; Esc opens what was read so far.

The importer runs in a thread and only posts messages; it looks at a flag after every block, so it can be
stopped but never interrupted.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import Screen

from tracetui.drawing.timeline.raster import TimelineIndex, track_layout
from tracetui.errors import AnalysisFailed, NotATrace, NotFound, TracetuiError
from tracetui.files import is_url, url_name
from tracetui.idle.scope_times import median_step
from tracetui.linking.autograd import phase_spans
from tracetui.linking.frames import module_paths
from tracetui.linking.graph_nodes import graph_nodes
from tracetui.linking.lines import has_lines
from tracetui.linking.links import links
from tracetui.linking.steps import steps
from tracetui.memory.allocator import memory_curves
from tracetui.model.quantities import count, size
from tracetui.model.results import guarded
from tracetui.model.trace import Trace
from tracetui.opening.trace_opening import AS_RECORDED, OpenOptions, open_trace
from tracetui.reading.load_progress import LoadProgress
from tracetui.reading.source import Stopped, holds_snapshot
from tracetui.tables.layers import layer_parts
from tracetui.text import clean
from tracetui.ui.base import keys
from tracetui.ui.base.keys import command
from tracetui.ui.base.overlay import Loaded, LoadFailed, LoadProgressed, SnapshotLoaded
from tracetui.ui.widgets.bar import Bar, BarPart

FIRST_NEEDED = (median_step, phase_spans, layer_parts, module_paths, graph_nodes, has_lines)
"""What the first view asks for beside launches and steps, the longest first."""

PROGRESS_SECONDS = 0.1
"""Seconds between two reports of progress, at least."""

_STAGES = {
    "reading": "reading",
    "opening": "opening from the cache",
    "pairing": "pairing begin and end events",
    "sorting": "sorting",
    "nesting": "nesting slices",
    "linking": "linking launches, kernels and operators",
    "drawing": "preparing to draw",
}


class LoadingScreen(Screen[None]):
    """Progress of one load."""

    BINDINGS: ClassVar[list[BindingType]] = [
        command(keys.ESCAPE, "stop", "Stop and open what was read", "Marked as partial.", "stop, open what was read"),
        command(keys.QUIT, "quit", "Quit", "", "quit"),
    ]
    DEFAULT_CSS = """
    LoadingScreen { align: center middle; }
    LoadingScreen > Vertical { width: 78; max-width: 100%; height: 8; }
    """

    def __init__(self, path: str, options: OpenOptions = AS_RECORDED, remark: str = "") -> None:
        super().__init__()
        self.path = path
        self._options = options
        self.remark = remark
        """Said after the name."""
        self._stop = Event()
        self._began = time.monotonic()
        self._reported = 0.0
        self._is_from_cache = False

    def compose(self) -> ComposeResult:
        """Five lines in the middle of the screen."""
        with Vertical():
            yield Bar(id="what")
            yield Bar(id="gauge")
            yield Bar(id="numbers")
            yield Bar(id="stage")
            yield Bar(id="keys")

    def on_mount(self) -> None:
        """Say what is opened, then start."""
        name = "standard input" if self.path == "-" else Path(self.path).name
        if is_url(self.path):
            name = url_name(self.path)
        remark = f"   {self.remark}" if self.remark else ""
        self.query_one("#what", Bar).parts = (
            BarPart("opening "),
            BarPart(clean(name), "strong"),
            BarPart(remark, "dim"),
        )
        self._show_keys("stop and open what was read")
        self.load()

    def say(self, stage: str, escape: str) -> None:
        """Say what goes on once everything is read, and what escape does then."""
        self.query_one("#stage", Bar).parts = (BarPart(clean(stage), "dim"),)
        self._show_keys(escape)

    def _show_keys(self, escape: str) -> None:
        self.query_one("#keys", Bar).parts = (
            BarPart(str(keys.ESCAPE), "key"),
            BarPart(f" {escape}   "),
            BarPart(str(keys.QUIT), "key"),
            BarPart(" quit"),
        )

    def on_unmount(self) -> None:
        """Stop reading: the screen is gone."""
        self._stop.set()

    def action_stop(self) -> None:
        """Stop reading; what was read is opened."""
        self._stop.set()
        self.query_one("#stage", Bar).parts = (BarPart("stopping; opening what was read so far", "strong"),)

    async def action_quit(self) -> None:
        """Leave the app."""
        self._stop.set()
        self.app.exit()

    @work(thread=True, exit_on_error=True)
    def load(self) -> None:
        """Read the trace and prepare its picture, in a thread; a memory snapshot is read as what it is."""
        try:
            if holds_snapshot(self.path):
                # Traces do not wait for the reader of pickles.
                from tracetui.reading.snapshot import load_snapshot

                self.post_message(SnapshotLoaded(self.path, load_snapshot(self.path, self._report, self._stop.is_set)))
                return
            trace = open_trace(self.path, self._options, self._report, self._stop.is_set)
        except Stopped:
            # Without its end nothing of a snapshot can be replayed.
            stopped = NotATrace(f"Reading {self.path} was stopped: a memory snapshot is shown once all of it is read.")
            self.post_message(LoadFailed(self.path, stopped))
            return
        except TracetuiError as error:
            self.post_message(LoadFailed(self.path, error))
            return
        except OSError as error:
            self.post_message(LoadFailed(self.path, NotFound(f"{self.path} cannot be read: {error.strerror}.")))
            return
        self._report(LoadProgress(trace.size_bytes, trace.size_bytes, trace.events, "linking"))
        with ThreadPoolExecutor(2) as threads:
            # Lanes need no launches: they are made on another core meanwhile.
            prepared: list[Future[Any]] = [threads.submit(prepare, trace) for prepare in (track_layout, memory_curves)]
            # Asked for by the first view and by every key: made here, it does not make the first key wait.
            try:
                with guarded("The first view"):
                    links(trace)
                    steps(trace)
            except AnalysisFailed as failure:
                self.post_message(LoadFailed(self.path, failure))
                return
            prepared += [threads.submit(_attempt, prepare, trace) for prepare in FIRST_NEEDED]
            self._report(LoadProgress(trace.size_bytes, trace.size_bytes, trace.events, "drawing"))
            for each in prepared:
                each.result()
        timeline_index = TimelineIndex(trace)
        # What was loaded stays until the end: the collector need not look at it ever again.
        if gc.get_freeze_count():
            # What was set aside before and is not used any more goes now, the rest is set aside again.
            gc.unfreeze()
            gc.collect()
        gc.freeze()
        self.post_message(Loaded(self.path, trace, timeline_index))

    @on(LoadProgressed)
    def _show(self, message: LoadProgressed) -> None:
        progress = message.progress
        seconds = max(time.monotonic() - self._began, 1e-3)
        if progress.bytes_total:
            # A pipe has no length of which a share could be drawn.
            width = max(min(self.size.width, 78) - 2, 1)
            full = min(width * progress.bytes_done // progress.bytes_total, width)
            self.query_one("#gauge", Bar).parts = (BarPart("━" * full, "key"), BarPart("─" * (width - full), "dim"))
        self.query_one("#numbers", Bar).parts = (BarPart(progress_words(progress, seconds, self._is_from_cache)),)
        if not self._stop.is_set():
            self.query_one("#stage", Bar).parts = (BarPart(_STAGES.get(progress.stage, progress.stage), "dim"),)

    def _report(self, progress: LoadProgress) -> None:
        now = time.monotonic()
        self._is_from_cache |= progress.stage == "opening"
        if now - self._reported >= PROGRESS_SECONDS or progress.stage != "reading":
            self._reported = now
            self.post_message(LoadProgressed(progress))


def _attempt(prepare: Callable[[Trace], object], trace: Trace) -> None:
    """Make what the first view needs; where it fails, what needs it says so."""
    with suppress(AnalysisFailed), guarded("The first view"):
        prepare(trace)


def progress_words(progress: LoadProgress, seconds: float, is_from_cache: bool = False) -> str:
    """For example `120.0 of 512.0 MiB · 410,000 events · 80.1 MiB/s · 5 s left`; from the cache nothing is read."""
    if is_from_cache:
        return f"{size(progress.bytes_done)} · {count(progress.events)} events · from the cache"
    rate = progress.bytes_done / seconds
    words = [size(progress.bytes_done)]
    if progress.bytes_total:
        words = [f"{size(progress.bytes_done)} of {size(progress.bytes_total)}"]
    words += [f"{count(progress.events)} events", f"{size(rate)}/s"]
    if progress.bytes_total and rate > 0 and progress.bytes_done < progress.bytes_total:
        words.append(f"{(progress.bytes_total - progress.bytes_done) / rate:.0f} s left")
    return " · ".join(words)
