"""Pointwise operators in a row, compiled whole, with breaks in the graph between them, or again for every new size."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from tracetui_workloads.api import MORE, Context, Contrast, Expect, Param, Prepared, Workload
from tracetui_workloads.programs.common import compiled_region, kernels, same_as, size_param

LESSON = """\
What torch.compile cannot trace (a print, an .item(), a call of other libraries) ends the graph, and a new one begins
behind it. Every part is a compiled region with guards and wrappers of its own, and nothing fuses across the break: what
would be one kernel becomes one for each part, and its input and output go through memory. Without breaks there is one
region and one fused kernel. torch._dynamo.explain, or TORCH_LOGS=graph_breaks, names the line.

Guards say what compiled code is good for. An input of another size, type or value fails them, and the step compiles
again, for a second instead of a millisecond: behind Torch-Compiled Region stand the number of the function and that of
its compilation, 0/0, 0/1, 0/2. When a size changes torch makes it a variable in the second compilation, which then fits
all (0/1); mark_dynamic does so in the first (0/0). With dynamic=False, or where Python values change, every new one
compiles, and after eight (recompile_limit, raised here) torch gives the function up. TORCH_LOGS=recompiles names the
guard."""

SIZES = ("same", "static", "automatic", "dynamic")
"""The same in every step; or a new one, compiled for it alone, as torch does by default, or for any size at once."""
ROOM = 1 << 18
"""Elements by which sizes that change may grow."""
STRIDE = 64
"""Elements by which one size differs from the next."""
COMPILATION = r"^_compile\.(<locals>\.)?compile_inner"
"""The name of a compilation in a trace, depending on the version."""

WORKLOAD = Workload(
    name="graph_breaks",
    summary="four pointwise operators: eager, compiled whole, with breaks between them, and again for every size",
    prepare="tracetui_workloads.programs.graph_breaks:prepare",
    params=(
        Param("breaks", 0, "breaks in the graph", choices=(0, 1, 2, 3)),
        Param("sizes", "same", "of each step's input, and how it is compiled", choices=SIZES),
        size_param("size", 1 << 20, "elements"),
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
            compiled_region(
                f"any compile breaks={breaks}",
                breaks + 1,
                "one for each part of the graph",
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
            kernels(
                breaks + 1,
                f"cuda inductor mode=default breaks={breaks} sizes={sizes}",
                "nothing fuses across a break",
                asks="How many kernels are left?",
            )
            for breaks in range(4)
            # Not static: what is compiled for the GPU is tried, too, when it is called first.
            for sizes in ("same", "automatic", "dynamic")
        ),
        *(
            Expect(
                "compilations per step",
                "matching_ops_per_step",
                count,
                f"any compile {when} breaks=0 sizes={sizes}",
                why,
                of=COMPILATION,
                asks="Every step has an input of another size: how many of the recorded steps compile?",
            )
            for sizes, when, count, why in (
                ("static", "", 1, "the guards of no earlier compilation let a new size pass"),
                ("automatic", "warm", 0, "the second call made the size a variable"),
                ("dynamic", "warm", 0, "the size was a variable from the first call on"),
            )
        ),
        *(
            Expect(
                "the compiled region and the number of its compilation",
                "ops_in_order",
                f"Torch-Compiled_Region:_{compiled}",
                f"any compile warm breaks=0 sizes={sizes}",
                why,
                of="^Torch-Compiled Region",
            )
            for sizes, compiled, why in (
                ("same", "0/0", "it was compiled once"),
                ("automatic", "0/1", "the first compilation was for one size, the second for all"),
                ("dynamic", "0/0", "it was compiled once"),
            )
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
        Contrast(
            "operators of a step that compiles by those of one that does not",
            "recompile",
            "dynamic",
            "ops_per_step",
            (5, MORE),
            "any compile breaks=0",
            "compiling traces the function, and every pass over it is in the trace",
        ),
    ),
    see=(
        "https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html",
        "https://docs.pytorch.org/docs/stable/torch.compiler_dynamic_shapes.html",
    ),
    variants=(
        ("whole", {"compile": True}),
        ("broken", {"compile": True, "breaks": 3}),
        ("recompile", {"compile": True, "sizes": "static"}),
        ("automatic", {"compile": True, "sizes": "automatic"}),
        ("dynamic", {"compile": True, "sizes": "dynamic"}),
    ),
)


def prepare(context: Context, breaks: int, sizes: str, size: int) -> Prepared:
    """The operators with a break behind each of the first `breaks`, and the input of each step."""
    import torch

    x = torch.rand(size, device=context.device, dtype=context.dtype)
    how = sizes if context.compiled else "automatic"
    inputs = itertools.repeat(x) if sizes == "same" else _growing(x, how)
    program = _program(breaks)

    def eager(value: Any) -> Any:
        return torch.exp(torch.tanh(torch.cos(torch.sin(value))))

    run = context.compile(program) if context.compiled else eager

    def step() -> Any:
        with torch.no_grad():
            return run(next(inputs))

    def check() -> None:
        value = next(inputs)
        same_as(lambda: eager(value), lambda: run(value))()

    return Prepared(
        step,
        label="pointwise",
        flops=4 * size,
        bytes=2 * size * x.element_size(),
        check=check if context.compiled else None,
        operands={"x": x},
    )


def _program(breaks: int) -> Callable[[Any], Any]:
    """The four operators with breaks between them."""
    import torch

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

    return program


def _growing(x: Any, how: str) -> Iterator[Any]:
    """Inputs of which each is longer than the one before, until there is no more room; marked as one of `SIZES`."""
    import torch

    if how == "static":
        # Above these limits torch runs a function eagerly that it has compiled so often.
        config: Any = torch._dynamo.config
        for name in ("recompile_limit", "accumulated_recompile_limit"):
            setattr(config, name, ROOM)
    room = torch.cat((x, x.new_ones(ROOM)))
    for extra in itertools.cycle(range(STRIDE, ROOM + 1, STRIDE)):
        value = room[: len(x) + extra]
        if how != "automatic":
            getattr(torch._dynamo, f"mark_{how}")(value, 0)
        yield value
