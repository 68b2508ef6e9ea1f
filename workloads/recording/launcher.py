"""Recording from the outside: start the child, follow it, cancel it, and say what became of it.

`record` is a coroutine for the app, `record_now` a plain call for the command line. Whatever happens, no process and
no partial file is left behind. torch is never imported here.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from workloads.api import BadRequest
from workloads.recording import failures, trace_file
from workloads.recording.child import Child, Listener, kill_all
from workloads.recording.events import (
    STAGES,
    STARTING,
    Device,
    Event,
    Failed,
    Heartbeat,
    Hello,
    LogLine,
    Note,
    Progress,
    Result,
    Stage,
    StageDone,
)
from workloads.recording.failures import Failure
from workloads.recording.options import OPTIONS, Options
from workloads.recording.planning import is_file_path, plan, plan_variants, variants_of
from workloads.recording.request import Request

__all__ = [
    "OPTIONS",
    "STAGES",
    "BadRequest",
    "Device",
    "Event",
    "Failed",
    "Failure",
    "Heartbeat",
    "Hello",
    "LogLine",
    "Note",
    "Options",
    "Outcome",
    "Progress",
    "Request",
    "Result",
    "Stage",
    "StageDone",
    "is_file_path",
    "kill_all",
    "plan",
    "plan_variants",
    "record",
    "record_now",
    "variants_of",
]

TIMEOUT = 900.0
"""Seconds after which a recording is stopped."""
GRACE = 3.0
"""Seconds between asking a child to stop and asking more firmly."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a recording: a trace, or a failure."""

    path: Path | None
    """The trace; None when there is none."""
    failure: Failure | None
    bytes: int = 0
    about: Mapping[str, Any] = field(default_factory=dict)
    """What the trace says of itself under `tracetui`."""
    device: str = ""
    """What it ran on, for example `cpu`; empty where it did not come so far."""
    notes: Sequence[str] = ()
    seconds: float = 0.0
    log: str = ""
    """The end of what the child printed."""
    too_late: bool = False
    """Whether it was cancelled when the trace was in its place already."""
    stopped_by: int = 0
    """The signal that cancelled it, 0 for none."""

    @property
    def is_cancelled(self) -> bool:
        """Whether it was stopped on request, also where that came too late."""
        return self.too_late or (self.failure is not None and self.failure.kind == "cancelled")

    @property
    def exit_code(self) -> int:
        """The exit code of `tracetui run`; after a signal the one that shells have for it."""
        if self.failure and self.failure.kind == "cancelled" and self.stopped_by:
            return 128 + self.stopped_by
        return self.failure.exit_code if self.failure else 0


async def record(
    request: Request,
    on_event: Listener | None = None,
    cancel: asyncio.Event | None = None,
    *,
    python: str = sys.executable,
    timeout: float | None = TIMEOUT,
    grace: float = GRACE,
    environment: Mapping[str, str] | None = None,
) -> Outcome:
    """Make one recording in a child of its own; setting `cancel` stops it."""
    started = time.monotonic()
    story = _Story(on_event, python)
    failure = _destination(Path(request.out))
    if failure:
        return story.outcome(failure, started)
    child = Child(request, story.hear)
    try:
        await child.start(python, environment)
        stopped_by = await _follow(child, cancel or asyncio.Event(), timeout, grace)
    except OSError as error:
        return story.outcome(failures.no_python(python, error.strerror or str(error)), started)
    finally:
        # Also when this task is cancelled itself: the child must not outlive it.
        code = await asyncio.shield(child.end())
    outcome = story.outcome(story.failure(code, stopped_by, timeout, child.log), started, child.log)
    return replace(outcome, too_late=outcome.failure is None and stopped_by == "cancel")


def record_now(
    request: Request,
    on_event: Listener | None = None,
    *,
    python: str = sys.executable,
    timeout: float | None = TIMEOUT,
    environment: Mapping[str, str] | None = None,
) -> Outcome:
    """Make one recording and wait for it; ctrl+c, ctrl+\\ and a closed terminal cancel it. For the main thread only."""

    async def until_interrupted() -> Outcome:
        cancel = asyncio.Event()
        asked_by: list[int] = []

        def stop(number: int) -> None:
            asked_by.append(number)
            cancel.set()

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            # What is ignored, as under nohup, stays ignored.
            if signal.getsignal(number) is not signal.SIG_IGN:
                asyncio.get_running_loop().add_signal_handler(number, stop, number)
        outcome = await record(request, on_event, cancel, python=python, timeout=timeout, environment=environment)
        return replace(outcome, stopped_by=asked_by[0]) if asked_by and outcome.is_cancelled else outcome

    return asyncio.run(until_interrupted())


class _Story:
    """What was heard of a recording so far."""

    def __init__(self, on_event: Listener | None, python: str) -> None:
        self._on_event = on_event
        self._python = python
        self._is_running = False
        self._stage = STARTING
        self._device = ""
        self._notes: list[str] = []
        self._result: Result | None = None
        self._failure: Failure | None = None

    def hear(self, event: Event) -> None:
        """Take an event in and hand it on."""
        match event:
            case Hello():
                self._is_running = True
            case Stage(name):
                self._stage = name
            case Device(device):
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
        """Why there is no trace, or None when there is one.

        What the user asked for outranks what the child managed to say; but a trace that was complete before the
        child could be stopped is one.
        """
        if self._result is not None and code == 0:
            return None
        if stopped_by == "cancel":
            return failures.cancelled(self._stage)
        if stopped_by == "timeout" and timeout is not None:
            return failures.timed_out(timeout, self._stage, log)
        if not self._is_running and code > 0:
            return failures.not_started(self._python, code, log)
        return self._failure or failures.of_exit(code, self._stage, log)

    def outcome(self, failure: Failure | None, started: float, log: str = "") -> Outcome:
        """The whole story."""
        result = self._result if failure is None else None
        return Outcome(
            path=Path(result.path) if result else None,
            failure=failure,
            bytes=result.bytes if result else 0,
            about=result.about if result else {},
            device=self._device,
            notes=tuple(self._notes),
            seconds=time.monotonic() - started,
            log=log,
        )


async def _follow(child: Child, cancel: asyncio.Event, timeout: float | None, grace: float) -> str:
    """Wait until the child ends, or until it must be stopped; returns `cancel`, `timeout` or nothing."""
    ended, asked = asyncio.create_task(child.wait()), asyncio.create_task(cancel.wait())
    deaf = asyncio.create_task(child.deaf.wait())
    try:
        done, _ = await asyncio.wait({ended, asked, deaf}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if done & {ended, deaf}:
            return ""
        await child.stop(grace)
        return "cancel" if asked in done else "timeout"
    finally:
        for task in (ended, asked, deaf):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


def _destination(out: Path) -> Failure | None:
    """Why a trace could not be written there, now and not after a minute of compiling; None when it could.

    The folder is made when there is something to put into it.
    """
    try:
        reason = trace_file.unwritable(out) or _unwritable_folder(out)
    except OSError as error:
        # Also when the current folder is gone.
        reason = error.strerror or str(error)
    if not reason:
        return None
    return Failure("destination", f"{out} cannot be written: {reason}.", "Name another place with -o.")


def _unwritable_folder(out: Path) -> str:
    """Why nothing may be put into the folder, or into the one in which it would be made; empty when it may.

    Raises: OSError where a name cannot be looked up.
    """
    folder = next(each for each in out.absolute().parents if each.exists())
    if not folder.is_dir():
        return f"{folder} is no folder"
    return "" if os.access(folder, os.W_OK) else f"{folder} may not be written to"
