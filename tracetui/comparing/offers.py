"""What of a trace can be compared: its steps, else annotations and functions that run several times."""

from __future__ import annotations

import numpy as np

from tracetui.linking.complete_steps import averaged_steps
from tracetui.linking.frames import function_of, is_own
from tracetui.linking.steps import steps
from tracetui.model.intervals import Int64
from tracetui.model.trace import Kind, Trace

MAX_OFFERED_NAMES = 6
"""Maximum names offered."""
_HIDDEN = ("<", "_")
"""Prefixes of functions that nobody compares: `<module>`, `<built-in ...>`, `__call__`, and private functions."""


def step_scopes(trace: Trace) -> list[str]:
    """The scopes of the complete steps, idle ones of a server left out, in order."""
    return [f"#{number}" for number in steps(trace).number[averaged_steps(trace)].tolist()]


def repeated_scopes(trace: Trace) -> list[tuple[str, int]]:
    """Names of annotations and Python functions with several runs, the longest in sum first, and their numbers of runs.

    Names whose runs lie within another of them are left out.
    """
    slices = trace.slices
    rows = slices.of_kind(Kind.ANNOTATION, Kind.PYTHON)
    rows = rows[~np.isin(rows, steps(trace).row)]
    used, index = np.unique(slices.name[rows], return_inverse=True)
    spelled = [trace.names[name] for name in used.tolist()]
    names = [function_of(name) if is_own(name) else "" for name in spelled]
    known = {name: number for number, name in enumerate(dict.fromkeys(names))}
    number = np.array([known[name] for name in names], np.int64)[index] if len(used) else index
    runs = np.bincount(number, minlength=len(known))
    wanted = np.array([bool(name) and not name.startswith(_HIDDEN) for name in known], bool)
    repeated = ((runs > 1) & wanted)[number] if len(known) else np.zeros(0, bool)
    outer = repeated & ~_within(trace, rows[repeated], rows)
    time = np.bincount(number[outer], slices.dur[rows[outer]], len(known))
    often = np.bincount(number[outer], minlength=len(known))
    order = [each for each in np.argsort(-time, kind="stable").tolist() if often[each] > 1]
    every = list(known)
    return [(every[each], int(often[each])) for each in order[:MAX_OFFERED_NAMES]]


def _within(trace: Trace, holders: Int64, rows: Int64) -> np.ndarray:
    """Mask of the rows that have one of the holders around them on their thread."""
    parent = trace.slices.parent
    held = np.zeros(len(parent) + 1, bool)
    is_holder = np.zeros(len(parent) + 1, bool)
    is_holder[holders] = True
    above = parent[rows].astype(np.int64)
    while (above >= 0).any():
        held[rows] |= is_holder[above] & (above >= 0)
        above = np.where(above >= 0, parent[above], -1)
    return held[rows]
