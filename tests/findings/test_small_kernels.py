"""The rule about runs of small elementwise kernels."""

from __future__ import annotations

from tests.support.build import annotation, kernel, launch, make_trace, op, step
from tests.support.findings import MS, ids, one
from tests.support.gpu_programs import START, Work, queued
from tracetui.findings import complete_finding_list

ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >"
PRODUCT = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn"


def test_small_elementwise_kernels_in_a_row_are_one_finding_and_a_product_ends_the_run():
    small = [Work(ADD, 2_000, "aten::add")] * 4
    trace = queued([*small, Work(PRODUCT, 40_000), *small[:2], Work(PRODUCT, 40_000)])
    finding = one(trace, "tiny-kernels")
    assert finding.evidence.startswith(
        "4 kernels, 8.0 µs, 9 % of the GPU time, in 1 run of up to 4, median 2.0 µs; 8.0 µs"
    )
    assert finding.cost == 6_000, "one kernel remains"
    assert trace.slices.start[finding.row] == START


def test_long_kernels_are_none_of_them():
    assert "tiny-kernels" not in ids(queued([Work(ADD, 20_000, "aten::add")] * 8))


def test_transposes_and_sorts_of_libraries_are_not_fusible():
    transposes = [Work("batched_transpose_16x32_half", 5_000, "aten::miopen_convolution")] * 8
    assert "tiny-kernels" not in ids(queued(transposes))
    sort = "void at::native::bitonicSortKVInPlace<2, -1, 16, 16, float, long, at::native::GTOp<float, true>, int>(T)"
    assert "tiny-kernels" not in ids(queued([Work(sort, 5_000, "aten::sort")] * 8))


def test_kernels_beside_others_that_compute_save_nothing():
    small = [Work(ADD, 5_000, "aten::add")] * 8
    assert one(queued(small), "tiny-kernels").cost == 35_000
    beside = kernel(PRODUCT, START, 8 * 5_000, "stream 9")
    assert "tiny-kernels" not in ids(queued(small, more=[beside]))


def test_the_loop_of_an_optimizer_is_its_own_finding():
    events = [op("aten::mm", 0, 20_000), launch(5_000, 5_000, 1), kernel(PRODUCT, 10_000, 100_000, correlation=1)]
    begin = 120_000
    for number in range(40):
        at = begin + 10_000 * number
        events += [op("aten::add_", at, 9_000), launch(at + 1_000, 5_000, number + 2)]
        events.append(kernel(ADD, at + 8_000, 4_000, correlation=number + 2))
    loose = make_trace(events)
    assert "tiny-kernels" in ids(loose) and "optimizer-loop" not in ids(loose)
    trace = make_trace([*events, annotation("Optimizer.step#SGD.step", begin, 400_000)])
    assert "tiny-kernels" not in ids(trace) and "optimizer-loop" in ids(trace)


def test_kernels_in_no_step_are_not_counted_per_step():
    alone = [kernel(ADD, 10_000 + 5_000 * i, 2_000) for i in range(5)]
    trace = make_trace([step(0, 0, MS), launch(100, 50, 1), kernel("k", 200, 20_000, correlation=1), *alone])
    assert "tiny-kernels" not in ids(trace)


def test_kernels_that_last_no_time_are_no_finding():
    """Durations below a clock tick are 0 ns, and nothing can be divided by their sum."""
    found = complete_finding_list(queued([Work(ADD, 0, "aten::add")] * 8))
    assert "tiny-kernels" not in {finding.id for finding in found}
