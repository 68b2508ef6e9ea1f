"""Events put into a file again, with what stood around them: an object stays an object, an array an array.

Lines without an array around them become an array, which every viewer opens.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import msgspec

from tracetui.reading.store import Container

BATCH = 1 << 20
"""So many bytes are gathered before they are written."""
MARK = b"\xef\xbb\xbf"
"""What some programs put in front of UTF-8."""
_SEPARATOR = b",\n"
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
"""Checks an object without making its values."""


class Sink(Protocol):
    """What bytes are written to."""

    def write(self, data: bytes, /) -> Any:
        """Take bytes."""
        ...


def write_events(sink: Sink, container: Container, events: Iterable[bytes]) -> int:
    """Write a whole trace of events that are valid JSON each; returns how many there were."""
    before, after = surroundings(container)
    sink.write(before)
    count = write_array(sink, events)
    sink.write(after)
    return count


def write_array(sink: Sink, events: Iterable[bytes]) -> int:
    """Write the array of some events; returns how many there were."""
    sink.write(b"[\n")
    count, pending, size = 0, [], 0
    for event in events:
        pending.append(event)
        size += len(event)
        if size >= BATCH:
            sink.write((_SEPARATOR if count else b"") + _SEPARATOR.join(pending))
            count, size = count + len(pending), 0
            pending.clear()
    if pending:
        sink.write((_SEPARATOR if count else b"") + _SEPARATOR.join(pending))
    sink.write(b"\n]")
    return count + len(pending)


def surroundings(container: Container) -> tuple[bytes, bytes]:
    """What stands in front of and behind the array: the bytes of the file where they are valid, else their content."""
    if container.kind != "object":
        return b"", b"\n"
    header = container.header.removeprefix(MARK)
    try:
        (header + container.trailer).decode()
        _fields.decode(header + b"[]" + container.trailer)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return object_around(container.metadata)
    return header, container.trailer


def object_around(metadata: Mapping[str, Any]) -> tuple[bytes, bytes]:
    """The same of an object with these keys beside the events."""
    fields = msgspec.json.encode({key: value for key, value in metadata.items() if key != "traceEvents"})
    return fields[:-1] + (b"," if len(fields) > 2 else b"") + b'"traceEvents":', b"}\n"
