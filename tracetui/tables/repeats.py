"""Repeating stretches of a sequence, such as the layers of a model in the kernels of a step, and the modules that
layers are called by.

Names that occur equally often and take turns, each once between two occurrences of the first, mark the repeats; they
are counted in the whole sequence and within each of its exact runs. Of several such sets the largest decides whose
repeats hold at least half the time of any other's. Where each repeat holds repeats of its own, marked by two thirds as
many names or more, it is these that count: micro-batches consist of layers. What is left is searched in the same way
(R3.80).

A repeat may begin in the middle of a module. The module of a layer is the shortest path that holds most of its time and
that tells neighbouring layers apart; nothing where no path does (R3.80a). Where no layer has one although modules are
known, the modules that are numbered in a row are the layers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from operator import attrgetter

import numpy as np

from tracetui.frozen import frozen
from tracetui.kernel_names.slice_names import Purpose, purposes
from tracetui.linking.frames import PATH_SEPARATOR
from tracetui.linking.graph_nodes import op_names
from tracetui.linking.groups import distinct
from tracetui.linking.lines import site_of
from tracetui.model.intervals import Bool, Int64
from tracetui.model.table import Strings
from tracetui.model.trace import Trace

# Exact runs of a sequence: stretches in which every element is the same as the one a period before it (R3.80).
#
# Only periods in which some name occurs once are known, which is what a layer of a model has. Names count within their
# run alone, so that it does not matter where else they occur: two encoders of a model run many of the same kernels.

MAX_PERIODS = 16
"""Maximum periods that are tried per sequence."""
MIN_PERIOD_RATIO = 1.25
"""Minimum ratio of the periods of two runs that repeat different things."""
MAX_COMMON_SHARE = 0.75
"""Maximum share of common names in all names of two runs that repeat different things."""

MAX_KINDS_SHARE = 0.4
"""Maximum share of a period that two runs of different blocks have in common: dense layers and those with experts have
more."""


@frozen(eq=True)
class ExactRun:
    """A stretch in which each element is the same as the one a period before it."""

    low: int
    """Index of its first element."""
    high: int
    """Index behind its last element."""
    period: int
    """Elements of a period."""

    def is_unlike(self, other: ExactRun, sequence: Int64) -> bool:
        """True where two runs of a sequence repeat different things, rather than one with small differences."""
        if max(self.period, other.period) >= MIN_PERIOD_RATIO * min(self.period, other.period):
            return True
        mine, others = (set(sequence[run.low : run.low + run.period].tolist()) for run in (self, other))
        return len(mine & others) <= MAX_COMMON_SHARE * len(mine | others)

    def shared_with(self, other: ExactRun, sequence: Int64) -> float:
        """The share of a period of one run that the other has in common, whatever the length of both periods."""
        mine, others = (Counter(sequence[run.low : run.low + run.period].tolist()) for run in (self, other))
        return sum(min(mine[name] / self.period, others[name] / other.period) for name in mine)


def exact_runs(sequence: Int64, least: int) -> list[ExactRun]:
    """The longest stretches that repeat with one period, at least so many times, by their start."""
    found: dict[tuple[int, int], ExactRun] = {}
    for period in sorted(_periods(sequence)):
        other = np.flatnonzero(sequence[period:] != sequence[:-period])
        breaks = np.concatenate([[-1], other, [len(sequence) - period]])
        long = np.flatnonzero(np.diff(breaks) > (least - 1) * period)
        for low, high in zip((breaks[long] + 1).tolist(), (breaks[long + 1] + period).tolist(), strict=True):
            found.setdefault((low, high), ExactRun(low, high, period))
    return [found[each] for each in sorted(found)]


def apart(runs: list[ExactRun]) -> list[tuple[ExactRun, ExactRun]]:
    """Neighbours among the longest runs that do not overlap, with elements between them."""
    kept: list[ExactRun] = []
    for run in sorted(runs, key=lambda each: each.low - each.high):
        if all(run.high <= each.low or each.high <= run.low for each in kept):
            kept.append(run)
    kept.sort(key=lambda each: each.low)
    return [(first, second) for first, second in pairwise(kept) if first.high < second.low]


def _periods(sequence: Int64) -> list[int]:
    """Distances at which a name occurs three times in a row, those that mark most elements first."""
    order = np.argsort(sequence, kind="stable")
    ranked, distance = sequence[order], np.diff(order)
    steady = (ranked[2:] == ranked[:-2]) & (distance[1:] == distance[:-1])
    often = np.bincount(distance[:-1][steady])
    periods = np.flatnonzero(often)
    first = np.argsort(-periods * often[periods], kind="stable")[:MAX_PERIODS]
    return [int(period) for period in periods[first]]


MIN_REPEATS = 3
"""Minimum repeats of a stretch."""
MIN_MARKS = 2
"""Minimum names that mark the repeats."""
MIN_FURTHER_MARKS = 3
"""Minimum names that occur in all of some repeats and in further ones beside these."""
MIN_MARKED_SHARE = 0.1
"""Minimum marks of a repeat relative to its elements: few among many are there by chance."""
MAX_HALF_SHARE = 0.5
"""Maximum share of elements that two halves of a repeat have in common: layers that alternate have more."""
MAX_LENGTH_RATIO = 2.0
"""Maximum ratio of the longest repeat to the shortest."""
MIN_COVERED_SHARE = 0.3
"""Minimum share of the sequence, or of its time, that is in repeats; what repeats less is a detail."""
MIN_SERIES_SHARE = 0.1
"""Minimum share of the sequence, or of its time, in a series that repeats another number of times than the main one."""
MIN_WEIGHT_RATIO = 0.5
"""Minimum time of repeats relative to that of any others: what has less is not chosen for having more marks."""
MIN_LAYER_NAMES = 5
"""Minimum names of repeats within the passes that a whole sequence consists of."""
MAX_LEADERS = 24
"""Maximum names that are tried as the first of a repeat, per number of occurrences."""
MAX_CANDIDATES = 12
"""Maximum sets of marks that are tried per sequence."""
MAX_LEVELS = 3
"""Maximum levels of repeats within repeats."""


@frozen
class Repeat:
    """A stretch that repeats, each time right behind the time before."""

    bounds: Int64
    """Starts of the repeats, and the end of the last one."""
    mark_names: Int64
    """Names that occur once in each repeat and mark it."""
    is_exact: bool
    """True where all repeats are the same, element by element."""

    @property
    def count(self) -> int:
        """Number of repeats."""
        return len(self.bounds) - 1

    @property
    def marks(self) -> int:
        """Number of names that mark each repeat."""
        return len(self.mark_names)

    @property
    def lengths(self) -> Int64:
        """Elements of each repeat."""
        return np.diff(self.bounds)

    @property
    def range(self) -> tuple[int, int]:
        """Start of the first repeat and end of the last one."""
        return int(self.bounds[0]), int(self.bounds[-1])

    @property
    def is_well_marked(self) -> bool:
        """True where it repeats more than chance would have it."""
        return self.is_exact or self.marks >= MIN_MARKED_SHARE * float(np.median(self.lengths))

    @property
    def is_weak(self) -> bool:
        """True where so few names mark the repeats that some of these may only share them with layers."""
        return not self.is_exact and self.marks < MIN_FURTHER_MARKS

    def encloses(self, low: int, high: int) -> bool:
        """True where a range of elements begins and ends within the repeats, give or take one of them."""
        slack = int(self.lengths.max())
        return bool(self.bounds[0] - slack <= low and high <= self.bounds[-1] + slack)

    def shifted(self, by: int) -> Repeat:
        """The same repeat in a sequence that begins so many elements earlier."""
        return replace(self, bounds=self.bounds + by)


_RANGE = attrgetter("range")


@frozen
class _Stretch:
    """A part of a sequence."""

    names: Int64
    """Name id of each element."""
    times: Int64
    """Time of each element, 1 where none is known."""

    def part(self, low: int, high: int) -> _Stretch:
        """The elements of a range."""
        return _Stretch(self.names[low:high], self.times[low:high])

    def time(self, low: int, high: int) -> int:
        """Time of the elements of a range."""
        return int(self.times[low:high].sum())

    def holds(self, share: float, ranges: list[tuple[int, int]]) -> bool:
        """True where ranges have at least a share of the elements, or of their time."""
        count, time = sum(high - low for low, high in ranges), sum(self.time(*each) for each in ranges)
        return count >= share * len(self.names) or time >= share * int(self.times.sum()) > 0


def repeats(sequence: Int64, times: Int64 | None = None) -> list[Repeat]:
    """The repeating stretches of a sequence of name ids with their times, in order; empty where too little repeats.

    Stretches with as many repeats belong together: the forward pass and the backward pass of the same layers are two.
    """
    whole = _Stretch(sequence, np.ones(len(sequence), np.int64) if times is None else times)
    return _sections(whole, MAX_LEVELS, MIN_COVERED_SHARE)


def _sections(stretch: _Stretch, levels: int, least_share: float = 0.0) -> list[Repeat]:
    """The main repeats and further series, in order; empty where the main ones hold less than a share."""
    for main in _whole_first(stretch.names, _by_time(stretch, _repeats(stretch))):
        found = around = _within(stretch, main, levels - 1) if levels > 1 else []
        if found:
            around = [main]
        elif main.is_well_marked:
            found = around = sorted([main, *_beside(stretch, main)], key=_RANGE)
        if found and stretch.holds(least_share, [each.range for each in found]):
            return sorted([*found, *_further_series(stretch, around, levels)], key=_RANGE)
    return []


def _by_time(stretch: _Stretch, found: list[Repeat]) -> list[Repeat]:
    """The same repeats, those last that hold far less time than others do."""
    times = [stretch.time(*each.range) for each in found]
    most = max((time for each, time in zip(found, times, strict=True) if each.is_well_marked), default=0)
    is_small = [time < MIN_WEIGHT_RATIO * most for time in times]
    return [found[index] for index in sorted(range(len(found)), key=is_small.__getitem__)]


def _whole_first(sequence: Int64, candidates: list[Repeat]) -> list[Repeat]:
    """The candidates, an exact one before those that it holds about two of each time: these are halves.

    The two norms of a layer are alike, and what follows each is not.
    """
    for index, half in enumerate(candidates):
        for whole in candidates[index + 1 :]:
            twice = 1.5 * whole.count < half.count < MIN_REPEATS * whole.count and whole.encloses(*half.range)
            if twice and whole.is_exact and not half.is_exact and _common_share(sequence, half) <= MAX_HALF_SHARE:
                return [whole, *(each for each in candidates if each is not whole)]
    return candidates


def _common_share(sequence: Int64, repeat: Repeat) -> float:
    """The share of the longer one of two neighbouring repeats that both have in common, in the median."""
    counts = [Counter(sequence[low:high].tolist()) for low, high in pairwise(repeat.bounds.tolist())]
    shares = [(one & other).total() / max(one.total(), other.total()) for one, other in pairwise(counts)]
    return float(np.median(shares))


def _further_series(stretch: _Stretch, found: list[Repeat], levels: int) -> Iterator[Repeat]:
    """Repeats of any number before, between and behind those found, as of a second encoder; not small ones."""
    bounds = [0, *(bound for each in found for bound in each.range), len(stretch.names)]
    for low, high in zip(bounds[::2], bounds[1::2], strict=True):
        if high > low and stretch.holds(MIN_SERIES_SHARE, [(low, high)]):
            further = [each.shifted(low) for each in _sections(stretch.part(low, high), levels)]
            yield from (each for each in further if stretch.holds(MIN_SERIES_SHARE, [each.range]))


def _within(stretch: _Stretch, main: Repeat, levels: int) -> list[Repeat]:
    """The repeats inside the repeats of `main`, where every one holds as many, and `main` does not mark layers."""
    found: list[Repeat] = []
    counts = set()
    known: dict[bytes, list[Repeat]] = {}
    is_whole = main.range == (0, len(stretch.names))
    for low, high in pairwise(main.bounds.tolist()):
        part = stretch.part(low, high)
        digest = part.names.tobytes()
        sections = known[digest] if digest in known else _sections(part, levels)
        known[digest] = sections
        if not _are_layers(part, main, sections, is_whole):
            return []
        counts.add(tuple(each.count for each in sections))
        if len(counts) > 1:
            return []
        found += [each.shifted(low) for each in sections]
    return found


def _are_layers(part: _Stretch, main: Repeat, sections: list[Repeat], is_whole: bool) -> bool:
    """True where repeats inside one of `main` are layers: they hold half of it, and have about as many marks or more.

    Passes of a model have few marks in their layers where much is computed before and behind these. What tells them
    from layers: they are all of the sequence, without a head and a tail, or consist of two series as of two encoders.
    """
    if not sections or 2 * sum(int(each.lengths.sum()) for each in sections) < len(part.names):
        return False
    if 3 * sum(each.marks for each in sections) >= 2 * main.marks:
        return True
    names = [part.names[each.bounds[0] : each.bounds[1]] for each in sections]
    has_encoders = len({each.count for each in sections}) > 1
    return (is_whole or has_encoders) and min(len(distinct(each)) for each in names) >= MIN_LAYER_NAMES


def _beside(stretch: _Stretch, main: Repeat) -> Iterator[Repeat]:
    """Repeats before and behind the main one, of the same number, unless more names mark another number there."""
    first, last = main.range
    for low, high in ((0, first), (last, len(stretch.names))):
        part = stretch.part(low, high)
        repeating = [each for each in _by_time(part, _repeats(part, main.count)) if each.is_well_marked]
        other = repeating[0] if repeating else None
        if other is not None and not _is_better_marked(part, other):
            yield other.shifted(low)
            yield from (each.shifted(low) for each in _beside(part, other))


def _is_better_marked(stretch: _Stretch, other: Repeat) -> bool:
    """True where more names mark another number of repeats around the given ones, as of half a layer or of two."""
    return any(
        each.marks > other.marks and each.count != other.count and each.is_well_marked and each.encloses(*other.range)
        for each in _repeats(stretch)
    )


def _repeats(stretch: _Stretch, count: int | None = None) -> list[Repeat]:
    """Repeats of a given number, or of any, by marks of the whole stretch and of exact runs that these leave out."""
    runs = exact_runs(stretch.names, MIN_REPEATS)
    marked = _repeats_by_marks(stretch.names, count)
    found = [each for each in marked if each.is_exact or not _is_of_several_series(stretch, each, runs)]
    known = [each for each in found if each.is_well_marked and not each.is_weak]
    for run in runs:
        low, high = run.low, run.high
        if stretch.holds(MIN_SERIES_SHARE, [(low, high)]) and not any(each.encloses(low, high) for each in known):
            found += [each.shifted(low) for each in _repeats_by_marks(stretch.names[low:high], count, is_run=True)]
    return sorted(found, key=lambda each: each.is_weak)


def _is_of_several_series(stretch: _Stretch, repeat: Repeat, runs: list[ExactRun]) -> bool:
    """True where repeats run through two different series, as the layers of two encoders or two kinds of blocks."""
    least = float(np.median(repeat.lengths)) / MAX_LENGTH_RATIO
    inside = [run for run in runs if run.period >= least and repeat.encloses(run.low, run.high)]
    for first, second in apart(inside):
        between = stretch.names[first.high : second.low]
        # Between two layers of one model nothing runs that is in neither.
        if first.is_unlike(second, stretch.names) and not np.isin(between, repeat.mark_names).any():
            return True
    large = [run for run in inside if stretch.holds(MIN_SERIES_SHARE, [(run.low, run.high)])]
    return any(
        # The last block of one kind may begin like the first one of the other.
        second.low > first.high - min(first.period, second.period)
        and first.shared_with(second, stretch.names) <= MAX_KINDS_SHARE
        for first, second in combinations(large, 2)
    )


def _repeats_by_marks(sequence: Int64, count: int | None, is_run: bool = False) -> Iterator[Repeat]:
    """Repeats of a given number, or of any, that which most names mark first; an exact run has those of one make."""
    candidates = sorted(_candidates(sequence), key=lambda each: (-len(each), each[0, 0] - each[0, -1]))
    candidates = [each for each in candidates if count in (None, each.shape[1])][:MAX_CANDIDATES]
    for marks in candidates:
        wider = marks if is_run or count is not None else _with_further(marks, candidates)
        for chosen in (wider, marks) if wider is not marks else (marks,):
            repeat = _bounded(sequence, chosen)
            if repeat is not None:
                yield repeat
                break


def _candidates(sequence: Int64) -> list[Int64]:
    """Sets of names that take turns: positions by name (the first one first) and occurrence."""
    order = np.argsort(sequence, kind="stable").astype(np.int64)
    ranked = sequence[order]
    first = np.flatnonzero(np.diff(ranked, prepend=-1))
    counts = np.diff(np.append(first, len(ranked)))
    found = []
    for number in distinct(counts[counts >= MIN_REPEATS]).tolist():
        heads = first[counts == number]
        if len(heads) < MIN_MARKS:
            continue
        positions = order[heads[:, None] + np.arange(number)]
        positions = positions[np.argsort(positions[:, 0])]
        free = np.ones(len(positions), bool)
        for _ in range(MAX_LEADERS):
            if free.sum() < MIN_MARKS:
                break
            leader = int(np.argmax(free))
            of_leader = positions[leader]
            # Names that occur once behind each occurrence of the leader, and before the next.
            taking_turns = free & (positions > of_leader).all(axis=1)
            taking_turns &= (positions[:, :-1] < of_leader[1:]).all(axis=1)
            taking_turns[leader] = True
            if taking_turns.sum() >= MIN_MARKS:
                found.append(positions[taking_turns])
            free &= ~taking_turns
    return found


def _with_further(marks: Int64, candidates: list[Int64]) -> Int64:
    """The marks of repeats that contain all of the given ones and further ones of another make, fewer than these.

    The first layers of a model may be simpler than the rest: what all of them have in common counts them.
    """
    count = marks.shape[1]
    for other in sorted(candidates, key=lambda each: -len(each)):
        number = other.shape[1]
        if not count < number < 2 * count or len(other) < MIN_FURTHER_MARKS:
            continue
        # The given ones must be a run of the others, one in each.
        index = np.searchsorted(other[0], marks[0], side="right")
        if (np.diff(index) == 1).all() or (np.diff(np.searchsorted(other[0], marks[-1])) == 1).all():
            return other
    return marks


def _bounded(sequence: Int64, marks: Int64) -> Repeat | None:
    """The repeats of some marks: moved back as far as what is before them is the same, the last one ended where it is
    no longer like another one; None where their lengths differ too much.
    """
    starts = marks[0]
    starts = starts - _moved_back(sequence, starts)
    end = max(_last_end(sequence, starts), int(marks[:, -1].max()) + 1)
    bounds = np.append(starts, end)
    lengths = np.diff(bounds)[:-1]
    if lengths.max() > MAX_LENGTH_RATIO * lengths.min():
        return None
    return Repeat(bounds, sequence[marks[:, 0]], _is_exact(sequence, bounds))


def _is_exact(sequence: Int64, bounds: Int64) -> bool:
    """True where all stretches between bounds are the same."""
    lengths = np.diff(bounds)
    if (lengths != lengths[0]).any():
        return False
    return bool((sequence[bounds[0] : bounds[-2]] == sequence[bounds[1] : bounds[-1]]).all())


def _moved_back(sequence: Int64, starts: Int64) -> int:
    """The number of elements before every start that are the same, at most as many as the shortest repeat has."""
    most = int(min(starts[0], np.diff(starts).min() - 1))
    for back in range(1, most + 1):
        before = sequence[starts - back]
        if (before != before[0]).any():
            return back - 1
    return max(most, 0)


def _last_end(sequence: Int64, starts: Int64) -> int:
    """End of the last repeat: as far as it equals the most similar of the repeats before it."""
    last = sequence[int(starts[-1]) :]
    best = 0
    seen = set()
    for low, high in pairwise(starts.tolist()):
        other = sequence[low:high]
        if other.tobytes() in seen:
            continue
        seen.add(other.tobytes())
        length = min(len(other), len(last))
        unlike = np.flatnonzero(other[:length] != last[:length])
        best = max(best, int(unlike[0]) if len(unlike) else length)
    return int(starts[-1]) + best


MIN_MODULE_SHARE = 0.5
"""Minimum share of a layer's time, of which the module is known, that its module holds."""
_WORD = re.compile(rf"{re.escape(PATH_SEPARATOR)}|\.")
"""Between the words of a path; names that a program gives to nodes have dots (`layers.0.attention`)."""
_NUMBER = re.compile(rf"\d+(?={_WORD.pattern}|$)")
"""Number of an instance, at the end of a word: that of `Qwen2DecoderLayer_0` is 0."""


def layer_modules(trace: Trace, layers: Sequence[Int64]) -> list[str | None]:
    """The module of each layer of a series, None where it is not known; `layers` are their kernels, of all steps."""
    found = [_time_of_paths(trace, rows) for rows in layers]
    deepest = max((len(_WORD.findall(path)) + 1 for paths in found for path in paths), default=0)
    for depth in range(1, deepest + 1):
        named = [_holding_most(paths, depth) for paths in found]
        pairs = [(one, other) for one, other in pairwise(named) if one is not None and other is not None]
        same = {one for one, other in pairs if one == other}
        if 2 * sum(one != other for one, other in pairs) > len(pairs):
            # A path that two neighbours share names neither.
            return [None if each in same else each for each in named]
    return [None] * len(layers)


def common_module(names: Iterable[str | None]) -> str | None:
    """The module of several layers with `#` for the numbers of instances that differ, None where more differs."""
    known = sorted({name or "" for name in names})
    if len({_NUMBER.sub("#", name) for name in known}) != 1:
        return None
    numbers = (each[0] if len(set(each)) == 1 else "#" for each in zip(*map(_NUMBER.findall, known), strict=True))
    return _NUMBER.sub(lambda _: next(numbers), known[0]) or None


# What a kernel is for, by the innermost module around its launch where its own name says nothing more.

_MODULE_PURPOSES = (
    (Purpose.NORM, re.compile(r"[Nn]orm(?:\d+d?)?$")),
    (Purpose.ROPE, re.compile(r"(?:[Rr]otary|R[oO]PE|\brope)(?:\w*[Ee]mb(?:eddings?)?)?$")),
    (Purpose.EMBEDDING, re.compile(r"(?:Embeddings?|[Ee]mbed(?:_tokens)?)$")),
    (Purpose.ACTIVATION, re.compile(r"(?:Activation|LU6?)$")),
)
"""Names of classes of modules, or of modules in a list, and the purpose of what they launch; the first counts."""
_GENERAL = (Purpose.POINTWISE, Purpose.REDUCTION, Purpose.COPY, Purpose.OTHER)
"""Purposes of names that say how a kernel computes, not what for."""


def layer_purposes(trace: Trace, rows: Int64) -> tuple[Int64, Strings, Bool]:
    """The purpose of each kernel of a model as a number, their texts, and where a capture tells it (R3.81a)."""
    ids, texts = purposes(trace, rows, in_layers=True)
    modules, paths, inferred = site_of(trace, rows, "module")
    by_module = np.full(len(paths) + 1, -1, np.int64)
    for number in distinct(modules[modules >= 0]).tolist():
        name = _INSTANCE.sub("", _WORD.split(str(paths[number]))[-1])
        purpose = next((each for each, pattern in _MODULE_PURPOSES if pattern.search(name)), None)
        by_module[number] = texts.intern(purpose) if purpose else -1
    meant = by_module[modules]
    meant[~np.isin(ids, [texts.find(each) for each in _GENERAL])] = -1
    return np.where(meant >= 0, meant, ids), texts, (meant >= 0) & (False if inferred is None else inferred)


def common_op(trace: Trace, rows: Int64) -> str | None:
    """The operator behind all of some kernels, None where it is not known or not the same."""
    ids, texts, _ = op_names(trace, rows)
    used = np.unique(ids).tolist()
    return str(texts[used[0]]) if len(used) == 1 and used[0] >= 0 else None


def _time_of_paths(trace: Trace, rows: Int64) -> dict[str, int]:
    """Time in ns of the kernels in each module path."""
    ids, paths, _ = site_of(trace, rows, "module")
    known = ids >= 0
    used, index = np.unique(ids[known], return_inverse=True)
    time = np.bincount(index, trace.slices.dur[rows[known]], len(used))
    return {str(paths[number]): int(spent) for number, spent in zip(used.tolist(), time.tolist(), strict=True)}


def _holding_most(paths: dict[str, int], depth: int) -> str | None:
    """The path, cut after its first `depth` words, that holds most time; None where none holds half of it."""
    total, held = sum(paths.values()), dict[str, int]()
    for path, spent in paths.items():
        ends = [match.start() for match in _WORD.finditer(path)] + [len(path)]
        if depth <= len(ends):
            beginning = path[: ends[depth - 1]]
            held[beginning] = held.get(beginning, 0) + spent
    best = max(held, key=lambda each: held[each], default=None)
    return best if best is not None and held[best] >= MIN_MODULE_SHARE * max(total, 1) else None


# Layers by modules of one class that are numbered: `Model_0 / DecoderLayer_0`, `Model_0 / DecoderLayer_1`.

_INSTANCE = re.compile(r"[_.]?\d+$")
"""Number of an instance of a class, or of a module in a list."""
MAX_RUNS_OF_LAYER = 4
"""Maximum stretches of kernels per module: where launches of several threads mix, modules tell no layers."""


def layers_of_modules(trace: Trace, rows: Int64, sections: list[Repeat]) -> list[Repeat]:
    """The layers of a step by modules, where these name no layer of `sections`, which repeats of kernels make.

    Empty where they name layers, where too little time has a module, and where no modules are numbered in a row.
    `rows` are the kernels of the step by launch.
    """
    ids, paths, _ = site_of(trace, rows, "module")
    dur = trace.slices.dur[rows]
    if not sections or 2 * int(dur[ids >= 0].sum()) < max(int(dur.sum()), 1):
        return []
    bounds = [[rows[low:high] for low, high in pairwise(each.bounds.tolist())] for each in sections]
    named = [name for each in bounds for name in layer_modules(trace, each)]
    if 2 * sum(name is not None for name in named) > len(named):
        return []
    words = {number: str(paths[number]).split(PATH_SEPARATOR) for number in np.unique(ids[ids >= 0]).tolist()}
    for depth in range(max(map(len, words.values()))):
        label = _numbered(words, ids, depth)
        if int(dur[label[:, 1] >= 0].sum()) >= MIN_COVERED_SHARE * int(dur.sum()):
            return _in_series(label)
    return []


def _numbered(words: dict[int, list[str]], ids: Int64, depth: int) -> Int64:
    """The class and the instance at some depth of the path of each kernel, as numbers; -1 where there are too few."""
    instances: dict[tuple[str, ...], dict[str, int]] = {}
    classes: dict[int, tuple[str, ...]] = {}
    for number, path in words.items():
        if len(path) > depth and (match := _INSTANCE.search(path[depth])):
            classes[number] = (*path[:depth], path[depth][: match.start()])
            named = instances.setdefault(classes[number], {})
            named.setdefault(path[depth], len(named))
    kept = [each for each, named in instances.items() if len(named) >= MIN_REPEATS]
    table = np.full((max(words) + 2, 2), -1, np.int64)
    for number, name in classes.items():
        if name in kept:
            table[number] = kept.index(name), instances[name][words[number][depth]]
    return table[ids]


def _in_series(label: Int64) -> list[Repeat]:
    """The series of layers: each goes on while further instances of one class come, each of them once."""
    at = np.flatnonzero(label[:, 1] >= 0)
    fresh = np.append(True, (label[at][1:] != label[at][:-1]).any(axis=1))
    starts = at[fresh]
    ends = at[np.append(np.flatnonzero(fresh)[1:] - 1, len(at) - 1)] + 1
    runs = list(map(tuple, label[starts].tolist()))
    if len(runs) > MAX_RUNS_OF_LAYER * len(set(runs)):
        return []
    series: list[list[int]] = []
    for index, run in enumerate(runs):
        mine = series[-1] if series else []
        if mine and runs[mine[0]][0] == run[0] and run not in [runs[each] for each in mine]:
            mine.append(index)
        else:
            series.append([index])
    none = np.empty(0, np.int64)
    return [Repeat(np.append(starts[each], ends[each[-1]]), none, False) for each in series if len(each) >= MIN_REPEATS]
