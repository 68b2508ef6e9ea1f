"""The child's voice: events on the inherited pipe, stages, and a heartbeat.

Never standard output: torch, compilers and the workload itself print there.

How the recording child is stopped by signals.
"""

from __future__ import annotations

import os
import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

# By name: a workload may put a clock of its own in the place of time's.
from time import monotonic
from types import FrameType

from workloads.recording.events import STARTING, Event, Heartbeat, Note, Progress, Stage, StageDone, as_line
from workloads.recording.exceptions import Cancel
from workloads.recording.failures import LOST_PIPE, plain

CANCELLED = 130
"""Exit code of a child that was asked to stop."""


class Interrupts:
    """The signals that ask to stop: the first raises Cancel, the second ends the process at once."""

    def __init__(self) -> None:
        self.asked = False

    def install(self) -> None:
        """Listen to SIGINT and SIGTERM."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._handle)

    def check(self) -> None:
        """Raise Cancel when someone asked: an exception raised inside a destructor is lost."""
        if self.asked:
            raise Cancel

    def ignore(self) -> None:
        """From here on nothing is interrupted."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)

    def _handle(self, *_: int | FrameType | None) -> None:
        if self.asked:
            os._exit(CANCELLED)
        self.asked = True
        raise Cancel


BEAT = 1.0
"""Seconds between two heartbeats."""
SPARING = 0.1
"""Seconds between two reports of progress; a report costs what a small operator costs, and would be seen in a trace."""
NOTES = 20
"""Notes that are passed on; a program can warn without end."""


class Reporter:
    """Writes events, one line each, and knows in which stage the recording is."""

    def __init__(self, pipe: int) -> None:
        self.stage = STARTING
        self.interrupts = Interrupts()
        self._pipe = pipe
        self._pipe_is = _identity(pipe)
        self._owner = os.getpid()
        # Re-entrant: a signal that arrives while a line is written must not wait for itself.
        self._lock = threading.RLock()
        self._unfinished = False
        self._since = monotonic()
        self._next_progress = 0.0
        self._notes = 0
        self._heart: threading.Thread | None = None
        self._rest = threading.Event()

    def say(self, event: Event) -> None:
        """Write an event; a parent that is gone ends the process, for nobody would stop it otherwise."""
        self.require_own_process()
        with self._lock:
            # What a signal cut short becomes a line of its own, which the parent passes over.
            line = b"\n" * self._unfinished + as_line(event)
            self._unfinished = True
            try:
                while line:
                    self._require_pipe()
                    line = line[os.write(self._pipe, line) :]
            except BrokenPipeError:
                os._exit(CANCELLED)
            self._unfinished = False

    def require_own_process(self) -> None:
        """End a process that the workload has forked and that came back: it is not to record a second time."""
        if os.getpid() != self._owner:
            os._exit(0)

    def note(self, text: str, level: str = "info") -> None:
        """Tell the user a sentence."""
        self._notes += 1
        if self._notes <= NOTES:
            self.say(Note(level, plain(" ".join(text.split()))[:500]))

    @contextmanager
    def during(self, name: str, total: int = 0) -> Iterator[None]:
        """A stage: announced, timed, and named in the failure when it does not end well."""
        self.interrupts.check()
        self.stage, self._since, self._next_progress = name, monotonic(), 0.0
        self.say(Stage(name, total))
        yield
        self.say(StageDone(name, round(monotonic() - self._since, 4)))
        self.interrupts.check()

    def progress(self, done: int, total: int) -> None:
        """Say how many parts of the stage are done, when that was not said just now."""
        self.require_own_process()
        self.interrupts.check()
        now = monotonic()
        if now >= self._next_progress:
            # The first report waits, too: fast stages are silent.
            if self._next_progress:
                self.say(Progress(self.stage, done, total))
            self._next_progress = now + SPARING

    def start_heartbeat(self) -> None:
        """Say once a second that the process lives, whatever the main thread does."""
        self._rest.clear()
        self._heart = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self._heart.start()

    @contextmanager
    def without_heartbeat(self) -> Iterator[None]:
        """A time in which no thread of ours runs: with stacks the profiler would record it beside the workload."""
        self._rest.set()
        if self._heart:
            self._heart.join()
        yield
        self.start_heartbeat()

    def collect_warnings(self) -> None:
        """Pass Python's warnings on as notes."""

        def show(message: Warning | str, *_: object, **__: object) -> None:
            self.note(str(message), "warning")

        warnings.showwarning = show

    def _require_pipe(self) -> None:
        """End the process when the workload has closed the pipe: a file of its own may have that number by now."""
        try:
            is_there = _identity(self._pipe) == self._pipe_is
        except OSError:
            is_there = False
        if not is_there:
            os._exit(LOST_PIPE)

    def _beat(self) -> None:
        while not self._rest.wait(BEAT):
            self.say(Heartbeat(self.stage, round(monotonic() - self._since, 1)))


def _identity(file: int) -> tuple[int, int]:
    """What tells an open file from another of the same number."""
    found = os.fstat(file)
    return found.st_dev, found.st_ino
