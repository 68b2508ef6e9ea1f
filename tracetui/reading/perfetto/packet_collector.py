"""Collects the columns of a Perfetto trace while its blocks go by: each packet goes to what reads its kind.

Work on GPUs (render stages) and their counters are read here.
"""

from __future__ import annotations

import numpy as np

from tracetui.errors import NotATrace
from tracetui.model.intervals import Bool, Int64
from tracetui.model.recorded import MAX_TIME_NS
from tracetui.model.table import NULL
from tracetui.model.trace import BEGINNING, EXAMPLES, NO_ID, UNREADABLE, UNTIMED, Int32
from tracetui.reading.columns import MAX_KEYS, Collector, Gathered
from tracetui.reading.perfetto.packets import PacketBlock
from tracetui.reading.perfetto.recognition import ENVELOPE_FIELDS, PACKET_KINDS
from tracetui.reading.perfetto.schemas import (
    COUNTER_SAMPLE,
    EXTRA_DATA,
    GPU_COUNTER_EVENT,
    LAUNCH,
    LAUNCH_ARG,
    PACKET,
    RENDER_STAGE,
)
from tracetui.reading.perfetto.schemas import PacketField as Packet
from tracetui.reading.perfetto.schemas import StageField as Stage
from tracetui.reading.perfetto.sequences import (
    BOOTTIME,
    NO_DEFAULT,
    CounterDescriptor,
    Default,
    Interned,
    PacketTimes,
    RunningStates,
    SequenceDefaults,
    latest,
    read_default,
)
from tracetui.reading.perfetto.track_events import NO_NUMBER, PacketRows, TrackEvents, dimensions_json
from tracetui.reading.perfetto.tracks import Tracks
from tracetui.reading.perfetto.wire import (
    MAX_FIELD,
    SPAN,
    DamagedMessage,
    Fields,
    MessageBytes,
    Schema,
    TextNumbers,
    decimals,
    fields_of,
    read_fields,
)

CORRELATION, BYTES, HOST_FUNCTION = range(3)
_WANTED = {b"correlation": CORRELATION, b"bytes": BYTES, b"host fn": HOST_FUNCTION}
"""Extra data that become columns."""
_UNWANTED = len(_WANTED)
HOST_NODE = "HostNode"
"""The stage of a graph's node that calls a function on the host."""


class RenderStages:
    """All render stages of a file."""

    def __init__(self, collector: Collector) -> None:
        names = collector.names
        self._keys = TextNumbers(lambda raw: _WANTED.get(raw, _UNWANTED))
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
        for name, wanted, missing in (("correlation", CORRELATION, NO_ID), ("bytes", BYTES, NULL)):
            rows = given[key == wanted]
            columns[name] = np.full(count, missing, np.int64)
            columns[name][extra.row[rows]] = decimals(data, start[rows], end[rows], missing)
        rows = given[key == HOST_FUNCTION]
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


# Packets whose content is not shown here, counted by kind.

SHOWN_FIELDS = frozenset({6, 11, 43, 44, 50, 52, 53, 60, 133})
"""Kinds of packets that are read: clocks, tracks and their events, what ran on GPUs, counters, packed packets."""
MAX_KINDS = 1000
"""Maximum kinds that are counted by name."""
OTHER_KINDS = "other kinds"
_KINDS = tuple(number for number in PACKET_KINDS if number not in SHOWN_FIELDS and number <= MAX_FIELD)
_SCHEMA = Schema(numbers=_KINDS, spans=_KINDS)


class NotShown:
    """Counts of packets that hold something else than what is read."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        """Packets by the name of their kind."""

    def add(self, data: MessageBytes, start: Int64, end: Int64) -> Bool:
        """Count packets in which nothing was found that is read; returns which of them are of some kind."""
        fields = read_fields(data, start, end, _SCHEMA)
        left = np.ones(len(start), bool)
        for number in _KINDS:
            has = fields.has(number) & left
            if has.any():
                self._count(PACKET_KINDS[number], int(has.sum()))
                left &= ~has
        unknown = np.zeros(len(start), bool)
        for row in np.flatnonzero(left & ~fields.damaged).tolist():
            unknown[row] = self._count_unknown(data, int(start[row]), int(end[row]))
        of_kind: Bool = ~left | unknown
        return of_kind

    def _count_unknown(self, data: MessageBytes, start: int, end: int) -> bool:
        """Count a packet of a kind that has no name here; False for one without content."""
        try:
            for field in fields_of(data.raw, start, end):
                if field.number not in ENVELOPE_FIELDS and field.number not in SHOWN_FIELDS:
                    self._count(PACKET_KINDS.get(field.number, f"field {field.number}"), 1)
                    return True
        except DamagedMessage:
            pass
        return False

    def _count(self, kind: str, count: int) -> None:
        name = kind if kind in self.counts or len(self.counts) < MAX_KINDS else OTHER_KINDS
        self.counts[name] = self.counts.get(name, 0) + count


CLEARED, NEEDS_STATE = 1, 2
"""Flags of a packet: it clears the state of its sequence, and it rests on what was interned in that state."""
MAX_PACKETS = 1 << 14
"""Packets whose columns are in memory at a time; tiny ones stand by the hundred thousand in a block."""
_READ_KINDS = (
    Packet.CLOCK_SNAPSHOT,
    Packet.TRACK_EVENT,
    Packet.PROCESS_DESCRIPTOR,
    Packet.THREAD_DESCRIPTOR,
    Packet.GPU_COUNTER_EVENT,
    Packet.GPU_RENDER_STAGE,
    Packet.TRACK_DESCRIPTOR,
)
"""Fields of packets whose content is read."""
_NEEDED_KINDS = (
    Packet.PROCESS_TREE,
    Packet.INTERNED_DATA,
    Packet.CLOCK_SNAPSHOT,
    Packet.DEFAULTS,
    Packet.TRACK_DESCRIPTOR,
    Packet.PROCESS_DESCRIPTOR,
    Packet.THREAD_DESCRIPTOR,
)
"""Fields on which other packets rest."""


class PacketCollector:
    """Everything that is kept of the packets of a file."""

    def __init__(self, collector: Collector) -> None:
        self.collector = collector
        self.tracks = Tracks()
        self.states = RunningStates()
        self.interned = Interned()
        self.track_events = TrackEvents(collector, self.tracks)
        self.stages = RenderStages(collector)
        self.gpu_counters = GpuCounters()
        self.times = PacketTimes()
        self.not_shown = NotShown()
        self.damaged = 0
        """Packets that could not be read."""
        self.offenders: list[tuple[int, str]] = []
        """The first of them: where they stand, and how they begin."""
        self._damaged: list[Int32] = []
        self._needed: list[Int32] = []
        self._defaults = SequenceDefaults()

    def add(self, block: PacketBlock) -> Int64:
        """Take in the packets of one block, and return the states that they use.

        Raises: NotATrace for more tracks than any trace has.
        """
        frames = block.frames
        parts = range(0, len(frames.start), MAX_PACKETS)
        return np.concatenate(
            [
                self._add(block, frames.start[row : row + MAX_PACKETS], frames.end[row : row + MAX_PACKETS])
                for row in parts
            ]
        )

    def _add(self, block: PacketBlock, start: Int64, end: Int64) -> Int64:
        """Take in some of the packets of a block."""
        data = block.data
        fields = read_fields(data, start, end, PACKET)
        event = np.arange(len(start)) + self.collector.events
        sequence = fields.number(Packet.SEQUENCE)
        flags = fields.number(Packet.SEQUENCE_FLAGS)
        clears = (flags & CLEARED) | fields.number(Packet.STATE_CLEARED)
        loses = fields.number(Packet.PACKET_DROPPED) != 0
        self.collector.quality.losses += int(np.count_nonzero(loses))
        states = self.states.of(sequence, clears != 0, loses)
        time = fields.number(Packet.TIMESTAMP)
        untimed = ~fields.has(Packet.TIMESTAMP) | (time < 0) | (time > MAX_TIME_NS // 2)
        columns = {"time": time, "event": event, "sequence": sequence, "state": states.number}
        needs_state = (flags & NEEDS_STATE) != 0
        # Packed packets within packed ones are none that a writer makes.
        damaged = fields.damaged | fields.has(Packet.ZLIB_PACKETS) | fields.has(Packet.ZSTD_PACKETS)
        self._add_descriptions(data, fields, columns, damaged)
        track = self._add_defaults(data, fields, columns, damaged)
        self._count_others(data, fields, start, end, damaged)
        lost = np.zeros(len(start), bool)
        for kind, reader in (
            (Packet.TRACK_EVENT, self.track_events),
            (Packet.GPU_RENDER_STAGE, self.stages),
            (Packet.GPU_COUNTER_EVENT, self.gpu_counters),
        ):
            first, last = fields.span(kind)
            own = (first >= 0) & ~damaged
            lost |= own & untimed
            rows = np.flatnonzero(own & ~untimed)
            if len(rows):
                chosen = {name: each[rows] for name, each in columns.items()}
                part = PacketRows(data, first[rows], last[rows], chosen, needs_state[rows], track[rows])
                damaged[rows] |= reader.add(part)
        needed = (clears != 0) | loses
        for kind in _NEEDED_KINDS:
            needed |= fields.has(kind)
        self._needed.append(event[needed].astype(np.int32))
        self._count_unread(block, start, end, lost, damaged)
        self.collector.events += len(start)
        if len(self.tracks.uuids) > MAX_KEYS:
            label = self.collector.label
            raise NotATrace(f"{label} has more than {MAX_KEYS:,} threads, as no trace does: it is not opened.")
        return states.number

    def _add_descriptions(self, data: MessageBytes, fields: Fields, columns: dict[str, Int64], damaged: Bool) -> None:
        """Take in what is no event: interned data, tracks and clocks."""
        start, end = fields.span(Packet.INTERNED_DATA)
        rows = np.flatnonzero((start >= 0) & ~damaged)
        if len(rows):
            event, state = columns["event"][rows], columns["state"][rows]
            damaged[rows] |= self.interned.add(data, start[rows], end[rows], event, state)
        for kind, add in (
            (Packet.TRACK_DESCRIPTOR, self._add_track),
            (Packet.CLOCK_SNAPSHOT, self._add_snapshot),
            (Packet.PROCESS_TREE, self._add_tree),
        ):
            start, end = fields.span(kind)
            for row in np.flatnonzero((start >= 0) & ~damaged).tolist():
                try:
                    place = int(columns["event"][row]), int(columns["sequence"][row])
                    add(data, int(start[row]), int(end[row]), *place)
                except DamagedMessage:
                    damaged[row] = True

    def _add_track(self, data: MessageBytes, start: int, end: int, event: int, sequence: int) -> None:
        self.tracks.add(data, start, end)

    def _add_tree(self, data: MessageBytes, start: int, end: int, event: int, sequence: int) -> None:
        self.tracks.add_tree(data, start, end)

    def _add_defaults(self, data: MessageBytes, fields: Fields, columns: dict[str, Int64], damaged: Bool) -> Int64:
        """Take in what holds for later packets, and the times of those that name a clock; returns default tracks."""
        defaults: dict[int, Default] = {}
        for kind in (Packet.PROCESS_DESCRIPTOR, Packet.THREAD_DESCRIPTOR, Packet.DEFAULTS):
            start, end = fields.span(kind)
            for row in np.flatnonzero((start >= 0) & ~damaged).tolist():
                try:
                    default = self._default(data, kind, int(start[row]), int(end[row]))
                except DamagedMessage:
                    damaged[row] = True
                    continue
                if default is not None:
                    defaults[row] = default
        defaults = dict(sorted(defaults.items()))
        clock, track = self._defaults.of(columns["state"], defaults)
        clock = np.where(fields.has(Packet.CLOCK_ID), fields.number(Packet.CLOCK_ID) & 0xFFFFFFFF, clock)
        other = np.flatnonzero((clock != 0) & (clock != BOOTTIME) & fields.has(Packet.TIMESTAMP) & ~damaged)
        if len(other):
            self.times.add(columns["event"][other], columns["time"][other], clock[other], columns["sequence"][other])
        return np.where(track == NO_DEFAULT, 0, track)

    def _default(self, data: MessageBytes, kind: int, start: int, end: int) -> Default | None:
        """The state that a packet sets for those behind it; the thread of a sequence is the track of its events.

        Raises: DamagedMessage.
        """
        if kind == Packet.DEFAULTS:
            return read_default(data, start, end)
        uuid = self.tracks.add_owner(data, 3 if kind == Packet.PROCESS_DESCRIPTOR else 4, start, end)
        return None if uuid is None else Default(track=uuid - (1 << 64))

    def _count_others(self, data: MessageBytes, fields: Fields, start: Int64, end: Int64, damaged: Bool) -> None:
        """Count packets of kinds that are not read."""
        known = damaged.copy()
        for kind in _READ_KINDS:
            known |= fields.has(kind)
        rows = np.flatnonzero(~known)
        if len(rows):
            self.not_shown.add(data, start[rows], end[rows])

    def _add_snapshot(self, data: MessageBytes, start: int, end: int, event: int, sequence: int) -> None:
        self.times.add_snapshot(data, start, end, event, sequence)

    def _count_unread(self, block: PacketBlock, start: Int64, end: Int64, untimed: Bool, damaged: Bool) -> None:
        """Count packets that could not be read or placed in time, and keep the first."""
        quality = self.collector.quality
        untimed &= ~damaged
        self.collector.untimed += int(np.count_nonzero(untimed))
        self.damaged += int(np.count_nonzero(damaged))
        self._damaged.append((np.flatnonzero(damaged) + self.collector.events).astype(np.int32))
        for reason, mask, examples in ((UNREADABLE, damaged, self.offenders), (UNTIMED, untimed, quality.examples)):
            for row in np.flatnonzero(mask)[: EXAMPLES - len(examples)].tolist():
                first = int(start[row])
                beginning = block.data.text(first, min(int(end[row]), first + BEGINNING // 3)).hex(" ")
                examples.append((block.offset + first, f"{reason}: {beginning}"))

    def needed_packets(self) -> Int32:
        """The numbers of the packets that others rest on."""
        return np.concatenate([np.empty(0, np.int32), *self._needed])

    def damaged_packets(self) -> Int32:
        """The numbers of the packets that could not be read."""
        return np.concatenate([np.empty(0, np.int32), *self._damaged])

    def note_contents(self, bomb: str) -> None:
        """Say what the file holds beside what is shown, what its writer lost, and why packed packets were left out."""
        quality = self.collector.quality
        quality.packets, quality.not_shown = self.collector.events, self.not_shown.counts
        quality.skipped_phases |= self.track_events.skipped
        if quality.losses:
            places = "place" if quality.losses == 1 else "places"
            quality.notes.append(
                f"The program that wrote the file lost packets in {quality.losses:,} {places}: slices may be missing."
            )
        if bomb:
            quality.notes.append(f"Packed packets were left out: {bomb}.")
