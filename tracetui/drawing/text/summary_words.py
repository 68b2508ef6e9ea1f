"""The summary as people read it: keys as words, and every number with its unit."""

from __future__ import annotations

import re
from dataclasses import replace

from tracetui.model.quantities import SCALED_UNITS, quantity
from tracetui.model.table import Cell, Table, texts

_UNITS = re.compile(r"_(us|bytes)$")
_PHRASES = {
    "gpu_busy_pct": "GPU busy share of the whole time",
    "idle_pct": "GPU idle share from first to last activity",
    "step_idle_pct": "GPU idle share of a step",
    "step_wait_us": "GPU wait before a step",
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
    """`gpu_busy_pct` as `GPU busy share`."""
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
