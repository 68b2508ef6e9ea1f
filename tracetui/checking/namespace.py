"""The values of the names of an expression in one trace, and the table of all names with value, unit and help."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import starmap
from typing import NamedTuple

import numpy as np

from tracetui.checking.functions import (
    ACTIVITY_FIELDS,
    FIELDS,
    FUNCTIONS,
    count_of_parts,
    median_of,
    selected,
    with_presence,
)
from tracetui.checking.lists import (
    LISTS,
    NO_ROWS,
    OP_HELP,
    lacking,
    listing,
    measured,
    require_measures,
    view_of,
    view_of_row,
    whole_or_step,
)
from tracetui.checking.values import (
    ALL_NAMES_HINT,
    TEXT,
    THINGS,
    Rows,
    Value,
    counted_names,
    nearest,
    number,
    text_value,
    unit_of,
)
from tracetui.comparing.measures import COUNT, Measure, known_measures
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
from tracetui.model.results import Failures, kept
from tracetui.model.table import Cell, Column, Table, numbers, texts
from tracetui.model.trace import Trace

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


class UnknownName(Exception):
    """A name does not exist; the message suggests others."""


class Namespace:
    """Names that stand for values, and lists."""

    lists: Sequence[str] = ()
    """The names of the lists."""

    def __init__(self) -> None:
        self.used: dict[str, tuple[str, ...]] = {}
        """The names that were looked up, each with the columns of the panes behind it."""
        self.selections: dict[tuple[str, str], None] = {}
        """The kinds and patterns by which kernels, copies and operators were selected, in order."""
        self._rows: dict[str, Rows] = {}

    @property
    def names(self) -> list[str]:
        """All names that stand for one value."""
        raise NotImplementedError

    def bare(self, name: str) -> Value:
        """The value of a name that stands alone.

        Raises: UnknownName for any other name.
        """
        raise NotImplementedError

    def make_rows(self, name: str) -> Rows:
        """The list of a name, made once."""
        raise NotImplementedError

    def rows(self, name: str) -> Rows:
        """A list, the same object each time; KeyError for a name that is not in `lists`."""
        if name not in self._rows:
            self._rows[name] = self.make_rows(name)
        return self._rows[name]

    def mark_rows_used(self, name: str) -> None:
        """Marks the rows of a list as used, since they are counted."""

    def column(self, rows: Rows, name: str) -> Value:
        """A column of a list; KeyError for one that does not exist."""
        return rows[name]

    def count_of(self, listed: str, name: str) -> Value | None:
        """The count that stands behind the name of a list and is no column of it, None where there is none."""
        return None

    def summary(self, name: str) -> Value:
        """A line of the summary. Raises: UnknownName for a line that does not exist."""
        raise UnknownName(ONE_TRACE)

    def of_step(self, step: int, name: str) -> Value:
        """A value of the step with a number. Raises: UnknownName for a name that a step does not have."""
        raise UnknownName(f"Of a set of ranks it is steps(step={step}).step_us.max, say.")

    def selected(self, kind: str, pattern: str, field: str) -> Value:
        """A field of what is selected by name. Raises: UnknownName for a field that does not exist."""
        raise UnknownName(f"{ONE_TRACE}Check the trace of a rank.")

    def findings(self, severity: str | None = None) -> Value:
        """Number of findings. Raises: UnknownName for a word that is no severity."""
        raise UnknownName(f"{ONE_TRACE}late is the number of ranks that stand out.")


ONE_TRACE = "That is a name of one trace, and this is a set of ranks. "


class TraceNames(Namespace):
    """The names of one side."""

    lists = tuple(LISTS)

    def __init__(self, of: Side, title: str = "this trace", each: bool = True) -> None:
        super().__init__()
        self.side = of
        self.each = each
        """True where an assertion about a count must hold in every step; else its median counts."""
        self.title = title
        """The trace in a sentence."""

    @property
    def names(self) -> list[str]:
        """All names that stand for one value."""
        return list(dict.fromkeys([*measured(self.side), *summary_facts(self.side.trace), "findings"]))

    def bare(self, name: str) -> Value:
        """A measure, or a line of the summary.

        Raises: UnknownName for a name that is neither, AnalysisFailed for one that may be that of a measure which
        failed.
        """
        known = measured(self.side)
        if name in known:
            return self._of_measure(name, known[name], self.side)
        measure = known.get(name.removesuffix(PER_STEP_SUFFIX))
        if measure is not None and self.side.part_kind == STEP:
            return self._of_measure(name, measure, self.side)
        if measure is not None:
            why = no_steps(self.side.trace) if self.side.scope == "" else f"#{self.side.scope} is no step."
            return number(None, unit_of(measure.unit), self._absent(name, why))
        if name == "findings":
            return self.findings()
        require_measures(self.side)
        step, why = whole_or_step(self.side)
        lines = summary_facts(self.side.trace, step)
        if name not in lines:
            behind = PER_STEP_SUFFIX if "_per" in name else ""
            names = [*(f"{each}{behind}" for each in known), *self.names, *LISTS]
            raise UnknownName(nearest(name, names, ALL_NAMES_HINT))
        return self._fact(name, lines[name], why)

    def summary(self, name: str) -> Value:
        """A line of the summary of the whole trace.

        Raises: UnknownName for a line that does not exist.
        """
        lines = summary_facts(self.side.trace)
        if name not in lines:
            raise UnknownName(nearest(name, lines))
        return self._fact(f"summary.{name}", lines[name])

    def make_rows(self, name: str) -> Rows:
        """The list of a name; without rows where it is unknown."""
        table, why = listing(self.side, name)
        kind = LISTS[name]
        reason = self._absent(f"The list {name}", why) if why else ""
        view = partial(view_of_row, self.side, name, table)
        return Rows(name, table.take(NO_ROWS) if why else table, reason, kind.named_by, kind.has_step, view)

    def mark_rows_used(self, name: str) -> None:
        """Marks the rows of a list as used, since they are counted."""
        self.used[name] = of_rows(name)

    def column(self, rows: Rows, name: str) -> Value:
        """A column of a list of this side; KeyError for one that does not exist."""
        self.used[f"{rows.name}.{name}"] = of_column(rows.name, name)
        return rows[name]

    def of_step(self, step: int, name: str) -> Value:
        """A number or a text of the step with a number.

        Raises: UnknownName for a name that a step does not have.
        """
        title = f"step[{step}].{name}"
        columns = listing(side(self.side.trace), "steps")[0]
        if name not in columns:
            raise UnknownName(nearest(name, columns.column_names))
        try:
            one = side(self.side.trace, str(step))
        except UsageError as error:
            return _of_cell(columns[name], None, self._absent(title, str(error)))
        if name in measured(one):
            return self._of_measure(title, measured(one)[name], one)
        column = listing(one, "steps")[0][name]
        self.used[title] = of_column("steps", name)
        return _of_cell(column, column.cell(0), self._absent(title, no_gpu(one.trace) or NOTHING_THERE))

    def selected(self, kind: str, pattern: str, field: str) -> Value:
        """A field of the kernels, copies or operators of a name; `kind` is a key of `FIELDS`.

        Raises: UnknownName for a field that does not exist.
        """
        field = field.removesuffix(PER_STEP_SUFFIX)
        if field not in FIELDS[kind]:
            raise UnknownName(nearest(field, FIELDS[kind]))
        value = selected(self.side, kind, pattern, field)
        title = f'{kind}("{pattern}").{field}'
        self.selections[kind, pattern] = None
        self.used[title] = of_selected(kind, field)
        reason = self._absent(title, value.why)
        if value.parts is not None:
            return self._count(value, reason)
        presence = replace(value.presence, why=reason) if value.presence and self.each else None
        result = number(value.one, value.unit, reason, value.sample)
        return replace(result, offenders=value.offenders, presence=presence)

    def findings(self, severity: str | None = None) -> Value:
        """Number of findings, of one severity where it is named.

        Raises: UnknownName for a word that is no severity.
        """
        severities = [each.name.lower() for each in Severity]
        if severity is not None and severity not in severities:
            raise UnknownName(
                f"A finding is {', '.join(severities[:-1])} or {severities[-1]}; "
                "those of a rule are count(findings, id == 'host-sync')."
            )
        step, why = whole_or_step(self.side)
        if why:
            return number(None, THINGS, self._absent("findings", why))
        all_findings = complete_finding_list(self.side.trace, step)
        meant = [each for each in all_findings if severity in (None, each.severity.name.lower())]

        def view(index: int) -> tuple[str, str]:
            # A finding without a slice is seen in the list of them.
            row = meant[index].row
            return view_of(self.side, "findings" if row < 0 else "", row, is_gap=meant[index].at_gap)

        offenders = counted_names("findings", [each.id for each in meant], view)
        return replace(number(len(meant), THINGS), offenders=offenders)

    def _of_measure(self, title: str, measure: Measure, of: Side) -> Value:
        """The median over the parts; of a count the values of all parts."""
        self.used[title] = of_measure(measure.name)
        reason = self._absent(title, lacking(of, measure.name))
        if measure.unit == COUNT:
            return self._count(count_of_parts(of, measure.values, reason), reason, of is self.side)
        median = median_of(measure.values[~np.isnan(measure.values)], unit_of(measure.unit), reason)
        return with_presence(median, of, measure.values, reason) if self.each and of is self.side else median

    def _count(self, count: Value, reason: str, of_side: bool = True) -> Value:
        """A count of every part; of a baseline, and of a single step, one number: the median."""
        if self.each and of_side and count.parts is not None:
            return replace(count, why=reason if count.why or not count.known else "")
        return median_of(np.empty(0) if count.sample is None else count.sample, count.unit, reason)

    def _fact(self, title: str, fact: SummaryFact, why: str = "") -> Value:
        """A line of the summary; `why` it is unknown for these parts."""
        self.used[title] = of_line(fact.key)
        without_gpu = "" if fact.key in FILE_LINES else no_gpu(self.side.trace)
        reason = self._absent(title, why or without_gpu or NOTHING_THERE)
        value = None if why or (fact.key in GPU_LINES and without_gpu) else fact.value
        if isinstance(fact.value, str) or (fact.value is None and not fact.unit):
            return text_value(None if value is None else str(value), reason)
        count = number(float(value) if isinstance(value, int | float) else None, unit_of(fact.unit), reason)
        if fact.key != WARNINGS_LINE:
            return count
        names = [check.name for check in doubtful_checks(self.side.trace)]
        return replace(count, offenders=counted_names("health", names, lambda _: view_of(self.side, "health")))

    def _absent(self, title: str, why: str) -> str:
        """The sentence of an assertion about something that the trace does not hold."""
        reason = why.replace(" in this trace", " in it", 1).replace("This trace has", "It has", 1)
        return f"{title} is not in {self.title}: {reason[:1].lower()}{reason[1:]}"


@kept
def summary_facts(trace: Trace, step: int | None = None) -> dict[str, SummaryFact]:
    """The lines of the summary of a trace or a step by name, with those that it has only where there is something."""
    lines = {fact.key: fact for fact in facts(trace, step)}
    always = [SummaryFact(MARKERS_LINE, None), *starmap(SummaryFact, changes_of_file(trace).items())]
    return {fact.key: fact for fact in always} | lines


def _of_cell(column: Column, cell: Cell, why: str) -> Value:
    """One cell of a column as a value."""
    if column.is_text:
        return text_value(None if cell is None else str(cell), why)
    return number(float(cell) if isinstance(cell, int | float) else None, unit_of(column.unit), why)


# Health warnings that affect the names that expressions use.
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
    "mfu_pct": ("steps.mfu_pct", "steps.period_us", "kernels.flops"),
    "flops_known_pct": _BUSY,
    **{f"{family.name.lower()}_us": _BUSY for family in Family},
}
"""Columns behind a measure of a step, where that is not the column of the same name."""
_GAPS = ("gaps.cause", "gaps.dur_us")
_SUMS = ("summary", "summary.value")
_OF_THE_FILE = ("file", "format", "size_bytes", "processes", "threads", "streams", "devices", "step_markers")
_OF_STEPS = ("steps_found_by", "steps_are", "steps_cover_pct", "step_kinds", "between_steps_pct")
_UNPROFILED = ("unprofiled_us", "unprofiled_low_us", "unprofiled_high_us", "profiler_adds_pct")
_OTHERS = ("recorded_with", "workload", "doubts", "totals_say", "without_launch")
_CHANGES = ("events_lost", "metadata_lost", "events_mended", "bytes_replaced", "keys_twice", "times_changed")
_UNAFFECTED = (*_OF_THE_FILE, *_CHANGES, *_OF_STEPS, *_UNPROFILED, *_OTHERS)
"""Lines of the summary that no warning affects."""
_COUNTS = ("cpu_ops", "launches", "occupancy_queries", "view_ops", "events")
"""Lines of the summary that stay right where durations do not."""
_LINES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_UNAFFECTED, ()),
    **dict.fromkeys(_COUNTS, ("summary",)),
    **dict.fromkeys(("kernels", "copies"), ("summary", "kernels")),
    "steps": ("steps.start_us",),
    "verdict": (*_SUMS, "steps.verdict"),
    **dict.fromkeys(("mfu", "mfu_pct", "flops_known_pct"), (*_SUMS, "steps.mfu_pct", "kernels.flops")),
    "self_cpu_total_us": (*_SUMS, "ops.self_cpu_us"),
}


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
    return tuple(filter(None, (LISTS[name].pane or name, LISTS[name].chosen_by)))


def of_column(name: str, column: str) -> tuple[str, ...]:
    """The columns behind a column of a list."""
    own = of_measure(column) if name in ("steps", "runs") else (f"{LISTS[name].pane or name}.{column}",)
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
        names = [
            name
            for name, columns in used.items()
            if any(column in check.touches or column.partition(".")[0] in check.touches for column in columns)
        ]
        if names:
            affecting.append((check, names))
    return affecting


VALUE, SUMMARY, LIST, SELECTED, FUNCTION = "value", "summary", "list", "selected", "function"
"""Kinds of names, in the order of the table."""
UNLIKE = {
    "gpu_idle_pct": "Idle time as a share of the period of a step, the wait before its first kernel included; of runs "
    "and ranges as a share of the span.",
    "steps.idle_pct": "The same as gpu_idle_pct: idle time as a share of the period of the step.",
    "summary.idle_pct": "Idle time of the whole trace from its first GPU activity to its last, also as idle_pct: with "
    "that between the steps, unlike gpu_idle_pct.",
    "summary.gpu_busy_pct": "Share of the whole trace in which a GPU ran something, from the first event to the last, "
    "also as gpu_busy_pct.",
}
"""Help of names that are easily confused with each other."""


_FIELD_HELP = {
    "calls": "Calls in a step.",
    "total_us": "Sum of the durations in a step.",
    "mean_us": "Mean duration of all calls.",
    "min_us": "Shortest duration.",
    "median_us": "Median duration.",
    "max_us": "Longest duration.",
}


class ListedName(NamedTuple):
    """One row of the table of names; a value of None is unknown, or the name is that of a whole column."""

    kind: str
    name: str
    help: str
    unit: str = ""
    value: float | str | None = None


def names_table(listed: Sequence[ListedName]) -> Table:
    """One row per name."""
    values = [
        f"{each.value:.3f}".rstrip("0").rstrip(".") if isinstance(each.value, float) else each.value for each in listed
    ]
    return Table(
        (
            texts(col.NAME.but(help="How an expression writes it."), [each.name for each in listed]),
            texts(col.VALUE, values),
            texts(col.UNIT, [each.unit for each in listed]),
            texts(col.HELP, [UNLIKE.get(each.name, each.help) for each in listed]),
            texts(col.SORT, [each.kind for each in listed]),
            numbers(col.NUMBER, [each.value if isinstance(each.value, float) else np.nan for each in listed]),
        )
    )


def names(of: Side) -> Table:
    """One row per name, grouped by kind."""
    failures = Failures()

    def some(make: Callable[[Side], Iterator[ListedName]]) -> list[ListedName]:
        return failures.make_or("A part of this list", lambda: list(make(of)), lambda _: [])

    makers: list[Callable[[Side], Iterator[ListedName]]] = [_measure_names, _finding_count, _summary_lines]
    makers += [partial(_columns_of_list, name=name) for name in LISTS]
    failures.note(map(str, known_measures(of)[1]))
    listed = [each for make in makers for each in some(make)]
    for kind, noun in (("kernel", "Kernels"), ("copy", "Copies and fills")):
        listed += [
            ListedName(
                SELECTED,
                f'{kind}("NAME").{field}',
                f"{noun} of a name: {_FIELD_HELP[field]}",
                "us" if field.endswith("_us") else "",
            )
            for field in ACTIVITY_FIELDS
        ]
    for field, (unit, help) in OP_HELP.items():
        listed.append(ListedName(SELECTED, f'op("NAME").{field}', f"Operators of a name: {help}", unit))
    listed += [ListedName(FUNCTION, use, help) for use, help in FUNCTIONS.values()]
    return names_table(listed).lacking(failures.sentences)


def _measure_names(of: Side) -> Iterator[ListedName]:
    known = TraceNames(of)
    for name, measure in measured(of).items():
        yield ListedName(VALUE, name, measure.help, measure.unit, plain(known.bare(name)))


def _finding_count(of: Side) -> Iterator[ListedName]:
    help = "What the rules find; findings('major') of a severity."
    yield ListedName(VALUE, "findings", help, "", plain(TraceNames(of).findings()))


def _summary_lines(of: Side) -> Iterator[ListedName]:
    known, taken = TraceNames(of), set(measured(of))
    for name, fact in summary_facts(of.trace).items():
        alone = "" if name in taken else f", also as {name}"
        help = f"A line of the summary of the whole trace{alone}."
        yield ListedName(SUMMARY, f"summary.{name}", help, fact.unit, plain(known.summary(name)))


def _columns_of_list(of: Side, name: str) -> Iterator[ListedName]:
    table, why = listing(of, name)
    yield ListedName(LIST, f"count({name})", LISTS[name].help, "", None if why else float(len(table)))
    shared = set(measured(of)) if name in ("steps", "runs") else set()
    for column in table.columns:
        if column.name not in shared:
            yield ListedName(LIST, f"{name}.{column.name}", column.help, column.unit)


def plain(value: Value) -> float | str | None:
    """A single number or text; None where it is unknown."""
    if not value.known:
        return None
    return value.text if value.unit == TEXT else value.one
