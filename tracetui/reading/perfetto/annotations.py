"""Arguments of track events: debug annotations, one by one as Python values, and a few of all events as columns."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any

from tracetui.reading.perfetto.schemas import AnnotationField, InternedField
from tracetui.reading.perfetto.wire import FIXED64, SPAN, DamagedMessage, MessageBytes, fields_of

MAX_DEPTH = 64
"""Levels of lists and dictionaries; what lies deeper is left out."""
TOO_DEEP = "…"
"""Stands for what lies deeper."""


Interned = Callable[[int, int], str]
"""Gives the text of a kind that was interned under a number."""


def not_interned(kind: int, iid: int) -> str:
    """The text of a number where nothing was interned."""
    return ""


def annotation(
    data: MessageBytes, start: int, end: int, interned: Interned = not_interned, depth: int = 0
) -> tuple[str, Any]:
    """The name and the value of a debug annotation; without a value it is an empty list, as torch writes one.

    Raises: DamagedMessage.
    """
    name = ""
    value: Any = None
    items: list[Any] | None = None
    entries: dict[str, Any] | None = None
    for number, wire, found, behind in fields_of(data.raw, start, end):
        if number == AnnotationField.NAME and wire == SPAN:
            name = _text(data, found, behind)
        elif number == AnnotationField.ARRAY and wire == SPAN:
            items = [] if items is None else items
            items.append(annotation(data, found, behind, interned, depth + 1)[1] if depth < MAX_DEPTH else TOO_DEEP)
        elif number == AnnotationField.DICT and wire == SPAN:
            entries = {} if entries is None else entries
            deep = TOO_DEEP, TOO_DEEP
            key, inner = annotation(data, found, behind, interned, depth + 1) if depth < MAX_DEPTH else deep
            entries[key] = inner
        elif number == AnnotationField.NAME_IID and wire != SPAN:
            name = interned(InternedField.ANNOTATION_NAMES, found)
        elif number == AnnotationField.TEXT_IID and wire != SPAN:
            value = interned(InternedField.TEXT_VALUES, found)
        elif number == AnnotationField.NESTED and wire == SPAN:
            value = _nested(data, found, behind, depth)
        else:
            value = _scalar(data, number, wire, found, behind, value)
    if value is not None:
        return name, value
    return name, entries if entries is not None else items or []


def _scalar(data: MessageBytes, number: int, wire: int, found: int, behind: int, before: Any) -> Any:
    """The value of a field that holds a single one; `before` where it is none."""
    if wire == SPAN:
        if number == AnnotationField.TEXT:
            return _text(data, found, behind)
        return _legacy(_text(data, found, behind)) if number == AnnotationField.LEGACY_JSON else before
    if number == AnnotationField.BOOL:
        return bool(found)
    if number == AnnotationField.INT:
        return found - (1 << 64) if found >> 63 else found
    if number == AnnotationField.UINT:
        return found
    if number == AnnotationField.POINTER:
        return hex(found)
    if number == AnnotationField.DOUBLE and wire == FIXED64:
        return struct.unpack("<d", found.to_bytes(8, "little"))[0]
    return before


def _nested(data: MessageBytes, start: int, end: int, depth: int) -> Any:
    """A value in the way that Chrome nests values: keys and values of dictionaries one after the other.

    Raises: DamagedMessage.
    """
    keys: list[str] = []
    values: list[Any] = []
    items: list[Any] = []
    own: Any = None
    for number, wire, found, behind in fields_of(data.raw, start, end):
        if wire == SPAN and number == 2:
            keys.append(_text(data, found, behind))
        elif wire == SPAN and number in (3, 4):
            inner = _nested(data, found, behind, depth + 1) if depth < MAX_DEPTH else TOO_DEEP
            (values if number == 3 else items).append(inner)
        elif wire == SPAN and number == 8:
            own = _text(data, found, behind)
        elif number == 5:
            own = found - (1 << 64) if found >> 63 else found
        elif number == 6 and wire == FIXED64:
            own = struct.unpack("<d", found.to_bytes(8, "little"))[0]
        elif number == 7:
            own = bool(found)
    if own is not None:
        return own
    return dict(zip(keys, values, strict=False)) if keys else items


def _legacy(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _text(data: MessageBytes, start: int, end: int) -> str:
    return data.text(start, end).decode("utf-8", "replace")


def annotation_json(raw: bytes) -> bytes:
    """The value of a debug annotation as JSON; nothing for a damaged one."""
    data = MessageBytes(raw)
    try:
        return json.dumps(annotation(data, 0, data.size)[1]).encode()
    except DamagedMessage:
        return b""


def dimensions_json(raw: bytes) -> bytes:
    """A grid or a block, x, y and z, as a JSON list; what is left out is 1. Nothing for a damaged one."""
    sizes = [1, 1, 1]
    data = MessageBytes(raw)
    try:
        for number, wire, value, _ in fields_of(data.raw, 0, data.size):
            if 1 <= number <= 3 and wire != SPAN:
                sizes[number - 1] = value
    except DamagedMessage:
        return b""
    return json.dumps(sizes).encode()
