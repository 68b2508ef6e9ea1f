"""What an expression is made of, and how it is written."""

from __future__ import annotations

from dataclasses import dataclass, field

LEVELS: tuple[tuple[str, ...], ...] = (
    ("or",),
    ("and",),
    ("==", "!=", "<=", ">=", "<", ">", "~", "!~"),
    ("+", "-"),
    ("*", "/"),
)
"""Operators between two expressions, by how tightly they bind; `not` stands between `and` and the comparisons."""
OR, AND, COMPARISON, SUM, PRODUCT = range(len(LEVELS))
NOT_LEVEL, SIGN_LEVEL, WHOLE_LEVEL = AND + 0.5, PRODUCT + 1, PRODUCT + 2
"""How tightly `not`, a sign, and what needs no parentheses bind."""


@dataclass(frozen=True)
class Figure:
    """A number that is written in the expression, with its unit."""

    value: float
    unit: str = ""
    """A key of `units.LITERALS`, or nothing."""
    at: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Quoted:
    """A text in quotes."""

    text: str
    at: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Part:
    """One name of a path: `step[3]`, `kernel("gemm")`, `dur_us`."""

    name: str
    index: int | None = None
    arguments: tuple[Node, ...] | None = None
    """None where there are no parentheses."""
    at: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Path:
    """Names joined by points: a value, or a call of a function."""

    parts: tuple[Part, ...]

    @property
    def at(self) -> int:
        """Where it begins."""
        return self.parts[0].at


@dataclass(frozen=True)
class Prefixed:
    """`not`, or a sign, before an expression."""

    sign: str
    operand: Node
    at: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Row:
    """Expressions with operators of one level between them: a sum, a product, a chain of comparisons."""

    first: Node
    rest: tuple[tuple[str, Node], ...]
    """At least one operator with what follows it."""

    @property
    def at(self) -> int:
        """Where it begins."""
        return self.first.at

    @property
    def level(self) -> int:
        """Place of its operators in `LEVELS`."""
        return next(number for number, signs in enumerate(LEVELS) if self.rest[0][0] in signs)

    @property
    def operands(self) -> tuple[Node, ...]:
        """Everything between the operators."""
        return (self.first, *(node for _, node in self.rest))


Node = Figure | Quoted | Path | Prefixed | Row


def written(node: Node) -> str:
    """The expression as text, with no parentheses but those that it needs; parsing it gives the same tree."""
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
        case Row():
            least = node.level + 0.25
            rest = (f" {sign} {_within(each, least)}" for sign, each in node.rest)
            return _within(node.first, least) + "".join(rest)


def bare_words(node: Node) -> str:
    """What looks like a text without its quotes: names with nothing but - and / between them; empty for all else."""
    match node:
        case Path(parts=(Part(index=None, arguments=None, name=name),)):
            return name
        case Row():
            words = [bare_words(each) for each in node.operands]
            signs = [sign for sign, _ in node.rest]
            if all(words) and set(signs) <= {"-", "/"}:
                return words[0] + "".join(sign + word for sign, word in zip(signs, words[1:], strict=True))
    return ""


def figure(value: float) -> str:
    """A number of an expression as short as it can be written without losing a digit."""
    return repr(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def _within(node: Node, least: float) -> str:
    return written(node) if _binds(node) >= least else f"({written(node)})"


def _binds(node: Node) -> float:
    match node:
        case Row():
            return node.level
        case Prefixed():
            return NOT_LEVEL if node.sign == "not" else SIGN_LEVEL
        case _:
            return WHOLE_LEVEL


def _part(part: Part) -> str:
    index = "" if part.index is None else f"[{part.index}]"
    called = "" if part.arguments is None else f"({', '.join(map(written, part.arguments))})"
    return f"{part.name}{index}{called}"
