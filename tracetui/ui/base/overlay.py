"""Parts of the screen that go on where an analysis fails, and screens that close once: what all screens are made of.

What takes long is made in threads, each of which reports its failure in the place of its result. Some analyses answer a
key or a message at once, on the event loop: where one of them fails, the part that handled it would hear nothing any
more. Errors that come up anywhere else are defects of the app, which ends with a report.

An overlay is laid over other screens until something was picked, read or recorded: it closes once, and only itself.
Textual's `dismiss` takes away whatever screen is on top. A second enter in the same burst, or a recording that ends
while the help is open, would so take away a screen that nobody was done with, in the end the last one.
"""

from __future__ import annotations

import re
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from rich.cells import cell_len, set_cell_size
from textual.await_complete import AwaitComplete
from textual.events import Compose, Mount
from textual.message import Message
from textual.screen import Screen

from tracetui.drawing.format import CUT, whole_words
from tracetui.drawing.timeline.raster import TimelineIndex
from tracetui.errors import AnalysisFailed, TracetuiError
from tracetui.model import results
from tracetui.model.memory_snapshot import MemorySnapshot
from tracetui.model.trace import Trace
from tracetui.opening.trace_opening import SideName
from tracetui.reading.load_progress import LoadProgress
from tracetui.ui.base.textual_internals import HookedPump

_PRODUCT = Path(results.__file__).parents[1]
_ANALYSES = frozenset(
    ("linking", "kernel_names", "operators", "memory", "devices", "idle", "serving")
    + ("tables", "health", "findings", "ranks", "comparing", "checking", "whatif", "panes.py")
)
"""The parts of the product that make tables of a trace."""


def analysis_failure(error: BaseException) -> AnalysisFailed | None:
    """An error as the failure of an analysis, where it came up in one; None for a defect of anything else."""
    if isinstance(error, AnalysisFailed):
        return error
    if isinstance(error, TracetuiError) or not isinstance(error, Exception):
        return None
    files = {Path(frame.f_code.co_filename) for frame, _ in traceback.walk_tb(error.__traceback__)}
    parts = {file.relative_to(_PRODUCT).parts[0] for file in files if _PRODUCT in file.parents}
    return results.failure_of("What was asked for", error) if parts & _ANALYSES else None


class AnalysisSafe(HookedPump):
    """A part of the screen that goes on where an analysis fails in answer to a key or a message, and says so."""

    def goes_on(self, message: Message, error: Exception) -> bool:
        """Say that an analysis failed; False for other errors."""
        # Whatever could not be put on screen at all is not there to go on.
        failure = None if isinstance(message, Compose | Mount) else analysis_failure(error)
        report = getattr(self.app, "report_failure", None)
        if failure is None or report is None:
            return False
        report(failure)
        return True


OverlayResult = TypeVar("OverlayResult")


class Overlay(AnalysisSafe, Screen[OverlayResult]):
    """Base of lists to pick from, forms, the help and the palette."""

    _is_over_with = False
    """True once it is done with, and waits for what lies over it."""
    _picked: OverlayResult | None = None

    def dismiss(self, result: OverlayResult | None = None) -> AwaitComplete:
        """Close with a result: now, or when it is on top again; nothing happens once it is closed."""
        if self.app.screen is self:
            return super().dismiss(result)
        self._is_over_with, self._picked = self in self.app.screen_stack, result
        return AwaitComplete()

    def on_screen_resume(self) -> None:
        """Close if it was done with meanwhile."""
        if self._is_over_with:
            self.dismiss(self._picked)


# How large the parts of the screen were made; kept for as long as the app runs, for every trace.


@dataclass
class PartSizes:
    """The sizes that were chosen with keys or the mouse."""

    timeline: float | None = None
    """Share of the timeline in the lines of timeline and list; None for what suits the lanes."""
    details: int | None = None
    """Cells of the details; None for a third of the width."""


# Messages that cross from one part of the app to another; what only a parent hears stands in its widget.


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
    timeline_index: TimelineIndex


@dataclass
class SnapshotLoaded(Message):
    """A memory snapshot is ready to be shown."""

    path: str
    snapshot: MemorySnapshot


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
    """The tab to open; empty for the one that suits."""
    others: tuple[SideName, ...] = ()
    """Further sides, each to be compared with A."""


@dataclass
class SliceAsked(Message):
    """The user wants to see a slice of a compared trace in the view of that trace."""

    path: str
    trace: Trace
    timeline_index: TimelineIndex
    row: int
    step: int | None


# Cutting a line to a width without making another number of a number, or another file of a path. Pure.

_NUMBER = re.compile(r"[-+]?[\d.,]*\d[\d.,]*(?:\s?(?:%|(?:ns|µs|ms|s|B|[KMGTP]iB)\b))?")
_PATH = re.compile(r"(?:~|\.)?/\S*/(?=\S)")


def cut_line(text: str, width: int) -> str:
    """Text in at most `width` cells; one that is cut ends in `…`, before a word or number that would have been cut."""
    if cell_len(text) <= width:
        return text
    kept = set_cell_size(text, max(width - 1, 0))
    kept = whole_words(kept, text) or kept
    for figures in _NUMBER.finditer(text):
        if figures.start() < len(kept) < figures.end():
            kept = kept[: figures.start()]
            break
    return (kept.rstrip() + CUT)[:width]


def fitting_line(text: str, width: int) -> str:
    """Text in at most `width` cells, for which the folders of a path give way before anything else."""
    folder_path = _PATH.search(text)
    if cell_len(text) > width and folder_path is not None:
        folders, missing = folder_path[0], cell_len(text) - width
        head = folders[: max(len(folders) - missing - 2, 0)]
        text = f"{text[: folder_path.start()]}{head}{CUT}/{text[folder_path.end() :]}"
    return cut_line(text, width)
