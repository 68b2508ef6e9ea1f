"""The progress of a load, and the garbage collector kept out of the way. Needs no numpy."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple


class LoadProgress(NamedTuple):
    """Progress of a load."""

    bytes_done: int
    """Bytes taken from the disk or the pipe."""
    bytes_total: int | None
    """All there are, None for a pipe."""
    events: int
    stage: str
    """`reading`, `pairing`, `sorting` or `nesting`; `opening` where it comes from the cache."""


@contextmanager
def collector_off() -> Iterator[None]:
    """Pause the cyclic collector: decoding makes no cycles, and looking for them doubles its time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
