"""The size of a problem, however its operator is called: `mm` and `addmm` of the same M, N and K are the same one.

Only what the sizes of the inputs tell: strides and paddings of convolutions and masks of attention are not compared.
"""

from __future__ import annotations

from collections.abc import Callable

from tracetui.analysis.operators.signatures import Signature
from tracetui.analysis.work.operands import Operands, Shape

_BASES = ("mm", "bmm", "_scaled_mm", "_int_mm", "mv", "dot")
_WITH_BIAS = ("addmm", "_addmm_activation", "baddbmm", "addmv")
_CONVOLUTIONS = (
    "convolution",
    "_convolution",
    "cudnn_convolution",
    "cudnn_convolution_relu",
    "miopen_convolution",
    "miopen_depthwise_convolution",
    "_conv_depthwise2d",
    "_slow_conv2d_forward",
)
_ATTENTIONS = (
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
    "_flash_attention_forward",
    "_efficient_attention_forward",
    "_cudnn_attention_forward",
)


def problem(op: str, signature: Signature) -> str:
    """The size of a product, a convolution or attention as a text to compare; empty for every other operator."""
    rule = _RULES.get(op.rsplit("::", 1)[-1].removesuffix("_"))
    return rule(Operands(signature)) if rule else ""


def _product(first: int) -> Callable[[Operands], str]:
    """Batch, M, N and K; M and N in either order, since a product may be computed transposed."""

    def rule(inputs: Operands) -> str:
        left, right = inputs.shape(first), inputs.shape(first + 1)
        if not left or not right or left[-1] != right[-2 if len(right) > 1 else 0]:
            return ""
        rows, columns = left[-2] if len(left) > 1 else 1, right[-1] if len(right) > 1 else 1
        small, large = sorted((rows, columns))
        batch = left[0] if len(left) > 2 else 1
        return f"{batch} x {large} x {small} x {left[-1]}"

    return rule


def _convolved(first: int, way: str) -> Callable[[Operands], str]:
    """Sizes of input and weight."""

    def rule(inputs: Operands) -> str:
        given, weight = inputs.shape(first), inputs.shape(first + 1)
        return f"{given} * {weight} {way}" if given and weight and len(given) == len(weight) else ""

    return rule


def _attended(first: int, way: str) -> Callable[[Operands], str]:
    """Sizes of query and key, the same whether heads or lengths come first."""

    def rule(inputs: Operands) -> str:
        query, key = inputs.shape(first), inputs.shape(first + 1)
        return f"{_sorted(query)} ? {_sorted(key)} {way}" if query and key and len(query) == 4 else ""

    return rule


def _sorted(shape: Shape) -> list[int]:
    return sorted(shape)


def _table() -> dict[str, Callable[[Operands], str]]:
    rules = dict.fromkeys(_BASES, _product(0)) | dict.fromkeys(_WITH_BIAS, _product(1))
    rules |= dict.fromkeys(_CONVOLUTIONS, _convolved(0, "forward"))
    rules["convolution_backward"] = _convolved(1, "backward")
    rules |= dict.fromkeys(_ATTENTIONS, _attended(0, "forward"))
    rules |= {f"{name.removesuffix('_forward')}_backward": _attended(1, "backward") for name in _ATTENTIONS}
    return rules


_RULES = _table()
