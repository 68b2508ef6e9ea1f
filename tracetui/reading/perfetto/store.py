"""Gives the arguments of packets back after loading: their block is read again, and its packets are framed anew."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from tracetui.frozen import frozen
from tracetui.model.intervals import Int64
from tracetui.model.trace import Int32
from tracetui.reading.perfetto.packets import PacketBlock
from tracetui.reading.perfetto.schemas import AnnotationField, EventField, InternedField, PacketField, StageField
from tracetui.reading.perfetto.sequences import Interned as InternedTexts
from tracetui.reading.perfetto.track_events import InternedText, annotation, dimensions_json
from tracetui.reading.perfetto.wire import (
    FEW,
    SPAN,
    DamagedMessage,
    Frames,
    MessageBytes,
    Schema,
    TextNumbers,
    fields_of,
    frame_packets,
    read_fields,
)
from tracetui.reading.store import BlockBytes, BlockLocation, FileBlocks, MemoryBlocks

CORRELATION_KEY = "correlation id"
"""Stands in the arguments for the id by which a writer says that events belong together."""
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,17})(\.\d{1,17})?")
_STAGE_KEYS = {
    "device id": "device",
    "context id": "context",
    "stream id": "stream",
    "registers_per_thread": "registers per thread",
    "shared_mem_dynamic": "dynamic shared memory",
}
"""Names of arguments in a JSON trace by those of torch's render stages."""


_PACKET = Schema(spans=(PacketField.TRACK_EVENT, PacketField.GPU_RENDER_STAGE))
_EVENT = Schema(repeated=(EventField.ANNOTATIONS,))
_STAGE = Schema(repeated=(StageField.EXTRA_DATA,))
_ANNOTATION_NAME = Schema(spans=(AnnotationField.NAME,))
_EXTRA_NAME = Schema(spans=(1,))


class _Values(list[Any]):
    """The different values of an argument; None for a damaged one."""

    def __init__(self, value: Callable[[MessageBytes], Any]) -> None:
        super().__init__()
        self._value = value

    def number(self, raw: bytes) -> int:
        """The index of the value of a message, which is added."""
        try:
            self.append(self._value(MessageBytes(raw)))
        except DamagedMessage:
            self.append(None)
        return len(self) - 1


def _extra(data: MessageBytes, start: int, end: int) -> tuple[str, Any]:
    """The name and the value of extra data; numbers are written as text.

    Raises: DamagedMessage.
    """
    spans = {
        each.number: data.text(each.value, each.end) for each in fields_of(data.raw, start, end) if each.wire == SPAN
    }
    name, text = (spans.get(number, b"").decode("utf-8", "replace") for number in (1, 2))
    return _STAGE_KEYS.get(name, name), json.loads(text) if _NUMBER.fullmatch(text) else text


def _key_numbers(keys: Sequence[str], is_stage: bool) -> dict[bytes, int]:
    """The indices of keys by the names that they have in the file."""
    numbers = {key.encode(): number for number, key in enumerate(keys)}
    if is_stage:
        for name, key in _STAGE_KEYS.items():
            numbers.pop(name.encode(), None)
            if key in keys:
                numbers[name.encode()] = list(keys).index(key)
    return numbers


@frozen(eq=True)
class CopyRules:
    """The parts of a file that belong together, so that a part of it shows the same as the whole."""

    begins: Int32 = field(default_factory=lambda: np.empty(0, np.int32))
    ends: Int32 = field(default_factory=lambda: np.empty(0, np.int32))
    """Packets that begin slices, and those that end them."""
    sums: Int32 = field(default_factory=lambda: np.empty(0, np.int32))
    """Samples of counters whose values are added up."""
    adds_times: bool = False
    """True if the times of packets count from the packets before."""
    needed: Int32 = field(default_factory=lambda: np.empty(0, np.int32))
    """Packets with something that others rest on: interned texts, clears, defaults, clocks and tracks."""
    damaged: Int32 = field(default_factory=lambda: np.empty(0, np.int32))
    """Packets that could not be read."""


class PacketStore:
    """The packets of a file by number; the importer's `EventStore`."""

    def __init__(self, blocks: BlockBytes, interned: InternedTexts) -> None:
        self._blocks = blocks
        self._rewritten: MemoryBlocks | None = None
        self._kept: dict[int, int] = {}
        """Blocks that do not stand so in the file, with their numbers in `_rewritten`."""
        self._interned = interned
        self._locations: list[BlockLocation] = []
        self._firsts: list[int] = []
        self._states: list[int | Int32] = []
        """The states of the packets of each block: one for all, or one for each."""
        self._recent: tuple[int, MessageBytes, Frames] | None = None
        self._begins = self._ends = np.empty(0, np.int64)
        self._has_packed = False
        self.rules = CopyRules()
        """The packets that a part of the file must keep."""

    @property
    def is_rewritten(self) -> bool:
        """Tell whether packets were packed into others in the file."""
        return self._has_packed

    def packets(self) -> Iterator[tuple[int, list[bytes]]]:
        """All packets, without the frames around them: block by block, each with the number of its first packet.

        Raises: TraceError when the file has changed since it was read.
        """
        for number, first in enumerate(self._firsts):
            data = MessageBytes(self._read(number))
            frames = frame_packets(data.raw, 0, data.size)
            spans = zip(frames.start.tolist(), frames.end.tolist(), strict=True)
            yield first, [data.text(start, end) for start, end in spans]

    def add(self, block: PacketBlock, first_packet: int, states: Int64) -> None:
        """Take note of a block, of the number of its first packet, and of the states of its packets."""
        offset, data = block.offset, block.data.text(0, block.frames.behind)
        # The same marks as those of a block of JSON whose bytes were left as they are.
        location = BlockLocation(offset, len(data), is_tolerant=True, has_bracket=False)
        self._has_packed = self._has_packed or block.is_rewritten
        if block.is_rewritten and isinstance(self._blocks, FileBlocks):
            self._rewritten = self._rewritten or MemoryBlocks()
            self._kept[len(self._locations)] = len(self._kept)
            self._rewritten.add(location, lambda: data)
        else:
            self._blocks.add(location, lambda: data)
        self._locations.append(location)
        self._firsts.append(first_packet)
        is_same = bool((states == states[0]).all())
        self._states.append(int(states[0]) if is_same else states.astype(np.int32))

    def finish(self) -> None:
        """Once all blocks are known."""
        self._blocks.finish()
        if self._rewritten is not None:
            self._rewritten.finish()

    def join_ends(self, begins: Int64, ends: Int64) -> None:
        """Let the packet that begins a slice carry the arguments of the one that ends it; `begins` ascends."""
        self._begins, self._ends = begins, ends

    def packet(self, index: int) -> bytes:
        """The bytes of one packet, without the frame around it.

        Raises: TraceError when the file has changed since it was read.
        """
        data, start, end = self._span(index)
        return data.text(start, end)

    def event(self, index: int) -> dict[str, Any]:
        """The arguments of one packet, under `args`; a begin has those of its end as well.

        Raises: TraceError when the file has changed since it was read.
        """
        args = self._args(index)
        pair = int(np.searchsorted(self._begins, index))
        if pair < len(self._begins) and self._begins[pair] == index:
            args |= self._args(int(self._ends[pair]))
        return {"args": args}

    def args(self, indices: Int64, keys: Sequence[str]) -> list[list[Any]]:
        """For each key the values of `args[key]` of many packets, None where a packet has no such key."""
        columns: list[list[Any]] = [[None] * len(indices) for _ in keys]
        order = np.argsort(indices, kind="stable")
        blocks = np.searchsorted(self._firsts, indices[order], side="right")
        for rows in np.split(order, np.flatnonzero(np.diff(blocks)) + 1):
            for row in self._fill_together(indices, rows, keys, columns).tolist():
                args = self._args(int(indices[row]))
                for column, key in zip(columns, keys, strict=True):
                    column[row] = args.get(key)
        return columns

    def _fill_together(self, indices: Int64, rows: Int64, keys: Sequence[str], columns: list[list[Any]]) -> Int64:
        """Fill in arguments of packets of one block, of which each different one is read once.

        Returns the rows that are left: few ones, those of other packets, and all where arguments are interned.
        """
        if len(rows) <= FEW or self._is_interned(keys):
            return rows
        number, data, frames = self._block(int(indices[rows[0]]))
        packet = indices[rows] - self._firsts[number]
        packets = read_fields(data, frames.start[packet], frames.end[packet], _PACKET)
        is_left = np.ones(len(rows), bool)
        for kind, schema, field_number, pair, value in (
            (
                PacketField.TRACK_EVENT,
                _EVENT,
                EventField.ANNOTATIONS,
                _ANNOTATION_NAME,
                lambda data: annotation(data, 0, data.size)[1],
            ),
            (
                PacketField.GPU_RENDER_STAGE,
                _STAGE,
                StageField.EXTRA_DATA,
                _EXTRA_NAME,
                lambda data: _extra(data, 0, data.size)[1],
            ),
        ):
            start, end = packets.span(kind)
            own = np.flatnonzero((start >= 0) & ~packets.damaged)
            messages = read_fields(data, start[own], end[own], schema)
            given = messages.repeated(field_number)
            pairs = read_fields(data, given.start, given.end, pair)
            first, last = pairs.span(pair.fields[0])
            good = np.flatnonzero((first >= 0) & ~pairs.damaged & ~messages.damaged[given.row])
            key_of = _key_numbers(keys, kind == PacketField.GPU_RENDER_STAGE)
            key = TextNumbers(lambda raw, of=key_of: of.get(raw, len(keys))).of(data, first[good], last[good])  # type: ignore[misc]
            for number, column in enumerate(columns):
                mine = good[key == number]
                values = _Values(value)
                which = TextNumbers(values.number).of(data, given.start[mine], given.end[mine])
                for row, index in zip(rows[own[given.row[mine]]].tolist(), which.tolist(), strict=True):
                    column[row] = values[index]
            is_left[own[~messages.damaged]] = False
        return rows[is_left]

    def _is_interned(self, keys: Sequence[str]) -> bool:
        """Tell whether arguments of these names may stand elsewhere than in annotations and data of their packets."""
        kinds = (InternedField.ANNOTATION_NAMES, InternedField.TEXT_VALUES)
        figures = (_STAGE_KEYS.get(name, name) for name in self._interned.values(InternedField.ARG_NAMES))
        elsewhere = {CORRELATION_KEY, "grid", "block", *figures}
        return not elsewhere.isdisjoint(keys) or any(self._interned.values(kind) for kind in kinds)

    def _read(self, number: int) -> bytes:
        """The bytes of a block."""
        location = self._locations[number]
        if self._rewritten is not None and number in self._kept:
            return self._rewritten.read(self._kept[number], location)
        return self._blocks.read(number, location)

    def _block(self, index: int) -> tuple[int, MessageBytes, Frames]:
        """The block of a packet: its number, its bytes and where its packets stand."""
        number = bisect_right(self._firsts, index) - 1
        if self._recent is None or self._recent[0] != number:
            data = MessageBytes(self._read(number))
            self._recent = (number, data, frame_packets(data.raw, 0, data.size))
        return self._recent

    def _span(self, index: int) -> tuple[MessageBytes, int, int]:
        number, data, frames = self._block(index)
        row = index - self._firsts[number]
        if row >= len(frames.start):
            return data, 0, 0
        return data, int(frames.start[row]), int(frames.end[row])

    def _args(self, index: int) -> dict[str, Any]:
        data, start, end = self._span(index)
        try:
            for number, wire, value, behind in fields_of(data.raw, start, end):
                if wire == SPAN and number == PacketField.TRACK_EVENT:
                    return _event_args(data, value, behind, lambda kind, iid: self._interned_text(kind, index, iid))
                if wire == SPAN and number == PacketField.GPU_RENDER_STAGE:
                    return self._stage_args(data, value, behind, index)
        except DamagedMessage:
            pass
        return {}

    def _stage_args(self, data: MessageBytes, start: int, end: int, index: int) -> dict[str, Any]:
        """The fields of a render stage, under the names that a JSON trace has for it."""
        args: dict[str, Any] = {}
        for number, wire, value, behind in fields_of(data.raw, start, end):
            if wire == SPAN and number == StageField.LAUNCH:
                args |= self._launch_args(data, value, behind, index)
            elif wire == SPAN and number == StageField.EXTRA_DATA:
                name, content = _extra(data, value, behind)
                args[name] = content
        return args

    def _launch_args(self, data: MessageBytes, start: int, end: int, index: int) -> dict[str, Any]:
        args: dict[str, Any] = {}
        for number, wire, value, behind in fields_of(data.raw, start, end):
            if wire == SPAN and number in (1, 2):
                sizes = dimensions_json(data.text(value, behind))
                args["grid" if number == 1 else "block"] = json.loads(sizes or b"null")
            elif wire == SPAN and number == 3:
                figure = {field.number: field.value for field in fields_of(data.raw, value, behind)}
                if name := self._interned_text(InternedField.ARG_NAMES, index, figure.get(1, 0)):
                    args[_STAGE_KEYS.get(name, name)] = figure.get(4)
        return args

    def _interned_text(self, kind: int, index: int, iid: int) -> str:
        """The text that a packet means by a number; empty where that is unknown."""
        number = bisect_right(self._firsts, index) - 1
        states = self._states[number]
        state = states if isinstance(states, int) else int(states[index - self._firsts[number]])
        return self._interned.text(kind, state, index, iid)


def _event_args(data: MessageBytes, start: int, end: int, interned: InternedText) -> dict[str, Any]:
    """The debug annotations of a track event, and the id that it shares with others; a damaged one is left out."""
    args: dict[str, Any] = {}
    for number, wire, value, behind in fields_of(data.raw, start, end):
        if wire == SPAN and number == EventField.ANNOTATIONS:
            try:
                name, content = annotation(data, value, behind, interned)
            except DamagedMessage:
                continue
            args[name] = content
        elif number == EventField.CORRELATION and wire != SPAN:
            args.setdefault(CORRELATION_KEY, value)
        elif number == EventField.CORRELATION_TEXT and wire == SPAN:
            args.setdefault(CORRELATION_KEY, data.text(value, behind).decode("utf-8", "replace"))
        elif number == EventField.CORRELATION_IID and wire != SPAN:
            args.setdefault(CORRELATION_KEY, interned(InternedField.CORRELATIONS, value))
    return args
