"""What a trace does not hold never passes in silence: the assertion is missing, with the reason and a remedy."""

from __future__ import annotations

import pytest

from tests.support.build import kernel, launch, make_trace, op, step
from tests.support.checks import US, cpu_only, outcome, status, work
from tracetui.checking.report import assertion, report
from tracetui.comparing.side import side
from tracetui.model.trace import Quality

OF_GPU = [
    "kernels <= 5",
    "kernels_per_step == 0",
    "copies == 0",
    "launches == 0",
    "graph_launches == 0",
    "gpu_idle_pct < 10",
    "gpu_idle_us >= 0",
    "sync_us == 0",
    "launch_us < 1us",
    "occupancy_queries == 0",
    "moved_bytes < 300MB",
    "gemm_us == 0",
    "idle_host_sync_us == 0",
    "summary.kernels == 0",
    "summary.gpu_busy_pct < 101",
    "verdict != 'x'",
    "verdict !~ 'bound'",
    "kernel('gemm').calls == 0",
    "op('aten::mm').kernels == 0",
    "count(kernels) == 0",
    "count(copies) == 0",
    "sum(kernels.dur_us) == 0",
    "count(launches) == 0",
    "all(gaps.dur_us < 1ms)",
    "count(roofline) == 0",
    "all(steps.kernels == 0)",
    "step[2].kernels == 0",
    "not kernels > 5",
    "kernels == 0 and cpu_ops == 1",
    "max(kernels, 3) < 100",
    "kernels + 1 < 100",
    "within(kernels, 0, 100)",
]


@pytest.mark.parametrize("text", OF_GPU)
@pytest.mark.full
def test_a_trace_without_a_gpu_says_nothing_about_one(text):
    found = outcome(cpu_only(), text)
    assert found.status.value == "missing"
    assert "ProfilerActivity.CUDA" in found.why or "has a value" in found.why
    assert all(not leaf.actual for leaf in found.leaves if leaf.answer < 0) or "steps." in text


@pytest.mark.parametrize("text", [each for each in OF_GPU if "verdict" not in each])
def test_with_a_gpu_the_same_is_known(text):
    if "moved_bytes" not in text and "roofline" not in text:
        assert status(work(800, 900, 700), text) in ("holds", "fails")


def test_a_trace_without_steps_has_no_number_per_step():
    trace = make_trace([op("aten::mm", 0, 10 * US), launch(US, US, 1), kernel("k", 5 * US, US, correlation=1)])
    assert status(trace, "kernels == 1") == "holds"
    for text in ("kernels_per_step == 1", "all(steps.kernels == 1)", "count(steps) == 0", "step[1].verdict == 'x'"):
        found = outcome(trace, text)
        assert found.status.value == "missing"
        assert "prof.step()" in found.why


def test_work_without_a_launch_record_is_in_no_step():
    trace = make_trace([step(1, 0, 100 * US), op("aten::mm", 0, 10 * US), kernel("k", 5 * US, US)])
    for text in ("kernels <= 5", "count(kernels) == 0", "kernel('k').calls == 0", "gemm_us == 0"):
        found = outcome(trace, text)
        assert found.status.value == "missing"
        assert "#all" in found.why
    assert status(trace, "kernels == 1", scope="all") == "holds"


def test_a_pane_of_the_whole_trace_is_not_that_of_some_steps():
    trace = work(800, 900, 700)
    for text in ("findings >= 0", "verdict ~ 'bound'", "has(roofline)"):
        assert status(trace, text) in ("holds", "fails")
        assert status(trace, text, scope="2:3") in ("missing", "fails")
    assert status(trace, "summary.steps == 3", scope="2:3") == "holds"
    assert status(trace, "kernels == 3 and count(kernels) == 6", scope="2:3") == "holds"
    assert status(trace, "steps == 1 and dur_us == 900", scope="2") == "holds"


def test_a_file_that_is_cut_off_does_not_pass():
    trace = cpu_only()
    whole = make_trace([op("aten::mm", 0, 10)], quality=Quality(truncated_at=1234))
    assert report(side(trace), [assertion("cpu_ops == 1")]).passes
    cut = report(side(whole), [assertion("cpu_ops == 1")])
    assert not cut.passes
    assert cut.outcomes[-1].why.count("1,234") == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("op('aten::mn').calls == 0", "No operator of made.json matches 'aten::mn', so that its counts are 0. Did you"),
        ("op('zzz').calls == 0", "No operator of made.json matches 'zzz', so that its counts are 0."),
        ("kernel('sgem_*').calls == 0", "No kernel of made.json matches 'sgem_*'"),
        ("op('sgemm_128x64').calls == 0", "No operator of made.json matches 'sgemm_128x64'"),
        ("copy('Memcpy').calls == 0", ""),
        ("op('aten::mm').calls == 1", ""),
        ("op('aten::*').calls == 2", ""),
        ("kernel('TRITON').calls == 2", ""),
    ],
)
def test_a_name_that_nothing_has_is_remarked_on_for_it_may_be_misspelt(text, said):
    remarks = report(side(work(100, 100)), [assertion(text)]).remarks
    assert " ".join(remarks).startswith(said) and bool(remarks) == bool(said)


def test_a_name_of_another_step_or_of_the_baseline_is_no_mistake():
    trace, text = work(100, 100), "op('aten::mm').calls == 0"
    assert not report(side(trace, "@0us+1us"), [assertion(text)]).remarks
    other = make_trace([step(1, 0, 50_000), op("aten::add", 10, 10_000)])
    assert "No operator" in " ".join(report(side(other), [assertion(text)]).remarks)
    assert "No operator" not in " ".join(report(side(other), [assertion(text)], side(trace)).remarks)
