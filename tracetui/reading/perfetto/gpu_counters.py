"""Samples of the counters of GPUs, as columns that grow block by block."""

from __future__ import annotations

import numpy as np

from tracetui.model.intervals import Bool, Int64
from tracetui.reading.gathered import Gathered
from tracetui.reading.perfetto.interned import CounterDescriptor
from tracetui.reading.perfetto.schemas import COUNTER_SAMPLE, GPU_COUNTER_EVENT
from tracetui.reading.perfetto.sequences import latest
from tracetui.reading.perfetto.track_events import NO_NUMBER, PacketRows
from tracetui.reading.perfetto.wire import DamagedMessage, Fields, read_fields


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
        found = fields.repeated(2)
        samples = read_fields(rows.data, found.start, found.end, COUNTER_SAMPLE)
        good = np.flatnonzero((samples.has(2) | samples.has(3)) & ~samples.damaged & ~fields.damaged[found.row])
        row = found.row[good]
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
        found = latest(keys, positions, sequence, np.arange(len(sequence)) + 1)
        return np.where(found >= 0, np.append(numbers, NO_NUMBER)[found], NO_NUMBER)
