"""Expected properties of a trace, looked up one by one: what is wanted, what was found, and where.

A number that differs between steps is found as a range, and holds only where all of it does. What the trace cannot tell
is null, and then nothing holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tracetui.analysis import columns as col
from tracetui.analysis.common.lanes import is_named
from tracetui.analysis.linking.links import links, op_rows
from tracetui.analysis.linking.placement import step_index
from tracetui.analysis.linking.regions import busy_stretches, region, span
from tracetui.analysis.linking.steps import steps
from tracetui.errors import Unanswerable
from tracetui.model.intervals import Int64, covered_within
from tracetui.model.table import Table, numbers, texts
from tracetui.model.trace import Kind, Trace

NOTHING = "^$"
"""Pattern of a name that must not occur."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """One expected property of a trace."""

    text: str
    """What is counted or looked for, in words."""
    metric: str
    """A key of `METRICS`."""
    want: float | tuple[float, float] | str
    """A number, an inclusive range, or a pattern; `^$` wants that no name matches `of`."""
    of: str = ""
    """The operator whose calls are counted; for a name that must not occur, its pattern."""
    why: str = ""
    """The reason, in words."""

    @property
    def wanted(self) -> str:
        """`want` in words."""
        if isinstance(self.want, tuple):
            return f"{self.want[0]:g} to {self.want[1]:g}"
        if isinstance(self.want, str):
            return "none" if self.want == NOTHING else self.want
        return f"{self.want:g}"


@dataclass(frozen=True, slots=True)
class Observed:
    """What a trace shows for an expectation; without number and name it shows nothing."""

    least: float | None = None
    most: float | None = None
    """Smallest and largest number over the steps."""
    name: str | None = None
    """The name that was found; empty where none matches."""
    row: int = -1
    """The slice to look at, -1 for none."""

    @property
    def text(self) -> str | None:
        """The result in words; None where the trace cannot tell."""
        if self.name is not None:
            return self.name or "none"
        if self.least is None or self.most is None:
            return None
        return _rounded(self.least) if self.least == self.most else f"{_rounded(self.least)} to {_rounded(self.most)}"


def expectations(trace: Trace, expected: Sequence[Expectation], label: str = "") -> Table:
    """One row per expectation with what was found; `label` is the annotation around a forward pass.

    Raises: Unanswerable for a metric that does not exist.
    """
    observed = [look(trace, each, label) for each in expected]
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
    """What the trace shows for one expectation.

    Raises: Unanswerable for a metric that does not exist.
    """
    if expected.metric not in METRICS:
        raise Unanswerable(f"There is no metric {expected.metric!r}; there are {', '.join(METRICS)}.")
    return METRICS[expected.metric](trace, expected, label)


def holds(expected: Expectation, found: Observed) -> bool:
    """Whether what was found is as wanted."""
    want = expected.want
    if isinstance(want, str):
        return found.name is not None and bool(found.name) != (want == NOTHING)
    if found.least is None or found.most is None:
        return False
    low, high = want if isinstance(want, tuple) else (want, want)
    return low <= found.least and found.most <= high


def _kernels_per_forward(trace: Trace, _: Expectation, label: str) -> Observed:
    rows = trace.slices.of_kind(Kind.ANNOTATION)
    rows = rows[trace.slices.name[rows] == trace.names.find(label)]
    rows = rows[step_index(trace, rows) >= 0]
    if len(links(trace).gpu) == 0:
        return Observed()
    return _range([len(region(trace, row).rows) for row in rows.tolist()], rows)


def _kernel_named(trace: Trace, expected: Expectation, _: str) -> Observed:
    rows = links(trace).gpu
    return _named(trace, rows, expected) if len(rows) else Observed()


def _op_named(trace: Trace, expected: Expectation, _: str) -> Observed:
    rows = op_rows(trace)
    return _named(trace, rows, expected) if len(rows) else Observed()


def _ops_per_step(trace: Trace, _: Expectation, __: str) -> Observed:
    return _per_step(trace, op_rows(trace))


def _calls_per_step(trace: Trace, expected: Expectation, _: str) -> Observed:
    rows = op_rows(trace)
    called = rows[trace.slices.name[rows] == trace.names.find(expected.of)]
    found = _per_step(trace, called)
    return found if len(called) == 0 else Observed(found.least, found.most, row=int(called[-1]))


def _gpu_busy_pct(trace: Trace, _: Expectation, __: str) -> Observed:
    """From the first step to the end of the last, or of the activities that the steps launched."""
    every, work = steps(trace), links(trace).gpu
    work = work[step_index(trace, work) >= 0]
    if len(every) == 0 or len(work) == 0:
        return Observed()
    low, high = int(every.start.min()), max(int(every.end.max()), span(trace, work)[1])
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


METRICS: dict[str, Callable[[Trace, Expectation, str], Observed]] = {
    "kernels_per_forward": _kernels_per_forward,
    "kernel_named": _kernel_named,
    "ops_per_step": _ops_per_step,
    "op_named": _op_named,
    "calls_per_step": _calls_per_step,
    "gpu_busy_pct": _gpu_busy_pct,
    "slowest_to_fastest_step": _slowest_to_fastest_step,
}
"""How each metric is looked up."""


def _per_step(trace: Trace, rows: Int64) -> Observed:
    every, index = steps(trace), step_index(trace, rows)
    return _range(np.bincount(index[index >= 0], minlength=len(every)).tolist(), every.row)


def _range(counts: Sequence[int], rows: Int64) -> Observed:
    """The smallest and largest count; the slice is that of the last, when warm-up is over."""
    if not counts:
        return Observed()
    return Observed(min(counts), max(counts), row=int(rows[-1]))


def _named(trace: Trace, rows: Int64, expected: Expectation) -> Observed:
    """The last of the slices whose name matches the pattern."""
    pattern = re.compile(expected.of if expected.want == NOTHING else str(expected.want))
    matching = rows[is_named(trace, rows, pattern.search)]
    if len(matching) == 0:
        return Observed(name="")
    return Observed(name=trace.name_of(int(matching[-1])), row=int(matching[-1]))


def _rounded(number: float) -> str:
    return f"{number:.0f}" if number == int(number) else f"{number:.1f}"
