"""Scaled dot-product attention: operations and traffic of its forward and backward operators.

Causal attention is counted by the positions that are looked at, not halved. Sequences of different lengths packed
into one tensor are not counted: their lengths are not in a trace.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tracetui.analysis.operators.signatures import Signature
from tracetui.analysis.work.operands import NOTHING, Operands, Shape, Work, total
from tracetui.analysis.work.tensor_types import precision_of


@dataclass(frozen=True, slots=True)
class _AttentionForm:
    """How an operator takes its arguments."""

    query: int
    """Place of the query; key and value follow."""
    causal: int
    """Place of `is_causal`, or of a kind of mask: 0 none, 1 causal from the top left, 2 from the bottom right."""
    heads_first: bool
    """Whether the sizes are [batch, heads, length, width], else [batch, length, heads, width]."""
    backward: bool = False
    bottom_right: bool = False
    """Whether `is_causal` aligns the last query with the last key."""
    window: int = -1
    """Place of the left size of a sliding window; -1 is nowhere."""


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
"""Operators of which the values of arguments decide too."""
_NO_MASK, _TOP_LEFT, _BOTTOM_RIGHT = 0, 1, 2


def attention(op: str, signature: Signature, values: Values = None) -> Work | None:
    """The work of attention, None for an operator that is none; the operations are unknown without `values`."""
    form = _FORMS.get(op)
    if form is None:
        return None
    inputs = Operands(signature)
    shapes = [inputs.shape(form.query + place) for place in range(3)]
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
    """Pairs of query and key that are looked at under a mask (0 none, 1 causal top left, 2 causal bottom right)."""
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
    read = [inputs.bytes(form.query + place) for place in range(3)]
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
