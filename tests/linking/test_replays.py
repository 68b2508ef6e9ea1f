"""Graph replays: one launch with many kernels, and which replays are of the same graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests.support.build import Event, kernel, launch, make_trace, op, step
from tests.support.graphs import replay
from tests.support.slow import slow_events
from tracetui.linking.links import links
from tracetui.linking.placement import step_index
from tracetui.linking.replays import replays
from tracetui.model.trace import Kind
from tracetui.panes import PANES
from tracetui.reading.load import load


def test_replays_of_the_same_kernels_in_the_same_order_are_one_graph() -> None:
    orders = [["a", "b", "c"], ["a", "c", "b"], ["a", "b", "c"], ["a", "b"]]
    trace = make_trace([event for i, names in enumerate(orders) for event in replay(i * 10_000, i + 1, names)])
    found = replays(trace)
    assert found.graph.tolist() == [0, 1, 0, 2]
    assert found.times.tolist() == [2, 1, 2, 1]
    assert found.nodes.tolist() == [3, 3, 3, 2]
    assert found.signature[0] == found.signature[2] != found.signature[1]


def test_a_recorded_graph_id_tells_equal_graphs_apart() -> None:
    ids = {1: 7, 2: 8, 3: 7}
    events = [
        event for key, graph in ids.items() for event in replay(key * 10_000, key, ["a", "b"], **{"graph id": graph})
    ]
    assert replays(make_trace(events)).graph.tolist() == [0, 1, 0]


def test_only_the_first_node_has_a_latency_and_the_call_is_shared() -> None:
    trace = make_trace(replay(1_000, 5, ["a", "b", "c", "d"]))
    found = replays(trace)
    assert (found.latency.tolist(), found.cost.tolist()) == ([500], [25.0])
    assert [row["launch_delay_us"] for row in PANES["kernels"].build(trace).rows()] == [0.5, None, None, None]


def test_a_graph_of_one_node_is_a_replay_and_a_plain_launch_is_not() -> None:
    trace = make_trace([*replay(0, 1, ["a"]), launch(5_000, 10, 2), kernel("b", 6_000, 10, correlation=2)])
    found = replays(trace)
    assert len(found) == 1
    assert found.of_launch(int(links(trace).launch[found.first[0]])) == 0
    assert found.of_launch(int(links(trace).launches[1])) == -1
    assert [row["graph"] for row in PANES["kernels"].build(trace).rows()] == ["graph 1", None]


def test_all_nodes_take_the_step_of_the_launch() -> None:
    trace = make_trace([step(1, 0, 520), step(2, 520, 1_000), *replay(100, 1, ["a", "b"])])
    assert step_index(trace, links(trace).gpu).tolist() == [0, 0]


def test_kernels_are_grouped_by_graph() -> None:
    events = [
        op("forward", 0, 400),
        *replay(100, 1, ["a", "b"]),
        *replay(10_000, 2, ["a", "b"]),
        *replay(20_000, 3, ["c"]),
    ]
    table = PANES["kernels"].build(make_trace(events), by="graph")
    first, second = table.rows()
    assert (first["graph"], first["op"], first["replays"], first["nodes"]) == ("graph 1", "forward", 2, 2)
    assert (first["total_us"], first["call_us"], first["call_per_node_us"]) == (0.04, 0.1, 0.05)
    assert (second["graph"], second["op"], second["total_us"]) == ("graph 2", None, 0.01)


def test_grouping_by_graph_is_offered_only_where_graphs_were_replayed() -> None:
    plain = make_trace([launch(0, 10, 1), Event("k", 50, 10, Kind.KERNEL, ("0", "7"), correlation=1)])
    assert "graph" not in PANES["kernels"].offered(plain)
    assert "graph" in PANES["kernels"].offered(make_trace(replay(0, 1, ["a"])))
    assert "No graph" in PANES["kernels"].build(plain, by="graph").note


def test_the_replays_of_a_real_trace(shared_trace: Callable[[str], Path]) -> None:
    path = shared_trace("d10_cudagraph_stack.json")
    events = slow_events(path)
    calls = {e["args"]["correlation"]: e for e in events if e.get("name") == "cudaGraphLaunch"}
    nodes = Counter(
        e["args"]["correlation"]
        for e in events
        if e.get("ph") == "X" and e.get("cat", "").lower() in ("kernel", "memcpy", "memset", "gpu_memcpy", "gpu_memset")
    )
    found = replays(load(str(path)))
    assert len(found) == 20
    assert sorted(found.nodes.tolist()) == sorted(nodes[key] for key in calls)
    assert set(found.graph.tolist()) == {0}
    assert np.allclose(sorted(found.cost * found.nodes), sorted(1000 * e["dur"] for e in calls.values()))
