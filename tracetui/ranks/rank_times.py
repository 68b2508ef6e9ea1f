"""How each rank spent the time that all of them recorded (R5.10)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tracetui.model.intervals import Int64
from tracetui.model.table import NULL

if TYPE_CHECKING:
    from tracetui.ranks.rank_set import RankSet


@dataclass(frozen=True, eq=False)
class RankTimes:
    """Parallel arrays in ns, one entry per rank; busy, exposed and idle time sum to the run."""

    step: Int64
    """Median duration of a step, NULL without steps."""
    busy: Int64
    exposed: Int64
    exposed_wait: Int64
    """The part of the exposed communication that is waiting: that of each collective in proportion to its wait."""
    idle: Int64


def rank_times(ranks: RankSet) -> RankTimes:
    """The times of every rank in the window that all recorded, on the one clock."""
    low, high = ranks.window
    clocks = ranks.clocks
    length = high - low
    busy, exposed, step = [], [], []
    for index, summary in enumerate(ranks.summaries):
        host = int(clocks.host[index])
        moved = int(clocks.shift[host])
        one, other = summary.curve.within(low + moved, high + moved)
        busy.append(one)
        exposed.append(other)
        durations = summary.steps.end - summary.steps.start
        step.append(int(np.median(durations)) if len(durations) else NULL)
    busy_ns, exposed_ns = np.array(busy, np.int64), np.array(exposed, np.int64)
    return RankTimes(
        step=np.array(step, np.int64),
        busy=busy_ns,
        exposed=exposed_ns,
        exposed_wait=np.minimum(_exposed_wait(ranks), exposed_ns),
        idle=np.maximum(length - busy_ns - exposed_ns, 0),
    )


def _exposed_wait(ranks: RankSet) -> Int64:
    entries, waiting = ranks.matches.entries, ranks.waiting
    parts = []
    for index, summary in enumerate(ranks.summaries):
        rows = np.flatnonzero((entries.rank == index) & (waiting.wait > 0))
        own = entries.row[rows]
        dur = np.maximum(summary.collectives.dur[own], 1)
        parts.append(int((summary.collectives.exposed[own] * (waiting.wait[rows] / dur)).sum()))
    return np.array(parts, np.int64)
