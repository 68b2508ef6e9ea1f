"""GPU activities by what was around their launch, and whether launches hold the program up."""

from __future__ import annotations

import numpy as np

from tracetui.analysis.common.stretches import Axis, Stretches
from tracetui.analysis.findings.scope import Scope
from tracetui.analysis.idle.idleness import idleness
from tracetui.analysis.linking.links import links
from tracetui.model.intervals import Int64, covered

MAX_LAUNCH_GAP_NS = 1_000_000
"""Maximum length of a gap that waits for a launch; in a longer one the CPU did something else."""


def launched_within(scope: Scope, rows: Int64) -> Int64:
    """The activities whose launch began inside one of the slices, on its thread; in order of start."""
    slices, axis = scope.trace.slices, Axis.around(scope.trace.slices.start, scope.trace.slices.end)
    held = Stretches.of(axis, slices.lane[rows], slices.start[rows], slices.end[rows])
    launch = links(scope.trace).launch[scope.activities].astype(np.int64)
    at = axis.position(slices.lane[launch], slices.start[launch])
    index = np.searchsorted(held.starts, at, side="right") - 1
    inside = (launch >= 0) & (index >= 0) & (at < np.append(held.ends, 0)[index])
    return np.compress(inside, scope.activities)


def alone(scope: Scope, rows: Int64) -> int:
    """Time in ns in which some of the activities ran and no other activity of any device."""
    slices = scope.trace.slices
    wanted = np.zeros(len(slices), bool)
    wanted[rows] = True
    every = links(scope.trace).gpu
    others = every[~wanted[every]]
    start, end = slices.start, slices.end
    return covered(start[every], end[every]) - covered(start[others], end[others])


def waits_for_launches(scope: Scope, cost: int) -> bool:
    """Whether the GPU waited longer for late launches than a time in ns, so that these are to be treated first."""
    idle = idleness(scope.trace)
    late = scope.gaps[idle.dur[scope.gaps] < MAX_LAUNCH_GAP_NS]
    return int((idle.cpu_late[late] + idle.in_launch[late]).sum()) > cost
