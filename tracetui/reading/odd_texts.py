"""Changes that decoding makes silently: keys that stand twice in an object, and bytes that are no characters.

Both are looked for in blocks that are read in Python; the scanner leaves every block that has one of them to it.
"""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracetui.model.intervals import Int64

_HALF = re.compile(rb"(?<!\\)(?:\\\\)*\\u[dD]([89a-fA-F])[0-9a-fA-F]{2}")
"""An escape that stands for half a character."""
_SECOND_HALF = re.compile(rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_ESCAPE_LENGTH = len(rb"\ud800")
_QUOTE, _COLON, _BACKSLASH, _OPEN, _CLOSE, _ARRAY_END, _LAST_BLANK = b'":\\{}] '
_MAX_BLANKS = 64
"""Blanks between a string and what follows it, beyond which a key is not told from other texts."""
_WORD = 8
_MASKS = np.array([(1 << 8 * length) - 1 for length in range(_WORD + 1)], np.uint64)
_MULTIPLIERS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F], np.uint64)


class Repeating(dict[str, Any]):
    """An object in which a key stands twice; it has the value of the last one."""


def unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of some keys and values: a `Repeating` where a key stands twice."""
    values = dict(pairs)
    return values if len(values) == len(pairs) else Repeating(pairs)


def repeats_key(item: Any) -> bool:
    """Tell whether a key stands twice in an event, or in its args, that was read with `unrepeated`."""
    return isinstance(item, Repeating) or (isinstance(item, dict) and isinstance(item.get("args"), Repeating))


def repeating_within(value: Any) -> int:
    """Count the objects within a value that have a key twice."""
    if isinstance(value, dict):
        return isinstance(value, Repeating) + sum(map(repeating_within, value.values()))
    return sum(map(repeating_within, value)) if isinstance(value, list) else 0


def rows_with_repeated_keys(block: bytes) -> list[int]:
    """The rows of the events of a block of valid JSON in which, or in whose args, a key stands twice."""
    if not may_repeat_keys(block):
        return []
    try:
        # No number counts; one of a million digits is infinite, and not refused.
        items = json.loads(block.decode("utf-8", "replace"), parse_int=float, object_pairs_hook=unrepeated)
    except (ValueError, RecursionError):
        return []
    return [row for row, item in enumerate(items) if repeats_key(item)]


def may_repeat_keys(block: bytes) -> bool:
    """Tell whether an event of a block of valid JSON, or an object in one, may have a key twice; False is certain.

    Keys are compared by their hashes as columns, in a third of the time that decoding them into objects takes, or less.
    """
    try:
        block.isascii() or block.decode()
    except UnicodeDecodeError:
        # Damaged keys may come to read alike.
        return True
    block = block.rstrip()
    # An escaped backslash goes first, so that a quote is only escaped by one that is left.
    text = block.replace(rb"\\", b"__").replace(rb"\"", b"__") if b"\\" in block else block
    data = np.frombuffer(text, np.uint8)
    quotes = np.flatnonzero(data == _QUOTE)
    if not len(quotes):
        return False
    begins, ends = quotes[::2] + 1, quotes[1::2]
    if len(begins) > len(ends) or data[-1] != _ARRAY_END:
        return True
    behind = ends + 1
    rows = np.flatnonzero(data[behind] <= _LAST_BLANK)
    for _ in range(_MAX_BLANKS):
        behind[rows] += 1
        rows = rows[data[behind[rows]] <= _LAST_BLANK]
        if not len(rows):
            break
    else:
        return True
    is_key = data[behind] == _COLON
    if b"\\" in block:
        escapes = np.flatnonzero(np.frombuffer(block, np.uint8) == _BACKSLASH)
        if is_key[np.searchsorted(begins, escapes, side="right") - 1].any():
            return True
    objects, depth = _enclosing_objects(data, quotes, begins[is_key])
    codes = _hashes(text, begins[is_key], ends[is_key]) + objects.astype(np.uint64) * _MULTIPLIERS[1]
    codes = np.sort(codes[depth <= 2])
    return bool((codes[1:] == codes[:-1]).any())


def _enclosing_objects(data: NDArray[np.uint8], quotes: Int64, at: Int64) -> tuple[Int64, Int64]:
    """A number of the object around each index, and how deep it is; the object only to a depth of 2."""
    braces = np.flatnonzero((data == _OPEN) | (data == _CLOSE))
    braces = braces[np.searchsorted(quotes, braces) % 2 == 0]
    is_open = data[braces] == _OPEN
    depth = np.cumsum(np.where(is_open, 1, -1))
    objects = np.zeros(len(braces), np.int64)
    for level in (1, 2):
        opened = np.where(is_open & (depth == level), np.arange(len(braces)), 0)
        objects[depth == level] = np.maximum.accumulate(opened)[depth == level]
    # The first entry is for what stands before every brace, in no object.
    counts = np.diff(np.searchsorted(at, braces), prepend=0, append=len(at))
    return np.repeat(np.append(0, objects), counts), np.repeat(np.append(0, depth), counts)


def _hashes(text: bytes, begins: Int64, ends: Int64) -> NDArray[np.uint64]:
    """A number of each stretch of a text, by its length and its first and last `_WORD` bytes."""
    words = np.ndarray(len(text) + 1, "<u8", text + bytes(_WORD), strides=(1,))
    masks = _MASKS[np.minimum(ends - begins, _WORD)]
    first, last = words[begins] & masks, words[np.maximum(begins, ends - _WORD)] & masks
    hashes = ((first * _MULTIPLIERS[0]) ^ last) + (ends - begins).astype(np.uint64)
    return np.asarray(hashes * _MULTIPLIERS[1], np.uint64)


def replaced_in(data: bytes) -> tuple[int, int]:
    """Number of bytes of JSON that are no UTF-8 or escapes of half a character, and the offset of the first."""
    halves = _halves(data)
    if data.isascii():
        return len(halves), halves[0] if halves else 0
    try:
        data.decode()
    except UnicodeDecodeError as error:
        bad = len(data) - len(data.decode("utf-8", "ignore").encode())
        return bad + len(halves), min([error.start, *halves[:1]])
    return len(halves), halves[0] if halves else 0


def _halves(data: bytes) -> list[int]:
    if b"\\ud" not in data and b"\\uD" not in data:
        return []
    indices, index = [], 0
    while half := _HALF.search(data, index):
        index = half.end()
        second = _SECOND_HALF.match(data, index) if half[1] in b"89abAB" else None
        if second:
            index = second.end()
        else:
            indices.append(index - _ESCAPE_LENGTH)
    return indices
