"""The comparison of two sides in a few sentences: warnings, the change in time, its explanation, what is unknown.

Nothing is claimed that noise does not allow, and times of the GPU and of the CPU are never added. Health warnings are
mentioned where they affect the compared numbers, unless another sentence says the same: truncated files, Python frames
on one side, and activities without a launch record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from functools import cached_property, partial, reduce
from string import ascii_uppercase
from typing import Any

import numpy as np

from tracetui.comparing.calls import recording_conditions
from tracetui.comparing.change_rows import Total, merged, paired, totals
from tracetui.comparing.fairness import is_same, separate_times, unfair, unrelated_programs, unsure
from tracetui.comparing.headline import Headline, headline
from tracetui.comparing.kernel_changes import KernelChanges, kernel_changes
from tracetui.comparing.kernel_sentences import (
    TotalsByName,
    further_sentences,
    kernel_story,
    mixed_sentences,
    mixed_times,
    verdict_sentences,
)
from tracetui.comparing.measures import measures
from tracetui.comparing.noise import is_mixed
from tracetui.comparing.op_changes import op_changes
from tracetui.comparing.op_sentences import names_alone, op_sentences, op_sentences_of_gpu
from tracetui.comparing.side import STEP, Side
from tracetui.comparing.work_sizes import size_changes
from tracetui.errors import AnalysisFailed
from tracetui.frozen import frozen
from tracetui.health.health_table import doubt_of, doubtful_checks
from tracetui.health.link_checks import Check, CheckSeverity
from tracetui.linking.step_kinds import partial_steps, time_ratio, unprofiled_time
from tracetui.linking.steps import steps
from tracetui.model import columns as col
from tracetui.model.quantities import time_scale
from tracetui.model.results import Failures
from tracetui.model.table import Column, ColumnSpec, Table, numbers, texts


def unprofiled_sentences(a: Side, b: Side) -> Iterator[str]:
    """The sentence about steps that the recorder timed without the profiler; none where it did not, or for other parts.

    Nothing is claimed where the intervals of the medians overlap.
    """
    times = unprofiled_time(a.trace), unprofiled_time(b.trace)
    if a.trace is b.trace or (a.part_kind, b.part_kind) != (STEP, STEP) or times[0] is None or times[1] is None:
        return
    before, after = times[0], times[1]
    scale = time_scale((before.median_us, after.median_us))
    change = f"Without the profiler {scale.change(before.median_us, after.median_us)} per step"
    ratio = time_ratio(before, after)
    if size_changes(a, b):
        yield f"{change}, of different amounts of work."
    elif ratio is None:
        yield f"{change}: cannot tell, too few samples for an interval."
    elif not ratio.is_certain:
        yield f"{change}: cannot tell, the intervals of the medians overlap."
    else:
        word, median, low, high = "long", ratio.median, ratio.low, ratio.high
        if median < 1:
            word, median, low, high = "fast", 1 / ratio.median, 1 / ratio.high, 1 / ratio.low
        # The machine may have changed between two sessions.
        is_one_session = before.session and before.session == after.session
        doubt = "" if is_one_session else "; timed one after the other, not in turns"
        yield f"{change}: {median:.2f} times as {word} ({low:.2f} to {high:.2f}){doubt}."


COMPARED_COLUMNS = frozenset(("kernels", "kernels.dur_us", "ops.self_cpu_us", "ops.cpu_total_us"))
"""Columns of panes that hold what is compared."""
STEP_COLUMNS = frozenset(("steps.kernels", "steps.dur_us", "steps.gpu_busy_us", "steps.gpu_idle_us"))
"""Further columns where the parts are steps."""
CAUSE_COLUMN = "gaps.cause"
"""Column mentioned only where it is wrong."""
WHOLE_PANE = "steps"
"""A check that affects all of this pane is about a truncated file."""
FRAMES_COLUMN = "ops.self_cpu_us"
"""Column that Python frames affect."""
CUT_CHECK = "steps cut short"
"""Check of truncated steps, which may lie outside of the parts."""


def warning_sentences(a: Side, b: Side, severity: CheckSeverity, names: tuple[str, str] = ("A", "B")) -> Iterator[str]:
    """One sentence per health check of a severity: the side, the number of cases, and the effect."""
    checks = [list(_checks(a, b, severity)), list(_checks(b, a, severity))]
    for check in dict.fromkeys([*checks[0], *checks[1]]):
        sides = [(name, side) for name, side, mine in zip(names, (a, b), checks, strict=True) if check in mine]
        counts = []
        for _, side in sides:
            doubt = doubt_of(side.trace, check)
            of = f" of {doubt.of:,}" if doubt and doubt.of else ""
            counts.append(f"{doubt.count:,}{of}" if doubt else "0")
        whose = " and ".join(name for name, _ in sides)
        yield f"Warning about {whose} (health): {check.name} ({' and '.join(dict.fromkeys(counts))}). {check.effect}"


def _checks(side: Side, other: Side, severity: CheckSeverity) -> Iterator[Check]:
    """The checks of a severity that affect what is compared and that no other sentence is about."""
    used = COMPARED_COLUMNS | STEP_COLUMNS if side.part_kind == STEP else COMPARED_COLUMNS
    used |= {CAUSE_COLUMN} if severity == CheckSeverity.WRONG else set()
    for check in doubtful_checks(side.trace):
        affects = WHOLE_PANE not in check.touches and not used.isdisjoint(check.touches)
        if check.severity == severity and affects and not _is_elsewhere(check, side, other):
            yield check


def _is_elsewhere(check: Check, side: Side, other: Side) -> bool:
    """True where other sentences say the same, or where the cases of the check lie outside of all parts."""
    if (
        check.severity == CheckSeverity.DOUBT
        and FRAMES_COLUMN in check.touches
        and recording_conditions(side).frames != recording_conditions(other).frames
    ):
        return True
    if check.name == CUT_CHECK:
        cut = steps(side.trace).row[partial_steps(side.trace)]
        return not np.isin(side.row, cut).any()
    doubt = doubt_of(side.trace, check)
    if doubt is None or doubt.count != 1 or doubt.row < 0:
        return False
    return bool(side.part_of(np.array([doubt.row]))[0] < 0)


MAX_SENTENCES = 10
"""Maximum sentences; the least important are left out."""


def statement(a: Side, b: Side, ops: Table | None = None) -> tuple[str, ...]:
    """The sentences, the most important first; `ops` is the table of `op_changes` where it already exists."""
    doubts = unfair(a, b)
    if (a.trace is b.trace or not doubts) and is_same(a, b):
        return (*doubts, "A and B are the same: nothing differs.")
    doubts += warning_sentences(a, b, CheckSeverity.WRONG)
    last = [*unsure(a, b), *warning_sentences(a, b, CheckSeverity.DOUBT)]
    if is_mixed(a) or is_mixed(b):
        return (*mixed_sentences(a, b), *doubts, *mixed_times(a, b), *last)
    totals = paired(a, b)
    rows = list((ops or op_changes(a, b)).rows())
    if others := unrelated_programs(a, b, rows):
        return (others, *doubts, *separate_times(a, b, totals), *last)
    verdicts = list(verdict_sentences(a, b, totals))
    first = [*doubts, *verdicts[:1], *unprofiled_sentences(a, b), *verdicts[1:]]
    reasons = _explanation(a, b, rows, totals) if a.part_kind == b.part_kind else names_alone(a, b, rows)
    most = max(MAX_SENTENCES - len(first) - len(last), 1)
    return (*first, *list(reasons)[:most], *last)


def opening(a: Side, b: Side, names: tuple[str, str]) -> tuple[str, ...]:
    """The beginning of the statement: warnings, and the first sentence about times.

    `names` are the names of the sides.
    """
    doubts = unfair(a, b, names)
    if (a.trace is b.trace or not doubts) and is_same(a, b):
        return (*doubts, f"{names[0]} and {names[1]} are the same: nothing differs.")
    doubts += warning_sentences(a, b, CheckSeverity.WRONG, names)
    if is_mixed(a) or is_mixed(b):
        return (*mixed_sentences(a, b, names), *doubts)
    if others := unrelated_programs(a, b, list(op_changes(a, b).rows()), names):
        return (others, *doubts)
    return (*doubts, *verdict_sentences(a, b, paired(a, b), names)[:1], *unprofiled_sentences(a, b))


def _explanation(a: Side, b: Side, rows: Sequence[dict[str, Any]], totals: TotalsByName) -> Iterator[str]:
    story = kernel_story(a, b, totals)
    yield from story.sentences
    yield from further_sentences(a, b, totals, story.saved_bytes)
    if len(a.activities()[0]) or len(b.activities()[0]):
        yield from op_sentences_of_gpu(a, b, rows, totals, story.named_ops)
    else:
        yield from op_sentences(a, b, rows, totals)


@frozen
class Comparison:
    """Two sides, A before and B after: each result is computed when it is first asked for, and kept.

    A result that fails because of a defect raises AnalysisFailed; the others are not affected.
    """

    a: Side
    b: Side
    failures: Failures = field(default_factory=Failures, init=False)
    """Failures of results that were asked for."""

    @property
    def sentences(self) -> tuple[str, ...]:
        """The statement, or the sentence that says why there is none."""
        try:
            return self.statement
        except AnalysisFailed as failure:
            return (str(failure),)

    @cached_property
    def headline(self) -> Headline:
        """The ratio of the times and what they consist of, at first sight."""
        return self.failures.make("The ratio of the times", lambda: headline((self.a, self.b), self.ops))

    @cached_property
    def statement(self) -> tuple[str, ...]:
        """The differences and their causes, in sentences."""
        return self.failures.make("The statement", lambda: statement(self.a, self.b, self.ops))

    @cached_property
    def totals(self) -> Table:
        """One row per measure."""
        return self.failures.make("The table of totals", lambda: totals(self.a, self.b))

    @cached_property
    def kernel_changes(self) -> KernelChanges:
        """Changes of the kernels, with the activities behind every row."""
        return self.failures.make("The table of kernels", lambda: kernel_changes(self.a, self.b))

    @property
    def kernels(self) -> Table:
        """One row per kernel, or per group of kernels that became one."""
        return self.kernel_changes.table

    @cached_property
    def ops(self) -> Table:
        """One row per operator, annotation and runtime call, with view ops and occupancy queries folded."""
        return self.failures.make("The table of operators", lambda: op_changes(self.a, self.b))

    @cached_property
    def all_ops(self) -> Table:
        """The same with view ops and occupancy queries as rows of their own."""
        return self.failures.make("The table of operators", lambda: op_changes(self.a, self.b, unfold=True))


# Comparison of several sides with the first: one table with columns per side, and first sentences of every pair.

SIDE_NAMES = ascii_uppercase
"""Names of the sides; there can be no more sides than these."""


@frozen
class Several:
    """Several sides, each compared with the first."""

    sides: tuple[Side, ...]
    failures: Failures = field(default_factory=Failures, init=False)
    """Failures of results that were asked for."""

    @cached_property
    def openings(self) -> tuple[tuple[str, ...], ...]:
        """For each side after the first: warnings about comparing it, and the first sentence about times."""
        first = self.sides[0]
        return tuple(
            self.failures.make_or(
                f"The statement about {SIDE_NAMES[index]}",
                partial(opening, first, each, (SIDE_NAMES[0], SIDE_NAMES[index])),
                lambda sentence: (sentence,),
            )
            for index, each in enumerate(self.sides[1:], 1)
        )

    @cached_property
    def others(self) -> tuple[bool, ...]:
        """Mask of the sides whose ratios to the first mean nothing: another program, or another amount of work."""
        first, what = self.sides[0], "The comparison of programs"

        def is_other(each: Side) -> bool:
            rows = list(op_changes(first, each).rows())
            return bool(size_changes(first, each) or unrelated_programs(first, each, rows))

        rest = (self.failures.make_or(what, partial(is_other, each), lambda _: True) for each in self.sides[1:])
        return (False, *rest)

    @cached_property
    def headline(self) -> Headline:
        """The ratios of the times and what they consist of, at first sight.

        Raises: AnalysisFailed for a defect.
        """
        return self.failures.make("The ratios of the times", lambda: headline(self.sides))

    @cached_property
    def totals(self) -> Table:
        """One row per measure: the median of each side, and the differences of those after the first from it.

        Raises: AnalysisFailed for a defect.
        """
        return self.failures.make("The table of totals", self._totals)

    def _totals(self) -> Table:
        first, all_measures = self.sides[0], reduce(merged, map(measures, self.sides))
        pairs = [
            paired(first, other, (SIDE_NAMES[0], SIDE_NAMES[index]), all_measures)
            for index, other in enumerate(self.sides[1:], 1)
        ]
        names = [name for name in all_measures if any(name in pair for pair in pairs)]
        known = [next(pair[name] for pair in pairs if name in pair) for name in names]
        return Table(
            (
                texts(col.MEASURE, names),
                texts(col.UNIT.but(help="Unit of the numbers; empty for counts."), [each.unit for each in known]),
                numbers(col.A, [each.difference.a.median for each in known]),
                *(column for index, pair in enumerate(pairs, 1) for column in _columns(index, pair, names)),
                texts(col.ABOUT, [each.help for each in known]),
            ),
            None,
            " ".join(dict.fromkeys(side.remark for side in self.sides if side.remark)),
        )


def _columns(index: int, pair: dict[str, Total], names: list[str]) -> Iterator[Column]:
    """The columns of a side after the first; null where neither it nor the first has a value."""
    totals, mark = [pair.get(name) for name in names], SIDE_NAMES[index]
    name = mark.lower()
    medians = [each.difference.b.median if each else np.nan for each in totals]
    ratios = [each.difference.ratio if each else np.nan for each in totals]
    yield numbers(ColumnSpec(name, mark, f"Median over the parts of {mark}."), medians)
    yield numbers(ColumnSpec(f"{name}_ratio", f"{mark} / A", f"{mark} by A."), ratios)
    changes = [each.change.value if each else None for each in totals]
    help = f"What noise lets one say of {mark} beside A."
    yield texts(ColumnSpec(f"{name}_change", f"{mark} change", help), changes)
    remarks = [each.remark or None if each else None for each in totals]
    yield texts(ColumnSpec(f"{name}_remark", f"{mark} remark", "What stands in the way of saying more."), remarks)
