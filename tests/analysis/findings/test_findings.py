"""The rules of the findings pane, one small trace for each, and what they say of real traces."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from tests.support.build import Event, annotation, kernel, launch, make_trace, memcpy, op, python, step
from tests.support.paths import SAMPLES
from tracetui import load
from tracetui.analysis.findings import finding_list
from tracetui.analysis.findings.finding import Severity
from tracetui.analysis.panes import PANES
from tracetui.model.trace import Device, Kind
from tracetui.model.viewpoint import read_view_string

MS = 1_000_000


def ids(trace, step=None):
    """Names of the rules that found something."""
    return [finding.id for finding in finding_list(trace, step)]


def one(trace, name, step=None):
    """The finding of a rule."""
    return next(finding for finding in finding_list(trace, step) if finding.id == name)


def test_a_value_that_is_read_in_a_step_is_a_host_sync_and_the_last_wait_is_the_profilers():
    trace = make_trace(
        [
            step(0, 0, 10 * MS),
            op("aten::item", 0, 5 * MS),
            op("aten::_local_scalar_dense", 10, 4 * MS),
            launch(100, 1000, 1, "cudaMemcpyAsync"),
            launch(2000, 3 * MS, 7, "cudaStreamSynchronize"),
            memcpy("Memcpy DtoH (Device -> Pageable)", 1500, 900, correlation=1, args={"bytes": 4}),
            launch(4 * MS, 1000, 3),
            kernel("next", 4 * MS + 5000, 1000, correlation=3),
            launch(9 * MS, MS // 2, 8, "cudaDeviceSynchronize"),
        ]
    )
    finding = one(trace, "host-sync")
    # The copy ended at 2,400 ns, the next kernel began at 4,005,000.
    assert (finding.cost, finding.severity) == (4_002_600, Severity.MAJOR)
    assert "1 wait, 3.00 ms, 30.0 % of the time of the steps, 1 of them inside aten::_local" in finding.evidence
    assert finding.evidence.endswith("the GPU then had nothing to do for 4.00 ms")
    assert trace.name_of(finding.row) == "cudaStreamSynchronize"
    copied = one(trace, "pageable-copy")
    assert copied.evidence == "1 copy, 900 ns, 4 B at 4.44 MB/s"
    assert ".item()" in copied.advice
    assert "cudaDeviceSynchronize at the end, 500.0 µs" in one(trace, "profiler").evidence


def test_a_cpu_that_waits_for_a_busy_gpu_loses_nothing():
    calls = [launch(0, 1000, 1), launch(2_000, 1_000, 2), launch(5_000, 9 * MS, 7, "cudaStreamSynchronize")]
    work = [kernel("a", 4_000, 4 * MS, correlation=1), kernel("b", 4_000 + 4 * MS, 4 * MS, correlation=2)]
    more = [launch(9 * MS + 6_000, 500, 3)]
    trace = make_trace([step(0, 0, 10 * MS), *calls, *work, *more])
    finding = one(trace, "host-sync")
    assert (finding.cost, finding.severity) == (0, Severity.NOTE)


def test_work_in_no_step_is_not_counted_per_step():
    add = "void at::native::vectorized_elementwise_kernel<4, x>(int)"
    alone = [kernel(add, 10_000 + 5_000 * i, 2_000) for i in range(5)]
    trace = make_trace([step(0, 0, MS), launch(100, 50, 1), kernel("k", 200, 20_000, correlation=1), *alone])
    assert "tiny-kernels" not in ids(trace)


def test_pinned_copies_and_waits_between_steps_are_no_findings():
    trace = make_trace(
        [
            step(0, 0, MS),
            launch(10, 10, 1, "cudaMemcpyAsync"),
            memcpy("Memcpy HtoD (Pinned -> Device)", 100, 900, correlation=1),
            launch(2 * MS, MS, 7, "cudaStreamSynchronize"),
            step(1, 4 * MS, MS),
            launch(4 * MS, 10, 9),
            kernel("k", 4 * MS + 50, 20_000, correlation=9),
        ]
    )
    assert not {"pageable-copy", "host-sync"} & set(ids(trace))


def test_views_and_queries_are_counted_per_step_and_a_view_that_takes_a_millisecond_was_not_running():
    views = [op("aten::view", MS * number + 10_000 * i, 2_000) for number in range(2) for i in range(40)]
    slow = [op("aten::view", 2 * MS, 5 * MS)]
    asked = [launch(MS // 2 + i * 50, 40, 100 + i, "cudaOccupancyMaxActiveBlocksPerMultiprocessor") for i in range(4)]
    work = [launch(900_000, 5, 1), kernel("k", 900_100, 50_000, correlation=1)]
    trace = make_trace([step(0, 0, MS), step(1, MS, 7 * MS), *views, *slow, *asked, *work])
    views_found, stalled = one(trace, "view-ops"), one(trace, "stalled-thread")
    assert views_found.evidence.startswith(
        "80 calls (40 a step), 160.0 µs of self time, 2.0 % of the time of the steps"
    )
    assert views_found.severity == Severity.MINOR
    assert stalled.cost == trace.slices.dur[stalled.row] == 5 * MS
    assert "1 call of views took 5.00 ms, 62.5 % of" in stalled.evidence
    assert one(trace, "occupancy-queries").evidence.startswith("4 queries (2.0 a step), 160 ns")
    assert "stalled-thread" not in ids(trace, 0)
    assert one(trace, "view-ops", 0).evidence.startswith("40 calls, 80.0 µs of self time, 8.0 % of the time of step 0")


def test_small_elementwise_kernels_in_a_row_are_one_finding_and_a_product_ends_the_run():
    add = (
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >"
    )
    names = [add, add, add, add, "ampere_sgemm_128x64_nn", add, add, "ampere_sgemm_128x64_nn"]
    calls = [launch(100 * i, 50, i + 1) for i in range(len(names))]
    work = [kernel(name, 10_000 + 4_000 * i, 2_000, correlation=i + 1) for i, name in enumerate(names)]
    trace = make_trace([step(0, 0, 50_000), *calls, *work])
    finding = one(trace, "tiny-kernels")
    assert finding.evidence.startswith("4 kernels in 1 run of up to 4, median 2.0 µs, 8.0 µs together, 16.0 %")
    assert trace.slices.start[finding.row] == 10_000
    large = [kernel(add, 10_000 + 40_000 * i, 20_000, correlation=i + 1) for i in range(4)]
    assert "tiny-kernels" not in ids(make_trace([step(0, 0, 50_000), *calls[:4], *large]))


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


def test_compiled_calls_compilation_stacks_and_the_profiler_are_told():
    trace = make_trace(
        [
            step(0, 0, 100_000),
            annotation("TorchDynamo Cache Lookup", 10, 3_000),
            annotation("Pregraph bytecode", 4_000, 1_000),
            annotation("Torch-Compiled Region: 0/0", 0, 90_000),
            annotation("_compile.compile_inner (dynamo_timed)", 20_000, 40_000),
            python("train.py(3): step", 0, 99_000),
            Event("Activity Buffer Request", 95_000, 500, Kind.OVERHEAD),
        ]
    )
    assert one(trace, "compile-preamble").cost == 4_000
    assert one(trace, "recompilation").severity == Severity.MAJOR
    assert one(trace, "stack-recording").cost is None
    assert one(trace, "profiler").evidence.startswith("1 slice of overhead, 500 ns; most often Activity Buffer Request")


def test_an_idle_gpu_is_a_finding_with_its_split_and_leads_to_the_longest_gap():
    calls = [launch(0, 500, 1), launch(90_000, 500, 2), launch(130_000, 500, 3)]
    work = [kernel("a", 1_000, 9_000, correlation=1), kernel("b", 100_000, 10_000, correlation=2)]
    trace = make_trace(
        [step(0, 0, 150_000), op("aten::mm", 0, 140_000), *calls, *work, kernel("c", 140_000, 10_000, correlation=3)]
    )
    finding = one(trace, "overhead-bound")
    assert finding.title == "Overhead-bound: GPU idle for 81 %"
    assert finding.evidence.startswith(
        "120.0 µs idle between the first kernel and the last: "
        "83 % before the launch call, 0.8 % inside it, 16 % after it; "
    )
    assert finding.evidence.endswith("the longest gap, 90.0 µs: operators")
    assert trace.name_of(finding.row) == "b"
    assert finding.cost == 120_000
    busy = [launch(0, 500, 1), kernel("a", 1_000, 90_000, correlation=1)]
    assert ids(make_trace([step(0, 0, 100_000), *busy])) == []


def test_communication_that_nothing_hides_is_told_apart_from_what_runs_beside_a_product():
    nccl = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    calls = [launch(10 * i, 5, i) for i in (1, 2)]
    beside = [kernel("gemm", 1_000, 60_000, correlation=1), kernel(nccl, 1_000, 60_000, "stream 20", correlation=2)]
    assert "exposed-communication" not in ids(make_trace([step(0, 0, 70_000), *calls, *beside]))
    after = [kernel("gemm", 1_000, 60_000, correlation=1), kernel(nccl, 61_000, 20_000, "stream 20", correlation=2)]
    finding = one(make_trace([step(0, 0, 90_000), *calls, *after]), "exposed-communication")
    assert finding.evidence == "20.0 µs, 25 % of the time from the first kernel to the last; 1 collective kernel"
    assert finding.severity == Severity.MAJOR


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
    assert finding.title == "aten::add is far below the roofline"
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


def test_a_cold_first_step_names_what_it_alone_paid_for():
    steps = [step(n, start, dur) for n, start, dur in ((5, 0, 50_000), (6, 50_000, 10_000), (7, 60_000, 12_000))]
    ops = [op("aten::mm", at + 100, 8_000) for at in (0, 50_000, 60_000)]
    lazy = [launch(200, 7_000, 99, "cudaModuleLoadData"), op("aten::empty", 10_000, 35_000)]
    work = [launch(46_000, 100, 1), kernel("k", 47_000, 10, correlation=1)]
    early = [launch(9_000, 100, 2), kernel("j", 9_500, 10, correlation=2)]
    trace = make_trace([*steps, *ops, *lazy, *work, *early])
    finding = one(trace, "cold-step")
    assert finding.evidence.startswith("step 5 took 50.0 µs, the others 11.0 µs; 35.0 µs more of it in aten::empty")
    assert "the GPU was idle for 37.5 µs" in finding.evidence
    assert "cold-step" in ids(trace, 5)
    assert "cold-step" not in ids(trace, 6)


def test_the_table_is_sorted_by_weight_and_every_row_jumps_to_its_evidence():
    trace = make_trace(
        [
            step(3, 0, 100_000),
            op("aten::view", 0, 3_000),
            annotation("_compile.compile_inner", 20_000, 40_000),
            launch(70_000, 100, 1),
            kernel("k", 80_000, 20_000, correlation=1),
        ]
    )
    table = PANES["findings"].build(trace)
    assert [row["severity"] for row in table.rows()] == ["major", "minor"]
    assert table.slices is not None
    for row, place in zip(table.rows(), table.slices.tolist(), strict=True):
        assert row["step"] == 3
        assert read_view_string(str(row["jump"])).event == trace.slices.event[place]
    assert PANES["findings"].build(make_trace([op("aten::mm", 0, 10)])).note.startswith("No rule found anything")


@pytest.mark.parametrize(
    "name",
    [
        "d06_h100_stack_mem.json.gz",
        "d08_b200_cuda13_ep_moe.json",
        "d12_cpu_only_resnet18.json",
        "d15_chrome_all_phases.json.gz",
    ],
)
def test_every_finding_of_a_real_trace_has_its_evidence_in_it(name, shared_trace):
    trace = load(str(shared_trace(name)))
    every = finding_list(trace)
    assert len({finding.id for finding in every}) == len(every)
    for finding in every:
        assert finding.title and finding.evidence and finding.advice
        assert 0 <= finding.row < len(trace.slices)
    weights = [(finding.severity, finding.cost or 0) for finding in every]
    assert weights == sorted(weights, reverse=True)


def test_counts_are_those_of_a_slow_script(shared_trace):
    """Queries and copies of a B200's step, counted event by event."""
    path = shared_trace("d08_b200_cuda13_ep_moe.json")
    trace = load(str(path))
    names = Counter(event["name"] for event in json.loads(path.read_bytes())["traceEvents"] if event.get("ph") == "X")
    queries = sum(count for name, count in names.items() if "Occupancy" in name)
    copies = sum(count for name, count in names.items() if name.startswith("Memcpy") and "Pageable" in name)
    assert queries and copies
    assert one(trace, "occupancy-queries").evidence.startswith(f"{queries} queries")
    assert one(trace, "pageable-copy").evidence.startswith(f"{copies} copies")


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


@pytest.mark.parametrize(
    ("name", "told", "not_told"),
    [
        ("matmul_add_64_cold_eager_cpu", ["cold-step"], ["compile-preamble", "view-ops"]),
        ("matmul_add_64_cold_compile_cpu", ["cold-step", "compile-preamble"], []),
        ("matmul_add_4096_warm_eager_cpu", [], ["cold-step", "compile-preamble"]),
        ("linear_eager_cpu", ["view-ops"], ["compile-preamble"]),
        ("linear_compile_cpu", ["compile-preamble"], ["recompilation"]),
        ("mlp_eager_cpu", ["view-ops"], ["compile-preamble", "cold-step"]),
        ("mlp_compile_cpu", ["compile-preamble"], ["recompilation"]),
        ("split_stack_eager_cpu", ["view-ops"], ["compile-preamble"]),
    ],
)
def test_the_samples_are_read_as_the_tutorials_read_them(name, told, not_told):
    """Cold steps are cold, eager pays for views, compiled code for its guards and not for the compiler."""
    found_ids = ids(load(str(SAMPLES / f"{name}.json.gz")))
    assert set(told) <= set(found_ids)
    assert not set(not_told) & set(found_ids)


def test_compiling_takes_the_views_of_a_linear_away():
    calls = {}
    for variant in ("eager", "compile"):
        trace = load(str(SAMPLES / f"linear_{variant}_cpu.json.gz"))
        transposed = [row for row in PANES["ops"].build(trace).rows() if row["name"] == "aten::t"]
        calls[variant] = transposed[0]["calls"] if transposed else 0
    assert calls == {"eager": 3, "compile": 0}


def test_the_advice_is_about_the_cause_that_the_title_names(shared_trace):
    finding = one(load(str(shared_trace("d06_h100_stack_mem.json.gz"))), "host-stall-bound")
    assert "data loading" in finding.title
    first, then = finding.advice.index("num_workers"), finding.advice.index(".item()")
    assert first < then, "most of the idle time also follows a wait"
