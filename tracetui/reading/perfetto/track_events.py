"""Begins and ends of slices, paired when the file has been read, and work on GPUs (render stages), as columns that
grow block by block.
"""

from __future__ import annotations

import json

import numpy as np
from numpy.typing import NDArray

from tracetui.model.intervals import Bool, Int64
from tracetui.model.table import NULL
from tracetui.model.trace import NO_ID
from tracetui.reading.columns import Collector, Gathered
from tracetui.reading.perfetto.annotations import CorrelatedEvents, annotation, dimensions_json
from tracetui.reading.perfetto.schemas import (
    ANNOTATION,
    BEGIN,
    COUNTER,
    COUNTER_SAMPLE,
    END,
    EXTRA_DATA,
    GPU_CORRELATION,
    GPU_COUNTER_EVENT,
    LAUNCH,
    LAUNCH_ARG,
    RENDER_STAGE,
    STATE,
    TRACK_EVENT,
)
from tracetui.reading.perfetto.schemas import AnnotationField as Annotation
from tracetui.reading.perfetto.schemas import EventField as Event
from tracetui.reading.perfetto.schemas import StageField as Stage
from tracetui.reading.perfetto.sequences import CounterDescriptor, latest
from tracetui.reading.perfetto.tracks import (
    COMPLETE,
    SKIPPED,
    LegacyEvents,
    Tracks,
    event_types,
    own_threads,
    read_legacy,
)
from tracetui.reading.perfetto.wire import (
    SPAN,
    DamagedMessage,
    Fields,
    MessageBytes,
    Occurrences,
    TextNumbers,
    decimals,
    fields_of,
    read_fields,
)

CORRELATION, EXTERNAL, SEQUENCE, FORWARD, DIMS, TYPES, SYNC_KIND, DEVICE, STREAM = range(9)
_WANTED = {
    b"correlation": CORRELATION,
    b"External id": EXTERNAL,
    b"Sequence number": SEQUENCE,
    b"Fwd thread id": FORWARD,
    b"Input Dims": DIMS,
    b"Input dims": DIMS,
    b"Input type": TYPES,
    b"cuda_sync_kind": SYNC_KIND,
    b"device": DEVICE,
    b"stream": STREAM,
}
"""Arguments that become columns."""
_UNWANTED = len(_WANTED)
_FLOW_FIELDS = ((Event.FLOWS, False), (Event.OLD_FLOWS, False), (Event.LAST_FLOWS, True), (Event.OLD_LAST_FLOWS, True))
"""Fields with ids of arrows, and whether an arrow ends there."""
MAX_ANNOTATIONS = 1 << 18
"""Maximum arguments of the events of a block that become columns; all are shown with their event."""
NO_NUMBER = -1
"""Stands for a text that an event has not."""


class PacketRows:
    """Some packets of a block, as columns: those with an event of the same kind."""

    def __init__(
        self,
        data: MessageBytes,
        start: Int64,
        end: Int64,
        columns: dict[str, Int64],
        needs_state: Bool,
        track: Int64,
    ) -> None:
        self.data, self.start, self.end = data, start, end
        self.needs_state = needs_state
        """Mask of the packets that rest on interned data, as their flags say."""
        self.track = track
        """The uuid of the track of an event that names none."""
        self.columns = columns
        """By `time`, `event` (the number of the packet), `sequence` and `state`."""

    def take(self, rows: Int64) -> dict[str, Int64]:
        """The columns of some of them."""
        return {name: values[rows] for name, values in self.columns.items()}


class TrackEvents:
    """All begins and ends of a file."""

    def __init__(self, collector: Collector, tracks: Tracks) -> None:
        names = collector.names
        self._tracks = tracks
        self._names = TextNumbers(lambda raw: names[raw.decode("utf-8", "replace")])
        self.categories: dict[str, int] = {}
        """Categories that stand in events as text, with their numbers."""
        self._categories = TextNumbers(self._category)
        self._keys = TextNumbers(lambda raw: _WANTED.get(raw, _UNWANTED))
        self.texts: dict[bytes, int] = {}
        """Shapes and types as JSON, with their numbers."""
        self._texts = TextNumbers(self._text)
        self.sides = Gathered("time", "event", "sequence", "state", "track", "begins", "has_args", "needs_state")
        """Begins and ends in the order of the file."""
        self.begins = Gathered("name", "name_iid", "category", "category_iid", "correlation", "external")
        """More about the begins."""
        self.ops = Gathered("event", "sequence", "forward", "dims", "types")
        """Begins with shapes, types or numbers of the autograd engine."""
        self.syncs = Gathered("event", "device", "stream")
        """Begins of waits on a stream."""
        self.submissions = Gathered("event", "state", "id")
        """Ids of the GPU activities that a call submitted, with the event of the call."""
        self.others = Gathered(
            "time", "event", "state", "track", "type", "name", "name_iid", "category", "category_iid",
            "phase", "duration", "identity", "id_kind", "scope",
        )  # fmt: skip
        """Events that neither begin nor end a slice, but for counters."""
        self.counters = Gathered("time", "event", "track", "value")
        """Values of counters."""
        self.flows = Gathered("time", "event", "track", "id", "is_last")
        """Ids of arrows, with the events that they lead from and to."""
        self.correlated = CorrelatedEvents()
        """Events that belong together."""
        self.skipped: dict[str, int] = {}
        """Events of phases that are not shown, by letter."""

    def _category(self, raw: bytes) -> int:
        return self.categories.setdefault(raw.decode("utf-8", "replace"), len(self.categories))

    def _text(self, raw: bytes) -> int:
        data = MessageBytes(raw)
        try:
            text = json.dumps(annotation(data, 0, data.size)[1]).encode()
        except DamagedMessage:
            text = b""
        return self.texts.setdefault(text, len(self.texts)) if text else NO_NUMBER

    def add(self, rows: PacketRows) -> Bool:
        """Take in the track events of a block, and return which of them are damaged."""
        fields = read_fields(rows.data, rows.start, rows.end, TRACK_EVENT)
        uuid = np.where(fields.has(Event.TRACK_UUID), fields.number(Event.TRACK_UUID), rows.track)
        track, kind = self._tracks.number(uuid), fields.number(Event.TYPE)
        legacy = None
        if fields.has(Event.LEGACY).any():
            legacy, pid, tid, has_thread = read_legacy(rows.data, *fields.span(Event.LEGACY))
            fields.damaged |= legacy.is_damaged
            kind = event_types(kind, legacy.phase)
            own = np.flatnonzero(has_thread)
            track[own] = own_threads(track[own], pid[own], tid[own], self._tracks)
        kept = np.flatnonzero(((kind == BEGIN) | (kind == END)) & ~fields.damaged)
        annotations = fields.repeated(Event.ANNOTATIONS)
        has_args = np.zeros(len(kind), bool)
        has_args[annotations.row] = True
        self.sides.add(
            **rows.take(kept),
            track=track[kept],
            begins=kind[kept] == BEGIN,
            has_args=has_args[kept],
            needs_state=rows.needs_state[kept],
        )
        begins = np.flatnonzero((kind == BEGIN) & ~fields.damaged)
        if len(begins):
            self._add_begins(rows, fields, begins, annotations, legacy)
        if len(kept) < len(kind):
            self._add_others(rows, fields, kind, track, legacy)
        self._add_flows(rows, fields, track)
        self.correlated.add(rows.data, rows.columns, fields, track, ~fields.damaged & (kind != END))
        return fields.damaged

    def _add_others(
        self, rows: PacketRows, fields: Fields, kind: Int64, track: Int64, legacy: LegacyEvents | None
    ) -> None:
        """Take in counters, moments, states and what only JSON has."""
        nothing = np.full(len(kind), -1, np.int64)
        more = legacy or read_legacy(rows.data, nothing, nothing)[0]
        has_value = fields.has(Event.COUNTER) | fields.has(Event.DOUBLE_COUNTER)
        counted = np.flatnonzero((kind == COUNTER) & has_value & ~fields.damaged)
        if len(counted):
            double = fields.number(Event.DOUBLE_COUNTER).view(np.float64)
            whole = fields.number(Event.COUNTER).astype(np.float64)
            value = np.where(fields.has(Event.DOUBLE_COUNTER), double, whole)[counted]
            columns = rows.columns
            self.counters.add(
                time=columns["time"][counted], event=columns["event"][counted], track=track[counted], value=value
            )
        skipped = (kind <= 0) | (kind >= SKIPPED) | ((kind > STATE) & (kind < COMPLETE))
        for code, count in zip(*np.unique(more.phase[skipped & ~fields.damaged], return_counts=True), strict=True):
            letter = chr(int(code)) if 32 < code < 127 else ""
            self.skipped[letter] = self.skipped.get(letter, 0) + int(count)
        is_visible = (kind != BEGIN) & (kind != END) & ~skipped & ~fields.damaged
        is_visible[counted] = False
        chosen = np.flatnonzero(is_visible)
        if not len(chosen):
            return
        columns = rows.take(chosen)
        del columns["sequence"]
        self.others.add(
            **columns,
            **{name: each[chosen] for name, each in self._labels(rows.data, fields, len(kind), legacy).items()},
            track=track[chosen],
            type=kind[chosen],
            phase=more.phase[chosen],
            duration=more.duration[chosen],
            identity=more.identity[chosen],
            id_kind=more.id_kind[chosen],
            scope=more.scope[chosen],
        )

    def _add_flows(self, rows: PacketRows, fields: Fields, track: Int64) -> None:
        for field, is_last in _FLOW_FIELDS:
            row, identity = fields.values(field)
            if len(row):
                row, identity = row[~fields.damaged[row]], identity[~fields.damaged[row]]
                self.flows.add(
                    time=rows.columns["time"][row],
                    event=rows.columns["event"][row],
                    track=track[row],
                    id=identity,
                    is_last=np.full(len(row), is_last),
                )

    def _labels(self, data: MessageBytes, fields: Fields, count: int, legacy: LegacyEvents | None) -> dict[str, Int64]:
        """Names and categories of the events of a block: their numbers, or the numbers that were interned."""
        name_iid = fields.number(Event.NAME_IID)
        if legacy is not None:
            name_iid = np.where(fields.has(Event.NAME_IID), name_iid, legacy.name_iid)
        return {
            "name": self._numbers(self._names, data, fields.span(Event.NAME)),
            "name_iid": name_iid,
            "category": self._first_category(data, fields, count),
            "category_iid": _first(*fields.values(Event.CATEGORY_IIDS), count),
        }

    def _add_begins(
        self, rows: PacketRows, fields: Fields, begins: Int64, annotations: Occurrences, legacy: LegacyEvents | None
    ) -> None:
        data, event = rows.data, rows.columns["event"]
        count = len(event)
        arguments = _Arguments(data, annotations, count, self._keys)
        self.begins.add(
            **{name: each[begins] for name, each in self._labels(data, fields, count, legacy).items()},
            correlation=arguments.numbers(CORRELATION, NO_ID)[begins],
            external=arguments.numbers(EXTERNAL, NO_ID)[begins],
        )
        self._add_ops(event, begins, arguments)
        waits = begins[arguments.has(SYNC_KIND)[begins]]
        if len(waits):
            device, stream = arguments.numbers(DEVICE, NULL), arguments.numbers(STREAM, NULL)
            self.syncs.add(event=event[waits], device=device[waits], stream=stream[waits])
        start, end = fields.span(Event.GPU_CORRELATION)
        calls = begins[start[begins] >= 0]
        if len(calls):
            row, value = read_fields(data, start[calls], end[calls], GPU_CORRELATION).values(1)
            self.submissions.add(event=event[calls[row]], state=rows.columns["state"][calls[row]], id=value)

    def _add_ops(self, event: Int64, begins: Int64, arguments: _Arguments) -> None:
        has_op = np.zeros(len(event), bool)
        for key in (SEQUENCE, FORWARD, DIMS, TYPES):
            has_op |= arguments.has(key)
        ops = begins[has_op[begins]]
        if len(ops):
            self.ops.add(
                event=event[ops],
                sequence=arguments.numbers(SEQUENCE, NULL)[ops],
                forward=arguments.numbers(FORWARD, NULL)[ops],
                dims=arguments.texts(DIMS, self._texts)[ops],
                types=arguments.texts(TYPES, self._texts)[ops],
            )

    def _first_category(self, data: MessageBytes, fields: Fields, count: int) -> Int64:
        categories = fields.repeated(Event.CATEGORIES)
        first = np.full(count, NO_NUMBER, np.int64)
        first[categories.row[::-1]] = self._categories.of(data, categories.start, categories.end)[::-1]
        return first

    @staticmethod
    def _numbers(texts: TextNumbers, data: MessageBytes, span: tuple[Int64, Int64]) -> Int64:
        """The numbers of texts, `NO_NUMBER` where there is none."""
        numbers = np.full(len(span[0]), NO_NUMBER, np.int64)
        given = np.flatnonzero(span[0] >= 0)
        numbers[given] = texts.of(data, span[0][given], span[1][given])
        return numbers


def _first(row: Int64, value: Int64, count: int) -> Int64:
    """The first of the values of each row, 0 where there is none."""
    first = np.zeros(count, np.int64)
    first[row[::-1]] = value[::-1]
    return first


class _Arguments:
    """The wanted arguments of the events of a block."""

    def __init__(self, data: MessageBytes, occurrences: Occurrences, count: int, keys: TextNumbers) -> None:
        occurrences = Occurrences(*(column[:MAX_ANNOTATIONS] for column in occurrences))
        fields = read_fields(data, occurrences.start, occurrences.end, ANNOTATION)
        self._data, self._spans, self._fields, self._count = data, occurrences, fields, count
        start, end = fields.span(Annotation.NAME)
        with_name = np.flatnonzero((start >= 0) & ~fields.damaged)
        self._key: NDArray[np.int32] = np.full(len(occurrences.row), _UNWANTED, np.int32)
        self._key[with_name] = keys.of(data, start[with_name], end[with_name])

    def has(self, key: int) -> Bool:
        """Mask of the events that have an argument."""
        given = np.zeros(self._count, bool)
        given[self._spans.row[self._key == key]] = True
        return given

    def numbers(self, key: int, missing: int) -> Int64:
        """Whole numbers, `missing` where an event has none."""
        values = np.full(self._count, missing, np.int64)
        rows = np.flatnonzero(self._key == key)
        for field in (Annotation.UINT, Annotation.INT):
            given = rows[self._fields.has(field)[rows]]
            values[self._spans.row[given]] = self._fields.number(field)[given]
        return values

    def texts(self, key: int, numbers: TextNumbers) -> Int64:
        """Numbers of values of any kind, `NO_NUMBER` where an event has none."""
        values = np.full(self._count, NO_NUMBER, np.int64)
        rows = np.flatnonzero(self._key == key)
        if len(rows):
            values[self._spans.row[rows]] = numbers.of(self._data, self._spans.start[rows], self._spans.end[rows])
        return values


EXTRA_CORRELATION, EXTRA_BYTES, EXTRA_HOST_FUNCTION = range(3)
_EXTRA = {b"correlation": EXTRA_CORRELATION, b"bytes": EXTRA_BYTES, b"host fn": EXTRA_HOST_FUNCTION}
"""Extra data that become columns."""
_NO_EXTRA = len(_EXTRA)
HOST_NODE = "HostNode"
"""The stage of a graph's node that calls a function on the host."""


class RenderStages:
    """All render stages of a file."""

    def __init__(self, collector: Collector) -> None:
        names = collector.names
        self._keys = TextNumbers(lambda raw: _EXTRA.get(raw, _NO_EXTRA))
        self._functions = TextNumbers(lambda raw: names[f"{HOST_NODE}: {raw.decode('utf-8', 'replace')}"])
        self.dimensions: dict[bytes, int] = {}
        """Grids and blocks as JSON, with their numbers."""
        self._dimensions = TextNumbers(self._dimension)
        self.stages = Gathered(
            "time", "event", "sequence", "state", "dur", "gpu", "queue_iid", "stage_iid", "name_iid", "kernel_iid",
            "id", "correlation", "bytes", "function", "grid", "block", "has_launch", "name", "queue", "stage",
        )  # fmt: skip
        self._names = TextNumbers(lambda raw: names[raw.decode("utf-8", "replace")])
        self.queues: list[str] = []
        """Names of queues that packets know by their index."""
        self.kinds: list[str] = []
        """Names of stages that packets know by their index."""
        self.figures = Gathered("event", "state", "name_iid", "value")
        """Figures of kernels, such as registers, with the event of the kernel."""
        self.waits = Gathered("event", "state", "id")
        """Ids of the stages that a stage waited for."""

    def _dimension(self, raw: bytes) -> int:
        text = dimensions_json(raw)
        return self.dimensions.setdefault(text, len(self.dimensions)) if text else NO_NUMBER

    def add(self, rows: PacketRows) -> Bool:
        """Take in the render stages of a block, and return which of them are damaged."""
        fields = read_fields(rows.data, rows.start, rows.end, RENDER_STAGE)
        good = np.flatnonzero(~fields.damaged)
        self._read_specifications(rows.data, fields)
        extra = self._extra_data(rows.data, fields)
        start, _ = fields.span(Stage.LAUNCH)
        launch = self._launches(rows, fields)
        columns = {
            "dur": fields.number(Stage.DURATION),
            "gpu": fields.number(Stage.GPU),
            "queue_iid": fields.number(Stage.QUEUE_IID),
            "stage_iid": fields.number(Stage.STAGE_IID),
            "name_iid": fields.number(Stage.NAME_IID),
            "kernel_iid": fields.number(Stage.KERNEL_IID),
            "id": fields.number(Stage.EVENT_ID),
            "has_launch": start >= 0,
            "name": self._own_names(rows.data, fields),
            "queue": np.where(fields.has(Stage.QUEUE_NUMBER), fields.number(Stage.QUEUE_NUMBER), NO_NUMBER),
            "stage": np.where(fields.has(Stage.STAGE_NUMBER), fields.number(Stage.STAGE_NUMBER), NO_NUMBER),
        }
        chosen = {name: values[good] for name, values in (columns | extra | launch).items()}
        self.stages.add(**rows.take(good), **chosen)
        row, waited = fields.values(Stage.EVENT_WAIT_IDS)
        if len(row):
            self.waits.add(event=rows.columns["event"][row], state=rows.columns["state"][row], id=waited)
        return fields.damaged

    def _read_specifications(self, data: MessageBytes, fields: Fields) -> None:
        """Take in the names of queues and stages that stand in a packet; a later list takes the place of one before."""
        start, end = fields.span(Stage.SPECIFICATIONS)
        for row in np.flatnonzero((start >= 0) & ~fields.damaged).tolist():
            names: dict[int, list[str]] = {2: [], 3: []}
            try:
                for number, wire, value, behind in fields_of(data.raw, int(start[row]), int(end[row])):
                    if wire == SPAN and number in names:
                        texts = [each for each in fields_of(data.raw, value, behind) if each.number == 1]
                        name = data.text(texts[-1].value, texts[-1].end) if texts and texts[-1].wire == SPAN else b""
                        names[number].append(name.decode("utf-8", "replace"))
            except DamagedMessage:
                fields.damaged[row] = True
                continue
            self.queues, self.kinds = names[2] or self.queues, names[3] or self.kinds

    def _own_names(self, data: MessageBytes, fields: Fields) -> Int64:
        """Numbers of the names that stand in stages themselves."""
        start, end = fields.span(Stage.NAME)
        names = np.full(len(start), NO_NUMBER, np.int64)
        given = np.flatnonzero((start >= 0) & ~fields.damaged)
        names[given] = self._names.of(data, start[given], end[given])
        return names

    def _extra_data(self, data: MessageBytes, fields: Fields) -> dict[str, Int64]:
        """The columns of what every stage says as text."""
        count = len(fields.damaged)
        extra = fields.repeated(Stage.EXTRA_DATA)
        pairs = read_fields(data, extra.start, extra.end, EXTRA_DATA)
        (key_start, key_end), (start, end) = pairs.span(1), pairs.span(2)
        given = np.flatnonzero((key_start >= 0) & (start >= 0) & ~pairs.damaged)
        key = self._keys.of(data, key_start[given], key_end[given])
        columns = {}
        for name, wanted, missing in (("correlation", EXTRA_CORRELATION, NO_ID), ("bytes", EXTRA_BYTES, NULL)):
            rows = given[key == wanted]
            columns[name] = np.full(count, missing, np.int64)
            columns[name][extra.row[rows]] = decimals(data, start[rows], end[rows], missing)
        rows = given[key == EXTRA_HOST_FUNCTION]
        columns["function"] = np.full(count, NO_NUMBER, np.int64)
        columns["function"][extra.row[rows]] = self._functions.of(data, start[rows], end[rows])
        return columns

    def _launches(self, rows: PacketRows, fields: Fields) -> dict[str, Int64]:
        """Grids and blocks of kernels; their figures are kept aside."""
        start, end = fields.span(Stage.LAUNCH)
        columns = {name: np.full(len(start), NO_NUMBER, np.int64) for name in ("grid", "block")}
        launched = np.flatnonzero((start >= 0) & ~fields.damaged)
        if not len(launched):
            return columns
        launches = read_fields(rows.data, start[launched], end[launched], LAUNCH)
        for name, field in (("grid", 1), ("block", 2)):
            first, last = launches.span(field)
            given = np.flatnonzero((first >= 0) & ~launches.damaged)
            columns[name][launched[given]] = self._dimensions.of(rows.data, first[given], last[given])
        arguments = launches.repeated(3)
        figures = read_fields(rows.data, arguments.start, arguments.end, LAUNCH_ARG)
        event = rows.columns["event"][launched[arguments.row]]
        state = rows.columns["state"][launched[arguments.row]]
        self.figures.add(event=event, state=state, name_iid=figures.number(1), value=figures.number(4))
        return columns


# Samples of the counters of GPUs, as columns that grow block by block.


class GpuCounters:
    """All samples of a file, with the descriptors of counters that stand among them."""

    def __init__(self) -> None:
        self.samples = Gathered(
            "time", "event", "sequence", "state", "descriptor_iid", "counter", "value", "inline", "gpu"
        )
        self.descriptors: list[CounterDescriptor] = []
        """Descriptors that stand in packets of samples."""
        self._latest: dict[int, int] = {}
        """The last of them in each sequence."""

    def add(self, rows: PacketRows) -> Bool:
        """Take in the counter events of a block, and return which of them are damaged."""
        fields = read_fields(rows.data, rows.start, rows.end, GPU_COUNTER_EVENT)
        inline = self._inline(rows, fields)
        occurrences = fields.repeated(2)
        samples = read_fields(rows.data, occurrences.start, occurrences.end, COUNTER_SAMPLE)
        good = np.flatnonzero((samples.has(2) | samples.has(3)) & ~samples.damaged & ~fields.damaged[occurrences.row])
        row = occurrences.row[good]
        double = samples.number(3).view(np.float64)
        value = np.where(samples.has(3), double, samples.number(2).astype(np.float64))
        self.samples.add(
            **rows.take(row),
            inline=inline[row],
            gpu=np.where(fields.has(3), fields.number(3), NO_NUMBER)[row],
            descriptor_iid=fields.number(4)[row],
            counter=samples.number(1)[good],
            value=value[good],
        )
        return fields.damaged

    def _inline(self, rows: PacketRows, fields: Fields) -> Int64:
        """For each packet the last descriptor in its sequence up to it, `NO_NUMBER` for none."""
        sequence = rows.columns["sequence"]
        present = [each for each in np.unique(sequence).tolist() if each in self._latest]
        entries = [(each, 0, self._latest[each]) for each in present]
        start, end = fields.span(1)
        for row in np.flatnonzero((start >= 0) & ~fields.damaged).tolist():
            described = CounterDescriptor()
            try:
                described.read_specs(rows.data, int(start[row]), int(end[row]))
            except DamagedMessage:
                fields.damaged[row] = True
                continue
            self._latest[int(sequence[row])] = len(self.descriptors)
            entries.append((int(sequence[row]), row + 1, len(self.descriptors)))
            self.descriptors.append(described)
        keys, positions, numbers = np.array(entries, np.int64).reshape(-1, 3).T
        latest_rows = latest(keys, positions, sequence, np.arange(len(sequence)) + 1)
        return np.where(latest_rows >= 0, np.append(numbers, NO_NUMBER)[latest_rows], NO_NUMBER)
