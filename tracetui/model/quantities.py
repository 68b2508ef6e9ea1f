"""Numbers as words: times, bytes, rates, shares and counts, the same way on every screen, page and line of text.

* **Times** take the largest unit in which they are at least 1, with fixed decimals per unit, so that numbers of one
  unit line up in a column: `961 ns`, `48.9 µs`, `12.34 ms`, `1.203 s`, `947.6 s`.
* **Positions in time** are µs from the first event, in full: `1,057,264.0 µs`; in a sentence about a range they are as
  fine as its length needs: `729.36–734.25 ms`.
* **Bytes** are counted in binary units, as PyTorch, `nvidia-smi` and compilers do: `512 B`, `335.7 MiB`.
* **Rates** and **operations** are decimal, as data sheets are: `3,350 GB/s`, `55.06 GFLOP`.
* **Shares** have one decimal (`percent`), or in a sentence as few digits as say something (`rounded_percent`).
* **Amounts that are compared** in a sentence are written in one `Scale`, with three digits at least: `701 → 642 µs`.

JSON and CSV carry plain numbers in the unit of their column and none of this.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from tracetui.frozen import frozen

ABSENT = "–"
"""Stands where the trace holds no value; never 0."""
SCALED_UNITS = ("us", "ns", "%", "bytes", "flop")
"""Units of plain numbers that are written in a unit of their own choice, by `quantity`."""
FACTOR_FROM = 1.5
"""A ratio from which a difference is written as a factor, and below which in percent."""
MAX_DIGITS = 15
"""Significant digits after which a number is written with an exponent."""

_LONG_SECONDS = 100
"""Seconds from which one decimal is enough."""
_BINARY = ("KiB", "MiB", "GiB", "TiB", "PiB")
_DECIMAL = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


_TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"))
_LADDERS: dict[str, tuple[tuple[float, str], ...]] = {
    "us": ((1e6, "s"), (1e3, "ms"), (1.0, "µs")),
    "bytes": tuple((1024.0**power, unit) for power, unit in reversed([*enumerate(("bytes", *_BINARY))])),
    "flop": (*((scale, f"{letter}FLOP") for scale, letter in _DECIMAL), (1.0, "FLOP")),
}
"""Larger units of each unit of plain numbers, largest first, with their size in it."""


def duration(nanoseconds: float) -> str:
    """A length of time: `961 ns`, `48.9 µs`, `12.34 ms`, `1.203 s`, `947.6 s`."""
    length = abs(nanoseconds)
    # A list on the screen writes some hundred of these for every line that it scrolls. What would be rounded to a
    # thousand of a unit is one of the next.
    if length < 999.5:
        return f"{_positive_zero(f'{nanoseconds:.0f}')} ns"
    if length < 999_950:
        return f"{nanoseconds / 1e3:.1f} µs"
    if length < 999_995_000:
        return f"{nanoseconds / 1e6:.2f} ms"
    return f"{nanoseconds / 1e9:.3f} s" if length < _LONG_SECONDS * 1e9 else f"{nanoseconds / 1e9:,.1f} s"


def stretch(start: float, end: float) -> str:
    """Two positions in ns in one unit, as fine as their distance needs: `729.36–734.25 ms`."""
    scale, unit = next(((size, unit) for size, unit in _TIMES if abs(end) >= size), (1.0, "ns"))
    digits = math.ceil(math.log10(100 * scale / max(end - start, 1)))
    decimals = min(max(digits, 0), round(math.log10(scale)))
    return f"{start / scale:,.{decimals}f}–{end / scale:,.{decimals}f} {unit}"


def moment(us: float) -> str:
    """A position in time in µs, in full, since neighbours differ in the last digits: `1,057,264.0`."""
    return f"{us:,.1f}"


def size(count: float) -> str:
    """A number of bytes in binary units: `512 B`, `1.2 GiB`."""
    value, unit = float(count), "B"
    for larger in _BINARY:
        if abs(value) < 1023.95:
            break
        value, unit = value / 1024, larger
    return f"{value:.0f} B" if unit == "B" else f"{value:,.1f} {unit}"


def size_change(before: float, after: float) -> str:
    """Two numbers of bytes, their unit once where it is the same: `432.0 → 335.7 MiB`, `2.3 GiB → 64.0 MiB`."""
    left, right = size(before), size(after)
    if left == right:
        return left
    number, unit = left.split(" ")
    return f"{number if right.endswith(f' {unit}') else left} → {right}"


def rate(count: float, nanoseconds: float) -> str:
    """Bytes per time in decimal units, to three digits: `12.3 GB/s`."""
    per_second = 1e9 * count / max(nanoseconds, 1)
    scale, letter = next(((scale, letter) for scale, letter in _DECIMAL if abs(per_second) >= scale), (1.0, ""))
    return f"{three_digits(per_second / scale)} {letter}B/s"


def operations(count: float) -> str:
    """A number of floating-point operations with four digits: `55.06 GFLOP`."""
    scale, letter = next(((scale, letter) for scale, letter in _DECIMAL if abs(count) >= scale), (1.0, ""))
    return f"{count / scale:.4g} {letter}FLOP"


def count(number: float) -> str:
    """A whole number with thousands separated: `12,345`."""
    return f"{round(number):,}"


def counted(number: int, thing: str) -> str:
    """A number of things: `1 copy`, `12 copies`, `2 replays`, `3 launches`."""
    if number == 1:
        return f"1 {thing}"
    if thing.endswith("y") and thing[-2] not in "aeiou":
        return f"{number:,} {thing[:-1]}ies"
    plural = f"{thing}es" if thing.endswith(("ch", "sh", "s", "x")) else f"{thing}s"
    return f"{number:,} {plural}"


def share(percents: float) -> str:
    """A share without its sign: `63.1`; without a decimal where it is hundreds of times the whole: `1,066,565`."""
    return f"{percents:,.0f}" if abs(percents) >= 10_000 else _positive_zero(f"{percents:.1f}")


def percent(percents: float) -> str:
    """A share with one decimal: `63.1 %`."""
    return f"{share(percents)} %"


def rounded_percent(percents: float) -> str:
    """A share in a sentence, without needless digits: `8 %`, `0.4 %`, `99.6 %`."""
    if 0 < percents < 0.05:
        return "under 0.1 %"
    return f"{percents:.1f} %" if 0 < percents < 1 or 99 < percents < 100 else f"{percents:,.0f} %"


def short_percent(percents: float) -> str:
    """`rounded_percent` in few letters, for a column: `<0.1 %`."""
    return rounded_percent(percents).replace("under ", "<")


def adapted(value: float, unit: str) -> tuple[float, str]:
    """A number in `us`, `bytes` or `flop` as another of a unit in which it is at least 1; any other as it is."""
    scales = _LADDERS.get(unit)
    if scales is None:
        return value, unit
    least, name = next((each for each in scales if abs(value) >= each[0]), scales[-1])
    return value / least, name


def three_digits(value: float) -> str:
    """A number to three significant digits, large ones in full: `0.0187`, `48.9`, `1,979`."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def quantity(value: float, unit: str) -> str:
    """A number in a unit of a column or measure, as large as is read best: `12.34 ms` of `us`, `1.2 GiB` of `bytes`."""
    match unit:
        case "us":
            return duration(1000 * value)
        case "ns":
            return duration(value)
        case "%":
            return percent(value)
        case "bytes":
            return size(value)
        case "flop":
            return operations(value)
        case _:
            words = count(value) if abs(value) >= 1e15 or float(value).is_integer() else f"{value:,.1f}"
            return f"{words} {unit}".rstrip()


def significant(value: float, digits: int = 4) -> str:
    """A number with so many significant digits at least, no zeros at its end, and whole numbers in full."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else ABSENT
    power = math.floor(math.log10(abs(value)))
    if power >= MAX_DIGITS or power < -6:
        return f"{value:.{digits - 1}e}"
    decimals = max(digits - 1 - power, 0)
    text = f"{value:,.{min(decimals, MAX_DIGITS)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


@frozen(eq=True)
class Scale:
    """The common unit of quantities that are compared with each other."""

    factor: float
    """Divisor of the quantities."""
    unit: str

    def number(self, value: float) -> str:
        """Without the unit, with three digits at least."""
        return digits(value / self.factor)

    def one(self, value: float) -> str:
        """`33.2 µs`."""
        return f"{self.number(value)} {self.unit}"

    def change(self, before: float, after: float) -> str:
        """`701 → 642 µs`; once where both read the same."""
        return self._two(before, after, " → ")

    def both(self, before: float, after: float) -> str:
        """Two that are about the same: `701 and 702 µs`."""
        return self._two(before, after, " and ")

    def roughly(self, value: float) -> str:
        """A noise, for which three digits would be too precise: `2.1 ms`."""
        scaled = value / self.factor
        if 0 < scaled < 0.005:
            return f"{digits(scaled)} {self.unit}"
        return f"{scaled:,.{0 if scaled >= 10 or scaled == 0 else 1 if scaled >= 1 else 2}f} {self.unit}"

    def _two(self, before: float, after: float, between: str) -> str:
        left, right = self.number(before), self.number(after)
        return f"{left} {self.unit}" if left == right else f"{left}{between}{right} {self.unit}"


_TIME_SCALES = (Scale(1e6, "s"), Scale(1e3, "ms"), Scale(1.0, "µs"))
MIN_UNITS, MIN_FINE_UNITS = 2, 10
"""Minimum times of its unit for a scale, and for one in which times that differ read the same."""


def time_scale(us: Iterable[float]) -> Scale:
    """The scale of times in µs: that of the largest, or a finer one where a small difference would not show."""
    times = list(us)
    largest = max(map(abs, times), default=0.0)
    for scale in _TIME_SCALES[:-1]:
        numbers = {time: scale.number(time) for time in times}
        least = MIN_UNITS if len(set(numbers.values())) == len(numbers) else MIN_FINE_UNITS
        if largest >= least * scale.factor:
            return scale
    return _TIME_SCALES[-1]


def digits(value: float) -> str:
    """Three digits at least, thousands separated; a value that would read as 0 and is not, as below the last digit."""
    size = abs(value)
    if 0 < size < 0.005:
        return "<0.01"
    decimals = 0 if size >= 100 or value == 0 else 1 if size >= 10 else 2
    return f"{value:,.{decimals}f}"


def how_much(before: float, after: float) -> str:
    """The difference of two quantities in words: `8 % less`, `2.00 times as much`."""
    if before <= 0 or after <= 0:
        return "none left" if after <= 0 < before else "none before"
    if after < before:
        return f"{rounded_percent(min(100 * (before - after) / before, 99.9))} less"
    ratio = after / before
    return f"{rounded_percent(100 * (ratio - 1))} more" if ratio < FACTOR_FROM else f"{_ratio(ratio)} times as much"


def how_fast(before: float, after: float) -> str:
    """The difference of two times in words: as `how_much`, but `8.45 times as fast`."""
    is_factor = after > 0 and before / after >= FACTOR_FROM
    return f"{_ratio(before / after)} times as fast" if is_factor else how_much(before, after)


def _ratio(value: float) -> str:
    return f"{value:.2f}" if value < 20 else f"{value:,.0f}"


def _positive_zero(text: str) -> str:
    """A number as text, `0.0` in place of `-0.0`."""
    return text[1:] if text.startswith("-") and not text.strip("-0.,") else text
