"""The recording child as its parent sees it: a process group, a pipe of events, a pipe of what it prints.

Standard output and standard error are read here and only their end is kept, so that a program that prints without
end fills neither a disk nor a screen.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from workloads import trace_file
from workloads.events import Event, LogLine, from_line
from workloads.request import Request

BOOTSTRAP = """\
import runpy, sys
sys.path.append(sys.argv.pop(1))
runpy.run_module("workloads.recorder", run_name="__main__", alter_sys=True)
"""
"""`python -m workloads.recorder`, with this package last on the path: what the Python has of its own comes first."""

ROOT = Path(__file__).resolve().parents[1]
"""The folder that holds this package."""

LOG_KEPT = 1 << 16
"""Bytes of the child's output that are kept."""
BLOCK = 1 << 16
LONGEST_LINE = 1 << 20
"""Bytes of an event; more without a line's end is no event."""
DRAIN = 2.0
"""Seconds to wait for the pipes' end once the child is dead; a process that left its group may hold them."""

Listener = Callable[[Event], None]


class Child:
    """A running recorder; `end` must be called whatever happens."""

    def __init__(self, request: Request, on_event: Listener) -> None:
        self._request = request
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
            events, prints = ends
            self._process = await asyncio.create_subprocess_exec(
                *command(python, events, self._request),
                pass_fds=(events,),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=prints,
                stderr=prints,
                start_new_session=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **(environment or {})},
            )
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
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            self._signal(number)
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(asyncio.ensure_future(self.wait())), grace)
                return
        await self.wait()

    async def end(self) -> int:
        """Kill what is left of the group, read the pipes to their end, remove partial files; returns the exit code."""
        if self._process and self._process.returncode is None:
            self._signal(signal.SIGKILL)
        code = await self.wait()
        # torch's compile workers outlive their parent otherwise.
        self._signal(signal.SIGKILL)
        if self._process:
            trace_file.remove_parts(Path(self._request.out), self._process.pid)
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

    async def _listen(self, read: Callable[[asyncio.StreamReader], Coroutine[Any, Any, None]]) -> int:
        """Open a pipe and read it until its end; returns the end to write to."""
        ours, theirs = os.pipe()
        reader = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(ours, "rb", buffering=0)
        )
        self._transports.append(transport)
        self._readers.append(asyncio.create_task(read(reader)))
        return theirs

    async def _read_events(self, reader: asyncio.StreamReader) -> None:
        rest = b""
        while block := await reader.read(BLOCK):
            *lines, rest = (rest + block).split(b"\n")
            rest = rest[-LONGEST_LINE:]
            for line in lines:
                if event := from_line(line):
                    self._on_event(event)

    async def _read_log(self, reader: asyncio.StreamReader) -> None:
        while block := await reader.read(BLOCK):
            self._log += block
            del self._log[:-LOG_KEPT]
            lines = self.log.splitlines()
            if lines and lines[-1].strip():
                self._on_event(LogLine(lines[-1][-500:]))

    def _signal(self, number: signal.Signals) -> None:
        # Its group is gone, or holds only a process that nobody has waited for.
        with suppress(ProcessLookupError, PermissionError):
            if self._process:
                os.killpg(self._process.pid, number)


def command(python: str, pipe: int, request: Request) -> Sequence[str]:
    """The child's command line; `-P` keeps the folder it is started in from hiding modules of the same name."""
    return (python, "-P", "-c", BOOTSTRAP, str(ROOT), str(pipe), request.as_json())
