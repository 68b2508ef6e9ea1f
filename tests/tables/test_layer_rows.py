"""The rows of the layers pane, number by number, where parts take different times, streams and devices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.support.build import Event, annotation, kernel, launch, make_trace, op, step
from tests.support.traces import loaded
from tracetui.model.intervals import TimeRange
from tracetui.model.trace import Kind, Trace
from tracetui.panes import PANES
from tracetui.tables.layers import LAYER as LAYER_PART
from tracetui.tables.layers import layer_parts

LAYER = ["qkv", "attention", "out", "norm"]
Spans = Sequence[tuple[str, int]]


def launched(number: int, at: int, spans: Spans, device: str = "0", lag: int = 0) -> list[Event]:
    """Kernels that run 500 ns apart from 100 µs behind `at` on, with their launches."""
    events, start = [], at + 100_000
    for index, (name, dur) in enumerate(spans):
        correlation = 10_000 * int(device) + 1_000 * number + index + 1
        events.append(launch(at + 1_000 + 2_000 * index + lag, 500, correlation))
        events.append(Event(name, start, dur, Kind.KERNEL, (device, "stream 7"), correlation))
        start += dur + 500
    return events


def step_of(number: int, at: int, spans: Spans) -> list[Event]:
    return [step(number, at, 1_000_000), *launched(number, at, spans)]


def layers_of(*durs: int) -> list[tuple[str, int]]:
    """Layers whose first kernels run for these times, and the other three for 1 µs each."""
    return [(name, dur if name == "qkv" else 1_000) for dur in durs for name in LAYER]


def growing() -> Trace:
    """Layers of 6, 7, 8, 9 and 10 µs behind a head of 1.5 µs and before a tail of 1 µs."""
    spans = [("embedding", 1_000), *layers_of(1_000, 2_000, 3_000, 4_000, 5_000), ("logits", 1_000)]
    return make_trace(step_of(1, 0, spans))


def approx(*numbers: float) -> object:
    return pytest.approx(list(numbers))


def columns_of(trace: Trace, by: str | None, *names: str) -> list[list[object]]:
    table = PANES["layers"].build(trace, by=by)
    return [[row[name] for row in table.rows()] for name in names]


def examples(trace: Trace, by: str | None) -> list[tuple[str, int]]:
    """Name and start of the slice behind each row."""
    rows = PANES["layers"].build(trace, by=by).slices
    return [] if rows is None else [(trace.name_of(row), int(trace.slices.start[row])) for row in rows.tolist()]


def odd_layers(*durs: int) -> object:
    return columns_of(make_trace(step_of(1, 0, layers_of(*durs, 1_000)[:-3])), None, "odd")[0][0]


def test_parts_have_the_percentiles_of_their_times() -> None:
    trace = growing()
    times = columns_of(trace, None, "median_us", "p95_us", "min_us", "max_us", "gpu_busy_us", "gpu_idle_us")
    assert times == [
        [1.5, 8.0, 1.0],
        [1.5, pytest.approx(9.8), 1.0],
        [1.5, 6.0, 1.0],
        [1.5, 10.0, 1.0],
        [1.0, 6.0, 1.0],
        [0.5, 2.0, 0.0],
    ]
    assert columns_of(trace, None, "pct") == [pytest.approx([150 / 42.5, 4_000 / 42.5, 100 / 42.5])]


def test_a_row_leads_to_the_first_kernel_of_its_longest_part() -> None:
    assert examples(growing(), None) == [("embedding", 100_000), ("qkv", 131_500), ("logits", 141_500)]
    assert [start for _, start in examples(growing(), "layer")] == [101_500, 107_500, 114_500, 122_500, 131_500]
    assert examples(growing(), "kernel")[:2] == [("qkv", 131_500), ("attention", 103_000)]


def test_layers_are_compared_with_the_median_of_their_series() -> None:
    layer, time, ratio = columns_of(growing(), "layer", "layer", "median_us", "to_median")
    assert (layer, time, ratio) == ([1, 2, 3, 4, 5], [6.0, 7.0, 8.0, 9.0, 10.0], [0.75, 0.875, 1.0, 1.125, 1.25])


def test_kernels_of_a_layer_have_their_share_of_all_layers() -> None:
    names = ("index", "calls", "median_us", "p95_us", "min_us", "max_us", "pct", "variant", "family", "short_name")
    rows = list(zip(*columns_of(growing(), "kernel", *names), strict=True))
    assert rows[0] == (1, 5, 3.0, pytest.approx(4.8), 1.0, 5.0, 37.5, 1, "other", "qkv")
    assert rows[1] == (2, 5, 1.0, 1.0, 1.0, 1.0, 12.5, 1, "attention", "attention")
    assert len(rows) == 4


def test_a_quarter_more_or_a_fifth_less_is_odd_and_the_oddest_is_named_first() -> None:
    assert columns_of(growing(), None, "odd") == [[None, "1 (0.75×), 5 (1.2×)", None]]
    usual = [3_000] * 5
    assert odd_layers(*usual, 5_000) == "6 (1.2×)"
    assert odd_layers(*usual, 4_999) is None
    assert odd_layers(*usual, 1_400) == "6 (0.8×)"
    assert odd_layers(*usual, 1_401) is None


def test_three_odd_layers_are_named_and_more_are_counted() -> None:
    usual = [3_000] * 9
    assert odd_layers(*usual, 11_000, 27_000, 19_000) == "11 (4×), 12 (3×), 10 (2×)"
    assert odd_layers(*usual, 11_000, 27_000, 19_000, 11_000, 11_000) == "11 (4×), 12 (3×), 10 (2×) and 2 more"


def test_a_layer_that_takes_no_time_is_the_oddest() -> None:
    """Its four kernels take nothing, at the moment at which the layer behind it begins."""
    events = step_of(1, 0, layers_of(*[1_000] * 5))
    empty = [
        kernel(event.name, 118_000, 0, correlation=event.correlation)
        if event.lane[0] == "0" and 112_000 <= event.start < 118_000
        else event
        for event in events
    ]
    trace = make_trace(empty)
    assert layer_parts(trace).dur.tolist() == [6_000, 12_000, 0, 6_000, 5_500]
    assert columns_of(trace, None, "odd") == [["3 (0×), 2 (2×)"]]
    assert columns_of(trace, "layer", "to_median") == [approx(1, 2, 0, 1, 5.5 / 6)]


def test_layers_are_no_multiple_of_a_median_of_nothing() -> None:
    events = [
        kernel(event.name, 100_000, 0, correlation=event.correlation) if event.lane[0] == "0" else event
        for event in step_of(1, 0, layers_of(*[1_000] * 5))
    ]
    trace = make_trace(events)
    assert columns_of(trace, "layer", "median_us", "to_median") == [[0] * 5, [None] * 5]
    assert columns_of(trace, "kernel", "pct") == [[0] * 4]


def test_every_device_has_parts_of_its_own() -> None:
    first, second = [("embedding", 1_000), *layers_of(*[1_000] * 6)], [("embedding", 2_000), *layers_of(*[3_000] * 6)]
    trace = make_trace([*step_of(1, 0, first), *launched(1, 0, second, "1", lag=1_000)])
    parts = layer_parts(trace)
    one, other = [1_500, *[6_000] * 5, 5_500], [2_500, *[8_000] * 5, 7_500]
    assert sorted([parts.dur[:7].tolist(), parts.dur[7:].tolist()]) == [one, other]
    assert sorted(parts.busy.tolist()) == sorted([1_000, *[4_000] * 6, 2_000, *[6_000] * 6])
    assert parts.first.tolist() == [0, *range(1, 25, 4), 25, *range(26, 50, 4)]
    assert columns_of(trace, None, "runs", "steps", "layers") == [[2, 12], [1, 1], [None, 6]]


def test_a_part_begins_with_what_runs_beside_the_part_before_it() -> None:
    """The first kernel of the third layer runs on another stream from the middle of the second one on."""
    events = step_of(1, 0, layers_of(*[1_000] * 5))
    early = [
        kernel("qkv", 108_000, 1_000, "stream 9", correlation=event.correlation) if event.start == 112_000 else event
        for event in events
    ]
    parts = layer_parts(make_trace(early))
    assert parts.start.tolist() == [100_000, 106_000, 108_000, 118_000, 124_000]
    assert parts.end.tolist() == [106_000, 108_000, 118_000, 124_000, 129_500]
    assert parts.busy.tolist() == [4_000, 1_500, 6_000, 4_000, 4_000]


def test_a_kernel_of_the_last_but_one_part_may_end_last() -> None:
    events = [
        kernel("norm", event.start, 50_000, "stream 9", correlation=event.correlation)
        if event.start == 122_500
        else event
        for event in step_of(1, 0, layers_of(*[1_000] * 5))
    ]
    assert layer_parts(make_trace(events)).end.tolist()[-1] == 172_500


def test_the_last_part_ends_before_a_step_without_layers() -> None:
    for spans in ([("other", 1_000)], [("other", 1_000), ("more", 1_000)]):
        trace = make_trace([*step_of(1, 0, layers_of(*[1_000] * 5)), *step_of(2, 2_000_000, spans)])
        parts = layer_parts(trace)
        assert (parts.step.tolist(), parts.start.tolist()) == ([0] * 5, [*range(100_000, 130_000, 6_000)])
        assert parts.end.tolist() == [106_000, 112_000, 118_000, 124_000, 129_500]


def test_steps_of_one_shape_share_a_row_and_shares_are_of_their_own_shape() -> None:
    """The last step is cut off behind its third layer and has no parts."""
    tail = [("logits", 1_000)]
    steps = [
        step_of(number, 2_000_000 * number, [*layers_of(*[1_000] * count), *tail])
        for number, count in enumerate((8, 4, 4, 8))
    ]
    trace = make_trace([event for events in steps[:3] for event in events] + steps[3][:25])
    assert layer_parts(trace).shape.tolist() == [0] * 9 + [1] * 10
    assert columns_of(trace, None, "layers", "steps", "runs", "part") == [
        [8, None, 4, None],
        [1, 1, 2, 2],
        [8, 1, 8, 2],
        ["layer", "tail", "layer", "tail"],
    ]
    assert columns_of(trace, None, "pct") == [pytest.approx([4_800 / 49, 100 / 49, 96, 4])]
    assert columns_of(trace, "layer", "layer", "runs") == [[*range(1, 9), 1, 2, 3, 4], [1] * 8 + [2] * 4]
    assert columns_of(trace, "kernel", "calls", "series") == [[8] * 4 + [8] * 4, [1] * 8]


def test_kernels_of_four_sequences_are_listed_the_most_frequent_first() -> None:
    kinds = ["full", "window", "full", "sparse", "full", "window", "full", "block", "full", "window", "sparse", "once"]
    spans = [(name, 1_000) for kind in kinds for name in ("norm", "qkv", kind, "out", "route", "experts")]
    trace = make_trace(step_of(1, 0, spans))
    assert columns_of(trace, None, "layers", "variants") == [[12], [5]]
    index, variant, calls, name = columns_of(trace, "kernel", "index", "variant", "calls", "name")
    assert index == [1, 2, 3, 4, 5, 6] * 4
    assert variant == [number for number in (1, 2, 3, 4) for _ in range(6)]
    assert calls == [count for count in (5, 3, 2, 1) for _ in range(6)]
    assert name[2::6] == ["full", "window", "sparse", "block"]
    assert columns_of(trace, "kernel", "pct")[0][0] == pytest.approx(100 * 5 / (5 * 9))


def test_a_range_holds_the_parts_that_it_touches() -> None:
    build = PANES["layers"].build
    assert [row["layer"] for row in build(growing(), step=TimeRange(108_000, 115_000), by="layer").rows()] == [2, 3]
    assert [row["runs"] for row in build(growing(), step=TimeRange(101_600, 101_700)).rows()] == [1]


def test_kernels_without_a_launch_and_what_is_no_kernel_are_in_no_part() -> None:
    events = step_of(1, 0, layers_of(*[1_000] * 5))
    more = [kernel("lost", 103_000, 10, "stream 9"), launch(1_100, 10, 900), annotation("mark", 1_000, 10)]
    copy = Event("copy", 104_000, 10, Kind.MEMCPY, ("0", "stream 8"), 900)
    parts = layer_parts(make_trace([*events, *more, copy]))
    assert (parts.count.tolist(), parts.part.tolist()) == ([4] * 5, [1] * 5)


def test_operators_that_launched_a_kernel_in_all_layers_are_named() -> None:
    """The second kernel of each layer has an operator, the third one in the first layers only."""
    within = [
        op(f"aten::{LAYER[index % 4]}", 900 + 2_000 * index, 1_000)
        for index in range(20)
        if index % 4 == 1 or (index % 4 == 2 and index < 12)
    ]
    trace = make_trace([*step_of(1, 0, layers_of(*[1_000] * 5)), *within])
    table = PANES["layers"].build(trace, by="kernel")
    assert [row["op"] for row in table.rows()] == [None, "aten::attention", None, None]
    assert not table["op"].is_doubtful(1)


def test_modules_of_layers_follow_their_numbers_in_every_step() -> None:
    events: list[Event] = []
    for number in (1, 2):
        at = 2_000_000 * number
        events += step_of(number, at, [("embedding", 1_000), *layers_of(*[1_000] * 5)])
        events += [
            Event(f"nn.Module: Block_{layer}", at + 2_900 + 8_000 * layer, 7_900, Kind.PYTHON) for layer in range(5)
        ]
    trace = make_trace(events)
    assert columns_of(trace, "layer", "module", "runs") == [[f"Block_{layer}" for layer in range(5)], [2] * 5]
    assert columns_of(trace, None, "module") == [[None, "Block_#"]]


def test_steps_of_two_devices_are_apart_and_only_layers_have_numbers() -> None:
    spans = [("embedding", 1_000), *layers_of(*[1_000] * 3), ("logits", 1_000)]
    events = [
        event
        for number in (1, 2)
        for event in (
            *step_of(number, 2_000_000 * number, spans),
            *launched(number, 2_000_000 * number, spans, "1", lag=1_000),
        )
    ]
    parts = layer_parts(make_trace(events))
    assert parts.step.tolist() == [0] * 10 + [1] * 10
    assert parts.part.tolist() == [0, 1, 1, 1, 3] * 4
    assert parts.layer.tolist() == [0, 1, 2, 3, 0] * 4
    assert parts.count.tolist() == [1, 4, 4, 4, 1] * 4
    assert parts.dur.tolist() == [1_500, 6_000, 6_000, 6_000, 1_000] * 4


WORK = [
    ("ampere_sgemm_128x64_nn", 4_000),
    ("flash_fwd_kernel", 3_000),
    ("softmax_warp_forward", 1_000),
    ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 2_000),
    ("ampere_sgemm_128x64_nn", 6_000),
    ("layer_norm_kernel", 2_000),
]


def test_purposes_of_a_layer_add_up_to_its_kernels() -> None:
    # The second of four layers waits in its collective, and the last one is cut short behind it.
    slow = [(name, 8_000 if "nccl" in name else dur) for name, dur in WORK]
    trace = make_trace(step_of(1, 0, [("embedding", 500), *WORK, *slow, *WORK, *WORK[:4]]))
    names = ("purpose", "kernels", "median_us", "min_us", "max_us", "runs", "layers", "pct")
    rows = list(zip(*columns_of(trace, "purpose", *names), strict=True))
    whole = 3 * 18 + 6 + 10
    # No layer chooses tokens: its softmax is a reduction, also where nothing is trained.
    assert rows == [
        ("gemm", 2, 10.0, 4.0, 10.0, 4, 4, pytest.approx(3_400 / whole)),
        ("communication", 1, 2.0, 2.0, 8.0, 4, 4, pytest.approx(1_400 / whole)),
        ("attention", 1, 3.0, 3.0, 3.0, 4, 4, pytest.approx(1_200 / whole)),
        ("norm", 1, 2.0, 0.0, 2.0, 4, 4, pytest.approx(600 / whole)),
        ("reduction", 1, 1.0, 1.0, 1.0, 4, 4, pytest.approx(400 / whole)),
    ]
    # Its row leads to the longest kernel of the layer that spends most on it.
    assert [name for name, _ in examples(trace, "purpose")] == [WORK[each][0] for each in (4, 3, 1, 5, 2)]
    specs = ("products_pct", "attention_pct", "comm_pct", "norm_pct", "rest_pct")
    shares = list(zip(*columns_of(trace, "layer", *specs), strict=True))
    assert shares[1] == approx(*(100 * each / 24 for each in (10, 3, 8, 2, 1)))
    assert shares[3] == approx(40, 30, 20, 0, 10)


@pytest.mark.parametrize("tokens", [1024, 16384])
@pytest.mark.full
def test_a_diffusion_transformer_has_double_and_single_blocks_in_each_pass(tokens: int, shared_trace) -> None:
    trace = loaded(shared_trace(f"pairs/xdit_flux_{tokens}_tokens.json.gz"))
    layers = [row["layers"] for row in PANES["layers"].build(trace).rows() if row["part"] == "layer"]
    assert layers == [24, *[19, 38] * 4]
    parts = layer_parts(trace)
    names = [trace.name_of(row) for row in parts.kernels.tolist()]
    blocks = (parts.part == LAYER_PART) & (parts.series > 1)
    for index in np.flatnonzero(blocks).tolist():
        mine = names[int(parts.first[index]) : int(parts.first[index] + parts.count[index])]
        # A block has one attention; a double one has an MLP for the image and one for the text.
        is_double = parts.series[index] % 2 == 0
        assert sum("sage_fwd" in name for name in mine) == 1
        assert sum("gelu" in name for name in mine) == (2 if is_double else 1)
    assert blocks.sum() == sum("sage_fwd" in name for name in names)
    modules = columns_of(trace, "layer", "module")[0]
    assert modules[:24] == [f"T5EncoderModel_0 / T5Stack_0 / T5Block_{number}" for number in range(24)]
