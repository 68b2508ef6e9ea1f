"""Work of kernels: operations and bytes, by generation of the device, and of captured graphs."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.support.build import Event, kernel, launch, make_trace, op, step
from tests.support.captures import CapturedLaunch, recording
from tests.support.devices import A100, H100, MI300X
from tests.support.graphs import replay
from tracetui.devices.descriptions import (
    UNKNOWN_GENERATION,
    GenerationSource,
    generation_by_names,
    generation_of,
    gpu_generation,
    with_device,
)
from tracetui.devices.formulas import Work, positions, precision_of, size_of
from tracetui.devices.kernel_work import kernel_work, work_of
from tracetui.devices.roofline import CAPTURED
from tracetui.linking.links import op_rows
from tracetui.model.trace import Device, Kind, Trace
from tracetui.operators.key_averages import Signature, signatures
from tracetui.panes import PANES
from tracetui.reading.load import load

COUNTED = {"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::convolution", "aten::convolution_backward"}
"""Operators that torch's counter knows and that this machine runs."""


def work(name: str, dims: list, types: list[str], values: list[str] | None = None) -> Work:
    frozen = tuple(tuple(item) for item in json.loads(json.dumps(dims)))
    return work_of(name, Signature(frozen, tuple(types)), values)


def recorded(path: Path, program: Callable[[], object]) -> tuple[float, float]:
    """Operations of a program, by torch's counter and from the shapes in its trace."""
    torch = pytest.importorskip("torch")
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        program()
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True, acc_events=True
    ) as profiler:
        program()
    profiler.export_chrome_trace(str(path))
    trace = load(str(path))
    rows = op_rows(trace)
    rows = rows[[trace.name_of(int(row)) in COUNTED for row in rows]]
    given, values = signatures(trace, rows), trace.args_of(rows, ["Concrete Inputs"])[0]
    total = 0.0
    for place, row in enumerate(rows.tolist()):
        signature = given.of(place)
        assert signature is not None
        found = work_of(trace.name_of(row), signature, values[place]).flops
        assert found is not None, (trace.name_of(row), signature)
        total += found
    return counter.get_total_flops(), total


@pytest.mark.full
def test_products_are_counted_as_torch_counts_them(tmp_path):
    torch = pytest.importorskip("torch")
    a, b = torch.randn(33, 65), torch.randn(65, 17)
    left, right, bias = torch.randn(5, 33, 65), torch.randn(5, 65, 17), torch.randn(17)
    layer = torch.nn.Linear(65, 31)

    def program() -> None:
        torch.mm(a, b)
        torch.addmm(bias, a, b)
        torch.bmm(left, right)
        torch.baddbmm(torch.zeros(5, 33, 17), left, right)
        layer(left).sum().backward()

    torch_says, shapes_say = recorded(tmp_path / "products.json", program)
    assert shapes_say == torch_says > 0


@pytest.mark.parametrize(
    ("stride", "padding", "dilation", "groups", "transposed"),
    [
        *itertools.product((1, 2), (0, 1), (1, 2), (1, 4), (False,)),
        (2, 1, 1, 1, True),
        (3, 0, 2, 4, True),
        ((1, 2), (0, 1), 1, 1, False),
    ],
)
@pytest.mark.full
def test_convolutions_are_counted_as_torch_counts_them(tmp_path, stride, padding, dilation, groups, transposed):
    torch = pytest.importorskip("torch")
    kind = torch.nn.ConvTranspose2d if transposed else torch.nn.Conv2d
    layer = kind(8, 12, (3, 2), stride=stride, padding=padding, dilation=dilation, groups=groups, bias=False)
    given = torch.randn(2, 8, 19, 14)
    torch_says, shapes_say = recorded(tmp_path / "forward.json", lambda: layer(given))
    assert shapes_say == torch_says > 0


@pytest.mark.parametrize("transposed", [False, True])
def test_both_gradients_of_a_convolution_count(tmp_path, transposed):
    torch = pytest.importorskip("torch")
    kind = torch.nn.ConvTranspose2d if transposed else torch.nn.Conv2d
    layer = kind(8, 12, 3, stride=2, padding=1)
    given = torch.randn(2, 8, 19, 15, requires_grad=True)
    torch_says, shapes_say = recorded(tmp_path / "both.json", lambda: layer(given).sum().backward())
    assert shapes_say == torch_says > 0


def test_only_gradients_that_were_asked_for_count():
    shapes = [[2, 12, 9, 7], [2, 8, 19, 15], [12, 8, 3, 3], [12]] + [[]] * 7
    once = 2.0 * 2 * 12 * 9 * 7 * 8 * 9
    for mask, times in (("[True, True, True]", 2), ("[False, True, True]", 1), ("[True, False, False]", 1)):
        values = ["", "", "", "[12]", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1", mask]
        found = work("aten::convolution_backward", shapes, ["float"] * 3, values)
        assert found.flops == times * once
        assert found.bytes == times * 4 * (2 * 12 * 63 + 2 * 8 * 285 + 12 * 72)


def attend(name: str, shapes: list, place: int, value: str) -> Work:
    values = [""] * 16
    values[place] = value
    return work(name, shapes, ["c10::BFloat16"] * len(shapes), values)


def test_attention_is_counted_as_torch_counts_it_and_less_when_causal():
    torch = pytest.importorskip("torch")
    from torch.utils.flop_counter import sdpa_backward_flop_count, sdpa_flop_count

    query, key, value = (2, 8, 100, 64), (2, 8, 100, 64), (2, 8, 100, 32)
    forward, backward = sdpa_flop_count(query, key, value), sdpa_backward_flop_count(value, query, key, value)
    swapped = [[size[0], size[2], size[1], size[3]] for size in (query, key, value)]
    plain = [list(size) for size in (query, key, value)]
    assert torch is not None
    assert attend("aten::_scaled_dot_product_flash_attention", plain, 4, "False").flops == forward
    assert attend("aten::_flash_attention_forward", swapped, 8, "False").flops == forward
    assert attend("aten::_scaled_dot_product_efficient_attention", plain, 6, "False").flops == forward
    assert attend("aten::_efficient_attention_forward", swapped, 9, "0").flops == forward
    assert (
        attend("aten::_scaled_dot_product_flash_attention_backward", [plain[2], *plain], 11, "False").flops == backward
    )
    causal = attend("aten::_scaled_dot_product_flash_attention", plain, 4, "True")
    assert causal.flops == forward * (100 * 101 / 2) / 100**2
    assert causal.bytes == 2 * 2 * 8 * 100 * (64 + 64 + 32 + 32)
    assert attend("aten::_flash_attention_forward", swapped, 3, "False").flops is None


@pytest.mark.parametrize("queries", [1, 3, 8])
@pytest.mark.parametrize("keys", [1, 3, 8])
def test_causal_positions_equal_a_mask_that_is_drawn(queries, keys):
    everything = np.ones((queries, keys), bool)
    assert positions(queries, keys, 0) == everything.sum()
    assert positions(queries, keys, 1) == np.tril(everything).sum()
    assert positions(queries, keys, 2) == np.tril(everything, keys - queries).sum()


def test_grouped_queries_count_every_head_and_sliding_windows_are_unknown():
    shapes = [[1, 128, 32, 64], [1, 128, 8, 64], [1, 128, 8, 64]]
    assert attend("aten::_flash_attention_forward", shapes, 8, "False").flops == 2.0 * 32 * 128 * 128 * 128
    values = [""] * 17
    values[8], values[11] = "True", "256"
    assert work("aten::_flash_attention_forward", shapes, ["c10::Half"] * 3, values).flops is None
    assert work("aten::_flash_attention_forward", [[4096, 32, 64]] * 3, ["c10::Half"] * 3, values) == Work()


BF16, FP32 = "c10::BFloat16", "float"


@pytest.mark.parametrize(
    ("name", "dims", "types", "flops", "moved", "precision"),
    [
        ("aten::mm", [[8, 16], [16, 4]], [BF16, BF16], 1024, 2 * (128 + 64 + 32), "fp16"),
        ("aten::addmm", [[4], [8, 16], [16, 4], [], []], [FP32] * 3, 1024, 4 * (4 + 128 + 64 + 32), "fp32"),
        ("aten::mv", [[8, 16], [16]], [FP32] * 2, 256, 4 * (128 + 16 + 8), "fp32"),
        ("aten::_int_mm", [[8, 16], [16, 4]], ["signed char"] * 2, 1024, 128 + 64 + 4 * 32, "int8"),
        ("aten::_grouped_mm", [[10, 16], [3, 16, 4], [3]], [BF16] * 2, 1280, 2 * (160 + 192 + 40), "fp16"),
        ("aten::mm", [[8, 16], [16, 4]], [], 1024, None, ""),
        ("aten::mm", [[8, 16], [17, 4]], [FP32] * 2, None, None, ""),
        ("aten::mm", [[8, "x"], [16, 4]], [FP32] * 2, None, None, ""),
        ("aten::add", [[10, 1], [7], []], [BF16, FP32, "Scalar"], 70, 2 * 10 + 4 * 7 + 4 * 70, "fp32"),
        ("aten::mul", [[10, 7], []], [BF16, "double"], 70, 2 * 2 * 70, "fp32"),
        ("aten::add_", [[10, 7], [7], []], [FP32, FP32, "Scalar"], 70, 4 * (70 + 7 + 70), "fp32"),
        ("aten::add", [[10], [10], []], ["long int", "int", "Scalar"], None, 80 + 40 + 80, ""),
        ("aten::gt", [[10], []], [FP32, "Scalar"], None, 50, ""),
        ("aten::where", [[10], [], [10]], ["bool", FP32, FP32], None, 10 + 40 + 40, ""),
        ("aten::copy_", [[10], [10], []], [BF16, FP32, "Scalar"], None, 60, ""),
        ("aten::fill_", [[10], []], [BF16, "Scalar"], None, 20, ""),
        ("aten::sum", [[10, 7], [], [], []], [FP32, "ScalarList", "Scalar", ""], None, 280, ""),
        ("aten::_softmax", [[10, 7], [], []], [BF16, "Scalar", "Scalar"], None, 280, ""),
        ("aten::native_layer_norm", [[10, 7], [], [7], [7], []], [BF16, "", BF16, BF16], None, 4 * 70 + 28, ""),
        ("aten::embedding", [[1000, 64], [3, 5], [], [], []], [BF16, "long int"], None, 2 * 15 * 128 + 120, ""),
        ("triton_poi_fused_add_0", [[10], [10], []], [BF16, BF16, "Scalar"], None, 40, ""),
        ("aten::add", [[10], [7], []], [FP32, FP32, "Scalar"], None, None, ""),
        ("aten::mm", [[10**300, 16], [16, 10**300]], [FP32] * 2, None, None, ""),
        ("aten::mm", [[-8, 16], [16, 4]], [FP32] * 2, None, None, ""),
        ("aten::sort", [[10]], [FP32], None, None, ""),
        ("mine::mm", [[8, 16], [16, 4]], [FP32] * 2, None, None, ""),
    ],
)
def test_by_hand(name, dims, types, flops, moved, precision):
    assert work(name, dims, types) == Work(flops, moved, precision)


def test_values_of_arguments_decide_where_shapes_do_not():
    eight = ["c10::Float8_e4m3fn"] * 2
    asked = ["", "", "", "", "", "", "15", "True"]
    assert work("aten::_scaled_mm", [[8, 16], [16, 4]], eight, asked) == Work(1024, 128 + 64 + 2 * 32, "fp8")
    assert work("aten::_scaled_mm", [[8, 16], [16, 4]], eight).bytes is None
    four = work("aten::_scaled_mm", [[8, 16], [16, 4]], ["c10::Float4_e2m1fn_x2"] * 2, asked)
    assert four == Work(2048, 128 + 64 + 2 * 32, "fp4")
    sizes = [[2, 8, 8], [2, 8, 4], [2, 4, 8], [], []]
    with_bias = work("aten::baddbmm", sizes, [FP32] * 3, ["", "", "", "1", "1"]).bytes
    without = work("aten::baddbmm", sizes, [FP32] * 3, ["", "", "", "0.", "1"]).bytes
    assert with_bias is not None
    assert without == with_bias - 4 * 128
    chosen = work("aten::index_select", [[1000, 64], [], [15]], [BF16, "Scalar", "int"], ["", "0", ""])
    assert chosen.bytes == 2 * 15 * 128 + 60


@pytest.mark.parametrize("odd", ["[", "²", "[" * 9_000, "[1e999, 2]", f"[{10**400}, 1]", "null", "[0, 0]", ""])
def test_values_that_make_no_sense_are_unknown(odd):
    shapes = [[1, 4, 9, 9], [4, 4, 3, 3], *[[]] * 7]
    assert work("aten::cudnn_convolution", shapes, [FP32] * 2, ["", "", "[0, 0]", odd, "[1, 1]"]).flops is None
    assert work("aten::_scaled_mm", [[8, 16], [16, 4]], ["c10::Float8_e4m3fn"] * 2, ["", *[odd] * 7]).bytes is None
    assert work("aten::index_select", [[10, 64], [], [15]], [BF16, "Scalar", "int"], ["", odd, ""]).bytes is None


def test_types():
    assert [size_of(kind) for kind in ("c10::Half", "long int", "int", "short int", "bool")] == [2, 8, 4, 2, 1]
    assert [size_of(kind) for kind in ("Scalar", "TensorList", "")] == [None] * 3
    assert (size_of("c10::Float8_e4m3fn"), precision_of("c10::Float8_e5m2")) == (1, "fp8")


MM = {"Input Dims": [[8, 16], [16, 4]], "Input type": ["float", "float"]}


def test_the_work_of_a_call_stands_at_its_main_kernel():
    trace = make_trace(
        [
            op("aten::mm", 0, 100, args=MM),
            launch(10, 5, 1, "cudaMemsetAsync"),
            launch(20, 5, 2),
            launch(30, 5, 3),
            op("aten::mm", 200, 100, args=MM),
            launch(210, 5, 4),
            Event("Memset (Device)", 1_000, 10, Kind.MEMSET, ("0", "stream 7"), correlation=1, args={"bytes": 64}),
            kernel("ampere_sgemm_128x64_nn", 1_100, 50, correlation=2),
            kernel("void splitKreduce_kernel<float>()", 1_200, 70, correlation=3),
            kernel("ampere_sgemm_128x64_nn", 2_000, 40, correlation=4),
        ]
    )
    found = kernel_work(trace)
    names = [trace.name_of(int(row)) for row in found.rows]
    main = names.index("ampere_sgemm_128x64_nn")
    assert found.flops[main] == 1024
    assert found.span[main] == 10 + 50 + 70
    assert np.flatnonzero(~np.isnan(found.flops)).tolist() == [main, main + 2]
    assert (found.bytes[0], found.main.tolist()) == (64, [main] * 3 + [main + 2])


def test_what_a_graph_replays_is_not_the_work_of_the_op_around_it():
    trace = make_trace(
        [
            op("aten::mm", 0, 100, args=MM),
            launch(10, 5, 1, "cudaGraphLaunch"),
            kernel("sgemm", 1_000, 50, correlation=1),
            kernel("sgemm", 1_100, 50, correlation=1),
        ]
    )
    assert np.isnan(kernel_work(trace).flops).all()


def convolve(start: int, stride: int) -> list[Event]:
    values = ["", "", "[0, 0]", f"[{stride}, {stride}]", "[1, 1]", "1", "False", "False", "True"]
    args = {
        "Input Dims": [[1, 4, 9, 9], [4, 4, 3, 3], *[[]] * 7],
        "Input type": ["float"] * 2,
        "Concrete Inputs": values,
    }
    return [
        op("aten::cudnn_convolution", start, 100, args=args),
        launch(start + 10, 5, start + 1),
        kernel("implicit_gemm", start + 1_000, 50, correlation=start + 1),
    ]


def test_equal_shapes_with_other_strides_are_unknown_and_not_guessed():
    same = make_trace([*convolve(0, 1), *convolve(2_000, 1)])
    assert kernel_work(same).flops.tolist() == [2.0 * 4 * 49 * 36] * 2
    assert np.isnan(kernel_work(make_trace([*convolve(0, 1), *convolve(2_000, 2)])).flops).all()


def test_what_a_reduction_leaves_is_written_too():
    def moved(name, shape, *values, kind=BF16):
        return work(f"aten::{name}", [list(shape), [], []], [kind, "", "Scalar"], list(values)).bytes

    assert moved("sum", (8192, 1, 7168), "", "[1]", "False") == 234_881_024
    assert moved("mean", (32, 2048, 7, 7), "", "[-1, -2]", "True") == 2 * (32 * 2048 * 49 + 32 * 2048)
    assert moved("sum", (16, 16), "", "", "False") == moved("sum", (16, 16), "", "[]", "") == 512
    assert moved("sum", (16, 16), "", "[7]", "") == 512
    assert moved("sum", (16, 4), "", "[1]", "", kind="long int") == 512


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


V100 = Device(0, "Tesla V100-SXM2-32GB", {"computeMajor": 7, "computeMinor": 0, "numSms": 80})


@pytest.mark.parametrize(
    ("device", "architecture", "has"),
    [
        (V100, "Volta", (True, False, False)),
        (Device(0, "Tesla T4", {"computeMajor": 7, "computeMinor": 5}), "Turing", (True, False, False)),
        (Device(0, "NVIDIA GeForce GTX 1660", {"computeMajor": 7, "computeMinor": 5}), "Turing", (False,) * 3),
        (Device(0, "Tesla P100-PCIE-16GB", {"computeMajor": 6, "computeMinor": 0}), "Pascal", (False,) * 3),
        (A100, "Ampere", (True, True, True)),
        (Device(0, "", {"computeMajor": 8, "computeMinor": 9}), "Ada", (True, True, True)),
        (H100, "Hopper", (True, True, True)),
        (Device(0, "x", {"computeMajor": 12, "computeMinor": 0}), "Blackwell", (True,) * 3),
        (Device(0, "NVIDIA B200"), "Blackwell", (True,) * 3),
        (MI300X, "gfx942", (True, True, True)),
        (Device(0, "AMD Instinct MI210", {"warpSize": 64}), "gfx90a", (True, False, True)),
        (Device(0, "", {"warpSize": 64, "computeMajor": 9, "computeMinor": 5}), "gfx950", (True, False, True)),
        (Device(0, "", {"warpSize": 64, "computeMajor": 9, "computeMinor": 0}), "", (None,) * 3),
        (Device(0, "NVIDIA Quantum"), "", (None,) * 3),
    ],
)
def test_a_description_tells_what_the_matrix_units_multiply(device, architecture, has):
    found = generation_of(device)
    assert found.architecture == architecture
    assert (found.has_fp16_tensor_cores, found.has_tf32, found.has_bf16) == has


@pytest.mark.parametrize(
    ("names", "capability", "architecture"),
    [
        (["volta_sgemm_128x64_nn"], (7, 0), "Volta"),
        (["turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn"], (7, 5), "Turing"),
        (["ampere_sgemm_128x64_nn", "volta_sgemm_64x64_tn"], (8, 0), "Ampere"),
        (["sm86_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nhwckrsc_nhwc_tilesize128x64x8"], (8, 6), "Ampere"),
        (["void cutlass::Kernel2<cutlass_80_tensorop_f16_s16816gemm_f16_64x64_64x6_nn_align8>(x)"], (8, 0), "Ampere"),
        (["nvjet_tst_128x128_64x6_2x1_v_bz_TNN", "ampere_sgemm_128x64_nn"], (9, 0), "Hopper"),
        (["nvjet_sm100_tst_8x64_64x16_1x4_h_bz_TNN"], (10, 0), "Blackwell"),
        (["sm_120_matmul"], (12, 0), "Blackwell"),
        (["attention_hopper"], (9, 0), "Hopper"),
    ],
)
def test_the_newest_name_is_a_lower_bound(names, capability, architecture):
    found = generation_by_names(names)
    assert (found.capability, found.architecture, found.source) == (capability, architecture, "kernel names")
    assert found.is_lower_bound
    assert found.has_tf32 is (True if capability >= (8, 0) else None)
    assert found.has_fp16_tensor_cores is True


@pytest.mark.parametrize(
    "names",
    [
        [],
        ["sm10_softmax"],
        ["ada_layer_norm"],
        ["volta_sgemm_128x64_nn", "matmul_gfx942"],
        ["plasm80_x"],
        ["ampereish"],
    ],
)
def test_names_that_tell_nothing(names):
    assert generation_by_names(names) == UNKNOWN_GENERATION


def test_a_range_in_a_name_is_bounded_by_its_start():
    assert generation_by_names(["void run<enable_sm80_to_sm89<X>>(int)"]).capability in {None, (8, 0)}


def test_code_for_amd_tells_the_device():
    found = generation_by_names(["fmha_fwd_hd128_bf16_gfx950"])
    assert (found.vendor, found.architecture, found.is_lower_bound) == ("AMD", "gfx950", False)
    assert found.has_tf32 is False
    assert generation_by_names(["a_gfx942", "b_gfx950"]).architecture == ""


def test_the_generation_of_a_trace_is_described_before_it_is_named():
    old = kernel("volta_sgemm_128x64_nn", 0, 10)
    assert gpu_generation(make_trace([old])).source == GenerationSource.KERNEL_NAMES
    described = gpu_generation(make_trace([old], devices=[A100]))
    assert (described.source, described.capability, described.is_lower_bound) == ("described", (8, 0), False)
    named = gpu_generation(with_device(make_trace([old]), "H100"))
    assert (named.source, named.capability) == (GenerationSource.OPTION, (9, 0))
    silent = gpu_generation(make_trace([old], devices=[Device(0, "", {})]))
    assert (silent.source, silent.capability) == (GenerationSource.KERNEL_NAMES, (7, 0))
    assert gpu_generation(make_trace([])) == UNKNOWN_GENERATION
    assert gpu_generation(make_trace([kernel("mine", 0, 10)])) == UNKNOWN_GENERATION
