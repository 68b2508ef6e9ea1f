"""A trace that no check of the trace has anything to say of."""

from __future__ import annotations

from typing import Any

from tests.support.build import Event, kernel, launch, make_trace, op, step
from tracetui.model.trace import Device, Trace

H200 = Device(0, "NVIDIA H200")


SHAPES = {"Input Dims": [[2, 2]]}


def plain(*more: Event, **fields: Any) -> Trace:
    """A step with an op that launches a kernel, and nothing wrong with it."""
    events = [
        step(1, 0, 1_001),
        op("aten::mm", 10, 100, args=SHAPES),
        launch(20, 10, 1),
        kernel("gemm", 50, 101, correlation=1),
    ]
    return make_trace([*events, *more], **{"devices": [H200], **fields})
