"""Recordings made by hand: a program is a few calls of operators with what they put on the GPU, and is played in steps.

`record(LABEL, CALLS)` gives the events that a profiler would have written, `support.build.make_trace` makes a trace of
them, and `write` a file that the command line can open.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.build import CATEGORIES, ON_GPU, Event, annotation, launch, step
from tracetui.model.trace import NO_ID, Kind

QUERY = "cudaOccupancyMaxActiveBlocksPerMultiprocessor"
_CALL, _ASK, _DELAY, _BETWEEN, _PAUSE = 5_000, 1_000, 2_000, 1_000, 5_000
"""In ns: a launch, a query, from a launch to its start, between two kernels, between two steps."""


@dataclass(frozen=True)
class Work:
    """What one launch puts on the GPU."""

    name: str
    dur: int
    """In ns."""
    kind: Kind = Kind.KERNEL
    args: dict[str, Any] = field(default_factory=dict)
    call: str = "cudaLaunchKernel"
    asks: bool = False
    """Whether an occupancy query comes before it, as before the kernels of matrix libraries."""


@dataclass(frozen=True)
class Call:
    """A call of an operator: what it calls, and then what it launches itself."""

    name: str
    dims: Sequence[Any] | None = None
    types: Sequence[str] | None = None
    own: int = 4_000
    """CPU time in ns, launches and inner calls not counted."""
    inside: tuple[Call, ...] = ()
    work: tuple[Work, ...] = ()
    kind: Kind = Kind.CPU_OP


class Player:
    """Plays calls on one thread and one stream."""

    def __init__(self, jitter: float, seed: int, shapes: bool) -> None:
        self.now = 10_000
        """The thread's clock, in ns."""
        self.free = 0
        """When the stream has nothing left to do."""
        self._correlation = 0
        self._jitter, self._random, self._shapes = jitter, random.Random(seed), shapes

    def play(self, call: Call) -> Iterator[Event]:
        """The events of a call."""
        begin = self.now
        self.now += self._varied(call.own) // 2
        for inner in call.inside:
            yield from self.play(inner)
        for work in call.work:
            yield from self._launched(work)
        self.now += call.own // 2
        args = {"Input Dims": call.dims, "Input type": call.types} if self._shapes and call.dims is not None else None
        yield Event(call.name, begin, self.now - begin, call.kind, args=args)

    def _launched(self, work: Work) -> Iterator[Event]:
        if work.asks:
            yield Event(QUERY, self.now, _ASK, Kind.RUNTIME, correlation=self._next())
            self.now += _ASK
        correlation = self._next()
        yield launch(self.now, _CALL, correlation, work.call)
        self.now += _CALL
        begin = max(self.now + _DELAY, self.free + _BETWEEN)
        self.free = begin + self._varied(work.dur)
        lane = ("0", "stream 7")
        yield Event(work.name, begin, self.free - begin, work.kind, lane, correlation, args=dict(work.args))

    def _varied(self, time: int) -> int:
        return max(round(time * (1 + self._jitter * self._random.uniform(-1, 1))), 1)

    def _next(self) -> int:
        self._correlation += 1
        return self._correlation


def record(
    label: str, calls: Sequence[Call], steps: int = 3, jitter: float = 0.0, seed: int = 0, shapes: bool = True
) -> list[Event]:
    """The events of so many steps, each with one annotation around the calls; times vary by up to `jitter`."""
    return record_steps(label, [calls] * steps, jitter, seed, shapes)


def record_steps(
    label: str, programs: Sequence[Sequence[Call]], jitter: float = 0.0, seed: int = 0, shapes: bool = True
) -> list[Event]:
    """Likewise of steps that differ: one program for each."""
    player = Player(jitter, seed, shapes)
    events: list[Event] = []
    for number, calls in enumerate(programs, 2):
        begin = player.now
        player.now += 4_000
        inner = [event for call in calls for event in player.play(call)]
        events.append(annotation(label, begin + 2_000, player.now - begin - 1_000))
        player.now += 3_000
        events.append(step(number, begin, player.now - begin))
        events.extend(inner)
        player.now += _PAUSE
    waited = max(player.free - player.now, 1_000)
    events.append(Event("cudaDeviceSynchronize", player.now, waited, Kind.RUNTIME, correlation=1 << 20))
    return events


def write(events: Sequence[Event], path: Path) -> Path:
    """The events as a file of the PyTorch profiler."""
    content = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB", "numSms": 108}],
        "traceEvents": [_written(event) for event in events],
    }
    path.write_text(json.dumps(content))
    return path


def _written(event: Event) -> dict[str, Any]:
    on_gpu = event.kind in ON_GPU
    args = dict(event.args or {})
    if event.correlation != NO_ID:
        args["correlation"] = event.correlation
    if on_gpu:
        args |= {"device": 0, "stream": 7}
    return {
        "ph": "X",
        "cat": CATEGORIES[event.kind],
        "name": event.name,
        "pid": 0 if on_gpu else 4242,
        "tid": 7 if on_gpu else 4242,
        "ts": event.start / 1000,
        "dur": event.dur / 1000,
        "args": args,
    }
