"""Words for the slice that was walked to: which one of how many, when, how long, and what goes with it. Pure."""

from __future__ import annotations

import numpy as np

from tracetui.analysis.comparing.sides.side import RUN, STEP
from tracetui.drawing.format import clean, count, duration, shorten
from tracetui.model.trace import GPU_WORK
from tracetui.ui.compare.compare_headline import MARKS
from tracetui.ui.compare.shown_part import ShownPart
from tracetui.ui.description.chain_lines import kind_word, short_name
from tracetui.ui.description.styled_lines import Fact, Line, fact_lines, folded

OWN, SHARED, NONE = "", "with others", "none"
"""Whether a slice has partners of its own, lights those of its whole group, or has none at all."""


def place_words(shown: ShownPart, row: int) -> str:
    """Which one it is: `kernel 5 of 36`, `operator 2 of 10`, or `call` where such slices are not walked through."""
    trace = shown.side.trace
    kind = kind_word(int(trace.slices.kind[row]))
    if not shown.holds(row):
        return f"{kind} outside of this {shown.side.sort}"
    place = np.flatnonzero(shown.walk == row)
    if not len(place):
        return kind
    what = "kernel" if int(trace.slices.kind[row]) in GPU_WORK else "operator"
    return f"{what} {count(int(place[0]) + 1)} of {count(len(shown.walk))}"


def slice_words(side: int, shown: ShownPart, row: int, partners: str, width: int) -> str:
    """One line; the name gives way where that is short."""
    start, dur = shown.side.trace.slices.start[row], shown.side.trace.slices.dur[row]
    before = f"{MARKS[side]}: {place_words(shown, row)}: "
    after = f"  {duration(int(dur))} at {duration(int(start) - shown.start)}"
    remark = {NONE: f"  nothing in {MARKS[1 - side]}", SHARED: "  no partner of its own"}.get(partners, "")
    name = clean(short_name(shown.side.trace, row))
    return before + shorten(name, max(width - len(before) - len(after) - len(remark), 12)) + after + remark


def slice_lines(side: int, shown: ShownPart, row: int, partners: str, width: int) -> list[Line]:
    """The same as lines above the details of its change."""
    slices, other = shown.side.trace.slices, MARKS[1 - side]
    lines = [Line(piece, "title") for piece in folded(clean(short_name(shown.side.trace, row)), width)]
    facts = [
        Fact(f"in {MARKS[side]}", place_words(shown, row)),
        Fact("starts at", duration(int(slices.start[row]) - shown.start)),
        Fact("lasts", duration(int(slices.dur[row]))),
    ]
    if partners == NONE:
        facts.append(Fact(f"in {other}", "nothing goes with it"))
    elif partners == SHARED:
        facts.append(Fact(f"in {other}", "no partner of its own: what its whole row became is lit"))
    return [*lines, *(line for fact in facts for line in fact_lines(fact, width))]


def end_words(side: int, shown: ShownPart, direction: int, on_row: bool = False) -> str:
    """Why walking goes no further: over all the work of a part, or on one row of the timeline."""
    what = "kernel" if len(shown.work) else "operator"
    part = {STEP: f"step {shown.number}", RUN: "this run"}.get(shown.side.sort, "the capture")
    way = "after" if direction > 0 else "before"
    if on_row:
        return f"There is nothing of {MARKS[side]} {way} this on its row in {part}."
    return f"There is no {what} of {MARKS[side]} {way} this one in {part}."
