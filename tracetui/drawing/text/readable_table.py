"""A table for reading by eye: the columns that say something, their cells as texts, and the remarks below.

The same for columns on a terminal, Markdown and a report; JSON and CSV carry everything.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypedDict

import numpy as np

from tracetui.drawing.format import cut_name, notes, number_texts, shorten
from tracetui.frozen import frozen
from tracetui.kernel_names.slice_names import short_kernel
from tracetui.model.intervals import Int64, Part, TimeRange
from tracetui.model.quantities import ABSENT, SCALED_UNITS, count, quantity
from tracetui.model.table import Cell, Column, Table, TextKind, texts
from tracetui.model.trace import Trace
from tracetui.text import clean

NAME_WIDTH = 60
"""Characters of a name in a table."""


def telling(table: Table) -> list[Column]:
    """The columns without those that hold nothing, and without long names beside short ones."""
    columns = [column for column in table.columns if not len(table) or not column.nulls().all()]
    if any(column.name == "short_name" for column in columns):
        columns = [column for column in columns if column.name != "name"]
    return columns


def chosen(table: Table) -> list[Column]:
    """The columns of a table whose columns were chosen by name: the recorded name of a kernel stands in full."""
    return [
        replace(column, spec=replace(column.spec, text=TextKind.RECORDED))
        if column.name == "name" and column.spec.text is TextKind.KERNEL
        else column
        for column in table.columns
    ]


def shown_texts(column: Column, width: int = NAME_WIDTH) -> list[str]:
    """The column as texts to read, names shortened to `width`."""
    texts, index = distinct_texts(column, width)
    return [texts[each] for each in index.tolist()]


def distinct_texts(column: Column, width: int = NAME_WIDTH) -> tuple[list[str], Int64]:
    """The texts of a column, as `shown_texts` has them, each value once; and the index of the one of every row."""
    if column.strings is None and column.spec.is_moment:
        # They hardly repeat.
        rows = np.arange(len(column))
        return number_texts(column, rows), rows
    _, first, index = np.unique(column.values, return_index=True, return_inverse=True)
    if column.strings is None:
        if column.doubtful is not None:
            _, first, index = np.unique(2 * index + column.doubtful, return_index=True, return_inverse=True)
        return number_texts(column, first), index
    texts = []
    for number in column.values[first].tolist():
        text = ABSENT
        if number >= 0:
            text = column.strings[number]
            text = clean(short_kernel(text) if column.spec.text is TextKind.KERNEL else text)
            text = text if column.spec.text in (TextKind.PROSE, TextKind.RECORDED) else cut_text(column, text, width)
        texts.append(text)
    return texts, index


def cut_text(column: Column, text: str, width: int) -> str:
    """A text of a column in `width` characters; of a name what tells it from others stays."""
    return cut_name(text, width) if column.spec.text is TextKind.NAME else shorten(text, width)


def remarks(table: Table, shown: Sequence[Column], dropped: Sequence[Column] = (), offer: str = "") -> list[str]:
    """The remarks below a table: columns that are not there, and the table's own note.

    `offer` says how columns that were dropped are shown.
    """
    seen = {column.name for column in [*shown, *dropped]} | {"name"}
    empty = [column.spec.heading for column in table.columns if column.name not in seen]
    said = []
    if dropped:
        names = ", ".join(column.spec.heading for column in dropped)
        said.append(f"Not shown for want of width: {names}{f' ({offer})' if offer else ''}.")
    if empty:
        said.append(f"Without a value in these rows: {', '.join(empty)}.")
    return [*said, *notes(table)]


# Where a table comes from, for whoever reads it elsewhere: the file, what it was recorded on, which part of it.

DECIMALS = 3
"""Of every float that is written: a nanosecond, where the unit is a microsecond."""


@frozen(eq=True)
class Extent:
    """The part of a pane that a table holds; what is not given is all of it."""

    step: Part | None = None
    """The number of a step, or a range of time."""
    by: str | None = None
    """Name of the grouping of the rows."""
    where: str = ""
    """Only rows that contain this text."""
    rows: int | None = None
    """Number of rows before the list was cut."""
    has_chosen_columns: bool = False
    """True where the columns were chosen by name: all of them are shown, as they are."""

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
        """A sentence with the number of rows left out; empty when none are."""
        if self.rows is None or shown >= self.rows:
            return ""
        return f"{count(shown)} of {count(self.rows)} rows; the other {count(self.rows - shown)} are left out."


WHOLE = Extent()


class TraceFacts(TypedDict):
    """A trace: file, format, sizes, devices, and versions of what recorded it."""

    file: str
    format: str
    size_bytes: int
    events: int
    duration_us: float
    origin_us: float
    devices: list[str]
    versions: dict[str, str]
    partial: bool


def facts(trace: Trace) -> TraceFacts:
    """The identity of a trace in an export: file, format, sizes, devices, and versions of what recorded it."""
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
    """Devices and versions in words: `NVIDIA H100 x2`, `CUDA 13.0`; before them that a trace is simulated."""
    counts = Counter(clean(device.name) for device in trace.devices if device.name)
    devices = [name if number == 1 else f"{name} x{number}" for name, number in counts.items()]
    return [
        *(["simulated, nothing was measured"] if trace.is_simulated else []),
        *devices,
        *(f"{title} {number}" for title, number in versions(trace).items()),
    ]


# The summary as people read it: keys as words, and every number with its unit.

_UNITS = re.compile(r"_(us|bytes)$")
_PHRASES = {
    "steps_found_by": "steps found by",
    "steps_are": "what the steps are",
    "steps_cover_pct": "GPU activities launched in the steps",
    "step_kinds": "kinds of steps",
    "between_steps_pct": "GPU time launched between two steps",
    "gpu_busy_pct": "GPU busy, of the whole time",
    "copies": "copies and fills",
    "idle_pct": "GPU idle, from the first GPU activity to the last",
    "step_idle_pct": "GPU idle, of the periods of the steps",
    "step_wait_us": "GPU wait before a step (median)",
    "mfu_pct": "MFU",
    "flops_known_pct": "FLOPs known, of GPU time",
    "late_pct": "GPU activities starved of launches",
    "idle_cpu_late_pct": "of idle time: starved of a launch",
    "idle_in_launch_pct": "of idle time: inside launch calls",
    "idle_waiting_pct": "of idle time: after the launch call",
    "idle_deduced_pct": "of idle time: probably starved of a launch",
    "idle_unknown_pct": "of idle time: cause unknown",
    "idle_not_recorded_pct": "of idle time: activity not recorded",
    "idle_before_capture_pct": "of idle time: launched before the capture",
    "idle_dependency_pct": "of idle time: > 10 µs after the launch",
    "idle_after_sync_pct": "of idle time: begun while the CPU waited",
    "small_gaps_pct": "of idle time due to the CPU: gaps < 1 ms",
}
"""Keys that are read as a phrase: shares near each other say of what they are."""
_WORDS = {"gpu": "GPU", "cpu": "CPU", "dur": "duration", "comm": "communication", "doubts": "warnings"}
"""Parts of keys that are read otherwise than they are written."""


def readable(table: Table) -> Table:
    """The same rows with words for keys and values; text output and scripts have the keys and plain numbers."""
    rows = list(table.rows())
    idle = {row["key"]: row["number"] for row in rows if row["key"] in ("idle_pct", "step_idle_pct")}
    particular = (
        {"idle_pct": "GPU idle, of the step or range"} if idle and len({*idle.values()}) == 1 < len(idle) else {}
    )
    keys = texts(table["key"].spec, [particular.get(str(row["key"])) or words(str(row["key"])) for row in rows])
    values = texts(table["value"].spec, [_value(row) for row in rows])
    others = [column for column in table.columns if column.name not in ("key", "value", "unit")]
    return replace(table, columns=(keys, values, *others))


def as_read(table: Table, pane: str) -> Table:
    """A pane as it is read by eye: of the summary the keys and values in words, every other as it is."""
    if pane != "summary":
        return table
    table = readable(table)
    return replace(table, columns=table.columns[:2])


def words(key: str) -> str:
    """A key in words: `gemm_pct` as `gemm share`."""
    if key in _PHRASES:
        return _PHRASES[key]
    plain = _UNITS.sub("", key)
    plain = plain[: -len("_pct")] + "_share" if plain.endswith("_pct") else plain
    return " ".join(_WORDS.get(word, word) for word in plain.split("_")).replace("GPU work", "GPU activity")


def _value(row: dict[str, Cell]) -> str | None:
    number, text = row["number"], row["value"]
    if not isinstance(number, int | float):
        return None if text is None else str(text)
    unit = str(row["unit"] or "")
    return quantity(number, unit) if unit in SCALED_UNITS or float(number).is_integer() else str(text)
