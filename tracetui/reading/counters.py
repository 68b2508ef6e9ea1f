"""Collects the samples of counters (ph C): every number among the arguments is a series of its own.

Counters of the hardware stand under the process `GPU N Counters` (R2.15), or have the category `mtia_counters` and
the number of the device as process.
"""

from __future__ import annotations

from array import array
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from tracetui.model.hardware_counters import gpu_of_process, hardware_counter
from tracetui.model.trace import Counter, Float64, Int32, Int64, Quality
from tracetui.reading.decode import number_of
from tracetui.reading.lanes import Naming, lane_text

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
        found = []
        keys = zip(self._series.items(), bounds, bounds[1:], strict=False)
        for ((pid, name, identity, series, is_mtia), index), first, last in keys:
            rows = order[first:last]
            samples = Samples(time[rows] - origin, value[rows], event[rows])
            gpu = _gpu_of(pid, is_mtia)
            process, title = naming.process.get(pid, pid), f"{name} {identity}".strip()
            if gpu >= 0:
                counter = hardware_counter(gpu, _hardware_name(title, series, is_mtia), process, *samples)
                found.append(replace(counter, pid=pid))
            else:
                unit = self._units.get(index, "")
                found.append(Counter(process, title, series, samples.time, samples.value, unit, pid, samples.event))
        if self._beyond:
            quality.notes.append(
                f"Counters have more than {MAX_SERIES:,} series: {self._beyond:,} values of further ones are not shown."
            )
        if self._without_number:
            are = "value of a counter is" if self._without_number == 1 else "values of counters are"
            quality.notes.append(f"{self._without_number:,} {are} beyond every number and not shown.")
        return tuple(found)


def _gpu_of(pid: str, is_mtia: bool) -> int:
    """The number of the device that a counter measures, -1 for a counter of a program."""
    if is_mtia:
        return int(pid) if pid.isascii() and pid.isdigit() and len(pid) < 10 else -1
    return gpu_of_process(pid)


def _hardware_name(name: str, series: str, is_mtia: bool) -> str:
    """The name of a hardware counter: its event's, or of many in one event the series'."""
    if is_mtia:
        return series or name
    return name if series in ("", name) else f"{name} {series}"
