"""The GeGLU feed-forward block with its own Triton kernels.

Part 2 of "Profiling in PyTorch" downloads such a kernel; here it is source code, with a second kernel that computes two
matmuls and the GeGLU together. Needs a GPU and the Triton that comes with PyTorch for it. With --compile, Dynamo puts
either kernel unchanged into one graph: there is nothing left to fuse, but modes such as reduce-overhead can be tried.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tracetui_workloads.api import Context, Expect, Param, Prepared, Unavailable, Workload
from tracetui_workloads.programs.common import compiled_region, forward_pass, kernels, randn, variant_of_each
from tracetui_workloads.programs.mlp import PARAMS, Geglu

if TYPE_CHECKING:
    import torch

LESSON = """\
With impl=geglu, gelu and the multiplication are one handwritten kernel: four kernels per forward, as with
torch.compile, but without its Dynamo and guard slices on the CPU. The 50 MB of gelu's result stay in registers;
impl=liger does the same with Liger's kernel. With impl=packed, which is usual practice, the weights of gate and up are
one matrix: one matmul of twice the width, then the GeGLU of its halves, three kernels. With impl=gateup, one kernel
accumulates both matmuls and writes their GeGLU, so that two kernels are left. That is faster only if its matmul is
nearly as fast as cuBLAS: relative to the matmuls, the time that fusion saves shrinks as 1 / dim."""

IMPLEMENTATIONS = ("geglu", "packed", "gateup", "liger")
FUSED = "What fuses?"
COUNT = "How many kernels does the GPU run per forward?"

WORKLOAD = Workload(
    name="fused_mlp",
    summary="the GeGLU block with Triton kernels: GeGLU fused, or fused with both matmuls",
    prepare="tracetui_workloads.programs.fused_mlp:prepare",
    params=(
        Param("impl", "geglu", "kernel; gateup also fuses the matmuls", choices=IMPLEMENTATIONS),
        *PARAMS,
    ),
    needs=("gpu", "triton"),
    studies="throughput",
    lesson=LESSON,
    expects=(
        kernels(4, "cuda eager impl=geglu", "two matmuls, the GeGLU, a matmul", asks=COUNT),
        kernels(
            3, "cuda eager impl=packed", "one matmul for gate and up, the GeGLU of its halves, a matmul", asks=COUNT
        ),
        kernels(4, "cuda eager impl=liger", "two matmuls, Liger's GeGLU, a matmul", asks=COUNT),
        kernels(3, "cuda compile mode=default impl=packed", "the compiler finds nothing left to fuse"),
        # Two, not three: results have the type of x and weights are read in place, so nothing is cast or copied.
        kernels(2, "cuda eager impl=gateup", "two matmuls with their GeGLU, and a matmul", asks=COUNT),
        kernels(4, "cuda compile mode=default impl=geglu", "the compiler finds nothing left to fuse"),
        kernels(2, "cuda compile mode=default impl=gateup", "the compiler finds nothing left to fuse"),
        Expect(
            "the fused kernel", "kernel_named", "^geglu_forward", "cuda impl=geglu", "the function's name", asks=FUSED
        ),
        Expect(
            "the fused kernel",
            "kernel_named",
            "^gateup_(forward|persistent)",
            "cuda impl=gateup",
            "the function's name",
            asks=FUSED,
        ),
        Expect(
            "the fused kernel", "kernel_named", "^geglu_packed", "cuda impl=packed", "the function's name", asks=FUSED
        ),
        Expect(
            "the fused kernel", "kernel_named", "geglu_tanh_forward", "cuda impl=liger", "Liger's function", asks=FUSED
        ),
        *(
            Expect("matmuls per step", "calls_per_step", 3, f"any eager impl={impl}", "gate, up, down", of="aten::mm")
            for impl in ("geglu", "liger")
        ),
        Expect("matmuls per step", "calls_per_step", 2, "any eager impl=packed", "gate and up, down", of="aten::mm"),
        Expect(
            "matmuls per step",
            "calls_per_step",
            1,
            "any eager impl=gateup",
            "the others are inside a kernel that is not an operator of PyTorch",
            of="aten::mm",
        ),
        Expect(
            "gelu calls per step",
            "calls_per_step",
            0,
            "any eager",
            "an autograd function launches the kernel",
            of="aten::gelu",
            asks="How often does PyTorch's own gelu run?",
        ),
        compiled_region(),
    ),
    see=("https://huggingface.co/blog/torch-mlp-fusion", "https://github.com/linkedin/Liger-Kernel"),
    variants=(
        *variant_of_each("impl", IMPLEMENTATIONS),
        ("unfused", {"workload": "mlp"}),
    ),
)


def prepare(context: Context, impl: str, batch: int, seq: int, dim: int, hidden: int) -> Prepared:
    """The block with the same weights and inputs as the workload mlp for the same seed, checked against mlp."""
    eager = Geglu(context, dim, hidden)
    x = randn(context, batch, seq, dim)
    tokens = batch * seq
    return forward_pass(
        context,
        fused(context, impl, eager, x),
        x,
        label="kernels_mlp_fwd",
        flops=6 * tokens * dim * hidden,
        bytes=(2 * tokens * dim + 3 * dim * hidden) * x.element_size(),
        operands=eager.operands(x),
        reference=eager,
    )


def fused(context: Context, impl: str, eager: Geglu, x: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    """The block with one of the kernels and the weights of the eager block."""
    if impl == "geglu":
        from tracetui_workloads.programs.kernels.geglu import GegluMlp

        return GegluMlp(eager.gate, eager.up, eager.down)
    if impl == "packed":
        from tracetui_workloads.programs.kernels.geglu import PackedGegluMlp

        return PackedGegluMlp(eager.gate, eager.up, eager.down)
    if impl == "liger":
        return _with_liger(eager)
    from tracetui_workloads.programs.kernels.gateup import CANDIDATES, GateUpMlp, fastest_tiles

    # Descriptors are made within the call, which not every Dynamo can put into a graph.
    candidates = [tiles for tiles in CANDIDATES if not (context.compiled and tiles.is_persistent)]
    # Here and not in the first call, so that the trace of a cold run holds no trials.
    tiles = fastest_tiles(x, eager.gate.weight, eager.up.weight, candidates)
    context.note(f"gateup: the fastest tiles on this device are {tiles}.")
    return GateUpMlp(eager.gate, eager.up, eager.down, tiles)


def _with_liger(eager: Geglu) -> Callable[[torch.Tensor], torch.Tensor]:
    """The block with Liger's kernel between its products.

    Raises: Unavailable without the package.
    """
    try:
        from liger_kernel.ops.geglu import LigerGELUMulFunction
    except ImportError as error:
        raise Unavailable("impl=liger needs the package liger-kernel: pip install liger-kernel.") from error

    def block(x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = eager.down(LigerGELUMulFunction.apply(eager.gate(x), eager.up(x)))
        return out

    return block
