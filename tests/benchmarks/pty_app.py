"""The app under a pseudo-terminal: write a key, watch what comes back and for how long."""

from __future__ import annotations

import fcntl
import math
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from dataclasses import dataclass
from pathlib import Path

from tests.support.terminal.painted import Painter

ANSWERS = {b"\x1b[?2026$p": b"\x1b[?2026;2$y", b"\x1b[6n": b"\x1b[1;1R"}
"""What a terminal is asked, and what one says: that it paints whole frames, and where the cursor is, which is asked
behind a frame to know when it was taken. One that stays silent is treated as slow."""
_QUESTION = re.compile(b"|".join(map(re.escape, ANSWERS)))
_LONGEST_QUESTION = max(map(len, ANSWERS))
PACE_SECONDS = 0.3
"""Seconds between the keys of a person who looks at what each did; what is put off until then is done and counted."""
HELD_HERTZ = 30
"""Keys a second of a key that is held."""
KEPT = 1 << 20
"""Bytes of output that are remembered."""
_NOT_PASSED_ON = {"NO_COLOR", "TMUX", "COLORTERM", "PYTHONDONTWRITEBYTECODE"}
"""Variables that the app does not get. An installed app has its bytecode beside it; without, half of the start would be
compiling.
"""
POLL_SECONDS = 180.0
"""Seconds until a picture must be there."""
IDLE_SHARE = 0.1
"""Share of a CPU below which the app has computed everything that was asked for."""
_LISTED = re.compile(r"^\W*\d+ +\S.* \d[\d.,]* (?:ns|µs|ms|s) ")
"""A row of the list of kernels: its number, its name, its duration."""
_LANE = re.compile(r"^(?:.?(?:GPU|stream)|│ (?:compute|copies))\b.*[▁-▉▊▋▌▍▎▏▐]")
"""A lane of a GPU with at least one slice, on the timeline or in the overview in its place."""


@dataclass(frozen=True)
class Answer:
    """What a key caused."""

    first: float
    """Seconds from the key to the first byte that it painted."""
    seconds: float
    """To the last byte."""
    bytes: int


class PtyApp:
    """`tracetui open TRACE` on a terminal of a given size; a context manager that ends it."""

    def __init__(self, trace: Path, cache: str, columns: int = 200, rows: int = 50) -> None:
        environment = {
            **{key: value for key, value in os.environ.items() if key not in _NOT_PASSED_ON},
            "TERM": "xterm-256color",
            # A cache of its own: what other runs left there would be opened from it.
            "XDG_CACHE_HOME": cache,
        }
        self._is_over = False
        self._size = columns, rows
        self._arrivals: list[tuple[float, bytes]] = []
        self._is_pictured = False
        self._asked = b""
        self._started = time.perf_counter()
        self.painted = b""
        """The last of what the app wrote."""
        self._process, self._terminal = pty.fork()
        if self._process == 0:
            os.execve(sys.executable, [sys.executable, "-m", "tracetui", "open", str(trace)], environment)
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        os.set_blocking(self._terminal, False)

    def __enter__(self) -> PtyApp:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._ended():
            os.kill(self._process, signal.SIGKILL)
            os.waitpid(self._process, 0)
        os.close(self._terminal)

    def wait_until_pictured(self) -> None:
        """Read until the tabs are there, which are painted with the lists.

        Raises: SystemExit when the app ends, or the patience does.
        """
        while b"Kernels" not in self.painted:
            if self.watch(quiet=0.05, patience=1.0) is None and self._ended():
                raise SystemExit(f"the app ended:\n{self.painted.decode(errors='replace')[-2000:]}")
            if time.perf_counter() - self._started > POLL_SECONDS:
                raise SystemExit(f"no picture within {POLL_SECONDS:.0f} s")

    def wait_until_idle(self) -> None:
        """Read until the app has neither painted nor computed for a second.

        Raises: SystemExit when the patience ends.
        """
        until = time.perf_counter() + POLL_SECONDS
        while time.perf_counter() < until:
            before, started = self.cpu_seconds(), time.perf_counter()
            painted = self.watch(quiet=1.0, patience=1.0)
            share = (self.cpu_seconds() - before) / (time.perf_counter() - started)
            # No answer to compare with where there is no /proc.
            if painted is None and not share > IDLE_SHARE:
                self._is_pictured = True
                return
        raise SystemExit(f"the app was not idle within {POLL_SECONDS:.0f} s")

    def seconds_to_picture(self) -> tuple[float, float]:
        """Seconds from the command until lanes had been painted, and until the list of kernels had been too.

        Raises: SystemExit when they never were.
        """
        painter = Painter(*self._size)
        lanes: float | None = None
        for moment, data in self._arrivals:
            painter.paint(data)
            if lanes is None and has_lanes(painter.lines):
                lanes = moment - self._started
            if lanes is not None and is_picture(painter.lines):
                return lanes, moment - self._started
        raise SystemExit("lanes and kernels were never painted:\n" + "\n".join(painter.lines))

    def quit(self) -> None:
        """End the app with its key, so that it leaves behind what it wants to keep, and wait for that."""
        os.write(self._terminal, b"q")
        until = time.perf_counter() + POLL_SECONDS
        while not self._ended() and time.perf_counter() < until:
            self.watch(quiet=0.05, patience=0.2)

    def press(self, key: str, quiet: float = PACE_SECONDS, patience: float = 2.0) -> Answer | None:
        """Write a key and wait until nothing has come for `quiet` seconds; None when nothing came at all."""
        os.write(self._terminal, key.encode())
        return self.watch(quiet, patience)

    def watch(self, quiet: float, patience: float, until: float = math.inf) -> Answer | None:
        """Read until a silence of `quiet` seconds, giving up after `patience` without a first byte."""
        started = time.perf_counter()
        first: float | None = None
        last: float | None = None
        count = 0
        while True:
            end = started + patience if last is None else last + quiet
            left = min(end, until) - time.perf_counter()
            if left <= 0 or not select.select([self._terminal], [], [], left)[0]:
                break
            try:
                data = os.read(self._terminal, 1 << 20)
            except OSError:
                break
            last = time.perf_counter()
            first = first or last
            answers, self._asked = answers_to(self._asked + data)
            os.write(self._terminal, answers)
            count += len(data)
            self.painted = (self.painted + data)[-KEPT:]
            if not self._is_pictured:
                self._arrivals.append((last, data))
        return None if first is None or last is None else Answer(first - started, last - started, count)

    def hold(self, key: str, seconds: float) -> float:
        """Repeat a key as a keyboard does while it is held; the seconds from its end to the last byte."""
        for _ in range(int(seconds * HELD_HERTZ)):
            os.write(self._terminal, key.encode())
            self.watch(quiet=1 / HELD_HERTZ, patience=1 / HELD_HERTZ, until=time.perf_counter() + 1 / HELD_HERTZ)
        answer = self.watch(quiet=0.5, patience=1.0)
        return 0.0 if answer is None else answer.seconds

    def _ended(self) -> bool:
        if not self._is_over:
            self._is_over = os.waitpid(self._process, os.WNOHANG)[0] != 0
        return self._is_over

    def memory(self) -> float:
        """Resident memory of the app in bytes; NaN where there is no /proc."""
        try:
            pages = int(Path(f"/proc/{self._process}/statm").read_text().split()[1])
        except OSError:
            return float("nan")
        return float(pages * os.sysconf("SC_PAGE_SIZE"))

    def cpu_seconds(self) -> float:
        """CPU time of the app so far; NaN where there is no /proc."""
        try:
            fields = Path(f"/proc/{self._process}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            return float("nan")
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def answers_to(written: bytes) -> tuple[bytes, bytes]:
    """What a terminal answers to what was written, and the end of that, in which a question may have begun."""
    questions = list(_QUESTION.finditer(written))
    rest = written[questions[-1].end() if questions else 0 :]
    return b"".join(ANSWERS[question[0]] for question in questions), rest[-_LONGEST_QUESTION + 1 :]


def has_lanes(lines: list[str]) -> bool:
    """Whether a screen shows slices on a lane of a GPU."""
    return any(map(_LANE.search, lines))


def is_picture(lines: list[str]) -> bool:
    """Whether a screen shows slices on a lane of a GPU and a row of the list of kernels."""
    return has_lanes(lines) and any(map(_LISTED.search, lines))
