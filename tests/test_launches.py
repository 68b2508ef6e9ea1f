"""Calls that put work on the GPU."""

from __future__ import annotations

from tests.build import kernel, launch, make_trace, op
from tracetui.analysis.panes import PANES
from tracetui.model.trace import Trace


def queue_of_three() -> Trace:
    return make_trace(
        [
            op("aten::mm", 0, 100),
            launch(10, 5, 1),
            launch(20, 5, 2),
            launch(300, 5, 3, "cudaGraphLaunch"),
            launch(400, 5, 4),
            kernel("a", 100, 50, correlation=1),
            kernel("b", 150, 200, correlation=2),
            kernel("c", 350, 10, correlation=3),
            kernel("d", 360, 10, correlation=3),
        ]
    )


def test_a_launch_is_whatever_has_gpu_work() -> None:
    table = PANES["launches"].build(queue_of_three())
    assert [(row["api"], row["op"], row["kernels"], row["kernel"], row["delay_us"]) for row in table.rows()] == [
        ("cudaLaunchKernel", "aten::mm", 1, "a", 0.09),
        ("cudaLaunchKernel", "aten::mm", 1, "b", 0.13),
        ("cudaGraphLaunch", None, 2, "c", 0.05),
    ]
    assert "1 launch calls have no GPU activity" in table.note


def test_the_queue_holds_what_was_launched_and_has_not_started() -> None:
    table = PANES["launches"].build(queue_of_three())
    assert [row["queue_depth"] for row in table.rows()] == [1, 2, 1]


def test_groups_by_call() -> None:
    table = PANES["launches"].build(queue_of_three(), by="name")
    assert [(row["api"], row["calls"], row["kernels"], row["median_delay_us"]) for row in table.rows()] == [
        ("cudaLaunchKernel", 2, 2, 0.11),
        ("cudaGraphLaunch", 1, 2, 0.05),
    ]
