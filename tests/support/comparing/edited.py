"""Real traces with one thing changed: what a comparison must then find, and nothing else.

An edit takes the events of a file as dictionaries and changes them in place. Kernels are chosen by what their names
contain; their launches and operators are found by the ids in the file, and by time where it has none.
"""

from __future__ import annotations

import copy
import gzip
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson

from tracetui.reading.load_progress import collector_off

Event = dict[str, Any]
Edit = Callable[["Recording"], None]
_GPU = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
_CALLS = frozenset({"cuda_runtime", "cuda_driver", "runtime"})
_OPS = frozenset({"cpu_op", "operator"})


class Recording:
    """The events of a file, to be edited and written to another."""

    def __init__(self, content: bytes) -> None:
        with collector_off():
            self._parsed = orjson.loads(content)

    @classmethod
    def of(cls, path: Path) -> Recording:
        """What a file holds but for frames, flows and memory events, which make most of a large one."""
        return cls(slim(path))

    def write(self, path: Path) -> Path:
        """A file of the events as they are now."""
        path.write_bytes(orjson.dumps(self._parsed))
        return path

    @property
    def events(self) -> list[Event]:
        """All events, to be changed in place."""
        found: list[Event] = self._parsed["traceEvents"]
        return found

    def gpu(self, name: str = "") -> list[Event]:
        """The GPU activities whose names contain a text, in order of start."""
        found = [event for event in self._complete(_GPU) if name in event["name"]]
        return sorted(found, key=lambda event: float(event["ts"]))

    def launches(self) -> dict[Any, Event]:
        """The runtime calls by correlation."""
        return {event["args"]["correlation"]: event for event in self._complete(_CALLS) if _correlation(event)}

    def op_of(self, launch: Event) -> Event | None:
        """The innermost operator around a call, by time on its thread."""
        moment, thread = float(launch["ts"]), self._ops_by_thread.get((launch["pid"], launch["tid"]), [])
        last = bisect_right(thread, moment, key=lambda op: float(op["ts"]))
        # What was begun last and is still open is the innermost: operators nest.
        began = (thread[place] for place in range(last - 1, -1, -1))
        return next((op for op in began if moment < float(op["ts"]) + float(op["dur"])), None)

    @cached_property
    def _ops_by_thread(self) -> dict[Any, list[Event]]:
        threads: dict[Any, list[Event]] = {}
        for event in sorted(self._complete(_OPS), key=lambda op: float(op["ts"])):
            threads.setdefault((event["pid"], event["tid"]), []).append(event)
        return threads

    def _complete(self, categories: frozenset[str]) -> Iterator[Event]:
        return (each for each in self.events if each.get("ph") == "X" and each.get("cat", "").lower() in categories)


@lru_cache
def slim(path: Path) -> bytes:
    """A file without the events that no comparison of GPU work looks at; read once, and parsed anew for every edit."""
    content = path.read_bytes()
    with collector_off():
        parsed = orjson.loads(gzip.decompress(content) if path.suffix == ".gz" else content)
    parsed = parsed if isinstance(parsed, dict) else {"traceEvents": parsed}
    parsed["traceEvents"] = [
        event
        for event in parsed["traceEvents"]
        if event.get("ph") not in ("s", "f", "i") and event.get("cat") != "python_function"
    ]
    return orjson.dumps(parsed)


def _correlation(event: Event) -> Any:
    return event.get("args", {}).get("correlation")


def rename(name: str, other: str) -> Edit:
    """Give the kernels of a name another one."""

    def edit(recording: Recording) -> None:
        for event in recording.gpu(name):
            event["name"] = other

    return edit


def slow_down(name: str, factor: float) -> Edit:
    """Make the kernels of a name take longer; nothing else moves."""

    def edit(recording: Recording) -> None:
        for event in recording.gpu(name):
            event["dur"] = float(event["dur"]) * factor

    return edit


def remove(name: str, every: int = 1) -> Edit:
    """Take out every such kernel of a name, and its launch."""

    def edit(recording: Recording) -> None:
        gone = {_correlation(event) for event in recording.gpu(name)[::every]}
        recording.events[:] = [event for event in recording.events if _correlation(event) not in gone]

    return edit


def double(name: str) -> Edit:
    """Launch every kernel of a name twice, the second at once after the first."""

    def edit(recording: Recording) -> None:
        launches = recording.launches()
        fresh = 1 << 30
        for event in recording.gpu(name):
            fresh += 1
            again, launch = copy.deepcopy(event), copy.deepcopy(launches[_correlation(event)])
            again["ts"] = float(event["ts"]) + float(event["dur"])
            launch["ts"] = float(launch["ts"]) + float(launch["dur"]) / 2
            launch["dur"] = 0
            again["args"]["correlation"] = launch["args"]["correlation"] = fresh
            recording.events.extend([again, launch])

    return edit


def fuse(first: str, second: str, name: str) -> Edit:
    """Make one generated kernel of each two kernels that follow each other, as torch.compile would have."""

    def edit(recording: Recording) -> None:
        launches, gone = recording.launches(), set()
        every = recording.gpu()
        for one, two in pairwise(every):
            if first in one["name"] and second in two["name"]:
                gone.add(_correlation(two))
                one["dur"] = max(float(one["dur"]), float(two["dur"]))
                one["name"] = name
                op = recording.op_of(launches[_correlation(one)])
                if op is not None:
                    op["name"] = name
                    op["args"].pop("Input Dims", None)
        recording.events[:] = [event for event in recording.events if _correlation(event) not in gone]

    return edit


def change_shapes(name: str, factor: int) -> Edit:
    """Make the first size of every input of the operators that launch a kernel so many times as large."""

    def edit(recording: Recording) -> None:
        launches = recording.launches()
        for event in recording.gpu(name):
            op = recording.op_of(launches[_correlation(event)])
            if op is not None and not op["args"].get("edited"):
                dims = op["args"]["Input Dims"]
                op["args"]["Input Dims"] = [[shape[0] * factor, *shape[1:]] if shape else [] for shape in dims]
                op["args"]["edited"] = 1

    return edit


def swap(first: str, second: str) -> Edit:
    """Let every second kernel that follows a first of these names run, and be launched, before it."""

    def edit(recording: Recording) -> None:
        launches, every = recording.launches(), recording.gpu()
        for one, two in pairwise(every):
            if first in one["name"] and second in two["name"]:
                calls = launches[_correlation(one)], launches[_correlation(two)]
                calls[0]["args"]["correlation"], calls[1]["args"]["correlation"] = _correlation(two), _correlation(one)
                begin = float(one["ts"])
                two["ts"], one["ts"] = begin, begin + float(two["dur"])

    return edit


def shift(us: float) -> Edit:
    """Move everything in time."""

    def edit(recording: Recording) -> None:
        for event in recording.events:
            if "ts" in event:
                event["ts"] = float(event["ts"]) + us

    return edit


def renumber(streams: int, correlations: int) -> Edit:
    """Give streams and launches other numbers."""

    def edit(recording: Recording) -> None:
        for event in recording.events:
            if _correlation(event):
                event["args"]["correlation"] += correlations
        for event in recording.gpu():
            if isinstance(event["tid"], int):
                event["tid"] += streams
                event["args"]["stream"] = event["tid"]

    return edit


def spell_otherwise(recording: Recording) -> None:
    """Write the names of kernels as another demangler does: no parameters, other casts, no space between brackets."""
    for event in recording.gpu():
        name = event["name"]
        if name.startswith("void ") and name.endswith(")"):
            name = name.removeprefix("void ")
        event["name"] = name.replace("> >", ">>").replace("(anonymous namespace)", "<unnamed>")
