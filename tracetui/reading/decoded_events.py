"""The events of a block as objects, whose columns are pulled out by C-level maps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracetui.model.intervals import Bool, Int64
from tracetui.reading.decode import (
    NO_TEXT,
    NO_TIME,
    SCOPES,
    Args,
    Event,
    EventReader,
    Ids,
    SliceNumbers,
    exact_times,
    field_json,
    is_empty,
    settled,
    whole_times,
)

_ts, _dur, _name, _args = attrgetter("ts"), attrgetter("dur"), attrgetter("name"), attrgetter("args")
_key = attrgetter("ph", "cat", "pid", "tid")
_external, _correlation = attrgetter("external"), attrgetter("correlation")
_grid, _id = attrgetter("grid"), attrgetter("id")

_NUMBERS = {
    "Sequence number": attrgetter("sequence"),
    "Fwd thread id": attrgetter("forward_thread"),
    "registers per thread": attrgetter("registers"),
    "shared memory": attrgetter("shared"),
    "est. achieved occupancy %": attrgetter("occupancy"),
    "bytes": attrgetter("bytes"),
    "Addr": attrgetter("address"),
    "Bytes": attrgetter("allocated"),
    "Total Allocated": attrgetter("total_allocated"),
    "Total Reserved": attrgetter("total_reserved"),
    "Device Type": attrgetter("device_type"),
    "Device Id": attrgetter("device"),
}
"""Names of numbers in the file, and attributes of `Args`."""
_TEXTS = {
    "Input Dims": attrgetter("dims"),
    "Input dims": attrgetter("old_dims"),
    "Input type": attrgetter("types"),
    "grid": _grid,
    "block": attrgetter("block"),
}
"""The same of texts."""


class DecodedArguments:
    """The arguments of some events.

    Its methods raise TypeError, ValueError, AttributeError or OverflowError for one of an odd type.
    """

    def __init__(self, args: list[Args]) -> None:
        self._args = args

    def numbers(self, name: str) -> Int64:
        """A number by its name in the file; NULL for none."""
        return np.fromiter(map(_NUMBERS[name], self._args), np.int64, len(self._args))

    def texts(self, names: Sequence[str], ids: dict[bytes, int]) -> NDArray[np.int32]:
        """The number of an argument's JSON; it stands under the first of the names that an event has."""
        raw = list(map(_TEXTS[names[0]], self._args))
        for name in names[1:]:
            if NO_TEXT in raw:
                others = map(_TEXTS[name], self._args)
                raw = [other if text == NO_TEXT else text for text, other in zip(raw, others, strict=True)]
        return np.fromiter(map(ids.__getitem__, map(bytes, raw)), np.int32, len(raw))

    def have_grid(self) -> Bool:
        """Mask of the events that say on which grid they launch."""
        return np.fromiter((bool(bytes(raw)) for raw in map(_grid, self._args)), bool, len(self._args))


class DecodedEvents:
    """The events of a block as objects.

    Its methods raise TypeError, ValueError, AttributeError or OverflowError for a field of an odd type; after
    `settled` none does.
    """

    def __init__(self, events: list[Event], data: bytes, is_tolerant: bool) -> None:
        self.objects = events
        self._data = data
        self._is_tolerant = is_tolerant

    def __len__(self) -> int:
        return len(self.objects)

    def settled(self) -> DecodedEvents:
        """The same events with every field of the type that columns need."""
        return DecodedEvents(list(map(settled, self.objects)), self._data, self._is_tolerant)

    def times(self) -> Int64:
        """Timestamps in whole ns, `NO_TIME` where an event has none."""
        return whole_times(np.fromiter(map(_ts, self.objects), "f8", len(self)), self._exact_times)

    def _exact_times(self) -> Int64:
        exact = exact_times(self._data, self._is_tolerant)
        return np.array([NO_TIME if time is None else time for time in exact], np.int64)

    def names(self, ids: Ids) -> NDArray[np.int32]:
        """The number of each name, None among them."""
        return np.fromiter(map(ids.__getitem__, map(_name, self.objects)), np.int32, len(self))

    def keys(self, ids: Ids) -> NDArray[np.int32]:
        """The number of each event's phase, category, process and thread."""
        return np.fromiter(map(ids.__getitem__, map(_key, self.objects)), np.int32, len(self))

    def slice_numbers(self, rows: Int64) -> SliceNumbers:
        """Duration and ids of some events."""
        count, chosen = len(rows), self._chosen(rows)
        args = list(map(_args, chosen))
        return SliceNumbers(
            np.fromiter(map(_dur, chosen), "f8", count),
            np.fromiter(map(_correlation, args), "i8", count),
            np.fromiter(map(_external, args), "i8", count),
        )

    def arguments(self, rows: Int64) -> DecodedArguments:
        """The arguments of some events."""
        return DecodedArguments([self.objects[row].args for row in rows.tolist()])

    def flow_ids(self, rows: Int64, number_of: Callable[[Any], int]) -> Int64:
        """The ids of some flow ends; `number_of` makes numbers of what are none."""
        return numbers_of([_id(event) for event in self._chosen(rows)], number_of)

    def have_id(self, rows: Int64) -> Bool:
        """Mask of the events that have an id."""
        return np.fromiter((event.id is not None for event in self._chosen(rows)), bool, len(rows))

    def args_json(self, rows: Int64) -> list[bytes] | None:
        """The args of some events as they stand in the file, None where they cannot be told apart."""
        args = field_json(self._data, "args")
        return None if args is None else [args[row] for row in rows.tolist()]

    def scopes(self, rows: Int64) -> NDArray[np.uint8]:
        """The reach of each of some instants: a number of `SCOPES`, or 0."""
        return np.fromiter((SCOPES.get(event.s or "", 0) for event in self._chosen(rows)), np.uint8, len(rows))

    def in_full(self, rows: list[int]) -> list[dict[str, Any]]:
        """Some events with all that they have."""
        reader = EventReader(self._data, self._is_tolerant)
        return [reader.event(row) for row in rows]

    def count_empty(self, rows: list[int]) -> int:
        """Number of elements that are no event, such as `{}`."""
        return sum(is_empty(self.objects[row]) for row in rows)

    def _chosen(self, rows: Int64) -> list[Event]:
        events = self.objects
        return events if len(rows) == len(events) else [events[row] for row in rows.tolist()]


def numbers_of(ids: list[Any], number_of: Callable[[Any], int]) -> Int64:
    """Ids as numbers: as they are where all are, else what `number_of` makes of each."""
    try:
        return np.fromiter(ids, np.int64, len(ids))
    except (TypeError, ValueError, OverflowError):
        return np.fromiter(map(number_of, ids), np.int64, len(ids))
