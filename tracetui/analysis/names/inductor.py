"""Kernels that torch.compile generates (F3): `triton_poi_fused_addmm_gelu_view_17`.

The operators in the name are those the kernel stems from. A pointwise kernel with `addmm` in it is what follows
the product, which is a kernel of its own.

Which operators an Inductor kernel stems from: its name split by the words of PyTorch's dispatcher.

Inductor joins the sorted, unique names of operators with `_`, which they hold themselves. The order, strictly
ascending, is what makes the way back unique. `operators.txt` has the base names of torch 2.13's operators:

    names = {n.split("::")[1].split(".")[0] for n in torch._C._dispatch_get_all_op_names()}
    names |= set(map(str, torch._ops._higher_order_ops))  # after importing torch._inductor.lowering

and `modules.txt` the classes of torch.nn, which kernels of torch 2.0 are named after.
"""

from __future__ import annotations

import re
from collections.abc import Set
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tracetui.analysis.names.decoded import Decoded, Family
from tracetui.analysis.names.text import ParsedName

MAX_WORDS = 400
"""Words of a name that are split; longer ones are no names of Inductor."""

_MAX_OP_WORDS = 16
"""Words of one operator that are tried."""


class _Path(NamedTuple):
    """The best way to the end of one operator: how many operators, how many such ways, and from where."""

    size: int
    ways: int
    previous: tuple[int, str] | None


@cache
def operators() -> frozenset[str]:
    """The base names of PyTorch's operators."""
    return _read("operators.txt")


@cache
def modules() -> frozenset[str]:
    """The class names of torch.nn."""
    return _read("modules.txt")


def _read(file: str) -> frozenset[str]:
    return frozenset((Path(__file__).parent / file).read_text(encoding="utf-8").split())


def segments(text: str, more: Set[str] = frozenset()) -> tuple[tuple[str, ...], bool]:
    """Split `_to_copy_addmm_mean` into operators, and say whether that is the only way with so few of them.

    `more` are names of custom operators. Empty where the text is no list of known operators.
    """
    found = _split(text, operators(), more)
    if not found[0]:
        found = _split(text, operators() | modules(), more)
    return found


def _split(text: str, known: Set[str], more: Set[str]) -> tuple[tuple[str, ...], bool]:
    """The fewest operators in strictly ascending order that make up the text, by dynamic programming."""
    ends = [index for index, letter in enumerate(text) if letter == "_"] + [len(text)]
    if len(ends) > MAX_WORDS:
        return (), False
    best: dict[int, dict[str, _Path]] = {0: {"": _Path(0, 1, None)}}
    for begin in [0, *(end + 1 for end in ends[:-1])]:
        paths = best.get(begin)
        if not paths:
            continue
        for end in [end for end in ends if end > begin][:_MAX_OP_WORDS]:
            word = text[begin:end]
            if word in known or word in more:
                _extend(best.setdefault(end + 1, {}), begin, word, paths)
    return _shortest(best, len(text) + 1)


def _extend(here: dict[str, _Path], begin: int, word: str, paths: dict[str, _Path]) -> None:
    """Add one operator to the ways that led to its beginning, where it stays in order."""
    for last, path in paths.items():
        if last >= word:
            continue
        known = here.get(word)
        if known is None or path.size + 1 < known.size:
            here[word] = _Path(path.size + 1, path.ways, (begin, last))
        elif path.size + 1 == known.size:
            here[word] = known._replace(ways=known.ways + path.ways)


def _shortest(best: dict[int, dict[str, _Path]], end: int) -> tuple[tuple[str, ...], bool]:
    paths = best.get(end)
    if not paths:
        return (), False
    word = min(paths, key=lambda last: paths[last].size)
    unique = sum(path.ways for path in paths.values() if path.size == paths[word].size) == 1
    found: list[str] = []
    index: int = end
    while word:
        found.append(word)
        step = best[index][word].previous
        if step is None:
            break
        index, word = step
    return tuple(reversed(found)), unique


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


def inductor(name: ParsedName, custom_ops: Set[str] = frozenset()) -> Decoded | None:
    """Decode a kernel of Inductor; `custom_ops` are names of operators that a program registered itself."""
    if "triton_" not in name.base:
        return None
    if _NAMELESS.match(name.base):
        return _nameless(name.base.removeprefix("triton_").strip("_"))
    match = _TUNED.match(name.base)
    if match is not None:
        return _template((match["op"],), int(match["index"]), True)
    match = _FUSED.match(name.base)
    if match is None or match["category"] not in _CATEGORIES:
        return None
    rest = _SIGNATURE.sub("", match["rest"])
    numbered = _INDEX.search(rest)
    index = int(numbered[1][:9]) if numbered else None
    text = rest[: numbered.start()] if numbered else rest
    ops, sure = segments(text[1:], custom_ops) if text else ((), True)
    if match["category"] == "tem":
        return _template(ops, index, sure, text[1:])
    return _generated(match["category"], ops, index, sure, text[1:])


def _nameless(signature: str) -> Decoded:
    return Decoded(
        family=Family.OTHER,
        operation="fused",
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
        operation=sort,
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
        operation=sort,
        op=op,
        library="Inductor template",
        fused_ops=ops,
        index=index,
        tensor_core=True,
        unknown=(text,) if text and not ops else (),
        inferred=frozenset({"operation", "family", "tensor_core"} | (set() if sure else {"fused_ops"})),
    )
