"""Messages that cross from one part of the app to another; what only a parent hears stands in its widget."""

from __future__ import annotations

from dataclasses import dataclass

from textual.message import Message

from tracetui.drawing.timeline.raster import Picture
from tracetui.errors import TracetuiError
from tracetui.model.trace import Trace
from tracetui.opening.trace_opening import SideName
from tracetui.reading.load_progress import LoadProgress


@dataclass
class LoadProgressed(Message):
    """The importer got further; a newer one replaces those that were not handled yet."""

    progress: LoadProgress

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


@dataclass
class CompareAsked(Message):
    """The user wants to see two sides beside each other; what B is has still to be picked where it is None."""

    a: SideName
    b: SideName | None
    tab: str = ""
    """Which tab to open; empty for the one that suits."""


@dataclass
class SliceAsked(Message):
    """The user wants to see a slice of a compared trace in the view of that trace."""

    path: str
    trace: Trace
    picture: Picture
    row: int
    step: int | None
