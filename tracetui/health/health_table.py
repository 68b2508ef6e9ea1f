"""The health pane: every check of the trace itself, the worst first, and the columns of other panes that it affects.

A check that found nothing is listed as fine, so that one sees what was checked; one that does not apply has no count.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

import numpy as np

from tracetui.errors import AnalysisFailed
from tracetui.frozen import frozen
from tracetui.health.link_checks import LINK_CHECKS, LOSS_CHECKS, Check, CheckSeverity, Doubt
from tracetui.health.recording_checks import FILE_CHECKS, RECORDING_CHECKS
from tracetui.health.time_checks import TIME_CHECKS
from tracetui.model import columns as col
from tracetui.model.intervals import Part
from tracetui.model.pane import Grouping, Pane
from tracetui.model.results import attempted, checked, failures_in_words, kept, result_or_failure
from tracetui.model.table import NULL, Table, numbers, texts
from tracetui.model.trace import Trace

CHECKS = FILE_CHECKS + TIME_CHECKS + LINK_CHECKS + RECORDING_CHECKS
"""The checks of every trace, in the order in which equally severe ones are listed."""
PLAIN = "Every event could be read as it stands."


def health(trace: Trace, step: Part | None = None, by: str | None = None) -> Table:
    """One row per check of the whole trace, whatever the part; by offender the events that could not be read."""
    if by == "offender":
        return _offenders(trace)
    all_answers, failures = _answers(trace, checks_of(trace))
    answers = sorted(all_answers, key=lambda answer: -answer.rank)
    results = [(answer.check, answer.doubt) for answer in answers]
    shares = [
        100 * doubt.count / doubt.of if doubt and doubt.count and doubt.of else float("nan") for _, doubt in results
    ]
    words = [
        None if doubt is None else check.severity.name.lower() if doubt.count else "fine" for check, doubt in results
    ]
    return Table(
        (
            texts(col.CHECK, [check.name for check, _ in results]),
            numbers(col.COUNT, [NULL if doubt is None else doubt.count for _, doubt in results]),
            numbers(col.SHARE_PCT, shares),
            texts(col.EFFECT, [(doubt.effect if doubt else "") or check.effect for check, doubt in results]),
            texts(col.EXAMPLE, [doubt.example or None if doubt else None for _, doubt in results]),
            texts(col.SEVERITY.but(help="wrong, doubt, note, or fine; null where the question makes no sense."), words),
            texts(col.TOUCHES, [", ".join(check.touches) or None for check, _ in results]),
        ),
        np.array([doubt.row if doubt else -1 for _, doubt in results], np.int64),
        _note(trace, answers),
    ).lacking(failures)


PANE = Pane(
    "health",
    "Health",
    key="H",
    help="One row is a check of the trace itself.",
    table=health,
    columns="severity check count share_pct effect example",
    groupings=(Grouping("offender", "byte offender"),),
    of_step=False,
    of_range=False,
    is_in_time_order=False,
)


def checks_of(trace: Trace) -> tuple[Check, ...]:
    """The checks that are asked of a trace: those of all, and those of losses where its format has some."""
    return CHECKS + LOSS_CHECKS if trace.quality.format_losses else CHECKS


def doubts(trace: Trace) -> dict[str, Doubt | None]:
    """The result of every check, by its name."""
    return {check.name: doubt_of(trace, check) for check in checks_of(trace)}


def doubt_of(trace: Trace, check: Check) -> Doubt | None:
    """The result of one check, computed once.

    Raises: AnalysisFailed where the check failed.
    """
    return checked(_check_result(trace, check.name))


@kept(on_disk=True)
def _check_result(trace: Trace, name: str) -> Doubt | AnalysisFailed | None:
    """The result of the check of a name, or its failure."""
    check = next(each for each in CHECKS + LOSS_CHECKS if each.name == name)
    return result_or_failure(f"The check {name!r}", lambda: check.find(trace))


@frozen(eq=True)
class _Answer:
    """A check with its result."""

    check: Check
    doubt: Doubt | None
    rank: int
    """Severity of the result, 0 for nothing found, -1 where the check does not apply."""


def _answer(trace: Trace, check: Check) -> _Answer:
    doubt = doubt_of(trace, check)
    return _Answer(check, doubt, -1 if doubt is None else int(check.severity) if doubt.count else 0)


def _answers(trace: Trace, checks: Iterable[Check]) -> tuple[list[_Answer], tuple[str, ...]]:
    """The results of some checks, and a sentence about those that failed."""
    answers, failures = attempted(partial(_answer, trace, check) for check in checks)
    return answers, failures_in_words(failures, "checks")


def _worst_first(answers: Iterable[_Answer]) -> list[_Answer]:
    """Warnings and wrong numbers."""
    return sorted((each for each in answers if each.rank >= CheckSeverity.DOUBT), key=lambda each: -each.rank)


@kept
def doubtful_checks(trace: Trace) -> list[Check]:
    """The checks that found warnings or wrong numbers, the worst first.

    Raises: AnalysisFailed where a check failed.
    """
    answers = [_answer(trace, check) for check in checks_of(trace) if check.severity >= CheckSeverity.DOUBT]
    return [answer.check for answer in _worst_first(answers)]


ABOVE_WHOLE = {
    "peak_pct": "the call took up to 5 % less than the data sheet allows, as where the GPU runs above its listed clock",
    "pct": "what ran side by side, or lies in one another, is added",
}
"""The reason why a share may be above 100 %, by its column."""
ADDED_UP = "what it adds up overlaps, or lies partly outside of what it is a share of"
"""The reason why any other share may be."""
MAX_ROUNDING_PCT = 1e-6
"""By how much a sum of floats may be above 100 % without being more than the whole."""


def marked_shares(table: Table) -> Table:
    """The table with the mark `~` on shares above 100 %, and why they are above it; rounding is taken away."""
    columns, reasons = [], dict[str, str]()
    for column in table.columns:
        is_share = column.unit == "%" and column.values.dtype.kind == "f"
        values = column.values.astype(np.float64) if is_share else np.empty(0)
        above = values > 100
        if above.any():
            values = np.where(above & (values <= 100 + MAX_ROUNDING_PCT), 100.0, values)
            above = values > 100
            marks = above if column.doubtful is None else above | column.doubtful
            column = replace(column, values=values, doubtful=marks if marks.any() else None)
        if above.any():
            reasons.setdefault(ABOVE_WHOLE.get(column.name, ADDED_UP), column.spec.heading)
        columns.append(column)
    if not reasons and columns == list(table.columns):
        return table
    notes = [f"{heading} above 100 (~): {why}." for why, heading in reasons.items()]
    return replace(table, columns=tuple(columns), note=" ".join(filter(None, (table.note, *notes))))


def marked(trace: Trace, pane: str, table: Table) -> Table:
    """The table of a pane with the warnings that affect it, and the affected columns."""
    result: dict[str, tuple[str, ...]] = {}
    # Checks that speak of other panes are not made for this one: some take as long as the table.
    about = [check for check in checks_of(trace) if pane in check.panes and check.severity >= CheckSeverity.DOUBT]
    answers, failures = _answers(trace, about)
    for answer in _worst_first(answers):
        check, doubt = answer.check, answer.doubt
        touched = tuple(name for name in table.column_names if f"{pane}.{name}" in check.touches)
        if doubt and (touched or pane in check.touches):
            words = check.name if doubt.count == 1 else f"{check.name} ({doubt.count:,})"
            result[words] = () if pane in check.touches else touched
    return replace(table, doubts=result).lacking(failures)


def _note(trace: Trace, answers: list[_Answer]) -> str:
    """Counts of wrong numbers and warnings in a sentence; empty where some failed and the others found nothing."""
    checks, bad = checks_of(trace), _worst_first(answers)
    if not bad:
        return "No check found a problem with the numbers of this trace." if len(answers) == len(checks) else ""
    wrong = sum(answer.check.severity == CheckSeverity.WRONG for answer in bad)
    words = [f"{wrong} found wrong numbers"] if wrong else []
    words += [f"{len(bad) - wrong} raised warnings"] if len(bad) > wrong else []
    return f"Of {len(checks)} checks, {' and '.join(words)}; other panes mark the affected columns with ~."


CUT = "Every complete event could be read as it stands; the file is cut off, or damaged, behind them."


def _offenders(trace: Trace) -> Table:
    """The first events that could not be read as they are, at most 20."""
    examples = trace.quality.examples
    return Table(
        (
            numbers(col.BYTE, np.array([byte for byte, _ in examples], np.int64)),
            texts(col.OFFENDER, [text for _, text in examples]),
        ),
        None,
        "" if examples else CUT if trace.quality.is_part else PLAIN,
    )
