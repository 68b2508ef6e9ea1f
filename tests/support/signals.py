"""What signals do where nobody has had them ignored."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType
from typing import Any

DEFAULTS: dict[signal.Signals, Callable[[int, FrameType | None], Any] | signal.Handlers] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGHUP: signal.SIG_DFL,
    signal.SIGQUIT: signal.SIG_DFL,
    signal.SIGTERM: signal.SIG_DFL,
}
"""The handlers of a Python that was started in a terminal."""


def restore() -> None:
    """Take back that signals are ignored, in this process and in those that it starts."""
    for number, handler in DEFAULTS.items():
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)
