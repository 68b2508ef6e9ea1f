"""The cost of a server's steps by their batch: steady state, fixed cost and cost per request, prefills beside decodes.

What is said of few steps, or where no line fits, would be a guess: each function returns None or nothing there.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from tracetui.frozen import frozen
from tracetui.linking.groups import distinct
from tracetui.linking.links import links
from tracetui.linking.placement import step_index
from tracetui.linking.replays import replays
from tracetui.linking.step_kinds import UNKNOWN, StepKinds
from tracetui.linking.steps import Steps
from tracetui.model.intervals import Bool, Int64
from tracetui.model.table import NULL
from tracetui.model.trace import Float64, Trace
from tracetui.serving.server_steps import DECODE, median_of, sizes_of

# The steady state: what lies between the first uses and growing batch of the start and the emptying batch of the end
# (R3.88).

MIN_STEPS = 8
"""Minimum steps of a thread among which a steady state is looked for."""
MIN_STEADY_SHARE = 0.5
"""Minimum share of these steps that a steady state has."""
MIN_ALIKE = 3
"""Minimum steps of one kind and size for one of them to be called slow."""
SLOW_RATIO = 1.5
"""Times the median of its kind and size from which on a step is slow."""
SMALL_SHARE = 0.5
"""Share of the median batch of the decodes below which a batch is small."""


class Stage(IntEnum):
    """Part of a recording in which a step is."""

    WARM_UP = 0
    STEADY = 1
    TAIL = 2


STAGE_NAMES = ("warm-up", "steady", "tail")
"""Name of each `Stage`."""


def stages(steps: Steps, kinds: StepKinds, took: Float64, rows: Int64) -> Int64:
    """The `Stage` of each of some steps, NULL where its thread has no steady state; `took` has an entry per step."""
    stage = np.full(len(rows), NULL, np.int64)
    for lane in distinct(steps.lane[rows]).tolist():
        mine = np.flatnonzero(steps.lane[rows] == lane)
        first, last = _steady(kinds, took, rows[mine])
        if last > first:
            stage[mine] = Stage.STEADY
            stage[mine[:first]], stage[mine[last:]] = Stage.WARM_UP, Stage.TAIL
    return stage


def _steady(kinds: StepKinds, took: Float64, rows: Int64) -> tuple[int, int]:
    """Place of the first and behind the last step of the steady state of one thread; twice the same for none."""
    kind = np.array([kinds.kind[row] for row in rows.tolist()], object)
    if len(rows) < MIN_STEPS or (kind == UNKNOWN).any():
        return 0, 0
    requests = kinds.requests[rows]
    decodes = np.asarray((kind == DECODE) & (requests != NULL))
    small = decodes & (requests < SMALL_SHARE * np.median(requests[decodes])) if decodes.any() else decodes
    slow = _slow(kinds, kind, took, rows)
    # A prefill says nothing about how full the server is.
    settled = np.flatnonzero(~slow & ~small & (decodes if decodes.any() else True))
    if len(settled) == 0:
        return 0, 0
    unsettled = np.flatnonzero((slow | small)[: settled[0]])
    first = int(unsettled[-1]) + 1 if len(unsettled) else 0
    last = int(settled[-1]) + 1
    # The batch empties where nothing new comes.
    if not small[last:].all():
        last = len(rows)
    return (first, last) if last - first >= MIN_STEADY_SHARE * len(rows) else (0, 0)


def _slow(kinds: StepKinds, kind: np.ndarray, took: Float64, rows: Int64) -> Bool:
    """Mask of the steps that took far longer than those of their kind and size."""
    slow = np.zeros(len(rows), bool)
    for each in sorted(set(kind.tolist())):
        mine = np.flatnonzero(kind == each)
        _, size = sizes_of(kinds, each, rows[mine])
        for number in distinct(size).tolist():
            alike = mine[size == number]
            if len(alike) >= MIN_ALIKE:
                slow[alike] = took[rows[alike]] > SLOW_RATIO * np.median(took[rows[alike]])
    return slow


# A line through the times of a kind of steps by their size: a fixed cost and one for each request or token (R3.89).

MIN_SIZES = 3
"""Minimum different sizes for a line."""
MIN_SIZE_RATIO = 2.0
"""Minimum ratio of the largest to the smallest of them: the fixed cost is far from sizes that are close."""
MAX_MISFIT = 0.05
"""Maximum root mean square of what the times are off the line, relative to their mean."""
MIN_RISE = 0.02
"""Rise from the smallest to the largest size, relative to the mean, below which times do not follow the size."""


@frozen(eq=True)
class Line:
    """Time of a step by its size: `fixed + each * size`, in ns."""

    unit: str
    """`requests` or `tokens`."""
    fixed: float
    each: float
    misfit: float
    """Root mean square of what the times are off the line, relative to their mean."""
    sizes: tuple[int, ...]
    """The sizes of the steps, ascending."""
    steps: int

    def at(self, size: float) -> float:
        """Time of a step of this size."""
        return self.fixed + self.each * size

    @property
    def is_flat(self) -> bool:
        """True where the size makes no difference."""
        middle = self.at((self.sizes[0] + self.sizes[-1]) / 2)
        return self.each * (self.sizes[-1] - self.sizes[0]) < MIN_RISE * middle


def line_of(kinds: StepKinds, kind: str, took: Float64, rows: Int64) -> Line | None:
    """The line through the median times of steps by size; None with few sizes, and where no rising line fits."""
    unit, size = sizes_of(kinds, kind, rows)
    rows, size = rows[(size != NULL) & ~np.isnan(took[rows])], size[(size != NULL) & ~np.isnan(took[rows])]
    sizes = distinct(size)
    if kind == UNKNOWN or len(sizes) < MIN_SIZES or sizes[0] <= 0 or sizes[-1] < MIN_SIZE_RATIO * sizes[0]:
        return None
    times = np.array([median_of(took[rows[size == each]]) for each in sizes.tolist()], np.float64)
    x = sizes - sizes.mean()
    each = float((x * times).sum() / (x * x).sum())
    fixed = float(times.mean() - each * sizes.mean())
    misfit = float(np.sqrt(np.mean((times - fixed - each * sizes) ** 2)) / times.mean()) if times.mean() > 0 else 1.0
    line = Line(unit, fixed, each, misfit, tuple(sizes.tolist()), len(rows))
    is_falling = each * (sizes[-1] - sizes[0]) < -MIN_RISE * times.mean()
    return None if misfit > MAX_MISFIT or fixed < 0 or is_falling else line


def is_padded(trace: Trace, line: Line, rows: Int64) -> bool:
    """True where steps of all sizes replay the same graph: they run the kernels of its batch, whatever their own.

    Kernels are the same by name and, where it is recorded, by grid; where it is not, the times must be the same too.
    """
    replayed, joined = replays(trace), links(trace)
    step = step_index(trace, replayed.launch)
    graphs, grids = set(), set()
    for row in rows.tolist():
        mine = np.flatnonzero(step == row)
        graphs.add(tuple(replayed.graph[mine].tolist()))
        kernels = [joined.kernels_of(launch) for launch in replayed.launch[mine].tolist()]
        events = trace.slices.event[np.concatenate(kernels)] if kernels else np.empty(0, np.int64)
        grids.add(tuple(trace.work_args.text("grid", events).tolist()))
    has_grids = any(max(each, default=-1) >= 0 for each in grids)
    return () not in graphs and len(graphs) == len(grids) == 1 and (has_grids or line.is_flat)


# Prefills beside decodes: steps with both against decodes of as many requests in generation (R3.89).

MIN_EQUAL_DECODES = 3
"""Minimum decodes of the same batch against which mixed steps are compared."""


@frozen
class Delay:
    """Mixed steps with one number of requests in generation, and decodes of as many."""

    requests: int
    """Requests in generation."""
    mixed: Int64
    """Indices of the mixed steps."""
    decodes: Int64


def delays(kinds: StepKinds, took: Float64, mixed: Int64, decodes: Int64) -> list[Delay]:
    """The mixed steps for which there are decodes of as many requests, by that number."""
    mixed, decodes = mixed[~np.isnan(took[mixed])], decodes[~np.isnan(took[decodes])]
    generated, requests = kinds.generated[mixed], kinds.requests[decodes]
    compared = [
        Delay(each, mixed[generated == each], decodes[requests == each])
        for each in distinct(generated[generated > 0]).tolist()
    ]
    return [each for each in compared if len(each.decodes) >= MIN_EQUAL_DECODES]
