"""The supervisor process of a recording, on Linux: it ends every descendant of the recorder.

The process that the launcher starts becomes the supervisor and forks the recorder. When the recorder ends, or the
launcher ends for any reason, the supervisor kills all processes that the recorder started, in any process group or
session, removes partial files, and exits as the recorder did. On other systems there is no supervisor, and the launcher
kills the recorder's process group.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

IS_SUPPORTED = sys.platform == "linux"
"""Whether the system lets a process adopt its orphaned descendants."""
KILL_TIMEOUT_S = 5.0
"""Seconds to wait for killed processes to end; a process that is stuck in a driver call cannot be killed."""
KILL_INTERVAL_S = 0.005
"""Seconds between two rounds of killing the remaining processes."""

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""Signals that are passed on to the recorder."""
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
        """Whether the recorder has ended."""

    def reap(self) -> bool:
        """Collect the exit status of children that have ended; returns whether any is left."""
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
        until = time.monotonic() + KILL_TIMEOUT_S
        while self.reap() and time.monotonic() < until:
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
