"""The GeGLU feed-forward block: three matmuls with two pointwise operators between them.

From part 2 of "Profiling in PyTorch".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workloads.api import Context, Expect, Param, Prepared, Workload

if TYPE_CHECKING:
    import torch

LESSON = """\
Five kernels per forward: matmul, matmul, gelu, multiplication, matmul. Of the six operators that a linear layer calls,
one launches a kernel. Compiled, gelu and the multiplication are one Triton kernel, so the result of gelu is not written
to memory and read again; the matmuls keep kernels of the same names. On an A100 the fused pair is 40 % faster and the
whole forward 8 %: most of the time is in the matmuls."""

PARAMS = (
    Param("batch", 64, "sequences per batch", minimum=1, grows_memory=True),
    Param("seq", 128, "tokens per sequence", minimum=1, grows_memory=True),
    Param("dim", 768, "width of the block", minimum=1, grows_memory=True),
    Param("hidden", 3072, "hidden width", minimum=1, grows_memory=True),
)

WORKLOAD = Workload(
    name="mlp",
    summary="a GeGLU feed-forward block: down(gelu(gate(x)) * up(x))",
    prepare="workloads.programs.mlp:prepare",
    params=PARAMS,
    studies="throughput",
    lesson=LESSON,
    expects=(
        Expect(
            "GPU kernels per forward", "kernels_per_forward", 5, "cuda eager", "three matmuls, gelu, multiplication"
        ),
        Expect(
            "GPU kernels per forward",
            "kernels_per_forward",
            4,
            "cuda compile backend=inductor mode=default",
            "gelu and multiplication are one kernel",
        ),
        Expect(
            "a fused kernel with gelu and mul in its name",
            "kernel_named",
            "^triton_(poi|per|red)_fused_.*gelu.*mul",
            "cuda compile backend=inductor",
            "vertical fusion",
        ),
        Expect(
            "a fused kernel with gelu and mul in its name",
            "op_named",
            "fused_.*gelu.*mul",
            "cpu compile backend=inductor",
            "vertical fusion, here in C++",
        ),
        Expect(
            "CPU operators per step",
            "ops_per_step",
            35,
            "cpu eager torch=2.13",
            "ten or eleven for each linear layer, of which one is a matmul",
        ),
        Expect("matmuls per step", "calls_per_step", 3, "any eager", "gate, up, down", of="aten::mm"),
    ),
    see=("https://huggingface.co/blog/torch-mlp-fusion",),
    variants=(
        ("eager", {}),
        ("compile", {"compile": True}),
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

        hidden = functional.gelu(self.gate(x), approximate="tanh") * self.up(x)
        output: torch.Tensor = self.down(hidden)
        return output


def prepare(context: Context, batch: int, seq: int, dim: int, hidden: int) -> Prepared:
    """The block and one batch of inputs."""
    import torch

    from workloads.programs.numeric_check import same_as

    block = Geglu(context, dim, hidden)
    x = torch.randn(batch, seq, dim, device=context.device, dtype=context.dtype)
    compiled = context.compile(block.__call__)

    def step() -> torch.Tensor:
        with torch.no_grad():
            return compiled(x)

    tokens = batch * seq
    return Prepared(
        step,
        label="mlp_fwd",
        flops=6 * tokens * dim * hidden,
        bytes=(2 * tokens * dim + 3 * dim * hidden) * x.element_size(),
        check=same_as(lambda: block(x), step) if context.compiled else None,
        operands=block.operands(x),
    )
