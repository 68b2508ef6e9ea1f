"""What the details say about a slice, as lines: name, facts, dispatch chain and args in words. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracetui.analysis.links import links
from tracetui.analysis.occupancy import asked_for, queries
from tracetui.analysis.placement import step_index
from tracetui.analysis.steps import steps
from tracetui.drawing.format import clean, duration, short_kernel, shorten
from tracetui.errors import TraceError
from tracetui.model.trace import GPU_WORK, Kind, Trace
from tracetui.ui.event_words import Fact, facts_of_args

LABEL = 18
"""Cells kept for the labels of facts."""


@dataclass(frozen=True)
class Line:
    """A line of the description, already short enough for the pane's width."""

    text: str
    style: str = "plain"
    """plain, title, label, here or link."""
    row: int = -1
    """The slice to which the line jumps, -1 for none."""


def describe(trace: Trace, row: int, chain: Sequence[int], width: int) -> list[Line]:
    """The lines for a slice in a pane `width` cells wide; `chain` is its dispatch chain, outermost first."""
    if row < 0:
        return [Line("Nothing is selected.", "label")]
    event, trouble = _event(trace, row)
    lines = [Line(piece, "title") for piece in folded(clean(trace.name_of(row)), width)]
    for fact in _facts(trace, row):
        lines += _fact(fact, width)
    if len(chain) > 1:
        lines += [Line(""), Line("dispatch chain", "label")]
        lines += [_link(trace, link, level, link == row, width) for level, link in enumerate(chain)]
    args = event.get("args")
    facts = facts_of_args(args) if isinstance(args, dict) else []
    if facts:
        lines += [Line(""), Line("args", "label")]
        for fact in facts:
            lines += _fact(fact, width)
    return lines + [Line(piece, "label") for piece in folded(trouble, width)]


def short_name(trace: Trace, row: int) -> str:
    """A slice's name on one line, that of a kernel without namespaces and parameters."""
    name = clean(trace.name_of(row))
    return short_kernel(name) if trace.slices.kind[row] == Kind.KERNEL else name


def folded(text: str, width: int) -> list[str]:
    """Text cut into pieces of a width, at spaces and commas where there are any in the last third."""
    width = max(width, 8)
    pieces = []
    while len(text) > width:
        cut = max(text.rfind(sign, width * 2 // 3, width) for sign in " ,:/_")
        cut = cut + 1 if cut > 0 else width
        pieces.append(text[:cut].rstrip())
        text = text[cut:].lstrip()
    return [*pieces, text] if text else pieces


def _event(trace: Trace, row: int) -> tuple[dict[str, Any], str]:
    try:
        return trace.event_of(row), ""
    except (TraceError, OSError) as error:
        return {}, f"Its args cannot be read: {error}"


def _facts(trace: Trace, row: int) -> list[Fact]:
    slices = trace.slices
    lane = trace.lanes[int(slices.lane[row])]
    facts = [
        ("category", clean(trace.category_of(row)) or "none"),
        ("lane", clean(f"{lane.process}, {lane.name}")),
        ("start", _start(trace, row)),
        ("duration", duration(int(slices.dur[row]))),
    ]
    if Kind(int(slices.kind[row])) not in GPU_WORK:
        facts.append(("self time", duration(int(slices.self_time[row]))))
    launched = len(links(trace).kernels_of(row))
    if launched > 1:
        facts.append(("launched", f"{launched:,} GPU activities; the first is shown"))
    if row in queries(trace):
        kernel = int(asked_for(trace, np.array([row]))[0])
        facts.append(("asked for", short_name(trace, kernel) if kernel >= 0 else "no launch that follows in its op"))
    return facts


def _start(trace: Trace, row: int) -> str:
    """When a slice starts, in the trace and in the step that it belongs to."""
    start, every = int(trace.slices.start[row]), steps(trace)
    index = int(step_index(trace, np.array([row]))[0])
    if index < 0 or row == every.row[index]:
        return duration(start)
    return f"{duration(start)}, {duration(start - int(every.start[index]))} into step {int(every.number[index])}"


def _fact(fact: Fact, width: int) -> list[Line]:
    label, value = fact
    if len(label) >= LABEL:
        return [Line(piece) for piece in folded(f"{label}: {value}", width)]
    pieces = folded(value, width - LABEL) or [""]
    first = Line(f"{label:<{LABEL}}{pieces[0]}", "fact")
    return [first, *(Line(" " * LABEL + piece) for piece in pieces[1:])]


_WORD = {
    Kind.CPU_OP: "op",
    Kind.ANNOTATION: "annotation",
    Kind.RUNTIME: "call",
    Kind.KERNEL: "kernel",
    Kind.MEMCPY: "copy",
    Kind.MEMSET: "memset",
    Kind.PYTHON: "python",
}


def _link(trace: Trace, row: int, level: int, here: bool, width: int) -> Line:
    took = duration(int(trace.slices.dur[row]))
    word = _WORD.get(Kind(int(trace.slices.kind[row])), "")
    indent = " " * min(level, max(width // 4, 1))
    name = shorten(short_name(trace, row), max(width - len(indent) - len(took) - 3, 8))
    free = width - 2 - len(indent) - len(name) - len(took)
    if word and free > len(word) + 2:
        name, free = f"{name} {word}", free - len(word) - 1
    marker = "▸" if here else " "
    return Line(f"{marker}{indent}{name}{' ' * max(free, 1)}{took}", "here" if here else "link", row)
