"""The parent process of a recording: it starts the child, receives its events, cancels it, and returns the outcome.

`record` is a coroutine for the app, `record_now` a blocking call for the command line. Neither leaves a process or a
partial file behind. torch is never imported here.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tracetui_workloads.api import BadRequest
from tracetui_workloads.recording import trace_file
from tracetui_workloads.recording.child import Listener, kill_all
from tracetui_workloads.recording.events import (
    STAGES,
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
from tracetui_workloads.recording.failures import Failure
from tracetui_workloads.recording.options import OPTIONS, Options
from tracetui_workloads.recording.planning import is_file_path, plan, plan_variants, variants_of
from tracetui_workloads.recording.process import STOP_GRACE_S, Outcome, record_process
from tracetui_workloads.recording.rank_launcher import record_ranks
from tracetui_workloads.recording.request import Request

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
    """Make one recording in a new child process, or in one for each rank; setting `cancel` stops it."""
    run = record_ranks if request.is_of_all_ranks else record_process
    return await run(
        request,
        on_event,
        cancel,
        python=python,
        timeout=timeout,
        grace_s=grace_s,
        environment=environment,
        ring=ring,
    )


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
    """The recording with times that were measured in turns, also in its traces; unchanged where there are none.

    Raises: OSError where a trace cannot be written again.
    """
    if outcome.ranks and len(outcome.ranks) == len(timed.ranks):
        ranks = [keep_times(mine, other) for mine, other in zip(outcome.ranks, timed.ranks, strict=True)]
        return replace(outcome, ranks=ranks, metadata=ranks[0].metadata)
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
