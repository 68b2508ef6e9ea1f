"""The GeGLU feed-forward block with kernels of its own, written in Triton.

What part 2 of "Profiling in PyTorch" fetches from a hub is here as source, and one step further: the products and the
GeGLU in one kernel. Needs a GPU and the Triton that PyTorch brings along for it. Compiled, Dynamo takes either kernel
as it is into its one graph: nothing is left to fuse, but a mode such as reduce-overhead can be tried on it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from workloads.api import Context, Expect, Param, Prepared, Workload
from workloads.programs.mlp import PARAMS, Geglu

if TYPE_CHECKING:
    import torch

LESSON = """\
With impl=geglu, gelu and multiplication are one kernel written by hand: four kernels per forward, as torch.compile has
them, and no row of Dynamo or of guards on the CPU. The 50 MB of gelu's result stay in registers. With impl=gateup, one
kernel keeps the sums of both products and writes their GeGLU, so that two kernels are left. That wins only where its
product comes near cuBLAS's: what fusion can save, beside a product's own time, shrinks as 1 / dim."""

WORKLOAD = Workload(
    name="fused_mlp",
    summary="the same block with Triton kernels: GeGLU fused, or with both products too",
    prepare="workloads.programs.fused_mlp:prepare",
    params=(
        Param("impl", "geglu", "gateup holds the products as well", choices=("geglu", "gateup")),
        *PARAMS,
    ),
    needs=("gpu", "triton"),
    studies="throughput",
    lesson=LESSON,
    expects=(
        Expect(
            "GPU kernels per forward",
            "kernels_per_forward",
            4,
            "cuda eager impl=geglu",
            "two products, the GeGLU, a product",
        ),
        # Two, not three: sums are stored in the type of x and weights read as they lie, so nothing is cast or copied.
        Expect(
            "GPU kernels per forward",
            "kernels_per_forward",
            2,
            "cuda eager impl=gateup",
            "two products with their GeGLU, and a product",
        ),
        Expect(
            "GPU kernels per forward",
            "kernels_per_forward",
            4,
            "cuda compile mode=default impl=geglu",
            "the compiler finds nothing left to fuse",
        ),
        Expect(
            "GPU kernels per forward",
            "kernels_per_forward",
            2,
            "cuda compile mode=default impl=gateup",
            "the compiler finds nothing left to fuse",
        ),
        Expect("the fused kernel", "kernel_named", "^geglu_forward", "cuda impl=geglu", "the name of its function"),
        Expect("the fused kernel", "kernel_named", "^gateup_forward", "cuda impl=gateup", "the name of its function"),
        Expect("products per step", "calls_per_step", 3, "any eager impl=geglu", "gate, up, down", of="aten::mm"),
        Expect(
            "products per step",
            "calls_per_step",
            1,
            "any eager impl=gateup",
            "the others are inside a kernel, which is no operator of PyTorch",
            of="aten::mm",
        ),
        Expect(
            "gelu per step",
            "calls_per_step",
            0,
            "any eager",
            "the kernel is called by an autograd function",
            of="aten::gelu",
        ),
    ),
    see=("https://huggingface.co/blog/torch-mlp-fusion", "https://github.com/linkedin/Liger-Kernel"),
    variants=(("geglu", {"impl": "geglu"}), ("gateup", {"impl": "gateup"}), ("unfused", {"workload": "mlp"})),
)


def prepare(context: Context, impl: str, batch: int, seq: int, dim: int, hidden: int) -> Prepared:
    """The block with the weights and inputs that the workload mlp has for the same seed, checked against it."""
    import torch

    from workloads.programs.numeric_check import same_as

    eager = Geglu(context, dim, hidden)
    x = torch.randn(batch, seq, dim, device=context.device, dtype=context.dtype)
    block = fused(context, impl, eager, x)
    compiled = context.compile(block)

    def step() -> torch.Tensor:
        with torch.no_grad():
            return compiled(x)

    tokens = batch * seq
    return Prepared(
        step,
        label="kernels_mlp_fwd",
        flops=6 * tokens * dim * hidden,
        bytes=(2 * tokens * dim + 3 * dim * hidden) * x.element_size(),
        check=same_as(lambda: eager(x), step),
        operands=eager.operands(x),
    )


def fused(context: Context, impl: str, eager: Geglu, x: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    """The block with one of the kernels and eager's own weights."""
    if impl == "geglu":
        from workloads.programs.kernels.geglu import GegluMlp

        return GegluMlp(eager.gate, eager.up, eager.down)
    from workloads.programs.kernels.gateup import GateUpMlp, fastest_tiles

    # Here and not in the first call, so that no trial is in the trace of a cold run.
    tiles = fastest_tiles(x, eager.gate.weight, eager.up.weight)
    context.note(f"gateup: tiles of {tiles} were the fastest here.")
    return GateUpMlp(eager.gate, eager.up, eager.down, tiles)
