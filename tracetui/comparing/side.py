"""One side of a comparison: a trace, and the parts of it that are compared.

A part is a step, a run of an annotation or of a Python function, or the whole capture. It holds the CPU slices that
begin in its window and the GPU activities launched in it (R3.3), on every thread of its process. A range of time holds
what ran in it, by its own time and as far as it did (R3.57).

The scope follows the path: `trace.json#3` is a step and `#2:5` several; `#forward` is every run of an annotation or a
Python function and `#forward[2]` its second run; `#Net_0/Linear_1` is a module or a function below another, from the
root of the tree with `/` first; `#e120` is the slice of an event, `#@12us+250us` a range of time, `#all` the capture.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

import numpy as np

from tracetui.errors import UsageError
from tracetui.frozen import frozen
from tracetui.linking.frames import MODULE, function_of, is_own
from tracetui.linking.links import links
from tracetui.linking.placement import chosen, lost_launches, step_index
from tracetui.linking.step_kinds import averaged_steps, partial_steps, unserving_steps
from tracetui.linking.steps import steps
from tracetui.linking.trees import is_named, lane_numbers
from tracetui.model.intervals import Int64, TimeRange, read_time_range
from tracetui.model.trace import Kind, Trace
from tracetui.operators.costs import Costs, costs, costs_within, self_times
from tracetui.tables.modules import calls_of_path

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
STEP, RUN, RANGE, CAPTURE = "step", "run", "range", "capture"
"""Kinds of parts."""
MIN_LENGTH_DIFFERENCE = 0.01
"""Minimum difference in length between two ranges that is mentioned, as a share of the shorter one."""
_STEPS = re.compile(r"(\d{1,18})(?::(\d{1,18}))?")
_EVENT = re.compile(r"e(\d{1,18})")
ONE_RUN = re.compile(r"(.+)\[(\d{1,9})\]")
"""Pattern of a scope that is one run of a name: `forward[2]`."""


@frozen
class Side:
    """A trace and the parts of it that are compared; the arrays have one entry per part, in order of time."""

    trace: Trace
    scope: str
    """The scope after the `#`; empty for the complete steps."""
    part_kind: str
    """Kind of the parts: `step`, `run`, `range` or `capture`."""
    row: Int64
    """The slice of each part; -1 for the capture and for a range."""
    start: Int64
    """Start of each part's window on the CPU, in ns."""
    end: Int64
    number: Int64
    """Number of the step, or of the run, from 1."""
    remark: str = ""
    """A sentence on steps that were left out; empty for none."""

    def __len__(self) -> int:
        return len(self.start)

    @property
    def name(self) -> str:
        """The file and the scope, as on the command line."""
        return f"{self.trace.label}#{self.scope}" if self.scope else self.trace.label

    @property
    def time_range(self) -> TimeRange | None:
        """The range of time that the side is; None for any other."""
        return TimeRange(int(self.start[0]), int(self.end[0])) if self.part_kind == RANGE else None

    @property
    def step_indices(self) -> Int64:
        """The index in `steps(trace)` of each part of a side of steps."""
        rows = steps(self.trace).row
        order = np.argsort(rows)
        return np.asarray(order[np.searchsorted(rows[order], self.row)])

    def bounds(self, rows: Int64) -> tuple[Int64, Int64]:
        """Start and end in ns of slices of the parts, cut to the range where the side is one."""
        start, end = self.trace.slices.start[rows], self.trace.slices.end[rows]
        if (time_range := self.time_range) is None:
            return start, end
        return np.clip(start, time_range.start, time_range.end), np.clip(end, time_range.start, time_range.end)

    def times(self, rows: Int64) -> Int64:
        """Time in ns that slices of the parts ran, in a range as far as within it."""
        start, end = self.bounds(rows)
        return end - start

    def costs(self) -> Costs:
        """The costs of CPU slices, in a range as far as within it."""
        return costs(self.trace) if self.time_range is None else costs_within(self.trace, self.time_range)

    def self_times(self) -> Int64:
        """Self CPU time in ns of every slice of the trace, in a range as far as within it."""
        if self.time_range is None:
            return self_times(self.trace)
        part = self.time_range
        return self.trace.keep(("self times of range", part), lambda: self_times(self.trace, part))

    def part_of(self, rows: Int64) -> Int64:
        """The part that each slice or GPU activity belongs to, -1 for none."""
        if self.part_kind == CAPTURE:
            return np.zeros(len(rows), np.int64)
        if self.part_kind == STEP:
            part = np.full(len(steps(self.trace)) + 1, -1, np.int64)
            part[self.step_indices] = np.arange(len(self))
            return part[step_index(self.trace, rows)]
        if (time_range := self.time_range) is not None:
            slices = self.trace.slices
            return np.where(time_range.touched(slices.start[rows], slices.end[rows]), 0, -1)
        return self._run_of(rows)

    @property
    def uses_gpu(self) -> bool:
        """True where a part of it launched a GPU activity."""
        return len(self.activities()[0]) > 0

    def activities(self) -> tuple[Int64, Int64]:
        """The GPU activities of all parts in order of start, and the part of each."""

        def make() -> tuple[Int64, Int64]:
            gpu = links(self.trace).gpu
            part = self.part_of(gpu)
            return gpu[part >= 0], part[part >= 0]

        return self.trace.keep(("work of parts", self.scope), make)

    def inferred(self) -> int:
        """Number of activities without launch record, placed by their own start: a guess (R3.3)."""
        if self.part_kind in (CAPTURE, RANGE):
            return 0
        return int((links(self.trace).launch[self.activities()[0]] < 0).sum())

    def unlaunched(self) -> Int64:
        """Number of activities of each part whose launch call in the capture was not recorded.

        Every value that rests on launches is too small for such a part, by an unknown amount.
        """

        def count() -> Int64:
            rows, part = self.activities()
            return np.bincount(part[lost_launches(self.trace, rows)], minlength=len(self)).astype(np.int64)

        return self.trace.keep(("unlaunched work of parts", self.scope), count)

    def _run_of(self, rows: Int64) -> Int64:
        """The run in which each row was launched, or started where it has no launch, on any thread of its process."""
        slices, process = self.trace.slices, lane_numbers(self.trace).process
        launch = links(self.trace).launch[rows].astype(np.int64)
        source = np.where(launch >= 0, launch, rows)
        index = np.searchsorted(self.start, slices.start[source], side="right") - 1
        inside = (index >= 0) & (slices.start[source] < self.end[index])
        unlaunched = np.isin(rows, links(self.trace).gpu) & (launch < 0)
        inside &= unlaunched | (process[slices.lane[source]] == process[slices.lane[self.row[index]]])
        return np.where(inside, index, -1)


def side(trace: Trace, scope: str = "") -> Side:
    """The side of a scope; without one the complete steps, or the capture where there are no steps.

    Raises: UsageError for a step, an event or a name that the trace does not hold.
    """
    if match := _STEPS.fullmatch(scope):
        return _of_steps(trace, scope, int(match[1]), int(match[2] or match[1]))
    if scope == "all" or (scope == "" and len(steps(trace)) == 0):
        return _window(trace, scope, CAPTURE, *trace.window)
    if scope == "":
        return _complete_steps(trace)
    if scope.startswith("@"):
        time_range = read_time_range(scope)
        return _window(trace, scope, RANGE, time_range.start, time_range.end)
    if match := _EVENT.fullmatch(scope):
        rows = np.flatnonzero(trace.slices.event == int(match[1]))
        if len(rows) == 0:
            raise UsageError(f"{trace.label} has no slice for event {match[1]}.")
        return _runs(trace, scope, rows)
    return _runs_named(trace, scope)


def differ_in_length(a: Side, b: Side) -> bool:
    """True where the sides are ranges of time of different length, whose times cannot be compared as speeds."""
    if a.time_range is None or b.time_range is None:
        return False
    shorter, longer = sorted((a.time_range.length, b.time_range.length))
    return longer - shorter > MIN_LENGTH_DIFFERENCE * shorter


def _complete_steps(trace: Trace) -> Side:
    """Every step that was recorded in full (R3.6), but idle and dummy calls of a server."""
    remarks = []
    for mask, why in ((partial_steps(trace), "was cut by the profiler"), (unserving_steps(trace), "served no request")):
        numbers = ", ".join(map(str, steps(trace).number[mask].tolist()))
        if numbers:
            remarks.append(f"Step {numbers} of {trace.label} {why} and is left out.")
    return _steps(trace, "", np.flatnonzero(averaged_steps(trace)), " ".join(remarks))


def _of_steps(trace: Trace, scope: str, first: int, last: int) -> Side:
    if first == last:
        return _steps(trace, scope, chosen(trace, first))
    numbers = steps(trace).number
    picked = np.flatnonzero((numbers >= first) & (numbers <= last))
    if len(picked) == 0:
        chosen(trace, first)
        raise UsageError(f"{trace.label} has no steps from {first} to {last}.")
    return _steps(trace, scope, picked)


def _steps(trace: Trace, scope: str, picked: Int64, remark: str = "") -> Side:
    row, start, end, number = (getattr(steps(trace), name)[picked] for name in ("row", "start", "end", "number"))
    return Side(trace, scope, STEP, row, start, end, number, remark)


def _window(trace: Trace, scope: str, kind: str, start: int, end: int) -> Side:
    one = np.array([1], np.int64)
    return Side(trace, scope, kind, -one, np.array([start], np.int64), np.array([end], np.int64), one)


def _runs_named(trace: Trace, scope: str) -> Side:
    """All runs of a name, or one of them."""
    wanted = ONE_RUN.fullmatch(scope)
    rows = _rows_named(trace, scope)
    if len(rows) == 0 and wanted:
        rows = _rows_named(trace, wanted[1])
    else:
        wanted = None
    if len(rows) == 0:
        raise UsageError(
            f"{trace.label} has no step, annotation, Python function or operator {scope!r}: `#3` is a step, "
            "`#forward` a name, `#forward[2]` its second run, `#Net_0/Linear_1` a module below another, `#e120` an "
            "event, `#@12us+250us` a range of time, `#all` the capture."
        )
    runs = _runs(trace, scope, rows)
    if wanted is None:
        return runs
    if not 1 <= int(wanted[2]) <= len(runs):
        raise UsageError(f"{trace.label} holds {len(runs)} runs of {wanted[1]!r}: there is no run {wanted[2]}.")
    one = slice(int(wanted[2]) - 1, int(wanted[2]))
    return Side(trace, scope, RUN, runs.row[one], runs.start[one], runs.end[one], runs.number[one])


def _rows_named(trace: Trace, name: str) -> Int64:
    """The slices of a name: annotations, else Python frames by function name, else operators, else of a path."""
    for kind in (Kind.ANNOTATION, Kind.PYTHON, Kind.CPU_OP):
        rows = trace.slices.of_kind(kind)
        rows = rows[is_named(trace, rows, lambda text: name in (text, function_of(text), text.removeprefix(MODULE)))]
        if len(rows):
            return rows
    return calls_of_path(trace, name) if "/" in name else np.empty(0, np.int64)


def _runs(trace: Trace, scope: str, rows: Int64) -> Side:
    """The slices as parts, without those that begin inside another: recursive calls, other threads."""
    slices = trace.slices
    rows = rows[np.lexsort((-slices.dur[rows], slices.start[rows]))]
    reach = np.maximum.accumulate(slices.end[rows])
    outer = np.ones(len(rows), bool)
    outer[1:] = slices.start[rows[1:]] >= reach[:-1]
    kept = rows[outer]
    return Side(trace, scope, RUN, kept, slices.start[kept], slices.end[kept], np.arange(1, len(kept) + 1))


# Scopes of a trace that can be compared: its steps, else annotations and functions that run several times.

MAX_OFFERED_NAMES = 6
"""Maximum names offered."""
_HIDDEN = ("<", "_")
"""Prefixes of functions that nobody compares: `<module>`, `<built-in ...>`, `__call__`, and private functions."""


def step_scopes(trace: Trace) -> list[str]:
    """The scopes of the complete steps, idle ones of a server left out, in order."""
    return [f"#{number}" for number in steps(trace).number[averaged_steps(trace)].tolist()]


def repeated_scopes(trace: Trace) -> list[tuple[str, int]]:
    """Names of annotations and Python functions with several runs, the longest in sum first, and their numbers of runs.

    Names whose runs lie within another of them are left out.
    """
    slices = trace.slices
    rows = slices.of_kind(Kind.ANNOTATION, Kind.PYTHON)
    rows = rows[~np.isin(rows, steps(trace).row)]
    used, index = np.unique(slices.name[rows], return_inverse=True)
    spelled = [trace.names[name] for name in used.tolist()]
    names = [function_of(name) if is_own(name) else "" for name in spelled]
    known = {name: number for number, name in enumerate(dict.fromkeys(names))}
    number = np.array([known[name] for name in names], np.int64)[index] if len(used) else index
    runs = np.bincount(number, minlength=len(known))
    wanted = np.array([bool(name) and not name.startswith(_HIDDEN) for name in known], bool)
    repeated = ((runs > 1) & wanted)[number] if len(known) else np.zeros(0, bool)
    outer = repeated & ~_within(trace, rows[repeated], rows)
    time = np.bincount(number[outer], slices.dur[rows[outer]], len(known))
    often = np.bincount(number[outer], minlength=len(known))
    order = [each for each in np.argsort(-time, kind="stable").tolist() if often[each] > 1]
    spelled = list(known)
    return [(spelled[each], int(often[each])) for each in order[:MAX_OFFERED_NAMES]]


def _within(trace: Trace, holders: Int64, rows: Int64) -> np.ndarray:
    """Mask of the rows that have one of the holders around them on their thread."""
    parent = trace.slices.parent
    within = np.zeros(len(parent) + 1, bool)
    is_holder = np.zeros(len(parent) + 1, bool)
    is_holder[holders] = True
    above = parent[rows].astype(np.int64)
    while (above >= 0).any():
        within[rows] |= is_holder[above] & (above >= 0)
        above = np.where(above >= 0, parent[above], -1)
    return within[rows]


def kept_with_side(
    function: Callable[Concatenate[Side, Arguments], Result],
) -> Callable[Concatenate[Side, Arguments], Result]:
    """Keep the results of a function with the trace of its side, one per scope and set of other arguments."""
    name = f"{function.__module__}.{function.__name__}"

    @wraps(function)
    def once(side: Side, /, *args: Arguments.args, **named: Arguments.kwargs) -> Result:
        key = (name, side.scope, *args, *sorted(named.items()))
        return side.trace.keep(key, lambda: function(side, *args, **named))

    return once
