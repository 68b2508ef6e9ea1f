"""One-line texts about two sides: the header, the titles of the timelines, notices about a slice. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracetui.comparing.measures import known_measures
from tracetui.comparing.side import CAPTURE, RANGE, RUN, STEP, Side
from tracetui.comparing.traits import traits
from tracetui.drawing.format import shorten
from tracetui.drawing.name_cutting import cut_name
from tracetui.errors import AnalysisFailed
from tracetui.model.guarding import guarded
from tracetui.model.quantities import count, duration
from tracetui.model.trace import GPU_WORK
from tracetui.safe_text import clean
from tracetui.ui.compare.shown_part import ShownPart
from tracetui.ui.description.chain_lines import kind_word, short_name
from tracetui.ui.widgets.bar import BarPart
from tracetui.ui.widgets.bar_texts import damage_marks, switch_parts

MARKS = "AB"
"""What the sides are called."""
MIN_NAME_LETTERS = 16
"""Letters of each name that are always shown."""
WIDE_CELLS = 110
"""Width from which lines say more than the essential."""
OWN_PARTNER, ROW_PARTNERS, NO_PARTNER = "", "with others", "none"
"""Whether a slice has partners of its own, those of its whole row of the list, or none at all."""


def compare_parts(sides: Sequence[Side], width: int) -> tuple[BarPart, ...]:
    """The header: both names, marks of damage, and the devices."""
    devices = list(dict.fromkeys(name for side in sides for name in _devices(side)))
    about = f"  {clean(', '.join(devices[:2]))}" if devices and width >= WIDE_CELLS else ""
    marks = ["".join(f" {mark}" for mark in damage_marks(side.trace)) for side in sides]
    taken = len(about) + sum(map(len, marks)) + 2 * len("A  ") + 2
    room = max((width - taken) // 2, MIN_NAME_LETTERS)
    names = _told_apart([clean(side.name) for side in sides], room)
    parts: list[BarPart] = []
    for letter, name, mark in zip(MARKS, names, marks, strict=True):
        parts += [BarPart(f"{'  ' if parts else ''}{letter} ", "key"), BarPart(name, "strong"), BarPart(mark, "warn")]
    return *parts, BarPart(about, "dim")


def _devices(side: Side) -> tuple[str, ...]:
    """Names of the GPUs of a side; none where the analysis of what it is failed, which its own place tells."""
    try:
        with guarded("The description of a side"):
            return traits(side).devices
    except AnalysisFailed:
        return ()


def _told_apart(names: list[str], room: int) -> list[str]:
    """Names cut to some letters; where they begin alike, they are cut at the front."""
    if all(len(name) <= room for name in names):
        return names
    cut = [shorten(name, room) for name in names]
    if cut[0] == cut[1] and names[0] != names[1]:
        cut = [name if len(name) <= room else "…" + name[-(room - 1) :] for name in names]
    return cut


def part_parts(
    letter: str, shown: ShownPart, focused: bool, width: int, representative: bool, name: str = ""
) -> tuple[BarPart, ...]:
    """The line above a timeline: which step or run it shows, how long that took, what the GPU did in it.

    A `name` stands in place of the part.
    """
    side = shown.side
    parts = [BarPart(f" {letter} ", "current" if focused else "strong"), BarPart(" ")]
    if name:
        parts.append(BarPart(name, "strong"))
    elif side.part_kind == CAPTURE:
        parts.append(BarPart("whole capture", "strong"))
    else:
        scope = f"{cut_name(clean(side.scope), 24)} " if side.part_kind in (RUN, RANGE) else "step "
        max_numbers = 7 if width >= WIDE_CELLS else 3
        parts += [BarPart(scope), *switch_parts(side.number.tolist(), shown.part, max_numbers)]
    words = [duration(int(side.end[shown.part] - side.start[shown.part])), *_on_gpu(shown)]
    room = width - sum(len(part.text) for part in parts) - 3
    if representative and len(side) > 1 and width >= WIDE_CELLS:
        words.append("representative step" if side.part_kind == STEP else "representative run")
    while len(words) > 1 and len(" · ".join(words)) > room:
        words.pop()
    return *parts, BarPart("   " + " · ".join(words))


def _on_gpu(shown: ShownPart) -> list[str]:
    if not len(shown.activities):
        return []
    known = known_measures(shown.side)[0].get("gpu_busy_us")
    busy = float("nan") if known is None else float(known.values[shown.part])
    number = len(shown.activities)
    words = [f"{count(number)} GPU activit{'y' if number == 1 else 'ies'}"]
    return words if busy != busy else [*words, f"busy {duration(1000 * busy)}"]


def place_words(shown: ShownPart, row: int) -> str:
    """The number of a slice in its part: `kernel 5 of 36`, `operator 2 of 10`, or `call` for slices that `.` skips."""
    trace = shown.side.trace
    kind = kind_word(int(trace.slices.kind[row]))
    if not shown.holds(row):
        return f"{kind} outside of this {shown.side.part_kind}"
    indices = np.flatnonzero(shown.walk == row)
    if not len(indices):
        return kind
    what = "kernel" if int(trace.slices.kind[row]) in GPU_WORK else "operator"
    return f"{what} {count(int(indices[0]) + 1)} of {count(len(shown.walk))}"


def slice_words(side: int, shown: ShownPart, row: int, partners: str, width: int) -> str:
    """One line; the name gives way where that is short."""
    start, dur = shown.side.trace.slices.start[row], shown.side.trace.slices.dur[row]
    before = f"{MARKS[side]}: {place_words(shown, row)}: "
    after = f"  {duration(int(dur))} at {duration(int(start) - shown.start)}"
    remark = {NO_PARTNER: f"  no match in {MARKS[1 - side]}", ROW_PARTNERS: "  no match of its own"}.get(partners, "")
    name = clean(short_name(shown.side.trace, row))
    return before + shorten(name, max(width - len(before) - len(after) - len(remark), 12)) + after + remark


def end_words(side: int, shown: ShownPart, direction: int, on_row: bool = False) -> str:
    """Why walking goes no further: in the whole part, or on one row of the timeline."""
    what = "kernel" if len(shown.activities) else "operator"
    part = {STEP: f"step {shown.number}", RUN: "this run", RANGE: "this range"}.get(shown.side.part_kind, "the capture")
    way = "after" if direction > 0 else "before"
    if on_row:
        return f"{MARKS[side]} has nothing {way} this slice on its row in {part}."
    return f"{MARKS[side]} has no {what} {way} this one in {part}."
