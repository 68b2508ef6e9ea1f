"""The health pane: all checks of the trace itself, the worst first, and the columns of other panes that they affect;
the checks of clocks and of the effect of the profiler on times.

A check that found nothing is listed as fine, so that one sees what was checked; one that does not apply has no count.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

import numpy as np

from tracetui.errors import AnalysisFailed
from tracetui.frozen import frozen
from tracetui.health.link_checks import LINK_CHECKS, LOSS_CHECKS, Check, CheckSeverity, Doubt, doubt_about
from tracetui.health.recording_checks import FILE_CHECKS, RECORDING_CHECKS
from tracetui.idle.idle_parts import clock_skew
from tracetui.idle.waits import final_flush, idleness, unrecorded_holes
from tracetui.linking.links import links
from tracetui.linking.replays import replays
from tracetui.model import columns as col
from tracetui.model.intervals import Int64, Part, count_passed, covered
from tracetui.model.pane import Grouping, Pane
from tracetui.model.quantities import duration, percent
from tracetui.model.results import attempted, checked, failures_in_words, kept, result_or_failure
from tracetui.model.table import NULL, Table, numbers, texts
from tracetui.model.trace import Kind, Trace
from tracetui.operators.costs import costs, counted_rows, is_overlapped, self_cpu_sum

CLOCK_CHECK = "work before its launch"
"""Name of the check of the clocks."""
LENGTH_CHECK = "work that runs past others"
"""Name of the check of durations on the GPU."""
CUT_TIME = (
    "A stream runs one after another, so it cannot have taken that long: it was cut where the next one starts, and how "
    "long it really ran is unknown."
)
MIN_FRAME_SHARE = 0.05
"""Minimum share of Python frames among the slices, for them to slow anything."""


def before_launch(trace: Trace) -> Doubt | None:
    """GPU activities that start before their launch call: the clocks disagree."""
    trace_links, start = links(trace), trace.slices.start
    if len(trace_links.launched) == 0:
        return None
    skew = start[trace_links.launch[trace_links.launched]] - start[trace_links.launched]
    early = skew > 0
    if not early.any():
        return Doubt(0)
    worst = int(trace_links.launched[np.argmax(skew)])
    usual = float(np.median(skew[early]))
    words = f"by {duration(usual)} in the median, {duration(int(skew.max()))} at most: "
    return Doubt(int(early.sum()), len(trace_links.launched), words + trace.name_of(worst), worst, int(usual))


def late_clock(trace: Trace) -> Doubt | None:
    """Launches of which none starts as soon as on other machines: the clock of the GPU is ahead, or all is slow."""
    launches = len(links(trace).launches)
    if launches == 0:
        return None
    skew = clock_skew(trace)
    return Doubt(launches, launches, f"by {duration(skew)}", -1, skew) if skew > 0 else Doubt(0)


def runs_past(trace: Trace) -> Doubt | None:
    """GPU activities within which several later ones of their stream start and end; graphs may really do that."""
    rows, slices, quality = _by_stream(trace), trace.slices, trace.quality
    if len(rows) == 0:
        return None
    bad, inside = _activities_past_others(trace)
    if quality.overlong:
        row = int(cut_activities(trace)[0])
        dur, passed = quality.longest_overlong
        words = f"{duration(dur)}, past {passed:,} later ones: {trace.name_of(row)}"
        return Doubt(
            len(quality.overlong) + len(bad), len(rows), words, row, int(slices.dur[bad].sum()), effect=CUT_TIME
        )
    if len(bad) == 0:
        return Doubt(0)
    worst = int(np.argmax(inside))
    row = int(bad[worst])
    words = f"{duration(int(slices.dur[row]))}, past {inside[worst]:,} later ones: {trace.name_of(row)}"
    return Doubt(len(bad), len(rows), words, row, int(slices.dur[bad].sum()))


def impossible_activities(trace: Trace) -> Int64:
    """GPU activities whose durations are wrong, because several later ones of their stream ran within them."""
    return np.union1d(_activities_past_others(trace)[0], cut_activities(trace)).astype(np.int64)


def cut_activities(trace: Trace) -> Int64:
    """GPU activities whose durations were so wrong that they were cut while reading (R1.5), the longest first."""
    if not trace.quality.overlong:
        return np.empty(0, np.int64)
    gpu = links(trace).gpu
    events = np.array(trace.quality.overlong, np.int64)
    order = np.argsort(trace.slices.event[gpu])
    found = np.searchsorted(trace.slices.event[gpu][order], events)
    return gpu[order[found]].astype(np.int64)


@kept(on_disk=True)
def _activities_past_others(trace: Trace) -> tuple[Int64, Int64]:
    """Such activities, and how many later ones start and end within each."""
    rows, slices, trace_links = _by_stream(trace), trace.slices, links(trace)
    if len(rows) == 0:
        return rows, rows
    index = np.searchsorted(trace_links.launches, trace_links.launch[rows])
    in_graph = (trace_links.launch[rows] >= 0) & (np.append(trace_links.counts, 0)[index] > 1)
    inside = count_passed(slices.lane[rows], slices.start[rows], slices.end[rows])
    bad = np.flatnonzero((inside > 0) & ~in_graph)
    return rows[bad], inside[bad]


def graph_holes(trace: Trace) -> Doubt | None:
    """Holes in graph replays in which nodes ran that were not recorded (R3.64)."""
    if len(replays(trace)) == 0:
        return None
    holes, idle = unrecorded_holes(trace), idleness(trace)
    if len(holes.gap) == 0:
        return Doubt(0)
    size = int((idle.end[holes.gap] - holes.start).sum())
    row = int(idle.after[holes.gap[0]])
    words = f"{duration(size)} in {holes.replays:,} of {len(replays(trace)):,} replays, such as before "
    return Doubt(len(holes.gap), len(idle), words + trace.name_of(row), row, size)


def stream_overlaps(trace: Trace) -> Doubt | None:
    """Kernels that start before the kernel before them on their stream has ended."""
    rows, slices = _by_stream(trace), trace.slices
    rows = rows[slices.kind[rows] == Kind.KERNEL]
    if len(rows) == 0:
        return None
    same = slices.lane[rows[1:]] == slices.lane[rows[:-1]]
    over = rows[1:][same & (slices.start[rows[1:]] < slices.end[rows[:-1]])]
    return doubt_about(trace, over, len(rows))


def zero_length(trace: Trace) -> Doubt | None:
    """Kernels of no duration."""
    rows = trace.slices.of_kind(Kind.KERNEL)
    if len(rows) == 0:
        return None
    none = rows[trace.slices.dur[rows] == 0]
    return doubt_about(trace, none, len(rows))


def whole_micros(trace: Trace) -> Doubt | None:
    """Slices of a recording with a clock of whole microseconds."""
    slices = trace.slices
    if not trace.is_torch or len(slices) == 0:
        return None
    coarse = not (slices.start % 1000).any() and not (slices.dur % 1000).any()
    return Doubt(len(slices) if coarse else 0, len(slices))


def stack_cost(trace: Trace) -> Doubt | None:
    """Python frames, whose recording slows the CPU (R3.34)."""
    if not trace.is_torch:
        return None
    frames = trace.slices.of_kind(Kind.PYTHON)
    if len(frames) < MIN_FRAME_SHARE * len(trace.slices):
        # A handful is what `record_function` and hooks leave behind.
        return Doubt(0)
    row = int(frames[0]) if len(frames) else -1
    return Doubt(len(frames), len(trace.slices), trace.name_of(row) if row >= 0 else "", row)


def overhead(trace: Trace) -> Doubt | None:
    """Slices of the profiler's own cost."""
    if not trace.is_torch:
        return None
    slices = trace.slices
    rows = slices.of_kind(Kind.OVERHEAD)
    if len(rows) == 0:
        return Doubt(0)
    spent = covered(slices.start[rows], slices.end[rows])
    longest = int(rows[np.argmax(slices.dur[rows])])
    share = 100 * spent / max(trace.window[1] - trace.window[0], 1)
    words = f"{duration(spent)}, {percent(share)} of the trace, the longest {trace.name_of(longest)}"
    return Doubt(len(rows), 0, words, longest)


def own_flush(trace: Trace) -> Doubt | None:
    """The wait with which the profiler ends the capture (R3.31)."""
    if len(links(trace).gpu) == 0:
        return None
    rows = final_flush(trace)
    if len(rows) == 0:
        return Doubt(0)
    row = int(rows[0])
    return Doubt(1, 0, f"{trace.name_of(row)}, {duration(int(trace.slices.dur[row]))}", row)


def overlapping_callees(trace: Trace) -> Doubt | None:
    """Operators, annotations and calls whose direct callees overlap and took longer together than they did."""
    if len(counted_rows(trace)) == 0:
        return None
    # The costs of all slices are worked out for those alone that have such callees.
    if not self_cpu_sum(trace).is_overlapped:
        return Doubt(0)
    cost = costs(trace)
    bad = np.flatnonzero(is_overlapped(cost.self_cpu))
    worst = int(bad[np.argmin(cost.self_cpu[bad])])
    row = int(cost.row[worst])
    words = f"{duration(-int(cost.self_cpu[worst]))} more than {trace.name_of(row)} itself"
    return Doubt(len(bad), len(cost.row), words, row)


def _by_stream(trace: Trace) -> Int64:
    """GPU activities by stream, then start."""
    return np.sort(links(trace).gpu)


TIME_CHECKS = (
    Check(
        CLOCK_CHECK,
        CheckSeverity.WRONG,
        before_launch,
        "The clocks of CPU and GPU disagree: delays, queues and the causes of gaps are off by as much.",
        (
            "kernels.launch_delay_us",
            "launches.delay_us",
            "launches.queue_depth",
            "steps.launch_delay_us",
            "gaps.cause",
            "steps.verdict",
        ),
    ),
    Check(
        "long delays of all launches",
        CheckSeverity.NOTE,
        late_clock,
        "The clock of the GPU is ahead of that of the CPU, or launching is slow on this machine: every delay has it.",
    ),
    Check(
        LENGTH_CHECK,
        CheckSeverity.WRONG,
        runs_past,
        "A stream runs one after another, so it cannot have taken that long: GPU time is too high, gaps are missing.",
        ("kernels.dur_us", "kernels.gap_before_us", "steps.gpu_busy_us", "steps.gpu_idle_us", "summary.value", "gaps"),
    ),
    Check(
        "missing activities of graphs",
        CheckSeverity.DOUBT,
        graph_holes,
        "Replays have the same hole before the same node: nodes ran there that the profiler did not record. The GPU "
        "was not idle.",
        ("steps.gpu_idle_us", "steps.gpu_busy_us", "steps.verdict", "gaps.cause"),
    ),
    Check(
        "overlaps on a stream",
        CheckSeverity.NOTE,
        stream_overlaps,
        "Normal for programmatic dependent launch and graphs; busy time is a union and counts the overlap once.",
    ),
    Check(
        "kernels of no duration",
        CheckSeverity.NOTE,
        zero_length,
        "Shorter than the clock's tick: they have no rate, and sums of such kernels are too small.",
    ),
    Check(
        "whole microseconds",
        CheckSeverity.NOTE,
        whole_micros,
        "Old recordings have no finer clock: times are off by up to a microsecond, and rates of short work are rough.",
    ),
    Check(
        "python frames",
        CheckSeverity.DOUBT,
        stack_cost,
        "with_stack=True slows the CPU two- to fivefold: CPU times and a verdict of overhead-bound are exaggerated. "
        "Measure without it.",
        (
            *("ops.self_cpu_us", "ops.cpu_total_us", "views.self_cpu_us", "views.cpu_total_us", "steps.verdict"),
            *("modules.cpu_us", "modules.own_cpu_us"),
        ),
    ),
    Check(
        "self time below 0",
        CheckSeverity.DOUBT,
        overlapping_callees,
        "What a slice calls overlaps (asynchronous work on its thread), so that its self time measures nothing. Sums "
        "with such a slice are marked with ~; those below 0 are not ranked, and count as 0 in comparisons.",
        ("ops.self_cpu_us", "views.self_cpu_us", "views.pct_of_step_cpu"),
    ),
    Check(
        "profiler overhead",
        CheckSeverity.NOTE,
        overhead,
        "Time of the profiler itself, on a lane of its own; the program may be stalled meanwhile.",
    ),
    Check("profiler's last wait", CheckSeverity.NOTE, own_flush, "It is left out of sync times and verdicts."),
)
"""The checks, in the order in which they are listed."""


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


CUT_FILE = "Every complete event could be read as it stands; the file is cut off, or damaged, behind them."


def _offenders(trace: Trace) -> Table:
    """The first events that could not be read as they are, at most 20."""
    examples = trace.quality.examples
    return Table(
        (
            numbers(col.BYTE, np.array([byte for byte, _ in examples], np.int64)),
            texts(col.OFFENDER, [text for _, text in examples]),
        ),
        None,
        "" if examples else CUT_FILE if trace.quality.is_part else PLAIN,
    )
