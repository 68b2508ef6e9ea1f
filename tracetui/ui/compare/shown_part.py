"""The part of a side that is on screen: its time range, its GPU activities, the lanes worth a line. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property

import numpy as np

from tracetui.comparing.measures import calls, known_measures, recording_conditions, versionless_name
from tracetui.comparing.noise import representative
from tracetui.comparing.side import CAPTURE, ONE_RUN, RANGE, RUN, STEP, Side
from tracetui.comparing.side import side as named
from tracetui.drawing.format import cut_name, shorten
from tracetui.errors import AnalysisFailed, UsageError
from tracetui.frozen import frozen
from tracetui.idle.scope_times import step_periods
from tracetui.linking.links import links, op_rows
from tracetui.linking.steps import steps
from tracetui.model.intervals import Int64
from tracetui.model.quantities import count, duration
from tracetui.model.results import guarded
from tracetui.model.trace import GPU_WORK, Kind
from tracetui.text import clean
from tracetui.ui.trace.slice_description import KIND_WORDS, short_name
from tracetui.ui.widgets.bar import BarPart, damage_marks, switch_parts

MIN_LANE_SHARE = 0.02
"""A thread with less than this share of a side's operators and launches is not worth a line."""
_STEP = re.compile(r"\d{1,18}")
_NAME_STRIDE = 1 << 31
"""More than there are slices of one name."""


@frozen
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
        """The slices that `.` steps through, in order of start: GPU activities, or without any the operators."""
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
        """True for a slice that belongs to the part; GPU annotations do where they overlap its GPU activities."""
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
    calls_in = np.bincount(lanes[called[side.part_of(called) >= 0]], minlength=len(trace.lanes))
    is_shown = calls_in > MIN_LANE_SHARE * calls_in.sum()
    if side.part_kind not in (CAPTURE, RANGE):
        is_shown[lanes[side.row]] = True
    is_shown[lanes[work]] = True
    return np.flatnonzero(is_shown).tolist() or None


def _nth(names: Int64) -> Int64:
    """For each entry its name together with how many of the name came before."""
    order = np.argsort(names, kind="stable")
    ranked = names[order]
    result = np.empty(len(names), np.int64)
    result[order] = ranked * _NAME_STRIDE + np.arange(len(names)) - np.searchsorted(ranked, ranked)
    return result


# One-line texts about two sides: the header, the titles of the timelines, notices about a slice. Pure.

MARKS = "AB"
"""The names of the sides."""
MIN_NAME_LETTERS = 16
"""Letters of each name that are always shown."""
WIDE_CELLS = 110
"""Width from which lines say more than the essential."""
OWN_PARTNER, ROW_PARTNERS, NO_PARTNER = "", "with others", "none"
"""The partners of a slice: of its own, those of its whole row of the list, or none at all."""


def compare_parts(sides: Sequence[Side], width: int) -> tuple[BarPart, ...]:
    """The header: both names, marks of damage, and the devices."""
    devices: dict[str, None] = {}
    for side in sides:
        # An analysis that failed is reported in its own place.
        with suppress(AnalysisFailed), guarded("The description of a side"):
            devices.update(dict.fromkeys(recording_conditions(side).devices))
    about = f"  {clean(', '.join([*devices][:2]))}" if devices and width >= WIDE_CELLS else ""
    marks = ["".join(f" {mark}" for mark in damage_marks(side.trace)) for side in sides]
    taken = len(about) + sum(map(len, marks)) + 2 * len("A  ") + 2
    room = max((width - taken) // 2, MIN_NAME_LETTERS)
    names = _distinct_names([clean(side.name) for side in sides], room)
    parts: list[BarPart] = []
    for letter, name, mark in zip(MARKS, names, marks, strict=True):
        parts += [BarPart(f"{'  ' if parts else ''}{letter} ", "key"), BarPart(name, "strong"), BarPart(mark, "warn")]
    return *parts, BarPart(about, "dim")


def _distinct_names(names: list[str], room: int) -> list[str]:
    """Names cut to some letters; where they begin alike, they are cut at the front."""
    if all(len(name) <= room for name in names):
        return names
    cut = [shorten(name, room) for name in names]
    if cut[0] == cut[1] and names[0] != names[1]:
        cut = [name if len(name) <= room else "…" + name[-(room - 1) :] for name in names]
    return cut


def part_parts(
    letter: str, part: ShownPart, focused: bool, width: int, representative: bool, name: str = ""
) -> tuple[BarPart, ...]:
    """The line above a timeline: which step or run it shows, how long that took, what the GPU did in it.

    A `name` stands in place of the part.
    """
    side = part.side
    parts = [BarPart(f" {letter} ", "current" if focused else "strong"), BarPart(" ")]
    if name:
        parts.append(BarPart(name, "strong"))
    elif side.part_kind == CAPTURE:
        parts.append(BarPart("whole capture", "strong"))
    else:
        scope = f"{cut_name(clean(side.scope), 24)} " if side.part_kind in (RUN, RANGE) else "step "
        max_numbers = 7 if width >= WIDE_CELLS else 3
        parts += [BarPart(scope), *switch_parts(side.number.tolist(), part.part, max_numbers)]
    words = [*_times(part), *_on_gpu(part)]
    room = width - sum(len(part.text) for part in parts) - 3
    if representative and len(side) > 1 and width >= WIDE_CELLS:
        words.append("representative step" if side.part_kind == STEP else "representative run")
    while len(words) > 1 and len(" · ".join(words)) > room:
        words.pop()
    return *parts, BarPart("   " + " · ".join(words))


def _times(part: ShownPart) -> list[str]:
    """The period of a step and its CPU time by name, as the pane of steps has them; the duration of anything else."""
    side = part.side
    lasted = duration(int(side.end[part.part] - side.start[part.part]))
    if side.part_kind != STEP:
        return [lasted]
    low, high = (int(each[side.step_indices[part.part]]) for each in step_periods(side.trace))
    period = [f"period {duration(high - low)}"] if len(part.activities) else []
    return [*period, f"CPU {lasted}"]


def _on_gpu(part: ShownPart) -> list[str]:
    if not len(part.activities):
        return []
    known = known_measures(part.side)[0].get("gpu_busy_us")
    busy = float("nan") if known is None else float(known.values[part.part])
    number = len(part.activities)
    words = [f"{count(number)} GPU activit{'y' if number == 1 else 'ies'}"]
    return words if busy != busy else [*words, f"busy {duration(1000 * busy)}"]


def place_words(part: ShownPart, row: int) -> str:
    """The number of a slice in its part: `kernel 5 of 36`, `operator 2 of 10`, or `call` for slices that `.` skips."""
    trace = part.side.trace
    kind = KIND_WORDS.get(Kind(int(trace.slices.kind[row])), "slice")
    if not part.holds(row):
        return f"{kind} outside of this {part.side.part_kind}"
    indices = np.flatnonzero(part.walk == row)
    if not len(indices):
        return kind
    what = "kernel" if int(trace.slices.kind[row]) in GPU_WORK else "operator"
    return f"{what} {count(int(indices[0]) + 1)} of {count(len(part.walk))}"


def slice_words(side: int, part: ShownPart, row: int, partners: str, width: int) -> str:
    """One line; the name gives way where that is short."""
    start, dur = part.side.trace.slices.start[row], part.side.trace.slices.dur[row]
    before = f"{MARKS[side]}: {place_words(part, row)}: "
    after = f"  {duration(int(dur))} at {duration(int(start) - part.start)}"
    remark = {NO_PARTNER: f"  no match in {MARKS[1 - side]}", ROW_PARTNERS: "  no match of its own"}.get(partners, "")
    name = clean(short_name(part.side.trace, row))
    return before + shorten(name, max(width - len(before) - len(after) - len(remark), 12)) + after + remark


def end_words(side: int, part: ShownPart, direction: int, on_row: bool = False) -> str:
    """The reason why walking goes no further: in the whole part, or on one row of the timeline."""
    what = "kernel" if len(part.activities) else "operator"
    where = {STEP: f"step {part.number}", RUN: "this run", RANGE: "this range"}.get(part.side.part_kind, "the capture")
    way = "after" if direction > 0 else "before"
    if on_row:
        return f"{MARKS[side]} has nothing {way} this slice on its row in {where}."
    return f"{MARKS[side]} has no {what} {way} this one in {where}."


# Going from step to step, or run to run, with both sides or with one. Pure.

_DIRECTIONS = {-1: "before", 1: "after"}


def next_parts(parts: ShownParts, moving: Sequence[int], direction: int) -> ShownParts | str:
    """The parts after the `moving` sides have gone a step on, or why they do not: neither moves where one cannot."""
    moved = {side: neighbour(parts[side], direction) for side in moving}
    stuck = [side for side in moving if moved[side] is None]
    if stuck:
        return stuck_words(parts, stuck, moving, direction)
    first, second = (moved.get(side) or parts[side] for side in (0, 1))
    return first, second


def stuck_words(parts: ShownParts, stuck: Sequence[int], moving: Sequence[int], direction: int) -> str:
    """A sentence about the side that has nothing in a direction, and the key that moves the other."""
    reasons = []
    for side in stuck:
        part_kind = parts[side].side.part_kind
        reasons.append(
            f"{MARKS[side]} is the whole capture"
            if part_kind == CAPTURE
            else f"{MARKS[side]} has no {part_kind} {_DIRECTIONS[direction]} this one"
        )
    text = " and ".join(reasons)
    if len(moving) > len(stuck):
        key = "{" if direction < 0 else "}"
        text += (
            f": {key} moves {MARKS[1 - stuck[0]]} alone{' while its timeline has the focus' if stuck[0] == 1 else ''}"
        )
    return f"{text}."
