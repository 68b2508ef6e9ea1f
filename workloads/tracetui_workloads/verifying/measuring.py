"""Times of functions beside each other on one device, and what disturbed the machine meanwhile.

Every block calls each function once, in changing order, with caches cleared before the call. The first function is
there twice: no other may differ from it by less than it does from itself. Fixed work in each block watches the clock.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter, thread_time
from typing import Any

import torch

from tracetui_workloads.recording.devices import Target
from tracetui_workloads.recording.profiling import LoadMeter
from tracetui_workloads.verifying.building import Plan, microseconds
from tracetui_workloads.verifying.noise import Samples

MIN_BLOCKS, MAX_BLOCKS = 11, 101
CLEARED_BYTES = {"cpu": 64 << 20, "cuda": 256 << 20}
"""Bytes that are written to clear the caches, by kind of device: more than their L2 holds."""
WATCHED_LOOPS, WATCHED_CYCLES = 20_000, 1_000_000
"""Work that watches the clock: turns of a loop, or cycles of a GPU."""
Call = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Contender:
    """A function to be timed."""

    name: str
    prepare: Callable[[], Call]
    """Makes the call, with inputs that no call before has changed."""
    is_warm: bool = False
    """True where it is called once before, in place of clearing caches."""


def measure(contenders: Sequence[Contender], target: Target, seconds: float, tick: Callable[[], None]) -> Samples:
    """Time functions in blocks; `tick` is called between these and may raise to stop."""
    times: list[list[float]] = [[] for _ in contenders]
    watched: list[float] = []
    device = "cuda" if target.kind == "cuda" else "cpu"
    cleared = torch.empty(CLEARED_BYTES[device], dtype=torch.uint8, device=device)
    on_core = wall = 0.0
    meter, until, order = LoadMeter(), perf_counter() + seconds, random.Random(0)
    while len(watched) < MIN_BLOCKS or (len(watched) < MAX_BLOCKS and perf_counter() < until):
        for index in order.sample(range(len(contenders)), len(contenders)):
            contender = contenders[index]
            if contender.is_warm:
                contender.prepare()()
            call = contender.prepare()
            if not contender.is_warm:
                cleared.fill_(len(watched) % 2)
            core, began = thread_time(), perf_counter()
            times[index].append(microseconds(call, device))
            on_core, wall = on_core + thread_time() - core, wall + perf_counter() - began
            target.synchronize()
            tick()
        watched.append(microseconds(_cycles if device == "cuda" else _loops, device))
    load = meter.load()
    ordered = sorted(watched)
    quarter, middle, three_quarters = (ordered[len(ordered) * n // 4] for n in (1, 2, 3))
    return Samples(
        times,
        max(1 - on_core / max(wall, 1e-9), 0.0) if device == "cpu" else 0.0,
        (three_quarters - quarter) / middle,
        load.sentence if load and load.is_high else "",
    )


def _loops() -> None:
    for _ in range(WATCHED_LOOPS):
        pass


def _cycles() -> None:
    sleep: Any = torch.cuda._sleep
    sleep(WATCHED_CYCLES)


# Alternatives: other ways to compute the same.


class NotApplicable(Exception):
    """An operator has no such alternative; the message is the reason, without a full stop."""


def alternative(name: str, plan: Plan, device: str) -> Callable[[], Call]:
    """Makes calls of an alternative of an operator, each with new arguments.

    Raises: NotApplicable.
    """
    run: Callable[..., object] = plan.operator
    change: Callable[[torch.Tensor], torch.Tensor] | None = None
    if name == "compile":
        # A function of its own: an operator is none.
        run = torch.compile(lambda *args, **named: plan.operator(*args, **named), dynamic=False)
    elif name == "channels_last":
        if not any(len(each.dims) == 4 for each in plan.tensors):
            raise NotApplicable("no input has four dimensions")
        change = _channels_last
    elif name == "bf16":
        if not any(each.dtype in ("float16", "float32", "float64") for each in plan.tensors):
            raise NotApplicable("no input is of another floating type")
        change = _bf16
    else:
        run = _attention(plan)

    def prepare() -> Call:
        args, named = plan.new(device)
        if change is not None:
            args = [change(each) if isinstance(each, torch.Tensor) else each for each in args]
        return partial(run, *args, **named)

    return prepare


def _channels_last(each: torch.Tensor) -> torch.Tensor:
    return each.contiguous(memory_format=torch.channels_last) if each.dim() == 4 else each


def _bf16(each: torch.Tensor) -> torch.Tensor:
    return each.bfloat16() if each.is_floating_point() else each


def _attention(plan: Plan) -> Callable[..., object]:
    """`scaled_dot_product_attention` in place of another operator of attention.

    Raises: NotApplicable.
    """
    name, schema = plan.operator._schema.name, plan.operator._schema.arguments
    if name == "aten::scaled_dot_product_attention":
        raise NotApplicable("it is that already")
    if "attention" not in name or [each.name for each in schema[:3]] != ["query", "key", "value"]:
        raise NotApplicable("it is no attention")

    def run(*args: Any, **named: Any) -> object:
        given = dict(zip((each.name for each in schema), args, strict=False)) | named
        mask = given.get("attn_mask", given.get("attn_bias"))
        causal = bool(given.get("is_causal")) and mask is None
        query, key, value = args[:3]
        return torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=causal)

    return run
