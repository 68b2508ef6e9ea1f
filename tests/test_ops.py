"""Operators by name, against a literal version of what torch does."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from tests.build import Event, kernel, launch, make_trace, op, step
from tracetui.analysis.panes import PANES
from tracetui.model.trace import Kind, Trace


@dataclass
class Node:
    """One event in torch's tree."""

    event: Event
    own: list[int]
    children: list[Node] = field(default_factory=list)

    def device(self) -> int:
        return sum(self.own) + sum(child.device() for child in self.children)


def literal(events: list[Event], kernels: dict[str, list[int]]) -> dict[str, tuple[int, int, int, int, int]]:
    """Calls, self CPU, CPU total, self device and device total by name (rules 7 to 10 of semantics 3(d))."""
    roots: list[Node] = []
    stack: list[Node] = []
    nodes = []
    for event in sorted(events, key=lambda event: (event.start, -event.dur)):
        end = event.start + event.dur
        while stack:
            top = stack[-1].event
            if event.start < top.start + top.dur and end <= top.start + top.dur:
                break
            stack.pop()
        node = Node(event, list(kernels.get(event.name, [])) if event.dur else [])
        (stack[-1].children if stack else roots).append(node)
        stack.append(node)
        nodes.append(node)
    removed = True
    gone: set[int] = set()
    while removed:
        removed = False
        for node in nodes:
            if id(node) in gone or len(node.children) != 1 or node.children[0].event.name != node.event.name:
                continue
            child = node.children[0]
            node.children, node.own = child.children, child.own
            gone.add(id(child))
            removed = True
    rows: dict[str, list[int]] = defaultdict(lambda: [0] * 5)
    for node in nodes:
        if id(node) in gone:
            continue
        dur = node.event.dur
        parts = (1, dur - sum(child.event.dur for child in node.children), dur, sum(node.own), node.device())
        rows[node.event.name] = [a + b for a, b in zip(rows[node.event.name], parts, strict=True)]
    return {name: (row[0], row[1], row[2], row[3], row[4]) for name, row in rows.items()}


def ours(trace: Trace) -> dict[str, tuple[int, int, int]]:
    return {
        str(row["name"]): (int(str(row["calls"])), round(1000 * row["self_cpu_us"]), round(1000 * row["cpu_total_us"]))  # type: ignore[operator, arg-type]
        for row in PANES["ops"].build(trace).rows()
    }


intervals = st.tuples(st.integers(0, 60), st.integers(0, 40), st.sampled_from("abc"))


@given(st.lists(intervals, max_size=25, unique_by=lambda item: item[:2]))
def test_calls_and_times_are_torchs(items: list[tuple[int, int, str]]) -> None:
    events = [op(name, start, dur) for start, dur, name in items]
    expected = {name: row[:3] for name, row in literal(events, {}).items()}
    assert ours(make_trace(events)) == expected


def test_device_times_add_up_along_the_tree() -> None:
    trace = make_trace(
        [
            step(1, 0, 1_000),
            op("aten::linear", 10, 500),
            op("aten::addmm", 100, 300),
            launch(150, 20, 1),
            launch(200, 20, 2),
            kernel("gemm", 2_000, 100, correlation=1),
            kernel("add", 2_100, 50, correlation=2),
        ]
    )
    rows = {row["name"]: row for row in PANES["ops"].build(trace).rows()}
    assert set(rows) == {"ProfilerStep*", "aten::linear", "aten::addmm", "cudaLaunchKernel"}
    outer, inner = rows["aten::linear"], rows["aten::addmm"]
    assert (outer["self_device_us"], outer["device_total_us"], outer["kernels"]) == (0.0, 0.15, 2)
    assert (inner["self_device_us"], inner["device_total_us"], inner["kernels"]) == (0.15, 0.15, 2)
    assert (outer["self_cpu_us"], inner["self_cpu_us"]) == (0.2, 0.26)
    assert (rows["cudaLaunchKernel"]["calls"], rows["cudaLaunchKernel"]["kernels"]) == (2, 2)
    assert rows["ProfilerStep*"]["kind"] == "annotation"


def test_an_op_that_only_calls_itself_counts_once_with_the_inner_kernels() -> None:
    trace = make_trace(
        [op("a", 0, 100), op("a", 10, 80), launch(20, 10, 1, name="x"), kernel("k", 200, 7, correlation=1)]
    )
    (row,) = [row for row in PANES["ops"].build(trace).rows() if row["name"] == "a"]
    assert (row["calls"], row["cpu_total_us"], row["self_cpu_us"], row["device_total_us"]) == (1, 0.1, 0.09, 0.007)


def test_python_frames_and_dropped_names_leave_their_time_to_the_caller() -> None:
    trace = make_trace(
        [
            op("outer", 0, 100),
            Event("f.py(1): f", 10, 80, Kind.PYTHON),
            op("inner", 20, 30),
            op("aten::is_leaf", 60, 10),
        ]
    )
    rows = {row["name"]: row for row in PANES["ops"].build(trace).rows()}
    assert set(rows) == {"outer", "inner"}
    assert rows["outer"]["self_cpu_us"] == 0.07
    assert rows["outer"]["device_total_us"] is None


def test_a_step_takes_only_what_began_in_it() -> None:
    trace = make_trace([step(1, 0, 100), step(2, 100, 100), op("a", 10, 20), op("a", 110, 30)])
    rows = {row["name"]: row for row in PANES["ops"].build(trace, step=2).rows()}
    assert (rows["a"]["calls"], rows["a"]["cpu_total_us"]) == (1, 0.03)
