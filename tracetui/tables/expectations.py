"""Expected properties of a trace, looked up one by one: what is wanted, what was found, and where.

A number that differs between steps is found as a range, and holds only where all of it does. What the trace cannot tell
is null, and then nothing holds.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from tracetui.errors import Unanswerable
from tracetui.model import columns as col
from tracetui.model.table import Table, numbers, texts
from tracetui.model.trace import Trace
from tracetui.tables.expectation_metrics import METRICS, NOTHING, Expectation, Observed


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
    """What the trace shows for one expectation.

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
    """Whether what was found is as wanted."""
    want = expected.want
    if isinstance(want, str) and expected.is_order:
        return found.name is not None and _is_in_order(want.split(), found.name.split())
    if isinstance(want, str):
        return found.name is not None and bool(found.name) != (want == NOTHING)
    if found.least is None or found.most is None:
        return False
    low, high = want if isinstance(want, tuple) else (want, want)
    return low <= found.least and found.most <= high


def _is_in_order(patterns: Sequence[str], names: Sequence[str]) -> bool:
    """Whether there is one name for each pattern, and it matches as a whole."""
    return len(patterns) == len(names) and all(map(re.fullmatch, patterns, names))
