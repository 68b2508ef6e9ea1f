"""The lanes of a trace as numbers, and masks of slices by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tracetui.model.intervals import Bool, Int64
from tracetui.model.kept import kept
from tracetui.model.table import NULL
from tracetui.model.trace import GPU_WORK, LaneKind, Trace


def is_named(trace: Trace, rows: Int64, wanted: Callable[[str], object]) -> Bool:
    """Mask of the slices whose names satisfy `wanted`, such as the `search` of a pattern; each name is tested once."""
    name = trace.slices.name[rows]
    is_wanted = np.zeros(len(trace.names) + 1, bool)
    # There are few names and they are numbered from 0: marking finds the used ones faster than sorting.
    used = np.zeros(len(is_wanted), bool)
    used[name] = True
    is_wanted[[number for number in np.flatnonzero(used).tolist() if wanted(trace.names[number])]] = True
    mask: Bool = is_wanted[name]
    return mask


_NUMBER = re.compile(r"-?\d{1,18}")


@dataclass(frozen=True, eq=False)
class LaneNumbers:
    """Parallel arrays, one entry per lane."""

    process: Int64
    """The process (or device) of the lane, numbered from 0 in the order of the lanes."""
    device: Int64
    """The number of the device whose lane this is; NULL for threads, and where the file gives no number."""
    stream: Int64
    """The number of the stream; NULL for threads, and where the file gives no number."""


@kept(of_file=True)
def lane_numbers(trace: Trace) -> LaneNumbers:
    """Process, device and stream of every lane; a lane of a device has the device's number as process id (R2.3)."""
    known = {pid: index for index, pid in enumerate(dict.fromkeys(lane.pid for lane in trace.lanes))}
    gpu = [lane.kind == LaneKind.GPU for lane in trace.lanes]
    return LaneNumbers(
        np.array([known[lane.pid] for lane in trace.lanes], np.int64),
        np.array([_number(lane.pid, is_gpu) for lane, is_gpu in zip(trace.lanes, gpu, strict=True)], np.int64),
        np.array([_number(lane.tid, is_gpu) for lane, is_gpu in zip(trace.lanes, gpu, strict=True)], np.int64),
    )


@kept(on_disk=True)
def active_streams(trace: Trace) -> list[int]:
    """Lanes on which a GPU activity ran, ascending; nodes of graphs that occupy nothing do not count (R2.13)."""
    streams: list[int] = np.unique(trace.slices.lane[trace.slices.of_kind(*GPU_WORK)]).tolist()
    return streams


def _number(text: str, wanted: bool) -> int:
    """The first number in a text such as `stream 7`."""
    match = _NUMBER.search(text) if wanted else None
    return int(match[0]) if match else NULL
