"""A pseudo terminal of a test's own: every byte that a program writes is kept, and the line can be cut."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.support.paths import ROOT
from tests.support.waiting import POLL_SECONDS

MARK = "TRACETUI_TEST_MARK"
"""A variable by which every process that a test started is found again, whatever group or session it moved to."""


class Raw:
    """A program on a pseudo terminal as its session's leader."""

    def __init__(self, *words: str, columns: int = 120, rows: int = 40, **environment: str) -> None:
        self.mark = uuid.uuid4().hex
        self._written = bytearray()
        self.arrivals: list[tuple[int, float]] = []
        """How many bytes there were after each time that some came, and when that was, by `time.monotonic`."""
        self._master, theirs = pty.openpty()
        self.resize(columns, rows)
        kept = {key: value for key, value in os.environ.items() if key not in _NOT_KEPT}
        self.process = subprocess.Popen(
            words or (sys.executable, "-m", "tracetui"),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=ROOT,
            start_new_session=True,
            preexec_fn=_take_terminal,
            env={**kept, "TERM": "xterm-256color", "LANG": "C.UTF-8", MARK: self.mark, **environment},
        )
        os.close(theirs)
        self._stopping = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def written(self) -> bytes:
        """All that was written so far."""
        return bytes(self._written)

    @property
    def length(self) -> int:
        """How many bytes were written so far."""
        return len(self._written)

    def between(self, begin: int, end: int | None = None) -> bytes:
        """What was written from one byte to another."""
        return bytes(self._written[begin:end])

    @property
    def master(self) -> int:
        """Our end of the terminal, as a file descriptor."""
        return self._master

    @property
    def is_cut(self) -> bool:
        """Whether the line was cut."""
        return self._master < 0

    def send(self, keys: str) -> None:
        """Type."""
        os.write(self._master, keys.encode())

    def resize(self, columns: int, rows: int) -> None:
        """Change the size of the terminal."""
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def is_raw(self) -> bool:
        """Whether keys reach the program at once and unseen, as an app has it and a shell must not find it."""
        return not termios.tcgetattr(self._master)[3] & termios.ICANON

    def wait_for(self, *texts: str, since: int = 0) -> int:
        """Wait until all texts were written after the byte `since`; returns how many bytes there were by then."""
        self.wait_until(lambda: all(text.encode() in self.written[since:] for text in texts), f"no {texts}")
        return len(self._written)

    def wait_until(self, is_so: Callable[[], object], told: str) -> None:
        """Wait until something is so.

        Raises: AssertionError with what is told and what was written last when it is not within the patience, or the
            program has ended.
        """
        end = time.monotonic() + POLL_SECONDS
        has_ended = False
        while not is_so():
            assert time.monotonic() < end and not has_ended, f"{told}: {self.written[-800:]!r}"
            if self.process.poll() is not None:
                # Its last words are looked at once more.
                self._reader.join(1)
                has_ended = True
            time.sleep(0.02)

    def wait_until_quiet(self, seconds: float = 0.5) -> int:
        """Wait until nothing was written for a while; returns how many bytes there were by then."""
        end = time.monotonic() + POLL_SECONDS
        before, since = len(self._written), time.monotonic()
        while time.monotonic() < end:
            time.sleep(0.02)
            if len(self._written) != before:
                before, since = len(self._written), time.monotonic()
            elif time.monotonic() - since >= seconds:
                return before
        raise AssertionError("it never was quiet")

    def hang_up(self) -> None:
        """Cut the line, as a dropped connection does."""
        self._stop_reading()
        os.close(self._master)
        self._master = -1

    def exit_code(self, patience: float = POLL_SECONDS) -> int:
        """Wait for the end; negative for a signal."""
        code = self.process.wait(patience)
        # Its last words.
        self._reader.join(0.2)
        return code

    def alive(self) -> list[str]:
        """Command lines of all processes that are left of the program."""
        return processes(self.mark)

    def wait_until_gone(self, seconds: float) -> None:
        """Wait until no process is left.

        Raises: AssertionError that names them when some are left after so many seconds.
        """
        end = time.monotonic() + seconds
        while left := self.alive():
            assert time.monotonic() < end, left
            # A process that nobody has waited for is a zombie, not a survivor.
            self.process.poll()
            time.sleep(0.02)

    def close(self) -> None:
        """Kill whatever is left."""
        for entry in _marked(self.mark):
            with suppress(ProcessLookupError):
                os.kill(int(entry.name), signal.SIGKILL)
        self.process.kill()
        self.process.wait()
        if self._master >= 0:
            self._stop_reading()
            os.close(self._master)

    def _read(self) -> None:
        # What is being read cannot be closed: the other end would not notice before the next byte.
        with suppress(OSError):
            while not self._stopping.is_set():
                if select.select([self._master], [], [], 0.05)[0]:
                    self._written += os.read(self._master, 1 << 16)
                    self.arrivals.append((len(self._written), time.monotonic()))

    def _stop_reading(self) -> None:
        self._stopping.set()
        self._reader.join()


_NOT_KEPT = {"TMUX", "NO_COLOR", "COLUMNS", "LINES", "COLORTERM", "SSH_CONNECTION"}


def processes(mark: str) -> list[str]:
    """Command lines of the processes whose environment holds a mark."""
    return [_command_line(entry) for entry in _marked(mark)]


def _marked(mark: str) -> list[Path]:
    wanted = f"{MARK}={mark}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if wanted in (entry / "environ").read_bytes():
                found.append(entry)
    return found


def _command_line(entry: Path) -> str:
    with suppress(OSError):
        return (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:200]
    return ""


def _take_terminal() -> None:
    """Make standard input the terminal of the session, so that its end is told with SIGHUP."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


GIVEN_BACK = (b"\x1b[?1049l", b"\x1b[?25h", b"\x1b[?2004l", b"\x1b[?1003l", b"\x1b[?1004l")
"""The screen, the cursor, pasting, the mouse, the focus."""
