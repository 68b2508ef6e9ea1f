"""What the allocators recorded: lifetimes, peaks, ops behind them, curves; and copies by kind."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.autograd import backward, forward
from tests.support.build import Event, kernel, launch, make_trace, op, step
from tests.support.memory_events import Moment, copied, two_ops, with_memory
from tests.support.slow import slow_events
from tests.support.traces import loaded
from tracetui.drawing.timeline.grid import TimelineGrid, View
from tracetui.drawing.timeline.layout import Layout
from tracetui.drawing.timeline.palette import palette
from tracetui.drawing.timeline.raster import TimelineIndex
from tracetui.drawing.timeline.window import Window
from tracetui.memory.allocator import NO_COPIES, allocator, memory_curves
from tracetui.memory.memory_table import NO_MEMORY
from tracetui.model.table import NULL
from tracetui.model.trace import Kind, Trace
from tracetui.panes import PANES
from tracetui.reading.load import load


def rows(trace: Trace, by: str | None = None, step: int | None = None) -> list[dict[str, Any]]:
    return list(PANES["memory"].build(trace, step=step, by=by).rows())


def test_an_event_names_the_op_that_needed_the_memory_and_the_one_that_made_it() -> None:
    listed = [(row["event"], row["bytes"], row["op"], row["made_by"], row["step"]) for row in rows(two_ops())]
    assert listed == [
        ("alloc", 1_000, "aten::conv2d", "aten::empty", 1),
        ("alloc", 300, "aten::conv2d", "aten::conv2d", 1),
        ("free", -300, "aten::conv2d", "aten::conv2d", 1),
        ("alloc", 2_000, "aten::relu", "aten::relu", 1),
        ("free", -2_000, None, None, 1),
        ("alloc", 500, "aten::relu", "aten::relu", 2),
        ("free", -1_000, None, None, 2),
    ]


def test_an_allocation_lives_until_its_address_is_freed() -> None:
    assert [row["lifetime_us"] for row in rows(two_ops())] == [1.74, 0.15, None, 0.25, None, None, None]


def test_an_address_freed_before_the_recording_is_no_lifetime() -> None:
    trace = with_memory(
        [op("a", 0, 100)], [Moment(10, -64, 5), Moment(20, 64, 5), Moment(30, -32, 5), Moment(40, 8, 5)]
    )
    assert [row["lifetime_us"] for row in rows(trace)] == [None] * 4


def test_by_op_says_who_held_the_peak_and_the_note_what_is_older() -> None:
    table = PANES["memory"].build(two_ops(), by="op")
    listed = [tuple(row[key] for key in ("op", "allocs", "allocated", "freed", "at_peak")) for row in table.rows()]
    assert listed == [
        ("(older than the recording)", None, None, None, 4_000),
        ("aten::relu", 2, 2_500, 0, 2_000),
        ("aten::conv2d", 2, 1_300, 300, 1_000),
        (None, 0, 0, 3_000, 0),
    ]
    assert table["at_peak_pct"].values[1] == pytest.approx(100 * 2_000 / 7_000)
    assert "peaked at 6.8 KiB at 0.7 µs in ProfilerStep#1 ▸ aten::relu, 3.9 KiB of it allocated before" in table.note


def test_where_steps_overlap_the_backward_thread_allocates_in_the_step_of_its_forward_thread() -> None:
    one, two, engine = ("1", "1"), ("1", "2"), ("1", "9")
    slices = [
        step(1, 0, 1_000, lane=one),
        step(2, 50, 1_000, lane=two),
        forward("aten::mm", 60, 10, 3, lane=two),
        *backward("MmBackward0", 200, 100, 3, lane=engine),
    ]
    bare = make_trace(slices)
    [lane] = {int(bare.slices.lane[row]) for row in range(len(slices)) if bare.name_of(row) == "MmBackward0"}
    trace = with_memory(slices, [Moment(250, 512, 1, 512, lane=lane)])
    assert list(PANES["memory"].build(trace)["step"].values) == [2]


def test_what_stood_at_the_peak_of_a_step_may_be_older_than_the_step() -> None:
    listed = [(row["op"], row["allocs"], row["at_peak"]) for row in rows(two_ops(), by="op", step=2)]
    older, *others = listed
    assert older == ("(older than the recording)", None, 4_000)
    assert others == [("aten::conv2d", 0, 1_000), ("aten::relu", 1, 500), (None, 0, 0)]


def test_by_device_has_the_peak_and_how_far_it_rose() -> None:
    (row,) = rows(two_ops(), by="device")
    assert (row["device"], row["peak"], row["peak_us"], row["rise"], row["reserved"], row["last"]) == (
        "GPU 0", 7_000, 0.65, 3_000, 14_000, 4_500,
    )  # fmt: skip
    assert (row["allocs"], row["frees"], row["peak_op"]) == (4, 3, "ProfilerStep#1 ▸ aten::relu")


def test_devices_are_told_apart_and_named() -> None:
    devices = [(0, -1), (1, 0), (1, 1), (6, 2), (12, 0), (77, 3)]
    trace = with_memory([op("a", 0, 100)], [Moment(i, 8, 1, 8, device) for i, device in enumerate(devices)])
    assert [row["device"] for row in rows(trace)] == ["CPU", "GPU 0", "GPU 1", "GPU 2", "XPU 0", "device type 77 3"]
    assert [row["since_start"] for row in rows(trace)] == [8] * 6


def test_a_failed_allocation_takes_nothing() -> None:
    trace = with_memory([op("a", 0, 100)], [Moment(10, 64, 5, 64), Moment(20, 1 << 40, 6, 64, name="[OutOfMemory]")])
    assert [(row["event"], row["since_start"]) for row in rows(trace)] == [("alloc", 64), ("out of memory", 64)]
    (device,) = rows(trace, by="device")
    assert (device["allocated"], device["failed"], device["peak"]) == (64, 1, 64)
    assert "1 allocations failed" in PANES["memory"].build(trace).note


def test_without_totals_the_curve_counts_from_the_start_and_says_so() -> None:
    trace = with_memory([op("a", 0, 100)], [Moment(10, -64), Moment(20, 100), Moment(30, -10)])
    table = PANES["memory"].build(trace)
    assert table["since_start"].values.tolist() == [-64, 36, 26]
    assert table["total_allocated"].nulls().all()
    assert table["lifetime_us"].nulls().all()
    assert "grew by at most 36 B" in table.note
    assert "no running totals" in table.note
    assert [row["at_peak"] for row in rows(trace, by="op")] == [None]
    (curve,) = memory_curves(trace)
    assert (curve.name, curve.value.tolist()) == ("Δmem", [-64, 36, 26])


def test_a_trace_without_allocations_says_how_to_record_them() -> None:
    table = PANES["memory"].build(make_trace([op("a", 0, 10)]))
    assert len(table) == 0
    assert table.note == NO_MEMORY
    assert PANES["memory"].build(make_trace([kernel("k", 0, 10)])).note == NO_MEMORY


def test_without_allocations_copies_are_all_there_is_to_group_by() -> None:
    trace = copied()
    assert PANES["memory"].offered(trace) == ("copy",)
    note = PANES["memory"].build(trace).note
    assert note == f"{NO_MEMORY} Grouped by copy, this pane lists what was copied." and "--" not in note
    assert PANES["memory"].offered(two_ops()) == ("op", "device", "copy")


def test_curves_are_of_devices_and_of_the_host_only_where_it_stands_alone() -> None:
    both = [Moment(10, 8, 1, 8, (0, -1)), Moment(20, 64, 2, 64), Moment(30, 64, 3, 128)]
    names = [
        (curve.name, curve.unit, curve.value.tolist()) for curve in memory_curves(with_memory([op("a", 0, 9)], both))
    ]
    assert names == [("mem", "bytes", [64.0, 128.0]), ("res", "bytes", [128.0, 256.0])]
    alone = memory_curves(with_memory([op("a", 0, 9)], both[:1]))
    assert [curve.name for curve in alone] == ["mem"]
    two = [Moment(10, 8, 1, 8, (1, device)) for device in (0, 1)]
    assert [curve.name for curve in memory_curves(with_memory([op("a", 0, 9)], two))] == ["GPU 0 mem", "GPU 1 mem"]


def test_the_curve_is_drawn_under_the_streams() -> None:
    events = [op("a", 0, 1_000), kernel("k", 0, 1_000)]
    trace = with_memory(events, [Moment(0, 512, 1, 512), Moment(500, 512, 2, 1_024), Moment(750, -1_024, 2, 0)])
    timeline_index = TimelineIndex(trace)
    frame = TimelineGrid(timeline_index, Layout(timeline_index)).draw(View(Window(0, 10.0)), 16 + 100, 6, palette())
    lines = ["".join(map(chr, line)).rstrip() for line in frame.chars]
    place = next(number for number, line in enumerate(lines) if "mem" in line)
    assert "stream" in lines[place - 1]
    assert lines[place][:16].strip() == "mem ≤1.0 KiB"
    assert lines[place][16:] == "▄" * 50 + "█" * 25


def test_copies_by_kind_have_rates_and_a_hint_where_memory_is_not_pinned() -> None:
    first, second, third = rows(copied(), by="copy")
    assert (first["copy"], first["calls"], first["bytes"], first["total_us"]) == (
        "Memcpy HtoD (Pageable -> Device)", 2, 16_000, 2.0,
    )  # fmt: skip
    assert (first["gbps"], first["median_gbps"], first["median_bytes"], first["unsized"]) == (8.0, 8.0, 8_000, 0)
    assert "pin_memory" in first["hint"]
    assert (second["bytes"], second["gbps"], second["unsized"], second["hint"]) == (None, None, 1, None)
    assert (third["bytes"], third["gbps"], third["median_gbps"]) == (64, None, None)


def test_a_step_has_the_copies_that_it_launched() -> None:
    copy = Event("Memcpy HtoD (Pinned -> Device)", 50, 10, Kind.MEMCPY, ("0", "stream 7"), correlation=1)
    trace = make_trace([step(1, 0, 20), step(2, 20, 20), launch(5, 2, 1, "cudaMemcpyAsync"), copy, kernel("k", 70, 5)])
    assert [row["calls"] for row in rows(trace, by="copy", step=1)] == [1]
    empty = PANES["memory"].build(trace, by="copy", step=2)
    assert (len(empty), empty.note) == (0, NO_COPIES)


def test_rates_are_those_that_the_profiler_wrote(shared_trace: Callable[[str], Path]) -> None:
    trace = loaded(shared_trace("d06_h100_stack_mem.json.gz"))
    copies = trace.slices.of_kind(Kind.MEMCPY, Kind.MEMSET)
    (written,) = trace.args_of(copies, ("memory bandwidth (GB/s)",))
    rates = defaultdict(list)
    for row, rate in zip(copies.tolist(), written, strict=True):
        if rate is not None:
            rates[trace.name_of(row)].append(rate)
    listed = {row["copy"]: (row["calls"], row["median_gbps"]) for row in rows(trace, by="copy")}
    assert {name: calls for name, (calls, _) in listed.items()} == {
        "Memcpy HtoD (Pageable -> Device)": 25,
        "Memcpy DtoH (Device -> Pageable)": 55,
        "Memcpy DtoD (Device -> Device)": 5,
        "Memset (Device)": 750,
    }
    for name, (_, rate) in listed.items():
        assert rate == pytest.approx(np.median(rates[name]))


def slow_memory(path: Path) -> tuple[list[tuple[int, str, str | None, float | None]], dict[str, int]]:
    """Bytes, device, innermost op and lifetime (µs) of each event, and the peaks, one event after another."""
    events = slow_events(path)
    ops = defaultdict(list)
    for event in sorted(events, key=lambda event: (event["ts"], -event.get("dur", 0))):
        if event.get("cat") == "cpu_op":
            ops[event["tid"]].append(event)
    moments = sorted((event for event in events if event.get("name") == "[memory]"), key=lambda event: event["ts"])
    peaks: Counter[str] = Counter()
    open_at: dict[tuple[str, int], int] = {}
    found: list[tuple[int, str, str | None, float | None]] = []
    for number, event in enumerate(moments):
        args = event["args"]
        device = "CPU" if args["Device Type"] == 0 else f"GPU {args['Device Id']}"
        peaks[device] = max(peaks[device], args["Total Allocated"])
        mine = ops[event["tid"]]
        before = reversed(mine[: bisect_right(mine, event["ts"], key=lambda each: each["ts"])])
        inner = next((each for each in before if event["ts"] < each["ts"] + each["dur"]), None)
        found.append((args["Bytes"], device, inner["name"] if inner else None, None))
        place = device, args["Addr"]
        if args["Bytes"] > 0:
            open_at[place] = number
        elif place in open_at:
            start = open_at.pop(place)
            found[start] = (*found[start][:3], event["ts"] - moments[start]["ts"])
    return found, dict(peaks)


@pytest.mark.full
def test_a_real_trace_reads_as_the_slow_way_reads_it(shared_trace: Callable[[str], Path]) -> None:
    path = shared_trace("d12_cpu_only_resnet18.json")
    slow, peaks = slow_memory(path)
    trace = load(str(path))
    ours = [(row["bytes"], row["device"], row["made_by"], row["lifetime_us"]) for row in rows(trace)]
    assert Counter(ours) == Counter(slow)
    assert {row["device"]: row["peak"] for row in rows(trace, by="device")} == peaks


@pytest.mark.parametrize(
    ("name", "events", "peaks"),
    [
        ("d03_v100_2rank_5steps_mem_occ_nccl.json.gz", 28_010, {"CPU": 8, "GPU 1": 6_629_508_096}),
        ("d06_h100_stack_mem.json.gz", 13_474, {"CPU": 152_680_988, "GPU 0": 2_707_847_680}),
        ("d01_v100_torch1.9_6steps_mem_occ.json.gz", 12_838, {"CPU": None, "GPU 0": None}),
    ],
)
@pytest.mark.full
def test_real_traces_have_their_events_and_peaks(
    shared_trace: Callable[[str], Path], name: str, events: int, peaks: dict[str, int | None]
) -> None:
    trace = loaded(shared_trace(name))
    found = allocator(trace)
    assert len(found) == events
    assert {row["device"]: row["peak"] for row in rows(trace, by="device")} == peaks
    told = found.total != NULL
    for device in range(len(found.devices)):
        mine = told & (found.device == device)
        # What the trace says rises and falls by exactly the bytes of each event.
        assert (np.diff(found.total[mine]) == found.bytes[mine][1:]).all()


def test_bytes_of_an_op_are_torchs_own(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    profiler = torch.profiler

    with profiler.profile(activities=[profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8))
        for _ in range(2):
            model(torch.randn(16, 64)).square().mean().backward()
    path = tmp_path / "trace.json"
    profile.export_chrome_trace(str(path))
    ours: Counter[str] = Counter()
    for row in rows(load(str(path))):
        ours[str(row["made_by"])] += row["bytes"]
    theirs = {event.key: event.self_cpu_memory_usage for event in profile.key_averages()}
    outside = theirs.pop("[memory]", 0)
    assert {name: size for name, size in theirs.items() if size} == {
        name: size for name, size in ours.items() if size and name != "None"
    }
    assert ours["None"] == outside
