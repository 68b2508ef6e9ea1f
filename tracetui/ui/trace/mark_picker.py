"""The list of the marks of a trace."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracetui.model.quantities import count, duration
from tracetui.model.table import ColumnSpec, Table, texts
from tracetui.model.trace import GPU_WORK, Trace
from tracetui.ui.trace.history import Mark
from tracetui.ui.trace.related_slices import activities_of_step, step_of, stretch_of_step
from tracetui.ui.widgets.picker import Picker

_MARK = ColumnSpec("mark", "mark", width=20, grow=1)
_INDEX = ColumnSpec("index", "#", width=6, is_number_text=True)
_START = ColumnSpec("start", "start", width=12, is_number_text=True)


class MarkPicker(Picker[Mark]):
    """The marks of a trace."""

    TITLE_TEXT = "Marks"
    PANE = "marks"

    def __init__(self, trace: Trace, marks: Sequence[Mark]) -> None:
        super().__init__()
        self._trace, self._marks = trace, marks

    def on_mount(self) -> None:
        """List them."""
        super().on_mount()
        self.offer(self._marks, marks_table(self._trace, self._marks), "")


def marks_table(trace: Trace, marks: Sequence[Mark]) -> Table:
    """What each mark is of: the slice, its step, its index among the GPU activities of that, its start in the step."""
    facts = [_facts(trace, mark) for mark in marks]
    steps, indices, starts = zip(*facts, strict=True) if facts else ((), (), ())
    return Table(
        (
            texts(_MARK, [mark.title for mark in marks]),
            texts("step", steps),
            texts(_INDEX, indices),
            texts(_START, starts),
            texts("pane", [mark.viewpoint.pane for mark in marks]),
        )
    )


def _facts(trace: Trace, mark: Mark) -> tuple[str | None, str | None, str | None]:
    """Step, index and start of the slice of a mark; of a mark of a time range, its step and its start."""
    viewpoint = mark.viewpoint
    rows = np.flatnonzero(trace.slices.event == viewpoint.event) if viewpoint.event >= 0 else np.empty(0, np.int64)
    if len(rows) == 0:
        step = None if viewpoint.step is None else str(viewpoint.step)
        return step, None, None if viewpoint.start_ns is None else duration(viewpoint.start_ns)
    row = int(rows[0])
    number, start = step_of(trace, row), int(trace.slices.start[row])
    if number is None:
        return None, None, duration(start)
    index = None
    if trace.slices.kind[row] in GPU_WORK:
        places = np.flatnonzero(activities_of_step(trace, number) == row)
        index = count(int(places[0]) + 1) if len(places) else None
    return str(number), index, duration(start - stretch_of_step(trace, number)[0])
