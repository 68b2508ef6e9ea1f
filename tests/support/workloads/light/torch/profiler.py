"""A profiler that sees what it is told of, and writes it as torch's does."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Any

_running: list[profile] = []
"""The profiler that records now, if any."""


class ProfilerActivity(Enum):
    """What can be recorded."""

    CPU = "cpu"


def schedule(*, wait: int, warmup: int, active: int, repeat: int) -> range:
    """The numbers of the steps that are recorded."""
    return range(wait + warmup, wait + warmup + active)


@contextmanager
def record_function(name: str) -> Iterator[None]:
    """An annotation."""
    began = time.monotonic_ns()
    yield
    for each in _running:
        each.saw(name, "user_annotation", began)


def note(name: str) -> None:
    """An operator was called."""
    for each in _running:
        each.saw(name, "cpu_op", time.monotonic_ns())


class profile:
    """A profiler from its first step to its file."""

    def __init__(self, *, activities: Iterable[ProfilerActivity], schedule: range, **_: object) -> None:
        self._schedule = schedule
        self._number = 0
        self._began = 0
        self._events: list[dict[str, Any]] = []
        self._said: dict[str, Any] = {}

    def __enter__(self) -> profile:
        _running.append(self)
        self._began = time.monotonic_ns()
        return self

    def __exit__(self, *_: object) -> None:
        _running.remove(self)

    def saw(self, name: str, category: str, began: int) -> None:
        """Something that began at a time, in nanoseconds, has ended."""
        if self._number in self._schedule:
            took = (time.monotonic_ns() - began) / 1000
            place = {"ph": "X", "pid": 1, "tid": 1, "ts": began / 1000, "dur": took}
            self._events.append({**place, "name": name, "cat": category})

    def step(self) -> None:
        """A step has ended."""
        self.saw(f"ProfilerStep#{self._number}", "user_annotation", self._began)
        self._number += 1
        self._began = time.monotonic_ns()

    def add_metadata_json(self, key: str, text: str) -> None:
        """Something to be kept in the file."""
        self._said[key] = json.loads(text)

    def export_chrome_trace(self, path: str) -> None:
        """Write the file, which names itself at its end."""
        document = {"schemaVersion": 1, "traceEvents": self._events, **self._said, "traceName": path}
        Path(path).write_text(json.dumps(document))

    def key_averages(self) -> profile:
        """The sums, which are the events here."""
        return self

    def table(self, **_: object) -> str:
        """The sums as text."""
        return "\n".join(sorted({str(event["name"]) for event in self._events}))
