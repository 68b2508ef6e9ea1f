"""From the text of an expression to its tree, by recursive descent; nothing is evaluated here.

expression: operands of one level with operators between them (or, and, comparisons, + and -, * and /)
prefixed: `not` or a sign before an operand
path: names joined by points, each with an optional [number] or (arguments); an argument `kind="decode"` is a comparison

`tokens` splits the text into words; `written` turns a tree back into text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tracetui.checking.values import LITERALS, NO_COMMAS_HINT, Mistake, nearest

LEVELS: tuple[tuple[str, ...], ...] = (
    ("or",),
    ("and",),
    ("==", "!=", "<=", ">=", "<", ">", "~", "!~"),
    ("+", "-"),
    ("*", "/"),
)
"""Binary operators by how tightly they bind; `not` binds between `and` and the comparisons."""
OR, AND, COMPARISON, SUM, PRODUCT = range(len(LEVELS))
NOT_LEVEL, SIGN_LEVEL, WHOLE_LEVEL = AND + 0.5, PRODUCT + 1, PRODUCT + 2
"""How tightly `not`, a sign and an operand without parentheses bind."""


@dataclass(frozen=True)
class Figure:
    """A number literal with its unit."""

    value: float
    unit: str = ""
    """A key of `units.LITERALS`, or empty."""
    at: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Quoted:
    """A quoted text."""

    text: str
    at: int = field(default=0, compare=False)


@dataclass(frozen=True)
class PathPart:
    """One name of a path: `step[3]`, `kernel("gemm")`, `dur_us`."""

    name: str
    index: int | None = None
    arguments: tuple[Node, ...] | None = None
    """None where there are no parentheses."""
    at: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Path:
    """Names joined by points: a value, or a call of a function."""

    parts: tuple[PathPart, ...]

    @property
    def at(self) -> int:
        """Position of its first character."""
        return self.parts[0].at


@dataclass(frozen=True)
class Prefixed:
    """`not` or a sign before an expression."""

    sign: str
    operand: Node
    at: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Chain:
    """Operands with operators of one level between them: a sum, a product, a chain of comparisons."""

    first: Node
    rest: tuple[tuple[str, Node], ...]
    """Operators, each with the operand after it; at least one."""

    @property
    def at(self) -> int:
        """Position of its first character."""
        return self.first.at

    @property
    def level(self) -> int:
        """Index of its operators in `LEVELS`."""
        return next(number for number, signs in enumerate(LEVELS) if self.rest[0][0] in signs)

    @property
    def operands(self) -> tuple[Node, ...]:
        """All operands."""
        return (self.first, *(node for _, node in self.rest))


Node = Figure | Quoted | Path | Prefixed | Chain


def written(node: Node) -> str:
    """The expression as text with the fewest parentheses; parsing it gives the same tree."""
    match node:
        case Figure():
            return f"{figure(node.value)}{node.unit}"
        case Quoted():
            quote = "'" if '"' in node.text else '"'
            return f"{quote}{node.text}{quote}"
        case Path():
            return ".".join(map(_part, node.parts))
        case Prefixed(sign="not"):
            return f"not {_within(node.operand, NOT_LEVEL)}"
        case Prefixed():
            return f"{node.sign}{_within(node.operand, SIGN_LEVEL)}"
        case Chain():
            least = node.level + 0.25
            rest = (f" {sign} {_within(each, least)}" for sign, each in node.rest)
            return _within(node.first, least) + "".join(rest)


def bare_words(node: Node) -> str:
    """The text that an unquoted word probably was, names joined by - and / included; empty for anything else."""
    match node:
        case Path(parts=(PathPart(index=None, arguments=None, name=name),)):
            return name
        case Chain():
            words = [bare_words(each) for each in node.operands]
            signs = [sign for sign, _ in node.rest]
            if all(words) and set(signs) <= {"-", "/"}:
                return words[0] + "".join(sign + word for sign, word in zip(signs, words[1:], strict=True))
    return ""


def figure(value: float) -> str:
    """A number in the shortest form that loses no digit."""
    return repr(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def _within(node: Node, least: float) -> str:
    return written(node) if _binds(node) >= least else f"({written(node)})"


def _binds(node: Node) -> float:
    match node:
        case Chain():
            return node.level
        case Prefixed():
            return NOT_LEVEL if node.sign == "not" else SIGN_LEVEL
        case _:
            return WHOLE_LEVEL


def _part(part: PathPart) -> str:
    index = "" if part.index is None else f"[{part.index}]"
    called = "" if part.arguments is None else f"({', '.join(map(written, part.arguments))})"
    return f"{part.name}{index}{called}"


MAX_CHARACTERS = 2000
"""Maximum characters of an expression."""
NUMBER, TEXT, NAME, SIGN, END = "number", "text", "name", "sign", "end"
"""Kinds of tokens."""
WORD_OPERATORS = ("and", "or", "not")
"""Names that are operators."""

_NUMBER = re.compile(r"(?:[0-9]+(?:_[0-9]+)*(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SIGN = re.compile(r"==|!=|<=|>=|!~|&&?|\|\|?|[<>~+\-*/()\[\],.≤≥≠!=]")
_WORD = r"(?!(?:and|or|not)\b)[^\W\d]\w*"
HEADING = re.compile(rf"{_WORD}(?: +{_WORD})*(?: ?%)?")
"""A name in a filter: that of a column, or its heading of several words."""
_QUALIFIED = re.compile(r"[^\W\d]\w*(?:::[\w~*?.]+)+")
_PATTERN = re.compile(r"[^\s()&|,\"']+")
_UNIT = re.compile(
    r"\s*(" + "|".join(sorted(map(re.escape, LITERALS), key=len, reverse=True)) + r")(?![A-Za-z0-9_\u00b5\u03bc])"
)
_LETTERS = re.compile(r"[^\W\d]\w*")
_ALIKE = {"≤": "<=", "≥": ">=", "≠": "!=", "&": "and", "&&": "and", "|": "or", "||": "or", "!": "not"}
_HINTS = {
    "=": "Two values are compared with ==.",
    "{": "Use round parentheses.",
    "}": "Use round parentheses.",
    "%": "A percentage is a number and a %, such as 10%.",
    "±": "A value with a tolerance is written within(dur_us, 120us, 5%).",
    "≈": "A value with a tolerance is written within(dur_us, 120us, 5%).",
    "`": "Texts stand in quotes, such as 'gemm'.",
}


@dataclass(frozen=True)
class Token:
    """One word or sign of an expression."""

    kind: str
    text: str
    at: int
    """Characters before it."""
    value: float = 0.0
    """Value of a number."""
    unit: str = ""
    """Unit of a number."""


def tokens(text: str, of_list: bool = False) -> list[Token]:
    """The tokens of an expression and an end token; what follows a # is a comment.

    In the filter `of_list` there are no comments, names may be headings of several words, and a text behind `~`, or
    one with `::` in it, needs no quotes. Raises: Mistake for a character that belongs to no expression.
    """
    if len(text) > MAX_CHARACTERS:
        raise Mistake(
            f"An expression has at most {MAX_CHARACTERS:,} characters, and this one {len(text):,}.", MAX_CHARACTERS
        )
    return list(_read_filter(text) if of_list else _read(text))


def _read_filter(text: str) -> Iterator[Token]:
    """The tokens of a filter."""
    at, last = 0, Token(END, "", 0)
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        unquoted = _PATTERN if last.kind == SIGN and last.text in ("~", "!~") else _QUALIFIED
        if match := unquoted.match(text, at):
            last, at = Token(TEXT, match[0], at), match.end()
        elif match := HEADING.match(text, at):
            last, at = Token(NAME, match[0], at), match.end()
        else:
            last, at = _token(text, at)
        yield last
    yield Token(END, "", at)


def _read(text: str) -> Iterator[Token]:
    at = 0
    while at < len(text) and text[at] != "#":
        if text[at].isspace():
            at += 1
            continue
        token, at = _token(text, at)
        yield token
    yield Token(END, "", at)


def _token(text: str, at: int) -> tuple[Token, int]:
    """The token at a position, and the position after it."""
    if match := _NUMBER.match(text, at):
        return _number(text, match)
    if match := _NAME.match(text, at):
        return Token(SIGN if match[0] in WORD_OPERATORS else NAME, match[0], at), match.end()
    if text[at] in "\"'":
        end = text.find(text[at], at + 1)
        if end < 0:
            raise Mistake("The text that begins here has no closing quote.", at)
        return Token(TEXT, text[at + 1 : end], at), end + 1
    if match := _SIGN.match(text, at):
        return Token(SIGN, _ALIKE.get(match[0], match[0]), at), match.end()
    hint = _HINTS.get(text[at], "")
    raise Mistake(" ".join(filter(None, (f"{text[at]!r} has no meaning here.", hint))), at)


def _number(text: str, match: re.Match[str]) -> tuple[Token, int]:
    """A number with its unit, and the position after it."""
    at, end = match.start(), match.end()
    value, unit = float(match[0]), ""
    if not math.isfinite(value):
        raise Mistake(f"{match[0]} is too large a number.", at)
    if behind := _UNIT.match(text, end):
        unit, end = behind[1], behind.end()
    elif letters := _LETTERS.match(text, end):
        offer = nearest(letters[0], LITERALS, "There are ns, us, ms, s, %, B, kB to TB, KiB to TiB, GB/s, TFLOP/s.")
        raise Mistake(f"{letters[0]!r} is no unit. {offer}", end)
    return Token(NUMBER, match[0], at, value, unit), end


MAX_DEPTH = 30
"""Maximum nesting of parentheses, calls and prefixes."""
MAX_INDEX_DIGITS = 9
"""Maximum digits of a step number."""


def parsed(text: str, of_list: bool = False) -> Node:
    """The tree of an expression, or of the filter `of_list`.

    Raises: Mistake, with the position, for what is no expression.
    """
    return _Parser(tokens(text, of_list)).whole()


class _Parser:
    def __init__(self, words: list[Token]) -> None:
        self._words = words
        self._place = 0
        self._depth = 0

    def whole(self) -> Node:
        if self._next.kind == END:
            raise Mistake("There is no expression here; an example is kernels == 5.", self._next.at)
        node = self._level(0)
        if self._next.kind != END:
            raise self._unexpected("an operator or the end")
        return node

    @property
    def _next(self) -> Token:
        return self._words[self._place]

    def _take(self) -> Token:
        self._place += 1
        return self._words[self._place - 1]

    def _is(self, sign: str) -> bool:
        return self._next.kind == SIGN and self._next.text == sign

    def _unexpected(self, wanted: str) -> Mistake:
        if self._next.kind == END:
            return Mistake(f"The expression ends where {wanted} should follow.", self._next.at)
        if self._is("="):
            return Mistake(f"'=' has no meaning here. {_HINTS['=']}", self._next.at)
        hint = f" {NO_COMMAS_HINT}" if self._has_comma_in_number else ""
        return Mistake(f"{self._next.text!r} stands where {wanted} should.{hint}", self._next.at)

    @property
    def _has_comma_in_number(self) -> bool:
        """Whether the next tokens are a comma and three digits after a number."""
        if not (self._is(",") and self._place and self._words[self._place - 1].kind == NUMBER):
            return False
        behind = self._words[self._place + 1]
        return behind.kind == NUMBER and len(behind.text) == 3 and behind.at == self._next.at + 1

    def _deeper(self, parse: Callable[[], Node]) -> Node:
        """Parses something nested; raises a Mistake where it is nested too deeply."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise Mistake(f"More than {MAX_DEPTH} parentheses or prefixes stand within each other.", self._next.at)
        node = parse()
        self._depth -= 1
        return node

    def _level(self, level: int) -> Node:
        """A chain of operators of `LEVELS[level]`, or something that binds more tightly."""
        if level > PRODUCT:
            return self._signed()
        if level == COMPARISON and self._is("not"):
            return self._prefixed(lambda: self._level(COMPARISON))
        first = self._level(level + 1)
        rest = []
        while self._next.kind == SIGN and self._next.text in LEVELS[level]:
            sign = self._take().text
            rest.append((sign, self._level(level + 1)))
        return Chain(first, tuple(rest)) if rest else first

    def _signed(self) -> Node:
        return self._prefixed(self._signed) if self._is("-") or self._is("+") else self._single()

    def _prefixed(self, operand: Callable[[], Node]) -> Node:
        sign = self._take()
        return Prefixed(sign.text, self._deeper(operand), sign.at)

    def _single(self) -> Node:
        token = self._next
        if token.kind == NUMBER:
            self._take()
            return Figure(token.value, token.unit, token.at)
        if token.kind == TEXT:
            self._take()
            return Quoted(token.text, token.at)
        if token.kind == NAME:
            return self._path()
        if self._is("("):
            self._take()
            node = self._deeper(lambda: self._level(0))
            self._close(")", token)
            return node
        if self._is("not"):
            raise Mistake("not stands before a whole condition: put parentheses around it.", token.at)
        raise self._unexpected("a value")

    def _path(self) -> Node:
        parts = [self._part()]
        while self._is("."):
            self._take()
            if self._next.kind != NAME:
                raise self._unexpected("a name")
            parts.append(self._part())
        return Path(tuple(parts))

    def _part(self) -> PathPart:
        name, index, arguments = self._take(), None, None
        if self._is("["):
            opening = self._take()
            index = self._index()
            self._close("]", opening)
        if self._is("("):
            arguments = self._arguments(self._take())
        return PathPart(name.text, index, arguments, name.at)

    def _index(self) -> int:
        token = self._next
        plain = (
            token.kind == NUMBER and token.unit == "" and token.text.isdigit() and len(token.text) <= MAX_INDEX_DIGITS
        )
        if not plain:
            raise self._unexpected("the number of a step")
        return int(self._take().text)

    def _arguments(self, opening: Token) -> tuple[Node, ...]:
        arguments: list[Node] = []
        while not self._is(")"):
            if arguments:
                if not self._is(","):
                    raise self._unclosed(")", opening, "a comma or )")
                self._take()
            arguments.append(self._deeper(self._argument))
        self._take()
        return tuple(arguments)

    def _argument(self) -> Node:
        """An expression, or `name=value`, which says what a column of a list must be."""
        name, sign = self._next, self._words[min(self._place + 1, len(self._words) - 1)]
        if name.kind != NAME or (sign.kind, sign.text) != (SIGN, "="):
            return self._level(0)
        self._take()
        self._take()
        return Chain(Path((PathPart(name.text, at=name.at),)), (("==", self._level(SUM)),))

    def _close(self, sign: str, opening: Token) -> None:
        if not self._is(sign):
            raise self._unclosed(sign, opening, f"{sign} or an operator")
        self._take()

    def _unclosed(self, sign: str, opening: Token, wanted: str) -> Mistake:
        if self._next.kind == END:
            return Mistake(f"The {opening.text} here has no {sign} to close it.", opening.at)
        return self._unexpected(wanted)
