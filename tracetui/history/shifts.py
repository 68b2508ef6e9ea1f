"""Changes of a series with the run that brought each, and what moved with them; the verdict on a new run (R6.2)."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence

import numpy as np

from tracetui.comparing.noise import Change, Sample
from tracetui.errors import UsageError
from tracetui.frozen import frozen
from tracetui.history.digest import (
    FAMILY_TIMES,
    KERNEL_GROUP,
    MODULE_GROUP,
    OP_GROUP,
    STEP_TIME,
    UNPROFILED,
    Level,
    Values,
    beyond,
    level,
)
from tracetui.history.series import Run, Series

FIRST_MEASURES = (STEP_TIME, UNPROFILED, "gpu_idle_pct", "kernels", "launches", "cpu_ops")
"""Measures that are always listed, in their order, where some run has another value than 0."""
CHECKED = (STEP_TIME, UNPROFILED, "gpu_idle_pct", "kernels")
"""Measures that must not be worse than in the runs before; more is worse."""
MAX_OF_GROUP = 6
"""Maximum families and maximum modules that are listed: the largest in the last run."""
MAX_MEASURES = 200
"""Maximum measures listed by name."""
MAX_MOVED = 3
"""Maximum measures named that moved with a change."""


@frozen(eq=True)
class Moved:
    """A measure that moved with another one."""

    name: str
    before: float
    after: float


@frozen(eq=True)
class Shift:
    """A change of a measure between two levels."""

    name: str
    unit: str
    before: float
    """Median of the runs of the level before."""
    after: float
    noise: float
    """What a single run of the level before must differ by, to count; NaN where too few runs tell."""
    run: Run
    """The run that brought it."""
    previous: Run
    """The last run before it."""
    runs: tuple[int, int]
    """Number of runs of the level before and of the level after."""
    moved: tuple[Moved, ...] = ()
    """What moved most at the same run: families, kernels, modules."""


@frozen
class Measure:
    """A measure over the runs of a series."""

    name: str
    unit: str
    values: Values
    levels: tuple[Level, ...]
    shifts: tuple[Shift, ...]
    last: Change
    """The last run beside the runs of its level, or of the level before where it is a change of its own."""


def listed_names(series: Series, wanted: Sequence[str] = ()) -> list[str]:
    """The names of the measures that are listed: those that are wanted, by name or pattern, else the first ones.

    Raises: UsageError for a name that no run has.
    """
    if wanted:
        names = [name for each in wanted for name in series.units if fnmatch.fnmatchcase(name, each)]
        return list(dict.fromkeys(names))[:MAX_MEASURES]
    return [
        *(name for name in FIRST_MEASURES if series.values(name).median.any()),
        *_largest(series, [name for name in series.units if name in FAMILY_TIMES]),
        *_largest(series, [name for name in series.units if name.startswith(MODULE_GROUP)]),
    ]


def require_measures(all_series: Sequence[Series], wanted: Sequence[str]) -> None:
    """Raises: UsageError for a name or pattern of a measure that no run of any series has."""
    known = {name: None for series in all_series for name in series.units}
    for each in wanted:
        if known and not fnmatch.filter(known, each):
            some = dict.fromkeys(name.partition(":")[0] + ":*" if ":" in name else name for name in known)
            raise UsageError(f"No run has a measure {each}; there are {', '.join(some)}.")


def measure(series: Series, name: str) -> Measure:
    """A measure over the runs with its changes."""
    values, found = series.levels(name)
    shifts = tuple(_shift(series, name, values, found, index) for index in range(1, len(found)))
    last = Change.UNKNOWN
    if len(values):
        start = found[-1].first if found[-1].end - found[-1].first > 1 else found[max(len(found) - 2, 0)].first
        value = float(values.median[-1])
        before = level(values, start, len(values) - 1) if len(values) - start > 1 else None
        last = (
            Change.WITHIN_NOISE
            if before is None
            else beyond(before, value, float(values.error[-1]), values.least(before.median))
        )
    return Measure(name, series.units.get(name, ""), values, tuple(found), shifts, last)


def _largest(series: Series, names: Sequence[str]) -> list[str]:
    """The names with the largest median in the last run that has one."""
    sizes = {name: float(series.values(name).median[-1]) for name in names}
    return sorted((name for name in names if sizes[name] > 0), key=lambda name: -sizes[name])[:MAX_OF_GROUP]


def _shift(series: Series, name: str, values: Values, found: Sequence[Level], index: int) -> Shift:
    before, after = found[index - 1], found[index]
    first, at, end = (int(values.run[row]) for row in (before.first, after.first, after.end - 1))
    return Shift(
        name,
        series.units.get(name, ""),
        before.median,
        after.median,
        before.noise,
        series.runs[at],
        series.runs[int(values.run[after.first - 1])],
        (before.end - before.first, after.end - after.first),
        tuple(_moved(series, name, (first, at, end + 1))) if name == STEP_TIME else (),
    )


def _moved(series: Series, name: str, bounds: tuple[int, int, int]) -> list[Moved]:
    """The times that differ by more than their noise between the runs before and behind a run, the largest first."""
    first, at, end = bounds
    moved = []
    for other, unit in series.units.items():
        is_part = other in FAMILY_TIMES or other.startswith((KERNEL_GROUP, OP_GROUP, MODULE_GROUP))
        if other == name or unit != "us" or not is_part:
            continue
        values = series.values(other)
        is_before, is_after = (values.run >= first) & (values.run < at), (values.run >= at) & (values.run < end)
        before, after = (Sample(values.median[mask]) for mask in (is_before, is_after))
        noise = max(*np.nan_to_num([before.scatter, after.scatter]), values.least(before.median), 0.0)
        if len(before.values) and len(after.values) and abs(after.median - before.median) > noise:
            moved.append(Moved(other, before.median, after.median))
    return sorted(moved, key=lambda each: -abs(each.after - each.before))[:MAX_MOVED]


# A new run beside the last level of the runs before it.


@frozen(eq=True)
class Verdict:
    """A measure of a new run."""

    name: str
    unit: str
    value: float
    """Median over its steps."""
    before: Level
    runs: tuple[str, str]
    """First and last run of the level."""
    change: Change


def like(all_series: Sequence[Series], run: Run) -> Series | None:
    """The series that a new run belongs to, None where there is none."""
    return next((series for series in all_series if series.runs and series.fits(run)), None)


def verdicts(series: Series, run: Run) -> list[Verdict]:
    """Verdicts on the measures that must not be worse, of a new run beside the last level of its series."""
    found = []
    for name in CHECKED:
        mine = run.digest.measures.get(name)
        values, levels = series.levels(name)
        if not levels or mine is None or not (mine.median or values.median.any()):
            continue
        last, value = levels[-1], mine.median
        change = beyond(last, value, mine.error, values.least(last.median))
        if change is Change.WITHIN_NOISE and value <= last.median and not np.isnan(last.noise):
            change = Change.SAME
        ends = [series.runs[int(values.run[index])].name for index in (last.first, last.end - 1)]
        found.append(Verdict(name, values.unit, value, last, (ends[0], ends[1]), change))
    return found
