"""What the names of an expression stand for in one trace, and the table of all names with value, unit and help."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import starmap
from typing import NamedTuple

import numpy as np

from tracetui.checking.functions import ACTIVITY_FIELDS, FIELDS, FUNCTIONS, SELECTIONS, count_of_parts, with_presence
from tracetui.checking.lists import LISTS, OP_HELP, lacking, listing, measured, require_measures, whole_or_step
from tracetui.checking.values import (
    ALL_NAMES_HINT,
    THINGS,
    Listing,
    Number,
    Rows,
    Value,
    Words,
    nearest,
    number,
    of_names,
    unit_of,
    words,
)
from tracetui.comparing.measures import Measure, known_measures
from tracetui.comparing.side import STEP, Side, side
from tracetui.errors import UsageError
from tracetui.findings import Severity, complete_finding_list
from tracetui.health.health_table import doubtful_checks
from tracetui.health.link_checks import Check
from tracetui.health.summary import SummaryFact, changes_of_file, facts
from tracetui.kernel_names.slice_names import Family
from tracetui.linking.links import no_gpu
from tracetui.linking.step_sources import no_steps
from tracetui.model import columns as col
from tracetui.model.guarding import Failures
from tracetui.model.kept import kept
from tracetui.model.table import Cell, Column, Table, numbers, texts
from tracetui.model.trace import Trace

# Which health warnings affect the names that expressions use.
#
# A health check names the columns of panes that it affects; a name of an expression stands for the columns from which
# its value is computed.

_BUSY = ("steps.gpu_busy_us", "kernels.dur_us")
_IDLE = ("steps.gpu_idle_us",)
_MEASURES: dict[str, tuple[str, ...]] = {
    "cpu_us": ("steps.dur_us", "steps.sync_us", "ops.cpu_total_us"),
    "launch_us": ("launches.dur_us",),
    "query_us": ("occupancy.dur_us",),
    "idle_op_us": ("ops.self_cpu_us", "ops.kernels"),
    "idle_ops": ("ops.kernels",),
    "view_ops": ("views.calls",),
    "cpu_ops": ("ops.calls",),
    "occupancy_queries": ("occupancy",),
    "gpu_busy_us": _BUSY,
    "gpu_span_us": _BUSY,
    "gpu_work_us": _BUSY,
    "gpu_idle_us": _IDLE,
    "gpu_idle_pct": _IDLE,
    "gpu_others_us": _IDLE,
    "wait_before_us": _IDLE,
    "copies": ("steps.kernels",),
    "graph_launches": ("steps.launches",),
    "moved_bytes": ("steps.kernels", "kernels.bytes"),
    "flops": ("steps.kernels", "kernels.flops"),
    "moved_known_pct": _BUSY,
    **{f"{family.name.lower()}_us": _BUSY for family in Family},
}
"""Columns behind a measure of a step, where that is not the column of the same name."""
_GAPS = ("gaps.cause", "gaps.dur_us")
_SUMS = ("summary", "summary.value")
_OF_THE_FILE = ("file", "format", "size_bytes", "processes", "threads", "streams", "devices", "step_markers")
_OF_FOUND_STEPS = ("steps_found_by", "steps_are", "steps_cover_pct", "step_kinds", "between_steps_pct")
_UNPROFILED = ("unprofiled_us", "unprofiled_low_us", "unprofiled_high_us", "profiler_adds_pct")
_OTHERS = ("recorded_with", "workload", "doubts", "totals_say", "without_launch")
_CHANGES = ("events_lost", "metadata_lost", "events_mended", "bytes_replaced", "keys_twice", "times_changed")
_SAID = (*_OF_THE_FILE, *_CHANGES, *_OF_FOUND_STEPS, *_UNPROFILED, *_OTHERS)
"""Lines of the summary that no warning affects."""
_COUNTS = ("cpu_ops", "launches", "occupancy_queries", "view_ops", "events")
"""Lines of the summary that stay right where durations do not."""
_LINES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_SAID, ()),
    **dict.fromkeys(_COUNTS, ("summary",)),
    **dict.fromkeys(("kernels", "copies"), ("summary", "kernels")),
    "steps": ("steps.start_us",),
    "verdict": (*_SUMS, "steps.verdict"),
    "self_cpu_total_us": (*_SUMS, "ops.self_cpu_us"),
}
_CHOSEN_BY = {
    "steps": "steps.start_us",
    "kernels": "steps.kernels",
    "copies": "steps.kernels",
    "launches": "launches.step",
}
"""Columns that decide which rows of a list belong to the parts."""
_PANES = {"copies": "kernels", "runs": "steps"}
"""Lists that are part of a pane of another name."""


def of_measure(name: str) -> tuple[str, ...]:
    """The columns behind a measure of a step, as `pane.column`."""
    if name.startswith("idle_") and name not in _MEASURES:
        return _GAPS
    return _MEASURES.get(name, (f"steps.{name}",))


def of_line(name: str) -> tuple[str, ...]:
    """The columns behind a line of the summary; `pane` alone stands for its rows, and not their values."""
    if name.startswith("idle_"):
        return (*_SUMS, *_GAPS)
    return _LINES.get(name, _SUMS)


def of_rows(name: str) -> tuple[str, ...]:
    """The columns that decide how many rows a list has."""
    pane = _PANES.get(name, name)
    return (pane, _CHOSEN_BY[name]) if name in _CHOSEN_BY else (pane,)


def of_column(name: str, column: str) -> tuple[str, ...]:
    """The columns behind a column of a list."""
    own = of_measure(column) if name in ("steps", "runs") else (f"{_PANES.get(name, name)}.{column}",)
    return (*own, *of_rows(name))


def of_selected(kind: str, field: str) -> tuple[str, ...]:
    """The columns behind a field of kernels, copies or operators that are selected by name."""
    if kind == "op":
        return (f"ops.{'device_total_us' if field == 'self_device_us' else field}",)
    counted = ("steps.kernels",) if field in ("calls", "total_us") else ("kernels",)
    return counted if field == "calls" else (*counted, "kernels.dur_us")


def touching(trace: Trace, used: Mapping[str, Iterable[str]]) -> list[tuple[Check, list[str]]]:
    """The warnings about a trace that affect the names in use, the worst first, and the names that each affects.

    `used` holds the columns behind every name.
    """
    affecting = []
    for check in doubtful_checks(trace):
        names = [name for name, columns in used.items() if any(_is_touched(check, column) for column in columns)]
        if names:
            affecting.append((check, names))
    return affecting


def _is_touched(check: Check, column: str) -> bool:
    return column in check.touches or column.partition(".")[0] in check.touches


VALUE, SUMMARY, LIST, SELECTED, FUNCTION = "value", "summary", "list", "selected", "function"
"""Kinds of names, in the order of the table."""


UNLIKE = {
    "gpu_idle_pct": "Idle time as a share of the span; without the wait before its first kernel, which wait_before_us "
    "has.",
    "steps.idle_pct": "The same as gpu_idle_pct: idle time as a share of the span of the step.",
    "summary.idle_pct": "Idle time of the whole trace from its first GPU activity to its last, also as idle_pct: with "
    "that between the steps, unlike gpu_idle_pct.",
    "summary.gpu_busy_pct": "Share of the whole trace in which a GPU ran something, from the first event to the last, "
    "also as gpu_busy_pct.",
}
"""Help of names that are easily confused with each other."""


class ListedName(NamedTuple):
    """One row of the table of names; a value of None is unknown, or the name is that of a whole column."""

    kind: str
    name: str
    help: str
    unit: str = ""
    value: float | str | None = None


def names(of: Side) -> Table:
    """One row per name, grouped by kind."""
    failures = Failures()

    def some(make: Callable[[], Iterator[ListedName]]) -> list[ListedName]:
        return failures.make_or("A part of this list", lambda: list(make()), lambda _: [])

    makers = (
        partial(_values, of),
        partial(_finding_count, of),
        partial(_summary, of),
        *(partial(_list, of, name) for name in LISTS),
    )
    failures.note(map(str, known_measures(of)[1]))
    every = [*(each for make in makers for each in some(make)), *_selected(), *_functions()]
    figures = [each.value if isinstance(each.value, int | float) else float("nan") for each in every]
    return Table(
        (
            texts(col.NAME.but(help="How an expression writes it."), [each.name for each in every]),
            texts(col.VALUE, [_text(each.value) for each in every]),
            texts(col.UNIT, [each.unit for each in every]),
            texts(col.HELP, [UNLIKE.get(each.name, each.help) for each in every]),
            texts(col.SORT, [each.kind for each in every]),
            numbers(col.NUMBER, figures),
        )
    ).lacking(failures.sentences)


def _values(of: Side) -> Iterator[ListedName]:
    known = Namespace(of)
    for name, measure in measured(of).items():
        yield ListedName(VALUE, name, measure.help, measure.unit, _plain(known.bare(name)))


def _finding_count(of: Side) -> Iterator[ListedName]:
    known = Namespace(of)
    yield ListedName(
        VALUE, "findings", "What the rules find; findings('major') of a severity.", "", _plain(known.findings())
    )


def _summary(of: Side) -> Iterator[ListedName]:
    known, taken = Namespace(of), set(measured(of))
    for name, fact in summary_facts(of.trace).items():
        help = "A line of the summary of the whole trace"
        alone = "" if name in taken else f", also as {name}"
        yield ListedName(SUMMARY, f"summary.{name}", f"{help}{alone}.", fact.unit, _plain(known.summary(name)))


def _list(of: Side, name: str) -> Iterator[ListedName]:
    table, why = listing(of, name)
    yield ListedName(LIST, f"count({name})", LISTS[name].help, "", None if why else float(len(table)))
    shared = set(measured(of)) if name in ("steps", "runs") else set()
    for column in table.columns:
        if column.name not in shared:
            yield ListedName(LIST, f"{name}.{column.name}", column.help, column.unit)


def _selected() -> Iterator[ListedName]:
    helps = {
        "calls": "Calls in a step.",
        "total_us": "Sum of the durations in a step.",
        "mean_us": "Mean duration of all calls.",
        "min_us": "Shortest duration.",
        "median_us": "Median duration.",
        "max_us": "Longest duration.",
    }
    for kind, noun in (("kernel", "Kernels"), ("copy", "Copies and fills")):
        for field in ACTIVITY_FIELDS:
            yield ListedName(SELECTED, f'{kind}("NAME").{field}', f"{noun} of a name: {helps[field]}", _unit(field))
    for field, (unit, help) in OP_HELP.items():
        yield ListedName(SELECTED, f'op("NAME").{field}', f"Operators of a name: {help}", unit)


def _functions() -> Iterator[ListedName]:
    for function in FUNCTIONS.values():
        yield ListedName(FUNCTION, function.use, function.help)


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


PER_STEP_SUFFIX = "_per_step"
"""Suffix of a measure that requires the parts to be steps."""
GPU_LINES = ("kernels", "copies", "launches", "occupancy_queries", "without_launch")
"""Lines of the summary that are 0 where no GPU was recorded."""
FILE_LINES = ("recorded_with", "workload")
"""Lines without a value where the file does not say."""
MARKERS_LINE = "step_markers"
"""A line that the summary has only where markers exist."""
WARNINGS_LINE = "doubts"
"""The line that counts the health checks that found something."""
NOTHING_THERE = "It was not recorded."


class Unknown(Exception):
    """A name does not exist; the message suggests others."""


class Namespace:
    """The names of one side."""

    def __init__(self, of: Side, title: str = "this trace", each: bool = True) -> None:
        self.side = of
        self.each = each
        """Whether what is said of a count must hold in every step; else its median counts."""
        self.title = title
        """What a sentence calls the trace."""
        self.used: dict[str, tuple[str, ...]] = {}
        """The names that were looked up, each with the columns of the panes behind it."""
        self.selections: dict[tuple[str, str], None] = {}
        """The kinds and patterns by which kernels, copies and operators were selected, in order."""
        self._lists: dict[str, Listing] = {}

    @property
    def lists(self) -> Sequence[str]:
        """The names of the lists."""
        return tuple(LISTS)

    def count_of(self, listed: str, name: str) -> Value | None:
        """What is counted behind the name of a list and is no column of it, None for nothing."""
        return None

    @property
    def names(self) -> list[str]:
        """Every name that stands for one value."""
        return list(dict.fromkeys([*measured(self.side), *summary_facts(self.side.trace), "findings"]))

    def bare(self, name: str) -> Value:
        """A measure, or a line of the summary.

        Raises: Unknown for a name that is neither, AnalysisFailed for one that may be that of a measure which failed.
        """
        known = measured(self.side)
        if name in known:
            return self._of_measure(name, known[name], self.side)
        if name.endswith(PER_STEP_SUFFIX) and name.removesuffix(PER_STEP_SUFFIX) in known:
            return self._per_step(name, known[name.removesuffix(PER_STEP_SUFFIX)])
        if name == "findings":
            return self.findings()
        require_measures(self.side)
        step, why = whole_or_step(self.side)
        lines = summary_facts(self.side.trace, step)
        if name not in lines:
            behind = PER_STEP_SUFFIX if "_per" in name else ""
            raise Unknown(nearest(name, [*(f"{each}{behind}" for each in known), *self.names, *LISTS], ALL_NAMES_HINT))
        return self._fact(name, lines[name], why)

    def summary(self, name: str) -> Value:
        """A line of the summary of the whole trace.

        Raises: Unknown for a line that does not exist.
        """
        lines = summary_facts(self.side.trace)
        if name not in lines:
            raise Unknown(nearest(name, lines))
        return self._fact(f"summary.{name}", lines[name])

    def listing(self, name: str) -> Listing:
        """A list, the same object each time; KeyError for a name that is not in `LISTS`."""
        if name not in self._lists:
            table, why = listing(self.side, name)
            kept = table.take(np.empty(0, np.int64)) if why else table
            rows = Rows(name, len(kept), self._absent(f"The list {name}", why) if why else "", kept)
            self._lists[name] = Listing(rows, {column.name: column for column in kept.columns})
        return self._lists[name]

    def column(self, of: Listing, name: str) -> Value:
        """A column of a list of this side; KeyError for one that does not exist."""
        self.used[f"{of.rows.name}.{name}"] = of_column(of.rows.name, name)
        return of[name]

    def rows(self, name: str) -> Rows:
        """The rows of a list, for counting; KeyError for a name that is not in `LISTS`."""
        self.used[name] = of_rows(name)
        return self.listing(name).rows

    def of_step(self, step: int, name: str) -> Value:
        """A number or a text of the step with a number.

        Raises: Unknown for a name that a step does not have.
        """
        title = f"step[{step}].{name}"
        columns = _columns(side(self.side.trace))
        if name not in columns:
            raise Unknown(nearest(name, columns))
        try:
            one = side(self.side.trace, str(step))
        except UsageError as error:
            return _value(columns[name], None, self._absent(title, str(error)))
        if name in measured(one):
            return self._of_measure(title, measured(one)[name], one)
        column = _columns(one)[name]
        self.used[title] = of_column("steps", name)
        return _value(column, column.cell(0), self._absent(title, no_gpu(one.trace) or NOTHING_THERE))

    def selected(self, kind: str, pattern: str, field: str) -> Number:
        """A field of the kernels, copies or operators of a name; `kind` is a key of `SELECTIONS`.

        Raises: Unknown for a field that does not exist.
        """
        field = field.removesuffix(PER_STEP_SUFFIX)
        if field not in FIELDS[kind]:
            raise Unknown(nearest(field, FIELDS[kind]))
        value = SELECTIONS[kind](self.side, pattern, field)
        title = f'{kind}("{pattern}").{field}'
        self.selections[kind, pattern] = None
        self.used[title] = of_selected(kind, field)
        reason = self._absent(title, value.why)
        if value.parts is not None:
            return self._count(value, reason)
        found = number(value.one, value.unit, reason, value.sample)
        presence = replace(value.presence, why=reason) if value.presence and self.each else None
        return replace(found, offenders=value.offenders, presence=presence)

    def findings(self, severity: str | None = None) -> Value:
        """Number of findings, of one severity where it is named.

        Raises: Unknown for a word that is no severity.
        """
        severities = [each.name.lower() for each in Severity]
        if severity is not None and severity not in severities:
            raise Unknown(
                f"A finding is {', '.join(severities[:-1])} or {severities[-1]}; "
                "those of a rule are count(findings, id == 'host-sync')."
            )
        step, why = whole_or_step(self.side)
        if why:
            return number(None, THINGS, self._absent("findings", why))
        every = complete_finding_list(self.side.trace, step)
        ids = [each.id for each in every if severity in (None, each.severity.name.lower())]
        return replace(number(len(ids), THINGS), offenders=of_names("findings", ids).counted())

    def _per_step(self, name: str, measure: Measure) -> Value:
        if self.side.part_kind == STEP:
            return self._of_measure(name, measure, self.side)
        why = no_steps(self.side.trace) if self.side.scope == "" else f"#{self.side.scope} is no step."
        return number(None, unit_of(measure.unit), self._absent(name, why))

    def _of_measure(self, title: str, measure: Measure, of: Side) -> Value:
        """The median over the parts; of a count the values of all parts."""
        self.used[title] = of_measure(measure.name)
        reason = self._absent(title, lacking(of, measure.name))
        if measure.is_count:
            return self._count(count_of_parts(of, measure.values, reason), reason, of is self.side)
        sample = measure.values[~np.isnan(measure.values)]
        value = float(np.median(sample)) if len(sample) else None
        found = number(value, unit_of(measure.unit), reason, sample)
        return with_presence(found, of, measure.values, reason) if self.each and of is self.side else found

    def _count(self, count: Number, reason: str, of_side: bool = True) -> Number:
        """A count of every part; of a baseline, and of a single step, one number: the median."""
        if self.each and of_side and count.parts is not None:
            return replace(count, why=reason if count.why or count.one != count.one else "")
        sample = np.empty(0) if count.sample is None else count.sample
        median = float(np.median(sample)) if len(sample) else None
        return number(median, count.unit, reason, sample)

    def _fact(self, title: str, fact: SummaryFact, why: str = "") -> Value:
        """A line of the summary; `why` it is unknown for these parts."""
        without_gpu = "" if fact.key in FILE_LINES else no_gpu(self.side.trace)
        if why or (fact.key in GPU_LINES and without_gpu):
            hidden = SummaryFact(fact.key, None, fact.unit)
        else:
            hidden = fact
        reason = self._absent(title, why or without_gpu or NOTHING_THERE)
        self.used[title] = of_line(fact.key)
        if isinstance(fact.value, str) or (fact.value is None and not fact.unit):
            return words(None if hidden.value is None else str(hidden.value), reason)
        figure = number(_figure(hidden.value), unit_of(fact.unit), reason)
        if fact.key != WARNINGS_LINE:
            return figure
        names = [check.name for check in doubtful_checks(self.side.trace)]
        return replace(figure, offenders=of_names("health", names).counted())

    def _absent(self, title: str, why: str) -> str:
        """The sentence of an assertion about something that the trace does not hold."""
        said = why.replace(" in this trace", " in it", 1).replace("This trace has", "It has", 1)
        return f"{title} is not in {self.title}: {said[:1].lower()}{said[1:]}"


@kept
def summary_facts(trace: Trace, step: int | None = None) -> dict[str, SummaryFact]:
    """The lines of the summary of a trace or a step by name, with those that it has only where there is something."""
    lines = {fact.key: fact for fact in facts(trace, step)}
    always = [SummaryFact(MARKERS_LINE, None), *starmap(SummaryFact, changes_of_file(trace).items())]
    return {fact.key: fact for fact in always} | lines


def _columns(of: Side) -> dict[str, Column]:
    columns: Iterable[Column] = listing(of, "steps")[0].columns
    return {column.name: column for column in columns}


def _value(column: Column, cell: Cell, why: str) -> Value:
    """One cell of a column as a value."""
    if column.is_text:
        return words(None if cell is None else str(cell), why)
    return number(_figure(cell), unit_of(column.unit), why)


def _figure(cell: Cell) -> float | None:
    return float(cell) if isinstance(cell, int | float) else None
