"""Steps that annotations name: those of the profiler, and those of inference servers (R3.1, R3.75)."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from tracetui.linking.step_names import StepName, step_name
from tracetui.model.intervals import Int64
from tracetui.model.trace import Kind, Trace

STEP_NAME = re.compile(r"ProfilerStep#(\d+)")
_MAX_DIGITS = 18
"""Maximum digits of a number that fits 64 bits."""


@dataclass(frozen=True, eq=False)
class ProfilerSteps:
    """Parallel arrays, one entry per step of the profiler, in order of start."""

    row: Int64
    number: Int64
    """The N of `ProfilerStep#N`."""


@dataclass(frozen=True, eq=False)
class NamedSteps:
    """Annotations of servers' steps, in order of start."""

    row: Int64
    said: dict[int, StepName]
    """What each name id among them says."""


def profiler_steps(trace: Trace) -> ProfilerSteps:
    """The steps that the profiler recorded."""

    def find() -> ProfilerSteps:
        numbers = {}
        for name_id, name in enumerate(trace.names):
            match = STEP_NAME.fullmatch(name)
            if match and len(match[1]) <= _MAX_DIGITS:
                numbers[name_id] = int(match[1])
        rows = _rows_named(trace, list(numbers))
        number = np.array([numbers[name_id] for name_id in trace.slices.name[rows].tolist()], np.int64)
        return ProfilerSteps(rows, number)

    return trace.remember("profiler steps", find)


def named_steps(trace: Trace) -> NamedSteps:
    """The annotations of servers' steps; copies of annotations on GPU lanes are none (R3.75)."""

    def find() -> NamedSteps:
        said = {name_id: each for name_id, name in enumerate(trace.names) if (each := step_name(name))}
        return NamedSteps(_rows_named(trace, list(said)), said)

    return trace.remember("named steps", find)


def step_annotations(trace: Trace) -> Int64:
    """Rows of the annotations that mark steps: no operator, and not the annotation that a launch is shown with."""
    if trace.chosen_steps is not None:
        return trace.chosen_steps.rows
    recorded = profiler_steps(trace).row
    return recorded if len(recorded) else named_steps(trace).row


def _rows_named(trace: Trace, names: list[int]) -> Int64:
    slices = trace.slices
    rows = slices.of_kind(Kind.ANNOTATION, Kind.CPU_OP) if names else np.empty(0, np.int64)
    rows = rows[np.isin(slices.name[rows], names)]
    return rows[np.argsort(slices.start[rows], kind="stable")]
