"""Which slices of the two sides are partners: matched GPU activities, and on threads what is called alike. Pure."""

from __future__ import annotations

import numpy as np

from tracetui.comparing.match import Matching
from tracetui.comparing.op_names import shared_name, versionless_name
from tracetui.model.intervals import Int64
from tracetui.model.trace import GPU_WORK, Trace
from tracetui.ui.compare.shown_part import ShownPart, ShownParts

NO_ROWS: Int64 = np.empty(0, np.int64)
"""No slices."""


class PartnerLookup:
    """The two parts on screen, A first, and which of their slices are partners."""

    def __init__(self, parts: ShownParts, matching: Matching | None = None) -> None:
        self.parts = parts
        self.matching = matching
        """None until it is made: until then GPU activities have no partners."""

    def of(self, side: int, row: int) -> Int64:
        """The partners, on the other side, of a slice of side 0 (A) or 1 (B); empty for none."""
        if row < 0:
            return NO_ROWS
        kind = int(self.parts[side].side.trace.slices.kind[row])
        if kind not in GPU_WORK:
            return self._named_alike(side, row)
        if self.matching is None:
            return NO_ROWS
        return self.matching.of_b(row) if side else self.matching.of_a(row)

    def siblings(self, side: int, row: int) -> Int64:
        """Other slices of the same side that share a partner with a slice: what was fused with it."""
        rows = [self.of(1 - side, other) for other in self.of(side, row).tolist()]
        return np.setdiff1d(np.concatenate(rows), [row]) if rows else NO_ROWS

    def _named_alike(self, side: int, row: int) -> Int64:
        """On threads: the slice with the same name and the same count of that name before it in its part."""
        here, there = self.parts[side], self.parts[1 - side]
        if row == here.side.row[here.part]:
            own = int(there.side.row[there.part])
            return np.array([own], np.int64) if own >= 0 else NO_ROWS
        name = _alike(here.side.trace.name_of(row))
        mine, theirs = (_rows_alike(part, name) for part in (here, there))
        index = int(np.searchsorted(here.side.trace.slices.start[mine], here.side.trace.slices.start[row]))
        while index < len(mine) and mine[index] != row:
            index += 1
        return theirs[index : index + 1] if index < len(mine) else NO_ROWS


def _rows_alike(part: ShownPart, name: str) -> Int64:
    """The slices of threads in a part whose name differs from a name by what changes from run to run only."""
    slices = part.side.trace.slices
    rows = np.flatnonzero(np.isin(slices.name, _names_alike(part.side.trace).get(name, [])))
    rows = rows[~np.isin(slices.kind[rows], GPU_WORK)]
    rows = rows[part.side.part_of(rows) == part.part]
    return np.take(rows, np.argsort(slices.start[rows], kind="stable"))


def _names_alike(trace: Trace) -> dict[str, list[int]]:
    """The indices of the names of a trace, by the name without what changes from run to run."""

    def find() -> dict[str, list[int]]:
        alike: dict[str, list[int]] = {}
        for number, name in enumerate(trace.names):
            alike.setdefault(_alike(name), []).append(number)
        return alike

    return trace.remember("names alike", find)


def _alike(name: str) -> str:
    return versionless_name(shared_name(name))
