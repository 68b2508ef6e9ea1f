"""Errors of messages that came too late: to a part of the screen that was taken away while they were on their way."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType

from textual.css.query import NoMatches
from textual.widget import Widget


def came_too_late(error: BaseException) -> bool:
    """Whether a part of the screen was looked for in what is no longer on the screen.

    Textual tells a palette that is closed how busy it is, and mounts a screen that is left already; there is nothing
    left that could show a wrong thing.
    """
    return isinstance(error, NoMatches) and any(_is_gone(part) for part in _asked(error.__traceback__))


def _asked(trace: TracebackType | None) -> Iterator[Widget]:
    """The parts of the screen whose methods were running."""
    while trace is not None:
        part = trace.tb_frame.f_locals.get("self")
        if isinstance(part, Widget):
            yield part
        trace = trace.tb_next


def _is_gone(part: Widget) -> bool:
    # A screen is taken from the stack first, then it loses its parts, and at last its parent.
    return not part.is_attached or part.screen not in part.app.screen_stack
