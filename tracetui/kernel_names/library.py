"""Which library a kernel is from, where its decoder did not say: by namespaces, then by names that one library uses.

A namespace is certain. A function's bare name is likely, since engines copy kernels from each other: it is marked
inferred, and names that several engines ship say so.
"""

from __future__ import annotations

from tracetui.kernel_names.decoded import Decoded, Family
from tracetui.kernel_names.text import ParsedName
from tracetui.lazy_pattern import lazy_pattern

_NAMESPACES = (
    (r"(?:deep_ep|dpsk::ep)::", "DeepEP"),
    (r"deep_gemm::", "DeepGEMM"),
    (r"dpsk::", "DeepSeek"),
    (r"flashinfer::", "FlashInfer"),
    (r"moe::dev::", "TensorRT-LLM / FlashInfer"),
    (r"tensorrt_llm::", "TensorRT-LLM"),
    (r"marlin(?:_moe_wna16)?::", "Marlin"),
    (r"vllm::", "vLLM"),
    (r"sgl_(?:hip|kernel)::", "sgl-kernel"),
    (r"sglang::", "SGLang"),
    (r"flash_mla::", "FlashMLA"),
    (r"aiter::", "AITER"),
    (r"transformer_engine::", "Transformer Engine"),
    (r"fbgemm_gpu::", "FBGEMM"),
    (r"turbomind::", "TurboMind"),
)
"""Outer namespaces of libraries, the more special first."""
_NAMESPACE_PATTERNS = tuple((lazy_pattern(rf"(?<!\w){pattern}"), library) for pattern, library in _NAMESPACES)
_ENGINES = "vLLM, SGLang"
"""Library of kernels that both engines ship under the same name."""
_NAMES = (
    (r"(?:TopK|TopP|MinP|TopKTopP)SamplingFrom\w+|top_[kp]_(?:renorm|mask)_\w+|TopK(?:Renorm|Mask)\w+", "FlashInfer"),
    (r"(?:flashmla_|flash_fwd_(?:splitkv_)?mla)\w*", "FlashMLA"),
    (r"(?:fused_recurrent|chunk)_gated_delta_rule\w*|chunk_gated_delta\w*", "flash-linear-attention"),
    (r"_topk_forward|_sum_bitmatrix_rows|_combined_routing_\w+|_finalize_matmul_scatter\w*", "Triton kernels"),
    (r"applyMLARope\w*|expandInputRows\w*|computeStridesTmaWarpSpecialized\w*|finalizeMoeRouting\w*", "TensorRT-LLM"),
    (r"sage_(?:fwd|quant)\w*", "SageAttention"),
    (r"kernel_unified_attention_[23]d|_copy_page_indices_kernel", "vLLM Triton"),
    (r"create_flashinfer_kv_indices_triton|compute_position_kernel|set_mla_kv_buffer_kernel", "SGLang"),
    (r"silu_mul_quant_varlen_kernel|resolve_future_token_ids_kernel|clamp_position_kernel|store_kvcache", "SGLang"),
    (r"write_req_to_token_pool_triton|assign_req_to_token_pool\w*", "SGLang"),
    (r"per_token_group_quant_8bit_kernel", "sgl-kernel"),
    (r"moe_align_block_size_(?:small_batch_expert_)?kernel|count_and_sort_expert_tokens_kernel", _ENGINES),
    (r"fused_moe_kernel(?:_gptq_awq)?|_w8a8_triton_block_scaled_mm|_w8a8_block_(?:fp8|int8)_matmul\w*", _ENGINES),
    (r"reduce_segments", "vLLM Triton"),
    (r"rotary_kernel", "flash-attn Triton"),
)
"""Function names by library; all of them are likely and not certain."""
_NAME_PATTERNS = tuple((lazy_pattern(pattern + "$"), library) for pattern, library in _NAMES)
_XDIT = lazy_pattern(r"groupnorm_kernel_dispatch_(?:up|down)$")
"""Group normalisation of xDiT, which looks like PyTorch's."""
_DEEPSEEK = lazy_pattern(
    r"(?:swiglu_forward|per_token_cast_to_fp8|per_channel_cast_and_transpose|topk_sum_and_topk_idx|get_fused_mapping"
    r"|clean_and_count_expert|expand_to_fused|reduce_fused|unique_group_indices|cast_back)\w*$"
)
"""Functions that stand in the namespace `cuda` of DeepSeek's training framework."""
_GENERIC = frozenset({None, "Triton", "expert parallelism"})
"""What a decoder says that knows no library."""


def library_of(decoded: Decoded, name: ParsedName) -> tuple[str | None, bool]:
    """The library of a decoded kernel, and whether it is likely rather than certain."""
    path = name.path
    if decoded.family == Family.ATTENTION and "ck_tile::ComposedAttention" in name.text:
        return "AITER", True
    if _XDIT.match(name.base):
        return "xDiT", True
    known = decoded.library not in _GENERIC and not _is_copied(decoded, path)
    if known and not (path.startswith("flashinfer::") or "dpsk::" in name.text):
        return decoded.library, "library" in decoded.inferred
    # A generic CUTLASS kernel is named by what it was instantiated for.
    text = name.text if name.base in ("device_kernel", "Kernel", "Kernel2") else path
    for pattern, library in _NAMESPACE_PATTERNS:
        if pattern.search(text):
            return library, False
    if known:
        return decoded.library, "library" in decoded.inferred
    named, likely = _by_name(decoded, name)
    return (None, False) if named == "PyTorch" else (named, likely)


def _is_copied(decoded: Decoded, path: str) -> bool:
    """Whether a kernel is called as one of PyTorch's, in the namespace of another library."""
    return decoded.library == "PyTorch" and "::" in path and not path.startswith(("at::", "c10::"))


def _by_name(decoded: Decoded, name: ParsedName) -> tuple[str | None, bool]:
    if name.path.startswith("flash::"):
        return ("FlashAttention 3", True) if decoded.family == Family.ATTENTION else (None, False)
    if name.path.startswith("layer_norm::ln_"):
        return "Apex", True
    if name.path.startswith("cuda::") and _DEEPSEEK.match(name.base):
        return "DeepSeek", True
    for pattern, library in _NAME_PATTERNS:
        if pattern.match(name.base):
            return library, True
    # Outside of a namespace; vLLM's own kernel of this name is in its namespace.
    if name.path == "rotary_embedding_kernel":
        return "sgl-kernel", True
    return decoded.library, "library" in decoded.inferred
