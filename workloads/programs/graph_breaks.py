"""Pointwise operators in a row, compiled whole, or with breaks in the graph between them."""

from __future__ import annotations

from workloads.api import Context, Contrast, Expect, Param, Prepared, Workload

LESSON = """\
What torch.compile cannot trace (a print, an .item(), a call of other libraries) ends the graph, and a new one begins
behind it. Every part is a compiled region with guards and wrappers of its own, and nothing fuses across the break: what
would be one kernel becomes one for each part, and its input and output go through memory. Without breaks there is one
region and one fused kernel. torch._dynamo.explain, or TORCH_LOGS=graph_breaks, names the line."""

WORKLOAD = Workload(
    name="graph_breaks",
    summary="four pointwise operators: eager, compiled whole, and compiled with breaks between them",
    prepare="workloads.programs.graph_breaks:prepare",
    params=(
        Param("breaks", 0, "breaks in the graph", choices=(0, 1, 2, 3)),
        Param("size", 1 << 20, "elements", minimum=1, grows_memory=True),
    ),
    studies="overhead",
    dtype="fp32",
    lesson=LESSON,
    expects=(
        Expect(
            "operators that compute, in order",
            "ops_in_order",
            "sin cos tanh exp",
            "any eager",
            "each reads its input from memory and writes its result there",
            of="^aten::(sin|cos|tanh|exp)$",
            asks="How many times does the data go through memory?",
        ),
        *(
            Expect(
                "calls of compiled code per step",
                "matching_ops_per_step",
                breaks + 1,
                f"any compile breaks={breaks}",
                "one for each part of the graph",
                of="^Torch-Compiled Region",
                asks="How many compiled regions are there?",
            )
            for breaks in range(4)
        ),
        *(
            Expect(
                "fused kernels and single ones per step",
                "matching_ops_per_step",
                breaks + 1,
                f"cpu inductor breaks={breaks}",
                "nothing fuses across a break",
                of="^graph_\\d+_cpp_fused_",
                asks="How many kernels are left?",
            )
            for breaks in range(4)
        ),
        *(
            Expect(
                "GPU kernels per forward",
                "kernels_per_forward",
                breaks + 1,
                f"cuda inductor mode=default breaks={breaks}",
                "nothing fuses across a break",
                asks="How many kernels are left?",
            )
            for breaks in range(4)
        ),
    ),
    contrasts=(
        Contrast(
            "compiled regions with breaks by those without",
            "broken",
            "whole",
            "matching_ops_per_step",
            4,
            "any compile",
            "three breaks make four parts",
            of="^Torch-Compiled Region",
        ),
    ),
    see=("https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html",),
    variants=(("whole", {"compile": True}), ("broken", {"compile": True, "breaks": 3})),
)


def prepare(context: Context, breaks: int, size: int) -> Prepared:
    """The operators with a break behind each of the first `breaks`."""
    import torch

    from workloads.programs.numeric_check import same_as

    x = torch.rand(size, device=context.device, dtype=context.dtype)

    # Not a loop: for a break inside of one, torch gives the whole function up.
    def program(value: torch.Tensor) -> torch.Tensor:
        value = torch.sin(value)
        if breaks > 0:
            torch._dynamo.graph_break()
        value = torch.cos(value)
        if breaks > 1:
            torch._dynamo.graph_break()
        value = torch.tanh(value)
        if breaks > 2:
            torch._dynamo.graph_break()
        return torch.exp(value)

    def eager() -> torch.Tensor:
        return torch.exp(torch.tanh(torch.cos(torch.sin(x))))

    compiled = context.compile(program) if context.compiled else None

    def step() -> torch.Tensor:
        with torch.no_grad():
            return eager() if compiled is None else compiled(x)

    return Prepared(
        step,
        label="pointwise",
        flops=4 * size,
        bytes=2 * size * x.element_size(),
        check=same_as(eager, step) if context.compiled else None,
        operands={"x": x},
    )
