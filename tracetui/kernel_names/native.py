"""PyTorch's own kernels, `at::native::...` (F14): generic ones by their functor, others and those of Apex and FBGEMM by
name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from tracetui.kernel_names.decoded import FLOATS, Decoded, Family, Meaning, cpp_type, types_in
from tracetui.kernel_names.text import ParsedName, call, split_arguments, template_of
from tracetui.kernel_names.wording import meaning
from tracetui.text import lazy_pattern

_WRAPPERS = {
    "gpu_kernel_impl": 0,
    "gpu_kernel_impl_nocast": 0,
    "gpu_index_kernel": 0,
    "BinaryFunctor": -1,
    "AUnaryFunctor": -1,
    "BUnaryFunctor": -1,
    "func_wrapper_t": -1,
}
"""Index of the template argument of a wrapper that is the functor."""

_SCALAR_WRAPPERS = frozenset({"AUnaryFunctor", "BUnaryFunctor"})
_SCALARS = lazy_pattern(r"CUDAFunctorOn(?:Self|Other)_(\w+)|(\w+?)ScalarFunctor$")
_SPECIAL_FUNCTORS = {
    "direct_copy_kernel_cuda": "copy",
    "copy_device_to_device": "copy",
    "bfloat16_copy_kernel_cuda": "cast",
    "float16_copy_kernel_cuda": "cast",
    "float8_copy_kernel_cuda": "cast",
    "launch_clamp_scalar": "clamp",
    "clamp_min_scalar_kernel_impl": "clamp_min",
    "clamp_max_scalar_kernel_impl": "clamp_max",
    "or_kernel_cuda": "any",
    "and_kernel_cuda": "all",
    "sum_functor": "sum",
    "prod_functor": "prod",
    "nansum_functor": "nansum",
    "WelfordOps": "var/std",
    "NormTwoOps": "norm",
    "NormOneOps": "norm1",
    "NormZeroOps": "norm0",
    "AbsMaxOps": "norm inf",
    "ArgMaxOps": "argmax",
    "ArgMinOps": "argmin",
    "CompareEqFunctor": "eq/ne",
    "compare_scalar_kernel": "compare",
    "pow_tensor_scalar_kernel_impl": "pow",
    "pow_tensor_tensor_kernel": "pow",
    "index_kernel_impl": "index",
    "index_put_kernel_impl": "index_put",
    "arange_cuda_out": "arange",
    "_cuda_scatter_gather_internal_kernel": "gather",
}
_CASTS = {"bfloat16_copy_kernel_cuda": "bf16", "float16_copy_kernel_cuda": "f16", "float8_copy_kernel_cuda": "f8"}
_WORD = lazy_pattern(r"(?:\w+::|\(anonymous namespace\)::)*(\w+)")
_LAMBDA = lazy_pattern(r"(?:\{lambda|\[lambda|'lambda\d*')\(([^(){}]+)\)")
"""A lambda as the demanglers of GCC, CUDA and LLVM write it; what it takes is the group."""
_RETURN_TYPE = lazy_pattern(r"(?:void|bool|decltype\(auto\)|auto) (?=[\w(])")
"""Text that some demanglers write before a function template that is a template argument."""
_SUFFIX = lazy_pattern(r"(?:_kernel_impl|_kernel_cuda|_cuda_kernel|_kernel|_cuda|_functor|_impl)+$")
_CAMEL_SUFFIX = lazy_pattern(r"(?:CUDAKernelImpl|KernelImpl|CUDAKernel|CudaKernel|Kernel|MathFunctor|Functor|Ops)$")
_CAMEL = lazy_pattern(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class Functor(NamedTuple):
    """The operation of a generic kernel on each element."""

    op: str
    kind: str | None
    """Element type of the input."""
    out: str | None
    acc: str | None
    scalar: bool
    """True where one operand is a single number."""
    word: str
    """The functor's own name."""
    known: bool
    """True where the name is in the table or follows PyTorch's naming."""


def read_functor(text: str) -> Functor:
    """The functor of a template argument: wrappers removed, then its name and its types."""
    scalar, out, given = False, None, None
    for _ in range(6):
        text = _RETURN_TYPE.sub("", text, count=1) if _RETURN_TYPE.match(text) else text
        match = _WORD.match(text)
        word = match[1] if match else ""
        if word not in _WRAPPERS:
            break
        inner = call(text)[1]
        if not inner:
            break
        scalar = scalar or word in _SCALAR_WRAPPERS
        if word.endswith("aryFunctor") and len(inner) >= 4:
            given, out = cpp_type(inner[0]), cpp_type(inner[-2])
        text = inner[_WRAPPERS[word]]
    text = _RETURN_TYPE.sub("", text, count=1) if _RETURN_TYPE.match(text) else text
    match = _WORD.match(text)
    word = match[1] if match else text[:40]
    arguments = call(text)[1] if match and text.startswith("<", match.end()) else ()
    types = [kind for kind in map(cpp_type, arguments) if kind]
    kind = given or _element(text, types)
    op, one, known = operator_of(word)
    if word in _CASTS:
        out = _CASTS[word]
    if word.startswith("_cuda_scatter_gather"):
        op = "scatter_add" if "ReduceAdd" in text else "scatter" if arguments[:1] == ("true",) else "gather"
    acc = types[1] if len(types) > 1 else types[0] if given and types else None
    return Functor(op, kind, out, acc, scalar or one, word, known)


def operator_of(word: str) -> tuple[str, bool, bool]:
    """The operator that a functor or kernel is named after, whether one operand is a number, and whether the name is
    known.
    """
    if word in _SPECIAL_FUNCTORS:
        return _SPECIAL_FUNCTORS[word], False, True
    if word.startswith("CUDAFunctor_"):
        return word.removeprefix("CUDAFunctor_"), False, True
    match = _SCALARS.match(word)
    if match is not None:
        return snake(match[1] or match[2]), True, True
    plain = _SUFFIX.sub("", word)
    if plain and plain != word:
        return plain, False, True
    camel = _CAMEL_SUFFIX.sub("", word)
    return snake(camel or word), False, bool(camel) and camel != word


def snake(word: str) -> str:
    """`BitwiseOr` as `bitwise_or`."""
    return _CAMEL.sub("_", word).lower()


def _element(text: str, types: list[str]) -> str | None:
    """The type of the last lambda that takes elements, else the first type of the template.

    An opaque type is final, since the lambda then takes bytes or the index of an element; in `where` and `masked_fill`
    a mask comes with the elements.
    """
    if types and types[0].endswith("-byte"):
        return types[0]
    for taken in reversed(_LAMBDA.findall(text)):
        kinds = [cpp_type(part) for part in split_arguments(taken) if "*" not in part]
        known = [kind for kind in kinds if kind]
        if known:
            elements = [kind for kind in known if kind != "bool"]
            offset = elements == ["i32"] and types and "i32" not in types
            return types[0] if offset else (elements or known)[0]
    return types[0] if types else None


class Known(NamedTuple):
    """The meaning of a base name."""

    pattern: str
    family: Family
    sort: str
    op: str | None = None
    """None where the base name is the operator's."""
    roles: str = "a"
    """Roles of the types among the template arguments, in order."""
    vector: bool = False
    """True where the first argument is the number of elements that a thread loads at once."""
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
    Known(r"GammaBeta1dBackward\w*|GammaBetaBackwardCUDAKernel[12]", Family.REDUCTION, "norm", "group_norm wgrad", "a"),
    Known(
        r"Compute(?:1d)?BackwardFusedParams\w*|ComputeInternalGradients\w*",
        Family.REDUCTION,
        "norm",
        "group_norm backward",
        "a",
    ),
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
    Known(
        r"gatherTopK|radixFindKthValues|computeBlockwise\w+|computeDigitCumSum|computeBlockDigitCounts",
        Family.REDUCTION,
        "sort",
        "topk",
    ),
    Known(r"radixSortKVInPlace|bitonicSortKVInPlace\w*|warpMergeSort\w*", Family.REDUCTION, "sort", "sort", "a out"),
    Known(r"fill_(?:reverse_)?indices_kernel|sort_postprocess\w*", Family.POINTWISE, "fill", "sort indices", ""),
    Known(r"tensor_kernel_scan_\w+", Family.REDUCTION, "scan", "scan"),
    Known(r"kernelHistogram\w+", Family.REDUCTION, "histogram", "histogram"),
    Known(r"searchsorted_cuda_kernel", Family.REDUCTION, "search", "searchsorted"),
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
        Family.REDUCTION,
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
    Known(r"bounds_check_indices_kernel", Family.POINTWISE, "embedding", "check indices", "", library="FBGEMM"),
    Known(r"linearize_index_kernel|_offsets_range\w*", Family.POINTWISE, "embedding", None, "", library="FBGEMM"),
)
KERNELS = tuple((lazy_pattern(known.pattern + "$"), known) for known in _KERNELS)
"""Patterns of base names, the first match counts."""


_ELEMENTWISE = {
    "vectorized_elementwise_kernel": (1, ""),
    "vectorized_templated_elementwise_kernel": (1, "mixed dtypes"),
    "unrolled_elementwise_kernel": (0, "unrolled"),
    "unrolled_elementwise_kernel_for_multi_outputs": (1, "unrolled"),
    "elementwise_kernel": (2, "strided"),
    "elementwise_kernel_manual_unroll": (2, "strided"),
    "legacy_elementwise_kernel": (2, "strided"),
    "index_elementwise_kernel": (2, ""),
    "_scatter_gather_elementwise_kernel": (2, ""),
    "elementwise_kernel_with_index": (1, ""),
}
"""Index of the functor among the template arguments, and what the choice of the kernel tells about its operands."""

_MOVES = {
    "copy": "copy",
    "cast": "copy",
    "index": "gather",
    "index_put": "scatter",
    "index_copy": "scatter",
    "gather": "gather",
    "scatter": "scatter",
    "scatter_add": "scatter",
    "take": "gather",
    "put": "scatter",
    "flip": "copy",
    "roll": "copy",
}
_FILLS = frozenset({"fill", "arange", "linspace", "eye"})
_STRIDED = "Strided or not contiguous: each element's place is computed, which is slower than a vectorised kernel."
_MIXED = "Mixed dtypes: elements are cast while loading, without vectorised access."
_ARRAY = lazy_pattern(r"[Aa]rray<char\*, (\d{1,3})")
_STANDARD = {"plus": "add", "minus": "sub", "multiplies": "mul", "divides": "div"}
_OPTIMIZER = lazy_pattern(r"adam|sgd|lamb|adagrad|rmsprop|lion", re.IGNORECASE)


def native(name: ParsedName) -> Decoded | None:
    """Decode a kernel of PyTorch; older versions have some outside of the namespace."""
    special = _SPECIAL.get(name.base)
    if special is not None:
        return special(name)
    if name.base in _ELEMENTWISE and len(name.arguments) > _ELEMENTWISE[name.base][0]:
        return _elementwise(name)
    for pattern, known in KERNELS:
        if pattern.match(name.base):
            return _known(name, known)
    return _unlisted(name) if name.path.startswith("at::") else None


def _elementwise(name: ParsedName) -> Decoded:
    index, access = _ELEMENTWISE[name.base]
    functor = read_functor(name.arguments[index])
    casts = "LoadWithCast" in name.text or "StoreWithCast" in name.text or access == "mixed dtypes"
    copies = functor.op in ("copy", "cast")
    flags = [flag for flag, state in (("scalar", functor.scalar), ("casts", casts)) if state]
    if access and not (casts and access == "mixed dtypes"):
        flags.append(access)
    vectorised = name.base.startswith("vectorized") and name.arguments[0].isdecimal()
    tensors = _ARRAY.search(name.text)
    if tensors and int(tensors[1]) > 1:
        flags.append(f"{int(tensors[1]) - 1} input{'s' if tensors[1] != '2' else ''}")
    sort = _MOVES.get(functor.op, "fill" if functor.op in _FILLS else "pointwise")
    out = functor.out or (functor.kind if copies else None)
    # A copy's functor has the type of the output; what comes in is read with a cast.
    unread = copies and casts
    return Decoded(
        family=Family.COPY if functor.op in _MOVES else Family.POINTWISE,
        operation=sort,
        library="PyTorch",
        op=functor.op,
        a=None if unread else functor.kind,
        acc=functor.acc if functor.acc != functor.kind else None,
        out=out,
        vector=int(name.arguments[0][:4]) if vectorised else None,
        threads=int(name.arguments[0][:5]) if not vectorised and name.arguments[0].isdecimal() else None,
        tensor_core=False,
        flags=tuple(flags),
        warnings=(*([_STRIDED] if access == "strided" else []), *([_MIXED] if casts else [])),
        unknown=() if functor.known else (functor.word,),
        inferred=frozenset() if functor.known else frozenset({"op"}),
    )


def _reduce(name: ParsedName) -> Decoded:
    parts = template_of(name.text, "ReduceOp")
    functor = read_functor(parts[1]) if len(parts) > 1 else None
    kind = cpp_type(parts[0]) if parts else None
    return Decoded(
        family=Family.REDUCTION,
        operation="reduction",
        library="PyTorch",
        op=functor.op if functor else None,
        a=kind or (functor.kind if functor else None),
        acc=functor.acc if functor and functor.acc in FLOATS else None,
        out=cpp_type(parts[3]) if len(parts) > 3 else None,
        threads=int(name.arguments[0][:5]) if name.arguments and name.arguments[0].isdecimal() else None,
        tensor_core=False,
        unknown=(functor.word,) if functor and not functor.known else (),
    )


def _multi_tensor(name: ParsedName) -> Decoded:
    """Many tensors in one launch: foreach operators and fused optimizers."""
    functors = [part for part in name.arguments if "Functor" in part]
    word, inner = call(functors[0]) if functors else ("", ())
    standard = next((call(part)[0] for part in name.arguments if part.startswith("std::")), "")
    op = _STANDARD.get(standard) or standard or operator_of(word)[0] or None
    optimizer = _OPTIMIZER.search(word) is not None
    types = [kind for kind in map(cpp_type, (*inner, *name.arguments)) if kind in FLOATS]
    return Decoded(
        family=Family.REDUCTION if "Norm" in word else Family.POINTWISE,
        operation="optimizer" if optimizer else "foreach",
        library="PyTorch" if name.path.startswith("at::") else "Apex",
        op=op,
        a=types[0] if types else None,
        acc=types[1] if len(types) > 1 and types[1] != types[0] else None,
        tensor_core=False,
        unknown=() if word else ("multi_tensor_apply",),
        inferred=frozenset({"library", "acc"}) if not name.path.startswith("at::") else frozenset(),
    )


def _random(name: ParsedName) -> Decoded:
    """Random numbers: the distribution is among the lambdas."""
    match = re.search(r"(normal|uniform|random|bernoulli|exponential|cauchy|geometric|log_normal)\w*", name.text)
    types = [kind for kind in map(cpp_type, name.arguments) if kind]
    return Decoded(
        family=Family.POINTWISE,
        operation="random",
        library="PyTorch",
        op=match[1] if match else "random",
        a=None,
        out=types[0] if types else None,
        tensor_core=False,
        inferred=frozenset({"op", "out"}),
    )


def _known(name: ParsedName, known: Known) -> Decoded:
    types = [kind for kind in map(cpp_type, name.arguments) if kind]
    roles = dict(zip(known.roles.split(), types, strict=False))
    op = known.op or operator_of(name.base)[0]
    if known.sort == "softmax":
        op = ("log_softmax" if _is_log(name) else "softmax") + (" backward" if "ackward" in name.base else "")
    numbers = name.arguments[:1] if known.vector else ()
    flags = [flag for part, flag in known.flags if part in name.base or part in name.arguments]
    return Decoded(
        family=known.family,
        operation=known.sort,
        library=known.library,
        op=op,
        a=roles.get("a"),
        acc=roles.get("acc") if roles.get("acc") in FLOATS else None,
        out=roles.get("out"),
        vector=int(numbers[0][:4]) if numbers and numbers[0].isdecimal() else None,
        tensor_core=False if known.family != Family.GEMM else None,
        flags=tuple(flags),
        inferred=frozenset({"library"} if not name.path.startswith("at::") else ()),
    )


def _is_log(name: ParsedName) -> bool:
    """True where a softmax is a log_softmax: by its epilogue, or by the flag after the size."""
    if "LogSoftMax" in name.text:
        return True
    states = [part for part in name.arguments if part in ("true", "false")]
    return "softmax_warp" in name.base and states[:1] == ["true"]


def _unlisted(name: ParsedName) -> Decoded:
    """A kernel of PyTorch that is in no table; it is named after its operator."""
    op = operator_of(name.base)[0] or snake(name.base)
    types = [kind for kind in map(cpp_type, name.arguments) if kind in FLOATS]
    kind = types[0] if types else None
    found = meaning(name) or Meaning(Family.OTHER, "pytorch")
    return Decoded(
        family=found.family,
        operation=found.operation,
        library="PyTorch",
        op=op or None,
        a=kind,
        inferred=frozenset({"op", "a"} | ({"family", "operation"} if found.family != Family.OTHER else set())),
        short=op + (f"<{kind}>" if kind else ""),
    )


_SPECIAL: dict[str, Callable[[ParsedName], Decoded]] = {
    "reduce_kernel": _reduce,
    "multi_tensor_apply_kernel": _multi_tensor,
    "distribution_elementwise_grid_stride_kernel": _random,
    "distribution_nullary_kernel": _random,
}


# cub and thrust (F15): scans, sorts, reductions and selections, most of them preceded by occupancy queries.

_DEVICE = lazy_pattern(r"Device(\w+?)(?:Kernel\w*)?$")
_SORTS = (
    ("RadixSort", Family.REDUCTION, "sort"),
    ("MergeSort", Family.REDUCTION, "sort"),
    ("SegmentedSort", Family.REDUCTION, "sort"),
    ("ReduceByKey", Family.REDUCTION, "reduction"),
    ("Scan", Family.REDUCTION, "scan"),
    ("Reduce", Family.REDUCTION, "reduction"),
    ("Histogram", Family.REDUCTION, "histogram"),
    ("Compact", Family.REDUCTION, "select"),
    ("Select", Family.REDUCTION, "select"),
    ("Partition", Family.REDUCTION, "select"),
    ("Unique", Family.REDUCTION, "select"),
    ("RunLength", Family.REDUCTION, "select"),
    ("TopK", Family.REDUCTION, "sort"),
    ("Rle", Family.REDUCTION, "select"),
    ("Memcpy", Family.COPY, "copy"),
    ("Copy", Family.COPY, "copy"),
    ("AdjacentDifference", Family.POINTWISE, "pointwise"),
    ("SegmentedFixup", Family.REDUCTION, "reduction"),
    ("For", Family.POINTWISE, "pointwise"),
    ("Transform", Family.POINTWISE, "pointwise"),
)
_AGENT = lazy_pattern(r"__(\w+?)::(\w+?)Agent")
_OPAQUE = lazy_pattern(r"OpaqueType<(\d+)>")
_POLICY = lazy_pattern(r"policy_hub<([^<>]*(?:<[^<>]*>[^<>]*)*)>|Policy<([^<>]*(?:<[^<>]*>[^<>]*)*)>")
_TILE_STATE = lazy_pattern(r"(?<!\w)ScanTileState<([\w: ]+),")


def cub(name: ParsedName) -> Decoded | None:
    """Decode `cub::DeviceScanKernel<...>` and `thrust::cuda_cub::core::_kernel_agent<...>`."""
    match = _DEVICE.match(name.base)
    # A renamed namespace leaves `DeviceScanKernel`, which is called so nowhere else.
    if match is not None and ("cub" in name.path or _sort_of(match[1])[1] != "cub"):
        return _device(name, match[1])
    agent = _AGENT.search(name.text)
    if name.base == "_kernel_agent" and agent is not None:
        return _thrust(name, agent)
    return None


def _sort_of(word: str) -> tuple[Family, str]:
    return next(((family, sort) for part, family, sort in _SORTS if part in word), (Family.OTHER, "cub"))


def _device(name: ParsedName, word: str) -> Decoded:
    family, sort = _sort_of(word)
    types = _policy_types(name.text)
    value = types[1] if sort == "sort" and len(types) > 1 else None
    return Decoded(
        family=family,
        operation=sort,
        library="cub",
        op=word,
        a=types[0] if types else None,
        b=value,
        tensor_core=False,
        unknown=(word,) if sort == "cub" else (),
        inferred=frozenset({"a", "b"}),
    )


def _policy_types(text: str) -> list[str]:
    """Types of keys and values: those for which the tuning policy was chosen."""
    match = _POLICY.search(text)
    state = _TILE_STATE.search(text)
    if state is not None and cpp_type(state[1]):
        return [cpp_type(state[1]) or ""]
    parts = call(match.group())[1] if match else ()
    types = []
    for part in parts:
        opaque = _OPAQUE.search(part)
        kind = f"{opaque[1]}-byte" if opaque else cpp_type(part)
        if kind:
            types.append(kind)
    return types or types_in(text)[:1]


def _thrust(name: ParsedName, agent: re.Match[str]) -> Decoded:
    family, sort = _sort_of(agent[2])
    fills = "fill" in name.text
    types = types_in(name.text)
    return Decoded(
        family=Family.POINTWISE if sort == "pointwise" or "parallel_for" in agent[1] else family,
        operation="fill" if fills else "pointwise" if "parallel_for" in agent[1] else sort,
        library="thrust",
        op="fill" if fills else agent[2],
        a=types[0] if types else None,
        tensor_core=False,
        inferred=frozenset({"a", "operation"}),
    )
