"""What a report on two sides says: the statement, both timelines on one scale, and what changed as tables."""

from __future__ import annotations

from tracetui.analysis.comparing.comparison import Comparison
from tracetui.analysis.comparing.sides.composition import representative
from tracetui.analysis.comparing.sides.side import Side
from tracetui.analysis.idle.gaps import idle_blocks
from tracetui.drawing.report.lanes_svg import lanes_figure
from tracetui.drawing.report.section import Report, Section
from tracetui.drawing.text.comparison_text import TITLES, head, readable
from tracetui.drawing.timeline.raster import Picture
from tracetui.model.quantities import duration
from tracetui.safe_text import clean

ROWS = 60
"""Of each table."""


def comparison_report(told: Comparison, pictures: tuple[Picture, Picture], version: str = "") -> Report:
    """The report on two sides; the pictures are those of their traces."""
    stretches = [_stretch(side) for side in (told.a, told.b)]
    length = max((end - start for start, end in stretches), default=0)
    timelines = [
        _timeline(side, mark, picture, stretch, length)
        for mark, side, picture, stretch in zip("AB", (told.a, told.b), pictures, stretches, strict=True)
    ]
    more = tuple(map(clean, told.statement[1:]))
    return Report(
        f"{clean(told.a.name)} → {clean(told.b.name)}",
        tuple(head(told)),
        clean(told.statement[0]) if told.statement else "",
        (),
        (*((Section("What differs", more),) if more else ()), *timelines, *_tables(told)),
        f"tracetui {version}".strip(),
    )


def _tables(told: Comparison) -> tuple[Section, ...]:
    more = "All of it: tracetui compare A B --show "
    tables = (
        Section(TITLES["totals"], table=readable("totals", told.totals), limit=100),
        Section(TITLES["kernels"], table=told.kernels, pane="changed kernels", limit=ROWS, more=more + "kernels"),
        Section(TITLES["ops"], table=told.ops, pane="changed ops", limit=ROWS, more=more + "ops"),
    )
    return tuple(section for section in tables if section.table is not None and len(section.table))


def _stretch(side: Side) -> tuple[int, int]:
    """From the start of the part that is shown to the end of what it launched, in ns."""
    part = representative(side)
    if part < 0:
        return side.trace.window
    rows, of_part = side.activities()
    mine = rows[of_part == part]
    last = int(side.trace.slices.end[mine].max()) if len(mine) else 0
    return int(side.start[part]), max(int(side.end[part]), last)


def _timeline(side: Side, mark: str, picture: Picture, stretch: tuple[int, int], length: int) -> Section:
    """The lanes of the part that stands for the side, from its start, for as long as the longer of the two takes."""
    start, end = stretch
    if picture.has_gpu:
        picture.show_idle(idle_blocks(side.trace))
    part = representative(side)
    name = f"{side.part_kind} {side.number[part]}" if part >= 0 else side.part_kind
    figure = lanes_figure(picture, start, start + length, name, key=f"lanes-{mark.lower()}", until_ns=end)
    said = f"{clean(side.name)}, {name}: {duration(end - start)} until its last work ends. Both sides have one scale"
    said += "; what comes after that is pale." if end - start < length else "."
    return Section(f"Timeline of {mark}", (said,), figure.svg)
