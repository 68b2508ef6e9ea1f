"""The time of a step without the profiler, which itself costs time: medians, and how sure they are.

A sample is the mean of as many calls as take a millisecond or more, so that neither the clock nor its calls count. On a
GPU the clock is that of CUDA events around these calls, elsewhere `time.perf_counter`.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from math import ceil, comb

# Imported by name: a workload may replace `time.perf_counter`.
from time import perf_counter
from typing import Any

from tracetui_workloads.recording.devices import Ranks, Target

ALONE = Ranks()
"""A process that has no rank."""
SAMPLE_S = 1e-3
"""Least duration of a sample."""
MIN_SAMPLES = 6
"""Samples below which no interval of the median can be given: 95 % needs six."""
MAX_SAMPLES = 10_000
"""Maximum number of samples."""
SETTLED_WIDTH = 0.02
"""Width of the interval, as a share of the median, at which timing ends."""
CONFIDENCE = 0.95
"""Probability with which the interval holds the median."""
ROUNDS = 8
"""Turns of each process that times its step beside others."""
MAX_OVERTIME = 4
"""How many times its limit timing may take until there are enough samples for an interval."""


@dataclass(frozen=True, slots=True)
class Timing:
    """The time of a step without the profiler."""

    median_us: float
    low_us: float | None
    """Lower end of the interval of the median; None for fewer than six samples."""
    high_us: float | None
    samples: int
    calls_per_sample: int
    clock: str
    """`cuda events` or `perf_counter`."""

    @property
    def is_settled(self) -> bool:
        """Whether the interval is narrow enough."""
        if self.low_us is None or self.high_us is None:
            return False
        return self.high_us - self.low_us <= SETTLED_WIDTH * self.median_us

    def as_metadata(self) -> dict[str, Any]:
        """The entry `unprofiled` of the metadata."""
        return asdict(self)


class StepTimer:
    """Collects samples of a step that is warm."""

    def __init__(
        self, step: Callable[[], object], target: Target, tick: Callable[[], None], ranks: Ranks = ALONE
    ) -> None:
        """`tick` is called between samples, and may raise to stop; all `ranks` take the same samples."""
        self._step, self._tick, self._ranks = step, tick, ranks
        self._clock = "cuda events" if target.kind == "cuda" else "perf_counter"
        self._measure = _cuda_clock() if target.kind == "cuda" else _host_clock(target)
        self._calls = int(ranks.largest(max(1, ceil(SAMPLE_S / max(self._measure(step, 1), 1e-7)))))
        self._samples: list[float] = []

    @property
    def timing(self) -> Timing | None:
        """The result so far; None without a sample."""
        return timing_of(self._samples, self._calls, self._clock) if self._samples else None

    @property
    def has_enough(self) -> bool:
        """Whether there are samples enough for an interval."""
        return len(self._samples) >= MIN_SAMPLES

    def sample(self, seconds: float) -> None:
        """Take samples for some time, at least one."""
        until = perf_counter() + seconds
        with _no_garbage_collection():
            while len(self._samples) < MAX_SAMPLES:
                self._samples.append(1e6 * self._measure(self._step, self._calls) / self._calls)
                self._tick()
                if not self._ranks.any(perf_counter() <= until and not self._is_settled):
                    return

    @property
    def _is_settled(self) -> bool:
        # Few samples can lie close together by chance.
        timing = self.timing if len(self._samples) >= 4 * MIN_SAMPLES else None
        return timing is not None and timing.is_settled


def time_step(
    step: Callable[[], object], target: Target, limit_s: float, tick: Callable[[], None], ranks: Ranks = ALONE
) -> Timing | None:
    """Time a step that is warm until the interval of its median is narrow, or the time limit is over.

    Args:
        limit_s: seconds after which no sample begins, unless there are too few for an interval.
        tick: called between samples; may raise to stop.
        ranks: those that call the step together, as often.
    """
    timer, until = StepTimer(step, target, tick, ranks), perf_counter() + MAX_OVERTIME * limit_s
    timer.sample(limit_s)
    while ranks.any(not timer.has_enough and perf_counter() < until):
        timer.sample(0)
    return timer.timing


def time_in_turns(
    step: Callable[[], object],
    target: Target,
    limit_s: float,
    tick: Callable[[], None],
    ring: Ring | None,
    ranks: Ranks = ALONE,
) -> Timing | None:
    """Time a step while other processes time theirs, one at a time, so that all of them meet the same machine.

    Each of `ROUNDS` turns takes its share of `limit_s`; the first begins once every process is ready. Where another
    process ends early, so does this. Of several `ranks` the first has the ring, and the others follow it.
    """

    def has_turn() -> bool:
        return ranks.any(ring is not None and ring.wait())

    timer = StepTimer(step, target, tick, ranks)
    if not has_turn():
        return None
    if ring:
        ring.pass_on()
    for _ in range(ROUNDS):
        if not has_turn():
            break
        # The caches hold the data of the process before.
        step()
        target.synchronize()
        timer.sample(limit_s / ROUNDS)
        if ring:
            ring.pass_on()
    return timer.timing


class Ring:
    """Pipes in a circle: who reads a byte has the turn, and writes it on to the next."""

    def __init__(self, source: int, sink: int) -> None:
        self._source, self._sink = source, sink
        for end in (source, sink):
            os.set_inheritable(end, False)

    def wait(self) -> bool:
        """Wait for the turn; False where the process before has ended."""
        return bool(os.read(self._source, 1))

    def pass_on(self) -> None:
        """Give the turn to the next process, unless it has ended."""
        with suppress(BrokenPipeError):
            os.write(self._sink, b".")


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    was_collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_collecting:
            gc.enable()


def timing_of(samples: Sequence[float], calls: int, clock: str) -> Timing:
    """The median of samples in microseconds, with its interval by order statistics."""
    ordered = sorted(samples)
    middle = len(ordered) // 2
    median = ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
    cut = rank_of_interval(len(ordered))
    low, high = (ordered[cut], ordered[-1 - cut]) if cut is not None else (None, None)
    return Timing(round(median, 3), _rounded(low), _rounded(high), len(ordered), calls, clock)


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 3)


def rank_of_interval(count: int) -> int | None:
    """Index of the lower end of the median's interval among sorted samples; None where there are too few."""
    if count > 1000:
        # The normal approximation; exact binomials of so many overflow.
        return int((count - 1.96 * count**0.5) / 2)
    tail, index = 0.0, None
    for rank in range(count // 2):
        tail += comb(count, rank) / 2**count
        if tail > (1 - CONFIDENCE) / 2:
            break
        index = rank
    return index


Measure = Callable[[Callable[[], object], int], float]


def _host_clock(target: Target) -> Measure:
    def measure(step: Callable[[], object], calls: int) -> float:
        target.synchronize()
        began = perf_counter()
        for _ in range(calls):
            step()
        target.synchronize()
        return perf_counter() - began

    return measure


def _cuda_clock() -> Measure:
    import torch

    event: Any = torch.cuda.Event

    def measure(step: Callable[[], object], calls: int) -> float:
        begin, end = (event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(calls):
            step()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1000

    return measure
