"""Convolutions in two memory layouts: NCHW, channels_last, and an input that was converted without its model."""

from __future__ import annotations

from typing import Any

from tracetui_workloads.api import Context, Contrast, Expect, Param, Prepared, Workload
from tracetui_workloads.programs.common import compiled_region, randn, size_param, variant_of_each

LESSON = """\
channels_last keeps the channels of a pixel together, which is how Tensor Cores and vector units read them. It is no
conversion in the step if input and model are both converted, once, before the first step. With the input alone every
convolution copies its weight into the new layout at every call: aten::contiguous, aten::clone and a copy for each
layer. With NCHW no operator converts anything, but the library may do so within its kernels: on a GPU look for kernels
that are named after two layouts (nchwToNhwc), on the CPU for the time of aten::mkldnn_convolution."""

LAYOUTS = ("nchw", "input", "channels_last")

WORKLOAD = Workload(
    name="conv",
    summary="convolution, batch norm, ReLU: in NCHW, in channels_last, and with an input converted alone",
    prepare="tracetui_workloads.programs.conv:prepare",
    params=(
        Param("layout", "nchw", "memory layout", choices=LAYOUTS),
        size_param("layers", 3, "number of convolutions"),
        size_param("batch", 8, "images"),
        size_param("channels", 64, "channels of every layer"),
        size_param("pixels", 56, "height and width", minimum=3),
    ),
    studies="throughput",
    lesson=LESSON,
    expects=(
        Expect(
            "convolutions per step",
            "calls_per_step",
            3,
            "any eager layers=3",
            "one for each layer, whatever the layout",
            of="aten::convolution",
            asks="Does the layout change which operators compute?",
        ),
        *(
            Expect(
                "tensors copied into another layout per step",
                "calls_per_step",
                count,
                f"cpu eager layout={layout} layers=3",
                why,
                of="aten::clone",
                asks="How many tensors are copied into another layout per step?",
            )
            for layout, count, why in (
                ("nchw", 0, "input and weights have the same layout"),
                ("input", 3, "the weight of every convolution, at every step"),
                ("channels_last", 0, "everything was converted before the first step"),
            )
        ),
        compiled_region(
            why="one graph holds the whole forward; what converts a layout is part of it",
            asks="How many compiled regions does a step call?",
        ),
    ),
    contrasts=(
        Contrast(
            "operators of a converted input by those of a converted model too",
            "input",
            "channels_last",
            "ops_per_step",
            (1.05, 3.0),
            "cpu eager layers=3",
            "the weights are not copied any more",
        ),
    ),
    see=("https://docs.pytorch.org/tutorials/intermediate/memory_format_tutorial.html",),
    variants=variant_of_each("layout", LAYOUTS),
)


def prepare(context: Context, layout: str, layers: int, batch: int, channels: int, pixels: int) -> Prepared:
    """The network in eval mode, and one batch of images."""
    import torch
    from torch import nn

    blocks: list[nn.Module] = []
    for _ in range(layers):
        blocks += [nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU()]
    model = nn.Sequential(*blocks).eval().to(device=context.device, dtype=context.dtype)
    x = randn(context, batch, channels, pixels, pixels)
    plain = model(x).detach()
    if layout != "nchw":
        x = x.to(memory_format=torch.channels_last)
    if layout == "channels_last":
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    forward: Any = context.compile(model)

    def step() -> torch.Tensor:
        with torch.no_grad():
            images: torch.Tensor = forward(x)
        return images

    def check() -> None:
        torch.testing.assert_close(step().float(), plain.float(), rtol=5e-2, atol=5e-2)

    return Prepared(
        step,
        label="conv_fwd",
        flops=2 * 9 * layers * batch * channels**2 * pixels**2,
        check=check,
        operands={"model": model, "x": x},
    )
