"""From a kernel's name to its parts: families of names in a fixed order, the first match counts (section 4.2). Names of
collectives and point-to-point transfers between devices (F2) are read here too.

NCCL instantiates few kernels, so the algorithm and protocol in a name are those of the entry point and not of what ran.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from tracetui.kernel_names.attention import attention, flash
from tracetui.kernel_names.cutlass import cutlass, cutlass_template, marlin
from tracetui.kernel_names.decoded import Decoded, Family, Purpose, brief_type, cpp_type, first_float, spelled
from tracetui.kernel_names.generated import by_words, inductor, memory, user_kernel
from tracetui.kernel_names.native import cub, native
from tracetui.kernel_names.nvidia_gemm import cublas, cudnn, nvjet, sass, trtllm, xmma
from tracetui.kernel_names.rocm import rocm, tensile
from tracetui.kernel_names.text import ParsedName, name_parts
from tracetui.kernel_names.wording import cut, label, meaning, sentence_of, short_of
from tracetui.model.trace import Kind
from tracetui.text import lazy_pattern

_COLLECTIVE = "AllGatherV|AllGather|AllReduce|ReduceScatter|Broadcast|Reduce|SendRecv|AllToAll|AlltoAll"
_ALGORITHM = "TREE|RING|COLLNET_DIRECT|COLLNET_CHAIN|NVLS_TREE|NVLS|PAT"
_PROTOCOL = "LL128|LL|SIMPLE"
_NEW = lazy_pattern(
    rf"ncclDevKernel_(?P<coll>{_COLLECTIVE})"
    rf"(?:_(?P<redop>Sum|Prod|MinMax|PreMulSum|SumPostDiv)_(?P<type>[a-z]+\d+\w*?))?"
    rf"(?:_(?P<algo>{_ALGORITHM}))?(?:_(?P<proto>{_PROTOCOL}))?(?P<rest>_\w+)?$"
)
_OLD = lazy_pattern(
    rf"ncclKernel_(?P<coll>{_COLLECTIVE})_(?P<algo>{_ALGORITHM})_(?P<proto>{_PROTOCOL})_(?P<redop>[A-Za-z]+)"
    r"_(?P<type>\w+)$"
)
_LIBRARIES = (
    (r"_(?:n|r|ms)ccl_", "NCCL"),
    (r"_quick_?reduce_", "quick-reduce"),
    (r"_mscclpp_", "MSCCL++"),
    (r"_(?:nv|roc)shmem[ix]?_", "NVSHMEM"),
    (r"_k?userbuffers_", "Transformer Engine userbuffers"),
    (r"_cross_device_", "custom all-reduce (vLLM, SGLang)"),
    (r"_(?:tensorrt|trtllm|trt|lamport|mnnvl|moe_a_2_a|oneshot|twoshot)_", "TensorRT-LLM"),
    (r"_(?:multimem|one_shot|two_shot|symm_mem|symmetric)_", "PyTorch symmetric memory"),
    (r"_(?:deep_ep|internode|intranode|notify_dispatch|cached_notify)_", "DeepEP"),
)
"""Libraries by words of the qualified name; the first match counts, and every one is a guess."""
_LIBRARY_PATTERNS = tuple((lazy_pattern(pattern), library) for pattern, library in _LIBRARIES)
_OPERATIONS = (
    (r"_all_?reduce_|_cross_device_reduce_|_quick_?reduce_|_(?:one|two)_?shot_", "AllReduce"),
    (r"_all_?gather_", "AllGather"),
    (r"_reduce_?scatter_", "ReduceScatter"),
    (r"_all_?to_?all_|_all_2_all_", "AllToAll"),
)
_OPERATION_PATTERNS = tuple((lazy_pattern(pattern), op) for pattern, op in _OPERATIONS)
_EXCHANGE = lazy_pattern(
    r"_(?:(?:cached|notify|low|latency|hybrid|ep|async|persistent|normal|deterministic|impl|kernel|ll|send|recv|copy|reduce|"
    r"epilogue|prologue|nvl|rdma|stage|phase|prepare|v|t|\d+)_)*(?:dispatch|combine)_"
    r"(?:(?:low|latency|async|impl|kernel|ll|send|recv|copy|reduce|epilogue|prologue|deterministic|nvl|rdma|stage|phase|v|t|"
    r"\d+)_)*$"
)
"""Kernels of expert parallelism that are called after nothing but the exchange."""
_EXCHANGE_WORD = lazy_pattern(r"_(?:ep|ll|send|recv|rdma|notify|cached|nvl)_")
_LOCAL = lazy_pattern(r"_(?:[a-z]*attn|[a-z]*attention|flash|fmha|mla|split_?kv?|decode|prefill|layout|sampl[a-z]*)_")
_OLDEST = lazy_pattern(
    r"nccl(?P<coll>[A-Z][A-Za-z]*?)(?P<algo>Ring|Tree|CollNet)(?P<proto>LL128|LL|Simple)?Kernel_(?P<redop>[a-z]+)_(?P<type>\w+)$"
)
_GENERIC_KERNEL = lazy_pattern(r"ncclDevKernel_?(?:Debug_)?Generic(?:_\d+)?$")
_SYMMETRIC = lazy_pattern(
    rf"ncclSymk?(?:Dev)?Kernel_(?P<coll>{_COLLECTIVE})_(?P<rest>\w+?)(?:_(?P<redop>[a-z]+)_(?P<type>[a-z]+\d+\w*))?$"
)
_ENTRY_POINT = "is only the entry point: the real algorithm and protocol are not in the name."
_WAITING = "The time includes waiting for the slowest rank."
_GENERIC_COLLECTIVE = (
    "Generic runs what has no kernel of its own, with RCCL nearly everything; the args say which collective."
)


def collective(name: ParsedName) -> Decoded | None:
    """Decode kernels of NCCL, RCCL, symmetric memory, expert parallelism and inference servers."""
    if name.base.startswith("nccl"):
        if _GENERIC_KERNEL.match(name.base):
            return Decoded(
                family=Family.COMMUNICATION,
                operation="collective",
                # RCCL numbers its generic kernels by how far they are unrolled, NCCL does not.
                library="RCCL" if name.base[-1].isdigit() else "NCCL",
                op="Generic",
                warnings=(_GENERIC_COLLECTIVE, _WAITING),
                inferred=frozenset({"library"}),
            )
        symmetric = _SYMMETRIC.match(name.base)
        if symmetric is not None:
            return _symmetric(symmetric)
        match = _NEW.match(name.base) or _OLD.match(name.base) or _OLDEST.match(name.base)
        if match is not None:
            return _nccl(match)
    found = meaning(name)
    if (found is not None and found.family == Family.COMMUNICATION) or _is_exchange(name):
        return _other(name)
    return None


def _is_exchange(name: ParsedName) -> bool:
    """True where a kernel sends tokens to experts on other devices or fetches them back."""
    base = spelled(name.base)
    if not _EXCHANGE.match(base) or _LOCAL.search(spelled(name.path)):
        return False
    return _EXCHANGE_WORD.search(base) is not None or not name.text.isidentifier()


def _nccl(match: re.Match[str]) -> Decoded:
    parts = match.groupdict()
    exchange = parts["coll"] == "SendRecv"
    kind = None if exchange else brief_type(parts["type"])
    entry = " ".join(word.upper() for word in (parts["algo"], parts["proto"]) if word)
    flags = [f"{parts['algo'].lower().replace('_', ' ')} family"] if parts["algo"] and not exchange else []
    if parts["redop"] and not exchange:
        flags.append(parts["redop"].lower())
    likely = {"flags"} if parts["algo"] else set()
    if kind is not None and kind.startswith(("u", "i")):
        likely.add("a")
    rest = (parts.get("rest") or "").strip("_")
    return Decoded(
        family=Family.COMMUNICATION,
        operation="send/recv" if exchange else "collective",
        library="NCCL",
        op=parts["coll"],
        a=kind,
        flags=tuple(flags),
        warnings=(*([f"{entry} {_ENTRY_POINT}"] if entry else []), _WAITING),
        unknown=(rest,) if rest else (),
        inferred=frozenset(likely),
    )


def _symmetric(match: re.Match[str]) -> Decoded:
    """A kernel of NCCL on symmetric memory; its algorithm is in the name, `RSxLDMC_AGxSTMC`."""
    kind = brief_type(match["type"])
    return Decoded(
        family=Family.COMMUNICATION,
        operation="collective",
        library="NCCL",
        op=match["coll"],
        a=kind,
        flags=(match["rest"].replace("_", " "), *([match["redop"]] if match["redop"] else []), "symmetric memory"),
        warnings=(_WAITING,),
    )


def _other(name: ParsedName) -> Decoded:
    types = [kind for kind in map(cpp_type, name.arguments) if kind]
    words = spelled(name.path)
    library = next((library for pattern, library in _LIBRARY_PATTERNS if pattern.search(words)), None)
    if library is None and _EXCHANGE.match(spelled(name.base)):
        library = "expert parallelism"
    op = next((op for pattern, op in _OPERATION_PATTERNS if pattern.search(spelled(label(name)))), None)
    return Decoded(
        family=Family.COMMUNICATION,
        operation="collective",
        library=library,
        op=op or label(name),
        a=first_float(types),
        warnings=(_WAITING,),
        inferred=frozenset({"library", "a"}),
    )


# Which library a kernel is from, where its decoder did not say: by namespaces, then by names that one library uses.
#
# A namespace is certain. A function's bare name is likely, since engines copy kernels from each other: it is marked
# inferred, and names that several engines ship say so.

_NAMESPACES = (
    (r"(?:deep_ep|dpsk::ep)::", "DeepEP"),
    (r"deep_gemm::", "DeepGEMM"),
    (r"dpsk::", "DeepSeek"),
    (r"flashinfer::", "FlashInfer"),
    (r"moe::dev::", "TensorRT-LLM / FlashInfer"),
    (r"tensorrt_llm::", "TensorRT-LLM"),
    (r"marlin(?:_moe_wna16)?::", "Marlin"),
    (r"machete::", "Machete"),
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
"""Answer of a decoder that knows no library."""


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
    """True where a kernel is called as one of PyTorch's, in the namespace of another library."""
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


# What a kernel does in a model, finer than its family: norm, activation, quantisation, MoE routing, sampling, ...
#
# The purpose follows from the decoded family and operation, and from whole words of the name where these are too
# coarse. It is a guess from the name, never from what the kernel computes, and `other` where nothing is known.

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
        fused = frozenset(decoded.fused_ops)
        return next((purpose for ops, purpose in _FUSED if ops <= fused), _BY_FAMILY[decoded.family]), False
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


def _of_copy(decoded: Decoded, words: str) -> Purpose:
    if decoded.operation == "kv cache" or _CACHE_WORDS.search(words):
        return Purpose.KV_CACHE
    return Purpose.EMBEDDING if _EMBEDDING_WORDS.search(words) else Purpose.COPY


def _is_of_logits(decoded: Decoded, words: str) -> bool:
    """True where a kernel selects among logits if the program is a server: argmax, top-k, a sort, a softmax in f32."""
    if decoded.operation == "softmax":
        return decoded.library == "PyTorch" and decoded.a == decoded.out == "f32" and "forward" in words
    if decoded.op in ("argmax", "argmin") or decoded.operation == "argmax":
        return True
    # Other libraries choose tokens of a sparse attention, or experts, by top-k.
    known = decoded.library in ("PyTorch", "FlashInfer")
    return known and (decoded.op == "topk" or (decoded.operation == "sort" and _LOGIT_WORDS.search(words) is not None))


_BY_KIND = {
    Kind.CPU_OP: Family.OP,
    Kind.ANNOTATION: Family.ANNOTATION,
    Kind.GPU_ANNOTATION: Family.ANNOTATION,
    Kind.RUNTIME: Family.RUNTIME,
    Kind.SYNC: Family.RUNTIME,
    Kind.GRAPH_EVENT: Family.RUNTIME,
    Kind.GRAPH_HOST: Family.RUNTIME,
    Kind.PYTHON: Family.PYTHON,
    Kind.MEMCPY: Family.COPY,
    Kind.MEMSET: Family.COPY,
    Kind.OVERHEAD: Family.OVERHEAD,
    Kind.BOOKKEEPING: Family.OVERHEAD,
}
_AFTER: tuple[Callable[[ParsedName], Decoded | None], ...] = (
    flash,
    attention,
    nvjet,
    trtllm,
    marlin,
    cutlass,
    cutlass_template,
    xmma,
    sass,
    cublas,
    tensile,
    rocm,
    cudnn,
    native,
    cub,
    user_kernel,
)


@lru_cache(maxsize=16384)
def decode(name: str, kind: Kind = Kind.KERNEL, custom_ops: frozenset[str] = frozenset()) -> Decoded:
    """Decode the name of a kernel, copy or fill; never raises, whatever the text.

    Slices that run on no device have only a family. `custom_ops` are base names of operators that the program
    registered.
    """
    parts = name_parts(name)
    if kind in (Kind.MEMCPY, Kind.MEMSET):
        found = memory(parts) or Decoded(
            family=Family.COPY, operation="memcpy" if kind == Kind.MEMCPY else "memset", library="driver"
        )
    elif kind != Kind.KERNEL:
        found = Decoded(family=_BY_KIND.get(kind, Family.OTHER), operation=kind.name.lower().replace("_", " "))
        return replace(found, short=cut(name), sentence="")
    else:
        found = _kernel(parts, custom_ops)
    found = _completed(found, parts)
    return replace(found, short=cut(found.short or short_of(found, parts)), sentence=sentence_of(found, parts))


def _completed(decoded: Decoded, parts: ParsedName) -> Decoded:
    """The same with its library, where that follows from the rest of the name, and its purpose."""
    library, likely = library_of(decoded, parts)
    decoded = replace(decoded, library=library)
    purpose, serving = purpose_of(decoded, parts)
    inferred = decoded.inferred - {"library"} | ({"library"} if likely else set())
    return replace(decoded, purpose=purpose, serving=serving, inferred=inferred)


def _kernel(parts: ParsedName, custom_ops: frozenset[str]) -> Decoded:
    if decoded := memory(parts):
        return decoded
    # Before collectives: a kernel that Inductor fused to one is named after it and sends nothing itself.
    if decoded := inductor(parts, custom_ops):
        return decoded
    if decoded := collective(parts):
        return decoded
    # Nothing but PyTorch's own kernels live in this namespace, and they are most names of an eager trace.
    if parts.path.startswith("at::") and (decoded := native(parts)):
        return decoded
    for family in _AFTER:
        if decoded := family(parts):
            return decoded
    return by_words(parts)
