"""Nodes of captured graphs: what they run, dependencies, marks, replays."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.build import Event, annotation, kernel, launch, make_trace, memcpy, op, python, step
from tests.support.captures import CapturedLaunch, captured, recording
from tests.support.graphs import replay
from tests.support.paths import SHARED
from tests.support.slow import slow_events
from tests.support.traces import loaded
from tracetui.idle.gaps import gaps
from tracetui.linking.graph_nodes import capture_counts, graph_nodes, refusals
from tracetui.linking.graph_recordings import ANY_KERNEL, MIN_EQUAL_SHARE, align, batch_in_name, recorded_graphs
from tracetui.linking.lines import known_sites
from tracetui.linking.links import links
from tracetui.linking.placement import step_index
from tracetui.linking.replays import MARKED, replays
from tracetui.model.recorded import GraphRecording
from tracetui.model.trace import Kind, Trace
from tracetui.panes import PANES
from tracetui.reading.load import load
from tracetui.tables.kernels import kernels

NORM, PRODUCT, ADD = (
    CapturedLaunch("aten::rms_norm", "norm_kernel", "Norm_0", "model.py(5): norm"),
    CapturedLaunch("aten::mm", "gemm_kernel", "Linear_0", "model.py(9): project"),
    CapturedLaunch("aten::add", "add_kernel", "Block_0", "model.py(12): forward"),
)
LAYER = [NORM, PRODUCT, ADD]
NAMES = ["norm_kernel", "gemm_kernel", "add_kernel"]


def with_recording(events: list[Event], *recordings: GraphRecording) -> Trace:
    return replace(make_trace(events), graph_recordings=recordings)


def told(trace: Trace, column: str = "op") -> list[str | None]:
    """What the Kernels pane says about each activity by start, `~` before what is inferred."""
    table = kernels(trace)
    cells = [table[column].cell(row) for row in range(len(table))]
    marked = [f"~{cell}" if table[column].is_doubtful(row) else cell for row, cell in enumerate(cells)]
    return [None if cell is None else str(cell) for cell in marked]


def test_the_capture_in_the_same_trace_names_operator_function_and_module():
    trace = make_trace([*captured([LAYER]), *replay(10_000, 91, NAMES), *replay(20_000, 92, NAMES)])
    assert told(trace) == ["~aten::rms_norm", "~aten::mm", "~aten::add"] * 2
    assert told(trace, "function")[:3] == ["~model.py(5): norm", "~model.py(9): project", "~model.py(12): forward"]
    assert told(trace, "module")[:3] == ["~Norm_0", "~Linear_0", "~Block_0"]
    assert capture_counts(trace).words == "6 of 6 by the capture in this trace"


def test_without_a_capture_nothing_is_said():
    trace = make_trace(replay(10_000, 91, NAMES))
    assert told(trace) == [None] * 3
    assert told(trace, "function") == [None] * 3
    assert known_sites(trace) == ()
    assert capture_counts(trace).words is None
    assert refusals(trace) == []


def test_a_recording_in_another_file_does_the_same_and_call_sites_are_known():
    trace = with_recording(replay(10_000, 91, NAMES), recording([LAYER]))
    assert told(trace) == ["~aten::rms_norm", "~aten::mm", "~aten::add"]
    assert known_sites(trace) == ("function", "module")
    assert capture_counts(trace).words == "3 of 3 by capture.json"
    by_module = {row["module"]: row["calls"] for row in kernels(trace, by="module").rows()}
    assert by_module == {"Norm_0": 1, "Linear_0": 1, "Block_0": 1}
    by_op = kernels(trace, by="op")
    assert all(by_op["op"].is_doubtful(row) for row in range(3))


def test_the_list_of_graphs_says_what_is_known_of_each():
    events = [*replay(10_000, 91, NAMES), *replay(20_000, 92, ["other", "names", "entirely"])]
    table = kernels(with_recording(events, recording([LAYER])), by="graph")
    said = {row["graph"]: row["captured_by"] for row in table.rows()}
    assert said == {
        "graph 1": "3 of 3 by capture.json",
        "graph 2": "unknown: capture.json shares 0 % of its names",
    }
    assert "captured_by" not in kernels(make_trace(events), by="graph")


def test_a_gap_before_a_replay_is_put_down_to_the_launch_and_one_within_it_to_the_capture():
    call = python("serve.py(3): decode", 9_900, 500)
    events = [kernel("before", 1_000, 10), call, launch(10_000, 100, 91, "cudaGraphLaunch")]
    events += [kernel(name, 20_000 + 10_000 * n, 10, correlation=91) for n, name in enumerate(NAMES)]
    table = gaps(with_recording(events, recording([LAYER])))
    cells = [(table["function"].cell(row), table["function"].is_doubtful(row)) for row in range(len(table))]
    assert cells == [
        ("serve.py(3): decode", False),
        ("model.py(9): project", True),
        ("model.py(12): forward", True),
    ]
    grouped = gaps(with_recording(events, recording([LAYER])), by="function")
    assert {row["function"]: row["gaps"] for row in grouped.rows()} == {
        "serve.py(3): decode": 1,
        "model.py(9): project": 1,
        "model.py(12): forward": 1,
    }


def test_what_warms_up_before_the_capture_does_not_count():
    events = captured([LAYER], warm_up=LAYER)
    assert len(recorded_graphs(make_trace(events)).kind) == 3
    assert told(with_recording(replay(10_000, 91, NAMES), recorded_graphs(make_trace(events), "x"))) == [
        "~aten::rms_norm",
        "~aten::mm",
        "~aten::add",
    ]
    assert len(recorded_graphs(make_trace([each for each in events if "Capture" not in each.name]))) == 0


@pytest.mark.parametrize(("different", "equal"), [(1, 9), (2, 0)])
def test_nine_tenths_of_the_names_must_be_equal(different, equal):
    graph = [CapturedLaunch(f"op{index}", f"kernel_{index}x") for index in range(10)]
    names = [f"kernel_{index}x" if index >= different else "another_kernel" for index in range(10)]
    trace = with_recording(replay(10_000, 91, names), recording([graph]))
    assert told(trace) == (
        [None] * different + [f"~op{index}" for index in range(different, 10)] if equal else [None] * 10
    )
    (match,) = graph_nodes(trace).matches
    assert (match.equal, match.shared) == (equal, (10 - different) / 10)
    assert (refusals(trace) == []) == bool(equal)
    if not equal:
        assert refusals(trace) == [
            "The operators of graph 1 (10 nodes) stay unknown: no graph of capture.json has 90 % of its names in "
            "order; the nearest shares 80 % of them."
        ]


def test_copies_match_copies_whatever_they_are_called_and_no_kernel():
    copy = CapturedLaunch("aten::copy_", None, call="hipMemcpyAsync")
    call = launch(10_000, 100, 91, "hipGraphLaunch")
    nodes = [
        memcpy("Memcpy DtoD (Device -> Device)", 10_500, 10, correlation=91),
        kernel("norm_kernel", 10_520, 10, correlation=91),
        kernel("__amd_rocclr_copyBuffer", 10_540, 10, correlation=91),
    ]
    assert told(with_recording([call, *nodes], recording([[copy, NORM, copy]]))) == [
        "~aten::copy_",
        "~aten::rms_norm",
        "~aten::copy_",
    ]
    assert told(with_recording([call, *nodes], recording([[NORM, copy, copy]]))) == [None] * 3


def test_streams_side_by_side_are_put_back_into_the_order_of_the_capture():
    left, right = [CapturedLaunch(f"l{n}", f"left_{n}x") for n in range(5)], [CapturedLaunch("r", "right")] * 5
    graph = [each for pair in zip(left, right, strict=True) for each in pair]
    call = launch(10_000, 100, 91, "hipGraphLaunch")
    nodes = [kernel(each.kernel or "", 10_500 + 50 * n, 10, correlation=91) for n, each in enumerate(left)]
    nodes += [kernel("right", 10_501 + n, 1, "stream 8", correlation=91) for n in range(5)]
    trace = with_recording([call, *nodes], recording([graph]))
    assert sorted(each or "" for each in told(trace)) == sorted(["~r"] * 5 + [f"~l{n}" for n in range(5)])
    one_stream = [replace(each, lane=("0", "stream 7")) for each in nodes]
    assert told(with_recording([call, *one_stream], recording([graph]))) == [None] * 10


def test_graph_node_ids_say_the_order_whatever_graph_is_in_their_upper_half():
    graph = [CapturedLaunch(f"op{index}", "same") for index in range(3)]
    call = launch(10_000, 100, 91, "cudaGraphLaunch")
    order = [2, 0, 1]

    def nodes(ids: list[int]) -> list[Event]:
        return [
            kernel(
                "same", 10_500 + 20 * place, 10, f"stream {7 + place}", correlation=91, args={"graph node id": number}
            )
            for place, number in enumerate(ids)
        ]

    packed = nodes([(7 << 32) + 5 + number for number in order])
    assert told(with_recording([call, *packed], recording([graph]))) == ["~op2", "~op0", "~op1"]
    absent = nodes([0, 0, 0])
    assert told(with_recording([call, *absent], recording([graph]))) == ["~op0", "~op1", "~op2"]


def test_launches_without_names_match_by_position_unless_operators_say_otherwise():
    graph = [replace(each, kernel=None, call="cudaLaunchKernel") for each in LAYER]
    fitting = ["norm_kernel", "ampere_sgemm_128x64_nn", "add_kernel"]
    trace = with_recording(replay(10_000, 91, fitting), recording([graph]))
    assert told(trace) == ["~aten::rms_norm", "~aten::mm", "~aten::add"]
    assert capture_counts(trace).words == "3 of 3 by capture.json, 3 by position only"
    turned = with_recording(replay(10_000, 91, fitting[::-1]), recording([[*graph[:2], graph[1]]]))
    assert told(turned) == [None] * 3
    longer = with_recording(replay(10_000, 91, [*fitting, "add_kernel"]), recording([graph]))
    assert told(longer) == [None] * 4


def test_a_lost_node_leaves_the_others_known():
    graph = [CapturedLaunch(f"op{index}", f"kernel_{index}x") for index in range(20)]
    names = [f"kernel_{index}x" for index in range(20) if index != 4]
    trace = with_recording(replay(10_000, 91, names), recording([graph]))
    assert told(trace) == [f"~op{index}" for index in range(20) if index != 4]
    shorter = with_recording(replay(10_000, 91, names[:-3]), recording([graph]))
    assert told(shorter) == [None] * 16
    assert "the nearest shares 80 % of them" in refusals(shorter)[0]


def _piece(layer: int) -> list[CapturedLaunch]:
    return [CapturedLaunch("aten::mm", "gemm_kernel", f"Layer_{layer}"), CapturedLaunch("aten::add", "add_kernel")]


PIECES = [[CapturedLaunch("aten::embedding", "embedding")], _piece(0), _piece(1), _piece(2), [NORM]]
NAMES_OF_PIECES = [[each.kernel or "" for each in piece] for piece in PIECES]


def _replayed(order: list[int], at: int = 10_000) -> list[Event]:
    return [
        event
        for place, piece in enumerate(order)
        for event in replay(at + 1000 * place, 91 + place, NAMES_OF_PIECES[piece])
    ]


@pytest.mark.parametrize("first", [0, 2, 4])
def test_pieces_of_one_name_are_told_apart_by_their_order_wherever_the_trace_begins(first):
    order = [(first + place) % 5 for place in range(12)]
    trace = with_recording(_replayed(order), recording(PIECES))
    modules = [piece[0].module for piece in (PIECES[index] for index in order)]
    assert [each for each in told(trace, "module") if each] == [f"~{module}" for module in modules if module]


def test_without_a_unique_piece_the_operator_is_known_and_the_layer_is_not():
    trace = with_recording(_replayed([1, 2, 3, 1, 2, 3]), recording(PIECES[1:4]))
    assert told(trace) == ["~aten::mm", "~aten::add"] * 6
    assert told(trace, "module") == [None] * 12


def test_a_replay_between_that_is_unknown_breaks_the_order():
    events = [*_replayed([0, 1]), *replay(12_500, 300, ["never captured"]), *_replayed([2, 3, 1], 13_000)]
    renumbered = [replace(each, correlation=each.correlation + each.start // 12_000 * 1000) for each in events]
    assert [each for each in told(with_recording(renumbered, recording(PIECES)), "module") if each] == ["~Layer_0"]


@pytest.mark.parametrize(
    ("step", "shapes"),
    [
        ("execute_context_0(0)_generation_3(3)", "[[4]]"),
        ("execute_4_context_0(sq0sk0sqsq0sqsk0)_generation_4(sq4sk9sqsq4sqsk9)", "[[4]]"),
        ("execute_context_1(4)_generation_3(3)", "[[8]]"),
        ("step[DECODE bs=5]", "[[8]]"),
        ("decode[bs=8/8 tok=8 d=8]", "[[8]]"),
        ("step[DECODE bs=9]", None),
        ("anything", None),
    ],
)
def test_the_batch_size_says_which_of_several_graphs_with_the_same_names_it_is(step, shapes):
    recordings = []
    for batch in (4, 8):
        given = recording([LAYER], f"bs_{batch}.json", f"capture_{batch}_FULL")
        number = given.texts.intern(f"[[{batch}]]")
        recordings.append(replace(given, shapes=np.full(3, number, np.int32)))
        assert recordings[-1].batch.tolist() == [batch]
    trace = with_recording([annotation(step, 9_000, 3_000), *replay(10_000, 91, NAMES)], *recordings)
    nodes = graph_nodes(trace)
    assert [nodes.texts[number] if number >= 0 else None for number in nodes.shapes] == [shapes] * 3
    assert told(trace) == ["~aten::rms_norm", "~aten::mm", "~aten::add"]


@pytest.mark.parametrize(("step", "shapes"), [("step[DECODE bs=4]", "[[4]]"), ("step[DECODE bs=5]", None)])
def test_a_graph_for_a_smaller_batch_tells_the_operator_and_no_shapes(step, shapes):
    given = recording([LAYER], "bs_4.json", "capture_4_FULL")
    given = replace(given, shapes=np.full(3, given.texts.intern("[[4]]"), np.int32))
    trace = with_recording([annotation(step, 9_000, 3_000), *replay(10_000, 91, NAMES)], given)
    nodes = graph_nodes(trace)
    assert [nodes.texts[number] if number >= 0 else None for number in nodes.shapes] == [shapes] * 3
    assert told(trace) == ["~aten::rms_norm", "~aten::mm", "~aten::add"]


def test_a_batch_size_in_a_file_name_counts_as_a_whole_number():
    assert batch_in_name("bs_32_rank0.json.gz") == 32
    assert batch_in_name("bs_8_q_1_rank0.json.gz") == 8
    assert batch_in_name("graph_capture_rank_0.17.pt.trace.json.gz") == -1
    assert batch_in_name("obs_32x.json") == -1


@given(st.lists(st.integers(0, 3), min_size=10, max_size=40), st.data())
def test_an_alignment_keeps_names_and_never_uses_a_launch_twice(names, data):
    lost = data.draw(st.sets(st.integers(0, len(names) - 1), max_size=2))
    nodes = np.array([name for index, name in enumerate(names) if index not in lost], np.int64)
    streams = np.array(data.draw(st.lists(st.integers(0, 1), min_size=len(nodes), max_size=len(nodes))), np.int64)
    launches = np.array(names, np.int64)
    alignment = align(nodes, streams, launches)
    tied = alignment.launch[alignment.launch >= 0]
    assert len(set(tied.tolist())) == len(tied)
    assert (launches[tied] == nodes[alignment.launch >= 0]).all()
    assert alignment.share == pytest.approx(len(tied) / max(len(nodes), len(launches)))
    if not lost:
        assert alignment.share == 1
    unnamed = align(nodes, streams, np.full(len(nodes), ANY_KERNEL))
    assert unnamed.by_position.all()
    assert align(nodes, streams, launches[:5]).share < MIN_EQUAL_SHARE


def longest_common(first: list[int], second: list[int]) -> int:
    """Length of the longest common subsequence, cell by cell."""
    table = [[0] * (len(second) + 1) for _ in range(len(first) + 1)]
    for row, one in enumerate(first):
        for column, other in enumerate(second):
            longer = max(table[row][column + 1], table[row + 1][column])
            table[row + 1][column + 1] = table[row][column] + 1 if one == other else longer
    return table[-1][-1]


@given(st.lists(st.integers(0, 3), min_size=10, max_size=30), st.data())
def test_of_lists_that_differ_a_little_as_much_as_possible_is_aligned(launches, data):
    nodes = list(launches)
    for _ in range(data.draw(st.integers(0, 3))):
        place = data.draw(st.integers(0, len(nodes) - 1))
        if data.draw(st.booleans()):
            nodes.insert(place, data.draw(st.integers(0, 3)))
        elif len(nodes) > 1:
            del nodes[place]
    alignment = align(np.array(nodes, np.int64), np.zeros(len(nodes), np.int64), np.array(launches, np.int64))
    common = longest_common(nodes, launches)
    tied = alignment.launch[alignment.launch >= 0]
    assert (np.diff(tied) > 0).all()
    if common >= MIN_EQUAL_SHARE * max(len(nodes), len(launches)):
        assert MIN_EQUAL_SHARE * max(len(nodes), len(launches)) <= len(tied) <= common
    else:
        assert alignment.share < MIN_EQUAL_SHARE


@pytest.mark.full
def test_a_decode_step_of_vllm_with_its_capture():
    folder = SHARED / "inference"
    if not folder.exists():
        pytest.skip("needs ../shared/traces, which is not there")
    found = recorded_graphs(load(str(folder / "i01c_capture_bs32.json.gz")), "i01c")
    assert (found.bounds.tolist(), found.batch.tolist()) == ([0, 421], [32])
    trace = replace(load(str(folder / "i01_mi300x_vllm_decode_full_graph.json.gz")), graph_recordings=(found,))
    nodes = graph_nodes(trace)
    assert [(match.nodes, match.equal, match.shared) for match in nodes.matches] == [(421, 421, 1.0)]
    assert [trace.name_of(row) for row in nodes.rows] == [found.text(number) for number in found.kernel]
    assert nodes.launch.tolist() == list(range(421))
    assert {row["op"]: row["calls"] for row in kernels(trace, by="op").rows()}["aten::addmm"] == 72
    other = replace(load(str(folder / "i02_mi300x_sglang_decode_nested.json.gz")), graph_recordings=(found,))
    assert len(graph_nodes(other)) == 0
    assert "(544 nodes) stay unknown" in refusals(other)[0]


NODE = {"graph id": 5, "graph node id": 1}


def row(args: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """The row of a kernel with some args."""
    trace = make_trace([launch(0, 5, 1), kernel("gemm", 10, 5, correlation=1, args=args)], metadata=metadata)
    return next(iter(kernels(trace).rows()))


@pytest.mark.parametrize(
    ("args", "mark"),
    [
        ({"annotation": '[{"name": "block0"}]'}, "block0"),
        ({"annotation": '[{"name": "block0"}, {"name": "mlp", "pg": "dp"}]'}, "block0 / mlp"),
        ({"annotation": [{"name": "block0"}]}, "block0"),
        ({"annotation": {"name": "block0"}}, "block0"),
        ({"annotation": "block0"}, "block0"),
        ({"annotation": "7"}, "7"),
        ({"annotation": "[" * 100_000}, "[" * 100_000),
        (NODE | {"name": "block0"}, "block0"),
        ({"graph id": 5, "name": "block0"}, "block0"),
    ],
    ids=[*"abcdef", "deep", *"gh"],
)
def test_a_kernel_has_the_name_that_it_was_captured_under(args: dict[str, Any], mark: str) -> None:
    assert row(args)["graph_mark"] == mark


@pytest.mark.parametrize("args", [NODE, {"name": "block0"}, {}, {"annotation": None}])
def test_without_marks_there_is_no_such_column(args: dict[str, Any]) -> None:
    assert "graph_mark" not in row(args)


def test_an_annotation_without_a_name_is_no_mark() -> None:
    assert "graph_mark" not in row({"annotation": '[{"pg": "dp"}, 7]'}, **{MARKED: True})


def test_streams_of_marks_and_of_moved_lanes() -> None:
    marked = row(NODE | {"annotated_stream": 1000, "stream": 7})
    assert (marked["annotated_stream"], "original_stream" in marked) == (1000, False)
    moved = row(NODE | {"original_stream": 20, "stream": 7})
    assert (moved["original_stream"], "annotated_stream" in moved) == (20, False)
    kept = row(NODE | {"name": "block0", "stream": 20})
    assert kept["original_stream"] == 20
    assert "original_stream" not in row(NODE | {"name": "block0", "stream": 7})


@pytest.mark.skipif(not (SHARED / "pftrace").exists(), reason="no shared traces beside the checkout")
@pytest.mark.parametrize("name", ["graph_counters.json", "graph_counters.pftrace.gz", "kineto_counters.json"])
def test_the_marks_of_shared_traces(name: str) -> None:
    expected = json.loads((SHARED / "pftrace" / "expected.json").read_text())
    rows = [each for each in kernels(loaded(SHARED / "pftrace" / name)).rows() if each["graph_mark"]]
    assert {each["graph_mark"] for each in rows} == {"block0", "allreduce"}
    if name.startswith("kineto"):
        facts = expected["kineto_counters.json"]["facts"]
        (stream,) = {each["annotated_stream"] for each in rows if each["stream"] == 20}
        assert stream == facts["annotated_stream_of_stream_20"]
        return
    facts = expected["graph_counters.pftrace.gz"]["facts"]
    for lane in (1000, 1001):
        (stream,) = {each["original_stream"] for each in rows if each["stream"] == lane}
        assert stream == facts[f"capture_stream_of_lane_{lane}"]


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
