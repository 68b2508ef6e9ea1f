"""The screen while a recording is made: stages with their times, the last line that was printed; Esc cancels.

The recording runs in a process of its own. It is stopped and waited for before this screen goes, however it goes, so
that neither a process nor a partial file is left behind.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static
from tracetui_workloads.recording.launcher import (
    STAGES,
    Event,
    Failure,
    LogLine,
    Note,
    Outcome,
    Progress,
    Request,
    Stage,
    StageDone,
    keep_times,
    record,
    time_variants,
)

from tracetui.model.quantities import duration
from tracetui.text import clean
from tracetui.ui.base import keys
from tracetui.ui.base.keys import command
from tracetui.ui.base.overlay import Overlay
from tracetui.ui.widgets.bar import Bar, BarPart

CLOCK_SECONDS = 0.25
"""Seconds between two paintings of the clock."""


class RecordingScreen(ModalScreen[list[str]], Overlay[list[str]]):
    """Progress of one recording, or of variants one after the other; dismissed with the paths of the traces, or None.

    A variant that fails does not keep the others from being recorded; it is reported once they are. Fewer than two
    traces cannot be compared.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        command(keys.ESCAPE, "cancel", "Cancel the recording", "Leaves no process and no file.", "cancel"),
        command(keys.QUIT, "quit", "Cancel and quit", "", "quit"),
    ]
    DEFAULT_CSS = """
    RecordingScreen {
        align: center middle;
        background: $background;
        & > Vertical { width: 78; max-width: 100%; height: auto; max-height: 100%; }
        Static { width: 100%; height: auto; padding: 0 1; }
        #notes { color: $warning; margin: 1 0; }
    }
    """

    def __init__(self, requests: Sequence[Request]) -> None:
        super().__init__()
        self._requests = requests
        self._index = 0
        """Index of the request that is being recorded."""
        self._paths: list[str] = []
        self._recorded: list[tuple[Request, Outcome]] = []
        self._is_timing = False
        """True once the variants were recorded, and are timed in turns."""
        self._failures: list[Failure] = []
        self._cancel = asyncio.Event()
        self._recording: asyncio.Task[None] | None = None
        self._began = time.monotonic()
        self._stages: list[tuple[str, float]] = []
        """Stages that are over, with their seconds."""
        self._stage, self._since = STAGES[0], self._began
        self._parts = ""
        self._notes: list[str] = []
        self._log = ""
        self._is_over = self._quits = False

    def compose(self) -> ComposeResult:
        """The workload, the stages, remarks, the last line that was printed, the keys."""
        with Vertical():
            yield Bar(id="what")
            yield Static(id="stages", markup=False)
            yield Static(id="notes", markup=False)
            yield Bar(id="log")
            yield Bar(id="keys")

    def on_mount(self) -> None:
        """Say what is recorded, then start."""
        self.set_interval(CLOCK_SECONDS, self._paint)
        self._recording = asyncio.create_task(self._record())
        self.follow(self._recording)
        self._paint()

    async def on_unmount(self) -> None:
        """Nobody waits for the trace any more: stop the process, and wait until it is gone."""
        self._cancel.set()
        if self._recording is not None:
            await asyncio.wait({self._recording})

    @work
    async def follow(self, recording: asyncio.Task[None]) -> None:
        """Wait for the end and act on it."""
        # The worker may be cancelled, the recording only stopped.
        await asyncio.shield(recording)
        self._is_over = True
        is_cancelled = any(failure.kind == "cancelled" for failure in self._failures)
        if self._quits:
            self.app.exit()
        elif is_cancelled or (self._cancel.is_set() and len(self._paths) < len(self._requests)):
            self.dismiss(None)
        elif len(self._paths) >= min(len(self._requests), 2):
            for failure in self._failures:
                self.app.notify(clean(str(failure)), severity="warning", markup=False)
            self.dismiss(self._paths)
        else:
            self._notes += [str(failure) for failure in self._failures]
            self._show_keys("back")
            self._paint()

    async def _record(self) -> None:
        """Make the recordings, until one is cancelled or fails as the others would."""
        for index, request in enumerate(self._requests):
            self._index = index
            self._stages.clear()
            self._take_event(Stage(STAGES[0]))
            self._show_keys("cancel")
            outcome = await record(request, self._take_event, self._cancel)
            if outcome.path is not None:
                # Of several ranks all are opened, or those of number 0 compared.
                is_alone = len(self._requests) == 1
                self._paths.append(str(outcome.path if is_alone else outcome.traces[0]))
                self._recorded.append((request, outcome))
            elif outcome.failure is not None:
                self._failures.append(outcome.failure)
            if self._cancel.is_set() or (outcome.failure and outcome.failure.ends_all):
                return
        await self._time_in_turns()

    async def _time_in_turns(self) -> None:
        """Time the variants without the profiler, one beside the other; without success they keep their own times."""
        timed = [each for each in self._recorded if isinstance(each[1].metadata.get("unprofiled"), Mapping)]
        if len(timed) < 2:
            return
        self._stages.clear()
        self._is_timing = True
        outcomes = await time_variants([request for request, _ in timed], self._take_event, self._cancel)
        for (_, recorded), outcome in zip(timed, outcomes, strict=True):
            with suppress(OSError):
                keep_times(recorded, outcome)

    def action_cancel(self) -> None:
        """Stop the recording; after one that failed go back."""
        if self._is_over:
            self.dismiss(None)
        else:
            self._stop()

    async def action_quit(self) -> None:
        """Leave the app once the recording has stopped."""
        if self._is_over:
            self.app.exit()
        self._quits = True
        self._stop()

    def _stop(self) -> None:
        self._cancel.set()
        self._notes.append("Stopping …")
        self._paint()

    def _take_event(self, event: Event) -> None:
        match event:
            case Stage(name):
                self._stage, self._since, self._parts, self._log = name, time.monotonic(), "", ""
            case StageDone(name, seconds):
                self._stages.append((name, seconds))
            case Progress(_, done, total):
                self._parts = f"{done}/{total}"
            case Note(_, text) if text not in self._notes:
                self._notes.append(text)
            case LogLine(text):
                self._log = text

    def _paint(self) -> None:
        now = time.monotonic()
        if not self._is_over:
            elapsed = duration(1e9 * (now - self._began))
            title = (BarPart("recording "), BarPart(clean(self._what), "strong"), BarPart(f"  {elapsed}"))
            self.query_one("#what", Bar).parts = title
        lines = [f"  {name:<24}{duration(1e9 * seconds):>12}" for name, seconds in self._stages]
        if not self._stages or self._stages[-1][0] != self._stage:
            lines.append(f"▸ {self._stage:<24}{duration(1e9 * (now - self._since)):>12}  {self._parts}")
        self.query_one("#stages", Static).update(Text("\n".join(map(clean, lines))))
        self.query_one("#notes", Static).update(Text("\n".join(map(clean, self._notes[-4:]))))
        self.query_one("#log", Bar).parts = (BarPart(clean(self._log), "dim"),)

    def _show_keys(self, escape: str) -> None:
        known = (BarPart("esc", "key"), BarPart(f" {escape}   "), BarPart(str(keys.QUIT), "key"), BarPart(" quit"))
        name = Path(self._requests[self._index].out).name
        self.query_one("#keys", Bar).parts = (*known, BarPart(f"   {clean(name)}", "dim"))

    @property
    def _what(self) -> str:
        """The workload, and the number of the recording of how many."""
        request, count = self._requests[self._index], len(self._requests)
        if self._is_timing:
            return f"{request.workload} without the profiler, {count} variants in turns"
        return f"{request.workload} {request.variant} {self._index + 1}/{count}" if count > 1 else request.workload
