"""The rule about grids that leave multiprocessors empty."""

from __future__ import annotations

import pytest

from tests.support.build import kernel
from tests.support.devices import A100
from tests.support.findings import ids, one
from tests.support.gpu_programs import START, Work, queued
from tracetui.model.trace import Trace

NAME = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn"


def work(blocks: int, dur: int = 100_000, rows: int = 0, name: str = NAME) -> Work:
    """A kernel of some blocks; with shapes where it has rows."""
    args = {"grid": [blocks, 1, 1], "block": [256, 1, 1], "registers per thread": 32, "shared memory": 0}
    return Work(name, dur, dims=[[rows, 64], [64, 64]] if rows else None, args=args)


def said(*kernels: Work) -> Trace:
    """A trace on a device with 108 multiprocessors."""
    return queued(kernels, [A100])


def test_the_uncovered_part_of_the_device_is_the_price():
    finding = one(said(work(54), work(54)), "low-waves")
    assert finding.cost == 100_000 and "has 54 for 108" in finding.evidence
    assert finding.evidence.startswith("2 kernels, 200.0 µs, 100 % of the GPU time, in grids of fewer blocks than 90 %")


def test_a_grid_that_covers_nine_tenths_is_fine():
    assert "low-waves" not in ids(said(work(98), work(108), work(109)))


def test_a_tenth_of_the_gpu_time_is_too_little():
    assert "low-waves" not in ids(said(work(54, 50_000), work(500, 500_000)))


def test_kernels_below_10_us_are_held_up_by_their_launch():
    assert "low-waves" not in ids(said(*[work(4, 9_000)] * 20))


def test_one_grid_for_several_sizes_is_a_persistent_kernel():
    assert "low-waves" not in ids(said(work(80, 100_000, 64), work(80, 200_000, 128)))
    assert "low-waves" in ids(said(work(80, 100_000, 64), work(80, 200_000, 64)))


def test_one_grid_for_very_different_times_may_be_one_where_no_shapes_tell():
    assert "low-waves" not in ids(said(work(80, 100_000), work(80, 200_000)))
    assert "low-waves" in ids(said(work(80, 100_000), work(80, 110_000)))


@pytest.mark.parametrize(
    "name",
    [
        "void deep_gemm::fp8_gemm_kernel<7168u, 4096u, 128u, 112u, 128u, 1u, 4u, 2u, (deep_gemm::GemmType)0>(P)",
        "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<S, cutlass::gemm::PersistentScheduler>>(P)",
        "matmul_kernel_persistent",
    ],
)
def test_kernels_that_are_called_persistent_choose_their_grid(name):
    assert "low-waves" not in ids(said(work(80, name=name), work(80, name=name)))


def test_communication_leaves_the_device_to_others():
    assert "low-waves" not in ids(said(work(24, name="ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)")))


def test_what_runs_beside_fills_the_device():
    beside = kernel("other", START, 200_000, "stream 9")
    assert "low-waves" not in ids(queued([work(54), work(54)], [A100], [beside]))


def test_without_a_device_nothing_is_known():
    assert "low-waves" not in ids(queued([work(54), work(54)]))


def test_blocks_of_what_runs_at_the_same_time_fill_the_device_together():
    other = kernel("ncclDevKernel_AllReduce", START, 200_000, "stream 9", args=work(70).args)
    beside = queued([work(54), work(54)], [A100], [other])
    assert "low-waves" in ids(said(work(54), work(54))) and "low-waves" not in ids(beside)
    shorter = kernel("ncclDevKernel_AllReduce", START, 100_000, "stream 9", args=work(70).args)
    assert one(queued([work(54), work(54)], [A100], [shorter]), "low-waves").cost == 50_000
