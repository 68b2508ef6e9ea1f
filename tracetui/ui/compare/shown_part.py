"""The part of a side that is on screen: its time range, its GPU activities, the lanes worth a line. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tracetui.comparing.calls import calls
from tracetui.comparing.composition import representative
from tracetui.comparing.op_names import versionless_name
from tracetui.comparing.side import CAPTURE, ONE_RUN, RANGE, RUN, STEP, Side
from tracetui.comparing.side import side as named
from tracetui.errors import UsageError
from tracetui.linking.links import links, op_rows
from tracetui.linking.steps import steps
from tracetui.model.intervals import Int64
from tracetui.model.trace import Kind

MIN_LANE_SHARE = 0.02
"""A thread with less than this share of a side's operators and launches is not worth a line."""
_STEP = re.compile(r"\d{1,18}")
_NAME_STRIDE = 1 << 31
"""More than there are slices of one name."""


@dataclass(frozen=True, eq=False)
class ShownPart:
    """One part of a side."""

    side: Side
    part: int

    @property
    def start(self) -> int:
        """The moment in ns that the common axis calls 0."""
        return int(self.side.start[self.part])

    @property
    def number(self) -> int:
        """Number of the step, or of the run."""
        return int(self.side.number[self.part])

    @cached_property
    def activities(self) -> Int64:
        """The GPU activities of the part, in order of start."""
        rows, part = self.side.activities()
        return np.compress(part == self.part, rows)

    @cached_property
    def length(self) -> int:
        """From the start of the part to its end, or to the end of its GPU activities; in ns, at least 1."""
        end = int(self.side.end[self.part])
        if len(self.activities):
            end = max(end, int(self.side.trace.slices.end[self.activities].max()))
        return max(end - self.start, 1)

    @cached_property
    def walk(self) -> Int64:
        """What `.` steps through: the GPU activities, or without any the operators of the part, in order of start."""
        if len(self.activities) or len(links(self.side.trace).gpu):
            return self.activities
        rows = op_rows(self.side.trace)
        rows = rows[self.side.part_of(rows) == self.part]
        return np.take(rows, np.argsort(self.side.trace.slices.start[rows], kind="stable"))

    @cached_property
    def stretches(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Begin and end of the part in ns: on threads, and of its GPU activities."""
        called = self.start, int(self.side.end[self.part])
        slices = self.side.trace.slices
        if not len(self.activities):
            return called, called
        return called, (int(slices.start[self.activities].min()), int(slices.end[self.activities].max()))

    def holds(self, row: int) -> bool:
        """Whether a slice belongs to the part; GPU annotations do where they overlap its GPU activities."""
        slices = self.side.trace.slices
        if int(slices.kind[row]) in (Kind.GPU_ANNOTATION, Kind.SYNC):
            begin, end = self.stretches[1]
            return bool(slices.start[row] < end and slices.end[row] > begin)
        return row == self.side.row[self.part] or bool(self.side.part_of(np.array([row]))[0] == self.part)

    @property
    def step(self) -> int | None:
        """The number of the step, None for runs and captures, which no pane lists by number."""
        return self.number if self.side.part_kind == STEP else None

    def from_part(self, other: int, rows: Int64) -> Int64:
        """The GPU activities of this part that correspond to some of another part: same name, same count before."""
        if other == self.part or len(rows) == 0:
            return rows
        there = ShownPart(self.side, other).activities
        name = self.side.trace.slices.name
        wanted = _nth(name[there].astype(np.int64))[np.isin(there, rows)]
        here = _nth(name[self.activities].astype(np.int64))
        return np.compress(np.isin(here, wanted), self.activities)

    def calls_named(self, kind: str, name: str) -> Int64:
        """The slices of threads in this part that a row of the operators' table stands for, in order of start."""
        called = calls(self.side)
        keys = [
            index
            for index, key in enumerate(called.keys)
            if key.kind == kind and name in (key.name, versionless_name(key.name))
        ]
        rows = called.row[np.isin(called.key, keys) & (called.part == self.part)]
        return np.take(rows, np.argsort(self.side.trace.slices.start[rows], kind="stable"))


ShownParts = tuple[ShownPart, ShownPart]
"""The parts of A and of B that are shown."""


def next_scope(side: Side, direction: int) -> str | None:
    """The scope (behind `#`) of the step or run before or after a side of one step or run; None at the ends."""
    if _STEP.fullmatch(side.scope):
        known = np.unique(steps(side.trace).number)
        index = int(np.searchsorted(known, int(side.scope))) + direction
        return str(known[index]) if 0 <= index < len(known) else None
    run = ONE_RUN.fullmatch(side.scope)
    if side.part_kind != RUN or run is None:
        return None
    number = int(run[2]) + direction
    return f"{run[1]}[{number}]" if 1 <= number <= len(named(side.trace, run[1])) else None


def neighbour(part: ShownPart, direction: int) -> ShownPart | None:
    """The part before or after, None at the ends; for a side of one step or run, that of the neighbouring one."""
    side, index = part.side, part.part + direction
    if 0 <= index < len(side):
        return ShownPart(side, index)
    scope = next_scope(side, direction) if len(side) == 1 else None
    try:
        other = named(side.trace, scope) if scope is not None else None
    except UsageError:
        return None
    return ShownPart(other, 0) if other is not None and representative(other) >= 0 else None


def lanes_worth_showing(side: Side) -> list[int] | None:
    """The threads that run or launch what the parts hold, and the streams on which it ran; None for all lanes."""
    trace = side.trace
    lanes, work = trace.slices.lane, side.activities()[0]
    called = np.union1d(op_rows(trace), links(trace).launches)
    if not len(work) and not len(called):
        return None
    held = np.bincount(lanes[called[side.part_of(called) >= 0]], minlength=len(trace.lanes))
    shown = held > MIN_LANE_SHARE * held.sum()
    if side.part_kind not in (CAPTURE, RANGE):
        shown[lanes[side.row]] = True
    shown[lanes[work]] = True
    return np.flatnonzero(shown).tolist() or None


def _nth(names: Int64) -> Int64:
    """For each entry its name together with how many of the name came before."""
    order = np.argsort(names, kind="stable")
    ranked = names[order]
    result = np.empty(len(names), np.int64)
    result[order] = ranked * _NAME_STRIDE + np.arange(len(names)) - np.searchsorted(ranked, ranked)
    return result
