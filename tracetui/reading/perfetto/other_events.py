"""Track events that neither begin nor end a slice: moments, states, counters, arrows, and what only JSON has."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from tracetui.model.intervals import Bool, Int64
from tracetui.model.trace import NO_ID, EventStore
from tracetui.reading.columns import NO_GROUP, Gathered, combined
from tracetui.reading.decode import NO_NAME
from tracetui.reading.lanes import lane_text
from tracetui.reading.perfetto.packet_collector import PacketCollector
from tracetui.reading.perfetto.schemas import COUNTER, INSTANT, STATE, InternedField
from tracetui.reading.perfetto.tracks import ASYNC, COMPLETE, GLOBAL_SCOPE, NO_DURATION, PROCESS_SCOPE
from tracetui.reading.spans import TRACK_PHASE, PairedEvents, pair

# Names and categories of events: those that stand in them, and those that were interned.


class Use(NamedTuple):
    """Uses of numbers of interned texts: the states and the numbers of the packets."""

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
        name_row = interned.find(InternedField.EVENT_NAMES, use.state, use.event, iid)
        self._collector.quality.lost_names += int(np.count_nonzero((given < 0) & (iid != 0) & (name_row < 0)))
        return np.where(given >= 0, given, np.array([*known, names[NO_NAME]], np.int64)[name_row])

    def categories(self, given: Int64, iid: Int64, use: Use) -> tuple[list[str], Int64]:
        """The texts of all categories, and the number of that of each event among them."""
        own = list(self._packets.track_events.categories)
        other = self._packets.interned.values(InternedField.CATEGORIES)
        category_row = self._packets.interned.find(InternedField.CATEGORIES, use.state, use.event, iid)
        texts = [*own, *other, ""]
        return texts, np.where(given >= 0, given, np.where(category_row >= 0, category_row + len(own), len(texts) - 1))

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


# Pairs the begins and ends of track events.
#
# torch writes all begins of a group and then all their ends in the same order: the k-th end closes the k-th begin.
# Others write ends in order of time, each of which closes the innermost open slice of its track. A stack would pair
# torch's slices wrongly where times are equal or slices overlap; pairs by position would be wrong for the others.

_NO_NAME = 0
MAX_GROUPS = 16
"""Maximum runs of begins and ends in a sequence for which one that goes back in time tells how all are written.

torch writes some six groups; who writes as time goes makes a new run every few events.
"""


def pair_events(sequence: Int64, track: Int64, time: Int64, is_begin: Bool, needs_state: Bool) -> PairedEvents:
    """Pair events in the order of the file; `needs_state` are those whose flags say that they rest on interned data.

    In sequences that are written in groups the runs of begins and ends that fit each other are paired by position;
    everything else by a stack for each track, in order of time, then of the file.
    """
    order = np.argsort(sequence, kind="stable")
    as_torch = is_begin == needs_state
    begin, end = _by_position(sequence[order], track[order], time[order], is_begin[order], as_torch[order])
    begin, end = order[begin], order[end]
    rest = np.ones(len(time), bool)
    rest[begin] = rest[end] = False
    left = np.flatnonzero(rest)
    names = np.full(len(left), _NO_NAME, np.int64)
    others = pair(track[left], time[left], is_begin[left], names, _NO_NAME)
    return PairedEvents(
        np.concatenate([begin, left[others.begin]]),
        np.concatenate([end, left[others.end]]),
        left[others.open],
        left[others.stray],
    )


def _by_position(sequence: Int64, track: Int64, time: Int64, is_begin: Bool, as_torch: Bool) -> tuple[Int64, Int64]:
    """Pairs of the sequences that are written in groups; events of a sequence stand together."""
    nothing = np.empty(0, np.int64)
    if len(time) == 0:
        return nothing, nothing
    changes = (np.diff(sequence) != 0) | (is_begin[1:] != is_begin[:-1])
    head = np.flatnonzero(np.concatenate([[True], changes]))
    size = np.diff(np.append(head, len(time)))
    # A run of begins with the run of ends behind it.
    runs = np.flatnonzero(is_begin[head[:-1]] & ~is_begin[head[1:]] & (sequence[head[:-1]] == sequence[head[1:]]))
    is_last = np.append(sequence[head[1:]] != sequence[head[:-1]], True)[runs + 1] if len(runs) else np.empty(0, bool)
    # A torn file ends among the ends of its last group.
    fits = (size[runs] == size[runs + 1]) | (is_last & (size[runs] > size[runs + 1]))
    runs = runs[fits]
    count = size[runs + 1]
    member = np.repeat(np.arange(len(runs)), count)
    offset = np.arange(len(member)) - np.repeat(np.cumsum(count) - count, count)
    begin, end = head[runs][member] + offset, head[runs + 1][member] + offset
    wrong = (track[begin] != track[end]) | (time[end] < time[begin])
    bad = np.bincount(member[wrong], minlength=len(runs)) > 0
    good = np.flatnonzero(~bad)
    goes_back = _go_back(member, begin, end, track, time, len(runs))
    good_runs = Runs(head[runs[good]], size[runs[good]] + size[runs[good] + 1], count[good], goes_back[good])
    grouped = _are_grouped(sequence, track, time, as_torch, good_runs)
    kept = ~bad[member] & grouped[begin]
    return begin[kept], end[kept]


class Runs(NamedTuple):
    """Runs of begins that fit the runs of ends behind them."""

    head: Int64
    """The first event of each."""
    size: Int64
    """Events of each; the begins of a torn group count among them."""
    pairs: Int64
    goes_back: Bool
    """Mask of the runs in which events of a track are out of order of time."""


def _go_back(member: Int64, begin: Int64, end: Int64, track: Int64, time: Int64, count: int) -> Bool:
    """Mask of the runs with events of one track that are out of order of time; `member` is the run of each pair."""
    run, event = np.concatenate([member, member]), np.concatenate([begin, end])
    order = np.lexsort((event, track[event], run))
    run, event = run[order], event[order]
    same = (np.diff(run) == 0) & (np.diff(track[event]) == 0)
    back = np.flatnonzero(same & (np.diff(time[event]) < 0))
    return np.bincount(run[back], minlength=count) > 0


def _are_grouped(sequence: Int64, track: Int64, time: Int64, as_torch: Bool, runs: Runs) -> Bool:
    """Mask of the events whose sequence is written in groups, and most of it in runs that fit.

    Groups are out of order of time on a track, which others are now and then at most, or have flags as torch sets
    them: on begins, and never on ends.
    """
    first = np.flatnonzero(np.diff(sequence, prepend=~sequence[0]))
    count = np.diff(np.append(first, len(time)))
    member = np.repeat(np.arange(len(first)), count)
    order = np.lexsort((np.arange(len(time)), track, sequence))
    same = (np.diff(sequence[order]) == 0) & (np.diff(track[order]) == 0)
    back = order[np.flatnonzero(same & (np.diff(time[order]) < 0))]
    is_unordered = np.bincount(member[back], minlength=len(first)) > 0
    has_flags = np.bincount(member[as_torch], minlength=len(first)) == count
    owner, several = member[runs.head], runs.pairs > 1
    of_all = np.bincount(owner, several * runs.pairs, len(first))
    of_those = np.bincount(owner, (several & runs.goes_back) * runs.pairs, len(first))
    is_few = np.bincount(owner, minlength=len(first)) <= MAX_GROUPS
    is_unordered &= is_few | (2 * of_those >= of_all)
    fitting = np.bincount(owner, runs.size, len(first))
    grouped: Bool = ((is_unordered | has_flags) & (2 * fitting >= count))[member]
    return grouped
