"""Work on GPUs (render stages), as columns that grow block by block."""

from __future__ import annotations

import numpy as np

from tracetui.model.intervals import Bool, Int64
from tracetui.model.table import NULL
from tracetui.model.trace import NO_ID
from tracetui.reading.columns import Collector, Gathered
from tracetui.reading.perfetto.schemas import (
    COUNTER_SAMPLE,
    EXTRA_DATA,
    GPU_COUNTER_EVENT,
    LAUNCH,
    LAUNCH_ARG,
    RENDER_STAGE,
)
from tracetui.reading.perfetto.schemas import StageField as Stage
from tracetui.reading.perfetto.sequences import CounterDescriptor, latest
from tracetui.reading.perfetto.track_events import NO_NUMBER, PacketRows, dimensions_json
from tracetui.reading.perfetto.wire import (
    SPAN,
    DamagedMessage,
    Fields,
    MessageBytes,
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
