"""With what a trace can be compared: its steps with each other, the runs of a name, another trace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from tracetui.comparing.side import side
from tracetui.drawing.name_cutting import cut_name
from tracetui.errors import UsageError
from tracetui.linking.steps import steps
from tracetui.model.table import ColumnSpec, Table, texts
from tracetui.model.time_range import TimeRange
from tracetui.model.trace import Kind, Trace
from tracetui.safe_text import clean
from tracetui.ui.trace.related_slices import chain_of, numbers, step_of
from tracetui.ui.widgets.picker import Picker

_COMPARISON = ColumnSpec("comparison", "compare", width=30, grow=1)

OTHER_TRACE = ("", "")
"""Stands for a trace that has still to be picked."""
_NAMED = (Kind.ANNOTATION, Kind.PYTHON, Kind.CPU_OP)


class Offer(NamedTuple):
    """A row of the picker."""

    title: str
    scopes: tuple[str, str]
    """What stands behind the `#` of A and of B."""


class ComparePicker(Picker[tuple[str, str]]):
    """Dismissed with the scopes of A and B, with `OTHER_TRACE`, or None."""

    TITLE_TEXT = "Compare"
    PANE = "comparisons"
    BINDINGS: ClassVar = []

    def __init__(self, offers: Sequence[Offer]) -> None:
        super().__init__()
        self._offers = offers

    def on_mount(self) -> None:
        """List the offers."""
        super().on_mount()
        table = Table((texts(_COMPARISON, [offer.title for offer in self._offers]),))
        self.offer([offer.scopes for offer in self._offers], table, "")


def offers_for(trace: Trace, step: int | None, selected: int) -> list[Offer]:
    """The comparisons offered at a step and selection, the likeliest first: with the step before."""
    offers = [Offer("this trace with another trace", OTHER_TRACE)]
    known = numbers(trace)
    current = step if step is not None else step_of(trace, selected)
    if current in known and len(known) > 1:
        index = known.index(current)
        others = sorted((number for number in known if number != current), key=lambda n: (abs(n - current), n))
        before = [known[index - 1]] if index else []
        ordered = [*before, *(number for number in others if number not in before)]
        offers = [_steps(number, current) for number in ordered[:1]] + offers
        offers += [_steps(number, current) for number in ordered[1:]]
    return offers + _runs(trace, selected)


def range_offers(trace: Trace, time_range: TimeRange) -> list[Offer]:
    """The comparisons offered for a range of time: with the time before and behind it, where the trace has as much."""
    low, high = trace.window
    before = TimeRange(time_range.start - time_range.length, time_range.start)
    behind = TimeRange(time_range.end, time_range.end + time_range.length)
    own, offers = f"@{time_range.text}", []
    if before.start >= low:
        offers.append(Offer(f"as much time before the range with {own}", (f"@{before.text}", own)))
    if behind.end <= high:
        offers.append(Offer(f"{own} with as much time behind it", (own, f"@{behind.text}")))
    return offers


def _steps(number: int, current: int) -> Offer:
    first, second = sorted((number, current))
    return Offer(f"step {first} with step {second}", (str(first), str(second)))


def _runs(trace: Trace, selected: int) -> list[Offer]:
    """The run before, or after, of each name around the selection that ran more than once."""
    offers = []
    for row in chain_of(trace, selected):
        if int(trace.slices.kind[row]) not in _NAMED or row in steps(trace).row:
            continue
        name = trace.name_of(row)
        try:
            runs = side(trace, name).row
        except UsageError:
            continue
        indices = np.flatnonzero(runs == row)
        if len(runs) > 1 and len(indices):
            first = max(int(indices[0]), 1)
            title = f"run {first} of {cut_name(clean(name), 60)} with run {first + 1}"
            offers.append(Offer(title, (f"{name}[{first}]", f"{name}[{first + 1}]")))
    return offers
