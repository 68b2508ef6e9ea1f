"""Counters of GPUs on the timeline: under the streams of their GPU, with the value at the selection."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.build import Event, make_trace, op
from tracetui.drawing.report.lanes_svg import Stretch, arrange
from tracetui.drawing.timeline.grid import TimelineGrid, View, label_width
from tracetui.drawing.timeline.layout import Layout
from tracetui.drawing.timeline.palette import palette
from tracetui.drawing.timeline.raster import Curve, TimelineIndex
from tracetui.drawing.timeline.window import Window
from tracetui.model.hardware_counters import Quantity, hardware_counter, quantity_of, short_counter
from tracetui.model.trace import Counter, Kind, Trace


def sampled(name: str, *values: tuple[int, float], gpu: int = 0) -> Counter:
    """A counter of a GPU with (time in ns, value)."""
    time, value = np.array([each[0] for each in values], np.int64), np.array([each[1] for each in values], np.float64)
    return hardware_counter(gpu, name, f"GPU {gpu} Counters", time, value, np.zeros(len(time), np.int32))


def on_gpu(number: int, start: int) -> Event:
    """A kernel of another GPU."""
    return Event("gemm", start, 100, Kind.KERNEL, (str(number), "stream 7"))


def two_gpus(*counters: Counter) -> Trace:
    """A thread, and a stream on each of two GPUs."""
    return make_trace([op("aten::mm", 0, 50), on_gpu(0, 100), on_gpu(1, 300)], counters=counters)


def labels(trace: Trace, width: int = 160, height: int = 20, selected: int = -1) -> list[str]:
    """The names of the lanes as drawn."""
    timeline_index = TimelineIndex(trace)
    frame = TimelineGrid(timeline_index, Layout(timeline_index)).draw(
        View(Window(0, 10.0), selected), width, height, palette()
    )
    column = [frame.text(row)[: label_width(width) - 1].strip() for row in range(1, height)]
    return [text for text in column if text]


def test_counters_stand_under_the_streams_of_their_gpu() -> None:
    of_program = Counter("app", "queue", "", np.array([0, 10]), np.array([1.0, 2.0]))
    trace = two_gpus(sampled("Power (W)", (0, 5), gpu=1), sampled("Power (W)", (0, 3)), of_program)
    assert [text for text in labels(trace) if "python" not in text] == [
        "1",
        "queue ≤2",
        "GPU 0 idle",
        "GPU 0 stream 7",
        "Power 3 W",
        "GPU 1 idle",
        "GPU 1 stream 7",
        "Power 5 W",
    ]


def test_the_name_has_the_value_at_the_start_of_the_selection() -> None:
    trace = two_gpus(sampled("SM Active (%)", (0, 10), (100, 54.3), (200, 20)))
    selected = int(trace.slices.of_kind(Kind.KERNEL)[0])
    assert "SM Active 54.3 %" in labels(trace, selected=selected)
    assert "SM Active ≤54.3 %" in labels(trace)
    late = int(trace.slices.of_kind(Kind.KERNEL)[1])
    ended = replace(trace, counters=(sampled("SM Active (%)", (0, 10), (10, 10)),))
    assert "SM Active –" in labels(ended, selected=late)


def test_the_value_is_whole_where_the_name_has_no_room() -> None:
    trace = two_gpus(sampled("Memory Clock (MHz)", (0, 2619), (500, 2619)))
    selected = int(trace.slices.of_kind(Kind.KERNEL)[0])
    (text,) = [text for text in labels(trace, 80, selected=selected) if "MHz" in text]
    assert text.endswith(" 2619 MHz")


def test_a_share_is_drawn_of_the_whole_and_a_power_of_its_highest() -> None:
    edges = np.array([0, 10, 20])
    share, power = (
        Curve(sampled(name, (0, 50), (10, 25))).bars(edges).tobytes().decode("utf-32-le")
        for name in ("SM Active (%)", "Power (W)")
    )
    assert (share, power) == ("▄▂", "█▄")


def test_a_hole_between_samples_is_empty() -> None:
    time = [*range(0, 100, 10), *range(1000, 1100, 10)]
    trace = two_gpus(sampled("Power (W)", *((moment, 5.0) for moment in time)))
    curve = TimelineIndex(trace).curves[0]
    bars = curve.bars(np.array([0, 90, 400, 900, 1000, 1100])).tobytes().decode("utf-32-le")
    assert bars == "▁▁  ▁"
    assert np.isnan(curve.value_at(500))
    assert curve.value_at(95) == 5


def test_what_the_profiler_derived_is_not_drawn() -> None:
    names = [curve.name for curve in TimelineIndex(two_gpus(sampled("Cycles (Current Kernel)", (0, 5)))).curves]
    assert names == []
    assert [curve.name for curve in TimelineIndex(two_gpus(sampled("Cycles (all)", (0, 5)))).curves] == ["Cycles"]


@pytest.mark.parametrize(
    ("name", "short", "quantity"),
    [
        ("SM Active (%)", "SM Active", Quantity.SM_ACTIVE),
        ("sm__cycles_active.avg.pct_of_peak_sustained_elapsed", "SM Active", Quantity.SM_ACTIVE),
        ("sm__cycles_active.sum", "sm cycles active", None),
        ("dram__throughput.avg.pct_of_peak_sustained_elapsed", "DRAM BW", Quantity.DRAM),
        ("HBM BW (%)", "HBM BW", Quantity.DRAM),
        ("HBM BW (GB/s)", "HBM BW", None),
        ("SM Clock (MHz)", "SM Clock", Quantity.SM_CLOCK),
        ("Memory Clock (MHz)", "Memory Clock", None),
        ("NVLink RX", "NVLink RX", None),
        ("(%)", "(%)", None),
    ],
)
def test_names_of_torch_and_of_cupti_mean_the_same(name: str, short: str, quantity: Quantity | None) -> None:
    assert (short_counter(name), quantity_of(name)) == (short, quantity)


def test_counters_of_a_gpu_that_ran_nothing_name_it_below_all_streams() -> None:
    trace = two_gpus(sampled("Power (W)", (0, 5), gpu=7), sampled("Power (W)", (0, 3)))
    assert labels(trace)[-1] == "GPU 7 Power 5 W"
    assert "Power 3 W" in labels(trace)


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (["SM Active (%)", "HBM BW (%)", *"abcd"], [0, 1, 4, 5]),
        (["a", "b", "SM Active (%)", "c", "d", "HBM BW (%)"], [2, 3, 4, 5]),
        ([*"abcdef"], [2, 3, 4, 5]),
        (["SM Active (%)"] * 6, [0, 1, 2, 3]),
        ([*"ab"], [0, 1]),
        ([], []),
    ],
)
def test_a_report_shows_how_busy_the_gpu_was_before_other_counters(names: list[str], chosen: list[int]) -> None:
    timeline_index = TimelineIndex(two_gpus(*(sampled(name, (0, 5), (10, 5)) for name in names)))
    assert list(arrange(timeline_index, Stretch(0, 1000, 100.0)).curves) == chosen


def test_values_at_the_end_of_all_numbers_are_drawn() -> None:
    curve = Curve(Counter("app", "queue", "", np.array([0, 10, 20]), np.array([-1.7e308, 0.0, 1.7e308])))
    assert curve.bars(np.array([0, 10, 20, 30])).tobytes().decode("utf-32-le") == " ▄█"
