"""Steps that differ from the others: what each is spent on, and which of its parts is off the median."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracetui.frozen import frozen
from tracetui.model.table import Table
from tracetui.model.trace import Float64

COMPUTE, COMMUNICATION, IDLE, CPU = "compute", "comm", "idle", "CPU"
"""Parts of a step. Without a GPU the CPU time is the only one."""
ODD_SHARE = 0.05
"""Minimum distance of an odd part from its median, as a share of the median step."""
MAX_FIRST_RATIO = 4.0
"""Maximum length of the first step relative to the longest of the others; beyond it its bar is cut."""
CUT_BAR = "»"
"""End of a bar that is longer than there is room."""
MIN_STEPS = 3
"""Minimum steps of a kind that are compared with their median."""


@frozen(eq=True)
class OddStep:
    """Differences of a step from the median of its kind."""

    row: int
    """Row of the table of steps."""
    change: float
    """By how much it is longer, as a share of the median length."""
    parts: tuple[tuple[str, float], ...]
    """The parts that are odd with their difference from their median in µs, what grew first; empty for a usual step."""


def part_times(table: Table) -> dict[str, Float64]:
    """Time in µs of each step by part, of the steps as the pane lists them: NaN where it is not known.

    The parts of a step together are its period; communication is only what is exposed. Without a GPU there is one
    part, the time on the CPU.
    """
    busy, idle, exposed = (_values(table, name) for name in ("gpu_busy_us", "gpu_idle_us", "exposed_comm_us"))
    if np.isnan(busy).all():
        return {CPU: _values(table, "dur_us")}
    return {COMPUTE: np.maximum(busy - exposed, 0), COMMUNICATION: exposed, IDLE: idle}


def odd_steps(table: Table) -> list[OddStep | None]:
    """Differences of each step from the others of its kind; None where there are too few, or it was recorded in part.

    Length alone would miss a step that communicates for longer and waits for less.
    """
    parts = part_times(table)
    length = np.sum(list(parts.values()), axis=0)
    usual = ~np.isnan(length)
    if "partial" in table:
        usual &= ~table["partial"].values.astype(bool)
    odd: list[OddStep | None] = [None] * len(table)
    kinds = table["kind"].values if "kind" in table else np.zeros(len(table))
    for kind in np.unique(kinds).tolist():
        rows = np.flatnonzero(usual & (kinds == kind))
        if len(rows) < MIN_STEPS:
            continue
        middle = float(np.median(length[rows]))
        off = {name: times[rows] - np.median(times[rows]) for name, times in parts.items()}
        for place, row in enumerate(rows.tolist()):
            differences = [(name, float(times[place])) for name, times in off.items()]
            listed = [each for each in differences if abs(each[1]) > ODD_SHARE * middle]
            # What grew explains the step, the rest follows from it.
            listed.sort(key=lambda each: (each[1] < 0, -abs(each[1])))
            change = float(length[row]) / middle - 1 if middle else 0.0
            odd[row] = OddStep(row, change, tuple(listed))
    return odd


def scale_of_bars(lengths: Sequence[float]) -> float:
    """The length of the longest bar of a list of steps: a first step far longer than all others would flatten these."""
    others = max(lengths[1:], default=0.0)
    first = max(lengths[:1], default=0.0)
    return max(others if 0 < MAX_FIRST_RATIO * others < first else max(first, others), 1e-9)


def _values(table: Table, name: str) -> Float64:
    return table[name].values.astype(np.float64) if name in table else np.full(len(table), np.nan)
