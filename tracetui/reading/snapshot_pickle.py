"""The pickle of a memory snapshot, opcode by opcode: nothing is imported, called or executed.

A snapshot is plain data: dictionaries, lists, tuples, texts, numbers. This machine knows the opcodes of these and
refuses every other one. What is complete becomes rows at once (`Receiver.complete`) and its dictionary goes, so that an
event takes the bytes of its columns and not of its objects. A stack that was read before is one look-up of its bytes.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from sys import intern
from typing import Any, NoReturn, Protocol

from tracetui.errors import NotATrace
from tracetui.reading.load_progress import BESIDE, MOST_PER_BYTE, memory_of_process
from tracetui.reading.source import Source, Stopped

CHUNK = 1 << 20
"""Bytes that are read at once."""
AHEAD = 1 << 13
"""Bytes that are in the buffer from every opcode on, except for long texts; more than those of a batch of a list."""
MAX_TEXT = 1 << 20
"""Bytes of a text."""
MAX_DEPTH = 64
"""Containers that are open within each other; a snapshot has 8."""
MAX_STACK = 1 << 16
"""Values that wait for their container; pickle writes batches of 1,000."""
MAX_LOOSE = 1 << 16
"""Containers that are no part of a snapshot."""

_CLASSES = {
    **dict.fromkeys(b"ci\x93", "names a class or a function"),
    **dict.fromkeys(b"Rbo\x81\x92", "would call something"),
    **dict.fromkeys(b"PQ", "refers to an object outside"),
    **dict.fromkeys(b"\x82\x83\x84", "names a registered extension"),
}
"""Opcodes that a pickle of plain data never has, and what each does."""
_U16, _U32, _I32, _U64 = (struct.Struct(form).unpack_from for form in ("<H", "<I", "<i", "<Q"))
_FLOAT = struct.Struct(">d").unpack_from
_STACK = re.compile(rb"\](?:\x94|q.|r.{4})\(((?:h.|j.{4}){1,999}+)e", re.DOTALL)
"""A list of nothing but values that stand elsewhere; a batch of 1,000 may go on."""
_REFERENCE = re.compile(rb"h(.)|j(.{4})", re.DOTALL)
_KEY = rb"h.|j.{4}"
_SHORT_TEXTS = b"|".join(re.escape(bytes([length])) + b".{%d}" % length for length in range(24))
_VALUE = (
    rb"h.|j.{4}|K.|M..|J.{4}|\x8a(?:\x05.{5}|\x06.{6}|\x07.{7}|\x08.{8})|\]\x94(?:\((?:(?:h.|j.{4}){1,999}+)e)?"
    rb"|\x8c(?:" + _SHORT_TEXTS + rb")\x94"
)
_FIELDS = re.compile(rb"\}\x94\(((?:(?:" + _KEY + rb")(?:" + _VALUE + rb")){4,16}+)u", re.DOTALL)
"""A dictionary of numbers, short texts, values that stand elsewhere, and stacks: nearly every event."""
_FIELD = re.compile(rb"(" + _KEY + rb")(" + _VALUE + rb")", re.DOTALL)


class Items:
    """A list, or what stands for it once it is rows: so many of a kind, the first of them."""

    __slots__ = ("count", "first", "kind", "memo_index", "values")

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.memo_index = -1
        self.kind: object = None
        self.first = self.count = 0


class Fields:
    """A dictionary that is not complete."""

    __slots__ = ("memo_index",)

    def __init__(self) -> None:
        self.memo_index = -1


class Reference:
    """Stands for a frame or a stack by its number, or for a row."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


class FrameReference(Reference):
    """A frame."""

    __slots__ = ()


class StackReference(Reference):
    """A stack."""

    __slots__ = ()


class RowKind(Reference):
    """Stands for each row of a kind; `number` is how many there are."""

    __slots__ = ()


class Receiver(Protocol):
    """Takes what is complete."""

    def complete(self, values: dict[str, Any]) -> object:
        """Take a dictionary; returns what stands for it from now on."""

    def stack_of(self, frames: list[Any]) -> StackReference | None:
        """The stack of some frames; None where something else is among them."""


class PickleMachine:
    """Reads one pickle from a source."""

    def __init__(self, source: Source, receiver: Receiver, tell: Callable[[int], bool]) -> None:
        """`tell` is told the bytes that were read, and answers whether to stop."""
        self._source, self._receiver, self._tell = source, receiver, tell
        self._data, self._base, self._at_end = b"", 0, False
        self._before = memory_of_process()
        self._memo: list[Any] = []
        self._loose = 0
        self._runs: dict[bytes, StackReference] = {}

    def run(self) -> None:
        """Read up to the end of the pickle.

        Raises: NotATrace for what is no plain data, damaged, cut off or too large; Stopped.
        """
        try:
            self._run()
        except (IndexError, struct.error, UnicodeDecodeError):
            if self._at_end and not self._source.readinto(memoryview(bytearray(1))):
                self._refuse(f"ends at byte {self._base + len(self._data):,} or is damaged before it")
            self._refuse(f"is damaged near byte {self._base:,}")

    def settle(self, items: object, stands: object) -> None:
        """Put something smaller in the place of a list that is rows by now."""
        if isinstance(items, Items) and items.memo_index >= 0:
            self._memo[items.memo_index] = stands
            self._loose -= 1

    def _run(self) -> None:
        memo, stack, marks, runs = self._memo, list[Any](), list[int](), self._runs
        append, match_stack, match_fields = stack.append, _STACK.match, _FIELDS.match
        data, pos = self._data, 0
        limit = -1
        while True:
            if pos > limit:
                data, pos = self._refill(pos, AHEAD), 0
                limit = len(data) if self._at_end else len(data) - AHEAD
                if len(stack) > MAX_STACK:
                    self._refuse("gathers values as no snapshot does")
            op = data[pos]
            if op == 0x68:  # BINGET
                append(memo[data[pos + 1]])
                pos += 2
            elif op == 0x6A:  # LONG_BINGET
                append(memo[_U32(data, pos + 1)[0]])
                pos += 5
            elif op == 0x94:  # MEMOIZE
                top = stack[-1]
                if type(top) is Items or type(top) is Fields:
                    top.memo_index = len(memo)
                memo.append(top)
                pos += 1
            elif op == 0x8A:  # LONG1
                count = data[pos + 1]
                if count > 8:
                    self._refuse("holds a number of more than 64 bits")
                end = pos + 2 + count
                if end > len(data):
                    raise IndexError
                append(int.from_bytes(data[pos + 2 : end], "little", signed=True))
                pos = end
            elif op == 0x4B:  # BININT1
                append(data[pos + 1])
                pos += 2
            elif op == 0x4A:  # BININT
                append(_I32(data, pos + 1)[0])
                pos += 5
            elif op == 0x4D:  # BININT2
                append(_U16(data, pos + 1)[0])
                pos += 3
            elif op == 0x5D:  # EMPTY_LIST
                match = match_stack(data, pos)
                known = None
                if match is not None:
                    known = runs.get(match[1]) or self._known_stack(match[1])
                if match is not None and known is not None and data[pos + 1] == 0x94:
                    append(known)
                    memo.append(known)
                    pos = match.end()
                else:
                    append(Items())
                    self._count_loose()
                    pos += 1
            elif op == 0x7D:  # EMPTY_DICT
                match = match_fields(data, pos)
                if match is not None and self._take_fields(match[1], stack):
                    pos = match.end()
                    continue
                append(Fields())
                self._count_loose()
                pos += 1
            elif op == 0x28:  # MARK
                marks.append(len(stack))
                if len(marks) > MAX_DEPTH:
                    self._refuse(f"holds containers more than {MAX_DEPTH} deep")
                pos += 1
            elif op == 0x75 or op == 0x73:  # SETITEMS, SETITEM
                mark = marks.pop() if op == 0x75 else len(stack) - 2
                self._set(stack, mark)
                pos += 1
            elif op == 0x65 or op == 0x61:  # APPENDS, APPEND
                mark = marks.pop() if op == 0x65 else len(stack) - 1
                self._append(stack, mark)
                pos += 1
            elif op == 0x8C:  # SHORT_BINUNICODE
                count = data[pos + 1]
                pos = self._text(stack, data, pos + 2, count)
            elif op == 0x58:  # BINUNICODE
                count = _U32(data, pos + 1)[0]
                if count > MAX_TEXT:
                    self._refuse(f"holds a text of {count:,} bytes")
                if pos + 5 + count > len(data):
                    data, pos = self._refill(pos, count + AHEAD), 0
                    limit = len(data) if self._at_end else len(data) - AHEAD
                pos = self._text(stack, data, pos + 5, count)
            elif op == 0x71 or op == 0x72:  # BINPUT, LONG_BINPUT
                index = data[pos + 1] if op == 0x71 else _U32(data, pos + 1)[0]
                # Pickle numbers them in order; anything else would grow the list, or change what was read.
                if index != len(memo):
                    self._refuse("numbers its values out of order")
                top = stack[-1]
                if type(top) is Items or type(top) is Fields:
                    top.memo_index = index
                memo.append(top)
                pos += 2 if op == 0x71 else 5
            elif op == 0x95:  # FRAME
                pos += 9
            elif op == 0x80:  # PROTO
                pos += 2
            elif op == 0x4E or op == 0x88 or op == 0x89:  # NONE, NEWTRUE, NEWFALSE
                append(None if op == 0x4E else op == 0x88)
                pos += 1
            elif op == 0x47:  # BINFLOAT
                append(_FLOAT(data, pos + 1)[0])
                pos += 9
            elif op in (0x29, 0x85, 0x86, 0x87, 0x74):  # EMPTY_TUPLE, TUPLE1 to TUPLE3, TUPLE
                mark = marks.pop() if op == 0x74 else len(stack) - (0 if op == 0x29 else op - 0x84)
                if mark < 0:
                    raise IndexError
                parts = stack[mark:]
                # Nothing within a tuple is read but the two numbers of a pool.
                stack[mark:] = [tuple(parts) if all(type(part) is int for part in parts) and len(parts) < 4 else ()]
                pos += 1
            elif op == 0x2E:  # STOP
                return
            elif op in _CLASSES:
                self._refuse(f"{_CLASSES[op]} at byte {self._base + pos:,}, as no snapshot does; nothing of it was run")
            else:
                self._refuse(f"holds {bytes([op])!r} at byte {self._base + pos:,}, which stands in no snapshot")

    def _take_fields(self, written: bytes, stack: list[Any]) -> bool:
        """Take a whole dictionary at once; False, and nothing done, where it holds what is not expected."""
        memo, values, new = self._memo, dict[str, Any](), list[object]()
        for key, value in _FIELD.findall(written):
            op = value[0]
            if op == 0x68:
                read = memo[value[1]]
            elif op == 0x8A:
                read = int.from_bytes(value[2:], "little", signed=True)
            elif op == 0x4B:
                read = value[1]
            elif op == 0x4A:
                read = _I32(value, 1)[0]
            elif op == 0x6A:
                read = memo[_U32(value, 1)[0]]
            elif op == 0x4D:
                read = _U16(value, 1)[0]
            elif op == 0x8C:
                # As `alloc`, of which C++ makes a new text for every event.
                read = intern(str(value[2:-1], "utf-8", "surrogatepass"))
                new.append(read)
            else:
                run = value[3:-1]
                read = self._runs.get(run) or self._known_stack(run)
                if read is None:
                    return False
                new.append(read)
            name = memo[key[1] if key[0] == 0x68 else _U32(key, 1)[0]]
            if type(name) is not str:
                return False
            values[name] = read
        complete = self._receiver.complete(values)
        memo.append(complete)
        memo += new
        stack.append(complete)
        return True

    def _set(self, stack: list[Any], mark: int) -> None:
        """Complete a dictionary; what stands for it comes in its place."""
        if mark < 1:
            raise IndexError
        fields, keys = stack[mark - 1], stack[mark::2]
        if type(fields) is not Fields or (len(stack) - mark) % 2 or not all(type(key) is str for key in keys):
            self._refuse("sets fields of what is no dictionary of named values")
        complete = self._receiver.complete(dict(zip(keys, stack[mark + 1 :: 2], strict=True)))
        del stack[mark:]
        stack[-1] = complete
        self._loose -= 1
        if fields.memo_index >= 0:
            self._memo[fields.memo_index] = complete

    def _append(self, stack: list[Any], mark: int) -> None:
        """Put values at the end of a list; rows are only counted."""
        if mark < 1:
            raise IndexError
        items, values = stack[mark - 1], stack[mark:]
        if type(items) is not Items:
            self._refuse("adds to what is no list, or to one that was used before")
        del stack[mark:]
        kind = values[0] if values else None
        if type(kind) is not RowKind:
            if len(items.values) > MAX_STACK:
                self._refuse("holds a list that is longer than any of a snapshot")
            items.values += values
            return
        first = kind.number - len(values)
        is_next = items.kind is kind and items.first + items.count == first
        if values.count(kind) != len(values) or not (is_next or (items.kind is None and not items.values)):
            self._refuse("holds an event or a block in more than one place")
        if items.kind is None:
            items.kind, items.first = kind, first
        items.count += len(values)

    def _count_loose(self) -> None:
        self._loose += 1
        if self._loose > MAX_LOOSE:
            self._refuse(f"holds more than {MAX_LOOSE:,} lists that are no part of a snapshot")

    def _known_stack(self, run: bytes) -> StackReference | None:
        """The stack that a list of references is, which is looked at once."""
        numbers = [short[0] if short else _U32(long)[0] for short, long in _REFERENCE.findall(run)]
        stack = self._receiver.stack_of([self._memo[number] for number in numbers])
        if stack is not None:
            self._runs[run] = stack
        return stack

    def _text(self, stack: list[Any], data: bytes, start: int, count: int) -> int:
        end = start + count
        if end > len(data):
            raise IndexError
        stack.append(intern(str(data[start:end], "utf-8", "surrogatepass")))
        return end

    def _refill(self, pos: int, wanted: int) -> bytes:
        """Drop what was read, and read on until so many bytes are there."""
        self._base += pos
        if self._tell(self._source.consumed):
            raise Stopped
        size = max(self._source.size or 0, self._source.consumed)
        taken = memory_of_process() - self._before
        if taken > BESIDE + MOST_PER_BYTE * size:
            self._refuse(f"takes more than {MOST_PER_BYTE} times its size of memory")
        parts = [self._data[pos:]]
        fill = len(parts[0])
        while fill < wanted + CHUNK and not self._at_end:
            buffer = bytearray(CHUNK)
            count = self._source.readinto(memoryview(buffer))
            self._at_end = count == 0
            parts.append(bytes(buffer[:count]))
            fill += count
        self._data = b"".join(parts)
        return self._data

    def _refuse(self, why: str) -> NoReturn:
        raise NotATrace(f"{self._source.label} {why}: it is no memory snapshot that can be read.")
