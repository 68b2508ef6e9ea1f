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

from tracetui.errors import NotATrace
from tracetui.importers import torch
from tracetui.importers.arguments import ArgumentTables, Part
from tracetui.importers.blocks import Block
from tracetui.importers.counters import CounterSamples
from tracetui.importers.decode import MAX_TIME_US, Event, decode_some, exact_times, is_empty, located, settle
from tracetui.importers.lanes import Naming, lane_text
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
MAX_KEYS = 200_000
"""Combinations of phase, category, process and thread; a trace of a thousand ranks has half as many."""
NO_GROUP = -1
"""Stands for the group of an asynchronous event that marks a moment."""

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

    def __init__(self, quality: Quality, label: str = "The file") -> None:
        self.events = 0
        self.quality = quality
        self.label = label
        """The file's name, for messages."""
        self.keys = _Ids()
        """Phase, category, pid and tid as they stand in the file; the category may be None."""
        self.names = _Ids()
        self.flow_ids = _Ids()
        self.slices = Gathered("start", "dur", "name", "key", "correlation", "external", "event")
        self.flows = Gathered("time", "name", "key", "id", "event")
        self.instants = Gathered("time", "name", "key", "scope", "event")
        self.pairs = Gathered("time", "name", "key", "event")
        self.asyncs = Gathered("time", "name", "key", "group", "event")
        """Asynchronous events; those of a group belong together, and those of `NO_GROUP` mark a moment."""
        self.counters = CounterSamples()
        self.naming = Naming()
        """What metadata events say about processes and threads."""
        self.metadata_events = 0
        self.empty = 0
        """Elements that are no event, such as `{}`; they are among `events`."""
        self._groups = _Ids()
        self.arguments = ArgumentTables()
        self._classes = self._kinds = np.empty(0, np.uint8)
        self._phases = np.empty(0, np.uint32)

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
        if len(self.keys) > MAX_KEYS:
            raise NotATrace(f"{self.label} has more than {MAX_KEYS:,} threads, as no trace does: it is not opened.")
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
        skipped = (classes == IGNORED) | (classes == UNKNOWN)
        if skipped.any():
            self._count_skipped(events, np.flatnonzero(skipped), key)

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
        nanoseconds = np.rint(np.where(unknown, 0, np.clip(dur, -MAX_TIME_US, MAX_TIME_US)) * 1000).astype(np.int64)
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
        asyncs: list[tuple[int, int]] = []
        for row, event in zip(rows, decode_some(block.data, rows, block.is_tolerant), strict=True):
            args = event.get("args")
            args = args if isinstance(args, dict) else {}
            if classes[row] == META:
                self.metadata_events += 1
                self.naming.read(event.get("pid"), event.get("tid"), str(event.get("name")), args)
            elif classes[row] == COUNTER:
                self.counters.add(event, args, int(times[row]), self.events + row)
            else:
                asyncs.append((row, self._group_of(event, int(name[row]))))
        if asyncs:
            chosen, group = np.array(asyncs, np.int64).T
            event_numbers = self._numbers_of(chosen)
            self.asyncs.add(time=times[chosen], name=name[chosen], key=key[chosen], group=group, event=event_numbers)

    def _group_of(self, event: dict[str, Any], name: int) -> int:
        """The number of what makes begin and end of an asynchronous slice belong together (1.3)."""
        phase = str(event.get("ph"))[:1]
        if phase in "nTp":
            return NO_GROUP
        category, pid = str(event.get("cat") or ""), lane_text(event.get("pid"))
        scope, identity, owner = str(event.get("scope", "")), event.get("id"), ""
        double = event.get("id2")
        if isinstance(double, dict):
            identity = double.get("global")
            if "local" in double:
                identity, owner = double["local"], pid
        return self._groups[category, scope, lane_text(identity), owner, name if phase in "SF" else -1]

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

    def _count_skipped(self, events: list[Event], rows: Int64, key: NDArray[Any]) -> None:
        """Count events of phases that have no picture, and elements that are no events at all."""
        phases = self.key_phases()[key[rows]]
        skipped = self.quality.skipped_phases
        for number, count in zip(*np.unique(phases, return_counts=True), strict=True):
            if letter := chr(number) if number else "":
                skipped[letter] = skipped.get(letter, 0) + int(count)
        nameless = rows[phases == 0].tolist()
        empty = sum(is_empty(events[row]) for row in nameless)
        self.empty += empty
        if len(nameless) > empty:
            skipped[""] = skipped.get("", 0) + len(nameless) - empty

    def key_phases(self) -> NDArray[np.uint32]:
        """The letter of the phase of every key as a number, 0 for none."""
        if len(self._phases) < len(self.keys):
            self._phases = np.array([ord(phase[:1] or "\0") for phase, *_ in self.keys], np.uint32)
        return self._phases


_NO_TIME = np.iinfo(np.int64).min


def _interned(ids: _Ids, values: Iterable[Any], count: int, dtype: str) -> NDArray[Any]:
    find: Callable[[Any], int] = ids.__getitem__
    return np.fromiter(map(find, values), dtype, count)


def _times_of(events: list[Event], block: Block) -> Int64:
    """Timestamps in whole ns, `_NO_TIME` where an event has none."""
    count = len(events)
    micros = np.fromiter(map(_ts, events), "f8", count)
    bad = ~(np.abs(micros) < MAX_TIME_US)
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
