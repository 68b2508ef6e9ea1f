"""Rule about equal calls of one kernel that take very different times."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np

from tracetui.devices.configuration import configuration
from tracetui.findings.calls import Calls, calls_of
from tracetui.findings.finding import Finding
from tracetui.findings.scope import Scope
from tracetui.kernel_names import Family, decode
from tracetui.kernel_names.slice_names import short_kernel
from tracetui.linking.groups import Groups, combinations, group
from tracetui.linking.lanes import is_named
from tracetui.linking.links import links
from tracetui.model.intervals import Bool, Int64, covered_within, union
from tracetui.model.quantities import counted, duration, rounded_percent

MIN_UNEVEN_RATIO = 2.0
"""Minimum duration of an uneven call, relative to the median of the calls that are equal to it."""
MIN_CALLS = 4
"""Minimum equal calls for a median."""
MIN_EXCESS = 0.02
"""Minimum excess of the slow calls, as a share of the time of the kernels."""
MAX_WINDOW = 0.25
"""Maximum share of the time from the first call to the last in which slow calls lie close together."""
_BY_DATA = frozenset({"sort", "select", "search", "scatter", "embedding", "histogram", "scan", "sampling", "routing"})
"""Operations whose time depends on the values and not on the sizes alone."""


def uneven_kernels(scope: Scope) -> Iterator[Finding]:
    """Calls of the same kernel by the same operator with the same shapes and strides take very different times."""
    trace = scope.trace
    rows = scope.computing[~is_named(trace, scope.computing, depends_on_data)]
    calls = calls_of(scope, rows)
    calls = calls.take(calls.signature >= 0)
    if len(calls.kernel) == 0:
        return
    dur = trace.slices.dur[calls.kernel]
    same = _equal_calls(scope, calls)
    median = same.median(dur)[same.member]
    long = (same.calls >= MIN_CALLS)[same.member] & (dur > MIN_UNEVEN_RATIO * np.maximum(median, 1))
    slow: Int64 = np.flatnonzero(long)
    slow = slow[_same_strides(scope, calls, same, slow)]
    excess = (dur - median)[slow]
    if len(slow) == 0 or excess.sum() < MIN_EXCESS * trace.slices.dur[scope.computing].sum():
        return
    late = calls.kernel[slow]
    worst = slow[int(np.argmax(excess))]
    price = int(scope.gpu_cost(late) * float(excess.sum()) / float(dur[slow].sum()))
    others = f" and {counted(len(names) - 1, 'other kernel')}" if len(names := np.unique(calls.name[slow])) > 1 else ""
    beside, words = _surroundings(scope, late)
    yield from scope.priced(
        "uneven-kernels",
        price,
        "Equal calls of the same kernel take very different times",
        f"{counted(len(slow), 'call')} took more than twice the median of equal calls (operator, shapes and grid), "
        f"{duration(float(excess.sum()))} more: {short_kernel(trace.name_of(int(calls.kernel[worst])))}{others}, "
        f"median {duration(float(median[worst]))}, up to {duration(int(dur[worst]))}; {words}",
        "Other streams ran beside them: they shared the device, so move that work or give it fewer blocks."
        if beside
        else "The work is the same, so the device was not: look at clock and power (nvidia-smi -q -d PERFORMANCE), and "
        "for another process on it.",
        int(calls.kernel[worst]),
        action="find out what slows the device down" if not beside else "separate the work that shares the device",
    )


def _equal_calls(scope: Scope, calls: Calls) -> Groups:
    setup = configuration(scope.trace, calls.kernel)
    kernel = scope.trace.slices.name[calls.kernel]
    position = _positions(calls)
    return group(combinations(kernel, calls.name, calls.signature, setup.grid, setup.block, position).member)


def _positions(calls: Calls) -> Int64:
    """Number of the kernel within its call: 0 for the first; a call may run one kernel for each of its results."""
    order = np.argsort(calls.op, kind="stable")
    fresh = np.ones(len(order), bool)
    fresh[1:] = calls.op[order][1:] != calls.op[order][:-1]
    heads = np.flatnonzero(fresh)
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order)) - np.repeat(heads, np.diff(np.append(heads, len(order))))
    return position


def _same_strides(scope: Scope, calls: Calls, same: Groups, slow: Int64) -> Bool:
    """Mask of the slow calls whose strides are those of the call of median duration.

    Where no strides were recorded, that is known of kernels that read tensors in order only.
    """
    trace = scope.trace
    order = np.lexsort((trace.slices.dur[calls.kernel], same.member))
    first = np.searchsorted(same.member[order], same.member[slow])
    usual = order[first + same.calls[same.member[slow]] // 2]
    (mine,) = trace.args_of(calls.op[slow], ["Input Strides"])
    (theirs,) = trace.args_of(calls.op[usual], ["Input Strides"])
    in_order = is_named(trace, calls.kernel[slow], _reads_in_order)
    equal = [a == b and a is not None for a, b in zip(mine, theirs, strict=True)]
    unknown = [a is None and b is None for a, b in zip(mine, theirs, strict=True)]
    mask: Bool = np.array(equal, bool) | (np.array(unknown, bool) & in_order)
    return mask


@cache
def _reads_in_order(name: str) -> bool:
    decoded = decode(name)
    return decoded.vector is not None or decoded.family in (Family.GEMM, Family.ATTENTION)


def _surroundings(scope: Scope, rows: Int64) -> tuple[bool, str]:
    """Whether other activities ran beside most of the slow calls, and when these were, in words."""
    slices = scope.trace.slices
    every = links(scope.trace).gpu
    others = every[~np.isin(every, rows)]
    start, end = slices.start[rows], slices.end[rows]
    shared = covered_within(*union(slices.start[others], slices.end[others]), start, end)
    part = float(shared.sum()) / max(float((end - start).sum()), 1.0)
    computing = scope.computing
    whole = int(slices.end[computing].max() - slices.start[computing].min())
    window = int(end.max() - start.min())
    when = f"all within {duration(window)}" if window < MAX_WINDOW * whole else "spread over the recording"
    beside = f"other activities ran beside them for {rounded_percent(100 * part)} of their time"
    return part > 0.5, f"{when}; {beside if part > 0.01 else 'nothing ran beside them'}"


@cache
def depends_on_data(name: str) -> bool:
    """Whether the time of a kernel may depend on the values it reads, or on others, and not on sizes alone."""
    decoded = decode(name)
    return decoded.family in (Family.OTHER, Family.COMMUNICATION) or decoded.operation in _BY_DATA
