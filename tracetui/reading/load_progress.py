"""The progress of opening a file, and the memory that it may take: 20 times its size, and a fixed amount beside.

What a file inflates to is no measure: 3 MB of gzip may hold twenty million events, each of them valid. So the memory of
the process is looked at between two blocks, and what is about to be made of a long stretch is counted beforehand.
Files that could not reach the limit, as plain ones, are never looked at. Needs no numpy.
"""

from __future__ import annotations

import gc
import os
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import ClassVar, NamedTuple

from tracetui.errors import NotATrace, NotEnoughMemory


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


MOST_PER_BYTE = 20
"""Bytes of memory for a byte of the file; `test_bounds.py` holds that no plain file takes more."""
BESIDE = 1 << 28
"""Bytes beside: the libraries, and the blocks that are under way. The worst of real traces takes 150 MB."""
PER_WINDOW_BYTE = 16
"""Bytes of memory that are made of a byte of a stretch which is read as a whole, at most."""
PER_EVENT = 64
"""Bytes of memory that the columns of an event take at most while lanes are made of them, beside the columns."""
HEADROOM = 1 << 25
"""Bytes that are left below the limit of the process: libraries that get no memory may end it."""
_STATM = "/proc/self/statm"


class MemoryBudget:
    """The memory that one opening may take, from the moment on in which this is made."""

    _granted: ClassVar[int] = 0
    """Bytes that all openings of this process were granted so far."""
    _running: ClassVar[int] = 0
    """Bytes of those that have not ended."""

    def __init__(self, label: str, size: Callable[[], int], unpacked: Callable[[], int]) -> None:
        """Of a file of `size` bytes, of which `unpacked` were made; both may grow."""
        self._label, self._size, self._unpacked = label, size, unpacked
        self._mine = self._limit()
        self._others = MemoryBudget._granted - MemoryBudget._running
        MemoryBudget._granted += self._mine
        MemoryBudget._running += self._mine
        self._before = memory_of_process()
        # What `ulimit -v` sets.
        self._most_addresses = resource.getrlimit(resource.RLIMIT_AS)[0]

    def check(self, coming: int = 0) -> None:
        """Do nothing, unless more memory was taken than there may be, or would be with some bytes that are coming.

        Raises: NotATrace; NotEnoughMemory where it is the limit of the process that is near.
        """
        if self._most_addresses != resource.RLIM_INFINITY:
            self._check_addresses(coming)
        if MOST_PER_BYTE * self._unpacked() <= self._limit():
            return
        # What others that are open beside this one may take is theirs.
        others = MemoryBudget._granted - self._others - self._mine
        if memory_of_process() - self._before + coming > self._limit() + others:
            raise NotATrace(f"{self._label} needs more memory than {self.words()}, as no trace does: it is not opened.")

    def _check_addresses(self, coming: int) -> None:
        sizes = _sizes_of_process()
        if sizes is not None and sizes[0] + coming + HEADROOM > self._most_addresses:
            raise not_enough_memory(self._label)

    def has_room(self, stretch: int) -> bool:
        """Tell whether so many bytes may be read as a whole."""
        return PER_WINDOW_BYTE * stretch <= self._limit()

    def words(self) -> str:
        """The limit in words."""
        return f"{self._limit() >> 20:,} MiB, {MOST_PER_BYTE} times its size and {BESIDE >> 20} MiB"

    def close(self) -> None:
        """Take note that the opening has ended."""
        MemoryBudget._running -= self._mine

    def _limit(self) -> int:
        return BESIDE + MOST_PER_BYTE * self._size()


def memory_of_process() -> int:
    """Bytes that the process has in memory; elsewhere than on Linux the most that it had so far."""
    sizes = _sizes_of_process()
    if sizes is not None:
        return sizes[1]
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most << 10


def _sizes_of_process() -> tuple[int, int] | None:
    """Bytes of addresses that the process has, and of memory behind them; None where the system does not tell."""
    with suppress(OSError, ValueError):
        descriptor = os.open(_STATM, os.O_RDONLY)
        try:
            pages = os.read(descriptor, 200).split()
        finally:
            os.close(descriptor)
        size = os.sysconf("SC_PAGE_SIZE")
        return int(pages[0]) * size, int(pages[1]) * size
    return None


def not_enough_memory(label: str) -> NotEnoughMemory:
    """The error where the process gets no more memory for a file."""
    most = resource.getrlimit(resource.RLIMIT_AS)[0]
    limit = "" if most == resource.RLIM_INFINITY else f" Its limit is {most >> 20:,} MiB (`ulimit -v`): raise it."
    return NotEnoughMemory(f"{label} cannot be opened: there is not enough memory for this process.{limit}")
