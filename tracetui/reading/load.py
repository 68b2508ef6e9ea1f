"""Opens a trace: `load(path)` is the way in, for the app, the commands and for scripts."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from tracetui.errors import NoEvents, NotATrace, NotEnoughMemory
from tracetui.model.recorded import MAX_TIME_NS, whole_number
from tracetui.model.table import Strings
from tracetui.model.trace import Kind, Quality, Trace, is_simulated
from tracetui.reading import torch
from tracetui.reading.blocks import AnyBlock, BlockReader
from tracetui.reading.chrome import TraceParts, assemble, no_events, note_events, note_layout, note_times, trace_of
from tracetui.reading.columns import Collector
from tracetui.reading.decode import decode_raw
from tracetui.reading.file_layout import FileLayout, top_keys
from tracetui.reading.load_progress import PER_EVENT, PER_WINDOW_BYTE, LoadProgress, collector_off, not_enough_memory
from tracetui.reading.other_files import LOG, is_database, is_report
from tracetui.reading.perfetto.recognition import PROBED_BYTES, is_perfetto
from tracetui.reading.scanner.scanned_events import ScannedBlocks, block_scanner
from tracetui.reading.source import Source, open_source
from tracetui.reading.store import BlockLocation, Container, FileBlocks, MemoryBlocks, Store

# Names of copies whose producer writes the direction beside the name: `Memcpy` with `copy kind` (torch 2.15, R2.25a).
#
# They get the name that every other recording of torch has, `Memcpy DtoH (Device -> Pinned)`, which says what analyses
# ask of it. Where the arguments do not tell, the name stays.

_NAME = "Memcpy"
_KEYS = ("copy kind", "src kind", "dst kind")
_DIRECTION, _MEMORY = re.compile(r"[HDAPU]to[HDAPU]"), re.compile(r"[A-Za-z]{1,20}")


def with_directions(trace: Trace) -> Trace:
    """The trace with the direction in the names of its copies, where only their arguments have it."""
    number = trace.names.find(_NAME)
    if number < 0:
        return trace
    slices = trace.slices
    rows = np.flatnonzero((slices.name == number) & (slices.kind == Kind.MEMCPY))
    if len(rows) == 0:
        return trace
    given = list(zip(*trace.args_of(rows, _KEYS), strict=True))
    texts = Strings(trace.names)
    # Arguments as texts, empty for anything else.
    arguments = [tuple(value if isinstance(value, str) else "" for value in values) for values in given]
    known = {each: texts.intern(name) for each in set(arguments) if (name := _copy_name(each))}
    names = slices.name.copy()
    names[rows] = [known.get(each, number) for each in arguments]
    return replace(trace, names=texts, slices=replace(slices, name=names))


def _copy_name(arguments: tuple[str, ...]) -> str:
    """`Memcpy DtoH (Device -> Pinned)`, empty where the arguments say something else."""
    direction, source, target = arguments
    if not (_DIRECTION.fullmatch(direction) and _MEMORY.fullmatch(source) and _MEMORY.fullmatch(target)):
        return ""
    return f"{_NAME} {direction} ({source.capitalize()} -> {target.capitalize()})"


def load(
    path: str,
    progress: Callable[[LoadProgress], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Trace:
    """Read a trace from a file, or from standard input for `-`.

    `progress` is called after every block and stage, in the calling thread. Once `cancelled` answers true, which
    another thread may ask for a pipe, reading stops and what has been read becomes a trace with `quality.partial` set.
    Raises: NotFound, NotATrace, NoEvents, NotEnoughMemory.
    """
    stop = cancelled or (lambda: False)
    if is_report(path):
        from tracetui.reading.nsight.database import exported

        return replace(
            load(exported(path, stop), progress, cancelled), label=Path(path).name, path=os.path.abspath(path)
        )
    source = open_source(path, stop)
    try:
        with collector_off():
            start = source.peek(PROBED_BYTES)
            source.read_ahead()

            def tell(stage: str, events: int) -> None:
                if progress is not None:
                    progress(LoadProgress(source.consumed, source.size, events, stage))

            # 10 ms of import each that JSON does not pay.
            if is_database(start):
                from tracetui.reading.nsight.load import load_nsight

                return load_nsight(source, tell, stop)
            if is_perfetto(start, is_whole=len(start) < PROBED_BYTES):
                from tracetui.reading.perfetto.load import load_perfetto

                return load_perfetto(source, tell, stop)
            return with_directions(_load(source, progress or (lambda _: None), stop))
    except MemoryError as error:
        raise error if isinstance(error, NotEnoughMemory) else not_enough_memory(source.label) from error
    except RuntimeError as error:
        # A thread needs addresses for its stack.
        if "start new thread" not in str(error):
            raise
        raise not_enough_memory(source.label) from error
    finally:
        source.close()


def _load(source: Source, progress: Callable[[LoadProgress], None], cancelled: Callable[[], bool]) -> Trace:
    quality = Quality()
    collector = Collector(quality, source.label)
    store = Store(FileBlocks(source.path) if source.rereadable and source.path else MemoryBlocks())
    reader = BlockReader(source, cancelled=cancelled, scanner=block_scanner())

    def tell(stage: str) -> None:
        progress(LoadProgress(source.consumed, source.size, collector.events, stage))

    try:
        # Threads of the reader end with it.
        with closing(iter(reader)) as blocks:
            for block in blocks:
                for location, data, first in _locations(block):
                    store.add(location, data, collector.events + first)
                collector.add(block)
                tell("reading")
                if cancelled():
                    break
    finally:
        store._blocks.finish()
    quality.partial = cancelled()
    layout = reader.layout
    source.budget.check(PER_WINDOW_BYTE * sum(map(len, (layout.header, layout.trailer, *layout.between))))
    metadata = top_keys(layout, quality)
    note_layout(quality, layout, source)
    source.budget.check(PER_EVENT * collector.events)
    note_events(quality, collector)
    parts = assemble(collector, quality, metadata, tell)
    if len(parts.slices) + len(parts.instants) + len(parts.counters) == 0:
        raise NoEvents(no_events(source, collector, layout))
    note_times(quality)
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
    return _trace(source, layout, metadata, collector, store, parts)


def _locations(block: AnyBlock) -> Iterator[tuple[BlockLocation, Callable[[], bytes], int]]:
    """Location of each of some blocks, a function that gives its bytes, and the index of its first event."""
    if isinstance(block, ScannedBlocks):
        firsts = [0, *block.columns.ends("events")]
        for index, (begin, end) in enumerate(pairwise(block.bounds)):
            location = BlockLocation(block.offset + begin, end + 1 - begin, is_tolerant=False)
            yield location, partial(block.block, index), firsts[index]
        return
    has_bracket = block.data.startswith(b"[")
    yield BlockLocation(block.offset, len(block.data), block.is_tolerant, has_bracket), lambda: block.data, 0


def _trace(
    source: Source,
    layout: FileLayout,
    metadata: dict[str, Any],
    collector: Collector,
    store: Store,
    parts: TraceParts,
) -> Trace:
    producer = "PyTorch profiler" if parts.is_torch else "Chrome trace events"
    if source.wrapping == LOG:
        return replace(
            trace_of(source, collector, parts, store, ""), format=LOG, origin_ns=parts.origin, metadata=metadata
        )
    trace = trace_of(source, collector, parts, store, f"{producer}, {layout.container}")
    label = trace.label
    if is_simulated(metadata) and "simulated" not in label:
        label = f"simulated {label}"
    return replace(
        trace,
        label=label,
        devices=torch.devices_of(metadata),
        metadata={key: value for key, value in metadata.items() if key != "deviceProperties"},
        origin_ns=parts.origin + (whole_number(metadata.get("baseTimeNanoseconds"), MAX_TIME_NS) or 0),
    )


# One pass over the events of a JSON trace as the bytes that they are: one block is in memory, and no columns.


class RawEvents:
    """The events of a file, each as valid JSON; what stands around them is known once they have been gone through."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.metadata: dict[str, Any] = {}
        """The keys of the object around the events."""
        self.damage = ""
        """The reason why the file ends early, as the end of a sentence; empty where it is whole."""

    def __iter__(self) -> Iterator[list[bytes]]:
        """The events of one block after the other.

        Raises: NotFound, NotATrace.
        """
        with closing(open_source(self._path)) as source:
            start = source.peek(PROBED_BYTES)
            if is_perfetto(start, is_whole=len(start) < PROBED_BYTES):
                raise NotATrace(f"{source.label} is protobuf: only JSON traces can be merged.")
            if is_database(start):
                raise NotATrace(f"{source.label} is SQLite: only JSON traces can be merged.")
            source.read_ahead()
            reader = BlockReader(source, scanner=block_scanner())
            # Threads of the reader end with it.
            with closing(iter(reader)) as blocks:
                for block in blocks:
                    if isinstance(block, ScannedBlocks):
                        for index in range(len(block.bounds) - 1):
                            yield decode_raw(block.block(index), is_tolerant=False)
                    else:
                        yield decode_raw(block.data, block.is_tolerant)
            layout = reader.layout
            if source.damage or layout.truncated_at is not None:
                self.damage = source.damage or f"is cut off at byte {layout.truncated_at:,}"
            source.budget.check(PER_WINDOW_BYTE * sum(map(len, (layout.header, layout.trailer, *layout.between))))
            self.metadata = top_keys(layout, Quality())
