"""Kernels of PyTorch and of Apex and FBGEMM that are known by name, with what their template arguments mean (F14)."""

from __future__ import annotations

import re
from typing import NamedTuple

from tracetui.analysis.names.family import Family


class Known(NamedTuple):
    """What a base name stands for."""

    pattern: str
    family: Family
    sort: str
    op: str | None = None
    """None where the name itself is the operator's."""
    roles: str = "a"
    """What the types among the template arguments are, in their order."""
    vector: bool = False
    """Whether the first argument is the number of elements that a thread loads at once."""
    library: str = "PyTorch"
    flags: tuple[tuple[str, str], ...] = ()
    """Words of the base name, or template arguments, that state a property."""


_CONTIGUOUS = (("_contig", "contiguous"), ("_vectorized", "vectorised"), ("_aligned16", "16-byte aligned"))
_LAYOUT = (("nchw", "nchw"), ("nhwc", "nhwc"))
_KERNELS = (
    Known(r"CatArrayBatchedCopy\w*", Family.COPY, "copy", "cat", flags=_CONTIGUOUS),
    Known(r"vectorized_layer_norm_kernel", Family.REDUCTION, "norm", "layer_norm", "a acc", flags=(("true", "rms"),)),
    Known(r"RowwiseMoments\w*|LayerNormForward\w*", Family.REDUCTION, "norm", "layer_norm", "a acc"),
    Known(r"layer_norm_grad_input_kernel\w*", Family.REDUCTION, "norm", "layer_norm backward", "a acc"),
    Known(r"GammaBetaBackward\w*|cuCompute\w*GammaBeta\w*", Family.REDUCTION, "norm", "layer_norm wgrad", "a acc"),
    Known(r"cuApplyLayerNorm\w*", Family.REDUCTION, "norm", "layer_norm", "a acc out", library="Apex"),
    Known(r"cuApplyRMSNorm\w*", Family.REDUCTION, "norm", "rms_norm", "a acc out", library="Apex"),
    Known(r"cuComputeGradInput", Family.REDUCTION, "norm", "layer_norm backward", "a acc", library="Apex"),
    Known(r"\w*[Gg]roup_?[Nn]orm\w*|ComputeFusedParams\w*", Family.REDUCTION, "norm", "group_norm", "a acc"),
    Known(r"batch_norm_\w+", Family.REDUCTION, "norm", None, "a out acc"),
    Known(r"cunn_SoftMax(?:Forward|Backward)\w*", Family.REDUCTION, "softmax", None, "a acc out", vector=True),
    Known(r"(?:cunn_Spatial|spatial)?softmax_warp_\w+", Family.REDUCTION, "softmax", None, "a out acc"),
    Known(r"cunn_SpatialSoftMax\w*|softMax\w*", Family.REDUCTION, "softmax", None, "a acc out"),
    Known(r"scaled_\w*softmax_warp_\w+", Family.REDUCTION, "softmax", None, "a out acc", library="Megatron"),
    Known(r"vectorized_gather_kernel", Family.COPY, "gather", "gather", ""),
    Known(r"indexSelect(?:Small|Large)Index", Family.COPY, "gather", "index_select"),
    Known(r"indexFunc(?:Small|Large)Index", Family.COPY, "scatter", "index_add"),
    Known(r"indexing_backward_kernel\w*", Family.COPY, "scatter", "index_put backward"),
    Known(
        r"embedding_backward\w*|compute_grad_weight\w*|sum_and_scatter", Family.COPY, "scatter", "embedding backward"
    ),
    Known(r"EmbeddingBag\w*", Family.REDUCTION, "embedding", "embedding_bag"),
    Known(r"fused_dropout_kernel\w*", Family.POINTWISE, "random", "dropout", "a acc"),
    Known(r"max_pool_forward_\w+|max_pool2d\w*_out\w*", Family.REDUCTION, "pooling", "max_pool", flags=_LAYOUT),
    Known(r"max_pool_backward_\w+", Family.REDUCTION, "pooling", "max_pool backward", flags=_LAYOUT),
    Known(r"avg_pool\w+|adaptive_\w*pool\w*|adaptive\w*average\w*", Family.REDUCTION, "pooling", None),
    Known(r"upsample_\w+", Family.POINTWISE, "resample", None),
    Known(r"gatherTopK|radixFindKthValues|computeBlockwise\w+", Family.OTHER, "sort", "topk"),
    Known(r"radixSortKVInPlace|bitonicSortKVInPlace\w*|warpMergeSort\w*", Family.OTHER, "sort", "sort", "a out"),
    Known(r"fill_(?:reverse_)?indices_kernel|sort_postprocess\w*", Family.POINTWISE, "fill", "sort indices", ""),
    Known(r"tensor_kernel_scan_\w+", Family.REDUCTION, "scan", "scan"),
    Known(r"kernelHistogram\w+", Family.REDUCTION, "histogram", "histogram"),
    Known(r"searchsorted_cuda_kernel", Family.OTHER, "search", "searchsorted"),
    Known(r"triu_tril_kernel", Family.POINTWISE, "pointwise", "triu/tril"),
    Known(r"nll_loss\w*backward\w*", Family.POINTWISE, "loss", "nll_loss backward"),
    Known(r"nll_loss\w*", Family.REDUCTION, "loss", "nll_loss", "a acc"),
    Known(r"cunn_ClassNLLCriterion_updateGradInput\w*", Family.POINTWISE, "loss", "nll_loss backward"),
    Known(r"cunn_ClassNLLCriterion_\w+", Family.REDUCTION, "loss", "nll_loss", "a acc"),
    Known(r"conv_depthwise\w+", Family.GEMM, "convolution", "depthwise"),
    Known(r"prepare_grouped_gemm_data", Family.GEMM, "gemm helper", "grouped GEMM pointers"),
    Known(r"im2col_kernel|col2im_kernel|vol2col\w*", Family.COPY, "copy", None),
    Known(r"lstm_cell_\w+|gru_cell_\w+", Family.POINTWISE, "rnn", None),
    Known(r"weight_norm_\w+", Family.REDUCTION, "norm", None),
    Known(r"to_dense_representation_kernel", Family.COPY, "scatter", "to dense", library="FBGEMM"),
    Known(r"permute_pooled_embs_kernel\w*|permute_\w+_kernel\w*", Family.COPY, "gather", None, library="FBGEMM"),
    Known(r"recat_copy_async_kernel", Family.COPY, "copy", None, library="FBGEMM"),
    Known(r"split_embedding_codegen_forward\w*", Family.REDUCTION, "embedding", "embedding bag", library="FBGEMM"),
    Known(r"split_embedding_codegen_grad\w*", Family.REDUCTION, "embedding", "weight gradient", library="FBGEMM"),
    Known(
        r"split_embedding_backward\w*find_long_segments",
        Family.OTHER,
        "embedding",
        "find long rows",
        "",
        library="FBGEMM",
    ),
    Known(
        r"split_embedding_backward\w*",
        Family.REDUCTION,
        "embedding",
        "embedding backward + optimizer",
        library="FBGEMM",
    ),
    Known(r"bounds_check_indices_kernel", Family.OTHER, "embedding", "check indices", "", library="FBGEMM"),
    Known(r"linearize_index_kernel|_offsets_range\w*", Family.OTHER, "embedding", None, "", library="FBGEMM"),
)
KERNELS = tuple((re.compile(known.pattern + "$"), known) for known in _KERNELS)
"""Patterns of base names, first match wins."""
