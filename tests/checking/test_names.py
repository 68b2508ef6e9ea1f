"""Names beside the panes and plain loops: equal numbers, on real traces and on samples."""

from __future__ import annotations

import statistics

import numpy as np
import pytest

from tests.support.checks import work
from tests.support.paths import SAMPLES, SHARED
from tests.support.traces import loaded
from tracetui.checking.evaluate import Evaluator
from tracetui.checking.namespace import UNLIKE, names
from tracetui.checking.parser import parsed
from tracetui.checking.values import ANSWER, TEXT
from tracetui.comparing.measures import measures
from tracetui.comparing.side import side
from tracetui.model.trace import Trace
from tracetui.panes import PANES

REAL = ["d08_b200_cuda13_ep_moe.json", "d21_a100_nccl_3steps.json.gz"]
LARGE = [
    "d01_v100_torch1.9_6steps_mem_occ.json.gz",
    "d03_v100_2rank_5steps_mem_occ_nccl.json.gz",
    "d06_h100_stack_mem.json.gz",
]
CPU = ["mlp_eager_cpu.json.gz", "mlp_train_cpu.json.gz", "attention_flash_cpu.json.gz"]


@pytest.fixture(params=[*REAL, *CPU, *(pytest.param(name, marks=pytest.mark.full) for name in LARGE)], scope="module")
def trace(request):
    path = (SAMPLES if request.param in CPU else SHARED) / request.param
    return loaded(path) if path.exists() else pytest.skip("needs the traces beside the checkout")


def value(trace: Trace, text: str):
    """A value as Python has it, None for what is not known."""
    found = Evaluator(side(trace)).value(parsed(text))
    if found.is_number:
        return None if np.isnan(found.one) else found.one
    if found.unit == TEXT:
        return found.text if found.known else None
    assert found.unit == ANSWER
    return {1: True, 0: False}.get(int(found.one))


def rows(trace: Trace, pane: str, **more):
    return list(PANES[pane].build(trace, **more).rows())


def of_steps(trace: Trace, pane: str):
    """The rows of a pane that belong to complete steps, or all where there are no steps."""
    whole = {row["step"] for row in rows(trace, "steps") if not row["partial"]}
    return [row for row in rows(trace, pane) if not whole or row["step"] in whole]


def has_gpu(trace: Trace) -> bool:
    return bool(len(PANES["kernels"].build(trace)))


@pytest.mark.full
def test_steps_are_those_of_the_pane(trace):
    steps = [row for row in rows(trace, "steps") if not row["partial"]]
    names = ("kernels", "copies", "dur_us", "gpu_busy_us", "gpu_idle_us", "launches", "cpu_ops", "view_ops", "sync_us")
    for name in names:
        shown = [row[name] for row in steps if row[name] is not None]
        if not steps or (not has_gpu(trace) and name not in ("dur_us", "cpu_ops", "view_ops")):
            continue
        assert value(trace, name) == pytest.approx(statistics.median(shown)), name
        assert value(trace, f"{name}_per_step") == value(trace, name)
        assert value(trace, f"max(steps.{name})") == pytest.approx(max(shown)), name
        assert value(trace, f"step[{steps[-1]['step']}].{name}") == pytest.approx(shown[-1]), name
    for row in steps:
        assert value(trace, f"step[{row['step']}].verdict") == row["verdict"]


def test_the_summary_is_that_of_the_pane(trace):
    of_gpu = ("kernels", "copies", "launches", "occupancy_queries", "without_launch")
    for row in rows(trace, "summary"):
        expected = row["number"] if row["number"] is not None else row["value"]
        if row["key"] in of_gpu and not has_gpu(trace):
            expected = None
        assert value(trace, f"summary.{row['key']}") == (
            pytest.approx(expected) if isinstance(expected, float) else expected
        ), row
    assert value(trace, "verdict") == value(trace, "summary.verdict")
    assert value(trace, "doubts") == len(
        [row for row in rows(trace, "health") if row["severity"] in ("wrong", "doubt")]
    )


def test_every_measure_is_the_median_of_its_parts(trace):
    for name, measure in measures(side(trace)).items():
        known = [each for each in measure.values.tolist() if each == each]
        if has_gpu(trace):
            expected = statistics.median(known) if known else None
            assert value(trace, name) == (None if expected is None else pytest.approx(expected)), name


def test_kernels_by_name_are_those_of_the_pane(trace):
    if not has_gpu(trace):
        assert value(trace, "kernel('*').calls") is None
        assert value(trace, "sum(kernels.dur_us)") is None
        return
    mine = [row for row in of_steps(trace, "kernels") if row["kind"] == "kernel"]
    count = max(len([row for row in rows(trace, "steps") if not row["partial"]]), 1)
    assert value(trace, "count(kernels)") == len(mine)
    assert value(trace, "sum(kernels.dur_us)") == pytest.approx(sum(row["dur_us"] for row in mine))
    for word in ("gemm", "elementwise", "reduce"):
        found = [row for row in mine if word in (row["name"] + "\n" + row["short_name"]).casefold()]
        times = [row["dur_us"] for row in found]
        per_step = len(found) / count
        assert value(trace, f"kernel('{word.upper()}').calls") == pytest.approx(
            per_step, abs=0.5 * (count > 1) * per_step
        )
        if found:
            assert value(trace, f"kernel('{word}').max_us") == pytest.approx(max(times))
            assert value(trace, f"kernel('{word}').mean_us") == pytest.approx(statistics.fmean(times))
            assert value(trace, f"kernel('{word}').median_us") == pytest.approx(statistics.median(times))
    gemm = [row["dur_us"] for row in mine if row["family"] == "gemm"]
    assert value(trace, "sum(kernels.dur_us, family == 'gemm')") == pytest.approx(sum(gemm))
    assert value(trace, "count(copies)") == len(of_steps(trace, "kernels")) - len(mine)


def test_sums_of_a_kernel_are_those_of_each_step(trace):
    if not has_gpu(trace):
        return
    whole = [row["step"] for row in rows(trace, "steps") if not row["partial"]] or [None]
    per_step = dict.fromkeys(whole, 0.0)
    for row in of_steps(trace, "kernels"):
        key = row["step"] if whole != [None] else None
        if row["kind"] == "kernel" and "gemm" in (row["name"] + row["short_name"]).casefold():
            per_step[key] += row["dur_us"]
    if sum(per_step.values()):
        assert value(trace, "kernel('gemm').total_us") == pytest.approx(statistics.median(per_step.values()))


def test_operators_are_those_of_the_pane(trace):
    numbers = [row["step"] for row in rows(trace, "steps") if not row["partial"]]
    panes = [rows(trace, "ops", step=number) for number in numbers] or [rows(trace, "ops")]
    names = sorted({row["name"] for row in panes[0] if row["kind"] == "op"})[:12]
    for name in names:
        for field in ("calls", "self_cpu_us", "cpu_total_us", "device_total_us"):
            sums = [[row[field] for row in pane if row["name"] == name] for pane in panes]
            known = [[each for each in one if each is not None] for one in sums]
            if not has_gpu(trace) and "device" in field:
                assert value(trace, f"op('{name}').{field}") is None
                continue
            expected = statistics.median(sum(one) for one in known)
            assert value(trace, f"op('{name}').{field}") == pytest.approx(expected), (name, field)


def test_lists_have_the_rows_of_the_panes(trace):
    for pane in ("launches", "gaps", "occupancy"):
        table = of_steps(trace, pane)
        assert value(trace, f"count({pane})") == (len(table) if has_gpu(trace) else None)
        if table and has_gpu(trace):
            assert value(trace, f"max({pane}.dur_us)") == pytest.approx(max(row["dur_us"] for row in table))
    whole = rows(trace, "findings")
    assert value(trace, "findings") == len(whole)
    for severity in ("note", "minor", "major"):
        assert value(trace, f"findings('{severity}')") == sum(row["severity"] == severity for row in whole)


def test_memory_is_that_of_the_steps(trace):
    expected = [row["total_allocated"] for row in of_steps(trace, "memory")]
    known = [each for each in expected if each is not None]
    assert value(trace, "max(memory.total_allocated)") == (max(known) if known else None)


@pytest.mark.full
def test_every_name_that_is_listed_can_be_used(trace):
    table = names(side(trace))
    assert len({row["name"] for row in table.rows()}) == len(table)
    for row in table.rows():
        assert row["help"], row
        name = str(row["name"])
        if row["sort"] in ("value", "summary"):
            found = value(trace, name)
            assert found == (row["number"] if row["number"] is not None else row["value"]), row
        elif row["sort"] == "list" and "." in name:
            count = value(trace, f"count({name})")
            assert count is None or (count == int(count) and 0 <= count < 10**6), row
        elif row["sort"] == "selected":
            value(trace, name.replace("NAME", "*"))


def test_a_scope_is_looked_at_alone(shared_trace):
    trace = loaded(shared_trace("puzzlers/fusion_mwe_trace.json.gz"))
    for scope, kernels in (("unfused[1]", 36), ("unfused[2]", 19), ("fused[1]", 5), ("fused[2]", 4)):
        found = Evaluator(side(trace, scope)).value(parsed("kernels"))
        counted = Evaluator(side(trace, scope)).value(parsed("count(kernels)"))
        assert found.is_number and counted.is_number
        assert found.one == counted.one == kernels


def test_what_is_easily_taken_for_each_other_says_how_it_differs():
    helps = {str(row["name"]): str(row["help"]) for row in names(side(work(700, 800, 900))).rows()}
    assert "the wait before its first kernel included" in helps["gpu_idle_pct"]
    assert "same as gpu_idle_pct" in helps["steps.idle_pct"]
    assert "unlike gpu_idle_pct" in helps["summary.idle_pct"]
    assert set(UNLIKE) <= set(helps)


def test_the_wait_before_the_first_kernel_has_a_name_of_its_own():
    trace = work(700, 700, 700)
    last = value(trace, "step[3].wait_before_us")
    rows_of_step = [row for row in rows(trace, "kernels") if row["step"] == 3]
    before = max(row["start_us"] + row["dur_us"] for row in rows(trace, "kernels") if row["step"] == 2)
    busy = sum(row["dur_us"] for row in rows_of_step)
    end = max(row["start_us"] + row["dur_us"] for row in rows_of_step)
    first = min(row["start_us"] for row in rows_of_step)
    assert last == pytest.approx(first - before)
    assert last > 0
    # It is a part of the idle time of the period, which begins with the end of the step before on the GPU.
    for name in ("gpu_idle_pct", "idle_pct"):
        assert value(trace, f"step[3].{name}") == pytest.approx(100 * (end - before - busy) / (end - before))
