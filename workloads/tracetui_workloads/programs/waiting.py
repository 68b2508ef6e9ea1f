"""Programs whose steps wait: for results that are read back, copies to the GPU, and batches of a DataLoader.

`sync` calls `.item()` after every piece of work, once at the end, or not at all, as in GPU puzzler 2: on a GPU every
call waits for what was launched; on the CPU the calls are seen and cost little. `copies` takes pageable and pinned
memory, and a stream of its own beside the computation. `dataloader` reads batches in the step, or by workers before it.
"""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from tracetui_workloads.api import MORE, Context, Contrast, Expect, Param, Prepared, Workload
from tracetui_workloads.programs.common import randn, size_param, variant_of_each

SYNC_LESSON = """\
.item() copies one number to the CPU and waits until the GPU has computed it. In a loop the GPU runs dry after every
piece: nothing new is launched while the CPU waits. Adding the numbers up on the device and reading the sum once leaves
one wait; keeping it there leaves none. On the CPU nothing waits, and the trace shows only how often the number is read:
aten::item, which calls aten::_local_scalar_dense."""

READS = ("each", "once", "never")

SYNC = Workload(
    name="sync",
    summary="sums of several tensors, read one by one, once, or never",
    prepare="tracetui_workloads.programs.waiting:prepare_sync",
    params=(
        Param("read", "each", "when results are read", choices=READS),
        size_param("pieces", 64, "number of tensors"),
        size_param("size", 4096, "elements per tensor"),
    ),
    studies="overhead",
    dtype="fp32",
    lesson=SYNC_LESSON,
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


def prepare_sync(context: Context, read: str, pieces: int, size: int) -> Prepared:
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


COPIES_LESSON = """\
A copy from pageable memory goes through a buffer of the driver, and the CPU waits for it. From pinned memory the GPU
fetches the data itself, at the full rate of the link, and with non_blocking=True the call returns at once; the copy
still stands in the same stream, so that the kernels behind it wait. Only on a second stream does the next piece travel
while the present one is computed: the trace shows the copies on a lane of their own, above kernels. An event per piece
makes the computation wait for its data; record_stream keeps the memory until it has been read."""

METHODS = ("pageable", "pinned", "overlapped")

COPIES = Workload(
    name="copies",
    summary="pieces copied to the GPU and multiplied: pageable, pinned, and overlapped on two streams",
    prepare="tracetui_workloads.programs.waiting:prepare_copies",
    params=(
        Param("how", "pageable", "how pieces are copied", choices=METHODS),
        size_param("pieces", 8, "number of pieces"),
        size_param("size", 2048, "rows and columns of each"),
    ),
    needs=("gpu",),
    studies="throughput",
    lesson=COPIES_LESSON,
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


def prepare_copies(context: Context, how: str, pieces: int, size: int) -> Prepared:
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


DATALOADER_LESSON = """\
A DataLoader without workers reads every item in the step: the step waits for the disk, and the device for the step. The
wait stands in the trace as enumerate(DataLoader)#...__next__, with the operators of the dataset inside. With workers
other processes read ahead: their operators are not in this trace, and what is left of the wait is the time by which
they are too slow: more of them, or more batches ahead (prefetch_factor), shorten it. Pinned memory lets the copy to a
GPU run beside the computation; that takes a thread of its own, and non_blocking=True."""

_LOADER = r"^enumerate\(DataLoader\)"

DATALOADER = Workload(
    name="dataloader",
    summary="a step with a batch from a DataLoader: without workers, with them, and pinned",
    prepare="tracetui_workloads.programs.waiting:prepare_dataloader",
    params=(
        Param("workers", 0, "processes that read", minimum=0),
        Param("prefetch", 2, "batches that each worker reads ahead", minimum=1),
        Param("pin", False, "pinned memory, and a copy that does not block"),
        Param("read_ms", 4.0, "time to read an item, asleep as for a disk", minimum=0.0),
        size_param("batch", 8, "items per batch"),
        size_param("width", 256, "features of an item"),
    ),
    studies="overhead",
    dtype="fp32",
    lesson=DATALOADER_LESSON,
    expects=(
        Expect(
            "items read in the step",
            "calls_per_step",
            8,
            "any workers=0 batch=8",
            "all of the batch: nobody else reads",
            of="aten::randn",
            asks="How many items are read within a step?",
        ),
        *(
            Expect(
                "items read in the step",
                "calls_per_step",
                0,
                f"any workers={workers} batch=8",
                "other processes read, and they are not in this trace",
                of="aten::randn",
                asks="How many items are read within a step?",
            )
            for workers in (2, 4)
        ),
        Expect(
            "share of the step that waits for the loader",
            "share_of_steps_pct",
            (25, 100),
            "cpu workers=0 batch=8 read_ms=4.0",
            "eight items of 4 ms, one after the other",
            of=_LOADER,
        ),
    ),
    contrasts=(
        Contrast(
            "share of the step that waits for the loader, by that with four workers",
            "no_workers",
            "workers",
            "share_of_steps_pct",
            (1.1, MORE),
            "any batch=8 read_ms=4.0",
            "four read at the same time, while the step computes",
            of=_LOADER,
        ),
    ),
    refuses=(
        ("cpu pin=True", "Pinned memory is for copies to a GPU, and there is none here."),
        ("compile", "What a DataLoader costs does not depend on torch.compile: record it without."),
    ),
    see=("https://docs.pytorch.org/docs/stable/data.html",),
    variants=(
        ("no_workers", {"workers": 0}),
        ("workers", {"workers": 4}),
        ("pinned", {"workers": 4, "pin": True}),
    ),
)


class Items:
    """Items that take some time to read; the data of each depends on its number alone."""

    def __init__(self, seconds: float, width: int) -> None:
        self._seconds, self._width = seconds, width

    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, index: int) -> Any:
        """The item with a number."""
        import torch

        time.sleep(self._seconds)
        generator = torch.Generator().manual_seed(index)
        return torch.randn(self._width, generator=generator)


def prepare_dataloader(
    context: Context, workers: int, prefetch: int, pin: bool, read_ms: float, batch: int, width: int
) -> Prepared:
    """The loader, its first batch read, and a small model."""
    import torch
    from torch import nn
    from torch.utils.data import DataLoader

    ahead: dict[str, Any] = {"prefetch_factor": prefetch, "persistent_workers": True} if workers else {}
    items: Any = Items(read_ms / 1000, width)
    with warnings.catch_warnings():
        # Workers that are asleep need no core of their own.
        warnings.filterwarnings("ignore", "This DataLoader will create")
        loader: Any = DataLoader(items, batch_size=batch, num_workers=workers, pin_memory=pin, **ahead)
        first = iter(loader)
    batches: Iterator[Any] = itertools.chain(first, itertools.chain.from_iterable(itertools.repeat(loader)))
    model = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
    model = model.to(device=context.device, dtype=context.dtype)
    # Workers start with the first batch, which no step should pay for.
    read = next(batches)
    torch.testing.assert_close(read[-1], items[batch - 1])

    def step() -> None:
        x = next(batches).to(context.device, context.dtype, non_blocking=pin)
        with torch.no_grad():
            model(x)

    def close() -> None:
        nonlocal batches, loader
        # The iterator ends its workers when nobody has it any more.
        batches = iter(())
        iterator, loader = getattr(loader, "_iterator", None), None
        if workers and iterator is not None:
            iterator._shutdown_workers()

    return Prepared(step, label="load_and_forward", close=close, operands={"model": model})
