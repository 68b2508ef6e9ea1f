"""Reports as pages of HTML, read back and compared with the panes."""

from __future__ import annotations

import numpy as np

from tests.support.build import annotation, kernel, launch, make_trace, op, step
from tests.support.report_page import Page
from tracetui.drawing.report.page import NAME_WIDTH, page
from tracetui.drawing.report.reports import PANES_OF_REPORT, trace_report
from tracetui.drawing.text.readable_table import shown_texts
from tracetui.drawing.timeline.raster import TimelineIndex
from tracetui.model.table import Column
from tracetui.model.trace import Device, Trace
from tracetui.panes import PANES
from tracetui.text import clean

ATTACKS = (
    "<script>alert(1)</script>",
    "</style></title></svg><b>x",
    '" onmouseover="x()',
    "' onload='x()",
    "a\x1b[31mb\x00c",
    "‮evil⁦",
    "-->]]>&lt;&#60;",
    "url(http://evil.example/x)",
)


def training(names: tuple[str, ...] = ("gemm", "relu_kernel"), label: str = "made.json") -> Trace:
    """Three steps with a kernel per name."""
    events = []
    for number in range(3):
        at = number * 1_000_000
        events += [step(number + 1, at, 900_000), annotation(f"forward {names[0]}", at + 5_000, 800_000)]
        for place, name in enumerate(names):
            begin, key = at + 10_000 + place * 60_000, number * 100 + place + 1
            events += [
                op(f"aten::{name}", begin, 50_000),
                launch(begin + 20_000, 5_000, key),
                kernel(name, begin + 60_000, 40_000, correlation=key, args={"grid": [4, 2, 1]}),
            ]
    return make_trace(events, devices=[Device(0, names[0])], label=label)


def html_of(trace: Trace, step: int | None = None) -> str:
    return page(trace_report(trace, TimelineIndex(trace), step, "0"))


def is_telling(column: Column, pane: str) -> bool:
    """Whether a report has a column: of steps what is not 0 in all of them, else the step only where it differs."""
    if pane == "steps":
        return column.is_text or bool(column.values.any())
    return column.name != "step" or len(set(column.values.tolist())) > 1


def check_tables(trace: Trace, found: Page, step: int | None) -> int:
    """The cells of every table are those of the pane; returns how many tables there were."""
    seen = 0
    for part in PANES_OF_REPORT:
        of_step = step if part.of_step else None
        table = PANES[part.pane].build(trace, of_step, part.by)
        title = f"Kernels of step {step}" if part.of_step and step is not None else part.title
        title = "Kernels by start" if part.of_step and step is None else title
        name = next((key for key, value in found.sections.items() if value == title), None)
        if len(table) == 0:
            assert name is None or name not in found.tables
            continue
        assert name is not None, title
        shown = table.take(np.arange(min(len(table), part.limit)))
        order = PANES[part.pane].columns_by(part.by)
        columns = [shown[each] for each in order if each in table and not table[each].nulls().all()]
        columns = [each for each in columns if is_telling(each, part.pane)]
        rows = found.tables[name]
        wanted = zip(*(shown_texts(column, NAME_WIDTH) for column in columns), strict=True)
        assert rows[1:] == [[clean(cell) for cell in row] for row in wanted], title
        assert rows[0] == [table.heading(column.name) for column in columns]
        seen += 1
    return seen
