"""Packets whose content is not shown here, counted by kind."""

from __future__ import annotations

import numpy as np

from tracetui.model.intervals import Bool, Int64
from tracetui.reading.perfetto.packet_kinds import ENVELOPE_FIELDS, PACKET_KINDS, kind_name
from tracetui.reading.perfetto.wire import MAX_FIELD, DamagedMessage, MessageBytes, Schema, fields_of, read_fields

SHOWN_FIELDS = frozenset({6, 11, 43, 44, 50, 52, 53, 60, 133})
"""Kinds of packets that are read: clocks, tracks and their events, what ran on GPUs, counters, packed packets."""
MAX_KINDS = 1000
"""Maximum kinds that are counted by name."""
OTHER_KINDS = "other kinds"
_KINDS = tuple(number for number in PACKET_KINDS if number not in SHOWN_FIELDS and number <= MAX_FIELD)
_SCHEMA = Schema(numbers=_KINDS, spans=_KINDS)


class NotShown:
    """Counts of packets that hold something else than what is read."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        """Packets by the name of their kind."""

    def add(self, data: MessageBytes, start: Int64, end: Int64) -> Bool:
        """Count packets in which nothing was found that is read; returns which of them are of some kind."""
        fields = read_fields(data, start, end, _SCHEMA)
        left = np.ones(len(start), bool)
        for number in _KINDS:
            has = fields.has(number) & left
            if has.any():
                self._count(PACKET_KINDS[number], int(has.sum()))
                left &= ~has
        unknown = np.zeros(len(start), bool)
        for row in np.flatnonzero(left & ~fields.damaged).tolist():
            unknown[row] = self._count_unknown(data, int(start[row]), int(end[row]))
        of_kind: Bool = ~left | unknown
        return of_kind

    def _count_unknown(self, data: MessageBytes, start: int, end: int) -> bool:
        """Count a packet of a kind that has no name here; False for one without content."""
        try:
            for field in fields_of(data.raw, start, end):
                if field.number not in ENVELOPE_FIELDS and field.number not in SHOWN_FIELDS:
                    self._count(kind_name(field.number), 1)
                    return True
        except DamagedMessage:
            pass
        return False

    def _count(self, kind: str, count: int) -> None:
        name = kind if kind in self.counts or len(self.counts) < MAX_KINDS else OTHER_KINDS
        self.counts[name] = self.counts.get(name, 0) + count
