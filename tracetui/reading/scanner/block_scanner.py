"""Scans the blocks of one file, one at a time."""

from __future__ import annotations

from tracetui.reading.scanner.library import scanner_library
from tracetui.reading.scanner.scanned_columns import ScannedColumns
from tracetui.reading.scanner.scanned_events import ScannedBlocks
from tracetui.reading.scanner.scanner import Scanner, TextNumbers

CAPACITY = 1 << 16
"""Maximum events of a block that is scanned."""


class BlockScanner:
    """Scans the blocks of one file; what it returned is valid until the next one is scanned."""

    def __init__(self, scanner: Scanner, numbers: TextNumbers) -> None:
        self._scanner = scanner
        self._numbers = numbers
        self._columns = ScannedColumns(CAPACITY, blocks=1)

    def scan(self, data: bytes, offset: int) -> ScannedBlocks | None:
        """The events of a block at an offset of the file, None where it is to be read in Python."""
        size = len(data.rstrip())
        self._columns.clear()
        if not self._scanner.scan(data, size, self._columns):
            return None
        texts = self._scanner.new_texts()
        return ScannedBlocks(self._columns, data, (0, size - 1), offset, texts, self._numbers)


def block_scanner() -> BlockScanner | None:
    """What scans one file, None where events are read in Python."""
    library = scanner_library()
    return None if library is None else BlockScanner(Scanner(library), TextNumbers())
