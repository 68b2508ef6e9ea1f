"""The child of a recording as a process: who ends it, which signals stop it, and how it reports to its parent.

On Linux the process that the launcher starts becomes a supervisor and forks the recorder. When the recorder ends, or
the launcher ends for any reason, the supervisor kills all processes that the recorder started, in any process group or
session, removes partial files, and exits as the recorder did. Nothing else could: a launcher that was killed kills
nobody, and a workload may start processes that leave its group and outlive it. On other systems there is no
supervisor: the launcher kills the recorder's process group, and a recorder whose launcher is gone ends by itself.

Events go through a pipe of their own, never to standard output: torch, compilers and the workload itself print there.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# Imported by name: a workload may replace `time.monotonic`.
from time import monotonic
from types import FrameType
from typing import NoReturn

from tracetui_workloads.recording.exceptions import Cancel
from tracetui_workloads.recording.protocol import (
    LOST_PIPE,
    STARTING,
    Event,
    Heartbeat,
    Note,
    Progress,
    Stage,
    StageDone,
    as_line,
    plain,
)

HAS_SUPERVISOR = sys.platform == "linux"
"""True where the system lets a process adopt its orphaned descendants."""
KILL_TIMEOUT_S = 5.0
"""Seconds to wait for killed processes to end; a process that is stuck in a driver call cannot be killed."""
KILL_INTERVAL_S = 0.005
"""Seconds between two rounds of killing the remaining processes."""

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""Signals that stop a recording; the supervisor passes them on to the recorder."""
_HANDLED_SIGNALS = {*_STOP_SIGNALS, signal.SIGCHLD}
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
"""Options of prctl(2)."""


def supervise(parent_pipe: int, remove_files: Callable[[], None]) -> None:
    """Fork: the child returns as leader of its own process group and records; the parent supervises, never returning.

    `parent_pipe` is the read end of a pipe that nobody writes to: it reports a hang-up when the launcher closes the
    other end or exits. `remove_files` removes the partial files of the recorder.
    """
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    supervisor = os.getpid()
    # No signal may arrive before both processes have their handlers.
    signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED_SIGNALS)
    recorder = os.fork()
    if recorder:
        _supervise(recorder, parent_pipe, remove_files)
    os.setpgid(0, 0)
    os.close(parent_pipe)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != supervisor:
        os._exit(1)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDLED_SIGNALS)


def _supervise(recorder: int, parent_pipe: int, remove_files: Callable[[], None]) -> NoReturn:
    """Wait for the end, kill the remaining processes, remove files, and exit as the recorder did."""
    status = 0
    try:
        # The recorder does the same: it must have happened whichever of the two runs first.
        with suppress(OSError):
            os.setpgid(recorder, recorder)
        tree = _ProcessTree(recorder)
        _wait_for_end(tree, parent_pipe)
        tree.kill()
        remove_files()
        status = tree.status
    finally:
        _end_like(status)


class _ProcessTree:
    """The recorder and all its descendants."""

    def __init__(self, recorder: int) -> None:
        self._recorder = recorder
        self.status = 0
        """The exit status of the recorder, as `waitpid` returns it."""
        self.has_ended = False

    def reap(self) -> bool:
        """Collect the exit status of children that have ended; True while any is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self.has_ended = True
                return False
            if pid == 0:
                return True
            if pid == self._recorder:
                self.has_ended, self.status = True, status

    def signal(self, number: int) -> None:
        """Send a signal to the recorder's process group."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._recorder, number)

    def kill(self) -> None:
        """Kill all descendants: orphans become children of this process, so it repeats until no child is left."""
        until = monotonic() + KILL_TIMEOUT_S
        while self.reap() and monotonic() < until:
            self.signal(signal.SIGKILL)
            for pid in _child_pids():
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(KILL_INTERVAL_S)


def _wait_for_end(tree: _ProcessTree, parent_pipe: int) -> None:
    """Wait until the recorder or the launcher ends; meanwhile pass on signals that ask to stop."""
    read_end, write_end = os.pipe()
    for end in (read_end, write_end):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    for handled in _HANDLED_SIGNALS:
        signal.signal(handled, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDLED_SIGNALS)
    poll = select.poll()
    poll.register(parent_pipe, 0)
    poll.register(read_end, select.POLLIN)
    tree.reap()
    while not tree.has_ended:
        ready = [file for file, _ in poll.poll()]
        if parent_pipe in ready:
            return
        for number in os.read(read_end, 4096):
            if number in _STOP_SIGNALS:
                tree.signal(number)
        tree.reap()


def _child_pids() -> list[int]:
    """The process ids of this process's children."""
    own, pids = str(os.getpid()), []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if path.read_text(errors="replace").rpartition(")")[2].split()[1] == own:
                pids.append(int(path.parent.name))
    return pids


def _end_like(status: int) -> NoReturn:
    """Exit with the exit code, or by the signal, of a wait status."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        # Handlers of these two cannot be set.
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 1)


def _prctl(option: int, value: int) -> None:
    import ctypes

    ctypes.CDLL(None).prctl(option, value)


CANCELLED = 130
"""Exit code of a child that was stopped on request."""


class Interrupts:
    """The signals that stop a recording: the first raises Cancel, the second ends the process at once."""

    def __init__(self) -> None:
        self.stop_requested = False

    def install(self) -> None:
        """Install handlers for SIGINT and SIGTERM."""
        for number in _STOP_SIGNALS:
            signal.signal(number, self._handle)

    def check(self) -> None:
        """Raise Cancel after a stop request: one that the handler raised inside a destructor was lost."""
        if self.stop_requested:
            raise Cancel

    def ignore(self) -> None:
        """Ignore SIGINT and SIGTERM from now on."""
        for number in _STOP_SIGNALS:
            signal.signal(number, signal.SIG_IGN)

    def _handle(self, *_: int | FrameType | None) -> None:
        if self.stop_requested:
            os._exit(CANCELLED)
        self.stop_requested = True
        raise Cancel


HEARTBEAT_INTERVAL_S = 1.0
"""Seconds between two heartbeats."""
PROGRESS_INTERVAL_S = 0.1
"""Minimum seconds between two progress events: one takes as long as a small operator, which would show in a trace."""
MAX_NOTES = 20
"""Maximum notes that are sent per recording; a program can warn without end."""


class Reporter:
    """Writes events to the pipe, one line each, and keeps the current stage."""

    def __init__(self, pipe: int) -> None:
        self.stage = STARTING
        self.interrupts = Interrupts()
        self._pipe = pipe
        self._pipe_identity = _identity(pipe)
        self._owner = os.getpid()
        # Re-entrant: a signal that arrives while a line is written must not wait for itself.
        self._lock = threading.RLock()
        self._is_line_unfinished = False
        self._stage_started = monotonic()
        self._next_progress = 0.0
        self._notes = 0
        self._heartbeat_thread: threading.Thread | None = None
        self._heartbeat_stopped = threading.Event()

    def send(self, event: Event) -> None:
        """Write an event; ends the process where the parent has ended, because nobody could stop it."""
        self.require_own_process()
        with self._lock:
            # A line that a signal interrupted is ended here, and the parent skips it.
            line = b"\n" * self._is_line_unfinished + as_line(event)
            self._is_line_unfinished = True
            try:
                while line:
                    # The workload may have closed the pipe: its descriptor may now be another file.
                    if _identity(self._pipe) != self._pipe_identity:
                        os._exit(LOST_PIPE)
                    line = line[os.write(self._pipe, line) :]
            except BrokenPipeError:
                os._exit(CANCELLED)
            self._is_line_unfinished = False

    def require_own_process(self) -> None:
        """End a process that the workload forked and that returned to the recorder: it must not record again."""
        if os.getpid() != self._owner:
            os._exit(0)

    def note(self, text: str, level: str = "info") -> None:
        """Send a sentence for the user."""
        self._notes += 1
        if self._notes <= MAX_NOTES:
            self.send(Note(level, plain(" ".join(text.split()))[:500]))

    @contextmanager
    def during(self, name: str, total: int = 0) -> Iterator[None]:
        """A stage of the recording: reported at its start and end, and named in a failure."""
        self.interrupts.check()
        self.stage, self._stage_started, self._next_progress = name, monotonic(), 0.0
        self.send(Stage(name, total))
        yield
        self.send(StageDone(name, round(monotonic() - self._stage_started, 4)))
        self.interrupts.check()

    def progress(self, done: int, total: int) -> None:
        """Report the parts of the stage that are done, at most once per `PROGRESS_INTERVAL_S`."""
        self.require_own_process()
        self.interrupts.check()
        now = monotonic()
        if now >= self._next_progress:
            # The first call only starts the interval, so that short stages report no progress.
            if self._next_progress:
                self.send(Progress(self.stage, done, total))
            self._next_progress = now + PROGRESS_INTERVAL_S

    def start_heartbeat(self) -> None:
        """Start a thread that reports every `HEARTBEAT_INTERVAL_S` that the process is alive."""
        self._heartbeat_stopped.clear()
        self._heartbeat_thread = threading.Thread(target=self._send_heartbeats, name="heartbeat", daemon=True)
        self._heartbeat_thread.start()

    @contextmanager
    def without_heartbeat(self) -> Iterator[None]:
        """Stop the heartbeat thread for a while: a profiler that records stacks would record that thread as well."""
        self._heartbeat_stopped.set()
        if self._heartbeat_thread:
            self._heartbeat_thread.join()
        yield
        self.start_heartbeat()

    def collect_warnings(self) -> None:
        """Send Python's warnings as notes."""

        def show(message: Warning | str, *_: object, **__: object) -> None:
            self.note(str(message), "warning")

        warnings.showwarning = show

    def _send_heartbeats(self) -> None:
        while not self._heartbeat_stopped.wait(HEARTBEAT_INTERVAL_S):
            self.send(Heartbeat(self.stage, round(monotonic() - self._stage_started, 1)))


def _identity(file: int) -> tuple[int, int] | None:
    """Device and inode of an open file, which another file with the same descriptor has not; None for a closed one."""
    try:
        status = os.fstat(file)
    except OSError:
        return None
    return status.st_dev, status.st_ino
