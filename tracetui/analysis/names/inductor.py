"""Kernels that torch.compile generates (F3): `triton_poi_fused_addmm_gelu_view_17`.

The operators in the name are those the kernel stems from. A pointwise kernel with `addmm` in it is what follows
the product, which is a kernel of its own.
"""

from __future__ import annotations

import re
from collections.abc import Set

from tracetui.analysis.names.decoded import Decoded, Family
from tracetui.analysis.names.text import Name
from tracetui.analysis.names.vocabulary import segments

_FUSED = re.compile(r"(?:\w+?_)??triton_(?:(?P<category>[a-z]{3})_)?fused(?P<rest>\w*)$")
_SIGNATURE = re.compile(r"_\d+d\w*$")
_INDEX = re.compile(r"_(\d+)$")
_NAMELESS = re.compile(r"triton_(?:_\d+d?\w*)?$")
_TUNED = re.compile(
    r"triton_(?P<op>mm|bmm|addmm|baddbmm|mm_plus_mm|scaled_mm|convolution\w*?|flex_\w*?)_(?P<index>\d+)$"
)
_CATEGORIES = {
    "poi": (Family.POINTWISE, "pointwise"),
    "red": (Family.REDUCTION, "reduction"),
    "per": (Family.REDUCTION, "persistent reduction"),
    "for": (Family.POINTWISE, "foreach"),
    "spl": (Family.REDUCTION, "split scan"),
    "tem": (Family.GEMM, "gemm"),
    "unk": (Family.OTHER, "fused"),
    None: (Family.OTHER, "fused"),
}
_PRODUCTS = frozenset(
    {"mm", "addmm", "bmm", "baddbmm", "_scaled_mm", "convolution", "convolution_backward", "linear", "matmul", "einsum"}
)
_ATTENTION = re.compile(r"flex_attention|scaled_dot_product|_flash_attention|_efficient_attention")
_ELSEWHERE = "The work of {ops} runs in a kernel of its own; this one is what was fused to it."
_NO_NAMES = "Its operators are not in the name; the args of the launching op may have kernel_file or kernel_name."


def inductor(name: Name, custom_ops: Set[str] = frozenset()) -> Decoded | None:
    """Decode a kernel of Inductor; `custom_ops` are names of operators that a program registered itself."""
    if "triton_" not in name.base:
        return None
    if _NAMELESS.match(name.base):
        return _nameless(name.base.removeprefix("triton_").strip("_"))
    found = _TUNED.match(name.base)
    if found is not None:
        return _template((found["op"],), int(found["index"]), True)
    found = _FUSED.match(name.base)
    if found is None or found["category"] not in _CATEGORIES:
        return None
    rest = _SIGNATURE.sub("", found["rest"])
    numbered = _INDEX.search(rest)
    index = int(numbered[1][:9]) if numbered else None
    text = rest[: numbered.start()] if numbered else rest
    ops, sure = segments(text[1:], custom_ops) if text else ((), True)
    if found["category"] == "tem":
        return _template(ops, index, sure, text[1:])
    return _generated(found["category"], ops, index, sure, text[1:])


def _nameless(signature: str) -> Decoded:
    return Decoded(
        family=Family.OTHER,
        sort="fused",
        library="Inductor",
        flags=(f"signature {signature}",) if signature else (),
        warnings=(_NO_NAMES,),
        short=f"triton {signature[:20]} (ops unknown)" if signature else "triton (ops unknown)",
    )


def _generated(category: str | None, ops: tuple[str, ...], index: int | None, sure: bool, text: str) -> Decoded:
    family, sort = _CATEGORIES[category]
    elsewhere = [op for op in ops if op in _PRODUCTS or _ATTENTION.search(op)]
    return Decoded(
        family=family,
        sort=sort,
        library="Inductor",
        fused_ops=ops,
        index=index,
        tensor_core=False,
        warnings=(_ELSEWHERE.format(ops=" and ".join(elsewhere)),) if elsewhere else (),
        unknown=(text,) if text and not ops else (),
        inferred=frozenset() if sure else frozenset({"fused_ops"}),
    )


def _template(ops: tuple[str, ...], index: int | None, sure: bool, text: str = "") -> Decoded:
    """A product, a convolution or FlexAttention written as a Triton template, chosen by max-autotune."""
    family, sort, op = Family.GEMM, "gemm", None
    if any(_ATTENTION.search(each) for each in ops):
        family, sort = Family.ATTENTION, "attention"
        op = "backward" if any(each.endswith("backward") for each in ops) else "forward"
    elif any("convolution" in each for each in ops):
        sort = "convolution"
    return Decoded(
        family=family,
        sort=sort,
        op=op,
        library="Inductor template",
        fused_ops=ops,
        index=index,
        tensor_core=True,
        unknown=(text,) if text and not ops else (),
        inferred=frozenset({"sort", "family", "tensor_core"} | (set() if sure else {"fused_ops"})),
    )
