"""Rules about what runs on the GPU."""

from __future__ import annotations

from tests.support.build import kernel, launch, make_trace, op, step
from tests.support.findings import MS, ids, one
from tracetui.analysis.findings.finding import Severity
from tracetui.model.trace import Device


def test_work_in_no_step_is_not_counted_per_step():
    add = "void at::native::vectorized_elementwise_kernel<4, x>(int)"
    alone = [kernel(add, 10_000 + 5_000 * i, 2_000) for i in range(5)]
    trace = make_trace([step(0, 0, MS), launch(100, 50, 1), kernel("k", 200, 20_000, correlation=1), *alone])
    assert "tiny-kernels" not in ids(trace)


def test_small_elementwise_kernels_in_a_row_are_one_finding_and_a_product_ends_the_run():
    add = (
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >"
    )
    names = [add, add, add, add, "ampere_sgemm_128x64_nn", add, add, "ampere_sgemm_128x64_nn"]
    calls = [launch(100 * i, 50, i + 1) for i in range(len(names))]
    work = [kernel(name, 10_000 + 4_000 * i, 2_000, correlation=i + 1) for i, name in enumerate(names)]
    trace = make_trace([step(0, 0, 50_000), *calls, *work])
    finding = one(trace, "tiny-kernels")
    assert finding.evidence.startswith("4 kernels in 1 run of up to 4, median 2.0 µs, 8.0 µs together, 16 %")
    assert trace.slices.start[finding.row] == 10_000
    large = [kernel(add, 10_000 + 40_000 * i, 20_000, correlation=i + 1) for i in range(4)]
    assert "tiny-kernels" not in ids(make_trace([step(0, 0, 50_000), *calls[:4], *large]))
    for unfusible in ("moe_align_block_size_kernel", "void cub::DeviceRadixSortOnesweepKernel<long>(int)"):
        sorts = [kernel(unfusible, 10_000 + 4_000 * i, 2_000, correlation=i + 1) for i in range(4)]
        assert "tiny-kernels" not in ids(make_trace([step(0, 0, 50_000), *calls[:4], *sorts]))


def test_a_kernel_whose_times_differ_is_told_apart_by_its_grid():
    def work(grids, durations):
        calls = [launch(10 * i, 5, i + 1) for i in range(len(grids))]
        kernels = [
            kernel("mine", 1000 + 100_000 * i, dur, correlation=i + 1, args={"grid": grid, "block": [128, 1, 1]})
            for i, (grid, dur) in enumerate(zip(grids, durations, strict=True))
        ]
        return make_trace([*calls, *kernels])

    times = [20_000, 20_000, 20_000, 20_000, 90_000]
    finding = one(work([[4, 1, 1]] * 5, times), "uneven-kernels")
    assert finding.evidence == "mine: 5 calls with one grid, median 20.0 µs, up to 90.0 µs"
    assert finding.cost == 70_000
    assert "uneven-kernels" not in ids(work([[4, 1, 1]] * 4 + [[8, 1, 1]], times))


H100 = Device(0, "NVIDIA H100 80GB HBM3", {"computeMajor": 9, "computeMinor": 0, "numSms": 132})


def halves(*sizes):
    """Args of an op with bf16 inputs of those sizes."""
    return {"Input Dims": [list(size) for size in sizes], "Input type": ["c10::BFloat16"] * len(sizes)}


def test_the_op_that_loses_most_against_the_roofline_is_told_with_its_share():
    # 8192 x 8192 bf16 read and written: 268 MB, 80 us at 3.35 TB/s.
    events = [
        op("aten::add", 0, 50_000, args=halves((8192, 8192), (1, 1))),
        launch(10_000, 500, 1),
        kernel("k", 20_000, 400_000, correlation=1),
    ]
    finding = one(make_trace(events, [H100]), "far-from-roofline")
    assert finding.title == "aten::add is far below the roofline: 319.9 µs, 76 % of the trace"
    assert finding.evidence.startswith(
        "1 call with [[8192, 8192], [1, 1]], 400.0 µs, 20 % of the bandwidth; 319.9 µs above the roofline"
    )
    fast = [*events[:2], kernel("k", 20_000, 100_000, correlation=1)]
    assert "far-from-roofline" not in ids(make_trace(fast, [H100]))


def test_products_of_misaligned_operands_are_known_by_their_kernels():
    slow = "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x128_32x3_nn_align1>(Params)"
    events = [launch(0, 500, 1), launch(1_000, 500, 2), kernel(slow, 10_000, 90_000, correlation=1)]
    finding = one(make_trace(events), "misaligned-gemm")
    assert (finding.cost, finding.severity) == (90_000, Severity.MAJOR)
    assert finding.evidence.endswith("align1")
    fine = kernel(slow.replace("align1", "align8"), 10_000, 90_000, correlation=1)
    assert "misaligned-gemm" not in ids(make_trace([*events[:2], fine]))


def test_kernels_that_leave_most_of_the_device_empty_are_told_with_their_waves():
    limits = {
        "computeMajor": 8, "computeMinor": 0, "numSms": 100, "warpSize": 32, "maxThreadsPerBlock": 1024,
        "maxThreadsPerMultiprocessor": 2048, "regsPerBlock": 65536, "regsPerMultiprocessor": 65536,
        "sharedMemPerBlock": 49152, "sharedMemPerBlockOptin": 166912, "sharedMemPerMultiprocessor": 167936,
    }  # fmt: skip
    device = Device(0, "NVIDIA A100-SXM4-40GB", limits)

    def work(blocks):
        args = {"grid": [blocks, 1, 1], "block": [1024, 1, 1], "registers per thread": 32, "shared memory": 0}
        return make_trace([launch(0, 5, 1), kernel("k", 10, 50_000, correlation=1, args=args)], [device])

    # Two blocks of 1024 threads fit on each of 100 multiprocessors: 200 make a wave.
    assert one(work(20), "low-waves").evidence == (
        "1 kernel with less than 0.5 waves: 100 % of the kernels' time; the longest, k, has 0.10 waves"
    )
    assert "1 kernel with most of the last wave empty" in one(work(220), "low-waves").evidence
    assert "low-waves" not in ids(work(200))
    assert "low-waves" not in ids(work(2000))
