"""One token through a small transformer with a key-value cache: the work of a GPU for microseconds, and many launches.

The position in the cache stays the same, so that every step does the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tracetui_workloads.api import BadRequest, Context, Contrast, Expect, Param, Prepared, Workload
from tracetui_workloads.programs.common import EAGER_AND_COMPILE, compiled_region, forward_pass, randn, size_param

if TYPE_CHECKING:
    import torch

LESSON = """\
Decoding one token multiplies every weight with a single row: the weights are read once and hardly computed with, so
that the GPU is done in microseconds while the CPU still calls operators for the next layers. Eager, the step is as long
as its operators and launches take. Compiled, pointwise operators fuse and most of the calls are gone; with a CUDA graph
(mode reduce-overhead) one launch replays all kernels. The cache is written in place: one position per layer, no copy of
the rest."""

LINEARS_PER_LAYER = 6
"""Queries, keys, values, output, and the two of the feed-forward block."""

WORKLOAD = Workload(
    name="decode",
    summary="one token through a transformer with a key-value cache",
    prepare="tracetui_workloads.programs.decode:prepare",
    params=(
        size_param("layers", 4, "number of layers"),
        Param("heads", 8, "heads of the attention; they divide dim", minimum=1),
        size_param("dim", 512, "width of the model"),
        size_param("cached", 256, "tokens in the cache"),
    ),
    studies="overhead",
    lesson=LESSON,
    expects=(
        Expect(
            "linear layers per step",
            "calls_per_step",
            4 * LINEARS_PER_LAYER,
            "any eager layers=4",
            "queries, keys, values and output, and two of the feed-forward block, in each layer",
            of="aten::linear",
            asks="How many linear layers does one token pass in a transformer of four layers?",
        ),
        Expect(
            "attentions per step",
            "calls_per_step",
            4,
            "any eager layers=4",
            "one for each layer, over the whole cache",
            of="aten::scaled_dot_product_attention",
        ),
        Expect(
            "concatenations per step",
            "calls_per_step",
            0,
            "any eager",
            "keys and values are written into the cache in place",
            of="aten::cat",
            asks="Is the cache copied to append a token?",
        ),
        Expect(
            "linear layers, gelu and additions per step",
            "matching_ops_per_step",
            0,
            "any compile backend=inductor",
            "matmuls are called directly, and the rest is fused",
            of="^aten::(linear|gelu|add)$",
            asks="Compiled, which operators are gone?",
        ),
        compiled_region(),
        Expect(
            "launches of a graph per step",
            "matching_calls_per_step",
            1,
            "cuda compile mode=reduce-overhead",
            "one launch replays every kernel",
            of="GraphLaunch",
            asks="How many launches are left with a CUDA graph?",
        ),
    ),
    contrasts=(
        Contrast(
            "operators of eager by those of compile",
            "eager",
            "compile",
            "ops_per_step",
            (1.5, 20),
            "cpu",
            "what only changes shapes is gone, and what is pointwise is fused",
        ),
    ),
    see=("https://docs.pytorch.org/docs/stable/torch.compiler_cudagraph_trees.html",),
    variants=(
        *EAGER_AND_COMPILE,
        ("graph", {"compile": True, "mode": "reduce-overhead"}),
    ),
)


def prepare(context: Context, layers: int, heads: int, dim: int, cached: int) -> Prepared:
    """The model with a full cache, and one token.

    Raises: BadRequest where the heads do not divide the width.
    """
    import torch

    if dim % heads:
        raise BadRequest(f"heads must divide dim, and {heads} does not divide {dim}.")
    model = torch.nn.Sequential(*(block(context, heads, dim, cached) for _ in range(layers)))
    token = randn(context, 1, 1, dim)
    weights = 12 * layers * dim * dim
    return forward_pass(
        context,
        model,
        token,
        label="decode_token",
        flops=2 * weights + 4 * layers * cached * dim,
        bytes=(weights + 2 * layers * cached * dim) * token.element_size(),
        operands={"model": model, "token": token},
    )


def block(context: Context, heads: int, dim: int, cached: int) -> torch.nn.Module:
    """One layer with its cache."""
    from torch import nn
    from torch.nn import functional

    def linear(inputs: int, outputs: int) -> nn.Linear:
        return nn.Linear(inputs, outputs, bias=False, device=context.device, dtype=context.dtype)

    class Block(nn.Module):
        """Attention over the cache, then a feed-forward block, each added to its input."""

        keys: torch.Tensor
        values: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.query, self.key, self.value, self.output = (linear(dim, dim) for _ in range(4))
            self.up, self.down = linear(dim, 4 * dim), linear(4 * dim, dim)
            shape = (1, heads, cached, dim // heads)
            for name in ("keys", "values"):
                self.register_buffer(name, randn(context, *shape))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            """Shapes: input and output are (1, 1, dim)."""

            def split(projected: torch.Tensor) -> torch.Tensor:
                return projected.view(1, 1, heads, dim // heads).transpose(1, 2)

            self.keys[:, :, -1:] = split(self.key(x))
            self.values[:, :, -1:] = split(self.value(x))
            attended: Any = functional.scaled_dot_product_attention(split(self.query(x)), self.keys, self.values)
            x = x + self.output(attended.transpose(1, 2).reshape(1, 1, dim))
            result: torch.Tensor = x + self.down(functional.gelu(self.up(x)))
            return result

    return Block().eval()
