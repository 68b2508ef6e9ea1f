"""The comparison of two sides in a few sentences: warnings, the change in time, what explains it, what is unknown.

Nothing is claimed that noise does not allow, and times of the GPU and of the CPU are never added. Health warnings are
mentioned where they affect the compared numbers, unless another sentence says the same: truncated files, Python frames
on one side, and activities without a launch record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tracetui.comparing.composition import is_mixed
from tracetui.comparing.fairness import is_same, separate_times, unfair, unrelated_programs, unsure
from tracetui.comparing.kernel_sentences import kernel_story
from tracetui.comparing.op_changes import op_changes
from tracetui.comparing.op_sentences import names_alone, op_sentences, op_sentences_of_gpu
from tracetui.comparing.side import STEP, Side
from tracetui.comparing.time_sentences import (
    TotalsByName,
    further_sentences,
    mixed_sentences,
    mixed_times,
    verdict_sentences,
)
from tracetui.comparing.totals_table import paired
from tracetui.comparing.traits import traits
from tracetui.comparing.unprofiled_sentences import unprofiled_sentences
from tracetui.health.checks import Check, CheckSeverity
from tracetui.health.health_table import doubt_of, doubtful
from tracetui.linking.complete_steps import partial_steps
from tracetui.linking.steps import steps
from tracetui.model.table import Table

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
    """One sentence per health check of a severity: which side, how often, and the effect."""
    mine = [list(_of(a, b, severity)), list(_of(b, a, severity))]
    for check in dict.fromkeys([*mine[0], *mine[1]]):
        held = [index for index in (0, 1) if check in mine[index]]
        counts = dict.fromkeys(_count((a, b)[index], check) for index in held)
        whose = " and ".join(names[index] for index in held)
        yield f"Warning about {whose} (health): {check.name} ({' and '.join(counts)}). {check.effect}"


def _of(side: Side, other: Side, severity: CheckSeverity) -> Iterator[Check]:
    for check in doubtful(side.trace):
        if check.severity == severity and _touches(check, side) and not _is_elsewhere(check, side, other):
            yield check


def _touches(check: Check, side: Side) -> bool:
    used = COMPARED_COLUMNS | STEP_COLUMNS if side.part_kind == STEP else COMPARED_COLUMNS
    used |= {CAUSE_COLUMN} if check.severity == CheckSeverity.WRONG else set()
    return WHOLE_PANE not in check.touches and not used.isdisjoint(check.touches)


def _is_elsewhere(check: Check, side: Side, other: Side) -> bool:
    """Whether other sentences say the same, or what the check found lies outside of all parts."""
    if (
        check.severity == CheckSeverity.DOUBT
        and FRAMES_COLUMN in check.touches
        and traits(side).frames != traits(other).frames
    ):
        return True
    if check.name == CUT_CHECK:
        cut = steps(side.trace).row[partial_steps(side.trace)]
        return not np.isin(side.row, cut).any()
    doubt = doubt_of(side.trace, check)
    if doubt is None or doubt.count != 1 or doubt.row < 0:
        return False
    return bool(side.part_of(np.array([doubt.row]))[0] < 0)


def _count(side: Side, check: Check) -> str:
    doubt = doubt_of(side.trace, check)
    if doubt is None:
        return "0"
    return f"{doubt.count:,} of {doubt.of:,}" if doubt.of else f"{doubt.count:,}"


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
    why = _why(a, b, rows, totals) if a.part_kind == b.part_kind else names_alone(a, b, rows)
    room = max(MAX_SENTENCES - len(first) - len(last), 1)
    return (*first, *list(why)[:room], *last)


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


def _why(a: Side, b: Side, rows: Sequence[dict[str, Any]], totals: TotalsByName) -> Iterator[str]:
    """The explanation of the change."""
    story = kernel_story(a, b, totals)
    yield from story.sentences
    yield from further_sentences(a, b, totals, story.saved_bytes)
    if len(a.activities()[0]) or len(b.activities()[0]):
        yield from op_sentences_of_gpu(a, b, rows, totals, story.named_ops)
    else:
        yield from op_sentences(a, b, rows, totals)
