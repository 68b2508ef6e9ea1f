"""A stretch of the bytes of a source that moves forward over it."""

from __future__ import annotations

from collections.abc import Callable

from tracetui.reading.source import Source


class Stopped(Exception):
    """The user stopped the loading."""


class ByteWindow:
    """The bytes of a source from some offset on, in a buffer that is used again and again."""

    def __init__(self, source: Source, size: int, cancelled: Callable[[], bool]) -> None:
        self.data = bytearray(size)
        self.fill = 0
        """How many bytes of `data` are those of the source."""
        self.base = 0
        """The offset of the first one in the unpacked stream."""
        self.eof = False
        """Whether the source has ended behind the last one."""
        self._source = source
        self._cancelled = cancelled

    def check(self) -> None:
        """Do nothing, unless the loading was stopped, or takes more memory than it may.

        Raises: Stopped, NotATrace.
        """
        if self._cancelled():
            raise Stopped
        self._source.budget.check()

    def read_more(self) -> None:
        """Fill the buffer."""
        with memoryview(self.data) as view:
            while self.fill < len(view) and not self.eof:
                self.check()
                count = self._source.readinto(view[self.fill :])
                self.eof = count == 0
                self.fill += count

    def move_up(self, index: int) -> None:
        """Forget everything before `index`."""
        rest = self.fill - index
        self.data[:rest] = self.data[index : self.fill]
        self.fill = rest
        self.base += index

    def restart(self, data: bytes, offset: int) -> None:
        """Go on with bytes that stand at an offset of the stream; the source takes back those that do not fit."""
        self.fill = min(len(data), len(self.data))
        self.data[: self.fill] = data[: self.fill]
        self.base = offset
        self.eof = False
        if len(data) > self.fill:
            self._source.give_back(data[self.fill :])

    def grow(self) -> None:
        """Double the buffer and fill it; the source ends where a stretch of that length takes too much memory."""
        if not self._source.budget.has_room(2 * len(self.data)):
            self._source.cut_off(len(self.data))
            self.eof = True
            return
        self.data.extend(bytes(len(self.data)))
        self.read_more()
