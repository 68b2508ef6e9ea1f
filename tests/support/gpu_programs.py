"""Small programs that launch kernels one after another, so that the GPU is always the limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support.build import Event, kernel, launch, make_trace, op
from tracetui.model.trace import Device, Trace

START = 100_000
"""When the first kernel starts, in ns: long after everything has been launched."""


@dataclass(frozen=True)
class Work:
    """A kernel and the operator that launches it; empty for one that no operator launches, as in a graph."""

    name: str
    dur: int = 100_000
    op: str = "aten::mm"
    dims: Sequence[Any] | None = None
    types: Sequence[str] = ()
    strides: Sequence[Any] | None = None
    stream: str = "stream 7"
    args: dict[str, Any] = field(default_factory=dict)
    is_same_call: bool = False
    """Whether the operator before it launches it as well."""

    def inputs(self) -> dict[str, Any]:
        """The recorded inputs of the operator."""
        if self.dims is None:
            return {}
        types = list(self.types) or ["c10::BFloat16"] * len(self.dims)
        strides = {} if self.strides is None else {"Input Strides": list(self.strides)}
        return {"Input Dims": list(self.dims), "Input type": types, **strides}


def queued(
    work: Sequence[Work], devices: Sequence[Device] = (), more: Sequence[Event] = (), wait: bool = True
) -> Trace:
    """Everything is launched at once and then runs back to back; at the end the CPU waits for the GPU."""
    events: list[Event] = []
    clock = max(START, 1_000 * len(work))
    for number, each in enumerate(work):
        at = 1_000 * number
        if each.op and not each.is_same_call:
            count = next(
                (i for i, other in enumerate(work[number + 1 :]) if not other.is_same_call), len(work) - number - 1
            )
            events.append(op(each.op, at, 1_000 * count + 900, args=each.inputs()))
        events.append(launch(at + 100, 500, number + 1))
        events.append(kernel(each.name, clock, each.dur, each.stream, correlation=number + 1, args=each.args))
        clock += each.dur
    begin = 1_000 * len(work)
    if wait:
        # A wait of the program, then the profiler's own.
        events.append(launch(begin, clock - begin, 900_000, name="cudaStreamSynchronize"))
        events.append(launch(clock, 100, 900_001, name="cudaDeviceSynchronize"))
    return make_trace([*events, *more], devices)
