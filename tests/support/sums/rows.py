"""Rows of panes as plain numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.support.sums.slices import Slice, SlowTrace
from tracetui.panes import PANES

Row = dict[str, Any]


def rows_of(slow: SlowTrace, pane: str, step: int | None, by: str | None = None) -> list[Row]:
    """The rows of a pane."""
    return list(PANES[pane].build(slow.trace, step=step, by=by).rows())


def ns(value: Any) -> int:
    """A cell of microseconds in whole ns; null counts nothing."""
    return 0 if value is None else round(1000 * value)


def total(table: list[Row], column: str) -> int:
    """The sum of a column, times in ns; null counts nothing."""
    return sum(ns(row[column]) if column.endswith("_us") else row[column] or 0 for row in table)


def lasting(slices: Iterable[Slice]) -> int:
    """The sum of the durations in ns."""
    return sum(each.dur for each in slices)


def held(slices: Iterable[Slice], step: int | None) -> list[Slice]:
    """The slices of the step with a number, all for None."""
    return [each for each in slices if step in (None, each.step)]


def check_near(one: float, other: float) -> None:
    """Both are equal but for rounding."""
    assert abs(one - other) <= 1e-6 * max(abs(one), abs(other), 1)
