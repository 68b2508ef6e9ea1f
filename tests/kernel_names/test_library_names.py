"""Kernels of PyTorch, libraries and serving engines, one line each in `library_names.tsv`: family, short name, name.

The names are those of the sources of vLLM, SGLang, TensorRT-LLM, FlashInfer, DeepEP, DeepGEMM, FlashAttention, Liger,
Unsloth, Transformer Engine, Apex, bitsandbytes, AITER, MIOpen, CK, cub and others; template arguments are shortened.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.build import Event, kernel, make_trace
from tests.support.paths import SHARED
from tracetui.idle.gpu_spans import exposure
from tracetui.kernel_names import LAYOUT_CONVERSION, Family, decode
from tracetui.kernel_names.decoded import meaning_of, spelled
from tracetui.kernel_names.slice_names import (
    MAX_SHORT_NAME,
    families,
    family,
    is_operand_conversion,
    short_kernel,
)
from tracetui.kernel_names.text import name_parts
from tracetui.kernel_names.wording import is_generic
from tracetui.model.trace import Kind

TABLE = [
    line.split("\t") for line in (Path(__file__).parent / "library_names.tsv").read_text(encoding="utf-8").splitlines()
]
QUALIFIED = [name for _, _, name in TABLE if "::" in name_parts(name).path and not name.startswith("_Z")]
"""Names whose function is in a namespace."""
BARE = {"kernel", "void", ""}


@pytest.mark.parametrize(("expected", "short", "name"), TABLE, ids=[name[:70] for _, _, name in TABLE])
def test_family_and_short_name(expected, short, name):
    assert (family(name, Kind.KERNEL).name.lower(), short_kernel(name)) == (expected, short)


def test_the_table_is_large_and_its_short_names_say_something():
    assert len(TABLE) > 350
    assert not {short.lower() for _, short, _ in TABLE} & BARE
    assert sum(expected == "other" for expected, _, _ in TABLE) < 0.03 * len(TABLE)


@given(st.sampled_from(QUALIFIED), st.from_regex(r"[a-z]{1,9}[0-9]{2}", fullmatch=True), st.sampled_from([0, 1, None]))
def test_a_renamed_namespace_changes_no_family(name, fresh, count):
    """Forks rename the outer namespace, everywhere in a name or at the function alone, or put another around it."""
    outer = name_parts(name).path.split("::")[0]
    pattern = rf"(?<![\w:]){re.escape(outer)}::"
    wrapped = re.sub(pattern, f"{fresh}::{outer}::", name)
    renamed = wrapped if count is None else re.sub(pattern, f"{fresh}::", name, count=count)
    assert renamed != name
    assert decode(renamed).family == decode(name).family
    assert decode(renamed).operation == decode(name).operation


WORDS = ["bn", "ln", "act", "mm", "dot", "mla", "sum", "pad", "add", "rope", "sort", "conv", "norm", "fill", "act"]


@given(st.sampled_from(WORDS), st.from_regex(r"[qxzvjk]{2,5}", fullmatch=True))
def test_a_word_counts_as_a_word_and_never_as_letters_within_one(word, letters):
    assert meaning_of(f"my_{word}_{letters}") is not None
    assert meaning_of(f"my_{letters}{word}{letters}_{letters}") is None


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("FusedAddRMSNorm8Kernel", "_fused_add_rms_norm_8_kernel_"),
        ("x_bN_y", "_x_b_n_y_"),
        ("moeA2ADispatch", "_moe_a_2_a_dispatch_"),
        ("nchwToNhwcKernel", "_nchw_to_nhwc_kernel_"),
        ("", "__"),
    ],
)
def test_spelled(name, words):
    assert spelled(name) == words


@pytest.mark.parametrize(
    ("name", "silent"),
    [
        ("void deep_ep::internode::combine<4>(int)", "void flash::attn::combine<4>(int)"),
        ("void a::internode::dispatch<4>(int)", "void a::internode::get_dispatch_layout<4>(int)"),
        ("void (anonymous namespace)::dispatchKernel<4>(int)", "_combine_kernel"),
        ("_all_gather_push_kernel", "triton_poi_fused_all_gather_into_tensor_wait_tensor_0"),
        ("multimem_all_reduce_kernel", "triton_red_fused_multimem_all_reduce_sum_3"),
        ("reduce_scatter_kernel", "scatter_reduce_kernel"),
        ("all_reduce_kernel", "_all_gather_gemm_kernel"),
    ],
)
def test_communication_and_what_is_none(name, silent):
    assert family(name, Kind.KERNEL) == Family.COMMUNICATION
    assert family(silent, Kind.KERNEL) != Family.COMMUNICATION


@pytest.mark.parametrize(
    "name",
    ["void fork::ep::internode_ll::dispatch<8>(int)", "void vllm::cross_device_reduce_1stage<half, 8>(int)",
     "void x::lamport::allreduce_fusion_kernel_oneshot_lamport<half>(int)"],
)  # fmt: skip
def test_communication_of_experts_and_of_serving_engines_is_exposed_where_nothing_computes(name):
    trace = make_trace([kernel(name, 0, 1_000), kernel("ampere_sgemm_128x64_nn", 600, 1_000, "stream 8")])
    measured = exposure(trace)
    assert (measured.comm.tolist(), measured.exposed_comm.tolist(), measured.compute.tolist()) == (
        [1_000],
        [600],
        [1_000],
    )


@pytest.mark.parametrize(
    ("name", "layout", "operand"),
    [
        (
            "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true, (cudnnKernelDataType_t)2>(P)",
            True,
            False,
        ),
        ("void cudnn::engines_precompiled::nhwcToNchwKernel<__half, __half, float>(P)", True, False),
        ("batched_transpose_32x32_half", True, False),
        ("transpose_NHWC2NCHW_V2_2D", True, False),
        ("void cudnn::ops::convertTensor_kernel<float, float, float, (cudnnKernelDataType_t)2>(P)", False, True),
        ("SubTensorOpWithCastTensor1d", False, True),
        ("void at::native::(anonymous namespace)::max_pool_forward_nhwc<float, float>(float const*)", False, False),
        ("void transformer_engine::transpose_optimized_kernel<8ul, 8ul, __nv_fp8_e4m3>(P)", False, False),
        ("void vllm::convert_fp8_kernel<float>(P)", False, False),
    ],
)
def test_conversions_before_products(name, layout, operand):
    assert (decode(name).operation == LAYOUT_CONVERSION, is_operand_conversion(name)) == (layout, operand)


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("Kernel", "unnamed kernel"),
        ("kernel", "unnamed kernel"),
        ("void kernel<float>(int)", "unnamed kernel<f32>"),
        ("void Kernel<mine::Blur<int> >(P)", "Blur"),
        ("void mine::blur::kernel<int>(P)", "blur<i32>"),
        ("kernel1", "kernel1"),
        ("device_kernel", "device_kernel"),
    ],
)
def test_a_kernel_without_a_name_is_called_after_what_it_runs(name, short):
    assert is_generic(name_parts(name).base)
    assert short_kernel(name) == short


def test_the_signature_of_older_triton_is_no_part_of_a_name():
    plain, signed = decode("matmul_kernel"), decode("matmul_kernel_0d1d2d3de4de5de6de7c8de9c10de11c")
    assert (signed.family, signed.short) == (plain.family, plain.short) == (Family.GEMM, "matmul_kernel")
    assert decode("_fwd_kernel_0d1d2d34d5d6c7c89de").family == Family.ATTENTION
    assert short_kernel("my_kernel_0d") == "my_kernel_0d"


GROUPS = {
    "communication": {Family.COMMUNICATION},
    "attention": {Family.ATTENTION},
    "gemm": {Family.GEMM},
    "convolution": {Family.GEMM},
    "norm": {Family.REDUCTION},
    "activation": {Family.POINTWISE},
    "rope": {Family.POINTWISE},
    "quantise": {Family.POINTWISE},
    "sampling": {Family.REDUCTION},
    "kv cache": {Family.COPY},
    "copy": {Family.COPY, Family.POINTWISE},
    "embedding": {Family.COPY, Family.POINTWISE},
    "scheduling": {Family.POINTWISE},
    "moe routing": {Family.REDUCTION, Family.COPY, Family.GEMM},
}
"""Families for the finer groups of the collected names: fills are pointwise, helpers of a product belong to it."""


def test_every_collected_name_has_the_family_of_its_group():
    path = SHARED / "inference" / "names.json"
    if not path.exists():
        pytest.skip("needs ../shared/traces, which is not there")
    collected = json.loads(path.read_text(encoding="utf-8"))
    wrong = [
        (each["family"], decode(each["name"]).family.name, each["name"][:90])
        for each in collected
        if decode(each["name"]).family not in GROUPS[each["family"]]
    ]
    assert len(collected) > 100
    assert not wrong


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (Kind.MEMCPY, Family.COPY),
        (Kind.MEMSET, Family.COPY),
        (Kind.CPU_OP, Family.OP),
        (Kind.RUNTIME, Family.RUNTIME),
        (Kind.ANNOTATION, Family.ANNOTATION),
        (Kind.PYTHON, Family.PYTHON),
        (Kind.OTHER, Family.OTHER),
    ],
)
def test_other_kinds_do_not_look_at_the_name(kind, expected):
    assert family("gemm", kind) == expected


@given(st.text(alphabet="abcK_:<>(){}[] ,0129Z*&~", max_size=80))
def test_no_name_is_too_odd(name):
    assert 0 < len(short_kernel(name)) <= MAX_SHORT_NAME
    assert family(name, Kind.KERNEL) in Family


def test_families_of_slices_are_those_of_their_names() -> None:
    kinds = [Kind.KERNEL, Kind.MEMCPY, Kind.CPU_OP, Kind.PYTHON, Kind.OTHER]
    names = [name for _, _, name in TABLE[::20]]
    trace = make_trace([Event(name, 10 * i, 5, kind) for i, name in enumerate(names) for kind in kinds])
    slices = trace.slices
    for rows in (np.arange(len(slices)), slices.of_kind(Kind.KERNEL)[::-1], np.empty(0, np.int64)):
        expected = [family(trace.name_of(row), Kind(slices.kind[row])) for row in rows.tolist()]
        assert families(trace, rows).tolist() == expected
