"""Track events that neither begin nor end a slice: moments, states, counters, arrows, and what only JSON has."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from tracetui.model.intervals import Int64
from tracetui.model.trace import NO_ID, EventStore
from tracetui.reading.columns import NO_GROUP
from tracetui.reading.gathered import Gathered, combined
from tracetui.reading.lanes import lane_text
from tracetui.reading.perfetto.labels import Labels, Use
from tracetui.reading.perfetto.legacy_events import ASYNC, COMPLETE, GLOBAL_SCOPE, NO_DURATION, PROCESS_SCOPE
from tracetui.reading.perfetto.packet_collector import PacketCollector
from tracetui.reading.perfetto.schemas import COUNTER, INSTANT, STATE

Columns = dict[str, Int64]
FLOW = "flow"
"""Category and name of the arrows that a file has itself."""
CORRELATION = "correlation"
"""Those of the arrows between events that have a correlation id in common."""
_LOCAL_ID = 2
"""The kind of id that counts within a process."""
_NAMED_PHASES, _MOMENTS = [ord(letter) for letter in "SF"], [ord(letter) for letter in "nTp"]
"""Phases of asynchronous events whose names must agree, and of those that mark a moment."""


class OtherEvents:
    """Gives these events to the collector of a file."""

    def __init__(self, packets: PacketCollector, labels: Labels, store: EventStore) -> None:
        self._packets, self._labels, self._store = packets, labels, store
        self._collector = packets.collector
        self.pairs = np.empty(0, np.int32), np.empty(0, np.int32)
        """Packets of states, and those of the states that end them."""
        self.sums = np.empty(0, np.int32)
        """Samples of counters whose values are added up."""

    def fill(self) -> None:
        """Give all of them; the columns of the packets are given up.

        Raises: TraceError when the file has changed since it was read.
        """
        columns = self._timed(self._packets.track_events.others, "i8")
        use = Use(columns["state"], columns["event"])
        columns["name"] = self._labels.names(columns["name"], columns["name_iid"], use)
        self._categories, columns["category"] = self._labels.categories(
            columns["category"], columns["category_iid"], use
        )
        kind = columns["type"]
        self._add_instants(_chosen(columns, kind == INSTANT))
        self._add_slices(_chosen(columns, kind == COMPLETE))
        self._add_slices(self._states(_chosen(columns, kind == STATE)))
        self._add_asyncs(_chosen(columns, kind == ASYNC))
        self._add_json_counters(_chosen(columns, kind == COUNTER))
        self._add_counters()
        self._add_arrows(FLOW, self._timed(self._packets.track_events.flows, "i8"))
        self._add_correlations()

    def _timed(self, gathered: Gathered, dtype: str, **other: str) -> dict[str, Any]:
        """All columns of some events that have a time, on the clock of the file."""
        columns = {name: gathered.take(name, other.get(name, dtype)) for name in gathered.names}
        columns["time"], has_time = self._packets.times.convert(columns["time"], columns["event"])
        self._collector.quality.dropped += int(np.count_nonzero(~has_time))
        return columns if has_time.all() else _chosen(columns, has_time)

    def _keys(self, phase: str, columns: Columns) -> Int64:
        return self._labels.keys(phase, self._categories, columns["category"], columns["track"])

    def _add_instants(self, columns: Columns) -> None:
        scope = np.zeros(len(columns["time"]), np.uint8)
        scope[columns["scope"] == GLOBAL_SCOPE], scope[columns["scope"] == PROCESS_SCOPE] = 2, 1
        if len(scope):
            self._collector.instants.add(
                time=columns["time"],
                name=columns["name"],
                key=self._keys("i", columns),
                scope=scope,
                event=columns["event"],
            )

    def _add_slices(self, columns: Columns) -> None:
        """Slices that say themselves how long they are."""
        if len(columns["time"]):
            no_id = np.full(len(columns["time"]), NO_ID, np.int64)
            self._collector.slices.add(
                start=columns["time"],
                dur=columns["duration"],
                name=columns["name"],
                key=self._keys("X", columns),
                correlation=no_id,
                external=no_id,
                event=columns["event"],
            )

    def _states(self, columns: Columns) -> Columns:
        """Each state as a slice up to the next one on its track; the last one has no end."""
        order = np.lexsort((columns["event"], columns["time"], columns["track"]))
        columns = {name: values[order] for name, values in columns.items()}
        columns["duration"] = np.full(len(order), NO_DURATION, np.int64)
        follows = np.flatnonzero(np.diff(columns["track"]) == 0)
        columns["duration"][follows] = np.diff(columns["time"])[follows]
        event = columns["event"].astype(np.int32)
        self.pairs = event[follows], event[follows + 1]
        return columns

    def _add_asyncs(self, columns: Columns) -> None:
        """Events of asynchronous slices, which belong together by their ids."""
        count = len(columns["time"])
        if not count:
            return
        phase, key = columns["phase"], np.empty(count, np.int64)
        for code in np.unique(phase).tolist():
            rows = phase == code
            key[rows] = self._keys(chr(code), _chosen(columns, rows))
        tracks, owner = np.unique(columns["track"], return_inverse=True)
        pids = [lane_text(self._packets.tracks.owner(track).pid) for track in tracks.tolist()]
        process = np.unique(pids, return_inverse=True)[1][owner]
        group = combined(
            columns["category"],
            columns["identity"],
            columns["id_kind"],
            np.where(columns["id_kind"] == _LOCAL_ID, process, -1),
            np.where(np.isin(phase, _NAMED_PHASES), columns["name"], -1),
        )
        group[np.isin(phase, _MOMENTS)] = NO_GROUP
        self._collector.asyncs.add(
            time=columns["time"], name=columns["name"], key=key, group=group, event=columns["event"]
        )

    def _add_json_counters(self, columns: Columns) -> None:
        """Series of counters whose values are the arguments of events."""
        texts = list(self._collector.names)
        details = (columns[name].tolist() for name in ("event", "time", "track", "name"))
        for event, time, track, name in zip(*details, strict=True):
            pid, args = self._packets.tracks.owner(track).pid, self._store.event(event).get("args", {})
            self._collector.counters.add({"pid": pid, "name": texts[name]}, args, time, event)

    def _add_counters(self) -> None:
        """Series of the counters that have a track."""
        columns = self._timed(self._packets.track_events.counters, "i8", value="f8")
        order = np.lexsort((columns["event"], columns["time"], columns["track"]))
        columns = {name: values[order] for name, values in columns.items()}
        bounds = [*np.flatnonzero(np.diff(columns["track"], prepend=-1)).tolist(), len(order)]
        sums = [self.sums]
        for first, last in pairwise(bounds):
            rows = slice(first, last)
            number = int(columns["track"][first])
            track, owner = self._packets.tracks.described(number), self._packets.tracks.owner(number)
            value = columns["value"][rows] * track.multiplier
            self._collector.counters.extend(
                lane_text(owner.pid),
                str(owner.tid),
                columns["time"][rows],
                np.cumsum(value) if track.is_incremental else value,
                columns["event"][rows],
                track.unit,
            )
            if track.is_incremental:
                sums.append(columns["event"][rows].astype(np.int32))
        self.sums = np.concatenate(sums)

    def _add_correlations(self) -> None:
        """Arrows along the events of each correlation id."""
        correlated = self._packets.track_events.correlated
        columns = correlated.identify(self._timed(correlated.events, "i8"), self._packets.interned)
        self._add_arrows(CORRELATION, columns | {"is_last": np.zeros(len(columns["id"]), np.int64)})

    def _add_arrows(self, name: str, columns: Columns) -> None:
        """Arrows: each id leads from its first event to its next ones, up to one that ends it."""
        order = np.lexsort((columns["event"], columns["time"], columns["id"]))
        columns = {name: values[order] for name, values in columns.items()}
        if not len(order):
            return
        is_last = columns["is_last"] != 0
        first = np.diff(columns["id"], prepend=~columns["id"][0]) != 0
        first[1:] |= is_last[:-1]
        ends = ~first & (is_last | np.append(first[1:], True))
        phase = np.where(first, 0, np.where(ends, 2, 1))
        # An event of its own leads nowhere.
        alone = first & np.append(first[1:], True)
        number_of_name = self._collector.names[name]
        for number, letter in enumerate("stf"):
            chosen = _chosen(columns, (phase == number) & ~alone)
            if len(chosen["time"]):
                self._collector.flows.add(
                    time=chosen["time"],
                    name=np.full(len(chosen["time"]), number_of_name),
                    key=self._labels.keys(letter, [name], np.zeros(len(chosen["time"]), np.int64), chosen["track"]),
                    id=chosen["id"] & np.int64((1 << 63) - 1),
                    event=chosen["event"],
                )


def _chosen(columns: dict[str, Any], rows: Any) -> dict[str, Any]:
    return {name: values[rows] for name, values in columns.items()}
