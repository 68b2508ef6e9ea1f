"""Attention kernels (F4): FlashAttention, PyTorch's memory-efficient kernels, cuDNN, TensorRT-LLM, AITER and others.

FlashAttention 2 and 3 have sizes, types and flags in the template arguments, in an order that depends on the version.
"""

from __future__ import annotations

import re

from tracetui.kernel_names.decoded import SIXTEEN_BIT, Decoded, Family, brief_type, cpp_type, first_float, types_in
from tracetui.kernel_names.text import ParsedName, call, split_arguments, template_of
from tracetui.text import lazy_pattern

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
"""Numbers of flags whose order is known from the source; that of older versions is inferred."""

_FLASH3 = lazy_pattern(r"(Flash(?:Attn|Bwd|Fwd)\w*|compute_attn_ws)")
_CUTE_TUPLE = lazy_pattern(r"(?:C|Int)<(\d+)>\s*,\s*(?:cute::)?(?:C|Int)<(\d+)>\s*,\s*(?:cute::)?(?:C|Int)<(\d+)>")
_CUTE_TUPLE_LEGACY = lazy_pattern(r"constant<int, (\d+)>, [\w:]*constant<int, (\d+)>, [\w:]*constant<int, (\d+)>")
_ARCH = lazy_pattern(r"arch::Sm(\d+)")


def flash(name: ParsedName) -> Decoded | None:
    """Decode a FlashAttention kernel, as shipped by PyTorch or the package of that name."""
    if name.base in _FLASH2:
        return _flash2(name)
    if "flash" in name.text and _FLASH3.search(name.text):
        return _flash3(name)
    return None


def _flash2(name: ParsedName) -> Decoded:
    op, flag_names = _FLASH2[name.base]
    recording_conditions = next((part for part in name.arguments if "kernel_traits" in part), "")
    inner = call(recording_conditions)[1]
    numbers = [int(part) for part in inner[:4] if part.isdecimal() and len(part) < 7]
    states = [part for part in name.arguments if part in ("true", "false")]
    names = flag_names.get(len(states), ())
    likely = {"flags"} if names and len(states) not in _USUAL_COUNTS else set()
    whole = len(numbers) == 4
    return Decoded(
        family=Family.ATTENTION,
        operation="attention",
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


def _flash3(name: ParsedName) -> Decoded:
    backward = "Bwd" in name.text
    if name.base == "compute_attn_ws":
        return _flash3_early(name)
    text = name.text
    hit = re.search(r"CollectiveMainloop(?:Fwd|Bwd)\w*<", text)
    mainloop = split_arguments(text[hit.end() :]) if hit else ()
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
        operation="attention",
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
    """The role of a helper kernel of the backward pass."""
    for part in ("Preprocess", "PostprocessConvertdQ", "Postprocess", "Combine"):
        if part in word:
            return f" {part.removesuffix('ConvertdQ').lower()}"
    return ""


def _flash3_early(name: ParsedName) -> Decoded:
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
        operation="attention",
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


_EFFICIENT = lazy_pattern(
    r"fmha_cutlass(?P<way>[FB])_(?P<type>bf16|f16|f32)_(?P<aligned>aligned|notaligned)_(?P<bq>\d+)x(?P<bk>\d+)"
    r"(?:_k(?P<k>\d+))?(?P<words>(?:_(?:dropout|rf|gmem|seqaligned))*)_sm(?P<sm>\d+)"
)
_CUDNN = lazy_pattern(
    r"cudnn_generated_fort_native_sdpa_sm(?P<sm>\d+)_flash_(?P<way>fprop|bprop)_(?P<mma>\w+?)_(?P<type>f16|bf16|fp8|e4m3)"
    r"_knob_(?P<knob>\w+?)_(?P<m>\d+)x(?P<n>\d+)x(?P<d>\d+)_(?P<warps>\d+)x\d+x\d+(?:_cga(?P<cga>[\dx]+))?"
)
_TRTLLM = lazy_pattern(
    r"fmhaSm(?P<sm>\d+[af]?)Kernel_Q(?:kv)?(?P<q>Bfloat16|Float16|Fp16|E4m3|E2m1)(?:Kv(?P<kv>Bfloat16|Fp16|E4m3|E2m1))?"
    r"O(?P<o>Bfloat16|Float16|Fp16|E4m3|E2m1)H(?:Qk)?(?P<d>\d+)(?:HV?(?P<dv>\d+))?(?P<rest>\w*)$"
)
_TRTLLM_WORDS = (
    ("PagedKv", "paged KV"),
    ("Causal", "causal"),
    ("Dense", "dense"),
    ("SlidingOrChunkedCausal", "sliding or chunked causal"),
    ("MultiCtasKv", "split-KV"),
    ("VarSeq", "varlen"),
    ("Static", "static"),
    ("Persistent", "persistent"),
    ("Context", "context phase"),
    ("ForGen", "generation phase"),
)
_AITER = lazy_pattern(r"fmha_(?P<way>fwd|bwd)_hd(?P<d>\d+)(?:x\d+)?_(?P<type>bf16|fp16|fp8)(?P<rest>\w*)$")
_NAMED = (
    (r"paged_attention_(?:v[12]|ll4mi\w*)\w*", "paged decode", "vLLM"),
    (r"kernel_unified_attention_[23]d", "paged", "vLLM Triton"),
    (r"BatchPrefillWith\w+", "prefill", "FlashInfer"),
    (r"BatchDecodeWith\w+", "decode", "FlashInfer"),
    (r"SinglePrefillWith\w+", "prefill", "FlashInfer"),
    (r"SingleDecodeWith\w+", "decode", "FlashInfer"),
    (r"_?attn_fwd\w*", "forward", "Triton"),
    (r"_?attn_bwd\w*|bwd_kernel_d[kq]\w*", "backward", "Triton"),
)
_NAMED_PATTERNS = tuple((lazy_pattern(pattern), op, library) for pattern, op, library in _NAMED)


def attention(name: ParsedName) -> Decoded | None:
    """Decode a kernel of one of the known attention libraries."""
    for pattern, reader in ((_EFFICIENT, _efficient), (_CUDNN, _cudnn), (_TRTLLM, _trtllm)):
        match = pattern.match(name.base)
        if match is not None:
            return reader(match)
    match = _AITER.match(name.base)
    if match is not None and "aiter" in name.path:
        return _aiter(match)
    for pattern, op, library in _NAMED_PATTERNS:
        if pattern.match(name.base):
            return _named(name, op, library)
    return None


def _efficient(match: re.Match[str]) -> Decoded:
    words = [word for word in match["words"].split("_") if word]
    states = {"rf": "accumulates in registers", "gmem": "accumulates in memory", "seqaligned": "sequence aligned"}
    flags = [match["aligned"].replace("not", "not "), *(states.get(word, word) for word in words)]
    if match["k"]:
        flags.append(f"heads up to {match['k']}" if int(match["k"]) < 65536 else "heads of any size")
    kind = match["type"]
    return Decoded(
        family=Family.ATTENTION,
        operation="attention",
        library="PyTorch memory-efficient",
        vendor="NVIDIA",
        arch=f"sm{match['sm']}",
        op="forward" if match["way"] == "F" else "backward",
        a=kind,
        tile=(int(match["bq"]), int(match["bk"])),
        tensor_core=kind in SIXTEEN_BIT,
        flags=tuple(flags),
        warnings=("not aligned: shapes that do not divide well take this slower path",)
        if match["aligned"] == "notaligned"
        else (),
    )


def _cudnn(match: re.Match[str]) -> Decoded:
    cga = tuple(int(part) for part in (match["cga"] or "").split("x") if part)
    return Decoded(
        family=Family.ATTENTION,
        operation="attention",
        library="cuDNN",
        vendor="NVIDIA",
        arch=f"sm{match['sm']}",
        op="forward" if match["way"] == "fprop" else "backward",
        a="16-bit" if match["type"] == "f16" else brief_type(match["type"]),
        tile=(int(match["m"]), int(match["n"])),
        head=int(match["d"]),
        warps=int(match["warps"]),
        cluster=cga,
        instruction=match["mma"],
        tensor_core="mma" in match["mma"],
        warnings=("f16 in the name stands for bf16 as well",) if match["type"] == "f16" else (),
        unknown=(f"knob {match['knob']}",),
    )


def _trtllm(match: re.Match[str]) -> Decoded:
    rest = match["rest"]
    page, queries = re.search(r"P(\d+)", rest), re.search(r"Q(\d+)Kv(\d+)", rest)
    flags = [text for word, text in _TRTLLM_WORDS if word in rest]
    if "SlidingOrChunkedCausal" in rest:
        flags.remove("causal")
    if page:
        flags.append(f"pages of {page[1]}")
    left = re.sub(r"P\d+|Q\d+Kv\d+", "", rest)
    for word, _ in sorted(_TRTLLM_WORDS, key=lambda pair: -len(pair[0])):
        left = left.replace(word, " ")
    return Decoded(
        family=Family.ATTENTION,
        operation="attention",
        library="TensorRT-LLM / FlashInfer",
        vendor="NVIDIA",
        arch=f"sm{match['sm']}",
        op="forward",
        a=brief_type(match["q"].lower()),
        b=brief_type((match["kv"] or match["q"]).lower()),
        out=brief_type(match["o"].lower()),
        tile=(int(queries[1]), int(queries[2])) if queries else (),
        head=int(match["d"]),
        tensor_core=True,
        flags=tuple(flags),
        unknown=tuple(left.split()),
    )


def _aiter(match: re.Match[str]) -> Decoded:
    words = [word for word in match["rest"].split("_") if word]
    return Decoded(
        family=Family.ATTENTION,
        operation="attention",
        library="AITER assembly",
        vendor="AMD",
        op="forward" if match["way"] == "fwd" else "backward",
        a=brief_type(match["type"]),
        head=int(match["d"]),
        tensor_core=True,
        flags=tuple(word for word in words if word == "causal"),
        unknown=tuple(word for word in words if word != "causal"),
        inferred=frozenset({"tensor_core"}),
    )


def _named(name: ParsedName, op: str, library: str) -> Decoded:
    types = [kind for kind in map(cpp_type, name.arguments) if kind]
    return Decoded(
        family=Family.ATTENTION,
        operation="attention",
        library=library,
        op=op,
        a=first_float(types),
        inferred=frozenset({"library", "op", "a"}),
    )
