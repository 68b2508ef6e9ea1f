"""Gaps: where they are, how they split, what they are put down to, and what the CPU was doing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.build import Event, kernel, launch, make_trace, op, step
from tracetui.idle.gaps import idle_blocks
from tracetui.idle.idle_parts import idle_by_step, usual_latency
from tracetui.idle.idleness import MIN_GAP_NS, idleness
from tracetui.idle.waits import WORDS, Cause
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
    assert row["shares"] == "optimizer 67 %, memory management 22 %, unknown (queued) 11 %"


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
    assert the_gap(waiting_for(call=early))["cause"] == "unknown (queued)"
    assert the_gap(waiting_for(told, call=early))["cause"] == "stream dependency"
    assert the_gap(waiting_for(other, call=early))["cause"] == "unknown (queued)"
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
