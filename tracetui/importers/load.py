"""Opens a trace: `load(path)` is the way in, for the app, the commands and for scripts."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from tracetui.errors import NoEvents
from tracetui.importers import torch
from tracetui.importers.blocks import BlockReader, Findings
from tracetui.importers.chrome import TraceParts, assemble
from tracetui.importers.columns import Collector
from tracetui.importers.garbage import collector_off
from tracetui.importers.source import Source, open_source
from tracetui.importers.store import BlockLocation, Container, FileBlocks, MemoryBlocks, Store
from tracetui.importers.tolerant import parse_value, readable
from tracetui.model.trace import EXAMPLES, UNREADABLE, Quality, Trace

_TOP_KEY = re.compile(r'"([A-Za-z_]+)"\s*:\s*')


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
    collector = Collector(quality)
    store = Store(FileBlocks(source.path) if source.rereadable and source.path else MemoryBlocks())
    reader = BlockReader(source)

    def tell(stage: str) -> None:
        progress(LoadProgress(source.consumed, source.size, collector.events, stage))

    for block in reader:
        place = BlockLocation(block.offset, len(block.data), block.is_tolerant)
        store.add(place, block.data, collector.events)
        collector.add(block)
        tell("reading")
        if cancelled():
            break
    quality.partial = cancelled()
    findings = reader.findings
    _tell_quality(quality, findings, source)
    metadata = _metadata(findings)
    metadata_events = len(collector.metadata)
    parts = assemble(collector, quality, metadata, tell)
    if len(parts.slices) + len(parts.instants) + len(parts.counters) == 0:
        raise NoEvents(_no_events(source, collector.events, metadata_events, quality))
    store.join_ends(*parts.ends)
    store.container = Container(
        findings.container, findings.header, findings.trailer, metadata, findings.is_closed and not source.damage
    )
    return _trace(source, findings, metadata, collector, quality, store, parts)


def _trace(
    source: Source,
    findings: Findings,
    metadata: dict[str, Any],
    collector: Collector,
    quality: Quality,
    store: Store,
    parts: TraceParts,
) -> Trace:
    producer = "PyTorch profiler" if parts.is_torch else "Chrome trace events"
    wrapping = "" if source.wrapping == "plain" else f", {source.wrapping}"
    base = metadata.get("baseTimeNanoseconds")
    return Trace(
        label=source.label,
        path=source.path,
        format=f"{producer}, {findings.container}{wrapping}",
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
        origin_ns=parts.origin + (base if isinstance(base, int) else 0),
        window=parts.window,
        quality=quality,
        op_args=collector.arguments.ops.arguments(),
        work_args=collector.arguments.work.arguments(),
        memory_args=collector.arguments.memory.arguments(),
        store=store,
    )


def _tell_quality(quality: Quality, findings: Findings, source: Source) -> None:
    quality.dropped += findings.dropped
    quality.repaired += findings.repaired
    quality.examples = sorted(findings.examples + quality.examples)[:EXAMPLES]
    if quality.partial:
        quality.notes.append("Loading was stopped: this is the part that had been read.")
        return
    quality.truncated_at = findings.truncated_at
    if source.damage:
        quality.notes.append(f"The file is cut off: {source.damage}; everything before that is shown.")
    elif findings.truncated_at is not None:
        quality.notes.append(
            f"The file is cut off at byte {findings.truncated_at:,}: its last event is incomplete and was left out."
        )
    if findings.dropped:
        first = next((byte for byte, what in findings.examples if what.startswith(UNREADABLE)), None)
        where = "" if first is None else f", the first at byte {first:,}"
        quality.notes.append(f"{findings.dropped:,} events could not be read{where}.")
    if findings.repaired:
        quality.notes.append(f"{findings.repaired:,} events are not valid JSON and were mended.")


def _no_events(source: Source, events: int, metadata_events: int, quality: Quality) -> str:
    if metadata_events and not quality.truncated_at:
        return f"{source.label} holds {metadata_events:,} metadata events and none that is timed: nothing to show."
    if quality.truncated_at is not None or source.damage:
        where = source.damage or f"it is cut off at byte {quality.truncated_at:,}"
        return f"{source.label} holds no complete event: {where}."
    return f"{source.label} holds no timed event ({events:,} events in all): nothing to show."


def _metadata(findings: Findings) -> dict[str, Any]:
    """The top-level keys around the events; one by one where they are not valid JSON together."""
    if findings.container != "object":
        return {}
    for ending in (findings.trailer, b"}"):
        try:
            whole = msgspec.json.decode(findings.header + b"[]" + ending)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        if isinstance(whole, dict):
            whole.pop("traceEvents", None)
            return whole
    found: dict[str, Any] = {}
    for part in map(readable, (findings.header, findings.trailer)):
        place = 0
        while match := _TOP_KEY.search(part, place):
            value, place = parse_value(part, match.end())
            if place > match.end() and match[1] != "traceEvents":
                found.setdefault(match[1], value)
    return found
