"""Operations and memory traffic of matrix products, convolutions and attention, from the shapes of their inputs.

A convolution is counted forward from shapes and strides, backward from the shape of the gradient. Causal attention is
counted by the pairs of positions that it computes, not halved. Sequences of different lengths packed into one tensor
are not counted: their lengths are not in a trace.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence

from tracetui.frozen import frozen
from tracetui.operators.key_averages import Signature

# The tensors of a call from its signature: sizes, bytes, result type, and the precision of its products.

_SIZES = {
    "bool": 1.0,
    "unsigned char": 1.0,
    "signed char": 1.0,
    "char": 1.0,
    "short": 2.0,
    "int": 4.0,
    "unsigned int": 4.0,
    "long": 8.0,
    "unsigned long": 8.0,
    "Half": 2.0,
    "BFloat16": 2.0,
    "float": 4.0,
    "double": 8.0,
    "complex<Half>": 4.0,
    "complex<float>": 8.0,
    "complex<double>": 16.0,
    # Two values in a byte; a dimension counts bytes.
    "Float4_e2m1fn_x2": 1.0,
}
_PRECISIONS = {
    "Half": "fp16",
    "BFloat16": "fp16",
    "float": "fp32",
    "signed char": "int8",
    "char": "int8",
    "Float4_e2m1fn_x2": "fp4",
}
_CODES = {5: "Half", 6: "float", 7: "double", 15: "BFloat16", 23: "Float8_e5m2", 24: "Float8_e4m3fn"}
"""Types by the number of `ScalarType` in the values of arguments."""


def plain_type(text: str) -> str:
    """A type without its namespace, and `long int` as `long`."""
    name = text.replace("c10::", "").removeprefix("at::")
    return name.removesuffix(" int") if name not in ("unsigned int", "int") else name


def size_of(text: str) -> float | None:
    """Bytes of an element, None for an unknown type or anything else."""
    name = plain_type(text)
    return 1.0 if name.startswith("Float8") else _SIZES.get(name)


def precision_of(text: str) -> str:
    """The precision in `Peaks.rates` for products of such tensors, empty for none."""
    name = plain_type(text)
    return "fp8" if name.startswith("Float8") else _PRECISIONS.get(name, "")


def is_floating(text: str) -> bool:
    """True for a floating-point type."""
    name = plain_type(text)
    return name in ("float", "double", "Half", "BFloat16") or name.startswith(("Float", "complex"))


Shape = tuple[int, ...]

MAX_ELEMENTS = 1 << 62
"""Maximum elements of a plausible tensor."""


@frozen(eq=True, slots=True)
class Work:
    """The work of one operator call; None is unknown."""

    flops: float | None = None
    """Floating-point operations, a multiplication and an addition being two."""
    bytes: float | None = None
    """Minimum memory traffic: every input read once, every output written once."""
    precision: str = ""
    """The applicable peak rate, by its precision in `Peaks.rates`, before the kernel's name is considered."""


NOTHING = Work()


class Operands:
    """The inputs of a signature, validated: a trace may hold anything."""

    def __init__(self, signature: Signature) -> None:
        self._signature = signature

    def shape(self, index: int) -> Shape | None:
        """The sizes of an input; empty for a scalar, None where there is no such input or it is no tensor."""
        if index >= len(self._signature.dims):
            return None
        value = self._signature.dims[index]
        if not isinstance(value, tuple) or not all(type(size) is int and size >= 0 for size in value):
            return None
        return value if math.prod(value) < MAX_ELEMENTS else None

    def type(self, index: int) -> str:
        """The type of an input, empty where it was not recorded."""
        return self._signature.types[index] if index < len(self._signature.types) else ""

    def bytes(self, index: int) -> float | None:
        """Bytes of an input; None where its type or its sizes are unknown."""
        shape, size = self.shape(index), size_of(self.type(index))
        return None if shape is None or size is None else math.prod(shape) * size

    def result_type(self, indices: Sequence[int]) -> str:
        """The type that operators give to a result of these inputs: tensors decide before scalars, fractions before
        whole numbers, more bytes before fewer."""
        kinds = [(bool(self.shape(index)), self.type(index)) for index in indices if size_of(self.type(index))]
        if not kinds:
            return ""
        tensors = [kind for is_tensor, kind in kinds if is_tensor]
        if any(map(is_floating, tensors)) or not any(is_floating(kind) for _, kind in kinds):
            kinds = [(True, kind) for kind in tensors] or kinds
        return max((kind for _, kind in kinds), key=lambda kind: (is_floating(kind), size_of(kind) or 0))


def broadcast(shapes: Sequence[Shape]) -> Shape | None:
    """The broadcast shape, None where the shapes do not fit."""
    longest = max((len(shape) for shape in shapes), default=0)
    padded = [(1,) * (longest - len(shape)) + shape for shape in shapes]
    together = []
    for sizes in zip(*padded, strict=True):
        wide = {size for size in sizes if size != 1}
        if len(wide) > 1:
            return None
        together.append(wide.pop() if wide else 1)
    return tuple(together)


def total(*parts: float | None) -> float | None:
    """The sum, None where a part is unknown."""
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


MAX_SETTING, MAX_SETTING_CHARACTERS = 1 << 31, 200
"""Upper limits of the value and of the text length of a setting."""


@frozen(eq=True, slots=True)
class _ConvolutionForm:
    """Indices of an operator's settings among its arguments; -1 for none."""

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
"""Operators whose work depends on the values of arguments."""


def convolution(op: str, signature: Signature, values: Values = None) -> Work | None:
    """The work of a convolution, None for any other operator."""
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
    """The gradients of input and weight, each as much work as the forward pass, as far as they were requested."""
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
    """True for an input with batch and channels, and the weight of a convolution over it."""
    return bool(given and weight and len(given) == len(weight) >= 3)


def _convolution_flops(moved: Shape, weight: Shape) -> float:
    """Operations where the weight is applied at every position of `moved`: the output, or the input when transposed.

    A weight is [out, in / groups, ...], and transposed [in, out / groups, ...]: either way its second size and the
    channels of `moved` make the pairs.
    """
    return 2.0 * math.prod(moved) * math.prod(weight[1:])


def _result(
    form: _ConvolutionForm, given: Shape, weight: Shape, values: Sequence[str], transposed: bool
) -> Shape | None:
    count = len(given) - 2
    stride, padding = _sizes(values, form.stride, count), _sizes(values, form.padding, count)
    dilation = [1] * count if form.dilation < 0 else _sizes(values, form.dilation, count)
    if stride is None or padding is None or dilation is None or min(stride) < 1:
        return None
    extra = _sizes(values, form.output_padding, count) if transposed else None
    spatial = []
    for index, (size, kernel) in enumerate(zip(given[2:], weight[2:], strict=True)):
        reach = dilation[index] * (kernel - 1)
        if transposed:
            more = extra[index] if extra else 0
            spatial.append((size - 1) * stride[index] - 2 * padding[index] + reach + more + 1)
        else:
            spatial.append((size + 2 * padding[index] - reach - 1) // stride[index] + 1)
    if min(spatial) < 1:
        return None
    groups = given[1] // max(weight[0 if transposed else 1], 1)
    channels = weight[1] * max(groups, 1) if transposed else weight[0]
    return given[0], channels, *spatial


def _sizes(values: Sequence[str], index: int, count: int) -> list[int] | None:
    """A setting for every direction; one number stands for all."""
    value = _value(values, index)
    if (
        not isinstance(value, list)
        or not value
        or not all(type(item) is int and 0 <= item < MAX_SETTING for item in value)
    ):
        return None
    return value * count if len(value) == 1 else value if len(value) == count else None


def _value(values: Sequence[str], index: int) -> object:
    """An argument: `[1, 1]`, `True`, `1`; None for a missing or complex one."""
    if not 0 <= index < len(values) or len(values[index]) > MAX_SETTING_CHARACTERS:
        return None
    try:
        parsed: object = json.loads(values[index].replace("True", "true").replace("False", "false"))
    except ValueError:
        return None
    return parsed


@frozen(eq=True, slots=True)
class _AttentionForm:
    """Indices and layout of an operator's arguments."""

    query: int
    """Index of the query; key and value follow."""
    causal: int
    """Index of `is_causal`, or of a kind of mask: 0 none, 1 causal from the top left, 2 from the bottom right."""
    heads_first: bool
    """True where the sizes are [batch, heads, length, width], else [batch, length, heads, width]."""
    backward: bool = False
    bottom_right: bool = False
    """True where `is_causal` aligns the last query with the last key."""
    window: int = -1
    """Index of the left size of a sliding window; -1 for none."""


_FORMS = {
    "aten::_scaled_dot_product_flash_attention": _AttentionForm(0, 4, True),
    "aten::_scaled_dot_product_efficient_attention": _AttentionForm(0, 6, True),
    "aten::_scaled_dot_product_cudnn_attention": _AttentionForm(0, 6, True),
    "aten::_flash_attention_forward": _AttentionForm(0, 8, False, bottom_right=True, window=11),
    "aten::_efficient_attention_forward": _AttentionForm(0, 9, False),
    "aten::_scaled_dot_product_flash_attention_backward": _AttentionForm(1, 11, True, backward=True),
    "aten::_scaled_dot_product_efficient_attention_backward": _AttentionForm(1, 11, True, backward=True),
    "aten::_scaled_dot_product_cudnn_attention_backward": _AttentionForm(1, 14, True, backward=True),
    "aten::_flash_attention_backward": _AttentionForm(1, 11, False, backward=True, bottom_right=True, window=15),
    "aten::_efficient_attention_backward": _AttentionForm(1, 14, False, backward=True),
    "aten::_cudnn_attention_forward": _AttentionForm(0, 10, True),
    "aten::_cudnn_attention_backward": _AttentionForm(1, 14, True, backward=True),
    "flash_attn::_flash_attn_forward": _AttentionForm(0, 5, False, bottom_right=True),
}
ATTENTIONS_NEEDING_VALUES = frozenset(_FORMS)
"""Operators whose work depends on the values of arguments."""
_PAGED = re.compile(
    r"^(vllm::unified_attention(_with_output)?|_rocm_C::paged_attention|sglang_profiler::attention_\w+"
    r"|(vllm_flash_attn|sgl_kernel|flash_attn)\w*::\w*(varlen|kvcache)\w*|sglang::unified_attention_with_output)$"
)
"""Operators of servers whose keys lie in pages: their shapes say how many heads of what width, not how many keys."""


def is_paged_attention(op: str) -> bool:
    """True for attention over a KV cache, whose work depends on the contexts of the requests of a step."""
    return _PAGED.match(op) is not None


def paged_attention(signature: Signature, context: int, pairs: int) -> Work:
    """The work of attention over a KV cache in a layer of a step; first inputs are queries [tokens, heads, width].

    Of the others, the keys are the first tensor as wide with fewer heads or as many: of the step, or of the cache.
    `context` and `pairs` are those of the step. What a window leaves out counts all the same.
    """
    inputs = Operands(signature)
    query, size = inputs.shape(0), size_of(inputs.type(0))
    if not query or len(query) != 3 or size is None:
        return NOTHING
    tokens, heads, width = query
    for index in range(1, len(signature.dims)):
        key, stored = inputs.shape(index), size_of(inputs.type(index))
        if key and len(key) >= 3 and key[-1] == width and heads % max(key[-2], 1) == 0 and stored is not None:
            # Queries and results once, keys and values of the whole context once.
            moved = 2.0 * tokens * heads * width * size + 2.0 * context * key[-2] * width * stored
            return Work(4.0 * pairs * heads * width, moved, precision_of(inputs.type(0)))
    return NOTHING


_NO_MASK, _TOP_LEFT, _BOTTOM_RIGHT = 0, 1, 2


def attention(op: str, signature: Signature, values: Values = None) -> Work | None:
    """The work of attention, None for any other operator; the operations are unknown without `values`."""
    form = _FORMS.get(op)
    if form is None:
        return None
    inputs = Operands(signature)
    shapes = [inputs.shape(form.query + index) for index in range(3)]
    query, key, value = (_heads_first(shape, form) for shape in shapes)
    if query is None or key is None or value is None or query[3] != key[3] or key[2] != value[2]:
        return NOTHING
    batch, heads, length, width = query
    mask = _mask(form, values)
    looked_at = None if mask is None else positions(length, key[2], mask)
    # Backward computes the scores again and has four more products, two as wide as the values.
    columns = 3 * width + 2 * value[3] if form.backward else width + value[3]
    flops = None if looked_at is None else 2.0 * batch * heads * looked_at * columns
    return Work(flops, _traffic(form, inputs, value[3] / width), precision_of(inputs.type(form.query)))


def positions(queries: int, keys: int, mask: int) -> int:
    """Pairs of query and key under a mask (0 none, 1 causal top left, 2 causal bottom right)."""
    if mask == _NO_MASK:
        return queries * keys
    behind = keys - queries if mask == _BOTTOM_RIGHT else 0
    # Query i sees keys 0 to i + behind; those before the first key see none, those after the last see all.
    first = max(0, -behind)
    last = min(queries, keys - behind)
    growing = max(last - first, 0)
    seen = growing * (2 * (first + behind + 1) + growing - 1) // 2
    return seen + max(queries - max(last, 0), 0) * keys


def _traffic(form: _AttentionForm, inputs: Operands, widening: float) -> float | None:
    """Query, key, value and the result; backward all four, the gradient of the result and the three gradients."""
    read = [inputs.bytes(form.query + index) for index in range(3)]
    result = None if read[0] is None else read[0] * widening
    return total(*read, result) if not form.backward else total(*read, *read, result, result)


def _heads_first(shape: Shape | None, form: _AttentionForm) -> Shape | None:
    if shape is None or len(shape) != 4 or not math.prod(shape):
        return None
    return shape if form.heads_first else (shape[0], shape[2], shape[1], shape[3])


def _mask(form: _AttentionForm, values: Values) -> int | None:
    if values is None or form.causal >= len(values):
        return None
    if 0 <= form.window < len(values) and values[form.window] not in ("", "-1"):
        return None
    causal = _BOTTOM_RIGHT if form.bottom_right else _TOP_LEFT
    words = {"False": _NO_MASK, "True": causal, "0": _NO_MASK, "1": _TOP_LEFT, "2": _BOTTOM_RIGHT}
    return words.get(values[form.causal])


Values = Sequence[str] | None


def product(op: str, signature: Signature, values: Values = None) -> Work | None:
    """The work of a matrix product, None for any other operator."""
    rule = _RULES.get(op)
    return rule(Operands(signature), values) if rule else None


def _plain(first: int, bias: bool) -> Callable[[Operands, Values], Work]:
    """A product of inputs `first` and the next one, optionally after a bias."""

    def work(inputs: Operands, values: Values) -> Work:
        left, right = inputs.shape(first), inputs.shape(first + 1)
        flops = _product_flops(left, right)
        if flops is None or left is None or right is None:
            return NOTHING
        kind = inputs.type(first)
        written = _times(math.prod((*left[:-1], *right[-1:])), kind)
        traffic = total(inputs.bytes(first), inputs.bytes(first + 1), written)
        if bias and not _is_bias_unread(values):
            traffic = total(traffic, inputs.bytes(first - 1))
        return Work(flops, traffic, precision_of(kind))

    return work


def _vector(first: int) -> Callable[[Operands, Values], Work]:
    """A matrix or a vector times a vector."""

    def work(inputs: Operands, _: Values) -> Work:
        left, right = inputs.shape(first), inputs.shape(first + 1)
        if not left or not right or len(right) != 1 or left[-1] != right[0] or len(left) > 2:
            return NOTHING
        written = _times(math.prod(left[:-1]), inputs.type(first))
        traffic = total(inputs.bytes(first), inputs.bytes(first + 1), written)
        return Work(2.0 * math.prod(left), traffic, precision_of(inputs.type(first)))

    return work


def _scaled(inputs: Operands, values: Values) -> Work:
    """`_scaled_mm` of 8 or 4 bits; scales are ignored, the result has the requested type."""
    left, right = inputs.shape(0), inputs.shape(1)
    flops = _product_flops(left, right)
    if flops is None or left is None or right is None:
        return NOTHING
    kind = inputs.type(0)
    precision = precision_of(kind)
    # Of two packed values per byte the shapes count bytes, along the dimension that is summed over.
    flops *= 2 if precision == "fp4" else 1
    # The seventh argument is the requested type of the result, a number of `ScalarType`.
    code = values[6] if values is not None and len(values) > 6 else ""
    requested = _CODES.get(int(code)) if code.isdecimal() else None
    written = _times(left[0] * right[1], requested) if requested else None
    return Work(flops, total(inputs.bytes(0), inputs.bytes(1), written), precision)


def _whole(inputs: Operands, _: Values) -> Work:
    """`_int_mm`: 8 bits in, 32 bits out."""
    left, right = inputs.shape(0), inputs.shape(1)
    flops = _product_flops(left, right)
    if flops is None or left is None or right is None:
        return NOTHING
    return Work(flops, total(inputs.bytes(0), inputs.bytes(1), left[0] * right[1] * 4.0), "int8")


def _grouped(inputs: Operands, _: Values) -> Work:
    """`_grouped_mm`: every row meets one of the matrices; an upper bound where the groups leave rows out."""
    left, right = inputs.shape(0), inputs.shape(1)
    if not left or not right or len(left) != 2 or len(right) != 3 or left[1] != right[1]:
        return NOTHING
    written = _times(left[0] * right[2], inputs.type(0))
    traffic = total(inputs.bytes(0), inputs.bytes(1), written)
    return Work(2.0 * left[0] * left[1] * right[2], traffic, precision_of(inputs.type(0)))


def _product_flops(left: Shape | None, right: Shape | None) -> float | None:
    """2MNK, or 2BMNK with a batch; None where the shapes are not those of a product."""
    if not left or not right or len(left) != len(right) or len(left) not in (2, 3):
        return None
    if left[-1] != right[-2] or left[:-2] != right[:-2]:
        return None
    return 2.0 * math.prod(left) * right[-1]


def _is_bias_unread(values: Values) -> bool:
    """True where the fourth argument multiplies the bias by 0, so that it is not read."""
    return values is not None and len(values) > 3 and values[3] in ("0", "0.", "0.0")


def _times(count: int, kind: str) -> float | None:
    size = size_of(kind)
    return None if size is None else count * size


_RULES: dict[str, Callable[[Operands, Values], Work]] = {
    "aten::mm": _plain(0, bias=False),
    "aten::bmm": _plain(0, bias=False),
    "aten::addmm": _plain(1, bias=True),
    "aten::addmm_": _plain(1, bias=True),
    "aten::_addmm_activation": _plain(1, bias=True),
    "aten::baddbmm": _plain(1, bias=True),
    "aten::baddbmm_": _plain(1, bias=True),
    "aten::mv": _vector(0),
    "aten::dot": _vector(0),
    "aten::addmv": _vector(1),
    "aten::addmv_": _vector(1),
    "aten::_scaled_mm": _scaled,
    "aten::_int_mm": _whole,
    "aten::_grouped_mm": _grouped,
}
PRODUCTS_NEEDING_VALUES = frozenset({"aten::_scaled_mm", *(name for name in _RULES if "add" in name)})
"""Operators whose work depends on the values of arguments."""
