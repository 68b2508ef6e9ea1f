"""Training steps: of a small multilayer perceptron, and with DistributedDataParallel on several ranks.

`train_step` has zero_grad, forward, backward and optimizer, each in an annotation. The optimizer is AdamW: one operator
after another for each parameter, in lists (foreach), or fused. `ddp` leaves a trace of each rank; its parameters and
gradients are 32-bit whatever the data type, so that they fill the same buckets; another data type is that of autocast.
The weights change from step to step, so that results are not compared with eager's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

from tracetui_workloads.api import MORE, Context, Contrast, Expect, Param, Prepared, Workload
from tracetui_workloads.programs.common import compiled_region, randn, size_param, variant_of_each

TRAIN_STEP_LESSON = """\
A step has four phases, and the backward pass calls about twice as many matmuls as the forward one: one for the weights
and one for the input of each layer, of which the first layer needs none. The optimizer is where operators go: written
as a loop it calls several for every parameter, fused it is one operator for all of them. Lists (foreach) save launches
on a GPU; on the CPU they call the same operators one by one. zero_grad drops gradients by default, without an operator.
With amp the matmuls run in bfloat16, and casts appear around them."""

PARAMETERS = 8
"""Weights and biases of the four default layers."""
ADAMW: dict[str, Any] = {"forloop": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}
"""Arguments of AdamW by the name of the implementation."""

TRAIN_STEP = Workload(
    name="train_step",
    summary="a training step: forward, backward and an AdamW in three implementations",
    prepare="tracetui_workloads.programs.training:prepare_train_step",
    params=(
        Param("optimizer", "foreach", "implementation of AdamW", choices=tuple(ADAMW)),
        Param("amp", False, "autocast to bfloat16 in the forward pass"),
        Param("zero_grad", "none", "gradients become None, or zeros", choices=("none", "zeros")),
        size_param("batch", 256, "rows of the input"),
        size_param("width", 512, "features of every layer"),
        size_param("layers", 4, "number of layers"),
    ),
    studies="throughput",
    dtype="fp32",
    lesson=TRAIN_STEP_LESSON,
    expects=(
        Expect(
            "fused optimizer operators per step",
            "matching_ops_per_step",
            1,
            "any optimizer=fused",
            "one operator updates every parameter",
            of="^aten::_fused_adamw_$",
            asks="How many operators does a fused optimizer call?",
        ),
        Expect(
            "optimizer operators on lists per step",
            "matching_ops_per_step",
            (3, MORE),
            "any optimizer=foreach",
            "each takes the lists of all parameters",
            of="^aten::_foreach_",
            asks="Do operators on lists depend on the number of parameters?",
        ),
        Expect(
            "updates of a parameter per step",
            "calls_per_step",
            PARAMETERS,
            "any optimizer=forloop layers=4",
            "one for each weight and each bias",
            of="aten::addcdiv_",
            asks="How often does a loop over parameters update one?",
        ),
        Expect(
            "matmuls of the backward pass per step",
            "calls_per_step",
            7,
            "any eager layers=4",
            "two for each layer, less one: the input of the first needs no gradient",
            of="aten::mm",
            asks="How many matmuls does the backward pass of four layers call?",
        ),
        Expect(
            "matmuls of the forward pass per step",
            "calls_per_step",
            4,
            "any eager layers=4",
            "one for each layer",
            of="aten::addmm",
        ),
        Expect(
            "operators that set gradients to zero, per step",
            "matching_ops_per_step",
            0,
            "any optimizer=foreach zero_grad=none",
            "they are dropped, and made anew by the backward pass",
            of="^aten::_foreach_zero_$",
        ),
        Expect(
            "operators that set gradients to zero, per step",
            "matching_ops_per_step",
            1,
            "any optimizer=foreach zero_grad=zeros",
            "gradients are kept, written to, and added to",
            of="^aten::_foreach_zero_$",
            asks="What does zero_grad cost?",
        ),
        Expect(
            "casts per step",
            "matching_ops_per_step",
            (4, MORE),
            "eager amp=True",
            "weights and inputs of the matmuls become bfloat16",
            of="^aten::_to_copy$",
            asks="Which operators appear with amp?",
        ),
        compiled_region(want=(1, MORE), why="the forward pass is compiled, and its backward pass with it"),
    ),
    contrasts=(
        Contrast(
            "operators of a loop by those of a fused optimizer",
            "forloop",
            "fused",
            "ops_per_step",
            (1.3, MORE),
            "any eager layers=4",
            "several operators for every parameter, or one for all",
        ),
    ),
    see=("https://docs.pytorch.org/docs/stable/generated/torch.optim.AdamW.html",),
    variants=(
        *variant_of_each("optimizer", ADAMW),
        ("amp", {"amp": True}),
        ("zeros", {"zero_grad": "zeros"}),
    ),
)


def prepare_train_step(
    context: Context, optimizer: str, amp: bool, zero_grad: str, batch: int, width: int, layers: int
) -> Prepared:
    """The model, its optimizer and one batch."""
    import torch
    from torch import nn

    blocks = [nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(layers)]
    model = nn.Sequential(*blocks).to(device=context.device, dtype=context.dtype)
    x, wanted = (randn(context, batch, width) for _ in range(2))
    adamw = torch.optim.AdamW(model.parameters(), lr=1e-3, **ADAMW[optimizer])
    forward = context.compile(model)
    step = _step(forward, adamw, x, wanted, amp, zero_grad)
    weights = layers * width * width
    return Prepared(
        step, label="train_step", flops=6 * batch * weights, operands={"model": model, "x": x, "wanted": wanted}
    )


def _step(forward: Any, adamw: Any, x: Any, wanted: Any, amp: bool, zero_grad: str) -> Callable[[], None]:
    """A training step with an annotation around each phase."""
    import torch
    from torch.nn.functional import mse_loss
    from torch.profiler import record_function

    def step() -> None:
        with record_function("## zero_grad ##"):
            adamw.zero_grad(set_to_none=zero_grad == "none")
        with record_function("## forward ##"), torch.autocast(x.device.type, torch.bfloat16, enabled=amp):
            loss: Any = mse_loss(forward(x), wanted)
        with record_function("## backward ##"):
            loss.backward()
        with record_function("## optimizer ##"):
            adamw.step()

    return step


DDP_LESSON = """\
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

DDP = Workload(
    name="ddp",
    summary="a training step on 2 ranks: all-reduces beside the backward pass, behind it, and a rank that is late",
    prepare="tracetui_workloads.programs.training:prepare_ddp",
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
    lesson=DDP_LESSON,
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


def prepare_ddp(
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
        _ddp_step(context, forward, parallel, sgd, batches, wanted, accumulate),
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


def _ddp_step(
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
