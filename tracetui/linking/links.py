"""Links between launches, GPU activities and the ops and annotations that caused them.

Launch and GPU activity are joined by correlation id alone; names and flows decide nothing (R2.8, R2.10). The owner is
the op that the `External id` names where those ids can be trusted (R3.7), else the innermost op around the launch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracetui.linking.joining import around, external_ids_name_ops, join_launches, pass_on, prefer_named
from tracetui.linking.lanes import is_named
from tracetui.linking.recorded_steps import step_annotations
from tracetui.model.intervals import Int64
from tracetui.model.membership import without
from tracetui.model.trace import GPU_WORK, Int32, Kind, Trace

NO_GPU = (
    "There is no GPU activity in this trace. Record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] "
    "on a machine with a GPU."
)
NOT_TORCH = (
    "This is not a trace of the PyTorch profiler: it holds no GPU activity, and only lanes and names can be read."
)


@dataclass(frozen=True, eq=False)
class Links:
    """Links between slices as rows of `Trace.slices`; -1 for none."""

    gpu: Int64
    """Kernels, copies and fills in order of their start."""
    launches: Int64
    """Runtime and driver calls that launched something on the GPU, ascending."""
    launch: Int32
    """The launch of every GPU activity; -1 for all other slices."""
    owner: Int32
    """The op that caused each runtime call and GPU activity; -1 for all other slices too."""
    annotation: Int32
    """The innermost annotation around the launch, steps excluded, likewise."""
    launched: Int64
    """GPU activities that have a launch, sorted by launch, then start."""
    bounds: Int64
    """`work[bounds[i]:bounds[i + 1]]` are the activities of `launches[i]`."""
    trusted: bool
    """Whether the `External id` of GPU activities names ops; in torch 1.12 to 2.3 it does not (R3.7)."""

    def launch_of(self, row: int) -> int:
        """The call that launched a GPU activity, -1 for none."""
        return int(self.launch[row])

    def kernels_of(self, row: int) -> Int64:
        """The activities of a runtime call by start; a graph launch has many, most calls none."""
        index = int(np.searchsorted(self.launches, row))
        if index == len(self.launches) or self.launches[index] != row:
            return np.empty(0, np.int64)
        return self.launched[self.bounds[index] : self.bounds[index + 1]]

    def owner_of(self, row: int) -> int:
        """The op that caused a runtime call or a GPU activity, -1 for none."""
        return int(self.owner[row])

    @property
    def counts(self) -> Int64:
        """Number of GPU activities of each of `launches`."""
        return np.diff(self.bounds)

    @property
    def first(self) -> Int64:
        """The first GPU activity of each of `launches`."""
        return self.launched[self.bounds[:-1]]


def links(trace: Trace) -> Links:
    """All links of the trace, found once."""
    return trace.remember("links", lambda: _make(trace))


def no_gpu(trace: Trace) -> str:
    """Why a pane about the GPU is empty for this trace, and how to record GPU activity; empty where there is some."""
    if len(links(trace).gpu):
        return ""
    if not trace.is_torch:
        return NOT_TORCH
    others = trace.slices.category[trace.slices.kind == Kind.OTHER]
    if len(others) == 0:
        return NO_GPU
    category = trace.categories[int(np.bincount(others).argmax())]
    return (
        f"There is no GPU activity in this trace, but {len(others):,} slices of other categories, "
        f"most of them {category!r}: the lanes show them."
    )


def op_rows(trace: Trace) -> Int64:
    """Rows of the operators, ascending; steps of old traces (category `Operator`) excluded."""

    def find() -> Int64:
        rows = trace.slices.of_kind(Kind.CPU_OP)
        return without(rows, step_annotations(trace))

    return trace.remember("op rows", find)


def names_of(trace: Trace, rows: NDArray[np.integer]) -> Int64:
    """Name ids of slices, -1 where the row is -1."""
    return np.where(rows >= 0, trace.slices.name[rows], -1).astype(np.int64)


def calls_named(trace: Trace, pattern: re.Pattern[str]) -> Int64:
    """Rows of the runtime and driver calls whose name matches the pattern, ascending."""

    def find() -> Int64:
        rows = trace.slices.of_kind(Kind.RUNTIME)
        return rows[is_named(trace, rows, pattern.search)]

    return trace.remember(("calls named", pattern.pattern), find)


def _make(trace: Trace) -> Links:
    slices = trace.slices
    gpu = slices.of_kind(*GPU_WORK)
    gpu = gpu[np.argsort(slices.start[gpu], kind="stable")]
    calls = slices.of_kind(Kind.RUNTIME)
    launch = np.full(len(slices), -1, np.int32)
    launch[gpu] = join_launches(trace, calls, gpu)
    work = gpu[launch[gpu] >= 0]
    work = work[np.argsort(launch[work], kind="stable")]
    ranked = launch[work]
    first = np.flatnonzero(np.append(len(ranked) > 0, ranked[1:] != ranked[:-1]))[: len(ranked)]
    launches, bounds = ranked[first].astype(np.int64), np.append(first, len(work))
    ops = op_rows(trace)
    trusted = external_ids_name_ops(trace, gpu)
    owner = around(trace, calls, ops)
    replayed = np.zeros(len(slices), bool)
    replayed[work[np.repeat(np.diff(bounds) > 1, np.diff(bounds))]] = True
    pass_on(owner, gpu, launch)
    if trusted:
        named = np.concatenate([calls, gpu[~replayed[gpu]]])
        prefer_named(trace, owner, named, launch, ops)
    notes = without(slices.of_kind(Kind.ANNOTATION), step_annotations(trace))
    annotation = around(trace, calls, notes)
    pass_on(annotation, gpu, launch)
    return Links(gpu, launches, launch, owner, annotation, work, bounds, trusted)
