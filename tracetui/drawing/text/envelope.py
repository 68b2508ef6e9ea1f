"""Around every JSON document of the tool: the version of its schema, the tool, and the units of its numbers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import orjson

from tracetui import __version__

if TYPE_CHECKING:
    # Loads numpy, which a recording need not wait for.
    from tracetui.model.table import ColumnSpec

SCHEMA_VERSION = 1
"""Raised when a document loses a field or changes the meaning of one; a new field raises nothing."""
SUFFIX_UNITS = {
    "bytes": "bytes",
    "ns": "ns",
    "pct": "%",
    "ppm": "ppm",
    "s": "s",
    "seconds": "s",
    "us": "us",
}
"""Units by the last word of a field's name, as in `duration_us`; those of columns are declared with them."""


def json_text(
    name: str, document: Mapping[str, Any], columns: Iterable[ColumnSpec] = (), *, indented: bool = False
) -> str:
    """A document as JSON with a line break at its end.

    `name` is that of the schema, `docs/schema/NAME.json`; `columns` are those of its rows, whose units are listed.
    """
    declared = {spec.name: spec.unit for spec in columns}
    units = {key: unit for key, unit in {**_suffix_units(document), **declared}.items() if unit}
    around = {
        "schema": f"tracetui/{name}/{SCHEMA_VERSION}",
        "tool": {"name": "tracetui", "version": __version__},
        "units": dict(sorted(units.items())),
    }
    whole = {**around, **document}
    indent = orjson.OPT_INDENT_2 if indented else 0
    try:
        return orjson.dumps(whole, option=orjson.OPT_APPEND_NEWLINE | indent).decode()
    except TypeError:
        # A path that is no text in UTF-8, or an integer above 64 bits out of a trace.
        return json.dumps(whole, indent=2 if indented else None) + "\n"


def _suffix_units(value: object) -> dict[str, str]:
    """Units of the fields of objects within a value; of a list of rows the first one stands for all."""
    if isinstance(value, list | tuple):
        return {key: unit for each in value[:1] for key, unit in _suffix_units(each).items()}
    if not isinstance(value, Mapping):
        return {}
    found: dict[str, str] = {}
    for key, inner in value.items():
        last = str(key).rpartition("_")[2]
        if last in SUFFIX_UNITS and isinstance(inner, int | float | list | tuple | None):
            found[str(key)] = SUFFIX_UNITS[last]
        found |= _suffix_units(inner)
    return found
