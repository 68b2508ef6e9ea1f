"""Gaps of devices: causes, parts, what the CPU did meanwhile."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.build import Event, kernel, launch, make_trace, op, python, step
from tracetui.idle.gaps import (
    cpu_names_of,
    cpu_slices_of,
    gap_before,
    gap_causes_of,
    gap_shares,
    gap_threads,
    gaps,
    idle_blocks,
    longest,
    slices_in_gaps,
)
from tracetui.idle.idle_parts import idle_by_step, main_causes, usual_latency
from tracetui.idle.waits import MIN_GAP_NS, WORDS, Cause, idleness
from tracetui.model.trace import Kind, Trace
from tracetui.panes import PANES


def waiting_for(*between: Event, call: Event | None = None, **more: int) -> Trace:
    """A gap from 1 to 10 ms: work launched early, then whatever is given, then work that is launched at 9 ms.

    All of it has run once before: nothing is a first use.
    """
    second = call or launch(9_000_000, 5_000, 2)
    start = more.get("start", 10_000_000)
    return make_trace(
        [
            launch(-10_000, 10, 3),
            kernel("b", 0, 10_000, correlation=3),
            *(replace(each, start=-9_000, dur=10) for each in between if each.kind in (Kind.RUNTIME, Kind.CPU_OP)),
            launch(0, 5_000, 1),
            kernel("a", 10_000, 990_000, correlation=1),
            *between,
            second,
            kernel("b", start, 1_000, correlation=2),
        ]
    )


def the_gap(trace: Trace) -> dict[str, object]:
    """The only row of the pane."""
    (row,) = PANES["gaps"].build(trace).rows()
    return dict(row)


def test_a_gap_splits_at_its_launch() -> None:
    row = the_gap(waiting_for())
    assert (row["start_us"], row["dur_us"], row["before"], row["after"]) == (1000.0, 9000.0, "a", "b")
    assert (row["cpu_late_us"], row["in_launch_us"], row["waiting_us"]) == (8000.0, 5.0, 995.0)


def test_a_row_leads_to_the_work_after_the_gap() -> None:
    trace = waiting_for()
    (row,) = PANES["gaps"].build(trace).slices.tolist()  # type: ignore[union-attr]
    assert trace.name_of(row) == "b"


@pytest.mark.parametrize(
    ("call", "parts"),
    [
        (launch(500_000, 5_000, 2), (0.0, 0.0, 9000.0)),
        (launch(999_000, 5_000, 2), (0.0, 4.0, 8996.0)),
        (launch(9_998_000, 5_000, 2), (8998.0, 2.0, 0.0)),
        (launch(11_000_000, 5_000, 2), (9000.0, 0.0, 0.0)),
    ],
    ids=["before the gap", "across its start", "across its end", "after it: clocks disagree"],
)
def test_the_parts_add_up_wherever_the_launch_is(call: Event, parts: tuple[float, float, float]) -> None:
    row = the_gap(waiting_for(call=call))
    assert (row["cpu_late_us"], row["in_launch_us"], row["waiting_us"]) == parts


def test_a_change_of_kernels_is_no_gap() -> None:
    trace = make_trace([kernel("a", 0, 10), kernel("b", 10 + MIN_GAP_NS - 1, 10), kernel("c", 49 + MIN_GAP_NS, 10)])
    assert idleness(trace).dur.tolist() == [MIN_GAP_NS]


def test_work_on_another_stream_closes_a_gap_and_work_on_another_device_does_not() -> None:
    trace = make_trace(
        [
            kernel("a", 0, 100),
            kernel("b", 1_000, 100),
            kernel("beside", 50, 500, "stream 9"),
            Event("c", 0, 100, Kind.KERNEL, ("1", "stream 7")),
            Event("d", 900, 100, Kind.KERNEL, ("1", "stream 7")),
        ]
    )
    table = PANES["gaps"].build(trace)
    assert [(row["device"], row["before"], row["after"], row["dur_us"]) for row in table.rows()] == [
        (1, "c", "d", 0.8),
        (0, "beside", "b", 0.45),
    ]


def test_of_two_that_start_together_the_one_launched_last_ended_the_gap() -> None:
    trace = make_trace(
        [
            launch(1_500, 10, 1),
            launch(1_600, 10, 2),
            kernel("first", 0, 1_000),
            kernel("early", 2_000, 10, correlation=1),
            kernel("late", 2_000, 10, "stream 9", correlation=2),
        ]
    )
    assert the_gap(trace)["after"] == "late"


SORTS = [
    (Event("cudaStreamSynchronize", 0, 0, Kind.RUNTIME), "host sync"),
    (Event("hipMemcpyWithStream", 0, 0, Kind.RUNTIME), "host sync"),
    (op("aten::_local_scalar_dense", 0, 0), "host sync"),
    (op("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 0), "data loading"),
    (Event("load_batch", 0, 0, Kind.ANNOTATION), "data loading"),
    (Event("torch/utils/data/dataloader.py(701): __next__", 0, 0, Kind.PYTHON), "data loading"),
    (Event("cudaMalloc", 0, 0, Kind.RUNTIME), "memory management"),
    (Event("hipHostFree", 0, 0, Kind.RUNTIME), "memory management"),
    (Event("cuMemCreate", 0, 0, Kind.RUNTIME), "memory management"),
    (Event("Activity Buffer Request", 0, 0, Kind.OVERHEAD, ("-1", "0")), "profiler"),
    (op("TorchDynamo Cache Lookup", 0, 0), "outside PyTorch"),
    (Event("_compile.compile_inner", 0, 0, Kind.ANNOTATION), "compilation"),
    (Event("Optimizer.step#SGD.step", 0, 0, Kind.ANNOTATION), "optimizer"),
    (Event("nccl:all_reduce", 0, 0, Kind.ANNOTATION), "waits for peers"),
    (op("_c10d_functional::wait_tensor", 0, 0), "waits for peers"),
    (op("aten::copy_", 0, 0), "operators"),
    (Event("cudaFuncGetAttributes", 0, 0, Kind.RUNTIME), "runtime calls"),
    (Event("train.py(3): loop", 0, 0, Kind.PYTHON), "outside PyTorch"),
    (Event("mlp_compiled", 0, 0, Kind.ANNOTATION), "outside PyTorch"),
]


@pytest.mark.parametrize(("what", "cause"), SORTS, ids=[event.name[:30] for event, _ in SORTS])
def test_a_late_cpu_is_put_down_to_what_its_thread_did(what: Event, cause: str) -> None:
    between = Event(what.name, 1_000_000, 5_000_000, what.kind, what.lane)
    row = the_gap(waiting_for(between))
    assert row["cause"] == cause
    assert str(row["shares"]).startswith(f"{cause} {'89' if cause == 'outside PyTorch' else '56'} %")


def test_what_another_thread_did_says_nothing() -> None:
    elsewhere = op("aten::item", 1_000_000, 8_000_000, lane=("1", "2"))
    assert the_gap(waiting_for(elsewhere))["cause"] == "outside PyTorch"


def test_a_moment_goes_to_the_first_sort_that_covers_it() -> None:
    row = the_gap(
        waiting_for(
            Event("Optimizer.step#SGD.step", 1_000_000, 8_000_000, Kind.ANNOTATION),
            op("aten::add_", 1_000_000, 4_000_000),
            Event("cudaMalloc", 2_000_000, 2_000_000, Kind.RUNTIME),
        )
    )
    assert row["cause"] == "optimizer"
    assert row["shares"] == "optimizer 67 %, memory management 22 %, scheduling 11 %"


def test_the_profilers_own_last_wait_is_no_host_sync() -> None:
    """R3.31; here it spans the gap because the clocks of the two sides disagree."""
    trace = waiting_for(Event("cudaDeviceSynchronize", 9_500_000, 9_000_000, Kind.RUNTIME), start=30_000_000)
    assert "host sync" not in str(the_gap(trace)["shares"])


def test_a_slow_launch_and_a_full_queue() -> None:
    slow = launch(1_000_000, 8_000_000, 2)
    assert the_gap(waiting_for(call=slow))["cause"] == "slow launch"
    queued = [launch(i, 1, 10 + i) for i in range(1_000)]
    still = [kernel("later", 20_000_000 + 10 * i, 10, correlation=10 + i) for i in range(1_000)]
    rows = list(PANES["gaps"].build(waiting_for(*queued, *still, call=slow)).rows())
    assert rows[0]["cause"] == "full queue"


def test_what_waits_after_its_launch() -> None:
    early = launch(20_000, 5_000, 2)
    told = Event("cudaStreamWaitEvent", 15_000, 1_000, Kind.RUNTIME)
    other = Event("cudaStreamWaitEvent", 15_000, 1_000, Kind.RUNTIME, ("1", "2"))
    assert the_gap(waiting_for(call=early))["cause"] == "scheduling"
    assert the_gap(waiting_for(told, call=early))["cause"] == "stream dependency"
    assert the_gap(waiting_for(other, call=early))["cause"] == "scheduling"
    assert the_gap(waiting_for(call=early, start=1_020_000))["cause"] == "launch latency"


def test_later_nodes_of_a_graph_wait_for_the_graph() -> None:
    trace = make_trace(
        [
            launch(0, 50, 1, "cudaGraphLaunch"),
            kernel("a", 100, 10, correlation=1),
            kernel("b", 5_000_000, 10, correlation=1),
        ]
    )
    assert the_gap(trace)["cause"] == "inside a graph"


def test_without_a_launch_nothing_is_known() -> None:
    trace = make_trace([kernel("a", 0, 10), kernel("b", 1_000, 10)])
    row = the_gap(trace)
    assert (row["cause"], row["step"], row["cpu_doing"]) == ("unknown", None, None)
    assert (row["cpu_late_us"], row["in_launch_us"], row["waiting_us"]) == (None, None, None)
    note = PANES["gaps"].build(trace).note
    assert note.startswith("idle, cause unknown: GPU idle 98 % of the trace (98 % unknown)")
    assert "1 gap ends with work that has no launch record" in note


def test_what_the_thread_was_in() -> None:
    longest = op("aten::conv2d", 3_000_000, 3_000_000), op("aten::cudnn_convolution", 4_000_000, 1_500_000)
    row = the_gap(waiting_for(op("aten::relu", 1_000_000, 1_900_000), *longest, op("aten::t", 8_000_000, 100_000)))
    assert (row["cause"], row["cpu_doing"]) == ("operators", "aten::conv2d")


def test_what_the_thread_was_in_is_looked_up_where_the_cause_is() -> None:
    """In the middle of this gap the thread is in nothing."""
    loads = [Event("## load_batch ##", start, 2_700_000, Kind.ANNOTATION) for start in (1_100_000, 6_200_000)]
    row = the_gap(waiting_for(*loads))
    assert (row["cause"], row["cpu_doing"]) == ("data loading", "## load_batch ##")


def test_python_is_told_where_there_is_nothing_else() -> None:
    frames = [Event(f"{name}.py(1): f", 1_000_000 + i, 8_000_000 - i, Kind.PYTHON) for i, name in enumerate("abcd")]
    row = the_gap(waiting_for(step(3, 0, 20_000_000), *frames))
    assert (row["cause"], row["cpu_doing"]) == ("outside PyTorch", "b.py(1): f > c.py(1): f > d.py(1): f")


def test_a_gap_that_began_in_a_wait_for_the_gpu_is_marked() -> None:
    wait = Event("cudaStreamSynchronize", 500_000, 510_000, Kind.RUNTIME)
    assert the_gap(waiting_for(wait))["after_sync"] is True
    assert the_gap(waiting_for())["after_sync"] is False
    copied = make_trace(
        [
            launch(0, 1_010, 1, "cudaMemcpyAsync"),
            launch(5_000, 10, 2),
            Event("Memcpy DtoH (Device -> Pageable)", 100, 900, Kind.MEMCPY, ("0", "stream 7"), correlation=1),
            kernel("b", 5_100, 10, correlation=2),
        ]
    )
    assert the_gap(copied)["after_sync"] is True


def test_a_gap_belongs_to_the_step_of_the_work_after_it() -> None:
    trace = make_trace(
        [
            step(1, 0, 1_000),
            step(2, 1_000, 1_000),
            launch(100, 10, 1),
            launch(1_100, 10, 2),
            launch(1_900, 10, 3),
            kernel("a", 500, 100, correlation=1),
            kernel("b", 1_200, 100, correlation=2),
            kernel("c", 3_000, 100, correlation=3),
        ]
    )
    rows = list(PANES["gaps"].build(trace).rows())
    assert [(row["step"], row["index"], row["after"]) for row in rows] == [(2, 1, "b"), (2, 2, "c")]
    assert len(PANES["gaps"].build(trace, step=1)) == 0
    assert idle_by_step(trace).sum(axis=1).tolist() == [0, 2_300, 0]


def test_by_cause_the_sums_are_those_of_the_rows() -> None:
    trace = make_trace(
        [
            *(launch(1_000 * i, 10, i) for i in range(1, 6)),
            kernel("lost", 0, 10),
            *(kernel("a", 1_000 * i + 50, 10, correlation=i) for i in range(1, 6)),
            kernel("lost", 9_000, 10),
        ]
    )
    table = PANES["gaps"].build(trace, by="cause")
    assert [(row["cause"], row["gaps"], row["total_us"]) for row in table.rows()] == [
        ("Python or unknown", 5, 5.0),
        ("unknown", 1, 3.94),
    ]
    first, second = table.rows()
    assert (first["cpu_late_us"], first["in_launch_us"], first["waiting_us"]) == (4.75, 0.05, 0.2)
    assert second["cpu_late_us"] is None
    assert float(str(first["pct"])) + float(str(second["pct"])) == pytest.approx(100)


def test_idle_time_of_a_stream_is_its_own() -> None:
    trace = make_trace(
        [
            launch(0, 10, 1),
            launch(5, 10, 2),
            launch(500, 10, 3),
            kernel("a", 100, 100, correlation=1),
            kernel("b", 220, 100, correlation=2),
            kernel("c", 600, 100, correlation=3),
            kernel("beside", 0, 700, "stream 9"),
        ]
    )
    rows = list(PANES["gaps"].build(trace, by="stream").rows())
    assert len(PANES["gaps"].build(trace)) == 0
    assert [(row["stream"], row["host_wait_us"], row["kernel_wait_us"], row["other_us"]) for row in rows] == [
        (7, 0.28, 0.02, 0.0),
        (9, 0.0, 0.0, 0.0),
    ]


def test_blocks_to_draw() -> None:
    blocks = idle_blocks(waiting_for(Event("cudaMalloc", 1_000_000, 8_000_000, Kind.RUNTIME)))
    assert (blocks.start.tolist(), blocks.end.tolist()) == ([1_000_000], [10_000_000])
    assert [WORDS[cause] for cause in blocks.cause.tolist()] == ["memory management"]


def test_every_cause_has_a_word() -> None:
    assert len(WORDS) == len(Cause) == len(set(WORDS))


def test_the_usual_latency_is_that_of_launches_for_an_idle_stream() -> None:
    trace = make_trace(
        [
            *(launch(start, 10, start) for start in (1_000, 2_000, 2_020, 5_000)),
            kernel("a", 1_004, 100, correlation=1_000),
            kernel("b", 2_006, 1_000, correlation=2_000),
            kernel("queued", 3_010, 10, correlation=2_020),
            kernel("c", 5_008, 10, correlation=5_000),
        ]
    )
    assert usual_latency(trace) == 6


@pytest.mark.parametrize("lasts", [0, 40])
def test_a_capture_without_its_end_is_looked_into_where_nothing_covers_it(lasts: int) -> None:
    begin = launch(1_000_000, lasts, 7, name="cudaStreamBeginCapture")
    assert the_gap(waiting_for(begin))["cause"] == the_gap(waiting_for(begin, op("aten::t", 2_000_000, 50)))["cause"]


MS = 1_000_000


def waiting() -> Trace:
    """A kernel, 10 ms in which the CPU is in a loader and then in an operator, and another kernel."""
    return make_trace(
        [
            python("train.py(7): step", 0, 12 * MS),
            launch(1_000, 5_000, 1),
            kernel("a", 10_000, 90_000, correlation=1),
            op("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 100_000, 8 * MS),
            op("aten::stack", 1 * MS, 5 * MS),
            op("aten::mm", 9 * MS, 1 * MS),
            launch(9_900_000, 5_000, 2),
            kernel("b", 10_100_000, 20_000, correlation=2),
            op("aten::elsewhere", 200_000, 9 * MS, lane=("1", "2")),
        ]
    )


def row_of(trace: Trace, name: str) -> int:
    """The only slice of a name."""
    (row,) = (row for row in range(len(trace.slices)) if trace.name_of(row) == name)
    return row


def test_the_gap_before_an_activity_is_found_and_only_there() -> None:
    trace = waiting()
    gap = gap_before(trace, row_of(trace, "b"))
    assert (int(idleness(trace).start[gap]), int(idleness(trace).end[gap])) == (100_000, 10_100_000)
    assert gap_before(trace, row_of(trace, "a")) == gap_before(trace, row_of(trace, "aten::mm")) == -1
    assert gap_before(trace, -1) == -1


def test_causes_add_up_to_the_gap_and_are_those_of_the_pane() -> None:
    trace = waiting()
    parts = gap_causes_of(trace, 0)
    assert sum(part.time for part in parts) == idleness(trace).dur[0] == 10 * MS
    assert [part.time for part in parts] == sorted((part.time for part in parts), reverse=True)
    first = WORDS[parts[0].cause]
    assert first == "data loading" == WORDS[int(main_causes(trace)[0])]
    shares, texts = gap_shares(trace)
    assert texts[int(shares[0])].startswith(f"{first} {round(parts[0].time / MS * 10)} %")


def test_names_have_the_time_that_they_spent_themselves_within_the_gap() -> None:
    trace = waiting()
    found = {trace.name_of(each.row): each.time for each in cpu_names_of(trace, 0, 10)}
    loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    assert found[loader] == 3 * MS
    assert found["aten::stack"] == 5 * MS
    assert found["aten::mm"] == MS - 5_000
    # The frame around all of it has what is left of the gap: 100 us after the loader's end and behind the operator.
    assert sum(found.values()) == 10 * MS
    assert "aten::elsewhere" not in found
    assert [each.time for each in cpu_names_of(trace, 0, 2)] == [5 * MS, 3 * MS]


def test_no_moment_counts_twice_where_slices_outlive_their_callers() -> None:
    trace = make_trace(
        [
            launch(0, 1_000, 1),
            kernel("a", 2_000, 8_000, correlation=1),
            op("aten::outer", 10_000, 40_000),
            op("aten::outlives", 20_000, 60_000),
            op("aten::overlaps", 30_000, 60_000),
            launch(95_000, 1_000, 2),
            kernel("b", 100_000, 8_000, correlation=2),
        ]
    )
    found = {trace.name_of(each.row): each.time for each in cpu_names_of(trace, 0, 10)}
    assert sum(found.values()) <= 90_000
    assert found["aten::overlaps"] == 60_000 and found["aten::outer"] == 10_000


def test_slices_count_that_lie_mostly_in_the_gap() -> None:
    trace = waiting()
    names = {trace.name_of(row) for row in cpu_slices_of(trace, 0).tolist()}
    assert {"aten::stack", "aten::mm", "train.py(7): step"} <= names
    assert "aten::elsewhere" not in names
    mostly_before = make_trace(
        [
            op("aten::before", 0, 50_000),
            launch(1_000, 5_000, 1),
            kernel("a", 10_000, 20_000, correlation=1),
            launch(60_000, 5_000, 2),
            kernel("b", 70_000, 20_000, correlation=2),
        ]
    )
    assert "aten::before" not in {mostly_before.name_of(row) for row in cpu_slices_of(mostly_before, 0).tolist()}


def test_without_a_launch_no_thread_is_named() -> None:
    trace = make_trace([kernel("a", 0, 1_000), op("aten::mm", 1_000, 5_000), kernel("b", 50_000, 1_000)])
    assert gap_threads(trace, 0).tolist() == []
    assert cpu_names_of(trace, 0, 5) == []
    assert sum(part.time for part in gap_causes_of(trace, 0)) == 49_000


OVERLAPPING = [(0, 2), (1, 17)]
"""Start and length of two ops, of which the second begins in the first and outlasts it."""


def longest_of(ops: list[tuple[int, int]], low: int, high: int) -> tuple[int, int]:
    """Start and end of what one of some ops on one thread takes of a window."""
    trace = make_trace([op("aten::mm", start, dur) for start, dur in ops])
    begin, end, _ = longest(trace, np.arange(len(ops)), np.zeros(1, np.int64), np.array([low]), np.array([high]))
    return int(begin[0]), int(end[0])


@pytest.mark.parametrize(
    ("ops", "window", "expected"),
    [
        (OVERLAPPING, (2, 17), (2, 17)),  # only the second reaches it
        (OVERLAPPING, (0, 18), (2, 18)),  # 2 ns of the first, 16 of what the second adds
        ([(0, 10), (5, 8)], (6, 13), (6, 10)),  # 4 ns of the first, 3 of what the second adds
        ([(0, 30), (5, 10), (10, 10)], (12, 20), (12, 20)),  # all within the first
        ([(0, 5), (5, 0), (5, 4)], (5, 9), (5, 9)),  # a slice of no length takes nothing
    ],
)
def test_an_overlapping_slice_counts_from_where_the_earlier_one_ended(ops, window, expected):
    assert longest_of(ops, *window) == expected


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 40)), max_size=10), st.integers(0, 90), st.integers(1, 40))
@example(OVERLAPPING, 2, 15)
def test_every_window_that_touches_a_slice_gets_a_part_of_one(ops, low, length):
    ops = [*ops, (low, 1)]
    begin, end = longest_of(ops, low, low + length)
    assert low <= begin < end <= low + length
    assert any(start <= begin and end <= start + dur for start, dur in ops)


def test_a_gap_in_what_only_the_second_of_two_overlapping_ops_covers():
    """The device is idle from 120 us on, and until 190 the thread is in `aten::b`, which begins in `aten::a`."""
    trace = make_trace(
        [
            op("aten::a", 0, 100_000),
            op("aten::b", 50_000, 150_000),
            launch(10_000, 5_000, 1),
            launch(190_000, 5_000, 2),
            kernel("k", 20_000, 100_000, correlation=1),
            kernel("k", 200_000, 10_000, correlation=2),
        ]
    )
    assert [trace.names[trace.slices.name[row]] for row in slices_in_gaps(trace).tolist()] == ["aten::b"]
    assert [row["cpu_doing"] for row in gaps(trace).rows()] == ["aten::b"]


def test_the_thread_is_in_a_call_that_begins_in_another_and_outlasts_it():
    """A call that begins in a launch of 2 ns goes on until the next launch; the gap from 2 to 32 ns is its own."""
    trace = make_trace(
        [
            launch(0, 2, 1),
            Event("cudaStreamWaitEvent", 1, 17, Kind.RUNTIME),
            launch(17, 0, 2),
            kernel("k", 0, 2, correlation=2),
            kernel("k", 32, 0, correlation=2),
        ]
    )
    assert [trace.names[trace.slices.name[row]] for row in slices_in_gaps(trace).tolist()] == ["cudaStreamWaitEvent"]


def between(*inside: Event) -> list[str]:
    """What the thread was in from 0.1 to 10 ms, a gap before a kernel that is launched as it ends."""
    calls = [launch(0, 5_000, 1), launch(9_990_000, 5_000, 2)]
    work = [kernel("k", 10_000, 90_000, correlation=1), kernel("k", 10_000_000, 10_000, correlation=2)]
    return [str(row["cpu_doing"]) for row in gaps(make_trace([*calls, *work, *inside])).rows()]


def test_the_outermost_operator_that_covers_most_is_named_and_not_what_is_open_in_the_middle():
    outer = op("aten::unflatten_dense_tensors", 1_000_000, 8_000_000)
    assert between(outer, op("aten::slice", 4_900_000, 300_000)) == ["aten::unflatten_dense_tensors"]


def test_of_frames_the_deepest_that_covers_half_of_the_gap_is_named():
    frames = [
        Event("train.py(1): main", 0, 10_500_000, Kind.PYTHON),
        Event("train.py(9): collate", 1_000_000, 8_000_000, Kind.PYTHON),
        Event("copy.py(3): deepcopy", 4_500_000, 1_000_000, Kind.PYTHON),
    ]
    assert between(*frames) == ["train.py(1): main > train.py(9): collate"]
    assert between(frames[2]) == ["None"], "a tenth of the gap is not most of it"
