"""A step that asks a DataLoader for its batch: read in the step, or by workers before it."""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Iterator
from typing import Any

from tracetui_workloads.api import MORE, Context, Contrast, Expect, Param, Prepared, Workload
from tracetui_workloads.programs.common import size_param

LESSON = """\
A DataLoader without workers reads every item in the step: the step waits for the disk, and the device for the step. The
wait stands in the trace as enumerate(DataLoader)#...__next__, with the operators of the dataset inside. With workers
other processes read ahead: their operators are not in this trace, and what is left of the wait is the time by which
they are too slow: more of them, or more batches ahead (prefetch_factor), shorten it. Pinned memory lets the copy to a
GPU run beside the computation; that takes a thread of its own, and non_blocking=True."""

_LOADER = r"^enumerate\(DataLoader\)"

WORKLOAD = Workload(
    name="dataloader",
    summary="a step with a batch from a DataLoader: without workers, with them, and pinned",
    prepare="tracetui_workloads.programs.dataloader:prepare",
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
    lesson=LESSON,
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


def prepare(
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
