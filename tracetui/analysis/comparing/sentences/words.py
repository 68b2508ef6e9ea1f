"""Numbers of two sides in sentences: all times of a sentence in one unit, and how they differ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tracetui.analysis.comparing.sides.noise import Change, Difference
from tracetui.analysis.comparing.sides.side import CAPTURE, Side

TIMES = 1.5
"""From so many times on a time is told as a factor, below it in percent."""
WITHIN_NOISE = "within noise"
_UNITS = ((1e7, 1e6, "s"), (1e4, 1e3, "ms"), (0.0, 1.0, "µs"))
"""From so many µs on; by what they are divided; the unit."""
_SIZES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "bytes"))
_NODE = "autograd::engine::evaluate_function: "
"""What the name of a node of the backward graph begins with, around an operator of the rest of its name."""


@dataclass(frozen=True)
class Unit:
    """What the numbers of a sentence are divided by, and what is written behind them."""

    scale: float
    name: str

    def number(self, value: float) -> str:
        """Without the unit."""
        return digits(value / self.scale)

    def one(self, value: float) -> str:
        """`33.2 µs`."""
        return f"{self.number(value)} {self.name}"

    def change(self, before: float, after: float) -> str:
        """`701 → 642 µs`; once where both read the same."""
        return self._two(before, after, " → ")

    def both(self, before: float, after: float) -> str:
        """Two that are about the same: `701 and 702 µs`."""
        return self._two(before, after, " and ")

    def _two(self, before: float, after: float, between: str) -> str:
        left, right = self.number(before), self.number(after)
        return f"{left} {self.name}" if left == right else f"{left}{between}{right} {self.name}"


def unit(us: Iterable[float]) -> Unit:
    """The unit for all times of a sentence, in µs: that of the largest."""
    largest = max(map(abs, us), default=0.0)
    return next(Unit(scale, name) for least, scale, name in _UNITS if largest >= least)


def sizes(before: float, after: float) -> str:
    """Two numbers of bytes in one unit: `453 → 352 MB`."""
    largest = max(before, after)
    return next(Unit(*each) for each in _SIZES if largest >= each[0] or each[0] == 1).change(before, after)


def digits(value: float) -> str:
    """Three digits at least, thousands separated; what would read as 0 and is not, as less than the last digit."""
    size = abs(value)
    if 0 < size < 0.005:
        return "<0.01"
    decimals = 0 if size >= 100 or value == 0 else 1 if size >= 10 else 2
    return f"{value:,.{decimals}f}"


def how_much(before: float, after: float) -> str:
    """How two amounts differ: `8 % less`, `2.00 times as much`."""
    if before <= 0 or after <= 0:
        return "none left" if after <= 0 < before else "none before"
    if after < before:
        return f"{percent(min(100 * (before - after) / before, 99.9))} less"
    factor = after / before
    return f"{percent(100 * (factor - 1))} more" if factor < TIMES else f"{_factor(factor)} times as much"


def how_fast(before: float, after: float) -> str:
    """How two times differ: as `how_much`, but `8.45 times as fast`."""
    is_factor = after > 0 and before / after >= TIMES
    return f"{_factor(before / after)} times as fast" if is_factor else how_much(before, after)


def _factor(value: float) -> str:
    return f"{value:.2f}" if value < 20 else f"{value:,.0f}"


def percent(value: float) -> str:
    """A share without needless digits: `8 %`, `0.4 %`, `99.6 %`."""
    if 0 < value < 0.05:
        return "under 0.1 %"
    return f"{value:.1f} %" if 0 < value < 1 or 99 < value < 100 else f"{value:.0f} %"


def told(subject: str, each: Difference, parts: str, aside: str = "") -> str:
    """A sentence about a time in µs, without its end: what it was, what it is, and whether that is more than noise.

    `parts` is what the parts of a side are called, `aside` stands in place of the noise where that is not known.
    """
    before, after = each.a.median, each.b.median
    is_known = each.noise == each.noise
    if each.change is Change.SAME:
        times = unit((before, after)).both(before, after)
        return f"{subject} the same: {times}{in_brackets('' if is_known else aside)}"
    scale = unit((before, after, each.noise) if is_known else (before, after))
    change = f"{subject} {scale.change(before, after)}"
    if each.change is Change.UNTOLD:
        return f"{change}: cannot tell, {parts} of one side differ by {roughly(each.noise, scale)}"
    return f"{change}: {how_fast(before, after)}{in_brackets(noise(each, scale) or aside)}"


def noise(told: Difference, scale: Unit) -> str:
    """By how much the parts of a side differ: `noise 2.21 ms`; empty where it is not known."""
    return f"noise {roughly(told.noise, scale)}" if told.noise == told.noise else ""


def roughly(us: float, scale: Unit) -> str:
    """A scatter, of which three digits would say too much: `2.1 ms`."""
    value = us / scale.scale
    if 0 < value < 0.005:
        return f"{digits(value)} {scale.name}"
    return f"{value:,.{0 if value >= 10 or value == 0 else 1 if value >= 1 else 2}f} {scale.name}"


def in_brackets(*some: str) -> str:
    """What there is of some asides, behind a blank; nothing for none."""
    held = ", ".join(filter(None, some))
    return f" ({held})" if held else ""


def per(a: Side, b: Side) -> str:
    """` per step` where parts of both are that; empty of whole captures."""
    return f" per {a.sort}" if a.sort == b.sort and a.sort != CAPTURE else ""


def listed(names: Sequence[str], most: int = 4) -> str:
    """Names with commas, and how many more there are."""
    if len(names) <= most + 1:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {len(names) - most} more"


def joined(names: Sequence[str]) -> str:
    """A short list as one speaks: `gelu, mul and tanh`."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else list(names))


def bare(op: str) -> str:
    """The name of an operator without the namespace of PyTorch's own, and without the node around it."""
    return op.removeprefix(_NODE).removeprefix("torch::autograd::").removeprefix("aten::")


def bares(ops: Iterable[str]) -> list[str]:
    """Such names, each once."""
    return list(dict.fromkeys(map(bare, ops)))
