"""Units of numbers: which can be compared and added, and the unit of a product or a quotient.

Numbers without a dimension are of four kinds. A bare number of an expression takes the unit of the other operand;
counts and ratios are plain; a percentage multiplies as a share (10% of it), and is never compared with a count.
"""

from __future__ import annotations

from dataclasses import dataclass

from tracetui.comparing.measures import COUNT

Powers = tuple[int, int, int]
"""Exponents of microseconds, bytes and operations."""
PLAIN: Powers = (0, 0, 0)
_BASES = ("us", "bytes", "flop")


@dataclass(frozen=True)
class Unit:
    """What a number counts in."""

    label: str
    """Spelling in tables and expressions; empty for plain numbers."""
    powers: Powers = PLAIN
    scale: float = 1.0
    """Base units in one of it."""
    kind: str = ""
    """Kind of a plain number: `bare`, `count`, `ratio` or `share`."""

    @property
    def words(self) -> str:
        """The unit in a sentence: `a time`, `a share`."""
        return _WORDS.get(self.kind) or _DIMENSIONS.get(self.powers) or f"a number of {self.label}"


class Misfit(Exception):
    """Two values do not fit together; the message names them."""


BARE = Unit("", kind="bare")
THINGS = Unit("", kind="count")
RATIO = Unit("", kind="ratio")
SHARE = Unit("%", scale=0.01, kind="share")
MICROS = Unit("us", (1, 0, 0))
BYTES = Unit("bytes", (0, 1, 0))
FLOP = Unit("flop", (0, 0, 1))

_WORDS = {"bare": "a number", "count": "a count", "ratio": "a ratio", "share": "a percentage"}
_DIMENSIONS = {
    (1, 0, 0): "a time",
    (0, 1, 0): "a size in bytes",
    (0, 0, 1): "a number of operations",
    (-1, 1, 0): "a rate in bytes",
    (-1, 0, 1): "a rate of operations",
}


def _scaled(base: Unit, scales: dict[str, float], behind: str = "") -> dict[str, Unit]:
    powers = base.powers if not behind else (base.powers[0] - 1, *base.powers[1:])
    per = 1e-6 if behind else 1.0
    return {f"{label}{behind}": Unit(f"{label}{behind}", powers, per * scale) for label, scale in scales.items()}


_TIMES = {"ns": 1e-3, "us": 1.0, "µs": 1.0, "μs": 1.0, "ms": 1e3, "s": 1e6}
_SIZES = {"B": 1.0, "bytes": 1.0, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12} | {
    f"{letter}iB": float(1024**power) for power, letter in enumerate("KMGT", 1)
}
_WORK = {f"{letter}{word}": 1000.0**i for i, letter in enumerate(" kMGTP") for word in ("FLOP", "flop")}
_WORK = {label.strip(): scale for label, scale in _WORK.items()}

LITERALS: dict[str, Unit] = {
    **_scaled(MICROS, _TIMES),
    **_scaled(BYTES, _SIZES),
    **_scaled(FLOP, _WORK),
    **_scaled(BYTES, _SIZES, "/s"),
    **_scaled(FLOP, _WORK, "/s"),
    "FLOP/byte": Unit("FLOP/byte", (0, -1, 1)),
    "%": SHARE,
}
"""Units that may follow a number literal."""
_OF_TABLES = {COUNT: THINGS} | LITERALS


def unit_of(label: str) -> Unit:
    """The unit of a column or a measure; an unknown label counts things."""
    return _OF_TABLES.get(label, Unit(label, kind="count"))


def factor(unit: Unit, into: Unit) -> float:
    """The factor from one unit into another.

    Raises: Misfit where they are not of the same dimension.
    """
    if unit.kind == "bare" or into.kind == "bare":
        return 1.0
    if unit.powers != into.powers or {unit.kind, into.kind} == {"count", "share"}:
        raise Misfit(f"{unit.words} and {into.words}")
    return unit.scale / into.scale


def joint(a: Unit, b: Unit) -> Unit:
    """The unit in which numbers of two units are compared: that of the first, unless it is bare.

    Raises: Misfit where they are not of the same dimension.
    """
    factor(a, b)
    if a.kind == "bare" or (a.kind == "ratio" and b.kind == "share"):
        return b
    return a


def product(a: Unit, b: Unit) -> tuple[Unit, float]:
    """The unit of a product, and the factor for the product of the two numbers."""
    for one, other in ((a, b), (b, a)):
        if one.kind == "bare":
            return other, 1.0
    for one, other in ((a, b), (b, a)):
        if one.kind == "share":
            return other, one.scale
    for one, other in ((a, b), (b, a)):
        if one.powers == PLAIN:
            # A ratio of a count is a count, whichever stands first.
            return (one if other.kind == "ratio" else other), 1.0
    return _base(_sum(a.powers, b.powers), 1), a.scale * b.scale


def quotient(a: Unit, b: Unit) -> tuple[Unit, float]:
    """The unit of a quotient, and the factor for the quotient of the two numbers."""
    if b.kind == "bare":
        return a, 1.0
    if b.kind == "share":
        return (RATIO, 1.0) if a.kind == "share" else (RATIO if a.kind == "bare" else a, 1 / b.scale)
    if b.powers == PLAIN:
        return (RATIO, 1.0) if a.kind == "bare" or a.kind == b.kind == "count" else (a, 1.0)
    powers = _sum(a.powers, b.powers, -1)
    return _base(powers, 1), a.scale / b.scale


def _sum(a: Powers, b: Powers, sign: int = 1) -> Powers:
    return (a[0] + sign * b[0], a[1] + sign * b[1], a[2] + sign * b[2])


def _base(powers: Powers, scale: float) -> Unit:
    """The unit of given exponents: `bytes/us`."""
    if powers == PLAIN:
        return RATIO
    over = [_power(name, power) for name, power in zip(_BASES, powers, strict=True) if power > 0]
    under = [_power(name, -power) for name, power in zip(_BASES, powers, strict=True) if power < 0]
    return Unit("/".join([" ".join(over) or "1", *under]), powers, scale)


def _power(name: str, power: int) -> str:
    return name if power == 1 else f"{name}^{power}"
