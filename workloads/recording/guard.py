"""The guard of a recording: a process between the launcher and the recorder that leaves nothing behind, on Linux.

It is forked from the recorder before that has done anything. When the recorder ends, or the launcher is gone, however
suddenly, it kills what the recorder started, in whatever group or session that is by now, removes partial files, and
ends as the recorder ended. Elsewhere there is no guard, and the launcher kills the group.
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

IS_POSSIBLE = sys.platform == "linux"
"""Whether a process can adopt what its descendants leave behind."""
PATIENCE = 5.0
"""Seconds for what was killed to be gone; a process that waits for a wedged driver cannot be killed."""
PAUSE = 0.005
"""Seconds between two looks at what is left."""

_ASKS = (signal.SIGINT, signal.SIGTERM)
"""Signals of the launcher, which are for the recorder."""
_HEARD = {*_ASKS, signal.SIGCHLD}
_SET_DEATH_SIGNAL, _ADOPT = 1, 36
"""Of prctl."""


def stand_guard(leash: int, clear_up: Callable[[], None]) -> None:
    """Fork: the child returns, leads a group of its own and goes on to record; the parent guards it and never returns.

    `leash` is a pipe that nobody writes to: it ends when the launcher lets go of it or is gone. `clear_up` removes
    what the recorder leaves on the disk.
    """
    _prctl(_ADOPT, 1)
    guard = os.getpid()
    # Nothing may arrive before it is known who is who.
    signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD)
    recorder = os.fork()
    if recorder:
        _guard(recorder, leash, clear_up)
    os.setpgid(0, 0)
    os.close(leash)
    _prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != guard:
        os._exit(1)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _HEARD)


def _guard(recorder: int, leash: int, clear_up: Callable[[], None]) -> NoReturn:
    """Wait for the end, clear up, and end as the recorder did."""
    status = 0
    try:
        # The recorder does the same; whoever comes first.
        with suppress(OSError):
            os.setpgid(recorder, recorder)
        flock = _Flock(recorder)
        _wait(flock, leash)
        flock.kill()
        clear_up()
        status = flock.status
    finally:
        _end(status)


class _Flock:
    """The recorder and everything that came of it."""

    def __init__(self, recorder: int) -> None:
        self._recorder = recorder
        self.status = 0
        """How the recorder ended, as `waitpid` has it."""
        self.is_over = False
        """Whether the recorder has ended."""

    def count(self) -> bool:
        """Take leave of those that have ended; returns whether any is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self.is_over = True
                return False
            if pid == 0:
                return True
            if pid == self._recorder:
                self.is_over, self.status = True, status

    def signal(self, number: int) -> None:
        """Send the recorder's group a signal."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._recorder, number)

    def kill(self) -> None:
        """Kill all of them; whose parent dies becomes a child of this process, until there is none any more."""
        until = time.monotonic() + PATIENCE
        while self.count() and time.monotonic() < until:
            self.signal(signal.SIGKILL)
            for pid in _children():
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(PAUSE)


def _wait(flock: _Flock, leash: int) -> None:
    """Wait until the recorder ends or the launcher is gone; meanwhile pass on what the launcher asks."""
    ours, theirs = os.pipe()
    for end in (ours, theirs):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(theirs, warn_on_full_buffer=False)
    for number in _HEARD:
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _HEARD)
    poll = select.poll()
    poll.register(leash, 0)
    poll.register(ours, select.POLLIN)
    flock.count()
    while not flock.is_over:
        ready = [file for file, _ in poll.poll()]
        if leash in ready:
            return
        for asked in os.read(ours, 4096):
            if asked in _ASKS:
                flock.signal(asked)
        flock.count()


def _children() -> list[int]:
    """The processes whose parent this one is."""
    own, found = str(os.getpid()), []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if path.read_text(errors="replace").rpartition(")")[2].split()[1] == own:
                found.append(int(path.parent.name))
    return found


def _end(status: int) -> NoReturn:
    """End with the exit code or by the signal of a status."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        # These two have no handler that could be taken away.
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 1)


def _prctl(option: int, value: int) -> None:
    import ctypes

    ctypes.CDLL(None).prctl(option, value)
