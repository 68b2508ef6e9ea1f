"""What the details say about a slice, as lines: name, facts, dispatch chain and args in words. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracetui.analysis.linking.links import links
from tracetui.analysis.linking.placement import step_index
from tracetui.analysis.linking.regions import region
from tracetui.analysis.linking.steps import steps
from tracetui.analysis.occupancy import asked_for, queries
from tracetui.drawing.format import clean, duration
from tracetui.errors import TraceError
from tracetui.model.trace import GPU_WORK, Kind, Trace
from tracetui.ui.cause_facts import cause_facts
from tracetui.ui.chain_lines import chain_lines, short_name
from tracetui.ui.event_words import facts_of_args
from tracetui.ui.kernel_facts import kernel_facts
from tracetui.ui.lines import Fact, Line, fact_lines, folded

TITLE = 3
"""Lines that the name may take at the top; a longer one stands further down, and a short form of it at the top."""


def describe(trace: Trace, row: int, chain: Sequence[int], width: int) -> list[Line]:
    """The lines for a slice in a pane `width` cells wide; `chain` is its dispatch chain, outermost first."""
    if row < 0:
        return [Line("Nothing is selected.", "label")]
    event, trouble = _event(trace, row)
    name = folded(clean(trace.name_of(row)), width)
    long = len(name) > TITLE
    lines = [Line(piece, "title") for piece in (folded(short_name(trace, row), width)[:TITLE] if long else name)]
    for fact in (*_facts(trace, row), *kernel_facts(trace, row), *cause_facts(trace, row, chain)):
        lines += fact_lines(fact, width)
    if len(chain) > 1:
        lines += [Line(""), *chain_lines(trace, chain, row, width)]
    if long:
        lines += [Line(""), Line("name", "label"), *map(Line, name)]
    args = event.get("args")
    facts = facts_of_args(args) if isinstance(args, dict) else []
    if facts:
        lines += [Line(""), Line("args", "label")]
        for label, value in facts:
            lines += fact_lines(Fact(label, value), width)
    return lines + [Line(piece, "label") for piece in folded(trouble, width)]


def _event(trace: Trace, row: int) -> tuple[dict[str, Any], str]:
    try:
        return trace.event_of(row), ""
    except (TraceError, OSError) as error:
        return {}, f"Its args cannot be read: {error}"


def _facts(trace: Trace, row: int) -> list[Fact]:
    slices = trace.slices
    lane = trace.lanes[int(slices.lane[row])]
    facts = [
        Fact("category", clean(trace.category_of(row)) or "none"),
        Fact("lane", clean(f"{lane.process}, {lane.name}")),
        Fact("start", _start(trace, row)),
        Fact("duration", duration(int(slices.dur[row]))),
    ]
    if Kind(int(slices.kind[row])) not in GPU_WORK:
        facts.append(Fact("self time", duration(int(slices.self_time[row]))))
    facts += _work_within(trace, row)
    launched = len(links(trace).kernels_of(row))
    if launched > 1:
        facts.append(Fact("launched", f"{launched:,} GPU activities; the first is shown"))
    if row in queries(trace):
        kernel = int(asked_for(trace, np.array([row]))[0])
        asked = short_name(trace, kernel) if kernel >= 0 else "no launch that follows in its op"
        facts.append(Fact("asked for", asked, kernel))
    return facts


def _work_within(trace: Trace, row: int) -> list[Fact]:
    """What an op, an annotation or a Python frame put on the GPU."""
    if trace.slices.kind[row] not in (Kind.CPU_OP, Kind.ANNOTATION, Kind.PYTHON) or len(links(trace).gpu) == 0:
        return []
    found = region(trace, row)
    if len(found.rows) == 0:
        return [Fact("GPU work", "none was launched within it")]
    guessed = int(found.inferred.sum())
    placed = f"; {guessed:,} of them placed by their start, for their launches are not recorded" if guessed else ""
    count = f"{len(found.rows):,} activit{'y' if len(found.rows) == 1 else 'ies'}"
    words = f"{count}, busy {duration(found.busy)} of {duration(found.span)} from first to last{placed}"
    return [Fact("GPU work", words, int(found.rows[0]))]


def _start(trace: Trace, row: int) -> str:
    """When a slice starts, in the trace and in the step that it belongs to."""
    start, every = int(trace.slices.start[row]), steps(trace)
    index = int(step_index(trace, np.array([row]))[0])
    if index < 0 or row == every.row[index]:
        return duration(start)
    return f"{duration(start)}, {duration(start - int(every.start[index]))} into step {int(every.number[index])}"
