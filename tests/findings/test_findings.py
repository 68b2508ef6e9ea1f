"""The list of findings: its order, its jumps, and what it says of real traces."""

from __future__ import annotations

import pytest

from tests.support.build import annotation, kernel, launch, make_trace, op, step
from tests.support.findings import ids, one
from tests.support.paths import SAMPLES
from tests.support.traces import loaded
from tracetui.findings import Severity, finding_list, findings
from tracetui.model.trace import Device, Quality
from tracetui.model.viewpoint import read_view_string
from tracetui.panes import PANES


def test_the_table_is_sorted_by_weight_and_every_row_jumps_to_its_evidence():
    trace = make_trace(
        [
            step(3, 0, 100_000),
            annotation("_compile.compile_inner", 20_000, 40_000),
            launch(70_000, 100, 1),
            kernel("k", 80_000, 2_000, correlation=1),
            annotation("TorchDynamo Cache Lookup", 83_000, 5_000),
            launch(90_000, 100, 2),
            kernel("k", 95_000, 5_000, correlation=2),
        ]
    )
    table = PANES["findings"].build(trace)
    severities = [str(row["severity"]) for row in table.rows()]
    assert severities == sorted(severities, key=["major", "minor", "note"].index)
    assert {"major", "minor"} <= set(severities)
    assert table.slices is not None
    for row, place in zip(table.rows(), table.slices.tolist(), strict=True):
        assert row["step"] == (None if row["id"] == "not-judged" else 3), "a note on the file is of no step"
        assert read_view_string(str(row["jump"])).event == trace.slices.event[place]
    assert PANES["findings"].build(make_trace([op("aten::mm", 0, 10)])).headline.startswith("There is no GPU activity")


def test_the_headline_of_a_doubtful_trace_says_so_before_the_largest_saving():
    early = [launch(900, 5, 1), kernel("a", 1_000, 100, correlation=1)]
    late = [launch(90_000 + 10 * n, 5, n + 2) for n in range(3)]
    work = [kernel("b", 100_000 + 200 * n, 100, correlation=n + 2) for n in range(3)]
    events = [op("aten::mm", 0, 95_000), *early, *late, *work]
    plain = findings(make_trace(events)).headline
    assert plain.startswith("Launch overhead: ") and ". First: " in plain
    doubtful = findings(make_trace(events, quality=Quality(truncated_at=9))).headline
    assert doubtful == f"Some numbers of this trace are wrong; as recorded: {plain}"


def test_the_headline_says_that_idle_time_is_unexplained_rather_than_small():
    queued = [launch(0, 5, 1), launch(10, 5, 2), kernel("a", 100, 100, correlation=1)]
    late = make_trace([*queued, kernel("b", 100_000, 100, correlation=2)])
    assert finding_list(late) == [] or all(finding.severity == 0 for finding in finding_list(late))
    assert findings(late).headline.startswith("What the GPU waited for is not in the trace: GPU idle 99.8 %")
    busy = make_trace([*queued, kernel("b", 200, 100_000, correlation=2)])
    assert findings(busy).headline.startswith("Nothing large to save in ")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("d06_h100_stack_mem.json.gz", marks=pytest.mark.full),
        "d08_b200_cuda13_ep_moe.json",
        "d12_cpu_only_resnet18.json",
        pytest.param("d15_chrome_all_phases.json.gz", marks=pytest.mark.full),
    ],
)
def test_every_finding_of_a_real_trace_has_its_evidence_in_it(name, shared_trace):
    trace = loaded(shared_trace(name))
    every = finding_list(trace)
    assert len({finding.id for finding in every}) == len(every)
    for finding in every:
        assert finding.title and finding.evidence and finding.advice
        assert 0 <= finding.row < len(trace.slices)
    weights = [(finding.severity, finding.cost or 0) for finding in every]
    assert weights == sorted(weights, reverse=True)


@pytest.mark.parametrize(
    ("name", "told", "not_told"),
    [
        ("matmul_add_64_cold_eager_cpu", ["cold-step"], ["compile-preamble"]),
        ("matmul_add_64_cold_compile_cpu", ["cold-step"], ["compile-preamble"]),
        ("matmul_add_4096_warm_eager_cpu", [], ["cold-step", "compile-preamble"]),
        ("linear_eager_cpu", [], ["compile-preamble"]),
        ("linear_compile_cpu", ["no-gpu"], ["recompilation", "graph-breaks"]),
        ("mlp_eager_cpu", [], ["compile-preamble", "cold-step"]),
        ("mlp_compile_cpu", [], ["recompilation"]),
        ("split_stack_eager_cpu", [], ["compile-preamble"]),
    ],
)
def test_the_samples_are_read_as_the_tutorials_read_them(name, told, not_told):
    """Cold steps are cold, and warm compiled code waits neither for the compiler nor, on a CPU, for its guards."""
    found_ids = ids(loaded(SAMPLES / f"{name}.json.gz"))
    assert set(told) <= set(found_ids)
    assert not set(not_told) & set(found_ids)


def test_compiling_takes_the_views_of_a_linear_away():
    calls = {}
    for variant in ("eager", "compile"):
        trace = loaded(SAMPLES / f"linear_{variant}_cpu.json.gz")
        transposed = [row for row in PANES["ops"].build(trace).rows() if row["name"] == "aten::t"]
        calls[variant] = transposed[0]["calls"] if transposed else 0
    assert calls == {"eager": 3, "compile": 0}


def test_the_note_says_how_long_a_hundred_percent_is():
    work = [kernel("k", 100_000 * number + 50_000, 20_000, correlation=number + 1) for number in range(3)]
    calls = [launch(100_000 * number + 40_000, 500, number + 1) for number in range(3)]
    slices = [*(step(number, 100_000 * number, 100_000) for number in range(3)), *calls, *work]
    assert PANES["findings"].build(make_trace(slices)).note.startswith("100 % is 270.0 µs: the periods of the steps")
    assert PANES["findings"].build(make_trace(slices), 1).note.startswith("100 % is 100.0 µs: the period of step 1")
    alone = PANES["findings"].build(make_trace([*calls, *work])).note
    assert alone == "100 % is 230.0 µs, from the first call or operator to the end of the last activity."
    assert PANES["findings"].build(make_trace([op("aten::mm", 0, 10)])).note == ""


def test_a_duration_that_cannot_be_is_no_cost_and_comes_first():
    product = "ampere_sgemm_128x128_nn"
    calls = [launch(10 * number, 5, number + 1) for number in range(6)]
    work = [kernel(product, 1_000 + 20_000 * number, 15_000, correlation=number + 1) for number in range(6)]
    device = Device(0, "NVIDIA A100-SXM4-40GB", {"computeMajor": 8, "computeMinor": 0, "numSms": 108})
    assert one(make_trace([*calls, *work], [device]), "fp32-math").cost == 7 * 90_000 // 8
    endless = [kernel(product, 1_000, 90_000_000, correlation=1), *work[1:]]
    first, *others = finding_list(make_trace([*calls, *endless], [device]))
    assert (first.id, first.severity) == ("untrusted", Severity.MAJOR)
    assert all((finding.cost or 0) <= 75_000 for finding in others)
