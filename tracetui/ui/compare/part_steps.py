"""Going from step to step, or run to run, with both sides or with one. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tracetui.comparing.side import CAPTURE
from tracetui.ui.compare.compare_words import MARKS
from tracetui.ui.compare.shown_part import ShownParts, neighbour

_DIRECTIONS = {-1: "before", 1: "after"}


def next_parts(parts: ShownParts, moving: Sequence[int], direction: int) -> ShownParts | str:
    """The parts after the `moving` sides have gone a step on, or why they do not: neither moves where one cannot."""
    moved = {side: neighbour(parts[side], direction) for side in moving}
    stuck = [side for side in moving if moved[side] is None]
    if stuck:
        return stuck_words(parts, stuck, moving, direction)
    first, second = (moved.get(side) or parts[side] for side in (0, 1))
    return first, second


def stuck_words(parts: ShownParts, stuck: Sequence[int], moving: Sequence[int], direction: int) -> str:
    """Which side has nothing in a direction, and which key moves the other."""
    reasons = []
    for side in stuck:
        part_kind = parts[side].side.part_kind
        reasons.append(
            f"{MARKS[side]} is the whole capture"
            if part_kind == CAPTURE
            else f"{MARKS[side]} has no {part_kind} {_DIRECTIONS[direction]} this one"
        )
    text = " and ".join(reasons)
    if len(moving) > len(stuck):
        key = "{" if direction < 0 else "}"
        text += (
            f": {key} moves {MARKS[1 - stuck[0]]} alone{' while its timeline has the focus' if stuck[0] == 1 else ''}"
        )
    return f"{text}."
