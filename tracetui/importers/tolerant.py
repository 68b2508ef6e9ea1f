"""The second path: events out of bytes that are not valid JSON.

One event at a time with the standard library's lenient decoder. An event that it refuses is mended where the
damage is a known one (bare words, wrong escapes, quotes inside a name), dropped otherwise, and reading goes on
at the next event. Slow, and only used for the blocks that need it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from tracetui.model.trace import BEGINNING, EXAMPLES, MENDED, UNREADABLE

_decoder = json.JSONDecoder(strict=False)
_KEYS = "ph|name|cat|pid|tid|ts|dur|args|id|s|bp"
_NEXT_EVENT = re.compile(r'[}\],\[\n]\s*(\{\s*"(?:' + _KEYS + r')"\s*:)')
_GAP = re.compile(r"[\s,]*")
_BARE_WORD = re.compile(r"(?<=[:,\[])(\s*)(?:N/A|-?inf|-?nan|nan\(\w*\)|undefined)(?=\s*[,\]}])", re.IGNORECASE)
_BAD_ESCAPE = re.compile(r'\\(?!["\\/bfnrt]|u[0-9a-fA-F]{4})')
_NAME = re.compile(r'("name"\s*:\s*")(.*?)("\s*[,}]\s*(?:"(?:' + _KEYS + r')"\s*:|$))', re.DOTALL)


@dataclass
class Parsed:
    """What could be read out of a stretch of bytes."""

    events: list[dict[str, Any]] = field(default_factory=list)
    dropped: int = 0
    repaired: int = 0
    examples: list[tuple[int, str]] = field(default_factory=list)
    """Byte offset in the stretch and the beginning of what is wrong there."""
    ended: bool = False
    """Whether the array's closing bracket was met."""
    open_at: int | None = None
    """Byte offset of an event that the stretch cuts off."""


def parse(block: bytes) -> Parsed:
    """Read every event that can be read from bytes that start at, or inside, an array of events."""
    text = block.decode("utf-8", "replace")
    result = Parsed()
    place = 1 if text.startswith("[") else 0
    while True:
        gap = _GAP.match(text, place)
        place = gap.end() if gap else place
        if place >= len(text):
            return result
        if text[place] == "]":
            result.ended = True
            return result
        place = _read_one(text, place, result)


def parse_value(part: bytes) -> tuple[Any, int]:
    """The JSON value at the start of some bytes and its length in them; (None, 0) when there is none."""
    text = part.decode("utf-8", "replace")
    try:
        value, end = _decoder.raw_decode(text)
    except (ValueError, RecursionError):
        return None, 0
    return value, _offset(text, end)


def _read_one(text: str, place: int, result: Parsed) -> int:
    """Read, mend or drop what stands at `place`; returns where to go on."""
    try:
        item, end = _decoder.raw_decode(text, place)
    except (ValueError, RecursionError):
        following = _NEXT_EVENT.search(text, place + 1)
        end = following.start(1) if following else len(text)
        mended = _mend(text[place:end])
        if mended is None and following is None:
            result.open_at = _offset(text, place)
            return end
        if mended is not None:
            result.events.append(mended)
            result.repaired += 1
        else:
            result.dropped += 1
        if len(result.examples) < EXAMPLES:
            reason = UNREADABLE if mended is None else MENDED
            result.examples.append((_offset(text, place), f"{reason}: {text[place : place + BEGINNING]}"))
        return end
    if isinstance(item, dict):
        result.events.append(item)
    return end


def _mend(piece: str) -> dict[str, Any] | None:
    piece = piece.rstrip().rstrip(",]").rstrip()
    piece = _BARE_WORD.sub(r"\1null", piece)
    piece = _BAD_ESCAPE.sub(r"\\\\", piece)
    for attempt in (piece, _NAME.sub(_quote_name, piece)):
        try:
            item, _ = _decoder.raw_decode(attempt)
        except (ValueError, RecursionError):
            continue
        if isinstance(item, dict):
            return item
    return None


def _quote_name(match: re.Match[str]) -> str:
    return match[1] + re.sub(r'(?<!\\)"', r"\"", match[2]) + match[3]


def _offset(text: str, place: int) -> int:
    return len(text[:place].encode("utf-8", "replace"))
