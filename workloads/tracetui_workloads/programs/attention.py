"""Attention, and one token through a small transformer with a key-value cache.

`attention` is from part 3 of "Profiling in PyTorch". The mask is created once, outside the step. On the CPU, torch 2.13
calls 45 operators for the separate operators, 36 with the in-place mask, 81 with the math backend (63 in float32) and
19 with flash attention; the annotations of the step and of the forward are not counted. In bfloat16, matrices that
oneDNN does not support (tiny ones, or on an old processor) add 34 to the first two.

`decode` is the work of a GPU for microseconds, and many launches. The position in the cache stays the same, so that
every step does the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tracetui_workloads.api import BadRequest, Context, Contrast, Expect, Param, Prepared, Workload
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

if TYPE_CHECKING:
    import torch

ATTENTION_LESSON = """\
As separate operators, attention is six GPU activities, and one of them is an unnecessary copy, because masked_fill is
out of place. With masked_fill_ there are five. SDPA's math backend runs twenty on an A100, in float32, and creates the
mask again in every call; the flash, efficient and cuDNN backends run one kernel, and never write the matrix of scores
to memory. Their occupancy of 13 % is not a defect: each block uses as many registers as it can. Compiled, scaling, mask
and softmax of either program are one kernel, so that out of place or in place makes no difference."""

BACKENDS = {
    "math": "MATH",
    "flash": "FLASH_ATTENTION",
    "efficient": "EFFICIENT_ATTENTION",
    "cudnn": "CUDNN_ATTENTION",
}
"""Names of backends: as a parameter, and in torch."""
CPU_BACKENDS = ("auto", "math", "flash")
"""Backends that torch has for the CPU."""

SEPARATE = ("naive", "inplace")
"""Implementations as separate operators; compiled, both are the same code."""
COMPILED = (
    *(
        Expect(
            "matmuls and fused kernels, in order",
            "ops_in_order",
            r"bmm \S*fused\S*softmax\S* bmm",
            f"cpu inductor impl={impl}",
            "scaling, mask and softmax are one kernel in C++; the matmuls stay what they are",
            of="^aten::bmm$|_fused_",
            asks="Compiled, what fuses?",
        )
        for impl in SEPARATE
    ),
    *(
        Expect(
            "a fused kernel with softmax in its name",
            "kernel_named",
            "fused_.*softmax",
            f"cuda inductor impl={impl}",
            "scaling, mask and softmax are one kernel",
            asks="Compiled, what fuses?",
        )
        for impl in SEPARATE
    ),
    *(
        Expect(
            "clones per step",
            "calls_per_step",
            0,
            f"any inductor impl={impl}",
            "out of place or in place, the compiler makes the same code of it",
            of="aten::clone",
            asks="Compiled, does masked_fill still cost a copy?",
        )
        for impl in SEPARATE
    ),
)
"""Expectations of the compiled program."""

ATTENTION = Workload(
    name="attention",
    summary="causal attention: separate operators, in place, or a backend of SDPA",
    prepare="tracetui_workloads.programs.attention:prepare_attention",
    params=(
        Param("impl", "naive", "implementation", choices=(*SEPARATE, "sdpa")),
        Param("backend", "auto", "backend of SDPA; needs impl=sdpa", choices=("auto", *BACKENDS)),
        size_param("batch", 8, "sequences per batch"),
        size_param("heads", 16, "number of heads"),
        size_param("seq", 1024, "tokens; memory grows quadratically"),
        size_param("head_dim", 64, "width of a head"),
    ),
    studies="throughput",
    lesson=ATTENTION_LESSON,
    expects=(
        Expect(
            "GPU kernels and copies per forward",
            "kernels_per_forward",
            6,
            "cuda eager impl=naive",
            "matmul, scaling, copy, mask, softmax, matmul",
            asks="How many kernels and copies does the GPU run, and which is unnecessary?",
        ),
        Expect(
            "operators that launched kernels, in order",
            "kernels_in_order",
            "bmm mul (copy_|clone) masked_fill_ _softmax bmm",
            "cuda eager impl=naive",
            "masked_fill copies, then fills the copy in place",
        ),
        Expect(
            "GPU kernels and copies per forward",
            "kernels_per_forward",
            5,
            "cuda eager impl=inplace",
            "masked_fill_ makes no copy",
            asks="How many kernels and copies does the GPU run?",
        ),
        Expect(
            "operators that launched kernels, in order",
            "kernels_in_order",
            "bmm mul masked_fill_ _softmax bmm",
            "cuda eager impl=inplace",
            "nothing is copied",
        ),
        Expect(
            "GPU kernels and copies per forward",
            "kernels_per_forward",
            (15, 100),
            "cuda eager impl=sdpa backend=math",
            "it computes in float32 and creates the mask in every call",
        ),
        *(
            kernels(1, f"cuda eager impl=sdpa backend={backend}", "one kernel computes everything")
            for backend in ("flash", "efficient", "cudnn")
        ),
        Expect(
            "operators that compute, in order",
            "ops_in_order",
            "bmm mul clone masked_fill_ _softmax bmm",
            "any eager impl=naive",
            "masked_fill is out of place: it clones, then fills the clone",
            of="^aten::(bmm|mul|clone|masked_fill_|_softmax)$",
            asks="Which operators compute, and which of them is unnecessary?",
        ),
        Expect(
            "operators that compute, in order",
            "ops_in_order",
            "bmm mul masked_fill_ _softmax bmm",
            "any eager impl=inplace",
            "masked_fill_ is in place: nothing is cloned",
            of="^aten::(bmm|mul|clone|masked_fill_|_softmax)$",
            asks="Which operators compute, and in which order?",
        ),
        *(
            Expect("CPU operators per step", "ops_per_step", want, f"cpu eager torch=2.13 {when}", why)
            for when, want, why in (
                ("impl=naive", (45, 79), "two of them are matmuls; 34 more where oneDNN does not support bfloat16"),
                ("impl=inplace", (36, 70), "nine fewer, because masked_fill expands and copies"),
                ("impl=sdpa backend=flash", 19, "one of them computes the attention"),
                ("impl=sdpa backend=math", (63, 115), "it creates the mask in every call, and converts to float32"),
            )
        ),
        *(
            Expect(
                "an operator of flash attention",
                "op_named",
                "flash_attention",
                when,
                why,
                asks="Which operator computes the attention?",
            )
            for when, why in (
                ("any impl=sdpa backend=flash", "the chosen backend"),
                ("cpu impl=sdpa backend=auto", "PyTorch chooses flash attention on the CPU"),
            )
        ),
        Expect(
            "an operator of a backend with one kernel",
            "op_named",
            "_(flash|efficient|cudnn)_attention",
            "cuda eager impl=sdpa backend=auto",
            "PyTorch chooses one of them, and none of them writes the scores to memory",
            asks="Which backend does PyTorch choose?",
        ),
        *(
            Expect(
                f"an operator of the {name} backend",
                "op_named",
                pattern,
                f"{when} backend={name}",
                "the chosen backend",
                asks="Which operator computes the attention?",
            )
            for name, pattern, when in (
                ("math", "attention_math", "any eager impl=sdpa"),
                ("efficient", "efficient_attention", "cuda eager impl=sdpa"),
                ("cudnn", "cudnn_attention", "cuda eager impl=sdpa"),
            )
        ),
        Expect(
            "matmuls per step outside of the attention operator",
            "matching_ops_per_step",
            0,
            "any eager impl=sdpa backend=flash",
            "one operator computes everything, and never writes the matrix of scores",
            of="^aten::(bmm|mm|baddbmm)$",
            asks="How many matmuls does the trace show?",
        ),
        compiled_region(),
        *COMPILED,
    ),
    contrasts=(
        Contrast(
            "kernels and copies of naive by those of inplace",
            "naive",
            "inplace",
            "kernels_per_forward",
            (1.1, 1.3),
            "cuda eager",
            "six by five: the copy is gone",
        ),
        Contrast(
            "operators of naive by those of inplace",
            "naive",
            "inplace",
            "ops_per_step",
            (1.1, 1.3),
            "cpu eager torch=2.13",
            "masked_fill expands and copies",
        ),
        Contrast(
            "operators of math by those of flash",
            "math",
            "flash",
            "ops_per_step",
            (3, 7),
            "cpu eager torch=2.13",
            "one operator in the place of all",
        ),
    ),
    refuses=tuple(
        (f"cpu impl=sdpa backend={backend}", f"SDPA has no {backend} backend on the CPU; there are math and flash.")
        for backend in BACKENDS
        if backend not in CPU_BACKENDS
    ),
    see=("https://huggingface.co/blog/torch-attention-profile",),
    variants=(
        *variant_of_each("impl", (*SEPARATE, "sdpa")),
        *((backend, {"impl": "sdpa", "backend": backend}) for backend in BACKENDS),
    ),
)


class Attention:
    """Random queries, keys and values, the mask, and three implementations of attention."""

    def __init__(self, context: Context, shape: tuple[int, int, int, int]) -> None:
        import torch

        # Shape: (batch, heads, seq, head_dim)
        self.q, self.k, self.v = (randn(context, *shape) for _ in range(3))
        seq = shape[2]
        self.mask = torch.triu(torch.ones(seq, seq, dtype=torch.bool, device=context.device), 1)
        self.scale = shape[3] ** -0.5

    def naive(self) -> torch.Tensor:
        """Attention as separate operators, one per operation of the formula."""
        import torch

        scores = torch.matmul(self.q, self.k.transpose(-2, -1)) * self.scale
        scores = scores.masked_fill(self.mask, float("-inf"))
        return torch.matmul(torch.softmax(scores, dim=-1), self.v)

    def inplace(self) -> torch.Tensor:
        """Attention as separate operators, with the mask applied in place."""
        import torch

        scores = torch.matmul(self.q, self.k.transpose(-2, -1)) * self.scale
        scores.masked_fill_(self.mask, float("-inf"))
        return torch.matmul(torch.softmax(scores, dim=-1), self.v)

    def sdpa(self) -> torch.Tensor:
        """PyTorch's `scaled_dot_product_attention`."""
        from torch.nn import functional

        return functional.scaled_dot_product_attention(self.q, self.k, self.v, is_causal=True)


def prepare_attention(
    context: Context, impl: str, backend: str, batch: int, heads: int, seq: int, head_dim: int
) -> Prepared:
    """Attention in one implementation, checked against the one with separate operators.

    Raises: BadRequest for a backend without SDPA.
    """
    import torch

    if impl != "sdpa" and backend != "auto":
        raise BadRequest(f"{backend} is a backend of SDPA; add -p impl=sdpa.")
    attention = Attention(context, (batch, heads, seq, head_dim))
    implementations: dict[str, Callable[[], torch.Tensor]] = {
        "naive": attention.naive,
        "inplace": attention.inplace,
        "sdpa": attention.sdpa,
    }
    attend = restricted_to(backend, context.compile(implementations[impl]))

    def step() -> torch.Tensor:
        with torch.no_grad():
            return attend()

    elements = batch * heads * seq * head_dim
    return Prepared(
        step,
        label="sdpa_fwd" if impl == "sdpa" else "attn_fwd",
        flops=4 * elements * seq / 2,
        bytes=4 * elements * attention.q.element_size(),
        check=same_as(attention.naive, step) if impl != "naive" or context.compiled else None,
        operands={"q": attention.q, "k": attention.k, "v": attention.v, "mask": attention.mask},
    )


def restricted_to(backend: str, attend: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
    """The function with SDPA restricted to one backend."""
    if backend == "auto":
        return attend
    from torch.nn.attention import SDPBackend, sdpa_kernel

    chosen = getattr(SDPBackend, BACKENDS[backend])

    def restricted() -> torch.Tensor:
        with sdpa_kernel(chosen):
            return attend()

    return restricted


DECODE_LESSON = """\
Decoding one token multiplies every weight with a single row: the weights are read once and hardly computed with, so
that the GPU is done in microseconds while the CPU still calls operators for the next layers. Eager, the step is as long
as its operators and launches take. Compiled, pointwise operators fuse and most of the calls are gone; with a CUDA graph
(mode reduce-overhead) one launch replays all kernels. The cache is written in place: one position per layer, no copy of
the rest."""

LINEARS_PER_LAYER = 6
"""Queries, keys, values, output, and the two of the feed-forward block."""

DECODE = Workload(
    name="decode",
    summary="one token through a transformer with a key-value cache",
    prepare="tracetui_workloads.programs.attention:prepare_decode",
    params=(
        size_param("layers", 4, "number of layers"),
        Param("heads", 8, "heads of the attention; they divide dim", minimum=1),
        size_param("dim", 512, "width of the model"),
        size_param("cached", 256, "tokens in the cache"),
    ),
    studies="overhead",
    lesson=DECODE_LESSON,
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


def prepare_decode(context: Context, layers: int, heads: int, dim: int, cached: int) -> Prepared:
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
