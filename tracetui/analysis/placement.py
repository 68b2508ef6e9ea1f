"""Which step every slice belongs to: CPU slices by time, GPU work by its launch, never by its own time (R3.3)."""

from __future__ import annotations

import numpy as np

from tracetui.analysis.links import links
from tracetui.analysis.steps import steps
from tracetui.errors import UsageError
from tracetui.model.intervals import Int64
from tracetui.model.table import NULL, Column, numbers
from tracetui.model.trace import GPU_WORK, Trace


def step_index(trace: Trace, rows: Int64) -> Int64:
    """Index in `steps(trace)` of each CPU slice or GPU activity, -1 outside of all steps or without a launch."""
    launch = links(trace).launch[rows].astype(np.int64)
    source = np.where(launch >= 0, launch, rows)
    lane = trace.slices.lane[source]
    index = steps(trace).of_moment(trace.slices.start[source], lane)
    unlaunched = np.isin(trace.slices.kind[rows], GPU_WORK) & (launch < 0)
    return np.where(unlaunched, -1, index)


def within(trace: Trace, rows: Int64, step: int | None) -> Int64:
    """Those of the rows that belong to the step of that number; all of them for None.

    Raises: UsageError when no step has the number.
    """
    if step is None:
        return rows
    wanted = chosen(trace, step)
    return rows[np.isin(step_index(trace, rows), wanted)]


def chosen(trace: Trace, step: int | None) -> Int64:
    """Indices of the steps with that number, of all steps for None.

    Raises: UsageError when no step has the number.
    """
    every = steps(trace)
    if step is None:
        return np.arange(len(every))
    found = every.labelled(step)
    if len(found):
        return found
    if len(every) == 0:
        raise UsageError("This trace has no steps: call prof.step() in the loop to record them.")
    known = ", ".join(map(str, np.unique(every.number)[:8])) + (" ..." if len(every) > 8 else "")
    raise UsageError(f"There is no step {step}; the steps of this trace are numbered {known}.")


def step_column(trace: Trace, rows: Int64, help: str) -> Column:
    """The number of the step of each row, null outside of all steps."""
    index = step_index(trace, rows)
    labels = np.append(steps(trace).number, NULL)
    return numbers("step", labels[index], "", help)
