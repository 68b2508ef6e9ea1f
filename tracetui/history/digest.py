"""The digest of a trace: its measures over the steps, and what tells which traces it can be compared with (R6.1).
Changes of the level of a measure in a series of runs, and the verdict on a new run beside its noise (R6.2).

A digest is made of its trace once and kept as the summaries of ranks are. It has a few kB and holds no Python objects.

A change is found by two tests, each of which it may pass:

* *Within the series*: binary segmentation over the medians of the runs. In intervals of many lengths and places every
  split is scored by the distance of the means of its sides; the best score counts where at most 1.5 % of random orders
  of the same runs have one as large. Nothing is assumed of how runs scatter but that without a change any order of
  them is as likely as any other.
* *At its end*: the last runs, down to a single one, where each lies further from the median of those before than
  these reach, by a factor that a further run exceeds in 1 % of cases (`REACH_FACTORS`); 0.6 of it for several runs.

Then the levels before and after must differ by more than the noise of `comparing` (R3.53): the quartiles of the runs of
each side, and 1 % of a time or one point of a percentage. A count that is the same in every step of a run has no noise
of its own.
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tracetui.comparing.fairness import bare, rank
from tracetui.comparing.measures import COUNT, known_measures
from tracetui.comparing.noise import MAX_STEADY_SCATTER, MIN_TIME_CHANGE, Change, Sample
from tracetui.comparing.side import CAPTURE, STEP, Side, side
from tracetui.frozen import Parallel, frozen
from tracetui.kernel_names.slice_names import Family, short_kernel
from tracetui.linking.lines import site_of
from tracetui.linking.links import op_rows
from tracetui.linking.step_kinds import unprofiled_time
from tracetui.linking.steps import steps
from tracetui.model.intervals import Int64
from tracetui.model.quantities import counted
from tracetui.model.trace import Float64, Trace
from tracetui.opening.cache_folder import DIGESTS
from tracetui.opening.rank_reading import SummaryKind
from tracetui.text import clean

DIGEST_VERSION = 2
"""Number of the layout and of what the measures mean; a digest of another one is not read."""
MAX_NAMES = 16
"""Maximum modules, and maximum kernels or operators, whose times are kept: the largest."""
MAX_NAME = 120
"""Maximum characters of a name."""
MAX_BYTES = 4 << 20
"""Maximum size of a digest that is read, unpacked."""
STEP_TIME = "step_us"
"""Name of the time of a step: its period on the GPU (R3.90), else its duration on the CPU."""
UNPROFILED = "unprofiled_us"
"""Name of the time of a step without the profiler, where the recorder measured it."""
MODULE_GROUP, KERNEL_GROUP, OP_GROUP = "module:", "kernel:", "op:"
"""Begin the names of times of modules, kernels and operators."""
FAMILY_TIMES = frozenset(f"{each.name.lower()}_us" for each in Family)
"""Names of the times of families."""
_RECORDED_WITH = ("compile", "dtype", "mode", "backend", "cold", "threads", "shapes", "stack", "memory")
"""Options of a recording that change its times."""
_MIN_TIME_NS, _MAX_TIME_NS = 10**18, 4 * 10**18
"""Times on the wall clock, from 2001 to 2096: others count from something else."""
_LENGTH = struct.Struct("<I")


@frozen(eq=True)
class DigestFacts:
    """Facts of a trace beside its measures."""

    program: str = ""
    """Workload, parameters and options of a recording of `tracetui run`; empty where the trace does not say."""
    device: str = ""
    """The GPUs by name; without GPU activities `CPU` and the threads of torch."""
    stepped: str = ""
    """What counts as a step."""
    world_size: int = 1
    rank: int = 0
    began_ns: int = 0
    """Start of the recording on the wall clock, 0 where it is not known."""
    commit: str = ""
    """The commit of the working tree, in hexadecimal; empty where the trace does not say."""
    is_dirty: bool = False
    """True where files of the working tree differed from the commit."""
    torch: str = ""
    steps: int = 0
    """Number of complete steps."""
    view: str = ""
    """View string of the step of median length; empty without steps."""
    loss: str = ""
    """Reason why the numbers may cover only a part of the recording, as the end of a sentence; else empty."""


class Summed(NamedTuple):
    """A measure over the steps of a trace."""

    median: float
    scatter: float
    """Distance of the quartiles, of fewer than four steps the range (R3.53); 0 for a single step."""
    error: float
    """For how much the median may be off: three standard errors."""


@frozen
class Digest:
    """Measures over the steps."""

    facts: DigestFacts
    units: Mapping[str, str]
    """The unit of each measure by its name, in their order."""
    values: Float64
    """Shape (measures, fields of `Summed`)."""

    @cached_property
    def measures(self) -> Mapping[str, Summed]:
        """The measures that the trace holds, by name."""
        return {name: Summed(*row) for name, row in zip(self.units, self.values.tolist(), strict=True)}

    def to_bytes(self) -> bytes:
        """The digest as one compressed block."""
        text = json.dumps({"facts": asdict(self.facts), "units": dict(self.units)}).encode()
        return zlib.compress(_LENGTH.pack(len(text)) + text + self.values.astype("<f8").tobytes())

    @classmethod
    def from_bytes(cls, data: bytes) -> Digest:
        """The digest that `to_bytes` wrote.

        Raises: ValueError for other bytes.
        """
        try:
            content = zlib.decompressobj().decompress(data, MAX_BYTES)
            (length,) = _LENGTH.unpack_from(content)
            text = json.loads(content[_LENGTH.size : _LENGTH.size + length])
            known = {each.name: text["facts"][each.name] for each in fields(DigestFacts)}
            values = np.frombuffer(content[_LENGTH.size + length :], "<f8")
            return cls(DigestFacts(**known), text["units"], values.reshape(len(text["units"]), len(Summed._fields)))
        except (KeyError, TypeError, struct.error, zlib.error) as error:
            raise ValueError("no digest of a trace") from error


KEPT = SummaryKind(DIGESTS, DIGEST_VERSION, Digest.from_bytes)
"""Digests in the user's cache."""


def digest_of_file(path: str) -> bytes:
    """Read a trace and return its digest as bytes.

    Raises: TraceError for a file that cannot be used, AnalysisFailed for a defect.
    """
    # Imports that a process can do without where the cache has everything.
    from tracetui.model.results import guarded
    from tracetui.reading.load import load

    trace = load(path)
    with guarded("The digest of the trace"):
        return digest(trace).to_bytes()


def digest(trace: Trace) -> Digest:
    """The digest of the complete steps of a trace, or of the whole capture where it has none."""
    whole = side(trace)
    measures, _ = known_measures(whole)
    rows = {each.name: (each.unit, each.values) for each in measures.values()}
    period = rows.get("period_us", ("us", np.full(len(whole), np.nan)))[1]
    rows = {STEP_TIME: ("us", np.where(np.isnan(period), rows["dur_us"][1], period)), **rows}
    for name, values in _times_by_name(whole):
        # Kernels whose names differ in what nobody reads are one.
        rows[name] = ("us", rows[name][1] + values if name in rows else values)
    step_time = rows[STEP_TIME][1]
    there = {name: values[~np.isnan(values)] for name, (_, values) in rows.items()}
    known = {name: _summed(values) for name, values in there.items() if len(values)}
    if (own := unprofiled_time(trace)) is not None and own.low_us and own.high_us:
        width = own.high_us - own.low_us
        # Of an interval of 95 %.
        known[UNPROFILED], rows[UNPROFILED] = Summed(own.median_us, width, 3 / 3.92 * width), ("us", step_time)
    middle = np.argsort(step_time, kind="stable")[max(len(whole) - 1, 0) // 2] if len(whole) else -1
    view = f"s{whole.number[middle]}" if whole.part_kind == STEP and middle >= 0 else ""
    units = {name: rows[name][0] for name in known}
    return Digest(_facts(trace, whole, view), units, np.array(list(known.values())).reshape(len(known), -1))


def _summed(values: Float64) -> Summed:
    scatter = float(np.nan_to_num(Sample(values).scatter))
    # The standard error of a median is 0.93 times the distance of the quartiles over the root of the sample's size.
    return Summed(float(np.median(values)), scatter, 3 * 0.93 * scatter / math.sqrt(len(values)))


def _facts(trace: Trace, whole: Side, view: str) -> DigestFacts:
    own = trace.metadata.get("tracetui")
    about: Mapping[str, Any] = own if isinstance(own, Mapping) else {}
    git = about.get("git")
    tree: Mapping[str, Any] = git if isinstance(git, Mapping) else {}
    place = rank(trace)
    device = " + ".join(sorted({each.name for each in trace.devices if each.name})) or "GPU"
    if not whole.uses_gpu:
        threads = about.get("threads")
        device = f"CPU, {counted(threads, 'thread')}" if isinstance(threads, int) else "CPU"
    began = trace.origin_ns + trace.window[0]
    return DigestFacts(
        program=_program(about),
        device=clean(device),
        stepped=CAPTURE if whole.part_kind == CAPTURE else clean(steps(trace).found_by)[:MAX_NAME],
        world_size=place.of if place else 1,
        rank=place.number if place else 0,
        began_ns=began if _MIN_TIME_NS < began < _MAX_TIME_NS else 0,
        commit=_text(tree.get("commit")),
        is_dirty=tree.get("dirty") is True,
        torch=_text(about.get("torch")),
        steps=len(whole) if whole.part_kind == STEP else 0,
        view=view,
        loss=clean(trace.quality.loss),
    )


def _program(about: Mapping[str, Any]) -> str:
    """The workload, its parameters, and the options of the recording that are not usual, in words."""
    name = _text(about.get("workload"))
    if not name:
        return ""
    # A function by its annotation, which is the same in whatever folder its file lies.
    words = [_text(about.get("label")) or name if ":" in name else name]
    for key in ("params", "options"):
        given = about.get(key)
        for option, value in sorted(given.items()) if isinstance(given, Mapping) else ():
            if key == "params":
                words.append(f"{option}={value}")
            elif option in _RECORDED_WITH and value not in (False, None, "", 0, "default", "inductor", "auto"):
                words.append(str(option) if value is True else f"{option}={value}")
    return clean(" ".join(words))[: 2 * MAX_NAME]


def _text(value: object) -> str:
    return clean(value)[:MAX_NAME] if isinstance(value, str) else ""


def _times_by_name(whole: Side) -> Iterator[tuple[str, Float64]]:
    """Time in µs of the largest modules and kernels; without GPU activities self time of operators on the CPU."""
    trace = whole.trace
    rows, part = whole.activities()
    times, group = whole.times(rows), KERNEL_GROUP
    if len(rows) == 0:
        rows, group = op_rows(trace), OP_GROUP
        part = whole.part_of(rows)
        rows, part = rows[part >= 0], part[part >= 0]
        times = whole.self_times()[rows]
    ids, paths, _ = site_of(trace, rows, "module")
    shown = bare if group == OP_GROUP else short_kernel
    for beginning, number, texts in (
        (MODULE_GROUP, ids, paths),
        (group, trace.slices.name[rows].astype(np.int64), trace.names),
    ):
        known = number >= 0
        used, index = np.unique(number[known], return_inverse=True)
        sums = np.bincount(index * len(whole) + part[known], times[known], len(used) * len(whole))
        table = sums.reshape(len(used), len(whole)) / 1000
        for row in np.argsort(-table.sum(axis=1), kind="stable")[:MAX_NAMES].tolist():
            text = str(texts[int(used[row])])
            yield beginning + clean(text if beginning == MODULE_GROUP else shown(text))[:MAX_NAME], table[row]


MIN_POINTS = 1.0
"""Minimum difference of two percentages, in points."""
MAX_SHARE_BY_CHANCE = 0.015
"""Maximum share of random orders with as large a score."""
ORDERS = 499
"""Random orders that are looked at; fewer where more than that share has come already."""
ORDERS_AT_ONCE = 50
SEED = 29
"""So that one series has the same changes every time."""
MIN_SIDE = 2
"""Minimum runs on each side of a split."""
MIN_RUNS = 6
"""Minimum runs of a series that is split by random orders: fewer have too few of these."""
MAX_SCORE = 6.0
"""Distances from the median count up to so many times the scatter, so that one odd run does not outweigh many."""
REACH_FACTORS = {3: 6.0, 4: 3.0, 5: 2.1, 6: 1.7, 7: 1.5, 8: 1.3, 9: 1.2, 10: 1.1, 12: 1.0, 15: 0.9, 20: 0.8, 30: 0.7}
"""The factor by the number of runs before, that of the largest number not above it: with normal scatter a further run
is further from the median than so many times their range in 1 % of cases. Fewer than three tell nothing."""
OF_SEVERAL = 0.6
"""Share of that factor where several runs are all beyond it."""
MAX_USUAL_ERROR = 2.0
"""So many times the median error of the runs before is usual for a run; beyond that its own counts as noise."""
MAX_LAST_RUNS = 8
"""Maximum runs at the end that are compared with those before."""


@frozen
class Values(Parallel):
    """A measure in the runs of a series; parallel arrays, one entry per run, without those that lack it."""

    run: Int64
    """Index of the run in the series."""
    median: Float64
    """Median over its steps."""
    error: Float64
    """As `Summed.error`."""
    unit: str

    def least(self, value: float) -> float:
        """The least difference from a value that counts, whatever the noise."""
        return 0.0 if self.unit == COUNT else MIN_POINTS if self.unit == "%" else MIN_TIME_CHANGE * abs(value)


@frozen(eq=True)
class Level:
    """A stretch of runs between two changes."""

    first: int
    end: int
    """Indices in the `Values`: `first` to `end - 1`."""
    median: float
    noise: float
    """What a single further run must differ by, to count; NaN where there are too few runs to tell."""
    error: float = 0.0
    """Median of the errors of the runs, which their noise holds already."""


def values_of(measures: Sequence[Summed | None], unit: str) -> Values:
    """The measure from what it is in each run, None where a run lacks it."""
    known = [index for index, each in enumerate(measures) if each is not None]
    medians, errors = ([each[field] for each in measures if each is not None] for field in (0, 2))
    return Values(np.array(known, np.int64), np.array(medians, np.float64), np.array(errors, np.float64), unit)


def levels(values: Values) -> list[Level]:
    """The stretches of runs in order; one where nothing changes, none without runs."""
    if len(values) == 0:
        return []
    starts = [0, *_settled(values, _splits(values.median, 0, len(values)))]
    while (last := _last_split(values, starts[-1])) is not None:
        starts.append(last)
    return [level(values, first, end) for first, end in zip(starts, [*starts[1:], len(values)], strict=True)]


def level(values: Values, first: int, end: int, share: float = 1.0) -> Level:
    """The level of some runs, with what one more must differ by; `share` is of the factor."""
    medians = values.median[first:end]
    middle, count = float(np.median(medians)), end - first
    factor = next((each for runs, each in reversed(REACH_FACTORS.items()) if runs <= count), np.nan)
    reach = float(np.ptp(medians))
    if values.unit == COUNT and reach == 0 and not values.error[first:end].any():
        factor = 0.0
    noise = max(values.least(middle), share * factor * reach) if factor == factor else np.nan
    return Level(first, end, middle, noise, float(np.median(values.error[first:end])))


def beyond(before: Level, value: float, error: float, least: float = 0.0) -> Change:
    """The change from a level to one more run; `error` and `least` as in `Values`."""
    if np.isnan(value):
        return Change.UNKNOWN
    if np.isnan(before.noise):
        return Change.WITHIN_NOISE
    # A run whose steps scatter as those of the others has its error in the noise between them.
    if abs(value - before.median) > max(before.noise, error if error > MAX_USUAL_ERROR * before.error else 0.0):
        return Change.LESS if value < before.median else Change.MORE
    restless = before.noise > MAX_STEADY_SCATTER * abs(before.median)
    return Change.WITHIN_NOISE if restless or abs(value - before.median) > least else Change.SAME


def _splits(medians: Float64, low: int, high: int) -> list[int]:
    """Splits between runs at which the level changes, in order, by random orders."""
    found = _best_split(medians[low:high]) if high - low >= MIN_RUNS else None
    if found is None:
        return []
    return [*_splits(medians, low, low + found), low + found, *_splits(medians, low + found, high)]


def _settled(values: Values, splits: Sequence[int]) -> list[int]:
    """The splits where runs are nearest to the medians of their sides, without those whose sides do not differ."""
    kept = list(splits)
    for index in range(len(kept)):
        low, high = ([0, *kept][index], [*kept, len(values)][index + 1])
        kept[index] = low + _nearest(values.median[low:high], kept[index] - low)
    for index, split in enumerate(kept):
        low, high = ([0, *kept][index], [*kept, len(values)][index + 1])
        # True where the levels on both sides differ by more than the noise of R3.53.
        one, other = Sample(values.median[low:split]), Sample(values.median[split:high])
        least = values.least(min(abs(one.median), abs(other.median)))
        if not bool(abs(other.median - one.median) > max(*np.nan_to_num([one.scatter, other.scatter]), least)):
            return _settled(values, [each for each in kept if each != split])
    return kept


def _nearest(medians: Float64, split: int) -> int:
    """The split for which each run lies as near as possible to the median of its side, from one that is about right."""
    for _ in range(3):
        further = np.abs(medians - np.median(medians[split:])) - np.abs(medians - np.median(medians[:split]))
        # The sum over the runs before a split is largest where these are near their own side, and no other is.
        split, before = int(np.argmax(np.cumsum(further)[:-1])) + 1, split
        if split == before:
            break
    return split


def _best_split(medians: Float64) -> int | None:
    """The split with the largest score; None where random orders have scores as large."""
    centred = medians - np.median(medians)
    if not centred.any():
        return None
    # The scatter from run to run, which a change of level hardly touches.
    scatter = float(np.median(np.abs(np.diff(medians)))) / 0.954
    scaled = np.clip(centred / (scatter or np.abs(centred).max()), -MAX_SCORE, MAX_SCORE)
    (score,), (split,) = _scores(scaled[None])
    random, larger, done = np.random.default_rng(SEED), 0, 0
    while done < ORDERS and larger <= MAX_SHARE_BY_CHANCE * ORDERS:
        orders = random.permuted(np.tile(scaled, (ORDERS_AT_ONCE, 1)), axis=1)
        larger += int((_scores(orders)[0] >= score * (1 - 1e-9)).sum())
        done += ORDERS_AT_ONCE
    return int(split) if larger <= MAX_SHARE_BY_CHANCE * ORDERS else None


def _scores(orders: Float64) -> tuple[Float64, Int64]:
    """For each order (first axis) of the runs the largest score of a split, and the run behind that split.

    Intervals have lengths that halve, from all runs on, and each length places that overlap by half.
    """
    runs = orders.shape[1]
    sums = np.concatenate([np.zeros((len(orders), 1)), np.cumsum(orders, axis=1)], axis=1)
    best, place, length = np.zeros(len(orders)), np.zeros(len(orders), np.int64), runs
    while length >= 2 * MIN_SIDE:
        low = np.append(np.arange(0, runs - length, max(length // 2, 1)), runs - length)[:, None]
        left = np.arange(MIN_SIDE, length - MIN_SIDE + 1)
        split, right = low + left, length - left
        means = (sums[:, split] - sums[:, low]) / left - (sums[:, low + length] - sums[:, split]) / right
        score = (np.abs(means) * np.sqrt(left * right / length)).reshape(len(orders), -1)
        index = score.argmax(axis=1)
        most = score[np.arange(len(orders)), index]
        place = np.where(most > best, split.ravel()[index], place)
        best, length = np.maximum(best, most), length // 2
    return best, place


def _last_split(values: Values, start: int) -> int | None:
    """The split at which the last runs leave the level that begins with `start`; None where they do not."""
    end = len(values)
    for count in range(min(MAX_LAST_RUNS, (end - start) // 2), 0, -1):
        before = level(values, start, end - count, 1.0 if count == 1 else OF_SEVERAL)
        last = range(end - count, end)
        found = {beyond(before, values.median[index], values.error[index]) for index in last}
        if found in ({Change.LESS}, {Change.MORE}):
            return end - count
    return None
