"""Steps that differ from the others: what each is spent on, and which of its parts is off the median."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracetui.frozen import frozen
from tracetui.idle.gpu_spans import step_exposure, step_spans
from tracetui.idle.idleness import device_order
from tracetui.idle.scope_times import idle_within, step_periods
from tracetui.linking.step_kinds import partial_steps, step_kinds
from tracetui.linking.steps import steps
from tracetui.model.intervals import Bool
from tracetui.model.results import kept
from tracetui.model.table import Table
from tracetui.model.trace import Float64, Trace

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

    @property
    def lost(self) -> float:
        """Time in µs beyond the medians in which nothing was computed."""
        return sum(us for name, us in self.parts if us > 0 and name != COMPUTE)


def parts_of_periods(period: Float64, idle: Float64, exposed: Float64) -> dict[str, Float64]:
    """Parts of steps from their periods, their idle time and their exposed communication, means over the devices.

    The parts of a step are its period, also where its own work began before that or the GPU still ran another's in it.
    """
    comm = np.clip(exposed, 0, np.maximum(period - idle, 0))
    return {COMPUTE: np.maximum(period - idle - comm, 0), COMMUNICATION: comm, IDLE: np.minimum(idle, period)}


def step_parts(trace: Trace) -> dict[str, Float64]:
    """Time in µs of each of `steps(trace)` by part, as `part_times` has it of the pane of steps."""
    (low, high), ran = step_periods(trace), step_spans(trace).ran
    if not ran.any():
        return {CPU: (steps(trace).end - steps(trace).start) / 1000}
    per_device = 1000 * max(device_order(trace).devices, 1)
    period, exposed = np.where(ran, (high - low) / 1000, np.nan), step_exposure(trace).total().exposed_comm
    return parts_of_periods(period, idle_within(trace, low, high) / per_device, exposed / per_device)


def part_times(table: Table, devices: int = 1) -> dict[str, Float64]:
    """Time in µs of each step by part, of the steps as the pane lists them: NaN where it is not known.

    The parts of a step together are its period, of several devices their mean; communication is only what is exposed.
    Without a GPU there is one part, the time on the CPU. The table has sums over the `devices`.
    """
    period, idle, exposed = (_values(table, name) for name in ("period_us", "gpu_idle_us", "exposed_comm_us"))
    if np.isnan(period).all():
        return {CPU: _values(table, "dur_us")}
    return parts_of_periods(period, idle / devices, exposed / devices)


def odd_steps(table: Table, devices: int = 1) -> list[OddStep | None]:
    """Differences of each step from the others of its kind; None where there are too few, or it is partial."""
    kinds = table["kind"].values if "kind" in table else np.zeros(len(table))
    whole = ~table["partial"].values.astype(bool) if "partial" in table else np.ones(len(table), bool)
    return odd_among(part_times(table, devices), kinds, whole)


def odd_among(parts: dict[str, Float64], kinds: np.ndarray, whole: Bool) -> list[OddStep | None]:
    """Differences of each step from the others of its kind, by parts in µs; None where there are too few, or not whole.

    Length alone would miss a step that communicates for longer and waits for less.
    """
    length = np.sum(list(parts.values()), axis=0)
    usual = ~np.isnan(length) & whole
    odd: list[OddStep | None] = [None] * len(length)
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
            if not listed and abs(change) > ODD_SHARE:
                # Longer by several parts, of which none is off by itself: the largest stands for them.
                listed = [max(differences, key=lambda each: each[1] * change)]
            odd[row] = OddStep(row, change, tuple(listed))
    return odd


@kept
def odd_steps_of(trace: Trace) -> list[OddStep | None]:
    """Differences of each of `steps(trace)` from the others of its kind, as `odd_steps` has them of the pane."""
    kinds = np.array([kind or "" for kind in step_kinds(trace).kind])
    return odd_among(step_parts(trace), kinds, ~partial_steps(trace))


def scale_of_bars(lengths: Sequence[float]) -> float:
    """The length of the longest bar of a list of steps: a first step far longer than all others would flatten these."""
    others = max(lengths[1:], default=0.0)
    first = max(lengths[:1], default=0.0)
    return max(others if 0 < MAX_FIRST_RATIO * others < first else max(first, others), 1e-9)


def _values(table: Table, name: str) -> Float64:
    return table[name].values.astype(np.float64) if name in table else np.full(len(table), np.nan)
