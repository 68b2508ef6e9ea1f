"""Iterations of a loop in a trace that names no steps: optimizers step, a module or operators repeat (R3.98).

Each lasts until the next begins. They are taken for steps where three and more are alike, in the operators of all
threads, and hold most of the work of the trace; otherwise nothing is. Layers repeat too: what only repeats within one
forward pass is no step, nor is the recording of a graph.
"""

from __future__ import annotations

import re

import numpy as np

from tracetui.linking.autograd import BACKWARD
from tracetui.linking.frames import MODULE
from tracetui.linking.links import links, op_rows
from tracetui.linking.step_series import StepSeries, in_recording, is_training, on_busiest_thread, outermost
from tracetui.linking.trees import is_named, lane_numbers
from tracetui.model.intervals import Bool, Int64
from tracetui.model.results import kept
from tracetui.model.trace import Kind, Trace

MIN_ITERATIONS = 3
"""Minimum iterations that are taken for steps."""
MIN_COMMON_SHARE = 0.8
"""Minimum share of the operators that an iteration has in common with the usual one, of the larger of both."""
MIN_COVERED_SHARE = 0.8
"""Minimum share of the time of GPU activities, without a GPU of operators, that the iterations hold together."""
MAX_OPTIMIZERS = 4
"""Maximum calls of optimizers per iteration."""
MAX_PERIODS = 16
"""Maximum periods of operators that are tried."""
MIN_ONCE = 3
"""Minimum names that occur once in the operators of a forward pass: those before and behind its layers."""

_STEP, _ZERO_GRAD = re.compile(r"^Optimizer\.step\b"), re.compile(r"^Optimizer\.zero_grad\b")
_ONCE_PER_PASS = re.compile(
    r"^enumerate\(DataLoader\)#|^(cuda|hip)DeviceSynchronize$|^aten::(embedding|argmax|multinomial)$"
)
"""Names of what an iteration without a backward pass may do, and a layer does not: loading data, waiting, tokens."""


@kept
def loop_series(trace: Trace) -> list[StepSeries]:
    """The iterations of a loop that cover the trace, in one way; none where no such way is sure enough."""
    rows = trace.slices.of_kind(Kind.ANNOTATION, Kind.CPU_OP)
    for pattern in (_STEP, _ZERO_GRAD):
        marks = on_busiest_thread(trace.slices, rows[is_named(trace, rows, pattern.search)])
        if len(marks):
            # Whatever else repeats between two steps of an optimizer are micro-batches or layers.
            return _by_optimizer(trace, marks[outermost(trace.slices, marks)], pattern is _STEP)
    return _by_module(trace) or _by_operators(trace)


def _by_optimizer(trace: Trace, marks: Int64, is_last: bool) -> list[StepSeries]:
    """Iterations that end with a step of an optimizer, or begin where it sets gradients to zero."""
    slices = trace.slices
    name = trace.name_of(int(marks[0]))
    for each in range(1, min(MAX_OPTIMIZERS, len(marks) // MIN_ITERATIONS) + 1):
        rows, end = marks[::each], trace.window[1]
        if is_last:
            ends = slices.end[marks[each - 1 :: each]]
            own = slices.of_kind(Kind.ANNOTATION, Kind.CPU_OP, Kind.RUNTIME)
            own = own[slices.lane[own] == slices.lane[marks[0]]]
            own = own[np.argsort(slices.start[own], kind="stable")]
            rows = own[np.append(0, np.searchsorted(slices.start[own], ends[:-1]))]
            end = int(ends[-1])
        series = _series(trace, "optimizer", rows, end, f"`{name}` repeats")
        if series:
            return series
    return []


def _by_module(trace: Trace) -> list[StepSeries]:
    """Iterations from one forward pass to the next, of the module that takes most time within no other module."""
    python = trace.slices.of_kind(Kind.PYTHON)
    modules = on_busiest_thread(trace.slices, python[is_named(trace, python, lambda name: name.startswith(MODULE))])
    modules = modules[outermost(trace.slices, modules)]
    if len(modules) < MIN_ITERATIONS:
        return []
    time = np.bincount(trace.slices.name[modules], trace.slices.dur[modules])
    rows = modules[trace.slices.name[modules] == int(time.argmax())]
    name = trace.name_of(int(rows[0])).removeprefix(MODULE)
    return _series(trace, "modules", rows, trace.window[1], f"the forward pass of `{name}` repeats")


def _by_operators(trace: Trace) -> list[StepSeries]:
    """Iterations of equal operators, from the first to the last one of the thread that launches a forward pass."""
    slices, rows = trace.slices, op_rows(trace)
    rows = rows[outermost(slices, rows)]
    rows = on_busiest_thread(slices, rows[~is_named(trace, rows, BACKWARD.search)])
    sequence = slices.name[rows].astype(np.int64)
    period = _period(sequence)
    if period is None:
        return []
    starts = rows[::period][: len(rows) // period]
    trains = is_training(trace)
    marked = slices.of_kind(Kind.ANNOTATION, Kind.CPU_OP, Kind.RUNTIME)
    marked = marked[is_named(trace, marked, (BACKWARD if trains else _ONCE_PER_PASS).search)]
    index = np.searchsorted(slices.start[starts], slices.start[marked], side="right") - 1
    is_in_each = len(np.unique(index[index >= 0])) == len(starts)
    if not is_in_each and (trains or not _is_pass(sequence[:period])):
        return []
    what = f"{period:,} operators repeat" if period > 1 else f"`{trace.name_of(int(rows[0]))}` repeats"
    return _series(trace, "operators", starts, trace.window[1], what)


def _period(sequence: Int64) -> int | None:
    """The smallest number of elements after which a sequence repeats, from beginning to end, three times at least."""
    if len(sequence) < MIN_ITERATIONS:
        return None
    names, counts = np.unique(sequence, return_counts=True)
    counts[counts < MIN_ITERATIONS] = len(sequence)
    at = np.flatnonzero(sequence == names[counts.argmin()])
    for period in (at[1:] - at[0])[:MAX_PERIODS].tolist():
        if period * MIN_ITERATIONS <= len(sequence) and (sequence[period:] == sequence[:-period]).all():
            return int(period)
    return None


def _is_pass(sequence: Int64) -> bool:
    """True for the operators of a forward pass: most of them in layers, which repeat, and some around these."""
    _, counts = np.unique(sequence, return_counts=True)
    return bool(counts[counts >= MIN_ITERATIONS].sum() * 2 >= len(sequence) and (counts == 1).sum() >= MIN_ONCE)


def _series(trace: Trace, name: str, rows: Int64, end: int, what: str) -> list[StepSeries]:
    """Iterations from one slice of a thread to the next, without odd ones at the ends, if they cover the trace."""
    slices = trace.slices
    ends = np.append(slices.start[rows][1:], end)
    if in_recording(trace, rows).any() or (ends <= slices.start[rows]).any():
        return []
    alike = np.flatnonzero(_are_alike(trace, rows, ends))
    if len(alike) < MIN_ITERATIONS or alike[-1] - alike[0] + 1 != len(alike):
        return []
    rows, ends = rows[alike], ends[alike]
    if _covered_share(trace, rows, int(ends[-1])) < MIN_COVERED_SHARE:
        return []
    words = f"~ guessed: {what} {len(rows):,} times; a step may begin elsewhere"
    return [StepSeries(name, f"repeating {name}", rows, ends, words, is_guess=True, is_served=False)]


def _are_alike(trace: Trace, rows: Int64, ends: Int64) -> Bool:
    """Mask of the iterations that have most operators in common with the one of median size, on all threads."""
    slices, process = trace.slices, lane_numbers(trace).process
    ops = op_rows(trace)
    ops = ops[process[slices.lane[ops]] == process[slices.lane[rows[0]]]]
    index = np.searchsorted(slices.start[rows], slices.start[ops], side="right") - 1
    inside = (index >= 0) & (slices.start[ops] < ends[index])
    key, counts = np.unique(index[inside] * len(trace.names) + slices.name[ops[inside]], return_counts=True)
    iteration, name = np.divmod(key, len(trace.names))
    size = np.bincount(iteration, counts, len(rows))
    usual = int(np.argsort(size, kind="stable")[len(rows) // 2])
    expected = np.zeros(len(trace.names), np.int64)
    expected[name[iteration == usual]] = counts[iteration == usual]
    common = np.bincount(iteration, np.minimum(counts, expected[name]), len(rows))
    return np.asarray((size > 0) & (common >= MIN_COMMON_SHARE * np.maximum(size, size[usual])), bool)


def _covered_share(trace: Trace, rows: Int64, end: int) -> float:
    """The share of GPU time that was launched in the iterations; without a GPU, of the operators of their thread and of
    backward passes in the time of all operators.
    """
    slices, joined = trace.slices, links(trace)
    low = int(slices.start[rows[0]])
    if len(joined.gpu):
        launch = joined.launch[joined.gpu].astype(np.int64)
        begin, time, own = slices.start[launch], slices.dur[joined.gpu], launch >= 0
    else:
        ops = op_rows(trace)
        ops = ops[outermost(slices, ops, slices.lane[ops].astype(np.int64))]
        begin, time = slices.start[ops], slices.dur[ops]
        own = (slices.lane[ops] == slices.lane[rows[0]]) | is_named(trace, ops, BACKWARD.search)
    inside = own & (low <= begin) & (begin < end)
    return float(time[inside].sum()) / max(int(time.sum()), 1)
