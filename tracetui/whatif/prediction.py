"""Answers to `what if`: the changes that can be asked for, the times that they replace in a launch queue, and the time
of a step with them as an interval, with what limits it then and how far to rely on it.

The ends of the interval are those of four replays: anchored and free, with the low and the high bound of the change.
What two recordings of one program differ by is no part of it, and reported beside it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from tracetui.errors import Unanswerable, UsageError, nearest
from tracetui.frozen import frozen
from tracetui.idle.gpu_spans import communicates
from tracetui.idle.waits import SYNC_NAME
from tracetui.kernel_names.slice_names import short_kernel
from tracetui.linking.groups import count_within
from tracetui.linking.links import links
from tracetui.linking.placement import step_index
from tracetui.linking.steps import steps
from tracetui.linking.trees import Stretches, forest, is_named, lane_axis
from tracetui.model.intervals import Bool, Int64, index_in, without
from tracetui.model.quantities import counted
from tracetui.model.recorded import header_fields
from tracetui.model.trace import Kind, Trace
from tracetui.text import clean
from tracetui.whatif.launch_queue import ALLOCATION, NEVER, LaunchQueue, launch_queue
from tracetui.whatif.replay import Limits, Span, Times, anchored, free, limits, recorded, replay, span

MAX_CHANGES = 20
"""Maximum changes of one question."""
MAX_FACTOR = 1000.0
MAX_NAMES, MAX_NAME = 5_000, 80
"""Maximum names that are compared with one that matches nothing, and characters of each that are printed."""
_GRAPH_LAUNCH_NS = 8_000.0
_NODE_LAUNCH_NS = (20.0, 300.0)
"""Time that each node adds to the launch of a graph, low and high."""
_NODE_GAP_NS = (600.0, 2_000.0)
"""Gap between nodes of a graph, low and high."""

_CALL = re.compile(r"\s*(\w+)\s*\((.*)\)\s*", re.DOTALL)
_BETWEEN = re.compile(r"(?<=\))[\s;]+(?=\w+\s*\()")


@frozen(eq=True)
class Reliability:
    """The record of a kind of change on pairs of recordings that differ in one thing; docs/whatif.md has the pairs."""

    pairs: int
    covered: int
    """Pairs whose second recording lay in the interval that the first one predicted."""
    programs: int
    is_bound: bool = False
    """True where only the most that can be saved is predicted."""

    @property
    def status(self) -> str:
        """A word for it: an estimate has covered nine of ten pairs, of ten programs or more."""
        if self.is_bound:
            return "at most"
        is_tried = self.programs >= MIN_PROGRAMS and self.covered >= MIN_COVERED * self.pairs
        return "estimate" if is_tried else "experimental"

    @property
    def words(self) -> str:
        """In a few words."""
        tried = f"right on {self.covered} of {counted(self.pairs, 'pair')}, {counted(self.programs, 'program')}"
        return f"{self.status}, {tried if self.pairs else 'no pair of recordings yet'}"


MIN_PROGRAMS, MIN_COVERED = 10, 0.9
OFFERED = {
    "scale": Reliability(pairs=2, covered=1, programs=1),
    "cpu": Reliability(pairs=8, covered=6, programs=8),
    "drop": Reliability(pairs=0, covered=0, programs=0, is_bound=True),
    "graph": Reliability(pairs=0, covered=0, programs=0),
}
"""Each kind of change by name; the pairs are recordings, and simulated ones do not count."""
EXAMPLES = "scale(softmax, 0.5), cpu(DataLoader, 0), drop(sync), graph(3:7)"
NOT_OFFERED = {
    "fuse": "its predictions were 8 and 13 % off on two of four pairs, as fusing changes what the CPU does too: "
    "record both, and `tracetui compare` them",
    "overlap": "there is no pair of recordings to try it on",
}
"""Kinds that are refused, and why."""


@frozen(eq=True)
class Asked:
    """A change as it was asked for."""

    text: str
    kind: str
    pattern: str
    """A regular expression; `sync`; or numbers of activities, as 3:7."""
    factor: float = 0.0
    """That of the times."""

    @property
    def search(self) -> Callable[[str], object]:
        """Search a name for the pattern, of which the case counts where it has capitals."""
        plain = re.sub(r"\\.", "", self.pattern)
        return re.compile(self.pattern, 0 if plain != plain.lower() else re.IGNORECASE).search


class Apply(Protocol):
    """Replaces times by those of a change; `low` takes away all that can go, else only what must."""

    def __call__(self, times: Times, low: bool) -> Times:
        """The times with the change."""


@frozen
class Change:
    """A change of a trace."""

    asked: Asked
    matched: str
    """The matched things, in words."""
    apply: Apply

    @property
    def reliability(self) -> Reliability:
        """The record of its kind."""
        return OFFERED[self.asked.kind]


def split_changes(text: str) -> list[str]:
    """The changes of one line, which blanks or semicolons part."""
    return [each for each in _BETWEEN.split(text.strip()) if each]


def read_change(text: str) -> Asked:
    """A change that was typed.

    Raises: UsageError for one that is not understood, or of a kind that is not offered.
    """
    call = _CALL.fullmatch(text)
    if call is None:
        raise UsageError(f"{clean(text)!r} is no change: write {EXAMPLES}.")
    kind, inner = call[1], call[2].strip()
    if kind in NOT_OFFERED:
        raise UsageError(f"The change {kind}() is not offered: {NOT_OFFERED[kind]}.")
    if kind not in OFFERED:
        raise UsageError(f"There is no change {clean(kind)}(). {nearest(kind, OFFERED)}")
    if kind in ("scale", "cpu"):
        pattern, comma, number = inner.rpartition(",")
        factor = _factor(number) if comma else None
        if factor is None:
            raise UsageError(f"Give {kind}() a name and a factor from 0 to {MAX_FACTOR:g}: {kind}(softmax, 0.5).")
        return Asked(text.strip(), kind, _expression(pattern), factor)
    if kind == "graph":
        first, colon, last = inner.partition(":")
        numbers = [each.strip() for each in (first, last)]
        if not colon or not all(each.isascii() and each.isdigit() and len(each) < 10 for each in numbers):
            raise UsageError("Give graph() the numbers of the first and last kernel of a step: graph(3:7).")
        if not 1 <= int(numbers[0]) < int(numbers[1]):
            raise UsageError(f"{clean(inner)} is no range of kernels: the first is 1, and a graph has two or more.")
        return Asked(text.strip(), kind, ":".join(numbers))
    return Asked(text.strip(), kind, _expression(inner))


def _factor(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number <= MAX_FACTOR else None


def _expression(text: str) -> str:
    """A regular expression, with or without quotes around it."""
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        text = text[1:-1]
    if not text:
        raise UsageError(f"A name is missing: write {EXAMPLES}.")
    try:
        re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(f"{clean(text)!r} is no regular expression: {error}.") from None
    return text


def change(trace: Trace, queue: LaunchQueue, asked: Asked) -> Change:
    """A change with the things that it matches in a trace.

    Raises: Unanswerable where that is nothing, or the replay does not hold for it.
    """
    kind = "cpu" if asked.kind == "scale" and not queue.is_on_gpu else asked.kind
    if kind == "scale":
        return _scale(trace, queue, asked)
    if kind == "cpu":
        return _cpu(trace, queue, asked)
    if not queue.is_on_gpu:
        raise Unanswerable(f"{clean(asked.text)} is about the GPU, and this trace has no GPU activity.")
    if kind == "graph":
        return _graph(trace, queue, asked)
    return _drop_waits(trace, queue, asked) if asked.pattern == "sync" else _drop_operators(trace, queue, asked)


def _scale(trace: Trace, queue: LaunchQueue, asked: Asked) -> Change:
    search = asked.search
    matches = is_named(trace, queue.row, lambda name: search(name) or search(short_kernel(name)))
    if not matches.any():
        raise _nothing(trace, queue.row, asked, "GPU activity")
    _require_own_time(trace, queue.row[matches], asked)
    factor = np.where(matches, asked.factor, 1.0)

    def apply(times: Times, low: bool) -> Times:
        return replace(times, gpu=times.gpu * factor)

    return Change(asked, counted(int(matches.sum()), "GPU activity"), apply)


def _matching(trace: Trace, asked: Asked, *kinds: Kind) -> Int64:
    """The slices of some kinds that a change names, without those that are steps.

    Raises: Unanswerable where there are none.
    """
    rows = without(trace.slices.of_kind(*kinds), np.sort(steps(trace).slices))
    named = rows[is_named(trace, rows, asked.search)]
    if len(named) == 0:
        raise _nothing(trace, rows, asked, "operator, annotation or function")
    return named


def _stretches(trace: Trace, rows: Int64) -> Stretches:
    """The time of some slices on their threads."""
    slices = trace.slices
    return Stretches.of(lane_axis(trace), slices.lane[rows], slices.start[rows], slices.end[rows])


def _nothing(trace: Trace, rows: Int64, asked: Asked, thing: str) -> Unanswerable:
    known = [trace.names[number] for number in np.unique(trace.slices.name[rows]).tolist()]
    known += [short_kernel(name) for name in known if thing == "GPU activity"]
    names = [clean(name)[:MAX_NAME] for name in known[:MAX_NAMES]]
    words = f"Nothing to change: the name of no {thing} matches {clean(asked.pattern)!r}."
    return Unanswerable(f"{words} {nearest(asked.pattern, names)}".rstrip())


def _require_own_time(trace: Trace, rows: Int64, asked: Asked) -> None:
    """Raises: Unanswerable where communication with other ranks would change its time, which they decide too."""
    ranks = header_fields(trace.metadata)["world_size"] or 1
    if ranks > 1 and communicates(trace)[rows].any():
        raise Unanswerable(
            f"{clean(asked.text)} changes communication among {ranks} ranks: its time depends on the others too."
        )


def _cpu(trace: Trace, queue: LaunchQueue, asked: Asked) -> Change:
    """CPU time of slices; of calls inside them `low` takes their duration as well."""
    rows = _matching(trace, asked, Kind.CPU_OP, Kind.ANNOTATION, Kind.PYTHON)
    inside = _stretches(trace, rows)
    since = np.where(queue.follows >= 0, queue.call_end[queue.follows], queue.call_start)
    since = np.minimum(since, queue.call_start)
    before = inside.covered(queue.lane, since, queue.call_start).astype(np.float64)
    is_inside = inside.covered(queue.lane, queue.call_start, queue.call_end) == queue.call_end - queue.call_start
    # Where a thread took over, the other one may have been in such a slice.
    handed = np.flatnonzero((queue.follows >= 0) & (queue.lane[queue.follows] != queue.lane))
    other = inside.covered(queue.lane[queue.follows[handed]], since[handed], queue.call_start[handed])
    before[handed] = np.maximum(before[handed], other)
    if not (before.any() or (is_inside & (queue.call >= 0)).any()):
        raise Unanswerable(f"{clean(asked.text)} changes nothing: no launch or step waited for these slices.")
    saved = before * (1.0 - asked.factor)
    shorter = np.where(is_inside & (queue.call >= 0), asked.factor, 1.0)

    def apply(times: Times, low: bool) -> Times:
        # Two changes of the same slice take its time away once.
        cpu = times.cpu - (np.minimum(saved, np.maximum(times.cpu, 0.0)) if asked.factor < 1 else saved)
        return replace(
            times,
            cpu=np.where(queue.follows >= 0, cpu, times.cpu),
            call=times.call * shorter if low == (asked.factor < 1) else times.call,
        )

    return Change(asked, counted(len(rows), "slice"), apply)


def _drop_waits(trace: Trace, queue: LaunchQueue, asked: Asked) -> Change:
    waits = ~np.isnan(queue.return_time)
    if not waits.any():
        raise Unanswerable("Nothing to change: no call of this trace waits for the GPU.")
    only_waits = waits & is_named(trace, queue.call, SYNC_NAME.search)

    def apply(times: Times, low: bool) -> Times:
        # Without the change at its high bound: that the program can do without the waits is not known.
        return _without_calls(times, waits, only_waits) if low else times

    return Change(asked, counted(int(waits.sum()), "call"), apply)


def _without_calls(times: Times, freed: Bool, gone: Bool) -> Times:
    """Times in which some calls wait no longer, and some take no time."""
    return replace(
        times,
        return_time=np.where(freed, np.nan, times.return_time),
        queue_return=np.where(gone, np.nan, times.queue_return),
        call=np.where(gone, 0.0, times.call),
    )


def _drop_operators(trace: Trace, queue: LaunchQueue, asked: Asked) -> Change:
    """Operators and annotations fall away with their CPU time and what they launch."""
    rows = _matching(trace, asked, Kind.CPU_OP, Kind.ANNOTATION)
    rows = rows[forest(trace, rows) < 0]
    inside = _stretches(trace, rows)
    gone = inside.covered(queue.lane, queue.call_start, queue.call_end) == queue.call_end - queue.call_start
    activities = gone[queue.launch] & ~queue.is_lost
    _require_own_time(trace, queue.row[activities], asked)
    shorter = _cpu(trace, queue, replace(asked, factor=0.0))

    def apply(times: Times, low: bool) -> Times:
        if not low:
            return times
        times = _without_calls(shorter.apply(times, True), gone, gone)
        return replace(times, gpu=np.where(activities, 0.0, times.gpu), gap=np.where(activities, 0.0, times.gap))

    return Change(asked, counted(len(rows), "operator"), apply)


def _graph(trace: Trace, queue: LaunchQueue, asked: Asked) -> Change:
    """Activities of each step, by their numbers in it, become the nodes of a graph with one launch."""
    first, last = map(int, asked.pattern.split(":"))
    gpu = links(trace).gpu
    number = count_within(step_index(trace, gpu))
    chosen = gpu[(number >= first) & (number <= last) & (step_index(trace, gpu) >= min(len(steps(trace)), 1) - 1)]
    order = np.argsort(queue.row)
    place = index_in(queue.row[order], np.sort(chosen))
    nodes = np.sort(order[place[place >= 0]])
    part = queue.part[nodes]
    counts = np.bincount(part[part >= 0], minlength=1) if len(steps(trace)) else np.array([len(nodes)])
    if len(nodes) == 0 or counts.max() != last - first + 1:
        most = int(number.max(initial=0))
        has = f"they have {counted(most, 'kernel')}" if most < 2 else f"graph(1:{most}) is all that there is"
        raise Unanswerable(f"Nothing to change: no step has kernels {first} to {last}; {has}.")
    # Steps that are shorter stay as they are.
    if len(steps(trace)):
        nodes = nodes[(part >= 0) & (counts[part] == counts.max())]
    _require_own_time(trace, queue.row[nodes], asked)
    if queue.is_lost[nodes].any():
        raise Unanswerable(f"{clean(asked.text)} holds activities whose launch was not recorded.")
    runs = nodes.reshape(-1, last - first + 1)
    heads, ends = queue.launch[runs[:, 0]], queue.launch[runs[:, -1]]
    number = np.arange(len(queue.call))
    opened, closed = np.zeros((2, len(number) + 1), np.int64)
    np.add.at(opened, heads, 1)
    np.add.at(closed, ends + 1, 1)
    inside = np.cumsum(opened - closed)[:-1] > 0
    calls = np.flatnonzero(inside & (queue.lane == queue.lane[heads[0]]))
    _require_capturable(trace, queue, calls, queue.launch[runs], first)
    is_head, is_node = np.zeros(len(number), bool), np.zeros(len(queue.row), bool)
    is_head[heads] = True
    is_node[nodes] = True
    taken = np.zeros(len(number), bool)
    taken[queue.launch[nodes]] = True
    follows_node = is_node.copy()
    follows_node[runs[:, 0]] = False
    # A node on a stream where nothing came before could start at any time.
    follows_node &= queue.before >= 0

    def apply(times: Times, low: bool) -> Times:
        launch = _GRAPH_LAUNCH_NS + _NODE_LAUNCH_NS[not low] * runs.shape[1]
        return replace(
            times,
            cpu=np.where(taken & ~is_head, np.minimum(times.cpu, 0.0), times.cpu),
            call=np.where(is_head, launch, np.where(taken, 0.0, times.call)),
            queue_return=np.where(taken & ~is_head, np.nan, times.queue_return),
            latency=np.where(follows_node, NEVER, times.latency),
            gap=np.where(follows_node, _NODE_GAP_NS[not low], times.gap),
        )

    return Change(asked, f"{counted(len(runs), 'graph')} of {runs.shape[1]}", apply)


def _require_capturable(trace: Trace, queue: LaunchQueue, calls: Int64, launches: Int64, first: int) -> None:
    """Raises: Unanswerable where a call waits or allocates, which no capture of a graph takes.

    `launches` are those of the activities, a row for each step, the first of which has the number `first` in it.
    """
    rows = queue.call[calls]
    odd = ~np.isnan(queue.return_time[calls]) | is_named(trace, rows, ALLOCATION.search)
    odd |= is_named(trace, rows, SYNC_NAME.search)
    if odd.any():
        name, many = clean(trace.name_of(int(rows[odd][0]))), int(odd.sum())
        # Activities that one graph can hold have no such call between them, nor as their launch, in any step.
        since = np.searchsorted(calls[odd], launches)
        can_be_node: Bool = np.isin(launches, calls[odd]).max(axis=0) == 0
        parted = (np.diff(since, axis=1) > 0).any(axis=0)
        group = np.cumsum(np.append(False, parted | ~can_be_node[1:]))
        sizes = np.bincount(group[can_be_node], minlength=1)
        begin = first + int(np.argmax((group == sizes.argmax()) & can_be_node))
        end = begin + int(sizes.max()) - 1
        instead = f"graph({begin}:{end}) holds none" if end > begin else "no two of them have none between them"
        raise Unanswerable(
            f"No graph can hold these: {counted(many, 'call')} between the first and the last "
            f"{'waits or allocates' if many == 1 else 'wait or allocate'}, the first is {name}; {instead}."
        )


NOISE_PCT = 7
NOISE = NOISE_PCT / 100
"""Share by which two recordings of one program differed, fixed before the pairs of docs/whatif.md were made."""
MAX_IDENTITY_ERROR = 0.03
MAX_SPREAD = 0.10


@frozen(eq=True)
class Interval:
    """Bounds of a time in ns."""

    low: float
    high: float

    def covers(self, time: float, noise: float = NOISE) -> bool:
        """True for a time within, or beside it by no more than noise."""
        return self.low * (1 - noise) <= time <= self.high * (1 + noise)


@frozen
class Predicted:
    """A change, its own effect, and that together with those before it."""

    change: Change
    alone: Interval
    together: Interval


@frozen
class Prediction:
    """The time of a step, or of the capture, with changes."""

    span: Span
    """As recorded."""
    identity_error: float
    """Deviation of the free replay without a change from the recording, as a share."""
    changes: tuple[Predicted, ...]
    limits: Limits
    """Parts of the anchored replay with all changes at their low bound."""
    scope: str
    remarks: tuple[str, ...]

    @property
    def interval(self) -> Interval:
        """The time with all changes."""
        return self.changes[-1].together

    @property
    def saves(self) -> tuple[float, float]:
        """Least and most that is saved, as shares; negative where it takes longer."""
        return 1 - self.interval.high / self.span.time, 1 - self.interval.low / self.span.time


def predict(trace: Trace, texts: Sequence[str]) -> Prediction:
    """The time of a step with changes such as `scale(softmax, 0.5)`, all together and each on its own.

    Raises: UsageError for a change that is not understood; Unanswerable where the replay does not hold.
    """
    if not 1 <= len(texts) <= MAX_CHANGES:
        raise UsageError(f"Ask for 1 to {MAX_CHANGES} changes: there are {len(texts)}.")
    asked = [read_change(text) for text in texts]
    queue = launch_queue(trace)
    measured = span(queue, recorded(queue))
    if measured.time <= 0:
        raise Unanswerable("The steps of this trace take no time: there is nothing to replay.")
    exact, loose = anchored(queue), free(queue)
    error = span(queue, replay(queue, loose)).time / measured.time - 1
    _require_known_waits(error, measured)
    changes = [change(trace, queue, each) for each in asked]
    predicted = []
    for index, each in enumerate(changes):
        alone = _interval(queue, (exact, loose), [each])
        together = _interval(queue, (exact, loose), changes[: index + 1]) if index else alone
        predicted.append(Predicted(each, alone, together))
    times = _changed(exact, changes, low=True)
    return Prediction(
        measured,
        error,
        tuple(predicted),
        limits(queue, times, replay(queue, times)),
        _scope(trace, queue, measured),
        tuple(_remarks(trace, queue, asked)),
    )


def _require_known_waits(error: float, measured: Span) -> None:
    """Raises: Unanswerable where a replay without a change is off, or the steps differ by themselves."""
    if abs(error) > MAX_IDENTITY_ERROR:
        raise Unanswerable(
            f"A replay without a change is {100 * error:+.1f} % off, and at most {100 * MAX_IDENTITY_ERROR:.0f} % are "
            "taken: something waited for what the trace does not record."
        )
    if measured.spread is not None and measured.spread > MAX_SPREAD:
        raise Unanswerable(
            f"The steps differ by ±{100 * measured.spread:.0f} % by themselves, and at most {100 * MAX_SPREAD:.0f} % "
            "are taken: record more steps after a warm-up, or choose others with --steps-by."
        )


def _interval(queue: LaunchQueue, starts: Sequence[Times], changes: Sequence[Change]) -> Interval:
    """The ends of the replays of both bounds of some changes, with anchored and with free times."""
    ends = [span(queue, replay(queue, _changed(start, changes, low))).time for start in starts for low in (True, False)]
    return Interval(min(ends), max(ends))


def _changed(times: Times, changes: Sequence[Change], low: bool) -> Times:
    """The times after all changes, applied in their order."""
    for each in changes:
        times = each.apply(times, low)
    return times


def _scope(trace: Trace, queue: LaunchQueue, measured: Span) -> str:
    what = "from the end of one's GPU work to that of the next" if queue.is_on_gpu else "on the CPU"
    if measured.parts == 0:
        return "the capture, from its first launch to the last end" if queue.is_on_gpu else "the capture, on the CPU"
    words = steps(trace).words
    by = f" ({words})" if words else ""
    return f"a step, the median of {counted(measured.parts, 'step')} {what}{by}"


def _remarks(trace: Trace, queue: LaunchQueue, asked: Sequence[Asked]) -> list[str]:
    remarks = []
    ranks = header_fields(trace.metadata)["world_size"] or 1
    if ranks > 1:
        others = "other rank is" if ranks == 2 else f"other {ranks - 1} ranks are"
        remarks.append(f"The {others} taken to change alike: communication keeps its time.")
    if any(each.kind == "drop" for each in asked):
        remarks.append("drop: whether the program can do without is not known; it saves at most that.")
    if not queue.is_on_gpu and any(each.kind == "scale" for each in asked):
        remarks.append("scale: without GPU activities it is about operators on the CPU, as cpu.")
    return remarks
