"""Backward operators with their forward operators, the parts of a step, and regions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.autograd import ENGINE_THREAD, MAIN, OTHER, backward, forward
from tests.support.build import Event, kernel, launch, make_trace, op
from tests.support.paths import SAMPLES
from tests.support.slow import slow_events
from tracetui.linking.autograd import ENGINE, Phase, autograd, phase_spans
from tracetui.linking.chains import follow, follow_back
from tracetui.model.trace import Flows, Kind, Trace
from tracetui.reading.load import load


def arrows(trace: Trace, ends: list[tuple[int, int, int]]) -> Flows:
    """Arrows of one family from (slice, slice, id)."""
    rows = [row for source, target, _ in ends for row in (source, target)]
    phase = np.array([0, 2] * len(ends), np.uint8)
    number = np.repeat([identity for _, _, identity in ends], 2).astype(np.int64)
    lane = trace.slices.lane[rows]
    return Flows(trace.slices.start[rows], lane, phase, np.zeros(len(rows), np.int32), number)


def row_of(trace: Trace, name: str, place: int = 0) -> int:
    return int(np.flatnonzero(trace.slices.name == trace.names.find(name))[place])


def made_by(trace: Trace, name: str, place: int = 0) -> str | None:
    found = int(autograd(trace).forward[row_of(trace, name, place)])
    return trace.name_of(found) if found >= 0 else None


def training() -> list[Event]:
    """`aten::linear` carries the number of the node that `aten::t` in it makes, as the profiler writes it."""
    return [
        forward("aten::linear", 0, 100, 5),
        forward("aten::t", 10, 10, 5),
        forward("aten::addmm", 30, 60, 6),
        launch(40, 5, 1, lane=MAIN),
        kernel("gemm", 60, 10, correlation=1),
        *backward("AddmmBackward0", 200, 50, 6),
        op("aten::mm", 210, 30, lane=ENGINE_THREAD),
        launch(220, 5, 2, lane=ENGINE_THREAD),
        kernel("gemm_back", 240, 10, correlation=2),
        *backward("TBackward0", 260, 20, 5),
        op(f"{ENGINE}: torch::autograd::AccumulateGrad", 300, 50, lane=ENGINE_THREAD),
        op("torch::autograd::AccumulateGrad", 301, 40, lane=ENGINE_THREAD),
        op("aten::add_", 310, 20, lane=ENGINE_THREAD),
    ]


def test_the_last_op_of_a_number_made_the_node() -> None:
    trace = make_trace(training())
    assert made_by(trace, "AddmmBackward0") == made_by(trace, f"{ENGINE}: AddmmBackward0") == "aten::addmm"
    assert made_by(trace, "TBackward0") == "aten::t"


def test_what_a_node_calls_and_runs_belongs_to_its_forward_op() -> None:
    trace = make_trace(training())
    assert made_by(trace, "aten::mm") == "aten::addmm"
    assert made_by(trace, "cudaLaunchKernel", 1) == "aten::addmm"
    assert made_by(trace, "gemm_back") == "aten::addmm"
    assert made_by(trace, "gemm") is None
    assert int(autograd(trace).node[row_of(trace, "gemm_back")]) == row_of(trace, "AddmmBackward0")


def test_leaves_have_no_forward_op_even_inside_another_node() -> None:
    outer = backward("CheckpointBackward", 290, 200, 5)
    trace = make_trace([*training(), *outer])
    assert made_by(trace, "aten::add_") is None
    assert made_by(trace, "CheckpointBackward") == "aten::t"


def test_a_forward_op_that_begins_after_the_node_did_not_make_it() -> None:
    trace = make_trace([*training(), forward("aten::late", 700, 10, 6)])
    assert made_by(trace, "AddmmBackward0") == "aten::addmm"
    only_late = make_trace([forward("aten::late", 700, 10, 6), *backward("AddmmBackward0", 200, 50, 6)])
    assert made_by(only_late, "AddmmBackward0") is None


def two_threads() -> list[Event]:
    """The same sequence number on two forward threads; the busier one has thread number 2."""
    return [
        forward("aten::one", 0, 10, 7),
        forward("aten::two", 0, 10, 7, lane=OTHER),
        forward("aten::three", 20, 10, 8, lane=OTHER),
        *backward("OneBackward", 100, 10, 7, thread=1),
        *backward("TwoBackward", 120, 10, 7, thread=2),
        *backward("ThreeBackward", 140, 10, 8, thread=2),
    ]


def test_arrows_say_which_thread_a_number_means() -> None:
    bare = make_trace(two_threads())
    pairs = [("aten::one", "OneBackward", 1), ("aten::three", "ThreeBackward", 2)]
    ends = [(row_of(bare, source), row_of(bare, target), number) for source, target, number in pairs]
    trace = make_trace(two_threads(), flows=arrows(bare, ends))
    assert made_by(trace, "OneBackward") == "aten::one"
    assert made_by(trace, "TwoBackward") == "aten::two"


def test_several_threads_without_arrows_are_not_guessed() -> None:
    trace = make_trace(two_threads())
    assert made_by(trace, "OneBackward") is None
    assert made_by(trace, "ThreeBackward") is None


def test_without_numbers_the_arrows_are_followed() -> None:
    events = [
        op("aten::mm", 0, 50, lane=MAIN),
        op(f"{ENGINE}: MmBackward0", 100, 50, lane=ENGINE_THREAD),
        op("MmBackward0", 110, 30, args={"Fwd thread id": 1}, lane=ENGINE_THREAD),
    ]
    bare = make_trace(events)
    ends = [(row_of(bare, "aten::mm"), row_of(bare, "MmBackward0"), 4)]
    trace = make_trace(events, flows=arrows(bare, ends))
    assert made_by(trace, "MmBackward0") == made_by(trace, f"{ENGINE}: MmBackward0") == "aten::mm"
    assert made_by(bare, "MmBackward0") is None


def test_the_link_is_followed_both_ways() -> None:
    trace = make_trace(training())
    row, seen = row_of(trace, "gemm_back"), []
    for _ in range(4):
        row = follow(trace, row)
        seen.append(trace.name_of(row))
    assert seen == ["cudaLaunchKernel", "aten::mm", "aten::addmm", "gemm"]
    back = follow_back(trace, row_of(trace, "aten::addmm"))
    assert trace.name_of(back) == f"{ENGINE}: AddmmBackward0"
    assert trace.name_of(follow_back(trace, back)) == "gemm_back"
    assert follow_back(trace, row_of(trace, "gemm")) == back
    assert trace.name_of(follow_back(trace, row_of(trace, "cudaLaunchKernel"))) == "gemm"
    assert follow_back(trace, row_of(trace, "gemm_back")) == -1


def slow_forward(events: list[dict[str, Any]]) -> Counter[tuple[str, str | None]]:
    """Names of nodes and their forward ops, one after another; for one thread of forward ops.

    Of ops that begin in the same microsecond the shortest is the innermost.
    """
    ops = [each for each in events if each.get("ph") == "X" and each.get("cat") in ("cpu_op", "Operator")]
    numbered = [each for each in ops if each.get("args", {}).get("Sequence number", -1) >= 0]
    first = [each for each in numbered if not each["args"].get("Fwd thread id")]
    home = Counter(each["tid"] for each in first).most_common(1)[0][0]
    by_number: dict[int, list[dict[str, Any]]] = {}
    for each in first:
        if each["tid"] == home:
            by_number.setdefault(each["args"]["Sequence number"], []).append(each)
    result: Counter[tuple[str, str | None]] = Counter()
    for node in (each for each in numbered if each["args"].get("Fwd thread id", 0) > 0):
        number, began = node["args"]["Sequence number"], float(node["ts"])
        makers = [each for each in by_number.get(number, []) if float(each["ts"]) < began]
        last = max(makers, key=lambda each: (float(each["ts"]), -float(each["dur"])), default=None)
        result[node["name"], last["name"] if last else None] += 1
    return result


def fast_forward(trace: Trace) -> Counter[tuple[str, str | None]]:
    found = autograd(trace)
    thread = trace.op_args.number("Fwd thread id", trace.slices.event[found.nodes])
    rows = found.nodes[thread > 0].tolist()
    return Counter((trace.name_of(row), made_by_row(trace, row)) for row in rows)


def made_by_row(trace: Trace, row: int) -> str | None:
    found = int(autograd(trace).forward[row])
    return trace.name_of(found) if found >= 0 else None


REAL = ["d04_a100_8rank_6steps_occ_nccl.json.gz", "d07_mi300x_8rank_3steps_stack.json.gz"]


@pytest.mark.parametrize("name", [*REAL, "d09_rtx3090_compile_triton.json"])
@pytest.mark.full
def test_real_traces_agree_with_a_walk_over_all_events(shared_trace: Callable[[str], Path], name: str) -> None:
    path = shared_trace(name)
    assert fast_forward(load(str(path))) == slow_forward(slow_events(path))


def joined_by_arrows(events: list[dict[str, Any]]) -> list[tuple[float, float]]:
    """Start of the forward op and of the node for each of the profiler's own arrows."""
    ends: dict[Any, dict[str, float]] = {}
    for each in events:
        if each.get("cat") == "fwdbwd":
            ends.setdefault(each["id"], {})[each["ph"]] = float(each["ts"])
    return [(pair["s"], pair["f"]) for pair in ends.values() if len(pair) == 2]


def assert_the_arrows_agree(path: Path, arrows: int) -> None:
    trace = load(str(path))
    found, start = autograd(trace), trace.slices.start
    pairs = joined_by_arrows(slow_events(path))
    linked = found.nodes[found.forward[found.nodes] >= 0]
    ours = {(int(start[found.forward[row]]), int(start[row])) for row in linked.tolist()}
    theirs = {tuple(round((ts - trace.origin_us) * 1000) for ts in pair) for pair in pairs}
    assert len(pairs) == arrows
    assert theirs <= ours


@pytest.mark.full
def test_the_profilers_arrows_say_the_same_as_the_numbers(shared_trace: Callable[[str], Path]) -> None:
    assert_the_arrows_agree(shared_trace("d07_mi300x_8rank_3steps_stack.json.gz"), 213)
    assert_the_arrows_agree(shared_trace("d09_rtx3090_compile_triton.json"), 6)


def test_the_arrows_of_a_sample_say_the_same() -> None:
    assert_the_arrows_agree(SAMPLES / "mlp_train_cpu.json.gz", 39)


NODE = "autograd::engine::evaluate_function: MmBackward0"


def annotation(name, start, dur):
    return Event(name, start, dur, Kind.ANNOTATION)


def spans_of(events):
    spans = phase_spans(make_trace(events))
    return [
        (lane, Phase(phase).name, start, end)
        for lane, phase, start, end in zip(
            spans.lane.tolist(), spans.phase.tolist(), spans.start.tolist(), spans.end.tolist(), strict=True
        )
    ]


def test_what_an_annotation_names_is_no_forward():
    assert spans_of(
        [op("aten::mm", 0, 10), annotation("Optimizer.step#SGD.step", 20, 30), op("aten::add_", 25, 5)]
    ) == [
        (0, "FORWARD", 0, 10),
        (0, "OPTIMIZER", 20, 50),
    ]


def test_backward_on_the_thread_of_forward():
    spans = spans_of([op("aten::mm", 0, 10), op(NODE, 20, 30), op("aten::mm", 25, 5), op("aten::add", 60, 5)])
    assert [(name, start, end) for _, name, start, end in spans] == [
        ("FORWARD", 0, 10),
        ("BACKWARD", 20, 50),
        ("FORWARD", 60, 65),
    ]


def test_a_thread_of_backward_has_no_forward():
    other = ("1", "2")
    spans = spans_of([op("aten::mm", 0, 10), op(NODE, 20, 100, lane=other), op("aten::add_", 121, 5, lane=other)])
    assert [name for _, name, _, _ in spans] == ["FORWARD", "BACKWARD"]


def test_a_forward_that_is_cut_in_two_by_the_optimizer_loses_its_part():
    spans = spans_of([op("aten::mm", 0, 100), annotation("Optimizer.step#SGD.step", 40, 20)])
    assert [(name, end - start) for _, name, start, end in spans] == [
        ("FORWARD", 40),
        ("OPTIMIZER", 20),
        ("FORWARD", 40),
    ]


def test_time_of_several_phases_is_a_union():
    low, high = phase_spans(make_trace([op("aten::mm", 0, 10), op("aten::mm", 5, 10, lane=("1", "2"))])).of(
        Phase.FORWARD
    )
    assert int((high - low).sum()) == 15


def test_a_trace_without_operators_has_none():
    assert len(phase_spans(make_trace([Event("f", 0, 5, Kind.OTHER)]))) == 0
    assert phase_spans(make_trace([Event("f", 0, 5, Kind.OTHER)])).phase.dtype == np.int8
