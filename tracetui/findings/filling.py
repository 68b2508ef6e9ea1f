"""Rule about kernels with fewer blocks than the device has multiprocessors."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tracetui.devices.configuration import Configuration, configuration
from tracetui.devices.generation import AMD, generation
from tracetui.devices.residency import residency
from tracetui.findings.calls import calls_of
from tracetui.findings.finding import Finding
from tracetui.findings.launches import kernel_time
from tracetui.findings.products import batchable_rows
from tracetui.findings.scope import Scope, longest
from tracetui.kernel_names.slice_names import short_kernel
from tracetui.linking.groups import combinations, group
from tracetui.linking.lanes import is_named
from tracetui.model.intervals import Bool, Int64
from tracetui.model.trace import Float64

MIN_COVERAGE = 0.9
"""Minimum blocks per multiprocessor of a grid that covers the device."""
MIN_KERNEL_NS = 10_000
"""Minimum duration of a kernel that more blocks would shorten; a shorter one is held up by its launch."""
MIN_SHARE_OF_KERNEL_TIME = 0.1
"""Minimum share of the GPU time in grids that do not cover the device."""
MAX_SPREAD = 1.5
"""Maximum duration of calls with one grid and unknown shapes, relative to the shortest, that may be equal work."""
_PERSISTENT = re.compile(
    r"persist|stream_?k|cooperative|ping_?pong|warp_?specialized|deep_?gemm|FlashAttnFwdSm90|splitkv_mla",
    re.IGNORECASE,
)
"""Names of kernels whose blocks stay on the device and take one tile after another."""


def low_waves(scope: Scope) -> Iterator[Finding]:
    """Kernels whose grid has fewer blocks than the device has multiprocessors."""
    trace, dur, found = scope.trace, scope.trace.slices.dur, underfilled(scope)
    rows, coverage = found.rows, found.coverage
    spent = int(dur[rows].sum())
    if spent == 0:
        return
    lost = float((dur[rows] * (1 - coverage)).sum()) / spent
    example = longest(trace, rows)
    at = int(np.flatnonzero(rows == example)[0])
    blocks = int(found.blocks[at])
    units = "compute units" if generation(trace).vendor == AMD else "multiprocessors"
    yield from scope.priced(
        "low-waves",
        int(scope.gpu_cost(rows) * lost),
        f"Kernels do not fill the device: their blocks leave {units} empty",
        f"{kernel_time(scope, rows)}, in grids of fewer blocks than {100 * MIN_COVERAGE:.0f} % of the {units}; the "
        f"longest, {short_kernel(trace.name_of(example))}, has {blocks:,} for {round(blocks / coverage[at]):,}",
        "Give each kernel more blocks: a larger batch, smaller tiles (max-autotune tries them), split-K for products "
        "with few rows and columns, or run independent kernels beside them on other streams.",
        example,
        action="enlarge the batch or run independent work beside them",
    )


@dataclass(frozen=True, eq=False)
class Underfilled:
    """Kernels whose grids leave multiprocessors empty; parallel arrays."""

    rows: Int64
    coverage: Float64
    """Blocks per multiprocessor."""
    blocks: Int64


def underfilled(scope: Scope) -> Underfilled:
    """Kernels with fewer blocks than the device has multiprocessors; none where they take little of the GPU time."""

    def find() -> Underfilled:
        trace, dur = scope.trace, scope.trace.slices.dur
        # One batched product has the blocks of all products of a loop.
        rows = scope.computing[dur[scope.computing] >= MIN_KERNEL_NS]
        rows = rows[~np.isin(rows, batchable_rows(scope))]
        setup = configuration(trace, rows)
        coverage = residency(trace, rows, setup).blocks_per_unit
        with np.errstate(invalid="ignore"):
            low = (coverage < MIN_COVERAGE) & ~_persistent(scope, rows, setup)
        if int(dur[rows[low]].sum()) < MIN_SHARE_OF_KERNEL_TIME * int(dur[scope.activities].sum()):
            low = np.zeros(len(rows), bool)
        blocks = np.array([math.prod(shape) for shape in setup.shapes] or [0], np.int64)
        return Underfilled(rows[low], coverage[low], blocks[setup.grid[low]])

    return scope.trace.remember(("underfilled", scope.step), find)


def _persistent(scope: Scope, rows: Int64, setup: Configuration) -> Bool:
    """Mask of the kernels whose number of blocks is chosen for the device and not for their size."""
    trace, dur = scope.trace, scope.trace.slices.dur
    calls = calls_of(scope, rows)
    kernel = combinations(trace.slices.name[rows])
    pairs = combinations(kernel.member, setup.grid)
    # A kernel with one grid for several sizes.
    grids = np.bincount(kernel.member[pairs.first], minlength=len(kernel))
    known = calls.signature >= 0
    sizes = combinations(kernel.member[known], calls.signature[known], calls.name[known])
    kinds = np.bincount(kernel.member[known][sizes.first], minlength=len(kernel))
    calls_known = np.bincount(kernel.member[known], minlength=len(kernel)) > 0
    several = kinds > 1
    if len(rows):
        groups = group(kernel.member)
        shortest, slowest = dur[rows[groups.smallest(dur[rows])]], dur[rows[groups.largest(dur[rows])]]
        several |= ~calls_known & (slowest > MAX_SPREAD * np.maximum(shortest, 1))
    constant: Bool = ((grids == 1) & several)[kernel.member]
    return constant | is_named(trace, rows, _PERSISTENT.search)
