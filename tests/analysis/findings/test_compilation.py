"""Rules about compiled code."""

from __future__ import annotations

from tests.support.build import annotation, make_trace, step
from tests.support.findings import one
from tracetui.analysis.findings.finding import Severity


def test_compiled_calls_and_compilation_are_told():
    trace = make_trace(
        [
            step(0, 0, 100_000),
            annotation("TorchDynamo Cache Lookup", 10, 3_000),
            annotation("Pregraph bytecode", 4_000, 1_000),
            annotation("Torch-Compiled Region: 0/0", 0, 90_000),
            annotation("_compile.compile_inner (dynamo_timed)", 20_000, 40_000),
        ]
    )
    assert one(trace, "compile-preamble").cost == 4_000
    assert one(trace, "recompilation").severity == Severity.MAJOR
