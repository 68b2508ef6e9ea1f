"""Time of two sides or more at first sight: the one that counts, its parts, and the ratio.

The time is the GPU's span where a GPU is idle for long, else its busy time, without a GPU the time of the CPU; of steps
the period, where their work does not explain its change: the same as in the first sentence of the statement. Where a
run hardly uses the GPU it is the duration of the run. A ratio is given where the statement gives one, and says in a
word which way.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import Enum
from itertools import combinations, zip_longest

import numpy as np

from tracetui.comparing.calls import recording_conditions
from tracetui.comparing.change_rows import Total, paired
from tracetui.comparing.fairness import unrelated_programs
from tracetui.comparing.kernel_sentences import gpu_measure, median_parts
from tracetui.comparing.measures import measures
from tracetui.comparing.noise import BEYOND_NOISE, Change, is_mixed
from tracetui.comparing.op_changes import op_changes
from tracetui.comparing.side import CAPTURE, ONE_RUN, RUN, STEP, Side, differ_in_length
from tracetui.comparing.variants import apart
from tracetui.comparing.work_sizes import size_changes
from tracetui.frozen import frozen
from tracetui.idle.gpu_spans import communicates, union_in_cells
from tracetui.model.intervals import Bool
from tracetui.model.quantities import duration, time_scale
from tracetui.model.table import Table
from tracetui.model.trace import Kind
from tracetui.tables.odd_steps import COMMUNICATION, IDLE


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
    if not all(len(side.activities()[0]) for side in sides):
        measure = "cpu_us"
    elif all(side.part_kind == RUN for side in sides) and any(map(_hardly_uses_gpu, sides)):
        measure = "dur_us"
    else:
        of_pairs = {gpu_measure(totals) for totals in every}
        measure = next(each for each in ("period_us", "gpu_span_us", "gpu_busy_us") if each in of_pairs)
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
    if bool(len(a.activities()[0])) != bool(len(b.activities()[0])):
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
