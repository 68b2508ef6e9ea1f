"""How large the parts of the screen were made; kept for as long as the app runs, for every trace."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class PartSizes:
    """What was chosen with keys or the mouse."""

    timeline: float | None = None
    """Share of the timeline in the lines of timeline and list; None for what suits the lanes."""
    details: int | None = None
    """Cells of the details; None for a third of the width."""
