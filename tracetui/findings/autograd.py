"""The rule about autograd: graphs that are recorded for a backward pass that never comes, and fill the memory.

It needs allocator events with running totals and at least three iterations. Memory that grows and then stays, as that
of a cache does, is no finding.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tracetui.findings.finding import MIN_SHARES, Finding, severity_of
from tracetui.findings.scope import Scope
from tracetui.linking.lanes import is_named
from tracetui.linking.links import op_rows
from tracetui.linking.step_sources import step_sources
from tracetui.linking.steps import steps
from tracetui.memory.allocator import CPU, allocator
from tracetui.model.intervals import Bool, Int64
from tracetui.model.quantities import counted, size, size_change
from tracetui.model.table import NULL
from tracetui.model.trace import Kind, Trace

MIN_ITERATIONS = 3
"""Minimum iterations in all of which memory grows."""
MIN_GROWTH = MIN_SHARES[0][0]
"""Minimum growth over the iterations, as a share of the memory without it."""
MIN_LAST_GROWTH = 0.5
"""Minimum growth in the last iteration relative to the median one; less is a cache that fills up."""

_NEXT_BATCH = re.compile(r"^enumerate\(DataLoader\)#")


@dataclass(frozen=True, eq=False)
class _Iterations:
    """Repetitions of the same work, in order; parallel arrays."""

    row: Int64
    """Slices of steps, of an annotation or function that repeats, or of reads of the next batch."""
    start: Int64
    end: Int64
    """In ns; each ends before or when the next one starts."""
    word: str
    """What one of them is called."""

    def __len__(self) -> int:
        return len(self.row)


@dataclass(frozen=True)
class _Growth:
    """How the memory of a device grew."""

    device: str
    start: int
    """Bytes allocated when the first iteration began."""
    end: int
    """Bytes allocated when the last one had ended."""
    each: int
    """Median growth per iteration in bytes."""
    share: float
    """Growth over all iterations at the median rate, as a share of the memory without it."""


def missing_no_grad(scope: Scope) -> Iterator[Finding]:
    """Memory grows in every iteration of a program that records gradients and computes none."""
    trace, program = scope.trace, scope.program
    if scope.step is not None or program.has_backward or program.has_optimizer or not program.has_memory:
        return
    rounds = _iterations(trace)
    if len(rounds) < MIN_ITERATIONS or not _records_gradients(trace, rounds):
        return
    growth = max(_growths(trace, rounds), key=lambda each: each.share, default=None)
    severity = None if growth is None or growth.share < MIN_GROWTH else severity_of(growth.share)
    if growth is None or severity is None:
        return
    yield Finding(
        "missing-no-grad",
        severity,
        f"Memory grows by {size(growth.each)} in every {rounds.word}: autograd records for a backward pass that never "
        "runs",
        f"{growth.device}: {size_change(growth.start, growth.end)} in {counted(len(rounds), rounds.word)}; "
        "operators carry autograd sequence numbers, no backward pass and no optimizer ran",
        "Run it under torch.inference_mode() or torch.no_grad(); where results are kept, keep .detach() or .item() of "
        "them.",
        int(rounds.row[-1]),
        action="run it under torch.inference_mode()",
    )


def _iterations(trace: Trace) -> _Iterations:
    """The steps, or else what covers most of the time and repeats, or else what lies between reads of batches."""
    every, slices = steps(trace), trace.slices
    if len(every):
        return _Iterations(every.row, every.start, every.end, "step")
    low, high = trace.window
    for source in step_sources(trace):
        if source.is_certain and len(source.rows) >= MIN_ITERATIONS and 2 * source.covered(trace) >= high - low:
            return _Iterations(source.rows, slices.start[source.rows], source.end, "iteration")
    rows = slices.of_kind(Kind.ANNOTATION, Kind.CPU_OP)
    rows = rows[is_named(trace, rows, _NEXT_BATCH.search)]
    rows = rows[np.argsort(slices.start[rows], kind="stable")]
    return _Iterations(rows[:-1], slices.start[rows[:-1]], slices.start[rows[1:]], "iteration")


def _records_gradients(trace: Trace, rounds: _Iterations) -> bool:
    """Whether operators of every iteration advance the sequence number, which only recorded operations do."""
    ops, slices = op_rows(trace), trace.slices
    number = trace.op_args.number("Sequence number", slices.event[ops])
    ops, number = ops[number != NULL], number[number != NULL]
    order = np.argsort(slices.start[ops], kind="stable")
    start, reach = slices.start[ops[order]], np.maximum.accumulate(number[order])
    if len(start) == 0:
        return False
    first = np.searchsorted(start, rounds.start)
    last = np.searchsorted(start, rounds.end) - 1
    return bool((last > first).all() and (reach[last] > reach[np.minimum(first, len(reach) - 1)]).all())


def _growths(trace: Trace, rounds: _Iterations) -> Iterator[_Growth]:
    """The devices whose memory grows in every iteration and does not level off."""
    events = allocator(trace)
    moments = np.append(rounds.start, rounds.end[-1])
    every = range(len(events.devices))
    # The host's memory counts where there is no other.
    for number in [number for number in every if not events.devices[number].startswith(CPU)] or every:
        mine: Bool = (events.device == number) & ~events.failed
        if not mine.any() or (events.total[mine] == NULL).any():
            continue
        time, total = events.time[mine], events.total[mine]
        index = np.searchsorted(time, moments) - 1
        before = int(total[0] - events.bytes[mine][0])
        level = np.where(index >= 0, total[np.maximum(index, 0)], before)
        grown = np.diff(level)
        each = int(np.median(grown))
        base = max(int(level[0]), int(level[1]) - each, 1)
        if (grown > 0).all() and grown[-1] >= MIN_LAST_GROWTH * each:
            yield _Growth(events.devices[number], int(level[0]), int(level[-1]), each, len(grown) * each / base)
