"""Reading a trace for a text command, and what is told on standard error meanwhile."""

from __future__ import annotations

import os
import shutil
import sys
import time
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from tracetui.importers.load import LoadProgress
    from tracetui.model.trace import Trace

PATIENCE = 0.3
"""Seconds of silence before a progress line appears."""
INTERVAL = 0.1
"""Seconds between two paintings of it."""
BAR = 30
"""Cells of the bar."""


def read(path: str) -> Trace:
    """Load a trace, `-` being standard input; tells on standard error what a reader must know about it.

    Raises: TraceError when the file cannot be used.
    """
    # numpy and the importers take a tenth of a second that `--help` does not have.
    from tracetui.importers.load import load

    with ProgressLine(label_of(path)) as line:
        trace = load(path, progress=line.update)
    for note in trace.quality.notes:
        print(f"tracetui: {printable(note)}", file=sys.stderr)
    return trace


def label_of(path: str) -> str:
    """A short name for a path."""
    return "standard input" if path == "-" else printable(os.path.basename(path) or path)


def printable(text: str) -> str:
    """Text for standard error: names of files and words of a trace must not steer the terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


class ProgressLine:
    """A line on standard error that says how far a file is read, while it is; silent without a terminal."""

    def __init__(self, label: str, stream: TextIO | None = None) -> None:
        self._label = label
        self._stream = stream or sys.stderr
        self._next = time.monotonic() + PATIENCE
        self._started = time.monotonic()
        self._live = self._stream.isatty()
        self._painted = False

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *_: object) -> None:
        if self._painted:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def update(self, progress: LoadProgress) -> None:
        """Paint the line again, at most ten times a second and not at first."""
        now = time.monotonic()
        if not self._live or now < self._next:
            return
        self._next = now + INTERVAL
        self._painted = True
        width = shutil.get_terminal_size().columns - 1
        self._stream.write(f"\r{self._words(progress, now - self._started)[:width]}\x1b[K")
        self._stream.flush()

    def _words(self, progress: LoadProgress, seconds: float) -> str:
        done, total = progress.bytes_done, progress.bytes_total
        rate = f"{done / 1e6:,.0f} MB, {progress.events:,} events, {done / 1e6 / max(seconds, 1e-6):,.0f} MB/s"
        if not total:
            return f"{progress.stage} {self._label}  {rate}"
        filled = min(BAR, round(BAR * done / total))
        left = seconds * max(total - done, 0) / max(done, 1)
        bar = "#" * filled + "." * (BAR - filled)
        return f"{progress.stage} {self._label} [{bar}] {rate}, {left:.0f} s left"
