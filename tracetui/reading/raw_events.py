"""One pass over the events of a JSON trace as the bytes that they are: one block is in memory, and no columns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from typing import Any

from tracetui.errors import NotATrace
from tracetui.model.trace import Quality
from tracetui.reading.blocks import AnyBlock, BlockReader
from tracetui.reading.decode import decode_raw
from tracetui.reading.memory_budget import PER_WINDOW_BYTE
from tracetui.reading.perfetto.recognition import PROBED_BYTES, is_perfetto
from tracetui.reading.scanner.block_scanner import block_scanner
from tracetui.reading.scanner.scanned_events import ScannedBlocks
from tracetui.reading.source import open_source
from tracetui.reading.top_keys import top_keys


class RawEvents:
    """The events of a file, each as valid JSON; what stands around them is known once they have been gone through."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.metadata: dict[str, Any] = {}
        """The keys of the object around the events."""
        self.damage = ""
        """Why the file ends early, as the end of a sentence; empty where it is whole."""

    def __iter__(self) -> Iterator[list[bytes]]:
        """The events of one block after the other.

        Raises: NotFound, NotATrace.
        """
        with closing(open_source(self._path)) as source:
            start = source.peek(PROBED_BYTES)
            if is_perfetto(start, is_whole=len(start) < PROBED_BYTES):
                raise NotATrace(f"{source.label} is protobuf: only JSON traces can be merged.")
            source.read_ahead()
            reader = BlockReader(source, scanner=block_scanner())
            # Threads of the reader end with it.
            with closing(iter(reader)) as blocks:
                for block in blocks:
                    yield from _events(block)
            layout = reader.layout
            if source.damage or layout.truncated_at is not None:
                self.damage = source.damage or f"is cut off at byte {layout.truncated_at:,}"
            source.budget.check(PER_WINDOW_BYTE * sum(map(len, (layout.header, layout.trailer, *layout.between))))
            self.metadata = top_keys(layout, Quality())


def _events(block: AnyBlock) -> Iterator[list[bytes]]:
    if not isinstance(block, ScannedBlocks):
        yield decode_raw(block.data, block.is_tolerant)
        return
    for index, _ in enumerate(pairwise(block.bounds)):
        yield decode_raw(block.block(index), is_tolerant=False)
