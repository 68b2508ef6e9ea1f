"""Operators bound by memory: what they must read and write, from the shapes and types of their inputs.

Inputs count with all their elements, also where strides repeat some. Results of reductions are left out, since a trace
does not hold their shape: that is a lower bound, as for generated kernels, whose results are unknown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tracetui.devices.operands import NOTHING, Operands, Work, broadcast, is_floating, size_of, total
from tracetui.operators.signatures import Signature

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
        return _compiled(signature)
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


def _copied(inputs: Operands, _: Values) -> Work:
    return Work(None, total(inputs.bytes(0), inputs.bytes(1)))


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


def _compiled(signature: Signature) -> Work:
    """A generated kernel: each tensor once, read or written; the recording does not tell which."""
    inputs = Operands(signature)
    known = [size for index in range(len(signature.dims)) if inputs.shape(index) and (size := inputs.bytes(index))]
    return Work(None, sum(known)) if known else NOTHING


def _table() -> dict[str, Callable[[Operands, Values], Work]]:
    rules: dict[str, Callable[[Operands, Values], Work]] = {
        "where": _where,
        "copy_": _copied,
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
