"""Our figures against those of Holistic Trace Analysis, which `fixtures/ask_hta.py` asked for (R3.33)."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tests.support.paths import FIXTURES, SHARED
from tracetui.idle.gpu_spans import exposure
from tracetui.idle.waits import device_order
from tracetui.model.trace import Trace
from tracetui.panes import PANES
from tracetui.reading.load import load

HTA = json.loads((FIXTURES / "hta.json").read_text())
ROUNDED = ("d08_b200_cuda13_ep_moe.json",)
"""Traces with fractions of microseconds, which HTA cuts off: an error of up to 1 us for each activity."""

LARGE = ("d03", "d04")

Case = tuple[Trace, dict[str, Any], float]


@pytest.fixture(
    params=[pytest.param(name, marks=[pytest.mark.full] * name.startswith(LARGE)) for name in HTA], scope="module"
)
def case(request: pytest.FixtureRequest) -> Case:
    """A real trace, what HTA says of it, and by how many us that may be off."""
    path = SHARED / request.param
    if not path.exists():
        pytest.skip(f"needs ../shared/traces/{request.param}, which is not there")
    trace = load(str(path))
    return trace, HTA[request.param], float(len(device_order(trace).row)) if request.param in ROUNDED else 0.001


def test_compute_idle_and_the_rest_add_up_to_the_same_span(case: Case) -> None:
    trace, hta, error = case
    ours = exposure(trace)
    figures = {
        "idle": ours.idle,
        "compute": ours.compute,
        "non_compute": ours.exposed_comm + ours.exposed_copy,
        "kernel": ours.span,
    }
    for name, nanoseconds in figures.items():
        assert float(nanoseconds[0]) / 1000 == pytest.approx(hta["temporal"][name], abs=error), name


def test_exposed_communication_and_copies_are_what_hta_finds_beside_no_compute(case: Case) -> None:
    trace, hta, error = case
    ours, kinds = exposure(trace), hta["kernel_types"]
    alone = sum(kinds.get(kind, 0) for kind in ("COMMUNICATION", "COMMUNICATION overlapping MEMORY"))
    assert ours.exposed_comm[0] / 1000 == pytest.approx(alone, abs=error)
    assert ours.exposed_copy[0] / 1000 == pytest.approx(kinds["MEMORY"], abs=error)


def test_the_hidden_share_of_communication(case: Case) -> None:
    trace, hta, error = case
    ours = exposure(trace)
    hidden = 100 * (1 - ours.exposed_comm[0] / ours.comm[0])
    assert hidden == pytest.approx(hta["comm_comp_overlap_pct"], abs=0.01 if error < 1 else 1.5)


def test_idle_time_of_each_stream(case: Case) -> None:
    """HTA's 30 ns become 30 us on traces in microseconds, so `kernel_wait` and `other` are compared together."""
    trace, hta, error = case
    table = PANES["gaps"].build(trace, by="stream")
    ours = {str(row["stream"]): row for row in table.rows()}
    assert set(hta["idle_by_stream"]) <= set(ours)
    for stream, figures in hta["idle_by_stream"].items():
        row = ours[stream]
        rest = float(str(row["kernel_wait_us"])) + float(str(row["other_us"]))
        assert row["host_wait_us"] == pytest.approx(figures["host_wait"], abs=error)
        assert rest == pytest.approx(figures.get("kernel_wait", 0) + figures["other"], abs=error)


@pytest.mark.nightly
def test_launches(case: Case) -> None:
    """HTA leaves out the calls of the driver (cuLaunchKernel)."""
    trace, hta, error = case
    table = PANES["launches"].build(trace)
    runtime = [str(row["api"]).startswith("cuda") for row in table.rows()]
    table = table.take(np.flatnonzero(runtime))
    cpu, delay = (np.asarray(table[name].values, np.float64) for name in ("dur_us", "queue_delay_us"))
    first = {row["launch_start_us"]: row["dur_us"] for row in PANES["kernels"].build(trace).rows()}
    gpu = np.array([first[row["start_us"]] for row in table.rows()], np.float64)
    theirs = hta["launches"]
    assert len(table) == theirs["count"]
    assert cpu.sum() == pytest.approx(theirs["cpu_total"], abs=error)
    assert delay.sum() == pytest.approx(theirs["delay_total"], abs=2 * error)
    assert np.median(delay) == pytest.approx(theirs["delay_median"], abs=min(error, 2))
    assert gpu.sum() == pytest.approx(theirs["gpu_total"], abs=error)
    if error < 1:
        assert int((cpu > 50).sum()) == theirs["slow_calls"]
        assert int((delay > 100).sum()) == theirs["late_starts"]
        assert int((gpu < cpu).sum()) == theirs["short_kernels"]
