"""A slow line between an app and a terminal that answers questions, as SSH to a machine far away.

Whatever the app writes is taken at once and kept, as SSH and the network do; it arrives at the terminal at a rate, and
later by a delay. Keys and the terminal's answers take the delay, too.
"""

from __future__ import annotations

import heapq
import threading
import time
from contextlib import suppress
from itertools import count

from tests.support.terminal.raw import Raw

ANSWERS = {b"\x1b[6n": "\x1b[1;1R", b"\x1b[?2026$p": "\x1b[?2026;2$y"}
"""What a terminal answers to the app's questions."""
FRAME_END = b"\x1b[6n"
_LONGEST = max(map(len, ANSWERS))


class SlowLink:
    """The line to a program; `close` ends the thread that it runs in, not the program."""

    def __init__(self, raw: Raw, bytes_per_second: float, delay: float) -> None:
        self._raw, self._rate, self._delay = raw, bytes_per_second, delay
        self._seen, self._end, self._free = 0, 0, 0.0
        self._due: list[tuple[float, int, str]] = []
        self._number = count()
        self._lock = threading.Lock()
        self.frames = 0
        """Frames that were written so far."""
        self.longest_queue = 0.0
        """Maximum seconds until all that was written had been put on the line."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def send(self, keys: str) -> None:
        """Type at the terminal."""
        with self._lock:
            self._queue(time.monotonic() + self._delay, keys)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way in either direction."""
        now = time.monotonic()
        with self._lock:
            return not self._due and now > self._free + self._delay and self._end == self._raw.length

    def close(self) -> None:
        """End the thread."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(0.002):
            with self._lock:
                self._take()
                while self._due and self._due[0][0] <= time.monotonic():
                    with suppress(OSError):
                        self._raw.send(heapq.heappop(self._due)[2])

    def _queue(self, moment: float, text: str) -> None:
        heapq.heappush(self._due, (moment, next(self._number), text))

    def _take(self) -> None:
        """Put what was written since on the line, and queue the answers to it."""
        while self._seen < len(self._raw.arrivals):
            end, moment = self._raw.arrivals[self._seen]
            self._seen += 1
            begins = max(self._free, moment)
            # A question may have been cut in two.
            since = max(self._end - _LONGEST + 1, 0)
            written = self._raw.between(since, end)
            for question, answer in ANSWERS.items():
                at = written.find(question)
                while at >= 0:
                    stop = since + at + len(question)
                    if stop > self._end:
                        arrival = begins + (stop - self._end) / self._rate + self._delay
                        self._queue(arrival + self._delay, answer)
                        self.frames += question == FRAME_END
                    at = written.find(question, at + 1)
            self._free = begins + (end - self._end) / self._rate
            self._end = end
            self.longest_queue = max(self.longest_queue, self._free - moment)
