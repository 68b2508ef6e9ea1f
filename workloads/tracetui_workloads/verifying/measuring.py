"""Times of an operator and of its alternatives beside each other on one device, and what may be said of them.

Every block calls each function once, in changing order, with caches cleared before the call. The operator is there
twice: no other may differ from it by less than it does from itself. Fixed work in each block watches the clock.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

from tracetui_workloads.recording.devices import Target
from tracetui_workloads.recording.profiling import timing_of

if TYPE_CHECKING:
    import torch

    from tracetui_workloads.verifying.building import Plan

MIN_BLOCKS, MAX_BLOCKS, SECONDS = 11, 61, 10.0
"""Blocks, and the time after which no more than the first of these begin."""
FEWEST_BLOCKS = 3
"""Blocks that are timed however long they take."""
WATCHED_LOOPS = 20_000
"""Turns of the loop that watches the clock."""
MIN_NOISE = 0.02
"""Share below which no difference is believed."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A function to be timed."""

    name: str
    prepare: Callable[[], Callable[[], object]]
    """Makes the call, with inputs that no call before has changed."""
    is_warm: bool = False
    """True where it is called once before, in place of clearing caches."""


def measure(
    contenders: Sequence[Contender], target: Target, tick: Callable[[int, int], None], longest: float
) -> tuple[list[list[float]], list[float]]:
    """Microseconds of each function by block, and of fixed work in each; after `longest` s no block begins.

    `tick` hears how many blocks are done and at most to come, and may raise to stop.
    """
    import torch

    from tracetui_workloads.verifying.building import AHEAD_CYCLES, CLEARED_BYTES

    times: list[list[float]] = [[] for _ in contenders]
    watched: list[float] = []
    cleared = torch.empty(CLEARED_BYTES["cpu" if target.kind == "cpu" else "cuda"], dtype=torch.uint8)
    cuda: Any = torch.cuda
    cleared = cleared.to(target.device)

    def microseconds(call: Callable[[], object]) -> float:
        """The time of a call; on a GPU by its own clock, while the CPU is ahead."""
        if target.kind == "cpu":
            began = perf_counter()
            call()
            return 1e6 * (perf_counter() - began)
        begin, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        cuda._sleep(AHEAD_CYCLES)
        begin.record()
        call()
        end.record()
        end.synchronize()
        return float(1e3 * begin.elapsed_time(end))

    began, order = perf_counter(), random.Random(0)

    def goes_on(done: int, seconds: float) -> bool:
        limit = MAX_BLOCKS if seconds < min(SECONDS, longest) else MIN_BLOCKS if seconds < longest else FEWEST_BLOCKS
        return done < limit

    while goes_on(len(watched), perf_counter() - began):
        for index in order.sample(range(len(contenders)), len(contenders)):
            contender = contenders[index]
            if contender.is_warm:
                contender.prepare()()
            call = contender.prepare()
            if not contender.is_warm:
                cleared.fill_(len(watched) % 2)
            times[index].append(microseconds(call))
            tick(len(watched), MAX_BLOCKS)
        watched.append(microseconds(_loop if target.kind == "cpu" else lambda: cuda._sleep(AHEAD_CYCLES)))
    return times, watched


def _loop() -> None:
    for _ in range(WATCHED_LOOPS):
        pass


# What may be said: where a thing differs from itself, no two do.


def interval(times: Sequence[float]) -> tuple[float, float, float]:
    """The median of times and its interval; the least and the longest where they are too few for one."""
    timing = timing_of(times, 1, "")
    if timing.low_us is None or timing.high_us is None:
        return timing.median_us, min(times), max(times)
    return timing.median_us, timing.low_us, timing.high_us


def ratio(times: Sequence[float], base: Sequence[float]) -> tuple[float, float, float]:
    """The median of the ratios of two functions by block, and its interval."""
    return interval([mine / max(other, 1e-9) for mine, other in zip(times, base, strict=True)])


def noise_of(first: Sequence[float], again: Sequence[float]) -> float:
    """The share by which a function differs from itself, as its interval has it."""
    _, low, high = ratio(again, first)
    return max(high - 1, 1 - low, MIN_NOISE)


def refusal(noise: float, watched: Sequence[float], limit: float) -> str:
    """The reason why no time may be believed, as a sentence; empty where the machine is quiet."""
    ordered = sorted(watched)
    quarter, middle, three_quarters = (ordered[len(ordered) * n // 4] for n in (1, 2, 3))
    clock = (three_quarters - quarter) / middle
    words = [f"the operator differs from itself by {100 * noise:.0f} %"] * (noise > limit)
    words += [f"the clock changed by {100 * clock:.0f} %"] * (clock > 2 * limit)
    return f"This machine is too noisy: {', '.join(words)}." if words else ""


def verdict(times: Sequence[float], base: Sequence[float], noise: float) -> str:
    """The word for a function beside another: by the ratios beyond the noise, and medians whose intervals are apart."""
    (_, low, high), (_, least, most), (_, base_least, base_most) = ratio(times, base), interval(times), interval(base)
    if high < 1 - noise and most < base_least:
        return "faster"
    return "slower" if low > 1 + noise and least > base_most else "cannot tell"


# Alternatives: other ways to compute the same.


class NotApplicable(Exception):
    """An operator has no such alternative; the message is the reason, without a full stop."""


def alternative(name: str, plan: Plan, device: str) -> Callable[[], Callable[[], object]]:
    """Makes calls of an alternative of an operator, each with new arguments.

    Raises: NotApplicable.
    """
    import torch

    if name == "compile":
        # A function of its own: an operator is none.
        compiled: Callable[..., object] = torch.compile(lambda **args: plan.operator(**args), dynamic=False)
        return lambda: partial(compiled, **plan.call(device).keywords)
    if name == "sdpa":
        operator = plan.operator._schema.name
        if not operator.startswith("aten::_scaled_dot_product_") or "backward" in operator:
            raise NotApplicable("it is none of the operators that sdpa chooses from")
        return lambda: partial(_attention, **plan.call(device).keywords)
    is_last = name == "channels_last"
    if is_last and not any(len(each.dims) == 4 for each in plan.tensors):
        raise NotApplicable("no input has four dimensions")
    if not is_last and not any(each.dtype in (torch.float16, torch.float32, torch.float64) for each in plan.tensors):
        raise NotApplicable("no input is of another floating type")

    def changed(value: Any) -> Any:
        if isinstance(value, list):
            return [changed(each) for each in value]
        if not torch.is_tensor(value) or (value.dim() != 4 if is_last else not value.is_floating_point()):
            return value
        return value.contiguous(memory_format=torch.channels_last) if is_last else value.bfloat16()

    return lambda: partial(plan.operator, **{key: changed(each) for key, each in plan.call(device).keywords.items()})


def _attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, is_causal: bool = False, **more: Any
) -> object:
    import torch

    mask = more.get("attn_mask", more.get("attn_bias"))
    return torch.nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, is_causal=is_causal and mask is None, scale=more.get("scale")
    )
