"""Where a table comes from, for whoever reads it elsewhere: the file, what it was recorded on, which part of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tracetui.model.quantities import count
from tracetui.model.time_range import Part, TimeRange
from tracetui.model.trace import Trace
from tracetui.safe_text import clean

DECIMALS = 3
"""Of every float that is written: a nanosecond, where the unit is a microsecond."""


@dataclass(frozen=True)
class Extent:
    """Which part of a pane a table holds; what is not given is all of it."""

    step: Part | None = None
    """The number of a step, or a range of time."""
    by: str | None = None
    """What rows are grouped by."""
    where: str = ""
    """Only rows that contain this text."""
    rows: int | None = None
    """How many rows there were before the list was cut."""
    has_chosen_columns: bool = False
    """Whether the columns were chosen by name: all of them are shown, as they are."""

    def words(self, pane: str) -> str:
        """The pane, grouping, step and filter in words: `kernels by name, step 3`."""
        parts = [f"{pane} by {self.by}" if self.by else pane]
        if isinstance(self.step, TimeRange):
            parts.append(f"range {self.step.text}")
        elif self.step is not None:
            parts.append(f"step {self.step}")
        if self.where:
            parts.append(f"rows with '{clean(self.where)}'")
        return ", ".join(parts)

    def left_out(self, shown: int) -> str:
        """How many rows are not there, as a sentence; empty when all are."""
        if self.rows is None or shown >= self.rows:
            return ""
        return f"{count(shown)} of {count(self.rows)} rows; the other {count(self.rows - shown)} are left out."


WHOLE = Extent()


def facts(trace: Trace) -> dict[str, Any]:
    """What identifies a trace in an export: file, format, sizes, devices, and versions of what recorded it."""
    return {
        "file": clean(trace.label),
        "format": trace.format,
        "size_bytes": trace.size_bytes,
        "events": trace.event_count,
        "duration_us": round((trace.window[1] - trace.window[0]) / 1000, DECIMALS),
        "origin_us": round(trace.origin_us, DECIMALS),
        "devices": [clean(device.name) for device in trace.devices],
        "versions": versions(trace),
        "partial": trace.quality.partial or trace.quality.is_part,
    }


def versions(trace: Trace) -> dict[str, str]:
    """Versions that the file names, as people write them: `{"CUDA": "13.0"}`."""
    scales = {"cuda": (1000, 10), "hip": (10_000_000, 100_000)}
    found = {}
    for title, kind, key in (
        ("CUDA", "cuda", "cuda_runtime_version"),
        ("CUDA driver", "cuda", "cuda_driver_version"),
        ("HIP", "hip", "hip_runtime_version"),
    ):
        number = trace.metadata.get(key)
        if isinstance(number, int):
            major, minor = scales[kind]
            found[title] = f"{number // major}.{number % major // minor}"
    recorder = trace.metadata.get("tracetui")
    if isinstance(recorder, Mapping) and isinstance(recorder.get("torch"), str):
        found["PyTorch"] = clean(recorder["torch"])
    return found


def recorded_on(trace: Trace) -> list[str]:
    """Devices and versions in words: `NVIDIA H100 x2`, `CUDA 13.0`."""
    counts = Counter(clean(device.name) for device in trace.devices if device.name)
    devices = [name if number == 1 else f"{name} x{number}" for name, number in counts.items()]
    return [*devices, *(f"{title} {number}" for title, number in versions(trace).items())]
