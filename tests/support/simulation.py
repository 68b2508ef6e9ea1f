"""A program that is simulated in time: one thread that launches on streams, as the profiler would have recorded it.

The thread moves forward as it calls; a kernel starts when it was launched, its stream is free and what it waits for has
ended. Times are µs here and ns in the trace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Any

from tests.support.build import Event, make_trace
from tracetui.model.trace import Device, Kind, Trace

H100 = Device(
    0,
    "NVIDIA H100 80GB HBM3",
    {
        "computeMajor": 9, "computeMinor": 0, "numSms": 132, "warpSize": 32, "maxThreadsPerBlock": 1024,
        "maxThreadsPerMultiprocessor": 2048, "regsPerBlock": 65536, "regsPerMultiprocessor": 65536,
        "sharedMemPerBlock": 49152, "sharedMemPerBlockOptin": 232448, "sharedMemPerMultiprocessor": 233472,
        "totalGlobalMem": 85052162048,
    },
)  # fmt: skip
V100 = Device(
    0,
    "Tesla V100-SXM2-32GB",
    {
        "computeMajor": 7, "computeMinor": 0, "numSms": 80, "warpSize": 32, "maxThreadsPerBlock": 1024,
        "maxThreadsPerMultiprocessor": 2048, "regsPerBlock": 65536, "regsPerMultiprocessor": 65536,
        "sharedMemPerBlock": 49152, "sharedMemPerBlockOptin": 98304, "sharedMemPerMultiprocessor": 98304,
        "totalGlobalMem": 34089730048,
    },
)  # fmt: skip

PRODUCT = "nvjet_tst_128x128_64x6_2x1_v_bz_TNT"
"""A bf16 product on Tensor Cores."""
ADDITION = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>, "
    "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul>)"
)
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
SQUARE = [[4096, 4096], [4096, 4096]]
"""Shapes of the operands of a product."""
LATENCY_US = 4.0
"""From the call of a launch to the start on an idle stream."""
MAIN = ("100", "100")


class Simulation:
    """A program and what the profiler records of it."""

    def __init__(self, device: Device = H100) -> None:
        self.now = 1_000.0
        """Time of the thread in µs."""
        self.free: dict[int, float] = {}
        """Time in µs at which each stream has run what was launched on it."""
        self.events: list[Event] = []
        self._device = device
        self._correlation = count(100)

    def work(self, us: float) -> None:
        """The thread does something that is not recorded."""
        self.now += us

    def slice(self, name: str, kind: Kind, body: Callable[[], object], args: dict[str, Any] | None = None) -> None:
        """A recorded slice around what happens in it."""
        start = self.now
        body()
        self._record(name, kind, start, self.now - start, args=args)

    def note(self, name: str, body: Callable[[], object]) -> None:
        """An annotation around what happens in it."""
        self.slice(name, Kind.ANNOTATION, body)

    def op(
        self,
        name: str,
        body: Callable[[], object] = lambda: None,
        us: float = 8.0,
        shapes: Sequence[object] | None = None,
        dtype: str = "c10::BFloat16",
    ) -> None:
        """An operator that takes some time of its own before what happens in it."""
        args = None
        if shapes is not None:
            args = {"Input Dims": list(shapes), "Input type": [dtype] * len(shapes)}

        def run() -> None:
            self.work(us)
            body()

        self.slice(name, Kind.CPU_OP, run, args)

    def call(self, name: str, us: float) -> None:
        """A runtime call that launches nothing."""
        self.slice(name, Kind.RUNTIME, lambda: self.work(us))

    def kernel(self, name: str, us: float, stream: int = 7, *, blocks: int = 1320, after: float = 0.0) -> float:
        """Launch a kernel; returns when it ends."""
        args = {"grid": [blocks, 1, 1], "block": [256, 1, 1], "registers per thread": 64, "shared memory": 0}
        return self._launch(name, Kind.KERNEL, us, stream, "cudaLaunchKernel", args, after=after)

    def copy(self, name: str, us: float, size: int, *, blocking: bool = False) -> float:
        """Launch a copy; the call of a blocking one returns when the copy has ended."""
        return self._launch(name, Kind.MEMCPY, us, 7, "cudaMemcpyAsync", {"bytes": size}, blocking=blocking)

    def replay(self, nodes: Sequence[tuple[str, float, float]], lost: frozenset[int] = frozenset()) -> None:
        """Launch a graph of nodes (name, µs, pause before it); lost nodes run and are not recorded."""
        correlation = next(self._correlation)
        start = self.now
        self.now += 60.0
        self._record("cudaGraphLaunch", Kind.RUNTIME, start, 60.0, correlation=correlation)
        at = max(self.now + LATENCY_US, self.free.get(7, 0.0))
        for number, (name, us, pause) in enumerate(nodes):
            at += pause
            if number not in lost:
                args = {"graph node id": number, "grid": [1320, 1, 1], "block": [256, 1, 1]}
                self._record(name, Kind.KERNEL, at, us, ("0", "stream 7"), correlation, args)
            at += us
        self.free[7] = at

    def wait(self, name: str = "cudaStreamSynchronize") -> None:
        """The thread waits until all streams have run everything."""
        self.call(name, max(max(self.free.values(), default=0.0) - self.now, 0.0) + 3.0)

    def item(self) -> None:
        """Read one value, as `.item()` does."""

        def read() -> None:
            self.copy("Memcpy DtoH (Device -> Pageable)", 1.5, 4, blocking=True)
            self.wait()

        self.op("aten::item", lambda: self.op("aten::_local_scalar_dense", read, us=2.0), us=2.0)

    def add(self, us: float) -> None:
        """An addition of its own."""
        self.op("aten::add", lambda: self.kernel(ADDITION, us), us=12.0)

    def layer(self, us: float = 300.0, product: str = PRODUCT, dtype: str = "c10::BFloat16") -> None:
        """A large product and an addition, launched sooner than they run."""

        def multiply() -> None:
            self.op("aten::mm", lambda: self.kernel(product, us), shapes=SQUARE, dtype=dtype)

        self.op("aten::linear", multiply, shapes=SQUARE, dtype=dtype)
        self.op("aten::add", lambda: self.kernel(ADDITION, 12.0), shapes=[*SQUARE, []], dtype=dtype)

    def steps(self, number: int, body: Callable[[int], object]) -> None:
        """A number of profiler steps."""
        for index in range(number):
            self.note(f"ProfilerStep#{index}", partial(body, index))

    def trace(self) -> Trace:
        """What was recorded, with the profiler's wait at the end."""
        self.wait("cudaDeviceSynchronize")
        return make_trace(self.events, [self._device])

    def _launch(
        self,
        name: str,
        kind: Kind,
        us: float,
        stream: int,
        api: str,
        args: dict[str, Any],
        *,
        after: float = 0.0,
        blocking: bool = False,
    ) -> float:
        correlation = next(self._correlation)
        called = self.now
        start = max(called + LATENCY_US, self.free.get(stream, 0.0), after)
        self.free[stream] = start + us
        self._record(name, kind, start, us, ("0", f"stream {stream}"), correlation, args)
        self.now = start + us + 2.0 if blocking else called + 4.0
        self._record(api, Kind.RUNTIME, called, self.now - called, correlation=correlation)
        return start + us

    def _record(
        self,
        name: str,
        kind: Kind,
        start: float,
        us: float,
        lane: tuple[str, str] = MAIN,
        correlation: int | None = None,
        args: dict[str, Any] | None = None,
    ) -> None:
        ids = {} if correlation is None else {"correlation": correlation}
        self.events.append(Event(name, round(1000 * start), round(1000 * us), kind, lane, args=args, **ids))
