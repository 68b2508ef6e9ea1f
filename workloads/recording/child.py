"""The recording child as its parent sees it: a guard on a leash, a pipe of events, a pipe of what it prints.

Standard output and standard error are read here and only their end is kept, so that a program that prints without
end fills neither a disk nor a screen.
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

from workloads.recording import guard, trace_file
from workloads.recording.events import Event, Hello, LogLine, from_line
from workloads.recording.failures import plain
from workloads.recording.request import Request

BOOTSTRAP = """\
import runpy, sys
sys.path.append(sys.argv.pop(1))
runpy.run_module("workloads.recording.recorder", run_name="__main__", alter_sys=True)
"""
"""`python -m workloads.recording.recorder`, with this package last on the path:
what that Python has itself comes first."""

ROOT = Path(__file__).resolve().parents[2]
"""The folder that holds this package."""

LOG_KEPT = 1 << 16
"""Bytes of the child's output that are kept."""
BLOCK = 1 << 16
LONGEST_LINE = 1 << 20
"""Bytes of an event; more without a line's end is no event."""
DRAIN = 2.0
"""Seconds to wait for the pipes' end once the child is dead; a process that left its group may hold them."""
HASTE = 1.0
"""Seconds for a recording to be gone where this process is about to end."""

Listener = Callable[[Event], None]

_running: set[Child] = set()
"""Those that were started and not yet ended."""


def kill_all() -> None:
    """Kill every recording of this process and remove its partial files, without waiting: what comes before exit."""
    for child in tuple(_running):
        child.kill()


class Child:
    """A running recorder; `end` must be called whatever happens."""

    def __init__(self, request: Request, on_event: Listener) -> None:
        """Raises: FileNotFoundError where the place is relative and the current folder is gone."""
        self.deaf = asyncio.Event()
        """Set when a listener raised an error: nobody hears the recording any more."""
        self._request = request
        self._out = Path(request.out).absolute()
        self._token = trace_file.new_token()
        self._leash = -1
        """What the guard of the recording is held by, or -1."""
        self._group = 0
        """The recorder's, once it has said so."""
        self._on_event = on_event
        self._process: asyncio.subprocess.Process | None = None
        self._log = bytearray()
        self._readers: list[asyncio.Task[None]] = []
        self._transports: list[asyncio.ReadTransport] = []

    async def start(self, python: str, environment: Mapping[str, str] | None = None) -> None:
        """Start the recorder.

        Raises: OSError when the Python cannot be started.
        """
        # Pipes are read before there is anyone to write: nothing may come between the start and `end`.
        ends: list[int] = []
        try:
            ends.append(await self._listen(self._read_events))
            ends.append(await self._listen(self._read_log))
            leash, self._leash = os.pipe()
            ends.append(leash)
            events, prints = ends[:2]
            self._process = await asyncio.create_subprocess_exec(
                *command(python, (events, leash), self._token, self._request),
                pass_fds=(events, leash),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=prints,
                stderr=prints,
                start_new_session=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **(environment or {})},
            )
            _running.add(self)
        finally:
            for end in ends:
                os.close(end)

    @property
    def log(self) -> str:
        """The end of what it printed."""
        return self._log.decode(errors="replace")

    async def wait(self) -> int:
        """Wait for its end and return its exit code, negative for a signal."""
        return await self._process.wait() if self._process else 0

    async def stop(self, grace: float) -> None:
        """Ask it to stop, more firmly every `grace` seconds, and wait until it has."""
        for number in (signal.SIGINT, signal.SIGTERM):
            self._signal(number)
            if await self._has_ended(grace):
                return
        await self._kill()

    def kill(self) -> None:
        """Kill it and all that came of it at once."""
        self._let_go()
        until = time.monotonic() + HASTE
        while self._process and guard.IS_POSSIBLE and _lives(self._process.pid) and time.monotonic() < until:
            time.sleep(0.005)
        self._sweep()

    async def end(self) -> int:
        """Kill what is left of it, read the pipes to their end, remove partial files; returns the exit code."""
        await self._kill()
        code = await self.wait()
        # torch's compile workers outlive their parent otherwise.
        self._sweep()
        _running.discard(self)
        if self._readers:
            await asyncio.wait(self._readers, timeout=DRAIN)
        for transport in self._transports:
            transport.close()
        for reader in self._readers:
            if reader.done():
                # What a listener raised is the caller's.
                reader.result()
            reader.cancel()
        return code

    async def _kill(self) -> None:
        """Kill it and all that came of it; by its guard, which knows them, and without one by their group."""
        self._let_go()
        if not await self._has_ended(guard.PATIENCE + 1 if guard.IS_POSSIBLE else 0):
            self._signal(signal.SIGKILL)

    async def _has_ended(self, seconds: float) -> bool:
        """Wait so long for its end."""
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(asyncio.ensure_future(self.wait())), seconds)
            return True
        return False

    def _let_go(self) -> None:
        """Let the guard know that the recording is to end."""
        if self._leash >= 0:
            os.close(self._leash)
            self._leash = -1

    def _sweep(self) -> None:
        """Kill the groups, and remove what they were writing."""
        self._signal(signal.SIGKILL)
        if self._process:
            trace_file.remove_parts(self._out, self._token)

    async def _listen(self, read: Callable[[asyncio.StreamReader], Coroutine[Any, Any, None]]) -> int:
        """Open a pipe and read it until its end; returns the end to write to."""
        ours, theirs = os.pipe()
        reader = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(ours, "rb", buffering=0)
        )
        self._transports.append(transport)
        task = asyncio.create_task(read(reader))
        task.add_done_callback(lambda done: self.deaf.set() if not done.cancelled() and done.exception() else None)
        self._readers.append(task)
        return theirs

    async def _read_events(self, reader: asyncio.StreamReader) -> None:
        rest = b""
        while block := await reader.read(BLOCK):
            *lines, rest = (rest + block).split(b"\n")
            rest = rest[-LONGEST_LINE:]
            for line in lines:
                if event := from_line(line):
                    if isinstance(event, Hello) and not self._group:
                        self._group = event.pid
                    self._on_event(event)

    async def _read_log(self, reader: asyncio.StreamReader) -> None:
        while block := await reader.read(BLOCK):
            self._log += block
            del self._log[:-LOG_KEPT]
            lines = self.log.splitlines()
            if lines and lines[-1].strip():
                self._on_event(LogLine(plain(lines[-1][-2000:])[-500:]))

    def _signal(self, number: signal.Signals) -> None:
        """Send a signal: to the guard, which passes on what asks, and to the recorder's group to kill it."""
        groups = {self._process.pid} if self._process else set()
        if number == signal.SIGKILL and self._group:
            groups.add(self._group)
        for group in groups:
            # It is gone, or holds only a process that nobody has waited for.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(group, number)


def command(python: str, pipes: Sequence[int], token: str, request: Request) -> Sequence[str]:
    """The child's command line; `-P` keeps the folder it is started in from hiding modules of the same name."""
    return (python, "-P", "-c", BOOTSTRAP, str(ROOT), *map(str, pipes), token, request.as_json())


def _lives(pid: int) -> bool:
    """Whether a child of this process has not ended; one that was waited for has."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ChildProcessError:
        return False
