"""Where the events of a file begin: in an array, under the key `traceEvents`, on lines, or behind damage."""

from __future__ import annotations

import re

from tracetui.errors import NotATrace
from tracetui.model.trace import BEGINNING
from tracetui.reading import tolerant
from tracetui.reading.layout import FileLayout
from tracetui.reading.oddities import Found, Oddity
from tracetui.reading.other_files import refuse_other_content
from tracetui.reading.source import Source
from tracetui.reading.top_level import EVENTS_KEY, first_events
from tracetui.reading.window import ByteWindow

MAX_HEADER = 1 << 28
"""Bytes in front of the events, or behind them, beyond which no more are read."""
FIRST_LINE = 1 << 22
"""A longer beginning is not tried for being an event on a line of its own."""
MAX_FOREIGN_HEAD = 1 << 23
"""Bytes in which events are looked for where a file does not begin like a trace."""


def find_events(window: ByteWindow, layout: FileLayout, source: Source) -> int:
    """Read until the events begin, and return the index of their bracket.

    Raises: NotATrace.
    """
    searched = 0
    while True:
        window.read_more()
        start = _first_sign(window.data, window.fill)
        sign = window.data[start : start + 1]
        if sign == b"[":
            layout.container = "array"
            return start
        match = EVENTS_KEY.search(window.data, max(searched - FIRST_LINE, 0), window.fill)
        if match and sign == b"{":
            layout.header = bytes(window.data[: match.end() - 1])
            return match.end() - 1
        if sign == b"{" and _starts_with_event(bytes(window.data[start : min(window.fill, FIRST_LINE)])):
            layout.container = "lines"
            return 0
        searched = window.fill
        if window.eof or window.fill > (MAX_HEADER if sign == b"{" else MAX_FOREIGN_HEAD):
            body = bytes(window.data[start : min(window.fill, start + (1 << 10))])
            return _find_later(window, layout, source, body)
        window.grow()


def _find_later(window: ByteWindow, layout: FileLayout, source: Source, body: bytes) -> int:
    """The same in a file that does not begin like a trace, which `body` is the beginning of.

    Raises: NotATrace.
    """
    if not body:
        raise NotATrace(f"{source.label} {_nothing(source, window.fill)}.")
    found = first_events(window.data, window.fill)
    if found is None:
        refuse_other_content(body, source.label, is_eventless=True)
    if found is None and body.startswith(b"{"):
        raise NotATrace(f"{source.label} is JSON but holds no traceEvents array in {window.fill:,} bytes.")
    if found is None:
        shown = body[:24].decode("utf-8", "replace")
        raise NotATrace(f"{source.label} is not a trace: it starts with {shown!r}, not with {{ or [.")
    index, is_array = found
    layout.is_headless = True
    layout.header = bytes(window.data[: index if is_array else index - 1])
    layout.note(Found(window.base, Oddity.FOREIGN, body[:BEGINNING].decode(errors="replace")))
    if is_array:
        return index
    window.data[index - 1] = ord("[")
    return index - 1


def _nothing(source: Source, blanks: int) -> str:
    """What is to be said of a file in which nothing stands."""
    if source.damage:
        return f"holds nothing that can be read: {source.damage}"
    if blanks:
        return "is empty but for blanks"
    if source.wrapping != "plain":
        return f"holds nothing: its {source.wrapping} content is empty"
    return "is empty: the program that wrote it may not have finished"


def _first_sign(buffer: bytearray, fill: int) -> int:
    """Index of the first byte that is not blank, nor the mark of UTF-8."""
    head = re.compile(rb"[\xef\xbb\xbf \t\r\n]*").match(buffer, 0, fill)
    return head.end() if head else 0


def _starts_with_event(head: bytes) -> bool:
    """Whether an event stands where the object around the events would."""
    if re.match(rb"\{[^{}]*\"ph\"", head):
        return True
    if len(head) >= FIRST_LINE:
        return False
    first, _ = tolerant.parse_value(tolerant.readable(head))
    return isinstance(first, dict) and "ph" in first
