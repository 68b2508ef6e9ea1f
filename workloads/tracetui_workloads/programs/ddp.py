"""A training step with DistributedDataParallel on several ranks, each of which leaves a trace.

Parameters and gradients are 32-bit whatever the data type, so that they fill the same buckets; another data type is
that of autocast. The weights change from step to step, so that results are not compared with eager's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

from tracetui_workloads.api import MORE, Context, Contrast, Expect, Param, Prepared, Workload
from tracetui_workloads.programs.common import compiled_region, size_param

LESSON = """\
Every rank computes the gradients of its own batch, and all-reduces average them. DDP does not wait for the end of the
backward pass: it collects gradients in buckets (25 MB, the first one 1 MB), and the all-reduce of a bucket starts when
its last gradient is there, beside the rest of the backward pass. Only what is left at its end is waited for; with one
bucket for everything that is all of it. With no_sync() several batches share the all-reduces of one. An all-reduce ends
when the last rank has come: where one reads its input late, the others wait in the all-reduce, which looks slow in
their traces and short in that of the culprit. `tracetui ranks FOLDER` says who is late and why."""

ONE_BUCKET_MB = 1000.0
"""Larger than all gradients of the default size."""
_LAST_OPERATOR = "aten::native_layer_norm_backward"
"""The last operator that computes gradients: the normalisation is the first layer."""
_SIZE = "layers=12 width=1024"
"""The size for which buckets were counted."""

WORKLOAD = Workload(
    name="ddp",
    summary="a training step on 2 ranks: all-reduces beside the backward pass, behind it, and a rank that is late",
    prepare="tracetui_workloads.programs.ddp:prepare",
    params=(
        Param("ranks", 2, "processes, each with a GPU of its own or all on the CPU", minimum=2),
        Param("bucket_mb", 0.0, "MB of gradients per all-reduce; 0: as DDP has it, 25 and the first 1", minimum=0.0),
        Param("accumulate", 1, "batches per step, of which all but the last are in no_sync()", minimum=1),
        Param("late_ms", 0.0, "time by which rank 1 reads each batch later, asleep as for a disk", minimum=0.0),
        size_param("batch", 16, "rows of each rank's batch"),
        size_param("width", 1024, "features of every layer"),
        size_param("layers", 12, "number of layers"),
    ),
    ranks="ranks",
    studies="throughput",
    dtype="fp32",
    lesson=LESSON,
    expects=(
        Expect(
            "ranks that left a trace",
            "ranks",
            2,
            "any ranks=2",
            "each process records itself",
        ),
        *(
            Expect(
                "all-reduces per step",
                "calls_per_step",
                count,
                f"any eager warm bucket_mb={bucket} {_SIZE}",
                why,
                of="c10d::allreduce_",
                asks="50 MB of gradients: how many all-reduces does a step call?",
            )
            for bucket, count, why in (
                (0.0, 3, "the first bucket is full with one layer of 4 MB, the second with seven, and four are left"),
                (ONE_BUCKET_MB, 1, "everything fits into one bucket"),
            )
        ),
        *(
            Expect(
                "all-reduces before and behind the last operator of the backward pass",
                "ops_in_order",
                f"{early}native_layer_norm_backward c10d::allreduce_",
                f"any eager warm accumulate=1 bucket_mb={bucket} {_SIZE}",
                why,
                of=f"^({_LAST_OPERATOR}|c10d::allreduce_)$",
                asks="How many all-reduces begin before the backward pass has computed its last gradient?",
            )
            for bucket, early, why in (
                (0.0, "c10d::allreduce_ c10d::allreduce_ ", "two of three buckets are full while others are computed"),
                (ONE_BUCKET_MB, "", "the only bucket is full when the last gradient is there"),
            )
        ),
        Expect(
            "backward passes per step",
            "calls_per_step",
            4,
            "any eager accumulate=4",
            "one for each batch; only that of the last calls all-reduces",
            of=_LAST_OPERATOR,
            asks="How many backward passes share the all-reduces of a step?",
        ),
        Expect(
            "the rank that is late, and why",
            "late_rank_named",
            "^rank 1: .*input",
            "any late_ms=200.0 ranks=2",
            "the others wait for it in the first all-reduce of the backward pass",
            asks="One rank reads its input 200 ms later: in which trace is the first all-reduce the longer one?",
        ),
        compiled_region(
            want=(1, MORE),
            why="forward and backward are compiled in parts, one for each bucket, so that all-reduces can begin early",
            asks="Why does torch.compile cut the graph of a DDP model into parts?",
        ),
    ),
    contrasts=(
        Contrast(
            "all-reduces by those with one bucket",
            "eager",
            "one_bucket",
            "calls_per_step",
            3,
            f"any eager {_SIZE}",
            "three buckets or one for the same gradients",
            of="c10d::allreduce_",
        ),
        Contrast(
            "backward passes of accumulated batches by those of one",
            "no_sync",
            "eager",
            "calls_per_step",
            4,
            "any eager",
            "with as many all-reduces",
            of=_LAST_OPERATOR,
        ),
    ),
    see=(
        "https://docs.pytorch.org/docs/stable/notes/ddp.html",
        "https://arxiv.org/abs/2006.15704",
    ),
    variants=(
        ("eager", {"compile": False}),
        ("one_bucket", {"bucket_mb": ONE_BUCKET_MB}),
        ("no_sync", {"accumulate": 4}),
        ("late_rank", {"late_ms": 200.0}),
        ("compile", {"compile": True}),
    ),
)


class Batches:
    """Batches of one rank; the data of each depends on the seed, the rank and its number alone."""

    def __init__(self, seed: int, shape: tuple[int, int], seconds: float) -> None:
        self._seed, self._shape, self._seconds = seed, shape, seconds

    def __iter__(self) -> Iterator[Any]:
        import torch

        generator = torch.Generator().manual_seed(self._seed)
        while True:
            time.sleep(self._seconds)
            yield torch.randn(self._shape, generator=generator)


def prepare(
    context: Context,
    ranks: int,
    bucket_mb: float,
    accumulate: int,
    late_ms: float,
    batch: int,
    width: int,
    layers: int,
) -> Prepared:
    """The model, the same on each rank, inside of DDP, its optimizer, and the rank's own batches."""
    import torch
    from torch import nn

    blocks: list[nn.Module] = [nn.LayerNorm(width)]
    for _ in range(layers):
        blocks += [nn.Linear(width, width), nn.ReLU()]
    model = nn.Sequential(*blocks).to(context.device)
    parallel = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=bucket_mb or None)
    forward = context.compile(parallel)
    sgd = torch.optim.SGD(model.parameters(), lr=1e-3)
    seconds = late_ms / 1000 if context.rank == 1 else 0.0
    batches = _loaded(Batches(context.seed * ranks + context.rank, (batch, width), seconds))
    wanted = torch.randn(batch, width, device=context.device)
    weights = layers * width * width
    return Prepared(
        _step(context, forward, parallel, sgd, batches, wanted, accumulate),
        label="ddp_step",
        flops=6 * batch * weights * accumulate,
        operands={"model": model, "wanted": wanted},
    )


def _loaded(batches: Batches) -> Iterator[Any]:
    """The batches through a DataLoader, which annotates the time that it takes to read one."""
    from torch.utils.data import DataLoader, IterableDataset

    class Dataset(IterableDataset):  # type: ignore[type-arg]
        def __iter__(self) -> Iterator[Any]:
            return iter(batches)

    return iter(DataLoader(Dataset(), batch_size=None))


def _step(
    context: Context, forward: Any, parallel: Any, sgd: Any, batches: Iterator[Any], wanted: Any, accumulate: int
) -> Callable[[], None]:
    """A training step with an annotation around each phase."""
    import torch
    from torch.nn.functional import mse_loss
    from torch.profiler import record_function

    device = torch.device(context.device)
    lower = context.dtype != torch.float32

    def pass_over(x: Any) -> None:
        with record_function("## forward ##"), torch.autocast(device.type, context.dtype, enabled=lower):
            loss: Any = mse_loss(forward(x).float(), wanted)
        with record_function("## backward ##"):
            loss.backward()

    def step() -> None:
        with record_function("## zero_grad ##"):
            sgd.zero_grad()
        for number in range(accumulate):
            x = next(batches).to(device)
            with parallel.no_sync() if number < accumulate - 1 else nullcontext():
                pass_over(x)
        with record_function("## optimizer ##"):
            sgd.step()

    return step
