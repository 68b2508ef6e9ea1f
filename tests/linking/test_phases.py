"""Parts of a step on the CPU: of several at one moment the more telling one, and no moment twice."""

from __future__ import annotations

import numpy as np

from tests.support.build import Event, make_trace, op
from tracetui.linking.autograd import Phase, phase_spans
from tracetui.model.trace import Kind

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
