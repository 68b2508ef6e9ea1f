"""What a report on two sides says: the statement, both timelines on one scale, and what changed as tables."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tracetui.comparing.comparison import Comparison
from tracetui.comparing.composition import representative
from tracetui.comparing.side import Side
from tracetui.drawing.report.lanes_svg import lanes_figure
from tracetui.drawing.report.section import Report, Section
from tracetui.drawing.report.trace_report import shown_idle
from tracetui.drawing.text.comparison_text import TITLES, head, readable
from tracetui.drawing.timeline.raster import Picture
from tracetui.model.guarding import Failures
from tracetui.model.quantities import duration
from tracetui.safe_text import clean

ROWS = 60
"""Of each table."""


def comparison_report(told: Comparison, pictures: tuple[Picture, Picture], version: str = "") -> Report:
    """The report on two sides; the pictures are those of their traces."""
    stretches = [_stretch(side) for side in (told.a, told.b)]
    length = max((end - start for start, end in stretches), default=0)
    timelines = [
        _timeline(side, mark, picture, stretch, length, told.failures)
        for mark, side, picture, stretch in zip("AB", (told.a, told.b), pictures, stretches, strict=True)
    ]
    statement = told.sentences
    more = tuple(map(clean, statement[1:]))
    tables = _tables(told)
    return Report(
        f"{clean(told.a.name)} → {clean(told.b.name)}",
        tuple(head(told)),
        clean(statement[0]) if statement else "",
        (),
        (*((Section("What differs", more),) if more else ()), *timelines, *tables),
        f"tracetui {version}".strip(),
        told.failures.sentences,
    )


def _tables(told: Comparison) -> tuple[Section, ...]:
    more = "All of it: tracetui compare A B --show "
    makers: dict[str, Callable[[], Section]] = {
        "totals": lambda: Section(TITLES["totals"], table=readable("totals", told.totals), limit=100),
        "kernels": lambda: Section(
            TITLES["kernels"], table=told.kernels, pane="changed kernels", limit=ROWS, more=more + "kernels"
        ),
        "ops": lambda: Section(TITLES["ops"], table=told.ops, pane="changed ops", limit=ROWS, more=more + "ops"),
    }

    def failed(name: str, sentence: str) -> Section:
        return Section(TITLES[name], (clean(sentence),))

    tables = [
        told.failures.made_or(f"The section {TITLES[name]}", make, partial(failed, name))
        for name, make in makers.items()
    ]
    return tuple(section for section in tables if section.table is None or len(section.table))


def _stretch(side: Side) -> tuple[int, int]:
    """From the start of the part that is shown to the end of what it launched, in ns."""
    part = representative(side)
    if part < 0:
        return side.trace.window
    rows, of_part = side.activities()
    mine = rows[of_part == part]
    last = int(side.trace.slices.end[mine].max()) if len(mine) else 0
    return int(side.start[part]), max(int(side.end[part]), last)


def _timeline(
    side: Side, mark: str, picture: Picture, stretch: tuple[int, int], length: int, failures: Failures
) -> Section:
    """The lanes of the part that stands for the side, from its start, for as long as the longer of the two takes."""
    start, end = stretch
    absent = shown_idle(side.trace, picture, failures)
    part = representative(side)
    name = f"{side.part_kind} {side.number[part]}" if part >= 0 else side.part_kind
    figure = lanes_figure(picture, start, start + length, name, key=f"lanes-{mark.lower()}", until_ns=end)
    said = f"{clean(side.name)}, {name}: {duration(end - start)} until its last work ends. Both sides have one scale"
    said += "; what comes after that is pale." if end - start < length else "."
    return Section(f"Timeline of {mark}", (said, *absent), figure.svg)
