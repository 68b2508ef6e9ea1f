"""Parts of a step on the CPU: forward, backward, optimizer, data loading; which thread was in which when (R3.92).

Annotations and operators name them: `Optimizer.step#Adam.step`, `autograd::engine::evaluate_function: ...`,
`enumerate(DataLoader)#...`. Forward is what the operators of a thread cover that is none of these.
"""

from __future__ import annotations

import re
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from tracetui.frozen import Parallel, frozen
from tracetui.linking.groups import distinct
from tracetui.linking.trees import is_named
from tracetui.model.intervals import Int64, covered_within, difference, union
from tracetui.model.results import kept
from tracetui.model.trace import Kind, Trace

MAX_BESIDE_BACKWARD = 0.1
"""Maximum share of the operators of a thread that lies outside of backward, for a thread that has no forward."""


class Phase(IntEnum):
    """A part of a step; of several at one moment of a thread the last counts."""

    NONE = 0
    FORWARD = 1
    BACKWARD = 2
    OPTIMIZER = 3
    DATA = 4


PHASE_WORDS = ("", "forward", "backward", "optimizer", "data")
"""Their names, by number."""
DATA_NAMES = re.compile(r"^enumerate\(DataLoader\)#|dataloader\.py\(\d+\): __next__$|^##.*\bdata\b.*##$", re.IGNORECASE)
PHASE_NAMES = {
    Phase.FORWARD: re.compile(r"^(?:## ?)?forward(?: ?##)?$|^forward[ _(]", re.IGNORECASE),
    Phase.BACKWARD: re.compile(
        r"^(?:## ?)?backward(?: ?##)?$|^backward[ _(]|^autograd::engine::evaluate_function", re.IGNORECASE
    ),
    Phase.OPTIMIZER: re.compile(r"^(?:## ?)?optimi[sz]er(?: ?##)?$|^Optimizer\.(?:step|zero_grad)#"),
    Phase.DATA: DATA_NAMES,
}
"""Names of the slices that are a part of a step."""


@frozen
class PhaseSpans(Parallel):
    """When each thread was in which phase: parallel arrays by lane and start, times in ns, disjoint on each lane."""

    lane: Int64
    start: Int64
    end: Int64
    phase: NDArray[np.int8]
    """A `Phase`."""

    def of(self, *phases: Phase) -> tuple[Int64, Int64]:
        """Start and end of the time in which some thread was in one of some phases, disjoint, in order."""
        mine = np.isin(self.phase, phases)
        return union(self.start[mine], self.end[mine])


@kept(on_disk=True)
def phase_spans(trace: Trace) -> PhaseSpans:
    """The phases of every thread that has some."""
    slices = trace.slices
    rows = slices.of_kind(Kind.ANNOTATION, Kind.CPU_OP, Kind.PYTHON)
    # Few slices name a phase: each pattern is tried on these alone.
    rows = rows[is_named(trace, rows, lambda name: any(pattern.search(name) for pattern in PHASE_NAMES.values()))]
    named = {phase: rows[is_named(trace, rows, pattern.search)] for phase, pattern in PHASE_NAMES.items()}
    ops = slices.of_kind(Kind.CPU_OP)
    parts: list[tuple[int, Int64, Int64, int]] = []
    for lane in distinct(slices.lane[np.concatenate([ops, *named.values()])]).tolist():
        taken = (np.empty(0, np.int64), np.empty(0, np.int64))
        for phase in sorted(named, reverse=True):
            mine = named[phase][slices.lane[named[phase]] == lane]
            if phase is Phase.FORWARD:
                mine = np.concatenate([mine, _forward_ops(trace, ops[slices.lane[ops] == lane], *taken)])
            span = union(slices.start[mine], slices.end[mine])
            parts.extend((lane, *piece, int(phase)) for piece in [difference(*span, *taken)] if len(piece[0]))
            taken = union(np.concatenate([taken[0], span[0]]), np.concatenate([taken[1], span[1]]))
    if not parts:
        none = np.empty(0, np.int64)
        return PhaseSpans(none, none, none, np.empty(0, np.int8))
    lane = np.concatenate([np.full(len(low), lane, np.int64) for lane, low, _, _ in parts])
    start, end = (np.concatenate([part[index] for part in parts]) for index in (1, 2))
    numbers = np.concatenate([np.full(len(low), number, np.int8) for _, low, _, number in parts])
    order = np.lexsort((start, lane))
    return PhaseSpans(lane[order], start[order], end[order], numbers[order])


def _forward_ops(trace: Trace, ops: Int64, low: Int64, high: Int64) -> Int64:
    """The operators of a thread that are its forward; none of a thread that does little but backward."""
    slices = trace.slices
    start, end = union(slices.start[ops], slices.end[ops])
    other = int((end - start).sum()) - int(covered_within(low, high, start, end).sum())
    is_backward = len(low) > 0 and other <= MAX_BESIDE_BACKWARD * int((end - start).sum())
    return ops[:0] if is_backward else ops
