"""Every name that an expression about a trace can use, as a table: value, unit and what it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tracetui.analysis.checking.calls import FUNCTIONS
from tracetui.analysis.checking.listing import LISTS, listing
from tracetui.analysis.checking.measured import measured
from tracetui.analysis.checking.namespace import Namespace, summary_facts
from tracetui.analysis.checking.op_sums import OP_HELP
from tracetui.analysis.checking.selection import WORK_FIELDS
from tracetui.analysis.checking.values import Number, Value, Words
from tracetui.analysis.comparing.sides.side import Side
from tracetui.model.table import Table, numbers, texts

VALUE, SUMMARY, LIST, SELECTED, FUNCTION = "value", "summary", "list", "selected", "function"
"""Sorts of names, in the order of the table."""


UNLIKE = {
    "gpu_idle_pct": "Idle time as a share of the span: without the wait before its first work, which idle_pct has.",
    "steps.idle_pct": "Share of a device's time in gaps before the work of the step: with that before its first work, "
    "unlike gpu_idle_pct.",
    "summary.idle_pct": "Share of a device's time in gaps in the whole trace, also as idle_pct: with those between "
    "steps, unlike gpu_idle_pct.",
}
"""What is said of names that are easily taken for each other."""


class Name(NamedTuple):
    """A name as it is listed; a value of None is not known, or is that of many rows."""

    sort: str
    name: str
    help: str
    unit: str = ""
    value: float | str | None = None


def names(of: Side) -> Table:
    """A row for each name, in the order in which a person looks for one."""
    every = [*_values(of), *_summary(of), *_lists(of), *_selected(), *_functions()]
    figures = [each.value if isinstance(each.value, int | float) else float("nan") for each in every]
    return Table(
        (
            texts("name", [each.name for each in every], "How an expression writes it."),
            texts("value", [_text(each.value) for each in every], "Its value in this trace, as text."),
            texts("unit", [each.unit for each in every], "Unit of the value."),
            texts("help", [UNLIKE.get(each.name, each.help) for each in every], "What it is."),
            texts("sort", [each.sort for each in every], "value, summary, list, selected or function."),
            numbers("number", figures, "", "The value where it is a number."),
        )
    )


def _values(of: Side) -> Iterator[Name]:
    known = Namespace(of)
    for name, measure in measured(of).items():
        yield Name(VALUE, name, measure.help, measure.unit, _plain(known.bare(name)))
    yield Name(VALUE, "findings", "What the rules find; findings('major') of a severity.", "", _plain(known.findings()))


def _summary(of: Side) -> Iterator[Name]:
    known, taken = Namespace(of), set(measured(of))
    for name, fact in summary_facts(of.trace).items():
        help = "A line of the summary of the whole trace"
        alone = "" if name in taken else f", also as {name}"
        yield Name(SUMMARY, f"summary.{name}", f"{help}{alone}.", fact.unit, _plain(known.summary(name)))


def _lists(of: Side) -> Iterator[Name]:
    for name, kind in LISTS.items():
        table, why = listing(of, name)
        yield Name(LIST, f"count({name})", kind.help, "", None if why else float(len(table)))
        shared = set(measured(of)) if name in ("steps", "runs") else set()
        for column in table.columns:
            if column.name not in shared:
                yield Name(LIST, f"{name}.{column.name}", column.help, column.unit)


def _selected() -> Iterator[Name]:
    helps = {
        "calls": "Calls in a step.",
        "total_us": "Sum of the durations in a step.",
        "mean_us": "Mean duration of all calls.",
        "min_us": "Shortest duration.",
        "median_us": "Median duration.",
        "max_us": "Longest duration.",
    }
    for kind, noun in (("kernel", "Kernels"), ("copy", "Copies and fills")):
        for field in WORK_FIELDS:
            yield Name(SELECTED, f'{kind}("NAME").{field}', f"{noun} of a name: {helps[field]}", _unit(field))
    for field, (unit, help) in OP_HELP.items():
        yield Name(SELECTED, f'op("NAME").{field}', f"Operators of a name: {help}", unit)


def _functions() -> Iterator[Name]:
    for function in FUNCTIONS.values():
        yield Name(FUNCTION, function.use, function.help)


def _unit(field: str) -> str:
    return "us" if field.endswith("_us") else ""


def _plain(value: Value) -> float | str | None:
    if isinstance(value, Number):
        return None if np.isnan(value.one) else value.one
    return value.one if isinstance(value, Words) and value.ids >= 0 else None


def _text(value: float | str | None) -> str | None:
    if isinstance(value, str) or value is None:
        return value
    return f"{value:.3f}".rstrip("0").rstrip(".")
