"""A damaged trace, written anew as one that every viewer opens, and the list of changes.

Valid events stay byte for byte. Each change is listed with its offset in bytes, counted in the unpacked file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import msgspec

from tracetui.frozen import frozen
from tracetui.model.trace import BEGINNING, Trace
from tracetui.reading import json_repair
from tracetui.reading.decode import decode_raw, encoded
from tracetui.reading.json_repair import Bracket, Oddity, Piece
from tracetui.reading.store import Store
from tracetui.writing.output import MARK, Sink, surroundings, write_events

LEFT_OUT, CUT_OFF = "left out, it cannot be read", "left out, the file ends within it"
MENDED = "mended: quotes, escapes or bare words within it"
REWRITTEN = "rewritten: it held what JSON does not allow, such as control characters or NaN"
NOT_UTF8 = "rewritten: bytes that are not UTF-8 became signs"
NO_EVENT = "left out, it is no event"
COMMAS = "a comma was put between events, or one too many taken away"
ODDITIES = {
    Oddity.BRACKET: "left out, a closing bracket between events",
    Oddity.INNER_ARRAY: "the events of another array were put into the one",
    Oddity.SECOND_KEY: "the events of the second key traceEvents were put into the one array",
    Oddity.NEXT_TRACE: "the events of another trace were put into the one array",
    Oddity.FOREIGN: "left out, it is no event",
}


@frozen(eq=True, slots=True)
class Mend:
    """One change."""

    offset: int | None
    """Byte in the unpacked file, None for the file as a whole."""
    what: str
    excerpt: str = ""
    """Beginning of the text that was there."""


@dataclass
class Repair:
    """A trace written anew; `done` lists what was changed once it is written."""

    trace: Trace
    done: list[Mend] = field(default_factory=list)
    _commas: list[int] = field(default_factory=list)
    """Offsets of wrong commas."""

    def write(self, sink: Sink, progress: Callable[[int], None] = lambda _: None) -> int:
        """Write the whole trace and return the number of events.

        Raises: TraceError when the file has changed since it was read.
        """
        store = self._store
        count = write_events(sink, store.container, self._events(store, progress))
        if self._commas:
            more = f", and in {len(self._commas) - 1:,} more places" if len(self._commas) > 1 else ""
            self.done.append(Mend(self._commas[0], COMMAS + more))
        self.done += [Mend(odd.offset, ODDITIES[odd.kind], _excerpt(odd.text)) for odd in store.container.oddities]
        self.done.sort(key=lambda mend: -1 if mend.offset is None else mend.offset)
        self.done += self._changes_around(store)
        return count

    @property
    def _store(self) -> Store:
        assert isinstance(self.trace.store, Store), "only a trace that was read from somewhere can be repaired"
        return self.trace.store

    def _events(self, store: Store, progress: Callable[[int], None]) -> Iterator[bytes]:
        count = 0
        for place, data in store.blocks():
            events = self._lenient(place.offset, data) if place.is_tolerant else self._strict(place.offset, data)
            for event in events:
                count += 1
                yield event
            progress(count)

    def _strict(self, offset: int, data: bytes) -> list[bytes]:
        """The events of a block that is valid JSON, but perhaps for its bytes."""
        events = decode_raw(data, is_tolerant=False)
        try:
            data.decode()
        except UnicodeDecodeError:
            index = 0
            for event in events:
                while data[index : index + 1] in (b"[", b",", b" ", b"\n", b"\r", b"\t"):
                    index += 1
                # A byte that was replaced is one byte again, so that both have the same length.
                if data[index : index + len(event)] != event:
                    self._add(offset + index, NOT_UTF8, event.decode())
                index += len(event)
        return events

    def _lenient(self, offset: int, data: bytes) -> Iterator[bytes]:
        """The events of a block that is not valid JSON: as they are where they are valid, else as they were read."""
        # A block that begins elsewhere than at the bracket begins with the comma before it.
        commas = 0 if data.startswith(b"[") else -1
        for piece in json_repair.pieces(data):
            if isinstance(piece, Bracket):
                # Listed with what stands outside of blocks; the comma may have become the bracket.
                commas = -1
                continue
            event = self._read(offset, data, piece)
            if event is None:
                # A comma may have been left out with it.
                commas = -1
                continue
            if commas >= 0 and piece.gap.count(",") != commas and self._store.container.kind != "lines":
                self._commas.append(offset + piece.start - len(piece.gap.encode()))
            commas = -1 if piece.is_mended else 1
            yield event

    def _read(self, offset: int, data: bytes, piece: Piece) -> bytes | None:
        """The event of a piece, None where it is left out."""
        if not isinstance(piece.item, dict):
            what = CUT_OFF if piece.is_open else LEFT_OUT if piece.item is None else NO_EVENT
            self._add(offset + piece.start, what, piece.text)
            return None
        raw = data[piece.start : piece.end]
        if not piece.is_mended and _is_valid(raw):
            return raw
        self._add(offset + piece.start, MENDED if piece.is_mended else REWRITTEN, piece.text)
        return encoded(piece.item)

    def _changes_around(self, store: Store) -> Iterator[Mend]:
        """The changes around the events."""
        container = store.container
        if self.trace.format.endswith(", utf-16"):
            yield Mend(None, "written in UTF-8 instead of UTF-16")
        if container.kind == "lines":
            yield Mend(None, "the lines became an array")
        elif not container.is_closed:
            what = "the array and the object around it were" if container.kind == "object" else "the array was"
            yield Mend(None, f"{what} closed")
        elif container.kind == "object" and surroundings(container)[0] != container.header.removeprefix(MARK):
            kept = ", ".join(key for key in container.metadata if key != "traceEvents") or "none"
            yield Mend(None, f"the keys beside the events were written anew: {kept}")
        listed = len(container.oddities)
        if (more := sum(container.odd_counts.values()) - listed) > 0:
            yield Mend(None, f"{more:,} further things of these kinds were done")
        for sentence in self.trace.quality.notes:
            if "stream" in sentence or "inflate" in sentence or "zip archive" in sentence:
                yield Mend(None, sentence)

    def _add(self, offset: int, what: str, text: str) -> None:
        self.done.append(Mend(offset, what, _excerpt(text)))


def _excerpt(text: str) -> str:
    """The beginning of a text on one line."""
    return " ".join(text[: 2 * BEGINNING].split())[:BEGINNING]


def _is_valid(raw: bytes) -> bool:
    try:
        msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True
