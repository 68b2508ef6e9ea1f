"""Costs by batch, the steady state, prefills beside decodes, contexts: each where it speaks, and where it is silent."""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracetui
from tests.support.build import annotation, kernel, launch, make_trace, op
from tests.support.serving import ATTENTION, GEMM, US, Served, medians, served, slow_union
from tests.support.traces import loaded
from tracetui.drawing.drawn_columns import serving_parts, serving_pieces, share_lines
from tracetui.findings import finding_list
from tracetui.linking.step_names import attended, step_name
from tracetui.model.table import Cell
from tracetui.model.trace import Trace
from tracetui.panes import PANES
from tracetui.serving.cost_tables import NO_CONTEXT, NO_DELAY, NO_LINE, NOT_STEADY


def rows(trace: Trace, by: str | None = None) -> list[dict[str, Cell]]:
    return list(PANES["serving"].build(trace, by=by).rows())


def note(trace: Trace, by: str | None = None) -> str:
    return PANES["serving"].build(trace, by=by).note


def decodes(*each: tuple[int, int]) -> list[Served]:
    """Decodes of so many requests that take so many µs."""
    return [
        Served(
            f"execute_context_0(0)_generation_{requests}({requests})", 1000 * index, 40, [(GEMM, 1000 * index + 20, us)]
        )
        for index, (requests, us) in enumerate(each)
    ]


def test_times_on_a_line_have_a_fixed_part_and_one_for_each_request():
    trace = served(decodes((1, 102), (2, 104), (4, 108), (4, 108), (8, 116)))
    (row,) = rows(trace, "cost")
    assert (row["fixed_us"], row["each_us"], row["misfit_pct"]) == pytest.approx((100, 2, 0), abs=1e-9)
    assert (row["sizes"], row["smallest_batch"], row["largest_batch"], row["steps"]) == (4, 1, 8, 5)
    assert "A decode costs 100.0 µs and 2.0 µs for each of its requests" in note(trace, "batch")
    assert "the fixed part is 86 %" in note(trace)


@pytest.mark.parametrize(
    "each",
    [
        ((1, 100), (8, 200)),
        ((4, 100), (5, 120), (6, 140)),
        ((1, 100), (2, 300), (4, 90), (8, 400)),
        ((1, 200), (2, 190), (4, 170), (8, 130)),
        ((1, 10), (2, 40), (3, 70)),
    ],
    ids=["two sizes", "close sizes", "no line", "falling", "negative fixed part"],
)
def test_without_a_line_nothing_is_said(each):
    trace = served(decodes(*each))
    assert (rows(trace, "cost"), note(trace, "cost")) == ([], NO_LINE)
    assert "costs" not in note(trace, "batch")


def test_times_that_do_not_follow_the_batch_are_told_so():
    assert "A decode takes 100.0 µs whatever its batch, 1 to 8 requests." in note(
        served(decodes((1, 100), (4, 100), (8, 100)))
    )


@given(st.integers(1, 10_000), st.integers(0, 50), st.sets(st.integers(1, 64), min_size=3, max_size=8))
def test_any_rising_line_is_found_again(fixed, each, sizes):
    trace = served(decodes(*((size, fixed + each * size) for size in sorted(sizes))))
    found = rows(trace, "cost")
    assert len(found) == int(max(sizes) >= 2 * min(sizes))
    for row in found:
        assert (row["fixed_us"], row["each_us"]) == pytest.approx((fixed, each), rel=1e-6, abs=1e-6)


def stages(trace: Trace) -> list[tuple[Cell, Cell]]:
    return [(row["stage_of_server"], row["steps"]) for row in rows(trace, "stage")]


def test_slow_first_steps_and_an_emptying_batch_are_left_out_of_the_steady_state():
    trace = served(decodes((8, 400), (8, 300), *[(8, 100)] * 8, (3, 100), (2, 100), (1, 100)))
    assert stages(trace) == [("warm-up", 2), ("steady", 8), ("tail", 3)]
    assert "Steady state: steps 3 to 10 (" in note(trace) and "without 2 steps of warm-up and 3 steps" in note(trace)


def test_numbers_by_kind_are_over_the_steady_state_and_of_other_kinds_over_all_steps():
    first = [
        Served(f"execute_context_1({50 + n})_generation_0(0)", -9_000 + 400 * n, 40, [(GEMM, 400 * n - 8_900, 300)])
        for n in range(2)
    ]
    trace = served([*first, *decodes((8, 400), *[(8, 100)] * 8, (3, 500), (2, 500), (1, 500))])
    assert stages(trace) == [("warm-up", 2), ("warm-up", 1), ("steady", 8), ("tail", 3)]
    prefill, decode = rows(trace)
    assert (prefill["steps"], prefill["steady_steps"], prefill["median_us"]) == (2, None, 300)
    assert (decode["steps"], decode["steady_steps"], decode["p99_us"], decode["requests"]) == (12, 8, 100, 8)
    words = (
        "Numbers by kind are over the steps of the steady state: decode 8 of 12. It has no prefill: all of these count."
    )
    for by in (None, "purpose", "between"):
        assert words in note(trace, by)
    assert words not in note(trace, "batch")
    assert [row["p95_us"] for row in rows(trace, "purpose")] == [300, 100]
    assert next(row["steps"] for row in rows(trace, "between") if row["kind"] == "decode") == 8
    assert {row["batch"]: row["steps"] for row in rows(trace, "batch") if row["kind"] == "decode"}["1"] == 1


def test_a_steady_server_and_too_few_steps():
    assert "All 9 steps are of a steady state." in note(served(decodes(*[(8, 100)] * 9)))
    few = served(decodes(*[(8, 100)] * 7))
    assert (stages(few), note(few, "stage")) == ([], NOT_STEADY)
    assert "steady" not in note(few)
    # Half of the steps are of the start.
    assert stages(served(decodes(*[(8, 400)] * 3, *[(8, 100)] * 6, *[(1, 100)] * 4))) == []
    # A slow step in between is no warm-up.
    assert stages(served(decodes(*[(8, 100)] * 4, (8, 400), *[(8, 100)] * 4))) == [("steady", 9)]


def test_small_decodes_before_a_new_prefill_are_no_tail():
    prefill = Served("execute_context_7(700)_generation_0(0)", 11_000, 40, [(GEMM, 11_020, 100)])
    trace = served([*decodes(*[(8, 100)] * 9, (2, 100), (1, 100)), prefill])
    assert ("tail", 2) not in stages(trace)


def mixed(at: int, requests: int, prompt: int, us: int) -> Served:
    return Served(f"execute_context_1({prompt})_generation_{requests}({requests})", at, 40, [(GEMM, at + 20, us)])


def test_a_prefill_delays_the_decodes_beside_it():
    steps = [*decodes(*[(4, 100)] * 3, (5, 900)), mixed(9000, 4, 200, 140), mixed(9500, 4, 400, 180)]
    (row,) = rows(served(steps), "prefill")
    assert (row["in_generation"], row["steps"], row["decodes"], row["prompt_tokens"]) == (4, 2, 3, 200)
    assert (row["median_us"], row["decode_us"], row["prefill_delay_us"]) == (140, 100, 40)
    assert row["per_prompt_token_us"] == pytest.approx(0.2)
    sentence = "A prefill of 200 tokens delays the 4 requests in generation beside it by 40.0 µs"
    assert sentence in note(served(steps)) and sentence in note(served(steps), "prefill")


def test_mixed_steps_without_equal_decodes_say_nothing():
    for steps in (
        [*decodes(*[(4, 100)] * 2), mixed(9000, 4, 9, 200)],
        [*decodes(*[(4, 100)] * 3), mixed(9000, 5, 9, 200)],
    ):
        assert (rows(served(steps), "prefill"), note(served(steps), "prefill")) == ([], NO_DELAY)
        assert "delays" not in note(served(steps))


DETAILED = "execute_{}_context_{}(sq{}sk{}sqsq{}sqsk{})_generation_{}(sq{}sk{}sqsq{}sqsk{})"


@given(
    st.lists(st.tuples(st.integers(1, 300), st.integers(0, 500)), max_size=4),
    st.lists(st.integers(1, 900), min_size=1, max_size=6),
)
def test_contexts_and_pairs_of_a_name_are_those_of_its_requests(prompts, contexts):
    asked = [(new, new + cached) for new, cached in prompts], [(1, context) for context in contexts]
    sums = [
        (sum(q for q, _ in some), sum(k for _, k in some), sum(q * q for q, _ in some), sum(q * k for q, k in some))
        for some in asked
    ]
    name = DETAILED.format(sums[0][0] + sums[1][0], len(prompts), *sums[0], len(contexts), *sums[1])
    pairs = sum(keys - queries + index for some in asked for queries, keys in some for index in range(1, queries + 1))
    assert attended(name) == (sums[0][1] + sums[1][1], pairs)
    parsed = step_name(name)
    assert parsed is not None and (parsed.context, parsed.pairs) == attended(name)


def test_names_without_contexts_say_nothing():
    for name in ("execute_context_1(512)_generation_31(31)", "step[DECODE bs=32]", "decode[bs=4 tok=4]", "sq4", "sk0"):
        assert attended(name) == (None, None)
    assert attended("step[DECODE bs=4 g_sk=100]") == (100, None)
    parsed = step_name("step[MIXED bs=5 c=1 g=4]")
    assert parsed is not None and parsed.generated == 4
    plain = served(decodes((4, 100)))
    assert (rows(plain, "attention"), note(plain, "attention")) == ([], NO_CONTEXT)


def attending(contexts: list[int]) -> Trace:
    """Decodes of two requests, each with one call of attention of 16 heads of 64 with 2 of keys, of 50 µs."""
    events = []
    for index, context in enumerate(contexts):
        at = 1000 * index
        name = f"execute_2_context_0(sq0sk0sqsq0sqsk0)_generation_2(sq2sk{context}sqsq2sqsk{context})"
        args = {"Input Dims": [[2, 16, 64], [2, 2, 64], [2, 2, 64]], "Input type": ["c10::BFloat16"] * 3}
        events += [
            annotation(name, at * US, 400 * US),
            op("vllm::unified_attention_with_output", (at + 10) * US, 30 * US, args=args),
            launch((at + 15) * US, 5 * US, index + 1),
            kernel(ATTENTION, (at + 50) * US, 50 * US, correlation=index + 1),
        ]
    return make_trace(events)


def test_attention_has_the_work_of_the_contexts_of_its_step():
    (row,) = rows(attending([3000, 4000, 5000]), "attention")
    assert (row["steps"], row["context"], row["context_each"], row["median_us"]) == (3, 4000, 2000, 50)
    assert row["per_context_us"] == pytest.approx(50 / 4)
    assert row["flops"] == 4 * 4000 * 16 * 64
    assert row["bytes"] == 2 * 2 * 16 * 64 * 2 + 2 * 4000 * 2 * 64 * 2


def test_the_numbers_of_a_row_of_attention_multiply_out(shared_trace):
    recording = str(shared_trace("inference/i01c_capture_bs32.json.gz"))
    path = shared_trace("inference/i01_mi300x_vllm_decode_full_graph.json.gz")
    trace = tracetui.load(path, captures=[recording], cache=False)
    whole, part = rows(trace, "attention")
    assert [(row["attention"], row["calls"]) for row in (whole, part)] == [("whole context", 12), ("part of it", 12)]
    least, moved, took, peak = (float(str(whole[each])) for each in ("roofline_us", "bytes", "median_us", "peak_pct"))
    # A MI300X moves 5.3 TB/s.
    assert least == pytest.approx(moved / 5.3e6, rel=1e-3)
    assert peak == pytest.approx(100 * least / took)
    assert (part["flops"], part["bytes"], part["roofline_us"], part["peak_pct"], part["bound"]) == (None,) * 5
    kernels = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    windowed = sum(each["dur"] for each in kernels if each.get("name") == "kernel_unified_attention_2d")
    assert part["median_us"] == pytest.approx(windowed)


def test_calls_of_unknown_work_are_in_no_row_of_the_roofline(shared_trace):
    recording = str(shared_trace("inference/i01c_capture_bs32.json.gz"))
    path = shared_trace("inference/i01_mi300x_vllm_decode_full_graph.json.gz")
    table = tracetui.load(path, captures=[recording], cache=False).roofline
    assert "kernel_unified_attention_2d" not in [row["kernel"] for row in table.rows()]
    assert "12 calls of attention (161.8 µs) took less time than the whole context needs" in table.note


def test_steps_padded_to_one_graph_say_nothing_of_larger_batches_and_a_long_period_is_named(shared_trace):
    trace = loaded(shared_trace("inference/i07_assembled_vllm_async_decode.json.gz"))
    assert "replays the same kernels of one graph for 32 or more" in note(trace, "cost")
    assert "whatever its batch" not in note(trace)
    assert "decode-batch" not in [each.id for each in finding_list(trace)]
    assert "One step in it, 8, has a period of 24.31 ms, of 10.88 ms in the median." in note(trace)
    # The lower of 10.81 and 24.31 ms, which a step had.
    (two,) = [row for row in rows(trace, "batch") if row["batch"] == "24"]
    assert two["gpu_period_us"] == pytest.approx(10_810, abs=10)


def test_bars_hold_the_shares_and_the_idle_time():
    table = PANES["serving"].build(served(decodes(*[(4, 100)] * 3)))
    shares = {kind.name: share for kind, share in serving_parts(table, 0)}
    # 100 µs of a product in each, and 900 µs between two.
    assert shares["GEMM"] == pytest.approx(100 * 300 / 2100) and shares["idle"] == pytest.approx(100 * 1800 / 2100)
    assert sum(shares.values()) == pytest.approx(100)
    for width in (1, 12, 60):
        assert sum(len(text) for text, _ in serving_pieces(table, 0, width, True)) == width
    line, legend = share_lines(table, 100, 20)
    assert "GEMM 14 %" in line and "idle 86 %" in line and legend == "g GEMM  · idle"
    assert len(line) == 100 and share_lines(table, 30, 20) == []


# The same numbers from the raw events of recorded servers, slowly.


STEP = re.compile(r"^execute_(\d+_)?context_")


def raw(path: Path) -> tuple[list[dict], dict[int, list[dict]]]:
    """The steps by start, and the GPU activities that each launched."""
    events = [each for each in json.loads(gzip.decompress(path.read_bytes()))["traceEvents"] if each.get("ph") == "X"]
    marks = [each for each in events if each.get("cat") in ("user_annotation", "cpu_op") and STEP.match(each["name"])]
    marks.sort(key=lambda each: each["ts"])
    calls = {
        each["args"]["correlation"]: each
        for each in events
        if each.get("cat") in ("cuda_runtime", "cuda_driver") and "correlation" in each.get("args", {})
    }
    work = defaultdict(list)
    for each in events:
        call = calls.get(each.get("args", {}).get("correlation"))
        if each.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset") and call is not None:
            inside = [index for index, mark in enumerate(marks) if mark["ts"] <= call["ts"] < mark["ts"] + mark["dur"]]
            for index in inside:
                work[index].append(each)
    return marks, work


def span(each: dict) -> tuple[float, float]:
    return each["ts"], each["ts"] + each["dur"]


@pytest.mark.parametrize("name", ["i01_mi300x_vllm_decode_full_graph", "i07_assembled_vllm_async_decode"])
def test_idle_share_and_costs_are_those_of_the_raw_events(name, shared_trace):
    path = shared_trace(f"inference/{name}.json.gz")
    marks, work = raw(path)
    whole = [
        (min(span(each)[0] for each in work[i]), max(span(each)[1] for each in work[i])) for i in range(len(marks))
    ]
    busy = [slow_union([span(each) for each in work[index]]) for index in range(len(marks))]
    requests = [int(mark["name"].rpartition("(")[0].rpartition("_")[2]) for mark in marks]
    # Nothing but decodes: of those of the end no number by kind is made.
    small = [count < medians(requests) / 2 for count in requests]
    tail = next((index for index in range(len(small)) if all(small[index:])), len(small))
    gaps = [max(low - high, 0) for (_, high), (low, _) in pairwise(whole[:tail])]
    steady = list(zip(whole, busy, requests, strict=True))[:tail]
    idle = sum(high - low - spent for (low, high), spent, _ in steady) + sum(gaps)
    trace = loaded(path)
    (row,) = rows(trace)
    assert row["idle_pct"] == pytest.approx(100 * idle / (idle + sum(busy[:tail])), abs=0.01)
    took = [high - low for low, high in whole]
    each = [(high - low) / count for (low, high), _, count in steady]
    assert row["per_request_us"] == row["per_token_us"] == pytest.approx(medians(each), abs=0.01)
    if name.startswith("i07"):
        by_size = defaultdict(list)
        for count, time in zip(requests, took, strict=True):
            by_size[count].append(time)
        slope, fixed = np.polyfit(sorted(by_size), [medians(by_size[count]) for count in sorted(by_size)], 1)
        (line,) = rows(trace, "cost")
        assert (line["each_us"], line["fixed_us"]) == pytest.approx((slope, fixed), abs=0.01)
        assert stages(trace) == [("steady", tail), ("tail", len(marks) - tail)]
    else:
        (row,) = rows(trace, "attention")
        assert (row["steps"], row["context"], row["context_each"]) == (1, 55086, 55086 / 32)


def test_shares_of_recorded_steps_make_their_time(shared_trace):
    for name in ("i02_mi300x_sglang_decode_nested", "i03_mi300x_vllm_tp4_no_annotations"):
        trace = loaded(shared_trace(f"inference/{name}.json.gz"))
        (row,) = rows(trace)
        facts = json.loads(shared_trace("inference/expected.json").read_text())[f"{name}.json.gz"]["steps"]
        facts = [each for each in facts if each["kind"] != "idle"]
        if name.startswith("i03"):
            ends = [(each["gpu_start_us"], each["gpu_end_us"]) for each in facts]
            idle = sum(high - low for low, high in ends) - sum(each["gpu_busy_us"] for each in facts)
            idle += sum(max(low - high, 0) for (_, high), (low, _) in pairwise(ends))
            busy = sum(each["gpu_busy_us"] for each in facts)
            assert row["idle_pct"] == pytest.approx(100 * idle / (idle + busy), abs=0.05)
            comm = sum(each["comm_us"] for each in facts)
            assert row["comm_pct"] == pytest.approx(100 * comm / busy, rel=0.01)
        else:
            assert row["context"] == 32785
