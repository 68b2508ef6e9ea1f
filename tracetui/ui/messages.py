"""Messages that cross from one part of the app to another; what only a parent hears stands in its widget."""

from __future__ import annotations

from dataclasses import dataclass

from textual.message import Message

from tracetui.drawing.raster import Picture
from tracetui.errors import TracetuiError
from tracetui.importers.load import Progress
from tracetui.model.trace import Trace


@dataclass
class LoadProgressed(Message):
    """The importer got further; a newer one replaces those that were not handled yet."""

    progress: Progress

    def can_replace(self, message: Message) -> bool:
        """Only the newest counts."""
        return isinstance(message, LoadProgressed)


@dataclass
class Loaded(Message):
    """A trace is ready to be shown."""

    path: str
    trace: Trace
    picture: Picture


@dataclass
class LoadFailed(Message):
    """A file cannot be shown as a trace."""

    path: str
    error: TracetuiError
