"""The rule about operators far below what the device can do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.build import kernel
from tests.support.devices import A100, H100
from tests.support.findings import ids, one
from tests.support.gpu_programs import START, Work, queued

ADD = Work(
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, A>(int)",
    400_000,
    "aten::add",
    [[8192, 8192], [1, 1]],
)
"""268 MB read and written, 80 us at 3.35 TB/s."""


def test_the_op_that_loses_most_against_the_roofline_is_told_with_its_share():
    finding = one(queued([ADD], [H100]), "far-from-roofline")
    assert finding.title.startswith("aten::add is far below what the device can do: 319.9 µs")
    assert finding.evidence == (
        "1 call, 400.0 µs, at 20 % of the bandwidth, 319.9 µs above the roofline; the longest, [[8192, 8192], [1, 1]]"
    )


@pytest.mark.parametrize("work", [replace(ADD, dur=100_000), replace(ADD, dims=None), replace(ADD, op="mine::add")])
def test_near_the_roofline_or_of_unknown_work_an_op_is_not_judged(work):
    assert "far-from-roofline" not in ids(queued([work], [H100]))


def test_short_calls_are_held_up_by_their_launch():
    short = replace(ADD, dur=15_000, dims=[[64, 64], [64, 64]])
    assert "far-from-roofline" not in ids(queued([short] * 20, [H100]))
    assert "far-from-roofline" in ids(queued([replace(short, dur=25_000)] * 20, [H100]))


def test_without_a_device_nothing_is_known():
    assert "far-from-roofline" not in ids(queued([ADD]))


def test_neither_bytes_nor_products_alone_limit_attention():
    flash = "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4>, true>(P)"
    shape = [16, 559, 16, 64]
    work = Work(flash, 113_000, "aten::_flash_attention_forward", [shape] * 3 + [[]] * 11)
    work = replace(work, types=["c10::BFloat16"] * 3 + ["Scalar"] * 11)
    found = ids(queued([work] * 4, [H100]))
    assert "far-from-roofline" not in found
    # The same operator with a kernel of no known family is judged.
    assert "far-from-roofline" in ids(queued([replace(work, name=ADD.name)] * 4, [H100]))


def test_several_ops_are_named_the_worst_first():
    other = replace(ADD, op="aten::mul", dur=300_000)
    assert "; likewise aten::mul, 219.9 µs above" in one(queued([ADD, other], [H100]), "far-from-roofline").evidence


def test_a_batch_norm_reads_its_input_twice():
    # 412 MB, 202 us at 2.04 TB/s; 303 us as it reads its input twice.
    dims = [[32, 512, 56, 56], [512], [512], [512], [512], [], [], []]
    norm = Work(
        "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, 512, true, 1>(P)", 0, "aten::cudnn_batch_norm", dims
    )
    norm = replace(norm, types=["float"] * 5 + ["Scalar"] * 3)
    assert "far-from-roofline" not in ids(queued([replace(norm, dur=500_000)], [A100]))
    assert "far-from-roofline" in ids(queued([replace(norm, dur=800_000)], [A100]))


def test_a_call_that_shares_the_device_is_not_judged():
    beside = kernel("other", START + 200_000, 150_000, "stream 9")
    assert "far-from-roofline" not in ids(queued([ADD], [H100], [beside]))


def test_what_another_rule_is_about_is_not_said_again():
    align1 = "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x128_32x3_nn_align1>(Params)"
    work = Work(align1, 400_000, dims=[[4097, 1024], [1024, 4097]])
    assert "far-from-roofline" not in ids(queued([work], [H100]))
    assert "far-from-roofline" in ids(queued([replace(work, name=align1.replace("align1", "align8"))], [H100]))


@pytest.mark.parametrize(
    ("kernel_name", "judged"),
    [("void pytorch_flash::flash_fwd_kernel<A>(pytorch_flash::Flash_fwd_params)", False), (ADD.name, True)],
)
def test_attention_of_unknown_operations_is_not_judged_by_its_bytes(kernel_name, judged):
    # The mask is an argument whose value was not recorded.
    sizes = [[4, 32, 2048, 128]] * 3
    work = Work(kernel_name, 400_000, "aten::_scaled_dot_product_flash_attention" if not judged else "aten::add", sizes)
    assert ("far-from-roofline" in ids(queued([work] * 4, [H100]))) == judged


def test_products_that_leave_the_device_empty_or_could_be_one_are_told_once():
    few = Work("nvjet_tst_64x8_64x16_2x1_v_bz_TNT", 300_000, "aten::mm", [[64, 4096], [4096, 4096]])
    few = replace(few, args={"grid": [32, 1, 1], "block": [256, 1, 1]})
    alone = ids(queued([few] * 4, [H100]))
    assert "low-waves" in alone
    assert "far-from-roofline" not in alone
    wide = replace(few, args={"grid": [264, 1, 1], "block": [256, 1, 1]})
    assert {"low-waves", "far-from-roofline"} & set(ids(queued([wide] * 4, [H100]))) == {"far-from-roofline"}
