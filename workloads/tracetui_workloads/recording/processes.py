"""The child process of a recording, as its parent controls it: start, events, output, stop and kill.

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
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tracetui_workloads.recording import protocol, supervisor, trace_file
from tracetui_workloads.recording.protocol import (
    STARTING,
    DeviceChosen,
    Event,
    Failed,
    Failure,
    Hello,
    LogLine,
    Note,
    Request,
    Result,
    Stage,
    from_line,
    plain,
)
from tracetui_workloads.recording.trace_file import new_token

BOOTSTRAP = """\
import runpy, sys
sys.path.append(sys.argv.pop(1))
runpy.run_module("tracetui_workloads.recording.recorder", run_name="__main__", alter_sys=True)
"""
"""The same as `python -m tracetui_workloads.recording.recorder`, with this package last on `sys.path`: packages
that are installed for that Python come first."""

PACKAGE_PARENT = Path(__file__).resolve().parents[2]
"""The folder that contains the package `tracetui_workloads`."""

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

Listener = Callable[[Event], None]

_running: set[Child] = set()
"""Children that were started and have not ended."""


def kill_all() -> None:
    """Kill every recording of this process and remove its partial files; called just before the process exits."""
    for child in tuple(_running):
        child.kill()


class Child:
    """A running recorder process; `end` must always be called."""

    def __init__(self, request: Request, on_event: Listener, ring: Sequence[int] = ()) -> None:
        """`ring` are the ends of the pipes for timing in turns, which `start` closes here.

        Raises: FileNotFoundError where the path is relative and the current folder no longer exists.
        """
        self._ring = tuple(ring)
        self.listener_failed = asyncio.Event()
        """Set when a listener raised an error: events are no longer received."""
        self._request = request
        self._out = Path(request.out).absolute()
        self._token = trace_file.new_token()
        self._parent_pipe = -1
        """The write end of the pipe whose hang-up ends the recording, or -1."""
        self._group = 0
        """The recorder's process group, 0 before the recorder has reported it."""
        self._on_event = on_event
        self._process: asyncio.subprocess.Process | None = None
        self._log = bytearray()
        self._readers: list[asyncio.Task[None]] = []
        self._transports: list[asyncio.ReadTransport] = []

    async def start(self, python: str, environment: Mapping[str, str] | None = None) -> None:
        """Start the recorder.

        Raises: OSError when the Python cannot be started.
        """
        # The readers are set up before the process starts: nothing may fail between its start and `end`.
        ends: list[int] = list(self._ring)
        try:
            ends.append(await self._listen(self._read_events))
            ends.append(await self._listen(self._read_log))
            parent_pipe, self._parent_pipe = os.pipe()
            ends.append(parent_pipe)
            events, output = ends[len(self._ring) : len(self._ring) + 2]
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

    @property
    def log(self) -> str:
        """The end of the child's output."""
        return self._log.decode(errors="replace")

    async def wait(self) -> int:
        """Wait until the child ends; returns its exit code, negative for a signal."""
        return await self._process.wait() if self._process else 0

    async def stop(self, grace_s: float) -> None:
        """Stop the child and wait for its end: SIGINT, after `grace_s` seconds SIGTERM, then a kill."""
        for number in (signal.SIGINT, signal.SIGTERM):
            self._signal(number)
            if await self._has_ended(grace_s):
                return
        await self._kill()

    def kill(self) -> None:
        """Kill the child and its descendants at once."""
        self._close_parent_pipe()
        until = time.monotonic() + EXIT_KILL_TIMEOUT_S
        while self._process and supervisor.IS_SUPPORTED and _is_alive(self._process.pid) and time.monotonic() < until:
            time.sleep(0.005)
        self._kill_groups()

    async def end(self) -> int:
        """Kill remaining processes, read the pipes to their end, remove partial files; returns the exit code."""
        await self._kill()
        code = await self.wait()
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

    async def _kill(self) -> None:
        """Kill the child and its descendants: through its supervisor, or without one by process group."""
        self._close_parent_pipe()
        if not await self._has_ended(supervisor.KILL_TIMEOUT_S + 1 if supervisor.IS_SUPPORTED else 0):
            self._signal(signal.SIGKILL)

    async def _has_ended(self, seconds: float) -> bool:
        """Whether the child ends within a number of seconds."""
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(asyncio.ensure_future(self.wait())), seconds)
            return True
        return False

    def _close_parent_pipe(self) -> None:
        """Tell the supervisor, by a hang-up, to end the recording."""
        if self._parent_pipe >= 0:
            os.close(self._parent_pipe)
            self._parent_pipe = -1

    def _kill_groups(self) -> None:
        """Kill the process groups and remove partial files."""
        self._signal(signal.SIGKILL)
        if self._process:
            trace_file.remove_files(self._request, self._out, self._token)

    async def _listen(self, read: Callable[[asyncio.StreamReader], Coroutine[Any, Any, None]]) -> int:
        """Open a pipe and start to read it until its end; returns the write end."""
        read_end, write_end = os.pipe()
        reader = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read_end, "rb", buffering=0)
        )
        self._transports.append(transport)
        task = asyncio.create_task(read(reader))
        task.add_done_callback(self._note_error)
        self._readers.append(task)
        return write_end

    def _note_error(self, reader: asyncio.Task[None]) -> None:
        if not reader.cancelled() and reader.exception():
            self.listener_failed.set()

    async def _read_events(self, reader: asyncio.StreamReader) -> None:
        rest = b""
        while block := await reader.read(READ_BLOCK_BYTES):
            *lines, rest = (rest + block).split(b"\n")
            rest = rest[-MAX_EVENT_BYTES:]
            for line in lines:
                if event := from_line(line):
                    if isinstance(event, Hello) and not self._group:
                        self._group = event.pid
                    self._on_event(event)

    async def _read_log(self, reader: asyncio.StreamReader) -> None:
        while block := await reader.read(READ_BLOCK_BYTES):
            self._log += block
            del self._log[:-MAX_LOG_BYTES]
            lines = self.log.splitlines()
            if lines and lines[-1].strip():
                self._on_event(LogLine(plain(lines[-1][-2000:])[-500:]))

    def _signal(self, number: signal.Signals) -> None:
        """Send a signal to the supervisor, which passes it on, and SIGKILL to the recorder's process group as well."""
        groups = {self._process.pid} if self._process else set()
        if number == signal.SIGKILL and self._group:
            groups.add(self._group)
        for group in groups:
            # The group has ended, or holds only a zombie.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(group, number)


def command(python: str, pipes: Sequence[int], token: str, request: Request) -> Sequence[str]:
    """The child's command line; `-P` keeps files in the current folder from hiding modules of the same name."""
    return (python, "-P", "-c", BOOTSTRAP, str(PACKAGE_PARENT), *map(str, pipes), token, request.as_json())


def _is_alive(pid: int) -> bool:
    """Whether a child process has not ended; one that was waited for has ended."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ChildProcessError:
        return False


# One process of a recording, from its start to its outcome, and how it is stopped; torch is never imported here.

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
        return state.outcome(protocol.no_python(python, error.strerror or str(error)), started)
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
            return protocol.cancelled(self._stage, self._failure.details if self._failure else "")
        if stopped_by == "timeout" and timeout is not None:
            return protocol.timed_out(timeout, self._stage, log)
        if stopped_by == "give up":
            return self._failure or protocol.given_up(self._stage)
        if not self._is_running and code > 0:
            return protocol.not_started(self._python, code, log)
        return self._failure or protocol.failure_of_exit_code(code, self._stage, log)

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


# A recording by several ranks: a child process for each, all or none of their traces, in one folder.
#
# The traces are written to a folder with the name of a partial file, which gets its own name once every rank has
# succeeded. Where one rank fails the others are killed, and its failure is that of the recording.

LOST_PATIENCE_S = 10.0
"""Seconds after a rank lost its connection in which the rank that ended is waited for, to be told why it did."""


async def record_ranks(
    request: Request,
    on_event: Listener | None = None,
    cancel: asyncio.Event | None = None,
    *,
    timeout: float | None = None,
    ring: Sequence[int] = (),
    **more: Any,
) -> Outcome:
    """Make one recording with a child process for each rank; the outcome has the folder, and the outcome of each rank.

    `more` are further arguments of `record_process`, the same for all. The listener hears what rank 0 reports, and of
    the others what is new. Only rank 0 has the `ring` for timing in turns: the others follow it.
    """
    started = time.monotonic()
    out = Path(request.out)
    failure = None if request.bench else trace_file.destination_failure(out, request.replace)
    if failure:
        return Outcome(None, failure)
    folder = trace_file.part_folder(out, new_token())
    meeting = Path(tempfile.mkdtemp(prefix="tracetui-ranks-"))
    run = _RankRun(request, folder, meeting / "store", on_event)
    try:
        await run.until_end(cancel or asyncio.Event(), timeout, ring, more)
        outcome = run.outcome(timeout)
        if outcome.failure is None and not request.bench:
            outcome = _moved(outcome, folder, out, request.replace)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(meeting, ignore_errors=True)
    return replace(outcome, seconds=time.monotonic() - started)


class _RankRun:
    """The ranks of one recording while their processes run."""

    def __init__(self, request: Request, folder: Path, store: Path, on_event: Listener | None) -> None:
        self._requests = [
            replace(request, rank=rank, rendezvous=str(store), out=str(folder / trace_file.file_name(rank)))
            for rank in range(request.ranks)
        ]
        self._on_event = on_event
        self._notes: set[str] = set()
        self._give_up = asyncio.Event()
        self._stopped_by = ""
        """Why the ranks were asked to stop: `cancel`, `timeout`, or an empty text."""
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
        outcome = await record_process(
            request, lambda event: self._hear(rank, event), stop, ring=ring, give_up=self._give_up, **more
        )
        self._ended[rank] = outcome
        if outcome.failure is None:
            return
        if outcome.failure.kind == "rank":
            # The rank that ended first is the cause, and may be noticed only now.
            asyncio.get_running_loop().call_later(LOST_PATIENCE_S, self._give_up.set)
        else:
            self._give_up.set()

    def _hear(self, rank: int, event: Event) -> None:
        """Pass on what rank 0 reports, and what others print or remark."""
        if isinstance(event, Note):
            if event.text in self._notes:
                return
            self._notes.add(event.text)
        if self._on_event and (rank == 0 or isinstance(event, Note | LogLine)):
            self._on_event(event)

    def outcome(self, timeout: float | None) -> Outcome:
        """The outcome of all: that of rank 0 with the files of every rank, or the failure that came first."""
        ranks = [self._ended[rank] for rank in range(len(self._requests))]
        notes = tuple(dict.fromkeys(note for each in ranks for note in each.notes))
        failed = {rank: each.failure for rank, each in self._ended.items() if each.failure}
        if not failed:
            size, too_late = sum(each.bytes for each in ranks), self._stopped_by == "cancel"
            return replace(ranks[0], ranks=ranks, bytes=size, notes=notes, too_late=too_late)
        log = "\n".join(each.log for each in ranks if each.log)
        return Outcome(None, self._failure(failed, timeout, log), device=ranks[0].device, notes=notes, log=log)

    def _failure(self, failed: dict[int, Failure], timeout: float | None, log: str) -> Failure:
        """The failure of the recording: that of the rank which did not fail because of another."""
        rank = next((rank for rank, each in failed.items() if each.kind != "rank"), next(iter(failed)))
        failure = failed[rank]
        if self._stopped_by == "timeout" and timeout is not None and failure.kind == "cancelled":
            return protocol.ranks_timed_out(timeout, dict(sorted(failed.items())), log)
        return protocol.of_rank(failure, rank, len(self._requests))


def _moved(outcome: Outcome, part: Path, out: Path, replace_old: bool) -> Outcome:
    """The outcome with the folder under its own name, or with the reason why it cannot get it."""
    try:
        folder = trace_file.move_folder(part, out, replace_old)
    except OSError as error:
        failure = Failure(
            "destination", f"{out} cannot be written: {error.strerror or error}.", "Choose another with -o."
        )
        return Outcome(None, failure, device=outcome.device, notes=outcome.notes, log=outcome.log)
    ranks = [replace(each, path=folder / each.path.name) for each in outcome.ranks if each.path is not None]
    return replace(outcome, path=folder, ranks=ranks)
