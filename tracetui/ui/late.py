"""Errors of messages that came too late: to a part of the screen that was taken away while they were on their way."""

from __future__ import annotations

from types import TracebackType

from textual.css.query import NoMatches
from textual.message_pump import MessagePump
from textual.widget import Widget


def came_too_late(error: BaseException) -> bool:
    """Whether a part of the screen was looked for in what is no longer on the screen.

    Textual tells a palette that is closed how busy it is, and mounts a screen that is left already; there is nothing
    left that could show a wrong thing. Whoever dealt with the message hears no other after an error, so that has to
    be gone as well: an app that goes on deaf would be worse than one that ends.
    """
    return isinstance(error, NoMatches) and _is_gone(_hearer(error.__traceback__))


def _hearer(trace: TracebackType | None) -> MessagePump | None:
    """Who dealt with the message: the first in the traceback."""
    while trace is not None:
        found = trace.tb_frame.f_locals.get("self")
        if isinstance(found, MessagePump):
            return found
        trace = trace.tb_next
    return None


def _is_gone(part: MessagePump | None) -> bool:
    if not isinstance(part, Widget):
        return False
    # A screen is taken from the stack first, then it loses its parts, and at last its parent.
    return not part.is_attached or part.screen not in part.app.screen_stack
