"""Collects the samples of counters (ph C): every number among the arguments is a series of its own."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np

from tracetui.importers.decode import number_of
from tracetui.importers.lanes import Naming, lane_text
from tracetui.model.trace import Counter, Quality

MAX_SERIES = 10_000
"""Series of counters that are kept; each takes a kilobyte."""


class CounterSamples:
    """Samples in the order of the file, as parallel arrays."""

    def __init__(self) -> None:
        self._series: dict[tuple[str, str, str, str], int] = {}
        """Numbers of series, by process, name of the counter, its id, and name of the series."""
        self._number, self._event = array("i"), array("i")
        self._time, self._value = array("q"), array("d")
        self._without_number = self._beyond = 0

    @property
    def times(self) -> list[int]:
        """The first and the last time, none of no samples."""
        return [min(self._time), max(self._time)] if self._time else []

    def add(self, event: dict[str, Any], args: dict[str, Any], time: int, number: int) -> None:
        """Take in one event: its time in ns, and its number in the file."""
        counter = lane_text(event.get("pid")), str(event.get("name")), str(event.get("id", ""))
        for name, value in args.items():
            level = float(value) if isinstance(value, bool) else number_of(value)
            if level != level:
                self._without_number += isinstance(value, (int, float))
                continue
            series = self._series.get((*counter, name))
            if series is None:
                if len(self._series) >= MAX_SERIES:
                    self._beyond += 1
                    continue
                series = self._series[*counter, name] = len(self._series)
            self._number.append(series)
            self._time.append(time)
            self._value.append(level)
            self._event.append(number)

    def counters(self, naming: Naming, origin: int, quality: Quality) -> tuple[Counter, ...]:
        """Every series, with times in ns from `origin`."""
        number, time = np.array(self._number, np.int32), np.array(self._time, np.int64)
        order = np.lexsort((time, number))
        bounds = np.searchsorted(number[order], np.arange(len(self._series) + 1)).tolist()
        value, event = np.array(self._value, np.float64), np.array(self._event, np.int32)
        found = []
        for ((pid, name, identity, series), _), first, last in zip(
            self._series.items(), bounds, bounds[1:], strict=False
        ):
            rows = order[first:last]
            found.append(
                Counter(
                    process=naming.process.get(pid, pid),
                    name=f"{name} {identity}".strip(),
                    series=series,
                    time=time[rows] - origin,
                    value=value[rows],
                    pid=pid,
                    event=event[rows],
                )
            )
        if self._beyond:
            quality.notes.append(
                f"Counters have more than {MAX_SERIES:,} series: {self._beyond:,} values of further ones are not shown."
            )
        if self._without_number:
            are = "value of a counter is" if self._without_number == 1 else "values of counters are"
            quality.notes.append(f"{self._without_number:,} {are} beyond every number and not shown.")
        return tuple(found)
