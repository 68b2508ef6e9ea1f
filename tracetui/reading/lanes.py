"""The lane of each event, and the names and the order of lanes.

A lane is a process, a thread and a kind of lane. Process and thread are compared as text, because one file may
write the same thread as `"25738"` and as `25738`; the kind comes from the categories on it, because a process id
may be a device index as well (R2.3).
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from tracetui.model.hardware_counters import gpu_of_process, hardware_counter
from tracetui.model.recorded import number_name, rank_of_process
from tracetui.model.trace import Counter, Float64, Int32, Int64, LaneKind, Quality
from tracetui.reading.decode import number_of, text_of

_STREAM = re.compile(r"stream (\d+)$")
_GENERIC_THREAD = re.compile(r"thread -?\d+( \((python\d*(\.\d+)?|pt_main_thread)?\))?$")

LaneKey = tuple[str, str, LaneKind]

_ORDER = {
    LaneKind.CPU: 0,
    LaneKind.ASYNC: 1,
    LaneKind.OVERHEAD: 2,
    LaneKind.GPU_ANNOTATION: 3,
    LaneKind.GPU: 3,
    LaneKind.SYNC: 3,
    LaneKind.BOOKKEEPING: 4,
}
_ON_DEVICE = (LaneKind.GPU_ANNOTATION, LaneKind.GPU, LaneKind.SYNC)


def lane_text(value: Any) -> str:
    """A process or thread id as text; `7`, `7.0`, `"7"` and `"stream 7"` are the same."""
    if type(value) is int:
        return str(value)
    if value is None:
        return "0"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else number_name(value) if not isfinite(value) else repr(value)
    text = value.strip() if isinstance(value, str) else text_of(value)
    stream = _STREAM.match(text)
    return stream[1] if stream else text


@dataclass
class Naming:
    """Names and order of processes and threads, from metadata events (section 1.4)."""

    process: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    process_order: dict[str, float] = field(default_factory=dict)
    thread: dict[tuple[str, str], str] = field(default_factory=dict)
    thread_order: dict[tuple[str, str], float] = field(default_factory=dict)

    def read(self, pid: Any, tid: Any, name: str, args: Mapping[str, Any]) -> None:
        """Take in one metadata event."""
        process, thread = lane_text(pid), (lane_text(pid), lane_text(tid))
        text = args.get("name")
        if name == "process_name" and isinstance(text, str):
            self.process[process] = text.strip()
        elif name == "process_labels" and isinstance(args.get("labels"), str):
            self.labels[process] = args["labels"].strip()
        elif name == "process_sort_index" and isinstance(args.get("sort_index"), (int, float)):
            self.process_order[process] = args["sort_index"]
        elif name == "thread_sort_index" and isinstance(args.get("sort_index"), (int, float)):
            self.thread_order[thread] = args["sort_index"]
        elif name == "thread_name" and isinstance(text, str):
            self._name_thread(thread, text.strip().removesuffix(" ()"))

    def _name_thread(self, thread: tuple[str, str], text: str) -> None:
        known = self.thread.get(thread)
        if known is None or _GENERIC_THREAD.match(known) or not _GENERIC_THREAD.match(text):
            self.thread[thread] = text

    def lane_name(self, key: LaneKey) -> str:
        """The lane's own name; never empty."""
        pid, tid, kind = key
        if kind in _ON_DEVICE:
            name = self.thread.get((pid, tid), "").removesuffix("context").strip()
            if not name or _GENERIC_THREAD.match(name):
                name = f"stream {tid}" if tid.lstrip("-").isdigit() else tid
            return f"{name} annotations" if kind is LaneKind.GPU_ANNOTATION else name
        if kind is LaneKind.ASYNC:
            return tid or "async"
        return self.thread.get((pid, tid)) or (f"thread {tid}" if tid.lstrip("-").isdigit() else tid) or "thread"

    def process_name(self, key: LaneKey) -> str:
        """The name of the lane's process, with its id or label."""
        pid, _, kind = key
        label, name = self.labels.get(pid, ""), self.process.get(pid, "")
        if rank_of_process(name) is not None:
            # It holds the id or the label that it had in the file of its rank.
            return name
        if kind in _ON_DEVICE:
            return label if label.startswith(("GPU", "XPU", "MTIA")) else f"GPU {pid}"
        if kind is LaneKind.OVERHEAD:
            return name or "profiler"
        if not pid.lstrip("-").isdigit():
            return name or pid or "process"
        return f"{name or 'process'} {pid}"

    def sort_key(self, key: LaneKey) -> tuple[Any, ...]:
        """Orders lanes as a person reads them: rank by rank, then threads, then the profiler's own, then devices."""
        pid, tid, kind = key
        rank = rank_of_process(self.process.get(pid, ""))
        return (
            float("inf") if kind is LaneKind.BOOKKEEPING else -1 if rank is None else rank,
            _ORDER[kind],
            self.process_order.get(pid, 0),
            _natural(pid),
            self.thread_order.get((pid, tid), 0) if tid != pid else float("-inf"),
            _natural(tid),
            # Annotations stand above the stream that they describe.
            -kind if kind is LaneKind.GPU_ANNOTATION else kind,
        )


def _natural(text: str) -> list[tuple[bool, int, str]]:
    """Sorts numbers inside texts as numbers, and pure numbers first."""
    if text.lstrip("-").isdecimal():
        return [(False, int(text), "")]
    parts = re.split(r"(\d{1,18})", text)
    return [(True, int(part) if part.isdecimal() else 0, part) for part in parts]


class LaneTable:
    """Numbers lanes as they turn up, and finds the one that an event without a kind of its own means."""

    def __init__(self) -> None:
        self.keys: list[LaneKey] = []
        self._numbers: dict[LaneKey, int] = {}

    def number(self, key: LaneKey) -> int:
        """The number of a lane, which is added when it is new."""
        if key not in self._numbers:
            self._numbers[key] = len(self.keys)
            self.keys.append(key)
        return self._numbers[key]

    def nearest(self, pid: Any, tid: Any, prefer: LaneKind = LaneKind.CPU) -> int:
        """The lane of a process and thread: of the preferred kind, else any that exists, else a new one."""
        process, thread = lane_text(pid), lane_text(tid)
        for kind in (
            prefer,
            LaneKind.CPU,
            LaneKind.GPU,
            LaneKind.SYNC,
            LaneKind.GPU_ANNOTATION,
            LaneKind.OVERHEAD,
            LaneKind.ASYNC,
        ):
            number = self._numbers.get((process, thread, kind))
            if number is not None:
                return number
        return self.number((process, thread, prefer))


# Collects the samples of counters (ph C): every number among the arguments is a series of its own.
#
# Counters of the hardware stand under the process `GPU N Counters` (R2.15), or have the category `mtia_counters` and
# the number of the device as process.

MAX_SERIES = 10_000
"""Series of counters that are kept; each takes a kilobyte."""


MTIA_COUNTERS = "mtia_counters"
"""Category of the counters of MTIA devices, several in each event."""


class Samples(NamedTuple):
    """The samples of one counter in order of time."""

    time: Int64
    value: Float64
    event: Int32


class CounterSamples:
    """Samples in the order of the file, as parallel arrays."""

    def __init__(self) -> None:
        self._series: dict[tuple[str, str, str, str, bool], int] = {}
        """Numbers of series, by process, name of the counter, its id, name of the series, and whether it is MTIA's."""
        self._number, self._event = array("i"), array("i")
        self._time, self._value = array("q"), array("d")
        self._units: dict[int, str] = {}
        """Units of series that have one, by number."""
        self._without_number = self._beyond = 0

    @property
    def times(self) -> list[int]:
        """The first and the last time, none of no samples."""
        return [min(self._time), max(self._time)] if self._time else []

    def add(self, event: dict[str, Any], args: dict[str, Any], time: int, number: int) -> None:
        """Take in one event: its time in ns, and its number in the file."""
        counter = lane_text(event.get("pid")), str(event.get("name")), str(event.get("id", ""))
        is_mtia = event.get("cat") == MTIA_COUNTERS
        for name, value in args.items():
            level = float(value) if isinstance(value, bool) else number_of(value)
            if level != level:
                self._without_number += isinstance(value, (int, float))
                continue
            key = *counter, name, is_mtia
            series = self._series.get(key)
            if series is None:
                if len(self._series) >= MAX_SERIES:
                    self._beyond += 1
                    continue
                series = self._series[key] = len(self._series)
            self._number.append(series)
            self._time.append(time)
            self._value.append(level)
            self._event.append(number)

    def extend(self, process: str, name: str, time: Int64, value: Float64, event: Int64, unit: str = "") -> None:
        """Take in samples of one series: their times in ns, and their numbers in the file."""
        finite = np.isfinite(value)
        self._without_number += int(np.count_nonzero(~finite))
        key = process, name, "", "", False
        if key not in self._series and len(self._series) >= MAX_SERIES:
            self._beyond += len(time)
            return
        series = self._series.setdefault(key, len(self._series))
        if unit:
            self._units[series] = unit
        count = int(np.count_nonzero(finite))
        self._number.extend([series] * count)
        self._time.frombytes(time[finite].astype(np.int64).tobytes())
        self._value.frombytes(value[finite].astype(np.float64).tobytes())
        self._event.frombytes(event[finite].astype(np.int32).tobytes())

    def counters(self, naming: Naming, origin: int, quality: Quality) -> tuple[Counter, ...]:
        """Every series, with times in ns from `origin`."""
        number, time = np.array(self._number, np.int32), np.array(self._time, np.int64)
        value, event = np.array(self._value, np.float64), np.array(self._event, np.int32)
        order = np.lexsort((event, time, number))
        bounds = np.searchsorted(number[order], np.arange(len(self._series) + 1)).tolist()
        counters = []
        keys = zip(self._series.items(), bounds, bounds[1:], strict=False)
        for ((pid, name, identity, series, is_mtia), index), first, last in keys:
            rows = order[first:last]
            samples = Samples(time[rows] - origin, value[rows], event[rows])
            if is_mtia:
                gpu = int(pid) if pid.isascii() and pid.isdigit() and len(pid) < 10 else -1
            else:
                gpu = gpu_of_process(pid)
            process, title = naming.process.get(pid, pid), f"{name} {identity}".strip()
            if gpu >= 0:
                counter = hardware_counter(gpu, _hardware_name(title, series, is_mtia), process, *samples)
                counters.append(replace(counter, pid=pid))
            else:
                unit = self._units.get(index, "")
                counters.append(Counter(process, title, series, samples.time, samples.value, unit, pid, samples.event))
        if self._beyond:
            quality.notes.append(
                f"Counters have more than {MAX_SERIES:,} series: {self._beyond:,} values of further ones are not shown."
            )
        if self._without_number:
            are = "value of a counter is" if self._without_number == 1 else "values of counters are"
            quality.notes.append(f"{self._without_number:,} {are} beyond every number and not shown.")
        return tuple(counters)


def _hardware_name(name: str, series: str, is_mtia: bool) -> str:
    """The name of a hardware counter: its event's, or of many in one event the series'."""
    if is_mtia:
        return series or name
    return name if series in ("", name) else f"{name} {series}"
