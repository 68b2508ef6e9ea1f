"""What steps are: sources, scopes of the forward pass, unprofiled time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.build import Event, annotation, kernel, launch, make_trace, op, step
from tests.support.graphs import replay
from tests.support.serving import decode, served
from tests.support.traces import loaded
from tracetui.comparing.side import side
from tracetui.errors import UsageError
from tracetui.findings import finding_list
from tracetui.findings.scope import Scope
from tracetui.idle.scope_times import median_step, scope_windows, step_periods
from tracetui.idle.verdict import verdict
from tracetui.linking.links import op_rows
from tracetui.linking.placement import chosen
from tracetui.linking.step_kinds import counted_steps, left_out_steps
from tracetui.linking.step_names import FORWARD
from tracetui.linking.step_sources import no_steps, step_sources, with_steps
from tracetui.linking.steps import steps
from tracetui.model.trace import Kind, Trace
from tracetui.overview.facts import overview_of
from tracetui.panes import PANES


def frame(name: str, start: int, dur: int) -> Event:
    return Event(name, start, dur, Kind.PYTHON)


def serving() -> Trace:
    """Three calls of a function with a module in each, a kernel launched in each and one between the first two."""
    events = [frame("serve.py(1): <module>", 0, 4_000)]
    for number in range(3):
        at = 100 + 1_000 * number
        events += [
            frame("serve.py(7): decode", at, 500 + number),
            frame("nn.Module: GPT_0", at + 10, 400),
            frame("torch/nn/modules/module.py(1): _call_impl", at + 11, 390),
            frame("serve.py(9): __call__", at + 12, 380),
            op("aten::mm", at + 20, 50),
            launch(at + 30, 5, number + 1),
            kernel("gemm", at + 60, 10, correlation=number + 1),
        ]
    events += [launch(800, 5, 9), kernel("between", 850, 10, correlation=9)]
    # One call does more than the others, so that nothing is taken for steps by itself.
    events += [op("aten::add", 1_200 + 20 * number, 10) for number in range(2)]
    return make_trace(events)


def test_functions_and_modules_that_repeat_are_offered() -> None:
    first, second = PANES["steps"].build(serving(), by="source").rows()
    assert first == {
        "steps_by": "decode",
        "found_by": "function",
        "runs": 3,
        "time_pct": pytest.approx(100 * 1_503 / 4_000),
        "activities_pct": 75.0,
        "per_run": "1",
        "median_us": 0.501,
        "where": "serve.py(7)",
    }
    assert (second["steps_by"], second["found_by"], second["time_pct"]) == ("GPT_0", "module", 30.0)


@pytest.mark.parametrize("name", ["decode", "serve.py(7): decode", "GPT_0", "nn.Module: GPT_0", "aten::mm"])
def test_a_step_is_a_run_of_the_name_and_holds_what_was_launched_in_it(name: str) -> None:
    trace = with_steps(serving(), name)
    assert steps(trace).number.tolist() == [1, 2, 3]
    assert trace.chosen_steps is not None and trace.chosen_steps.name == name
    assert PANES["steps"].build(trace)["kernels"].values.tolist() == [1, 1, 1]
    assert [row["name"] for row in PANES["kernels"].build(trace, step=2).rows()] == ["gemm"]


@pytest.mark.parametrize("name", ["__call__", "_call_impl", "<module>"])
def test_what_nobody_would_choose_is_not_offered(name: str) -> None:
    assert name not in [source.name for source in step_sources(serving())]


def test_the_sentence_without_steps_names_what_can_stand_for_them() -> None:
    trace = serving()
    assert no_steps(trace) == (
        "The profiler recorded no steps. --steps-by can name 'decode' (3 runs), 'GPT_0' (3 runs)."
    )
    assert PANES["steps"].build(trace).note == no_steps(trace)
    with pytest.raises(UsageError, match=r"recorded no steps.*'decode'"):
        chosen(trace, 1)
    alone = make_trace([frame("a.py(1): once", 0, 100), op("aten::mm", 10, 50)])
    assert "This trace has no steps. Call prof.step()" in PANES["steps"].build(alone).note
    assert PANES["steps"].build(alone, by="source").note == no_steps(alone)


def test_functions_of_one_name_are_told_apart_by_their_files() -> None:
    events = []
    for at in (0, 1_000):
        events += [frame("a.py(1): forward", at, 500), frame("b.py(2): forward", at + 10, 400)]
    names = [source.name for source in step_sources(make_trace(events))]
    assert names == ["a.py(1): forward", "b.py(2): forward"]
    assert steps(with_steps(make_trace(events), "b.py(2): forward")).start.tolist() == [10, 1_010]
    # By the bare name the outer calls are taken: a run within a run is no step of its own.
    assert steps(with_steps(make_trace(events), "forward")).start.tolist() == [0, 1_000]


def test_replays_of_a_graph_last_until_the_next_one() -> None:
    events = [*replay(0, 1, ["a", "b"]), *replay(1_000, 2, ["a", "b"]), *replay(2_200, 3, ["a", "b"])]
    events += [launch(1_500, 5, 4), kernel("after", 1_600, 10, correlation=4), op("end", 9_000, 10)]
    trace = make_trace(events)
    (source,) = step_sources(trace)
    assert (source.name, source.found_by, source.is_certain, source.activities) == ("graph 1", "graph", False, 7)
    assert source.end.tolist() == [1_000, 2_200, 3_300]
    assert PANES["steps"].build(trace, by="source")["found_by"].cell(0) == "graph ~"
    assert PANES["steps"].build(with_steps(trace, "graph 1"))["kernels"].values.tolist() == [2, 3, 2]


def test_profiler_steps_come_first_and_can_be_taken_back() -> None:
    events = []
    for number in range(2):
        events += [step(number + 5, 1_000 * number, 900), Event("forward", 1_000 * number + 10, 500, Kind.ANNOTATION)]
    trace = make_trace(events)
    assert [source.name for source in step_sources(trace)] == ["ProfilerStep#", "forward"]
    other = with_steps(trace, "forward")
    assert steps(other).number.tolist() == [1, 2] and steps(other).end.tolist() == [510, 1_510]
    assert [source.name for source in step_sources(other)] == ["ProfilerStep#", "forward"]
    assert steps(with_steps(other, "ProfilerStep#")).number.tolist() == [5, 6]


Runs = list[tuple[int, int, int]]


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 30), st.integers(0, 2)), min_size=1, max_size=12))
def test_runs_of_a_source_never_overlap_and_agree_with_a_slow_search(runs: Runs) -> None:
    """Calls of three functions that nest on one thread, in any way that frames can."""
    nested: list[Event] = []
    for start, dur, which in runs:
        if all(start >= e.start + e.dur or start + dur <= e.start or within(e, start, dur) for e in nested):
            nested.append(frame(f"a.py({which}): f{which}", start, dur))
    trace = make_trace(nested)
    found = {source.name: (trace.slices.start[source.rows], source.end) for source in step_sources(trace)}
    for which in range(3):
        wanted = outermost([(e.start, e.start + e.dur) for e in nested if e.name.endswith(f"f{which}")])
        covered = sum(end - start for start, end in wanted)
        low, high = trace.window
        if len(wanted) < 2 or covered < 0.01 * (high - low):
            assert f"f{which}" not in found
            continue
        starts, ends = found[f"f{which}"]
        assert list(zip(starts.tolist(), ends.tolist(), strict=True)) == wanted


def within(event: Event, start: int, dur: int) -> bool:
    return (event.start <= start and start + dur <= event.start + event.dur) or (
        start <= event.start and event.start + event.dur <= start + dur
    )


def outermost(runs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    kept: list[tuple[int, int]] = []
    for start, end in sorted(set(runs), key=lambda run: (run[0], -run[1])):
        if not kept or start >= kept[-1][1]:
            kept.append((start, end))
    return kept


def test_the_variants_of_the_puzzler(shared_trace) -> None:
    trace = loaded(shared_trace("puzzlers/fusion_mwe_trace.json.gz"))
    rows = {row["steps_by"]: row for row in PANES["steps"].build(trace, by="source").rows()}
    assert rows["unfused"]["runs"] == rows["fused"]["runs"] == 2
    assert (rows["unfused"]["per_run"], rows["fused"]["per_run"]) == ("36, ~19", "5, ~4")
    assert sum(float(str(row["activities_pct"])) for row in (rows["unfused"], rows["fused"])) == 100


@pytest.mark.parametrize(
    ("file", "name", "runs"),
    [
        ("i03_mi300x_vllm_tp4_no_annotations.json.gz", "vllm/v1/worker/gpu_worker.py(258): execute_model", 11),
        ("i05_cpu_transformers_generate_stack.json.gz", "LlamaForCausalLM_0", 12),
        ("i07_assembled_vllm_async_decode.json.gz", "execute_context", 14),
    ],
)
def test_steps_of_inference(shared_trace, file: str, name: str, runs: int) -> None:
    trace = loaded(shared_trace(f"inference/{file}"))
    assert step_sources(trace)[0].name == name
    assert len(steps(with_steps(trace, name))) == runs


def test_activities_without_a_launch_are_in_the_run_in_which_they_start() -> None:
    """As in every region, and only there: the profiler's own steps and the replays of a graph are told by launches."""
    events = [launch(5, 5, 1), kernel("first", 20, 10, correlation=1)]
    for number in (1, 2):
        at = 1_000 * number
        events += [step(number, at, 900), frame("serve.py(7): decode", at + 10, 500)]
        events += [launch(at + 20, 5, 10 * number), kernel("gemm", at + 40, 10, correlation=10 * number)]
    lone = [kernel("lone", at, 10, correlation=0) for at in (2_100, 2_200, 2_700)]
    trace = make_trace([*events, *lone])
    chosen_by_name = PANES["steps"].build(with_steps(trace, "decode"))
    assert chosen_by_name["kernels"].values.tolist() == [1, 3]
    assert "2 GPU activities have no launch record" in chosen_by_name.note
    assert PANES["steps"].build(trace)["kernels"].values.tolist() == [1, 1]
    assert PANES["steps"].build(trace).note == ""
    served = with_steps(trace, "decode")
    assert served.chosen_steps is not None
    server = replace(served, chosen_steps=replace(served.chosen_steps, is_served=True), cache={})
    assert PANES["steps"].build(server)["kernels"].values.tolist() == [1, 1]
    early = make_trace([*events, kernel("early", 8, 5, correlation=0)])
    assert PANES["steps"].build(with_steps(early, "decode"))["kernels"].values.tolist() == [1, 1]


def test_a_comparison_of_chosen_steps_has_the_activities_of_its_runs(shared_trace) -> None:
    trace = loaded(shared_trace("puzzlers/fusion_mwe_trace.json.gz"))
    by_step = [side(with_steps(trace, "unfused"), number) for number in ("1", "2")]
    assert [len(each.activities()[0]) for each in by_step] == [36, 19]
    assert [each.inferred() for each in by_step] == [0, 17]


def test_runs_that_overlap_cover_no_more_than_the_time_that_there_is():
    runs = [step(i, 100 * i, 190) for i in range(5)]
    table = PANES["steps"].build(make_trace([*runs, op("aten::mm", 0, 1180)]), by="source")
    assert table["time_pct"].cell(0) == 50


def test_the_forward_pass_is_a_step_where_none_is_named() -> None:
    alone = served([type(each)(FORWARD, each.start, each.dur, each.kernels) for each in map(decode, range(3))])
    assert (steps(alone).found_by, len(steps(alone))) == (f"annotation {FORWARD}", 3)
    within = [annotation(FORWARD, 100_000 * index, 39_000) for index in range(3)]
    assert steps(served([*map(decode, range(3))], within)).found_by == "annotation execute_context"


def loop(first: int, count: int = 5) -> Trace:
    """Steps of 10 ms with four kernels, of which the first has fewer, and waits for them for long."""
    events: list[Event] = []
    for number in range(count):
        at = 10_000_000 * number + (0 if number else -40_000_000)
        kernels = first if number == 0 else 4
        events.append(annotation(f"ProfilerStep#{number}", at, 10_000_000 if number else 49_000_000))
        for index in range(kernels):
            start, link = at + (40_000_000 if number == 0 else 0) + 2_000_000 * index + 1_000, 10 * number + index + 1
            events += [op("aten::mm", start, 500_000), launch(start + 1_000, 5_000, link)]
            events.append(kernel("gemm", start + 20_000, 300_000, correlation=link))
    return make_trace(events)


def test_a_first_step_recorded_in_part_is_in_no_scope_of_all_steps() -> None:
    trace = loop(2)
    assert counted_steps(trace).tolist() == [False, True, True, True, True]
    low, high = step_periods(trace)
    windows = scope_windows(trace, None)
    assert int((windows[1] - windows[0]).sum()) == int((high - low)[1:].sum())
    scope, judged = Scope(trace, None), verdict(trace)
    assert (scope.rounds, len(scope.kernels), len(scope.ops)) == (4, 16, 16)
    assert judged is not None and judged.judged.time == scope.time and judged.judged.idle == scope.idle
    assert side(trace).number.tolist() == [1, 2, 3, 4]
    assert "the median of 4" in overview_of(trace, median_step(trace)).title
    # The step alone is what it is.
    assert Scope(trace, 0).time == int((high - low)[0]) and len(Scope(trace, 0).kernels) == 2
    sentence = "Step 0 is left out of what is said of all steps: recorded in part."
    assert left_out_steps(trace) == sentence
    for pane in ("steps", "findings"):
        assert PANES[pane].build(trace).note.count(sentence) == 1
        assert sentence not in PANES["findings"].build(trace, step=1).note


def test_where_all_steps_are_whole_none_is_left_out() -> None:
    trace = loop(4)
    assert counted_steps(trace).all() and left_out_steps(trace) == ""
    assert Scope(trace, None).rounds == 5 and len(Scope(trace, None).ops) == 20


def test_idle_time_beside_a_start_up_is_no_more_than_the_time_beside_it(shared_trace) -> None:
    trace = with_steps(loaded(shared_trace("d22_rtx2080ti_linear.json.gz")), "none")
    by_id = {each.id: each for each in finding_list(trace)}
    assert "start-up" in by_id
    scope = Scope(trace, None)
    idle = scope.idle - sum(scope.start_up)
    assert 0 < idle < scope.rest
    assert f"the GPU is idle for {scope.cost_text(idle)}" in by_id["launch-overhead"].evidence
    assert "100 %" not in by_id["launch-overhead"].evidence


def test_header_and_first_sentence_of_guessed_steps_agree(shared_trace) -> None:
    trace = loaded(shared_trace("d22_rtx2080ti_linear.json.gz"))
    assert len(steps(trace)) == 40 and np.flatnonzero(~counted_steps(trace)).tolist() == [0]
    judged = verdict(trace)
    assert judged is not None and judged.words == "overhead-bound"
    listed = PANES["findings"].build(trace)
    assert listed.headline.startswith("Launch overhead") and not any(row["id"] == "start-up" for row in listed.rows())
    # The step that is left out has its finding, with what made it long.
    cold = next(each for each in finding_list(trace) if each.id == "cold-step")
    assert "cudaFree, 981.08 ms" in cold.evidence


@pytest.mark.parametrize("name", ["operators", "optimizer"])
def test_the_slice_with_which_a_guessed_step_begins_runs_in_it_like_any_other(name: str) -> None:
    events: list[Event] = []
    for at in range(0, 5_000, 1_000):
        events += [op("aten::embedding", at, 100), op("aten::mm", at + 200, 100), op("aten::relu", at + 400, 100)]
        events += [annotation("Optimizer.step#SGD.step", at + 600, 100)] if name == "optimizer" else []
    trace = make_trace(events)
    taken = steps(trace)
    assert (len(taken), taken.found_by, taken.slices.tolist()) == (5, f"repeating {name}", [])
    for each in (trace, with_steps(trace, name), with_steps(trace, "none")):
        assert len(op_rows(each)) == 15
        ran = {row["what"]: row for row in PANES["range"].build(each).rows()}
        assert ran["thread"]["count"] == 15 and ran["thread"]["total_us"] == pytest.approx(1.5)
    chosen = with_steps(trace, "aten::mm")
    assert chosen.chosen_steps is not None and steps(chosen).slices.tolist() == steps(chosen).row.tolist()
