"""Copies to the GPU: from pageable and from pinned memory, and on a stream of their own beside the computation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracetui_workloads.api import MORE, Context, Contrast, Expect, Param, Prepared, Workload
from tracetui_workloads.programs.common import randn, size_param, variant_of_each

LESSON = """\
A copy from pageable memory goes through a buffer of the driver, and the CPU waits for it. From pinned memory the GPU
fetches the data itself, at the full rate of the link, and with non_blocking=True the call returns at once; the copy
still stands in the same stream, so that the kernels behind it wait. Only on a second stream does the next piece travel
while the present one is computed: the trace shows the copies on a lane of their own, above kernels. An event per piece
makes the computation wait for its data; record_stream keeps the memory until it has been read."""

METHODS = ("pageable", "pinned", "overlapped")

WORKLOAD = Workload(
    name="copies",
    summary="pieces copied to the GPU and multiplied: pageable, pinned, and overlapped on two streams",
    prepare="tracetui_workloads.programs.copies:prepare",
    params=(
        Param("how", "pageable", "how pieces are copied", choices=METHODS),
        size_param("pieces", 8, "number of pieces"),
        size_param("size", 2048, "rows and columns of each"),
    ),
    needs=("gpu",),
    studies="throughput",
    lesson=LESSON,
    expects=(
        Expect(
            "copies and matmuls per step",
            "kernels_per_forward",
            (16, 24),
            "cuda eager pieces=8",
            "a copy and a matmul for each piece",
            asks="How many copies and kernels does a step launch?",
        ),
        Expect(
            "matmuls per step",
            "calls_per_step",
            8,
            "any eager pieces=8",
            "one for each piece",
            of="aten::mm",
        ),
        *(
            Expect(
                "waits of one stream for another per step",
                "matching_calls_per_step",
                count,
                f"cuda eager how={how} pieces=8",
                why,
                of="^(cuda|hip)StreamWaitEvent",
            )
            for how, count, why in (
                ("pageable", 0, "all in one stream"),
                ("pinned", 0, "all in one stream"),
                ("overlapped", (8, 32), "every matmul waits for its copy"),
            )
        ),
    ),
    contrasts=(
        Contrast(
            "span of pinned copies by that of overlapped ones",
            "pinned",
            "overlapped",
            "span_us",
            (1.05, MORE),
            "cuda eager",
            "copies run beside matmuls",
        ),
    ),
    refuses=(
        ("cpu", "There is nothing to copy to: a GPU is needed."),
        ("compile", "Copies from the CPU are not compiled: record it without --compile."),
    ),
    see=("https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html",),
    variants=variant_of_each("how", METHODS),
)


def prepare(context: Context, how: str, pieces: int, size: int) -> Prepared:
    """Pieces in the memory of the CPU, and a matrix on the GPU with which each is multiplied."""
    import torch

    host = [torch.randn(size, size, dtype=context.dtype) for _ in range(pieces)]
    if how != "pageable":
        host = [piece.pin_memory() for piece in host]
    weight = randn(context, size, size)

    def in_order() -> list[Any]:
        return [piece.to(weight.device, non_blocking=how == "pinned") @ weight for piece in host]

    step = _overlapped(host, weight) if how == "overlapped" else in_order

    def check() -> None:
        for product, piece in zip(step(), host, strict=True):
            torch.testing.assert_close(product, piece.to(weight.device) @ weight)

    return Prepared(
        step,
        label="copy_and_multiply",
        flops=2 * pieces * size**3,
        check=check,
        operands={"weight": weight, "first": host[0]},
    )


def _overlapped(host: list[Any], weight: Any) -> Callable[[], list[Any]]:
    """Copy pieces on a second stream while those before them are multiplied."""
    import torch

    cuda: Any = torch.cuda
    copying = cuda.Stream(weight.device)

    def step() -> list[Any]:
        computing = torch.cuda.current_stream(weight.device)
        copies = []
        with torch.cuda.stream(copying):
            for piece in host:
                copy = piece.to(weight.device, non_blocking=True)
                copies.append((copy, copying.record_event()))
        products = []
        for copy, arrived in copies:
            computing.wait_event(arrived)
            copy.record_stream(computing)
            products.append(copy @ weight)
        return products

    return step
