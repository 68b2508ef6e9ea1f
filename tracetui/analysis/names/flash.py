"""FlashAttention 2 and 3 (F4): sizes, types and flags stand in the template arguments, in an order of each version."""

from __future__ import annotations

import re

from tracetui.analysis.names.decoded import Decoded
from tracetui.analysis.names.element_types import SIXTEEN_BIT, cpp_type, first_float, types_in
from tracetui.analysis.names.family import Family
from tracetui.analysis.names.text import Name, call, split_arguments, template_of

_FORWARD = {
    5: ("dropout", "causal", "even MN", "even K", "returns softmax"),
    6: ("dropout", "causal", "local", "even MN", "even K", "returns softmax"),
    7: ("dropout", "causal", "local", "alibi", "even MN", "even K", "returns softmax"),
    8: ("dropout", "causal", "local", "alibi", "even MN", "even K", "softcap", "returns softmax"),
}
_SPLIT = {
    5: ("causal", "even MN", "even K", "split", "appends KV"),
    6: ("causal", "local", "even MN", "even K", "split", "appends KV"),
    7: ("causal", "local", "alibi", "even MN", "even K", "split", "appends KV"),
    8: ("causal", "local", "alibi", "even MN", "even K", "softcap", "split", "appends KV"),
}
_BACKWARD = {
    4: ("dropout", "causal", "even MN", "even K"),
    5: ("dropout", "causal", "local", "even MN", "even K"),
    6: ("dropout", "causal", "local", "alibi", "even MN", "even K"),
    7: ("dropout", "causal", "local", "alibi", "even MN", "even K", "softcap"),
}
_FLASH2 = {
    "flash_fwd_kernel": ("forward", _FORWARD),
    "flash_fwd_splitkv_kernel": ("forward split-KV", _SPLIT),
    "flash_fwd_splitkv_combine_kernel": ("forward split-KV combine", {}),
    "flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel": ("backward", _BACKWARD),
    "flash_bwd_dq_dk_dv_loop_kernel": ("backward", _BACKWARD),
    "flash_bwd_dot_do_o_kernel": ("backward dot(dO, O)", {}),
    "flash_bwd_clear_dkvaccum_kernel": ("backward clear dKV", {}),
    "flash_bwd_convert_dq_kernel": ("backward convert dQ", {}),
    "flash_bwd_convert_dkv_kernel": ("backward convert dKV", {}),
}
_USUAL_COUNTS = {7, 8}
"""Numbers of flags whose order was read from the source; those of older versions are likely."""

_FLASH3 = re.compile(r"(Flash(?:Attn|Bwd|Fwd)\w*|compute_attn_ws)")
_CUTE_TUPLE = re.compile(r"(?:C|Int)<(\d+)>\s*,\s*(?:cute::)?(?:C|Int)<(\d+)>\s*,\s*(?:cute::)?(?:C|Int)<(\d+)>")
_CUTE_TUPLE_LEGACY = re.compile(r"constant<int, (\d+)>, [\w:]*constant<int, (\d+)>, [\w:]*constant<int, (\d+)>")
_ARCH = re.compile(r"arch::Sm(\d+)")


def flash(name: Name) -> Decoded | None:
    """Decode a kernel of FlashAttention, as PyTorch or the package of that name ships it."""
    if name.base in _FLASH2:
        return _flash2(name)
    if "flash" in name.text and _FLASH3.search(name.text):
        return _flash3(name)
    return None


def _flash2(name: Name) -> Decoded:
    op, flag_names = _FLASH2[name.base]
    traits = next((part for part in name.arguments if "kernel_traits" in part), "")
    inner = call(traits)[1]
    numbers = [int(part) for part in inner[:4] if part.isdecimal() and len(part) < 7]
    states = [part for part in name.arguments if part in ("true", "false")]
    names = flag_names.get(len(states), ())
    likely = {"flags"} if names and len(states) not in _USUAL_COUNTS else set()
    whole = len(numbers) == 4
    return Decoded(
        family=Family.ATTENTION,
        sort="attention",
        library="FlashAttention 2",
        vendor="NVIDIA",
        op=op,
        a=first_float([kind for kind in map(cpp_type, inner) if kind and kind in SIXTEEN_BIT]),
        acc="f32" if whole else None,
        tile=(numbers[1], numbers[2]) if whole else (),
        warps=numbers[3] if whole else None,
        head=numbers[0] if whole else None,
        tensor_core=op in ("forward", "backward", "forward split-KV"),
        flags=tuple(flag for flag, state in zip(names, states, strict=False) if state == "true"),
        unknown=(f"{len(states)} flags",) if states and not names and flag_names else (),
        inferred=frozenset(likely | {"acc"}),
    )


def _flash3(name: Name) -> Decoded:
    backward = "Bwd" in name.text
    if name.base == "compute_attn_ws":
        return _flash3_early(name)
    text = name.text
    found = re.search(r"CollectiveMainloop(?:Fwd|Bwd)\w*<", text)
    mainloop = split_arguments(text[found.end() :]) if found else ()
    shapes = [tuple(map(int, match)) for match in (_CUTE_TUPLE.findall(text) or _CUTE_TUPLE_LEGACY.findall(text))]
    tile = next((shape for shape in shapes if max(shape) >= 16), ())
    arch = _ARCH.search(text)
    after = text[arch.end() :] if arch else ""
    states = re.findall(r"\b(?:true|false)\b", after)[:1]
    word = next((each for each in _FLASH3.findall(text) if each != "compute_attn_ws"), "")
    op = ("backward" if backward else "forward") + _role(word)
    kinds = [kind for kind in types_in(text) if kind in SIXTEEN_BIT or kind.startswith("f8")]
    return Decoded(
        family=Family.ATTENTION,
        sort="attention",
        library="FlashAttention 3",
        vendor="NVIDIA",
        arch=f"sm{arch[1]}" if arch else None,
        op=op,
        a=kinds[0] if kinds else None,
        acc="f32" if ", float" in text else None,
        tile=tile,
        cluster=next((shape for shape in shapes if 0 < max(shape) <= 4), ()),
        stages=int(mainloop[0]) if mainloop and mainloop[0].isdecimal() and len(mainloop[0]) < 4 else None,
        head=tile[2] if tile else None,
        tensor_core=None if " " in op else True,
        flags=("causal",) if states == ["true"] else (),
        inferred=frozenset({"tile", "cluster", "head", "flags"}),
    )


def _role(word: str) -> str:
    """What a helper of a backward pass does."""
    for part in ("Preprocess", "PostprocessConvertdQ", "Postprocess", "Combine"):
        if part in word:
            return f" {part.removesuffix('ConvertdQ').lower()}"
    return ""


def _flash3_early(name: Name) -> Decoded:
    """The first releases: `compute_attn_ws<Flash_fwd_kernel_traits<D, BM, BN, warps, stages, ...>, causal, ...>`."""
    inner = template_of(name.text, "kernel_traits")
    numbers = [int(part) for part in inner if part.isdecimal() and len(part) < 7]
    whole = len(numbers) >= 5
    flags = []
    if len(name.arguments) > 1 and name.arguments[1] == "true":
        flags.append("causal")
    if "SeqLenTraits<true>" in name.text:
        flags.append("varlen")
    value = inner[-1] if inner and inner[-1].isdecimal() and len(inner) > 8 else None
    if whole and value and int(value[:6]) != numbers[0]:
        flags.append(f"value heads of {value[:6]}")
    return Decoded(
        family=Family.ATTENTION,
        sort="attention",
        library="FlashAttention 3",
        vendor="NVIDIA",
        arch="sm90",
        op="backward" if "bwd" in name.text else "forward",
        a=next((kind for kind in map(cpp_type, inner) if kind in SIXTEEN_BIT or kind == "f8e4m3"), None),
        tile=(numbers[1], numbers[2]) if whole else (),
        warps=numbers[3] if whole else None,
        stages=numbers[4] if whole else None,
        head=numbers[0] if whole else None,
        tensor_core=True,
        flags=tuple(flags),
        inferred=frozenset({"arch"}),
    )
