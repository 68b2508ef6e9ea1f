"""A model with Python frames, modules and a backward pass."""

from __future__ import annotations

from tests.support.autograd import ENGINE_THREAD, MAIN, backward, forward
from tests.support.build import Event, kernel, launch, op
from tracetui.model.trace import Kind


def frame(name: str, start: int, dur: int) -> Event:
    return Event(name, start, dur, Kind.PYTHON, MAIN)


def model() -> list[Event]:
    return [
        frame("train.py(9): step", 0, 1_000),
        frame("nn.Module: GPT_0", 10, 400),
        frame("torch/nn/modules/module.py(1): _call_impl", 12, 390),
        frame("model.py(3): forward", 15, 380),
        frame("nn.Module: MLP_3", 20, 300),
        frame("torch/nn/modules/linear.py(2): forward", 25, 280),
        frame("<built-in function linear>", 30, 260),
        forward("aten::linear", 35, 250, 4, lane=MAIN),
        launch(50, 5, 1, lane=MAIN),
        kernel("gemm", 90, 10, correlation=1),
        *backward("LinearBackward0", 600, 100, 4),
        launch(610, 5, 2, lane=ENGINE_THREAD),
        kernel("gemm_back", 650, 10, correlation=2),
        op("aten::zero_", 800, 10, lane=MAIN),
    ]
