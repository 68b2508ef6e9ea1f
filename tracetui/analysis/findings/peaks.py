"""Rules about kernels that do far less than the device could."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracetui.analysis.common.lanes import is_named
from tracetui.analysis.findings.finding import Finding, Scope, Severity, longest
from tracetui.analysis.findings.words import counted, time
from tracetui.analysis.kernel_names import short_kernel
from tracetui.analysis.names import decode
from tracetui.analysis.work.roofline_table import roofline_table
from tracetui.model.trace import Kind

FAR = 50.0
"""Percent of the peak below which a call is far from it."""
MIN_SHARE_OF_GPU_TIME = 0.05
"""Share of the GPU's time that must lie above the roofline."""
LOADS = 4
"""Elements: a matrix kernel for operands aligned to fewer loads them one or two at a time."""

_ADVICE = {
    "memory": "Every byte is moved at that rate at best: read and write less. Fuse the op with its neighbours "
    "(torch.compile, or a fused form such as scaled_dot_product_attention), use smaller types, keep inputs contiguous.",
    "compute": "The matrix units could do more: see tile, alignment and waves of its kernel, try max-autotune, larger "
    "or rounder shapes, or a lower precision.",
}


def far_from_roofline(scope: Scope) -> Iterator[Finding]:
    """The operator that loses most time against what the device could do with the same work (3(i))."""
    table = roofline_table(scope.trace, scope.step)
    share, above = table["peak_pct"].values, table["above_us"].values
    total = float(scope.trace.slices.dur[scope.work].sum()) / 1000
    # Nulls compare as false.
    far = np.flatnonzero((share < FAR) & (above > MIN_SHARE_OF_GPU_TIME * total))  # type: ignore[operator]
    if len(far) == 0 or table.slices is None:
        return
    worst = int(far[np.argmax(above[far])])
    row = table.row(worst)
    cost = int(1000 * float(above[worst]))
    others = len(far) - 1
    yield Finding(
        "far-from-roofline",
        min(scope.weigh(cost), Severity.MINOR),
        f"{row['op']} is far from what the device could do",
        f"{counted(int(row['calls'] or 0), 'call')} with {row['input_shapes']}, "
        f"{time(1000 * float(row['total_us'] or 0))}, "
        f"{row['peak_pct']:.0f} % of the {'bandwidth' if row['bound'] == 'memory' else 'peak'}; "
        f"{time(cost)} more than the least" + (f"; {counted(others, 'more op')} like that" if others else ""),
        _ADVICE.get(str(row["bound"]), "See the Roofline pane."),
        int(table.slices[worst]),
        cost,
    )


def misaligned_products(scope: Scope) -> Iterator[Finding]:
    """Matrix kernels for operands that are not aligned, because a size is odd."""
    trace, slices = scope.trace, scope.trace.slices
    rows = scope.work[slices.kind[scope.work] == Kind.KERNEL]
    rows = rows[is_named(trace, rows, _is_misaligned)]
    cost = int(slices.dur[rows].sum())
    if cost == 0 or cost < MIN_SHARE_OF_GPU_TIME * int(slices.dur[scope.work].sum()):
        return
    example = longest(trace, rows)
    yield Finding(
        "misaligned-gemm",
        max(min(scope.weigh(cost), Severity.MAJOR), Severity.MINOR),
        "Matrix products of misaligned operands",
        f"{scope.per_step(len(rows), 'kernel')}, {time(cost)}, {scope.share(cost)}; the longest, "
        f"{short_kernel(trace.name_of(example))}",
        "A size that is no multiple of 8 makes the library load single elements. Pad it (sequence length, vocabulary, "
        "hidden size) to a multiple of 8, better of 64.",
        example,
        cost,
    )


def _is_misaligned(name: str) -> bool:
    found = decode(name)
    return found.align is not None and found.align < LOADS and found.tensor_core is True
