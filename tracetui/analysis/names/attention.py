"""Attention (F4) other than FlashAttention: PyTorch's memory-efficient kernels, cuDNN, TensorRT-LLM, AITER, ..."""

from __future__ import annotations

import re

from tracetui.analysis.names.decoded import Decoded
from tracetui.analysis.names.element_types import SIXTEEN_BIT, brief_type, cpp_type, first_float
from tracetui.analysis.names.family import Family
from tracetui.analysis.names.text import Name

_EFFICIENT = re.compile(
    r"fmha_cutlass(?P<way>[FB])_(?P<type>bf16|f16|f32)_(?P<aligned>aligned|notaligned)_(?P<bq>\d+)x(?P<bk>\d+)"
    r"(?:_k(?P<k>\d+))?(?P<words>(?:_(?:dropout|rf|gmem|seqaligned))*)_sm(?P<sm>\d+)"
)
_CUDNN = re.compile(
    r"cudnn_generated_fort_native_sdpa_sm(?P<sm>\d+)_flash_(?P<way>fprop|bprop)_(?P<mma>\w+?)_(?P<type>f16|bf16|fp8|e4m3)"
    r"_knob_(?P<knob>\w+?)_(?P<m>\d+)x(?P<n>\d+)x(?P<d>\d+)_(?P<warps>\d+)x\d+x\d+(?:_cga(?P<cga>[\dx]+))?"
)
_TRTLLM = re.compile(
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
_AITER = re.compile(r"fmha_(?P<way>fwd|bwd)_hd(?P<d>\d+)(?:x\d+)?_(?P<type>bf16|fp16|fp8)(?P<rest>\w*)$")
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
_NAMED_PATTERNS = tuple((re.compile(pattern), op, library) for pattern, op, library in _NAMED)


def attention(name: Name) -> Decoded | None:
    """Decode a kernel of one of the known attention libraries."""
    for pattern, reader in ((_EFFICIENT, _efficient), (_CUDNN, _cudnn), (_TRTLLM, _trtllm)):
        found = pattern.match(name.base)
        if found is not None:
            return reader(found)
    found = _AITER.match(name.base)
    if found is not None and "aiter" in name.path:
        return _aiter(found)
    for pattern, op, library in _NAMED_PATTERNS:
        if pattern.match(name.base):
            return _named(name, op, library)
    return None


def _efficient(found: re.Match[str]) -> Decoded:
    words = [word for word in found["words"].split("_") if word]
    states = {"rf": "accumulates in registers", "gmem": "accumulates in memory", "seqaligned": "sequence aligned"}
    flags = [found["aligned"].replace("not", "not "), *(states.get(word, word) for word in words)]
    if found["k"]:
        flags.append(f"heads up to {found['k']}" if int(found["k"]) < 65536 else "heads of any size")
    kind = found["type"]
    return Decoded(
        family=Family.ATTENTION,
        sort="attention",
        library="PyTorch memory-efficient",
        vendor="NVIDIA",
        arch=f"sm{found['sm']}",
        op="forward" if found["way"] == "F" else "backward",
        a=kind,
        tile=(int(found["bq"]), int(found["bk"])),
        tensor_core=kind in SIXTEEN_BIT,
        flags=tuple(flags),
        warnings=("not aligned: shapes that do not divide well take this slower path",)
        if found["aligned"] == "notaligned"
        else (),
    )


def _cudnn(found: re.Match[str]) -> Decoded:
    cga = tuple(int(part) for part in (found["cga"] or "").split("x") if part)
    return Decoded(
        family=Family.ATTENTION,
        sort="attention",
        library="cuDNN",
        vendor="NVIDIA",
        arch=f"sm{found['sm']}",
        op="forward" if found["way"] == "fprop" else "backward",
        a="16-bit" if found["type"] == "f16" else brief_type(found["type"]),
        tile=(int(found["m"]), int(found["n"])),
        head=int(found["d"]),
        warps=int(found["warps"]),
        cluster=cga,
        instruction=found["mma"],
        tensor_core="mma" in found["mma"],
        warnings=("f16 in the name stands for bf16 as well",) if found["type"] == "f16" else (),
        unknown=(f"knob {found['knob']}",),
    )


def _trtllm(found: re.Match[str]) -> Decoded:
    rest = found["rest"]
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
        sort="attention",
        library="TensorRT-LLM / FlashInfer",
        vendor="NVIDIA",
        arch=f"sm{found['sm']}",
        op="forward",
        a=brief_type(found["q"].lower()),
        b=brief_type((found["kv"] or found["q"]).lower()),
        out=brief_type(found["o"].lower()),
        tile=(int(queries[1]), int(queries[2])) if queries else (),
        head=int(found["d"]),
        tensor_core=True,
        flags=tuple(flags),
        unknown=tuple(left.split()),
    )


def _aiter(found: re.Match[str]) -> Decoded:
    words = [word for word in found["rest"].split("_") if word]
    return Decoded(
        family=Family.ATTENTION,
        sort="attention",
        library="AITER assembly",
        vendor="AMD",
        op="forward" if found["way"] == "fwd" else "backward",
        a=brief_type(found["type"]),
        head=int(found["d"]),
        tensor_core=True,
        flags=tuple(word for word in words if word == "causal"),
        unknown=tuple(word for word in words if word != "causal"),
        inferred=frozenset({"tensor_core"}),
    )


def _named(name: Name, op: str, library: str) -> Decoded:
    types = [kind for kind in map(cpp_type, name.arguments) if kind]
    return Decoded(
        family=Family.ATTENTION,
        sort="attention",
        library=library,
        op=op,
        a=first_float(types),
        inferred=frozenset({"library", "op", "a"}),
    )
