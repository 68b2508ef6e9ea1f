"""The two sums under torch's own table, and what the tutorial on profiling reads from them (R3.32).

It is a rule of thumb: a long wait at the end of the capture, or the profiler's own work, makes it mislead.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetui.analysis.linking.links import links
from tracetui.analysis.linking.placement import within
from tracetui.analysis.operators.costs import costs
from tracetui.model.trace import Trace

FAR = 2.0
"""So many times the GPU's time is much more CPU time."""
NEAR = 1.25
"""Up to so many times the GPU's time is about as much."""


@dataclass(frozen=True)
class Totals:
    """Times in ns."""

    cpu: int
    """Sum of self CPU times of ops, annotations and runtime calls, the final wait for the GPU included."""
    device: int
    """Sum of the durations of GPU activities; what runs side by side counts twice."""

    @property
    def reading(self) -> str | None:
        """What the rule says, None where it says nothing."""
        if self.device and self.cpu >= FAR * self.device:
            return "overhead-bound"
        if self.device and 1 / NEAR <= self.cpu / self.device <= NEAR:
            return "compute-bound"
        return None


def totals(trace: Trace, step: int | None = None) -> Totals:
    """The sums over the trace or the step with a number."""
    cost = costs(trace)
    held = np.isin(cost.row, within(trace, cost.row, step), assume_unique=True) if step is not None else slice(None)
    work = within(trace, links(trace).gpu, step)
    return Totals(int(cost.self_cpu[held].sum()), int(trace.slices.dur[work].sum()))
