"""What a kernel does in a model, finer than its family: norm, activation, quantisation, MoE routing, sampling, ...

The purpose follows from the decoded family and operation, and from whole words of the name where these are too coarse.
It is a guess from the name, never from what the kernel computes, and `other` where nothing is known.
"""

from __future__ import annotations

from tracetui.kernel_names.decoded import Decoded, Family, Purpose
from tracetui.kernel_names.text import ParsedName
from tracetui.kernel_names.vocabulary import spelled
from tracetui.lazy_pattern import lazy_pattern

_BY_FAMILY: dict[Family, Purpose] = {
    Family.GEMM: Purpose.GEMM,
    Family.ATTENTION: Purpose.ATTENTION,
    Family.COMMUNICATION: Purpose.COMMUNICATION,
    Family.REDUCTION: Purpose.REDUCTION,
    Family.POINTWISE: Purpose.POINTWISE,
    Family.COPY: Purpose.COPY,
}
_BY_OPERATION: dict[str, Purpose] = {
    "convolution": Purpose.CONVOLUTION,
    "convolution helper": Purpose.CONVOLUTION,
    "norm": Purpose.NORM,
    "activation": Purpose.ACTIVATION,
    "quantisation": Purpose.QUANTISATION,
    "routing": Purpose.ROUTING,
    "kv cache": Purpose.KV_CACHE,
    "rope": Purpose.ROPE,
    "sampling": Purpose.SAMPLING,
    "embedding": Purpose.EMBEDDING,
    "indices": Purpose.SCHEDULING,
    "fill": Purpose.COPY,
}
_LOGIT_WORDS = lazy_pattern(r"_(?:top_?k[a-z]*|arg_?(?:max|min)[a-z]*|(?:radix|bitonic)_sort[a-z]*|gather_top_?k)(?=_)")
"""Words of selections and sorts that an inference server applies to logits, and a training program to anything."""
_ROUTING_WORDS = lazy_pattern(
    r"_(?:top_?k_(?:softmax|softplus|sigmoid|sum|forward)|top_?k_?gating[a-z]*|moe_(?:sort(?:ing)?|sum|align|gate)"
    r"|experts?_sort(?:ing)?|sort_experts?|group_indices|expand_(?:input_rows|to_fused)|reduce_fused"
    r"|ep_(?:scatter|gather)|(?:pre|post)_reorder|(?:moe|deepep)_(?:un)?permute|shuffle_input_rows|prepare_grouped_gemm|compute_(?:strides|problem_sizes)|bitmatrix|finalize_matmul_scatter)(?=_)"
)
"""Words of kernels that choose experts, move tokens to them and back, or prepare their products."""
_CACHE_WORDS = lazy_pattern(r"_(?:(?:kv|page|block)_(?:indices|tables?|indptr)|gather(?:_[a-z0-9]+)*_cache)(?=_)")
_SAMPLING_WORDS = lazy_pattern(r"_(?:temperature|penalt(?:y|ies)|token_bit_?mask|logits?_bias)(?=_)")
"""Words of what is done to logits before a token is chosen."""
_SCHEDULING_WORDS = lazy_pattern(r"_(?:(?:clamp|compute)_positions?|future_token_ids?|prepare(?:_[a-z]+)*_inputs)(?=_)")
_EMBEDDING_WORDS = lazy_pattern(r"_(?:embeddings?|index_select[a-z]*|vectorized_gather|lookup)(?=_)")
_PROGRAM_LIBRARIES = frozenset({"PyTorch", "FBGEMM"})
"""Libraries whose kernels of indices are any program's, and no engine's preparation of a step."""
_FUSED = (
    (frozenset({"rsqrt", "pow", "mean"}), Purpose.NORM),
    (frozenset({"rsqrt", "var_mean"}), Purpose.NORM),
    (frozenset({"native_layer_norm"}), Purpose.NORM),
    (frozenset({"native_group_norm"}), Purpose.NORM),
    (frozenset({"silu"}), Purpose.ACTIVATION),
    (frozenset({"gelu"}), Purpose.ACTIVATION),
    (frozenset({"embedding"}), Purpose.EMBEDDING),
)
"""Operators that a generated kernel was fused from, and the purpose where all of them are there; in this order."""


def purpose_of(decoded: Decoded, name: ParsedName) -> tuple[Purpose, bool]:
    """The purpose of a decoded kernel, and whether it holds for inference alone."""
    if decoded.family in (Family.COMMUNICATION, Family.ATTENTION):
        return _BY_FAMILY[decoded.family], False
    if decoded.fused_ops and decoded.family in (Family.POINTWISE, Family.REDUCTION):
        return _of_fused(decoded), False
    words = spelled(name.base)
    if _ROUTING_WORDS.search(words) or decoded.op == "expert sorting":
        return Purpose.ROUTING, False
    if decoded.family == Family.GEMM:
        return _BY_OPERATION.get(decoded.operation, Purpose.GEMM), False
    if _SAMPLING_WORDS.search(words):
        return Purpose.SAMPLING, False
    if decoded.family != Family.REDUCTION and _SCHEDULING_WORDS.search(words):
        return Purpose.SCHEDULING, False
    if decoded.family == Family.COPY:
        return _of_copy(decoded, words), False
    if _is_of_logits(decoded, words):
        return Purpose.SAMPLING, True
    if decoded.operation == "indices" and decoded.library in _PROGRAM_LIBRARIES:
        return _BY_FAMILY[decoded.family], False
    return _BY_OPERATION.get(decoded.operation, _BY_FAMILY.get(decoded.family, Purpose.OTHER)), False


def _of_fused(decoded: Decoded) -> Purpose:
    fused = frozenset(decoded.fused_ops)
    return next((purpose for ops, purpose in _FUSED if ops <= fused), _BY_FAMILY[decoded.family])


def _of_copy(decoded: Decoded, words: str) -> Purpose:
    if decoded.operation == "kv cache" or _CACHE_WORDS.search(words):
        return Purpose.KV_CACHE
    return Purpose.EMBEDDING if _EMBEDDING_WORDS.search(words) else Purpose.COPY


def _is_of_logits(decoded: Decoded, words: str) -> bool:
    """Whether a kernel selects among logits if the program is a server: argmax, top-k, a sort, a softmax in f32."""
    if decoded.operation == "softmax":
        return decoded.library == "PyTorch" and decoded.a == decoded.out == "f32" and "forward" in words
    if decoded.op in ("argmax", "argmin") or decoded.operation == "argmax":
        return True
    # Other libraries choose tokens of a sparse attention, or experts, by top-k.
    known = decoded.library in ("PyTorch", "FlashInfer")
    return known and (decoded.op == "topk" or (decoded.operation == "sort" and _LOGIT_WORDS.search(words) is not None))
