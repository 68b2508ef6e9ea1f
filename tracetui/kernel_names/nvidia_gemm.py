"""Matrix products and convolutions of cuBLAS and cuDNN: xmma (F8), SASS kernels (F9), and other cuDNN kernels (F13)."""

from __future__ import annotations

import re
from typing import NamedTuple

from tracetui.kernel_names.decoded import (
    ACCUMULATORS,
    BRIEF,
    CONVOLUTIONS,
    FLOATS,
    LAYOUT_CONVERSION,
    OPERAND_CONVERSION,
    RELU_CAPABLE,
    Decoded,
    Family,
    brief_type,
    cpp_type,
    shape_of,
    sizes,
    types_in,
)
from tracetui.kernel_names.text import ParsedName
from tracetui.text import lazy_pattern


class _Known(NamedTuple):
    """The meaning of a base name."""

    pattern: str
    family: Family
    sort: str
    op: str | None
    warning: str = ""
    flags: tuple[str, ...] = ()


_CHANNELS_LAST = "A layout conversion around a convolution: channels_last tensors would save it."
_CONVERTED = "Converts an operand before a GEMM or convolution: tensors of the type it computes in would save it."
_KNOWN = (
    _Known(r"bn_fw_tr_\w+", Family.REDUCTION, "norm", "batch_norm forward"),
    _Known(r"bn_fw_inf_\w+|bn_fw_\w+", Family.REDUCTION, "norm", "batch_norm inference"),
    _Known(r"bn_bw_\w+", Family.REDUCTION, "norm", "batch_norm backward"),
    _Known(r"nchwToNhwc(?:Transpose)?Kernel", Family.COPY, LAYOUT_CONVERSION, "NCHW to NHWC", _CHANNELS_LAST),
    _Known(r"nhwcToNchw(?:Transpose)?Kernel", Family.COPY, LAYOUT_CONVERSION, "NHWC to NCHW", _CHANNELS_LAST),
    _Known(r"n(?:chw|hwc)ToFoldedNhwcKernel", Family.COPY, LAYOUT_CONVERSION, "to folded NHWC", _CHANNELS_LAST),
    _Known(r"nhwcAddPaddingKernel|nchwAddPaddingKernel", Family.COPY, "copy", "pad channels"),
    _Known(r"convertTensor_kernel", Family.COPY, OPERAND_CONVERSION, "cast", _CONVERTED),
    _Known(r"scalePackedTensor_kernel", Family.POINTWISE, "fill", "scale"),
    _Known(r"im2col4d_kernel|im2col\w*", Family.COPY, "copy", "im2col"),
    _Known(r"compute\w*OffsetsKernel", Family.GEMM, "convolution helper", "compute offsets"),
    _Known(r"reduce_wgrad_nchw_helper|wgrad_reduce\w*", Family.GEMM, "convolution helper", "reduce wgrad"),
    _Known(r"generateWinogradTilesKernel", Family.GEMM, "convolution helper", "Winograd tiles", flags=("Winograd",)),
    _Known(r"winogradForward\w+", Family.GEMM, "convolution", "forward", flags=("Winograd",)),
    _Known(r"winogradWgrad\w+", Family.GEMM, "convolution", "wgrad", flags=("Winograd",)),
    _Known(r"winograd\w+|\w+_winograd\w*", Family.GEMM, "convolution", None, flags=("Winograd",)),
    _Known(
        r"(?:implicit|explicit|precomputed)_convolve_\w*gemm", Family.GEMM, "convolution", None, flags=("CUDA cores",)
    ),
    _Known(r"convolve_common_engine\w*", Family.GEMM, "convolution", None, flags=("CUDA cores",)),
    _Known(r"wgrad_\w*engine\w*|wgrad2d_\w+", Family.GEMM, "convolution", "wgrad", flags=("CUDA cores",)),
    _Known(r"dgrad_\w*engine\w*|dgrad2d_\w+", Family.GEMM, "convolution", "dgrad", flags=("CUDA cores",)),
    _Known(r"conv2d_\w+|conv_depthwise\w+|conv2d_grouped\w+", Family.GEMM, "convolution", None),
    _Known(r"fft[12]d_\w+|flip_filter|compute_gemm_pointers", Family.GEMM, "convolution", None, flags=("FFT",)),
    _Known(r"pooling_fw_\w+", Family.REDUCTION, "pooling", "pooling forward"),
    _Known(r"pooling_bw_\w+", Family.REDUCTION, "pooling", "pooling backward"),
    _Known(r"softmax_fw_\w+", Family.REDUCTION, "softmax", "softmax forward"),
    _Known(r"op_generic_tensor_kernel|op_tensor\w*", Family.POINTWISE, "pointwise", None),
    _Known(r"(?:LSTM|GRU|RNN)_\w+|elemWiseRNNcell", Family.POINTWISE, "rnn", "cell"),
)
_PATTERNS = tuple((lazy_pattern(known.pattern + "$"), known) for known in _KNOWN)


def cudnn(name: ParsedName) -> Decoded | None:
    """Decode a cuDNN kernel by its base name; older versions have no namespace."""
    for pattern, known in _PATTERNS:
        if pattern.match(name.base):
            return _decoded(name, known)
    return None


def _decoded(name: ParsedName, known: _Known) -> Decoded:
    types = [kind for kind in map(cpp_type, name.arguments) if kind in FLOATS]
    inside = "cudnn" in name.path
    simt = "CUDA cores" in known.flags or known.family != Family.GEMM or known.sort != "convolution"
    two = known.op in ("cast", "NCHW to NHWC", "NHWC to NCHW") and len(types) > 1
    return Decoded(
        family=known.family,
        operation=known.sort,
        library="cuDNN",
        vendor="NVIDIA",
        op=known.op,
        a=types[0] if types else None,
        out=types[1] if two else None,
        tensor_core=False if simt else None,
        flags=known.flags,
        warnings=(known.warning,) if known.warning else (),
        inferred=frozenset({"a", "out"} if inside else {"library", "a", "out"}),
    )


_BEFORE = r"(?:_?\d+x_)?(?:cudnn_|cublas_)?(?:infer_|train_)?"
"""Version and library that some builds put before a name: `_5x_cudnn_`, `cudnn_infer_`."""
_XMMA = lazy_pattern(
    rf"{_BEFORE}sm(?P<sm>\d+)_xmma_(?P<kind>gemm|(?P<conv>fprop|dgrad|wgrad|deconv)_implicit_gemm)(?P<variant>(?:_indexed|_wo_smem)*)"
    rf"_(?P<math>{BRIEF})(?P<second>{BRIEF})?(?P<types>(?:_(?:{BRIEF}){{1,2}})*)(?P<layout>(?:_[a-z]+)*?)"
    r"_tilesize(?P<tile>\d+x\d+(?:x\d+)?)(?P<rest>\w*)$"
)
_XMMA_SIZES = lazy_pattern(r"_(stage|warpsize|warpgroupsize|g|tensor|align[abc]?)(\d+(?:x\d+)*)(?=_|$)")
_XMMA_WORDS = {"execute", "kernel", "cudnn", "infer", "train", "5x", "cublas", "trt"}
_FFMA = "ffma"
"""Word of kernels that multiply on CUDA cores."""
_SASS = lazy_pattern(
    rf"{_BEFORE}(?P<arch>maxwell|pascal|volta|turing|ampere|ada|hopper)"
    rf"_(?:(?P<out>{BRIEF})_)?(?P<letter>g?[shdiczq])(?P<instr>\d{{3,6}})?(?P<core>gemm|cudnn)"
    rf"(?P<winograd>_winograd)?(?:_(?P<a>{BRIEF}))?_(?P<m>\d+)x(?P<n>\d+)(?P<rest>(?:_\w+)?)$"
)
_STAGES = lazy_pattern(r"_stages_(\d+)x(\d+)")
_SLICED = lazy_pattern(r"_sliced(\d+)x(\d+)")
_LAYOUT = lazy_pattern(r"_([nt]{2})(?:_v\d+)?$")
_FLAGS = {"relu": RELU_CAPABLE, "f2f": "converts types in the epilogue", "splitK": "split-K"}
_EPILOGUE_GUESS = "f2f"


def xmma(name: ParsedName) -> Decoded | None:
    """Decode `sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_...`."""
    if "_xmma_" not in name.base:
        return None
    match = _XMMA.match(name.base)
    if match is None:
        return None
    given = dict(_XMMA_SIZES.findall(match["rest"]))
    left = _XMMA_SIZES.sub("", match["rest"])
    split = None
    if "_split_k" in left or "_segment_k_on" in left:
        split = True
    elif "_segment_k_off" in left:
        split = False
    left = re.sub(r"_split_k|_segment_k_(?:on|off)", "", left)
    words = [word for word in left.split("_") if word and word not in _XMMA_WORDS]
    on_tensor_cores = True if "warpgroupsize" in given or "tensor" in given else None
    if _FFMA in words:
        on_tensor_cores = False
    raw = "".join(part or "" for part in (match["second"], match["types"])).strip("_")
    layouts = match["layout"].strip("_")
    convolution = match["conv"] is not None
    math = brief_type(match["math"])
    return Decoded(
        family=Family.GEMM,
        operation="convolution" if convolution else "gemm",
        library="cuDNN xmma" if convolution or "cudnn" in left else "cuBLAS xmma",
        vendor="NVIDIA",
        arch=f"sm{match['sm']}",
        op=CONVOLUTIONS.get(match["conv"]) if convolution else None,
        a=math,
        tile=sizes(match["tile"]),
        columns_first=None if convolution else False,
        stages=int(given["stage"]) if "stage" in given else None,
        warps=_product(given.get("warpsize")),
        instruction=given.get("tensor"),
        layout=layouts.rsplit("_", 1)[-1] if convolution else layouts[:2] or None,
        align=next((int(given[key]) for key in ("align", "aligna", "alignb", "alignc") if key in given), None),
        split_k=split,
        tensor_core=on_tensor_cores,
        flags=_xmma_flags(match, given),
        unknown=(*([f"types {raw}"] if raw else []), *(word for word in words if word != _FFMA)),
        inferred=frozenset({"columns_first"}),
    )


def _xmma_flags(match: re.Match[str], given: dict[str, str]) -> tuple[str, ...]:
    flags = [word for word in match["variant"].replace("wo_smem", "no shared memory").split("_") if word]
    if "warpgroupsize" in given:
        groups = _product(given["warpgroupsize"]) or 1
        flags.append(f"{groups} warpgroup{'s' if groups > 1 else ''}")
    if given.get("g", "1") != "1":
        flags.append(f"{given['g']} groups")
    return tuple(flags)


def _product(text: str | None) -> int | None:
    """Warps of `2x2x1`."""
    if text is None:
        return None
    result = 1
    for size in sizes(text):
        result *= size
    return result


def sass(name: ParsedName) -> Decoded | None:
    """Decode `ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_nn` and the convolutions `..._scudnn_...`."""
    match = _SASS.match(name.base)
    if match is None:
        return None
    rest = match["rest"]
    stages, sliced, layout = _STAGES.search(rest), _SLICED.search(rest), _LAYOUT.search(rest)
    left = _LAYOUT.sub("", _SLICED.sub("", _STAGES.sub("", rest)))
    words = [word for word in left.split("_") if word]
    loads = [word for word in words if re.match(r"ldg\d+$", word)]
    acc, tensor = ACCUMULATORS.get(match["letter"][-1]), match["instr"] is not None
    a = brief_type(match["a"]) or ("tf32" if tensor and acc == "f32" else acc)
    convolution = match["core"] == "cudnn"
    likely = {"flags"} if _EPILOGUE_GUESS in words else set()
    if tensor:
        likely |= {field for field in ("a", "out") if not match[field]}
    return Decoded(
        family=Family.GEMM,
        operation="convolution" if convolution else "gemm",
        library="cuDNN SASS" if convolution else "cuBLAS SASS",
        vendor="NVIDIA",
        arch=match["arch"],
        op=next((CONVOLUTIONS[word] for word in words if word in CONVOLUTIONS), None) if convolution else None,
        a=a,
        b=a,
        acc=acc,
        out=brief_type(match["out"]) or acc,
        tile=(int(match["m"]), int(match["n"]), *([int(stages[1])] if stages else [])),
        columns_first=None if convolution else True,
        stages=int(stages[2]) if stages else None,
        instruction=shape_of(match["instr"]),
        layout=layout[1] if layout else None,
        split_k=True if "splitK" in words else None,
        vector=int(loads[0][3:]) if loads else None,
        tensor_core=tensor,
        flags=_sass_flags(match, words, sliced),
        unknown=tuple(word for word in words if word not in _FLAGS and word not in loads and word != "nhwc"),
        inferred=frozenset(likely),
    )


def _sass_flags(match: re.Match[str], words: list[str], sliced: re.Match[str] | None) -> tuple[str, ...]:
    flags = [_FLAGS[word] for word in words if word in _FLAGS]
    if match["letter"].startswith("g"):
        flags.append("Gaussian complex (3 products)")
    if sliced:
        flags.append(f"sliced-K {int(sliced[1]) * int(sliced[2])}")
    if match["winograd"]:
        flags.append("Winograd")
    if "nhwc" in words:
        flags.append("nhwc")
    return tuple(flags)


# cuBLAS: nvjet matrix products on Hopper and Blackwell (F5), and small kernels around a product (F10).
#
# The library is column-major: the tile's first number lies along the columns of the output in PyTorch.

_NVJET_NAME = lazy_pattern(
    r"nvjet(?:_sm(?P<sm>\d+[af]?))?_(?P<types>[a-z]{3}|[a-z]{5})(?P<tf32>_tf32)?_(?P<m>\d+)x(?P<n>\d+)"
    r"_(?P<k>\d+)x(?P<stages>\d+)(?:_(?P<cm>\d+)x(?P<cn>\d+))?(?P<rest>(?:_\w+)*)$"
)
_NVJET_TYPES = {"h": "f16", "t": "bf16", "s": "f32", "q": "f8", "o": "f4", "d": "f64"}
_NVJET_LAYOUT = lazy_pattern(r"[TN][TN][TN]$")
_NVJET_FLAGS = {
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
    match = _NVJET_NAME.match(name.base)
    if match is None:
        return None
    words = [word for word in match["rest"].split("_") if word]
    layout = words.pop() if words and _NVJET_LAYOUT.match(words[-1]) else None
    types = [_NVJET_TYPES.get(letter) for letter in match["types"]]
    a, b, acc, out = (types[0], types[0], types[1], types[2]) if len(types) == 3 else (*types[:2], types[3], types[4])
    if match["tf32"]:
        a = b = "tf32"
    likely = {"flags"} if _GUESSED_FLAGS & set(words) else set()
    if len(types) == 5:
        likely |= {"a", "b", "acc", "out"}
    unknown = [word for word in words if word not in _NVJET_FLAGS and word not in _EPILOGUE and word != "splitK"]
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
        flags=tuple(_NVJET_FLAGS[word] for word in words if word in _NVJET_FLAGS),
        unknown=tuple(unknown),
        inferred=frozenset(likely),
    )


class _Helper(NamedTuple):
    """The meaning of a base name."""

    pattern: str
    sort: str
    op: str
    family: Family = Family.GEMM


_AFTER = "Belongs to the GEMM before it on the same stream: add their times."
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
_CUBLAS_PATTERNS = tuple((lazy_pattern(helper.pattern + "$"), helper) for helper in _HELPERS)
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
    for pattern, helper in _CUBLAS_PATTERNS:
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


# Generated matrix products of TensorRT-LLM and FlashInfer: `bmm_Bfloat16_E2m1E2m1_Fp32_t128x8x512_s5_...` (F17).

_TYPE = r"(?:Mx)?(?:Bfloat16|Fp16|Fp32|E4m3|E5m2|E3m2|E2m3|E2m1|Int4|Int8|UInt4|UInt8)"
_TRTLLM_NAME = lazy_pattern(
    rf"(?P<kind>bmm|gemm)[A-Za-z]*_(?P<out>{_TYPE})_(?P<a>{_TYPE})(?P<b>{_TYPE})?(?:_cast{_TYPE})?_(?P<acc>Fp32|Fp16|Int32)"
    r"(?P<rest>(?:_\w+)?)$"
)
_TRTLLM_TYPES = {
    "Bfloat16": "bf16",
    "Fp16": "f16",
    "Fp32": "f32",
    "E4m3": "f8e4m3",
    "E5m2": "f8e5m2",
    "E2m1": "f4e2m1",
    "MxE2m1": "mxfp4",
    "Int4": "i4",
    "Int8": "i8",
    "UInt4": "u4",
    "UInt8": "u8",
    "Int32": "i32",
}
_TILE = lazy_pattern(r"_t(\d+)x(\d+)x(\d+)")
_TRTLLM_STAGES = lazy_pattern(r"_s(\d{1,3})(?=_|$)")
_INSTRUCTION = lazy_pattern(r"_m(\d+x\d+x\d+)")
_CLUSTER = lazy_pattern(r"_(?:cga|c)(\d+)x(\d+)x(\d+)")
_TRTLLM_LAYOUT = lazy_pattern(r"_([TN]{2})(?=_|$)")
_ARCH = lazy_pattern(r"_sm(\d+[af]?)(?=_|$)")
_SPLIT = lazy_pattern(r"_splitK(\d*)")
_ACTIVATION = lazy_pattern(r"_(swiGlu|geGlu|relu2|silu|gelu|identity)(?=_|$)")


def trtllm(name: ParsedName) -> Decoded | None:
    """Decode a generated product by the types, tile and options in its name; None for a name outside of the grammar."""
    match = _TRTLLM_NAME.match(name.base)
    if match is None:
        return None
    rest = match["rest"]
    tile, cluster, stages = _TILE.search(rest), _CLUSTER.search(rest), _TRTLLM_STAGES.search(rest)
    instruction, layout, arch = _INSTRUCTION.search(rest), _TRTLLM_LAYOUT.search(rest), _ARCH.search(rest)
    split, activation = _SPLIT.search(rest), _ACTIVATION.search(rest)
    types = [match[part] for part in ("out", "a", "b")]
    flags = [flag for flag, state in _flags(match["kind"], rest, types).items() if state]
    a, b = _element(match["a"]), _element(match["b"] or match["a"])
    return Decoded(
        family=Family.GEMM,
        operation="gemm",
        library="TensorRT-LLM",
        vendor="NVIDIA",
        arch=f"sm{arch[1]}" if arch else None,
        a=a,
        b=b,
        acc=_element(match["acc"]),
        out=_element(match["out"]),
        tile=tuple(map(int, tile.groups())) if tile else (),
        cluster=tuple(map(int, cluster.groups())) if cluster else (),
        stages=int(stages[1]) if stages else None,
        instruction=instruction[1] if instruction else None,
        layout=layout[1].lower() if layout else None,
        split_k=split[1] not in ("", "1") if split else None,
        epilogue=(activation[1].lower(),) if activation and activation[1] != "identity" else (),
        tensor_core=True,
        flags=tuple(flags),
        inferred=frozenset({"layout", "cluster", "tensor_core"}),
    )


def _flags(kind: str, rest: str, types: list[str | None]) -> dict[str, bool]:
    return {
        "batched": kind == "bmm",
        "transposed output": "_transOut" in rest,
        "persistent": re.search(r"_sch(?:ed)?P", rest) is not None,
        "MX block scales": any(kind and kind.startswith("Mx") for kind in types),
    }


def _element(text: str) -> str | None:
    return _TRTLLM_TYPES.get(text) or _TRTLLM_TYPES.get(text.removeprefix("Mx"))
