"""What holds for the packets of a sequence that do not say it themselves: their clock and their track."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tracetui.model.intervals import Int64
from tracetui.reading.perfetto.sequences import latest
from tracetui.reading.perfetto.wire import SPAN, MessageBytes, fields_of

NO_DEFAULT = -1
"""Stands where a sequence says nothing."""


class Default(NamedTuple):
    """What a packet says for those behind it."""

    clock: int = 0
    track: int = NO_DEFAULT
    """The uuid of a track, with a sign."""


def read_default(data: MessageBytes, start: int, end: int) -> Default:
    """The defaults in a packet.

    Raises: DamagedMessage.
    """
    clock, track = 0, NO_DEFAULT
    for number, wire, value, behind in fields_of(data.raw, start, end):
        if number == 58 and wire != SPAN:
            clock = value & 0xFFFFFFFF
        elif number == 11 and wire == SPAN:
            for field in fields_of(data.raw, value, behind):
                if field.number == 11 and field.wire != SPAN:
                    track = field.value - (1 << 64) if field.value >> 63 else field.value
    return Default(clock, track)


class SequenceDefaults:
    """The defaults of the states of sequences, block by block."""

    def __init__(self) -> None:
        self._known: dict[int, Default] = {}

    def of(self, state: Int64, found: dict[int, Default]) -> tuple[Int64, Int64]:
        """Clock and track of the packets of the next block, given their states and the rows that say something.

        The clock is 0 and the track `NO_DEFAULT` where nothing is said.
        """
        clock, track = np.zeros(len(state), np.int64), np.full(len(state), NO_DEFAULT, np.int64)
        if not found and not self._known:
            return clock, track
        carried = [(int(each), self._known[int(each)]) for each in np.unique(state) if int(each) in self._known]
        keys = np.array([each for each, _ in carried] + [int(state[row]) for row in found], np.int64)
        positions = np.array([0] * len(carried) + [row + 1 for row in found], np.int64)
        defaults = [default for _, default in carried] + list(found.values())
        row = latest(keys, positions, state, np.arange(len(state)) + 1)
        has = row >= 0
        clock[has] = np.array([default.clock for default in defaults], np.int64)[row[has]]
        track[has] = np.array([default.track for default in defaults], np.int64)[row[has]]
        for index, default in found.items():
            self._known[int(state[index])] = default
        return clock, track
