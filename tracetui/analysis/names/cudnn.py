"""cuDNN's other kernels (F13): batch norm, layout conversions, convolutions on CUDA cores, Winograd, FFT."""

from __future__ import annotations

import re
from typing import NamedTuple

from tracetui.analysis.names.decoded import Decoded, Family
from tracetui.analysis.names.element_types import FLOATS, cpp_type
from tracetui.analysis.names.text import Name


class _Known(NamedTuple):
    """What a base name stands for."""

    pattern: str
    family: Family
    sort: str
    op: str | None
    warning: str = ""
    flags: tuple[str, ...] = ()


_CHANNELS_LAST = "A layout conversion around a convolution: channels_last tensors would save it."
_KNOWN = (
    _Known(r"bn_fw_tr_\w+", Family.REDUCTION, "norm", "batch_norm forward"),
    _Known(r"bn_fw_inf_\w+|bn_fw_\w+", Family.REDUCTION, "norm", "batch_norm inference"),
    _Known(r"bn_bw_\w+", Family.REDUCTION, "norm", "batch_norm backward"),
    _Known(r"nchwToNhwcKernel", Family.COPY, "transpose", "NCHW to NHWC", _CHANNELS_LAST),
    _Known(r"nhwcToNchwKernel", Family.COPY, "transpose", "NHWC to NCHW", _CHANNELS_LAST),
    _Known(
        r"nchwToFoldedNhwcKernel|nhwcToFoldedNhwcKernel", Family.COPY, "transpose", "to folded NHWC", _CHANNELS_LAST
    ),
    _Known(r"nhwcAddPaddingKernel|nchwAddPaddingKernel", Family.COPY, "copy", "pad channels"),
    _Known(r"convertTensor_kernel", Family.COPY, "copy", "cast"),
    _Known(r"scalePackedTensor_kernel", Family.POINTWISE, "fill", "scale"),
    _Known(r"im2col4d_kernel|im2col\w*", Family.COPY, "copy", "im2col"),
    _Known(r"compute\w*OffsetsKernel", Family.GEMM, "convolution helper", "compute offsets"),
    _Known(r"reduce_wgrad_nchw_helper|wgrad_reduce\w*", Family.GEMM, "convolution helper", "reduce wgrad"),
    _Known(r"generateWinogradTilesKernel", Family.GEMM, "convolution helper", "Winograd tiles", flags=("Winograd",)),
    _Known(r"winogradForward\w+", Family.GEMM, "convolution", "forward", flags=("Winograd",)),
    _Known(r"winogradWgrad\w+", Family.GEMM, "convolution", "wgrad", flags=("Winograd",)),
    _Known(r"winograd\w+|\w+_winograd\w*", Family.GEMM, "convolution", None, flags=("Winograd",)),
    _Known(r"(?:implicit|explicit)_convolve_\w*gemm", Family.GEMM, "convolution", None, flags=("CUDA cores",)),
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
_PATTERNS = tuple((re.compile(known.pattern + "$"), known) for known in _KNOWN)


def cudnn(name: Name) -> Decoded | None:
    """Decode a kernel of cuDNN by its base name; older versions stand in no namespace."""
    if name.path.startswith("at::"):
        return None
    for pattern, known in _PATTERNS:
        if pattern.match(name.base):
            return _decoded(name, known)
    return None


def _decoded(name: Name, known: _Known) -> Decoded:
    types = [kind for kind in map(cpp_type, name.arguments) if kind in FLOATS]
    inside = "cudnn" in name.path
    simt = "CUDA cores" in known.flags or known.family != Family.GEMM or known.sort != "convolution"
    two = known.op in ("cast", "NCHW to NHWC", "NHWC to NCHW") and len(types) > 1
    return Decoded(
        family=known.family,
        sort=known.sort,
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
