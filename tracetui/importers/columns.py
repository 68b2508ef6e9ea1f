"""Collects the columns of a trace while its blocks go by; an event's object dies with its block.

Every field is pulled out of a block's events by C-level maps into numpy. What an event is (phase, category,
process, thread) is one interned key, so that lanes and kinds are worked out once per key and not per event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracetui.importers import torch
from tracetui.importers.arguments import ArgumentTables, Part
from tracetui.importers.blocks import Block
from tracetui.importers.decode import Event, decode_some, exact_times, located, settle
from tracetui.model.intervals import Int64
from tracetui.model.trace import ENDLESS, EXAMPLES, NEGATIVE, UNTIMED, Quality

SLICE, FLOW, INSTANT, PAIR, ASYNC, COUNTER, META, IGNORED, UNKNOWN = range(9)
_CLASS_OF_PHASE = (
    {"X": SLICE, "C": COUNTER, "M": META}
    | dict.fromkeys("stf", FLOW)
    | dict.fromkeys("iIRPNOD", INSTANT)
    | dict.fromkeys("BE", PAIR)
    | dict.fromkeys("bneSTpF", ASYNC)
    | dict.fromkeys("Vvc()", IGNORED)
)
_SCOPES = {"g": 2, "p": 1}

_RELATIVE_LIMIT_US = 9e12
"""Below this a float64 of microseconds still tells nanoseconds apart (R0.2)."""
MEMORY_INSTANTS = ("[memory]", "[OutOfMemory]")
"""Names under which the allocator's events stand."""
NO_DUR = -1
"""Stands for a duration that is not in the file."""

_ts, _dur, _name, _args = attrgetter("ts"), attrgetter("dur"), attrgetter("name"), attrgetter("args")
_key = attrgetter("ph", "cat", "pid", "tid")
_external, _correlation = attrgetter("external"), attrgetter("correlation")
_id, _scope = attrgetter("id"), attrgetter("s")


class _Ids(dict[Any, int]):
    """Numbers values in the order in which they turn up."""

    def __missing__(self, value: Any) -> int:
        number = self[value] = len(self)
        return number


class Gathered:
    """Parallel columns that grow by chunks."""

    def __init__(self, *names: str) -> None:
        self._chunks: dict[str, list[NDArray[Any]]] = {name: [] for name in names}

    def add(self, **columns: NDArray[Any]) -> None:
        """Append one chunk to every column."""
        for name, values in columns.items():
            self._chunks[name].append(values)

    def take(self, name: str, dtype: str) -> NDArray[Any]:
        """The whole column; its chunks are given up to save memory."""
        chunks = self._chunks.pop(name)
        return np.concatenate(chunks).astype(dtype, copy=False) if chunks else np.empty(0, dtype)


class Collector:
    """Everything that is kept of the events of a file."""

    def __init__(self, quality: Quality) -> None:
        self.events = 0
        self.quality = quality
        self.keys = _Ids()
        """Phase, category, pid and tid as they stand in the file; the category may be None."""
        self.names = _Ids()
        self.flow_ids = _Ids()
        self.slices = Gathered("start", "dur", "name", "key", "correlation", "external", "event")
        self.flows = Gathered("time", "name", "key", "id", "event")
        self.instants = Gathered("time", "name", "key", "scope", "event")
        self.pairs = Gathered("time", "name", "key", "event")
        self.asyncs: list[tuple[int, int, int, int, dict[str, Any]]] = []
        """Time, name, key, event number and the event itself, for each asynchronous event."""
        self.moments: list[tuple[int, int, int, int, int]] = []
        """Time, name, key, lane and event number of instants that are found while pairing."""
        self.counters: dict[tuple[Any, str, str, str], tuple[list[int], list[float], list[int]]] = {}
        """Times, values and event numbers by process, name, id and series."""
        self.metadata: list[tuple[Any, Any, str, dict[str, Any]]] = []
        """Process, thread, name and args of every metadata event."""
        self.arguments = ArgumentTables()
        self._classes = self._kinds = np.empty(0, np.uint8)

    def add(self, block: Block) -> None:
        """Take in the events of one block."""
        events = block.events
        if not events:
            return
        try:
            self._add(block, events)
        except (TypeError, ValueError, AttributeError, OverflowError):
            self._add(block, [settle(event) for event in events])
        self.events += len(events)

    def _add(self, block: Block, events: list[Event]) -> None:
        count = len(events)
        times = _times_of(events, block)
        name = _interned(self.names, map(_name, events), count, "i4")
        key = _interned(self.keys, map(_key, events), count, "i4")
        classes = self.key_classes()[key]
        timed = times != _NO_TIME
        untimed = np.flatnonzero(~timed & (classes != META) & (classes != UNKNOWN))
        rows_of = [np.flatnonzero((classes == number) & timed) for number in range(META)]
        # All checks that can fail are done before anything is kept, so that a second try starts clean.
        slices, negative, ops, work = self._slice_columns(events, rows_of[SLICE], key)
        flow_ids = self._ids_of([events[row] for row in rows_of[FLOW].tolist()])
        memory = self._memory_columns(events, rows_of[INSTANT], name)
        self.quality.dropped += len(untimed)
        self.quality.negative += len(negative)
        endless = rows_of[SLICE][slices["dur"] == NO_DUR]
        self._note_offenders(block, {UNTIMED: untimed, ENDLESS: endless, NEGATIVE: negative})
        self.arguments.ops.keep(ops)
        self.arguments.work.keep(work)
        self.arguments.memory.keep(memory)
        rows = rows_of[SLICE]
        if len(rows):
            event = self._numbers_of(rows)
            self.slices.add(start=times[rows], name=name[rows], key=key[rows], event=event, **slices)
        rows = rows_of[FLOW]
        if len(rows):
            event = self._numbers_of(rows)
            self.flows.add(time=times[rows], name=name[rows], key=key[rows], id=flow_ids, event=event)
        self._add_instants(events, rows_of[INSTANT], times, name, key)
        rows = rows_of[PAIR]
        if len(rows):
            self.pairs.add(time=times[rows], name=name[rows], key=key[rows], event=self._numbers_of(rows))
        rare = np.flatnonzero((classes == META) | (((classes == ASYNC) | (classes == COUNTER)) & timed))
        if len(rare):
            self._add_rare(block, rare.tolist(), classes, times, name, key)
        for number in np.unique(key[(classes == IGNORED) | (classes == UNKNOWN)]).tolist():
            self._count_skipped(number, int(np.count_nonzero(key == number)))

    def _note_offenders(self, block: Block, found: dict[str, Int64]) -> None:
        """Keep the first events of which something is wrong, by what that is, and where they stand."""
        examples = self.quality.examples
        for reason, rows in found.items():
            room = EXAMPLES - len(examples)
            if len(rows) and room > 0:
                places = located(block.data, rows[:room].tolist(), block.is_tolerant)
                examples += [(block.offset + at, f"{reason}: {text}") for at, text in places]

    def _numbers_of(self, rows: Int64) -> NDArray[np.int32]:
        """Which events of the file the rows of this block are."""
        return rows.astype(np.int32) + np.int32(self.events)

    def _slice_columns(
        self, events: list[Event], rows: Int64, key: NDArray[np.int32]
    ) -> tuple[dict[str, NDArray[Any]], Int64, Part, Part]:
        """Columns of the slices of a block, the rows with a duration below 0, and arguments of ops and of GPU work."""
        count = len(rows)
        chosen = events if count == len(events) else [events[row] for row in rows.tolist()]
        args = list(map(_args, chosen))
        dur = np.fromiter(map(_dur, chosen), "f8", count)
        unknown = ~np.isfinite(dur)
        nanoseconds = np.rint(np.where(unknown, 0, np.clip(dur, -9e15, 9e15)) * 1000).astype(np.int64)
        negative = nanoseconds < 0
        nanoseconds[negative] = 0
        nanoseconds[unknown] = NO_DUR
        columns = {
            "dur": nanoseconds,
            "correlation": np.fromiter(map(_correlation, args), "i8", count),
            "external": np.fromiter(map(_external, args), "i8", count),
        }
        # Only after that it is certain that all args are objects.
        kept = self.arguments.read_slices(self.key_kinds()[key[rows]], args, self._numbers_of(rows))
        return columns, rows[negative], *kept

    def _memory_columns(self, events: list[Event], rows: Int64, name: NDArray[np.int32]) -> Part:
        """What the allocator's instants say."""
        rows = rows[np.isin(name[rows], [self.names.get(text, -1) for text in MEMORY_INSTANTS])]
        return self.arguments.memory.read([_args(events[row]) for row in rows.tolist()], self._numbers_of(rows))

    def _ids_of(self, events: list[Event]) -> Int64:
        try:
            return np.fromiter(map(_id, events), "i8", len(events))
        except (TypeError, ValueError, OverflowError):
            return np.fromiter((self._flow_id(event.id) for event in events), "i8", len(events))

    def _flow_id(self, value: Any) -> int:
        if isinstance(value, str):
            try:
                value = int(value, 0)
            except ValueError:
                return -2 - self.flow_ids[value]
        if isinstance(value, int) and 0 <= value < 1 << 63:
            return value
        return -2 - self.flow_ids[value]

    def _add_instants(
        self, events: list[Event], rows: Int64, times: Int64, name: NDArray[Any], key: NDArray[Any]
    ) -> None:
        if len(rows):
            scopes = (_SCOPES.get(events[row].s or "", 0) for row in rows.tolist())
            self.instants.add(
                time=times[rows],
                name=name[rows],
                key=key[rows],
                scope=np.fromiter(scopes, "u1", len(rows)),
                event=self._numbers_of(rows),
            )

    def _add_rare(
        self,
        block: Block,
        rows: list[int],
        classes: NDArray[np.uint8],
        times: Int64,
        name: NDArray[Any],
        key: NDArray[Any],
    ) -> None:
        """Metadata, counters and asynchronous events, which need more than the common fields."""
        for row, event in zip(rows, decode_some(block.data, rows, block.is_tolerant), strict=True):
            args = event.get("args")
            args = args if isinstance(args, dict) else {}
            if classes[row] == META:
                self.metadata.append((event.get("pid"), event.get("tid"), str(event.get("name")), args))
            elif classes[row] == COUNTER:
                self._add_counter(event, args, int(times[row]), self.events + row)
            else:
                item = (int(times[row]), int(name[row]), int(key[row]), self.events + row, event)
                self.asyncs.append(item)

    def _add_counter(self, event: dict[str, Any], args: dict[str, Any], time: int, number: int) -> None:
        for series, value in args.items():
            try:
                level = float(value)
            except (TypeError, ValueError):
                continue
            place = (event.get("pid"), str(event.get("name")), str(event.get("id", "")), series)
            moments, values, events = self.counters.setdefault(place, ([], [], []))
            moments.append(time)
            values.append(level)
            events.append(number)

    def key_classes(self) -> NDArray[np.uint8]:
        """The class of phase of every key."""
        if len(self._classes) < len(self.keys):
            classes = [_CLASS_OF_PHASE.get(phase[:1], UNKNOWN) for phase, *_ in self.keys]
            self._classes = np.array(classes, np.uint8)
        return self._classes

    def key_kinds(self) -> NDArray[np.uint8]:
        """The `Kind` of every key."""
        if len(self._kinds) < len(self.keys):
            kinds = [torch.kind_of(category or "", pid) for _, category, pid, _ in self.keys]
            self._kinds = np.array(kinds, np.uint8)
        return self._kinds

    def _count_skipped(self, key: int, count: int) -> None:
        letter = next(place for place, number in self.keys.items() if number == key)[0][:1]
        if letter:
            skipped = self.quality.skipped_phases
            skipped[letter] = skipped.get(letter, 0) + count


_NO_TIME = np.iinfo(np.int64).min


def _interned(ids: _Ids, values: Iterable[Any], count: int, dtype: str) -> NDArray[Any]:
    find: Callable[[Any], int] = ids.__getitem__
    return np.fromiter(map(find, values), dtype, count)


def _times_of(events: list[Event], block: Block) -> Int64:
    """Timestamps in whole ns, `_NO_TIME` where an event has none."""
    count = len(events)
    micros = np.fromiter(map(_ts, events), "f8", count)
    bad = ~(np.abs(micros) < 9e15)
    micros[bad] = 0
    whole = np.floor(micros)
    fraction = micros - whole
    far = np.abs(micros) >= _RELATIVE_LIMIT_US
    if (far & (fraction != 0)).any():
        exact = exact_times(block.data, block.is_tolerant)
        times = np.array([_NO_TIME if time is None else time for time in exact], np.int64)
    else:
        times = whole.astype(np.int64) * 1000 + np.rint(fraction * 1000).astype(np.int64)
    times[bad] = _NO_TIME
    return times
