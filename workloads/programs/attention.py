"""Scaled dot-product attention: as separate operators, with an in-place mask, and with each backend of SDPA.

From part 3 of "Profiling in PyTorch". The mask is created once, outside the step.

On the CPU, torch 2.13 calls 45 operators for the separate operators, 36 with the in-place mask, 81 with the math
backend (63 in float32) and 19 with flash attention; the annotations of the step and of the forward are not counted. In
bfloat16, matrices that oneDNN does not support (tiny ones, or on an old processor) add 34 to the first two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from workloads.api import BadRequest, Context, Expect, Param, Prepared, Unavailable, Workload

if TYPE_CHECKING:
    import torch

LESSON = """\
As separate operators, attention is six GPU activities, and one of them is an unnecessary copy, because masked_fill is
out of place. With masked_fill_ there are five. SDPA's math backend runs twenty on an A100, in float32, and creates the
mask again in every call; the flash, efficient and cuDNN backends run one kernel, and never write the matrix of scores
to memory. Their occupancy of 13 % is not a defect: each block uses as many registers as it can."""

BACKENDS = {
    "math": "MATH",
    "flash": "FLASH_ATTENTION",
    "efficient": "EFFICIENT_ATTENTION",
    "cudnn": "CUDNN_ATTENTION",
}
"""Names of backends: as a parameter, and in torch."""
CPU_BACKENDS = ("auto", "math", "flash")
"""Backends that torch has for the CPU."""

WORKLOAD = Workload(
    name="attention",
    summary="causal attention: separate operators, in place, or a backend of SDPA",
    prepare="workloads.programs.attention:prepare",
    params=(
        Param("impl", "naive", "implementation", choices=("naive", "inplace", "sdpa")),
        Param("backend", "auto", "backend of SDPA; needs impl=sdpa", choices=("auto", *BACKENDS)),
        Param("batch", 8, "sequences per batch", minimum=1, grows_memory=True),
        Param("heads", 16, "number of heads", minimum=1, grows_memory=True),
        Param("seq", 1024, "tokens; memory grows quadratically", minimum=1, grows_memory=True),
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
            "matmul, scaling, copy, mask, softmax, matmul",
        ),
        Expect(
            "GPU kernels and copies per forward",
            "kernels_per_forward",
            5,
            "cuda eager impl=inplace",
            "masked_fill_ makes no copy",
        ),
        Expect(
            "GPU kernels and copies per forward",
            "kernels_per_forward",
            (15, 100),
            "cuda eager impl=sdpa backend=math",
            "it computes in float32 and creates the mask in every call",
        ),
        *(
            Expect(
                "GPU kernels per forward",
                "kernels_per_forward",
                1,
                f"cuda eager impl=sdpa backend={backend}",
                "one kernel computes everything",
            )
            for backend in ("flash", "efficient", "cudnn")
        ),
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
                ("impl=naive", (45, 79), "two of them are matmuls; 34 more where oneDNN does not support bfloat16"),
                ("impl=inplace", (36, 70), "nine fewer, because masked_fill expands and copies"),
                ("impl=sdpa backend=flash", 19, "one of them computes the attention"),
            )
        ),
        Expect(
            "an operator of flash attention",
            "op_named",
            "flash_attention",
            "any eager impl=sdpa backend=flash",
            "the chosen backend",
        ),
        Expect(
            "an operator of the math backend",
            "op_named",
            "attention_math",
            "any eager impl=sdpa backend=math",
            "the chosen backend",
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
    """Random queries, keys and values, the mask, and three implementations of attention."""

    def __init__(self, context: Context, shape: tuple[int, int, int, int]) -> None:
        import torch

        # Shape: (batch, heads, seq, head_dim)
        self.q, self.k, self.v = (torch.randn(shape, device=context.device, dtype=context.dtype) for _ in range(3))
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


def prepare(context: Context, impl: str, backend: str, batch: int, heads: int, seq: int, head_dim: int) -> Prepared:
    """Attention in one implementation, checked against the one with separate operators."""
    import torch

    from workloads.programs.numeric_check import same_as

    require_backend(context, impl, backend)
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


def require_backend(context: Context, impl: str, backend: str) -> None:
    """Check that the backend fits the implementation and the device.

    Raises: BadRequest for a backend without SDPA, Unavailable for one that does not exist on the CPU.
    """
    if impl != "sdpa" and backend != "auto":
        raise BadRequest(f"{backend} is a backend of SDPA; add -p impl=sdpa.")
    if context.device == "cpu" and backend not in CPU_BACKENDS:
        raise Unavailable(f"SDPA has no {backend} backend on the CPU; there are {' and '.join(CPU_BACKENDS[1:])}.")


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
