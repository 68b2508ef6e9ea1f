"""The GeGLU feed-forward block: three matmuls with two pointwise operators between them, also as Triton kernels.

From part 2 of "Profiling in PyTorch", which downloads such a kernel; here it is source code, with a second kernel that
computes two matmuls and the GeGLU together. Needs a GPU and the Triton that comes with PyTorch for it. With --compile,
Dynamo puts either kernel unchanged into one graph: there is nothing left to fuse, but modes such as reduce-overhead can
be tried.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tracetui_workloads.api import Context, Contrast, Expect, Param, Prepared, Unavailable, Workload
from tracetui_workloads.programs.common import (
    EAGER_AND_COMPILE,
    compiled_region,
    forward_pass,
    kernels,
    randn,
    size_param,
    variant_of_each,
)

if TYPE_CHECKING:
    import torch

MLP_LESSON = """\
Five kernels per forward: matmul, matmul, gelu, multiplication, matmul. Of the nine operators that a linear layer calls
(eleven on the CPU), only aten::mm computes; the others change shapes and strides, and launch nothing. The three matmuls
have the same number of operations, but not the same shape: on an A100 gate and up run as kernels with one tile and down
with a larger one, 10 % faster, and cuBLAS asks for the occupancy of these three before their launch, not for that of
gelu and the multiplication. Compiled, gelu and the multiplication are one kernel (Triton on a GPU, C++ on a CPU), so
the result of gelu is not written to memory and read again; the matmuls stay what they are. On an A100 the fused pair is
40 % faster and the whole forward 8 %: most of the time is in the matmuls."""

PARAMS = (
    size_param("batch", 64, "sequences per batch"),
    size_param("seq", 128, "tokens per sequence"),
    size_param("dim", 768, "width of the block"),
    size_param("hidden", 3072, "hidden width"),
)

FUSED = "gelu and the multiplication; the matmuls stay what they are"
ON_ANY_DEVICE = (
    Expect(
        "operators that compute, in order",
        "ops_in_order",
        "mm mm gelu mul mm",
        "any eager",
        "gate and up, then gelu and the multiplication, then down",
        of="^aten::(mm|gelu|mul)$",
        asks="In which order do matmuls, gelu and multiplication run?",
    ),
    Expect(
        "matmuls and fused kernels, in order",
        "ops_in_order",
        r"mm mm \S*fused\S*gelu\S*mul\S* mm",
        "cpu compile backend=inductor",
        FUSED,
        of="^aten::mm$|_fused_",
        asks="Compiled, what fuses?",
    ),
    Expect(
        "gelu and multiplications per step",
        "matching_ops_per_step",
        0,
        "compile backend=inductor",
        "they are inside the fused kernel",
        of="^aten::(gelu|mul)$",
        asks="Which operators are gone?",
    ),
    Expect(
        "CPU operators per step",
        "ops_per_step",
        35,
        "cpu eager torch=2.13",
        "eleven for each linear layer, of which one is a matmul, and two between them",
    ),
    Expect("matmuls per step", "calls_per_step", 3, "any eager", "gate, up, down", of="aten::mm"),
    Expect(
        "transpositions per step",
        "calls_per_step",
        3,
        "any eager",
        "weights are stored transposed: strides change, and nothing is computed",
        of="aten::t",
    ),
)
"""Expectations of the CPU's side of a trace."""

ON_GPU = (
    kernels(5, "cuda eager", "three matmuls, gelu, multiplication"),
    Expect(
        "operators that launched kernels, in order",
        "kernels_in_order",
        "mm mm gelu mul mm",
        "cuda eager",
        "gate and up, then gelu and the multiplication, then down",
    ),
    kernels(4, "cuda compile backend=inductor mode=default", "gelu and multiplication are one kernel"),
    Expect(
        "what launched kernels, in order",
        "kernels_in_order",
        r"mm mm triton_\S*fused\S*gelu\S*mul\S* mm",
        "cuda compile backend=inductor mode=default",
        FUSED,
        asks="Compiled, what fuses?",
    ),
    Expect(
        "kernels launched by a transposition", "kernels_per_call", 0, "cuda eager", "it changes strides", of="aten::t"
    ),
    # Newer cuBLAS asks nothing, so that only the card of the series is promised its query.
    Expect(
        "occupancy queries by a matmul",
        "occupancy_queries_per_call",
        1,
        "cuda eager capability=8.0",
        "cuBLAS asks how many blocks fit before it launches",
        of="aten::mm",
    ),
    Expect(
        "occupancy queries by gelu",
        "occupancy_queries_per_call",
        0,
        "cuda eager",
        "a pointwise kernel is launched without asking",
        of="aten::gelu",
    ),
)
"""Expectations of the GPU's side of a trace."""

MLP = Workload(
    name="mlp",
    summary="a GeGLU feed-forward block: down(gelu(gate(x)) * up(x))",
    prepare="tracetui_workloads.programs.mlp:prepare_mlp",
    params=PARAMS,
    studies="throughput",
    lesson=MLP_LESSON,
    expects=(*ON_ANY_DEVICE, *ON_GPU, compiled_region()),
    contrasts=(
        Contrast(
            "kernels of eager by those of compile",
            "eager",
            "compile",
            "kernels_per_forward",
            (1.2, 1.3),
            "cuda",
            "five by four: gelu and the multiplication are one kernel",
        ),
        Contrast(
            "matmuls of eager by those of compile",
            "eager",
            "compile",
            "calls_per_step",
            1,
            "any",
            "compiling leaves them what they are",
            of="aten::mm",
        ),
    ),
    see=("https://huggingface.co/blog/torch-mlp-fusion",),
    variants=(
        *EAGER_AND_COMPILE,
        ("fused", {"workload": "fused_mlp"}),
        ("gateup", {"workload": "fused_mlp", "impl": "gateup"}),
    ),
)


class Geglu:
    """The block with random weights; calling it runs a forward pass."""

    def __init__(self, context: Context, dim: int, hidden: int) -> None:
        from torch import nn

        def linear(inputs: int, outputs: int) -> nn.Linear:
            return nn.Linear(inputs, outputs, bias=False, device=context.device, dtype=context.dtype).eval()

        self.gate, self.up, self.down = linear(dim, hidden), linear(dim, hidden), linear(hidden, dim)

    def operands(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """The weights and the input by name."""
        return {"gate": self.gate.weight, "up": self.up.weight, "down": self.down.weight, "x": x}

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Shapes: input and output are (batch, seq, dim)."""
        from torch.nn import functional

        gate, up = self.gate(x), self.up(x)
        output: torch.Tensor = self.down(functional.gelu(gate, approximate="tanh") * up)
        return output


def prepare_mlp(context: Context, batch: int, seq: int, dim: int, hidden: int) -> Prepared:
    """The block and one batch of inputs."""
    block = Geglu(context, dim, hidden)
    x = randn(context, batch, seq, dim)
    tokens = batch * seq
    return forward_pass(
        context,
        block.__call__,
        x,
        label="mlp_fwd",
        flops=6 * tokens * dim * hidden,
        bytes=(2 * tokens * dim + 3 * dim * hidden) * x.element_size(),
        operands=block.operands(x),
    )


FUSED_MLP_LESSON = """\
With impl=geglu, gelu and the multiplication are one handwritten kernel: four kernels per forward, as with
torch.compile, but without its Dynamo and guard slices on the CPU. The 50 MB of gelu's result stay in registers;
impl=liger does the same with Liger's kernel. With impl=packed, which is usual practice, the weights of gate and up are
one matrix: one matmul of twice the width, then the GeGLU of its halves, three kernels. With impl=gateup, one kernel
accumulates both matmuls and writes their GeGLU, so that two kernels are left. That is faster only if its matmul is
nearly as fast as cuBLAS: relative to the matmuls, the time that fusion saves shrinks as 1 / dim."""

IMPLEMENTATIONS = ("geglu", "packed", "gateup", "liger")
FUSED_KERNELS = "What fuses?"
COUNT = "How many kernels does the GPU run per forward?"

FUSED_MLP = Workload(
    name="fused_mlp",
    summary="the GeGLU block with Triton kernels: GeGLU fused, or fused with both matmuls",
    prepare="tracetui_workloads.programs.mlp:prepare_fused_mlp",
    params=(
        Param("impl", "geglu", "kernel; gateup also fuses the matmuls", choices=IMPLEMENTATIONS),
        *PARAMS,
    ),
    needs=("gpu", "triton"),
    studies="throughput",
    lesson=FUSED_MLP_LESSON,
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
            "the fused kernel",
            "kernel_named",
            "^geglu_forward",
            "cuda impl=geglu",
            "the function's name",
            asks=FUSED_KERNELS,
        ),
        Expect(
            "the fused kernel",
            "kernel_named",
            "^gateup_(forward|persistent)",
            "cuda impl=gateup",
            "the function's name",
            asks=FUSED_KERNELS,
        ),
        Expect(
            "the fused kernel",
            "kernel_named",
            "^geglu_packed",
            "cuda impl=packed",
            "the function's name",
            asks=FUSED_KERNELS,
        ),
        Expect(
            "the fused kernel",
            "kernel_named",
            "geglu_tanh_forward",
            "cuda impl=liger",
            "Liger's function",
            asks=FUSED_KERNELS,
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


def prepare_fused_mlp(context: Context, impl: str, batch: int, seq: int, dim: int, hidden: int) -> Prepared:
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
        from tracetui_workloads.programs.geglu_kernels import GegluMlp

        return GegluMlp(eager.gate, eager.up, eager.down)
    if impl == "packed":
        from tracetui_workloads.programs.geglu_kernels import PackedGegluMlp

        return PackedGegluMlp(eager.gate, eager.up, eager.down)
    if impl == "liger":
        return _with_liger(eager)
    from tracetui_workloads.programs.geglu_kernels import CANDIDATES, GateUpMlp, fastest_tiles

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
