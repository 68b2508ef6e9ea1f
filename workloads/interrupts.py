"""How the recording child is stopped by signals."""

from __future__ import annotations

import os
import signal
from types import FrameType

from workloads.exceptions import Cancel

CANCELLED = 130
"""Exit code of a child that was asked to stop."""


class Interrupts:
    """The signals that ask to stop: the first raises Cancel, the second ends the process at once."""

    def __init__(self) -> None:
        self.asked = False

    def install(self) -> None:
        """Listen to SIGINT and SIGTERM."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._handle)

    def check(self) -> None:
        """Raise Cancel when someone asked: an exception raised inside a destructor is lost."""
        if self.asked:
            raise Cancel

    def ignore(self) -> None:
        """From here on nothing is interrupted."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)

    def _handle(self, *_: int | FrameType | None) -> None:
        if self.asked:
            os._exit(CANCELLED)
        self.asked = True
        raise Cancel
