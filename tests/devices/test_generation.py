"""The generation of the GPU, from descriptions, from the user, and from names of kernels."""

from __future__ import annotations

import pytest

from tests.support.build import kernel, make_trace
from tests.support.devices import A100, H100, MI300X
from tracetui.devices.descriptions import (
    UNKNOWN_GENERATION,
    GenerationSource,
    generation_by_names,
    generation_of,
    gpu_generation,
    with_device,
)
from tracetui.model.trace import Device

V100 = Device(0, "Tesla V100-SXM2-32GB", {"computeMajor": 7, "computeMinor": 0, "numSms": 80})


@pytest.mark.parametrize(
    ("device", "architecture", "has"),
    [
        (V100, "Volta", (True, False, False)),
        (Device(0, "Tesla T4", {"computeMajor": 7, "computeMinor": 5}), "Turing", (True, False, False)),
        (Device(0, "NVIDIA GeForce GTX 1660", {"computeMajor": 7, "computeMinor": 5}), "Turing", (False,) * 3),
        (Device(0, "Tesla P100-PCIE-16GB", {"computeMajor": 6, "computeMinor": 0}), "Pascal", (False,) * 3),
        (A100, "Ampere", (True, True, True)),
        (Device(0, "", {"computeMajor": 8, "computeMinor": 9}), "Ada", (True, True, True)),
        (H100, "Hopper", (True, True, True)),
        (Device(0, "x", {"computeMajor": 12, "computeMinor": 0}), "Blackwell", (True,) * 3),
        (Device(0, "NVIDIA B200"), "Blackwell", (True,) * 3),
        (MI300X, "gfx942", (True, True, True)),
        (Device(0, "AMD Instinct MI210", {"warpSize": 64}), "gfx90a", (True, False, True)),
        (Device(0, "", {"warpSize": 64, "computeMajor": 9, "computeMinor": 5}), "gfx950", (True, False, True)),
        (Device(0, "", {"warpSize": 64, "computeMajor": 9, "computeMinor": 0}), "", (None,) * 3),
        (Device(0, "NVIDIA Quantum"), "", (None,) * 3),
    ],
)
def test_a_description_tells_what_the_matrix_units_multiply(device, architecture, has):
    found = generation_of(device)
    assert found.architecture == architecture
    assert (found.has_fp16_tensor_cores, found.has_tf32, found.has_bf16) == has


@pytest.mark.parametrize(
    ("names", "capability", "architecture"),
    [
        (["volta_sgemm_128x64_nn"], (7, 0), "Volta"),
        (["turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn"], (7, 5), "Turing"),
        (["ampere_sgemm_128x64_nn", "volta_sgemm_64x64_tn"], (8, 0), "Ampere"),
        (["sm86_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nhwckrsc_nhwc_tilesize128x64x8"], (8, 6), "Ampere"),
        (["void cutlass::Kernel2<cutlass_80_tensorop_f16_s16816gemm_f16_64x64_64x6_nn_align8>(x)"], (8, 0), "Ampere"),
        (["nvjet_tst_128x128_64x6_2x1_v_bz_TNN", "ampere_sgemm_128x64_nn"], (9, 0), "Hopper"),
        (["nvjet_sm100_tst_8x64_64x16_1x4_h_bz_TNN"], (10, 0), "Blackwell"),
        (["sm_120_matmul"], (12, 0), "Blackwell"),
        (["attention_hopper"], (9, 0), "Hopper"),
    ],
)
def test_the_newest_name_is_a_lower_bound(names, capability, architecture):
    found = generation_by_names(names)
    assert (found.capability, found.architecture, found.source) == (capability, architecture, "kernel names")
    assert found.is_lower_bound
    assert found.has_tf32 is (True if capability >= (8, 0) else None)
    assert found.has_fp16_tensor_cores is True


@pytest.mark.parametrize(
    "names",
    [
        [],
        ["sm10_softmax"],
        ["ada_layer_norm"],
        ["volta_sgemm_128x64_nn", "matmul_gfx942"],
        ["plasm80_x"],
        ["ampereish"],
    ],
)
def test_names_that_tell_nothing(names):
    assert generation_by_names(names) == UNKNOWN_GENERATION


def test_a_range_in_a_name_is_bounded_by_its_start():
    assert generation_by_names(["void run<enable_sm80_to_sm89<X>>(int)"]).capability in {None, (8, 0)}


def test_code_for_amd_tells_the_device():
    found = generation_by_names(["fmha_fwd_hd128_bf16_gfx950"])
    assert (found.vendor, found.architecture, found.is_lower_bound) == ("AMD", "gfx950", False)
    assert found.has_tf32 is False
    assert generation_by_names(["a_gfx942", "b_gfx950"]).architecture == ""


def test_the_generation_of_a_trace_is_described_before_it_is_named():
    old = kernel("volta_sgemm_128x64_nn", 0, 10)
    assert gpu_generation(make_trace([old])).source == GenerationSource.KERNEL_NAMES
    described = gpu_generation(make_trace([old], devices=[A100]))
    assert (described.source, described.capability, described.is_lower_bound) == ("described", (8, 0), False)
    named = gpu_generation(with_device(make_trace([old]), "H100"))
    assert (named.source, named.capability) == (GenerationSource.OPTION, (9, 0))
    silent = gpu_generation(make_trace([old], devices=[Device(0, "", {})]))
    assert (silent.source, silent.capability) == (GenerationSource.KERNEL_NAMES, (7, 0))
    assert gpu_generation(make_trace([])) == UNKNOWN_GENERATION
    assert gpu_generation(make_trace([kernel("mine", 0, 10)])) == UNKNOWN_GENERATION
