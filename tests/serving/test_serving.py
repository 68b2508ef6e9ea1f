"""The serving pane: kinds, periods, tokens, idle time within and between, purposes and batches, and who has none."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from tests.support.build import Event, annotation, kernel, launch, make_trace, op, step
from tests.support.serving import (
    GEMM,
    REDUCE,
    Served,
    decode,
    medians,
    neighbours,
    served,
    slow_alone,
    slow_percentile,
    slow_steady,
    slow_union,
)
from tests.support.traces import loaded
from tracetui.kernel_names.slice_names import purposes
from tracetui.linking.links import links
from tracetui.linking.placement import step_index
from tracetui.linking.step_sources import with_steps
from tracetui.model.table import Cell
from tracetui.model.trace import Trace
from tracetui.panes import PANES
from tracetui.serving.serving_table import NO_ITERATIONS, NOT_SERVED, NOTHING_BETWEEN


def rows(trace: Trace, by: str | None = None) -> list[dict[str, Cell]]:
    return list(PANES["serving"].build(trace, by=by).rows())


def test_decodes_in_a_row() -> None:
    (row,) = rows(served([decode(index) for index in range(5)]))
    assert (row["kind"], row["steps"], row["requests"], row["tokens"]) == ("decode", 5, 4, 4)
    assert (row["median_us"], row["p99_us"], row["gpu_busy_us"], row["idle_within_us"]) == (70, 70, 60, 10)
    assert (row["gpu_period_us"], row["token_us"], row["idle_between_us"]) == (100, 100, 30)
    # On the CPU 60 µs lie between two steps; the GPU still runs 50 µs of the step before then, with its pause.
    assert (row["between_us"], row["exposed_us"], row["between"]) == (60, 20, "not recorded 100 %")
    # 20 tokens from the start of the first step to the last end at 490 µs.
    assert row["output_tokens_per_s"] == pytest.approx(20 / 490e-6)
    assert (row["attention_pct"], row["products_pct"], row["comm_pct"], row["comm_us"]) == (50, 50, 0, 0)
    assert row["pct"] == 100


def test_a_single_step_counts_and_has_no_period() -> None:
    (row,) = rows(served([decode(0)]))
    assert (row["steps"], row["median_us"], row["p99_us"]) == (1, 70, 70)
    assert [row[name] for name in ("gpu_period_us", "token_us", "idle_between_us", "between_us", "between")] == [
        None
    ] * 5


def test_prefill_between_decodes_is_in_no_period() -> None:
    prefill = Served("execute_context_1(512)_generation_0(0)", 300, 40, [(GEMM, 320, 400)])
    late = [decode(index, at=800) for index in range(3)]
    first, second = rows(served([decode(0), decode(1), decode(2), prefill, *late]))
    assert (first["kind"], first["tokens"], first["gpu_period_us"], first["token_us"]) == ("prefill", 512, None, None)
    assert (second["kind"], second["steps"], second["gpu_period_us"]) == ("decode", 6, 100)
    # The first decode behind the prefill waited 100 µs for the GPU, the others 30 µs.
    steps = PANES["steps"].build(served([decode(0), decode(1), decode(2), prefill, *late]))
    assert [steps["gpu_period_us"].cell(index) for index in range(7)] == [None, 100, 100, None, None, 100, 100]
    assert [steps["idle_between_us"].cell(index) for index in range(7)] == [None, 30, 30, 30, 100, 30, 30]
    assert first["output_tokens_per_s"] is None
    # The period of the first decode behind the prefill begins with the end of that at 720 µs.
    assert second["output_tokens_per_s"] == pytest.approx(24 / (290e-6 + 370e-6))
    assert [first["pct"], second["pct"]] == pytest.approx([100 * 400 / 760, 100 * 360 / 760])


def test_idle_and_foreign_steps_are_no_neighbours() -> None:
    idle = Served("execute_context_0(0)_generation_0(0)", 250, 10)
    (row,) = rows(served([decode(0), decode(1), idle, decode(3), decode(4)]))
    assert (row["kind"], row["steps"], row["gpu_period_us"], row["between_us"]) == ("decode", 4, 100, 60)
    table = PANES["steps"].build(served([decode(0), decode(1), idle, decode(3), decode(4)]))
    assert [table["between_us"].cell(index) for index in range(5)] == [None, 60, None, None, 60]


def test_speculative_decodes_have_no_time_per_token() -> None:
    plain = "step[DECODE bs=4]"
    several = "step[DECODE bs=4 g_sq=8 g_sk=100 g_sqsq=4 g_sqsk=9]"
    for name, expected in ((plain, 100), (several, None)):
        steps = [Served(name, each.start, each.dur, each.kernels) for each in (decode(index) for index in range(3))]
        (row,) = rows(served(steps))
        assert (row["kind"], row["gpu_period_us"], row["token_us"]) == ("decode", 100, expected)
        assert (row["output_tokens_per_s"] is None) == (expected is None)


DRAFTED = ("step[DRAFT bs=4]", "step[TARGET_VERIFY bs=4 g_sq=16]", "step[DRAFT_EXTEND_V2 bs=4]")


def drafted(names: Sequence[str], around: Sequence[Event] = ()) -> Trace:
    """Steps of 100 µs, each with two kernels of 30 µs with a pause of 10 µs within."""
    steps = [
        Served(name, 100 * index, 40, [(GEMM, 100 * index + 20, 30), (REDUCE, 100 * index + 60, 30)])
        for index, name in enumerate(names)
    ]
    return served(steps, around)


def test_drafts_and_the_check_of_them_are_one_iteration() -> None:
    trace = drafted(DRAFTED * 4)
    (row,) = rows(trace, "iteration")
    assert (row["kind"], row["runs"], row["requests"], row["tokens"]) == ("draft + verify", 4, 4, 16)
    # Draft, check at 100 µs; then extend, draft, check: from its start at +20 to the end of the check at +290.
    assert (row["steps"], row["median_us"], row["gpu_period_us"], row["p99_us"]) == (3, 270, 300, 270)
    assert (row["draft_us"], row["check_us"], row["idle_within_us"]) == (140, 70, 90)
    assert row["min_token_us"] == 75
    for note in (PANES["serving"].build(trace).note, PANES["serving"].build(trace, by="iteration").note):
        assert "4 iterations of drafts and a check of them" in note and "accepted is not recorded" in note
    assert all(each["token_us"] is None for each in rows(trace))


def test_a_prefill_ends_an_iteration_and_decodes_check_where_nothing_else_does() -> None:
    atom = ["decode[bs=4/8 tok=12 d=4]", "draft[1/2 bs=4]", "draft[2/2 bs=4]"]
    (row,) = rows(drafted([*atom * 2, "prefill[bs=1 tok=9]", *atom * 2, atom[0]]), "iteration")
    assert (row["kind"], row["runs"], row["gpu_period_us"], row["min_token_us"]) == ("draft + decode", 3, 300, 100)


def test_without_drafts_there_are_no_iterations() -> None:
    table = PANES["serving"].build(served([decode(index) for index in range(3)]), by="iteration")
    assert (len(table), table.note) == (0, NO_ITERATIONS)


def test_decodes_of_several_tokens_say_what_is_not_recorded() -> None:
    note = PANES["serving"].build(drafted(["step[DECODE bs=4 g_sq=8 g_sk=9]"] * 3)).note
    assert "3 decodes took in several tokens for a request" in note


def test_an_annotation_around_drafts_and_their_check_has_the_facts_of_the_check() -> None:
    around = [annotation("scheduler.run_batch", (300 * index - 5) * 1_000, 290_000) for index in range(4)]
    outer = with_steps(drafted(DRAFTED * 4, around), "scheduler.run_batch")
    (row,) = rows(outer)
    assert (row["kind"], row["steps"], row["requests"], row["tokens"]) == ("verify", 4, 4, 16)


def test_a_mixed_step_makes_the_tokens_of_its_generating_requests() -> None:
    mixed = Served("execute_context_1(100)_generation_3(3)", 0, 40, [(GEMM, 20, 80)])
    (row,) = rows(served([mixed]))
    assert (row["kind"], row["requests"], row["tokens"], row["token_us"]) == ("mixed", 4, 103, None)
    assert row["output_tokens_per_s"] == pytest.approx(3 / 100e-6)


def test_the_rate_of_a_single_step_is_over_its_period_whatever_else_was_recorded() -> None:
    later = [launch(5_000_000, 500, 90), kernel(GEMM, 5_001_000, 1_000, correlation=90)]
    (row,) = rows(served([decode(0)], later))
    assert row["output_tokens_per_s"] == pytest.approx(4 / 90e-6)
    (row,) = rows(served([decode(0)], later), "batch")
    assert row["tokens_per_s"] == pytest.approx(4 / 90e-6)


def test_the_rate_of_steps_on_a_cpu_counts_the_time_between_them() -> None:
    (row,) = rows(served([Served(decode(index).name, 100 * index, 40) for index in range(5)]))
    assert row["output_tokens_per_s"] == pytest.approx(20 / 440e-6)


def test_the_period_of_a_decode_behind_another_is_that_of_steps() -> None:
    trace = served([decode(index, busy=40 + 10 * (index % 2)) for index in range(6)])
    steps = PANES["steps"].build(trace)
    assert [steps["gpu_period_us"].cell(index) for index in range(1, 6)] == [
        steps["period_us"].cell(index) for index in range(1, 6)
    ]


def test_idle_time_is_not_told_of_a_gpu_far_behind() -> None:
    steps = [decode(index) for index in range(4)]
    behind = [
        Served(each.name, each.start, each.dur, [(name, start + 5_000, dur) for name, start, dur in each.kernels])
        for each in steps
    ]
    (row,) = rows(served(behind))
    assert (row["gpu_period_us"], row["idle_between_us"]) == (100, None)
    for pane in ("serving", "steps"):
        assert "GPU idle time before 3 of 3 steps cannot be told" in PANES[pane].build(served(behind)).note
        assert "cannot be told" not in PANES[pane].build(served(steps)).note


def test_steps_whose_gpu_work_touches_are_not_idle_between() -> None:
    steps = [Served("step[DECODE bs=2]", 100 * index, 20, [(GEMM, 100 * index + 30, 100)]) for index in range(4)]
    (row,) = rows(served(steps))
    assert (row["idle_between_us"], row["gpu_period_us"], row["exposed_us"]) == (0, 100, 0)


def test_what_is_launched_between_steps_is_no_idle_time() -> None:
    sampler = [
        event
        for index in range(3)
        for event in (
            launch((100 * index + 50) * 1_000, 500, 900 + index),
            kernel("argmax", (100 * index + 92) * 1_000, 20_000, correlation=900 + index),
        )
    ]
    table = PANES["serving"].build(served([decode(index) for index in range(3)], sampler))
    assert table["idle_between_us"].cell(0) == 10
    assert "25 % of the GPU time was launched between steps." in table.note


def test_without_a_gpu_periods_run_from_start_to_start() -> None:
    names = [("step[EXTEND bs=2 toks=64]", 300), *[("step[DECODE bs=2]", 80)] * 4]
    events: list[Event] = []
    at = 0
    for name, dur in names:
        events += [annotation(name, at * 1_000, dur * 1_000), op("aten::mm", at * 1_000 + 10, 1_000)]
        at += dur + 20
    prefill, decodes = rows(make_trace(events))
    assert (prefill["median_us"], prefill["gpu_period_us"]) == (300, None)
    assert (decodes["median_us"], decodes["gpu_period_us"], decodes["token_us"], decodes["between_us"]) == (
        80,
        100,
        100,
        20,
    )
    for name in ("gpu_busy_us", "idle_within_us", "idle_between_us", "exposed_us", "attention_pct", "comm_us", "pct"):
        assert decodes[name] is None
    assert PANES["serving"].build(make_trace(events), by="purpose").note.startswith("There is no GPU activity")


def test_the_heading_of_a_share_says_of_what_it_is() -> None:
    trace = served([decode(index, requests=1 + index) for index in range(3)])
    headings = [PANES["serving"].build(trace, by=by)["pct"].spec.heading for by in (None, "purpose", "between")]
    assert headings == ["% of busy", "% of busy", "% of between"]


def between_events() -> list[Event]:
    """What a server's thread does in the 60 µs between decodes, each of two times, in a loop around everything."""
    events = [Event("loop.py(1): run", 0, 300_000, op("", 0, 0).kind.__class__.PYTHON)]
    for at in (40_000, 140_000):
        events += [
            annotation("scheduler.process_batch_result", at + 5_000, 10_000),
            op("aten::item", at + 10_000, 3_000),
            annotation("scheduler.get_next_batch_to_run", at + 20_000, 15_000),
            Event("srv.py(7): recv", at + 25_000, 5_000, events[0].kind),
            annotation("gpu_model_runner: sample", at + 40_000, 10_000),
            launch(at + 44_000, 2_000, 77_000 + at, "cudaGraphLaunch"),
            op("aten::to", at + 55_000, 2_000),
        ]
    return events


def test_what_the_cpu_did_between_steps() -> None:
    trace = served([decode(index) for index in range(3)], between_events())
    table = rows(trace, "between")
    assert {row["cpu_activity"]: row["median_us"] for row in table} == {
        "scheduling": 15,
        "sampling": 8,
        "output": 7,
        "GPU waits": 3,
        "graph launches": 2,
        "other": 2,
        "not recorded": 23,
    }
    assert sum(float(str(row["pct"])) for row in table) == pytest.approx(100)
    assert rows(trace)[0]["between"] == "not recorded 38 %, scheduling 25 %, sampling 13 %"
    # The GPU runs until 90 µs with a pause from 50 to 60 µs, and the steps lie 60 µs apart from 40 µs on.
    assert {row["cpu_activity"]: row["exposed_us"] for row in table} == {
        "scheduling": 0,
        "sampling": 0,
        "output": 2,
        "GPU waits": 3,
        "graph launches": 0,
        "other": 2,
        "not recorded": 13,
    }


def test_purposes_of_kernels_alone_and_side_by_side() -> None:
    name = "step[DECODE bs=8]"
    steps = [
        Served(name, 0, 40, [(GEMM, 50, 40), (REDUCE, 70, 40)]),
        Served(name, 200, 40, [(GEMM, 250, 40), (REDUCE, 290, 10)]),
    ]
    table = {row["purpose"]: row for row in rows(served(steps), "purpose")}
    assert (table["gemm"]["median_us"], table["gemm"]["alone_us"]) == (40, 30)
    comm = table["communication"]
    assert (comm["median_us"], comm["min_us"], comm["alone_us"], comm["activities"]) == (25, 10, 15, 1)
    assert comm["pct"] == pytest.approx(100 * 50 / 110)
    (row,) = rows(served(steps))
    assert (row["comm_us"], row["min_comm_us"]) == (10, 10)
    assert row["comm_pct"] == pytest.approx(100 * 50 / 110)


def test_batches_one_by_one_and_by_powers_of_two() -> None:
    few = [decode(index, requests=1 + index % 3) for index in range(9)]
    assert [(row["batch"], row["batch_unit"], row["steps"]) for row in rows(served(few), "batch")] == [
        ("1", "requests", 3),
        ("2", "requests", 3),
        ("3", "requests", 3),
    ]
    many = [decode(index, requests=1 + index) for index in range(24)]
    assert [(row["batch"], row["steps"]) for row in rows(served(many), "batch")] == [
        ("1", 1),
        ("2", 1),
        ("3–4", 2),
        ("5–8", 4),
        ("9–16", 8),
        ("17–32", 8),
    ]
    prefill = Served("execute_context_2(512)_generation_0(0)", 0, 40, [(GEMM, 20, 400)])
    (row,) = rows(served([prefill]), "batch")
    assert (row["batch"], row["batch_unit"], row["batch_size"]) == ("512", "tokens", 512)
    assert row["tokens_per_s"] == pytest.approx(512 / 420e-6)


def test_a_batch_that_is_not_known_is_null() -> None:
    steps = [Served("execute_new_0_cached_4", 100 * index, 40, [(GEMM, 100 * index + 20, 50)]) for index in range(3)]
    (row,) = rows(served(steps), "batch")
    assert (row["kind"], row["batch"], row["tokens_per_s"]) == ("unknown", "4", None)
    frame = Event("vllm/v1/worker/gpu_worker.py(9): execute_model", 0, 40_000, op("", 0, 0).kind.__class__.PYTHON)
    (row,) = rows(make_trace([frame, launch(1_000, 500, 1), kernel(GEMM, 5_000, 1_000, correlation=1)]), "batch")
    assert (row["kind"], row["batch"], row["batch_unit"], row["batch_size"]) == ("unknown", None, None, None)


def test_padded_batches_are_those_of_the_names() -> None:
    steps = [Served("decode[bs=117/128 tok=117 d=117]", 100 * i, 40, [(GEMM, 100 * i + 20, 50)]) for i in range(3)]
    (row,) = rows(served(steps), "batch")
    assert (row["batch"], row["padded"], row["steps"]) == ("117", 128, 3)
    (row,) = rows(served([decode(index) for index in range(3)]), "batch")
    assert (row["batch"], row["padded"]) == ("4", None)


@pytest.mark.full
def test_steps_of_unknown_batch_stand_apart_by_their_kernels(shared_trace) -> None:
    table = rows(loaded(shared_trace(f"inference/{RECORDED[2]}.json.gz")), "batch")
    # One prefill and nine decodes, which the recording does not name.
    assert [(row["batch"], row["kernels"], row["steps"]) for row in table] == [(None, 1212, 1), (None, 1292, 9)]
    assert table[1]["gpu_period_us"] == pytest.approx(44_850, abs=20)


def test_traces_without_servers_have_no_rows() -> None:
    training = make_trace(
        [step(1, 0, 1_000), op("aten::mm", 10, 100), launch(20, 5, 1), kernel(GEMM, 100, 50, correlation=1)]
    )
    for by in (None, "batch", "purpose", "between"):
        table = PANES["serving"].build(training, by=by)
        assert (len(table), table.note) == (0, NOT_SERVED)
    assert PANES["serving"].build(make_trace([])).note.startswith(NOT_SERVED)
    assert PANES["serving"].build(served([decode(0)]), by="between").note == NOTHING_BETWEEN
    assert all(PANES["steps"].build(training)[name].cell(0) is None for name in ("gpu_period_us", "between_us"))


def test_one_step_alone() -> None:
    trace = served([decode(index) for index in range(4)])
    (row,) = PANES["serving"].build(trace, step=2).rows()
    assert (row["steps"], row["median_us"], row["gpu_period_us"]) == (1, 70, 100)


RECORDED = (
    "i01_mi300x_vllm_decode_full_graph",
    "i02_mi300x_sglang_decode_nested",
    "i03_mi300x_vllm_tp4_no_annotations",
)
ON_CPU = ("i05_cpu_transformers_generate_stack", "i06_cpu_transformers_generate_no_stack")


@pytest.mark.parametrize("name", [RECORDED[0], RECORDED[2], "i07_assembled_vllm_async_decode"])
def test_numbers_of_recorded_servers_follow_from_the_facts_of_their_steps(name, shared_trace) -> None:
    facts = json.loads(shared_trace("inference/expected.json").read_text())[f"{name}.json.gz"]["steps"]
    trace = loaded(shared_trace(f"inference/{name}.json.gz"))
    # That a step of i03 is a decode is known from its program alone.
    told = {"idle"} if name == RECORDED[2] else {"prefill", "decode", "idle"}
    every = [fact | {"kind": fact["kind"] if fact["kind"] in told else "unknown"} for fact in facts]
    table = rows(trace)
    assert {row["kind"] for row in table} == {fact["kind"] for fact in every} - {"idle"}
    steady = slow_steady(every)
    for row in table:
        mine = [fact for fact in steady if fact["kind"] == row["kind"]]
        whole = sum(fact["kind"] == row["kind"] for fact in every)
        spans = [fact["gpu_end_us"] - fact["gpu_start_us"] for fact in mine]
        assert row["steps"] == whole
        assert row["steady_steps"] == (len(mine) if len(mine) < whole else None)
        for percent, column in ((50, "median_us"), (95, "p95_us"), (99, "p99_us")):
            assert row[column] == pytest.approx(slow_percentile(spans, percent), abs=0.01)
        assert row["gpu_busy_us"] == pytest.approx(medians([fact["gpu_busy_us"] for fact in mine]), abs=0.05)
        assert row["cpu_step_us"] == pytest.approx(medians([fact["dur_us"] for fact in mine]), abs=0.01)
        pairs = [(a, b) for a, b in neighbours(every) if any(b is fact for fact in mine)]
        same = [b["gpu_end_us"] - a["gpu_end_us"] for a, b in pairs if a["kind"] == b["kind"]]
        gaps = [max(b["gpu_start_us"] - a["gpu_end_us"], 0) for a, b in pairs]
        between = [max(b["start_us"] - a["start_us"] - a["dur_us"], 0) for a, b in pairs]
        for values, column in ((same, "gpu_period_us"), (gaps, "idle_between_us"), (between, "between_us")):
            assert row[column] == (pytest.approx(medians(values), abs=0.01) if values else None), column
        if row["kind"] == "decode":
            # Nothing but decodes: their periods follow one another from when the first has the GPU, which runs what was
            # not recorded until then.
            last = max(fact["gpu_end_us"] for fact in mine)
            rate = sum(fact["requests"] for fact in mine) / (last - mine[0]["gpu_start_us"]) * 1e6
            assert row["output_tokens_per_s"] == pytest.approx(rate, rel=1e-6)
            assert row["token_us"] == row["gpu_period_us"]
        comm = [fact["comm_us"] for fact in mine]
        assert row["comm_us"] == pytest.approx(medians(comm), rel=0.01, abs=0.01)
        assert row["min_comm_us"] == pytest.approx(min(comm), rel=0.01, abs=0.01)


@pytest.mark.parametrize("name", ON_CPU)
def test_periods_on_a_cpu_are_those_of_the_facts(name, shared_trace) -> None:
    facts = json.loads(shared_trace("inference/expected.json").read_text())[f"{name}.json.gz"]
    decodes = [row for row in rows(loaded(shared_trace(f"inference/{name}.json.gz"))) if row["kind"] == "decode"]
    assert len(decodes) == 1
    assert decodes[0]["gpu_period_us"] == pytest.approx(facts["between_decode_starts_us_median"], abs=0.01)
    assert decodes[0]["steps"] == sum(fact["kind"] == "decode" for fact in facts["steps"])
    assert decodes[0]["requests"] == facts["steps"][-1]["requests"]
    assert decodes[0]["idle_within_us"] is None


@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.full
def test_purposes_of_recorded_kernels_are_those_of_a_plain_sum(name, shared_trace) -> None:
    trace = loaded(shared_trace(f"inference/{name}.json.gz"))
    slices, gpu = trace.slices, links(trace).gpu
    ids, texts = purposes(trace, gpu)
    found: dict[int, dict[str, list[tuple[float, float]]]] = {}
    for index, row, number in zip(step_index(trace, gpu).tolist(), gpu.tolist(), ids.tolist(), strict=True):
        span = (slices.start[row] / 1000, slices.end[row] / 1000)
        found.setdefault(index, {}).setdefault(texts[number], []).append(span)
    for row in rows(trace, "purpose"):
        purpose = str(row["purpose"])
        of_steps = [found[index] for index in sorted(found) if index >= 0]
        mine = [each.get(purpose, []) for each in of_steps]
        busy = [slow_union(each) for each in mine]
        assert row["median_us"] == pytest.approx(medians(busy), abs=0.01)
        assert row["min_us"] == pytest.approx(min(busy), abs=0.01)
        # Whatever runs beside them counts, of any step or of none.
        others = [span for step in found.values() for name in step if name != purpose for span in step[name]]
        alone = [slow_alone(each, others) for each in mine]
        assert row["alone_us"] == pytest.approx(medians(alone), abs=0.01)
