"""All slices of a file in one set of columns: complete ones, and those made of begins and ends (ph B/E, b/e, S/F).

An end closes the innermost open begin of its group whose name it carries, or simply the innermost where it
carries none (section 1.3). Groups in perfect order are paired on whole columns; the others are walked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracetui.frozen import frozen
from tracetui.model.intervals import Int64
from tracetui.model.table import Strings
from tracetui.model.trace import NO_ID, Kind, LaneKind, Quality
from tracetui.reading import torch
from tracetui.reading.columns import NO_DUR, NO_GROUP, Collector
from tracetui.reading.decode import NO_NAME
from tracetui.reading.lanes import LaneTable, lane_text

# What an event is by its phase, category, process and thread: worked out once per combination that occurs.

MAX_CATEGORIES = 30_000
"""Categories that have a number of their own; numbers have 16 bits."""
OTHER_CATEGORIES = "(one of too many categories)"

TRACK_PHASE = "X track"
"""Stands for the phase of slices on tracks that are no threads."""
RANGE_PHASE = "X range"
"""Stands for the phase of slices that belong to a process and overlap as they like: on one lane, in rows."""

Key = tuple[str, str, Any, Any]
"""Phase, category, pid, tid."""


class Keys:
    """The collector's keys with their kinds, categories and lanes; lanes are numbered as they turn up."""

    def __init__(self, collector: Collector) -> None:
        self.texts: list[Key] = [(phase, category or "", pid, tid) for phase, category, pid, tid in collector.keys]
        self.lanes = LaneTable()
        self.nesting: set[int] = set()
        """Lanes of tracks that are no threads and whose slices nest all the same."""
        self.categories = Strings()
        self._kinds = collector.key_kinds()
        ids = [self._category(category) for _, category, _, _ in self.texts]
        self._categories = np.array(ids, np.int16)

    def _category(self, text: str) -> int:
        """The number of a category, or of all that are too many to have one."""
        is_known = text in self.categories or len(self.categories) < MAX_CATEGORIES
        return self.categories.intern(text if is_known else OTHER_CATEGORIES)

    def kind_of(self, key: NDArray[Any]) -> NDArray[np.uint8]:
        """The `Kind` of every event, given its key."""
        return self._kinds[key] if len(key) else np.empty(0, np.uint8)

    def category_of(self, key: NDArray[Any]) -> NDArray[np.int16]:
        """The id in `categories` of every event, given its key."""
        return self._categories[key] if len(key) else np.empty(0, np.int16)

    def phase_is(self, key: NDArray[Any], letters: str) -> NDArray[np.bool_]:
        """Mask of the events whose phase is one of the letters."""
        wanted = np.array([text[0][:1] in letters for text in self.texts] or [False], bool)
        return wanted[key] if len(key) else np.empty(0, bool)

    def own_lane(self, key: NDArray[Any]) -> NDArray[np.int32]:
        """The lane of slices: process, thread and what the category belongs on."""

        def find(text: Key, kind: Kind) -> int:
            lane_kind = torch.LANE_KINDS.get(kind, LaneKind.CPU)
            if text[0] == RANGE_PHASE:
                return self.lanes.number((*_lane_ids(text, kind), LaneKind.ASYNC))
            if text[0] != TRACK_PHASE or lane_kind is not LaneKind.CPU:
                return self.lanes.number((*_lane_ids(text, kind), lane_kind))
            number = self.lanes.number((*_lane_ids(text, kind), LaneKind.ASYNC))
            self.nesting.add(number)
            return number

        return self._mapped(key, find)

    def async_lane(self, key: NDArray[Any]) -> NDArray[np.int32]:
        """The lane of asynchronous events: one for each process and category."""
        return self._mapped(key, lambda text, _: self.lanes.number((lane_text(text[2]), text[1], LaneKind.ASYNC)))

    def nearest_lane(self, key: NDArray[Any]) -> NDArray[np.int32]:
        """The lane of instants and flow ends, which have no kind: one that has slices where there is one."""

        def find(text: Key, _: Kind) -> int:
            if text[2] in torch.BOOKKEEPING_PROCESSES:
                return self.lanes.number((*_lane_ids(text), LaneKind.BOOKKEEPING))
            return self.lanes.nearest(*_lane_ids(text), LaneKind.GPU if text[0] == "f" else LaneKind.CPU)

        return self._mapped(key, find)

    def _mapped(self, key: NDArray[Any], find: Callable[[Key, Kind], int]) -> NDArray[np.int32]:
        table = np.full(len(self.texts) + 1, -1, np.int32)
        # There are few keys, numbered from 0: marking the used ones is faster than sorting.
        used = np.zeros(len(table), bool)
        used[key] = True
        for number in np.flatnonzero(used).tolist():
            table[number] = find(self.texts[number], Kind(int(self._kinds[number])))
        lanes: NDArray[np.int32] = table[key]
        return lanes


def _lane_ids(text: Key, kind: Kind = Kind.OTHER) -> tuple[str, str]:
    return torch.lane_ids(lane_text(text[2]), lane_text(text[3]), kind)


Columns = dict[str, NDArray[Any]]

SPAN_COLUMNS = ("start", "dur", "name", "key", "lane", "correlation", "external", "event")


class Spans:
    """Takes the slices out of a collector, whose columns are given up on the way."""

    def __init__(self, collector: Collector, keys: Keys, quality: Quality) -> None:
        self._collector = collector
        self._keys = keys
        self._quality = quality
        self.moments: Columns = {}
        """Asynchronous events that mark a moment, once `columns` was called."""
        self._begins: list[Int64] = []
        self._ends: list[Int64] = []

    def columns(self) -> Columns:
        """Every slice, unsorted, with absolute times in ns."""
        gathered = self._collector.slices
        columns: Columns = {
            name: gathered.take(name, dtype)
            for name, dtype in (("start", "i8"), ("dur", "i8"), ("name", "i4"), ("key", "i4"))
        }
        columns["lane"] = self._keys.own_lane(columns["key"])
        columns["correlation"] = gathered.take("correlation", "i8")
        columns["external"] = gathered.take("external", "i8")
        columns["event"] = gathered.take("event", "i4")
        unfinished = columns["dur"] == NO_DUR
        self._quality.unfinished += int(np.count_nonzero(unfinished))
        columns["dur"][unfinished] = 0
        for more in (self._synchronous(columns), self._asynchronous()):
            if len(more["start"]):
                for name in SPAN_COLUMNS:
                    columns[name] = np.concatenate([columns[name], more[name].astype(columns[name].dtype)])
        return columns

    def ends(self) -> tuple[Int64, Int64]:
        """Event numbers of begins, ascending, and of the ends that close them."""
        begins, ends = np.concatenate(self._begins), np.concatenate(self._ends)
        order = np.argsort(begins, kind="stable")
        return begins[order], ends[order]

    def _synchronous(self, complete: Columns) -> Columns:
        """Slices out of B and E events."""
        gathered = self._collector.pairs
        columns: Columns = {
            name: gathered.take(name, dtype)
            for name, dtype in (("key", "i4"), ("time", "i8"), ("name", "i4"), ("event", "i4"))
        }
        columns["lane"] = self._keys.own_lane(columns["key"])
        begins = self._keys.phase_is(columns["key"], "B")
        return self._joined(columns["lane"], begins, columns, complete)

    def _asynchronous(self) -> Columns:
        """Slices out of asynchronous events; the ones that only mark a moment become instants."""
        gathered = self._collector.asyncs
        columns: Columns = {
            name: gathered.take(name, dtype)
            for name, dtype in (("key", "i4"), ("time", "i8"), ("name", "i4"), ("event", "i4"), ("group", "i8"))
        }
        columns["lane"] = self._keys.async_lane(columns["key"])
        is_moment = columns["group"] == NO_GROUP
        self.moments = {name: values[is_moment] for name, values in columns.items()}
        columns = {name: values[~is_moment] for name, values in columns.items()}
        begins = self._keys.phase_is(columns["key"], "bS")
        return self._joined(columns["group"], begins, columns, None)

    def _joined(
        self, group: NDArray[Any], begins: NDArray[np.bool_], columns: Columns, complete: Columns | None
    ) -> Columns:
        """Begins and ends of equal group as slices; `complete` are slices whose lanes an open begin may fill."""
        time, event, lane = columns["time"], columns["event"].astype(np.int64), columns["lane"].astype(np.int64)
        unnamed = self._collector.names.get(NO_NAME, -1)
        pairs = pair(group.astype(np.int64), time, begins, columns["name"].astype(np.int64), unnamed)
        self._quality.unmatched_ends += len(pairs.stray)
        self._quality.unfinished += len(pairs.open)
        self._begins.append(event[pairs.begin])
        self._ends.append(event[pairs.end])
        begin = np.concatenate([pairs.begin, pairs.open])
        end = np.concatenate([time[pairs.end], _lane_ends(lane, time, complete)[pairs.open]])
        no_id = np.full(len(begin), NO_ID, np.int64)
        return {name: columns[name][begin] for name in ("name", "key", "lane", "event")} | {
            "start": time[begin],
            "dur": np.maximum(end - time[begin], 0),
            "correlation": no_id,
            "external": no_id,
        }


def _lane_ends(lane: Int64, time: Int64, complete: Columns | None) -> Int64:
    """For every event the end of its lane, at which an open begin is closed."""
    if len(lane) == 0:
        return np.empty(0, np.int64)
    size = int(lane.max()) + 1
    ends = np.full(size, np.iinfo(np.int64).min)
    np.maximum.at(ends, lane, time)
    if complete is not None:
        here = complete["lane"] < size
        np.maximum.at(ends, complete["lane"][here], (complete["start"] + complete["dur"])[here])
    return ends[lane]


@frozen(eq=True)
class PairedEvents:
    """Indices into the input: `begin[i]` is closed by `end[i]`."""

    begin: Int64
    end: Int64
    open: Int64
    """Begins that nothing closes."""
    stray: Int64
    """Ends that close nothing."""


def pair(group: Int64, time: Int64, is_begin: NDArray[np.bool_], name: Int64, unnamed: int) -> PairedEvents:
    """Pair begins and ends within each group, in order of time and then of position in the input.

    `name` holds ids; an end whose name is `unnamed` closes whatever is innermost.
    """
    order = np.lexsort((np.arange(len(time)), time, group))
    group, is_begin, name = group[order], is_begin[order], name[order]
    begin, end, orderly = _pair_orderly(group, is_begin, name, unnamed)
    opens: list[int] = []
    strays: list[int] = []
    extra: list[tuple[int, int]] = []
    for number in np.unique(group[~orderly]):
        first, last = np.searchsorted(group, [number, number + 1])
        _walk(
            int(first),
            is_begin[first:last].tolist(),
            name[first:last].tolist(),
            unnamed,
            extra,
            opens,
            strays,
        )
    keep = orderly[begin]
    more = np.array(extra, np.int64).reshape(-1, 2)
    return PairedEvents(
        order[np.concatenate([begin[keep], more[:, 0]])],
        order[np.concatenate([end[keep], more[:, 1]])],
        order[np.array(opens, np.int64)],
        order[np.array(strays, np.int64)],
    )


def _pair_orderly(
    group: Int64, is_begin: NDArray[np.bool_], name: Int64, unnamed: int
) -> tuple[Int64, Int64, NDArray[np.bool_]]:
    """Pair by depth as brackets are, and say for every row whether its group was in order."""
    if len(group) == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, bool)
    step = np.where(is_begin, 1, -1)
    level = np.cumsum(step)
    heads = np.flatnonzero(np.diff(group, prepend=group[0] - 1))
    sizes = np.diff(np.append(heads, len(group)))
    level -= np.repeat(level[heads] - step[heads], sizes)
    depth = np.where(is_begin, level, level + 1)
    wrong = (depth < 1) | (np.repeat(level[heads + sizes - 1], sizes) != 0)
    by_depth = np.lexsort((np.arange(len(group)), depth, group))
    begin, end = by_depth[0::2], by_depth[1::2]
    if len(begin) != len(end):
        begin = begin[: len(end)]
    mismatched = ~is_begin[begin] | is_begin[end] | (group[begin] != group[end])
    mismatched |= (name[end] != unnamed) & (name[end] != name[begin])
    wrong[begin[mismatched]] = True
    if len(group) % 2:
        # One row too many shifts every pair behind it: only a walk is safe.
        wrong[:] = True
    bad_groups = np.unique(group[wrong])
    return begin, end, ~np.isin(group, bad_groups)


def _walk(
    first: int,
    is_begin: list[bool],
    names: list[int],
    unnamed: int,
    pairs: list[tuple[int, int]],
    opens: list[int],
    strays: list[int],
) -> None:
    """Pair the rows of one group by a literal stack."""
    stack: list[int] = []
    for row, begins in enumerate(is_begin):
        if begins:
            stack.append(row)
            continue
        level = len(stack) - 1
        if names[row] != unnamed:
            while level >= 0 and names[stack[level]] != names[row]:
                level -= 1
        if level < 0:
            strays.append(first + row)
        else:
            pairs.append((first + stack.pop(level), first + row))
    opens.extend(first + row for row in stack)
