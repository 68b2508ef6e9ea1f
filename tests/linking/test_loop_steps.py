"""Iterations of a loop are steps where they are alike and cover the trace, and nothing else is."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.build import Event, annotation, kernel, launch, make_trace, op, python
from tests.support.traces import loaded
from tracetui.health.health_table import doubtful_checks
from tracetui.linking.step_sources import no_steps, step_sources, with_steps
from tracetui.linking.steps import PROFILER_STEP, steps
from tracetui.model.trace import Trace
from tracetui.panes import PANES
from tracetui.reading.load import load

MARKS = ("optimizer", "zero_grad", "module", "operators")


def iteration(at: int, mark: str, extra: int = 0, layers: int = 4) -> list[Event]:
    """A forward pass of some layers, the backward pass on a thread of its own, and its kernel."""
    events = [op(name, at + 20 * index, 10) for index, name in enumerate(["aten::mm", "aten::relu"] * layers)]
    events += [op("aten::mse_loss", at + 300, 10), *(op("aten::extra", at + 320 + index, 1) for index in range(extra))]
    events.append(op("autograd::engine::evaluate_function: AddmmBackward0", at + 400, 200, lane="autograd"))
    events += [launch(at + 410, 5, at + 1, lane="autograd"), kernel("gemm", at + 700, 100, correlation=at + 1)]
    if mark == "optimizer":
        events.append(annotation("Optimizer.step#SGD.step", at + 700, 100))
    elif mark == "zero_grad":
        events.append(annotation("Optimizer.zero_grad#SGD.zero_grad", at - 20, 10))
    elif mark == "module":
        events.append(python("nn.Module: Net_0", at - 5, 290))
        events.append(python("nn.Module: Linear_0", at - 2, 20))
    return events


def loop(mark: str, count: int = 4, extra: dict[int, int] | None = None) -> Trace:
    """Iterations of 1,000 ns, some of them with further operators."""
    extra = extra or {}
    return make_trace([e for i in range(count) for e in iteration(1_000 * i + 100, mark, extra.get(i, 0))])


@pytest.mark.parametrize("mark", MARKS)
def test_iterations_that_are_alike_are_steps_and_marked_as_a_guess(mark: str) -> None:
    trace = loop(mark)
    taken = steps(trace)
    assert (len(taken), taken.is_guess, taken.is_served) == (4, True, False)
    assert PANES["steps"].build(trace)["kernels"].values.tolist() == [1, 1, 1, 1]
    assert "~ guessed: " in PANES["steps"].build(trace).note
    assert taken.found_by.startswith("repeating ") and step_sources(trace)[0].rule == taken.found_by
    assert any(row["value"] == f"{taken.found_by} ~" for row in PANES["summary"].build(trace).rows())
    assert "steps are guessed" in [check.name for check in doubtful_checks(trace)]
    again = with_steps(trace, taken.found_by.removeprefix("repeating "))
    assert steps(again).start.tolist() == taken.start.tolist()
    assert len(steps(with_steps(trace, "none"))) == 0


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("count", [1, 2])
def test_once_or_twice_is_no_loop(mark: str, count: int) -> None:
    assert len(steps(loop(mark, count))) == 0


@pytest.mark.parametrize("mark", MARKS[:3])
def test_one_unlike_the_others_is_left_out_at_the_end_and_forbids_steps_in_the_middle(mark: str) -> None:
    at_end = loop(mark, 6, {5: 30})
    assert len(steps(at_end)) == 5
    assert len(steps(loop(mark, 5, {2: 30}))) == 0


def test_forward_passes_of_no_duration_are_no_iterations() -> None:
    events = [e for i in range(4) for e in (op("aten::mm", 100 * i, 10), python("nn.Module: Net_0", 100 * i + 50, 0))]
    assert len(steps(make_trace(events))) == 0


def test_two_optimizers_are_one_iteration() -> None:
    events = [e for i in range(4) for e in iteration(1_000 * i + 100, "optimizer")]
    events += [annotation("Optimizer.step#SGD.step", 1_000 * i + 450, 20) for i in range(4)]
    trace = make_trace(events)
    assert steps(trace).start.tolist() == [100, 1_100, 2_100, 3_100]


def test_micro_batches_of_one_optimizer_step_are_no_steps() -> None:
    events = [e for i in range(4) for e in iteration(1_000 * i + 100, "module")]
    assert len(steps(make_trace([*events, annotation("Optimizer.step#SGD.step", 4_000, 100)]))) == 0


@pytest.mark.parametrize("around", [(), ("aten::embedding",), ("aten::embedding", "aten::linear")])
def test_layers_of_one_forward_pass_are_no_steps(around: tuple[str, ...]) -> None:
    events = [op(around[0], 0, 10)] if around else []
    for index in range(24):
        names = ["aten::layer_norm", "aten::linear", "aten::gelu", "aten::linear"]
        events += [op(name, 100 * index + 20 + 20 * place, 10) for place, name in enumerate(names)]
    events += [op(name, 2_500, 10) for name in around[1:]]
    assert len(steps(make_trace(events))) == 0
    # Nor are those of a step of training: its backward pass comes once, behind all of them.
    backward = op("autograd::engine::evaluate_function: AddmmBackward0", 2_600, 900)
    assert len(steps(make_trace([*events, backward]))) == 0


def test_a_loop_beside_more_work_covers_too_little() -> None:
    events = [e for i in range(4) for e in iteration(1_000 * i + 1_000, "module")]
    before = [launch(10, 5, 7), kernel("before", 20, 200, correlation=7)]
    assert len(steps(make_trace([*events, *before]))) == 0


def test_captures_of_graphs_are_no_steps_and_are_not_offered() -> None:
    events = [e for i in range(4) for e in iteration(1_000 * i + 100, "module")]
    events += [annotation(f"capture_{2**i}_DECODE", 1_000 * i + 50, 900) for i in range(4)]
    trace = make_trace(events)
    assert len(steps(trace)) == 0
    assert "capture" not in no_steps(trace)


@given(st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=6), min_size=1, max_size=6))
def test_whatever_is_taken_for_steps_has_the_operators_of_the_others(bodies: list[list[int]]) -> None:
    """Iterations of any operators: those taken follow each other and have four fifths in common with one of them."""
    events = []
    for at, body in enumerate(bodies):
        events += [op(f"aten::{name}", 1_000 * at + 20 * index, 10) for index, name in enumerate(body)]
        events.append(annotation("Optimizer.step#SGD.step", 1_000 * at + 500, 10))
    taken = (steps(make_trace(events)).start // 1_000).tolist()
    assert taken == list(range(taken[0], taken[0] + len(taken))) if taken else True
    assert len(taken) == 0 or len(taken) >= 3
    if taken:
        assert any(all(common(bodies[one], bodies[each]) >= 0.8 for each in taken) for one in taken)


def common(one: list[int], other: list[int]) -> float:
    both = sum(min(one.count(name), other.count(name)) for name in set(one))
    return both / max(len(one), len(other))


@pytest.mark.parametrize(
    ("file", "count"),
    [
        ("d19_mi300x_ddp_resnet18_stack.json.gz", 5),
        ("d22_rtx2080ti_linear.json.gz", 40),
        ("d03_v100_2rank_5steps_mem_occ_nccl.json.gz", 5),
        ("d04_a100_8rank_6steps_occ_nccl.json.gz", 6),
        ("d21_a100_nccl_3steps.json.gz", 3),
    ],
)
@pytest.mark.nightly
def test_a_loop_has_the_steps_of_the_profiler_and_two_of_them_are_no_loop(
    shared_trace: Callable[[str], Path], tmp_path: Path, file: str, count: int
) -> None:
    """Recorded training without the marks of its profiler; then only what began in its first two iterations."""
    with gzip.open(shared_trace(file)) as stream:
        document: dict[str, Any] = json.load(stream)
    events = [each for each in document["traceEvents"] if not str(each.get("name")).startswith("ProfilerStep")]
    marks = [
        each["ts"] + each["dur"]
        for each in events
        if str(each.get("name")).startswith("Optimizer.step") and "gpu" not in str(each.get("cat"))
    ]
    assert len(marks) == count
    whole = written(tmp_path / "whole.json", {**document, "traceEvents": events})
    assert (len(steps(whole)), steps(whole).is_guess) == (count, True)
    cut = [each for each in events if each.get("ph") == "M" or each.get("ts", 0) <= sorted(marks)[1]]
    assert len(steps(written(tmp_path / "cut.json", {**document, "traceEvents": cut}))) == 0


def written(path: Path, document: dict[str, Any]) -> Trace:
    path.write_text(json.dumps(document))
    return load(str(path))


@pytest.mark.parametrize(
    "file", ["d25_h100_hf_qwen15_24layers.json.gz", "inference/i03_mi300x_vllm_tp4_no_annotations.json.gz"]
)
@pytest.mark.full
def test_steps_that_are_named_stay(shared_trace: Callable[[str], Path], file: str) -> None:
    found_by = steps(loaded(shared_trace(file))).found_by
    assert found_by == PROFILER_STEP or found_by.startswith("frame ")
