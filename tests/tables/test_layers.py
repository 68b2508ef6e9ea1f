"""The layers pane: parts of a step that add up, layers by number and kernel by kernel, and who has none."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from dataclasses import replace
from statistics import median

import numpy as np
import pytest

from tests.support.build import Event, annotation, kernel, launch, make_trace, op, python, step
from tests.support.captures import CapturedLaunch, recording
from tests.support.graphs import replay
from tests.support.slow_layers import SlowKernel, slow_medians, slow_series
from tests.support.traces import loaded
from tracetui.linking.links import NO_GPU
from tracetui.linking.step_sources import with_steps
from tracetui.model.intervals import TimeRange
from tracetui.model.trace import Trace
from tracetui.panes import PANES
from tracetui.reading.load import load
from tracetui.tables.layers import (
    ABOUT_LAYERS,
    NO_LAYERS,
    NO_LAYERS_IN_RANGE,
    NO_NAMES,
    TAIL,
    layer_parts,
)
from tracetui.tables.repeats import common_module, layer_modules

LAYER = ["qkv", "attention", "out", "norm"]


def step_of(number: int, at: int, names: list[str], dur: int = 1_000) -> list[Event]:
    """A step of 1 ms whose kernels are launched every 2 µs and run for 1 µs each, 500 ns apart."""
    events = [step(number, at, 1_000_000)]
    for index, name in enumerate(names):
        launched, correlation = at + 1_000 + 2_000 * index, 1_000 * number + index + 1
        events += [launch(launched, 500, correlation)]
        events += [kernel(name, at + 100_000 + (dur + 500) * index, dur, correlation=correlation)]
    return events


def model(layers: int = 6, steps: int = 2) -> Trace:
    names = ["embedding", "scale", *LAYER * layers, "logits"]
    return make_trace([event for number in range(steps) for event in step_of(number + 1, 2_000_000 * number, names)])


def test_parts_of_a_step_add_up_to_its_gpu_span() -> None:
    trace = model()
    head, layer, tail = PANES["layers"].build(trace).rows()
    assert [each["part"] for each in (head, layer, tail)] == ["head", "layer", "tail"]
    assert (head["kernels"], layer["layers"], layer["kernels"], layer["runs"], layer["steps"]) == (2, 6, 4, 12, 2)
    assert (head["median_us"], layer["median_us"], tail["median_us"]) == (3.0, 6.0, 1.0)
    assert (layer["gpu_busy_us"], layer["gpu_idle_us"], tail["gpu_idle_us"]) == (4.0, 2.0, 0.0)
    assert (layer["variants"], layer["odd"], head["layers"], head["variants"]) == (1, None, None, None)
    parts = layer_parts(trace)
    assert [int(parts.dur[parts.step == index].sum()) for index in (0, 1)] == [26 * 1500 + 1000] * 2
    assert [each["pct"] for each in (head, layer, tail)] == pytest.approx([7.5, 90, 2.5])


def test_one_step_and_one_layer() -> None:
    trace = model(steps=3)
    assert [row["runs"] for row in PANES["layers"].build(trace, step=2).rows()] == [1, 6, 1]
    rows = list(PANES["layers"].build(trace, by="layer").rows())
    assert [row["layer"] for row in rows] == [1, 2, 3, 4, 5, 6]
    assert {(row["runs"], row["kernels"], row["median_us"], row["to_median"]) for row in rows} == {(3, 4, 6.0, 1.0)}


def test_kernels_of_a_layer_are_listed_by_position() -> None:
    rows = list(PANES["layers"].build(model(), by="kernel").rows())
    assert [(row["index"], row["name"], row["calls"]) for row in rows] == [
        (index, name, 12) for index, name in enumerate(LAYER, 1)
    ]
    assert [row["pct"] for row in rows] == pytest.approx([100 / 6] * 4)


def test_an_odd_layer_is_named_and_an_even_one_is_not() -> None:
    names = ["embedding", *LAYER * 5, "logits"]
    slow = [event if event.start != 100_000 + 1500 * 5 else None for event in step_of(1, 0, names)]
    events = [event for event in slow if event is not None]
    # The first kernel of the second layer runs 4 µs longer, and everything behind it begins later.
    late = [
        Event(event.name, event.start + 4_000, event.dur, event.kind, event.lane, event.correlation)
        if event.lane[0] == "0" and event.start > 100_000 + 1500 * 5
        else event
        for event in events
    ]
    trace = make_trace([*late, kernel("qkv", 100_000 + 1500 * 5, 5_000, correlation=1_006)])
    assert [row["odd"] for row in PANES["layers"].build(trace).rows()] == [None, "2 (1.7×)", None]
    assert "No layer is odd" not in PANES["layers"].build(trace).note
    assert [row["odd"] for row in PANES["layers"].build(make_trace(step_of(1, 0, names))).rows()] == [None] * 3


def test_alternating_attention_makes_two_variants_of_one_layer() -> None:
    layer = ["norm", "qkv", "out", "route", "experts"]
    names = [name for index in range(24) for name in [*layer[:2], ("full", "window")[index % 2], *layer[2:]]]
    trace = make_trace(step_of(1, 0, names))
    (row,) = PANES["layers"].build(trace).rows()
    assert (row["layers"], row["kernels"], row["variants"]) == (24, 6, 2)
    rows = list(PANES["layers"].build(trace, by="kernel").rows())
    assert [row["name"] for row in rows if row["index"] == 3] == ["full", "window"]
    assert {row["calls"] for row in rows} == {12}


@pytest.mark.parametrize(
    ("kinds", "sentence"),
    [
        ("FW" * 12, "1, 3, 5 … of 6 kernels, 9.0 µs; 2, 4, 6 … of 6 kernels"),
        ("NFW" + "FW" * 10, "2, 4, 6 … of 6 kernels, 9.0 µs; 3, 5, 7 … of 6 kernels"),
        ("WWWWWF" * 4, "1, 2, 3 … of 6 kernels, 9.0 µs; 6, 12, 18 … of 6 kernels"),
        ("F" * 24, ""),
        ("F" * 12 + "FW" * 6, ""),
        ("F" * 23 + "W", ""),
    ],
)
def test_layers_that_alternate_in_kind_are_said_to(kinds: str, sentence: str) -> None:
    names = [name for kind in kinds for name in ["norm", "qkv", kind, "out", "route", "experts"]]
    for by in (None, "layer"):
        note = PANES["layers"].build(make_trace(step_of(1, 0, names)), by=by).note
        assert ("alternate in kind" in note) == bool(sentence) and sentence in note


def test_steps_of_different_depth_are_not_mixed() -> None:
    trace = make_trace([*step_of(1, 0, LAYER * 4), *step_of(2, 2_000_000, LAYER * 8)])
    assert [(row["layers"], row["steps"]) for row in PANES["layers"].build(trace).rows()] == [(4, 1), (8, 1)]


def test_two_encoders_of_a_step_are_two_series() -> None:
    names = ["embedding", *LAYER * 6, "project", "norm", *["norm", "q", "k", "v", "softmax", "out"] * 12, "logits"]
    trace = make_trace(step_of(1, 0, names))
    rows = list(PANES["layers"].build(trace).rows())
    assert [(row["part"], row["series"], row["layers"], row["kernels"]) for row in rows] == [
        ("head", 1, None, 1),
        ("layer", 1, 6, 4),
        ("between", 2, None, 2),
        ("layer", 2, 12, 6),
        ("tail", 3, None, 1),
    ]
    assert sum(PANES["layers"].build(trace)["pct"].values) == pytest.approx(100)
    parts = layer_parts(trace)
    assert int(parts.count.sum()) == len(names) and int(parts.dur.sum()) == 1500 * len(names) - 500
    assert [row["layer"] for row in PANES["layers"].build(trace, by="layer").rows()] == [*range(1, 7), *range(1, 13)]


def test_nodes_of_a_graph_are_folded_in_the_order_in_which_they_ran() -> None:
    trace = make_trace([annotation("ProfilerStep#1", 0, 5_000), *replay(100, 7, ["embedding", *LAYER * 5])])
    assert [(row["part"], row["layers"]) for row in PANES["layers"].build(trace).rows()] == [
        ("head", None),
        ("layer", 5),
    ]


def test_what_has_no_layers_says_so() -> None:
    rest = [f"k{index}" for index in range(40)]
    for names in (["a", "b", "c"] * 2, [*rest, *["a", "b", "c"] * 3]):
        none = PANES["layers"].build(make_trace(step_of(1, 0, names)))
        assert (len(none), none.note) == (0, NO_LAYERS)
    # What repeats may be a detail, so that nobody is told that nothing repeats.
    assert "30 % of its kernels" in NO_LAYERS
    assert PANES["layers"].build(model()).note.startswith(ABOUT_LAYERS + NO_NAMES)
    assert PANES["layers"].build(make_trace([op("aten::mm", 0, 10)])).note == NO_GPU
    without = make_trace([event for event in step_of(1, 0, LAYER * 5) if event.name != "ProfilerStep#1"])
    assert PANES["layers"].build(without).note.startswith("Layers are looked for within steps.")
    for by in ("layer", "purpose", "kernel"):
        assert len(PANES["layers"].build(make_trace([]), by=by)) == 0


FACTS = {
    "i01_mi300x_vllm_decode_full_graph.json.gz": (24, 433_500, 5_000),
    "i02_mi300x_sglang_decode_nested.json.gz": (36, 250_400, 1_000),
    "i03_mi300x_vllm_tp4_no_annotations.json.gz": (80, 200_300, 500),
}
"""Layers of a decode step, and the time of one in ns with the width of what is near enough."""
NAMES = {
    "i01_mi300x_vllm_decode_full_graph.json.gz": "execute_32_context_0(sq0sk0sqsq0sqsk0)"
    "_generation_32(sq32sk55086sqsq32sqsk55086)",
    "i02_mi300x_sglang_decode_nested.json.gz": "step[DECODE bs=32]",
    "i03_mi300x_vllm_tp4_no_annotations.json.gz": "vllm/v1/worker/gpu_worker.py(258): execute_model",
}


def kernels_by_step(path: str, name: str) -> list[list[SlowKernel]]:
    """The kernels of each slice with a name, in order of launch and start, out of the file itself."""
    with gzip.open(path) as file:
        events = json.load(file)["traceEvents"]
    calls: dict[int, float] = {}
    for event in events:
        if event.get("cat") in ("cuda_runtime", "cuda_driver") and "correlation" in event.get("args", {}):
            calls.setdefault(event["args"]["correlation"], event["ts"])
    ran = [event for event in events if event.get("cat") == "kernel"]
    found: dict[float, list[tuple[float, float, SlowKernel]]] = defaultdict(list)
    marks = [
        event
        for event in events
        if event.get("cat") in ("user_annotation", "python_function") and name in event["name"]
    ]
    for mark in marks:
        for event in ran:
            called = calls[event["args"]["correlation"]]
            if mark["ts"] <= called < mark["ts"] + mark["dur"]:
                begin, end = round(event["ts"] * 1000), round((event["ts"] + event["dur"]) * 1000)
                found[mark["ts"]].append((called, begin, SlowKernel(event["name"], begin, end)))
    return [[each[2] for each in sorted(found[moment], key=lambda each: each[:2])] for moment in sorted(found)]


@pytest.mark.parametrize("name", FACTS)
@pytest.mark.full
def test_layers_of_recorded_servers_are_those_of_the_slow_definition(name, shared_trace) -> None:
    path = str(shared_trace(f"inference/{name}"))
    slow = slow_medians(kernels_by_step(path, NAMES[name]))
    trace = load(path)
    if not len(layer_parts(trace)):
        trace = with_steps(trace, NAMES[name])
    parts = layer_parts(trace)
    of_step = [parts.dur[(parts.step == each) & (parts.layer > 0)] for each in np.unique(parts.step).tolist()]
    assert [(len(each), float(np.median(each))) for each in of_step] == pytest.approx(slow, abs=3)
    count, time, width = FACTS[name]
    assert slow[-1][0] == count
    assert median(each[1] for each in slow[1:] or slow) == pytest.approx(time, abs=width)


@pytest.mark.parametrize(
    ("name", "steps", "kernels"),
    [
        ("i01_mi300x_vllm_decode_full_graph.json.gz", None, [3, 24, 17, 3]),
        ("i02_mi300x_sglang_decode_nested.json.gz", None, [8, 36, 15, 2]),
        (
            "i03_mi300x_vllm_tp4_no_annotations.json.gz",
            "vllm/v1/worker/gpu_worker.py(258): execute_model",
            [5, 80, 16, 7],
        ),
        ("i07_assembled_vllm_async_decode.json.gz", None, [3, 24, 17, 3]),
    ],
)
@pytest.mark.full
def test_kernels_of_head_layers_and_tail_of_recorded_servers(name, steps, kernels, shared_trace) -> None:
    trace = loaded(shared_trace(f"inference/{name}"))
    rows = list(PANES["layers"].build(with_steps(trace, steps) if steps else trace).rows())
    head, layer, tail = rows[-3:]
    assert [head["kernels"], layer["layers"], layer["kernels"], tail["kernels"]] == kernels


@pytest.mark.full
def test_both_encoders_of_a_recorded_model_are_the_series_of_the_slow_definition(shared_trace) -> None:
    path = str(shared_trace("d06_h100_stack_mem.json.gz"))
    recorded = load(path)
    trace = with_steps(recorded, "Owlv2ForObjectDetection_0")
    parts = layer_parts(trace)
    steps = kernels_by_step(path, "nn.Module: Owlv2ForObjectDetection_0")
    assert len(steps) == 5
    for index, kernels in zip(np.unique(parts.step).tolist(), steps, strict=True):
        slow = slow_series([each.name for each in kernels], [each.end - each.start for each in kernels])
        mine = parts.step == index
        first = parts.first - parts.first[mine].min()
        series = [first[mine & (parts.layer > 0) & (parts.series == each)].tolist() for each in (1, 2)]
        assert series == [each.starts for each in slow]
        for number, each in enumerate(slow, 1):
            assert parts.dur[mine & (parts.layer > 0) & (parts.series == number)] == pytest.approx(
                each.times(kernels), abs=3
            )
    rows = list(PANES["layers"].build(trace).rows())
    assert [(row["part"], row["layers"], row["kernels"], row["runs"]) for row in rows] == [
        ("head", None, 8, 5),
        ("layer", 24, 21, 120),
        ("between", None, 14, 5),
        ("layer", 12, 24, 60),
        ("tail", None, 52, 5),
    ]
    # Without these steps five passes are one step, in which the same layers are found.
    whole = layer_parts(recorded)
    assert [int((parts.layer > 0).sum()), int((whole.layer > 0).sum())] == [180, 180]
    assert whole.part.max() == TAIL and whole.series.max() == 11


def test_a_range_without_layers_says_so_where_the_trace_has_some() -> None:
    build = PANES["layers"].build
    assert build(model(), step=TimeRange(0, 200_000)).note.startswith(ABOUT_LAYERS + NO_NAMES)
    empty = build(model(), step=TimeRange(1_500_000, 1_600_000))
    assert (len(empty), empty.note) == (0, NO_LAYERS_IN_RANGE)
    assert build(make_trace(step_of(1, 0, LAYER)), step=TimeRange(1_500_000, 1_600_000)).note == NO_LAYERS


def named_model(frames: str, capture: bool) -> Trace:
    """Six layers in a graph that was captured within modules, or launched within these."""
    layers = [(name, number) for number in range(6) for name in LAYER]
    names = [name for name, _ in layers]
    if not capture:
        events = step_of(1, 0, names)
        within = [
            python(f"nn.Module: {frames.format(number)}", 900 + 2_000 * index, 1_000)
            for index, (_, number) in enumerate(layers)
        ]
        return make_trace([*events, *within])
    graph = [CapturedLaunch(f"aten::{name}", name, frames.format(number)) for name, number in layers]
    trace = make_trace([step(1, 9_000, 9_000), *replay(10_000, 91, names)])
    return replace(trace, graph_recordings=(recording([graph]),))


@pytest.mark.parametrize("capture", [True, False], ids=["captured", "launched"])
def test_layers_have_the_modules_around_their_launches_or_their_capture(capture: bool) -> None:
    trace = named_model("DecoderLayer_{}", capture)
    table = PANES["layers"].build(trace, by="layer")
    assert [row["module"] for row in table.rows()] == [f"DecoderLayer_{number}" for number in range(6)]
    assert table["module"].is_doubtful(0) == capture
    (whole,) = PANES["layers"].build(trace).rows()
    assert (whole["part"], whole["module"]) == ("layer", "DecoderLayer_#")
    ops = [row["op"] for row in PANES["layers"].build(trace, by="kernel").rows()]
    assert ops == ([f"aten::{name}" for name in LAYER] if capture else [None] * 4)


@pytest.mark.parametrize(
    ("names", "module"),
    [
        (["Qwen2Model_0 / Qwen2Layer_0", "Qwen2Model_0 / Qwen2Layer_11"], "Qwen2Model_0 / Qwen2Layer_#"),
        (["Model_0 / Layer_0", "Model_1 / Layer_0"], "Model_# / Layer_0"),
        (["layers.0.conv2d", "layers.1.conv2d"], "layers.#.conv2d"),
        (["Qwen2Layer_0", "Qwen3Layer_1"], None),
        (["Layer_0", None], None),
        ([], None),
    ],
)
def test_only_numbers_of_instances_that_differ_are_left_out(names: list[str | None], module: str | None) -> None:
    assert common_module(names) == module


@pytest.mark.parametrize("capture", [True, False], ids=["captured", "launched"])
@pytest.mark.parametrize(
    ("child", "purpose"),
    [
        ("Qwen2RMSNorm_{}", "norm"),
        ("BatchNorm2d_{}", "norm"),
        ("Qwen2RotaryEmbedding_{}", "rope"),
        ("Embedding_{}", "embedding"),
        ("SiLU_{}", "activation"),
        ("PreNorm_{} / Linear_0", None),
        ("Normalise_{}", None),
    ],
)
def test_the_module_around_a_kernel_that_only_computes_is_its_purpose(
    child: str, purpose: str | None, capture: bool
) -> None:
    """Each layer has a product, a copy and two pointwise kernels, of which the module alone tells."""
    add = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, A>(int)"
    names = ["ampere_sgemm_128x64_nn", "copy_kernel", add, "pow_kernel"]
    launches = [(name, child.format(layer)) for layer in range(6) for name in names]
    if capture:
        graph = [
            CapturedLaunch("aten::x", name, f"Layer_{layer // 4} / {path}")
            for layer, (name, path) in enumerate(launches)
        ]
        trace = make_trace([step(1, 9_000, 9_000), *replay(10_000, 91, [name for name, _ in launches])])
        trace = replace(trace, graph_recordings=(recording([graph]),))
    else:
        within = [
            python(f"nn.Module: {word}", 900 + 2_000 * index + depth, 1_000 - 2 * depth)
            for index, (_, path) in enumerate(launches)
            for depth, word in enumerate(path.split(" / "))
        ]
        trace = make_trace([*step_of(1, 0, [name for name, _ in launches]), *within])
    table = PANES["layers"].build(trace, by="purpose")
    kernels = {row["purpose"]: row["kernels"] for row in table.rows()}
    doubtful = [row["purpose"] for index, row in enumerate(table.rows()) if table["purpose"].is_doubtful(index)]
    assert kernels["gemm"] == 1
    assert kernels.get(purpose) == (3 if purpose else None)
    assert doubtful == ([purpose] if capture and purpose else [])
    layer = PANES["layers"].build(trace, by="layer")
    assert layer["norm_pct"].is_doubtful(0) == (capture and purpose == "norm")
    assert bool(layer["norm_pct"].values[0]) == (purpose == "norm")


@pytest.mark.parametrize("by", [None, "layer", "purpose", "kernel"])
def test_no_grouping_says_that_names_are_not_known_where_one_has_them(by: str | None) -> None:
    assert PANES["layers"].build(named_model("DecoderLayer_{}", False), by=by).note.startswith(f"{ABOUT_LAYERS}.")


def test_that_no_layer_is_odd_is_said_of_layers_that_were_compared() -> None:
    """Silence would leave open whether they were."""
    even = "No layer is odd: the time of each is within a factor of 1.25 of the median of all."
    assert even in PANES["layers"].build(named_model("DecoderLayer_{}", False)).note


def test_a_module_that_holds_all_layers_names_none() -> None:
    table = PANES["layers"].build(named_model("Model_0", True), by="layer")
    assert [row["module"] for row in table.rows()] == [None] * 6
    assert table.note.endswith("its name in the program is not known.")


def test_the_path_that_tells_layers_apart_is_as_short_as_can_be() -> None:
    def rows_of(trace: Trace) -> list[np.ndarray]:
        parts = layer_parts(trace)
        return [parts.kernels[low : low + count] for low, count in zip(parts.first, parts.count, strict=True)]

    trace = named_model("layers.{}.attention", True)
    assert layer_modules(trace, rows_of(trace)) == [f"layers.{number}" for number in range(6)]


@pytest.mark.parametrize(("frame", "layers"), [("Model_0", (12, 2)), ("DecoderLayer_{}", (6, 4)), ("Act", (12, 2))])
def test_modules_tell_layers_of_two_equal_halves(frame: str, layers: tuple[int, int]) -> None:
    names = ["qkv", "norm"] * 12
    within = [python(f"nn.Module: {frame.format(index // 4)}", 900 + 2_000 * index, 1_000) for index in range(24)]
    (row,) = PANES["layers"].build(make_trace([*step_of(1, 0, names), *within])).rows()
    assert (row["layers"], row["kernels"]) == layers
    assert row["module"] == ("DecoderLayer_#" if layers == (6, 4) else None)


def test_modules_of_several_threads_that_mix_tell_no_layers() -> None:
    names = ["qkv", "norm"] * 12
    within = [python(f"nn.Module: Layer_{index % 3}", 900 + 2_000 * index, 1_000) for index in range(24)]
    (row,) = PANES["layers"].build(make_trace([*step_of(1, 0, names), *within])).rows()
    assert (row["layers"], row["module"]) == (12, None)
