"""A program on a GPU that is simulated, and what the profiler of PyTorch would have recorded of it.

One thread calls operators and launches, one stream runs in order what was launched, and the CPU waits where a real
program would. Times are in microseconds. The events are those that `export_chrome_trace` writes: slices of operators
and annotations, runtime calls and GPU activities with their correlation, and the flows between the two.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from math import prod
from typing import Any

from tracetui.frozen import frozen

PID = THREAD = 4242
STREAM = 7
LATENCY_US = 4.2
"""From the call of a launch to the start of its kernel on an idle stream: what cards of these years need at least."""
QUEUE_GAP_US = 0.6
"""Between two kernels of which the second one waited: 26 µs less 23.1 µs of six kernels, by five (part 1)."""
LAUNCH_US = 4.5
"""The call of a launch on the CPU."""
QUERY_US = 1.1
"""An occupancy query."""
EXACT = (1.0, 1.0)
"""Factors of times that vary not at all."""
Shapes = Sequence[Sequence[int]]
Dims = tuple[int, int, int]


@frozen(eq=True, slots=True)
class Kernel:
    """A kernel: how it is launched, and how long it runs."""

    name: str
    us: float
    grid: Dims
    block: Dims = (128, 1, 1)
    registers: int = 32
    shared: int = 0
    """Bytes per block."""


class Program:
    """A simulated program while it runs."""

    def __init__(
        self,
        device: Mapping[str, Any],
        *,
        cpu_varies: tuple[float, float] = EXACT,
        gpu_varies: tuple[float, float] = EXACT,
        dtype: str = "c10::BFloat16",
        gap_us: float = QUEUE_GAP_US,
    ) -> None:
        """`cpu_varies` and `gpu_varies` are the least and the greatest factor of every time on each."""
        self.events: list[dict[str, Any]] = []
        self.now = 0.0
        self.thread = THREAD
        self._device, self._dtype, self._gap = dict(device), dtype, gap_us
        self._cpu, self._gpu = cpu_varies, gpu_varies
        self._random = random.Random(7)
        self._free = 0.0
        self._correlation = self._ops = 0
        self._open = [0]
        self._launched: list[tuple[float, float]] = []

    def spend(self, us: float) -> None:
        """Let the CPU work for a while."""
        self.now += us * self._random.uniform(*self._cpu)

    def reach(self, us: float) -> None:
        """Let the CPU work until a time, where that is not past."""
        self.now = max(self.now, us)

    def slice(self, cat: str, name: str, start: float, end: float, args: Mapping[str, Any], **more: Any) -> None:
        """Record a slice, of the thread unless `more` names another."""
        first, last = round(start, 3), round(end, 3)
        made = {"ph": "X", "cat": cat, "name": name, "pid": PID, "tid": self.thread, "ts": first}
        self.events.append({**made, "dur": round(last - first, 3), "args": dict(args), **more})

    @contextmanager
    def op(self, name: str, shapes: Shapes = (), us: float = 2.0, cat: str = "cpu_op", **more: Any) -> Iterator[None]:
        """An operator, half of whose own time passes before what it calls."""
        self._ops += 1
        self._open.append(self._ops)
        args: dict[str, Any] = {"External id": self._ops, "Record function id": 0, **more}
        if shapes:
            args |= {"Input Dims": [list(each) for each in shapes]}
            args |= {"Input type": [self._dtype if each else "Scalar" for each in shapes]}
        start, first = self.now, len(self._launched)
        self.spend(us / 2)
        yield
        self.spend(us / 2)
        self._open.pop()
        self.slice(cat, name, start, self.now, args)
        if cat == "user_annotation" and (launched := self._launched[first:]):
            gpu = min(launched)[0], max(end for _, end in launched)
            self.slice("gpu_user_annotation", name, *gpu, {"External id": args["External id"]}, pid=0, tid=STREAM)

    def annotation(self, name: str, us: float = 2.0) -> Any:
        """A `record_function`, or a step of the profiler."""
        return self.op(name, (), us, "user_annotation")

    def view(self, name: str, shapes: Shapes = (), us: float = 1.0) -> None:
        """An operator that calls nothing."""
        with self.op(name, shapes, us):
            pass

    def call(self, name: str, us: float, correlation: int = 0, cat: str = "cuda_runtime") -> float:
        """A call of the runtime, or of the driver; returns when it began."""
        start = self.now
        self.spend(us)
        args = {"External id": self._open[-1], "cbid": 211, "correlation": correlation}
        self.slice(cat, name, start, self.now, args)
        return start

    def query(self) -> None:
        """cuBLAS asks how many blocks of a kernel fit on a multiprocessor."""
        self.call("cudaOccupancyMaxActiveBlocksPerMultiprocessor", QUERY_US)

    def launch(self, kernel: Kernel, api: str = "cudaLaunchKernel", us: float = LAUNCH_US) -> None:
        """Launch a kernel."""
        threads, per_sm = prod(kernel.block), prod(kernel.grid) / self._device["numSms"]
        args = {
            "queued": 0,
            "grid": list(kernel.grid),
            "block": list(kernel.block),
            "registers per thread": kernel.registers,
            "shared memory": kernel.shared,
            "blocks per SM": round(per_sm, 6),
            "warps per SM": round(per_sm * -(-threads // 32), 6),
            "est. achieved occupancy %": _occupancy(json.dumps(self._device), kernel),
        }
        self.enqueue(api, us, "kernel", kernel.name, kernel.us, args)

    def enqueue(self, api: str, call_us: float, cat: str, name: str, us: float, args: Mapping[str, Any]) -> float:
        """Put a GPU activity on the stream, with the flow that leads to it; returns when it ends."""
        self._correlation += 1
        driver = "cuda_driver" if api.startswith("cu") and not api.startswith("cuda") else "cuda_runtime"
        began = self.call(api, call_us, self._correlation, driver)
        queued = self._free + self._gap if self._free else 0.0
        start = max(began + LATENCY_US, queued)
        self._free = end = start + us * self._random.uniform(*self._gpu)
        self._launched.append((start, end))
        place = {"device": 0, "context": 1, "stream": STREAM, "correlation": self._correlation}
        self.slice(cat, name, start, end, {"External id": self._open[-1], **place, **args}, pid=0, tid=STREAM)
        flow = {"cat": "ac2g", "name": "ac2g", "id": self._correlation}
        ends = {"ph": "s", "pid": PID, "tid": self.thread}, {"ph": "f", "pid": 0, "tid": STREAM, "bp": "e"}
        for each, at in zip(ends, (began, start), strict=True):
            self.events.append({**flow, **each, "ts": round(at, 3)})
        return end

    def synchronize(self, name: str = "cudaDeviceSynchronize", least_us: float = 6.0) -> None:
        """Wait until the stream has run everything, and no shorter than `least_us`."""
        start = self.now
        self.now = max(self._free + 2, start + least_us)
        self.slice("cuda_runtime", name, start, self.now, {"External id": self._open[-1], "cbid": 165})

    def trace(self, metadata: Mapping[str, Any], threads: Mapping[int, str] | None = None) -> dict[str, Any]:
        """The trace as it stands in a file; `threads` are the names of threads by number."""
        process = [("process_name", PID, 0, "name", "python"), ("process_name", 0, 0, "name", "python")]
        process += [("process_labels", PID, 0, "labels", "CPU"), ("process_labels", 0, 0, "labels", "GPU 0")]
        process += [("thread_name", 0, STREAM, "name", f"stream {STREAM} ")]
        for number, name in (threads or {THREAD: f"thread {THREAD} (python)"}).items():
            process.append(("thread_name", PID, number, "name", name))
        named = [
            {"ph": "M", "name": what, "pid": pid, "tid": tid, "ts": 0, "args": {key: name}}
            for what, pid, tid, key, name in process
        ]
        ordered = sorted(self.events, key=lambda each: each["ts"])
        return {"schemaVersion": 1, "deviceProperties": [self._device], **metadata, "traceEvents": [*ordered, *named]}


@lru_cache(maxsize=256)
def _occupancy(device: str, kernel: Kernel) -> int:
    """The estimate that the profiler prints with a kernel, on a device given as JSON."""
    # These load numpy, for which listing the demos need not wait.
    import numpy as np

    from tracetui.devices.descriptions import limits_of
    from tracetui.devices.residency import kineto_percent
    from tracetui.model.trace import Device

    limits = limits_of(Device(0, "", json.loads(device)))
    if limits is None:
        raise ValueError("the limits of the simulated device are not known")
    numbers = (prod(kernel.grid), prod(kernel.block), kernel.registers, kernel.shared)
    return int(kineto_percent(limits, *(np.array([each], np.int64) for each in numbers))[0])
