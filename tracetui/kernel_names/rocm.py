"""AMD libraries: Tensile products of hipBLASLt and rocBLAS (F11), composable kernel, ck_tile, MIOpen and AITER (F12).

Tensile is column-major: the tile's first number lies along the columns of the output in PyTorch.
"""

from __future__ import annotations

import re

from tracetui.kernel_names.decoded import LAYOUT_CONVERSION, OPERAND_CONVERSION, Decoded, Family, brief_type, types_in
from tracetui.kernel_names.text import ParsedName
from tracetui.text import lazy_pattern

_LAYOUTS = {
    ("Alik", "Bljk"): "tn",
    ("Ailk", "Bljk"): "nn",
    ("Ailk", "Bjlk"): "nt",
    ("Alik", "Bjlk"): "tt",
}
_LETTERS = {"B": "bf16", "H": "f16", "S": "f32", "D": "f64", "C": "c64", "Z": "c128", "X": "tf32", "I": "i32"}
_EIGHT = {"F8": "f8e4m3", "B8": "f8e5m2", "F8N": "f8e4m3", "B8N": "f8e5m2", "I8": "i8"}
_TYPES = lazy_pattern(r"(?P<a>I8|F8N?|B8N?|[BHSDCZX])(?P<b>F8N?|B8N?)?(?P<out>I|[BHSDCZ])(?P<acc>[SDIHX])?$")
_START = lazy_pattern(r"Cijk_(?P<a>A\w+?)_(?P<b>B\w+?)_(?P<types>[A-Z]_[A-Z]{1,2}(?=_)|[A-Z][A-Z0-9]*)(?P<rest>_\w*)$")
_TILE = lazy_pattern(r"_MT(\d+)x(\d+)x(\d+)")
_MATRIX = lazy_pattern(r"_MI(\d+)x(\d+)x(\d+)(?:x(\d+))?")
_GROUP = lazy_pattern(r"_WG(\d+)_(\d+)_(\d+)")
_WAVE = lazy_pattern(r"_MIWT(\d+)_(\d+)")
_KEY = lazy_pattern(r"_(ISA|GSU|SK|PGR|GRVWA)(n?\d\w*?)(?=_|$)")
_SPLITS = {"_GSUAMBSK": "split-K in one kernel", "_GSUAMB": "split-K through buffers"}


def tensile(name: ParsedName) -> Decoded | None:
    """Decode a name that starts with `Cijk_`."""
    if not name.base.startswith("Cijk_"):
        return None
    if "PostGSU" in name.base or "_MT" not in name.base:
        return _reduction(name)
    match = _START.match(name.base)
    tile = _TILE.search(name.base)
    if match is None or tile is None:
        return None
    text = match["rest"]
    keys = dict(_KEY.findall(text))
    matrix, group = _MATRIX.search(text), _GROUP.search(text)
    a, b, acc, out, sure = _types(match["types"])
    size = [int(part) for part in group.groups()] if group else []
    instruction = "x".join(matrix.groups()[: 3 if matrix[4] else 2]) if matrix else None
    likely = set() if sure else {"a", "b", "acc", "out"}
    return Decoded(
        family=Family.GEMM,
        operation="gemm",
        library="hipBLASLt (Tensile)" if "_UserArgs" in text else "rocBLAS (Tensile)",
        vendor="AMD",
        arch=f"gfx{keys['ISA']}" if "ISA" in keys else None,
        a=a,
        b=b,
        acc=acc,
        out=out,
        tile=tuple(map(int, tile.groups())),
        columns_first=True,
        threads=size[0] * size[1] * size[2] if size else None,
        instruction=instruction,
        layout=_LAYOUTS.get((match["a"], match["b"])),
        split_k=int(keys["GSU"]) > 1 if "GSU" in keys and keys["GSU"].isdecimal() else None,
        tensor_core=matrix is not None,
        flags=_flags(text, keys, size),
        unknown=() if (match["a"], match["b"]) in _LAYOUTS else (f"{match['a']}_{match['b']}",),
        inferred=frozenset(likely | {"library"}),
    )


def _flags(text: str, keys: dict[str, str], group: list[int]) -> tuple[str, ...]:
    flags = []
    if "_Bias" in text:
        flags.append("bias-capable")
    if keys.get("SK", "0").strip("n").isdecimal() and int(keys.get("SK", "0").strip("n")[:4]) > 0:
        flags.append("stream-k")
    if "GSU" not in keys:
        flags.extend([flag for key, flag in _SPLITS.items() if key in text][:1])
    if len(group) == 3 and group[2] > 1:
        flags.append(f"local split {group[2]}")
    wave = _WAVE.search(text)
    if wave:
        flags.append(f"wave tile {wave[1]}x{wave[2]}")
    return tuple(flags)


def _types(text: str) -> tuple[str | None, str | None, str | None, str | None, bool]:
    """A, B, accumulator and output of `BBS`, `B_BS`, `S_B`, `HBH`; and whether the grammar is known."""
    joined = text.replace("_", "")
    # A last B or BH says that beta is used: S_B is single precision, not single to bfloat16.
    if joined in ("SB", "DB", "CB", "ZB"):
        kind = _LETTERS[joined[0]]
        return kind, kind, kind, kind, True
    if joined in ("HB", "BB"):
        kind = _LETTERS[joined[0]]
        return kind, kind, None, kind, False
    if joined in ("HBH", "BBH"):
        kind = _LETTERS[joined[0]]
        return kind, kind, "f32", kind, False
    match = _TYPES.match(joined)
    if match is None:
        return None, None, None, None, False
    a = _EIGHT.get(match["a"]) or _LETTERS.get(match["a"])
    b = _EIGHT.get(match["b"] or "") or a
    out = _LETTERS.get(match["out"])
    acc = _LETTERS.get(match["acc"] or "")
    return a, b, acc, out, match["a"] in _LETTERS


def _reduction(name: ParsedName) -> Decoded:
    """The kernel that adds up the parts of a split K."""
    return Decoded(
        family=Family.GEMM,
        operation="gemm helper",
        library="hipBLASLt (Tensile)",
        vendor="AMD",
        op="split-K reduce",
        split_k=True,
        tensor_core=False,
        unknown=(name.base[:60],),
        inferred=frozenset({"op", "library"}),
    )


_IMPLICIT = lazy_pattern(
    r"igemm_(?P<way>fwd|bwd|wrw)_gtcx?(?P<gen>\d?)_?(?P<dlops>dlops_)?(?P<layout>nhwc|nchw)_(?P<type>bf16|fp16|fp32)"
    r"_(?:bx\d+_ex\d+_)?bt(?P<tile>\d+x\d+x\d+)_wt(?P<wave>\d+x\d+x\d+)(?P<rest>\w*)$"
)
_WAYS = {"fwd": "forward", "bwd": "dgrad", "wrw": "wgrad"}
_GENERATIONS = {"": "gfx908", "2": "gfx90a", "3": "gfx942"}
_GRIDWISE = lazy_pattern(r"Gridwise\w*[Gg]emm\w*<")
_CK_TYPE = {"unsigned short": "bf16", "_Float16": "f16", "float": "f32", "std::bfloat16_t": "bf16", "signed char": "i8"}
_BLOCK_AND_TILE = lazy_pattern(r"PassThrough, (?:\d+, ){0,3}?(64|128|256|512), (\d+), (\d+), (\d+), ")
_BACKWARD_WEIGHT = lazy_pattern(r"PassThrough, (\d+), (\d+), (\d+), (\d+), (\d+), (\d+), \d+, \d+, ck::Sequence")
_BLOCK = lazy_pattern(r"bwd_weight<(\d+), ")
_CK_WORDS = (
    ("bwd_weight", "convolution", "wgrad"),
    ("bwd_data", "convolution", "dgrad"),
    ("grouped_conv_fwd", "convolution", "forward"),
    ("conv", "convolution", None),
    ("gemm", "gemm", None),
    ("layernorm", "norm", "layer_norm"),
    ("normalization", "norm", None),
    ("softmax", "softmax", None),
    ("reduce", "reduction", None),
    ("elementwise", "pointwise", None),
)
_TILE_WORDS = (
    (r"Fmha\w*Bwd|FmhaBwd", Family.ATTENTION, "attention", "backward"),
    (r"FmhaBatchPrefill|Fmha\w*PagedKV", Family.ATTENTION, "attention", "prefill paged KV"),
    (r"FmhaFwdSplitKVCombine", Family.ATTENTION, "attention", "forward split-KV combine"),
    (r"FmhaFwdSplitKV", Family.ATTENTION, "attention", "forward split-KV"),
    (r"FmhaFwdAppendKV", Family.ATTENTION, "attention", "append KV"),
    (r"Fmha", Family.ATTENTION, "attention", "forward"),
    (r"Rmsnorm2d", Family.REDUCTION, "norm", "rms_norm forward"),
    (r"Layernorm2d", Family.REDUCTION, "norm", "layer_norm forward"),
    (r"MoeSorting", Family.REDUCTION, "sort", "expert sorting"),
    (r"FusedMoe", Family.GEMM, "gemm", "fused experts"),
    (r"Gemm", Family.GEMM, "gemm", None),
    (r"Conv", Family.GEMM, "convolution", None),
    (r"Reduce|Softmax|TopK", Family.REDUCTION, "reduction", None),
    (r"Elementwise|Permute", Family.POINTWISE, "pointwise", None),
)
_TILE_PATTERNS = tuple((lazy_pattern(pattern), family, sort, op) for pattern, family, sort, op in _TILE_WORDS)
_SEQUENCE = lazy_pattern(r"sequence<(\d+), (\d+), (\d+), (\d+), (\d+), (\d+)>")
_MANGLED_SEQUENCE = lazy_pattern(r"sequenceIJLi(\d+)ELi(\d+)ELi(\d+)ELi(\d+)ELi(\d+)ELi(\d+)EE")
_NAMED = (
    (
        r"(?P<layout>batched_transpose)_(?P<size>\d+x\d+)_(?P<type>half|dword|byte)",
        Family.COPY,
        LAYOUT_CONVERSION,
        "transpose",
    ),
    (r"transpose_(?:CNHW2NCHW|NCHW2CNHW)\w*", Family.COPY, "transpose", "layout conversion"),
    (r"transpose_(?:NCHW2NHWC|NHWC2NCHW)\w*", Family.COPY, LAYOUT_CONVERSION, "layout conversion"),
    (r"SubTensorOpWithCastTensor\w*", Family.COPY, OPERAND_CONVERSION, "cast"),
    (r"SubTensorOpWith\w+", Family.POINTWISE, "fill", "set or scale"),
    (r"MIOpenBatchNorm\w*", Family.REDUCTION, "norm", "batch_norm"),
    (r"MIOpen\w*Softmax\w*", Family.REDUCTION, "softmax", "softmax"),
    (r"mloPooling\w*", Family.REDUCTION, "pooling", "pooling"),
    (r"Im2[Cc]ol\w*|Col2[Ii]m\w*", Family.COPY, "copy", "im2col"),
    (r"miopenSp3AsmConv\w*|miopenGcnAsm\w*|gcnAsmConv\w*", Family.GEMM, "convolution", None),
    (r"naive_conv\w*", Family.GEMM, "convolution", "naive"),
    (r"wvSplitK\w*", Family.GEMM, "gemm", "skinny"),
    (r"gemm_xdl\w*", Family.GEMM, "gemm", None),
)
_NAMED_PATTERNS = tuple((lazy_pattern(pattern + "$"), family, sort, op) for pattern, family, sort, op in _NAMED)


def rocm(name: ParsedName) -> Decoded | None:
    """Decode kernels of CK, ck_tile, MIOpen and AITER."""
    match = _IMPLICIT.match(name.base)
    if match is not None:
        return _implicit(match)
    if name.text.startswith("ck_tile"):
        return _tile(name)
    if name.text.startswith(("ck::", "ck ")):
        return _composable(name)
    for pattern, family, sort, op in _NAMED_PATTERNS:
        seen = pattern.match(name.base)
        if seen is not None:
            return _named(name, seen.groupdict(), family, sort, op)
    if name.path.startswith("aiter::"):
        return _aiter(name)
    return None


def _implicit(match: re.Match[str]) -> Decoded:
    dlops = match["dlops"] is not None
    wave = match["wave"]
    return Decoded(
        family=Family.GEMM,
        operation="convolution",
        library="MIOpen igemm",
        vendor="AMD",
        arch="gfx10" if dlops else _GENERATIONS.get(match["gen"]),
        op=_WAYS[match["way"]],
        a=brief_type(match["type"]),
        tile=tuple(map(int, match["tile"].split("x"))),
        instruction=wave,
        layout=match["layout"],
        split_k="_gkgs" in match["rest"],
        tensor_core=not dlops,
        inferred=frozenset({"arch"}),
    )


def _composable(name: ParsedName) -> Decoded:
    text = name.text
    sort, op = next(((sort, op) for word, sort, op in _CK_WORDS if word in name.base), ("unknown", None))
    family = {"gemm": Family.GEMM, "convolution": Family.GEMM, "pointwise": Family.POINTWISE, "unknown": Family.OTHER}
    start = _GRIDWISE.search(text)
    inside = text[start.end() :] if start else text
    words = [part.strip() for part in inside[:600].split(",")]
    kinds = [_CK_TYPE[word] for word in words if word in _CK_TYPE]
    threads, tile = _ck_tile(inside)
    block = _BLOCK.search(text)
    return Decoded(
        family=family.get(sort, Family.REDUCTION),
        operation=sort,
        library="composable kernel",
        vendor="AMD",
        op=op,
        a=kinds[0] if kinds else None,
        b=kinds[1] if len(kinds) > 1 else None,
        acc="f32" if "f32" in kinds else None,
        tile=tile,
        threads=threads or (int(block[1]) if block else None),
        tensor_core=True if "xdl" in text else None,
        flags=tuple(flag for word, flag in (("grouped", "grouped"), ("batched", "batched")) if word in name.base),
        inferred=frozenset({"a", "b", "acc", "tile", "threads"}),
    )


def _ck_tile(inside: str) -> tuple[int | None, tuple[int, ...]]:
    """Block size and tile: the four integers after the operations, or M, N, K0 and K1 of a weight gradient."""
    weight = _BACKWARD_WEIGHT.search(inside)
    if weight is not None:
        m, n, k0, _, _, k1 = map(int, weight.groups())
        return None, (m, n, k0 * k1)
    match = _BLOCK_AND_TILE.search(inside)
    if match is None:
        return None, ()
    block, *tile = map(int, match.groups())
    return block, tuple(tile)


def _tile(name: ParsedName) -> Decoded:
    """ck_tile names its kernel class; where the name stayed mangled, its identifiers and raw text are searched."""
    family, sort, op = next(
        ((family, sort, op) for pattern, family, sort, op in _TILE_PATTERNS if pattern.search(name.text)),
        (Family.OTHER, "unknown", None),
    )
    kernel = re.search(r"\b(\w*(?:Kernel|Fwd|Bwd))\b(?!::)", name.text.replace("ck_tile::kentry", ""))
    shape = _SEQUENCE.search(name.text) or _MANGLED_SEQUENCE.search(name.raw[:20_000])
    numbers = tuple(map(int, shape.groups())) if shape else ()
    attention = sort == "attention" and len(numbers) == 6
    kind = None
    if "DF16b" in name.raw or "bfloat16" in name.text or "bf16" in name.text:
        kind = "bf16"
    elif "DF16_" in name.raw or "half" in name.text or "_Float16" in name.text:
        kind = "f16"
    return Decoded(
        family=family,
        operation=sort,
        library="ck_tile",
        vendor="AMD",
        op=op,
        a=kind,
        tile=numbers[:2] if attention else (),
        head=numbers[3] if attention else None,
        tensor_core=True if sort in ("attention", "gemm", "convolution") else False if sort == "norm" else None,
        unknown=() if op or kernel is None else (kernel[1],),
        inferred=frozenset({"a", "tile", "head", "op", "tensor_core"}),
    )


def _named(name: ParsedName, parts: dict[str, str | None], family: Family, sort: str, op: str | None) -> Decoded:
    sizes = {"half": "2-byte", "dword": "4-byte", "byte": "1-byte"}
    types = types_in(" ".join(name.arguments))
    library = "MIOpen"
    if name.base.startswith("wvSplitK"):
        library = "vLLM ROCm"
    elif name.base.startswith("gemm_xdl"):
        library = "composable kernel"
    return Decoded(
        family=family,
        operation=sort,
        library=library,
        vendor="AMD",
        op=op,
        a=sizes.get(parts.get("type") or "") or (types[0] if types else None),
        tile=tuple(map(int, (parts.get("size") or "").split("x"))) if parts.get("size") else (),
        tensor_core=True if "xdl" in name.base else None,
        inferred=frozenset({"library", "a"}),
    )


def _aiter(name: ParsedName) -> Decoded | None:
    """AITER's own kernels tell in words what they do; other families are left to the words."""
    types = types_in(name.text)
    text = name.base.lower()
    if "metadata" in text:
        return None
    if "gemm" not in text and "norm" not in text and "attn" not in text and "mla" not in text:
        return None
    if "gemm" in text:
        family, sort = Family.GEMM, "gemm"
    elif "norm" in text:
        family, sort = Family.REDUCTION, "norm"
    else:
        family, sort = Family.ATTENTION, "attention"
    return Decoded(
        family=family,
        operation=sort,
        library="AITER",
        vendor="AMD",
        op=name.base,
        a=types[0] if types else None,
        inferred=frozenset({"family", "operation", "a"}),
    )
