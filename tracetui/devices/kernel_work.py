"""Work of every GPU activity: operations and bytes of the operator call that launched it, or captured it into a graph.

A call may launch several kernels (split-K and its reduction, layout conversions, a workspace that is cleared). Its work
is attributed to one of them, the main kernel: the longest matrix or attention kernel, else the longest. Rates divide by
the time of all of them, so that a share of a peak is never too high.

Work is computed once per distinct operator, signature and main kernel. Where strides, masks or types matter too, three
calls of each such group are read again (first, middle, last); where these differ the work is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tracetui.devices.formulas import (
    ATTENTIONS_NEEDING_VALUES,
    CONVOLUTIONS_NEEDING_VALUES,
    PRODUCTS_NEEDING_VALUES,
    attention,
    convolution,
    product,
)
from tracetui.devices.operands import NOTHING, Work
from tracetui.devices.operator_calls import OperatorCalls, operator_calls
from tracetui.devices.traffic import TRAFFIC_NEEDING_VALUES, traffic
from tracetui.kernel_names import Family, decode
from tracetui.linking.groups import Combinations, combinations
from tracetui.linking.links import links
from tracetui.model.intervals import Bool, Int64
from tracetui.model.strings import Strings
from tracetui.model.table import NULL
from tracetui.model.trace import Float64, Kind, Trace
from tracetui.operators.signatures import Signature, Signatures

_OPS_NEEDING_VALUES = (
    PRODUCTS_NEEDING_VALUES | CONVOLUTIONS_NEEDING_VALUES | ATTENTIONS_NEEDING_VALUES | TRAFFIC_NEEDING_VALUES
)
_HEAVY = (Family.GEMM, Family.ATTENTION)


@dataclass(frozen=True, eq=False)
class KernelWork:
    """One entry per GPU activity of the trace, in the order of `rows`."""

    rows: Int64
    """Slices, ascending."""
    main: Int64
    """Index in `rows` of the main kernel of the same call, often the activity itself; -1 for none."""
    flops: Float64
    """Operations of the call, at its main kernel; NaN elsewhere and where unknown."""
    bytes: Float64
    """Bytes likewise; of copies and fills as recorded."""
    span: Int64
    """Time in ns of all activities of the call, at its main kernel; elsewhere that of the activity."""
    precision: Int64
    """Id in `precisions`, -1 for none."""
    precisions: Strings
    group: Int64
    """Number of the group of equal calls (operator, signature, main kernel) at main kernels, -1 elsewhere."""
    signature: Int64
    """Id in `known` of the signature of the call, at main kernels, -1 where none was recorded."""
    known: Sequence[Signature]
    op: Int64
    """Id in `ops` of the operator of the call, at main kernels, -1 elsewhere."""
    ops: Sequence[str]
    captured: Bool
    """Mask of the replayed activities whose call is that at the capture of their graph: their work is inferred."""

    def at(self, rows: Int64) -> Int64:
        """Indices of GPU activities in the other arrays."""
        return np.searchsorted(self.rows, rows)


def kernel_work(trace: Trace) -> KernelWork:
    """The work of all GPU activities of the trace, computed once."""
    return trace.remember("kernel work", lambda: _make(trace))


def work_of(op: str, signature: Signature, values: Sequence[str] | None = None) -> Work:
    """The work of one call by its name, its inputs and, where they matter, the values of its arguments."""
    for rule in (product, convolution, attention, traffic):
        work = rule(op, signature, values)
        if work is not None:
            return work
    return NOTHING


def _make(trace: Trace) -> KernelWork:
    slices, rows = trace.slices, np.sort(links(trace).gpu)
    count = len(rows)
    every = operator_calls(trace, rows)
    main = _main_of_calls(trace, rows, every.call, len(every))
    at_main, of_call = main[main >= 0], np.flatnonzero(main >= 0)
    inputs = every.signatures_of(trace, of_call)
    groups = combinations(every.op[of_call], inputs.id, slices.name[rows[at_main]])
    precisions, ops = Strings(), Strings()
    used, member = np.unique(every.op[of_call], return_inverse=True)
    number = np.array([ops.intern(str(every.texts[each])) for each in used.tolist()], np.int64)
    works = _work_of_groups(trace, every, of_call, inputs, groups)
    result = KernelWork(
        rows=rows,
        main=np.where(every.call >= 0, main[every.call], -1) if len(every) else np.full(count, -1),
        flops=np.full(count, np.nan),
        bytes=np.full(count, np.nan),
        span=slices.dur[rows].copy(),
        precision=np.full(count, -1),
        precisions=precisions,
        group=np.full(count, -1),
        signature=np.full(count, -1),
        known=inputs.known,
        op=np.full(count, -1),
        ops=ops,
        captured=np.asarray(every.call >= every.first_captured),
    )
    _fill(result, at_main, groups, works)
    result.signature[at_main], result.op[at_main] = inputs.id, number[member]
    held = every.call >= 0
    result.span[at_main] = np.bincount(every.call[held], slices.dur[rows[held]], len(every))[of_call]
    copied = trace.work_args.number("bytes", slices.event[rows])
    recorded = (copied != NULL) & np.isin(slices.kind[rows], (Kind.MEMCPY, Kind.MEMSET))
    result.bytes[recorded] = copied[recorded]
    return result


def _fill(result: KernelWork, at_main: Int64, groups: Combinations, works: list[Work]) -> None:
    flops = np.array([np.nan if work.flops is None else work.flops for work in works])
    moved = np.array([np.nan if work.bytes is None else work.bytes for work in works])
    kinds = np.array([result.precisions.intern(work.precision) if work.precision else -1 for work in works], np.int64)
    result.group[at_main] = groups.member
    if works:
        result.flops[at_main] = flops[groups.member]
        result.bytes[at_main] = moved[groups.member]
        result.precision[at_main] = kinds[groups.member]


def _main_of_calls(trace: Trace, rows: Int64, call: Int64, count: int) -> Int64:
    """Index in `rows` of the main kernel of each call, -1 where it launched no kernel."""
    indices = np.flatnonzero((call >= 0) & (trace.slices.kind[rows] == Kind.KERNEL))
    order = indices[np.lexsort((trace.slices.dur[rows[indices]], _is_heavy(trace, rows[indices]), call[indices]))]
    main = np.full(count, -1, np.int64)
    main[call[order]] = order
    return main


def _is_heavy(trace: Trace, rows: Int64) -> Bool:
    used, index = np.unique(trace.slices.name[rows], return_inverse=True)
    decoded = [decode(trace.names[name]) for name in used.tolist()]
    heavy: Bool = np.array([each.family in _HEAVY and "helper" not in each.operation for each in decoded], bool)
    return heavy[index]


def _work_of_groups(
    trace: Trace, every: OperatorCalls, of_call: Int64, inputs: Signatures, groups: Combinations
) -> list[Work]:
    values = _values(trace, every, of_call, groups)
    works = []
    for number, index in enumerate(groups.first.tolist()):
        signature = inputs.of(index)
        op = str(every.texts[int(every.op[of_call[index]])])
        works.append(NOTHING if signature is None else work_of(op, signature, values.get(number)))
    return works


def _values(trace: Trace, every: OperatorCalls, of_call: Int64, groups: Combinations) -> dict[int, list[str]]:
    """The values of arguments of the groups where they matter and are equal in three calls."""
    ops = every.op[of_call]
    wanted = [number for number in np.unique(ops).tolist() if every.texts[number] in _OPS_NEEDING_VALUES]
    concerned = np.flatnonzero(np.isin(ops, wanted))
    if len(concerned) == 0:
        return {}
    order = concerned[np.argsort(groups.member[concerned], kind="stable")]
    member = groups.member[order]
    first = np.flatnonzero(np.diff(member, prepend=-1))
    last = np.append(first[1:], len(order)) - 1
    samples = order[np.stack([first, (first + last) // 2, last])]
    used, index = np.unique(samples.ravel(), return_inverse=True)
    given = every.values_of(trace, of_call[used])
    result = {}
    for column, number in zip(index.reshape(3, -1).T.tolist(), member[first].tolist(), strict=True):
        samples_of_group = [given[sample] for sample in column]
        if isinstance(samples_of_group[0], list) and samples_of_group[0] == samples_of_group[1] == samples_of_group[2]:
            result[number] = [text if isinstance(text, str) else "" for text in samples_of_group[0]]
    return result
