"""Steps that are found without `ProfilerStep`: each rule where it speaks, and beside it where it must not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.build import Event, annotation, kernel, launch, make_trace, memcpy, op, python, step
from tests.support.graphs import replay
from tracetui.comparing.fairness import unfair
from tracetui.comparing.side import side
from tracetui.errors import UsageError
from tracetui.findings import finding_list
from tracetui.linking.placement import between_share
from tracetui.linking.step_kinds import partial_steps, step_kinds
from tracetui.linking.step_sources import low_coverage, step_sources, steps_label, with_steps
from tracetui.linking.steps import steps
from tracetui.model.trace import Kind, Trace
from tracetui.panes import PANES

DECODE = "execute_context_0(0)_generation_4(4)"
EXECUTE = "vllm/v1/worker/gpu_worker.py(258): execute_model"


def work(at: int, correlation: int, name: str = "gemm", late: int = 0, **more: Any) -> list[Event]:
    """A launch and its kernel of 10 ns."""
    return [launch(at, 5, correlation, **more), kernel(name, at + 20 + late, 10, correlation=correlation)]


def rows(trace: Trace) -> list[dict[str, Any]]:
    return list(PANES["steps"].build(trace).rows())


def test_one_annotation_is_a_step_and_one_of_another_name_is_none() -> None:
    (row,) = rows(make_trace([annotation(DECODE, 0, 100), *work(10, 1)]))
    assert (row["kind"], row["requests"], row["tokens"], row["kernels"]) == ("decode", 4, 4, 1)
    assert row["found_by"] == "annotation execute_context" and row["kind_from"] == "name"
    assert rows(make_trace([annotation("my_step", 0, 100), *work(10, 1)])) == []


def test_a_copy_of_the_annotation_on_a_stream_is_no_step() -> None:
    copy = Event(DECODE, 30, 10, Kind.GPU_ANNOTATION, ("0", "stream 7"))
    assert len(rows(make_trace([annotation(DECODE, 0, 100), *work(10, 1), copy]))) == 1
    assert rows(make_trace([*work(10, 1), copy])) == []


def test_different_numbers_are_one_series() -> None:
    names = ["step[EXTEND bs=1 toks=9]", "step[DECODE bs=1]", "step[IDLE bs=0]"]
    trace = make_trace([*(annotation(name, 100 * i, 50) for i, name in enumerate(names)), *work(10, 1), *work(110, 2)])
    assert [row["kind"] for row in rows(trace)] == ["prefill", "decode", "idle"]


def test_a_step_owns_what_it_launched_long_after_it_ended() -> None:
    events = [annotation(DECODE, 0, 100), *work(10, 1, late=5_000), annotation(DECODE, 200, 100), *work(210, 2)]
    found = rows(make_trace(events))
    assert [row["kernels"] for row in found] == [1, 1]
    assert found[0]["gpu_start_us"] == 5.03


@pytest.mark.parametrize(("outside", "taken"), [(0, "step["), (1, "execute_context")])
def test_of_nested_series_the_inner_one_is_taken_unless_it_covers_less(outside: int, taken: str) -> None:
    """Ten launches in the inner slice, and perhaps one more in the outer one only."""
    events = [annotation("execute_context_0(0)_generation_4(8)", 0, 1_000), annotation("step[DECODE bs=4]", 100, 800)]
    for index in range(10):
        events += work(110 + 20 * index, index + 1)
    events += work(20, 99) * outside
    trace = make_trace(events)
    assert steps(trace).found_by == f"annotation {taken}" and len(steps(trace)) == 1
    assert {source.name for source in step_sources(trace)} == {"execute_context", "step["}
    # The other one says more.
    assert step_kinds(trace).tokens.tolist() == [8 if taken == "execute_context" else 4]
    note = PANES["steps"].build(trace).note
    assert ("inside `execute_context_..`" if taken == "step[" else "which enclose `step[..]`") in note


def test_steps_of_the_profiler_keep_their_times_and_take_the_kind_of_the_one_annotation_inside() -> None:
    events = [step(1, 0, 1_000), annotation(DECODE, 100, 300), *work(110, 1), *work(600, 2)]
    events += [step(2, 1_000, 1_000), annotation(DECODE, 1_100, 100), annotation(DECODE, 1_300, 100), *work(1_110, 3)]
    first, second = rows(make_trace(events))
    assert (first["dur_us"], first["kernels"], first["found_by"]) == (1.0, 2, "profiler step")
    assert (first["kind"], first["tokens"], first["kind_from"]) == ("decode", 4, "annotation")
    assert (second["kind"], second["tokens"]) == (None, None)
    assert first["after_activities"] is None


def calls_of_execute_model() -> list[Event]:
    """Four calls, the last one without any launch."""
    events = []
    for index in range(4):
        events += [python(EXECUTE, 1_000 * index, 500)]
        events += work(1_000 * index + 10, index + 1) if index < 3 else []
    return events


def test_a_call_that_launches_nothing_is_idle_and_in_no_average() -> None:
    trace = make_trace(calls_of_execute_model())
    assert [row["kind"] for row in rows(trace)] == ["unknown", "unknown", "unknown", "idle"]
    assert not partial_steps(trace).any()
    assert side(trace).number.tolist() == [1, 2, 3] and "served no request" in side(trace).remark
    assert PANES["steps"].build(trace).note == "Steps are calls of `execute_model`: this recording names no steps."
    # Without a GPU nobody launches anything.
    without = make_trace([event for event in calls_of_execute_model() if event.kind == Kind.PYTHON])
    assert {row["kind"] for row in rows(without)} == {"unknown"}


@pytest.mark.parametrize(
    "name",
    [
        "/usr/lib/python3/dist-packages/vllm/v1/worker/gpu_worker.py(300): execute_model",
        "vllm/worker/worker_base.py(1): execute_model",
        "vllm_ascend/worker/worker_v1.py(5): execute_model",
        "vllm/v1/worker/gpu_model_runner.py(1518): execute_model",
        "vllm/v1/worker/gpu/model_runner.py(9): execute_model",
        "/sgl-workspace/sglang/python/sglang/srt/model_executor/model_runner.py(3123): forward",
        "sglang/srt/managers/scheduler.py(88): run_batch",
        "tensorrt_llm/_torch/pyexecutor/py_executor.py(7): _forward_step",
        "nanovllm/engine/model_runner.py(3): run",
    ],
)
def test_calls_of_known_functions_are_steps_whatever_the_line(name: str) -> None:
    assert len(steps(make_trace([python(name, 0, 100), *work(10, 1)]))) == 1
    assert len(steps(make_trace([python(name + "_more", 0, 100), *work(10, 1)]))) == 0


def test_of_known_functions_the_one_that_launches_most_is_taken_and_one_that_launches_nothing_is_not() -> None:
    forward, batch = (
        "sglang/srt/model_executor/model_runner.py(5): forward",
        "sglang/srt/managers/scheduler.py(8): run_batch",
    )
    nested = [python(batch, 0, 1_000), python(forward, 10, 400), *work(20, 1)]
    assert "run_batch" in steps(make_trace([*nested, *work(600, 2)])).found_by
    assert "forward" in steps(make_trace(nested)).found_by
    assert len(steps(make_trace([python(EXECUTE, 0, 100), *work(500, 1)]))) == 0


def test_the_functions_of_a_loop_say_what_their_calls_do() -> None:
    events = [python("gpt-fast/generate.py(60): prefill", 0, 100), *work(10, 1)]
    events += [python("gpt-fast/generate.py(70): decode_one_token", 200, 100), *work(210, 2)]
    trace = make_trace(events)
    assert [row["kind"] for row in rows(trace)] == ["prefill", "decode"]
    assert "calls of `prefill` and `decode_one_token`" in PANES["steps"].build(trace).note


def test_what_is_launched_between_two_steps_counts_after_the_first() -> None:
    events = [annotation(DECODE, 0, 100), *work(10, 1), *work(150, 2), annotation(DECODE, 200, 100), *work(210, 3)]
    trace = make_trace(events)
    assert [(row["kernels"], row["after_activities"], row["after_us"]) for row in rows(trace)] == [
        (1, 1, 0.01),
        (1, 0, 0.0),
    ]
    assert between_share(trace) == pytest.approx(100 / 3)
    said = {row["key"]: row["value"] for row in PANES["summary"].build(trace).rows()}
    assert said["between_steps_pct"] == "33.333" and said["step_kinds"] == "decode 2"


def test_what_a_graph_records_is_no_step() -> None:
    capture = [launch(0, 5, 1, "cudaStreamBeginCapture"), annotation(DECODE, 10, 80), launch(20, 5, 2)]
    capture += [launch(100, 5, 3, "cudaStreamEndCapture")]
    only = make_trace(capture)
    assert len(steps(only)) == 0
    assert PANES["steps"].build(only).note.startswith("This is the recording of a CUDA graph")
    later = make_trace([*capture, annotation(DECODE, 200, 80), *work(210, 9)])
    assert steps(later).start.tolist() == [200]
    named = make_trace([annotation("capture_32_FULL", 0, 100), annotation(DECODE, 10, 80), *work(20, 1)])
    assert len(steps(named)) == 0


def replays_of_a_graph(token: str, *more: Event) -> Trace:
    events = list(more)
    for index in range(4):
        events += replay(1_000 * index, index + 1, ["gemm", token])
    return make_trace(events)


def test_replays_are_steps_where_each_makes_a_token_and_nothing_is_trained() -> None:
    trace = replays_of_a_graph("argmax_kernel")
    assert (len(steps(trace)), steps(trace).found_by, steps(trace).is_guess) == (4, "repeating graph", True)
    assert PANES["steps"].build(trace)["found_by"].cell(0) == "repeating graph ~"
    assert any("steps are guessed" in words for words in PANES["steps"].build(trace).doubts)
    assert {row["kind"] for row in rows(trace)} == {"unknown"}
    assert len(steps(replays_of_a_graph("relu"))) == 0
    assert len(steps(replays_of_a_graph("argmax_kernel", op("autograd::engine::evaluate_function: X", 0, 5)))) == 0


def kernels_that_repeat(last: str, cycles: int = 3, extra: int = 0) -> Trace:
    """Cycles of three kernels; the last cycle may hold more."""
    events: list[Event] = []
    for cycle in range(cycles):
        names = ["embed_tokens", "gemm", "gemm", last] + ["gemm"] * (extra if cycle == cycles - 1 else 0)
        for index, name in enumerate(names):
            events += work(10_000 * cycle + 100 * index, 100 * cycle + index + 1, name)
    return make_trace(events)


def test_kernels_that_repeat_are_steps_where_each_cycle_makes_a_token_and_is_about_as_large() -> None:
    trace = kernels_that_repeat("argmax_kernel")
    assert (len(steps(trace)), steps(trace).found_by) == (3, "repeating kernels")
    assert steps(trace).words.startswith("~ guessed: 2 kernels repeat 3 times; a step may begin elsewhere")
    assert len(steps(kernels_that_repeat("relu"))) == 0  # layers
    assert len(steps(kernels_that_repeat("argmax_kernel", cycles=2))) == 0
    assert len(steps(kernels_that_repeat("argmax_kernel", extra=20))) == 0


def test_a_copy_to_the_host_is_a_token_only_in_a_trace_with_attention() -> None:
    def loop(kernel_name: str) -> Trace:
        events: list[Event] = []
        for cycle in range(4):
            at = 1_000 * cycle
            events += [*work(at, 2 * cycle + 1, kernel_name), launch(at + 100, 5, 2 * cycle + 2, "cudaMemcpyAsync")]
            events += [memcpy("Memcpy DtoH (Device -> Pinned)", at + 130, 5, correlation=2 * cycle + 2)]
        return make_trace(events)

    assert len(steps(loop("flash_fwd_splitkv_kernel"))) == 4
    assert len(steps(loop("gemm"))) == 0


def generation(loop: str = "transformers/generation/utils.py(9): generate") -> list[Event]:
    events = [python(loop, 0, 10_000)]
    for index, length in enumerate((7, 1, 1)):
        at = 100 + 1_000 * index
        events += [python("nn.Module: Llama_0", at, 800), python("nn.Module: Embedding_0", at + 10, 100)]
        events += [lookup(at + 20, (2, length))]
    return events


def lookup(at: int, index: tuple[int, ...], table: tuple[int, int] = (1_000, 64)) -> Event:
    dims = json.dumps([list(table), list(index), [], [], []])
    return op("aten::embedding", at, 5, args={"Input Dims": json.loads(dims)})


def test_calls_of_the_model_in_a_generation_loop_are_steps() -> None:
    trace = make_trace(generation())
    assert steps(trace).found_by == "module nn.Module: Llama_0"
    assert [(row["kind"], row["requests"], row["tokens"], row["kind_from"]) for row in rows(trace)] == [
        ("prefill", 2, 14, "shapes"),
        ("decode", 2, 2, "shapes"),
        ("decode", 2, 2, "shapes"),
    ]
    elsewhere = make_trace(generation("my/utils.py(9): generate"))
    assert not steps(elsewhere).found_by.startswith("module")


def test_lookups_of_the_largest_embedding_are_steps_on_a_cpu_without_training() -> None:
    events = [lookup(1_000 * i + 10, (2, length)) for i, length in enumerate((7, 1, 1))]
    events += [lookup(1_000 * i + 50, (2, 1), table=(16, 64)) for i in range(3)]
    trace = make_trace(events)
    assert (len(steps(trace)), steps(trace).is_guess) == (3, True)
    assert [row["kind"] for row in rows(trace)] == ["prefill", "decode", "decode"]
    assert len(steps(make_trace([*events, op("autograd::engine::evaluate_function: X", 0, 5)]))) == 0
    assert len(steps(make_trace([*events, *work(0, 1)]))) == 0
    assert len(steps(make_trace(events[:2]))) == 0
    encoder = make_trace([lookup(1_000 * i + 10, (2, 7)) for i in range(3)])
    assert [row["kind"] for row in rows(encoder)] == ["unknown"] * 3


@pytest.mark.parametrize(("first", "second", "count"), [("gemm", "argmax", 3), ("argmax", "argmax", 6), ("a", "b", 6)])
def test_the_forward_pass_and_its_sampling_are_one_step(first: str, second: str, count: int) -> None:
    """Two slices of one name, as TensorRT-LLM writes them; beside it each samples, or none does."""
    events = []
    for index in range(3):
        for part, name in enumerate((first, second)):
            at = 1_000 * index + 300 * part
            events += [annotation("step[DECODE bs=2]", at, 200), *work(at + 10, 2 * index + part + 1, name)]
    trace = make_trace(events)
    assert len(steps(trace)) == count
    assert [row["kernels"] for row in rows(trace)] == [6 // count] * count
    assert ("two for each step" in PANES["steps"].build(trace).note) is (count == 3)


def test_the_file_of_a_front_end_has_no_steps() -> None:
    events = [python("vllm/v1/engine/async_llm.py(1): generate", 0, 100)]
    front = make_trace(events, label="host_7.async_llm.123.pt.trace.json.gz")
    assert "front end" in PANES["steps"].build(front).note
    assert "front end" not in PANES["steps"].build(make_trace(events)).note


def test_steps_of_two_threads_name_their_thread() -> None:
    events = [annotation(DECODE, 0, 100), *work(10, 1)]
    events += [annotation(DECODE, 50, 100, lane=("1", "2")), *work(60, 2, lane=("1", "2"))]
    trace = make_trace(events)
    assert [(row["kernels"], row["thread"]) for row in rows(trace)] == [
        (1, trace.lanes[0].name),
        (1, next(lane.name for lane in trace.lanes if lane.tid == "2")),
    ]
    assert "thread" not in PANES["steps"].build(make_trace([annotation(DECODE, 0, 100)]))


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("execute_context", 4),
        ("execute_context_0(0)_generation_#(#)", 4),
        (DECODE, 2),
        ("execute_con", 4),
        ("frame:execute_model", 4),
        ("auto", 4),
        ("none", 0),
    ],
)
def test_what_steps_by_takes(name: str, count: int) -> None:
    events = []
    for index, requests in enumerate((4, 4, 3, 2)):
        at = 1_000 * index
        events += [annotation(f"execute_context_0(0)_generation_{requests}({requests})", at, 500)]
        events += [python(EXECUTE, at + 5, 400), *work(at + 10, index + 1)]
    trace = with_steps(make_trace(events), name)
    assert len(steps(trace)) == count and trace.steps_by == ("" if name == "auto" else name)
    assert (f"{name}" in steps_label(trace)) is (name not in ("auto",))
    if count:
        assert steps(trace).is_served and step_kinds(trace).kind[0] == "decode"
    # And back again.
    assert steps(with_steps(trace, "auto")).found_by == "annotation execute_context"


def test_an_unknown_name_lists_what_can_be_named_with_its_coverage() -> None:
    trace = make_trace([annotation(DECODE, 0, 100), *work(10, 1), *work(200, 2)])
    with pytest.raises(UsageError, match=r"'bogus' cannot.*'execute_context' \(1 run, 50 % of the GPU activities"):
        with_steps(trace, "bogus")
    with pytest.raises(UsageError, match="'kernels' cannot"):
        with_steps(trace, "kernels")


def test_a_series_that_covers_less_than_half_says_so() -> None:
    some = [annotation(DECODE, 0, 100), *work(10, 1)]
    assert low_coverage(make_trace([*some, *work(200, 2)])) == ""
    trace = make_trace([*some, *work(200, 2), *work(300, 3)])
    assert low_coverage(trace) == "33 % of the GPU activities"
    assert PANES["steps"].build(trace).note.endswith("annotations; they launch only 33 % of the GPU activities.")


FORWARD = "sglang/srt/model_executor/model_runner.py(5): forward"


def kinds_of_calls(name: str, kernel_name: str, label: str = "made.json") -> list[tuple[Any, Any]]:
    trace = make_trace([python(name, 0, 100), *work(10, 1, kernel_name)], label=label)
    return [(row["kind"], row["kind_from"]) for row in rows(trace)]


@pytest.mark.parametrize(
    ("name", "label", "found"),
    [
        (FORWARD, "1700-TP-0-DECODE.trace.json.gz", ("decode", "file name")),
        (FORWARD, "1700-TP-0-EXTEND.trace.json.gz", ("prefill", "file name")),
        (FORWARD, "1700-TP-0.trace.json.gz", ("unknown", None)),
        (EXECUTE, "1700-TP-0-DECODE.trace.json.gz", ("unknown", None)),
    ],
)
def test_the_stage_in_the_name_of_a_file_counts_for_the_server_that_writes_it(
    name: str, label: str, found: tuple[Any, Any]
) -> None:
    assert kinds_of_calls(name, "gemm", label) == [found]


@pytest.mark.parametrize(
    ("kernel_name", "kind"),
    [
        ("flashinfer::BatchDecodeWithPagedKVCacheKernel", "decode"),
        ("fmhaSm100fKernel_QkvBfloat16OBfloat16H128PagedKvCausalForGen", "decode"),
        ("flashinfer::BatchPrefillWithRaggedKVCacheKernel", "prefill"),
        # These serve prefill and decode alike.
        ("flashinfer::BatchPrefillWithPagedKVCacheKernel", "unknown"),
        ("kernel_unified_attention_2d", "unknown"),
        ("paged_attention_ll4mi_QKV_mfma16_kernel", "unknown"),
    ],
)
def test_attention_kernels_tell_the_kind_where_they_serve_one_only(kernel_name: str, kind: str) -> None:
    assert [found for found, _ in kinds_of_calls(EXECUTE, kernel_name)] == [kind]


def test_the_first_prefill_is_no_partial_decode() -> None:
    """It launches one kernel, the decodes four each; the last decode, of one kernel, is cut."""

    def run(last: int) -> Trace:
        events = [annotation("step[EXTEND bs=1 toks=9]", 0, 500), *work(10, 1)]
        for number, count in enumerate([4, 4, 4, last], 1):
            events.append(annotation("step[DECODE bs=1]", 1_000 * number, 500))
            for index in range(count):
                events += work(1_000 * number + 10 * index, 10 * number + index)
        return make_trace(events)

    assert partial_steps(run(4)).tolist() == [False] * 5
    assert partial_steps(run(1)).tolist() == [False] * 4 + [True]


def durations(names: list[str]) -> Trace:
    """Steps of 1 ms, of which the fourth takes 5 ms."""
    events, at = [], 0
    for number, name in enumerate(names, 1):
        took = 5_000_000 if number == 4 else 1_000_000
        events += [annotation(name, at, took), op("aten::mm", at + 10, took - 100), *work(at + 20, number)]
        at += took
    return make_trace(events)


def test_a_step_is_an_outlier_among_those_of_its_kind_and_size() -> None:
    decode = "step[DECODE bs=8]"
    assert "outlier-step" in ids_of(durations([decode] * 8))
    # A prefill takes longer than decodes, and more tokens longer than few.
    assert "outlier-step" not in ids_of(durations([decode] * 3 + ["step[EXTEND bs=8 toks=900]"] + [decode] * 4))
    assert "outlier-step" not in ids_of(durations([decode] * 3 + ["step[DECODE bs=80]"] + [decode] * 4))


def ids_of(trace: Trace) -> list[str]:
    return [finding.id for finding in finding_list(trace)]


def test_compared_sides_of_other_kinds_are_said() -> None:
    decodes, prefills = durations(["step[DECODE bs=8]"] * 4), durations(["step[EXTEND bs=8 toks=9]"] * 4)
    assert any(
        "Different kinds of steps: A 4 decode; B 4 prefill" in said for said in unfair(side(decodes), side(prefills))
    )
    assert not any(
        "kinds of steps" in said for said in unfair(side(decodes), side(durations(["step[DECODE bs=9]"] * 4)))
    )
