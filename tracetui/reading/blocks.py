"""Cuts a stream of bytes into blocks of whole events without looking at every byte.

A block ends at the last separator between events within a megabyte: the bytes that the file itself was seen to
use (`},\\n  {`). Such a cut may be wrong, inside the arguments of an event, but then the block cannot parse, and
an earlier position is tried: a cut verifies itself. A block that parses nowhere is read by the tolerant path.
Blocks of a megabyte stay in the processor's cache; larger ones are slower.

An array of events is not the end of a file: `top_level` finds where events go on behind it.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from itertools import islice

import msgspec

from tracetui.model.trace import BEGINNING, EXAMPLES, REPEATED, REPLACED, UNREADABLE
from tracetui.reading import json_repair
from tracetui.reading.decode import Malformed, decode_events, event_of_object, located, object_fields
from tracetui.reading.file_layout import MAX_HEADER, FileLayout, Separators, Stop, TopLevel, find_events
from tracetui.reading.json_repair import Found, Oddity
from tracetui.reading.odd_texts import replaced_in, rows_with_repeated_keys
from tracetui.reading.scan_ahead import MIN_CHUNKS, ChunkReader, ScanAhead
from tracetui.reading.scanner.scanned_events import BlockScanner, DecodedEvents, ScannedBlocks
from tracetui.reading.scanner.scanner import scanning_threads
from tracetui.reading.source import ByteWindow, Source, Stopped

BLOCK = 1 << 20
MAX_EVENT = 1 << 26
"""Bytes of a single event beyond which it is taken for damage."""
MAX_DAMAGED = 8
"""Maximum blocks that are read of what may be one damaged event."""
FEW = 1 << 14
"""Bytes of events: where a stray bracket stands behind fewer, the tolerant path reads on beyond it."""

_LOOSE_SEPARATOR = re.compile(rb'\}\s*(?:,\s*)?\{\s*"')
_UNSEPARATED = re.compile(rb'\}\s*\{\s*"')
_COMMA = re.compile(rb"\s*,")
_STRAY_BRACKET = re.compile(rb'[\s,\]\[]*+\{\s*+"')
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
"""Half a character, which the decoder takes for the end of its input."""
_OPEN, _CLOSE = ord("["), ord("]")


@dataclass(slots=True)
class Block:
    """Some consecutive events and where they stand."""

    events: DecodedEvents
    data: bytes
    """`[` event, ... `]`."""
    offset: int
    """Of the first byte of `data` in the unwrapped stream."""
    is_tolerant: bool = False


AnyBlock = Block | ScannedBlocks


@dataclass(slots=True)
class CutBlock:
    """A block, and where to go on in the buffer."""

    block: AnyBlock
    end: int
    """Index of the byte for the bracket of the next block; behind the closing bracket where the array ended."""
    has_ended: bool = False


class BlockReader:
    """Iterates over the blocks of a source; `layout` is complete when the iteration is.

    Once `cancelled` answers true, the iteration ends. What a `scanner` has read of a block is valid until the next one.
    """

    def __init__(
        self,
        source: Source,
        block: int = BLOCK,
        cancelled: Callable[[], bool] = lambda: False,
        scanner: BlockScanner | None = None,
        threads: int | None = None,
    ) -> None:
        self.layout = FileLayout()
        self._source = source
        self._block = block
        self._window = ByteWindow(source, block, cancelled)
        self._separators = Separators()
        self._scanner = scanner
        self._threads = scanning_threads() if threads is None else threads

    def __iter__(self) -> Generator[AnyBlock, None, None]:
        try:
            start: int | None = find_events(self._window, self.layout, self._source)
            read = self._read_lines if self.layout.container == "lines" else self._read_array
            top_level = TopLevel(self.layout.container == "object")
            while start is not None:
                behind = yield from read(start)
                start = None if behind is None else self._resume(behind, top_level)
        except Stopped:
            return

    def _read_array(self, start: int) -> Generator[AnyBlock, None, int | None]:
        """The blocks of an array; returns the index behind its bracket, None where the file ends in it."""
        pause, alone = 0, 1
        while (cut := self._next(start)) is not None:
            yield cut.block
            if cut.has_ended:
                return cut.end
            self._window.move_up(cut.end)
            pause -= 1
            # Where whole blocks can be expected behind the beginning of the window.
            if pause < 0 and self._scanner is not None and self._bytes_left() > 2 * len(self._window.data):
                yield from self._scan_ahead()
                # What stands there is read block by block; where it is damage, there may be more of it.
                pause, alone = alone, 2 * alone
            start, self._window.data[0] = 0, _OPEN
        return (yield from self._salvage(start))

    def _bytes_left(self) -> float:
        """Number of bytes of a plain file behind the beginning of the window; of an inflated one nobody knows."""
        if self._source.is_long:
            return math.inf
        return (self._source.size or 0) - self._window.base if self._source.rereadable else 0

    def _scan_ahead(self) -> Iterator[AnyBlock]:
        """The blocks from the beginning of the window on, which then begins with the first that is read by itself."""
        window = self._window
        # The bracket of the block that ended there was put on the comma.
        window.data[0] = ord(",")
        begun = bytes(window.data[: window.fill])
        chunks = ChunkReader(self._source, self._separators, begun, window.base, len(window.data))
        window.fill = 0
        threads = self._threads if self._bytes_left() > MIN_CHUNKS * chunks.size else 1
        ahead = ScanAhead(chunks, threads, window.check)
        try:
            for scanned in ahead:
                window.check()
                if scanned.scanned is not None:
                    yield scanned.scanned
                chunk = scanned.chunk
                for index in range(scanned.count, len(chunk.separators)):
                    try:
                        block = self._read(chunk.block(index), chunk.offset + chunk.bounds[index])
                    except Malformed:
                        ahead.close()
                        self._separators.usual = chunk.separators[index]
                        window.restart(ahead.bytes_since(scanned, index), chunk.offset + chunk.bounds[index])
                        return
                    yield block
        finally:
            ahead.close()
        window.restart(chunks.rest, chunks.offset)

    def _read_lines(self, start: int) -> Generator[AnyBlock, None, int | None]:
        """The same where every object stands on a line, without an array around them."""
        while True:
            self._window.move_up(start)
            start = 0
            self._window.read_more()
            if self._window.eof:
                return (yield from self._salvage(0))
            if (
                self._window.fill < MAX_EVENT
                and _LOOSE_SEPARATOR.search(self._window.data, 1, self._window.fill) is None
            ):
                self._window.grow()
            elif (cut := self._loosely(0)) is not None:
                yield cut.block
                if cut.has_ended:
                    return cut.end
                start = cut.end

    def _resume(self, behind: int, top_level: TopLevel) -> int | None:
        """Find where events go on behind the end of an array: the index of their bracket, None where the file ends."""
        passed: list[bytes] = []
        irregularities: list[Found] = []
        # One byte is kept, on which a bracket may be put.
        low = behind - 1
        while True:
            stop, index, odd = top_level.look(self._window, behind)
            irregularities += odd
            if stop is not Stop.MORE:
                break
            passed.append(bytes(self._window.data[behind:index]))
            behind = index
            if behind - 1 > low:
                self._window.move_up(behind - 1)
                behind, low = 1, 0
            if self._window.fill >= MAX_HEADER:
                self._window.eof = True
                continue
            if self._window.fill == len(self._window.data):
                self._window.grow()
            else:
                self._window.read_more()
        passed.append(bytes(self._window.data[behind:index]))
        if stop is Stop.END:
            self._keep_trailer(b"".join(passed), irregularities, top_level)
            return None
        for each in irregularities:
            self.layout.add_oddity(each)
        self.layout.between.append(b"".join(passed))
        if stop is Stop.ARRAY:
            return index
        self._window.data[index - 1] = _OPEN
        return index - 1

    def _keep_trailer(self, trailer: bytes, irregularities: list[Found], top_level: TopLevel) -> None:
        layout = self.layout
        layout.trailer, layout.trailer_at = trailer, self._window.base + self._window.fill - len(trailer)
        if layout.container == "object" and _is_object(layout.header + b"[]" + trailer):
            # Keys of an object around the object of the events.
            return
        if top_level.in_object and not layout.is_headless:
            layout.is_closed = False
            layout.truncated_at = self._window.base + self._window.fill
        nested = Oddity.INNER_ARRAY in layout.odd_counts and not trailer.strip(b"] \t\r\n")
        if not irregularities and layout.container != "object" and trailer.strip() and not nested:
            offset = self._window.base + self._window.fill - len(trailer.lstrip())
            irregularities = [Found(offset, Oddity.FOREIGN, trailer.strip()[:BEGINNING].decode(errors="replace"))]
        for each in irregularities:
            layout.add_oddity(each)

    def _next(self, start: int) -> CutBlock | None:
        """A block from `start`; None if the file ends in it."""
        self._window.read_more()
        cut = None if self._window.eof else self._cut(start)
        if cut is not None:
            return cut
        rest = self._rest(start)
        if rest is not None or self._window.fill - start <= 2 * self._block:
            return rest
        return self._cut(start)

    def _rest(self, start: int) -> CutBlock | None:
        """All that is left once the source has ended, None where that is not whole."""
        try:
            return CutBlock(self._strict(start, self._window.fill), self._window.fill, has_ended=True)
        except Malformed as error:
            return None if error.end is None else self._ended(start, start + error.end)

    def _ended(self, start: int, end: int) -> CutBlock | None:
        """The block of an array that ends before `end`; brackets that stand close are left to the tolerant path."""
        if end - start >= FEW or not _STRAY_BRACKET.match(self._window.data, end, self._window.fill):
            # What ends there may be an array of arrays.
            with contextlib.suppress(Malformed):
                return CutBlock(self._strict(start, end), end, has_ended=True)
        return None if self._window.eof else self._cut_loosely(start)

    def _cut(self, start: int) -> CutBlock | None:
        """The events that are whole in the buffer, None when the first does not end before the file."""
        unclosed, is_tried = True, False
        for comma in self._separators.commas(self._window.data, start, self._window.fill):
            is_tried = True
            self._window.data[comma] = _CLOSE
            try:
                return CutBlock(self._strict(start, comma + 1), comma)
            except Malformed as error:
                self._window.data[comma] = ord(",")
                if error.end is not None:
                    return self._ended(start, start + error.end)
                unclosed = unclosed and error.unclosed
        if not is_tried:
            try:
                return CutBlock(self._strict(start, self._window.fill), self._window.fill, has_ended=True)
            except Malformed as error:
                if error.end is not None:
                    return self._ended(start, start + error.end)
                unclosed = error.unclosed
        if not unclosed or not self._is_one_event(start) or self._lacks_commas(start):
            return self._cut_loosely(start)
        if not self._window.eof:
            self._window.grow()
        return None if self._window.eof else self._cut(start)

    def _is_one_event(self, start: int) -> bool:
        """Tell whether the buffer may hold the beginning of one long event, so that more should be read of it."""
        size = self._window.fill - start
        if size < MAX_DAMAGED * self._block:
            return True
        return size < MAX_EVENT and _HALF.search(self._window.data, start, self._window.fill) is None

    def _lacks_commas(self, start: int) -> bool:
        """Tell whether the first event is whole and the next follows without a comma, as where each is a line."""
        for match in islice(_UNSEPARATED.finditer(self._window.data, start, self._window.fill), 8):
            if _is_object(bytes(self._window.data[start + 1 : match.start() + 1])):
                return True
        return False

    def _strict(self, start: int, end: int) -> AnyBlock:
        # A copy, for some arguments of the events are views of it and the buffer moves on.
        with memoryview(self._window.data) as view:
            data = bytes(view[start:end])
        return self._read(data, self._window.base + start)

    def _read(self, data: bytes, offset: int) -> AnyBlock:
        """The block of which these are the bytes. Raises: Malformed."""
        scanned = None if self._scanner is None else self._scanner.scan(data, offset)
        if scanned is not None:
            return scanned
        # Looked for before there are events: objects and events at once take twice the memory.
        repeating = rows_with_repeated_keys(data)
        events = DecodedEvents(decode_events(data), data, is_tolerant=False)
        if json_repair.has_bare_paths(data):
            return self._tolerant_block(json_repair.parse(data, self._window.check), data, offset)
        self._note_odd_texts(data, offset, repeating)
        return Block(events, data.rstrip(), offset)

    def _note_odd_texts(self, data: bytes, offset: int, repeating: list[int]) -> None:
        """Take note of what of a block of valid JSON was replaced, and of the rows in which a key stands twice."""
        layout = self.layout
        # Of halves of characters no valid JSON is made.
        replaced, at = (0, 0) if data.isascii() else replaced_in(data)
        layout.replaced += replaced
        layout.repeated += len(repeating)
        if replaced:
            beginning = data[at : at + BEGINNING].decode(errors="replace")
            layout.examples.append((offset + at, f"{REPLACED}: {beginning}"))
        for row_at, text in located(data, repeating[:EXAMPLES], is_tolerant=False):
            layout.examples.append((offset + row_at, f"{REPEATED}: {text}"))

    def _cut_loosely(self, start: int) -> CutBlock | None:
        """The events that are whole in the buffer, as the tolerant path reads them."""
        cut = self._loosely(start)
        if cut is None or cut.has_ended:
            return cut
        comma = _COMMA.match(self._window.data, cut.end, self._window.fill)
        # The next block's bracket is put on the comma; where there is none, on a byte that has been read.
        cut.end = comma.end() - 1 if comma else cut.end - 1
        return cut

    def _loosely(self, start: int) -> CutBlock | None:
        """A block for the tolerant path, which ends at the index behind it.

        It goes up to the last index that looks like the end of an event. Where that turns out to be inside of one,
        the block ends before that one; a single one is read further, None if the file ends in it.
        """
        ended = self._window.eof
        while True:
            for end in self._loose_ends(start) or [self._window.fill]:
                data = bytes(self._window.data[start:end])
                parsed = json_repair.parse(data, self._window.check)
                if parsed.open_at is None or parsed.events or parsed.dropped:
                    break
            if parsed.ended_at is not None:
                end = start + parsed.ended_at + 1
                return CutBlock(self._taken(parsed, data[: end - start], start), end, has_ended=True)
            if parsed.open_at is not None and (parsed.events or parsed.dropped):
                end = start + parsed.open_at
                data, parsed.open_at = data[: parsed.open_at], None
            if parsed.open_at is None or ended or self._window.fill >= MAX_DAMAGED * self._block:
                return CutBlock(self._taken(parsed, data, start), end)
            if self._window.eof:
                return None
            self._window.grow()

    def _loose_ends(self, start: int) -> list[int]:
        """Behind the last brace that looks like the end of an event on a line, and behind the last one anywhere."""
        end = end_of_line = None
        for match in _LOOSE_SEPARATOR.finditer(self._window.data, start + 1, self._window.fill):
            end = match.start() + 1
            if b"\n" in match[0]:
                end_of_line = end
        return [index for index in dict.fromkeys((end_of_line, end)) if index is not None]

    def _taken(self, parsed: json_repair.Parsed, data: bytes, start: int) -> Block:
        """The block where the file goes on behind it: an event that does not end there is damaged, not cut off."""
        if parsed.open_at is not None:
            parsed.dropped += 1
            beginning = data[parsed.open_at : parsed.open_at + BEGINNING].decode(errors="replace")
            parsed.examples.append((parsed.open_at, f"{UNREADABLE}: {beginning}"))
        return self._tolerant_block(parsed, data, self._window.base + start)

    def _tolerant_block(self, parsed: json_repair.Parsed, data: bytes, offset: int) -> Block:
        """The block at an offset of the stream; its counts and examples of damage go into the layout."""
        layout = self.layout
        layout.dropped += parsed.dropped
        layout.repaired += parsed.repaired
        layout.replaced += parsed.replaced
        layout.repeated += parsed.repeated
        layout.examples += [(offset + at, what) for at, what in parsed.examples]
        for bracket in parsed.brackets:
            assert bracket.kind is not None
            layout.add_oddity(Found(offset + bracket.start, bracket.kind))
        events = DecodedEvents(list(map(event_of_object, parsed.events)), data, is_tolerant=True)
        return Block(events, data, offset, is_tolerant=True)

    def _salvage(self, start: int) -> Generator[AnyBlock, None, int | None]:
        """The end of a file that stops in the middle: whole events strictly, the rest as far as it goes."""
        for comma in self._separators.commas(self._window.data, start, self._window.fill):
            self._window.data[comma] = _CLOSE
            try:
                yield self._strict(start, comma + 1)
            except Malformed:
                self._window.data[comma] = ord(",")
                continue
            start, self._window.data[comma] = comma, _OPEN
            break
        data = bytes(self._window.data[start : self._window.fill])
        parsed = json_repair.parse(data, self._window.check)
        if parsed.ended_at is not None:
            end = start + parsed.ended_at + 1
            yield self._tolerant_block(parsed, data[: end - start], self._window.base + start)
            return end
        yield self._tolerant_block(parsed, data, self._window.base + start)
        layout = self.layout
        layout.is_closed = layout.container == "lines" and parsed.open_at is None
        layout.is_within_event = parsed.open_at is not None
        at = self._window.fill if parsed.open_at is None else start + parsed.open_at
        is_whole = parsed.open_at is None and layout.container != "object"
        layout.truncated_at = None if is_whole else self._window.base + at
        return None


def _is_object(data: bytes) -> bool:
    try:
        object_fields.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return True
