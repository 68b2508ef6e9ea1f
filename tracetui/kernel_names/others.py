"""Copies and fills by the driver (F1), Triton kernels of users, and C++ names with a known word in them.

A copy states its direction. What words of other names suggest is at best likely, and marked so.
"""

from __future__ import annotations

import re

from tracetui.kernel_names.decoded import Decoded, Family
from tracetui.kernel_names.element_types import BRIEF, brief_type, cpp_type, first_float
from tracetui.kernel_names.innermost import cute_dsl_function, function_of, label, meaning
from tracetui.kernel_names.text import ParsedName
from tracetui.kernel_names.vocabulary import Meaning, spelled
from tracetui.lazy_pattern import lazy_pattern

_COPY = lazy_pattern(r"Memcpy (\w)\w*to(\w)\w* \((\w+) -> (\w+)\)$")
_FILL = lazy_pattern(r"Memset \((\w+)\)$")
_PLACES = {"H": "host", "D": "device", "P": "peer", "A": "array"}
_ROCM_COPY = lazy_pattern(r"(?:Copy|hipMemcpy)(Device|Host)To(Device|Host)(?:Async)?$")
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


_NOT_TRITON = lazy_pattern(
    r"[a-z][A-Z]|^[A-Z]|(?:^|_)(?:sm\d+|cu(?:dnn|blas)\w*|xmma|volta|turing|ampere|hopper|nvfuser)_"
)
"""Capitals as C++ has them, and architectures; Triton kernels are Python functions."""
_BLAS = lazy_pattern(r"_([sdcz])gem[mv]_")
_LETTERS = {"s": "f32", "d": "f64", "c": "c64", "z": "c128"}
"""Types by the letter of a BLAS product, sgemm."""
_PASS = lazy_pattern(
    r"_(?:fwd|bwd)_(?:(?:grouped|kernel|stage|inner|preprocess|one|col|block|split|\d+|d|k|dq|dk|dv)_)*$"
)
_CUTE_TYPE = lazy_pattern(r"tensorptr(bf16|f16|f32|f64|f8e4m3|f8e5m2|f4e2m1|i8|i32|i64|ui8)")
_OGS = lazy_pattern(
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
    is_triton = "(" not in name.raw and not _NOT_TRITON.search(name.base)
    return by_words(name, "Triton" if is_triton else None, ("library",))


def by_words(name: ParsedName, library: str | None = None, likely: tuple[str, ...] = ()) -> Decoded:
    """What the words of a name suggest; operation `unknown` where they suggest nothing."""
    found = _pass_of_attention(name) or meaning(name)
    shown = label(name)
    types = [kind for kind in map(cpp_type, name.arguments) if kind]
    letter = _BLAS.search(spelled(function_of(name)))
    if letter is not None and not types:
        types = [_LETTERS[letter[1]]]
    if cute_dsl_function(name.base) is not None:
        library = "CuTe DSL"
        types = [kind for kind in map(brief_type, _CUTE_TYPE.findall(name.base.lower())) if kind]
    if found is None:
        return Decoded(
            family=Family.OTHER,
            operation="unknown",
            op=shown[:60] or None,
            a=first_float(types),
            unknown=(shown[:200],),
            inferred=frozenset({"a"}),
        )
    return Decoded(
        family=found.family,
        operation=found.operation,
        library=library,
        op=shown[:60] or None,
        a=first_float(types),
        inferred=frozenset({"family", "operation", "a", *likely}),
    )


def _pass_of_attention(name: ParsedName) -> Meaning | None:
    """Attention where a Triton kernel is called `_fwd_kernel` or `_bwd_kernel` and nothing else, as in the tutorial."""
    words = spelled(function_of(name))
    return Meaning(Family.ATTENTION, "attention") if name.text.isidentifier() and _PASS.match(words) else None


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
