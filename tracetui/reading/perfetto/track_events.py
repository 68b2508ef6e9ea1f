"""Begins and ends of slices, as columns that grow block by block; they are paired when the file has been read.

Arguments are debug annotations: one by one as Python values, and a few of all events as columns.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracetui.model.intervals import Bool, Int64
from tracetui.model.table import NULL
from tracetui.model.trace import NO_ID
from tracetui.reading.columns import Collector, Gathered, combined
from tracetui.reading.perfetto.schemas import (
    ANNOTATION,
    BEGIN,
    COUNTER,
    END,
    GPU_CORRELATION,
    STATE,
    TRACK_EVENT,
    AnnotationField,
    EventField,
    InternedField,
)
from tracetui.reading.perfetto.schemas import AnnotationField as Annotation
from tracetui.reading.perfetto.schemas import EventField as Event
from tracetui.reading.perfetto.sequences import Interned
from tracetui.reading.perfetto.tracks import (
    COMPLETE,
    SKIPPED,
    LegacyEvents,
    Tracks,
    event_types,
    own_threads,
    read_legacy,
)
from tracetui.reading.perfetto.wire import (
    FIXED64,
    SPAN,
    DamagedMessage,
    Fields,
    MessageBytes,
    Occurrences,
    TextNumbers,
    fields_of,
    read_fields,
)

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


CORRELATION, EXTERNAL, SEQUENCE, FORWARD, DIMS, TYPES, SYNC_KIND, DEVICE, STREAM = range(9)
_WANTED = {
    b"correlation": CORRELATION,
    b"External id": EXTERNAL,
    b"Sequence number": SEQUENCE,
    b"Fwd thread id": FORWARD,
    b"Input Dims": DIMS,
    b"Input dims": DIMS,
    b"Input type": TYPES,
    b"cuda_sync_kind": SYNC_KIND,
    b"device": DEVICE,
    b"stream": STREAM,
}
"""Arguments that become columns."""
_UNWANTED = len(_WANTED)
_FLOW_FIELDS = ((Event.FLOWS, False), (Event.OLD_FLOWS, False), (Event.LAST_FLOWS, True), (Event.OLD_LAST_FLOWS, True))
"""Fields with ids of arrows, and whether an arrow ends there."""
MAX_ANNOTATIONS = 1 << 18
"""Maximum arguments of the events of a block that become columns; all are shown with their event."""
NO_NUMBER = -1
"""Stands for a text that an event has not."""


class PacketRows:
    """Some packets of a block, as columns: those with an event of the same kind."""

    def __init__(
        self,
        data: MessageBytes,
        start: Int64,
        end: Int64,
        columns: dict[str, Int64],
        needs_state: Bool,
        track: Int64,
    ) -> None:
        self.data, self.start, self.end = data, start, end
        self.needs_state = needs_state
        """Mask of the packets that rest on interned data, as their flags say."""
        self.track = track
        """The uuid of the track of an event that names none."""
        self.columns = columns
        """By `time`, `event` (the number of the packet), `sequence` and `state`."""

    def take(self, rows: Int64) -> dict[str, Int64]:
        """The columns of some of them."""
        return {name: values[rows] for name, values in self.columns.items()}


class TrackEvents:
    """All begins and ends of a file."""

    def __init__(self, collector: Collector, tracks: Tracks) -> None:
        names = collector.names
        self._tracks = tracks
        self._names = TextNumbers(lambda raw: names[raw.decode("utf-8", "replace")])
        self.categories: dict[str, int] = {}
        """Categories that stand in events as text, with their numbers."""
        self._categories = TextNumbers(self._category)
        self._keys = TextNumbers(lambda raw: _WANTED.get(raw, _UNWANTED))
        self.texts: dict[bytes, int] = {}
        """Shapes and types as JSON, with their numbers."""
        self._texts = TextNumbers(self._text)
        self.sides = Gathered("time", "event", "sequence", "state", "track", "begins", "has_args", "needs_state")
        """Begins and ends in the order of the file."""
        self.begins = Gathered("name", "name_iid", "category", "category_iid", "correlation", "external")
        """More about the begins."""
        self.ops = Gathered("event", "sequence", "forward", "dims", "types")
        """Begins with shapes, types or numbers of the autograd engine."""
        self.syncs = Gathered("event", "device", "stream")
        """Begins of waits on a stream."""
        self.submissions = Gathered("event", "state", "id")
        """Ids of the GPU activities that a call submitted, with the event of the call."""
        self.others = Gathered(
            "time", "event", "state", "track", "type", "name", "name_iid", "category", "category_iid",
            "phase", "duration", "identity", "id_kind", "scope",
        )  # fmt: skip
        """Events that neither begin nor end a slice, but for counters."""
        self.counters = Gathered("time", "event", "track", "value")
        """Values of counters."""
        self.flows = Gathered("time", "event", "track", "id", "is_last")
        """Ids of arrows, with the events that they lead from and to."""
        self.correlated = CorrelatedEvents()
        """Events that belong together."""
        self.skipped: dict[str, int] = {}
        """Events of phases that are not shown, by letter."""

    def _category(self, raw: bytes) -> int:
        return self.categories.setdefault(raw.decode("utf-8", "replace"), len(self.categories))

    def _text(self, raw: bytes) -> int:
        data = MessageBytes(raw)
        try:
            text = json.dumps(annotation(data, 0, data.size)[1]).encode()
        except DamagedMessage:
            text = b""
        return self.texts.setdefault(text, len(self.texts)) if text else NO_NUMBER

    def add(self, rows: PacketRows) -> Bool:
        """Take in the track events of a block, and return which of them are damaged."""
        fields = read_fields(rows.data, rows.start, rows.end, TRACK_EVENT)
        uuid = np.where(fields.has(Event.TRACK_UUID), fields.number(Event.TRACK_UUID), rows.track)
        track, kind = self._tracks.number(uuid), fields.number(Event.TYPE)
        legacy = None
        if fields.has(Event.LEGACY).any():
            legacy, pid, tid, has_thread = read_legacy(rows.data, *fields.span(Event.LEGACY))
            fields.damaged |= legacy.is_damaged
            kind = event_types(kind, legacy.phase)
            own = np.flatnonzero(has_thread)
            track[own] = own_threads(track[own], pid[own], tid[own], self._tracks)
        kept = np.flatnonzero(((kind == BEGIN) | (kind == END)) & ~fields.damaged)
        annotations = fields.repeated(Event.ANNOTATIONS)
        has_args = np.zeros(len(kind), bool)
        has_args[annotations.row] = True
        self.sides.add(
            **rows.take(kept),
            track=track[kept],
            begins=kind[kept] == BEGIN,
            has_args=has_args[kept],
            needs_state=rows.needs_state[kept],
        )
        begins = np.flatnonzero((kind == BEGIN) & ~fields.damaged)
        if len(begins):
            self._add_begins(rows, fields, begins, annotations, legacy)
        if len(kept) < len(kind):
            self._add_others(rows, fields, kind, track, legacy)
        self._add_flows(rows, fields, track)
        self.correlated.add(rows.data, rows.columns, fields, track, ~fields.damaged & (kind != END))
        return fields.damaged

    def _add_others(
        self, rows: PacketRows, fields: Fields, kind: Int64, track: Int64, legacy: LegacyEvents | None
    ) -> None:
        """Take in counters, moments, states and what only JSON has."""
        nothing = np.full(len(kind), -1, np.int64)
        more = legacy or read_legacy(rows.data, nothing, nothing)[0]
        has_value = fields.has(Event.COUNTER) | fields.has(Event.DOUBLE_COUNTER)
        counted = np.flatnonzero((kind == COUNTER) & has_value & ~fields.damaged)
        if len(counted):
            double = fields.number(Event.DOUBLE_COUNTER).view(np.float64)
            whole = fields.number(Event.COUNTER).astype(np.float64)
            value = np.where(fields.has(Event.DOUBLE_COUNTER), double, whole)[counted]
            columns = rows.columns
            self.counters.add(
                time=columns["time"][counted], event=columns["event"][counted], track=track[counted], value=value
            )
        skipped = (kind <= 0) | (kind >= SKIPPED) | ((kind > STATE) & (kind < COMPLETE))
        for code, count in zip(*np.unique(more.phase[skipped & ~fields.damaged], return_counts=True), strict=True):
            letter = chr(int(code)) if 32 < code < 127 else ""
            self.skipped[letter] = self.skipped.get(letter, 0) + int(count)
        is_visible = (kind != BEGIN) & (kind != END) & ~skipped & ~fields.damaged
        is_visible[counted] = False
        chosen = np.flatnonzero(is_visible)
        if not len(chosen):
            return
        columns = rows.take(chosen)
        del columns["sequence"]
        self.others.add(
            **columns,
            **{name: each[chosen] for name, each in self._labels(rows.data, fields, len(kind), legacy).items()},
            track=track[chosen],
            type=kind[chosen],
            phase=more.phase[chosen],
            duration=more.duration[chosen],
            identity=more.identity[chosen],
            id_kind=more.id_kind[chosen],
            scope=more.scope[chosen],
        )

    def _add_flows(self, rows: PacketRows, fields: Fields, track: Int64) -> None:
        for field, is_last in _FLOW_FIELDS:
            row, identity = fields.values(field)
            if len(row):
                row, identity = row[~fields.damaged[row]], identity[~fields.damaged[row]]
                self.flows.add(
                    time=rows.columns["time"][row],
                    event=rows.columns["event"][row],
                    track=track[row],
                    id=identity,
                    is_last=np.full(len(row), is_last),
                )

    def _labels(self, data: MessageBytes, fields: Fields, count: int, legacy: LegacyEvents | None) -> dict[str, Int64]:
        """Names and categories of the events of a block: their numbers, or the numbers that were interned."""
        name_iid = fields.number(Event.NAME_IID)
        if legacy is not None:
            name_iid = np.where(fields.has(Event.NAME_IID), name_iid, legacy.name_iid)
        return {
            "name": self._numbers(self._names, data, fields.span(Event.NAME)),
            "name_iid": name_iid,
            "category": self._first_category(data, fields, count),
            "category_iid": _first(*fields.values(Event.CATEGORY_IIDS), count),
        }

    def _add_begins(
        self, rows: PacketRows, fields: Fields, begins: Int64, annotations: Occurrences, legacy: LegacyEvents | None
    ) -> None:
        data, event = rows.data, rows.columns["event"]
        count = len(event)
        arguments = _Arguments(data, annotations, count, self._keys)
        self.begins.add(
            **{name: each[begins] for name, each in self._labels(data, fields, count, legacy).items()},
            correlation=arguments.numbers(CORRELATION, NO_ID)[begins],
            external=arguments.numbers(EXTERNAL, NO_ID)[begins],
        )
        self._add_ops(event, begins, arguments)
        waits = begins[arguments.has(SYNC_KIND)[begins]]
        if len(waits):
            device, stream = arguments.numbers(DEVICE, NULL), arguments.numbers(STREAM, NULL)
            self.syncs.add(event=event[waits], device=device[waits], stream=stream[waits])
        start, end = fields.span(Event.GPU_CORRELATION)
        calls = begins[start[begins] >= 0]
        if len(calls):
            row, value = read_fields(data, start[calls], end[calls], GPU_CORRELATION).values(1)
            self.submissions.add(event=event[calls[row]], state=rows.columns["state"][calls[row]], id=value)

    def _add_ops(self, event: Int64, begins: Int64, arguments: _Arguments) -> None:
        has_op = np.zeros(len(event), bool)
        for key in (SEQUENCE, FORWARD, DIMS, TYPES):
            has_op |= arguments.has(key)
        ops = begins[has_op[begins]]
        if len(ops):
            self.ops.add(
                event=event[ops],
                sequence=arguments.numbers(SEQUENCE, NULL)[ops],
                forward=arguments.numbers(FORWARD, NULL)[ops],
                dims=arguments.texts(DIMS, self._texts)[ops],
                types=arguments.texts(TYPES, self._texts)[ops],
            )

    def _first_category(self, data: MessageBytes, fields: Fields, count: int) -> Int64:
        categories = fields.repeated(Event.CATEGORIES)
        first = np.full(count, NO_NUMBER, np.int64)
        first[categories.row[::-1]] = self._categories.of(data, categories.start, categories.end)[::-1]
        return first

    @staticmethod
    def _numbers(texts: TextNumbers, data: MessageBytes, span: tuple[Int64, Int64]) -> Int64:
        """The numbers of texts, `NO_NUMBER` where there is none."""
        numbers = np.full(len(span[0]), NO_NUMBER, np.int64)
        given = np.flatnonzero(span[0] >= 0)
        numbers[given] = texts.of(data, span[0][given], span[1][given])
        return numbers


def _first(row: Int64, value: Int64, count: int) -> Int64:
    """The first of the values of each row, 0 where there is none."""
    first = np.zeros(count, np.int64)
    first[row[::-1]] = value[::-1]
    return first


class _Arguments:
    """The wanted arguments of the events of a block."""

    def __init__(self, data: MessageBytes, occurrences: Occurrences, count: int, keys: TextNumbers) -> None:
        occurrences = Occurrences(*(column[:MAX_ANNOTATIONS] for column in occurrences))
        fields = read_fields(data, occurrences.start, occurrences.end, ANNOTATION)
        self._data, self._spans, self._fields, self._count = data, occurrences, fields, count
        start, end = fields.span(Annotation.NAME)
        with_name = np.flatnonzero((start >= 0) & ~fields.damaged)
        self._key: NDArray[np.int32] = np.full(len(occurrences.row), _UNWANTED, np.int32)
        self._key[with_name] = keys.of(data, start[with_name], end[with_name])

    def has(self, key: int) -> Bool:
        """Mask of the events that have an argument."""
        given = np.zeros(self._count, bool)
        given[self._spans.row[self._key == key]] = True
        return given

    def numbers(self, key: int, missing: int) -> Int64:
        """Whole numbers, `missing` where an event has none."""
        values = np.full(self._count, missing, np.int64)
        rows = np.flatnonzero(self._key == key)
        for field in (Annotation.UINT, Annotation.INT):
            given = rows[self._fields.has(field)[rows]]
            values[self._spans.row[given]] = self._fields.number(field)[given]
        return values

    def texts(self, key: int, numbers: TextNumbers) -> Int64:
        """Numbers of values of any kind, `NO_NUMBER` where an event has none."""
        values = np.full(self._count, NO_NUMBER, np.int64)
        rows = np.flatnonzero(self._key == key)
        if len(rows):
            values[self._spans.row[rows]] = numbers.of(self._data, self._spans.start[rows], self._spans.end[rows])
        return values
