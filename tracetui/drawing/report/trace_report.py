"""What a report on one trace says: headline, findings, lanes of a step, and the panes as tables.

Findings as a list: weight, title, evidence, advice, and where in the app to look.

The whole trace in one line: how busy it was, where the steps are, and which stretch the lanes show.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from shlex import quote

import numpy as np

from tracetui.drawing.report.arrangement import Stretch
from tracetui.drawing.report.lanes_svg import lanes_figure
from tracetui.drawing.report.section import Report, Section, Tile
from tracetui.drawing.report.words import text
from tracetui.drawing.text.origin import recorded_on
from tracetui.drawing.text.summary_words import readable
from tracetui.drawing.timeline.raster import Picture
from tracetui.drawing.timeline.window import Window
from tracetui.idle.gaps import idle_blocks
from tracetui.idle.verdict import verdict as verdict_of_trace
from tracetui.linking.first_view import busiest_stretch, first_step, numbers, stretch_of_step
from tracetui.linking.placement import chosen
from tracetui.linking.steps import steps
from tracetui.model.guarding import Failures
from tracetui.model.quantities import count, duration, percent
from tracetui.model.table import DOUBTFUL, Cell, Table
from tracetui.model.trace import Trace
from tracetui.panes import pane_named
from tracetui.safe_text import clean

WIDTH, HEIGHT, COLUMNS = 1140, 44, 380
MOST_STEPS = 200


def overview(picture: Picture, start_ns: int, end_ns: int) -> str:
    """The busy share over the trace as SVG, with the stretch between two moments marked."""
    low, high = picture.trace.window
    if high <= low:
        return ""
    share = picture.gpu_busy(Window.over(low, high - low, COLUMNS), COLUMNS)
    what = "GPU" if picture.has_gpu else "CPU"
    bottom = HEIGHT - 12
    each = WIDTH / COLUMNS
    points = "".join(f"H{i * each:.1f}V{bottom - (bottom - 2) * y:.1f}" for i, y in enumerate(share.tolist()))
    stretch = Stretch(low, high, WIDTH)
    left, right = stretch.place(np.array([start_ns, end_ns])).tolist()
    title = f"How busy the {what} was over the whole trace, {duration(high - low)}"
    return (
        f'<figure class="overview"><svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="{text(title)}">{_seen("seen", left, right, bottom)}'
        f'<path class="busy" d="M0 {bottom}{points}H{WIDTH}V{bottom}Z"/>{_seen("frame", left, right, bottom)}'
        f"{_steps(picture, stretch)}</svg><figcaption>{text(title)}; the band is what the lanes below show."
        f"</figcaption></figure>"
    )


def _seen(style: str, left: float, right: float, bottom: int) -> str:
    """The stretch that the lanes show: a ground below what was busy, and a frame above it."""
    left, right = max(left, 1.0), min(max(right, left + 3), WIDTH - 1)
    return f'<rect class="{style}" x="{left:.1f}" y="1" width="{right - left:.1f}" height="{bottom}"/>'


def _steps(picture: Picture, stretch: Stretch) -> str:
    """A line under each step; every other one thicker, so that neighbours are told apart."""
    found = steps(picture.trace)
    if not 0 < len(found) <= MOST_STEPS:
        return ""
    left, right = stretch.place(found.start).tolist(), stretch.place(found.end).tolist()
    return "".join(
        f'<rect class="step" x="{a:.1f}" y="{HEIGHT - 9}" width="{max(b - a - 1, 1):.1f}" height="{3 + 3 * (i % 2)}">'
        f"<title>step {number}, {duration(int(end - start))}</title></rect>"
        for i, (a, b, number, start, end) in enumerate(
            zip(left, right, found.number.tolist(), found.start.tolist(), found.end.tolist(), strict=True)
        )
    )


_WEIGHTS = {"major": "▲▲▲", "minor": "▲▲", "note": "▲"}


def findings_html(table: Table, label: str) -> str:
    """The findings as an ordered list; nothing for an empty table."""
    items = []
    for row in table.rows():
        severity = str(row["severity"])
        cost = row["cost_us"]
        took = (
            f'<span class="cost">{duration(1000 * float(cost))}</span>'
            if isinstance(cost, int | float) and cost
            else ""
        )
        jump = f'<p class="jump">tracetui {text(quote(label))} --at {text(str(row["jump"]))}</p>' if row["jump"] else ""
        weight = f'<span class="weight {text(severity)}">{_WEIGHTS.get(severity, "")} {text(severity)}</span>'
        items.append(
            f'<li id="{text(str(row["id"]))}"><h3>{weight} {text(clean(str(row["title"])))} {took}</h3>'
            f'<p>{text(str(row["evidence"]))}</p><p class="advice">{text(str(row["advice"]))}</p>{jump}</li>'
        )
    return f'<ol class="findings">{"".join(items)}</ol>' if items else ""


_ONE = {
    "steps": "step",
    "kernels": "kernel",
    "launches": "launch",
    "operators": "operator",
    "views": "view",
    "threads": "thread",
    "events": "event",
    "doubts on the trace": "doubt on the trace",
}


@dataclass(frozen=True)
class PaneOfReport:
    """A pane in the report, and which of its rows."""

    title: str
    pane: str
    by: str | None = None
    of_step: bool = False
    """Whether only the rows of the step are listed."""
    limit: int = 30
    is_expected: bool = True
    """Whether the report says so where it has no rows."""


PANES_OF_REPORT = (
    PaneOfReport("Steps", "steps"),
    PaneOfReport("Serving", "serving", is_expected=False),
    PaneOfReport("Serving by batch", "serving", "batch", is_expected=False),
    PaneOfReport("Layers", "layers", is_expected=False),
    PaneOfReport("Kernels by name", "kernels", "name"),
    PaneOfReport("Kernels of the step", "kernels", of_step=True, limit=100),
    PaneOfReport("Operators", "ops"),
    PaneOfReport("Views", "views", limit=15),
    PaneOfReport("Occupancy queries", "occupancy", "op", limit=20),
    PaneOfReport("Launches by call", "launches", "name", limit=20),
    PaneOfReport("Idle time by cause", "gaps", "cause"),
    PaneOfReport("Roofline", "roofline", limit=20),
    PaneOfReport("Memory by operator", "memory", "op", limit=20),
)
"""The panes of a report, in order; findings, lanes, health and summary are made below."""


def trace_report(trace: Trace, picture: Picture, step: int | None = None, version: str = "") -> Report:
    """The report on a trace, with the lanes of a step; without one those that the app shows first.

    Raises: UsageError for a step that does not exist.
    """
    number = step if step is not None else first_step(trace)
    start, end = (
        stretch_of_step(trace, number) if number in numbers(trace) and number is not None else (busiest_stretch(trace))
    )
    # Raises for a step that is not there.
    chosen(trace, number)
    failures = Failures()

    def made(title: str, make: Callable[[], Section | None]) -> Section | None:
        """A section of its own, or one that says that it failed."""
        return failures.made_or(f"The section {title}", make, lambda sentence: Section(title, (clean(sentence),)))

    summary = failures.made_or("The summary", lambda: pane_named("summary").build(trace), lambda _: None)
    absent = clean(" ".join(failures.sentences))
    facts = {} if summary is None else {str(row["key"]): row for row in summary.rows()}
    mark = DOUBTFUL * (summary is not None and summary.is_doubtful("value"))
    sections = [
        made("Findings", lambda: _findings(trace, failures)),
        made("Lanes", lambda: _lanes(trace, picture, number, (start, end), failures)),
        *_panes(trace, number, failures),
        made("Health", lambda: _health(trace, failures)),
        made("Summary", lambda: _summary(pane_named("summary").build(trace), failures)),
    ]
    return Report(
        clean(trace.label),
        (*recorded_on(trace), clean(trace.format), f"{duration(trace.window[1] - trace.window[0])} recorded"),
        absent or failures.made_or("The verdict", lambda: _verdict(trace, facts, summary, mark), clean),
        _tiles(facts, mark),
        tuple(section for section in sections if section is not None),
        f"tracetui {version}".strip(),
        failures.sentences,
    )


def _verdict(trace: Trace, facts: dict[str, dict[str, Cell]], summary: Table | None, mark: str) -> str:
    """What held the GPU back, or why that cannot be said; and whether the file is whole."""
    said = []
    if trace.quality.is_part or trace.quality.partial:
        said.append("Only a part of the file could be read.")
    verdict = facts.get("verdict", {}).get("value")
    if verdict:
        words = clean(str(verdict))
        judged, late = verdict_of_trace(trace), facts["late_pct"]["number"]
        text = f"{mark}{words[:1].upper()}{words[1:]}"
        if judged:
            text += f": the GPU is {judged.idle_text}"
            if judged.typical and judged.typical.idle_text != judged.idle_text:
                text += f", in the median step {judged.typical.idle_text}"
        if isinstance(late, float | int):
            text += f", and {percent(float(late))} of the kernels were launched after it had run dry"
        said.append(f"{text}.")
    elif summary is not None and summary.note:
        said.append(clean(summary.note))
    return " ".join(said)


def _tiles(facts: dict[str, dict[str, Cell]], mark: str) -> tuple[Tile, ...]:
    tiles = []
    for key, name, write in (
        ("gpu_busy_pct", "GPU busy, of the whole trace", percent),
        ("steps", "steps", count),
        ("kernels", "kernels", count),
        ("copies", "copies and fills", count),
        ("launches", "launches", count),
        ("cpu_ops", "operators", count),
        ("view_ops", "views", count),
        ("doubts", "doubts on the trace", count),
        ("threads", "threads", count),
        ("events", "events", count),
    ):
        number = facts.get(key, {}).get("number")
        if isinstance(number, int | float) and (number or key in ("gpu_busy_pct", "doubts")):
            name = _ONE.get(name, name) if number == 1 else name
            tiles.append(Tile(name, (mark if key == "gpu_busy_pct" else "") + write(float(number))))
    return tuple(tiles[:8])


def _findings(trace: Trace, failures: Failures) -> Section | None:
    table = pane_named("findings").build(trace)
    failures.note(table.failures)
    if len(table) == 0 and not trace.is_torch:
        return None
    order = "The weightiest first; the time is what it would save at most, over the whole trace."
    said = [clean(table.headline or table.note), *([order] if len(table) else []), *map(clean, table.failures)]
    return Section("Findings", tuple(said), findings_html(table, trace.label))


def _lanes(trace: Trace, picture: Picture, step: int | None, stretch: tuple[int, int], failures: Failures) -> Section:
    absent = shown_idle(trace, picture, failures)
    known = step is not None
    figure = lanes_figure(picture, *stretch, f"step {step}" if known else "start")
    where = f"Step {step}" if known else "The stretch in which most happens"
    at = f", {duration(stretch[0])} after the start of the trace" if stretch[0] > 0 else ", at the start of the trace"
    said = f"{where}: {duration(stretch[1] - stretch[0])}{at}. Threads stand above, streams below."
    if figure.slices > figure.blocks:
        said += (
            f" {count(figure.slices)} slices are drawn as {count(figure.blocks)} blocks: what is too narrow to see is "
            "merged, its height then says how much of it is filled."
        )
    if figure.hidden_lanes:
        said += f" {count(figure.hidden_lanes)} more lanes have no room."
    title = f"Lanes of step {step}" if known else "Lanes"
    return Section(title, (said, *absent), overview(picture, *stretch) + figure.svg)


def shown_idle(trace: Trace, picture: Picture, failures: Failures) -> tuple[str, ...]:
    """Draw the idle time of a trace in its lanes; what is to be said where that fails, so that they lack it."""

    def show() -> tuple[str, ...]:
        if picture.has_gpu:
            picture.show_idle(idle_blocks(trace))
        return ()

    return failures.made_or("The idle time in the lanes", show, lambda sentence: (clean(sentence),))


def _panes(trace: Trace, step: int | None, failures: Failures) -> list[Section]:
    """The panes that have something to list, and at the end what the others say about why they have not."""
    made, absent = [], dict[str, list[str]]()
    for part in PANES_OF_REPORT:
        if part.of_step and step is None:
            part = replace(part, title="Kernels by start", of_step=False)
        build = partial(pane_named(part.pane).build, trace, step if part.of_step else None, part.by)
        table = failures.made_or(f"The section {part.title}", build, lambda sentence: Table(()).lacking([sentence]))
        failures.note(table.failures)
        if table.failures and not table.columns:
            made.append(Section(part.title, (clean(table.note),)))
        elif len(table):
            made.append(_pane(part, table, step))
        elif table.note and trace.is_torch and part.is_expected:
            absent.setdefault(clean(table.note), []).append(part.title)
    if absent:
        said = tuple(f"{', '.join(titles)}: {note}" for note, titles in absent.items())
        made.append(Section("Not in this trace", said))
    return made


def _pane(part: PaneOfReport, table: Table, step: int | None) -> Section:
    """A pane as a section."""
    title = f"Kernels of step {step}" if part.of_step else part.title
    which = f" --step {step}" if part.of_step else ""
    which += f" --by {part.by}" if part.by else ""
    return Section(
        title,
        table=table,
        pane=part.pane,
        by=part.by,
        limit=part.limit,
        more=f"All of it: tracetui show {part.pane} FILE{which}",
    )


def _health(trace: Trace, failures: Failures) -> Section:
    table = pane_named("health").build(trace)
    failures.note(table.failures)
    fine = np.array([row["severity"] == "fine" for row in table.rows()], bool)
    found_nothing = f"{count(int(fine.sum()))} of {count(len(table))} checks of the trace itself found nothing."
    said = (found_nothing, *map(clean, table.failures))
    found = table.take(np.flatnonzero(~fine))
    if len(found) == 0:
        return Section("Health", said)
    return Section(
        "Health",
        said,
        table=found,
        pane="health",
    )


def _summary(summary: Table, failures: Failures) -> Section:
    """The facts that the trace holds, and the names of those that it does not."""
    failures.note(summary.failures)
    table = readable(summary)
    known = np.array([value is not None for value in (table["value"].cell(row) for row in range(len(table)))], bool)
    absent = [str(table["key"].cell(row)) for row in np.flatnonzero(~known).tolist()]
    said = f"Not in this trace: {', '.join(absent)}." if absent else ""
    table = replace(table.take(np.flatnonzero(known)), note=said)
    return Section("Summary", table=table, pane="summary", limit=100)
