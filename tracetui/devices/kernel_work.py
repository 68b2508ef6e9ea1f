"""Work of every GPU activity: operations and bytes of the operator call that launched it, or captured it into a graph.

A call may launch several kernels (split-K and its reduction, layout conversions, a workspace that is cleared). Its work
is attributed to one of them, the main kernel: the longest matrix or attention kernel, else the longest. Rates divide by
the time of all of them, so that a share of a peak is never too high.

Work is computed once per distinct operator, signature and main kernel. Where strides, masks or types matter too, three
calls of each such group are read again (first, middle, last); where these differ the work is unknown.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracetui.devices.descriptions import device_index, peaks_of
from tracetui.devices.formulas import (
    ATTENTIONS_NEEDING_VALUES,
    CONVOLUTIONS_NEEDING_VALUES,
    NOTHING,
    PRODUCTS_NEEDING_VALUES,
    Operands,
    Work,
    attention,
    broadcast,
    convolution,
    is_floating,
    is_paged_attention,
    paged_attention,
    product,
    size_of,
    total,
)
from tracetui.devices.peaks import Peaks
from tracetui.frozen import frozen
from tracetui.kernel_names import Family, decode
from tracetui.linking.graph_nodes import GraphNodes, graph_nodes
from tracetui.linking.groups import Combinations, combinations
from tracetui.linking.links import links
from tracetui.linking.placement import step_index
from tracetui.linking.step_kinds import step_kinds
from tracetui.model.intervals import Bool, Int64
from tracetui.model.results import kept
from tracetui.model.table import NULL, Strings
from tracetui.model.trace import Float64, Kind, Trace
from tracetui.operators.key_averages import Signature, Signatures, signature_of, signatures

# The operator calls that launched GPU activities, and those that captured the activities of replayed graphs.
#
# A captured call ran once, while its graph was recorded; it stands here once for each replay (R3.40).


@frozen
class OperatorCalls:
    """One entry per call, those of captured operators behind the others."""

    call: Int64
    """The call of each GPU activity that was asked for, -1 for none; unlike the others not one entry per call."""
    row: Int64
    """The slice of the operator, -1 where it was captured."""
    entry: Int64
    """The entry in `nodes` of one of its activities, -1 where it was not captured."""
    op: Int64
    """Id in `texts` of the operator's name."""
    texts: Sequence[str]
    nodes: GraphNodes

    def signatures_of(self, trace: Trace, calls: Int64) -> Signatures:
        """The signatures of some calls."""
        own = signatures(trace, self.row[calls])
        captured = np.flatnonzero(self.entry[calls] >= 0)
        if len(captured) == 0:
            return own
        entry = self.entry[calls[captured]]
        pairs = combinations(self.nodes.shapes[entry], self.nodes.types[entry])
        firsts = entry[pairs.first].tolist()
        more = [
            signature_of(self._text(self.nodes.shapes[each]), self._text(self.nodes.types[each])) for each in firsts
        ]
        ids = own.id.copy()
        ids[captured] = len(own.known) + pairs.member
        return Signatures(ids, [*own.known, *more])

    def values_of(self, trace: Trace, calls: Int64) -> list[Any]:
        """The values of the arguments of some calls, None where they are not known."""
        recorded = np.flatnonzero(self.row[calls] >= 0)
        values_by_call: list[Any] = [None] * len(calls)
        if len(recorded):
            given = trace.args_of(self.row[calls[recorded]], ["Concrete Inputs"])[0]
            for index, values in zip(recorded.tolist(), given, strict=True):
                values_by_call[index] = values
        for index in np.flatnonzero(self.entry[calls] >= 0).tolist():
            text = self._text(self.nodes.values[self.entry[calls[index]]])
            values_by_call[index] = json.loads(text) if text else None
        return values_by_call

    def _text(self, number: int) -> str:
        return str(self.nodes.texts[int(number)]) if number >= 0 else ""


def operator_calls(trace: Trace, rows: Int64) -> OperatorCalls:
    """The calls behind GPU activities."""
    calls, call = _launching(trace, rows)
    nodes = graph_nodes(trace)
    entry = nodes.index_of(rows)
    captured = np.flatnonzero((entry >= 0) & (trace.slices.kind[rows] != Kind.MEMCPY))
    captured = captured[
        (nodes.op_call[entry[captured]] >= 0) & (nodes.op[entry[captured]] >= 0) & (nodes.shapes[entry[captured]] >= 0)
    ]
    op = trace.slices.name[calls].astype(np.int64)
    if len(captured) == 0:
        return OperatorCalls(call, calls, np.full(len(calls), -1, np.int64), op, trace.names, nodes)
    mine = entry[captured]
    alike = combinations(links(trace).launch[rows[captured]], nodes.recording[mine], nodes.op_call[mine])
    call[captured] = len(calls) + alike.member
    texts = Strings(trace.names)
    number = np.array([texts.intern(text) for text in nodes.texts], np.int64)
    none = np.full(len(alike), -1, np.int64)
    return OperatorCalls(
        call,
        np.concatenate([calls, none]),
        np.concatenate([np.full(len(calls), -1, np.int64), mine[alike.first]]),
        np.concatenate([op, number[nodes.op[mine[alike.first]]]]),
        texts,
        nodes,
    )


def _launching(trace: Trace, rows: Int64) -> tuple[Int64, Int64]:
    """The operator calls that launched activities, and the number of the call of each activity, -1 for none.

    Nodes of a replayed graph do not belong to the operator around the replay.
    """
    trace_links = links(trace)
    replayed = np.zeros(len(trace.slices), bool)
    counts = trace_links.counts
    replayed[trace_links.launched[np.repeat(counts > 1, counts)]] = True
    owner = np.where(replayed[rows], -1, trace_links.owner[rows])
    # A copy has its own number of bytes.
    owner[trace.slices.kind[rows] == Kind.MEMCPY] = -1
    calls, call = np.unique(owner, return_inverse=True)
    has_none = len(calls) > 0 and calls[0] < 0
    return calls[1:] if has_none else calls, call.astype(np.int64) - int(has_none)


# Operators bound by memory: what they must read and write, from the shapes and types of their inputs.
#
# Inputs count with all their elements, also where strides repeat some. Results of reductions are left out, since a
# trace does not hold their shape: that is a lower bound, as for generated kernels, whose results are unknown.

Values = Sequence[str] | None
COMPILED = "triton_"
"""Prefix of operators that torch.compile writes around its kernels."""

_UNARY = """
    abs neg exp exp2 log log2 log10 log1p expm1 sqrt rsqrt reciprocal sigmoid tanh relu silu gelu elu leaky_relu
    hardswish hardsigmoid hardtanh softplus mish erf erfc sin cos clamp clamp_min clamp_max nan_to_num bitwise_not
    sign sgn floor ceil round trunc triu tril cumsum flip roll _softmax _log_softmax log_sigmoid_forward threshold
"""
_BINARY = """
    add sub rsub mul div true_divide floor_divide remainder fmod pow maximum minimum fmax fmin atan2 bitwise_and
    bitwise_or bitwise_xor masked_fill lerp sigmoid_backward tanh_backward threshold_backward gelu_backward
    silu_backward leaky_relu_backward hardswish_backward hardtanh_backward softplus_backward
    _softmax_backward_data _log_softmax_backward_data native_dropout_backward prelu
"""
_TERNARY = "addcmul addcdiv mse_loss_backward smooth_l1_loss_backward"
_TESTS = "eq ne lt le gt ge logical_and logical_or logical_xor logical_not isnan isinf isfinite"
"""Operators that write one byte per element."""
_ARITHMETIC = ("add", "sub", "mul", "div")
"""Operators with one operation per element; for others the number depends on the implementation."""
_ROWWISE = {
    "native_layer_norm": (0, 2, 3),
    "_fused_rms_norm": (0, 2),
    "native_group_norm": (0, 1, 2),
    "cudnn_batch_norm": (0, 1, 2),
    "miopen_batch_norm": (0, 1, 2),
    "native_batch_norm": (0, 1, 2),
    "native_layer_norm_backward": (1, 0, 3, 4, 5),
    "native_group_norm_backward": (1, 0, 2, 3, 4),
    "cudnn_batch_norm_backward": (0, 1, 2, 5, 6),
    "miopen_batch_norm_backward": (0, 1, 2, 5, 6),
    "native_batch_norm_backward": (1, 0, 2, 5, 6),
}
"""Inputs that are read; the result is as large as the first of them."""
_REDUCTIONS = """
    sum mean amax amin max min prod any all argmax argmin norm linalg_vector_norm var std var_mean logsumexp
    count_nonzero nll_loss_forward
"""

_ALONG = ("sum", "mean", "amax", "amin")
"""Reductions whose second argument is the list of dimensions."""


def traffic(op: str, signature: Signature, values: Values = None) -> Work | None:
    """The work of an operator that moves data, None for an unknown one."""
    if op.startswith(COMPILED):
        # A generated kernel: each tensor once, read or written; the recording does not tell which.
        inputs = Operands(signature)
        known = [size for index in range(len(signature.dims)) if inputs.shape(index) and (size := inputs.bytes(index))]
        return Work(None, sum(known)) if known else NOTHING
    rule = _RULES.get(op.removeprefix("aten::")) if op.startswith("aten::") else None
    return rule(Operands(signature), values) if rule else None


def _elementwise(indices: Sequence[int], base: str, in_place: bool) -> Callable[[Operands, Values], Work]:
    def work(inputs: Operands, _: Values) -> Work:
        shapes = [inputs.shape(index) for index in indices]
        known = [shape for shape in shapes if shape is not None]
        result = inputs.shape(0) if in_place else broadcast(known)
        kind = inputs.type(0) if in_place else "bool" if base in _TESTS.split() else inputs.result_type(indices)
        if result is None or not any(known):
            return NOTHING
        # Numbers are no traffic; a tensor of rank 0 is next to none.
        read = [inputs.bytes(index) for index, shape in zip(indices, shapes, strict=True) if shape]
        size, count = size_of(kind), math.prod(result)
        moved = None if size is None else total(*read, count * size)
        if base in _ARITHMETIC and is_floating(kind):
            return Work(float(count), moved, "fp32")
        return Work(None, moved)

    return work


def _where(inputs: Operands, _: Values) -> Work:
    result = broadcast([shape for index in range(3) if (shape := inputs.shape(index))])
    size = size_of(inputs.result_type((1, 2)))
    if not result or size is None:
        return NOTHING
    read = [inputs.bytes(index) for index in range(3) if inputs.shape(index)]
    return Work(None, total(*read, math.prod(result) * size))


def _written(inputs: Operands, _: Values) -> Work:
    return Work(None, inputs.bytes(0))


def _rowwise(indices: Sequence[int]) -> Callable[[Operands, Values], Work]:
    def work(inputs: Operands, _: Values) -> Work:
        if not inputs.shape(indices[0]):
            return NOTHING
        read = [inputs.bytes(index) for index in indices if inputs.shape(index) and inputs.type(index)]
        return Work(None, total(*read, inputs.bytes(indices[0])))

    return work


def _reduced(inputs: Operands, _: Values) -> Work:
    return Work(None, inputs.bytes(0)) if inputs.shape(0) else NOTHING


def _along(inputs: Operands, values: Values) -> Work:
    """Reductions along some dimensions, whose result is written; along all it is one number."""
    shape, size = inputs.shape(0), size_of(inputs.type(0))
    if not shape or size is None:
        return NOTHING
    given = values[1].strip("[]").split(",") if values is not None and len(values) > 1 else []
    dims = [int(text) for text in given if text.strip().removeprefix("-").isdecimal()]
    if len(dims) < len(given) or not dims or not all(-len(shape) <= dim < len(shape) for dim in dims):
        return _reduced(inputs, values)
    reduced = {dim % len(shape) for dim in dims}
    left = math.prod(length for dim, length in enumerate(shape) if dim not in reduced)
    # Sums of whole numbers are wider than these.
    return Work(None, total(inputs.bytes(0), left * size if is_floating(inputs.type(0)) else 0))


def _rows_of(inputs: Operands, _: Values) -> Work:
    """`embedding`: the requested rows, read and written."""
    table, size = inputs.shape(0), size_of(inputs.type(0))
    asked = inputs.shape(1)
    if not table or asked is None or size is None:
        return NOTHING
    return Work(None, total(2.0 * math.prod(asked) * math.prod(table[1:]) * size, inputs.bytes(1)))


def _selected(inputs: Operands, values: Values) -> Work:
    """`index_select`: the requested slices along a dimension, read and written."""
    table, asked, size = inputs.shape(0), inputs.shape(2), size_of(inputs.type(0))
    dim = values[1] if values is not None and len(values) > 1 else ""
    if not table or asked is None or size is None or not dim.removeprefix("-").isdecimal():
        return NOTHING
    if not -len(table) <= int(dim) < len(table) or table[int(dim)] == 0:
        return NOTHING
    rows = math.prod(table) // table[int(dim)] * math.prod(asked)
    return Work(None, total(2.0 * rows * size, inputs.bytes(2)))


def _gathered(inputs: Operands, _: Values) -> Work:
    asked, size = inputs.shape(2), size_of(inputs.type(0))
    return Work(None, total(2.0 * math.prod(asked) * size, inputs.bytes(2))) if asked and size else NOTHING


def _put(inputs: Operands, _: Values) -> Work:
    """`index_put_`: the values, read and written."""
    values = inputs.bytes(2)
    return Work(None, None if values is None else 2 * values)


def _table() -> dict[str, Callable[[Operands, Values], Work]]:
    rules: dict[str, Callable[[Operands, Values], Work]] = {
        "where": _where,
        "copy_": lambda inputs, _: Work(None, total(inputs.bytes(0), inputs.bytes(1))),
        "fill_": _written,
        "zero_": _written,
        "embedding": _rows_of,
        "index_select": _selected,
        "gather": _gathered,
        "index_put_": _put,
        "_index_put_impl_": _put,
    }
    rules |= {name: _rowwise(indices) for name, indices in _ROWWISE.items()}
    rules |= dict.fromkeys(_REDUCTIONS.split(), _reduced)
    rules |= dict.fromkeys(_ALONG, _along)
    for names, indices in ((_UNARY, (0,)), (_BINARY, (0, 1)), (_TERNARY, (0, 1, 2)), (_TESTS, (0, 1))):
        for name in names.split():
            rules[name] = _elementwise(indices, name, in_place=False)
            rules[f"{name}_"] = _elementwise(indices, name, in_place=True)
    return rules


_RULES = _table()
TRAFFIC_NEEDING_VALUES = frozenset({"aten::index_select", *(f"aten::{name}" for name in _ALONG)})
"""Operators whose work depends on the values of arguments."""


_OPS_NEEDING_VALUES = (
    PRODUCTS_NEEDING_VALUES | CONVOLUTIONS_NEEDING_VALUES | ATTENTIONS_NEEDING_VALUES | TRAFFIC_NEEDING_VALUES
)
_HEAVY = (Family.GEMM, Family.ATTENTION)


@frozen
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
    is_partial: Bool
    """Mask of the calls of attention faster than their whole context allows: their work is not known (R3.99)."""
    captured: Bool
    """Mask of the replayed activities whose call is that at the capture of their graph: their work is inferred."""

    def at(self, rows: Int64) -> Int64:
        """Indices of GPU activities in the other arrays."""
        return np.searchsorted(self.rows, rows)


@kept(on_disk=True)
def kernel_work(trace: Trace) -> KernelWork:
    """The work of all GPU activities of the trace, computed once."""
    slices, rows = trace.slices, np.sort(links(trace).gpu)
    count = len(rows)
    operators = operator_calls(trace, rows)
    # Index in `rows` of the main kernel of each call, -1 where it launched no kernel.
    indices = np.flatnonzero((operators.call >= 0) & (trace.slices.kind[rows] == Kind.KERNEL))
    names, index = np.unique(trace.slices.name[rows[indices]], return_inverse=True)
    decoded = [decode(trace.names[name]) for name in names.tolist()]
    heavy: Bool = np.array([each.family in _HEAVY and "helper" not in each.operation for each in decoded], bool)
    order = indices[np.lexsort((trace.slices.dur[rows[indices]], heavy[index], operators.call[indices]))]
    main = np.full(len(operators.row), -1, np.int64)
    main[operators.call[order]] = order
    at_main, of_call = main[main >= 0], np.flatnonzero(main >= 0)
    inputs = operators.signatures_of(trace, of_call)
    groups = combinations(operators.op[of_call], inputs.id, slices.name[rows[at_main]])
    precisions, ops = Strings(), Strings()
    used, member = np.unique(operators.op[of_call], return_inverse=True)
    number = np.array([ops.intern(str(operators.texts[each])) for each in used.tolist()], np.int64)
    works = _work_of_groups(trace, operators, of_call, inputs, groups)
    result = KernelWork(
        rows=rows,
        main=np.where(operators.call >= 0, main[operators.call], -1) if len(operators.row) else np.full(count, -1),
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
        is_partial=np.zeros(count, bool),
        captured=np.asarray(operators.call >= int((operators.row >= 0).sum())),
    )
    _fill(result, at_main, groups, works)
    paged = np.array([is_paged_attention(str(operators.texts[each])) for each in used.tolist()], bool)[member]
    result.signature[at_main], result.op[at_main] = inputs.id, number[member]
    has_call = operators.call >= 0
    result.span[at_main] = np.bincount(operators.call[has_call], slices.dur[rows[has_call]], len(operators.row))[
        of_call
    ]
    if paged.any():
        _fill_paged(trace, result, at_main, np.flatnonzero(paged), inputs)
        _drop_partial(trace, result, at_main[paged])
    copied = trace.work_args.number("bytes", slices.event[rows])
    recorded = (copied != NULL) & np.isin(slices.kind[rows], (Kind.MEMCPY, Kind.MEMSET))
    result.bytes[recorded] = copied[recorded]
    return result


def work_of(op: str, signature: Signature, values: Sequence[str] | None = None) -> Work:
    """The work of one call by its name, its inputs and, where they matter, the values of its arguments."""
    for rule in (product, convolution, attention, traffic):
        work = rule(op, signature, values)
        if work is not None:
            return work
    return NOTHING


def _fill(result: KernelWork, at_main: Int64, groups: Combinations, works: list[Work]) -> None:
    flops = np.array([np.nan if work.flops is None else work.flops for work in works])
    moved = np.array([np.nan if work.bytes is None else work.bytes for work in works])
    kinds = np.array([result.precisions.intern(work.precision) if work.precision else -1 for work in works], np.int64)
    result.group[at_main] = groups.member
    if works:
        result.flops[at_main] = flops[groups.member]
        result.bytes[at_main] = moved[groups.member]
        result.precision[at_main] = kinds[groups.member]


def _fill_paged(trace: Trace, result: KernelWork, at_main: Int64, calls: Int64, inputs: Signatures) -> None:
    """Fill in calls of attention over a KV cache by the contexts that the names of their steps state (R3.99)."""
    kinds, step = step_kinds(trace), step_index(trace, result.rows[at_main[calls]])
    calls, step = calls[step >= 0], step[step >= 0]
    known = (kinds.context[step] != NULL) & (kinds.pairs[step] != NULL)
    calls, step = calls[known], step[known]
    alike = combinations(inputs.id[calls], step)
    for group, first in enumerate(alike.first.tolist()):
        signature, number = inputs.of(int(calls[first])), int(step[first])
        if signature is None:
            continue
        work = paged_attention(signature, int(kinds.context[number]), int(kinds.pairs[number]))
        if work.flops is not None and work.bytes is not None:
            at = at_main[calls[alike.member == group]]
            result.flops[at], result.bytes[at] = work.flops, work.bytes
            result.precision[at] = result.precisions.intern(work.precision) if work.precision else -1


def _drop_partial(trace: Trace, result: KernelWork, at: Int64) -> None:
    """Take the work from calls of attention over a KV cache that are faster than possible: they read a part of it."""
    peak, bandwidth, _ = peak_rates(trace, result)
    with np.errstate(invalid="ignore"):
        least = np.fmax(result.flops[at] / peak[at] / 1000, result.bytes[at] / bandwidth[at])
        partial = at[least > MAX_PEAK_RATIO * result.span[at]]
    result.is_partial[partial] = True
    result.flops[partial] = result.bytes[partial] = np.nan
    result.precision[partial] = -1


def _work_of_groups(
    trace: Trace, operators: OperatorCalls, of_call: Int64, inputs: Signatures, groups: Combinations
) -> list[Work]:
    values = _values(trace, operators, of_call, groups)
    works = []
    for number, index in enumerate(groups.first.tolist()):
        signature = inputs.of(index)
        op = str(operators.texts[int(operators.op[of_call[index]])])
        works.append(NOTHING if signature is None else work_of(op, signature, values.get(number)))
    return works


def _values(trace: Trace, operators: OperatorCalls, of_call: Int64, groups: Combinations) -> dict[int, list[str]]:
    """The values of arguments of the groups where they matter and are equal in three calls."""
    ops = operators.op[of_call]
    wanted = [number for number in np.unique(ops).tolist() if operators.texts[number] in _OPS_NEEDING_VALUES]
    concerned = np.flatnonzero(np.isin(ops, wanted))
    if len(concerned) == 0:
        return {}
    order = concerned[np.argsort(groups.member[concerned], kind="stable")]
    member = groups.member[order]
    first = np.flatnonzero(np.diff(member, prepend=-1))
    last = np.append(first[1:], len(order)) - 1
    samples = order[np.stack([first, (first + last) // 2, last])]
    used, index = np.unique(samples.ravel(), return_inverse=True)
    given = operators.values_of(trace, of_call[used])
    result = {}
    for column, number in zip(index.reshape(3, -1).T.tolist(), member[first].tolist(), strict=True):
        samples_of_group = [given[sample] for sample in column]
        if isinstance(samples_of_group[0], list) and samples_of_group[0] == samples_of_group[1] == samples_of_group[2]:
            result[number] = [text if isinstance(text, str) else "" for text in samples_of_group[0]]
    return result


# The rates that bound a call: those of its device, in its precision.

MAX_PEAK_RATIO = 1.05
"""Maximum believable share of a peak."""


def peak_rates(trace: Trace, work: KernelWork) -> tuple[Float64, Float64, Float64]:
    """Peak TFLOP/s in the precision of each call, GB/s of memory, and bytes of the last-level cache."""
    index = device_index(trace, work.rows)
    peak, bandwidth, cache = (np.full(len(work.rows), np.nan) for _ in range(3))
    for number, device in enumerate(trace.devices):
        known = peaks_of(device)
        if known is None:
            continue
        mine = index == number
        bandwidth[mine] = np.nan if known.bandwidth is None else known.bandwidth
        cache[mine] = np.nan if known.cache is None else known.cache * (1 << 20)
        _rates(trace, work, np.flatnonzero(mine & (work.precision >= 0)), known, peak)
    return peak, bandwidth, cache


def _rates(trace: Trace, work: KernelWork, rows: Int64, known: Peaks, peak: Float64) -> None:
    """Fill in the peak rates of main kernels of one device, once per name and precision."""
    names = trace.slices.name[work.rows[rows]].astype(np.int64)
    pairs = names * (len(work.precisions) + 1) + work.precision[rows]
    used, index = np.unique(pairs, return_inverse=True)
    rates = []
    for pair in used.tolist():
        name, precision = divmod(pair, len(work.precisions) + 1)
        used_units = units_used(trace.names[name], work.precisions[precision])
        rates.append(known.rates.get(used_units, np.nan))
    peak[rows] = np.array(rates, np.float64)[index]


def units_used(kernel: str, precision: str) -> str:
    """The precision whose peak applies: fp32 may run on Tensor Cores as tf32, which only the kernel's name tells."""
    runs_as_tf32 = precision == "fp32" and (decode(kernel).a == "tf32" or "tf32" in kernel.casefold())
    return "tf32" if runs_as_tf32 else precision
