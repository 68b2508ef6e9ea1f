"""The summary, and figures of platforms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.build import kernel, launch, make_trace, op, step
from tests.support.traces import loaded
from tracetui.errors import UsageError
from tracetui.health.recording_checks import MAX_NAMED_KINDS
from tracetui.health.summary import activity_counts, counts, not_shown
from tracetui.idle.waits import queueing
from tracetui.linking.links import links
from tracetui.linking.steps import steps
from tracetui.model.trace import Device, Quality, Trace
from tracetui.panes import PANES, pane_named
from tracetui.tables.occupancy import queries


def small() -> Trace:
    return make_trace(
        [
            step(3, 0, 1_000),
            step(4, 1_000, 1_000),
            op("aten::view", 100, 10),
            op("aten::mm", 200, 100),
            launch(210, 10, 1),
            kernel("gemm", 500, 1_000, correlation=1),
            kernel("side", 600, 200, "stream 9", correlation=1),
        ],
        devices=[Device(0, "NVIDIA H200"), Device(1, "NVIDIA H200")],
        metadata={"record_shapes": 1, "with_stack": 0, "tracetui": {"workload": "mlp"}},
    )


def said(trace: Trace, step: int | None = None) -> dict[object, object]:
    return {row["key"]: row["value"] for row in PANES["summary"].build(trace, step=step).rows()}


def test_what_is_said() -> None:
    found = said(small())
    assert (
        found
        | {
            "events": "7",
            "processes": "1",
            "threads": "1",
            "streams": "2",
            "devices": "NVIDIA H200",
            "duration_us": "2",
            "steps": "2",
            "kernels": "2",
            "copies": "0",
            "cpu_ops": "2",
            "launches": "1",
            "occupancy_queries": "0",
            "view_ops": "1",
            "gpu_busy_us": "1",
            "gpu_busy_pct": "50",
            "verdict": "mixed-bound",
            "recorded_with": "record_shapes",
            "workload": "mlp",
            "without_launch": "0",
        }
        == found
    )


def test_a_wait_before_a_step_is_unknown_where_nothing_says_when_the_gpu_was_done_before() -> None:
    alone = make_trace([step(1, 0, 9_000), launch(1_000, 500, 1), kernel("a", 3_000, 1_000, correlation=1)])
    assert said(alone)["step_wait_us"] is None
    more = [step(2, 10_000, 9_000), launch(11_000, 500, 2), kernel("a", 13_000, 1_000, correlation=2)]
    both = [step(1, 0, 9_000), launch(1_000, 500, 1), kernel("a", 3_000, 1_000, correlation=1), *more]
    assert said(make_trace(both))["step_wait_us"] is not None


def test_a_step_is_summed_up_within_its_window() -> None:
    found = said(small(), step=4)
    assert (found["steps"], found["kernels"], found["gpu_busy_us"], found["duration_us"]) == ("1", "0", "0.5", "1")


def test_without_a_gpu_its_times_are_unknown_and_not_zero() -> None:
    table = PANES["summary"].build(make_trace([op("aten::mm", 0, 10)]))
    rows = {row["key"]: row for row in table.rows()}
    assert rows["gpu_busy_us"]["value"] is None
    assert rows["devices"]["value"] is None
    assert rows["recorded_with"]["value"] is None
    assert rows["cpu_ops"]["number"] == 1.0
    assert "ProfilerActivity.CUDA" in table.note


@pytest.mark.parametrize("step", [None, 0, 1])
def test_gpu_activities_are_counted_without_those_of_the_cpu(step: int | None) -> None:
    trace = small()
    number = None if step is None else int(steps(trace).number[step])
    found = activity_counts(trace, number)
    assert not {"view_rows", "idle_rows"} & set(trace.cache) and ("counts", number) not in trace.cache
    assert found.items() <= counts(trace, number).items() and set(found) == {"kernels", "copies"}
    assert "idle_rows" in trace.cache


def test_tables_are_kept() -> None:
    trace = small()
    assert PANES["kernels"].build(trace, step=3) is PANES["kernels"].build(trace, step=3)


def test_what_does_not_exist_is_refused_in_words() -> None:
    with pytest.raises(UsageError, match=r"no pane 'kernel'\. Did you mean kernels\?"):
        pane_named("kernel")
    with pytest.raises(
        UsageError, match=r"grouped by 'colour'\. There are name, tensor_cores, op, family, .*, graph, "
    ):
        PANES["kernels"].build(small(), by="colour")


@pytest.mark.full
def test_every_pane_answers_for_an_empty_trace() -> None:
    for pane in PANES.values():
        for by in (None, *pane.groups):
            table = pane.build(make_trace([]), by=by)
            # These say what was asked of the trace, whatever it holds.
            says = pane.name in ("summary", "findings", "range") or (pane.name == "health" and by is None)
            assert says or len(table) == 0


def of_packets(**kinds: int) -> Trace:
    """A trace of a protobuf file with packets that are not shown."""
    quality = Quality(packets=20_000, not_shown=kinds)
    return replace(make_trace([op("aten::mm", 0, 10)]), quality=quality)


def test_packets_that_are_not_shown_are_named_the_most_frequent_first() -> None:
    trace = of_packets(sys_stats=345, ftrace_events=12_000)
    sentence = (
        "This file also holds 12,345 packets that tracetui does not show: ftrace_events 12,000, sys_stats 345. "
        "Perfetto (ui.perfetto.dev) does."
    )
    assert not_shown(trace) == sentence
    assert PANES["summary"].build(trace).headline == sentence
    assert not_shown(of_packets(sys_stats=1)).startswith("This file also holds 1 packet that")
    assert not_shown(of_packets()) == ""


@pytest.mark.parametrize(("more", "words"), [(0, ""), (1, " and another kind"), (5, " and 5 more kinds")])
def test_no_more_kinds_are_named_than_can_be_read(more: int, words: str) -> None:
    sentence = not_shown(of_packets(**{f"k{number:02}": 1 for number in range(MAX_NAMED_KINDS + more)}))
    assert sentence.endswith(f" 1{words}. Perfetto (ui.perfetto.dev) does.")


NVIDIA = (
    "d01_v100_torch1.9_6steps_mem_occ.json.gz",
    "d03_v100_2rank_5steps_mem_occ_nccl.json.gz",
    "d04_a100_8rank_6steps_occ_nccl.json.gz",
    "d05a_a100_megatron_tp8_rank0.json",
    "d06_h100_stack_mem.json.gz",
    "d08_b200_cuda13_ep_moe.json",
    "d16_b300_tiny.json.gz",
)


@pytest.mark.full
@pytest.mark.parametrize("name", NVIDIA)
def test_the_shortest_way_from_a_launch_to_its_kernel_is_a_few_microseconds(name, shared_trace):
    latency = queueing(loaded(shared_trace(name))).latency
    assert 4_000 <= latency[latency > 0].min() <= 12_000


@pytest.mark.full
@pytest.mark.parametrize("name", NVIDIA)
def test_kernels_that_wait_for_each_other_follow_within_a_few_microseconds(name, shared_trace):
    trace = loaded(shared_trace(name))
    slices, found = trace.slices, links(trace)
    rows = found.gpu[np.lexsort((slices.start[found.gpu], slices.lane[found.gpu]))]
    before, after = rows[:-1], rows[1:]
    launch = found.launch[after]
    queued = (slices.lane[before] == slices.lane[after]) & (launch >= 0) & (slices.end[launch] < slices.end[before])
    gap = (slices.start[after] - slices.end[before])[queued]
    assert 800 <= np.median(gap) <= 2_500


@pytest.mark.full
@pytest.mark.parametrize("name", [name for name in NVIDIA if "h100" not in name])
def test_an_occupancy_query_takes_about_a_microsecond(name, shared_trace):
    trace = loaded(shared_trace(name))
    took = trace.slices.dur[queries(trace)]
    assert len(took)
    assert np.percentile(took, 90) <= 2_000
    assert took.max() <= 20_000
