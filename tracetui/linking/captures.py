"""Captures of graphs: what a thread launches between the begin and the end of a capture is recorded and does not run.

A capture that began before the trace, or ends after it, lasts from its first or to its last moment.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from tracetui.linking.groups import distinct
from tracetui.linking.lanes import lane_numbers
from tracetui.linking.links import calls_named
from tracetui.linking.stretches import Axis, Stretches
from tracetui.model.intervals import Bool, Int64
from tracetui.model.trace import Trace

_BEGIN = re.compile(r"^(cu|cuda|hip)StreamBeginCapture")
_END = re.compile(r"^(cu|cuda|hip)StreamEndCapture")


@dataclass(frozen=True, eq=False)
class Captures:
    """The time ranges in which threads captured graphs: parallel arrays, times in ns."""

    lane: Int64
    start: Int64
    end: Int64
    row: Int64
    """The call that begins the capture, or the one that ends it where that was not recorded."""

    def __len__(self) -> int:
        return len(self.lane)


def captures(trace: Trace) -> Captures:
    """All captures of graphs, by thread and time."""
    return trace.remember("captures", lambda: _find(trace))


def in_capture(trace: Trace, rows: Int64) -> Bool:
    """Mask of the slices that began while a thread of their process captured a graph."""
    every, slices = captures(trace), trace.slices
    if len(every) == 0:
        return np.zeros(len(rows), bool)
    # The backward pass of a step that is captured launches on a thread of its own.
    process = lane_numbers(trace).process
    axis = Axis.around(slices.start, slices.end)
    held = Stretches.of(axis, process[every.lane], every.start, every.end)
    begun = slices.start[rows]
    return np.asarray(held.covered(process[slices.lane[rows]], begun, begun + 1) > 0)


def _find(trace: Trace) -> Captures:
    slices = trace.slices
    begins, ends = calls_named(trace, _BEGIN), calls_named(trace, _END)
    found: list[tuple[int, int, int, int]] = []
    for lane in distinct(slices.lane[np.concatenate([begins, ends])]).tolist():
        opened, closed = begins[slices.lane[begins] == lane], ends[slices.lane[ends] == lane]
        found += _pairs(trace, lane, opened[np.argsort(slices.start[opened])], closed[np.argsort(slices.end[closed])])
    columns = np.array(found, np.int64).reshape(-1, 4).T
    return Captures(columns[0], columns[1], columns[2], columns[3])


def _pairs(trace: Trace, lane: int, opened: Int64, closed: Int64) -> list[tuple[int, int, int, int]]:
    """Lane, start, end and row of each capture of a thread; the window of the trace stands in for a missing call."""
    (low, high), starts, ends = trace.window, trace.slices.start[opened], trace.slices.end[closed]
    pairs = []
    if len(ends) and (len(starts) == 0 or ends[0] < starts[0]):
        pairs.append((lane, low, int(ends[0]), int(closed[0])))
    until = np.append(ends, high)[np.searchsorted(ends, starts)]
    until = np.minimum(until, np.append(starts[1:], high)[: len(starts)])
    return pairs + [(lane, *each) for each in zip(starts.tolist(), until.tolist(), opened.tolist(), strict=True)]
