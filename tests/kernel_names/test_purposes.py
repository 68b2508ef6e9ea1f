"""Purposes of kernels, and the share that has none."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.support.build import Event, kernel, make_trace
from tests.support.paths import SHARED
from tests.support.traces import given_traces, loaded
from tracetui.errors import TracetuiError
from tracetui.kernel_names import Family, Purpose, decode
from tracetui.model.trace import GPU_WORK, Kind
from tracetui.panes import PANES
from tracetui.tables.kernels import kernels

UNTOLD = {"triton_poi_fused_cat_1"}
"""A rotary embedding in the program that it was recorded in; its name says `cat` and no more."""
LIBRARIES = {
    "vllm": {"vLLM", "vLLM ROCm", "vLLM Triton", "vLLM, SGLang", "custom all-reduce (vLLM, SGLang)"},
    "aiter": {"AITER", "AITER assembly"},
    "flash-attn 3": {"FlashAttention 3"},
    "pytorch": {"PyTorch", "FlashAttention 2"},
    "triton": {"Triton"},
    "sageattention": {"SageAttention"},
    "vllm triton": {"vLLM Triton", "vLLM, SGLang", "Triton"},
    "ck_tile": {"ck_tile"},
    "trtllm-gen": {"TensorRT-LLM", "TensorRT-LLM / FlashInfer"},
    "cublas": {"cuBLAS xmma", "cuBLAS nvjet", "cuBLAS SASS", "cuBLASLt"},
    "cutlass": {"CUTLASS 2.x"},
    "hipblaslt": {"hipBLASLt (Tensile)"},
    "triton_kernels": {"Triton kernels"},
    "deepseek": {"DeepSeek"},
    "pytorch cutlass": {"CUTLASS 3.x"},
    "nccl": {"NCCL"},
    "rccl": {"RCCL"},
    "pytorch symmetric memory": {"PyTorch symmetric memory"},
    "deep_ep": {"DeepEP"},
    "inductor": {"Inductor"},
    "apex": {"Apex"},
    "sgl-kernel": {"sgl-kernel"},
    "sglang": {"SGLang", "Triton"},
    "tensorrt_llm": {"TensorRT-LLM"},
    "flash-attn": {"flash-attn Triton"},
    "rocm": {"ROCm runtime"},
    "miopen": {"MIOpen", "MIOpen igemm"},
    "ck": {"composable kernel"},
    "xdit": {"xDiT"},
    "flashinfer": {"FlashInfer"},
    "vllm marlin": {"Marlin"},
    "deep_gemm": {"DeepGEMM"},
    "flashmla": {"FlashMLA"},
    "fla": {"flash-linear-attention"},
}
"""What is said for each library of the collection: PyTorch ships FlashAttention, and engines share plain names."""


def test_every_collected_name_decodes_to_its_purpose_and_library():
    path = SHARED / "inference" / "names.json"
    if not path.exists():
        pytest.skip("needs ../shared/traces, which is not there")
    collected = json.loads(path.read_text(encoding="utf-8"))
    assert len(collected) > 130
    purposes_of = {each["name"]: (each["family"], str(decode(each["name"]).purpose)) for each in collected}
    assert {name for name, (wanted, given) in purposes_of.items() if wanted != given} <= UNTOLD
    wrong = [(each["library"], decode(each["name"]).library, each["name"][:90]) for each in collected]
    assert [each for each in wrong if each[1] not in LIBRARIES[each[0]]] == []


@pytest.mark.parametrize(
    ("name", "purpose", "beside", "other"),
    [
        (
            "void vllm::moe::topk_softmax<float, 8>(P)",
            Purpose.ROUTING,
            "void x::top_softmax<float>(P)",
            Purpose.REDUCTION,
        ),
        ("_fwd_kernel_ep_scatter_1", Purpose.ROUTING, "_my_scatter_1", Purpose.COPY),
        ("void vllm::moe::moe_permute_kernel<P>(P)", Purpose.ROUTING, "void x::permute_kernel<P>(P)", Purpose.COPY),
        ("void aiter::topk_softplus_kernel<P>(P)", Purpose.ROUTING, "softplus_kernel", Purpose.ACTIVATION),
        ("void vllm::cp_gather_cache<float>(P)", Purpose.KV_CACHE, "void x::gather<float>(P)", Purpose.COPY),
        ("_penalties_kernel", Purpose.SAMPLING, "_scale_kernel", Purpose.POINTWISE),
        ("_temperature_kernel", Purpose.SAMPLING, "_temperatures_kernel", Purpose.OTHER),
        ("_prepare_prefill_inputs_kernel", Purpose.SCHEDULING, "_prefill_kernel", Purpose.ATTENTION),
        ("void aiter::kn_get_mla_metadata_v1<P>(P)", Purpose.SCHEDULING, "void aiter::mla_v1<P>(P)", Purpose.ATTENTION),
        (
            "void flashinfer::sampling::RadixTopKKernel<1024u>(P)",
            Purpose.SAMPLING,
            "void x::fast_topk_kernel<P>(P)",
            Purpose.REDUCTION,
        ),
        ("clamp_position_kernel", Purpose.SCHEDULING, "clamp_disposition_kernel", Purpose.POINTWISE),
        ("_gather_kv_indices_kernel", Purpose.KV_CACHE, "_gather_kvindices_kernel", Purpose.COPY),
        ("expandInputRowsKernel", Purpose.ROUTING, "permuteInputRowsKernel", Purpose.COPY),
        (
            "void x::embedding_lookup_kernel<float>(P)",
            Purpose.EMBEDDING,
            "void x::gather_kernel<float>(P)",
            Purpose.COPY,
        ),
        (
            "triton_red_fused_add_mean_mul_pow_rsqrt_0",
            Purpose.NORM,
            "triton_red_fused_add_mean_mul_pow_0",
            Purpose.REDUCTION,
        ),
        ("triton_poi_fused_mul_silu_1", Purpose.ACTIVATION, "triton_poi_fused_add_mul_1", Purpose.POINTWISE),
        ("igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt128x128x32_wt32x32x8", Purpose.CONVOLUTION, "my_gemm", Purpose.GEMM),
        (
            "void c::rms_norm_quant_kernel<float>(P)",
            Purpose.NORM,
            "void c::quant_kernel<float>(P)",
            Purpose.QUANTISATION,
        ),
    ],
)
def test_a_purpose_and_the_name_beside_it(name, purpose, beside, other):
    assert (decode(name).purpose, decode(beside).purpose) == (purpose, other)


@pytest.mark.parametrize(
    ("name", "library", "certain"),
    [
        ("void vllm::x_kernel<float>(P)", "vLLM", True),
        ("void myvllm::rms_norm_kernel<float>(P)", None, True),
        ("void flashinfer::norm::RMSNormKernel<8u>(P)", "FlashInfer", True),
        ("void deep_gemm::sm90_fp8_gemm_1d2d_impl<1u>(P)", "DeepGEMM", True),
        ("void turbomind::reduce_kernel<float>(P)", "TurboMind", True),
        ("void unheard::reduce_kernel<float>(P)", None, True),
        ("void at::native::reduce_kernel<512, 1, P>(P)", "PyTorch", True),
        ("fused_moe_kernel", "vLLM, SGLang", False),
        ("my_fused_moe_kernel", "Triton", False),
        ("void cuda::get_fused_mapping<512>(P)", "DeepSeek", False),
        ("void cuda::my_mapping<512>(P)", None, True),
        ("ncclDevKernel_Generic_2(ncclDevKernelArgsStorage<4096ul>)", "RCCL", False),
        ("ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", "NCCL", False),
    ],
)
def test_libraries_by_namespace_are_certain_and_by_name_are_likely(name, library, certain):
    decoded = decode(name)
    assert (decoded.library, "library" not in decoded.inferred) == (library, certain)


def _named(*more: Event):
    sort = "void at::native::bitonicSortKVInPlace<2, -1, 16, 16, float, long>(P)"
    return make_trace([kernel(sort, 0, 100), kernel("ampere_sgemm_128x64_nn", 200, 100), *more])


def test_a_sort_is_sampling_unless_the_program_trains():
    for more, purpose in (
        ([], "sampling"),
        ([Event("autograd::engine::evaluate_function: MmBackward0", 0, 50)], "reduction"),
    ):
        trace = _named(*more)
        table = kernels(trace, by="purpose")
        assert {row["purpose"]: row["calls"] for row in table.rows()} == {purpose: 1, "gemm": 1}


def test_columns_of_a_trace_mark_libraries_that_are_likely():
    table = kernels(_named(kernel("fused_moe_kernel", 400, 100), kernel("never_heard_of_this", 600, 100)))
    libraries = {row["name"]: row["library"] for row in table.rows()}
    likely = dict(zip(libraries, [table["library"].is_doubtful(row) for row in range(len(table))], strict=True))
    assert (libraries["fused_moe_kernel"], likely["fused_moe_kernel"]) == ("vLLM, SGLang", True)
    assert (libraries["ampere_sgemm_128x64_nn"], likely["ampere_sgemm_128x64_nn"]) == ("cuBLAS SASS", False)
    assert (libraries["never_heard_of_this"], likely["never_heard_of_this"]) == (None, False)
    grouped = kernels(_named(kernel("fused_moe_kernel", 400, 100)), by="library")
    likely = {row["library"]: grouped["library"].is_doubtful(index) for index, row in enumerate(grouped.rows())}
    assert likely == {"vLLM, SGLang": True, "cuBLAS SASS": False, "PyTorch": False}
    assert kernels(make_trace([Event("aten::mm", 0, 5)]), by="library")["library"].values.tolist() == []


@pytest.mark.parametrize(
    ("name", "serves"),
    [("void vllm::reshape_and_cache_kernel<float>(P)", True), ("void x::relu_kernel<float>(P)", False)],
)
def test_the_app_offers_both_groupings_where_a_model_is_served(name, serves):
    offered = PANES["kernels"].offered(_named(kernel(name, 400, 100)))
    assert ("purpose" in offered, "library" in offered) == (serves, serves)


MAX_OTHER_SHARE = 0.001
"""Maximum share of a trace's GPU time in the family `other`."""
BARE = {"kernel", "void", "?"}


FOLDERS = ("d*", "inference/*.json*", "pairs/*", "ranks/**/*.json*", "puzzlers/*", "edge/*.json*", "edge/*.pfw.gz")


@pytest.mark.parametrize("file", given_traces(*FOLDERS))
@pytest.mark.full
def test_hardly_any_gpu_time_is_other_and_no_short_name_is_bare(file):
    try:
        trace = loaded(SHARED / file)
    except TracetuiError as error:
        pytest.skip(f"no trace: {error}")
    slices = trace.slices
    rows = slices.of_kind(*GPU_WORK)
    if len(rows) == 0:
        pytest.skip("nothing ran on a GPU")
    keys = slices.name[rows].astype(np.int64) * len(Kind) + slices.kind[rows]
    distinct, index = np.unique(keys, return_inverse=True)
    time = np.bincount(index, np.maximum(slices.dur[rows], 0)) / max(int(slices.dur[rows].sum()), 1)
    decoded = [decode(trace.names[key // len(Kind)], Kind(key % len(Kind))) for key in distinct.tolist()]
    names = [trace.names[key // len(Kind)] for key in distinct.tolist()]
    everything = zip(names, time, decoded, strict=True)
    other = {name: share for name, share, each in everything if each.family == Family.OTHER}
    print(f"{file}: other {sum(other.values()):.2%} of {len(decoded)} names {sorted(other)}")
    assert sum(other.values()) < MAX_OTHER_SHARE
    assert not {each.short.lower() for each in decoded} & BARE
