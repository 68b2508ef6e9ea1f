"""A trace the slow, obvious way: one object per slice, joined, owned and put into steps one after another.

Reads the columns that the importer made and shares nothing with the analyses. Only for traces of one process.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from tests.support.slow import slow_nesting
from tracetui.model.intervals import TOLERANCE
from tracetui.model.trace import GPU_WORK, Kind, Trace

STEP = re.compile(r"ProfilerStep#(\d+)")


@dataclass(eq=False)
class Slice:
    """One slice; times in ns."""

    row: int
    event: int
    name: str
    kind: Kind
    lane: int
    pid: str
    start: int
    end: int
    correlation: int
    external: int
    launch: Slice | None = None
    """Of GPU work: the call."""
    owner: Slice | None = None
    """Of a call or GPU work: the op that caused it."""
    within: Slice | None = None
    """The step that a slice of a thread began in, or that launched the GPU work."""

    @property
    def dur(self) -> int:
        return self.end - self.start

    @property
    def is_work(self) -> bool:
        return self.kind in GPU_WORK

    @property
    def step(self) -> int | None:
        """The number of the step."""
        return number_of(self.within) if self.within else None


class SlowTrace:
    """All slices of a trace in the order of its rows, with what belongs to what."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.slices = list(_slices(trace))
        self._join()
        self._own()
        for each in self.slices:
            if each.launch or not each.is_work:
                cause = each.launch or each
                each.within = self.step_at(cause.start, self.home(cause.lane))

    def of_kind(self, *kinds: Kind) -> list[Slice]:
        """The slices of some kinds."""
        return [each for each in self.slices if each.kind in kinds]

    def calls_named(self, pattern: str) -> list[Slice]:
        """The runtime calls whose name a pattern finds."""
        return [each for each in self.of_kind(Kind.RUNTIME) if re.search(pattern, each.name)]

    @cached_property
    def work(self) -> list[Slice]:
        """Kernels, copies and fills."""
        return self.of_kind(*GPU_WORK)

    @cached_property
    def ops(self) -> list[Slice]:
        """Operators, without the steps of old traces."""
        return [each for each in self.of_kind(Kind.CPU_OP) if not STEP.fullmatch(each.name)]

    @cached_property
    def steps(self) -> list[Slice]:
        """The slices of the steps in order of their start."""
        found = [each for each in self.of_kind(Kind.ANNOTATION, Kind.CPU_OP) if STEP.fullmatch(each.name)]
        return sorted(found, key=lambda each: each.start)

    @cached_property
    def launched(self) -> dict[Slice, list[Slice]]:
        """For each call that put work on a GPU that work, by start."""
        found = defaultdict(list)
        for each in sorted(self.work, key=lambda each: each.start):
            if each.launch is not None:
                found[each.launch].append(each)
        return dict(found)

    @cached_property
    def launching(self) -> set[Slice]:
        """Ops inside which something was put on a GPU."""
        calls = list(self.launched)
        return {
            op for op in self.ops if any(op.lane == call.lane and op.start <= call.start < op.end for call in calls)
        }

    @cached_property
    def trusted(self) -> bool:
        """Whether ids of GPU work name ops (R3.7)."""
        given = [each for each in self.work if each.external > 0]
        return bool(given) and 2 * sum(each.external == each.correlation for each in given) <= len(given)

    def numbered(self, number: int | None) -> list[Slice]:
        """The steps with a number, all of them for None."""
        return [step for step in self.steps if number in (None, number_of(step))]

    def home(self, lane: int) -> int:
        """The lane whose steps count for what is on a lane: that of the forward pass for a backward one."""
        return self._homes.get(lane, lane)

    def step_at(self, moment: int, lane: int) -> Slice | None:
        """The step that a moment is in: the thread's own, else the only one that is open (R3.6)."""
        if not any(one.end > two.start for one, two in pairwise(self.steps)):
            return last_open(self.steps, moment)
        own = [step for step in self.steps if step.lane == lane]
        if own:
            return last_open(own, moment)
        lanes = {step.lane for step in self.steps if step.pid == self.trace.lanes[lane].pid}
        candidates = (last_open([step for step in self.steps if step.lane == number], moment) for number in lanes)
        found = [step for step in candidates if step is not None]
        return found[0] if len(found) == 1 else None

    def around(self, inner: Iterable[Slice], outer: Iterable[Slice]) -> dict[Slice, Slice]:
        """The innermost of the outer slices around each of the inner ones, where there is one."""
        wanted = set(outer)
        lanes = defaultdict(list)
        for each in sorted(wanted.union(inner), key=lambda each: each.row):
            lanes[each.lane].append(each)
        found = {}
        for mine in lanes.values():
            starts, ends = [each.start for each in mine], [each.end for each in mine]
            parent = slow_nesting([0] * len(mine), starts, ends, TOLERANCE).parent
            for place, each in enumerate(mine):
                above = parent[place]
                while above >= 0 and mine[above] not in wanted:
                    above = parent[above]
                if above >= 0:
                    found[each] = mine[above]
        return found

    def _join(self) -> None:
        """Launch and work, by correlation id."""
        calls = defaultdict(list)
        for each in self.of_kind(Kind.RUNTIME):
            calls[each.correlation].append(each)
        for each in self.work:
            if each.correlation > 0:
                each.launch = latest(calls[each.correlation], each.start)

    def _own(self) -> None:
        """Calls and work, by what is around the call, and by the op that their id names where that can be (R3.9)."""
        calls = self.of_kind(Kind.RUNTIME)
        found = self.around(calls, self.ops)
        for each in calls:
            each.owner = found.get(each)
        for each in self.work:
            each.owner = each.launch.owner if each.launch else None
        for each in [*calls, *self.work] if self.trusted else []:
            replayed = each.launch is not None and len(self.launched[each.launch]) > 1
            moment = (each.launch or each).start
            named = latest([op for op in self.ops if op.external == each.external > 0], moment)
            if named is not None and named.start <= moment and not replayed:
                each.owner = named

    @cached_property
    def _homes(self) -> dict[int, int]:
        """For threads of the backward pass the thread to which they belong, where their nodes say one (R3.16)."""
        given, events = self.trace.op_args, self.trace.slices.event[[op.row for op in self.ops]]
        threads, numbers = (given.number(name, events).tolist() for name in ("Fwd thread id", "Sequence number"))
        nodes = {op: thread for op, thread in zip(self.ops, threads, strict=True) if thread > 0}
        forward = Counter(
            op.lane for op, number in zip(self.ops, numbers, strict=True) if op not in nodes and number >= 0
        )
        if len(set(nodes.values())) != 1 or not forward:
            return {}
        home = min(forward, key=lambda lane: (-forward[lane], lane))
        return {op.lane: home for op in nodes}


def _slices(trace: Trace) -> Iterator[Slice]:
    columns = trace.slices
    for row in range(len(columns)):
        lane = int(columns.lane[row])
        yield Slice(
            row,
            int(columns.event[row]),
            trace.name_of(row),
            Kind(columns.kind[row]),
            lane,
            trace.lanes[lane].pid,
            int(columns.start[row]),
            int(columns.start[row] + columns.dur[row]),
            int(columns.correlation[row]),
            int(columns.external[row]),
        )


def number_of(step: Slice) -> int:
    """The N of `ProfilerStep#N`."""
    match = STEP.fullmatch(step.name)
    assert match is not None
    return int(match[1])


def latest(candidates: list[Slice], moment: int) -> Slice | None:
    """The last that began by the moment, else the first of all; None without candidates."""
    begun = [each for each in candidates if each.start <= moment]
    if begun:
        return max(begun, key=lambda each: (each.start, each.row))
    return min(candidates, key=lambda each: (each.start, each.row), default=None)


def last_open(steps: list[Slice], moment: int) -> Slice | None:
    """The last to begin of the steps that are open; of steps within each other that is the innermost."""
    opened = [step for step in steps if step.start <= moment < step.end]
    return opened[-1] if opened else None


def stretches(slices: Iterable[Slice]) -> Iterator[tuple[int, int, list[Slice]]]:
    """From the first start to the last end the stretches in which nothing begins or ends, and what is open in each."""
    every = list(slices)
    times = sorted({time for each in every for time in (each.start, each.end)})
    for start, end in pairwise(times):
        yield start, end, [each for each in every if each.start <= start and end <= each.end]


def busy(slices: Iterable[Slice]) -> int:
    """For how long (ns) at least one of the slices was open."""
    return sum(end - start for start, end, open_now in stretches(slices) if open_now)


def holes(slices: Iterable[Slice]) -> list[tuple[int, int]]:
    """The stretches between the first start and the last end in which nothing ran; what takes no time ends one."""
    return [(start, end) for start, end, open_now in stretches(slices) if not open_now]


def by_device(work: Iterable[Slice]) -> list[list[Slice]]:
    """GPU work put together by device."""
    found = defaultdict(list)
    for each in work:
        found[each.pid].append(each)
    return list(found.values())
