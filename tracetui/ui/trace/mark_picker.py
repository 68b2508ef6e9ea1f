"""The list of the marks of a trace."""

from __future__ import annotations

from collections.abc import Sequence

from tracetui.model.quantities import duration
from tracetui.model.table import ColumnSpec, Table, texts
from tracetui.ui.trace.history import Mark
from tracetui.ui.widgets.picker import Picker

_MARK = ColumnSpec("mark", "mark", width=20, grow=1)


class MarkPicker(Picker[Mark]):
    """The marks of a trace."""

    TITLE_TEXT = "Marks"
    PANE = "marks"

    def __init__(self, marks: Sequence[Mark]) -> None:
        super().__init__()
        self._marks = marks

    def on_mount(self) -> None:
        """List them."""
        super().on_mount()
        self.offer(self._marks, marks_table(self._marks), "")


def marks_table(marks: Sequence[Mark]) -> Table:
    """Where each mark is and what it marks."""
    starts = [duration(mark.viewpoint.start_ns) if mark.viewpoint.start_ns is not None else None for mark in marks]
    steps = [None if mark.viewpoint.step is None else str(mark.viewpoint.step) for mark in marks]
    return Table(
        (
            texts(_MARK, [mark.title for mark in marks]),
            texts("step", steps),
            texts("from", starts),
            texts("pane", [mark.viewpoint.pane for mark in marks]),
        )
    )
