"""Unwraps the bytes of a trace in a thread beside the one that reads events.

Inflating frees the GIL, and so does scanning, so that both run at once. The thread is a few chunks ahead and no
further. What it meets (damage, a remark, how much it has taken from the disk) is told with the chunk in which it met
it, so that a reader hears the same in the same order as without a thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

CHUNK = 1 << 20
"""Bytes of a chunk, as many as of a block of events."""
MAX_AHEAD = 4
"""Maximum chunks that are unwrapped before they are asked for."""


@dataclass(frozen=True, slots=True)
class Unwrapped:
    """What is known of a wrapping once so much of it has been read."""

    consumed: int
    """Bytes taken from the disk or the pipe."""
    damage: str | None
    """What is wrong with the wrapping, None as long as nothing is."""
    remark: str
    """What else there is to say of it: a sentence, or nothing."""


@dataclass(frozen=True, slots=True)
class _Chunk:
    buffer: memoryview
    fill: int
    state: Unwrapped


class ReadAhead:
    """The bytes that `read` gives, read by a thread that ends with `close`.

    `read` fills a buffer as a raw file does, and `state` says what is known of the wrapping after that; both are called
    in the thread only.
    """

    def __init__(self, read: Callable[[memoryview], int], state: Callable[[], Unwrapped]) -> None:
        self._read, self._state = read, state
        self._has_ended = False
        self._pool = ThreadPoolExecutor(1, "tracetui-unwrap")
        self._coming: deque[Future[_Chunk]] = deque()
        self._rest = memoryview(b"")
        self._used: memoryview | None = None
        self.state = state()
        """What is known of the wrapping as far as its bytes were given."""
        for _ in range(MAX_AHEAD):
            self._ask(memoryview(bytearray(CHUNK)))

    def readinto(self, buffer: memoryview) -> int:
        """Fill the buffer from its start; returns how much, 0 at the end. Raises what `read` raises."""
        if not self._rest:
            self._advance()
        count = min(len(self._rest), len(buffer))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def close(self) -> None:
        """End the thread; a read that it is in is waited for."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._coming.clear()

    def _advance(self) -> None:
        if self._used is not None:
            self._ask(self._used)
            self._used = None
        if self._coming:
            chunk = self._coming.popleft().result()
            self._rest, self._used, self.state = chunk.buffer[: chunk.fill], chunk.buffer, chunk.state

    def _ask(self, buffer: memoryview) -> None:
        self._coming.append(self._pool.submit(self._fill, buffer))

    def _fill(self, buffer: memoryview) -> _Chunk:
        """The next chunk, in the thread; behind the end nothing is read any more, for a terminal would wait."""
        fill = 0
        # Once an error was raised, there is nothing behind it either.
        was_ended, self._has_ended = self._has_ended, True
        while not was_ended and fill < len(buffer):
            count = self._read(buffer[fill:])
            fill += count
            was_ended = count == 0
        self._has_ended = was_ended
        return _Chunk(buffer, fill, self._state())
