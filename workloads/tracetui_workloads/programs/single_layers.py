"""One operator or layer in a step: a matmul and an addition, a linear layer, a convolution.

`matmul_add` is the smallest program whose trace shows operators, launches, kernels and idle time, from part 1 of
"Profiling in PyTorch". All three operands are square matrices, also the one that is added. `linear`, from part 2, is
one `nn.Linear`: where the bias is added, and the operators around the matmul. `conv` has convolutions in two memory
layouts: NCHW, channels_last, and an input that was converted without its model.
"""

from __future__ import annotations

from typing import Any

from tracetui_workloads.api import MORE, Context, Contrast, Expect, Param, Prepared, Workload
from tracetui_workloads.programs.common import (
    EAGER_AND_COMPILE,
    compiled_region,
    forward_pass,
    kernels,
    randn,
    same_as,
    size_param,
    variant_of_each,
)

MATMUL_ADD_LESSON = """\
At size 64 the GPU is busy for microseconds and idle for the rest: a launch takes longer than the kernel (overhead-
bound). At 4096 the same two operators keep it busy (compute-bound); one kernel with one size does not take the same
time in every step, as clocks and power change. Compiled, one operator (addmm) replaces two, but the GPU still runs
two activities: it copies the matrix to be added to the output, to which the matmul then adds. Only the operators are
fused, not the kernels, and the CPU takes more time than before."""

MATMUL_ADD = Workload(
    name="matmul_add",
    summary="a matmul and an addition",
    prepare="tracetui_workloads.programs.single_layers:prepare_matmul_add",
    params=(
        size_param("size", 64, "rows and columns of all three matrices"),
        size_param("batch", 0, "matrices in a batch, 0 for no batch", minimum=0),
    ),
    studies="overhead",
    lesson=MATMUL_ADD_LESSON,
    expects=(
        Expect(
            "GPU kernels and copies per forward",
            "kernels_per_forward",
            2,
            "cuda",
            "a matmul and an addition; compiled, a copy and a matmul",
            asks="How many kernels and copies does the GPU run per forward, and how many when it is compiled?",
        ),
        Expect(
            "operators that launched kernels, in order",
            "kernels_in_order",
            "mm add",
            "cuda eager batch=0",
            "matmul calls mm, which launches the kernel",
        ),
        Expect(
            "operators that compute, in order",
            "ops_in_order",
            "mm add",
            "any eager batch=0",
            "matmul calls mm, which computes",
            of="^aten::(mm|add)$",
            asks="Which operators compute, and in which order?",
        ),
        Expect(
            "share of the time in which the GPU is busy, %",
            "gpu_busy_pct",
            (0, 10),
            "cuda eager size=64 batch=0",
            "a kernel of a few microseconds ends before the next one is launched",
        ),
        Expect(
            "share of the time in which the GPU is busy, %",
            "gpu_busy_pct",
            (80, 100),
            "cuda warm size=4096 batch=0",
            "the next kernel is launched while one of half a millisecond runs",
        ),
        Expect(
            "CPU operators per step",
            "ops_per_step",
            6,
            "cpu eager torch=2.13 batch=0",
            "matmul calls mm; three of the others only check whether a tensor is conjugated",
        ),
        Expect(
            "separate additions per step",
            "calls_per_step",
            0,
            "compile backend=inductor batch=0",
            "addmm includes the addition",
            of="aten::add",
            asks="Compiled, which operator goes away?",
        ),
        Expect(
            "matmuls with an addition per step",
            "calls_per_step",
            1,
            "compile backend=inductor batch=0",
            "one operator in the place of two",
            of="aten::addmm",
        ),
        compiled_region(),
        Expect(
            "dead window of the first forward, times the shortest later one",
            "first_to_shortest_dead_window",
            (1.5, MORE),
            "cold eager",
            "the first call does everything for the first time",
            asks="Cold, which of the three steps has the longest wait before its first operator?",
        ),
        Expect(
            "the slowest step, times the fastest",
            "slowest_to_fastest_step",
            (1.2, MORE),
            "cold eager size=64",
            "the first step is the slow one",
        ),
        Expect(
            "a batched matmul",
            "op_named",
            "^aten::bmm$",
            "any eager batch=8",
            "with a third dimension matmul calls bmm",
        ),
    ),
    see=("https://huggingface.co/blog/torch-profiler",),
    variants=(*EAGER_AND_COMPILE, ("cold", {"cold": True})),
)


def prepare_matmul_add(context: Context, size: int, batch: int) -> Prepared:
    """A matmul and an addition of three random matrices, or of batches of them."""
    import torch

    shape = (batch, size, size) if batch else (size, size)
    x, w, b = (randn(context, *shape) for _ in range(3))

    def eager() -> torch.Tensor:
        return torch.add(torch.matmul(x, w), b)

    step = context.compile(eager)
    products = max(batch, 1)
    return Prepared(
        step,
        label="matmul_add",
        flops=products * (2 * size**3 + size**2),
        bytes=products * 4 * size**2 * x.element_size(),
        check=same_as(eager, step) if context.compiled else None,
        operands={"x": x, "w": w, "b": b},
    )


LINEAR_LESSON = """\
One kernel per forward: the matmul's kernel adds the bias in its epilogue, and there is no aten::add. aten::t only
changes shape and strides, and launches nothing. Compiled, aten::t is gone and slices of the compiler appear (five in
torch 2.13), while the kernel has the same name: the GPU computes the same."""

LINEAR = Workload(
    name="linear",
    summary="one linear layer with a bias",
    prepare="tracetui_workloads.programs.single_layers:prepare_linear",
    params=(
        size_param("batch", 1024, "rows of the input"),
        size_param("in_dim", 32, "features of the input"),
        size_param("out_dim", 64, "features of the output"),
    ),
    studies="overhead",
    lesson=LINEAR_LESSON,
    expects=(
        kernels(1, "cuda", "the bias is added in the epilogue"),
        Expect(
            "separate additions per step",
            "calls_per_step",
            0,
            "any",
            "addmm adds the bias",
            of="aten::add",
            asks="Which operator adds the bias?",
        ),
        Expect(
            "operators around the matmul, in order",
            "ops_in_order",
            "linear t addmm",
            "any eager",
            "linear transposes the weight and calls addmm",
            of="^aten::(linear|t|addmm)$",
        ),
        Expect(
            "transpositions per step",
            "calls_per_step",
            1,
            "any eager",
            "the weight is stored transposed",
            of="aten::t",
            asks="Does aten::t move any data?",
        ),
        Expect(
            "kernels launched by a transposition",
            "kernels_per_call",
            0,
            "cuda eager",
            "it changes strides and takes no time on the GPU",
            of="aten::t",
        ),
        Expect(
            "transpositions per step",
            "calls_per_step",
            0,
            "compile backend=inductor",
            "the strides are resolved at compile time",
            of="aten::t",
            asks="Compiled, which operator goes away?",
        ),
        compiled_region(),
        Expect("CPU operators per step", "ops_per_step", 10, "cpu eager torch=2.13", "one of them is the matmul"),
    ),
    see=("https://huggingface.co/blog/torch-mlp-fusion",),
    variants=EAGER_AND_COMPILE,
)


def prepare_linear(context: Context, batch: int, in_dim: int, out_dim: int) -> Prepared:
    """The layer with one batch of inputs."""
    from torch import nn

    layer = nn.Linear(in_dim, out_dim, device=context.device, dtype=context.dtype).eval()
    x = randn(context, batch, in_dim)
    traffic = batch * in_dim + in_dim * out_dim + out_dim + batch * out_dim
    return forward_pass(
        context,
        layer,
        x,
        label="linear_fwd",
        flops=2 * batch * in_dim * out_dim,
        bytes=traffic * x.element_size(),
        operands={"layer": layer, "x": x},
    )


CONV_LESSON = """\
channels_last keeps the channels of a pixel together, which is how Tensor Cores and vector units read them. It is no
conversion in the step if input and model are both converted, once, before the first step. With the input alone every
convolution copies its weight into the new layout at every call: aten::contiguous, aten::clone and a copy for each
layer. With NCHW no operator converts anything, but the library may do so within its kernels: on a GPU look for kernels
that are named after two layouts (nchwToNhwc), on the CPU for the time of aten::mkldnn_convolution."""

LAYOUTS = ("nchw", "input", "channels_last")

CONV = Workload(
    name="conv",
    summary="convolution, batch norm, ReLU: in NCHW, in channels_last, and with an input converted alone",
    prepare="tracetui_workloads.programs.single_layers:prepare_conv",
    params=(
        Param("layout", "nchw", "memory layout", choices=LAYOUTS),
        size_param("layers", 3, "number of convolutions"),
        size_param("batch", 8, "images"),
        size_param("channels", 64, "channels of every layer"),
        size_param("pixels", 56, "height and width", minimum=3),
    ),
    studies="throughput",
    lesson=CONV_LESSON,
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


def prepare_conv(context: Context, layout: str, layers: int, batch: int, channels: int, pixels: int) -> Prepared:
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
