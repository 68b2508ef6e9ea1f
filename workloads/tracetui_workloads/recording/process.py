"""One process of a recording, from its start to its outcome, and how it is stopped; torch is never imported here."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tracetui_workloads.recording import failures, trace_file
from tracetui_workloads.recording.child import Child, Listener
from tracetui_workloads.recording.events import STARTING, DeviceChosen, Event, Failed, Hello, Note, Result, Stage
from tracetui_workloads.recording.failures import Failure
from tracetui_workloads.recording.request import Request

STOP_GRACE_S = 3.0
"""Seconds between SIGINT, SIGTERM and the kill of a child that is being stopped."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a recording: a trace or a failure."""

    path: Path | None
    """The path of the trace, or of the folder with those of all ranks; None where there is none."""
    failure: Failure | None
    bytes: int = 0
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """The metadata of the recording, which the trace has under the key `tracetui`."""
    device: str = ""
    """The device, for example `cpu`; empty where the recording ended before it was chosen."""
    notes: Sequence[str] = ()
    seconds: float = 0.0
    log: str = ""
    """The end of the child's output."""
    too_late: bool = False
    """Whether the recording was cancelled after the trace had been written."""
    stopped_by: int = 0
    """The signal that cancelled the recording, 0 for none."""
    ranks: Sequence[Outcome] = ()
    """The outcome of each rank, in order; empty for one process without a rank."""

    @property
    def traces(self) -> Sequence[Path]:
        """The traces: one, or that of each rank, in order; none after a failure."""
        return [each.path for each in self.ranks or (self,) if each.path is not None]

    @property
    def is_cancelled(self) -> bool:
        """Whether the recording was cancelled, also where that was too late."""
        return self.too_late or (self.failure is not None and self.failure.kind == "cancelled")

    @property
    def exit_code(self) -> int:
        """The exit code of `tracetui run`; after a signal 128 plus its number, as in shells."""
        if self.failure and self.failure.kind == "cancelled" and self.stopped_by:
            return 128 + self.stopped_by
        return self.failure.exit_code if self.failure else 0


async def record_process(
    request: Request,
    on_event: Listener | None = None,
    cancel: asyncio.Event | None = None,
    *,
    python: str = sys.executable,
    timeout: float | None = None,
    grace_s: float = STOP_GRACE_S,
    environment: Mapping[str, str] | None = None,
    ring: Sequence[int] = (),
    give_up: asyncio.Event | None = None,
) -> Outcome:
    """Make one recording in a new child process; setting `cancel` stops it, and `give_up` kills it at once."""
    started = time.monotonic()
    state = _RecordingState(on_event, python)
    failure = None if request.bench else _destination_failure(Path(request.out))
    if failure:
        return state.outcome(failure, started)
    child = Child(request, state.handle, ring)
    try:
        await child.start(python, environment)
        stopped_by = await _wait_for_end(child, cancel or asyncio.Event(), give_up or asyncio.Event(), timeout, grace_s)
    except OSError as error:
        return state.outcome(failures.no_python(python, error.strerror or str(error)), started)
    finally:
        # Also when this task itself is cancelled: the child must not outlive it.
        code = await asyncio.shield(child.end())
    outcome = state.outcome(state.failure(code, stopped_by, timeout, child.log), started, child.log)
    return replace(outcome, too_late=outcome.failure is None and stopped_by == "cancel")


class _RecordingState:
    """The state of a recording according to the events received so far."""

    def __init__(self, on_event: Listener | None, python: str) -> None:
        self._on_event = on_event
        self._python = python
        self._is_running = False
        self._stage = STARTING
        self._device = ""
        self._notes: list[str] = []
        self._result: Result | None = None
        self._failure: Failure | None = None

    def handle(self, event: Event) -> None:
        """Update the state and pass the event on to the listener."""
        match event:
            case Hello():
                self._is_running = True
            case Stage(name):
                self._stage = name
            case DeviceChosen(device):
                self._device = device
            case Note(_, text):
                self._notes.append(text)
            case Result():
                self._result = event
            case Failed(failure):
                self._failure = failure
        if self._on_event:
            self._on_event(event)

    def failure(self, code: int, stopped_by: str, timeout: float | None, log: str) -> Failure | None:
        """Why there is no trace, or None where there is one.

        A cancel or time limit has priority over a failure that the child reported; but a trace that was complete
        before the child could be stopped counts.
        """
        if self._result is not None and code == 0:
            return None
        if stopped_by == "cancel":
            return failures.cancelled(self._stage, self._failure.details if self._failure else "")
        if stopped_by == "timeout" and timeout is not None:
            return failures.timed_out(timeout, self._stage, log)
        if stopped_by == "give up":
            return self._failure or failures.given_up(self._stage)
        if not self._is_running and code > 0:
            return failures.not_started(self._python, code, log)
        return self._failure or failures.failure_of_exit_code(code, self._stage, log)

    def outcome(self, failure: Failure | None, started: float, log: str = "") -> Outcome:
        """The outcome of the recording."""
        result = self._result if failure is None else None
        return Outcome(
            path=Path(result.path) if result and result.path else None,
            failure=failure,
            bytes=result.bytes if result else 0,
            metadata=result.metadata if result else {},
            device=self._device,
            notes=tuple(self._notes),
            seconds=time.monotonic() - started,
            log=log,
        )


async def _wait_for_end(
    child: Child, cancel: asyncio.Event, give_up: asyncio.Event, timeout: float | None, grace_s: float
) -> str:
    """Wait until the child ends, or stop it; returns `cancel`, `timeout`, `give up`, or an empty text where it ended
    by itself."""
    waits: tuple[Awaitable[Any], ...] = (child.wait(), child.listener_failed.wait(), cancel.wait(), give_up.wait())
    tasks = [asyncio.ensure_future(each) for each in waits]
    ended, listener_failed, cancelled, given_up = tasks
    try:
        done, _ = await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if done & {ended, listener_failed}:
            return ""
        if given_up in done:
            return "give up"
        stopped = asyncio.ensure_future(child.stop(grace_s))
        tasks.append(stopped)
        # Whoever gives up does not wait for what the child does about the signal.
        await asyncio.wait({stopped, given_up}, return_when=asyncio.FIRST_COMPLETED)
        return "cancel" if cancelled in done else "timeout"
    finally:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


def _destination_failure(out: Path) -> Failure | None:
    """Why a trace cannot be written to a path, found out before minutes of compiling; None where it can.

    The folder is created later, when there is a file to write.
    """
    try:
        reason = trace_file.unwritable(out) or trace_file.unwritable_folder(out)
    except OSError as error:
        # Also when the current folder no longer exists.
        reason = error.strerror or str(error)
    if not reason:
        return None
    return Failure("destination", f"{out} cannot be written: {reason}.", "Choose another path with -o.")
