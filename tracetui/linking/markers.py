"""Annotations that could serve as steps in a trace without steps: they repeat at top level with similar durations
(R3.5).

They are only offered. Names that differ only in numbers count as one name, with `#` for each number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from tracetui.linking.groups import group
from tracetui.linking.steps import steps
from tracetui.linking.trees import forest
from tracetui.model.intervals import Int64
from tracetui.model.strings import Strings
from tracetui.model.trace import Kind, Trace

MIN_REPEATS = 3
"""Minimum occurrences of a marker."""
MAX_DURATION_RATIO = 2.0
"""Maximum ratio of the upper to the lower quartile of a marker's durations."""

_NUMBER = re.compile(r"\d+")
LIBRARY = re.compile(
    r"^(nccl|gloo|hccl|mpi|c10d|ucc)[:_]|^enumerate\(|^Optimizer\.|^TorchDynamo|CompiledFxGraph|^Torch-Compiled"
)
"""Annotations that libraries write inside a step."""


@dataclass(frozen=True, eq=False)
class Marker:
    """An annotation that repeats."""

    name: str
    """Its name, with `#` for numbers that differ."""
    rows: Int64
    """Its slices, in order of start."""
    total: int
    """Sum of their durations in ns."""


def markers(trace: Trace) -> list[Marker]:
    """Possible markers of steps, the one that covers most time first; none where the profiler recorded steps."""

    def find() -> list[Marker]:
        if len(trace.slices.of_kind(Kind.ANNOTATION)) == 0 or len(steps(trace)):
            return []
        candidates = [marker for name, rows in _repeated(trace).items() if (marker := _marker(trace, name, rows))]
        return sorted(candidates, key=lambda marker: -marker.total)

    return trace.remember("markers", find)


def _repeated(trace: Trace) -> dict[str, Int64]:
    """Annotations by name that repeat on one thread and lie within none of the others; in order of start."""
    slices = trace.slices
    rows = slices.of_kind(Kind.ANNOTATION)
    used, index = np.unique(slices.name[rows], return_inverse=True)
    texts = Strings()
    codes = np.array([texts.intern(skeleton(trace.names[number])) for number in used.tolist()], np.int64)
    own = np.array([not LIBRARY.search(text) for text in texts], bool)
    code = codes[index]
    threads = group(code * len(trace.lanes) + slices.lane[rows])
    often = own[code] & (threads.calls[threads.member] >= MIN_REPEATS)
    rows, member = rows[often], threads.member[often]
    top = forest(trace, rows) < 0
    rows, member = rows[top], member[top]
    order = np.argsort(member, kind="stable")
    largest: dict[str, Int64] = {}
    for mine in np.split(rows[order], np.flatnonzero(np.diff(member[order])) + 1):
        name = common_name(trace, mine)
        if len(mine) > len(largest.get(name, ())):
            largest[name] = mine
    return largest


def skeleton(name: str) -> str:
    """A name with `#` in place of each number."""
    return _NUMBER.sub("#", name)


def common_name(trace: Trace, rows: Int64) -> str:
    """The name that slices share, with `#` for the numbers in which they differ."""
    same = len(rows) == 0 or bool((trace.slices.name[rows] == trace.slices.name[rows[0]]).all())
    name = trace.name_of(int(rows[0])) if len(rows) else ""
    return name if same else skeleton(name)


def _marker(trace: Trace, name: str, rows: Int64) -> Marker | None:
    dur = trace.slices.dur[rows]
    low, high = np.percentile(dur, [25, 75])
    if len(rows) < MIN_REPEATS or high > MAX_DURATION_RATIO * low:
        return None
    return Marker(name, rows, int(dur.sum()))
