"""The keys of the object around the events, such as the properties of the devices."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from tracetui.importers.decode import decoded
from tracetui.importers.layout import FileLayout
from tracetui.importers.tolerant import parse_value, readable
from tracetui.model.trace import Quality

MAX_VALUE = 1 << 23
"""Bytes of a value beyond which it is not kept in memory: as Python objects it takes twenty times as much."""
_TOP_KEY = re.compile(r'"([A-Za-z_]+)"\s*:\s*')
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])


def top_keys(layout: FileLayout, quality: Quality) -> dict[str, Any]:
    """The keys around the events; one by one where they are not valid JSON together."""
    if layout.container != "object":
        return {}
    found = _whole(layout, quality)
    rest = [layout.header, layout.trailer] if found is None else []
    found = {} if found is None else found
    for part in map(readable, (*rest, *layout.between)):
        index = 0
        while match := _TOP_KEY.search(part, index):
            value, index = parse_value(part, match.end())
            if index > match.end() and match[1] != "traceEvents":
                found.setdefault(match[1], value)
    return found


def _whole(layout: FileLayout, quality: Quality) -> dict[str, Any] | None:
    """The keys of the object if it is valid JSON."""
    try:
        fields = _fields.decode(layout.header + b"[]" + layout.trailer)
        found: dict[str, Any] = {}
        for key, value in fields.items():
            size = len(memoryview(value))
            if key == "traceEvents":
                continue
            if size > MAX_VALUE:
                quality.notes.append(f"The value of the key {key!r} beside the events, {size:,} bytes, is not shown.")
            else:
                found[key] = decoded(bytes(value))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return found
