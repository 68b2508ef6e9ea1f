"""Nodes of graphs that wait for each other: arrows are dependencies, and never launches (R2.13)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import SHARED
from tests.support.traces import loaded
from tracetui.linking.chains import (
    FIRST_DEPENDENCY_ID,
    chain,
    follow,
    graph_dependencies,
    launch_of_node,
    node_launches,
)
from tracetui.linking.links import links
from tracetui.model.trace import Kind, Trace
from tracetui.reading.load import load
from tracetui.ui.trace.selection import highlighted_with
from tracetui.ui.trace.slice_description import graph_node_facts

LAUNCH = {"ph": "X", "cat": "cuda_runtime", "name": "cudaGraphLaunch", "pid": 1, "tid": 1, "ts": 0, "dur": 5}


def node(cat: str, name: str, ts: float, dur: float, tid: int = 7, correlation: int = 9) -> dict[str, Any]:
    """A node of a replay."""
    return {"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": tid, "ts": ts, "dur": dur} | {
        "args": {"correlation": correlation}
    }


def arrow(number: int, start: tuple[int, float], end: tuple[int, float], first: int = FIRST_DEPENDENCY_ID) -> list[Any]:
    """An arrow from a lane and time to another."""
    common = {"cat": "ac2g", "name": "ac2g", "pid": 0, "id": first + number}
    (tid, ts), (to, until) = start, end
    return [common | {"ph": "s", "tid": tid, "ts": ts}, common | {"ph": "f", "tid": to, "ts": until, "bp": "e"}]


def read(tmp_path: Path, *events: Any) -> Trace:
    """A trace of a graph launch and these events."""
    path = tmp_path / "graph.json"
    every = [LAUNCH | {"args": {"correlation": 9}}, *events]
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": every}))
    return load(str(path))


def replay(tmp_path: Path, *more: Any) -> Trace:
    """Two kernels on two streams and an event node between them."""
    return read(
        tmp_path,
        node("kernel", "gemm", 10, 5),
        node("graph_event_node", "EventRecord", 16, 0),
        node("kernel", "norm", 20, 5, 8),
        *more,
    )


def named(trace: Trace) -> list[tuple[str, str]]:
    """The dependencies by name."""
    edges = graph_dependencies(trace)
    return [
        (trace.name_of(a), trace.name_of(b)) for a, b in zip(edges.before.tolist(), edges.after.tolist(), strict=True)
    ]


def row(trace: Trace, name: str) -> int:
    """The row of the slice with a name."""
    return next(index for index in range(len(trace.slices)) if trace.name_of(index) == name)


def test_arrows_join_nodes_and_launch_nothing(tmp_path: Path) -> None:
    trace = replay(tmp_path, *arrow(0, (7, 15), (7, 16)), *arrow(1, (7, 16), (8, 20)))
    assert named(trace) == [("gemm", "EventRecord"), ("EventRecord", "norm")]
    found = links(trace)
    assert {trace.name_of(int(found.launch[each])) for each in found.gpu.tolist()} == {"cudaGraphLaunch"}


def test_smaller_ids_are_no_dependencies(tmp_path: Path) -> None:
    assert named(replay(tmp_path, *arrow(0, (7, 15), (8, 20), first=100))) == []


def test_an_arrow_may_run_backwards_in_time(tmp_path: Path) -> None:
    assert named(replay(tmp_path, *arrow(0, (8, 25), (7, 10)))) == [("norm", "gemm")]


def test_an_end_at_no_node_or_at_two_is_no_dependency(tmp_path: Path) -> None:
    assert named(replay(tmp_path, *arrow(0, (7, 14), (8, 20)))) == []
    both = node("graph_event_node", "EventRecord 2", 15, 0)
    assert named(replay(tmp_path, both, *arrow(0, (7, 15), (8, 20)))) == []


def test_a_node_leads_to_its_launch_and_names_its_dependencies(tmp_path: Path) -> None:
    trace = replay(tmp_path, *arrow(0, (7, 15), (7, 16)), *arrow(1, (7, 16), (8, 20)))
    event, call = row(trace, "EventRecord"), row(trace, "cudaGraphLaunch")
    assert (launch_of_node(trace, event), follow(trace, event), chain(trace, event)) == (call, call, [call, event])
    assert highlighted_with(trace, event) == {call, row(trace, "gemm"), row(trace, "norm")}
    told = {fact.label: fact.value for fact in graph_node_facts(trace, event)}
    assert told["launched by"] == "cudaGraphLaunch"
    assert "gemm" in told["waited for"].lower()
    assert "norm" in told["needed by"]
    assert [fact.label for fact in graph_node_facts(trace, row(trace, "gemm"))] == ["needed by"]
    assert list(graph_node_facts(trace, call)) == []


def test_a_node_without_correlation_has_no_launch(tmp_path: Path) -> None:
    trace = read(tmp_path, node("graph_host_node", "HostNode: log", 30, 5, correlation=0))
    event = row(trace, "HostNode: log")
    assert launch_of_node(trace, event) == follow(trace, event) == -1
    assert chain(trace, event) == [event]


@pytest.mark.skipif(not (SHARED / "pftrace").exists(), reason="no shared traces beside the checkout")
@pytest.mark.parametrize("name", ["graph_counters.json", "graph_counters.pftrace.gz"])
def test_dependencies_and_nodes_are_those_of_the_window(name: str) -> None:
    facts = json.loads((SHARED / "pftrace" / "expected.json").read_text())["graph_counters.pftrace.gz"]["facts"]
    trace = loaded(SHARED / "pftrace" / name)
    assert len(graph_dependencies(trace)) == facts["dependency_arrows"]
    kinds = [(Kind.GRAPH_EVENT, "EventRecord"), (Kind.GRAPH_HOST, "HostNode"), (Kind.GPU_ANNOTATION, "Annotation")]
    for kind, stage in [*kinds, (Kind.KERNEL, "Kernel"), (Kind.MEMCPY, "Memcpy")]:
        assert len(trace.slices.of_kind(kind)) == facts["render_stages"][stage]
    rows, launch = node_launches(trace)
    calls = [row for row in range(len(trace.slices)) if trace.name_of(row) == "cudaGraphLaunch"]
    assert len(calls) == facts["graph_launches"]
    for call in calls:
        assert len(links(trace).kernels_of(call)) + int((launch == call).sum()) == facts["nodes_per_replay"]
    assert len(rows) == 6
