"""cuBLAS: nvjet matrix products on Hopper and Blackwell (F5), and small kernels around a product (F10).

The library is column-major: the tile's first number lies along the columns of the output in PyTorch.
"""

from __future__ import annotations

from typing import NamedTuple

from tracetui.kernel_names.decoded import Decoded, Family
from tracetui.kernel_names.element_types import FLOATS, cpp_type, types_in
from tracetui.kernel_names.text import ParsedName
from tracetui.lazy_pattern import lazy_pattern

_NAME = lazy_pattern(
    r"nvjet(?:_sm(?P<sm>\d+[af]?))?_(?P<types>[a-z]{3}|[a-z]{5})(?P<tf32>_tf32)?_(?P<m>\d+)x(?P<n>\d+)"
    r"_(?P<k>\d+)x(?P<stages>\d+)(?:_(?P<cm>\d+)x(?P<cn>\d+))?(?P<rest>(?:_\w+)*)$"
)
_TYPES = {"h": "f16", "t": "bf16", "s": "f32", "q": "f8", "o": "f4", "d": "f64"}
_LAYOUT = lazy_pattern(r"[TN][TN][TN]$")
_FLAGS = {
    "2cta": "2-CTA",
    "h": "horizontal raster",
    "v": "vertical raster",
    "coopA": "cooperative along A",
    "coopB": "cooperative along B",
    "Avec32UE8M0": "MX block scales of A",
    "Bvec32UE8M0": "MX block scales of B",
    "Avec16UE4M3": "NVFP4 block scales of A",
    "Bvec16UE4M3": "NVFP4 block scales of B",
}
_GUESSED_FLAGS = {"2cta", "h", "v", "coopA", "coopB"}
_EPILOGUE = {"bias": "bias", "badd": "bias"}


def nvjet(name: ParsedName) -> Decoded | None:
    """Decode `nvjet_tst_144x128_64x6_2x1_v_bz_bias_TNN`; None for a name outside of the grammar."""
    match = _NAME.match(name.base)
    if match is None:
        return None
    words = [word for word in match["rest"].split("_") if word]
    layout = words.pop() if words and _LAYOUT.match(words[-1]) else None
    types = [_TYPES.get(letter) for letter in match["types"]]
    a, b, acc, out = (types[0], types[0], types[1], types[2]) if len(types) == 3 else (*types[:2], types[3], types[4])
    if match["tf32"]:
        a = b = "tf32"
    likely = {"flags"} if _GUESSED_FLAGS & set(words) else set()
    if len(types) == 5:
        likely |= {"a", "b", "acc", "out"}
    unknown = [word for word in words if word not in _FLAGS and word not in _EPILOGUE and word != "splitK"]
    if None in types:
        unknown.insert(0, match["types"])
    if layout:
        unknown.append(f"{layout[2]} (third letter of {layout})")
    return Decoded(
        family=Family.GEMM,
        operation="gemm",
        library="cuBLAS nvjet",
        vendor="NVIDIA",
        arch=f"sm{match['sm']}" if match["sm"] else None,
        a=a,
        b=b,
        acc=acc,
        out=out,
        tile=(int(match["m"]), int(match["n"]), int(match["k"])),
        columns_first=True,
        stages=int(match["stages"]),
        cluster=(int(match["cm"]), int(match["cn"])) if match["cm"] else (),
        layout=layout[:2].lower() if layout else None,
        split_k="splitK" in words,
        epilogue=tuple(dict.fromkeys(_EPILOGUE[word] for word in words if word in _EPILOGUE)),
        tensor_core=True,
        flags=tuple(_FLAGS[word] for word in words if word in _FLAGS),
        unknown=tuple(unknown),
        inferred=frozenset(likely),
    )


class _Helper(NamedTuple):
    """The meaning of a base name."""

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
    _Helper(r"magma_\w*?(?P<letter>[sdhcz])gemm\w*", "gemm", ""),
    _Helper(r"magma_\w*gemm\w*", "gemm", ""),
    _Helper(r"(?P<letter>[sdhcz])gemm_\d+x\d+x\d+_[NT]{2}\w*", "gemm", ""),
    _Helper(r"(?P<letter>[sdhcz])gemm_largek_lds64", "gemm", "large depth"),
    _Helper(r"trsm_\w+|trsv_\w+", "solve", "triangular solve"),
)
_PATTERNS = tuple((lazy_pattern(helper.pattern + "$"), helper) for helper in _HELPERS)
_LETTERS = {"s": "f32", "d": "f64", "h": "f16", "c": "c64", "z": "c128"}
_TENSOR_OF = lazy_pattern(r"cublasGemvTensor\w*<([\w:]+) const>")
_SIDE = lazy_pattern(r"_([NT]{2})_")


def cublas(name: ParsedName) -> Decoded | None:
    """Decode a small cuBLAS kernel by its base name; types come from the template."""
    path = name.path
    if path.endswith("gemvx::kernel"):
        return _helper(name, _Helper("", "gemv", ""))
    if name.base == "globalKernel" and ("epilogue" in path or "cublasLtEpilogue" in name.raw):
        return _helper(name, _Helper("", "gemm helper", "epilogue"))
    for pattern, helper in _PATTERNS:
        match = pattern.match(name.base)
        if match is not None:
            letter = match.groupdict().get("letter")
            return _helper(name, helper, _LETTERS.get(letter or ""))
    return None


def _helper(name: ParsedName, helper: _Helper, kind: str | None = None) -> Decoded:
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
        operation=helper.sort,
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
