"""A training step of a small multilayer perceptron: zero_grad, forward, backward, optimizer, each in an annotation.

The optimizer is AdamW: one operator after another for each parameter, in lists (foreach), or fused. The weights change
from step to step, so that results are not compared with eager's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracetui_workloads.api import MORE, Context, Contrast, Expect, Param, Prepared, Workload
from tracetui_workloads.programs.common import compiled_region, randn, size_param, variant_of_each

LESSON = """\
A step has four phases, and the backward pass calls about twice as many matmuls as the forward one: one for the weights
and one for the input of each layer, of which the first layer needs none. The optimizer is where operators go: written
as a loop it calls several for every parameter, fused it is one operator for all of them. Lists (foreach) save launches
on a GPU; on the CPU they call the same operators one by one. zero_grad drops gradients by default, without an operator.
With amp the matmuls run in bfloat16, and casts appear around them."""

PARAMETERS = 8
"""Weights and biases of the four default layers."""
ADAMW: dict[str, Any] = {"forloop": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}
"""Arguments of AdamW by the name of the implementation."""

WORKLOAD = Workload(
    name="train_step",
    summary="a training step: forward, backward and an AdamW in three implementations",
    prepare="tracetui_workloads.programs.train_step:prepare",
    params=(
        Param("optimizer", "foreach", "implementation of AdamW", choices=tuple(ADAMW)),
        Param("amp", False, "autocast to bfloat16 in the forward pass"),
        Param("zero_grad", "none", "gradients become None, or zeros", choices=("none", "zeros")),
        size_param("batch", 256, "rows of the input"),
        size_param("width", 512, "features of every layer"),
        size_param("layers", 4, "number of layers"),
    ),
    studies="throughput",
    dtype="fp32",
    lesson=LESSON,
    expects=(
        Expect(
            "fused optimizer operators per step",
            "matching_ops_per_step",
            1,
            "any optimizer=fused",
            "one operator updates every parameter",
            of="^aten::_fused_adamw_$",
            asks="How many operators does a fused optimizer call?",
        ),
        Expect(
            "optimizer operators on lists per step",
            "matching_ops_per_step",
            (3, MORE),
            "any optimizer=foreach",
            "each takes the lists of all parameters",
            of="^aten::_foreach_",
            asks="Do operators on lists depend on the number of parameters?",
        ),
        Expect(
            "updates of a parameter per step",
            "calls_per_step",
            PARAMETERS,
            "any optimizer=forloop layers=4",
            "one for each weight and each bias",
            of="aten::addcdiv_",
            asks="How often does a loop over parameters update one?",
        ),
        Expect(
            "matmuls of the backward pass per step",
            "calls_per_step",
            7,
            "any eager layers=4",
            "two for each layer, less one: the input of the first needs no gradient",
            of="aten::mm",
            asks="How many matmuls does the backward pass of four layers call?",
        ),
        Expect(
            "matmuls of the forward pass per step",
            "calls_per_step",
            4,
            "any eager layers=4",
            "one for each layer",
            of="aten::addmm",
        ),
        Expect(
            "operators that set gradients to zero, per step",
            "matching_ops_per_step",
            0,
            "any optimizer=foreach zero_grad=none",
            "they are dropped, and made anew by the backward pass",
            of="^aten::_foreach_zero_$",
        ),
        Expect(
            "operators that set gradients to zero, per step",
            "matching_ops_per_step",
            1,
            "any optimizer=foreach zero_grad=zeros",
            "gradients are kept, written to, and added to",
            of="^aten::_foreach_zero_$",
            asks="What does zero_grad cost?",
        ),
        Expect(
            "casts per step",
            "matching_ops_per_step",
            (4, MORE),
            "eager amp=True",
            "weights and inputs of the matmuls become bfloat16",
            of="^aten::_to_copy$",
            asks="Which operators appear with amp?",
        ),
        compiled_region(want=(1, MORE), why="the forward pass is compiled, and its backward pass with it"),
    ),
    contrasts=(
        Contrast(
            "operators of a loop by those of a fused optimizer",
            "forloop",
            "fused",
            "ops_per_step",
            (1.3, MORE),
            "any eager layers=4",
            "several operators for every parameter, or one for all",
        ),
    ),
    see=("https://docs.pytorch.org/docs/stable/generated/torch.optim.AdamW.html",),
    variants=(
        *variant_of_each("optimizer", ADAMW),
        ("amp", {"amp": True}),
        ("zeros", {"zero_grad": "zeros"}),
    ),
)


def prepare(
    context: Context, optimizer: str, amp: bool, zero_grad: str, batch: int, width: int, layers: int
) -> Prepared:
    """The model, its optimizer and one batch."""
    import torch
    from torch import nn

    blocks = [nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(layers)]
    model = nn.Sequential(*blocks).to(device=context.device, dtype=context.dtype)
    x, wanted = (randn(context, batch, width) for _ in range(2))
    adamw = torch.optim.AdamW(model.parameters(), lr=1e-3, **ADAMW[optimizer])
    forward = context.compile(model)
    step = _step(forward, adamw, x, wanted, amp, zero_grad)
    weights = layers * width * width
    return Prepared(
        step, label="train_step", flops=6 * batch * weights, operands={"model": model, "x": x, "wanted": wanted}
    )


def _step(forward: Any, adamw: Any, x: Any, wanted: Any, amp: bool, zero_grad: str) -> Callable[[], None]:
    """A training step with an annotation around each phase."""
    import torch
    from torch.nn.functional import mse_loss
    from torch.profiler import record_function

    def step() -> None:
        with record_function("## zero_grad ##"):
            adamw.zero_grad(set_to_none=zero_grad == "none")
        with record_function("## forward ##"), torch.autocast(x.device.type, torch.bfloat16, enabled=amp):
            loss: Any = mse_loss(forward(x), wanted)
        with record_function("## backward ##"):
            loss.backward()
        with record_function("## optimizer ##"):
            adamw.step()

    return step
