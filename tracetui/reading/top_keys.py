"""The keys of the object around the events, such as the properties of the devices."""

from __future__ import annotations

import codecs
import json
import re
from typing import Any

import msgspec

from tracetui.model.trace import BEGINNING, DAMAGED_KEYS, REPEATED, REPLACED, Quality
from tracetui.reading.decode import decoded
from tracetui.reading.layout import FileLayout
from tracetui.reading.odd_texts import repeating_within, replaced_in, unrepeated
from tracetui.reading.oddities import Oddity
from tracetui.reading.tolerant import parse_value, readable

MAX_VALUE = 1 << 23
"""Bytes of a value beyond which it is not kept in memory: as Python objects it takes twenty times as much."""
_TOP_KEY = re.compile(r'"([A-Za-z_]+)"\s*:\s*')
_ERROR_AT = re.compile(r"\(byte (\d+)\)")
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])


def top_keys(layout: FileLayout, quality: Quality) -> dict[str, Any]:
    """The keys around the events; one by one where they are not valid JSON together."""
    if layout.container != "object":
        return {}
    _note_damage(layout, quality)
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


def _note_damage(layout: FileLayout, quality: Quality) -> None:
    """Count and locate what of the keys cannot be read, was replaced, or stands twice."""
    if layout.is_headless:
        # What the file begins with is noted as something foreign.
        return
    parts = ((layout.header, 0), (layout.trailer, layout.trailer_at))
    odd = [(*replaced_in(part), part, offset) for part, offset in parts]
    for count, at, part, offset in odd:
        if count:
            layout.replaced += count
            _note(layout, offset + at, REPLACED, part[at:])
    is_whole = layout.is_closed and layout.trailer and not layout.between and Oddity.FOREIGN not in layout.odd_counts
    head, tail = layout.header.removeprefix(codecs.BOM_UTF8), layout.trailer if is_whole else b"}"
    data = head + b"[]" + tail
    if len(data) > MAX_VALUE:
        return
    try:
        at, repeating = _first_damage(data, is_strict=not any(count for count, *_ in odd))
    except RecursionError:
        return
    start = len(layout.header) - len(head)
    if repeating:
        layout.repeated += repeating
        _note(layout, start, REPEATED, head)
    if at >= 0:
        behind = at - len(head) - 2
        quality.damaged_keys += 1
        _note(layout, layout.trailer_at + behind if behind >= 0 else start + at, DAMAGED_KEYS, data[at:])


def _first_damage(data: bytes, is_strict: bool) -> tuple[int, int]:
    """The byte from which an object is no JSON, -1 where it is; and how many objects within have a key twice.

    What only a lenient reading takes, as a bare NaN, is damage where `is_strict`.
    """
    text, at = data.decode("utf-8", "replace"), -1
    try:
        _fields.decode(data)
    except msgspec.MsgspecError as error:
        found = _ERROR_AT.search(str(error))
        at = (int(found[1]) if found else 0) if is_strict else -1
    except UnicodeDecodeError:
        pass
    try:
        return at, repeating_within(json.loads(text, strict=False, parse_int=float, object_pairs_hook=unrepeated))
    except ValueError as error:
        return len(text[: getattr(error, "pos", 0)].encode()), 0


def _note(layout: FileLayout, offset: int, reason: str, text: bytes) -> None:
    layout.examples.append((offset, f"{reason}: {text[:BEGINNING].decode(errors='replace')}"))


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
