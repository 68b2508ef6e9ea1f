"""From the text of an expression to the tree that Python's `ast` makes of it; nothing is evaluated here.

The text is cut into words. Each must be able to stand where it stands, which is where errors get their sentence and
position. What Python spells differently is then translated, and `ast.parse` finds the tree: names and literals become
placeholders with the index of their word, `~` becomes `in`, `kind="decode"` in a call a comparison. In the tree that
comes back the words stand in place of the placeholders, and every position is one in the text of the user:

Constant: a number as float, its unit in `kind`; or a text as str
Name, Attribute, Subscript, Call: a path such as `step[3].dur_us` or `kernel("gemm").calls`, see `path_of`
UnaryOp, BinOp, Compare, BoolOp: `chain` gives the operators and operands of the last three
"""

from __future__ import annotations

import ast
import math
import re
from dataclasses import dataclass

from tracetui.checking.values import LITERALS, NO_COMMAS_HINT, ExpressionError, nearest
from tracetui.frozen import frozen

MAX_CHARACTERS = 2000
"""Maximum characters of an expression."""
MAX_DEPTH = 30
"""Maximum nesting of parentheses, calls and prefixes."""
MAX_INDEX_DIGITS = 9
"""Maximum digits of a step number."""

NUMBER, TEXT, NAME, SIGN, END = "number", "text", "name", "sign", "end"
"""Kinds of words."""
START, INDEX, CALL = "start", "index", "call"
"""Further things that may stand before a word."""
COMPARISONS = ("==", "!=", "<=", ">=", "<", ">", "~", "!~")
CONDITIONS = ("or", "and", *COMPARISONS)
BINARY = (*CONDITIONS, "+", "-", "*", "/")
"""Operators between two operands."""
_ALIKE = {"≤": "<=", "≥": ">=", "≠": "!=", "&": "and", "&&": "and", "|": "or", "||": "or", "!": "not"}

_NUMBER = re.compile(r"(?:[0-9]+(?:_[0-9]+)*(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SIGN = re.compile(r"==|!=|<=|>=|!~|&&?|\|\|?|[<>~+\-*/()\[\],.≤≥≠!=]")
_PLAIN_WORD = r"(?!(?:and|or|not)\b)[^\W\d]\w*(?:→\w+)?"
HEADING = re.compile(rf"{_PLAIN_WORD}(?: +{_PLAIN_WORD})*(?: ?%)?")
"""A name in a filter: that of a column, or its heading of several words."""
_QUALIFIED = re.compile(r"[^\W\d]\w*(?:::[\w~*?.]+)+")
_PATTERN = re.compile(r"[^\s()&|,\"']+")
_UNIT = re.compile(
    r"\s*(" + "|".join(sorted(map(re.escape, LITERALS), key=len, reverse=True)) + r")(?![A-Za-z0-9_\u00b5\u03bc])"
)
_LETTERS = re.compile(r"[^\W\d]\w*")
_HINTS = {
    "=": "Two values are compared with ==.",
    "{": "Use round parentheses.",
    "}": "Use round parentheses.",
    "%": "A percentage is a number and a %, such as 10%.",
    "±": "A value with a tolerance is written within(dur_us, 120us, 5%).",
    "≈": "A value with a tolerance is written within(dur_us, 120us, 5%).",
    "`": "Texts stand in quotes, such as 'gemm'.",
}


@frozen(eq=True)
class Word:
    """A name, a literal or a sign of an expression."""

    kind: str
    text: str
    at: int
    """Characters before it."""
    unit: str = ""
    """Unit of a number, a key of `LITERALS` or empty."""


def words_of(text: str, of_list: bool = False) -> list[Word]:
    """The words of an expression and an end; what follows a # is a comment.

    In the filter `of_list` there are no comments, names may be headings of several words, and a text behind `~`, or
    one with `::` in it, needs no quotes. Raises: ExpressionError for a character that belongs to no expression.
    """
    if len(text) > MAX_CHARACTERS:
        raise ExpressionError(
            f"An expression has at most {MAX_CHARACTERS:,} characters, and this one {len(text):,}.", MAX_CHARACTERS
        )
    words: list[Word] = []
    at = 0
    while at < len(text) and (of_list or text[at] != "#"):
        if text[at].isspace():
            at += 1
            continue
        unquoted = _PATTERN if words and words[-1].text in ("~", "!~") and words[-1].kind == SIGN else _QUALIFIED
        if of_list and (match := unquoted.match(text, at)):
            word, at = Word(TEXT, match[0], at), match.end()
        elif of_list and (match := HEADING.match(text, at)):
            word, at = Word(NAME, match[0], at), match.end()
        else:
            word, at = _word(text, at)
        words.append(word)
    return [*words, Word(END, "", at)]


def _word(text: str, at: int) -> tuple[Word, int]:
    """The word at a position, and the position after it."""
    if match := _NUMBER.match(text, at):
        end, unit = match.end(), ""
        if not math.isfinite(float(match[0])):
            raise ExpressionError(f"{match[0]} is too large a number.", at)
        if behind := _UNIT.match(text, end):
            unit, end = behind[1], behind.end()
        elif letters := _LETTERS.match(text, end):
            offer = nearest(letters[0], LITERALS, "There are ns, us, ms, s, %, B, kB to TB, KiB to TiB, GB/s, TFLOP/s.")
            raise ExpressionError(f"{letters[0]!r} is no unit. {offer}", end)
        return Word(NUMBER, match[0], at, unit), end
    if match := _NAME.match(text, at):
        return Word(SIGN if match[0] in ("and", "or", "not") else NAME, match[0], at), match.end()
    if text[at] in "\"'":
        end = text.find(text[at], at + 1)
        if end < 0:
            raise ExpressionError("The text that begins here has no closing quote.", at)
        return Word(TEXT, text[at + 1 : end], at), end + 1
    if match := _SIGN.match(text, at):
        return Word(SIGN, _ALIKE.get(match[0], match[0]), at), match.end()
    hint = _HINTS.get(text[at], "")
    raise ExpressionError(" ".join(filter(None, (f"{text[at]!r} has no meaning here.", hint))), at)


@dataclass
class _Bracket:
    """A parenthesis that is open, or the whole expression, and what stands before the next operand in it."""

    opening: Word
    closing: str
    """Words that may follow a whole operand, for a sentence."""
    depth: int = 0
    """Brackets and prefixes around it."""
    is_call: bool = False
    nots: int = 0
    signs: int = 0
    is_named: bool = False
    """True while the value of `kind=VALUE` is read, which is no condition."""


class _Order:
    """A check that each word can stand where it stands."""

    def __init__(self, words: list[Word]) -> None:
        self._words = words
        self._index = 0
        self._open = [_Bracket(words[0], "an operator or the end")]
        self._before = START
        """The kind of what stands before the next word: START, NAME, a call, an `]`, or another whole operand."""
        self.equals: set[int] = set()
        """Indices of the = in `kind="decode"`."""

    def check(self) -> None:
        """Raises: ExpressionError at the first word that cannot stand there."""
        if self._words[0].kind == END:
            raise ExpressionError("There is no expression here; an example is kernels == 5.", self._words[0].at)
        while self._words[self._index].kind != END or len(self._open) > 1 or self._before == START:
            word = self._words[self._index]
            if self._before == START:
                self._operand(word, word.text if word.kind == SIGN else "")
            else:
                self._behind(word, word.text if word.kind == SIGN else "")
            self._index += 1

    def _operand(self, word: Word, sign: str) -> None:
        """A word where an operand or its prefix must stand."""
        bracket, last = self._open[-1], self._words[self._index - 1] if self._index else None
        if sign == ")" and last is bracket.opening and bracket.is_call:
            self._close()
        elif (depth := bracket.depth + bracket.nots + bracket.signs) > MAX_DEPTH:
            raise ExpressionError(f"More than {MAX_DEPTH} parentheses or prefixes stand within each other.", word.at)
        elif word.kind == NAME and self._is_named(bracket, last):
            self._index += 1
            self.equals.add(self._index)
            bracket.is_named = True
        elif word.kind in (NUMBER, TEXT, NAME):
            self._before = word.kind
        elif sign in ("+", "-"):
            bracket.signs += 1
        elif sign == "(":
            self._open.append(_Bracket(word, ") or an operator", depth + 1))
        elif sign == "not":
            if bracket.is_named or (last and last.text not in ("(", ",", "and", "or", "not")):
                raise ExpressionError("not stands before a whole condition: put parentheses around it.", word.at)
            bracket.nots += 1
        else:
            raise self._unexpected("a value")

    def _is_named(self, bracket: _Bracket, last: Word | None) -> bool:
        """True where the name is that of `kind=VALUE` in a call."""
        begins = bracket.is_call and last is not None and (last is bracket.opening or last.text == ",")
        behind = self._words[self._index + 1]
        return begins and (behind.kind, behind.text) == (SIGN, "=")

    def _behind(self, word: Word, sign: str) -> None:
        """A word behind a whole operand."""
        bracket, before = self._open[-1], self._before
        if sign == "." and before in (NAME, INDEX, CALL):
            self._index += 1
            if self._words[self._index].kind != NAME:
                raise self._unexpected("a name")
            self._before = NAME
        elif sign == "[" and before == NAME:
            self._step_number(word)
        elif sign == "(" and before in (NAME, INDEX):
            depth = bracket.depth + bracket.nots + bracket.signs
            self._open.append(_Bracket(word, "a comma or )", depth + 1, is_call=True))
            self._before = START
        elif sign == "," and bracket.is_call:
            bracket.nots, bracket.signs, bracket.is_named, self._before = 0, 0, False, START
        elif sign in BINARY and not (bracket.is_named and sign in CONDITIONS):
            bracket.signs, self._before = 0, START
            if sign in ("and", "or"):
                bracket.nots = 0
        elif sign == ")" and bracket.depth:
            self._close()
        else:
            raise self._unclosed(bracket.opening, ")", bracket.closing)

    def _close(self) -> None:
        self._before = CALL if self._open.pop().is_call else TEXT

    def _step_number(self, opening: Word) -> None:
        self._index += 1
        number = self._words[self._index]
        if not (number.kind == NUMBER and number.text.isdigit() and not number.unit) or (
            len(number.text) > MAX_INDEX_DIGITS
        ):
            raise self._unexpected("the number of a step")
        self._index += 1
        if (self._words[self._index].kind, self._words[self._index].text) != (SIGN, "]"):
            raise self._unclosed(opening, "]", "] or an operator")
        self._before = INDEX

    def _unclosed(self, opening: Word, sign: str, wanted: str) -> ExpressionError:
        if self._words[self._index].kind == END:
            return ExpressionError(f"The {opening.text} here has no {sign} to close it.", opening.at)
        return self._unexpected(wanted)

    def _unexpected(self, wanted: str) -> ExpressionError:
        word = self._words[self._index]
        if word.kind == END:
            return ExpressionError(f"The expression ends where {wanted} should follow.", word.at)
        if (word.kind, word.text) == (SIGN, "="):
            return ExpressionError(f"'=' has no meaning here. {_HINTS['=']}", word.at)
        hint = ""
        if (word.kind, word.text) == (SIGN, ",") and self._index and self._words[self._index - 1].kind == NUMBER:
            behind = self._words[self._index + 1]
            if behind.kind == NUMBER and len(behind.text) == 3 and behind.at == word.at + 1:
                hint = f" {NO_COMMAS_HINT}"
        return ExpressionError(f"{word.text!r} stands where {wanted} should.{hint}", word.at)


_PYTHON = {"~": "in", "!~": "not in"}
"""Operators that Python spells otherwise, and does not use for anything else here."""


def parsed(text: str, of_list: bool = False) -> ast.expr:
    """The tree of an expression, or of the filter `of_list`.

    Raises: ExpressionError, with the position, for what is no expression.
    """
    words = words_of(text, of_list)
    order = _Order(words)
    order.check()
    pieces, at = [], {}
    length = 0
    for index, word in enumerate(words[:-1]):
        match word.kind:
            case "name":
                piece = f"_{index}"
            case "sign":
                piece = "==" if index in order.equals else _PYTHON.get(word.text, word.text)
            case _:
                piece = str(index)
        at[length] = word.at
        length += len(piece) + 1
        pieces.append(piece)
    try:
        tree = ast.parse(" ".join(pieces), mode="eval").body
    except (SyntaxError, RecursionError, MemoryError):
        raise ExpressionError("This is too deeply nested: write it as several assertions.", 0) from None
    for node in reversed([*ast.walk(tree)]):
        _restore(node, words, at)
    return tree


def _restore(node: ast.AST, words: list[Word], at: dict[int, int]) -> None:
    """Puts the word in place of its placeholder in a node of which the children are restored already.

    `col_offset` becomes the position of the first word, for an Attribute `end_col_offset` that of the name behind the
    point. Raises: ExpressionError for a node that the language does not have.
    """
    match node:
        case ast.Name():
            word = words[int(node.id[1:])]
            node.id, node.col_offset = word.text, word.at
        case ast.Constant(value=int(index)):
            word = words[index]
            node.value = float(word.text) if word.kind == NUMBER else word.text
            node.kind, node.col_offset = word.unit, word.at
        case ast.Attribute():
            word = words[int(node.attr[1:])]
            node.attr, node.col_offset, node.end_col_offset = word.text, node.value.col_offset, word.at
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.UAdd()):
            node.col_offset = at[node.col_offset]
        case ast.BinOp(left=first) | ast.Compare(left=first) | ast.Call(func=first) | ast.Subscript(value=first):
            node.col_offset = first.col_offset
        case ast.BoolOp():
            node.col_offset = node.values[0].col_offset
        case ast.expr():
            raise ExpressionError(f"{type(node).__name__} has no meaning here.", 0)


@frozen(eq=True)
class PathPart:
    """One name of a path: `step[3]`, `kernel("gemm")`, `dur_us`."""

    name: str
    at: int
    index: int | None = None
    arguments: tuple[ast.expr, ...] | None = None
    """None where there are no parentheses."""

    @property
    def is_plain(self) -> bool:
        """True where it has neither index nor arguments."""
        return self.index is None and self.arguments is None


Path = tuple[PathPart, ...]
"""Names joined by points: a value, or a call of a function."""


def path_of(node: ast.expr) -> Path:
    """The names of a path; empty for anything else."""
    parts: list[PathPart] = []
    index, arguments = None, None
    while True:
        match node:
            case ast.Call():
                arguments, node = tuple(node.args), node.func
            case ast.Subscript(slice=ast.Constant(value=float(number))):
                index, node = int(number), node.value
            case ast.Attribute():
                parts.append(PathPart(node.attr, node.end_col_offset or 0, index, arguments))
                index, arguments, node = None, None, node.value
            case ast.Name():
                return (PathPart(node.id, node.col_offset, index, arguments), *reversed(parts))
            case _:
                return ()


_SIGNS: dict[type[ast.AST], str] = {
    **dict(zip((ast.Or, ast.And, ast.Add, ast.Sub, ast.Mult, ast.Div), ("or", "and", "+", "-", "*", "/"), strict=True)),
    **dict(zip((ast.Eq, ast.NotEq, ast.LtE, ast.GtE, ast.Lt, ast.Gt, ast.In, ast.NotIn), COMPARISONS, strict=True)),
    **dict(zip((ast.Not, ast.USub, ast.UAdd), ("not", "-", "+"), strict=True)),
}
_LEVELS = {"or": 0, "and": 1, **dict.fromkeys(COMPARISONS, 3), "+": 4, "-": 4, "*": 5, "/": 5}
"""Binding strength of operators, the tightest highest; `not` is between `and` and the comparisons."""
_NOT_LEVEL, _SIGN_LEVEL, _WHOLE_LEVEL = 2, 6, 7


def sign_of(operator: ast.AST) -> str:
    """The operator as it is written."""
    return _SIGNS[type(operator)]


def chain(node: ast.expr) -> tuple[list[ast.expr], list[str]]:
    """The operands of operators of one level, and the operators between them: a sum, a chain of comparisons."""
    match node:
        case ast.BoolOp():
            return node.values, [sign_of(node.op)] * (len(node.values) - 1)
        case ast.Compare():
            return [node.left, *node.comparators], [*map(sign_of, node.ops)]
        case ast.BinOp():
            operands, signs = [], []
            level = _LEVELS[sign_of(node.op)]
            first: ast.expr = node
            while isinstance(first, ast.BinOp) and _LEVELS[sign_of(first.op)] == level:
                operands.append(first.right)
                signs.append(sign_of(first.op))
                first = first.left
            return [first, *reversed(operands)], [*reversed(signs)]
    return [node], []


def written(node: ast.expr, least: int = 0) -> str:
    """The expression as text with the fewest parentheses, where it must bind at least so tightly."""
    level = _WHOLE_LEVEL
    match node:
        case ast.Constant(value=float(value)):
            number = repr(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
            text = f"{number}{node.kind}"
        case ast.Constant(value=str(content)):
            quote = "'" if '"' in content else '"'
            text = f"{quote}{content}{quote}"
        case ast.UnaryOp(op=ast.Not()):
            level, text = _NOT_LEVEL, f"not {written(node.operand, _NOT_LEVEL)}"
        case ast.UnaryOp():
            level, text = _SIGN_LEVEL, f"{sign_of(node.op)}{written(node.operand, _SIGN_LEVEL)}"
        case ast.BoolOp() | ast.Compare() | ast.BinOp():
            operands, signs = chain(node)
            level = _LEVELS[signs[0]]
            first, *others = (written(each, level + 1) for each in operands)
            text = first + "".join(f" {sign} {other}" for sign, other in zip(signs, others, strict=True))
        case _:
            text = written_path(path_of(node))
    return text if level >= least else f"({text})"


def written_path(path: Path) -> str:
    """The names of a path with their indices and arguments."""
    texts = []
    for part in path:
        index = "" if part.index is None else f"[{part.index}]"
        arguments = "" if part.arguments is None else f"({', '.join(map(written, part.arguments))})"
        texts.append(f"{part.name}{index}{arguments}")
    return ".".join(texts)


def bare_words(node: ast.expr) -> str:
    """The text that an unquoted word probably was, names joined by - and / included; empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    operands, signs = chain(node)
    if not signs or not set(signs) <= {"-", "/"}:
        return ""
    first, *others = map(bare_words, operands)
    return first + "".join(map("".join, zip(signs, others, strict=True))) if first and all(others) else ""
