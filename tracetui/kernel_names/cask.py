"""Matrix products and convolutions of cuBLAS and cuDNN: xmma (F8), SASS kernels (F9), and other cuDNN kernels (F13)."""

from __future__ import annotations

import re
from typing import NamedTuple

from tracetui.kernel_names.decoded import LAYOUT_CONVERSION, OPERAND_CONVERSION, Decoded, Family
from tracetui.kernel_names.element_types import (
    ACCUMULATORS,
    BRIEF,
    CONVOLUTIONS,
    FLOATS,
    RELU_CAPABLE,
    brief_type,
    cpp_type,
    shape_of,
    sizes,
)
from tracetui.kernel_names.text import ParsedName
from tracetui.lazy_pattern import lazy_pattern


class _Known(NamedTuple):
    """The meaning of a base name."""

    pattern: str
    family: Family
    sort: str
    op: str | None
    warning: str = ""
    flags: tuple[str, ...] = ()


_CHANNELS_LAST = "A layout conversion around a convolution: channels_last tensors would save it."
_CONVERTED = "Converts an operand before a product or convolution: tensors of the type it computes in would save it."
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


_XMMA = lazy_pattern(
    rf"sm(?P<sm>\d+)_xmma_(?P<kind>gemm|(?P<conv>fprop|dgrad|wgrad|deconv)_implicit_gemm)(?P<variant>(?:_indexed|_wo_smem)*)"
    rf"_(?P<math>{BRIEF})(?P<second>{BRIEF})?(?P<types>(?:_(?:{BRIEF}){{1,2}})*)(?P<layout>(?:_[a-z]+)*?)"
    r"_tilesize(?P<tile>\d+x\d+(?:x\d+)?)(?P<rest>\w*)$"
)
_XMMA_SIZES = lazy_pattern(r"_(stage|warpsize|warpgroupsize|g|tensor|align[abc]?)(\d+(?:x\d+)*)(?=_|$)")
_XMMA_WORDS = {"execute", "kernel", "cudnn", "infer", "train", "5x", "cublas", "trt"}
_SASS = lazy_pattern(
    r"(?:cudnn_)?(?:infer_|train_)?(?P<arch>maxwell|pascal|volta|turing|ampere|ada|hopper)"
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
        tensor_core=True if "warpgroupsize" in given or "tensor" in given else None,
        flags=_xmma_flags(match, given),
        unknown=(*([f"types {raw}"] if raw else []), *words),
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
        op=_direction(words) if convolution else None,
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


def _direction(words: list[str]) -> str | None:
    """What a convolution of cuDNN computes, where its name tells; most do not."""
    return next((CONVOLUTIONS[word] for word in words if word in CONVOLUTIONS), None)
