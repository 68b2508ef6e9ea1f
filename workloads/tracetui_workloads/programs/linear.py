"""One `nn.Linear`: where the bias is added, and the operators around the matmul.

From part 2 of "Profiling in PyTorch".
"""

from __future__ import annotations

from tracetui_workloads.api import Context, Expect, Prepared, Workload
from tracetui_workloads.programs.common import (
    EAGER_AND_COMPILE,
    compiled_region,
    forward_pass,
    kernels,
    randn,
    size_param,
)

LESSON = """\
One kernel per forward: the matmul's kernel adds the bias in its epilogue, and there is no aten::add. aten::t only
changes shape and strides, and launches nothing. Compiled, aten::t is gone and slices of the compiler appear (five in
torch 2.13), while the kernel has the same name: the GPU computes the same."""

WORKLOAD = Workload(
    name="linear",
    summary="one linear layer with a bias",
    prepare="tracetui_workloads.programs.linear:prepare",
    params=(
        size_param("batch", 1024, "rows of the input"),
        size_param("in_dim", 32, "features of the input"),
        size_param("out_dim", 64, "features of the output"),
    ),
    studies="overhead",
    lesson=LESSON,
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


def prepare(context: Context, batch: int, in_dim: int, out_dim: int) -> Prepared:
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
