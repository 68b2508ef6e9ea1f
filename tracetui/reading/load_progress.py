"""How far a load has come: for those who show it, which need not know how traces are read."""

from __future__ import annotations

from typing import NamedTuple


class LoadProgress(NamedTuple):
    """How far a load has come."""

    bytes_done: int
    """Bytes taken from the disk or the pipe."""
    bytes_total: int | None
    """All there are, None for a pipe."""
    events: int
    stage: str
    """`reading`, `pairing`, `sorting` or `nesting`; `opening` where it comes from the cache."""
