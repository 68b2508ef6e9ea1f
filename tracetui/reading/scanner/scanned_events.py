"""The events of a block: scanned into columns by C, or as objects whose columns are pulled out by C-level maps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tracetui.model.intervals import Bool, Int64
from tracetui.model.trace import ENDLESS, NEGATIVE, UNTIMED
from tracetui.reading.decode import (
    COUNTER,
    FLOW,
    IGNORED,
    META,
    NO_TEXT,
    NO_TIME,
    SCOPES,
    UNKNOWN,
    Args,
    Event,
    EventReader,
    Ids,
    Number,
    SliceNumbers,
    decoded,
    exact_times,
    field_json,
    is_empty,
    settled,
    whole_times,
)
from tracetui.reading.scanner.scanner import (
    KEYS,
    NAMES,
    NEGATIVE_DURATION,
    NO_DURATION,
    OP_TEXTS,
    WORK_TEXTS,
    NewTexts,
    ScannedColumns,
    Scanner,
    TextNumbers,
    scanner_library,
)

_ts, _dur, _name, _args = attrgetter("ts"), attrgetter("dur"), attrgetter("name"), attrgetter("args")
_key = attrgetter("ph", "cat", "pid", "tid")
_external, _correlation = attrgetter("external"), attrgetter("correlation")
_grid, _id = attrgetter("grid"), attrgetter("id")

_NUMBERS = {
    "Sequence number": attrgetter("sequence"),
    "Fwd thread id": attrgetter("forward_thread"),
    "registers per thread": attrgetter("registers"),
    "shared memory": attrgetter("shared"),
    "est. achieved occupancy %": attrgetter("occupancy"),
    "bytes": attrgetter("bytes"),
    "Addr": attrgetter("address"),
    "Bytes": attrgetter("allocated"),
    "Total Allocated": attrgetter("total_allocated"),
    "Total Reserved": attrgetter("total_reserved"),
    "Device Type": attrgetter("device_type"),
    "Device Id": attrgetter("device"),
}
"""Names of numbers in the file, and attributes of `Args`."""
_TEXTS = {
    "Input Dims": attrgetter("dims"),
    "Input dims": attrgetter("old_dims"),
    "Input type": attrgetter("types"),
    "grid": _grid,
    "block": attrgetter("block"),
}
"""The same of texts."""


class DecodedArguments:
    """The arguments of some events.

    Its methods raise TypeError, ValueError, AttributeError or OverflowError for one of an odd type.
    """

    def __init__(self, args: list[Args]) -> None:
        self._args = args

    def numbers(self, name: str) -> Int64:
        """A number by its name in the file; NULL for none."""
        return np.fromiter(map(_NUMBERS[name], self._args), np.int64, len(self._args))

    def texts(self, names: Sequence[str], ids: dict[bytes, int]) -> NDArray[np.int32]:
        """The number of an argument's JSON; it stands under the first of the names that an event has."""
        raw = list(map(_TEXTS[names[0]], self._args))
        for name in names[1:]:
            if NO_TEXT in raw:
                others = map(_TEXTS[name], self._args)
                raw = [other if text == NO_TEXT else text for text, other in zip(raw, others, strict=True)]
        return np.fromiter(map(ids.__getitem__, map(bytes, raw)), np.int32, len(raw))

    def have_grid(self) -> Bool:
        """Mask of the events that say on which grid they launch."""
        return np.fromiter((bool(bytes(raw)) for raw in map(_grid, self._args)), bool, len(self._args))


class DecodedEvents:
    """The events of a block as objects.

    Its methods raise TypeError, ValueError, AttributeError or OverflowError for a field of an odd type; after
    `settled` none does.
    """

    def __init__(self, events: list[Event], data: bytes, is_tolerant: bool) -> None:
        self.objects = events
        self._data = data
        self._is_tolerant = is_tolerant

    def __len__(self) -> int:
        return len(self.objects)

    def settled(self) -> DecodedEvents:
        """The same events with every field of the type that columns need."""
        return DecodedEvents(list(map(settled, self.objects)), self._data, self._is_tolerant)

    def times(self) -> Int64:
        """Timestamps in whole ns, `NO_TIME` where an event has none."""
        return whole_times(np.fromiter(map(_ts, self.objects), "f8", len(self)), self._exact_times)

    def _exact_times(self) -> Int64:
        exact = exact_times(self._data, self._is_tolerant)
        return np.array([NO_TIME if time is None else time for time in exact], np.int64)

    def names(self, ids: Ids) -> NDArray[np.int32]:
        """The number of each name, None among them."""
        return np.fromiter(map(ids.__getitem__, map(_name, self.objects)), np.int32, len(self))

    def keys(self, ids: Ids) -> NDArray[np.int32]:
        """The number of each event's phase, category, process and thread."""
        return np.fromiter(map(ids.__getitem__, map(_key, self.objects)), np.int32, len(self))

    def slice_numbers(self, rows: Int64) -> SliceNumbers:
        """Duration and ids of some events."""
        count, chosen = len(rows), self._chosen(rows)
        args = list(map(_args, chosen))
        return SliceNumbers(
            np.fromiter(map(_dur, chosen), "f8", count),
            np.fromiter(map(_correlation, args), "i8", count),
            np.fromiter(map(_external, args), "i8", count),
        )

    def arguments(self, rows: Int64) -> DecodedArguments:
        """The arguments of some events."""
        return DecodedArguments([self.objects[row].args for row in rows.tolist()])

    def flow_ids(self, rows: Int64, number_of: Callable[[Any], int]) -> Int64:
        """The ids of some flow ends; `number_of` makes numbers of what are none."""
        return numbers_of([_id(event) for event in self._chosen(rows)], number_of)

    def have_id(self, rows: Int64) -> Bool:
        """Mask of the events that have an id."""
        return np.fromiter((event.id is not None for event in self._chosen(rows)), bool, len(rows))

    def args_json(self, rows: Int64) -> list[bytes] | None:
        """The args of some events as they stand in the file, None where they cannot be told apart."""
        args = field_json(self._data, "args")
        return None if args is None else [args[row] for row in rows.tolist()]

    def scopes(self, rows: Int64) -> NDArray[np.uint8]:
        """The reach of each of some instants: a number of `SCOPES`, or 0."""
        return np.fromiter((SCOPES.get(event.s or "", 0) for event in self._chosen(rows)), np.uint8, len(rows))

    def in_full(self, rows: list[int]) -> list[dict[str, Any]]:
        """Some events with all that they have."""
        reader = EventReader(self._data, self._is_tolerant)
        return [reader.event(row) for row in rows]

    def count_empty(self, rows: list[int]) -> int:
        """Number of elements that are no event, such as `{}`."""
        return sum(is_empty(self.objects[row]) for row in rows)

    def _chosen(self, rows: Int64) -> list[Event]:
        events = self.objects
        return events if len(rows) == len(events) else [events[row] for row in rows.tolist()]


def numbers_of(ids: list[Any], number_of: Callable[[Any], int]) -> Int64:
    """Ids as numbers: as they are where all are, else what `number_of` makes of each."""
    try:
        return np.fromiter(ids, np.int64, len(ids))
    except (TypeError, ValueError, OverflowError):
        return np.fromiter(map(number_of, ids), np.int64, len(ids))


_NO_ID, _WHOLE_NUMBER = range(2)
"""Kinds of ids; others are read in Python."""
_TABLE_OF_ARGUMENT = {"Input Dims": OP_TEXTS, "Input type": OP_TEXTS, "grid": WORK_TEXTS, "block": WORK_TEXTS}
_SCOPE_OF_LETTER = np.array([SCOPES.get(chr(letter), 0) for letter in range(256)], np.uint8)

_event = msgspec.json.Decoder(Event)
_text = msgspec.json.Decoder(str)
_token = msgspec.json.Decoder(Number)


class ScannedBlocks:
    """Consecutive blocks of a file; valid until the columns are cleared.

    Texts are numbered when they are asked for, of all blocks of a scanner in turn.
    """

    def __init__(
        self,
        columns: ScannedColumns,
        data: bytes | bytearray,
        bounds: Sequence[int],
        offset: int,
        texts: NewTexts,
        numbers: TextNumbers,
    ) -> None:
        self.columns = columns
        self.data = data
        self.bounds = bounds
        """Indices in `data` of the brackets between which the blocks lie, or of the commas in their stead."""
        self.offset = offset
        """Of the first byte of `data` in the unwrapped stream."""
        self._texts = texts
        self._numbers = numbers

    def __len__(self) -> int:
        return int(self.columns.structure.events)

    def names(self, ids: Ids) -> NDArray[np.int32]:
        """The number of each text of the scanner that is a name."""
        return self._numbers.known(NAMES, self._texts[NAMES], lambda text: ids[_decoded_text(text)])

    def keys(self, ids: Ids) -> NDArray[np.int32]:
        """The number of each text of the scanner that is a phase, category, process and thread."""
        return self._numbers.known(KEYS, self._texts[KEYS], lambda text: ids[_decoded_key(text)])

    def number_of_text(self, table: int, ids: dict[bytes, int]) -> NDArray[np.int32]:
        """The number of each text of an argument, and behind them that of none."""
        return np.append(self._numbers.known(table, self._texts[table], ids.__getitem__), np.int32(-1))

    def block(self, index: int) -> bytes:
        """The bytes of a block, between brackets."""
        if len(self.bounds) == 2 and isinstance(self.data, bytes):
            return self.data[: self.bounds[1] + 1]
        with memoryview(self.data) as view:
            return b"".join((b"[", view[self.bounds[index] + 1 : self.bounds[index + 1]], b"]"))

    def stretches(self) -> Iterator[OtherEvents]:
        """The events that are no slices: all at once where that is the same, else those of each block."""
        ends = self.columns.ends("others")
        everything = OtherEvents(self, 0, ends[-1])
        if not everything.depend_on_blocks():
            yield everything
            return
        for first, last in zip([0, *ends], ends, strict=False):
            if last > first:
                yield OtherEvents(self, first, last)

    def offenders(self) -> Iterator[tuple[int, dict[str, Int64]]]:
        """For each block its index, and the rows in it of events that lack a time, or a duration of 0 or more."""
        columns = self.columns
        dur, classes = columns.slices("dur"), columns.others("class")
        untimed = (columns.others("time") == NO_TIME) & (classes != META) & (classes != UNKNOWN)
        events = {
            UNTIMED: columns.others("event")[untimed],
            ENDLESS: columns.slices("event")[dur == NO_DURATION],
            NEGATIVE: columns.slices("event")[dur == NEGATIVE_DURATION],
        }
        if not any(map(len, events.values())):
            return
        ends = columns.ends("events")
        for index, (first, last) in enumerate(zip([0, *ends], ends, strict=False)):
            inside = {reason: of[(of >= first) & (of < last)] - first for reason, of in events.items()}
            yield index, {reason: rows.astype(np.int64) for reason, rows in inside.items()}


class ScannedArguments:
    """Some rows of arguments."""

    def __init__(self, blocks: ScannedBlocks, rows: NDArray[np.int32]) -> None:
        self._blocks = blocks
        self._rows = rows

    def numbers(self, name: str) -> Int64:
        """A number by its name in the file; NULL for none."""
        values: Int64 = self._blocks.columns.arguments(name).take(self._rows)
        return values

    def texts(self, names: Sequence[str], ids: dict[bytes, int]) -> NDArray[np.int32]:
        """The number of an argument's JSON; it stands under the first of the names that an event has."""
        known = self._blocks.number_of_text(_TABLE_OF_ARGUMENT[names[0]], ids)
        text = self._blocks.columns.arguments(names[0]).take(self._rows)
        for name in names[1:]:
            text = np.where(text < 0, self._blocks.columns.arguments(name).take(self._rows), text)
        # No text has the number -1, which is that of the last one.
        return known.take(text, mode="wrap")

    def have_grid(self) -> Bool:
        """Mask of the events that say on which grid they launch."""
        have: Bool = self._blocks.columns.arguments("grid").take(self._rows) >= 0
        return have


class OtherEvents:
    """Events that are no slices: some consecutive ones of the columns that were scanned."""

    def __init__(self, blocks: ScannedBlocks, first: int, last: int) -> None:
        self._blocks = blocks
        self._first, self._last = first, last

    def __len__(self) -> int:
        return self._last - self._first

    def column(self, name: str) -> NDArray[Any]:
        """A column of these events."""
        return self._blocks.columns.others(name)[self._first : self._last]

    def depend_on_blocks(self) -> bool:
        """Find counters, odd ids and what is counted: their reading depends on where their block ends."""
        classes = self.column("class")
        counts = np.bincount(classes, minlength=UNKNOWN + 1)
        if counts[COUNTER] or counts[IGNORED] or counts[UNKNOWN]:
            return True
        return bool(((classes == FLOW) & (self.column("id_kind") != _WHOLE_NUMBER)).any())

    def arguments(self, rows: Int64) -> ScannedArguments:
        """The arguments of some events."""
        return ScannedArguments(self._blocks, self.column("argument")[rows])

    def flow_ids(self, rows: Int64, number_of: Callable[[Any], int]) -> Int64:
        """The ids of some flow ends; `number_of` makes numbers of what are none."""
        if (self.column("id_kind")[rows] != _WHOLE_NUMBER).any():
            return numbers_of([_event.decode(self._raw(row)).id for row in rows.tolist()], number_of)
        ids: Int64 = self.column("id")[rows]
        return ids

    def have_id(self, rows: Int64) -> Bool:
        """Mask of the events that have an id."""
        have: Bool = self.column("id_kind")[rows] != _NO_ID
        return have

    def args_json(self, rows: Int64) -> list[bytes] | None:
        """The args of some events as they stand in the file, None where they cannot be told apart."""
        return field_json(b"[%s]" % b",".join(map(self._raw, rows.tolist())), "args")

    def scopes(self, rows: Int64) -> NDArray[np.uint8]:
        """The reach of each of some instants: a number of `SCOPES`, or 0."""
        scopes: NDArray[np.uint8] = _SCOPE_OF_LETTER[self.column("scope")[rows]]
        return scopes

    def in_full(self, rows: list[int]) -> list[dict[str, Any]]:
        """Some events with all that they have."""
        events: list[dict[str, Any]] = decoded(b"[%s]" % b",".join(map(self._raw, rows)))
        return events

    def count_empty(self, rows: list[int]) -> int:
        """Number of elements that are no event, such as `{}`."""
        return sum(is_empty(_event.decode(self._raw(row))) for row in rows)

    def _raw(self, row: int) -> bytes:
        return bytes(self._blocks.data[self.column("begin")[row] : self.column("end")[row]])


def _decoded_text(text: bytes) -> str:
    return _text.decode(b'"%s"' % text) if b"\\" in text else text.decode()


def _decoded_key(key: bytes) -> tuple[str, str, Number, Number]:
    phase, category, *ids = key.split(b"\0")
    process, thread = (_token.decode(each) if each else None for each in ids)
    return _decoded_text(phase), _decoded_text(category), process, thread


# Scans the blocks of one file, one at a time.

CAPACITY = 1 << 16
"""Maximum events of a block that is scanned."""


class BlockScanner:
    """Scans the blocks of one file; what it returned is valid until the next one is scanned."""

    def __init__(self, scanner: Scanner, numbers: TextNumbers) -> None:
        self._scanner = scanner
        self._numbers = numbers
        self._columns = ScannedColumns(CAPACITY, blocks=1)

    def scan(self, data: bytes, offset: int) -> ScannedBlocks | None:
        """The events of a block at an offset of the file, None where it is to be read in Python."""
        size = len(data.rstrip())
        self._columns.clear()
        if not self._scanner.scan(data, size, self._columns):
            return None
        texts = self._scanner.new_texts()
        return ScannedBlocks(self._columns, data, (0, size - 1), offset, texts, self._numbers)


def block_scanner() -> BlockScanner | None:
    """The scanner of one file, None where events are read in Python."""
    library = scanner_library()
    return None if library is None else BlockScanner(Scanner(library), TextNumbers())
