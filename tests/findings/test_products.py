"""Rules about matrix products: misaligned, of few rows, in a loop; and gathers of weights."""

from __future__ import annotations

import pytest

from tests.support.build import annotation
from tests.support.devices import H100
from tests.support.findings import ids, one
from tests.support.gpu_programs import Work, queued
from tracetui.findings.gemm import Gemm, gemm_of
from tracetui.findings.scope import Severity
from tracetui.operators.key_averages import Signature

ALIGN1 = "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x128_32x3_nn_align1>(Params)"
NVJET = "nvjet_tst_128x64_64x8_1x2_h_bz_TNN"


def test_products_of_misaligned_operands_name_the_odd_size():
    finding = one(queued([Work(ALIGN1, dims=[[4096, 5185], [5185, 1024]])]), "misaligned-gemm")
    assert (finding.cost, finding.severity) == (100_000, Severity.MAJOR)
    assert "no multiple of 8: 5,185; the longest" in finding.evidence and finding.action.startswith("pad 5,185")


def test_without_shapes_no_size_is_named():
    finding = one(queued([Work(ALIGN1)]), "misaligned-gemm")
    assert "multiple of 8:" not in finding.evidence and finding.action == "pad odd sizes to a multiple of 8"


def test_aligned_products_are_fine():
    assert "misaligned-gemm" not in ids(queued([Work(ALIGN1.replace("align1", "align8"))]))


def weights(rows: int, dur: int) -> Work:
    """A product of some rows with weights of 128 MiB, which take 40 us at 3.35 TB/s."""
    return Work(NVJET, dur, dims=[[rows, 8192], [8192, 8192]])


def test_products_of_few_rows_that_read_their_weights_at_full_rate():
    finding = one(queued([weights(1, 50_000)] * 4, [H100]), "small-batch-products")
    assert finding.cost == 200_000
    assert "aten::mm of one row, [1, 8192] x [8192, 8192], 50.0 µs, 128.0 MiB of weights" in finding.evidence
    assert "80 % of the bandwidth" in finding.evidence


@pytest.mark.parametrize("work", [weights(64, 50_000), weights(1, 200_000)])
def test_many_rows_or_a_low_rate_are_another_matter(work):
    assert "small-batch-products" not in ids(queued([work] * 4, [H100]))


def test_a_product_with_few_columns_reads_no_weights():
    router = Work(NVJET, 50_000, dims=[[8192, 8192], [8192, 8]])
    assert "small-batch-products" not in ids(queued([router] * 4, [H100]))


def test_without_a_device_the_rate_says_nothing():
    assert "small-batch-products" not in ids(queued([weights(1, 50_000)] * 4))


INDEX = "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*, int, long, long, long, long, bool)"
COPIES = Work(INDEX, 200_000, "aten::index", [[8, 1024, 2048], []], ["c10::BFloat16", ""])


def test_copies_of_weights_per_token_are_told_with_the_product_that_reads_them():
    product = Work(NVJET, 100_000, "aten::bmm", [[512, 1, 1024], [512, 1024, 2048]])
    finding = one(queued([COPIES, product]), "gather")
    assert finding.cost == 200_000 and finding.title.startswith("aten::index copies a matrix of 4.0 MiB for each token")
    assert "512 copies out of [8, 1024, 2048]" in finding.evidence


@pytest.mark.parametrize("dims", [[[4, 16, 1024], [4, 1024, 2048]], [[512, 1, 64], [512, 64, 64]]])
def test_rows_that_no_product_multiplies_more_often_than_there_are_matrices(dims):
    assert "gather" not in ids(queued([COPIES, Work(NVJET, 100_000, "aten::bmm", dims)]))


SMALL = Work("ampere_bf16_s16816gemm_bf16_64x64_ldg8_f2f_stages_64x5_tn", 10_000, dims=[[64, 256], [256, 128]])


def test_equal_small_products_in_a_row_could_be_one_batch():
    finding = one(queued([SMALL] * 16), "batchable-products")
    assert finding.cost == 150_000 and "1 loop of up to 16 equal GEMMs" in finding.evidence
    assert "aten::mm of [64, 256] x [256, 128]" in finding.evidence


def test_products_whose_result_can_be_the_next_operand_may_be_a_chain():
    square = Work(SMALL.name, 10_000, dims=[[64, 64], [64, 64]])
    assert "batchable-products" not in ids(queued([square] * 16))


def test_products_with_others_between_are_no_loop():
    between = Work("void at::native::vectorized_elementwise_kernel<4, F>(int)", 10_000, "aten::tanh", [[64, 128]])
    assert "batchable-products" not in ids(queued([SMALL, between] * 16))


def test_products_of_several_callers_are_no_loop():
    callers = [annotation(f"layer {i}", 4_000 * i, 3_950) for i in range(4)]
    assert "batchable-products" not in ids(queued([SMALL] * 16, more=callers))


def test_long_products_gain_nothing_from_a_batch():
    assert "batchable-products" not in ids(queued([Work(SMALL.name, 90_000, dims=SMALL.dims)] * 16))


@pytest.mark.parametrize(
    ("name", "dims", "product"),
    [
        ("aten::mm", ((2, 3), (3, 4)), Gemm(1, 2, 3, 4, "float")),
        ("aten::addmm", ((4,), (2, 3), (3, 4)), Gemm(1, 2, 3, 4, "float")),
        ("aten::bmm", ((5, 2, 3), (5, 3, 4)), Gemm(5, 2, 3, 4, "float")),
        ("aten::linear", ((7, 2, 3), (4, 3), ()), Gemm(1, 14, 3, 4, "float")),
        ("aten::mm", ((2, 3), (5, 4)), None),
        ("aten::mm", ((0, 3), (3, 4)), None),
        ("aten::add", ((2, 3), (3, 4)), None),
        ("aten::mm", ((2, 3),), None),
    ],
)
def test_sizes_of_a_product_from_its_inputs(name, dims, product):
    assert gemm_of(name, Signature(dims, ("float",) * len(dims))) == product
