"""Operations and bytes of replayed kernels: those of the operators that captured them, marked, and of no other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.support.build import make_trace, op, step
from tests.support.captures import CapturedLaunch, recording
from tests.support.graphs import replay
from tracetui.devices.kernel_work import kernel_work
from tracetui.devices.roofline import CAPTURED
from tracetui.model.trace import Trace
from tracetui.panes import PANES

MM = {"Input Dims": [[8, 16], [16, 4]], "Input type": ["float", "float"]}
ADD = {"Input Dims": [[8, 4], [8, 4], []], "Input type": ["float", "float", "Scalar"]}
GRAPH = [
    CapturedLaunch("aten::mm", "sgemm_kernel", op_args=MM),
    CapturedLaunch("aten::add", "add_kernel", op_args=ADD),
    CapturedLaunch("aten::mm", "sgemm_kernel", op_args=MM),
]
NAMES = ["sgemm_kernel", "add_kernel", "sgemm_kernel"]
EVENTS = [
    step(1, 9_000, 20_000),
    # The operator around the replay is not the one that captured it.
    op("aten::bmm", 9_900, 400, args={"Input Dims": [[2, 3, 4], [2, 4, 5]], "Input type": ["float", "float"]}),
    *replay(10_000, 91, NAMES),
    *replay(20_000, 92, NAMES),
]


def replayed(events=EVENTS, graph=GRAPH, label: str = "capture.json") -> Trace:
    return replace(make_trace(events), graph_recordings=(recording([graph], label),))


def test_replayed_kernels_have_the_work_of_what_captured_them():
    work = kernel_work(replayed())
    assert work.flops.tolist() == [1024, 32, 1024] * 2
    assert [work.ops[number] for number in work.op.tolist()] == ["aten::mm", "aten::add", "aten::mm"] * 2
    assert work.captured.all() and work.bytes[1] == 3 * 8 * 4 * 4
    # Each product of each replay is a call of its own.
    assert (work.span == 10).all() and work.main.tolist() == list(range(6))


def test_the_roofline_marks_what_is_inferred_and_says_so():
    table = PANES["roofline"].build(replayed())
    found = {row["op"]: index for index, row in enumerate(table.rows())}
    assert set(found) == {"aten::mm", "aten::add"}
    row = found["aten::mm"]
    assert (table.row(row)["calls"], table.row(row)["input_shapes"]) == (4, "[[8, 16], [16, 4]]")
    assert table["flops"].is_doubtful(row) and table["op"].is_doubtful(row)
    assert CAPTURED in table.note


def test_without_a_capture_nothing_is_known_of_replayed_kernels():
    work = kernel_work(make_trace(EVENTS))
    assert np.isnan(work.flops).all() and not work.captured.any()


def test_two_kernels_of_one_captured_call_share_its_work():
    events = EVENTS[:1] + replay(10_000, 91, ["sgemm_kernel", "splitKreduce_kernel"])
    trace = make_trace(events)
    captured = recording([[GRAPH[0], replace(GRAPH[0], kernel="splitKreduce_kernel")]])
    apart = kernel_work(replace(trace, graph_recordings=(captured,)))
    assert apart.span.tolist() == [10, 10]
    one = replace(captured, op_call=np.zeros(2, np.int32))
    together = kernel_work(replace(trace, graph_recordings=(one,), cache={}))
    assert together.main.tolist() == [0, 0] and together.span[0] == 20
    assert np.flatnonzero(~np.isnan(together.flops)).tolist() == [0]


def test_recorded_kernels_keep_their_work_beside_captured_ones(shared_trace):
    from tracetui.opening.trace_opening import OpenOptions, open_trace

    name = "inference/i01_mi300x_vllm_decode_full_graph.json.gz"
    capture = (str(shared_trace("inference/i01c_capture_bs32.json.gz")),)
    plain = kernel_work(open_trace(str(shared_trace(name)), OpenOptions(uses_cache=False)))
    work = kernel_work(open_trace(str(shared_trace(name)), OpenOptions(uses_cache=False, captures=capture)))
    own = ~work.captured
    assert np.array_equal(work.flops[own], plain.flops[own], equal_nan=True)
    counted = [index for index in np.flatnonzero(work.captured).tolist() if work.flops[index] > 0]
    products = [index for index in counted if "attention" not in work.ops[work.op[index]]]
    # 24 layers of three products each, of 2 m n k operations each with 32 tokens.
    per_layer = sum(2 * 32 * columns * depth for columns, depth in ((5120, 2880), (2880, 4096), (32, 2880)))
    bias = 32 * (5120 + 2880 + 32)
    # Every other layer looks at a window of the context: how much it does is not known.
    assert len(products) == 72 and len(counted) - len(products) == 12
    assert float(work.flops[products].sum()) in (24.0 * per_layer, 24.0 * (per_layer + bias))
