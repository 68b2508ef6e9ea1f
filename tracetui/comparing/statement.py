"""The comparison of sides at first sight and in a few sentences: the time that counts, its parts and the ratio;
warnings, the change in time, its explanation, what is unknown.

The time of the headline is the GPU's span where a GPU is idle for long, else its busy time, without a GPU the time of
the CPU; of steps the period, where their work does not explain its change: the same as in the first sentence of the
statement. Where a run hardly uses the GPU it is the duration of the run. A ratio is given where the statement gives
one, and says in a word which way.

Nothing is claimed that noise does not allow, and times of the GPU and of the CPU are never added. Health warnings are
mentioned where they affect the compared numbers, unless another sentence says the same: truncated files, Python frames
on one side, and activities without a launch record.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from enum import Enum
from functools import cached_property, partial, reduce
from itertools import combinations, zip_longest
from string import ascii_uppercase
from typing import Any

import numpy as np

from tracetui.comparing.change_rows import Total, merged, paired, totals
from tracetui.comparing.fairness import is_same, separate_times, unfair, unrelated_programs, unsure
from tracetui.comparing.kernel_changes import KernelChanges, kernel_changes
from tracetui.comparing.kernel_sentences import (
    TotalsByName,
    further_sentences,
    gpu_measure,
    kernel_story,
    median_parts,
    mixed_sentences,
    mixed_times,
    verdict_sentences,
)
from tracetui.comparing.measures import measures, recording_conditions
from tracetui.comparing.noise import BEYOND_NOISE, Change, is_mixed
from tracetui.comparing.op_changes import op_changes
from tracetui.comparing.op_sentences import names_alone, op_sentences, op_sentences_of_gpu
from tracetui.comparing.side import CAPTURE, ONE_RUN, RUN, STEP, Side, differ_in_length
from tracetui.comparing.variants import apart
from tracetui.comparing.work_sizes import size_changes
from tracetui.errors import AnalysisFailed
from tracetui.frozen import frozen
from tracetui.health.health_table import doubt_of, doubtful_checks
from tracetui.health.link_checks import Check, CheckSeverity
from tracetui.idle.gpu_spans import communicates, union_in_cells
from tracetui.linking.step_kinds import partial_steps, time_ratio, unprofiled_time
from tracetui.linking.steps import steps
from tracetui.model import columns as col
from tracetui.model.intervals import Bool
from tracetui.model.quantities import duration, time_scale
from tracetui.model.results import Failures
from tracetui.model.table import Column, ColumnSpec, Table, numbers, texts
from tracetui.model.trace import Kind
from tracetui.tables.step_table import COMMUNICATION, IDLE


class Spent(Enum):
    """Parts of a time."""

    COMPUTE = "compute"
    COMMUNICATION = "communication"
    COPY = "copies"
    IDLE = "idle"
    CPU = "CPU"


@frozen(eq=True)
class SideTimes:
    """Times of a side in µs, as medians over its parts."""

    name: str
    """A short name that tells it from the other sides."""
    time: float
    """The time that is compared; NaN where it is not known."""
    spent: tuple[tuple[Spent, float], ...]
    """What the time consists of; together the time."""
    busy: float
    """Busy time of the GPU; NaN without a GPU."""
    count: float
    """Kernels, without a GPU operators."""
    copies: float = 0.0
    """Copies and fills."""


@frozen(eq=True)
class Ratio:
    """The time of one side beside that of another."""

    words: str
    """`8.45x faster`, `1.20x slower`, `the same`, `within noise`; else why no ratio is given, such as `other work`."""
    change: Change
    """How the times differ; unknown where no ratio is given."""


@frozen(eq=True)
class Headline:
    """Several sides at first sight, each beside the first."""

    what: str
    """The time that is compared: `period`, `GPU span`, `GPU time`, `wall time` or `CPU time`."""
    of_gpu: bool
    """True where the times are of a GPU."""
    per: str
    """` per step` where the sides have parts; else empty."""
    sides: tuple[SideTimes, ...]
    ratios: tuple[Ratio, ...]
    """Of each side after the first to the first."""
    noise: str
    """How far such times lie apart by themselves, of two sides."""
    pairs: tuple[str, ...] = ()
    """Of three sides or more, the ratios between those after the first: `fused → fused, compiled 1.22x faster`."""

    is_apart: bool = False
    """True where the parts of a side differ in what they run, so that each kind of them stands here as a side."""

    @property
    def facts(self) -> tuple[str, ...]:
        """Of two sides the times before and after, the kernels, the busy time, the noise; empty for what is not known.

        `GPU span 1,613 → 191 µs`, `kernels 36 → 5`, `busy 188 → 66 µs`, `noise unknown`. None where parts stand apart.
        """
        a, b = self.sides[:2]
        if self.is_apart or not (a.time == a.time and b.time == b.time):
            return ()
        busy = ""
        if self.of_gpu and self.what != BUSY and a.busy == a.busy and b.busy == b.busy:
            busy = f"busy {time_scale((a.busy, b.busy)).change(a.busy, b.busy)}"
        counts = f"{a.count:,g}" if a.count == b.count else f"{a.count:,g} → {b.count:,g}"
        return (
            f"{self.what}{self.per} {time_scale((a.time, b.time)).change(a.time, b.time)}",
            f"{'kernels' if self.of_gpu else 'operators'} {counts}",
            busy,
            self.noise,
        )

    def named(self, names: Sequence[str]) -> Headline:
        """The same with other names, and without ratios."""
        sides = tuple(replace(side, name=name) for side, name in zip(self.sides, names, strict=True))
        return replace(self, sides=sides, ratios=tuple(Ratio("", Change.UNKNOWN) for _ in self.ratios))

    @property
    def slower(self) -> float:
        """The longest time of any side, which is as wide as there is room; in µs."""
        return max((each.time for each in self.sides if each.time == each.time), default=0.0)


PERIOD, SPAN, BUSY, WALL, ON_CPU = "period", "GPU span", "GPU time", "wall time", "CPU time"
MIN_SPAN_SHARE = 0.1
"""Minimum GPU span of a run, as a share of its duration, to stand for what the run takes."""
MAX_PAIRED = 5
"""Maximum sides of which every two are set beside each other."""
_WHAT = {"period_us": PERIOD, "gpu_span_us": SPAN, "gpu_busy_us": BUSY, "dur_us": WALL, "cpu_us": ON_CPU}


def headline(sides: Sequence[Side], ops: Table | None = None) -> Headline:
    """The sides at first sight; `ops` is the table of `op_changes` of two, where it already exists.

    Raises: AnalysisFailed for a defect.
    """
    is_apart = any(is_mixed(side) and side.part_kind == RUN for side in sides)
    if is_apart:
        # The kinds of A and B in turn, as in a set of variants.
        kinds_of_runs = [apart(side) for side in sides]
        sides = [each for kind in zip_longest(*kinds_of_runs) for each in kind if each is not None]
        ops = None
    first, others = sides[0], sides[1:]
    every = [paired(first, other) for other in others]
    if not all(side.uses_gpu for side in sides):
        measure = "cpu_us"
    elif all(side.part_kind == RUN for side in sides) and any(map(_hardly_uses_gpu, sides)):
        measure = "dur_us"
    else:
        # Of several sides some may be no steps, which have no period.
        of_pairs = {gpu_measure(totals) for totals in every} | {"gpu_busy_us"}
        known = [each for each in ("period_us", "gpu_span_us", "gpu_busy_us") if each in of_pairs]
        measure = next(each for each in known if all(each in measures(side) for side in sides))
    names = side_names(sides)
    ratios = tuple(_ratio(first, other, totals, measure, ops) for other, totals in zip(others, every, strict=True))
    pairs = []
    if 2 < len(sides) <= MAX_PAIRED:
        for one, other in combinations(range(1, len(sides)), 2):
            ratio = _ratio(sides[one], sides[other], paired(sides[one], sides[other]), measure)
            pairs += [f"{names[one]} → {names[other]} {ratio.words}"] if ratio.change in BEYOND_NOISE else []
    kinds = {side.part_kind for side in sides}
    return Headline(
        what=_WHAT[measure],
        of_gpu=measure != "cpu_us",
        per=f" per {first.part_kind}" if kinds == {STEP} and any(len(side) > 1 for side in sides) else "",
        sides=tuple(_side_times(side, name, measure) for side, name in zip(sides, names, strict=True)),
        ratios=ratios,
        noise=_noise(every[0], measure) if len(sides) == 2 and ratios[0].words else "",
        pairs=tuple(pairs),
        is_apart=is_apart,
    )


def ratio_words(before: float, after: float, change: Change) -> str:
    """`8.45x faster`, `1.20x slower`, `the same` or `within noise`; empty where one side has no time."""
    if change in BEYOND_NOISE and min(before, after) > 0:
        factor = max(before, after) / min(before, after)
        return f"{factor:,.{2 if factor < 100 else 0}f}x {'faster' if after < before else 'slower'}"
    return {Change.SAME: "the same", Change.WITHIN_NOISE: "within noise"}.get(change, "")


def _hardly_uses_gpu(side: Side) -> bool:
    span, dur = (float(np.nanmedian(measures(side)[name].values)) for name in ("gpu_span_us", "dur_us"))
    return span < MIN_SPAN_SHARE * dur


def _ratio(a: Side, b: Side, totals: dict[str, Total], measure: str, ops: Table | None = None) -> Ratio:
    if reason := _unequal(a, b, ops):
        return Ratio(reason, Change.UNKNOWN)
    total = totals.get(measure)
    if total is None:
        return Ratio("", Change.UNKNOWN)
    before, after = total.difference.a.median, total.difference.b.median
    return Ratio(ratio_words(before, after, total.difference.change), total.difference.change)


def _unequal(a: Side, b: Side, ops: Table | None) -> str:
    """Reason in a word or three why no time of one side is a speed-up of the other; empty where one may be."""
    if a.part_kind != b.part_kind:
        return f"a {a.part_kind} and a {b.part_kind}: no ratio"
    if is_mixed(a) or is_mixed(b):
        return "the parts of a side differ: no ratio"
    if differ_in_length(a, b):
        return "ranges of different length: no ratio"
    if a.uses_gpu != b.uses_gpu:
        return "only one on a GPU: no ratio"
    if size_changes(a, b):
        return "different amounts of work: no ratio"
    if unrelated_programs(a, b, list((ops or op_changes(a, b)).rows())):
        return "different programs: no ratio"
    return ""


def _noise(totals: dict[str, Total], measure: str) -> str:
    total = totals.get(measure)
    if total is None or total.difference.change is Change.UNKNOWN:
        return ""
    if total.difference.is_assumed:
        return "noise unknown"
    each = total.difference
    scale = time_scale((each.a.median, each.b.median, each.noise))
    return f"noise {scale.roughly(each.noise)}" if each.noise == each.noise else ""


def _side_times(side: Side, name: str, measure: str) -> SideTimes:
    known = {each: float(np.nanmedian(values)) if (values := _values(side, each)) is not None else np.nan
             for each in (measure, "gpu_busy_us", "kernels", "copies", "cpu_ops")}  # fmt: skip
    time = known[measure]
    if measure == "cpu_us":
        return SideTimes(name, time, ((Spent.CPU, time),), np.nan, known["cpu_ops"])
    spent = list(_spent_of_period(side, time) if measure == "period_us" else _spent(side, time))
    rest = time - sum(each for _, each in spent)
    # Of busy time nothing is idle: what is left is the rounding of medians.
    spent += [(Spent.IDLE, max(rest, 0.0))] if measure != "gpu_busy_us" else []
    return SideTimes(name, time, tuple(spent), known["gpu_busy_us"], known["kernels"], known["copies"])


def _values(side: Side, measure: str) -> np.ndarray | None:
    """The values of the parts, None where no part has one."""
    values = measures(side)[measure].values
    return values if (values == values).any() else None


def _spent_of_period(side: Side, time: float) -> Iterator[tuple[Spent, float]]:
    """The parts of a median period in µs, as the pane of steps has them; without its idle time."""
    parts = median_parts(side)
    comm = min(parts[COMMUNICATION], time)
    busy = max(time - comm - parts[IDLE], 0.0)
    copies = min(dict(_spent(side, busy)).get(Spent.COPY, 0.0), busy)
    some = ((Spent.COMPUTE, busy - copies), (Spent.COPY, copies), (Spent.COMMUNICATION, comm))
    yield from ((kind, us) for kind, us in some if us > 0)


def _spent(side: Side, most: float) -> Iterator[tuple[Spent, float]]:
    """Compute, communication while nothing computes, copies while no kernel runs: medians over the parts in µs.

    Together they are at most `most`.
    """
    rows, part = side.activities()
    start, end = side.bounds(rows)
    is_kernel, is_comm = side.trace.slices.kind[rows] == Kind.KERNEL, communicates(side.trace)[rows]

    def busy(mask: Bool) -> np.ndarray:
        return union_in_cells(part[mask], start[mask], end[mask], len(side)) / 1000

    compute, kernels = busy(is_kernel & ~is_comm), busy(is_kernel)
    times = {
        Spent.COMPUTE: compute,
        Spent.COMMUNICATION: kernels - compute,
        Spent.COPY: busy(np.ones(len(rows), bool)) - kernels,
    }
    left = most
    for kind, each in times.items():
        median = min(float(np.median(each)), left)
        left -= median
        if median > 0:
            yield kind, median


# Short names of sides: what tells them apart.

_TOKEN = re.compile(r"[^_.\-]+|[_.\-]")


def side_names(sides: Sequence[Side]) -> list[str]:
    """A short name for each side: of one trace its scope, of several what differs in the names of the files.

    Two runs of one name of which one is compiled are told apart by that: `fused` and `fused, compiled`.
    """
    one_trace = len({id(side.trace) for side in sides}) == 1
    scopes = _scope_names(sides)
    if one_trace:
        return scopes
    files = _distinct([_stem(side.trace.label) for side in sides])
    return [f"{file}, {scope}" if side.scope else file for file, scope, side in zip(files, scopes, sides, strict=True)]


def _scope_names(sides: Sequence[Side]) -> list[str]:
    whole = [_scope_name(side) for side in sides]
    runs = [ONE_RUN.fullmatch(side.scope) for side in sides]
    named = [
        f"{run[1]}{', compiled' if recording_conditions(side).compiled else ''}" if run else name
        for run, name, side in zip(runs, whole, sides, strict=True)
    ]
    # An eager run beside a compiled one of the same name; runs that are alike keep their numbers.
    return [name if named.count(name) == 1 else scope for name, scope in zip(named, whole, strict=True)]


def _scope_name(side: Side) -> str:
    if (part := side.time_range) is not None:
        return f"{duration(part.start)} + {duration(part.length)}"
    if side.part_kind == STEP and side.scope:
        return f"step{'s' if ':' in side.scope else ''} {side.scope}"
    return side.scope or ("capture" if side.part_kind == CAPTURE else "all steps")


def _stem(label: str) -> str:
    """A file's name without its folder and what it ends in."""
    name = os.path.basename(label) or label
    return (
        re.sub(r"(\.pt)?(\.trace)?(\.json|\.pftrace|\.perfetto-trace|\.sqlite|\.nsys-rep)?(\.gz|\.zst)?$", "", name)
        or name
    )


def _distinct(names: list[str]) -> list[str]:
    """The parts in which some names differ, where each has one; else the names."""
    tokens = [_TOKEN.findall(name) for name in names]
    front = _common(tokens)
    back = _common([each[front:][::-1] for each in tokens])
    middles = ["".join(each[front : len(each) - back]).strip("_.-") for each in tokens]
    if len(set(middles)) == len(middles) and all(middles):
        return middles
    return names


def _common(sequences: Sequence[Sequence[str]]) -> int:
    """Number of first entries that all have in common."""
    others = (index for index, each in enumerate(zip(*sequences, strict=False)) if len(set(each)) > 1)
    return next(others, min(map(len, sequences)))


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
    if a.uses_gpu or b.uses_gpu:
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
