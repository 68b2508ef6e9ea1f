"""Which slices have a name of some sort: a name is looked at once, however many slices bear it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tracetui.model.intervals import Bool, Int64
from tracetui.model.trace import Trace


def is_named(trace: Trace, rows: Int64, wanted: Callable[[str], object]) -> Bool:
    """Mask of the slices whose names are `wanted`, which may be the `search` of a pattern."""
    name = trace.slices.name[rows]
    hits = np.zeros(len(trace.names) + 1, bool)
    # There are few names and they are numbered from 0: counting finds the used ones faster than sorting.
    used = np.flatnonzero(np.bincount(name, minlength=1))
    hits[[number for number in used.tolist() if wanted(trace.names[number])]] = True
    found: Bool = hits[name]
    return found
