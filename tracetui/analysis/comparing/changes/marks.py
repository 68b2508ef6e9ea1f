"""The marks of rows in the tables of kernels and of operators: what became of each."""

from __future__ import annotations

from tracetui.analysis.comparing.sides.noise import Change

SAME, FASTER, SLOWER, UNTOLD = "same", "faster", "slower", "cannot tell"
FUSED_INTO, SPLIT_INTO, GONE, NEW = "fused into", "split into", "gone", "new"

_MARKS = {Change.SAME: SAME, Change.LESS: FASTER, Change.MORE: SLOWER}


def mark_of(change: Change) -> str:
    """The mark of a row that both sides have, by what can be said of its time."""
    return _MARKS.get(change, UNTOLD)
