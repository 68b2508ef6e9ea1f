"""Collects the columns of a trace while its blocks go by; an event's object dies with its block.

Every field is pulled out of a block's events by C-level maps into numpy. What an event is (phase, category,
process, thread) is one interned key, so that lanes and kinds are worked out once per key and not per event.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracetui.errors import NotATrace
from tracetui.model.hardware_counters import gpu_of_process
from tracetui.model.intervals import Bool, Int64
from tracetui.model.recorded import (
    MAX_AMOUNT,
    MEMORY_NUMBERS,
    OP_NUMBERS,
    OP_TEXTS,
    WORK_NUMBERS,
    WORK_TEXTS,
    Arguments,
)
from tracetui.model.table import NULL
from tracetui.model.trace import ENDLESS, EXAMPLES, GPU_WORK, NEGATIVE, UNTIMED, Kind, Quality
from tracetui.reading import torch
from tracetui.reading.blocks import AnyBlock, Block
from tracetui.reading.decode import (
    ASYNC,
    COUNTER,
    FLOW,
    IGNORED,
    INSTANT,
    MAX_TIME_US,
    META,
    NO_NAME,
    NO_TIME,
    PAIR,
    SLICE,
    UNKNOWN,
    Ids,
    class_of,
    located,
    sample_values,
)
from tracetui.reading.lanes import CounterSamples, Naming, lane_text
from tracetui.reading.scanner.scanned_events import (
    DecodedArguments,
    DecodedEvents,
    OtherEvents,
    ScannedArguments,
    ScannedBlocks,
)
from tracetui.reading.scanner.scanner import NEGATIVE_DURATION

# Columns that grow by a chunk for each block that is read.

MAX_SPARE_ROWS = 1 << 16
"""Maximum rows of a column for which there is room before they come."""

ArgumentColumns = DecodedArguments | ScannedArguments
"""The arguments of some events, one entry for each."""
RareFields = DecodedEvents | OtherEvents
"""Fields of some events of a block by their rows."""


class Gathered:
    """Parallel columns that grow by chunks.

    A column is one stretch of memory from the start: to grow it moves pages where it is long, and copies nothing, while
    chunks that are kept and joined in the end need their memory twice, and leave it in pieces.
    """

    def __init__(self, *names: str) -> None:
        self.names = names
        self._columns = {name: _GrowingColumn() for name in names}

    def add(self, **columns: NDArray[Any]) -> None:
        """Append one chunk to every column."""
        for name, values in columns.items():
            self._columns[name].extend(values)

    def take(self, name: str, dtype: str) -> NDArray[Any]:
        """The whole column, which is given up here."""
        return self._columns.pop(name).values(dtype)


class _GrowingColumn:
    """One column."""

    def __init__(self) -> None:
        self._values: NDArray[Any] | None = None
        self._filled = 0

    def extend(self, values: NDArray[Any]) -> None:
        """Append some rows; of several types the column gets the one that holds all."""
        if self._values is None:
            self._values = np.array(values)
            self._filled = len(values)
            return
        dtype = np.result_type(self._values, values)
        if dtype != self._values.dtype:
            self._values = self._values.astype(dtype)
        room, needed = len(self._values), self._filled + len(values)
        if needed > room:
            # Nobody else refers to it.
            self._values.resize(max(needed, min(2 * room, room + MAX_SPARE_ROWS)), refcheck=False)
        self._values[self._filled : needed] = values
        self._filled = needed

    def values(self, dtype: str) -> NDArray[Any]:
        """All rows."""
        if self._values is None:
            return np.empty(0, dtype)
        self._values.resize(self._filled, refcheck=False)
        return self._values.astype(dtype, copy=False)


def combined(*columns: NDArray[Any]) -> Int64:
    """One number for each combination of values that occurs."""
    number = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        distinct, dense = np.unique(column, return_inverse=True)
        number = np.unique(number * max(len(distinct), 1) + dense, return_inverse=True)[1]
    return number


# Collects the arguments that whole tables need: of operators, of what runs on a GPU, of the allocator.
#
# They are read for events of these kinds alone: a map over all events would cost a fifth of the loading time.

Part = dict[str, NDArray[Any]]

_AMOUNTS = {"registers per thread", "shared memory", "bytes", "Bytes", "Total Allocated", "Total Reserved"}
"""Numbers that are added up; the others are ids and addresses."""
_TEXT_NAMES = {"Input Dims": ("Input Dims", "Input dims")}
"""Names of texts in the file, where a file uses one of several."""
_IS_WORK = np.isin(np.arange(max(Kind) + 1), GPU_WORK)
"""Mask of the kinds that are GPU work."""


class _Texts(dict[bytes, int]):
    """Numbers the different values; what is absent is -1."""

    def __missing__(self, value: bytes) -> int:
        number = self[value] = len(self) - 1
        return number


class ArgumentTable:
    """Grows by the events of a block; what can fail is done by `read`, so that a second try starts clean."""

    def __init__(self, numbers: Sequence[str], texts: Sequence[str] = ()) -> None:
        self._numbers, self._text_names = numbers, texts
        self._texts = _Texts({b"": -1})
        self._kept = Gathered("event", *numbers, *texts)
        self._rows = 0

    def read(self, arguments: ArgumentColumns, numbers: NDArray[np.int32]) -> Part:
        """The columns of some events, which have the given numbers in the file.

        Raises: TypeError, ValueError or OverflowError for a value that is no whole number.
        """
        part: Part = {"event": numbers}
        for name in self._numbers:
            part[name] = arguments.numbers(name)
            if name in _AMOUNTS:
                beyond = (part[name] > MAX_AMOUNT) | (part[name] < -MAX_AMOUNT)
                part[name][beyond] = NULL
        for name in self._text_names:
            part[name] = arguments.texts(_TEXT_NAMES.get(name, (name,)), self._texts)
        return part

    def text_number(self, text: bytes) -> int:
        """The number under which a text stands in a part."""
        return self._texts[text]

    def keep(self, part: Part) -> None:
        """Append what `read` returned."""
        if len(part["event"]):
            self._kept.add(**part)
            self._rows += len(part["event"])

    def arguments(self) -> Arguments:
        """Everything that was kept, which is given up here."""
        if not self._rows:
            return Arguments()
        return Arguments(
            self._kept.take("event", "i4"),
            {name: self._kept.take(name, "i8") for name in self._numbers},
            {name: self._kept.take(name, "i4") for name in self._text_names},
            [text.decode("utf-8", "replace") for text in self._texts if text],
        )


class ArgumentTables:
    """The three tables of a trace."""

    def __init__(self) -> None:
        self.ops = ArgumentTable(OP_NUMBERS, OP_TEXTS)
        self.work = ArgumentTable(WORK_NUMBERS, WORK_TEXTS)
        self.memory = ArgumentTable(MEMORY_NUMBERS)

    def read_slices(
        self, arguments: Callable[[Int64], ArgumentColumns], kinds: NDArray[np.uint8], numbers: NDArray[np.int32]
    ) -> tuple[Part, Part]:
        """Columns of the operators and of the GPU work among some slices; annotations may have shapes too.

        `arguments` gives those of the slices at some indices.
        """
        ops = np.flatnonzero((kinds == Kind.CPU_OP) | (kinds == Kind.ANNOTATION))
        is_work = _IS_WORK[kinds]
        calls = np.flatnonzero(kinds == Kind.RUNTIME)
        is_work[calls[arguments(calls).have_grid()]] = True
        work = np.flatnonzero(is_work)
        return self.ops.read(arguments(ops), numbers[ops]), self.work.read(arguments(work), numbers[work])


MEMORY_INSTANTS = ("[memory]", "[OutOfMemory]")
"""Names under which the allocator's events stand."""
NO_DUR = -1
"""Stands for a duration that is not in the file."""
MIN_SAMPLES = 32
"""Minimum samples of GPUs' counters in a block that are read at once, for which its args are decoded once more."""
MAX_KEYS = 200_000
"""Combinations of phase, category, process and thread; a trace of a thousand ranks has half as many."""
NO_GROUP = -1
"""Stands for the group of an asynchronous event that marks a moment."""


class OtherColumns(NamedTuple):
    """Columns of some events, of which those that are no slices are kept as they are."""

    time: Int64
    """ns, `NO_TIME` for none."""
    name: NDArray[np.int32]
    key: NDArray[np.int32]
    number: NDArray[np.int32]
    """Index of each event in the file."""
    classes: NDArray[np.uint8]

    def rows(self, of_class: int) -> Int64:
        """The events of a class that have a time."""
        return np.flatnonzero((self.classes == of_class) & (self.time != NO_TIME))

    def untimed(self) -> Bool:
        """Mask of the events that lack a time that they should have."""
        mask: Bool = (self.time == NO_TIME) & (self.classes != META) & (self.classes != UNKNOWN)
        return mask

    def is_rare(self) -> Bool:
        """Mask of the events that are metadata, or counters and asynchronous events with a time."""
        timed = (self.classes == ASYNC) | (self.classes == COUNTER)
        mask: Bool = (self.classes == META) | (timed & (self.time != NO_TIME))
        return mask

    def of(self, rows: Int64) -> dict[str, NDArray[Any]]:
        """The columns that are kept of some events."""
        columns: dict[str, NDArray[Any]] = {"time": self.time, "name": self.name, "key": self.key, "event": self.number}
        return {name: values[rows] for name, values in columns.items()}


class Collector:
    """Everything that is kept of the events of a file."""

    def __init__(self, quality: Quality, label: str = "The file") -> None:
        self.events = 0
        self.quality = quality
        self.label = label
        """The file's name, for messages."""
        self.keys = Ids()
        """Phase, category, pid and tid as they stand in the file; the category may be None."""
        self.names = Ids()
        self.flow_ids = Ids()
        self.slices = Gathered("start", "dur", "name", "key", "correlation", "external", "event")
        self.flows = Gathered("time", "name", "key", "id", "event")
        self.instants = Gathered("time", "name", "key", "scope", "event")
        self.pairs = Gathered("time", "name", "key", "event")
        self.asyncs = Gathered("time", "name", "key", "group", "event")
        """Asynchronous events; those of a group belong together, and those of `NO_GROUP` mark a moment."""
        self.counters = CounterSamples()
        self.naming = Naming()
        """Names and order of processes and threads, from metadata events."""
        self.metadata_events = 0
        self.empty = 0
        """Elements that are no event, such as `{}`; they are among `events`."""
        self.untimed = 0
        """Events that lack a time that they should have."""
        self._groups = Ids()
        self.arguments = ArgumentTables()
        self._classes = self._kinds = np.empty(0, np.uint8)
        self._phases = np.empty(0, np.uint32)
        self._samples = np.empty(0, bool)

    def add(self, block: AnyBlock) -> None:
        """Take in the events of a block, or of some that were scanned."""
        if isinstance(block, ScannedBlocks):
            self._add_scanned(block)
            return
        events = block.events
        if not len(events):
            return
        try:
            self._add(block, events)
        except (TypeError, ValueError, AttributeError, OverflowError):
            self._add(block, events.settled())
        self.events += len(events)

    def _add(self, block: Block, events: DecodedEvents) -> None:
        times, name, key = events.times(), events.names(self.names), events.keys(self.keys)
        self.check_keys()
        number = np.arange(self.events, self.events + len(events), dtype=np.int32)
        others = OtherColumns(times, name, key, number, self.key_classes()[key])
        # All checks that can fail are done before anything is kept, so that a second try starts clean.
        rows = np.flatnonzero((others.classes == SLICE) & (times != NO_TIME))
        slices, negative, ops, work = self._slice_columns(events, rows, key, number)
        flow_ids, memory = self._checked(events, others)
        endless = rows[slices["dur"] == NO_DUR]
        untimed = np.flatnonzero(others.untimed())
        offenders = {UNTIMED: untimed, ENDLESS: endless, NEGATIVE: negative}
        self._note_offenders(block.data, block.offset, offenders, block.is_tolerant)
        self.quality.negative += len(negative)
        self.arguments.ops.keep(ops)
        self.arguments.work.keep(work)
        if len(rows):
            self.slices.add(start=times[rows], name=name[rows], key=key[rows], event=number[rows], **slices)
        self._keep_others(events, others, flow_ids, memory, block.is_tolerant)

    def _add_scanned(self, blocks: ScannedBlocks) -> None:
        """Take in the events of some blocks that were scanned."""
        columns, first = blocks.columns, np.int32(self.events)
        names, keys = blocks.names(self.names), blocks.keys(self.keys)
        self.check_keys()
        for index, offenders in blocks.offenders():
            self.quality.negative += len(offenders[NEGATIVE])
            self._note_offenders(blocks.block(index), blocks.offset + blocks.bounds[index], offenders)
        key, event = keys.take(columns.slices("key")), columns.slices("event") + first
        at = columns.slices("argument")
        kept = self.arguments.read_slices(lambda rows: ScannedArguments(blocks, at[rows]), self.key_kinds()[key], event)
        self.arguments.ops.keep(kept[0])
        self.arguments.work.keep(kept[1])
        if len(key):
            dur = np.maximum(columns.slices("dur"), NO_DUR)
            dur[columns.slices("dur") == NEGATIVE_DURATION] = 0
            ids = {name: columns.slices(name) for name in ("start", "correlation", "external")}
            self.slices.add(dur=dur, name=names.take(columns.slices("name")), key=key, event=event, **ids)
        for events in blocks.stretches():
            name, key = names.take(events.column("name")), keys.take(events.column("key"))
            others = OtherColumns(
                events.column("time"), name, key, events.column("event") + first, events.column("class")
            )
            self._keep_others(events, others, *self._checked(events, others))
        self.events += len(blocks)

    def check_keys(self) -> None:
        """Do nothing, unless there are more keys than a trace has.

        Raises: NotATrace.
        """
        if len(self.keys) > MAX_KEYS:
            raise NotATrace(f"{self.label} has more than {MAX_KEYS:,} threads, as no trace does: it is not opened.")

    def _checked(self, events: RareFields, others: OtherColumns) -> tuple[Int64, Part]:
        """Ids of flows and arguments of the allocator, which may be of an odd type."""
        flow_ids = events.flow_ids(others.rows(FLOW), self._flow_id)
        rows = others.rows(INSTANT)
        if len(rows):
            rows = rows[np.isin(others.name[rows], [self.names.get(text, -1) for text in MEMORY_INSTANTS])]
        return flow_ids, self.arguments.memory.read(events.arguments(rows), others.number[rows])

    def _keep_others(
        self, events: RareFields, others: OtherColumns, flow_ids: Int64, memory: Part, is_tolerant: bool = False
    ) -> None:
        """Keep the events that are no slices."""
        self.untimed += int(np.count_nonzero(others.untimed()))
        self.arguments.memory.keep(memory)
        if len(rows := others.rows(FLOW)):
            self.flows.add(id=flow_ids, **others.of(rows))
        if len(rows := others.rows(INSTANT)):
            self.instants.add(scope=events.scopes(rows), **others.of(rows))
        if len(rows := others.rows(PAIR)):
            self.pairs.add(**others.of(rows))
        is_read = self._add_samples(events, others, is_tolerant)
        rare = np.flatnonzero(others.is_rare() & ~is_read)
        if len(rare):
            self._add_rare(events, rare.tolist(), others)
        skipped = (others.classes == IGNORED) | (others.classes == UNKNOWN)
        if skipped.any():
            self._count_skipped(events, np.flatnonzero(skipped), others.key)

    def _note_offenders(self, data: bytes, offset: int, rows_of: dict[str, Int64], is_tolerant: bool = False) -> None:
        """Keep the first events of a block of which something is wrong, by what that is, and where they stand."""
        examples = self.quality.examples
        for reason, rows in rows_of.items():
            room = EXAMPLES - len(examples)
            if len(rows) and room > 0:
                events = located(data, rows[:room].tolist(), is_tolerant)
                examples += [(offset + at, f"{reason}: {text}") for at, text in events]

    def _slice_columns(
        self, events: DecodedEvents, rows: Int64, key: NDArray[np.int32], number: NDArray[np.int32]
    ) -> tuple[dict[str, NDArray[Any]], Int64, Part, Part]:
        """Columns of the slices of a block, the rows with a duration below 0, and arguments of ops and of GPU work."""
        dur, correlation, external = events.slice_numbers(rows)
        unknown = ~np.isfinite(dur)
        nanoseconds = np.rint(np.where(unknown, 0, np.clip(dur, -MAX_TIME_US, MAX_TIME_US)) * 1000).astype(np.int64)
        negative = nanoseconds < 0
        nanoseconds[negative] = 0
        nanoseconds[unknown] = NO_DUR
        columns = {"dur": nanoseconds, "correlation": correlation, "external": external}
        # Only after that it is certain that all args are objects.
        kinds = self.key_kinds()[key[rows]]
        kept = self.arguments.read_slices(lambda index: events.arguments(rows[index]), kinds, number[rows])
        return columns, rows[negative], *kept

    def _flow_id(self, value: Any) -> int:
        if isinstance(value, str):
            try:
                value = int(value, 0)
            except ValueError:
                return -2 - self.flow_ids[value]
        if isinstance(value, int) and 0 <= value < 1 << 63:
            return value
        return -2 - self.flow_ids[value]

    def _add_samples(self, events: RareFields, others: OtherColumns, is_tolerant: bool) -> NDArray[np.bool_]:
        """Take in the samples of GPUs' counters of a block at once; the mask of the events that were read."""
        is_read = np.zeros(len(events), bool)
        rows = others.rows(COUNTER)
        rows = rows[self.key_samples()[others.key[rows]]]
        if len(rows) < MIN_SAMPLES or is_tolerant:
            return is_read
        # A sample belongs to a series by its process and name alone where it has no id.
        name, key = others.name, others.key
        unnamed = [self.names.get(NO_NAME, -1), self.names.get(None, -1)]
        rows = rows[~events.have_id(rows) & ~np.isin(name[rows], unnamed)]
        args = events.args_json(rows) if len(rows) else None
        values = None if args is None else sample_values(args)
        if values is None:
            return is_read
        is_read[rows] = True
        value, number = np.array(values, np.float64), others.number[rows].astype(np.int64)
        _, series = np.unique(key[rows].astype(np.int64) << 32 | name[rows], return_inverse=True)
        for index in range(int(series.max()) + 1):
            mine = np.flatnonzero(series == index)
            first = events.in_full([int(rows[mine[0]])])[0]
            process, counter = lane_text(first.get("pid")), str(first.get("name"))
            self.counters.extend(process, counter, others.time[rows[mine]], value[mine], number[mine])
        return is_read

    def _add_rare(self, events: RareFields, rows: list[int], others: OtherColumns) -> None:
        """Metadata, counters and asynchronous events, which need more than the common fields."""
        asyncs: list[tuple[int, int]] = []
        for row, event in zip(rows, events.in_full(rows), strict=True):
            args = event.get("args")
            args = args if isinstance(args, dict) else {}
            if others.classes[row] == META:
                self.metadata_events += 1
                self.naming.read(event.get("pid"), event.get("tid"), str(event.get("name")), args)
            elif others.classes[row] == COUNTER:
                self.counters.add(event, args, int(others.time[row]), int(others.number[row]))
            else:
                asyncs.append((row, self._group_of(event, int(others.name[row]))))
        if asyncs:
            chosen, group = np.array(asyncs, np.int64).T
            self.asyncs.add(group=group, **others.of(chosen))

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
            classes = [class_of(phase, category) for phase, category, _, _ in self.keys]
            self._classes = np.array(classes, np.uint8)
        return self._classes

    def key_samples(self) -> NDArray[np.bool_]:
        """Mask of the keys whose process holds the counters of a GPU."""
        if len(self._samples) < len(self.keys):
            is_gpu = [isinstance(pid, str) and gpu_of_process(lane_text(pid)) >= 0 for _, _, pid, _ in self.keys]
            self._samples = np.array(is_gpu, bool)
        return self._samples

    def key_kinds(self) -> NDArray[np.uint8]:
        """The `Kind` of every key."""
        if len(self._kinds) < len(self.keys):
            kinds = [torch.kind_of(category or "", pid) for _, category, pid, _ in self.keys]
            self._kinds = np.array(kinds, np.uint8)
        return self._kinds

    def _count_skipped(self, events: RareFields, rows: Int64, key: NDArray[Any]) -> None:
        """Count events of phases that have no picture, and elements that are no events at all."""
        phases = self.key_phases()[key[rows]]
        skipped = self.quality.skipped_phases
        for number, count in zip(*np.unique(phases, return_counts=True), strict=True):
            if letter := chr(number) if number else "":
                skipped[letter] = skipped.get(letter, 0) + int(count)
        nameless = rows[phases == 0].tolist()
        empty = events.count_empty(nameless)
        self.empty += empty
        if len(nameless) > empty:
            skipped[""] = skipped.get("", 0) + len(nameless) - empty

    def key_phases(self) -> NDArray[np.uint32]:
        """The letter of the phase of every key as a number, 0 for none."""
        if len(self._phases) < len(self.keys):
            self._phases = np.array([ord(phase[:1] or "\0") for phase, *_ in self.keys], np.uint32)
        return self._phases
