"""Reading results back: `.item()` after every piece of work, once at the end, or not at all.

From GPU puzzler 2. On a GPU every `.item()` waits for what was launched; on the CPU the calls are seen and cost little.
"""

from __future__ import annotations

from tracetui_workloads.api import Context, Contrast, Expect, Param, Prepared, Workload
from tracetui_workloads.programs.common import size_param, variant_of_each

LESSON = """\
.item() copies one number to the CPU and waits until the GPU has computed it. In a loop the GPU runs dry after every
piece: nothing new is launched while the CPU waits. Adding the numbers up on the device and reading the sum once leaves
one wait; keeping it there leaves none. On the CPU nothing waits, and the trace shows only how often the number is read:
aten::item, which calls aten::_local_scalar_dense."""

READS = ("each", "once", "never")

WORKLOAD = Workload(
    name="sync",
    summary="sums of several tensors, read one by one, once, or never",
    prepare="tracetui_workloads.programs.sync:prepare",
    params=(
        Param("read", "each", "when results are read", choices=READS),
        size_param("pieces", 64, "number of tensors"),
        size_param("size", 4096, "elements per tensor"),
    ),
    studies="overhead",
    dtype="fp32",
    lesson=LESSON,
    expects=(
        *(
            Expect(
                "numbers read per step",
                "calls_per_step",
                count,
                f"any eager read={read} pieces=64",
                why,
                of="aten::item",
                asks="How many numbers go to the CPU per step?",
            )
            for read, count, why in (
                ("each", 64, "one for each tensor"),
                ("once", 1, "the sum of all"),
                ("never", 0, "the result stays where it is"),
            )
        ),
        *(
            Expect(
                "waits for the stream per step",
                "matching_calls_per_step",
                count,
                f"cuda eager read={read} pieces=64",
                why,
                of="^(cuda|hip)StreamSynchronize",
            )
            for read, count, why in (
                ("each", 64, "every .item() waits"),
                ("once", 1, "the last .item() waits"),
                ("never", 0, "nobody waits"),
            )
        ),
    ),
    contrasts=(
        Contrast(
            "numbers read one by one, by once",
            "each",
            "once",
            "calls_per_step",
            64,
            "any eager pieces=64",
            "one instead of one for each tensor",
            of="aten::item",
        ),
    ),
    refuses=(("compile", "Every .item() breaks the graph of torch.compile: graph_breaks shows what that costs."),),
    see=("https://gpupuzzlers.com/posts/d2h-sync", "https://docs.pytorch.org/docs/stable/notes/cuda.html"),
    variants=variant_of_each("read", READS),
)


def prepare(context: Context, read: str, pieces: int, size: int) -> Prepared:
    """The tensors, and one of three ways to read their sums."""
    import torch

    tensors = [torch.rand(size, device=context.device, dtype=context.dtype) for _ in range(pieces)]

    def each() -> float:
        return sum(tensor.sum().item() for tensor in tensors)

    def never() -> torch.Tensor:
        total = tensors[0].sum()
        for tensor in tensors[1:]:
            total = total + tensor.sum()
        return total

    def check() -> None:
        expected = each()
        torch.testing.assert_close(float(never()), expected, rtol=1e-3, atol=1e-3)

    steps = {"each": each, "once": lambda: never().item(), "never": never}
    return Prepared(
        steps[read],
        label="read_sums",
        flops=pieces * size,
        bytes=pieces * size * tensors[0].element_size(),
        check=check,
        operands={f"tensor {index}": tensor for index, tensor in enumerate(tensors[:4])},
    )
