"""A matmul and an addition: the smallest program whose trace shows operators, launches, kernels and idle time.

From part 1 of "Profiling in PyTorch". All three operands are square matrices, also the one that is added.
"""

from __future__ import annotations

from tracetui_workloads.api import MORE, Context, Expect, Prepared, Workload
from tracetui_workloads.programs.common import EAGER_AND_COMPILE, compiled_region, randn, same_as, size_param

LESSON = """\
At size 64 the GPU is busy for microseconds and idle for the rest: a launch takes longer than the kernel (overhead-
bound). At 4096 the same two operators keep it busy (compute-bound); one kernel with one size does not take the same
time in every step, as clocks and power change. Compiled, one operator (addmm) replaces two, but the GPU still runs
two activities: it copies the matrix to be added to the output, to which the matmul then adds. Only the operators are
fused, not the kernels, and the CPU takes more time than before."""

WORKLOAD = Workload(
    name="matmul_add",
    summary="a matmul and an addition",
    prepare="tracetui_workloads.programs.matmul_add:prepare",
    params=(
        size_param("size", 64, "rows and columns of all three matrices"),
        size_param("batch", 0, "matrices in a batch, 0 for no batch", minimum=0),
    ),
    studies="overhead",
    lesson=LESSON,
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


def prepare(context: Context, size: int, batch: int) -> Prepared:
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
