"""Parts of the screen that go on where an analysis fails.

What takes long is made in threads, each of which reports its failure in the place of its result. Some analyses answer a
key or a message at once, on the event loop: where one of them fails, the part that handled it would hear nothing any
more. Errors that come up anywhere else are defects of the app, which ends with a report.
"""

from __future__ import annotations

import traceback
from pathlib import Path

from textual.events import Compose, Mount
from textual.message import Message

from tracetui.errors import AnalysisFailed, TracetuiError
from tracetui.model import results
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
