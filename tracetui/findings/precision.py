"""Rule about fp32 products and convolutions that leave the Tensor Cores (Matrix Cores on AMD) unused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import numpy as np

from tracetui.devices.generation import AMD, Generation, generation
from tracetui.findings.finding import Finding, Severity
from tracetui.findings.launches import kernel_time, waits_for_launches
from tracetui.findings.scope import Scope, longest
from tracetui.kernel_names import Decoded, Family, decode
from tracetui.kernel_names.slice_names import short_kernel
from tracetui.linking.lanes import is_named
from tracetui.model.intervals import Int64
from tracetui.model.quantities import duration

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
    trace, device = scope.trace, generation(scope.trace)
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
    if generation(trace).vendor == AMD:
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
    units = "Matrix Cores" if generation(scope.trace).vendor == AMD else "Tensor Cores"
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
