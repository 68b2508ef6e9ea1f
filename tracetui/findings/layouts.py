"""Rule about kernels that only convert tensors for convolutions: their layout, or their type before TF32 products."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracetui.devices.generation import AMD, generation
from tracetui.findings.finding import Finding
from tracetui.findings.launches import kernel_time
from tracetui.findings.scope import Scope, longest
from tracetui.kernel_names import LAYOUT_CONVERSION, OPERAND_CONVERSION, decode
from tracetui.kernel_names.slice_names import short_kernel
from tracetui.linking.lanes import is_named
from tracetui.linking.links import links
from tracetui.model.intervals import Int64
from tracetui.model.quantities import duration

_PADDING = "pad channels"
"""What a kernel does that adds channels so that a convolution can compute in the other layout."""
MAX_CONVERTED_CALLS = 0.5
"""Share of the convolutions that may convert while channels_last is said to be in use."""


def layout_conversion(scope: Scope) -> Iterator[Finding]:
    """Kernels that convert the layout or the type of tensors around convolutions."""
    trace = scope.trace
    layout = scope.computing[is_named(trace, scope.computing, _converts_layout)]
    casts = scope.computing[is_named(trace, scope.computing, _converts_type)]
    if _is_channels_last(scope, layout):
        layout = layout[:0]
    rows = np.union1d(layout, casts)
    if len(rows) == 0:
        return
    shuffled, converted = (int(trace.slices.dur[each].sum()) for each in (layout, casts))
    example = longest(trace, layout if shuffled >= converted else casts)
    yield from scope.priced(
        "layout-conversion",
        scope.gpu_cost(rows),
        _statement(shuffled, converted),
        f"{kernel_time(scope, rows)}{_of_convolutions(scope)}; {_split(shuffled, converted)}; the longest, "
        f"{short_kernel(trace.name_of(example))}",
        _advice(scope, shuffled, converted),
        example,
        action="use channels_last" if shuffled >= converted else "run convolutions under autocast",
    )


def conversions(scope: Scope) -> Int64:
    """The kernels that convert layout or type of tensors for a convolution."""
    named = is_named(scope.trace, scope.computing, lambda name: _converts_layout(name) or _converts_type(name))
    return np.compress(named, scope.computing)


def _converts_layout(name: str) -> bool:
    decoded = decode(name)
    miopen = decoded.library == "MIOpen" and decoded.operation == "transpose"
    return miopen or decoded.operation == LAYOUT_CONVERSION or decoded.op == _PADDING


def _converts_type(name: str) -> bool:
    return decode(name).operation == OPERAND_CONVERSION


def _statement(shuffled: int, converted: int) -> str:
    if shuffled >= converted:
        return "Kernels convert the layout of tensors around convolutions (NCHW to NHWC and back)"
    return "Kernels convert tensors before convolutions, to the type that these compute in"


def _split(shuffled: int, converted: int) -> str:
    """What both kinds took, in words."""
    parts = [f"{duration(shuffled)} for the layout"] if shuffled else []
    parts += [f"{duration(converted)} for the type (tensor conversion)"] if converted else []
    return " and ".join(parts)


def _advice(scope: Scope, shuffled: int, converted: int) -> str:
    parts = []
    if shuffled:
        amd = generation(scope.trace).vendor == AMD
        parts.append(
            "Put the model and its inputs into channels_last (model.to(memory_format=torch.channels_last)): these "
            "convolutions compute in that layout."
            + (" ROCm needs PYTORCH_MIOPEN_SUGGEST_NHWC=1 for it." if amd else "")
        )
    if converted and _computes_tf32(scope):
        parts.append(
            "The library converts each fp32 tensor before it computes in TF32; under torch.autocast tensors have the "
            "type of the convolution from the start."
        )
    return " ".join(parts) or "The library converts what it computes to another type: keep tensors in that type."


def _of_convolutions(scope: Scope) -> str:
    """What the convolutions themselves took, in words."""
    trace = scope.trace
    products = scope.computing[is_named(trace, scope.computing, _is_convolution)]
    return f", beside {duration(int(trace.slices.dur[products].sum()))} of the convolutions" if len(products) else ""


def _is_convolution(name: str) -> bool:
    return decode(name).operation == "convolution"


def _computes_tf32(scope: Scope) -> bool:
    trace = scope.trace
    return bool(is_named(trace, scope.computing, lambda name: _is_convolution(name) and decode(name).a == "tf32").any())


def _is_channels_last(scope: Scope, layout: Int64) -> bool:
    """Whether most convolutions take tensors in the layout in which they compute, so that few convert."""
    trace = scope.trace
    owner = links(trace).owner
    products = scope.computing[is_named(trace, scope.computing, _is_convolution)]
    nhwc = products[is_named(trace, products, lambda name: decode(name).layout == "nhwc" or "nhwc" in name)]
    calls = np.unique(owner[nhwc][owner[nhwc] >= 0])
    converted = np.unique(owner[layout][owner[layout] >= 0])
    if len(calls) == 0 or len(converted) == 0:
        return False
    return bool(np.isin(calls, converted).mean() < MAX_CONVERTED_CALLS)
