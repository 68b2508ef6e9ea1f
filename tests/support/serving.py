"""Traces of inference servers made by hand, and what is true of them, found slowly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tests.support.build import Event, annotation, kernel, launch, make_trace
from tracetui.model.trace import Trace

US = 1_000
GEMM, ATTENTION, REDUCE = "nvjet_tst_128x128", "flash::flash_fwd_splitkv_kernel", "ncclDevKernel_AllReduce_Sum_bf16"


@dataclass(frozen=True)
class Served:
    """A step: its name, its window on the CPU in µs, and start and duration of its kernels in µs."""

    name: str
    start: int
    dur: int
    kernels: Sequence[tuple[str, int, int]] = ()


def served(steps: Sequence[Served], more: Sequence[Event] = ()) -> Trace:
    """A trace of steps, each kernel launched at the start of its step, and of further events."""
    return make_trace([*served_events(steps), *more])


def served_events(steps: Sequence[Served]) -> list[Event]:
    """The events of some steps."""
    events: list[Event] = []
    number = 0
    for each in steps:
        events.append(annotation(each.name, each.start * US, each.dur * US))
        for index, (name, start, dur) in enumerate(each.kernels):
            number += 1
            events.append(launch((each.start + index) * US, 500, number))
            events.append(kernel(name, start * US, dur * US, correlation=number))
    return events


def decode(index: int, period: int = 100, busy: int = 60, requests: int = 4, at: int = 0) -> Served:
    """A decode whose kernels begin 20 µs after it and run for `busy` µs with a pause of 10 µs within."""
    start = at + index * period
    half = busy // 2
    kernels = [(GEMM, start + 20, half), (ATTENTION, start + 20 + half + 10, busy - half)]
    return Served(f"execute_context_0(0)_generation_{requests}({requests})", start, 40, kernels)


def medians(values: Sequence[float]) -> float:
    """The middle of some values, plainly."""
    ranked = sorted(values)
    return (ranked[(len(ranked) - 1) // 2] + ranked[len(ranked) // 2]) / 2


def slow_percentile(values: Sequence[float], percent: float) -> float:
    """A percentile, linear between ranks."""
    ranked = sorted(values)
    place = (len(ranked) - 1) * percent / 100
    low = int(place)
    high = min(low + 1, len(ranked) - 1)
    return ranked[low] + (ranked[high] - ranked[low]) * (place - low)


def slow_steady(facts: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    """The facts of the steps of one thread without those of its start and its end, after the definition (R3.88)."""
    every = [fact for fact in facts if fact["kind"] != "idle"]
    if len(every) < 8 or any(fact["kind"] == "unknown" for fact in every):
        return every

    def took(fact: dict[str, Any]) -> float:
        return float(fact["gpu_end_us"] - fact["gpu_start_us"])

    usual = medians([fact["requests"] for fact in every if fact["kind"] == "decode"])
    small = [fact["kind"] == "decode" and fact["requests"] < usual / 2 for fact in every]
    slow = []
    for fact in every:
        size = "tokens" if fact["kind"] == "prefill" else "requests"
        alike = [took(other) for other in every if (other["kind"], other[size]) == (fact["kind"], fact[size])]
        slow.append(len(alike) >= 3 and took(fact) > 1.5 * medians(alike))
    settled = [n for n, fact in enumerate(every) if fact["kind"] == "decode" and not small[n] and not slow[n]]
    if not settled:
        return every
    first = max([n + 1 for n in range(settled[0]) if small[n] or slow[n]], default=0)
    last = settled[-1] + 1 if all(small[settled[-1] + 1 :]) else len(every)
    return every[first:last] if last - first >= len(every) / 2 else every


def slow_union(spans: Sequence[tuple[float, float]]) -> float:
    """Time that some spans cover."""
    total, end = 0.0, float("-inf")
    for low, high in sorted(spans):
        total += max(0.0, high - max(low, end))
        end = max(end, high)
    return total


def slow_alone(mine: Sequence[tuple[float, float]], others: Sequence[tuple[float, float]]) -> float:
    """Time that some spans cover and none of the others."""
    return slow_union([*mine, *others]) - slow_union(others)


def neighbours(steps: Sequence[dict[str, Any]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Pairs of steps that follow each other and both serve requests."""
    return [(a, b) for a, b in pairwise(steps) if "idle" not in (a["kind"], b["kind"])]
