from tests.support.build import Event, kernel, launch, make_trace, op, step
from tests.support.frames import model
from tests.support.graphs import replay
from tracetui.model.trace import Kind
from tracetui.ui.trace.selection import highlighted_with, kernel_from
from tracetui.ui.trace.slice_description import chain_of, describe, facts_of_args
from tracetui.ui.widgets.details import DetailFact, fact_lines, folded

GEMM = {"grid": [12, 8, 1], "block": [256, 1, 1], "registers per thread": 32, "shared memory": 49152}


def rows_by_name(trace):
    return {trace.name_of(row): row for row in range(len(trace.slices))}


def two_kernels():
    return make_trace(
        [
            step(3, 0, 1000),
            op("aten::linear", 10, 200),
            op("aten::addmm", 20, 100),
            launch(30, 5, 1),
            kernel("gemm", 60, 50, correlation=1, args=GEMM),
            op("aten::relu", 300, 100),
            launch(310, 5, 2, name="cudaLaunchKernelExC"),
            kernel("relu", 340, 20, correlation=2),
        ]
    )


def test_args_of_a_launch_are_said_in_words() -> None:
    facts = dict(facts_of_args(GEMM | {"correlation": 77}))
    assert facts["grid"] == "12x8x1 = 96 blocks"
    assert facts["block"] == "256x1x1 = 256 threads"
    assert facts["registers"] == "32 per thread"
    assert facts["shared memory"] == "48.0 KiB"
    assert facts["correlation"] == "77"


def test_unknown_and_malformed_args_are_shown_as_they_are() -> None:
    facts = dict(facts_of_args({"grid": "grid(4,)", "answer": {"a": 1}, "steer": "\x1b[31mred"}))
    assert facts["grid"] == "grid(4,)"
    assert facts["answer"] == "{a: 1}"
    assert "\x1b" not in facts["steer"]


def test_inputs_of_an_op_have_a_line_each() -> None:
    args = {"Input Dims": [[64, 32], []], "Input type": ["float", "Scalar"], "Concrete Inputs": ["", "2"]}
    assert facts_of_args(args) == [("input 0", "float [64, 32]"), ("input 1", "Scalar = 2")]


def test_of_python_frames_in_a_row_the_chain_keeps_own_code_modules_and_the_innermost() -> None:
    frames = [
        "train.py(1): main",
        "torch/nn/modules/module.py(9): _call_impl",
        "nn.Module: Linear_0",
        "torch/x.py(2): f",
    ]
    frames += ["<built-in method linear>"]
    nested = [Event(name, i, 900 - i, Kind.PYTHON) for i, name in enumerate(frames)]
    trace = make_trace([*nested, op("aten::add", 100, 10)])
    names = [trace.name_of(row) for row in chain_of(trace, rows_by_name(trace)["aten::add"])]
    assert names == ["train.py(1): main", "nn.Module: Linear_0", "<built-in method linear>", "aten::add"]


def test_a_kernel_lights_its_launch_and_its_op() -> None:
    trace = two_kernels()
    rows = rows_by_name(trace)
    assert highlighted_with(trace, rows["gemm"]) == {rows["cudaLaunchKernel"], rows["aten::addmm"]}
    assert highlighted_with(trace, rows["aten::linear"]) == {rows["cudaLaunchKernel"], rows["gemm"]}


def test_stepping_goes_through_kernels_in_time_order_from_anything() -> None:
    trace = two_kernels()
    rows = rows_by_name(trace)
    assert kernel_from(trace, rows["gemm"], 1, 0) == rows["relu"]
    assert kernel_from(trace, rows["relu"], 1, 0) == -1
    assert kernel_from(trace, rows["aten::relu"], 1, 0) == rows["relu"]
    assert kernel_from(trace, -1, 1, 100) == rows["relu"]


def test_the_description_has_the_whole_name_and_marks_where_one_is() -> None:
    trace = two_kernels()
    row = rows_by_name(trace)["gemm"]
    lines = describe(trace, row, chain_of(trace, row), 40)
    assert all(len(line.text) <= 40 for line in lines)
    assert lines[0].text == "gemm"
    assert [line.row for line in lines if line.style == "here"] == [row]
    assert "registers         32 per thread" in [line.text for line in lines]


def test_folding_loses_nothing_but_spaces() -> None:
    name = "void at::native::elementwise_kernel<128, 4, lambda(int)#1>(int, lambda)"
    assert "".join(folded(name, 20)).replace(" ", "") == name.replace(" ", "")
    assert all(len(piece) <= 20 for piece in folded(name, 20))


def texts_of(trace, name, width=78):
    row = rows_by_name(trace)[name]
    return [line.text for line in describe(trace, row, chain_of(trace, row), width)]


def test_the_chain_gives_total_self_time_and_share_of_the_outermost_op() -> None:
    trace = two_kernels()
    row = rows_by_name(trace)["gemm"]
    lines = describe(trace, row, chain_of(trace, row), 60)
    start = next(index for index, line in enumerate(lines) if line.text.startswith("dispatch chain"))
    levels = [line.text.split() for line in lines[start : start + 6]]
    assert lines[start].text.endswith("total      self  % of op")
    assert levels[1][:2] == ["ProfilerStep#3", "annotation"] and "%" not in levels[1]
    assert levels[2] == ["aten::linear", "op", "200", "ns", "100", "ns", "100", "%"]
    assert levels[3] == ["aten::addmm", "op", "100", "ns", "95", "ns", "50", "%"]
    assert levels[4] == ["cudaLaunchKernel", "call", "5", "ns", "5", "ns", "2", "%"]
    assert levels[5][0] == "▸" and levels[5][-3:] == ["kernel", "50", "ns"]


def test_a_narrow_chain_leaves_out_the_self_time_first() -> None:
    assert any(line.endswith("total  % of op") for line in texts_of(two_kernels(), "gemm", 40))
    narrow = texts_of(two_kernels(), "gemm", 30)
    assert all(len(line) <= 30 for line in narrow)
    assert any(line.split() == ["aten::addmm", "op", "100", "ns"] for line in narrow)


def test_the_cost_of_a_launch_counts_from_the_outermost_op() -> None:
    told = "CPU per launch    25 ns (operator 20 ns + launch call 5 ns)"
    assert told in texts_of(two_kernels(), "gemm")
    assert told in texts_of(two_kernels(), "cudaLaunchKernel")
    assert not any(line.startswith("CPU per launch") for line in texts_of(two_kernels(), "aten::addmm"))


def test_a_node_of_a_graph_says_which_and_how_often() -> None:
    events = [event for i in (0, 1) for event in replay(i * 10_000, i + 1, [f"a{i}", "b", "c"][i:])]
    trace = make_trace([*events, *replay(30_000, 9, ["b", "c"])])
    row = [row for row in range(len(trace.slices)) if trace.name_of(row) == "c"][-1]
    lines = [line.text for line in describe(trace, row, chain_of(trace, row), 78)]
    assert "graph             node 2 of 2 of a launch of graph 2, replayed 2 times" in lines
    launched = [line.text for line in describe(trace, rows_by_name(trace)["cudaGraphLaunch"], [], 78)]
    assert "graph             2 nodes, graph 2, replayed 2 times" in launched
    assert "                  50 ns of the call per node, the first ran after 500 ns" in launched


def test_a_backward_kernel_leads_to_its_forward_op_line_and_module() -> None:
    trace = make_trace(model())
    row = rows_by_name(trace)["gemm_back"]
    found = {line.text[:18].strip(): line for line in describe(trace, row, chain_of(trace, row), 78)}
    assert found["forward op"].text[18:] == "aten::linear"
    assert trace.name_of(found["forward op"].row) == "aten::linear"
    assert found["module"].text[18:] == "backward of GPT_0 / MLP_3"
    assert found["forward from"].text[18:] == "model.py(3): forward"


def test_names_from_the_trace_steer_no_terminal() -> None:
    events = [Event("\x1b[31mred.py(1): f", 0, 100, Kind.PYTHON), Event("\x1b]2;x\x07", 5, 90, Kind.ANNOTATION)]
    trace = make_trace([*events, op("aten::mm", 10, 50), launch(20, 5, 1), kernel("k", 60, 9, correlation=1)])
    assert all(text.isprintable() for text in texts_of(trace, "k"))


def test_words_and_amounts_are_not_broken_where_they_fit() -> None:
    text = "129.87 ms, 129.53 ms into step 6 from aten::_to_copy to the call of evaluate_function"
    for width in range(20, 80):
        pieces = folded(text, width)
        assert " ".join(pieces) == text
        assert not any(piece.startswith(("ms", "%")) for piece in pieces)


def test_long_values_stand_below_their_labels_where_it_is_narrow() -> None:
    fact = DetailFact("called from", "transformers/models/owlv2/modeling_owlv2.py(1421): box_predictor", 7)
    narrow = fact_lines(fact, 38)
    assert [line.text for line in narrow] == [
        "called from",
        "  transformers/models/owlv2/",
        "  modeling_owlv2.py(1421):",
        "  box_predictor",
    ]
    assert [line.row for line in narrow] == [-1, 7, -1, -1]
    assert [line.text for line in fact_lines(DetailFact("device", "0"), 38)] == ["device            0"]
    assert fact_lines(fact, 60)[0].text.startswith("called from       transformers/")


def test_columns_of_the_chain_do_not_touch() -> None:
    long = 123_456_789_000_000
    trace = make_trace(
        [
            op("aten::linear", 0, long),
            op("aten::mm", 10, long - 20),
            launch(20, 4_000, 1),
            kernel("gemm", 30, 50, correlation=1),
        ]
    )
    for width in range(34, 90):
        call, _ = texts_of(trace, "gemm", width)[-2:]
        assert call.endswith(" <0.1 %") and " 4.0 µs " in call and len(call) <= width
