"""Of the one damaged file that is long its beginning, for tests of every damaged file."""

from __future__ import annotations

import gzip
from pathlib import Path

LONG = "r02_json_lines_real.pfw.gz"
"""94,000 lines that are read one by one; whole only where their number is asked for."""
LINES = 2_000


def shortened(path: Path, folder: Path) -> Path:
    """The first lines of the long file as a file of a folder, which are like all others; any other path as it is."""
    if path.name != LONG:
        return path
    lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
    assert len(lines) > 10 * LINES
    short = folder / LONG
    short.write_bytes(gzip.compress(b"".join(lines[:LINES]), 1))
    return short
