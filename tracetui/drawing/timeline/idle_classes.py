"""The classes of causes of idle time that have a colour of their own, on the screen and in reports."""

from __future__ import annotations

import numpy as np

from tracetui.idle.cause_words import Cause

_CLASSES: tuple[tuple[str, tuple[Cause, ...]], ...] = (
    ("idle: data loading", (Cause.DATA_LOADING,)),
    ("idle: start-up, memory", (Cause.START_UP, Cause.MEMORY, Cause.PROFILER, Cause.COMPILATION)),
    ("idle: CPU waited for GPU", (Cause.PAGEABLE, Cause.HOST_SYNC)),
    (
        "idle: Python, operators",
        (
            Cause.STALLED,
            Cause.LONG_GAP,
            Cause.OPTIMIZER,
            Cause.OPERATORS,
            Cause.CALLS,
            Cause.PYTHON,
            Cause.UNSEEN,
        ),
    ),
    ("idle: communication", (Cause.PEERS, Cause.COMMUNICATION)),
    ("idle: launch calls", (Cause.LAUNCH, Cause.SLOW_LAUNCH, Cause.FULL_QUEUE)),
    ("idle: launched, waiting", (Cause.LATENCY, Cause.GRAPH, Cause.STREAM, Cause.SCHEDULING)),
    ("idle: cause not recorded", (Cause.NOT_RECORDED, Cause.BEFORE_CAPTURE, Cause.UNKNOWN)),
)

IDLE_WORDS = tuple(words for words, _ in _CLASSES)
"""What the classes are called, in the order of `Palette.idle`."""

IDLE_CLASS = np.array([next(i for i, (_, causes) in enumerate(_CLASSES) if cause in causes) for cause in Cause])
"""The class of each `Cause`."""
