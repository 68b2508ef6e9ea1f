"""Arguments of track events: debug annotations, one by one as Python values, and a few of all events as columns."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from tracetui.model.intervals import Bool, Int64
from tracetui.reading.columns import Gathered, combined
from tracetui.reading.perfetto.schemas import AnnotationField, EventField, InternedField
from tracetui.reading.perfetto.sequences import Interned
from tracetui.reading.perfetto.wire import FIXED64, SPAN, DamagedMessage, Fields, MessageBytes, TextNumbers, fields_of

MAX_DEPTH = 64
"""Levels of lists and dictionaries; what lies deeper is left out."""
TOO_DEEP = "…"
"""Stands for what lies deeper."""


InternedText = Callable[[int, int], str]
"""Gives the text of a kind that was interned under a number."""


def annotation(
    data: MessageBytes, start: int, end: int, interned: InternedText = lambda kind, iid: "", depth: int = 0
) -> tuple[str, Any]:
    """The name and the value of a debug annotation; without a value it is an empty list, as torch writes one.

    Raises: DamagedMessage.
    """
    name = ""
    value: Any = None
    items: list[Any] | None = None
    entries: dict[str, Any] | None = None
    for number, wire, payload, behind in fields_of(data.raw, start, end):
        if number == AnnotationField.NAME and wire == SPAN:
            name = _text(data, payload, behind)
        elif number == AnnotationField.ARRAY and wire == SPAN:
            items = [] if items is None else items
            items.append(annotation(data, payload, behind, interned, depth + 1)[1] if depth < MAX_DEPTH else TOO_DEEP)
        elif number == AnnotationField.DICT and wire == SPAN:
            entries = {} if entries is None else entries
            deep = TOO_DEEP, TOO_DEEP
            key, inner = annotation(data, payload, behind, interned, depth + 1) if depth < MAX_DEPTH else deep
            entries[key] = inner
        elif number == AnnotationField.NAME_IID and wire != SPAN:
            name = interned(InternedField.ANNOTATION_NAMES, payload)
        elif number == AnnotationField.TEXT_IID and wire != SPAN:
            value = interned(InternedField.TEXT_VALUES, payload)
        elif number == AnnotationField.NESTED and wire == SPAN:
            value = _nested(data, payload, behind, depth)
        else:
            value = _scalar(data, number, wire, payload, behind, value)
    if value is not None:
        return name, value
    return name, entries if entries is not None else items or []


def _scalar(data: MessageBytes, number: int, wire: int, payload: int, behind: int, before: Any) -> Any:
    """The value of a field that holds a single one; `before` where it is none."""
    if wire == SPAN:
        if number == AnnotationField.TEXT:
            return _text(data, payload, behind)
        if number == AnnotationField.LEGACY_JSON:
            text = _text(data, payload, behind)
            try:
                return json.loads(text)
            except (ValueError, RecursionError):
                return text
        return before
    if number == AnnotationField.BOOL:
        return bool(payload)
    if number == AnnotationField.INT:
        return payload - (1 << 64) if payload >> 63 else payload
    if number == AnnotationField.UINT:
        return payload
    if number == AnnotationField.POINTER:
        return hex(payload)
    if number == AnnotationField.DOUBLE and wire == FIXED64:
        return struct.unpack("<d", payload.to_bytes(8, "little"))[0]
    return before


def _nested(data: MessageBytes, start: int, end: int, depth: int) -> Any:
    """A value in the way that Chrome nests values: keys and values of dictionaries one after the other.

    Raises: DamagedMessage.
    """
    keys: list[str] = []
    values: list[Any] = []
    items: list[Any] = []
    own: Any = None
    for number, wire, payload, behind in fields_of(data.raw, start, end):
        if wire == SPAN and number == 2:
            keys.append(_text(data, payload, behind))
        elif wire == SPAN and number in (3, 4):
            inner = _nested(data, payload, behind, depth + 1) if depth < MAX_DEPTH else TOO_DEEP
            (values if number == 3 else items).append(inner)
        elif wire == SPAN and number == 8:
            own = _text(data, payload, behind)
        elif number == 5:
            own = payload - (1 << 64) if payload >> 63 else payload
        elif number == 6 and wire == FIXED64:
            own = struct.unpack("<d", payload.to_bytes(8, "little"))[0]
        elif number == 7:
            own = bool(payload)
    if own is not None:
        return own
    return dict(zip(keys, values, strict=False)) if keys else items


def _text(data: MessageBytes, start: int, end: int) -> str:
    return data.text(start, end).decode("utf-8", "replace")


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


# Ids by which a writer says that events of several tracks belong together: numbers, texts, interned texts.

_TEXT, _INTERNED = 1, 2
"""Kinds of ids; a number is 0."""


class CorrelatedEvents:
    """The events of a file that have such an id."""

    def __init__(self) -> None:
        self.events = Gathered("time", "event", "state", "track", "kind", "value")
        """`value` is the number, the number of the text, or that of the interned text, by `kind`: 0, 1 or 2."""
        self._texts: dict[str, int] = {}
        self._numbers = TextNumbers(lambda raw: self._text(raw.decode("utf-8", "replace")))

    def _text(self, text: str) -> int:
        return self._texts.setdefault(text, len(self._texts))

    def add(self, data: MessageBytes, columns: dict[str, Int64], fields: Fields, track: Int64, wanted: Bool) -> None:
        """Take in the wanted ones of a block."""
        start, end = fields.span(EventField.CORRELATION_TEXT)
        for kind, given in enumerate(
            (fields.has(EventField.CORRELATION), start >= 0, fields.has(EventField.CORRELATION_IID))
        ):
            rows = np.flatnonzero(given & wanted)
            if not len(rows):
                continue
            if kind == _TEXT:
                value = self._numbers.of(data, start[rows], end[rows]).astype(np.int64)
            else:
                value = fields.number(EventField.CORRELATION_IID if kind else EventField.CORRELATION)[rows]
            self.events.add(
                time=columns["time"][rows],
                event=columns["event"][rows],
                state=columns["state"][rows],
                track=track[rows],
                kind=np.full(len(rows), kind),
                value=value,
            )

    def identify(self, columns: dict[str, Any], interned: Interned) -> dict[str, Any]:
        """The columns of events with `id`, equal for those that belong together; without those whose text is lost."""
        kind, value = columns["kind"].copy(), columns["value"].copy()
        rows = np.flatnonzero(kind == _INTERNED)
        if len(rows):
            use = columns["state"][rows], columns["event"][rows]
            row_of_text = interned.find(InternedField.CORRELATIONS, *use, value[rows])
            texts = [self._text(str(text)) for text in interned.values(InternedField.CORRELATIONS)]
            value[rows] = np.array([*texts, -1], np.int64)[row_of_text]
            kind[rows[row_of_text >= 0]] = _TEXT
        known = kind != _INTERNED
        return {name: each[known] for name, each in columns.items()} | {"id": combined(kind[known], value[known])}
