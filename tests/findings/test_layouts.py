"""The rule about conversions around convolutions."""

from __future__ import annotations

from tests.support.devices import A100, MI300X
from tests.support.findings import ids, one
from tests.support.gpu_programs import Work, queued

TO_NHWC = "void cudnn::ops::nchwToNhwcKernel<__half, __half, float, false, true, (cudnnKernelDataType_t)0>(P)"
CONVERT = "void cudnn::engines_precompiled::convertTensor_kernel<float, float, float, (cudnnKernelDataType_t)2>(P)"
CONVOLUTION = "void cutlass__5x_cudnn::Kernel<cutlass_tensorop_s1688fprop_optimized_tf32_64x64_32x5_nhwc_align4>(P)"
CONV = "aten::cudnn_convolution"
CONVERTED = [Work(TO_NHWC, 20_000, CONV), Work(CONVOLUTION, 80_000, is_same_call=True)]
DIRECT = Work(CONVOLUTION, 80_000, CONV)


def test_conversions_of_the_layout_are_told_with_channels_last():
    finding = one(queued(CONVERTED * 4, [A100]), "layout-conversion")
    assert finding.cost == 80_000 and "channels_last" in finding.advice and "ROCm" not in finding.advice
    assert "beside 320.0 µs of the convolutions" in finding.evidence and "80.0 µs for the layout" in finding.evidence


def test_amd_has_its_own_kernels_and_its_own_switch():
    work = [Work("batched_transpose_16x32_half", 20_000, "aten::miopen_convolution")] * 4
    assert "PYTORCH_MIOPEN_SUGGEST_NHWC" in one(queued(work, [MI300X]), "layout-conversion").advice


def test_conversions_before_tf32_are_said_to_be_that():
    finding = one(
        queued([Work(CONVERT, 20_000, CONV), Work(CONVOLUTION, 80_000, CONV)] * 4, [A100]), "layout-conversion"
    )
    assert "80.0 µs for the type (tensor conversion)" in finding.evidence
    assert "TF32" in finding.advice and "channels_last" not in finding.advice


def test_a_model_in_channels_last_that_converts_its_input_once_is_left_alone():
    assert "layout-conversion" not in ids(queued([*CONVERTED, DIRECT, DIRECT], [A100]))
    assert "layout-conversion" in ids(queued([*CONVERTED, *CONVERTED, DIRECT], [A100]))


def test_transposes_of_pytorch_are_none():
    copy = "void at::native::elementwise_kernel<128, 4, at::native::direct_copy_kernel_cuda(T)>(int)"
    assert "layout-conversion" not in ids(queued([Work(copy, 20_000, "aten::copy_")] * 4, [A100]))
