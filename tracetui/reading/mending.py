"""Known damage of an event, and how its text becomes JSON again.

Bare words (`N/A`, `-nan`), backslashes that begin no escape, paths of Windows written without escapes, and quotes
within a name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

EVENT_KEYS = "ph|name|cat|pid|tid|ts|dur|args|id|s|bp"
"""Keys that an event may begin with, as a pattern."""
LONGEST_MENDED = 1 << 20
"""Characters of a damaged event that is still tried."""
FIRST_MENDED = 1 << 9
"""Characters that are tried first; most events have less."""
_BEHIND = re.compile(r"\s*(?:[,\]]|\Z)")
"""What may follow an event."""
_BARE_WORD = re.compile(
    r"([:,\[]\s*)(N/A|[-+]?inf(?:inity)?|[-+]?nan(?:\(\w*\))?|undefined)(?=\s*[,\]}])", re.IGNORECASE
)
_ESCAPE = re.compile(r'(\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))|\\')
"""An escape, as the group, or a backslash that begins none."""
_NAME_BEGINS = re.compile(r'"name"\s*:\s*"')
_NAME_ENDS = re.compile(r'"\s*[,}]\s*(?:"(?:' + EVENT_KEYS + r')"\s*:|$)')
_QUOTE = re.compile(r'(\\.)|"', re.DOTALL)
"""A quote, or as the group what a backslash keeps from being one."""
_PATH = re.compile(r"""(?<=["';(=,<])[A-Za-z]:(?=\\(?!u[0-9a-fA-F]{4})[^\\/"\s:*?<>|])""")
"""The drive of a path whose backslashes are not escaped; the words `a:` and a new line stand behind a blank.

Four hexadecimal digits behind `\\u` are an escape."""
_REST_OF_TEXT = re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_BACKSLASHES = re.compile(r'(\\[\\"])|\\')


def mended(piece: str, decoder: json.JSONDecoder) -> tuple[dict[str, Any] | None, int]:
    """An event out of text that is none, None when it cannot be; and how many characters are of it."""
    if len(piece) <= LONGEST_MENDED:
        for change in (str, _with_quoted_names):
            for length in _lengths(len(piece)):
                item, taken = _mend_with(change, piece[:length], decoder)
                if item is not None:
                    return item, taken if _BEHIND.match(piece, taken) else len(piece)
    return None, len(piece)


def path_starts(text: str) -> list[int]:
    """Where paths of Windows without escapes begin."""
    return [match.start() for match in _PATH.finditer(text)] if ":\\" in text else []


def literal_paths(text: str) -> str:
    """The same with every backslash escaped from the drive of a path to the end of its string."""
    parts: list[str] = []
    index = 0
    while found := _PATH.search(text, index):
        end = _REST_OF_TEXT.match(text, found.end()).end()  # type: ignore[union-attr]
        parts += text[index : found.end()], _BACKSLASHES.sub(lambda it: it[1] or r"\\", text[found.end() : end])
        index = end
    return "".join(parts) + text[index:]


def _lengths(longest: int) -> Iterator[int]:
    """Ever more characters: the beginning that an event takes is mended, and not each time all that follows it."""
    length = FIRST_MENDED
    while length < longest:
        yield length
        length *= 2
    yield length


def _mend_with(
    change: Callable[[str], str], piece: str, decoder: json.JSONDecoder
) -> tuple[dict[str, Any] | None, int]:
    """The same by known damage and one more change of the text."""
    bare = piece.rstrip().rstrip(",]").rstrip()
    text = literal_paths(_BARE_WORD.sub(_as_value, bare))
    text = change(_ESCAPE.sub(lambda found: found[1] or r"\\", text))
    try:
        item, stop = decoder.raw_decode(text)
    except (ValueError, RecursionError):
        return None, 0
    if not isinstance(item, dict):
        return None, 0
    length = 0
    # No change adds a brace or takes one away, so as many of them end the event where it stands.
    for _ in range(text.count("}", 0, stop)):
        length = piece.index("}", length) + 1
    return item, length


def _as_value(found: re.Match[str]) -> str:
    """A bare word as the value that it means: a number that is none, or the word itself."""
    word = found[2].casefold()
    if "nan" in word:
        return f"{found[1]}NaN"
    if "inf" in word:
        return f"{found[1]}{'-' if word.startswith('-') else ''}Infinity"
    return f'{found[1]}"{found[2]}"'


def _with_quoted_names(text: str) -> str:
    """The same with a backslash before every quote within a name."""
    parts: list[str] = []
    index = 0
    # One pattern for both ends would, where the second is missing, look for it anew behind every first.
    while (begin := _NAME_BEGINS.search(text, index)) and (end := _NAME_ENDS.search(text, begin.end())):
        name = _QUOTE.sub(lambda found: found[1] or r"\"", text[begin.end() : end.start()])
        parts += text[index : begin.end()], name, end[0]
        index = end.end()
    return "".join(parts) + text[index:]
