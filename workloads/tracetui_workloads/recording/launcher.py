"""The parent of a recording: it starts the child, receives its events, stops it, and returns the outcome.

`record` is a coroutine for the app, `record_now` a blocking call for the command line. One recording is one child
process (see `recorder`); where several ranks record together, each has a child of its own. Neither a process nor a
partial file is left behind, however the recording ends. torch is never imported here.

The child's standard output and standard error are read here and only their end is kept, so that a program that prints
without end fills neither the disk nor the screen.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from tracetui_workloads.api import BadRequest
from tracetui_workloads.recording import trace_file
from tracetui_workloads.recording.child import HAS_SUPERVISOR, KILL_TIMEOUT_S
from tracetui_workloads.recording.planning import is_file_path, plan, plan_variants, variants_of
from tracetui_workloads.recording.protocol import (
    OPTIONS,
    STAGES,
    STARTING,
    DeviceChosen,
    Event,
    Failed,
    Failure,
    Heartbeat,
    Hello,
    LogLine,
    Note,
    Options,
    Outcome,
    Progress,
    Request,
    Result,
    Stage,
    StageDone,
    cancelled,
    encode,
    failure_of_exit_code,
    from_line,
    last_lines,
    of_rank,
    plain,
    ranks_timed_out,
    stage_phrase,
)

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

BOOTSTRAP = """\
import runpy, sys
sys.path.append(sys.argv.pop(1))
runpy.run_module(f"tracetui_workloads.{sys.argv.pop(1)}", run_name="__main__", alter_sys=True)
"""
"""The same as `python -m tracetui_workloads.recording.recorder`, or another module, with this package last on
`sys.path`: packages that are installed for that Python come first."""
PACKAGE_PARENT = Path(__file__).resolve().parents[2]
"""The folder that contains the package `tracetui_workloads`."""

TIMEOUT = 900.0
"""Seconds after which a recording is stopped."""
STOP_GRACE_S = 3.0
"""Seconds between SIGINT, SIGTERM and the kill of a child that is being stopped."""
MAX_LOG_BYTES = 1 << 16
"""Maximum bytes of the child's output that are kept."""
READ_BLOCK_BYTES = 1 << 16
"""Bytes that are read from a pipe at once."""
MAX_EVENT_BYTES = 1 << 20
"""Maximum bytes of the line of one event; of a longer line only the end is kept."""
PIPE_DRAIN_TIMEOUT_S = 2.0
"""Seconds to wait for the end of the pipes after the child has ended; a process outside its group may hold them."""
EXIT_KILL_TIMEOUT_S = 1.0
"""Seconds to wait for a killed recording when this process is about to exit."""
LOST_RANK_GRACE_S = 10.0
"""Seconds after a rank lost its connection in which the cause, the rank that ended first, may still be noticed."""

Listener = Callable[[Event], None]


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
    """Make one recording in a new child process, or in one for each rank; setting `cancel` stops it.

    `ring` are the ends of pipes for timing in turns; they are closed here.
    """
    run = _record_ranks if request.ranks else _record_process
    more: dict[str, Any] = {"python": python, "grace_s": grace_s, "environment": environment, "ring": ring}
    return await run(request, on_event, cancel or asyncio.Event(), timeout, **more)


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


async def time_variants(
    requests: Sequence[Request],
    on_event: Listener | None = None,
    cancel: asyncio.Event | None = None,
    **more: Any,
) -> list[Outcome]:
    """Time steps without the profiler, several in turns; the metadata of an outcome has `unprofiled` and `load`.

    No trace is written. All processes are there at once, and one of them measures at a time. `more` are further
    arguments of `record`.
    """
    session = trace_file.new_token() if len(requests) > 1 else ""
    requests = [replace(each, bench=True, session=session) for each in requests]
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


# One child process, from its start to its outcome.

_running: set[_Child] = set()
"""Children that were started and have not ended."""


def kill_all() -> None:
    """Kill every recording of this process and remove its partial files; called just before the process exits."""
    for child in tuple(_running):
        child.kill()


async def _record_process(
    request: Request,
    on_event: Listener | None,
    cancel: asyncio.Event,
    timeout: float | None,
    *,
    python: str,
    grace_s: float,
    environment: Mapping[str, str] | None,
    ring: Sequence[int] = (),
    give_up: asyncio.Event | None = None,
) -> Outcome:
    """Make one recording in a new child process; setting `cancel` stops it, and `give_up` kills it at once."""
    started = time.monotonic()
    failure = None if request.bench else trace_file.destination_failure(Path(request.out))
    if failure:
        return Outcome(None, failure)
    # The log of torch.compile, unless the user has it written elsewhere.
    log_folder = ""
    if request.options.compile and not (request.bench or "TORCH_TRACE" in os.environ):
        log_folder = tempfile.mkdtemp(prefix="tracetui-compile-")
        environment = {**(environment or {}), "TORCH_TRACE": log_folder}
    try:
        return await _record_child(
            request, on_event, cancel, timeout, started, log_folder, python, grace_s, environment, ring, give_up
        )
    finally:
        if log_folder:
            shutil.rmtree(log_folder, ignore_errors=True)


async def _record_child(
    request: Request,
    on_event: Listener | None,
    cancel: asyncio.Event,
    timeout: float | None,
    started: float,
    log_folder: str,
    python: str,
    grace_s: float,
    environment: Mapping[str, str] | None,
    ring: Sequence[int],
    give_up: asyncio.Event | None,
) -> Outcome:
    child = _Child(request, on_event, ring)
    try:
        await child.start(python, environment)
        stopped_by = await child.wait_or_stop(cancel, give_up or asyncio.Event(), timeout, grace_s)
    except OSError as error:
        message = f"{python} cannot be started: {error.strerror or error}."
        failure = Failure("usage", message, "Choose a Python with --python.")
        return Outcome(None, failure, seconds=time.monotonic() - started)
    finally:
        # Also when this task itself is cancelled: the child must not outlive it.
        code = await asyncio.shield(child.end())
    outcome = child.outcome(code, stopped_by, timeout, python)
    if log_folder and outcome.path:
        try:
            trace_file.keep_compile_log(Path(log_folder), outcome.path)
        except OSError as error:
            outcome = replace(outcome, notes=(*outcome.notes, f"The log of torch.compile was not kept: {error}."))
    return replace(outcome, seconds=time.monotonic() - started)


class _Child:
    """A recorder process and what it has reported so far; `end` must always be called."""

    def __init__(self, request: Request, on_event: Listener | None, ring: Sequence[int]) -> None:
        """`ring` are the ends of the pipes for timing in turns, which `start` closes here.

        Raises: FileNotFoundError where the path is relative and the current folder no longer exists.
        """
        self._request = request
        self._out = Path(request.out).absolute()
        self._token = trace_file.new_token()
        self._on_event = on_event
        self._ring = tuple(ring)
        self._listener_failed = asyncio.Event()
        """Set when a listener raised an error: events are no longer received."""
        self._parent_pipe = -1
        """The write end of the pipe whose hang-up ends the recording, or -1."""
        self._group = 0
        """The recorder's process group, 0 before the recorder has reported it."""
        self._process: asyncio.subprocess.Process | None = None
        self._log = bytearray()
        self._readers: list[asyncio.Task[None]] = []
        self._transports: list[asyncio.ReadTransport] = []
        self._stage = STARTING
        self._device = ""
        self._notes: list[str] = []
        self._result: Result | None = None
        self._failure: Failure | None = None

    async def start(self, python: str, environment: Mapping[str, str] | None) -> None:
        """Start the recorder.

        Raises: OSError when the Python cannot be started.
        """
        # The readers are set up before the process starts: nothing may fail between its start and `end`.
        ends: list[int] = list(self._ring)
        try:
            events = await self._listen(self._read_events)
            ends.append(events)
            output = await self._listen(self._read_log)
            ends.append(output)
            parent_pipe, self._parent_pipe = os.pipe()
            ends.append(parent_pipe)
            self._process = await asyncio.create_subprocess_exec(
                *command(python, (events, parent_pipe), self._token, self._request),
                *map(str, self._ring),
                pass_fds=(events, parent_pipe, *self._ring),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **(environment or {})},
            )
            _running.add(self)
        finally:
            for end in ends:
                os.close(end)

    async def wait_or_stop(
        self, cancel: asyncio.Event, give_up: asyncio.Event, timeout: float | None, grace_s: float
    ) -> str:
        """Wait until the child ends, or stop it.

        Returns `cancel`, `timeout`, `give up`, or an empty text where it ended by itself.
        """
        waits: tuple[Awaitable[Any], ...] = (
            self._exit_code(),
            self._listener_failed.wait(),
            cancel.wait(),
            give_up.wait(),
        )
        tasks = [asyncio.ensure_future(each) for each in waits]
        ended, listener_failed, was_cancelled, given_up = tasks
        try:
            done, _ = await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if done & {ended, listener_failed}:
                return ""
            if given_up in done:
                return "give up"
            stopped = asyncio.ensure_future(self._stop(grace_s))
            tasks.append(stopped)
            # `give_up` does not wait for what the child does about the signal.
            await asyncio.wait({stopped, given_up}, return_when=asyncio.FIRST_COMPLETED)
            return "cancel" if was_cancelled in done else "timeout"
        finally:
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    async def end(self) -> int:
        """Kill remaining processes, read the pipes to their end, remove partial files; returns the exit code."""
        await self._kill()
        code = await self._exit_code()
        # Otherwise torch's compile workers would outlive the recorder.
        self._kill_groups()
        _running.discard(self)
        if self._readers:
            await asyncio.wait(self._readers, timeout=PIPE_DRAIN_TIMEOUT_S)
        for transport in self._transports:
            transport.close()
        for reader in self._readers:
            if reader.done():
                # An error of a listener is raised to the caller.
                reader.result()
            reader.cancel()
        return code

    def kill(self) -> None:
        """Kill the child and its descendants at once, without the event loop."""
        self._close_parent_pipe()
        until = time.monotonic() + EXIT_KILL_TIMEOUT_S
        with suppress(ChildProcessError):
            # A process that was waited for is no child any more.
            while self._process and HAS_SUPERVISOR and time.monotonic() < until:
                if os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                    break
                time.sleep(0.005)
        self._kill_groups()

    def outcome(self, code: int, stopped_by: str, timeout: float | None, python: str) -> Outcome:
        """The outcome of a child that has ended with an exit code, negative for a signal.

        A cancel or time limit has priority over a failure that the child reported; but a trace that was complete
        before the child could be stopped counts.
        """
        log = self._log.decode(errors="replace")
        notes = tuple(self._notes)
        if self._result is not None and code == 0:
            path = Path(self._result.path) if self._result.path else None
            too_late, size = stopped_by == "cancel", self._result.bytes
            return Outcome(path, None, size, self._result.metadata, self._device, notes, log=log, too_late=too_late)
        while_stage = f"while {stage_phrase(self._stage)}"
        if stopped_by == "cancel":
            failure = cancelled(self._stage, self._failure.details if self._failure else "")
        elif stopped_by == "timeout":
            message = f"Stopped after {timeout:g} s, {while_stage}."
            failure = Failure("timeout", message, "Allow more with --timeout.", last_lines(log), self._stage)
        elif self._failure:
            failure = self._failure
        elif stopped_by == "give up":
            failure = Failure("rank", f"Stopped {while_stage}, because another rank failed.", stage=self._stage)
        elif not self._group and code > 0:
            tail = last_lines(log)
            reason = tail.splitlines()[-1] if tail else f"exit code {code}"
            message = f"{python} cannot run the recorder: {reason}."
            hint = "It must be Python 3.11 or later; choose one with --python."
            failure = Failure("missing:python", message, hint, tail)
        else:
            failure = failure_of_exit_code(code, self._stage, log)
        return Outcome(None, failure, device=self._device, notes=notes, log=log)

    async def _exit_code(self) -> int:
        """The exit code, once the child has ended."""
        return await self._process.wait() if self._process else 0

    async def _stop(self, grace_s: float) -> None:
        """Stop the child and wait for its end: SIGINT, after `grace_s` seconds SIGTERM, then a kill."""
        for number in (signal.SIGINT, signal.SIGTERM):
            self._signal(number)
            if await self._has_ended(grace_s):
                return
        await self._kill()

    async def _kill(self) -> None:
        """Kill the child and its descendants: through its supervisor, or without one by process group."""
        self._close_parent_pipe()
        if not await self._has_ended(KILL_TIMEOUT_S + 1 if HAS_SUPERVISOR else 0):
            self._signal(signal.SIGKILL)

    async def _has_ended(self, seconds: float) -> bool:
        """True where the child ends within a number of seconds."""
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(asyncio.ensure_future(self._exit_code())), seconds)
            return True
        return False

    def _close_parent_pipe(self) -> None:
        """Have the supervisor, by a hang-up, end the recording."""
        if self._parent_pipe >= 0:
            os.close(self._parent_pipe)
            self._parent_pipe = -1

    def _kill_groups(self) -> None:
        """Kill the process groups and remove partial files."""
        self._signal(signal.SIGKILL)
        if self._process:
            trace_file.remove_files(self._request, self._out, self._token)

    def _signal(self, number: signal.Signals) -> None:
        """Send a signal to the supervisor, which passes it on, and SIGKILL to the recorder's process group as well."""
        groups = {self._process.pid} if self._process else set()
        if number == signal.SIGKILL and self._group:
            groups.add(self._group)
        for group in groups:
            # The group has ended, or holds only a zombie.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(group, number)

    async def _listen(self, read: Callable[[asyncio.StreamReader], Coroutine[Any, Any, None]]) -> int:
        """Open a pipe and start to read it until its end; returns the write end."""
        read_end, write_end = os.pipe()
        reader = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read_end, "rb", buffering=0)
        )
        self._transports.append(transport)
        task = asyncio.create_task(read(reader))
        task.add_done_callback(self._check_reader)
        self._readers.append(task)
        return write_end

    def _check_reader(self, reader: asyncio.Task[None]) -> None:
        if not reader.cancelled() and reader.exception():
            self._listener_failed.set()

    async def _read_events(self, reader: asyncio.StreamReader) -> None:
        rest = b""
        while block := await reader.read(READ_BLOCK_BYTES):
            *lines, rest = (rest + block).split(b"\n")
            rest = rest[-MAX_EVENT_BYTES:]
            for line in lines:
                if event := from_line(line):
                    self._receive(event)

    async def _read_log(self, reader: asyncio.StreamReader) -> None:
        while block := await reader.read(READ_BLOCK_BYTES):
            self._log += block
            del self._log[:-MAX_LOG_BYTES]
            lines = self._log.decode(errors="replace").splitlines()
            if lines and lines[-1].strip():
                self._receive(LogLine(plain(lines[-1][-2000:])[-500:]))

    def _receive(self, event: Event) -> None:
        """Keep what an event says of the recording, and pass it on to the listener."""
        match event:
            case Hello(pid) if not self._group:
                self._group = pid
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


def command(python: str, pipes: Sequence[int], token: str, request: Request) -> Sequence[str]:
    """The child's command line; `-P` keeps files in the current folder from hiding modules of the same name."""
    module = "verifying.verifier" if request.operators else "recording.recorder"
    return (python, "-P", "-c", BOOTSTRAP, str(PACKAGE_PARENT), module, *map(str, pipes), token, request.as_json())


# A recording by several ranks: a child process for each, all or none of their traces, in one folder.
#
# The traces are written to a folder with the name of a partial file, which gets its own name once every rank has
# succeeded. Where one rank fails the others are killed, and its failure is that of the recording.


async def _record_ranks(
    request: Request,
    on_event: Listener | None,
    cancel: asyncio.Event,
    timeout: float | None,
    *,
    ring: Sequence[int],
    **more: Any,
) -> Outcome:
    """Make one recording with a child process for each rank; the outcome has the folder, and the outcome of each rank.

    `more` are further arguments of `_record_process`, the same for all. The listener hears all that rank 0 reports, and
    of the others new notes and their output. Only rank 0 has the `ring` for timing in turns: the others follow it.
    """
    started = time.monotonic()
    out = Path(request.out)
    failure = None if request.bench else trace_file.destination_failure(out, request.replace, is_folder=True)
    if failure:
        return Outcome(None, failure)
    folder = out.with_name(f"{out.name}.{trace_file.new_token()}.part")
    meeting = Path(tempfile.mkdtemp(prefix="tracetui-ranks-"))
    run = _RankRun(request, folder, meeting / "store", on_event)
    try:
        await run.until_end(cancel, timeout, ring, more)
        outcome = run.outcome(timeout)
        if outcome.failure is None and not request.bench:
            try:
                path = trace_file.move_folder(folder, out, request.replace)
            except OSError as error:
                message = f"{out} cannot be written: {error.strerror or error}."
                failure = Failure("destination", message, trace_file.FOLDER_HINT)
                outcome = Outcome(None, failure, device=outcome.device, notes=outcome.notes, log=outcome.log)
            else:
                ranks = [replace(each, path=path / each.path.name) for each in outcome.ranks if each.path]
                outcome = replace(outcome, path=path, ranks=ranks)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(meeting, ignore_errors=True)
    return replace(outcome, seconds=time.monotonic() - started)


class _RankRun:
    """The ranks of one recording while their processes run."""

    def __init__(self, request: Request, folder: Path, store: Path, on_event: Listener | None) -> None:
        self._requests = [
            replace(request, rank=rank, rendezvous=str(store), out=str(folder / f"rank{rank}.json.gz"))
            for rank in range(request.ranks)
        ]
        self._on_event = on_event
        self._notes: set[str] = set()
        self._give_up = asyncio.Event()
        self._stopped_by = ""
        """Reason why the ranks were asked to stop: `cancel`, `timeout`, or an empty text."""
        self._ended: dict[int, Outcome] = {}
        """The outcome of each rank, in the order in which they ended."""

    async def until_end(
        self, cancel: asyncio.Event, timeout: float | None, ring: Sequence[int], more: dict[str, Any]
    ) -> None:
        """Run all ranks until the last has ended; whatever is raised, none is left."""
        stop = asyncio.Event()
        ranks = [
            asyncio.create_task(self._follow(request, stop, ring if request.rank == 0 else (), more))
            for request in self._requests
        ]
        watch = asyncio.create_task(self._watch(cancel, timeout, stop))
        try:
            await asyncio.gather(*ranks)
        finally:
            for task in (*ranks, watch):
                task.cancel()
            await asyncio.wait((*ranks, watch))

    async def _watch(self, cancel: asyncio.Event, timeout: float | None, stop: asyncio.Event) -> None:
        """Ask all ranks to stop, once that is wanted or the time is over."""
        try:
            await asyncio.wait_for(cancel.wait(), timeout)
            self._stopped_by = "cancel"
        except TimeoutError:
            self._stopped_by = "timeout"
        stop.set()

    async def _follow(self, request: Request, stop: asyncio.Event, ring: Sequence[int], more: dict[str, Any]) -> None:
        """Run one rank; after its failure no other is needed."""
        rank = request.rank

        def receive(event: Event) -> None:
            # Rank 0 reports for all; of the others only their output and new notes are passed on.
            if isinstance(event, Note):
                if event.text in self._notes:
                    return
                self._notes.add(event.text)
            if self._on_event and (rank == 0 or isinstance(event, Note | LogLine)):
                self._on_event(event)

        outcome = await _record_process(request, receive, stop, None, ring=ring, give_up=self._give_up, **more)
        self._ended[rank] = outcome
        if outcome.failure is None:
            return
        if outcome.failure.kind == "rank":
            # The rank that ended first is the cause, and may be noticed only now.
            asyncio.get_running_loop().call_later(LOST_RANK_GRACE_S, self._give_up.set)
        else:
            self._give_up.set()

    def outcome(self, timeout: float | None) -> Outcome:
        """The outcome of all: that of rank 0 with the files of every rank, or the failure that came first."""
        ranks = [self._ended[rank] for rank in range(len(self._requests))]
        notes = tuple(dict.fromkeys(note for each in ranks for note in each.notes))
        failed = {rank: each.failure for rank, each in self._ended.items() if each.failure}
        if not failed:
            size, too_late = sum(each.bytes for each in ranks), self._stopped_by == "cancel"
            return replace(ranks[0], ranks=ranks, bytes=size, notes=notes, too_late=too_late)
        log = "\n".join(each.log for each in ranks if each.log)
        # The failure of a rank that did not fail because of another.
        rank = next((rank for rank, each in failed.items() if each.kind != "rank"), next(iter(failed)))
        if self._stopped_by == "timeout" and timeout is not None and failed[rank].kind == "cancelled":
            failure = ranks_timed_out(timeout, dict(sorted(failed.items())), log)
        else:
            failure = of_rank(failed[rank], rank, len(self._requests))
        return Outcome(None, failure, device=ranks[0].device, notes=notes, log=log)
