"""A decoded kernel name as fields for tables, rules and sentences, and the families for colours and sums."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import NamedTuple

from tracetui.text import lazy_pattern


class Family(IntEnum):
    """The family of a slice."""

    GEMM = 0
    """Matrix products and convolutions."""
    ATTENTION = 1
    REDUCTION = 2
    """Sums, norms, softmax, scans, sorts, selections: each result depends on many elements."""
    POINTWISE = 3
    COPY = 4
    """Copies, fills by the driver, transposes, conversions, gathers, writes to a KV cache."""
    COMMUNICATION = 5
    """Collectives between devices, exchanges of tokens with experts on other devices, and their barriers."""
    OTHER = 6
    OP = 7
    ANNOTATION = 8
    RUNTIME = 9
    PYTHON = 10
    OVERHEAD = 11


class Purpose(StrEnum):
    """The purpose of a kernel in a model, finer than its family."""

    GEMM = "gemm"
    CONVOLUTION = "convolution"
    ATTENTION = "attention"
    COMMUNICATION = "communication"
    ROUTING = "moe routing"
    """Choosing experts, moving tokens to them and back on the same device."""
    NORM = "norm"
    ACTIVATION = "activation"
    QUANTISATION = "quantise"
    KV_CACHE = "kv cache"
    ROPE = "rope"
    SAMPLING = "sampling"
    EMBEDDING = "embedding"
    SCHEDULING = "scheduling"
    """Positions, lengths and ids of the tokens of the next step."""
    COPY = "copy"
    """Copies, fills, gathers, transposes."""
    REDUCTION = "reduction"
    POINTWISE = "pointwise"
    OTHER = "other"


LAYOUT_CONVERSION = "layout conversion"
"""Operation of kernels that rearrange a tensor between NCHW and NHWC and compute nothing."""
OPERAND_CONVERSION = "operand conversion"
"""Operation of kernels that convert the element type of an operand for the product or convolution behind them."""

MAX_SHORT_NAME = 40
"""Maximum characters of a short name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """A decoded name; missing fields are None or empty, inferred fields are listed in `inferred`."""

    family: Family
    """Family for colours and sums."""
    operation: str
    """Finer than the family: gemm, gemm helper, attention, softmax, sort, layout conversion, ...; `unknown`."""
    purpose: Purpose = Purpose.OTHER
    """Purpose in a model."""
    serving: bool = False
    """True where that purpose holds only where a model is served: a training program sorts other things than logits."""
    library: str | None = None
    """Author or generator: cuBLAS nvjet, CUTLASS 3.x, Inductor, PyTorch, NCCL, Tensile, ..."""
    vendor: str | None = None
    """Vendor whose hardware the library targets: NVIDIA or AMD; None where it runs on either."""
    arch: str | None = None
    """Architecture it was built for: sm90, gfx942, ampere. A newer device may run it."""
    op: str | None = None
    """The operation in one word: add, mean, AllReduce, forward, dgrad."""
    a: str | None = None
    """Element type of the input, or of matrix A: bf16, f32, i64, f8, 2-byte."""
    b: str | None = None
    acc: str | None = None
    """Type of the accumulator or the computation."""
    out: str | None = None
    tile: tuple[int, ...] = ()
    """Two sides of the output tile of a block and, where the name tells, its depth, in the order of the name."""
    columns_first: bool | None = None
    """True where the tile's first side is along the columns of the output in PyTorch: BLAS libraries are column-major,
    all but xmma, as grids of real traces show. None where unknown.
    """
    stages: int | None = None
    """Depth of the pipeline that loads tiles."""
    cluster: tuple[int, ...] = ()
    """Thread blocks of one cluster."""
    warps: int | None = None
    threads: int | None = None
    """Threads of one block."""
    instruction: str | None = None
    """Shape of the matrix instruction, MxNxK."""
    layout: str | None = None
    """tn, nn, nt or tt for A and B as the library counts, or nhwc and nchw."""
    align: int | None = None
    """Elements to which the operands must be aligned."""
    split_k: bool | None = None
    """True where K is split over several blocks whose results are added; None where the name does not tell."""
    vector: int | None = None
    """Elements that one thread loads at once."""
    head: int | None = None
    """Size of an attention head."""
    epilogue: tuple[str, ...] = ()
    """Operations on the result before it is stored."""
    fused_ops: tuple[str, ...] = ()
    """Operators that a generated kernel was fused from, not what it executes."""
    index: int | None = None
    """Number of a generated kernel in its module."""
    tensor_core: bool | None = None
    """True where Tensor Cores (Matrix Cores on AMD) compute; None where the name does not tell."""
    flags: tuple[str, ...] = ()
    """Other stated properties: causal, varlen, strided, pageable, relu-capable, stream-k."""
    warnings: tuple[str, ...] = ()
    """Caveats about this name or its time."""
    unknown: tuple[str, ...] = ()
    """Parts of the name that are not understood, as they are."""
    inferred: frozenset[str] = frozenset()
    """Names of the fields above that are likely and not certain."""
    short: str = ""
    """A label of at most 40 characters."""
    sentence: str = ""
    """The decoded name in a sentence."""

    @property
    def dtype(self) -> str | None:
        """The type to show: that of the input elements, else of the output."""
        return self.a or self.out

    def tiles(self, rows: int, columns: int, batch: int = 1) -> int | None:
        """Number of tiles for `batch` outputs of rows x columns; None where the name does not tell.

        Blocks may be fewer, where each computes several tiles, or more, where K is split.
        """
        if len(self.tile) < 2 or self.columns_first is None or 0 in self.tile:
            return None
        across, down = self.tile[:2] if self.columns_first else self.tile[1::-1]
        return -(-columns // across) * -(-rows // down) * batch

    def confidence(self, field: str) -> str | None:
        """`exact` where the grammar of the name is known, `inferred` where not, None where the field is empty."""
        if getattr(self, field) in (None, "", ()):
            return None
        return "inferred" if field in self.inferred else "exact"


# Element types as C++ and BLAS libraries write them, and shapes of matrix instructions in names.

SHAPES = {
    "884": "8x8x4",
    "1684": "16x8x4",
    "1688": "16x8x8",
    "16816": "16x8x16",
    "16832": "16x8x32",
    "16864": "16x8x64",
    "8816": "8x8x16",
    "8832": "8x8x32",
    "161616": "16x16x16",
    "32816": "32x8x16",
    "83216": "8x32x16",
}
"""MxNxK of the digits in `s16816gemm`."""

ACCUMULATORS = {"s": "f32", "h": "f16", "d": "f64", "i": "i32", "c": "c64", "z": "c128", "q": "f8"}
"""Accumulator type by the letter before the instruction."""

CONVOLUTIONS = {"fprop": "forward", "dgrad": "dgrad", "wgrad": "wgrad", "deconv": "deconvolution"}
"""Result of a convolution: the output, the gradient of the input or that of the weight."""

RELU_CAPABLE = "relu-capable"
MISALIGNED = "align {}: misaligned shapes, slow path"
"""Warning for operands with an alignment of one or two elements."""


def shape_of(digits: str | None) -> str | None:
    """MxNxK for the digits of an instruction, None where they are not known."""
    return SHAPES.get(digits) if digits else None


def misalignment(align: int | None) -> tuple[str, ...]:
    """The warning for a kernel that loads one or two elements at a time."""
    return (MISALIGNED.format(align),) if align is not None and align <= 2 else ()


def sizes(text: str | None) -> tuple[int, ...]:
    """`128x64x32` as numbers."""
    return tuple(int(part) for part in text.split("x")) if text else ()


_CPP = {
    "c10::BFloat16": "bf16",
    "__nv_bfloat16": "bf16",
    "nv_bfloat16": "bf16",
    "__hip_bfloat16": "bf16",
    "hip_bfloat16": "bf16",
    "cutlass::bfloat16_t": "bf16",
    "std::bfloat16_t": "bf16",
    "at::BFloat16": "bf16",
    "c10::Half": "f16",
    "at::Half": "f16",
    "__half": "f16",
    "half": "f16",
    "_Float16": "f16",
    "cutlass::half_t": "f16",
    "cutlass::tfloat32_t": "tf32",
    "c10::Float8_e4m3fn": "f8e4m3",
    "c10::Float8_e4m3fnuz": "f8e4m3",
    "__nv_fp8_e4m3": "f8e4m3",
    "cutlass::float_e4m3_t": "f8e4m3",
    "c10::Float8_e5m2": "f8e5m2",
    "c10::Float8_e5m2fnuz": "f8e5m2",
    "__nv_fp8_e5m2": "f8e5m2",
    "cutlass::float_e5m2_t": "f8e5m2",
    "cutlass::float_e2m1_t": "f4e2m1",
    "c10::complex<float>": "c64",
    "c10::complex<double>": "c128",
    "float": "f32",
    "double": "f64",
    "long long": "i64",
    "long": "i64",
    "int64_t": "i64",
    "int": "i32",
    "int32_t": "i32",
    "short": "i16",
    "signed char": "i8",
    "int8_t": "i8",
    "char": "i8",
    "unsigned char": "u8",
    "uint8_t": "u8",
    "unsigned short": "u16",
    "unsigned int": "u32",
    "unsigned long long": "u64",
    "unsigned long": "u64",
    "bool": "bool",
}
_BRIEF = {
    "bf16": "bf16",
    "f16": "f16",
    "fp16": "f16",
    "f32": "f32",
    "fp32": "f32",
    "tf32": "tf32",
    "f64": "f64",
    "fp64": "f64",
    "e4m3": "f8e4m3",
    "e5m2": "f8e5m2",
    "f8e4m3": "f8e4m3",
    "f8e5m2": "f8e5m2",
    "e2m1": "f4e2m1",
    "mxfp4": "mxfp4",
    "ue8m0": "ue8m0",
    "ue4m3": "ue4m3",
    "fp8": "f8",
    "s8": "i8",
    "i8": "i8",
    "int8": "i8",
    "u8": "u8",
    "s32": "i32",
    "i32": "i32",
    "u32": "u32",
    "i64": "i64",
    "u64": "u64",
    "float": "f32",
    "half": "f16",
    "double": "f64",
    "int8_t": "i8",
    "uint8_t": "u8",
    "int32_t": "i32",
    "uint32_t": "u32",
    "int64_t": "i64",
    "uint64_t": "u64",
    "bfloat16": "bf16",
    "float16": "f16",
    "c32": "c64",
    "cf32": "c64",
    "cf64": "c128",
}
FLOATS = frozenset({"bf16", "f16", "f32", "tf32", "f64", "f8e4m3", "f8e5m2", "f4e2m1", "f8", "c64", "c128"})
"""Types that hold values, not indices or counts."""

SIXTEEN_BIT = frozenset({"bf16", "f16"})

BRIEF = r"(?:bf16|tf32|fp?\d{1,2}|u?e\dm\d|mxfp\d|[usi]\d{1,2}|int\d|cf?\d{2})"
"""Pattern of the spellings that libraries use within a name."""

_QUALIFIER = lazy_pattern(r"\bconst\b|\bvolatile\b|[*&]")
_CUTLASS = lazy_pattern(r"cutlass_\w*::")
_OPAQUE = lazy_pattern(r"OpaqueType<(\d+)")
_CPP_PATTERN = lazy_pattern(
    r"(?<![\w:])(?:" + "|".join(sorted(map(re.escape, _CPP), key=len, reverse=True)) + r")(?![\w:<])"
)


def cpp_type(text: str) -> str | None:
    """The short name of a C++ type such as `c10::BFloat16 const*`; None for what is no element type."""
    spelling = _CPP.get(text)
    if spelling is not None:
        return spelling
    plain = _CUTLASS.sub("cutlass::", _QUALIFIER.sub("", text)).strip()
    if plain in _CPP:
        return _CPP[plain]
    opaque = _OPAQUE.search(plain) if plain.endswith(">") and "<" in plain else None
    return f"{opaque.group(1)}-byte" if opaque else None


def brief_type(text: str | None) -> str | None:
    """The short name of a type as libraries write it within a name: `fp16`, `e4m3`, `s8`."""
    return _BRIEF.get(text) if text else None


def types_in(text: str) -> list[str]:
    """The short names of all C++ types in a text, in order."""
    return [_CPP[word] for word in _CPP_PATTERN.findall(_CUTLASS.sub("cutlass::", text))]


def first_float(types: list[str]) -> str | None:
    """The first type that holds values, else the first of all; libraries put index types first."""
    return next((kind for kind in types if kind in FLOATS), types[0] if types else None)


# Words of kernel names and the families they stand for; the first rule that matches decides.
#
# A word is matched as a whole, never as letters within a word: names are split at underscores, capitals and digits
# first (`spelled`). Order matters where a kernel does two things: a normalisation that quantises is a normalisation,
# an all-reduce that normalises is communication, a matrix product that activates is a matrix product.

MAX_CHARACTERS = 400
"""Maximum characters of one name that are split into words."""

_WORD = lazy_pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def spelled(name: str) -> str:
    """`FusedAddRMSNorm8` as `_fused_add_rms_norm_8_`: words in lower case, each with an underscore on both sides."""
    return f"_{'_'.join(_WORD.findall(name[:MAX_CHARACTERS]))}_".lower()


class Meaning(NamedTuple):
    """The meaning of the words of a name."""

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
        lora_(?:expand|shrink) newton_?schulz fused_mlp ffn gate_?up dotprod bf_16_split_k syrk symm her_?k
        cutlass_tensorop""",
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
    """The meaning of the words of one name, None where no word is known."""
    text = spelled(name)
    for meaning, words, unless in _PATTERNS:
        if words.search(text) and not (unless is not None and unless.search(text)):
            return meaning
    return None
