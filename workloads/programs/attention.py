"""Scaled dot-product attention written out, in place, and by each of PyTorch's backends.

From part 3 of "Profiling in PyTorch". The mask is built once, outside the step.

On the CPU, torch 2.13 calls 45 operators written out, 36 in place, 81 by the math backend and 19 by flash attention,
the annotations of the step and of the forward not counted. In float32 the math backend takes 63; in bfloat16, matrices
that oneDNN does not take, being tiny or on an old processor, cost the first two 34 more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from workloads.api import BadRequest, Context, Expect, Param, Prepared, Unavailable, Workload

if TYPE_CHECKING:
    import torch

LESSON = """\
Written out, attention is six activities on the GPU, and one of them a copy that nobody asked for: masked_fill is out
of place. In place it is five. SDPA's math backend takes twenty on an A100, in float32, and rebuilds the mask on every
call; the flash, efficient and cuDNN backends take one, and never write the matrix of scores to memory. An occupancy of
13 % is no defect there: each block holds all the registers it can get."""

BACKENDS = {
    "math": "MATH",
    "flash": "FLASH_ATTENTION",
    "efficient": "EFFICIENT_ATTENTION",
    "cudnn": "CUDNN_ATTENTION",
}
"""Names of backends, as a person gives them and as torch has them."""
ON_CPU = ("auto", "math", "flash")
"""Those that torch has for the CPU."""

WORKLOAD = Workload(
    name="attention",
    summary="causal attention: written out, in place, or by a backend of SDPA",
    prepare="workloads.programs.attention:prepare",
    params=(
        Param("impl", "naive", "how it is written", choices=("naive", "inplace", "sdpa")),
        Param("backend", "auto", "of SDPA; needs impl=sdpa", choices=("auto", *BACKENDS)),
        Param("batch", 8, "sequences", minimum=1, grows_memory=True),
        Param("heads", 16, "heads", minimum=1, grows_memory=True),
        Param("seq", 1024, "tokens; memory grows with its square", minimum=1, grows_memory=True),
        Param("head_dim", 64, "width of a head", minimum=1, grows_memory=True),
    ),
    studies="throughput",
    lesson=LESSON,
    expects=(
        Expect(
            "GPU kernels and copies per forward",
            "kernels_per_forward",
            6,
            "cuda eager impl=naive",
            "product, scaling, copy, mask, softmax, product",
        ),
        Expect(
            "GPU kernels and copies per forward",
            "kernels_per_forward",
            5,
            "cuda eager impl=inplace",
            "the copy was masked_fill's",
        ),
        Expect(
            "GPU kernels and copies per forward",
            "kernels_per_forward",
            (15, 100),
            "cuda eager impl=sdpa backend=math",
            "float32, and a mask that is built anew",
        ),
        Expect("GPU kernels per forward", "kernels_per_forward", 1, "cuda eager impl=sdpa backend=flash", "all in one"),
        Expect(
            "GPU kernels per forward", "kernels_per_forward", 1, "cuda eager impl=sdpa backend=efficient", "all in one"
        ),
        Expect("GPU kernels per forward", "kernels_per_forward", 1, "cuda eager impl=sdpa backend=cudnn", "all in one"),
        Expect(
            "clones per step",
            "calls_per_step",
            1,
            "any eager impl=naive",
            "masked_fill is out of place",
            of="aten::clone",
        ),
        Expect(
            "clones per step",
            "calls_per_step",
            0,
            "any eager impl=inplace",
            "masked_fill_ is in place",
            of="aten::clone",
        ),
        *(
            Expect("CPU operators per step", "ops_per_step", want, f"cpu eager torch=2.13 {when}", why)
            for when, want, why in (
                ("impl=naive", (45, 79), "two of them multiply; 34 more where oneDNN does not take bfloat16"),
                ("impl=inplace", (36, 70), "nine fewer: masked_fill expands and copies"),
                ("impl=sdpa backend=flash", 19, "one of them computes"),
            )
        ),
        Expect(
            "an operator of flash attention",
            "op_named",
            "flash_attention",
            "any eager impl=sdpa backend=flash",
            "the backend that was asked for",
        ),
        Expect(
            "an operator of the math backend",
            "op_named",
            "attention_math",
            "any eager impl=sdpa backend=math",
            "the backend that was asked for",
        ),
    ),
    see=("https://huggingface.co/blog/torch-attention-profile",),
    variants=(
        ("naive", {"impl": "naive"}),
        ("inplace", {"impl": "inplace"}),
        ("sdpa", {"impl": "sdpa"}),
        *((backend, {"impl": "sdpa", "backend": backend}) for backend in BACKENDS),
    ),
)


class Attention:
    """Random queries, keys and values, the mask, and three ways to attend."""

    def __init__(self, context: Context, shape: tuple[int, int, int, int]) -> None:
        import torch

        # Shape: (batch, heads, seq, head_dim)
        self.q, self.k, self.v = (torch.randn(shape, device=context.device, dtype=context.dtype) for _ in range(3))
        seq = shape[2]
        self.mask = torch.triu(torch.ones(seq, seq, dtype=torch.bool, device=context.device), 1)
        self.scale = shape[3] ** -0.5

    def naive(self) -> torch.Tensor:
        """As the formula has it."""
        import torch

        scores = torch.matmul(self.q, self.k.transpose(-2, -1)) * self.scale
        scores = scores.masked_fill(self.mask, float("-inf"))
        return torch.matmul(torch.softmax(scores, dim=-1), self.v)

    def inplace(self) -> torch.Tensor:
        """The same with the mask applied in place."""
        import torch

        scores = torch.matmul(self.q, self.k.transpose(-2, -1)) * self.scale
        scores.masked_fill_(self.mask, float("-inf"))
        return torch.matmul(torch.softmax(scores, dim=-1), self.v)

    def sdpa(self) -> torch.Tensor:
        """PyTorch's own."""
        from torch.nn import functional

        return functional.scaled_dot_product_attention(self.q, self.k, self.v, is_causal=True)


def prepare(context: Context, impl: str, backend: str, batch: int, heads: int, seq: int, head_dim: int) -> Prepared:
    """Attention in one of its ways, checked against the formula."""
    import torch

    from workloads.programs.numeric_check import same_as

    require_backend(context, impl, backend)
    attention = Attention(context, (batch, heads, seq, head_dim))
    ways: dict[str, Callable[[], torch.Tensor]] = {
        "naive": attention.naive,
        "inplace": attention.inplace,
        "sdpa": attention.sdpa,
    }
    attend = restricted_to(backend, context.compile(ways[impl]))

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


def require_backend(context: Context, impl: str, backend: str) -> None:
    """Refuse what cannot be.

    Raises: BadRequest for a backend without SDPA, Unavailable for one that the CPU lacks.
    """
    if impl != "sdpa" and backend != "auto":
        raise BadRequest(f"The backend {backend} is one of SDPA's; add -p impl=sdpa.")
    if context.device == "cpu" and backend not in ON_CPU:
        raise Unavailable(f"SDPA has no {backend} backend on the CPU; there are {' and '.join(ON_CPU[1:])}.")


def restricted_to(backend: str, attend: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
    """The function with SDPA's choice narrowed to one backend."""
    if backend == "auto":
        return attend
    from torch.nn.attention import SDPBackend, sdpa_kernel

    chosen = getattr(SDPBackend, BACKENDS[backend])

    def restricted() -> torch.Tensor:
        with sdpa_kernel(chosen):
            return attend()

    return restricted
