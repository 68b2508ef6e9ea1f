"""Kernels inside graphs in comparisons: they go by the operator that captured them, where that is known."""

from __future__ import annotations

from dataclasses import replace

from tests.support.build import Event, kernel, launch, make_trace, op
from tests.support.captures import CapturedLaunch, recording
from tests.support.comparing.small import together
from tests.support.graphs import replay
from tracetui.comparing.fusing import activity_classes
from tracetui.comparing.kernel_changes import kernel_changes
from tracetui.comparing.side import side
from tracetui.model.trace import Trace

OPS = ["aten::mul", "aten::add", "aten::mul"]
GRAPH = [CapturedLaunch(name, "elementwise") for name in OPS]
REPLAYED = replay(10_000, 91, ["elementwise"] * 3)


def eager(*names: str) -> Trace:
    events: list[Event] = []
    for place, name in enumerate(names):
        start = 1000 * place
        events += [op(name, start, 500), launch(start + 10, 50, place + 1)]
        events.append(kernel("elementwise", start + 200, 10, correlation=place + 1))
    return make_trace(events)


def captured() -> Trace:
    return replace(make_trace(REPLAYED), graph_recordings=(recording([GRAPH]),))


def test_a_class_has_the_captured_operator_and_says_that_it_is_inferred():
    known = activity_classes(captured()).known
    assert {(each.op, each.is_captured) for each in known} == {("aten::mul", True), ("aten::add", True)}
    plain = activity_classes(make_trace(REPLAYED)).known
    assert [(each.op, each.is_captured) for each in plain] == [("", False)]


def test_nodes_go_with_kernels_of_their_operator_and_by_name_alone_without_it():
    other = eager("aten::add", "aten::mul", "aten::mul")
    assert together(captured(), other).partner.tolist() == [1, 0, 2]
    assert together(make_trace(REPLAYED), other).partner.tolist() == [0, 1, 2]
    assert together(captured(), make_trace(REPLAYED)).partner.tolist() == [0, 1, 2]


def test_the_table_marks_operators_of_the_capture():
    a, b = side(captured()), side(eager(*OPS))
    found = {row["op"]: row["calls_a"] for row in kernel_changes(a, b).table.rows()}
    assert found == {"~aten::mul": 2, "~aten::add": 1}
    assert {row["op"] for row in kernel_changes(b, a).table.rows()} == {"aten::mul", "aten::add"}
