"""A machine with threads, streams and a launch queue, simulated event by event, for pairs that differ in one thing.

It shares nothing with `tracetui/whatif`: a program runs on it as it is and with a change, so that the second run is the
truth about a prediction from the trace of the first. Times are µs here and ns in the trace.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from tests.support.build import Event, make_trace
from tracetui.model.trace import Kind, Trace

LATENCY_US, GAP_US, LAUNCH_US, RETURN_US = 7.0, 1.4, 4.0, 6.0
MAIN, BACKWARD = ("100", "100"), ("100", "101")


@dataclass(frozen=True)
class Altered:
    """A change of the machine or its program."""

    gpu: Mapping[str, float] = field(default_factory=dict)
    """Factors of GPU time by the name of a kernel or copy."""
    cpu: Mapping[str, float] = field(default_factory=dict)
    """Factors of CPU time by the name of an operator."""
    waits: bool = True
    graphs: bool = False
    """True where the kernels within `graph` are launched at once."""


class Machine:
    """The machine while a program runs on it."""

    def __init__(self, altered: Altered = Altered(), limit: int | None = 1022) -> None:
        self.altered, self.limit = altered, limit
        self.now, self.thread = 100.0, MAIN
        self.free: dict[int, float] = {}
        self.events: list[Event] = []
        self._unfinished: dict[int, list[float]] = {}
        self._ids = count(1)
        self._nodes: list[tuple[str, float, int]] | None = None

    def op(self, name: str, us: float, body: Callable[[], object] = lambda: None) -> None:
        """An operator that takes some time of its own, and then does something."""
        start = self.now
        self.now += us * self.altered.cpu.get(name, 1.0)
        body()
        self._record(name, Kind.CPU_OP, start, self.now)

    def kernel(self, name: str, us: float, stream: int = 7, after: float = 0.0) -> float:
        """Launch a kernel that also waits for a time on another stream; returns when it ends."""
        if self._nodes is not None:
            self._nodes.append((name, us, stream))
            return 0.0
        return self._launch([(name, us, stream)], "cudaLaunchKernel", LAUNCH_US, after)

    def copy(self, name: str, us: float, stream: int = 7) -> float:
        """A copy to pageable memory, whose call returns behind it."""
        end = self._launch([(name, us, stream)], "cudaMemcpyAsync", LAUNCH_US, kind=Kind.MEMCPY, waits=True)
        return end

    def graph(self, body: Callable[[], object]) -> None:
        """Launch what it launches one by one, or as one graph where that is the change."""
        if not self.altered.graphs:
            body()
            return
        self._nodes, before = [], self.now
        body()
        self.now = before
        nodes, self._nodes = self._nodes, None
        self._launch(nodes, "cudaGraphLaunch", 8.0 + 0.1 * len(nodes), gap=1.0)

    def wait(self, name: str = "cudaStreamSynchronize", stream: int | None = None) -> None:
        """Wait for a stream, or for all."""
        if not self.altered.waits:
            return
        start = self.now
        ends = self.free.values() if stream is None else [self.free.get(stream, 0.0)]
        self.now = max(start + 2.0, max(ends, default=0.0) + RETURN_US)
        self._record(name, Kind.RUNTIME, start, self.now)

    def hand_over(self, thread: tuple[str, str], us: float = 12.0) -> None:
        """Go on with another thread."""
        self.now += us
        self.thread = thread

    def steps(self, number: int, body: Callable[[], object]) -> Trace:
        """Steps of the profiler on the main thread, and the trace of them."""
        for index in range(number):
            start = self.now
            body()
            self._record(f"ProfilerStep#{index}", Kind.ANNOTATION, start, self.now)
        return make_trace(self.events)

    def _launch(
        self,
        nodes: list[tuple[str, float, int]],
        call: str,
        us: float,
        after: float = 0.0,
        *,
        kind: Kind = Kind.KERNEL,
        waits: bool = False,
        gap: float = GAP_US,
    ) -> float:
        start, number = self.now, next(self._ids)
        stream = nodes[-1][2]
        queue = self._unfinished.setdefault(stream, [])
        self.now += us
        if self.limit is not None and len(queue) >= self.limit:
            self.now = max(self.now, queue[-self.limit])
        end = 0.0
        for index, (name, dur, lane) in enumerate(nodes):
            pause = GAP_US if index == 0 else gap
            at = self.free[lane] + pause if lane in self.free else 0.0
            if index == 0:
                at = max(at, start + LATENCY_US, after + pause if after else 0.0)
            end = at + dur * self.altered.gpu.get(name, 1.0)
            self._record(name, kind, at, end, ("0", f"stream {lane}"), number)
            self.free[lane] = end
        queue.append(end)
        if waits:
            self.now = max(self.now, end + RETURN_US)
        self._record(call, Kind.RUNTIME, start, self.now, correlation=number)
        return end

    def _record(
        self,
        name: str,
        kind: Kind,
        start: float,
        end: float,
        lane: tuple[str, str] | None = None,
        correlation: int | None = None,
    ) -> None:
        begin = round(1000 * start)
        ids: dict[str, Any] = {} if correlation is None else {"correlation": correlation}
        self.events.append(Event(name, begin, round(1000 * end) - begin, kind, lane or self.thread, **ids))


# Programs, each with what makes it different.

Program = Callable[[Machine], Callable[[], object]]


def busy(machine: Machine) -> Callable[[], object]:
    """The GPU is behind the CPU; a wait ends the step."""

    def step() -> None:
        for _ in range(40):
            machine.op("aten::mm", 9.0, lambda: machine.kernel("gemm", 60.0))
            machine.op("aten::softmax", 6.0, lambda: machine.kernel("softmax", 40.0))
        machine.wait()

    return step


def launch_bound(machine: Machine) -> Callable[[], object]:
    """The CPU takes longer for each launch than the GPU for its kernel."""

    def step() -> None:
        machine.op("load", 400.0)
        for _ in range(40):
            machine.op("aten::add", 30.0, lambda: machine.kernel("add", 9.0))
            machine.op("aten::mm", 34.0, lambda: machine.kernel("gemm", 20.0))

    return step


def two_threads(machine: Machine) -> Callable[[], object]:
    """Another thread runs the backward pass, which begins when the forward pass has been launched."""

    def step() -> None:
        machine.op("load", 2_000.0)
        for _ in range(20):
            machine.op("aten::mm", 30.0, lambda: machine.kernel("gemm", 20.0))
        machine.hand_over(BACKWARD)
        for _ in range(20):
            machine.op("MmBackward0", 30.0, lambda: machine.kernel("gemm_backward", 30.0))
        machine.hand_over(MAIN)
        machine.op("Optimizer.step", 40.0, lambda: machine.kernel("adam", 30.0))

    return step


def two_streams(machine: Machine) -> Callable[[], object]:
    """A reduction on a stream of its own follows each product, and the product after next follows it."""

    def step() -> None:
        reduced = 0.0
        for _ in range(30):
            product = machine.kernel("gemm", 50.0, 7, reduced)
            reduced = machine.kernel("reduce", 45.0, 20, product)
        machine.wait()

    return step


def reads_values(machine: Machine) -> Callable[[], object]:
    """A value is read after a few kernels, so that nothing is queued behind it."""

    def step() -> None:
        for _ in range(12):
            for _ in range(4):
                machine.op("aten::mm", 6.0, lambda: machine.kernel("gemm", 60.0))
            machine.op("aten::item", 4.0, lambda: machine.copy("Memcpy DtoH", 2.0))
            machine.op("log", 50.0)

    return step


def full_queue(machine: Machine) -> Callable[[], object]:
    """More kernels are launched than fit the queue, then the CPU has work of its own."""

    def step() -> None:
        for _ in range(1_500):
            machine.op("aten::mul", 1.0, lambda: machine.kernel("mul", 30.0))
        machine.op("load", 40_000.0)
        machine.wait()

    return step


def tiny(machine: Machine) -> Callable[[], object]:
    """Tiny kernels, launched faster than they run, so that gaps count."""

    def step() -> None:
        for _ in range(200):
            machine.kernel("tiny", 6.0)
        machine.wait()

    return step


def alternating(machine: Machine) -> Callable[[], object]:
    """Each kernel is waited for, so that latency and returns count."""

    def step() -> None:
        for _ in range(60):
            machine.op("aten::mm", 5.0, lambda: machine.kernel("gemm", 30.0))
            machine.wait("cudaStreamSynchronize", 7)

    return step


def prefetching(machine: Machine) -> Callable[[], object]:
    """A copy on a stream of its own brings the data of the next step."""
    copied = [0.0]

    def step() -> None:
        machine.op("load", 900.0)
        ready, copied[0] = copied[0], machine.kernel("prefetch", 700.0, 21)
        machine.op("aten::mm", 10.0, lambda: machine.kernel("gemm", 300.0, 7, ready))
        for _ in range(8):
            machine.op("aten::mm", 10.0, lambda: machine.kernel("gemm", 100.0))
        machine.wait("cudaStreamSynchronize", 7)

    return step


def uneven_kernels(machine: Machine) -> Callable[[], object]:
    """A phase that the CPU bounds and one that the GPU does."""

    def step() -> None:
        for _ in range(30):
            machine.op("aten::add", 40.0, lambda: machine.kernel("add", 8.0))
        for _ in range(15):
            machine.op("aten::mm", 10.0, lambda: machine.kernel("gemm", 180.0))

    return step


PROGRAMS: dict[str, Program] = {
    each.__name__: each
    for each in (
        busy, launch_bound, two_threads, two_streams, reads_values,
        full_queue, tiny, alternating, prefetching, uneven_kernels,
    )
}  # fmt: skip
"""Ten programs by name."""


def run(program: Program, altered: Altered = Altered(), steps: int = 6, limit: int | None = 1022) -> Trace:
    """The trace of a program on the machine."""
    machine = Machine(altered, limit)
    return machine.steps(steps, program(machine))
