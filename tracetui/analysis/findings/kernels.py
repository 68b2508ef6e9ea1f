"""Rules about kernels: far from the roofline, misaligned, tiny, uneven, or too small for the device."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracetui.analysis.common.groups import combinations, group
from tracetui.analysis.common.lanes import is_named
from tracetui.analysis.devices.configuration import configuration
from tracetui.analysis.devices.residency import residency
from tracetui.analysis.findings.finding import Finding, Severity
from tracetui.analysis.findings.scope import Scope, longest
from tracetui.analysis.idle.exposure import communicates
from tracetui.analysis.kernel_names import Family, short_kernel
from tracetui.analysis.linking.placement import step_index
from tracetui.analysis.names import LAYOUT_CONVERSION, decode
from tracetui.analysis.work.roofline import roofline_table
from tracetui.model.intervals import Bool, Int64
from tracetui.model.quantities import counted, duration, rounded_percent
from tracetui.model.trace import Kind, Trace

FAR_PEAK_PERCENT = 50.0
"""Percent of the peak below which a call is far from the roofline."""
MIN_SHARE_OF_GPU_TIME = 0.05
"""Minimum share of the GPU time above the roofline, or in misaligned kernels."""
MIN_ALIGNED_ELEMENTS = 4
"""Minimum alignment in elements; a kernel for less loads one or two elements at a time."""

_ADVICE = {
    "memory": "Every byte is moved at that rate at best: read and write less. Fuse the op with its neighbours "
    "(torch.compile, or a fused form such as scaled_dot_product_attention), use smaller types, keep inputs contiguous.",
    "compute": "The Tensor Cores (Matrix Cores on AMD) could do more: see tile, alignment and waves of its kernel, "
    "try max-autotune, larger or rounder shapes, or a lower precision.",
}


def far_from_roofline(scope: Scope) -> Iterator[Finding]:
    """The operator that loses most time against the roofline (3(i))."""
    table = roofline_table(scope.trace, scope.step)
    share, above = table["peak_pct"].values, table["above_us"].values
    total = float(scope.trace.slices.dur[scope.activities].sum()) / 1000
    # Nulls compare as false.
    far = np.flatnonzero((share < FAR_PEAK_PERCENT) & (above > MIN_SHARE_OF_GPU_TIME * total))  # type: ignore[operator]
    if len(far) == 0 or table.slices is None:
        return
    worst = int(far[np.argmax(above[far])])
    row = table.row(worst)
    cost = int(1000 * float(above[worst]))
    others = len(far) - 1
    yield from scope.priced(
        "far-from-roofline",
        cost,
        f"{row['op']} is far below the roofline",
        f"{counted(int(row['calls'] or 0), 'call')} with {row['input_shapes']}, "
        f"{duration(1000 * float(row['total_us'] or 0))}, "
        f"{rounded_percent(float(row['peak_pct'] or 0))} of the {'bandwidth' if row['bound'] == 'memory' else 'peak'}; "
        f"{duration(cost)} above the roofline" + (f"; {counted(others, 'more op')} like that" if others else ""),
        _ADVICE.get(str(row["bound"]), "See the Roofline pane."),
        int(table.slices[worst]),
        at_most=Severity.MINOR,
    )


def misaligned_products(scope: Scope) -> Iterator[Finding]:
    """Matrix kernels for misaligned operands, because a size is odd."""
    trace, slices = scope.trace, scope.trace.slices
    rows = scope.activities[slices.kind[scope.activities] == Kind.KERNEL]
    rows = rows[is_named(trace, rows, _is_misaligned)]
    cost = int(slices.dur[rows].sum())
    if cost == 0 or cost < MIN_SHARE_OF_GPU_TIME * int(slices.dur[scope.activities].sum()):
        return
    example = longest(trace, rows)
    yield from scope.priced(
        "misaligned-gemm",
        cost,
        "Matrix products of misaligned operands",
        f"{scope.per_step(len(rows), 'kernel')}, {duration(cost)}, {scope.share(cost)}; the longest, "
        f"{short_kernel(trace.name_of(example))}",
        "A size that is no multiple of 8 makes the library load single elements. Pad it (sequence length, vocabulary, "
        "hidden size) to a multiple of 8, better of 64.",
        example,
    )


def _is_misaligned(name: str) -> bool:
    decoded = decode(name)
    return decoded.align is not None and decoded.align < MIN_ALIGNED_ELEMENTS and decoded.tensor_core is True


MAX_TINY_NS = 10_000
"""Maximum duration of a tiny kernel, which hardly takes longer than its launch."""
MIN_RUN_KERNELS = 3
"""Minimum tiny kernels in a row."""
_FUSIBLE = (Family.POINTWISE, Family.REDUCTION, Family.COPY)
_UNFUSIBLE = frozenset({"sort", "select", "search", "sampling", "routing", LAYOUT_CONVERSION})
"""Operations of these families that no compiler fuses with their neighbours."""

MIN_UNEVEN_RATIO = 2.0
"""Minimum duration of an uneven kernel, relative to its median."""
MIN_WAVES = 0.5
"""Minimum waves of a grid; with fewer most of the device is empty."""
MIN_TAIL_PERCENT = 40.0
"""Minimum percent of empty slots in the last wave of a ragged grid."""
MIN_SHARE_OF_KERNEL_TIME = 0.1
"""Minimum share of the kernels' time in grids that do not fill the device."""
MIN_CALLS = 4
"""Minimum calls for a median."""


def tiny_kernels(scope: Scope) -> Iterator[Finding]:
    """Small elementwise kernels in a row on a stream, which one kernel could replace."""
    trace, slices = scope.trace, scope.trace.slices
    rows = scope.activities[slices.kind[scope.activities] == Kind.KERNEL]
    rows = rows[np.lexsort((slices.start[rows], slices.lane[rows]))]
    good = (slices.dur[rows] < MAX_TINY_NS) & _fusible(trace, rows)
    runs = _runs(good, slices.lane[rows], step_index(trace, rows))
    if len(runs) == 0:
        return
    first, last = runs.T
    spent = slices.end[rows[last - 1]] - slices.start[rows[first]]
    longest = int(np.argmax(last - first))
    count = int((last - first).sum())
    members = rows[np.repeat(first, last - first) + _ramp(last - first)]
    cost = int(slices.dur[members].sum())
    yield from scope.priced(
        "tiny-kernels",
        cost,
        "Small kernels in a row that could be fewer",
        f"{scope.per_step(count, 'kernel')} in {counted(len(runs), 'run')} of up to {int((last - first).max()):,}, "
        f"median {duration(float(np.median(slices.dur[members])))}, {duration(cost)} together, {scope.share(cost)}; "
        f"{duration(int(spent.sum()))} from the first kernel of a run to its last, gaps included",
        "Each kernel reads and writes memory and is launched on its own. torch.compile fuses them; by hand, write "
        "the expression as one kernel or use a fused op.",
        int(rows[first[longest]]),
    )


def uneven_kernels(scope: Scope) -> Iterator[Finding]:
    """Calls of the same kernel with the same grid take very different times."""
    trace, slices = scope.trace, scope.trace.slices
    rows = scope.activities[slices.kind[scope.activities] == Kind.KERNEL]
    rows = rows[~communicates(trace, rows)]
    if len(rows) == 0:
        return
    setup = configuration(trace, rows)
    same = group(combinations(slices.name[rows], setup.grid, setup.block).member)
    dur = slices.dur[rows]
    median = same.median(dur)
    slowest = same.largest(dur)
    excess = same.sum(np.maximum(dur - median[same.member], 0))
    uneven = (same.calls >= MIN_CALLS) & (dur[slowest] > MIN_UNEVEN_RATIO * np.maximum(median, 1))
    uneven &= excess > 0.02 * max(int(dur.sum()), 1)
    if not uneven.any():
        return
    worst = int(np.argmax(np.where(uneven, excess, -1)))
    row = int(rows[slowest[worst]])
    others = int(uneven.sum()) - 1
    yield from scope.priced(
        "uneven-kernels",
        int(excess[worst]),
        "The same kernel takes different times",
        f"{short_kernel(trace.name_of(row))}: {counted(int(same.calls[worst]), 'call')} with one grid, median "
        f"{duration(float(median[worst]))}, up to {duration(int(dur[slowest[worst]]))}"
        + (f"; {counted(others, 'more kernel')} like that" if others else ""),
        "Same code and same grid: what differs is the data (other shapes, other strides, cold caches), the clock, or "
        "what ran beside it. Compare a slow and a fast call: their ops, inputs and neighbours.",
        row,
        at_most=Severity.MINOR,
    )


def low_waves(scope: Scope) -> Iterator[Finding]:
    """Kernels whose grid is too small for the device, or slightly too large for a whole number of waves."""
    trace, slices = scope.trace, scope.trace.slices
    rows = scope.activities[slices.kind[scope.activities] == Kind.KERNEL]
    rows = rows[(slices.dur[rows] >= MAX_TINY_NS) & ~communicates(trace, rows)]
    if len(rows) == 0:
        return
    fit = residency(trace, rows, configuration(trace, rows))
    small = fit.waves < MIN_WAVES
    ragged = (fit.waves > 1) & (fit.tail > MIN_TAIL_PERCENT)
    total = int(slices.dur[scope.activities].sum())
    cost = int(slices.dur[rows[small | ragged]].sum())
    if cost < MIN_SHARE_OF_KERNEL_TIME * total:
        return
    worst = np.flatnonzero(small | ragged)
    worst = worst[np.argsort(slices.dur[rows[worst]])]
    example = int(rows[worst[-1]])
    counts = [
        (int(small.sum()), f"with less than {MIN_WAVES:g} waves"),
        (int(ragged.sum()), "with most of the last wave empty"),
    ]
    summary = ", ".join(f"{counted(number, 'kernel')} {what}" for number, what in counts if number)
    yield from scope.priced(
        "low-waves",
        cost,
        "Kernels that do not fill the device",
        f"{summary}: {rounded_percent(100 * cost / max(total, 1))} of the kernels' time; the longest, "
        f"{short_kernel(trace.name_of(example))}, has {fit.waves[worst[-1]]:.2f} waves",
        "Too few blocks for all multiprocessors, or a last wave that leaves most of them idle. A larger batch, other "
        "tile sizes (max-autotune), or split-K give the device more to do at once.",
        example,
        at_most=Severity.MINOR,
    )


def _fusible(trace: Trace, rows: Int64) -> Bool:
    def fusible(name: str) -> bool:
        decoded = decode(name)
        return decoded.family in _FUSIBLE and decoded.operation not in _UNFUSIBLE

    return is_named(trace, rows, fusible)


def _runs(good: Bool, *same: np.ndarray[tuple[int], np.dtype[np.integer]]) -> Int64:
    """First and last index (exclusive) of each run of at least `MIN_RUN_KERNELS` good entries that agree in all of
    `same`.
    """
    if not good.any():
        return np.empty((0, 2), np.int64)
    breaks = np.ones(len(good) + 1, bool)
    breaks[1:-1] = good[1:] != good[:-1]
    for values in same:
        breaks[1:-1] |= values[1:] != values[:-1]
    edges = np.flatnonzero(breaks)
    first, last = edges[:-1], edges[1:]
    kept = good[first] & (last - first >= MIN_RUN_KERNELS)
    return np.stack([first[kept], last[kept]], axis=1)


def _ramp(counts: Int64) -> Int64:
    """0, 1, 2 ... for each of the counts, one after another."""
    return np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
