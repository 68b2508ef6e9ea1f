"""Around every JSON document of the tool: the version of its schema, the tool, and the units of its numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from tracetui import __version__
from tracetui.model.table import ColumnSpec

SCHEMA_VERSION = 1
"""Raised when a document loses a field or changes the meaning of one; a new field raises nothing."""


def json_text(
    name: str, document: Mapping[str, Any], columns: Iterable[ColumnSpec] = (), *, indented: bool = False
) -> str:
    """A document as JSON with a line break at its end.

    `name` is that of the command or, of `show`, `show`; `columns` are those of its rows, whose units are listed.
    """
    around = {
        "schema": f"tracetui/{name}/{SCHEMA_VERSION}",
        "tool": {"name": "tracetui", "version": __version__},
        "units": {spec.name: spec.unit for spec in columns if spec.unit},
    }
    indent = orjson.OPT_INDENT_2 if indented else 0
    return orjson.dumps({**around, **document}, option=orjson.OPT_APPEND_NEWLINE | indent).decode()
