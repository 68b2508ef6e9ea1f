"""Expected properties of a trace, looked up one by one: what is wanted, what was found, and where.

A number that differs between steps is found as a range, and holds only where all of it does. What the trace cannot tell
is null, and then nothing holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median

import numpy as np

from tracetui.errors import Unanswerable
from tracetui.frozen import frozen
from tracetui.linking.links import busy_stretches, calls_named, links, op_rows, region, span
from tracetui.linking.placement import step_index
from tracetui.linking.steps import steps
from tracetui.linking.trees import is_named
from tracetui.model import columns as col
from tracetui.model.intervals import Int64, covered, covered_within
from tracetui.model.table import Table, numbers, texts
from tracetui.model.trace import Kind, Trace
from tracetui.tables.occupancy import queries

# Measures of a trace that an expectation can name, each a function from the trace to what it shows.
#
# A number that differs between steps is observed as a range. What the trace cannot tell is null.

NOTHING = "^$"
"""Pattern of a name that must not occur."""
NO_COMMON_ORDER = "not the same in all steps"
"""The order of operators or kernels where steps differ."""


@frozen(eq=True, slots=True)
class Expectation:
    """One expected property of a trace."""

    text: str
    """The thing that is counted or looked for, in words."""
    metric: str
    """A key of `METRICS`."""
    want: float | tuple[float, float] | str
    """A number, an inclusive range, a pattern, or for an order a pattern per name, with spaces between them; `^$` wants
    that no name matches `of`."""
    of: str = ""
    """The operator, or the pattern of the names, that the metric is about."""
    why: str = ""
    """The reason, in words."""

    @property
    def is_order(self) -> bool:
        """True where a sequence of names is wanted."""
        return self.metric in ORDERS

    @property
    def wanted(self) -> str:
        """`want` in words."""
        if isinstance(self.want, tuple):
            low, high = self.want
            return f"{low:g} or more" if high == float("inf") else f"{low:g} to {high:g}"
        if isinstance(self.want, str):
            if self.is_order:
                return " ".join("/".join(_alternatives(pattern)) for pattern in self.want.split())
            return "none" if self.want == NOTHING else " or ".join(_alternatives(self.want))
        return f"{self.want:g}"


_CHOICE = re.compile(r"\((?:\?:)?([^()]*\|[^()]*)\)")
_ANYTHING = re.compile(r"(?:\\[SwD]|\.)[*+]\??")
_ESCAPED = re.compile(r"\\(\W)")


def _alternatives(pattern: str) -> list[str]:
    """A pattern as the names that it stands for, without the signs of a regular expression; `…` is any text."""
    if match := _CHOICE.search(pattern):
        head, tail = pattern[: match.start()], pattern[match.end() :]
        return [each for choice in match[1].split("|") for each in _alternatives(f"{head}{choice}{tail}")]
    plain = (each.removeprefix("^").removesuffix("$") for each in pattern.split("|"))
    return [_ESCAPED.sub(r"\1", _ANYTHING.sub("…", each)) for each in plain]


@frozen(eq=True, slots=True)
class Observed:
    """The number or names in a trace for an expectation; without either the trace shows nothing."""

    least: float | None = None
    most: float | None = None
    """Smallest and largest number over the steps."""
    name: str | None = None
    """The name that was found, or names with spaces between them; empty where none matches."""
    row: int = -1
    """The slice to look at, -1 for none."""
    middle: float | None = None
    """Median over the steps; None where it is not needed."""

    @property
    def text(self) -> str | None:
        """The result in words; None where the trace cannot tell."""
        if self.name is not None:
            return self.name or "none"
        if self.least is None or self.most is None:
            return None
        return rounded(self.least) if self.least == self.most else f"{rounded(self.least)} to {rounded(self.most)}"


def rounded(number: float) -> str:
    """A number with at most one decimal."""
    return f"{number:.0f}" if number == int(number) else f"{number:.1f}"


def _span_us(trace: Trace, _: Expectation, label: str) -> Observed:
    """From the start of the first GPU activity that a forward launched to the end of the last."""
    rows = _forwards(trace, label)
    spans = [region(trace, row).span / 1000 for row in rows.tolist()] if len(links(trace).gpu) else []
    return _range(spans, rows) if all(spans) else Observed()


def _calls_per_step(trace: Trace, expected: Expectation, _: str) -> Observed:
    rows = op_rows(trace)
    called = rows[trace.slices.name[rows] == trace.names.find(expected.of)]
    found = _per_step(trace, called)
    return found if len(called) == 0 else replace(found, row=int(called[-1]))


def _matching_ops_per_step(trace: Trace, expected: Expectation, _: str) -> Observed:
    rows = op_rows(trace)
    return _per_step(trace, rows[is_named(trace, rows, re.compile(expected.of).search)])


def _matching_calls_per_step(trace: Trace, expected: Expectation, _: str) -> Observed:
    """Runtime and driver calls; a trace without any cannot tell."""
    if len(links(trace).gpu) == 0:
        return Observed()
    return _per_step(trace, calls_named(trace, re.compile(expected.of)))


def _occupancy_queries_per_call(trace: Trace, expected: Expectation, _: str) -> Observed:
    rows, slices = _calls_in_steps(trace, expected.of), trace.slices
    if len(links(trace).gpu) == 0:
        return Observed()
    asked = queries(trace)
    counts = [
        np.count_nonzero(
            (slices.lane[asked] == slices.lane[row])
            & (slices.start[asked] >= slices.start[row])
            & (slices.start[asked] < slices.end[row])
        )
        for row in rows.tolist()
    ]
    return _range([int(count) for count in counts], rows)


def _ops_in_order(trace: Trace, expected: Expectation, _: str) -> Observed:
    every, rows = steps(trace), op_rows(trace)
    rows = rows[is_named(trace, rows, re.compile(expected.of).search)]
    rows = rows[np.argsort(trace.slices.start[rows], kind="stable")]
    index = step_index(trace, rows)
    return _order([[_short_name(trace, row) for row in rows[index == n].tolist()] for n in range(len(every))], rows)


def _kernels_in_order(trace: Trace, _: Expectation, label: str) -> Observed:
    """GPU activities by the operator that launched them, or by their own name where none did."""
    if len(links(trace).gpu) == 0:
        return Observed()
    forwards = [region(trace, row).rows.tolist() for row in _forwards(trace, label).tolist()]
    owner = links(trace).owner
    names = [[_short_name(trace, int(owner[row]) if owner[row] >= 0 else row) for row in rows] for rows in forwards]
    return _order(names, np.array([row for rows in forwards for row in rows], np.int64))


def _gpu_busy_pct(trace: Trace, _: Expectation, __: str) -> Observed:
    """From the first step to the end of the last, or of the activities that the steps launched."""
    every, work = steps(trace), links(trace).gpu
    work = work[step_index(trace, work) >= 0]
    if len(every) == 0 or len(work) == 0:
        return Observed()
    low, high = int(every.start.min()), max(int(every.end.max()), span(trace.slices, work)[1])
    busy = covered_within(*busy_stretches(trace), np.array([low]), np.array([high]))[0]
    share = 100 * float(busy) / max(high - low, 1)
    return Observed(share, share, row=int(work[0]))


def _slowest_to_fastest_step(trace: Trace, _: Expectation, __: str) -> Observed:
    every = steps(trace)
    lasted = every.end - every.start
    if len(every) == 0 or lasted.min() <= 0:
        return Observed()
    ratio = float(lasted.max() / lasted.min())
    return Observed(ratio, ratio, row=int(every.row[np.argmax(lasted)]))


def _first_to_shortest_dead_window(trace: Trace, _: Expectation, label: str) -> Observed:
    """The dead window of a forward is the time from its start to its first operator."""
    slices, rows = trace.slices, _forwards(trace, label)
    windows: list[int] = []
    for row in rows.tolist():
        ops = op_rows(trace)
        ops = ops[(slices.lane[ops] == slices.lane[row]) & (slices.start[ops] >= slices.start[row])]
        ops = ops[slices.start[ops] < slices.end[row]]
        windows += [int(slices.start[ops].min() - slices.start[row])] if len(ops) else []
    if len(windows) < 2 or len(windows) < len(rows) or min(windows[1:]) <= 0:
        return Observed()
    ratio = windows[0] / min(windows[1:])
    return Observed(ratio, ratio, row=int(rows[0]))


def _share_of_steps_pct(trace: Trace, expected: Expectation, _: str) -> Observed:
    """Operators and annotations that match, as a union, by the time of all steps."""
    every, slices = steps(trace), trace.slices
    rows = slices.of_kind(Kind.CPU_OP, Kind.ANNOTATION)
    rows = rows[is_named(trace, rows, re.compile(expected.of).search)]
    rows = rows[step_index(trace, rows) >= 0]
    total = int((every.end - every.start).sum())
    if total <= 0:
        return Observed()
    share = 100 * covered(slices.start[rows], slices.end[rows]) / total
    return Observed(share, share, row=int(rows[-1]) if len(rows) else -1, middle=share)


Look = Callable[[Trace, Expectation, str], Observed]

METRICS: dict[str, Look] = {
    "kernels_per_forward": lambda trace, _, label: _kernels_of_each(trace, _forwards(trace, label)),
    "kernels_in_order": _kernels_in_order,
    "kernel_named": lambda trace, expected, _: _named(trace, links(trace).gpu, expected),
    "kernels_per_call": lambda trace, expected, _: _kernels_of_each(trace, _calls_in_steps(trace, expected.of)),
    "occupancy_queries_per_call": _occupancy_queries_per_call,
    "span_us": _span_us,
    "gpu_busy_pct": _gpu_busy_pct,
    "matching_calls_per_step": _matching_calls_per_step,
    "ops_per_step": lambda trace, *_: _per_step(trace, op_rows(trace)),
    "ops_in_order": _ops_in_order,
    "op_named": lambda trace, expected, _: _named(trace, op_rows(trace), expected),
    "calls_per_step": _calls_per_step,
    "matching_ops_per_step": _matching_ops_per_step,
    "share_of_steps_pct": _share_of_steps_pct,
    "slowest_to_fastest_step": _slowest_to_fastest_step,
    "first_to_shortest_dead_window": _first_to_shortest_dead_window,
}
"""The function that looks up each metric."""
ORDERS = ("kernels_in_order", "ops_in_order")
"""Metrics that find a sequence of names."""


def _forwards(trace: Trace, label: str) -> Int64:
    """The runs of the annotation around a forward pass, in the steps."""
    rows = trace.slices.of_kind(Kind.ANNOTATION)
    rows = rows[trace.slices.name[rows] == trace.names.find(label)]
    return np.compress(step_index(trace, rows) >= 0, rows)


def _calls_in_steps(trace: Trace, name: str) -> Int64:
    """The calls of an operator in the steps."""
    rows = op_rows(trace)
    rows = rows[trace.slices.name[rows] == trace.names.find(name)]
    return np.compress(step_index(trace, rows) >= 0, rows)


def _kernels_of_each(trace: Trace, rows: Int64) -> Observed:
    """GPU activities launched in each of some slices."""
    if len(links(trace).gpu) == 0:
        return Observed()
    return _range([len(region(trace, row).rows) for row in rows.tolist()], rows)


def _per_step(trace: Trace, rows: Int64) -> Observed:
    every, index = steps(trace), step_index(trace, rows)
    return _range(np.bincount(index[index >= 0], minlength=len(every)).tolist(), every.row)


def _range(numbers: Sequence[float], rows: Int64) -> Observed:
    """The smallest and largest number; the slice is that of the last, when warm-up is over."""
    if not numbers:
        return Observed()
    return Observed(min(numbers), max(numbers), row=int(rows[-1]), middle=median(numbers))


def _order(names: Sequence[Sequence[str]], rows: Int64) -> Observed:
    """The names with spaces between them where they are the same for all; the slice is that of the last."""
    if not names:
        return Observed()
    texts = {" ".join(each) for each in names}
    row = int(rows[-1]) if len(rows) else -1
    return Observed(name=texts.pop() if len(texts) == 1 else NO_COMMON_ORDER, row=row)


def _short_name(trace: Trace, row: int) -> str:
    """The name of a slice as one word, without `aten::`."""
    return "_".join(trace.name_of(row).removeprefix("aten::").split())


def _named(trace: Trace, rows: Int64, expected: Expectation) -> Observed:
    """The last of the slices whose name matches the pattern; without any slices the trace cannot tell."""
    if len(rows) == 0:
        return Observed()
    pattern = re.compile(expected.of if expected.want == NOTHING else str(expected.want))
    matching = rows[is_named(trace, rows, pattern.search)]
    if len(matching) == 0:
        return Observed(name="")
    return Observed(name=trace.name_of(int(matching[-1])), row=int(matching[-1]))


def expectations(trace: Trace, expected: Sequence[Expectation], label: str = "") -> Table:
    """One row per expectation with what was found; `label` is the annotation around a forward pass.

    Raises: Unanswerable for a metric that does not exist.
    """
    return expectation_table(expected, [look(trace, each, label) for each in expected])


def contrasts(
    trace_a: Trace, trace_b: Trace, expected: Sequence[Expectation], label_a: str = "", label_b: str = ""
) -> Table:
    """One row per expectation of two traces: how many times as large the median of A is as that of B.

    Raises: Unanswerable for a metric that does not exist.
    """
    found = [ratio(look(trace_a, each, label_a), look(trace_b, each, label_b)) for each in expected]
    return expectation_table(expected, found)


def expectation_table(expected: Sequence[Expectation], observed: Sequence[Observed]) -> Table:
    """One row per expectation with what was found for it."""
    least = [float("nan") if each.least is None else each.least for each in observed]
    most = [float("nan") if each.most is None else each.most for each in observed]
    return Table(
        (
            texts(col.EXPECTATION, [each.text for each in expected]),
            texts(col.WANTED, [each.wanted for each in expected]),
            texts(col.FOUND, [each.text for each in observed]),
            numbers(col.LEAST, least),
            numbers(col.MOST, most),
            numbers(col.HOLDS, np.array(list(map(holds, expected, observed)), bool)),
            texts(col.METRIC, [each.metric for each in expected]),
            texts(col.OF, [each.of or None for each in expected]),
            texts(col.WHY, [each.why or None for each in expected]),
        ),
        np.array([each.row for each in observed], np.int64),
    )


def look(trace: Trace, expected: Expectation, label: str) -> Observed:
    """The number or names in the trace for one expectation.

    Raises: Unanswerable for a metric that does not exist.
    """
    if expected.metric not in METRICS:
        raise Unanswerable(f"There is no metric {expected.metric!r}; there are {', '.join(METRICS)}.")
    return METRICS[expected.metric](trace, expected, label)


def ratio(a: Observed, b: Observed) -> Observed:
    """The median of A by that of B; nothing where either is not known, or B's is 0."""
    if a.middle is None or not b.middle:
        return Observed()
    times = a.middle / b.middle
    return Observed(times, times, row=a.row)


def holds(expected: Expectation, found: Observed) -> bool:
    """True where the trace is as expected."""
    want = expected.want
    if isinstance(want, str) and expected.is_order:
        patterns, names = want.split(), (found.name or "").split()
        return found.name is not None and len(patterns) == len(names) and all(map(re.fullmatch, patterns, names))
    if isinstance(want, str):
        return found.name is not None and bool(found.name) != (want == NOTHING)
    if found.least is None or found.most is None:
        return False
    low, high = want if isinstance(want, tuple) else (want, want)
    return low <= found.least and found.most <= high
