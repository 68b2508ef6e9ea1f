"""Opens a trace: `load(path)` is the way in, for the app, the commands and for scripts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from tracetui.errors import NoEvents
from tracetui.importers import torch
from tracetui.importers.blocks import BlockReader
from tracetui.importers.chrome import TraceParts, assemble
from tracetui.importers.columns import Collector
from tracetui.importers.garbage import collector_off
from tracetui.importers.layout import FileLayout
from tracetui.importers.notes import no_events, note_layout
from tracetui.importers.source import Source, open_source
from tracetui.importers.store import BlockLocation, Container, FileBlocks, MemoryBlocks, Store
from tracetui.importers.top_keys import top_keys
from tracetui.model.trace import Quality, Trace
from tracetui.model.whole_numbers import MAX_TIME_NS, whole_number


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """How far a load has come."""

    bytes_done: int
    """Bytes taken from the disk or the pipe."""
    bytes_total: int | None
    """All there are, None for a pipe."""
    events: int
    stage: str
    """`reading`, `pairing`, `sorting` or `nesting`."""


def load(
    path: str,
    progress: Callable[[LoadProgress], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Trace:
    """Read a trace from a file, or from standard input for `-`.

    `progress` is called after every block and stage, in the calling thread. Once `cancelled` answers true, reading
    stops and what has been read becomes a trace with `quality.partial` set.
    Raises: NotFound, NotATrace, NoEvents.
    """
    stop = cancelled or (lambda: False)
    source = open_source(path, stop)
    try:
        with collector_off():
            return _load(source, progress or (lambda _: None), stop)
    finally:
        source.close()


def _load(source: Source, progress: Callable[[LoadProgress], None], cancelled: Callable[[], bool]) -> Trace:
    quality = Quality()
    collector = Collector(quality, source.label)
    store = Store(FileBlocks(source.path) if source.rereadable and source.path else MemoryBlocks())
    reader = BlockReader(source, cancelled=cancelled)

    def tell(stage: str) -> None:
        progress(LoadProgress(source.consumed, source.size, collector.events, stage))

    for block in reader:
        location = BlockLocation(block.offset, len(block.data), block.is_tolerant, block.data.startswith(b"["))
        store.add(location, block.data, collector.events)
        collector.add(block)
        tell("reading")
        if cancelled():
            break
    quality.partial = cancelled()
    layout = reader.layout
    note_layout(quality, layout, source)
    metadata = top_keys(layout, quality)
    parts = assemble(collector, quality, metadata, tell)
    if len(parts.slices) + len(parts.instants) + len(parts.counters) == 0:
        raise NoEvents(no_events(source, collector, layout))
    quality.empty = collector.empty
    store.join_ends(*parts.ends)
    store.container = Container(
        layout.container,
        # Where keys stand between arrays too, the header alone does not hold them.
        b"" if any(map(bytes.strip, layout.between)) else layout.header,
        layout.trailer,
        metadata,
        layout.is_closed and not source.damage,
        tuple(sorted(layout.oddities, key=attrgetter("offset"))),
        layout.odd_counts,
    )
    return _trace(source, layout, metadata, collector, quality, store, parts)


def _trace(
    source: Source,
    layout: FileLayout,
    metadata: dict[str, Any],
    collector: Collector,
    quality: Quality,
    store: Store,
    parts: TraceParts,
) -> Trace:
    producer = "PyTorch profiler" if parts.is_torch else "Chrome trace events"
    wrapping = "" if source.wrapping == "plain" else f", {source.wrapping}"
    base = whole_number(metadata.get("baseTimeNanoseconds"), MAX_TIME_NS) or 0
    return Trace(
        label=source.label,
        path=source.path,
        format=f"{producer}, {layout.container}{wrapping}",
        size_bytes=source.consumed if source.size is None else source.size,
        events=collector.events,
        is_torch=parts.is_torch,
        names=parts.names,
        categories=parts.categories,
        slices=parts.slices,
        lanes=parts.lanes,
        instants=parts.instants,
        flows=parts.flows,
        counters=parts.counters,
        devices=torch.devices_of(metadata),
        metadata={key: value for key, value in metadata.items() if key != "deviceProperties"},
        origin_us=parts.origin / 1000,
        origin_ns=parts.origin + base,
        window=parts.window,
        quality=quality,
        op_args=collector.arguments.ops.arguments(),
        work_args=collector.arguments.work.arguments(),
        memory_args=collector.arguments.memory.arguments(),
        store=store,
    )
