"""The rule about fp32 products on CUDA cores."""

from __future__ import annotations

import pytest

from tests.support.build import kernel, launch, make_trace, op
from tests.support.devices import A100, H100, MI300X
from tests.support.findings import ids, one
from tests.support.gpu_programs import Work, queued
from tracetui.findings.gemm import is_fp32_gemm
from tracetui.findings.scope import Severity
from tracetui.model.trace import Device

SGEMM = "ampere_sgemm_128x64_tn"
CONVOLUTION = "void implicit_convolve_sgemm<float, float, 128, 6, 7, 3, 3, 5, 1, false, true, true>(int, int)"
TF32 = "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x128_16x5_tn_align4>(Params)"
V100 = Device(0, "Tesla V100-SXM2-32GB", {"computeMajor": 7, "computeMinor": 0, "numSms": 80})
P100 = Device(0, "Tesla P100-PCIE-16GB", {"computeMajor": 6, "computeMinor": 0, "numSms": 56})


@pytest.mark.parametrize("device", [A100, H100])
def test_from_ampere_on_products_are_told_to_use_tf32(device):
    finding = one(queued([Work(SGEMM)] * 5, [device]), "fp32-math")
    assert (finding.cost, finding.severity) == (437_500, Severity.MAJOR), "TF32 takes an eighth at least"
    assert "Tensor Cores (TF32 off)" in finding.title and finding.evidence.startswith(
        "5 kernels, 500.0 µs, 100 % of the GPU time"
    )
    assert "set_float32_matmul_precision('high')" in finding.advice and finding.action == "allow TF32"


def test_convolutions_have_a_flag_of_their_own():
    finding = one(queued([Work(CONVOLUTION, op="aten::cudnn_convolution")] * 5, [A100]), "fp32-math")
    assert "cudnn.allow_tf32 is on by default" in finding.advice
    assert "set_float32_matmul_precision" not in finding.advice


def test_where_tf32_is_allowed_already_it_is_not_advised():
    finding = one(queued([Work(SGEMM), Work(TF32)], [A100]), "fp32-math")
    assert "set_float32_matmul_precision" not in finding.advice and "multiple of 8" in finding.advice
    assert "others take 100.0 µs on Tensor Cores in tf32" in finding.evidence


def test_where_autocast_is_on_it_is_not_advised():
    half = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn"
    finding = one(queued([Work(SGEMM), Work(half)], [A100]), "fp32-math")
    assert finding.action == "see which layers autocast leaves in fp32" and "TF32" not in finding.advice


@pytest.mark.parametrize("devices", [[V100], []])
def test_before_ampere_autocast_is_advised_and_never_tf32(devices):
    finding = one(queued([Work("volta_sgemm_128x64_nn")] * 5, devices), "fp32-math")
    assert "fp16" in finding.advice and "TF32" not in finding.advice and "tf32" not in finding.advice


@pytest.mark.parametrize("devices", [[P100], []])
def test_without_tensor_cores_nothing_is_said(devices):
    assert "fp32-math" not in ids(queued([Work("maxwell_sgemm_128x64_nn")] * 5, devices))


def test_amd_is_told_in_its_own_words():
    kernels = ["Cijk_Ailk_Bljk_SB_MT128x64x16_SE_K1", "Cijk_Ailk_Bljk_SB_MT64x64x16_MI32x32x1x2_SN"]
    finding = one(queued([Work(name) for name in kernels], [MI300X]), "fp32-math")
    assert finding.cost == 175_000, "on vector units and in Matrix Cores"
    assert "Matrix Cores" in finding.title and "CUDA" not in finding.title and "TF32" not in finding.advice
    half = kernels[1].replace("_SB_", "_BBS_BH_")
    assert "fp32-math" not in ids(queued([Work(half)], [MI300X]))


@pytest.mark.parametrize(
    "name",
    [
        TF32,
        "volta_dgemm_64x64_nn",
        "void gemv2N_kernel<int, int, float, float, float, float, 128>(P)",
        "void splitKreduce_kernel<32, 16, int, float, float, float, float, true, false, false>(P)",
        "void at::native::(anonymous namespace)::conv_depthwise2d_forward_kernel<3, float, int>(P)",
        "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize64x64x64_x_tensor16x8x8_kernel",
        "sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x16_stage4_warpsize2x2x1_tensor16x8x8_kernel",
        "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn",
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)",
        "void mine::fast_gemm<float>(float const*, float*)",
    ],
)
def test_other_kernels_are_no_fp32_products(name):
    assert not is_fp32_gemm(name)


@pytest.mark.parametrize(
    "name",
    [
        SGEMM,
        CONVOLUTION,
        "volta_scudnn_128x128_relu_interior_nn_v1",
        "_5x_cudnn_volta_scudnn_128x64_relu_interior_nn_v1",
        "void cutlass::Kernel<cutlass_80_simt_sgemm_256x128_8x4_nn_align1>(P)",
        "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3_warpsize2x2x1_ffma_aligna4_alignc4_execute",
        "void fft2d_r2c_32x32<float, false, 0u, false>(float2*, float const*, int)",
    ],
)
def test_fp32_products_are_known_by_their_names(name):
    assert is_fp32_gemm(name)


def test_where_launches_hold_the_gpu_up_more_it_is_minor():
    events = []
    for number in range(10):
        at = 200_000 * number
        events += [op("aten::mm", at, 150_000), launch(at + 10_000, 10_000, number + 1)]
        # The next call comes while the kernel runs and lasts beyond it: the GPU waits for its launch half of the time.
        events.append(kernel(SGEMM, at + 20_000, 90_000, correlation=number + 1))
    waits = [launch(200_000 * i + 20_000, 90_000, 100 + i, name="cudaStreamSynchronize") for i in range(10)]
    finding = one(make_trace([*events, *waits], [A100]), "fp32-math")
    assert finding.severity == Severity.MINOR and finding.advice.startswith("The GPU waits longer for late launches")
    assert finding.cost == 10 * 90_000 * 7 // 8
