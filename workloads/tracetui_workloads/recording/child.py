"""The child process of a recording, as its parent controls it: start, events, output, stop and kill.

The child's standard output and standard error are read here and only their end is kept, so that a program that prints
without end fills neither the disk nor the screen.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tracetui_workloads.recording import rank_files, supervisor, trace_file
from tracetui_workloads.recording.events import Event, Hello, LogLine, from_line
from tracetui_workloads.recording.failures import plain
from tracetui_workloads.recording.request import Request

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
            rank_files.remove_files(self._request, self._out, self._token)

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
