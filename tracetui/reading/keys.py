"""What an event is by its phase, category, process and thread: worked out once per combination that occurs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracetui.model.strings import Strings
from tracetui.model.trace import Kind, LaneKind
from tracetui.reading import torch
from tracetui.reading.columns import Collector
from tracetui.reading.lanes import LaneTable, lane_text

MAX_CATEGORIES = 30_000
"""Categories that have a number of their own; numbers have 16 bits."""
OTHER_CATEGORIES = "(one of too many categories)"

TRACK_PHASE = "X track"
"""Stands for the phase of slices on tracks that are no threads."""

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
        """Whether the phase of every event is one of the letters."""
        wanted = np.array([text[0][:1] in letters for text in self.texts] or [False], bool)
        return wanted[key] if len(key) else np.empty(0, bool)

    def own_lane(self, key: NDArray[Any]) -> NDArray[np.int32]:
        """The lane of slices: process, thread and what the category belongs on."""

        def find(text: Key, kind: Kind) -> int:
            lane_kind = torch.lane_kind_of(kind)
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
