"""Small kernels of cuBLAS around a matrix product (F10): split-K reductions, matrix times vector, dot products."""

from __future__ import annotations

import re
from typing import NamedTuple

from tracetui.analysis.names.decoded import Decoded
from tracetui.analysis.names.element_types import FLOATS, cpp_type, types_in
from tracetui.analysis.names.family import Family
from tracetui.analysis.names.text import Name


class _Helper(NamedTuple):
    """What one kernel is."""

    pattern: str
    sort: str
    op: str
    family: Family = Family.GEMM


_AFTER = "Belongs to the matrix product before it on the same stream: add their times."
_HELPERS = (
    _Helper(r"splitKreduce_kernel", "gemm helper", "split-K reduce"),
    _Helper(r"gemv2T_kernel_val|gemv2T_kernel", "gemv", "transposed"),
    _Helper(r"gemv2N_kernel|gemvNSP_kernel\w*", "gemv", "not transposed"),
    _Helper(r"gemv\w*kernel\w*|gemv\w*", "gemv", ""),
    _Helper(r"gemmk1_kernel", "gemm", "depth 1"),
    _Helper(r"gemmSN_\w+", "gemm", "few columns"),
    _Helper(r"dot_kernel", "dot", "dot product"),
    _Helper(r"reduce_1Block_kernel", "dot", "dot product, second half"),
    _Helper(r"scal_kernel\w*|scal_\w+_kernel", "blas", "scale", Family.POINTWISE),
    _Helper(r"axpy_kernel\w*", "blas", "axpy", Family.POINTWISE),
    _Helper(r"magma_\w*gemm\w*", "gemm", ""),
    _Helper(r"(?P<letter>[sdhcz])gemm_largek_lds64", "gemm", "large depth"),
    _Helper(r"trsm_\w+|trsv_\w+", "solve", "triangular solve"),
)
_PATTERNS = tuple((re.compile(helper.pattern + "$"), helper) for helper in _HELPERS)
_LETTERS = {"s": "f32", "d": "f64", "h": "f16", "c": "c64", "z": "c128"}
_TENSOR_OF = re.compile(r"cublasGemvTensor\w*<([\w:]+) const>")
_SIDE = re.compile(r"_([NT]{2})_")


def cublas(name: Name) -> Decoded | None:
    """Decode a helper of cuBLAS by its base name; types come from the template."""
    path = name.path
    if path.endswith("gemvx::kernel"):
        return _helper(name, _Helper("", "gemv", ""))
    if path.endswith("epilogue::impl::globalKernel"):
        return _helper(name, _Helper("", "gemm helper", "epilogue"))
    for pattern, helper in _PATTERNS:
        found = pattern.match(name.base)
        if found is not None:
            letter = found.groupdict().get("letter")
            return _helper(name, helper, _LETTERS.get(letter or ""))
    return None


def _helper(name: Name, helper: _Helper, kind: str | None = None) -> Decoded:
    types = [each for each in map(cpp_type, name.arguments) if each in FLOATS]
    stored = _TENSOR_OF.search(name.text) if helper.sort == "dot" else None
    a = kind or next(iter([*(types_in(stored[1]) if stored else []), *types]), None)
    four = helper.sort == "gemv" and len(types) >= 4
    threads = None
    if helper.sort == "gemv" or helper.op == "depth 1":
        threads = next((int(part) for part in name.arguments if part.isdecimal() and int(part[:6]) >= 32), None)
    side = _SIDE.search(name.base)
    after = helper.sort == "gemm helper"
    acc = types[3] if four else "f32" if after and "float" in name.arguments else None
    if helper.sort == "dot" and types:
        acc = types[0]
    return Decoded(
        family=helper.family,
        sort=helper.sort,
        library="cuBLASLt" if name.path.startswith("cublasLt") else "cuBLAS",
        vendor="NVIDIA",
        op=helper.op or None,
        a=a,
        b=types[1] if four else None,
        acc=acc,
        out=types[2] if four else None,
        layout=side[1].lower() if side else None,
        threads=threads,
        split_k=True if helper.op == "split-K reduce" else None,
        epilogue=("bias or activation",) if helper.op == "epilogue" else (),
        tensor_core=False,
        warnings=(_AFTER,) if after else (),
        inferred=frozenset({"acc", "b", "out", "threads", "epilogue"}),
    )
