"""Steps: where they are, what belongs to them, and what happens when they overlap or repeat."""

from __future__ import annotations

import numpy as np
import pytest

from tests.build import Event, kernel, launch, make_trace, op, step
from tracetui.analysis.panes import PANES
from tracetui.analysis.placement import step_index, within
from tracetui.analysis.steps import steps
from tracetui.errors import UsageError
from tracetui.model.trace import Kind, Trace

AUTOGRAD = ("1", "2")


def two_steps() -> Trace:
    """A deep queue: everything runs after both steps have ended on the CPU."""
    return make_trace(
        [
            step(7, 0, 100_000),
            step(8, 120_000, 100_000),
            op("aten::mm", 10_000, 20_000),
            launch(15_000, 2_000, 1),
            op("aten::mm", 105_000, 5_000),
            launch(106_000, 1_000, 2),
            op("MmBackward0", 130_000, 40_000, lane=AUTOGRAD),
            launch(150_000, 3_000, 3, lane=AUTOGRAD),
            launch(160_000, 3_000, 4, "cudaMemcpyAsync", lane=AUTOGRAD),
            kernel("lost", 1_000, 1_000, correlation=99),
            kernel("a", 300_000, 10_000, correlation=1),
            kernel("b", 320_000, 10_000, correlation=2),
            kernel("a", 340_000, 10_000, correlation=3),
            Event("Memcpy DtoH", 345_000, 10_000, Kind.MEMCPY, ("0", "stream 9"), correlation=4),
        ]
    )


def test_steps_are_cpu_slices_by_name_in_order_of_start() -> None:
    trace = make_trace(
        [
            step(10, 200, 100),
            step(9, 0, 100),
            Event("ProfilerStep#9", 0, 500, Kind.GPU_ANNOTATION, ("0", "7")),
            Event("ProfilerStep#x", 300, 50, Kind.ANNOTATION),
            Event("ProfilerStep#11", 400, 50, Kind.CPU_OP),
        ]
    )
    assert steps(trace).number.tolist() == [9, 10, 11]


def test_gpu_work_belongs_to_the_step_of_its_launch() -> None:
    trace = two_steps()
    rows = trace.slices.of_kind(Kind.KERNEL, Kind.MEMCPY)
    found = dict(zip(map(trace.name_of, rows.tolist()), step_index(trace, rows).tolist(), strict=True))
    assert found == {"lost": -1, "a": 1, "b": -1, "Memcpy DtoH": 1}
    assert len(within(trace, rows, 7)) == 1


def test_ops_belong_to_the_step_that_is_open_on_any_thread() -> None:
    trace = two_steps()
    rows = trace.slices.of_kind(Kind.CPU_OP)
    assert step_index(trace, rows).tolist() == [0, -1, 1]


def test_an_end_is_outside() -> None:
    every = steps(make_trace([step(1, 0, 10), step(2, 10, 10)]))
    assert every.of_moment(np.array([-1, 0, 9, 10, 19, 20])).tolist() == [-1, 0, 0, 1, 1, -1]


def test_threads_that_profile_on_their_own_keep_their_steps() -> None:
    other, worker = ("1", "5"), ("1", "6")
    trace = make_trace(
        [
            step(1, 0, 100),
            step(1, 50, 100, lane=other),
            op("mine", 60, 5),
            op("theirs", 60, 5, lane=other),
            op("early", 10, 5, lane=worker),
            op("unclear", 60, 5, lane=worker),
            op("late", 120, 5, lane=worker),
            op("elsewhere", 10, 5, lane=("2", "1")),
        ]
    )
    rows = trace.slices.of_kind(Kind.CPU_OP)
    found = dict(zip(map(trace.name_of, rows.tolist()), step_index(trace, rows).tolist(), strict=True))
    assert found == {"mine": 0, "theirs": 1, "early": 0, "unclear": -1, "late": 1, "elsewhere": -1}
    assert len(within(trace, rows, 1)) == 4


def test_the_pane_counts_by_launch() -> None:
    first, second = PANES["steps"].build(two_steps()).rows()
    assert (first["step"], first["kernels"], first["copies"], first["launches"], first["cpu_ops"]) == (7, 1, 0, 1, 1)
    assert (second["kernels"], second["copies"], second["launches"]) == (1, 1, 2)
    assert (second["gpu_busy_us"], second["gpu_span_us"], second["gpu_idle_us"]) == (15.0, 15.0, 0.0)
    assert first["launch_delay_us"] == 285.0
    assert first["fingerprint"] == second["fingerprint"]


def test_a_step_without_gpu_work_has_no_gpu_times() -> None:
    (row,) = PANES["steps"].build(make_trace([step(1, 0, 10)])).rows()
    assert (row["kernels"], row["gpu_busy_us"], row["launch_delay_us"], row["fingerprint"]) == (0, None, None, None)


def test_the_last_wait_of_the_capture_is_the_profilers() -> None:
    trace = make_trace(
        [
            step(1, 0, 100_000),
            launch(1_000, 1_000, 1),
            Event("cudaDeviceSynchronize", 5_000, 3_000, Kind.RUNTIME),
            Event("cudaDeviceSynchronize", 50_000, 40_000, Kind.RUNTIME),
            kernel("a", 3_000, 1_000, correlation=1),
        ]
    )
    assert PANES["steps"].build(trace)["sync_us"].cell(0) == 3.0


def test_an_unknown_step_is_refused_in_words() -> None:
    with pytest.raises(UsageError, match="no step 3; the steps of this trace are numbered 7, 8"):
        PANES["kernels"].build(two_steps(), step=3)
    with pytest.raises(UsageError, match="has no steps"):
        PANES["kernels"].build(make_trace([op("a", 0, 1)]), step=3)
