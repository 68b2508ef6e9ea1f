"""Nodes of a replay and captured launches, list against list; every field of a node; names that a program gave."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.build import Event, kernel, launch, make_trace, memcpy
from tests.support.captures import CapturedLaunch, recording
from tests.support.graphs import replay
from tracetui.linking.graph_nodes import GraphNodes, graph_nodes, op_names, with_captured_texts
from tracetui.linking.graph_recordings import ANY_KERNEL, COPY, FILL, MAX_EDITS, Alignment, align
from tracetui.model.recorded import GraphRecording, GraphScopes
from tracetui.model.trace import Kind, Trace

FIELDS = ("op", "function", "module", "shapes", "types")


def aligned(nodes: list[int], launches: list[int], streams: list[int] | None = None) -> Alignment:
    lanes = streams or [0] * len(nodes)
    return align(np.array(nodes, np.int64), np.array(lanes, np.int64), np.array(launches, np.int64))


def told(nodes: GraphNodes, field: str) -> list[str | None]:
    return [nodes.texts[number] if number >= 0 else None for number in getattr(nodes, field).tolist()]


def with_recordings(events: list[Event], *recordings: GraphRecording) -> Trace:
    return replace(make_trace(events), graph_recordings=recordings)


def graph_of(*names: str) -> list[CapturedLaunch]:
    return [CapturedLaunch(f"op {name}", name) for name in names]


def test_nodes_that_are_lost_and_added_leave_the_others_in_order() -> None:
    launches = list(range(20))
    # Four edits are a fifth of the longer list; one more, and less than nine tenths would be equal.
    found = aligned([*range(2, 20), 50, 51], launches)
    assert (found.launch.tolist(), found.share, found.shared) == ([*range(2, 20), -1, -1], 0.9, 0.9)
    found = aligned([50, *range(1, 10), 60, *range(10, 19)], launches)
    assert found.launch.tolist() == [-1, *range(1, 10), -1, *range(10, 19)]
    assert aligned([50, *range(10), 60, *range(10, 20)], launches).launch.tolist() == [
        *[-1, *range(10)],
        *[-1, *range(10, 20)],
    ]
    found = aligned([*range(3, 20), 50, 51, 52], launches)
    assert (found.launch.tolist(), found.share, found.shared) == ([-1] * 20, 0, 0.85)


def test_four_hundred_edits_are_tried_and_no_more() -> None:
    lost = MAX_EDITS // 2
    launches = list(range(2_010))
    found = aligned([*range(lost, 2_010), *range(5_000, 5_000 + lost)], launches)
    assert found.launch.tolist() == [*range(lost, 2_010)] + [-1] * lost
    found = aligned([*range(lost + 1, 2_010), *range(5_000, 5_000 + lost)], launches)
    assert (found.launch.max(), found.shared) == (-1, 0.9)


def test_names_in_both_lists_count_as_often_as_in_both() -> None:
    assert aligned([5, 5, 5, 7], [7, 5, 9, 9, 9]).shared == 0.4
    assert aligned([COPY, 3, COPY], [3, FILL, COPY, 4]).shared == 0.5
    # A launch without a name may be of any kernel that is left, and of no copy.
    assert aligned([5, 6, COPY, 7], [ANY_KERNEL, 6, ANY_KERNEL, ANY_KERNEL]).shared == 0.75
    assert aligned([5, 6, 7], [7, ANY_KERNEL, 8, 9]).shared == 0.5
    assert aligned([], [1, 2]).shared == 0
    assert aligned([], []).share == 0


def test_launches_without_a_name_are_equal_to_kernels_in_their_position() -> None:
    found = aligned([5, COPY, 6, FILL], [ANY_KERNEL, COPY, 6, ANY_KERNEL])
    assert (found.launch.tolist(), found.by_position.tolist()) == ([0, 1, 2, -1], [True, False, False, False])
    assert (found.share, found.shared) == (0.75, 0.75)
    assert aligned([5, 6], [ANY_KERNEL, ANY_KERNEL, ANY_KERNEL]).launch.tolist() == [-1, -1]


def test_of_streams_side_by_side_the_first_node_takes_a_launch() -> None:
    """Both streams run `1`; the one whose node starts first has it."""
    found = aligned([1, 2, 1, 3, 4], [1, 1, 2, 3, 4], [7, 7, 8, 8, 8])
    assert (found.launch.tolist(), found.share) == ([0, 2, 1, 3, 4], 1)
    # On one stream they would be out of order.
    assert aligned([1, 2, 1, 3, 4], [1, 1, 2, 3, 4]).share == 0.6


def test_a_node_that_no_launch_has_holds_up_its_own_stream_only() -> None:
    left, right = list(range(1, 11)), list(range(21, 31))
    launches = [each for pair in zip(left, right, strict=True) for each in pair]
    nodes, streams = [*left, *right[:-1], 50], [7] * 10 + [8] * 10
    found = aligned(nodes, launches, streams)
    assert found.launch.tolist() == [*range(0, 20, 2), *range(1, 19, 2), -1]


@pytest.mark.parametrize(
    ("captured", "ran", "known"),
    [
        ("hipMemcpyAsync", Kind.MEMCPY, True),
        ("hipMemcpyAsync", Kind.MEMSET, False),
        ("hipMemcpyAsync", Kind.KERNEL, False),
        ("hipMemsetAsync", Kind.MEMSET, True),
        ("hipMemsetAsync", Kind.MEMCPY, False),
        ("hipMemsetAsync", Kind.KERNEL, False),
        ("hipLaunchKernel", Kind.KERNEL, True),
        ("hipLaunchKernel", Kind.MEMCPY, False),
        ("hipLaunchKernel", Kind.MEMSET, False),
    ],
)
def test_copies_fills_and_kernels_are_no_partners(captured: str, ran: Kind, known: bool) -> None:
    given = recording([[CapturedLaunch("aten::op", None, call=captured)]])
    node = Event("node", 10_500, 10, ran, ("0", "stream 7"), 91)
    trace = with_recordings([launch(10_000, 100, 91, "hipGraphLaunch"), node], given)
    assert told(graph_nodes(trace), "op") == (["aten::op"] if known else [])


def test_every_field_of_a_node_is_that_of_its_launch_in_its_recording() -> None:
    inputs = {"Input Dims": [[2, 3]], "Input type": ["float"]}
    first = recording([graph_of("a_kernel"), graph_of("b_kernel", "c_kernel")], "first.json")
    second = recording(
        [
            graph_of("x_kernel"),
            [
                CapturedLaunch("aten::mm", "d_kernel", "Linear_0", "model.py(9): project", op_args=inputs),
                CapturedLaunch("aten::add", "e_kernel", "Block_0", "model.py(12): forward"),
            ],
        ],
        "second.json",
    )
    events = [*replay(10_000, 91, ["d_kernel", "e_kernel"]), *replay(20_000, 92, ["b_kernel", "c_kernel"])]
    nodes = graph_nodes(with_recordings(events, first, second))
    assert [told(nodes, field) for field in FIELDS] == [
        ["aten::mm", "aten::add", "op b_kernel", "op c_kernel"],
        ["model.py(9): project", "model.py(12): forward", "model.py(10): forward", "model.py(10): forward"],
        ["Linear_0", "Block_0", None, None],
        ["[[2, 3]]", None, None, None],
        ['["float"]', None, None, None],
    ]
    assert (nodes.recording.tolist(), nodes.launch.tolist()) == ([1, 1, 0, 0], [1, 2, 1, 2])
    assert (nodes.op_call.tolist(), nodes.named_by.tolist()) == ([0, 1, 0, 1], [-1] * 4)
    assert [(each.graph, each.nodes, each.equal, each.label, each.by_position) for each in nodes.matches] == [
        (0, 2, 2, "second.json", 0),
        (1, 2, 2, "first.json", 0),
    ]


def test_what_captured_graphs_with_the_same_names_do_not_share_is_unknown() -> None:
    graphs = [[CapturedLaunch("aten::mm", "gemm", f"Layer_{number}")] for number in range(3)]
    nodes = graph_nodes(with_recordings(replay(10_000, 91, ["gemm"]), recording(graphs)))
    assert (told(nodes, "op"), nodes.module.tolist(), nodes.launch.tolist()) == (["aten::mm"], [-1], [-1])
    assert (nodes.recording.tolist(), nodes.shapes.tolist(), nodes.by_position.tolist()) == ([0], [-1], [False])


def test_the_recording_with_more_equal_names_counts_and_of_equal_ones_the_first() -> None:
    names = [f"kernel_{number}x" for number in range(10)]
    near, exact = recording([graph_of("other", *names[1:])], "near"), recording([graph_of(*names)], "exact")
    nearer = recording([graph_of(*names[:-1], "another")], "nearer")
    for recordings, label, equal in (
        ((near, exact), "exact", 10),
        ((exact, near), "exact", 10),
        ((near, nearer), "near", 9),
        ((nearer, near), "nearer", 9),
    ):
        (match,) = graph_nodes(with_recordings(replay(10_000, 91, names), *recordings)).matches
        assert (match.label, match.equal, match.shared) == (label, equal, equal / 10)


def test_where_none_fits_the_one_with_most_names_in_common_is_named() -> None:
    names = [f"kernel_{number}x" for number in range(10)]
    turned, some = recording([graph_of(*names[::-1])], "turned"), recording([graph_of(*"abcdefg", "h")], "some")
    nodes = graph_nodes(with_recordings(replay(10_000, 91, names), some, turned))
    (match,) = nodes.matches
    assert (len(nodes), match.equal, match.label, match.shared) == (0, 0, "turned", 1)


@pytest.mark.parametrize(("wrong", "known"), [(1, 10), (2, 0)])
def test_a_tenth_of_the_operators_may_contradict_a_match_by_position(wrong: int, known: int) -> None:
    """The graph is the second one of its recording; kernels of other operators are not compared."""
    product = CapturedLaunch("aten::mm", None, call="cudaLaunchKernel")
    other = replace(product, op="aten::relu")
    norm = replace(product, op="aten::rms_norm")
    graph = [*[product] * (5 - wrong), *[other] * (5 + wrong), norm, norm, norm, norm]
    names = [*["ampere_sgemm_128x64_nn"] * 5, *["relu_kernel"] * 5, *["ampere_sgemm_128x64_nn"] * 4]
    trace = with_recordings(replay(10_000, 91, names), recording([[other, norm], graph]))
    (match,) = graph_nodes(trace).matches
    assert (match.equal, match.by_position, match.nodes) == ((14, 14, 14) if known else (0, 0, 14))
    assert match.shared == (1 if known else 0)
    assert graph_nodes(trace).by_position.tolist() == ([True] * 14 if known else [])


def test_ids_of_nodes_count_where_all_are_known_and_different() -> None:
    """By id the first node that ran is the second of the graph."""
    given = recording([graph_of("same", "same", "same")])
    call = launch(10_000, 100, 91, "cudaGraphLaunch")

    def ops(*ids: int | str) -> list[str | None]:
        nodes = [
            kernel("same", 10_500 + 20 * place, 10, correlation=91, args={"graph node id": each})
            for place, each in enumerate(ids)
        ]
        trace = with_recordings([call, *nodes], given)
        return [str(launch) for launch in graph_nodes(trace).launch.tolist()]

    assert ops(7, 5, 6) == ops("7", "5", "6") == ["2", "0", "1"]
    assert ops(7, 5, 5) == ops(7, 0, 5) == ["0", "1", "2"]
    # The graph stands in the upper half.
    assert ops((1 << 32) + 7, (2 << 32) + 5, 6) == ["2", "0", "1"]
    assert ops((1 << 32) + 5, (2 << 32) + 5, 6) == ["0", "1", "2"]


def scoped(names: dict[int, str], *recordings: GraphRecording, label: str = "names.json") -> Trace:
    """Two replayed kernels with the ids 5 and 6 behind a kernel of no graph."""
    nodes = [
        kernel(name, 10_500 + 20 * place, 10, correlation=91, args={"graph node id": 5 + place})
        for place, name in enumerate(("a_kernel", "b_kernel"))
    ]
    alone = [launch(100, 10, 50), kernel("alone", 200, 10, correlation=50)]
    trace = make_trace([*alone, launch(10_000, 100, 91, "cudaGraphLaunch"), *nodes])
    return replace(trace, graph_recordings=recordings, graph_scopes=(GraphScopes(label, names),))


def test_names_that_the_program_gave_stand_for_modules_where_none_is_known() -> None:
    captured = recording([[CapturedLaunch("aten::a", "a_kernel", "Block_0"), CapturedLaunch("aten::b", "b_kernel")]])
    trace = scoped({5: "given a", 6: "given b"}, captured)
    nodes = graph_nodes(trace)
    assert (told(nodes, "op"), told(nodes, "module")) == (["aten::a", "aten::b"], ["Block_0", "given b"])
    assert [trace.name_of(row) for row in nodes.rows.tolist()] == ["a_kernel", "b_kernel"]
    assert (nodes.named_by.tolist(), nodes.naming, nodes.launch.tolist()) == ([0, 0], ("names.json",), [0, 1])


def test_names_without_a_capture_are_all_that_is_known() -> None:
    nodes = graph_nodes(scoped({6: "given b"}))
    assert (told(nodes, "module"), told(nodes, "op"), nodes.named_by.tolist()) == (["given b"], [None], [0])
    assert (nodes.recording.tolist(), nodes.launch.tolist(), nodes.by_position.tolist()) == ([-1], [-1], [False])
    assert [nodes.op_call.tolist(), nodes.shapes.tolist(), nodes.function.tolist()] == [[-1]] * 3


def test_a_node_with_a_capture_and_without_a_name_keeps_its_capture() -> None:
    by_position = [CapturedLaunch(f"aten::{name}", None, call="cudaLaunchKernel") for name in "ab"]
    nodes = graph_nodes(scoped({6: "given b"}, recording([by_position])))
    assert (told(nodes, "op"), told(nodes, "module")) == (["aten::a", "aten::b"], [None, "given b"])
    assert (nodes.named_by.tolist(), nodes.by_position.tolist()) == ([-1, 0], [True, True])


def test_texts_of_the_capture_are_marked_and_others_stay() -> None:
    events = [
        Event("aten::copy", 90, 100, Kind.CPU_OP),
        launch(100, 10, 50),
        kernel("alone", 200, 10, correlation=50),
        *replay(10_000, 91, ["a_kernel", "b_kernel"]),
    ]
    trace = with_recordings(events, recording([graph_of("a_kernel", "b_kernel")]))
    rows = trace.slices.of_kind(Kind.KERNEL)
    ids, texts, known = op_names(trace, rows)
    assert [texts[number] for number in ids.tolist()] == ["aten::copy", "op a_kernel", "op b_kernel"]
    assert known is not None and known.tolist() == [False, True, True]
    ids, _, known = with_captured_texts(trace, rows, np.array([0, -1, 1]), trace.names, "module")
    assert (ids.tolist(), known is not None and known.tolist()) == ([0, -1, 1], [False] * 3)
    bare = make_trace([*events[:3], memcpy("copy", 300, 10)])
    assert op_names(bare, bare.slices.of_kind(Kind.KERNEL))[2] is None
