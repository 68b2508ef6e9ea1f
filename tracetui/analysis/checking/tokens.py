"""The words of an expression."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tracetui.analysis.checking.mistake import Mistake, nearest
from tracetui.analysis.checking.units import LITERALS

LONGEST = 2000
"""Characters that an expression may have."""
NUMBER, TEXT, NAME, SIGN, END = "number", "text", "name", "sign", "end"
"""What a token can be."""
WORDS = ("and", "or", "not")
"""Names that are operators."""

_NUMBER = re.compile(r"(?:[0-9]+(?:_[0-9]+)*(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SIGN = re.compile(r"==|!=|<=|>=|!~|[<>~+\-*/()\[\],.≤≥≠]")
_UNIT = re.compile(
    r"\s*(" + "|".join(sorted(map(re.escape, LITERALS), key=len, reverse=True)) + r")(?![A-Za-z0-9_\u00b5\u03bc])"
)
_LETTERS = re.compile(r"[^\W\d]\w*")
_ALIKE = {"≤": "<=", "≥": ">=", "≠": "!="}
_HINTS = {
    "=": "Two values are compared with ==.",
    "&": "Conditions are joined with the word and.",
    "|": "Conditions are joined with the word or.",
    "!": "A condition is turned round with the word not.",
    "{": "Parentheses are round.",
    "}": "Parentheses are round.",
    "%": "A percentage is a number and a %, such as 10%.",
    "±": "A value with a tolerance is written within(dur_us, 120us, 5%).",
    "≈": "A value with a tolerance is written within(dur_us, 120us, 5%).",
    "`": "Texts stand in quotes, such as 'gemm'.",
}


@dataclass(frozen=True)
class Token:
    """One word of an expression."""

    sort: str
    text: str
    at: int
    """Characters before it."""
    value: float = 0.0
    """Of a number."""
    unit: str = ""
    """Of a number: what stands behind it."""


def tokens(text: str) -> list[Token]:
    """The words of an expression, an end after the last; what follows a # is a remark.

    Raises: Mistake for what belongs to no expression.
    """
    if len(text) > LONGEST:
        raise Mistake(f"An expression has at most {LONGEST:,} characters, and this one {len(text):,}.", LONGEST)
    return list(_read(text))


def _read(text: str) -> Iterator[Token]:
    at = 0
    while at < len(text) and text[at] != "#":
        if text[at].isspace():
            at += 1
        elif found := _NUMBER.match(text, at):
            token, at = _number(text, found)
            yield token
        elif found := _NAME.match(text, at):
            yield Token(SIGN if found[0] in WORDS else NAME, found[0], at)
            at = found.end()
        elif text[at] in "\"'":
            end = text.find(text[at], at + 1)
            if end < 0:
                raise Mistake("The text that begins here has no closing quote.", at)
            yield Token(TEXT, text[at + 1 : end], at)
            at = end + 1
        elif found := _SIGN.match(text, at):
            yield Token(SIGN, _ALIKE.get(found[0], found[0]), at)
            at = found.end()
        else:
            hint = _HINTS.get(text[at], "")
            raise Mistake(" ".join(filter(None, (f"{text[at]!r} has no meaning here.", hint))), at)
    yield Token(END, "", at)


def _number(text: str, found: re.Match[str]) -> tuple[Token, int]:
    """A number with the unit behind it, and where it ends."""
    at, end = found.start(), found.end()
    value, unit = float(found[0]), ""
    if not math.isfinite(value):
        raise Mistake(f"{found[0]} is too large a number.", at)
    if behind := _UNIT.match(text, end):
        unit, end = behind[1], behind.end()
    elif letters := _LETTERS.match(text, end):
        offer = nearest(letters[0], LITERALS, "There are ns, us, ms, s, %, B, kB to TB, KiB to TiB, GB/s, TFLOP/s.")
        raise Mistake(f"{letters[0]!r} is no unit. {offer}", end)
    return Token(NUMBER, found[0], at, value, unit), end
