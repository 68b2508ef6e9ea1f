"""Rules about communication."""

from __future__ import annotations

from tests.support.build import kernel, launch, make_trace, step
from tests.support.findings import ids, one
from tracetui.analysis.findings.finding import Severity


def test_communication_that_nothing_hides_is_told_apart_from_what_runs_beside_a_product():
    nccl = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    calls = [launch(10 * i, 5, i) for i in (1, 2)]
    beside = [kernel("gemm", 1_000, 60_000, correlation=1), kernel(nccl, 1_000, 60_000, "stream 20", correlation=2)]
    assert "exposed-communication" not in ids(make_trace([step(0, 0, 70_000), *calls, *beside]))
    after = [kernel("gemm", 1_000, 60_000, correlation=1), kernel(nccl, 61_000, 20_000, "stream 20", correlation=2)]
    finding = one(make_trace([step(0, 0, 90_000), *calls, *after]), "exposed-communication")
    assert finding.evidence == "20.0 µs, 25 % of the time from the first kernel to the last; 1 collective kernel"
    assert finding.severity == Severity.MAJOR
