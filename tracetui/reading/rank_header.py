"""Reads the head and the tail of a file for the rank that recorded it, without reading its events.

A compressed file has no tail that can be read alone: what stands behind its events is known once it has been loaded.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from tracetui.errors import TraceError
from tracetui.model.recorded import HEADER_KEYS, RankHeader, header_fields
from tracetui.reading.json_repair import parse_value, readable
from tracetui.reading.source import open_raw_file, open_source

HEAD_BYTES = 1 << 17
"""Bytes at the beginning that are read, unwrapped."""
TAIL_BYTES = 1 << 16
"""Bytes at the end of a plain file that are read."""
_SIGNS = ("traceEvents", "ph", "distributedInfo", "deviceProperties")
"""One of these keys stands at the beginning of every trace, and of no other JSON that lies beside traces."""
_COLON = re.compile(r"\s*:\s*")
_TIME = re.compile(r"[1-9][0-9]*(?:\.[0-9]+)?")
_END = re.compile(r"[\]}]\s*\Z")


def read_rank_header(path: str) -> RankHeader | None:
    """The rank that a file names; None for a file that is no trace, such as a configuration.

    Raises: TraceError for a file that cannot be read.
    """
    with contextlib.closing(open_source(path)) as source:
        buffer = memoryview(bytearray(HEAD_BYTES))
        fill = 0
        while fill < len(buffer) and (more := source.readinto(buffer[fill:])):
            fill += more
        head = readable(bytes(buffer[:fill]))
        is_plain, size = source.wrapping == "plain", source.size or 0
    if not any(True for sign in _SIGNS for _ in _values_of(sign, head)):
        return None
    is_all = is_plain and size <= HEAD_BYTES
    tail = ""
    if is_plain and not is_all:
        with open_raw_file(path) as file:
            file.seek(max(size - TAIL_BYTES, 0))
            tail = readable(b"".join(iter(lambda: file.read(TAIL_BYTES) or b"", b"")))
    keys = {**_keys(tail), **_keys(head)}
    fields = header_fields(keys)
    end = tail or (head if is_all else "")
    match = next((time for begin in _values_of("ts", head) if (time := _TIME.match(head, begin))), None)
    return RankHeader(
        path=path,
        size_bytes=size,
        begin_ns=None if match is None else int(Decimal(match[0]) * 1000) + (fields["base_ns"] or 0),
        is_whole=bool(_END.search(end)) if end else None,
        **fields,
    )


def is_whole_file(path: str) -> bool:
    """Tell whether a file can be unwrapped to its end and ends as a trace does; reads all of it."""
    buffer = memoryview(bytearray(1 << 20))
    last = b""
    try:
        with contextlib.closing(open_source(path)) as source:
            while count := source.readinto(buffer):
                last = (
                    bytes(buffer[max(count - 64, 0) : count]) if count >= 64 else (last + bytes(buffer[:count]))[-64:]
                )
            return source.damage is None and bool(_END.search(last.decode("utf-8", "replace")))
    except TraceError:
        return False


def _keys(text: str) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for key in HEADER_KEYS:
        for begin in _values_of(key, text):
            value, end = parse_value(text, begin)
            if end > begin:
                fields[key] = value
    return fields


def _values_of(key: str, text: str) -> Iterator[int]:
    """Indices at which the values of a key begin; a regular expression for all of it would take 40 times as long."""
    word, index = f'"{key}"', -1
    while (index := text.find(word, index + 1)) >= 0:
        if colon := _COLON.match(text, index + len(word)):
            yield colon.end()
