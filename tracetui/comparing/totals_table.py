"""Totals of two sides: one row per measure of `measures`.

A measure that only one side has is 0 on the other where the other has GPU activities at all: a cause of gaps or a
family of kernels that does not occur there. Bytes and operations that were not recorded stay unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tracetui.comparing.clock import cpu_tick, gpu_tick, within_tick
from tracetui.comparing.composition import is_mixed
from tracetui.comparing.measures import Measure, launch_gap, measures, rests_on_launches, without_launches
from tracetui.comparing.noise import BEYOND_NOISE, Change, Difference, difference
from tracetui.comparing.side import Side
from tracetui.model import columns as col
from tracetui.model.quantities import rounded_percent
from tracetui.model.table import Table, numbers, texts
from tracetui.model.trace import Float64

MIN_KNOWN_PERCENT = 90.0
"""Minimum percent of the GPU time with known bytes, for sums of bytes to be compared."""
ONE_TICK = "it is one tick of the clock, and the noise is unknown"
"""Why a difference between single parts may be none."""
SHAPE_MEASURES = ("moved_bytes", "flops")
"""Measures that cover only activities whose shapes were recorded."""
_SCATTER = (
    "How far {}'s parts lie apart: between the quartiles; of fewer than four parts, and beside a single one, "
    "between the least and the largest."
)


@dataclass(frozen=True, eq=False)
class Total:
    """One measure of both sides."""

    name: str
    unit: str
    help: str
    difference: Difference
    doubt: str = ""
    """Why the difference is undecided although both sides have a value, as part of a sentence; empty for no reason."""
    gap: str = ""
    """Why a side has no value, or not for all of its parts."""

    @property
    def change(self) -> Change:
        """How it changed."""
        found = self.difference.change
        return Change.WITHIN_NOISE if self.doubt and found is not Change.UNKNOWN else found

    @property
    def remark(self) -> str:
        """Why nothing more can be said."""
        return "; ".join(filter(None, (self.gap, self.doubt)))


def paired(
    a: Side, b: Side, names: tuple[str, str] = ("A", "B"), every: Mapping[str, Measure] | None = None
) -> dict[str, Total]:
    """The measures that either side has, by name and in their order.

    `names` are the names of the sides; `every` holds the measures of further sides, in their order.
    """
    left, right = measures(a), measures(b)
    mixed = _mixed(a, b, names)
    gaps = "; ".join(f"{name}: {gap}" for name, side in zip(names, (a, b), strict=True) if (gap := launch_gap(side)))
    result = {}
    tick = max(each(trace) for each in (gpu_tick, cpu_tick) for trace in (a.trace, b.trace))
    for name, known in (every or merged(left, right)).items():
        made = difference(_values(a, name, left), _values(b, name, right), known.is_count)
        if len(made.a.values) or len(made.b.values):
            gap = gaps if rests_on_launches(name) else ""
            doubt = mixed or (ONE_TICK if _is_one_tick(made, known.unit, tick) else "")
            result[name] = Total(name, known.unit, known.help, made, doubt, gap)
    share = result.get("moved_known_pct")
    shares = (share.difference.a.median, share.difference.b.median) if share else (MIN_KNOWN_PERCENT, MIN_KNOWN_PERCENT)
    if min(shares) < MIN_KNOWN_PERCENT:
        reason = f"known of {rounded_percent(shares[0])} and {rounded_percent(shares[1])} of the GPU time"
        result |= {name: replace(result[name], doubt=reason) for name in SHAPE_MEASURES if name in result}
    return result


def _is_one_tick(made: Difference, unit: str, tick: int) -> bool:
    """Whether two times without a known noise differ by one tick of the clock."""
    if unit != "us" or made.change not in BEYOND_NOISE or not np.isnan(made.noise):
        return False
    return bool(within_tick(np.array(1000 * made.amount), np.array(1.0), tick))


def _mixed(a: Side, b: Side, names: tuple[str, str] = ("A", "B")) -> str:
    """The reason why medians are misleading where the parts of a side differ in what they run."""
    mixed = [name for name, side in zip(names, (a, b), strict=True) if is_mixed(side)]
    return f"the parts of {' and of '.join(mixed)} differ in what they run" if mixed else ""


def totals(a: Side, b: Side) -> Table:
    """One row per measure: medians, noise and change."""
    rows = list(paired(a, b).values())
    differences = [row.difference for row in rows]
    return Table(
        (
            texts(col.MEASURE, [row.name for row in rows]),
            texts(col.UNIT.but(help="Unit of the numbers; empty for counts."), [row.unit for row in rows]),
            numbers(col.A, [each.a.median for each in differences]),
            numbers(col.A_SCATTER.but(help=_SCATTER.format("A")), [each.a.scatter for each in differences]),
            numbers(col.B, [each.b.median for each in differences]),
            numbers(col.B_SCATTER.but(help=_SCATTER.format("B")), [each.b.scatter for each in differences]),
            numbers(col.DIFFERENCE, [each.amount for each in differences]),
            numbers(col.RATIO, [each.ratio for each in differences]),
            texts(col.CHANGE.but(help="What noise lets one say of B beside A."), [row.change.value for row in rows]),
            texts(col.REMARK.but(help="What stands in the way of saying more."), [row.remark or None for row in rows]),
            texts(col.ABOUT, [row.help for row in rows]),
        ),
        None,
        note(a, b),
    )


def note(a: Side, b: Side) -> str:
    """What a reader of any table of the two sides must know."""
    said = [side.remark for side in (a, b) if side.remark]
    if reason := _mixed(a, b):
        said.append(f"{reason[0].upper()}{reason[1:]}: a median describes none of them.")
    if len(a) == 1 and len(b) == 1:
        said.append("Each side has one part, so noise is unknown.")
    return " ".join(dict.fromkeys(said))


def _values(side: Side, name: str, found: Mapping[str, Measure]) -> Float64:
    """Values of every part; 0 for a kind of activity that does not occur on a side with GPU activities."""
    if name in found:
        return found[name].values
    unknown = without_launches(side) if rests_on_launches(name) else np.zeros(len(side), bool)
    return np.where(unknown | (len(side.activities()[0]) == 0), np.nan, 0.0)


def merged(left: Mapping[str, Measure], right: Mapping[str, Measure]) -> dict[str, Measure]:
    """The measures of both sides; those of the second alone stand behind their predecessor there."""
    names, others = list(left), list(right)
    for index, name in enumerate(others):
        if name not in names:
            names.insert(names.index(others[index - 1]) + 1 if index else 0, name)
    return {name: left[name] if name in left else right[name] for name in names}
