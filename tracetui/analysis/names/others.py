"""Copies and fills by the driver (F1), Triton kernels of users, and C++ names with a known word in them.

A copy states its direction. What words of other names suggest is at best likely, and marked so.
"""

from __future__ import annotations

import re

from tracetui.analysis.names.decoded import Decoded, Family
from tracetui.analysis.names.element_types import BRIEF, brief_type, cpp_type, first_float
from tracetui.analysis.names.text import ParsedName

_COPY = re.compile(r"Memcpy (\w)\w*to(\w)\w* \((\w+) -> (\w+)\)$")
_FILL = re.compile(r"Memset \((\w+)\)$")
_PLACES = {"H": "host", "D": "device", "P": "peer", "A": "array"}
_ROCM_COPY = re.compile(r"(?:Copy|hipMemcpy)(Device|Host)To(Device|Host)(?:Async)?$")
_ROCM_KERNELS = {
    "__amd_rocclr_copyBuffer": ("memcpy", "copy"),
    "__amd_rocclr_copyBufferAligned": ("memcpy", "copy"),
    "__amd_rocclr_copyBufferRect": ("memcpy", "copy"),
    "__amd_rocclr_fillBuffer": ("memset", "fill"),
    "__amd_rocclr_fillBufferAligned": ("memset", "fill"),
    "FillBuffer": ("memset", "fill"),
    "CopyBuffer": ("memcpy", "copy"),
}
_PAGEABLE_IN = "Pageable: the copy is staged by the driver, and the call returns when the host buffer is free again."
_PAGEABLE_OUT = "Pageable: staged and synchronous, the CPU waits for the stream."


def memory(name: ParsedName) -> Decoded | None:
    """Decode `Memcpy HtoD (Pageable -> Device)`, `Memset (Device)` and what ROCm calls them."""
    match = _COPY.match(name.raw)
    if match is not None:
        return _copy(*match.groups())
    if _FILL.match(name.raw):
        return Decoded(family=Family.COPY, operation="memset", op="fill", library="driver", short=name.raw)
    match = _ROCM_COPY.match(name.raw)
    if match is not None:
        op = f"{match[1][0]}2{match[2][0]}"
        return Decoded(family=Family.COPY, operation="memcpy", op=op, library="ROCm runtime", vendor="AMD")
    if name.base in _ROCM_KERNELS:
        sort, op = _ROCM_KERNELS[name.base]
        return Decoded(family=Family.COPY, operation=sort, op=op, library="ROCm runtime", vendor="AMD")
    return None


def _copy(source: str, target: str, source_memory: str, target_memory: str) -> Decoded:
    memories = {source_memory.lower(), target_memory.lower()}
    warnings: tuple[str, ...] = ()
    if "pageable" in memories:
        warnings = (_PAGEABLE_OUT if target == "H" else _PAGEABLE_IN,)
    return Decoded(
        family=Family.COPY,
        operation="memcpy",
        op=f"{source}2{target}",
        library="driver",
        flags=tuple(sorted(memories & {"pageable", "pinned", "managed"})),
        warnings=warnings,
        short=f"Memcpy {source}to{target} ({source_memory} -> {target_memory})",
        sentence=f"A copy from {_PLACES.get(source, source)} to {_PLACES.get(target, target)} memory.",
    )


_WORDS = (
    (Family.COMMUNICATION, "collective", r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all"),
    (Family.ATTENTION, "attention", r"flash|fmha|attention|attn|sdpa|(?<![a-z])mla(?![a-z])"),
    (Family.GEMM, "gemm helper", r"splitk_?reduce|reduce_?splitk"),
    (Family.GEMM, "gemv", r"gemv"),
    (Family.GEMM, "convolution", r"winograd|[dw]grad|fprop|conv(?!ert)|scudnn"),
    (Family.GEMM, "gemm", r"(?<!fb)gemm|matmul|cijk_|nvjet|fused_moe"),
    (
        Family.COPY,
        "copy",
        r"copy_(?:kernel|device)|copybuffer|memcpy|transpose|nchwtonhwc|nhwctonchw|catarray|convert|permute",
    ),
    (Family.REDUCTION, "softmax", r"softmax"),
    (Family.REDUCTION, "norm", r"norm(?!al)|(?<![a-z])bn_|welford|gammabeta"),
    (Family.OTHER, "sort", r"sort|topk"),
    (Family.REDUCTION, "scan", r"(?<![a-z])scan|cumsum"),
    (Family.REDUCTION, "reduction", r"reduce|sum_|argm(?:ax|in)|statistics|histogram|cross_entropy"),
    (Family.COPY, "gather", r"gather|scatter|index_?select"),
    (Family.POINTWISE, "random", r"dropout|philox"),
    (
        Family.POINTWISE,
        "pointwise",
        r"elementwise|pointwise|functor|activation|fill|rotary|rope|glu|gelu|silu|relu|(?<![a-z])add(?![a-z])"
        r"|(?<![a-z])mul(?![a-z])|adam",
    ),
)
_PATTERNS = tuple((family, sort, re.compile(pattern)) for family, sort, pattern in _WORDS)
_OGS = re.compile(
    rf"_matmul_ogs_(?P<layouts>[NT]{{3}})_(?P<y>{BRIEF})x(?P<x>{BRIEF})x(?P<w>{BRIEF})"
    r"_(?P<m>\d+)x(?P<n>\d+)x(?P<k>\d+)x(?P<split>\d+)(?:_(?P<epilogue>\w+))?$"
)


def user_kernel(name: ParsedName) -> Decoded | None:
    """A plain identifier: a Triton kernel or a C function, described by its words at best."""
    if not name.text.isidentifier():
        return None
    match = _OGS.match(name.base)
    if match is not None:
        return _ogs(match)
    return by_words(name, "Triton", ("library",))


def by_words(name: ParsedName, library: str | None = None, likely: tuple[str, ...] = ()) -> Decoded:
    """What the words of a name suggest; operation `unknown` where they suggest nothing."""
    text = f"{name.path} {' '.join(part for part in name.arguments if '::' not in part)}"[:2000].lower()
    family, sort = Family.OTHER, "unknown"
    for each_family, each_sort, pattern in _PATTERNS:
        if pattern.search(text):
            family, sort = each_family, each_sort
            break
    types = [kind for kind in map(cpp_type, name.arguments) if kind]
    known = sort != "unknown"
    return Decoded(
        family=family,
        operation=sort,
        library=library if known else None,
        op=(name.base or name.text)[:60] or None,
        a=first_float(types),
        unknown=() if known else ((name.base or name.text)[:200],),
        inferred=frozenset({"family", "operation", "a", *likely}) if known else frozenset({"a"}),
    )


def _ogs(match: re.Match[str]) -> Decoded:
    """The matrix product of Triton's mixture-of-experts kernels: Y, X and W with layouts, tile and split-K."""
    return Decoded(
        family=Family.GEMM,
        operation="gemm",
        library="Triton kernels",
        op="matmul_ogs",
        a=brief_type(match["x"]),
        b=brief_type(match["w"]),
        out=brief_type(match["y"]),
        tile=(int(match["m"]), int(match["n"]), int(match["k"])),
        split_k=int(match["split"][:6]) > 1,
        epilogue=(match["epilogue"],) if match["epilogue"] else (),
        tensor_core=True,
        flags=(f"Y, X and W stored {match['layouts']}",),
        inferred=frozenset({"library", "split_k", "epilogue", "tensor_core"}),
    )
