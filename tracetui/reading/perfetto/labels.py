"""Names and categories of events: those that stand in them, and those that were interned."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tracetui.model.intervals import Int64
from tracetui.reading.decode import NO_NAME
from tracetui.reading.keys import TRACK_PHASE
from tracetui.reading.perfetto.packet_collector import PacketCollector
from tracetui.reading.perfetto.schemas import InternedField


class Use(NamedTuple):
    """Where numbers of interned texts are used: the states and the numbers of the packets."""

    state: Int64
    event: Int64


class Labels:
    """Finds names, categories and keys for the events of a file."""

    def __init__(self, packets: PacketCollector) -> None:
        self._packets = packets
        self._collector = packets.collector

    def names(self, given: Int64, iid: Int64, use: Use) -> Int64:
        """Numbers of names: those given in events, else those interned; events whose name is lost are counted."""
        names, interned = self._collector.names, self._packets.interned
        known = [names[text] for text in interned.values(InternedField.EVENT_NAMES)]
        found = interned.find(InternedField.EVENT_NAMES, use.state, use.event, iid)
        self._collector.quality.lost_names += int(np.count_nonzero((given < 0) & (iid != 0) & (found < 0)))
        return np.where(given >= 0, given, np.array([*known, names[NO_NAME]], np.int64)[found])

    def categories(self, given: Int64, iid: Int64, use: Use) -> tuple[list[str], Int64]:
        """The texts of all categories, and the number of that of each event among them."""
        own = list(self._packets.track_events.categories)
        other = self._packets.interned.values(InternedField.CATEGORIES)
        found = self._packets.interned.find(InternedField.CATEGORIES, use.state, use.event, iid)
        texts = [*own, *other, ""]
        return texts, np.where(given >= 0, given, np.where(found >= 0, found + len(own), len(texts) - 1))

    def key(self, phase: str, category: str, track: int) -> int:
        """The collector's key of events of a phase and a category on a track."""
        owner = self._packets.tracks.owner(track)
        if phase == "X" and not owner.is_thread:
            phase = TRACK_PHASE
        return self._collector.keys[phase, category, owner.pid, owner.tid]

    def keys(self, phase: str, categories: list[str], category: Int64, track: Int64) -> Int64:
        """The same of many events of one phase."""
        pairs, inverse = np.unique(category << 32 | track, return_inverse=True)
        keys = [self.key(phase, categories[pair >> 32], pair & 0xFFFFFFFF) for pair in pairs.tolist()]
        return np.array(keys, np.int64)[inverse] if keys else np.empty(0, np.int64)
