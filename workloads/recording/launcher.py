"""The parent process of a recording: it starts the child, receives its events, cancels it, and returns the outcome.

`record` is a coroutine for the app, `record_now` a blocking call for the command line. Neither leaves a process or a
partial file behind. torch is never imported here.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
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
    DeviceChosen,
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
    encode,
)
from workloads.recording.failures import Failure
from workloads.recording.options import OPTIONS, Options
from workloads.recording.planning import is_file_path, plan, plan_variants, variants_of
from workloads.recording.request import Request

__all__ = [
    "OPTIONS",
    "STAGES",
    "BadRequest",
    "DeviceChosen",
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
    "keep_times",
    "kill_all",
    "plan",
    "plan_variants",
    "record",
    "record_now",
    "time_now",
    "time_variants",
    "variants_of",
]

TIMEOUT = 900.0
"""Seconds after which a recording is stopped."""
STOP_GRACE_S = 3.0
"""Seconds between SIGINT, SIGTERM and the kill of a child that is being stopped."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a recording: a trace or a failure."""

    path: Path | None
    """The path of the trace; None where there is none."""
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


async def record(
    request: Request,
    on_event: Listener | None = None,
    cancel: asyncio.Event | None = None,
    *,
    python: str = sys.executable,
    timeout: float | None = TIMEOUT,
    grace_s: float = STOP_GRACE_S,
    environment: Mapping[str, str] | None = None,
    ring: Sequence[int] = (),
) -> Outcome:
    """Make one recording in a new child process; setting `cancel` stops it."""
    started = time.monotonic()
    state = _RecordingState(on_event, python)
    failure = None if request.bench else _destination_failure(Path(request.out))
    if failure:
        return state.outcome(failure, started)
    child = Child(request, state.handle, ring)
    try:
        await child.start(python, environment)
        stopped_by = await _wait_for_end(child, cancel or asyncio.Event(), timeout, grace_s)
    except OSError as error:
        return state.outcome(failures.no_python(python, error.strerror or str(error)), started)
    finally:
        # Also when this task itself is cancelled: the child must not outlive it.
        code = await asyncio.shield(child.end())
    outcome = state.outcome(state.failure(code, stopped_by, timeout, child.log), started, child.log)
    return replace(outcome, too_late=outcome.failure is None and stopped_by == "cancel")


async def time_variants(
    requests: Sequence[Request],
    on_event: Listener | None = None,
    cancel: asyncio.Event | None = None,
    *,
    python: str = sys.executable,
    timeout: float | None = TIMEOUT,
    environment: Mapping[str, str] | None = None,
) -> list[Outcome]:
    """Time steps without the profiler, several in turns; the metadata of an outcome has `unprofiled` and `load`.

    No trace is written. All processes are there at once, and one of them measures at a time.
    """
    session = trace_file.new_token() if len(requests) > 1 else ""
    requests = [replace(each, bench=True, session=session) for each in requests]
    more: dict[str, Any] = {"python": python, "timeout": timeout, "environment": environment}
    if len(requests) == 1:
        return [await record(requests[0], on_event, cancel, **more)]
    cancel = cancel or asyncio.Event()
    pipes = [os.pipe() for _ in requests]
    # The first process has the first turn.
    os.write(pipes[0][1], b".")
    rings = [(pipes[index][0], pipes[(index + 1) % len(pipes)][1]) for index in range(len(pipes))]
    return await asyncio.gather(
        *(record(each, on_event, cancel, ring=ring, **more) for each, ring in zip(requests, rings, strict=True))
    )


def time_now(requests: Sequence[Request], on_event: Listener | None = None, **more: Any) -> list[Outcome]:
    """Time steps and wait for it, as `time_variants`; ctrl+c cancels all of them. Main thread only."""
    return asyncio.run(_until_interrupted(lambda cancel: time_variants(requests, on_event, cancel, **more)))


def keep_times(outcome: Outcome, timed: Outcome) -> Outcome:
    """The recording with times that were measured in turns, also in its trace; unchanged where there are none.

    Raises: OSError where the trace cannot be written again.
    """
    times, old = timed.metadata.get("unprofiled"), outcome.metadata.get("unprofiled")
    if outcome.path is None or not isinstance(times, Mapping) or not isinstance(old, Mapping):
        return outcome
    metadata = {**outcome.metadata, "unprofiled": {**times, "profiled_us": old.get("profiled_us")}}
    trace_file.replace_text(outcome.path, encode(dict(outcome.metadata)).encode(), encode(metadata).encode())
    return replace(outcome, metadata=metadata)


def record_now(
    request: Request,
    on_event: Listener | None = None,
    *,
    python: str = sys.executable,
    timeout: float | None = TIMEOUT,
    environment: Mapping[str, str] | None = None,
) -> Outcome:
    """Make one recording and wait for it; ctrl+c, ctrl+\\ and a closed terminal cancel it. Main thread only."""

    async def alone(cancel: asyncio.Event) -> list[Outcome]:
        return [await record(request, on_event, cancel, python=python, timeout=timeout, environment=environment)]

    return asyncio.run(_until_interrupted(alone))[0]


async def _until_interrupted(run: Callable[[asyncio.Event], Awaitable[list[Outcome]]]) -> list[Outcome]:
    """Run something that signals cancel; the outcomes name the signal."""
    cancel = asyncio.Event()
    signals_received: list[int] = []

    def stop(number: int) -> None:
        signals_received.append(number)
        cancel.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        # A signal that is ignored, as under nohup, stays ignored.
        if signal.getsignal(number) is not signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(number, stop, number)
    outcomes = await run(cancel)
    return [
        replace(each, stopped_by=signals_received[0]) if signals_received and each.is_cancelled else each
        for each in outcomes
    ]


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
            return failures.cancelled(self._stage)
        if stopped_by == "timeout" and timeout is not None:
            return failures.timed_out(timeout, self._stage, log)
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


async def _wait_for_end(child: Child, cancel: asyncio.Event, timeout: float | None, grace_s: float) -> str:
    """Wait until the child ends, or stop it; returns `cancel`, `timeout`, or an empty text where it ended by itself."""
    ended, cancelled = asyncio.create_task(child.wait()), asyncio.create_task(cancel.wait())
    listener_failed = asyncio.create_task(child.listener_failed.wait())
    try:
        done, _ = await asyncio.wait(
            {ended, cancelled, listener_failed}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED
        )
        if done & {ended, listener_failed}:
            return ""
        await child.stop(grace_s)
        return "cancel" if cancelled in done else "timeout"
    finally:
        for task in (ended, cancelled, listener_failed):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


def _destination_failure(out: Path) -> Failure | None:
    """Why a trace cannot be written to a path, found out before minutes of compiling; None where it can.

    The folder is created later, when there is a file to write.
    """
    try:
        reason = trace_file.unwritable(out) or _unwritable_folder(out)
    except OSError as error:
        # Also when the current folder no longer exists.
        reason = error.strerror or str(error)
    if not reason:
        return None
    return Failure("destination", f"{out} cannot be written: {reason}.", "Choose another path with -o.")


def _unwritable_folder(out: Path) -> str:
    """Why no file can be created in the folder, or in the one in which it would be created; empty where one can.

    Raises: OSError where a name cannot be looked up.
    """
    folder = next(each for each in out.absolute().parents if each.exists())
    if not folder.is_dir():
        return f"{folder} is not a folder"
    return "" if os.access(folder, os.W_OK) else f"{folder} is not writable"
