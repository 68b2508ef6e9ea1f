"""Rules about matrix products: misaligned operands, few rows for their weights, and loops of small ones."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from tracetui.devices.descriptions import AMD, Generation, gpu_generation
from tracetui.devices.formulas import size_of
from tracetui.devices.kernel_work import kernel_work
from tracetui.devices.roofline import CACHE, MEMORY, roofline
from tracetui.findings.launches import Calls, Product, calls_of, kernel_time, products_of, waits_for_launches
from tracetui.findings.scope import Finding, Scope, Severity, longest
from tracetui.kernel_names import LAYOUT_CONVERSION, OPERAND_CONVERSION, Decoded, Family, decode
from tracetui.kernel_names.slice_names import short_kernel
from tracetui.linking.groups import group
from tracetui.linking.lanes import is_named
from tracetui.linking.links import links
from tracetui.model.intervals import Int64
from tracetui.model.quantities import counted, duration, rate, rounded_percent, size
from tracetui.model.trace import Kind, Trace

MIN_ALIGNED_ELEMENTS = 4
"""Minimum alignment in elements; a kernel for less loads one or two elements at a time."""
EVEN_ELEMENTS = 8
"""Elements to whose multiples a size is to be padded."""
MAX_NAMED_SIZES = 3
"""Maximum odd sizes named per sentence."""
MIN_NAMED_SHARE = 0.1
"""Minimum share of the time of the first named size."""


def misaligned_products(scope: Scope) -> Iterator[Finding]:
    """Matrix kernels for misaligned operands, because a size is odd."""
    trace = scope.trace
    rows = misaligned_rows(scope)
    if len(rows) == 0:
        return
    example = longest(trace, rows)
    sizes = _odd_sizes(scope, rows)
    named = f", for sizes that are no multiple of {EVEN_ELEMENTS}: {', '.join(f'{each:,}' for each in sizes)}"
    yield from scope.priced(
        "misaligned-gemm",
        scope.gpu_cost(rows),
        "Matrix products of misaligned operands",
        f"{kernel_time(scope, rows)}{named if sizes else ''}; the longest, {short_kernel(trace.name_of(example))}",
        f"A size that is no multiple of {EVEN_ELEMENTS} makes the library load single elements and often take a kernel "
        "of an older generation. Pad it (sequence length, vocabulary, hidden size) to a multiple of 8, better of 64.",
        example,
        action=f"pad {sizes[0]:,} to a multiple of {EVEN_ELEMENTS}" if sizes else "pad odd sizes to a multiple of 8",
    )


def misaligned_rows(scope: Scope) -> Int64:
    """The kernels of Tensor Cores that load one or two elements at a time."""
    return np.compress(is_named(scope.trace, scope.computing, _is_misaligned), scope.computing)


def _is_misaligned(name: str) -> bool:
    decoded = decode(name)
    small = decoded.align is not None and decoded.align < MIN_ALIGNED_ELEMENTS
    # A double is as long as four halves: loading one at a time is how its kernels work.
    return small and decoded.tensor_core is True and decoded.a != "f64"


def _odd_sizes(scope: Scope, rows: Int64) -> list[int]:
    """Sizes of the products that are no multiple of 8, those that took most time first; none without shapes."""
    spent: dict[int, float] = {}
    products = products_of(scope.trace, calls_of(scope, rows))
    time = np.bincount(products.index, scope.trace.slices.dur[rows], len(products.known))
    for product, dur in zip(products.known, time.tolist(), strict=True):
        for each in {product.rows, product.depth, product.columns} if product else ():
            if each % EVEN_ELEMENTS and each > 1:
                spent[each] = spent.get(each, 0.0) + dur
    ranked = sorted(spent, key=lambda each: (-spent[each], each))
    return [each for each in ranked[:MAX_NAMED_SIZES] if spent[each] >= MIN_NAMED_SHARE * spent[ranked[0]]]


MAX_FEW_ROWS = 15
"""Maximum rows of a product that reads its weights for few vectors."""
MIN_BANDWIDTH_SHARE = 0.5
"""Minimum share of the bandwidth at which a product is held up by reading its weights."""
MIN_FEW_ROWS_NS = 5_000
"""Minimum duration of such a product; a shorter one is held up by its launch."""


def small_batch_products(scope: Scope) -> Iterator[Finding]:
    """Products of so few rows that reading the weights takes all their time (decoding, gathered experts)."""
    trace = scope.trace
    calls = calls_of(scope, _with_memory_bound(scope))
    calls = calls.take(products_of(trace, calls).where(_has_few_rows))
    rows = calls.kernel
    if len(rows) == 0:
        return
    at = int(np.argmax(trace.slices.dur[rows]))
    product = products_of(trace, calls).of(at)
    assert product is not None
    weights, span = _weights(product), int(trace.slices.dur[rows[at]])
    few_rows = "one row" if product.rows == 1 else f"{product.rows} rows"
    moved = f", {size(weights)} of weights at {rate(weights, span)}" if weights else ""
    yield from scope.priced(
        "small-batch-products",
        scope.gpu_cost(rows),
        "Matrix products read their weights for few rows",
        f"{kernel_time(scope, rows)}; the longest, {trace.name_of(int(calls.op[at]))} of {few_rows}, {product.text}, "
        f"{duration(span)}{moved}, {_rate_words(scope, rows)}",
        "The time is that of reading the weights once, however few rows there are: batch more requests, use a grouped "
        "GEMM over tokens sorted by expert where weights are chosen per token, or quantise the weights.",
        int(rows[at]),
        action="multiply more rows at once (batch requests, grouped GEMM)",
    )


def _with_memory_bound(scope: Scope) -> Int64:
    """Main kernels of calls that reach half of the bandwidth of their device, or come from its cache."""
    work, rooflines = kernel_work(scope.trace), roofline(scope.trace)
    at = work.at(scope.computing)
    share = np.nan_to_num(rooflines.share[at])
    bound = rooflines.bound[at]
    near = ((bound == MEMORY) & (share >= MIN_BANDWIDTH_SHARE)) | (bound == CACHE)
    near &= scope.trace.slices.dur[scope.computing] >= MIN_FEW_ROWS_NS
    return np.compress(near, scope.computing)


def _has_few_rows(product: Product) -> bool:
    return product.rows <= MAX_FEW_ROWS and min(product.columns, product.depth) > EVEN_ELEMENTS * product.rows


def _weights(product: Product) -> float:
    """Bytes of the operand that the few rows are multiplied with; 0 where the type is not known."""
    element = size_of(product.element) or 0
    return product.batch * product.depth * product.columns * element


def _rate_words(scope: Scope, rows: Int64) -> str:
    """The share of the bandwidth that all these products reach, in words."""
    work, rooflines = kernel_work(scope.trace), roofline(scope.trace)
    at = work.at(rows)
    known = ~np.isnan(rooflines.share[at])
    least, span = float(rooflines.roofline_ns[at][known].sum()), float(work.span[at][known].sum())
    return f"{rounded_percent(min(100 * least / span, 100))} of the bandwidth" if span else "out of the GPU's cache"


MIN_LOOP_CALLS = 8
"""Minimum equal products in a row that are a loop."""
MAX_LOOP_PRODUCT_NS = 50_000
"""Maximum median duration of the products of a loop that one batched product would shorten."""


def batchable_products(scope: Scope) -> Iterator[Finding]:
    """The same small product many times in a row, which one batched product could replace."""
    trace, dur, found = scope.trace, scope.trace.slices.dur, _batchable(scope)
    rows, index, example = found.rows, found.index, found.example
    if len(rows) == 0:
        return
    kept, spent = float(dur[rows[group(index).largest(dur[rows])]].sum()), float(dur[rows].sum())
    product = products_of(trace, example).of(0)
    yield from scope.priced(
        "batchable-products",
        int(scope.gpu_cost(rows) * (1 - kept / max(spent, 1))),
        "A loop of small matrix products could be one batched product",
        f"{kernel_time(scope, rows)}, in {counted(int(index[-1]) + 1, 'loop')} of up to "
        f"{int(np.bincount(index).max()):,} equal products; the longest loop, {trace.name_of(int(example.op[0]))} "
        f"of {product.text if product else ''}",
        "Stack the operands and multiply once: torch.bmm, torch.baddbmm or torch.einsum, or vmap over the loop.",
        int(example.kernel[0]),
        action="multiply them as one batch (torch.bmm)",
    )


def batchable_rows(scope: Scope) -> Int64:
    """The kernels of loops of small products that one batched product could replace, in order of start."""
    return _batchable(scope).rows


@dataclass(frozen=True, eq=False)
class _Batchable:
    """Kernels of loops of small products; parallel arrays."""

    rows: Int64
    index: Int64
    """Number of the loop of each."""
    example: Calls
    """The first call of the longest loop; none without loops."""


def _batchable(scope: Scope) -> _Batchable:
    def find() -> _Batchable:
        calls = calls_of(scope, scope.computing)
        calls = calls.take(np.append(True, calls.op[1:] != calls.op[:-1]) if len(calls.op) else np.empty(0, bool))
        loops = _loops(scope, calls)
        if len(loops) == 0:
            none = np.empty(0, np.int64)
            return _Batchable(none, none, calls.take(none))
        first, last = loops.T
        index = np.repeat(np.arange(len(loops)), last - first)
        at = np.arange(len(index)) - np.repeat(np.cumsum(last - first) - (last - first), last - first) + first[index]
        return _Batchable(calls.kernel[at], index, calls.take(first[[int(np.argmax(last - first))]]))

    return scope.trace.keep(("batchable products", scope.step), find)


def _loops(scope: Scope, calls: Calls) -> Int64:
    """First and last index (exclusive) of each run of equal, independent products of one caller on one stream."""
    trace = scope.trace
    if len(calls.kernel) == 0:
        return np.empty((0, 2), np.int64)
    loose = products_of(trace, calls).where(_is_independent)
    same = np.ones(len(calls.kernel) - 1, bool)
    for values in (calls.name, calls.signature, _callers(trace, calls.op), trace.slices.lane[calls.kernel]):
        same &= values[1:] == values[:-1]
    edges = np.concatenate([[0], np.flatnonzero(~same) + 1, [len(calls.kernel)]]).astype(np.int64)
    first, last = edges[:-1], edges[1:]
    run = np.repeat(np.arange(len(first)), last - first)
    kept = loose[first] & (last - first >= MIN_LOOP_CALLS)
    kept &= group(run).median(trace.slices.dur[calls.kernel]) <= MAX_LOOP_PRODUCT_NS
    return np.stack([first[kept], last[kept]], axis=1)


def _callers(trace: Trace, ops: Int64) -> Int64:
    """What the outermost operator around each operator was called by: a frame, an annotation or -1."""
    caller = ops.copy()
    while (climbing := (caller >= 0) & (trace.slices.kind[caller] == Kind.CPU_OP)).any():
        caller[climbing] = trace.slices.parent[caller[climbing]]
    return caller


def _is_independent(product: Product) -> bool:
    """Whether the result cannot be an operand of the next product, because its sizes are others."""
    result = (product.rows, product.columns)
    return result not in ((product.rows, product.depth), (product.depth, product.columns))


# Rule about fp32 products and convolutions that leave the Tensor Cores (Matrix Cores on AMD) unused.

_PRODUCTS = ("gemm", "convolution")
_WITHOUT_GAIN = ("few columns", "depth 1", "depthwise")
"""Forms of products that move too much for what they compute to gain from Tensor Cores."""
_GROUPED = re.compile(r"depthwise|dwconv|grouped_direct", re.IGNORECASE)
_LOW_PRECISION = re.compile(r"tf32|tensor", re.IGNORECASE)
_FP32 = re.compile(r"(?:^|_)fp32(?:_|$)")
_LIBRARIES = ("cuBLAS", "cuDNN")
_HALF = ("f16", "bf16")
_REDUCED = ("tf32", "f16", "bf16", "f8", "e4m3", "e5m2")


def fp32_math(scope: Scope) -> Iterator[Finding]:
    """Products and convolutions compute fp32 on CUDA cores although the device has Tensor Cores."""
    trace, device = scope.trace, gpu_generation(scope.trace)
    rows = fp32_rows(scope)
    if len(rows) == 0 or not device.has_fp16_tensor_cores:
        return
    convolutions = is_named(trace, rows, lambda name: decode(name).operation == "convolution")
    what = "products and convolutions" if convolutions.any() and not convolutions.all() else "products"
    what = "convolutions" if convolutions.all() else what
    where = "at a fraction of the rate of Matrix Cores for bf16" if device.vendor == AMD else "on CUDA cores"
    price = scope.gpu_cost(rows)
    after_launches = waits_for_launches(scope, price)
    action, advice = _advice(scope, device, rows)
    later = "The GPU waits longer for late launches than for these kernels: treat those first. "
    yield from scope.priced(
        "fp32-math",
        price,
        f"fp32 {what} run {where}",
        f"{kernel_time(scope, rows)}; the longest, {short_kernel(trace.name_of(longest(trace, rows)))}; "
        + _other_products(scope, rows),
        (later if after_launches else "") + advice,
        longest(trace, rows),
        action=action,
        at_most=Severity.MINOR if after_launches else Severity.MAJOR,
    )


def fp32_rows(scope: Scope) -> Int64:
    """Products and convolutions in fp32 on CUDA cores; on AMD those on Matrix Cores too, where fp32 is slow as well."""
    trace = scope.trace
    if gpu_generation(trace).vendor == AMD:
        return np.compress(is_named(trace, scope.computing, _is_fp32_on_amd), scope.computing)
    return np.compress(is_named(trace, scope.computing, is_fp32_product), scope.computing)


@cache
def is_fp32_product(name: str) -> bool:
    """Whether a kernel is a product or convolution in fp32 that no Tensor Core computes."""
    decoded = decode(name)
    if not _gains(name, decoded) or _LOW_PRECISION.search(name):
        return False
    # Names of libraries say where Tensor Cores compute; of other names nothing is known.
    plain = decoded.tensor_core is False or (decoded.library or "").startswith(_LIBRARIES)
    return decoded.a == "f32" and plain and not decoded.tensor_core


@cache
def _is_fp32_on_amd(name: str) -> bool:
    decoded = decode(name)
    return _gains(name, decoded) and (decoded.a == "f32" or bool(_FP32.search(name)))


def _gains(name: str, decoded: Decoded) -> bool:
    """Whether a kernel is a product or convolution that computes enough to gain from Tensor Cores."""
    product = decoded.family == Family.GEMM and decoded.operation in _PRODUCTS
    return product and decoded.op not in _WITHOUT_GAIN and not _GROUPED.search(name)


def _other_products(scope: Scope, rows: Int64) -> str:
    """In which types other products run on Tensor Cores, in words."""
    rows = np.setdiff1d(_on_tensor_cores(scope), rows)
    units = "Matrix Cores" if gpu_generation(scope.trace).vendor == AMD else "Tensor Cores"
    if len(rows) == 0:
        return f"no product runs on {units} in a lower precision"
    names = {scope.trace.name_of(row) for row in rows.tolist()}
    types = sorted({decoded.a for decoded in map(decode, names) if decoded.a in _REDUCED and decoded.a})
    words = f" in {' and '.join(types)}" if types else ""
    return f"others take {duration(int(scope.trace.slices.dur[rows].sum()))} on {units}{words}"


def _on_tensor_cores(scope: Scope) -> Int64:
    return np.compress(is_named(scope.trace, scope.computing, _uses_tensor_cores), scope.computing)


def _uses_tensor_cores(name: str) -> bool:
    decoded = decode(name)
    return bool(decoded.tensor_core) and decoded.operation in _PRODUCTS


def _advice(scope: Scope, device: Generation, rows: Int64) -> tuple[str, str]:
    """What to do first, and the advice, by what the device can compute and what is allowed already."""
    low = "bf16" if device.has_bf16 else "fp16"
    autocast = f"run them under torch.autocast with {low}"
    if is_named(scope.trace, _on_tensor_cores(scope), lambda name: decode(name).a in _HALF).any():
        left_out = "see which layers autocast leaves in fp32"
        return (
            left_out,
            f"Other products compute in half precision already: {left_out} (disabled regions, own kernels).",
        )
    if device.vendor == AMD:
        return autocast, f"Matrix Cores compute lower precisions: {autocast}."
    if not device.has_tf32:
        scaled = ", with a GradScaler" if scope.program.has_backward else ""
        return autocast, f"Tensor Cores compute them in lower precision: {autocast}{scaled}."
    parts = [_tf32(scope, kind) for kind in _PRODUCTS if _of_kind(scope, rows, kind).size]
    action = "allow TF32" if any(_MATMUL_FLAG in part for part in parts) else autocast
    return action, f"{' '.join(parts)} Or {autocast}, which is faster than TF32."


_MATMUL_FLAG = "torch.set_float32_matmul_precision('high')"


def _tf32(scope: Scope, kind: str) -> str:
    """Why products or convolutions do not use TF32, and what lets them, in a sentence."""
    others = _of_kind(scope, _on_tensor_cores(scope), kind)
    named = "convolutions" if kind == "convolution" else "products"
    if is_named(scope.trace, others, lambda name: decode(name).a == "tf32").any():
        return (
            f"TF32 is allowed for other {named}: the library took CUDA cores for the sizes of these, so pad them to a "
            "multiple of 8."
        )
    if kind == "convolution":
        return "torch.backends.cudnn.allow_tf32 is on by default for convolutions: see what turns it off."
    return f"{_MATMUL_FLAG} lets products round to TF32."


def _of_kind(scope: Scope, rows: Int64, kind: str) -> Int64:
    return rows[is_named(scope.trace, rows, lambda name: decode(name).operation == kind)]


# Rule about kernels that only convert tensors for convolutions: their layout, or their type before TF32 products.

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
        _layout_advice(scope, shuffled, converted),
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


def _layout_advice(scope: Scope, shuffled: int, converted: int) -> str:
    parts = []
    if shuffled:
        amd = gpu_generation(scope.trace).vendor == AMD
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
