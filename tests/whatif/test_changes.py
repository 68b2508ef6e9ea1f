"""Changes as text, what they match and replace, and when no answer is given."""

from __future__ import annotations

import re

import pytest

from tests.support.build import kernel, launch, make_trace, op, step
from tests.support.launch_machine import PROGRAMS, Altered, Machine, run
from tests.support.paths import SAMPLES
from tests.support.traces import loaded
from tracetui.errors import Unanswerable, UsageError
from tracetui.kernel_names.slice_names import short_kernel
from tracetui.model.trace import Trace
from tracetui.whatif.launch_queue import launch_queue
from tracetui.whatif.prediction import OFFERED, Reliability, predict, read_change, split_changes
from tracetui.whatif.replay import recorded, span


def time_of(trace: Trace) -> float:
    queue = launch_queue(trace)
    return span(queue, recorded(queue)).time


def test_a_name_may_hold_commas_brackets_and_quotes():
    assert read_change("scale('vectorized<4, (add)>', 0.5)").pattern == "vectorized<4, (add)>"
    assert read_change(" cpu( DataLoader ,0 ) ").factor == 0
    assert split_changes("scale(a (b), 1) cpu(c, 0);drop(sync)") == ["scale(a (b), 1)", "cpu(c, 0)", "drop(sync)"]


@pytest.mark.parametrize(
    "text", ["__import__('os')", "scale(a, 1e9)", "scale(a, -1)", "scale(, 1)", "graph(0:3)", "()"]
)
def test_anything_else_is_refused_as_text(text):
    with pytest.raises(UsageError):
        read_change(text)


def graphed(machine: Machine):
    """Ten small kernels that a graph could hold, between others."""

    def add() -> None:
        for _ in range(10):
            machine.op("aten::add", 15.0, lambda: machine.kernel("add", 5.0))

    def step() -> None:
        for _ in range(3):
            machine.op("aten::mm", 20.0, lambda: machine.kernel("gemm", 30.0))
        machine.graph(add)
        machine.wait()

    return step


def test_a_graph_takes_what_it_takes_on_the_machine():
    prediction = predict(run(graphed), ["graph(4:13)"])
    assert prediction.interval.covers(time_of(run(graphed, Altered(graphs=True))), 0)
    assert prediction.saves[0] > 0.25


@pytest.mark.parametrize(("text", "sentence"), [("graph(1:90)", "no step has"), ("graph(3:60)", "wait or allocate")])
def test_a_graph_needs_kernels_without_waits_between_and_says_which_would_do(text, sentence):
    trace = run(PROGRAMS["reads_values"])
    with pytest.raises(Unanswerable, match=sentence) as refused:
        predict(trace, [text])
    while "holds none" not in str(refused.value):
        [instead] = re.findall(r"; (graph\(\d+:\d+\))", str(refused.value))
        with pytest.raises(Unanswerable) as refused:
            predict(trace, [instead])
    [instead] = re.findall(r"; (graph\(\d+:\d+\))", str(refused.value))
    assert predict(trace, [instead]).span.time > 0


def test_names_match_as_they_are_drawn_too_and_without_capitals_in_any_case():
    long = "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl>(int)"

    def gelus(machine: Machine):
        def step() -> None:
            for _ in range(4):
                machine.op("aten::gelu", 6.0, lambda: machine.kernel(long, 60.0))
            machine.wait()

        return step

    trace = run(gelus)
    short = short_kernel(long)
    assert short.casefold() not in long.casefold()
    for text in (re.escape(short), "gelucudakernel", "GeluCUDA"):
        assert predict(trace, [f"scale({text}, 0.5)"]).saves[0] > 0.3
    with pytest.raises(Unanswerable, match=r"Did you mean .*Gelu"):
        predict(trace, ["scale(gELU, 0.5)"])


def test_without_waits_and_operators_it_takes_what_it_takes_on_the_machine():
    busy = predict(run(PROGRAMS["busy"]), ["drop(sync)"])
    assert busy.interval.low == pytest.approx(time_of(run(PROGRAMS["busy"], Altered(waits=False))), rel=0.001)
    assert busy.interval.high >= busy.span.time

    def without_item(machine: Machine):
        def step() -> None:
            for _ in range(12):
                for _ in range(4):
                    machine.op("aten::mm", 6.0, lambda: machine.kernel("gemm", 60.0))
                machine.op("log", 50.0)

        return step

    dropped = predict(run(PROGRAMS["reads_values"]), ["drop(aten::item)"])
    assert dropped.interval.low == pytest.approx(time_of(run(without_item)), rel=0.001)


def test_several_changes_are_one_after_the_other_and_alone():
    texts = ["scale(gemm, 0.5)", "scale(softmax, 0.5)"]
    first, second = predict(run(PROGRAMS["busy"]), texts).changes
    truth = time_of(run(PROGRAMS["busy"], Altered(gpu={"gemm": 0.5, "softmax": 0.5})))
    assert first.alone == first.together
    assert second.together.covers(truth, 0.001) and not second.alone.covers(truth, 0.001)


@pytest.mark.parametrize("text", ["scale(nothing, 0.5)", "cpu(nothing, 0)", "drop(nothing)"])
def test_what_matches_nothing_is_no_answer(text):
    with pytest.raises(Unanswerable, match="Nothing to change"):
        predict(run(PROGRAMS["busy"]), [text])


def test_communication_among_ranks_is_left_alone():

    def reducing(machine: Machine):
        def step() -> None:
            machine.kernel("ncclDevKernel_AllReduce", 50.0)
            machine.wait()

        return step

    trace = run(reducing)
    assert predict(trace, ["scale(nccl, 0.5)"]).saves[0] > 0.3
    trace.metadata["distributedInfo"] = {"rank": 0, "world_size": 4}  # type: ignore[index]
    with pytest.raises(Unanswerable, match="4 ranks"):
        predict(trace, ["scale(nccl, 0.5)"])


def test_steps_that_differ_are_no_answer():
    durations = [100, 100, 100, 170, 180, 60, 100]
    starts = [sum(durations[:index]) for index in range(len(durations))]
    events = [step(index, start, dur) for index, (start, dur) in enumerate(zip(starts, durations, strict=True))]
    with pytest.raises(Unanswerable, match="differ by"):
        predict(make_trace([*events, *(op("aten::mm", start, 40) for start in starts)]), ["cpu(mm, 0)"])


def test_waits_that_nothing_explains_are_no_answer():
    events = [each for index in range(20) for each in (
        launch(20_000 * index, 4_000, index + 1), kernel("gemm", 500_000 * (index + 1), 20_000, correlation=index + 1)
    )]  # fmt: skip
    with pytest.raises(Unanswerable, match="replay without a change"):
        predict(make_trace(events), ["scale(gemm, 0.5)"])


def test_on_the_cpu_operators_are_scaled():
    trace = loaded(SAMPLES / "mlp_eager_cpu.json.gz")
    half, none = (predict(trace, [text]).interval.low for text in ("scale(^aten::gelu$, 0.5)", "cpu(^aten::gelu$, 0)"))
    before = time_of(trace)
    assert before - none == pytest.approx(2 * (before - half))
    with pytest.raises(Unanswerable, match="no GPU activity"):
        predict(trace, ["drop(sync)"])


def test_an_estimate_has_nine_of_ten_pairs_of_ten_programs():
    assert Reliability(10, 9, 10).status == "estimate"
    assert Reliability(10, 8, 10).status == Reliability(9, 9, 9).status == "experimental"
    assert OFFERED["drop"].status == "at most"
