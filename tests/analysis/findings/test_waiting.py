"""Rules about an idle GPU and a waiting CPU."""

from __future__ import annotations

from tests.support.build import kernel, launch, make_trace, memcpy, op, step
from tests.support.findings import MS, ids, one
from tracetui.analysis.findings.finding import Severity


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
    assert "1 wait, 3.00 ms, 32 % of the steps, 1 of them inside aten::_local" in finding.evidence
    assert finding.evidence.endswith("the GPU then had nothing to do for 4.00 ms")
    assert trace.name_of(finding.row) == "cudaStreamSynchronize"


def test_a_cpu_that_waits_for_a_busy_gpu_loses_nothing():
    calls = [launch(0, 1000, 1), launch(2_000, 1_000, 2), launch(5_000, 9 * MS, 7, "cudaStreamSynchronize")]
    work = [kernel("a", 4_000, 4 * MS, correlation=1), kernel("b", 4_000 + 4 * MS, 4 * MS, correlation=2)]
    more = [launch(9 * MS + 6_000, 500, 3)]
    trace = make_trace([step(0, 0, 10 * MS), *calls, *work, *more])
    assert "host-sync" not in ids(trace)


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


def test_a_view_that_takes_milliseconds_was_not_running():
    views = [op("aten::view", MS * number + 10_000 * i, 2_000) for number in range(2) for i in range(40)]
    slow = [op("aten::view", 2 * MS, 5 * MS)]
    work = [launch(900_000, 5, 1), kernel("k", 900_100, 50_000, correlation=1)]
    trace = make_trace([step(0, 0, MS), step(1, MS, 7 * MS), *views, *slow, *work])
    stalled = one(trace, "stalled-thread")
    assert stalled.cost == trace.slices.dur[stalled.row] == 5 * MS
    assert "1 call of views took 5.00 ms" in stalled.evidence
    assert "stalled-thread" not in ids(trace, 0)


def test_an_idle_gpu_is_a_finding_with_its_split_and_leads_to_the_longest_gap():
    calls = [launch(0, 500, 1), launch(90_000, 500, 2), launch(130_000, 500, 3)]
    work = [kernel("a", 1_000, 9_000, correlation=1), kernel("b", 100_000, 10_000, correlation=2)]
    trace = make_trace(
        [step(0, 0, 150_000), op("aten::mm", 0, 140_000), *calls, *work, kernel("c", 140_000, 10_000, correlation=3)]
    )
    finding = one(trace, "overhead-bound")
    assert finding.title == "Overhead-bound: GPU idle for 81 %: 120.0 µs, 80 % of the steps"
    assert finding.evidence.startswith(
        "120.0 µs idle between the first kernel and the last: "
        "83 % before the launch call, 0.8 % inside it, 16 % after it; "
    )
    assert finding.evidence.endswith("the longest gap, 90.0 µs: operators")
    assert trace.name_of(finding.row) == "b"
    assert finding.cost == 120_000
    busy = [launch(0, 500, 1), kernel("a", 1_000, 90_000, correlation=1)]
    assert ids(make_trace([step(0, 0, 100_000), *busy])) == []


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
