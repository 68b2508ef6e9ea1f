"""What holds for all rules about kernels, whatever runs."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.build import kernel
from tests.support.devices import A100
from tests.support.gpu_programs import START, Work, queued
from tracetui.findings import finding_list
from tracetui.findings.scope import Scope

GRID = {"block": [256, 1, 1], "registers per thread": 32, "shared memory": 0}
HALF = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn"
ALIGN1 = "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x128_32x3_nn_align1>(P)"
TO_NHWC = "void cudnn::ops::nchwToNhwcKernel<__half, __half, float, false, true, 0>(P)"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, A>(int)"
SOFTMAX = "void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, float, float, float, SoftMaxEpilogue>(P)"
ALL = (
    Work("ampere_sgemm_128x64_tn", dims=[[512, 512], [512, 256]], types=["float", "float"]),
    Work(ALIGN1, dims=[[9, 7], [7, 9]]),
    Work(TO_NHWC, op="aten::cudnn_convolution"),
    Work(ADD, op="aten::add"),
    Work(SOFTMAX, op="aten::_softmax", dims=[[16, 64, 64]]),
    Work(HALF, op="aten::bmm", dims=[[16, 64, 32], [16, 32, 64]]),
    Work(HALF, op="aten::bmm", dims=[[16, 64, 64], [16, 64, 32]]),
    Work(HALF, dims=[[1, 8192], [8192, 8192]]),
    Work("void at::native::vectorized_gather_kernel<16, long>(char*)", op="aten::index", dims=[[8, 32, 64], []]),
    Work("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)", op="c10d::allreduce_"),
    Work("unknown_kernel", op=""),
)
WORK = st.lists(
    st.builds(
        lambda work, dur, blocks, again: [replace(work, dur=dur, args={**GRID, "grid": [blocks, 1, 16]})] * again,
        st.sampled_from(ALL),
        st.integers(1, 400).map(lambda us: 1_000 * us),
        st.integers(1, 40),
        st.integers(1, 9),
    ),
    min_size=1,
    max_size=9,
).map(lambda runs: [work for run in runs for work in run][:90])
PERCENT = re.compile(r"([\d,.]+) %")


@settings(max_examples=40, deadline=None)
@given(WORK)
@pytest.mark.full
def test_no_share_exceeds_the_whole_and_no_cost_the_time(work):
    trace = queued(work, [A100])
    for finding in finding_list(trace):
        assert finding.cost is None or 0 < finding.cost <= Scope(trace, None).time
        assert all(
            float(share.replace(",", "")) <= 100 for share in PERCENT.findall(f"{finding.title} {finding.evidence}")
        )
        assert finding.title and finding.evidence and finding.advice and -1 <= finding.row < len(trace.slices)


@settings(max_examples=40, deadline=None)
@given(WORK)
@pytest.mark.full
def test_work_beside_a_long_kernel_of_another_stream_costs_nothing(work):
    total = sum(each.dur for each in work)
    beside = kernel("long_kernel", START - 1_000, total + 10_000, "stream 9")
    found = finding_list(queued(work, [A100], [beside]))
    assert not [finding.id for finding in found if finding.cost and finding.severity > 0 and finding.id in OF_KERNELS]


OF_KERNELS = (
    "fp32-math",
    "layout-conversion",
    "misaligned-gemm",
    "attention-unfused",
    "gather",
    "small-batch-products",
    "batchable-products",
    "low-waves",
    "far-from-roofline",
    "uneven-kernels",
    "tiny-kernels",
)
