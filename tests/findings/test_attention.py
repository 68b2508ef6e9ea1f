"""The rule about attention in separate kernels."""

from __future__ import annotations

from dataclasses import replace

from tests.support.findings import ids, one
from tests.support.gpu_programs import Work, queued
from tracetui.model.trace import Trace

GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn"
SOFTMAX = (
    "void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, c10::BFloat16, float, c10::BFloat16, "
    "at::native::(anonymous namespace)::SoftMaxForwardEpilogue>(P)"
)
MASK = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, A>(int)"
FLASH = "void flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, cutlass::bfloat16_t>>(P)"
SCORES = Work(GEMM, 50_000, "aten::bmm", [[16, 512, 64], [16, 64, 512]])
NORMAL = Work(SOFTMAX, 80_000, "aten::_softmax", [[16, 512, 512], [], []])
VALUES = Work(GEMM, 40_000, "aten::bmm", [[16, 512, 512], [16, 512, 64]])
LINEAR = Work(GEMM, 30_000, "aten::addmm", [[64], [512, 64], [64, 64]])


def test_a_softmax_between_two_batched_products_is_unfused_attention():
    finding = one(queued([LINEAR, SCORES, NORMAL, VALUES, LINEAR]), "attention-unfused")
    assert finding.cost == 170_000
    assert finding.evidence.startswith(
        "3 kernels, 170.0 µs, 74 % of the GPU time, of which 80.0 µs in 1 softmax kernel"
    )
    assert "[16, 512, 512], 8.0 MiB" in finding.evidence and "padded" not in finding.advice


def test_a_mask_between_belongs_to_it_and_calls_for_a_backend():
    mask = Work(MASK, 10_000, "aten::add", [[16, 512, 512], [512, 512]])
    finding = one(queued([SCORES, mask, NORMAL, VALUES]), "attention-unfused")
    assert finding.cost == 180_000 and "padded to a multiple of 8" in finding.advice


def test_backward_reads_the_scores_transposed():
    backward = replace(
        NORMAL, name="void (anonymous namespace)::softmax_warp_backward<float, float, float, 9, false>(P)"
    )
    transposed = replace(VALUES, dims=[[16, 512, 512], [16, 512, 64]])
    assert "attention-unfused" in ids(queued([SCORES, backward, transposed]))


def test_a_fused_kernel_that_does_most_of_the_attention_silences_it():
    trace = queued([SCORES, NORMAL, VALUES, Work(FLASH, 400_000, "aten::_flash_attention_forward")])
    assert "attention-unfused" not in ids(trace)


def test_products_of_other_sizes_are_no_attention():
    router = [replace(LINEAR), replace(NORMAL, dims=[[512, 64], [], []]), replace(LINEAR)]
    assert "attention-unfused" not in ids(queued(router))
    assert "attention-unfused" not in ids(queued([SCORES, NORMAL, replace(VALUES, dims=[[16, 256, 64], [16, 64, 32]])]))


def test_a_loss_between_products_is_no_attention():
    loss = replace(NORMAL, name=SOFTMAX.replace("SoftMaxForwardEpilogue", "LogSoftMaxForwardEpilogue"))
    assert "attention-unfused" not in ids(queued([SCORES, loss, VALUES]))


def test_without_shapes_the_operators_tell_batched_products():
    bare = [replace(each, dims=None) for each in (SCORES, NORMAL, VALUES)]
    assert one(queued(bare), "attention-unfused").cost == 170_000
    assert "attention-unfused" not in ids(queued([replace(each, op="aten::mm") for each in bare]))


def test_without_operators_the_grids_tell_batched_products():
    def bare(depth: int) -> Trace:
        grid = {"grid": [4, 4, depth], "block": [128, 1, 1]}
        return queued([Work(GEMM, 50_000, "", args=grid), Work(SOFTMAX, 80_000, ""), Work(GEMM, 40_000, "", args=grid)])

    finding = one(bare(16), "attention-unfused")
    assert finding.cost == 170_000 and "scores" not in finding.evidence
    assert "attention-unfused" not in ids(bare(1))
