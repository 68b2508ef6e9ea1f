"""The summary as people read it: keys as words, and every number with its unit."""

from __future__ import annotations

import re
from dataclasses import replace

from tracetui.model.quantities import SCALED_UNITS, quantity
from tracetui.model.table import Cell, Table, texts

_UNITS = re.compile(r"_(us|bytes)$")
_PHRASES = {
    "steps_found_by": "steps found by",
    "steps_are": "what the steps are",
    "steps_cover_pct": "GPU activities launched in the steps",
    "step_kinds": "kinds of steps",
    "between_steps_pct": "GPU time launched between two steps",
    "gpu_busy_pct": "GPU busy, of the whole time",
    "idle_pct": "GPU idle, from first to last activity",
    "step_idle_pct": "GPU idle, within a step (median)",
    "step_wait_us": "GPU wait before a step (median)",
    "late_pct": "GPU activities launched late",
    "idle_cpu_late_pct": "of idle time: launched late",
    "idle_in_launch_pct": "of idle time: inside launch calls",
    "idle_waiting_pct": "of idle time: after the launch call",
    "idle_deduced_pct": "of idle time: probably launched late",
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
    keys = texts(table["key"].spec, [words(str(row["key"])) for row in rows])
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
