"""Convolutions: operations and traffic, forward from shapes and strides, backward from the shape of the gradient."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

from tracetui.analysis.operators.signatures import Signature
from tracetui.analysis.work.operands import NOTHING, Operands, Shape, Work, total
from tracetui.analysis.work.tensor_types import precision_of, size_of

LARGEST, LONGEST = 1 << 31, 200
"""Settings are smaller numbers than this, and shorter texts."""


@dataclass(frozen=True, slots=True)
class _ConvolutionForm:
    """Where an operator has its settings among its arguments; -1 is nowhere."""

    stride: int
    padding: int
    dilation: int
    transposed: int = -1
    output_padding: int = -1
    always_transposed: bool = False


_FORWARD = {
    "aten::convolution": _ConvolutionForm(3, 4, 5, 6, 7),
    "aten::_convolution": _ConvolutionForm(3, 4, 5, 6, 7),
    "aten::cudnn_convolution": _ConvolutionForm(3, 2, 4),
    "aten::miopen_convolution": _ConvolutionForm(4, 3, 5),
    "aten::miopen_depthwise_convolution": _ConvolutionForm(4, 3, 5),
    "aten::_conv_depthwise2d": _ConvolutionForm(4, 5, 6),
    "aten::conv_depthwise3d": _ConvolutionForm(4, 5, 6),
    "aten::_slow_conv2d_forward": _ConvolutionForm(4, 5, -1),
    "aten::cudnn_convolution_transpose": _ConvolutionForm(4, 2, 5, output_padding=3, always_transposed=True),
    "aten::miopen_convolution_transpose": _ConvolutionForm(5, 3, 6, output_padding=4, always_transposed=True),
    "aten::cudnn_convolution_relu": _ConvolutionForm(3, 4, 5),
}
_BACKWARD = "aten::convolution_backward"
CONVOLUTIONS_NEEDING_VALUES = frozenset(_FORWARD) | {_BACKWARD}
"""Operators of which the values of arguments decide too."""


def convolution(op: str, signature: Signature, values: Values = None) -> Work | None:
    """The work of a convolution, None for an operator that is none."""
    if op == _BACKWARD:
        return _backward(Operands(signature), values)
    form = _FORWARD.get(op)
    return _forward(form, Operands(signature), values) if form else None


def _forward(form: _ConvolutionForm, inputs: Operands, values: Values) -> Work:
    given, weight = inputs.shape(0), inputs.shape(1)
    if not _fit(given, weight) or given is None or weight is None or values is None:
        return NOTHING
    transposed = form.always_transposed or _value(values, form.transposed) is True
    result = _result(form, given, weight, values, transposed)
    if result is None:
        return NOTHING
    size = size_of(inputs.type(0))
    written = None if size is None else math.prod(result) * size
    flops = _convolution_flops(given if transposed else result, weight)
    return Work(flops, total(inputs.bytes(0), inputs.bytes(1), written), precision_of(inputs.type(0)))


def _backward(inputs: Operands, values: Values) -> Work:
    """The gradients of input and weight, each as much work as the forward pass, as far as they were asked for."""
    gradient, given, weight = inputs.shape(0), inputs.shape(1), inputs.shape(2)
    if not _fit(given, weight) or given is None or weight is None or not gradient or values is None:
        return NOTHING
    mask = _value(values, 10)
    if not isinstance(mask, list) or len(mask) != 3:
        return NOTHING
    once = _convolution_flops(given if _value(values, 7) is True else gradient, weight)
    # Each result needs two of the three tensors and is as large as the third.
    count = (mask[0] is True) + (mask[1] is True)
    traffic = total(*map(inputs.bytes, (0, 1, 2)))
    if count == 0 or traffic is None:
        return Work(once * count if count else None, None, precision_of(inputs.type(0)))
    return Work(once * count, traffic * count, precision_of(inputs.type(0)))


def _fit(given: Shape | None, weight: Shape | None) -> bool:
    """Whether these are an input with batch and channels and the weight of a convolution over it."""
    return bool(given and weight and len(given) == len(weight) >= 3)


def _convolution_flops(moved: Shape, weight: Shape) -> float:
    """Operations where the weight is applied at every place of `moved`: the output, or the input when transposed.

    A weight is [out, in / groups, ...], and transposed [in, out / groups, ...]: either way its second size and the
    channels of `moved` make the pairs.
    """
    return 2.0 * math.prod(moved) * math.prod(weight[1:])


def _result(form: _ConvolutionForm, given: Shape, weight: Shape, values: Sequence[str], transposed: bool) -> Shape | None:
    count = len(given) - 2
    stride, padding = _sizes(values, form.stride, count), _sizes(values, form.padding, count)
    dilation = [1] * count if form.dilation < 0 else _sizes(values, form.dilation, count)
    if stride is None or padding is None or dilation is None or min(stride) < 1:
        return None
    extra = _sizes(values, form.output_padding, count) if transposed else None
    spatial = []
    for place, (size, kernel) in enumerate(zip(given[2:], weight[2:], strict=True)):
        reach = dilation[place] * (kernel - 1)
        if transposed:
            more = extra[place] if extra else 0
            spatial.append((size - 1) * stride[place] - 2 * padding[place] + reach + more + 1)
        else:
            spatial.append((size + 2 * padding[place] - reach - 1) // stride[place] + 1)
    if min(spatial) < 1:
        return None
    groups = given[1] // max(weight[0 if transposed else 1], 1)
    channels = weight[1] * max(groups, 1) if transposed else weight[0]
    return given[0], channels, *spatial


def _sizes(values: Sequence[str], place: int, count: int) -> list[int] | None:
    """A setting for every direction; one number stands for all."""
    value = _value(values, place)
    if not isinstance(value, list) or not value or not all(type(item) is int and 0 <= item < LARGEST for item in value):
        return None
    return value * count if len(value) == 1 else value if len(value) == count else None


def _value(values: Sequence[str], place: int) -> object:
    """An argument: `[1, 1]`, `True`, `1`; None for what is not there or not plain."""
    if not 0 <= place < len(values) or len(values[place]) > LONGEST:
        return None
    try:
        found: object = json.loads(values[place].replace("True", "true").replace("False", "false"))
    except ValueError:
        return None
    return found
