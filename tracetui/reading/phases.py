"""What events of each phase are to a trace: slices, ends of flows, instants and so on."""

from __future__ import annotations

import numpy as np

SLICE, FLOW, INSTANT, PAIR, ASYNC, COUNTER, META, IGNORED, UNKNOWN = range(9)
"""Classes of phases; `scanner.c` knows the numbers of slices and of instants."""
_CLASS_OF_PHASE = (
    {"X": SLICE, "C": COUNTER, "M": META}
    | dict.fromkeys("stf", FLOW)
    | dict.fromkeys("iIRNOD", INSTANT)
    | dict.fromkeys("BE", PAIR)
    | dict.fromkeys("bneSTpF", ASYNC)
    | dict.fromkeys("PVvc()", IGNORED)
)
_INSTANT_CATEGORY = "cpu_instant_event"
"""Category of instants, also where torch 2.14 writes them as slices until the end of the recording (R2.16)."""
CLASS_OF_LETTER = np.array([_CLASS_OF_PHASE.get(chr(letter), UNKNOWN) for letter in range(256)], np.uint8)
"""The class of every phase by the first byte of its text."""


def class_of(phase: str, category: str | None) -> int:
    """The class of an event's phase; the category tells instants that are written as slices."""
    number = _CLASS_OF_PHASE.get(phase[:1], UNKNOWN)
    return INSTANT if number == SLICE and category == _INSTANT_CATEGORY else number
