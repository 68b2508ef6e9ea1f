"""Whether the terminal is ready for another frame: each ends in a question, whose answer says that it was taken.

The question is where the cursor is (`CSI 6n`). Every terminal answers that when it gets there in what was written, so
the answer counts for all that SSH and the network hold before it. While frames are under way no other is written, and
what is wanted meanwhile is one frame later. How many may be under way depends on whether answers take longer than the
fastest one: on a slow line it is one. A terminal that never answers is written to as frames come.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

QUESTION = "\x1b[6n"

MAX_FRAMES = 8
"""Maximum frames under way."""
PROMPT_SECONDS = 0.02
"""An answer that takes at most this much longer than the fastest one found no queue before it."""
LATE_SECONDS = 0.08
"""An answer that takes this much longer than the fastest one had to wait in a queue."""
MIN_WAIT_SECONDS, MAX_WAIT_SECONDS = 0.5, 3.0
"""Time that is always given to an answer, and maximum time; then it is taken to be lost."""
WAITS_PER_ANSWER = 4
"""An answer may take so many times as long as the last one, besides."""
MAX_UNANSWERED = 8
"""Questions without any answer after which a terminal is asked no more."""
MAX_LEAVING_SECONDS = 1.0
"""Maximum time that answers are waited for before keys are no longer read."""


class FlowControl:
    """The frames that are under way to a terminal. Answers may come in another thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._asked: deque[float] = deque()
        self._answers_come = False
        self._fastest = float("inf")
        self._last = MAX_WAIT_SECONDS
        """Seconds that the last answer took."""
        self._allowed = 1
        self._was_held = False
        """Whether a frame had to wait since the last answer."""
        self._answered = threading.Condition()

    @property
    def under_way(self) -> int:
        """Number of frames that are not known to have been taken."""
        return len(self._asked)

    def is_ready(self) -> bool:
        """Whether a frame may be written now."""
        with self._answered:
            wait = min(MIN_WAIT_SECONDS + WAITS_PER_ANSWER * self._last, MAX_WAIT_SECONDS)
            if self._asked and self._answers_come and self._clock() - self._asked[0] > wait:
                self._asked.clear()
                self._answers_come = False
            is_ready = not self._answers_come or len(self._asked) < self._allowed
            self._was_held |= not is_ready
            return is_ready

    def question(self) -> str:
        """What to write behind a frame; empty for a terminal that does not answer."""
        with self._answered:
            if not self._answers_come and len(self._asked) >= MAX_UNANSWERED:
                return ""
            self._asked.append(self._clock())
            return QUESTION

    def take_answer(self) -> None:
        """Note that the terminal has taken the frame that was written first."""
        with self._answered:
            self._answers_come = True
            if self._asked:
                self._judge(self._clock() - self._asked.popleft())
            self._answered.notify_all()

    def forget(self) -> None:
        """Expect no answers any more: the terminal was another program's meanwhile."""
        with self._answered:
            self._asked.clear()
            self._answers_come = False
            self._answered.notify_all()

    def wait_for_answers(self) -> None:
        """Wait until a terminal that answers has done so: what came later would be typed into the shell."""
        with self._answered:
            if self._answers_come:
                self._answered.wait_for(lambda: not self._asked, MAX_LEAVING_SECONDS)

    def _judge(self, seconds: float) -> None:
        """Allow more frames under way where more are wanted and answers come at once, fewer where they have to wait."""
        self._fastest, self._last = min(self._fastest, seconds), seconds
        if seconds - self._fastest <= PROMPT_SECONDS:
            self._allowed = min(self._allowed + self._was_held, MAX_FRAMES)
        elif seconds - self._fastest >= LATE_SECONDS:
            self._allowed = max(self._allowed // 2, 1)
        self._was_held = False
