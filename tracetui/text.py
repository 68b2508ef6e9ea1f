"""Text of others made harmless: whatever leaves the process passes through here, to a terminal, a pipe or a file."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Any, cast

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_SPACES = str.maketrans(dict.fromkeys("\t\n\v\f\r\x85\u2028\u2029", " "))
_UNSAFE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_LINE_SIGNS = "\n\t"
"""Control characters that lines of text are made of."""
_HARMLESS = (_LINE_SIGNS + "".join(map(chr, range(32, 127)))).encode()
"""Bytes of UTF-8 that need no second look."""


def clean(text: str) -> str:
    """Text in one line that cannot steer a terminal.

    Line breaks turn into spaces, control characters and marks that turn text around into �.
    """
    if text.isascii() and text.isprintable():
        return text
    text = text.translate(_SPACES)
    return "".join(REPLACEMENT if unicodedata.category(letter) in _UNSAFE_CATEGORIES else letter for letter in text)


def clean_lines(text: str) -> str:
    """Text of any number of lines that cannot steer a terminal; line breaks and tabs stay."""
    # Texts may have a hundred megabytes; next to nothing of them is left.
    rest = text.encode("utf-8", "surrogatepass").translate(None, _HARMLESS)
    letters = set(rest.decode("utf-8", "surrogatepass"))
    unsafe = [ord(letter) for letter in letters if unicodedata.category(letter) in _UNSAFE_CATEGORIES]
    return text.translate(dict.fromkeys(unsafe, REPLACEMENT)) if unsafe else text


# Regular expressions that are compiled when they are first used.
#
# The names of kernels are read with some hundred of them, which take longer to compile than the screen takes to be
# drawn. A trace needs a few.


class _LazyPattern:
    """Becomes a pattern, method by method, with the first one that is asked for."""

    def __init__(self, text: str, flags: int) -> None:
        self.pattern = text
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        # From now on the method is an attribute of its own, and found as fast as that of a pattern.
        method = self.__dict__[name] = getattr(re.compile(self.pattern, self._flags), name)
        return method


def lazy_pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """A pattern as `re.compile` returns it, compiled when it is first used."""
    return cast("re.Pattern[str]", _LazyPattern(text, flags))


def aligned(cells: Sequence[Sequence[str]]) -> list[str]:
    """Rows of texts as lines with columns of equal width."""
    safe = [[clean(text) for text in row] for row in cells]
    widths = [max(map(len, column)) for column in zip(*safe, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in safe]
