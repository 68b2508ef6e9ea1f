"""The app under a pseudo-terminal: write a key, watch what comes back and for how long."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from dataclasses import dataclass
from pathlib import Path

SYNC_QUESTION, SYNC_ANSWER = b"\x1b[?2026$p", b"\x1b[?2026;2$y"
"""Textual asks whether the terminal paints whole frames; one that stays silent is treated as slow."""
KEPT = 1 << 20
"""Bytes of output that are remembered."""


@dataclass(frozen=True)
class Answer:
    """What a key caused."""

    seconds: float
    """From the key to the last byte of what it painted."""
    bytes: int


class PtyApp:
    """`tracetui open TRACE` on a terminal of a given size; a context manager that ends it."""

    def __init__(self, trace: Path, columns: int = 200, rows: int = 50) -> None:
        environment = {
            **{key: value for key, value in os.environ.items() if key not in {"NO_COLOR", "TMUX", "COLORTERM"}},
            "TERM": "xterm-256color",
        }
        self._is_over = False
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

    def wait_for(self, text: str, patience: float = 120.0) -> float:
        """Seconds until a text is painted and the app has gone quiet.

        Raises: SystemExit when the app ends, or the patience does.
        """
        started = time.perf_counter()
        while text.encode() not in self.painted:
            if self.watch(quiet=0.05, patience=1.0) is None and self._ended():
                raise SystemExit(f"the app ended:\n{self.painted.decode(errors='replace')[-2000:]}")
            if time.perf_counter() - started > patience:
                raise SystemExit(f"no {text!r} within {patience:.0f} s")
        seen = time.perf_counter() - started
        self.watch(quiet=1.0, patience=1.0)
        return seen

    def press(self, key: str, quiet: float = 0.06) -> Answer | None:
        """Write a key and wait until nothing has come for `quiet` seconds; None when nothing came at all."""
        os.write(self._terminal, key.encode())
        return self.watch(quiet, patience=0.5)

    def watch(self, quiet: float, patience: float) -> Answer | None:
        """Read until a silence of `quiet` seconds, giving up after `patience` without a first byte."""
        started = time.perf_counter()
        last: float | None = None
        count = 0
        while True:
            until = started + patience if last is None else last + quiet
            left = until - time.perf_counter()
            if left <= 0 or not select.select([self._terminal], [], [], left)[0]:
                break
            try:
                data = os.read(self._terminal, 1 << 20)
            except OSError:
                break
            if SYNC_QUESTION in data:
                os.write(self._terminal, SYNC_ANSWER)
            last = time.perf_counter()
            count += len(data)
            self.painted = (self.painted + data)[-KEPT:]
        return None if last is None else Answer(last - started, count)

    def _ended(self) -> bool:
        if not self._is_over:
            self._is_over = os.waitpid(self._process, os.WNOHANG)[0] != 0
        return self._is_over

    def cpu_seconds(self) -> float:
        """CPU time of the app so far; NaN where there is no /proc."""
        try:
            fields = Path(f"/proc/{self._process}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            return float("nan")
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
