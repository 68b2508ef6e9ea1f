"""The numbers of the overview: one scope, sums that are the scope, the same numbers as in the panes."""

from __future__ import annotations

import pytest

from tests.support.app import training
from tests.support.build import Event, annotation, kernel, launch, make_trace, op, step
from tests.support.paths import SAMPLES
from tests.support.traces import loaded
from tracetui.drawing.overview.canvas import Look
from tracetui.drawing.overview.picture import Picture
from tracetui.findings import finding_list
from tracetui.findings.scope import Scope
from tracetui.idle.idle_parts import idle_parts
from tracetui.idle.scope_times import median_step
from tracetui.model.intervals import TimeRange
from tracetui.model.results import is_kept
from tracetui.model.trace import Kind, Trace
from tracetui.overview.facts import MAKING, overview_of, overview_stages, spare_words, trust_words
from tracetui.overview.overview_table import strip_of, table_of
from tracetui.panes import PANES
from tracetui.reading.load import load

SHARED_NAMES = [
    "d08_b200_cuda13_ep_moe.json",
    "d10_cudagraph_stack.json",
    "d21_a100_nccl_3steps.json.gz",
]
LARGE = [
    "d03_v100_2rank_5steps_mem_occ_nccl.json.gz",
    "d06_h100_stack_mem.json.gz",
    "d11_streams_4000_occ.json.gz",
    "d15_chrome_all_phases.json.gz",
    "d17_a100_16rank_5steps_graphs.json.gz",
]


def assert_is_whole(trace, part):
    """Families of the GPU and causes of idle time are the scope; so are the phases of the CPU where there are some."""
    overview = overview_of(trace, part)
    assert overview.failures == ()
    for sections in (("gpu", "idle"), ("cpu",)):
        entries = overview.of(*sections)
        if entries:
            assert sum(entry.ns or 0 for entry in entries) == pytest.approx(overview.ns, rel=1e-6, abs=2)
            for entry in entries:
                assert entry.share is not None
                assert 0 <= entry.share <= 1 + 1e-9
    return overview


@pytest.mark.parametrize("name", [*SHARED_NAMES, *(pytest.param(each, marks=pytest.mark.full) for each in LARGE)])
def test_bars_are_the_scope(name, shared_trace):
    trace = loaded(shared_trace(name))
    assert_is_whole(trace, median_step(trace))
    assert_is_whole(trace, None)
    low, high = trace.window
    assert_is_whole(trace, TimeRange(low + (high - low) // 3, low + 2 * (high - low) // 3))


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.json.gz")), ids=lambda path: path.name)
@pytest.mark.full
def test_bars_of_samples_are_the_scope(path):
    trace = load(str(path))
    assert_is_whole(trace, median_step(trace))


def test_what_runs_at_once_counts_once():
    """A copy beside a GEMM hides behind it."""
    events = [
        op("aten::mm", 0, 100),
        launch(10, 5, 1),
        launch(20, 5, 2),
        kernel("ampere_sgemm_128x64_nn", 100, 100, correlation=1),
        Event("Memcpy HtoD", 150, 100, Kind.MEMCPY, ("0", "8"), correlation=2),
    ]
    overview = overview_of(make_trace(events), None)
    assert {entry.name: entry.ns for entry in overview.of("gpu")} == {"GEMM": 100, "copies": 50}


def test_the_times_of_a_step_are_those_of_its_scope():
    trace = training()
    overview = overview_of(trace, 2)
    assert overview.title == "step 2, the median of 3"
    assert overview.ns == Scope(trace, 2).time
    kernels = PANES["kernels"].build(trace, 2, by="name")
    listed = {row["name"]: 1000 * float(str(row["total_us"])) for row in kernels.rows()}
    assert {entry.note: entry.ns for entry in overview.of("kernel")} == listed


def test_families_and_kernels_have_one_base(shared_trace):
    """Kernels that lie outside of the steps count in neither."""
    trace = loaded(shared_trace("d25_h100_hf_qwen15_24layers.json.gz"))
    for part in (None, 6):
        overview = overview_of(trace, part)
        whole = sum(entry.share or 0 for entry in overview.of("gpu"))
        assert sum(entry.share or 0 for entry in overview.of("kernel")) == pytest.approx(whole, abs=0.002)
        assert all(
            entry.share == pytest.approx((entry.ns or 0) / overview.ns) for entry in overview.of("kernel", "where")
        )


def test_a_start_up_has_the_share_of_its_sentence(shared_trace):
    trace = loaded(shared_trace("d22_rtx2080ti_linear.json.gz"))
    overview = overview_of(trace, 1)
    (entry,) = [each for each in overview.of("todo") if each.note.startswith("Warm up")]
    assert (
        entry.share
        == pytest.approx((entry.ns or 0) / (overview.ns + overview.start_up))
        == pytest.approx(0.975, abs=0.005)
    )


def test_a_start_up_is_left_out_and_said(shared_trace):
    trace = loaded(shared_trace("puzzlers/more_small_kernels.json.gz"))
    overview = assert_is_whole(trace, None)
    assert overview.start_up > 100 * overview.ns
    assert overview.title == "the trace, after start-up"
    assert sum(entry.share for entry in overview.of("gpu")) > 0.5


def test_the_first_sections_wait_for_no_causes_of_idle_time():
    trace = training()
    first = next(overview_stages(trace, 2))
    assert first.of("gpu") and first.of("cpu") and "idle" in first.pending
    assert not is_kept(trace, idle_parts)
    text = "\n".join(Picture(first, None, 120, 34, Look(0)).canvas.text_lines())
    assert "IDLE" in text and f"why   {MAKING}" in text


def test_it_grows_and_says_what_is_missing():
    stages = list(overview_stages(training(), 2))
    assert [len(stage.entries) for stage in stages] == sorted(len(stage.entries) for stage in stages)
    assert stages[0].of("gpu") and not stages[0].of("todo")
    assert spare_words(stages[0]) == MAKING == trust_words(stages[0])[0]
    assert stages[-1].pending == frozenset()


def test_a_section_that_fails_costs_itself(monkeypatch, breaks):
    from tracetui.overview import facts

    def fail(*_):
        raise ValueError("no phases")

    monkeypatch.setattr(facts, "phase_spans", fail)
    overview = overview_of(training(), 2)
    assert overview.of("gpu") and not overview.of("cpu")
    assert len(overview.failures) == 1 and "The overview's phases of the CPU" in overview.failures[0]
    assert table_of(overview).failures == overview.failures


def test_a_trace_without_anything_known_has_its_names():
    overview = overview_of(make_trace([Event("work", 0, 100, Kind.OTHER), Event("part", 10, 20, Kind.OTHER)]), None)
    assert [(entry.name, entry.ns) for entry in overview.of("op")] == [("work", 80), ("part", 20)]
    assert overview.of("gpu", "idle", "step", "where") == []


def test_odd_steps_say_what_grew():
    events = []
    for number, idle in enumerate((0, 0, 300_000, 0, 0)):
        at = number * 1_000_000
        events += [step(number, at, 900_000), op("aten::mm", at + 1000, 10_000), launch(at + 2000, 1000, number + 1)]
        events += [kernel("gemm", at + 20_000 + idle, 500_000, correlation=number + 1)]
    rows = overview_of(make_trace(events), 1).of("step")
    assert [bool(row.note) for row in rows][2] and "idle +300" in rows[2].note


def with_a_stall(ms: int, at: int = 3) -> Trace:
    """Eight decodes of 10 ms, before one of which the GPU waits for so many ms."""
    events: list[Event] = []
    begin = 0
    for number in range(8):
        begin += ms * 1_000_000 if number == at else 0
        events += [
            annotation(f"execute_context_0(0)_generation_{number + 1}(8)", begin, 2_000_000),
            launch(begin + 100_000, 5_000, number + 1),
            kernel("gemm", begin + 200_000, 9_700_000, correlation=number + 1),
        ]
        begin += 10_000_000
    return make_trace(events)


def held_up(trace: Trace, part: int | None) -> list[str]:
    return [each.name for each in overview_of(trace, part).of("todo") if "held up" in each.note]


def test_a_step_that_loses_much_of_the_capture_is_named_with_its_cost_and_scope():
    (name,) = held_up(with_a_stall(12), 2)
    assert name == "Step 4, one of 8, takes 22.00 ms, 2.2 times the median of its kind, 13 % of all steps"


def test_the_step_that_loses_most_has_one_rank_in_list_sentence_and_overview():
    trace = with_a_stall(12)
    first = finding_list(trace)[0]
    assert (first.id, first.cost) == ("held-up-step", 12_000_000) and first.title.endswith(
        ": 12.00 ms, 13 % of the steps"
    )
    assert "Step 4, one of 8, takes 22.00 ms" in PANES["findings"].build(trace).headline
    assert "held-up-step" not in {each.id for part in (2, 4) for each in finding_list(trace, part)}


@pytest.mark.parametrize(("ms", "at", "part"), [(4, 3, 2), (12, 3, 4), (12, 0, 2)], ids=["small", "in scope", "first"])
def test_a_small_loss_the_step_in_scope_and_the_first_step_are_not_named(ms: int, at: int, part: int):
    assert held_up(with_a_stall(ms, at), part) == []


def test_a_run_of_a_family_counts_its_kernels_and_not_the_stretches_that_they_fill():
    events = [launch(number * 10, 5, number) for number in range(1, 31)]
    events += [
        kernel("ampere_sgemm_128x64_nn", 1_000 + 1_000 * number, 1_000, correlation=number) for number in range(1, 31)
    ]
    trace = make_trace(events)
    strip = strip_of(trace, overview_of(trace, None), 60)
    assert [run[3] for run in strip.runs] == [30]


@pytest.mark.parametrize("cells", [20, 61, 160])
@pytest.mark.parametrize("name", ["d21_a100_nccl_3steps.json.gz", "d08_b200_cuda13_ep_moe.json"])
def test_runs_of_a_phase_have_all_of_its_time(name, cells, shared_trace):
    trace = loaded(shared_trace(name))
    overview = overview_of(trace, median_step(trace))
    times: dict[str, float] = {}
    for _, _, phase, _, ns in strip_of(trace, overview, cells).phase_runs:
        times[phase] = times.get(phase, 0.0) + ns
    assert times == {entry.name: pytest.approx(entry.ns) for entry in overview.of("cpu") if entry.name in times}
    assert times
