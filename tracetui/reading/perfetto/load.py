"""Opens a Perfetto trace: its blocks become columns, and these the parts of a trace that JSON is read into."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tracetui.errors import NoEvents
from tracetui.model.intervals import Int64
from tracetui.model.losses import TORCH_PFTRACE
from tracetui.model.trace import Quality, Trace
from tracetui.reading.chrome import TraceParts, assemble, trace_of
from tracetui.reading.columns import Collector
from tracetui.reading.memory_budget import PER_EVENT
from tracetui.reading.notes import no_events, note_events, note_layout, note_times
from tracetui.reading.perfetto.assembly import Assembly
from tracetui.reading.perfetto.packet_collector import PacketCollector
from tracetui.reading.perfetto.packets import PacketReader
from tracetui.reading.perfetto.store import CopyRules, PacketStore
from tracetui.reading.source import Source
from tracetui.reading.store import FileBlocks, MemoryBlocks


def load_perfetto(source: Source, tell: Callable[[str, int], None], cancelled: Callable[[], bool]) -> Trace:
    """Read a trace whose content is Perfetto's; `tell` hears the stage and the number of packets so far.

    Raises: NoEvents, NotATrace.
    """
    quality = Quality()
    packets = PacketCollector(Collector(quality, source.label))
    collector = packets.collector
    store = PacketStore(
        FileBlocks(source.path) if source.rereadable and source.path else MemoryBlocks(), packets.interned
    )
    reader = PacketReader(source, cancelled)
    try:
        for block in reader:
            first = collector.events
            states = packets.add(block)
            store.add(block, first, states)
            tell("reading", collector.events)
            if cancelled():
                break
    finally:
        store.finish()
    quality.partial = cancelled()
    reader.layout.dropped += packets.damaged + reader.unpacker.damaged
    reader.layout.examples += packets.offenders
    note_layout(quality, reader.layout, source)
    packets.note_contents(reader.unpacker.bomb)
    source.budget.check(PER_EVENT * collector.events)
    note_events(quality, collector)
    tell("pairing", collector.events)
    assembly = Assembly(packets)
    assembly.fill(store)
    parts = assemble(collector, quality, {}, lambda stage: tell(stage, collector.events))
    note_times(quality)
    if len(parts.slices) + len(parts.instants) + len(parts.counters) == 0 and not quality.not_shown:
        raise NoEvents(no_events(source, collector, reader.layout))
    if parts.is_torch and assembly.is_from_torch:
        quality.format_losses = TORCH_PFTRACE
    store.join_ends(*_joined(assembly.ends, parts.ends))
    store.rules = _with_pairs(assembly.rules, parts.ends)
    return _trace(source, collector, parts, packets, store)


def _joined(pairs: tuple[Int64, Int64], others: tuple[Int64, Int64]) -> tuple[Int64, Int64]:
    """Two sets of begins and their ends in one, by the begins."""
    begins, ends = (np.concatenate(both) for both in zip(pairs, others, strict=True))
    order = np.argsort(begins, kind="stable")
    return begins[order], ends[order]


def _with_pairs(rules: CopyRules, asyncs: tuple[Int64, Int64]) -> CopyRules:
    """The rules with the pairs of asynchronous slices, which are found when all lanes are known."""
    begins, ends = _joined((rules.begins.astype(np.int64), rules.ends.astype(np.int64)), asyncs)
    return replace(rules, begins=begins.astype(np.int32), ends=ends.astype(np.int32))


def _trace(
    source: Source, collector: Collector, parts: TraceParts, packets: PacketCollector, store: PacketStore
) -> Trace:
    form = "PyTorch profiler, Perfetto" if parts.is_torch else "Perfetto"
    times = packets.times
    return replace(
        trace_of(source, collector, parts, store, form),
        origin_us=(parts.origin - times.wall_base) / 1000,
        origin_ns=times.wall_time(parts.origin),
    )
