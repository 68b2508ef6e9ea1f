"""Words of kernel names and the families they stand for; the first rule that matches decides.

A word is matched as a whole, never as letters within a word: names are split at underscores, capitals and digits
first (`spelled`). Order matters where a kernel does two things: a normalisation that quantises is a normalisation, an
all-reduce that normalises is communication, a matrix product that activates is a matrix product.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tracetui.kernel_names.decoded import LAYOUT_CONVERSION, Family
from tracetui.lazy_pattern import lazy_pattern

MAX_CHARACTERS = 400
"""Maximum characters of one name that are split into words."""

_WORD = lazy_pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def spelled(name: str) -> str:
    """`FusedAddRMSNorm8` as `_fused_add_rms_norm_8_`: words in lower case, each with an underscore on both sides."""
    return f"_{'_'.join(_WORD.findall(name[:MAX_CHARACTERS]))}_".lower()


class Meaning(NamedTuple):
    """What the words of a name stand for."""

    family: Family
    operation: str


class _Rule(NamedTuple):
    """Words, separated by spaces, any of which decides; `unless` are words that forbid it.

    A word is an expression over the spelled name, `all_?reduce` for both `allreduce` and `all_reduce`.
    """

    family: Family
    operation: str
    words: str
    unless: str = ""


_PRODUCT = """
    (?!deepgemm|fbgemm)[a-z]{0,6}gemm[a-z]{0,2} (?:mat|bat)?matmul matrix_mul(?:tiply)? (?:mul_)?mat_mul mul_mat[a-z]*
    mm bmm spmm [gt]?gmm addmm baddbmm csr(?:mm|mv) spmv sddmm einsum nvjet cijk xmma grouped_linear weight_only
"""
_ATTENTION = """
    [a-z]*attn attns [a-z]*attention [a-z]*fmha [a-z]{0,3}mha sdpa flash_(?:fwd|bwd|mla) [a-z]*flash(?:attn|mla)
    split_?kv mqa_logits xqa
"""
_COLLECTIVE = """
    all_?reduce all_?gather(?:_?v)? reduce_?scatter all_?to_?all(?:_?v)? all_2_all a_2_a [a-z]{0,3}ccl(?:pp|x)?
    (?:nv|roc|i|x|open)?shmem[ix]? k?userbuffers multimem nvls (?:one|two)_?shot lamport cross_device quick_?reduce
    notify_(?:dispatch|combine) cached_notify ep_(?:dispatch|combine) (?:intra|inter)_?node(?:_ll)? send_?recv
    put_signal signal_wait wait_signal push_?(?:send|recv) pull_?recv exchange barrier device_sync rdma ibgda moe_comm
"""
_KV_CACHE = """
    (?:and|to|into)_(?:kv_)?cache full_cache swap_blocks copy_blocks copy_all_layer transfer_kernel
    (?:store|set|write|save|append|copy|update|move|transfer|gather|swap|insert|load)(?:_[a-z0-9]+)*_(?:kv_?cache|kv_?buffer|kv|mla)
    kv_?cache_(?:copy|store|write|insert|transfer) cache_(?:copy|insert|write)
"""
_ROUTING = """
    top_?k_?gating[a-z]* grouped_topk biased_grouped routing[a-z]* router rout(?:e|ed) align_block_size bitmatrix
    moe_(?:align|sum|sorting|fused_gate|finalize|combine|gate)
    [a-z]*experts?_(?:tokens?|count|offsets?|first|maps?|sort|ids?) (?:count|sort)(?:_[a-z]+)*_experts? seg_indptr
    row_id_map dispatch_layout finalize fused_mapping expert_map ep_map
"""
_OTHER_ATTENTION = """
    flash [a-z]?mla [mg]qa (?:page|paged|ragged)_(?:decode|prefill) prefill batch_decode decode_att merge_states?
    merge_splitk varlen_num_blocks reduce_segments gated_delta delta_?(?:net|rule) gdn kda gla wkv(?:_[0-9])?
    rwkv(?:_[0-9])? retention lightning kkt d_?k_?d_?v dq_dk_dv do_o dot_do_o sage_fwd nsa fna attend lse
    recompute_w_u chunk_(?:fwd|bwd)(?:_[a-z]+)*_(?:o|h|dqkwg|dhu)
"""
_RULES = (
    _Rule(Family.COMMUNICATION, "collective", _COLLECTIVE, f"{_PRODUCT} attention layout"),
    _Rule(Family.COPY, "copy", "[a-z]*repack [a-z]*shuffle_?weights? preshuffle", "[a-z]{0,2}gemm"),
    _Rule(
        Family.GEMM,
        "gemm helper",
        """split_?k_?reduce split_?k_kernel_reduce reduce_?split_?k group_gemm_starts prepare_grouped_gemm
        compute_(?:strides|problem_sizes|gemm_pointers)""",
    ),
    _Rule(Family.COPY, "kv cache", _KV_CACHE, _ATTENTION),
    _Rule(
        Family.COPY, "gather", "concat_mla (?:kv|page|block)_(?:indices|table)s? (?:build|expand)(?:_[a-z]+)*_indices"
    ),
    _Rule(Family.ATTENTION, "attention", _ATTENTION, "insert"),
    _Rule(Family.GEMM, "gemv", "[a-z]?gemv[a-z]? [sb]gmv matvec mat_vec"),
    _Rule(
        Family.GEMM,
        "gemm",
        f"""{_PRODUCT} mfma_moe moe_stage mega_moe marlin machete wv_?split_?k[a-z]* w_[0-9]_a_[0-9]+ wna
        lora_(?:expand|shrink) newton_?schulz fused_mlp ffn gate_?up syrk symm her_?k cutlass_tensorop""",
        "finalize_matmul_scatter conv convolve top_?k_?gating",
    ),
    _Rule(
        Family.GEMM,
        "gemm",
        "f_?moe fused_?moe",
        "[a-z]*quant(?:ize|ized|ization)? top_?k sort(?:ing)? finalize sum gate",
    ),
    _Rule(
        Family.GEMM,
        "solve",
        """tr[sm]m trsv trti getr[fs] potr[fs] geqrf larf[a-z]* syev[a-z]* gesv[a-z]* jacobi cholesky inverse
        solve[a-z]*""",
        "rope norm",
    ),
    _Rule(Family.POINTWISE, "rope", "[mrt]?rope rotary sbhd", "[a-z]*norm"),
    _Rule(Family.REDUCTION, "routing", _ROUTING, "[a-z]*norm batch expand_input_rows"),
    _Rule(Family.REDUCTION, "softmax", "(?:log_?)?[a-z]*softmax[a-z]* soft_max log_?sum_?exp sparsemax sinkhorn"),
    _Rule(Family.REDUCTION, "loss", "[a-z]*entropy nll [a-z]*loss(?:es)? kl_?div jsd tv_distance ctc"),
    _Rule(
        Family.REDUCTION,
        "norm",
        "(?!renorm|lognorm)[a-z]*norm norms ln bn gn rms normali[sz](?:e|ation) welford gamma_?beta dyt",
    ),
    _Rule(
        Family.GEMM,
        "convolution",
        "[a-z]*conv convolve convolution winograd [fb]prop [dw]grad s?cudnn depthwise",
        "im_2_col embedding layout",
    ),
    _Rule(Family.ATTENTION, "attention", _OTHER_ATTENTION, "rope [a-z]*norm metadata indexer_k quant inputs"),
    _Rule(
        Family.REDUCTION,
        "scan",
        "[a-z]*scan cum_?sum cum_?prod cum_?max ssm ssd mamba selective_state state_passing chunk_state",
    ),
    _Rule(Family.REDUCTION, "pooling", "[a-z]*pool(?:ing)? roi_align", "token req kv"),
    _Rule(
        Family.POINTWISE,
        "resample",
        "(?:up|down|re)_?sampl(?:e|ing) nearest interpolat(?:e|ion) grid_sampler? resize affine_grid",
    ),
    _Rule(
        Family.COPY,
        LAYOUT_CONVERSION,
        """n?c?d?chw_(?:to|2)(?:_[a-z]+)?_n?d?hwc n?d?hwc_(?:to|2)(?:_[a-z]+)?_n?c?d?chw nchwtonhwc nhwctonchw
        batched_transpose channels?_last_to to_channels?_last""",
    ),
    _Rule(
        Family.POINTWISE,
        "activation",
        """act activations? [a-z]*silu [a-z]*gelu [a-z]*relu elu swish [a-z]*glu sigmoid tanh softplus gate_mix
        gated?_act softcap logit_cap d?fg (?:exact|approx)_(?:forward|backward)""",
    ),
    _Rule(
        Family.POINTWISE,
        "quantisation",
        """[a-z]*quant [a-z]*quantize[a-z]* [a-z]*quantization quantized cast(?:_[a-z0-9]+)*_fp_?[0-9] cast_back
        cast_transpose cast_and_transpose amax to_fp_8 hadamard fht cvt exllama [a-z]*sparsify""",
        "embedding gather",
    ),
    _Rule(Family.REDUCTION, "argmax", "arg_?max arg_?min"),
    _Rule(
        Family.REDUCTION,
        "sampling",
        """sampl(?:e|er|ing|ed)[a-z]* [a-z]*sampling top_?p min_p renorm[a-z]* gumbel multinomial speculative
        rejection verify_tree tree_(?:greedy|verify|efficient) build_tree""",
    ),
    _Rule(
        Family.REDUCTION,
        "sort",
        """[a-z]*sort(?:ing|ed)? top_?k[a-z]* bitonic radix k_?th select_?k bucketize nonzero partition unique
        compact nms""",
        "permute gather_sorted index_put",
    ),
    _Rule(Family.REDUCTION, "transform", "[a-z]*fft dct"),
    _Rule(Family.REDUCTION, "distance", "[cp]dist distances? knn fps ball_query"),
    _Rule(Family.REDUCTION, "histogram", "histogram[a-z]* bin_?count"),
    _Rule(
        Family.COPY,
        "scatter",
        "scatter[a-z]* set_rows index_(?:add|put|copy|fill) embedding_?(?:bag)?_(?:backward|grad|bwd) unpermute",
    ),
    _Rule(
        Family.COPY,
        "gather",
        """gather[a-z]* get_rows index_?select[a-z]* [a-z]*embeddings? lookup [a-z]*permut(?:e|ation)[a-z]* take
        expand_input_rows expand_to_fused re_?order[a-z]*""",
    ),
    _Rule(Family.COPY, "transpose", "[a-z]*transpose[a-z]* interleave[a-z]* swizzle[a-z]*"),
    _Rule(
        Family.COPY,
        "copy",
        """[a-z]*copy copies mem_?cpy cpy cat concat[a-z]* [a-z]*cat_?array pad padding unpad split convert[a-z]*
        store load save transfer (?:un)?pack roll flip (?:un)?fold to_jagged jagged_to reshape relayout layout
        im_2_col col_2_im im_2_d_2_col repeat expand shuffle bitcast cast truncate (?:de)?compress masked_select""",
    ),
    _Rule(
        Family.POINTWISE,
        "optimizer",
        "[a-z]*adam[a-z]* sgd [a-z]*lamb lion adagrad rms_?prop muon optimi[sz]er[a-z]* multi_tensor ema",
    ),
    _Rule(Family.POINTWISE, "random", "drop_?out philox random rand uniform bernoulli exponential normal rng"),
    _Rule(
        Family.POINTWISE, "fill", "[a-z]*fill zeros? mem_?set init initiali[sz]e arange iota eye linspace clear ones"
    ),
    _Rule(
        Family.REDUCTION,
        "reduction",
        """reduc(?:e|tion|er)[a-z]* sums? mean abs_?max moments statistics stats count segment correlation dot
        aggregate mhc hc hyper_?connection (?:inner|outer)_persistent""",
    ),
    _Rule(
        Family.POINTWISE,
        "pointwise",
        """element_?wise point_?wise functor add sub mul mult multiply div scaled? scal shift bias clamp clip
        where mask masked lerp exp log sin cos sqrt rsqrt pow neg abs fma cross axpy unary binary ternary
        transform for_?each parallel_for map op_(?:[0-9]_d_)?tensor combine mix gate gated gating blend
        penalt(?:y|ies) temperature bin_bcast bit_?mask accumulate element residual merge lstm gru rnn modulate
        apply update increment stencil cuda_code_gen fuser assert flag""",
    ),
    _Rule(
        Family.POINTWISE,
        "indices",
        """ind(?:ex|ices|exer|ptr) pos positions? slots? offsets? lens? lengths? seq_?lens? metadata req requests?
        tokens? ids? plan schedul(?:e|er) drafts? spec eagle locs? tables? strides? candidates? num_blocks hash
        check mapping alloc(?:ate)? inputs""",
    ),
)


def _pattern(words: str) -> re.Pattern[str]:
    return lazy_pattern(f"_(?:{'|'.join(words.split())})(?=_)")


_PATTERNS = tuple(
    (Meaning(rule.family, rule.operation), _pattern(rule.words), _pattern(rule.unless) if rule.unless else None)
    for rule in _RULES
)


def meaning_of(name: str) -> Meaning | None:
    """What the words of one name stand for, None where no word is known."""
    text = spelled(name)
    for meaning, words, unless in _PATTERNS:
        if words.search(text) and not (unless is not None and unless.search(text)):
            return meaning
    return None
