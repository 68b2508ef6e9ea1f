"""Doubts about a trace come up where they touch the names that are used, and nowhere else."""

from __future__ import annotations

import pytest

from tests.support.build import Event, kernel, launch, make_trace, op, step
from tests.support.checks import US, work
from tests.support.traces import loaded
from tracetui.checking import namespace as touched
from tracetui.checking.functions import FIELDS
from tracetui.checking.lists import LISTS, listing, measured
from tracetui.checking.namespace import summary_facts
from tracetui.checking.report import assertion, report
from tracetui.comparing.side import side
from tracetui.health.health_table import CHECKS, doubtful_checks
from tracetui.linking.step_sources import with_steps
from tracetui.model.trace import Trace
from tracetui.panes import PANES

E17 = "edge/e17_impossible_kernel_duration.json"


def impossible() -> Trace:
    """A kernel that is said to run past four later ones of its stream."""
    events: list[Event] = [step(1, 0, 900 * US), op("aten::mm", 0, 800 * US)]
    for key in range(1, 6):
        events.append(launch(key * 10 * US, US, key))
        events.append(kernel("k", (key * 10 + 5) * US, (500 if key == 1 else 3) * US, correlation=key))
    return make_trace(events)


def remarks(trace: Trace, *texts: str, scope: str = "", baseline: Trace | None = None) -> str:
    beside = side(baseline) if baseline else None
    return " ".join(report(side(trace, scope), [assertion(text) for text in texts], beside).remarks)


@pytest.mark.parametrize(
    "text",
    [
        "gpu_busy_us > 0",
        "gpu_idle_pct < 100",
        "gpu_busy_us_per_step > 0",
        "gemm_us >= 0",
        "kernel('k').total_us > 0",
        "max(kernels.dur_us) > 0",
        "count(kernels, dur_us > 3us) > 0",
        "any(steps.gpu_busy_us > 0)",
        "step[1].gpu_busy_us > 0",
        "count(gaps) >= 0",
        "idle_host_sync_us >= 0",
        "summary.gpu_busy_us > 0",
        "verdict ~ 'b'",
        "kernels > 0 and (cpu_ops < 0 or gpu_busy_us > 0)",
    ],
)
def test_a_doubt_is_told_where_it_touches(text):
    trace = impossible()
    assert "work that runs past others" in [check.name for check in doubtful_checks(trace)]
    assert "work that runs past others (" in remarks(trace, text)


@pytest.mark.parametrize(
    "text",
    [
        "kernels > 0",
        "cpu_ops > 0",
        "dur_us > 0",
        "cpu_us > 0",
        "launches > 0",
        "count(kernels) > 0",
        "count(kernels, name ~ 'k') > 0",
        "kernel('k').calls > 0",
        "op('aten::mm').self_cpu_us > 0",
        "summary.kernels > 0",
        "doubts >= 0",
        "file ~ 'json'",
        "all(steps.dur_us > 0)",
        "count(health) > 0",
        "step[1].cpu_ops > 0",
        "1 < 2",
    ],
)
def test_and_is_not_where_it_does_not(text):
    assert remarks(impossible(), text) == ""


def test_the_names_that_it_touches_are_told():
    said = remarks(impossible(), "kernels == 5", "gpu_busy_us > 0", "max(kernels.dur_us) > 0")
    assert said.endswith("work that runs past others (gpu_busy_us, kernels.dur_us).")


def test_the_doubts_of_a_baseline_are_of_the_baseline():
    clean = work(700, 705, 702)
    assert remarks(clean, "kernels > baseline.kernels", baseline=impossible()) == ""
    assert "runs past" in remarks(clean, "gpu_busy_us < baseline.gpu_busy_us", baseline=impossible())
    assert "runs past" in remarks(clean, "not_slower(gpu_busy_us)", baseline=impossible())
    assert remarks(clean, "gpu_busy_us > 0 and baseline.kernels > 0", baseline=impossible()) == ""


def test_the_real_trace_with_an_impossible_kernel(shared_trace):
    # Guessed steps are a doubt of their own.
    trace = with_steps(loaded(shared_trace(E17)), "none")
    assert remarks(trace, "kernels > 0", "cpu_ops > 0") == ""
    assert "work that runs past others (gpu_busy_us)" in remarks(trace, "kernels > 0", "gpu_busy_us > 0")


def test_every_column_that_is_named_is_one_of_a_pane():
    trace = work(700, 705, 702)
    panes = {name: set(PANES[name].build(trace).column_names) for name in PANES}
    whole = side(trace)
    used = [place for name in measured(whole) for place in touched.of_measure(name)]
    used += [place for name in summary_facts(trace) for place in touched.of_line(name)]
    used += [place for kind, fields in FIELDS.items() for field in fields for place in touched.of_selected(kind, field)]
    for name in LISTS:
        used += touched.of_rows(name)
        used += [place for column in listing(whole, name)[0].column_names for place in touched.of_column(name, column)]
    own = {f"steps.{name}" for name in measured(whole)} | {"steps.run", "summary.value"}
    strange = {place for place in used if place not in own}
    strange = {
        place for place in strange if place.split(".")[0] not in panes or not _is_in(place, panes[place.split(".")[0]])
    }
    assert strange == set()


def _is_in(place: str, columns: set[str]) -> bool:
    return "." not in place or place.split(".")[1] in columns


def test_every_doubt_can_come_up():
    trace = work(700, 705, 702)
    whole = side(trace)
    used = {place for name in measured(whole) for place in touched.of_measure(name)}
    used |= {place for name in summary_facts(trace) for place in touched.of_line(name)}
    for name in LISTS:
        columns = listing(whole, name)[0].column_names
        used |= {place for column in columns for place in touched.of_column(name, column)}
    panes = {place.split(".")[0] for place in used}
    mute = [check.name for check in CHECKS if check.touches and not (set(check.touches) & (used | panes))]
    assert mute == []
