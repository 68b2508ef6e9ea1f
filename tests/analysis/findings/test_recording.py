"""Rules about communication, compiled code and the recording itself."""

from __future__ import annotations

from tests.support.build import Event, annotation, kernel, launch, make_trace, python, step
from tests.support.findings import ids, one
from tracetui.analysis.findings.finding import Severity
from tracetui.model.trace import Kind


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


def test_communication_that_nothing_hides_is_told_apart_from_what_runs_beside_a_product():
    nccl = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    calls = [launch(10 * i, 5, i) for i in (1, 2)]
    beside = [kernel("gemm", 1_000, 60_000, correlation=1), kernel(nccl, 1_000, 60_000, "stream 20", correlation=2)]
    assert "exposed-communication" not in ids(make_trace([step(0, 0, 70_000), *calls, *beside]))
    after = [kernel("gemm", 1_000, 60_000, correlation=1), kernel(nccl, 61_000, 20_000, "stream 20", correlation=2)]
    finding = one(make_trace([step(0, 0, 90_000), *calls, *after]), "exposed-communication")
    assert finding.evidence == "20.0 µs, 25 % of the time from the first kernel to the last; 1 collective kernel"
    assert finding.severity == Severity.MAJOR
