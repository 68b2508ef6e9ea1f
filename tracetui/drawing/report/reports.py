"""Reports: on one trace, on two sides, on the ranks of a run, and on a memory snapshot.

Of a trace: a headline, findings, lanes of a step, and the panes as tables. Findings are a list: weight, title,
evidence, advice, and where in the app to look. The whole trace is in one line: how busy it was, where the steps are,
and which stretch the lanes show.

Of a snapshot: what failed, the curve, who holds the peak, what is not freed, segments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from shlex import quote

import numpy as np

from tracetui.comparing.noise import representative
from tracetui.comparing.side import Side
from tracetui.comparing.statement import Comparison
from tracetui.drawing.report.lanes_svg import Stretch, lanes_figure
from tracetui.drawing.report.page import Report, Section, Tile, text
from tracetui.drawing.text.comparison_text import TITLES, comparison_readable, head
from tracetui.drawing.text.rank_text import bar_parts, pane_name
from tracetui.drawing.text.readable_table import readable, recorded_on
from tracetui.drawing.timeline.raster import TimelineIndex
from tracetui.drawing.timeline.window import Window
from tracetui.frozen import frozen
from tracetui.idle.gaps import idle_blocks
from tracetui.idle.scope_times import median_step
from tracetui.idle.verdict import verdict as verdict_of_trace
from tracetui.linking.placement import busiest_stretch, chosen, step_labels, stretch_of_step
from tracetui.linking.steps import steps
from tracetui.model.quantities import count, duration, percent, size
from tracetui.model.results import Failures
from tracetui.model.table import DOUBTFUL, Cell, Table
from tracetui.model.trace import Trace
from tracetui.panes import pane_named
from tracetui.ranks.rank_set import RankSet
from tracetui.ranks.rank_tables import TABLES
from tracetui.ranks.sentences import headline, late_words, remarks, title
from tracetui.snapshots.history import DeviceHistory
from tracetui.snapshots.snapshot_tables import PANES, out_of_memory, pane_table, summary_words
from tracetui.text import clean

WIDTH, HEIGHT, COLUMNS = 1140, 44, 380
MOST_STEPS = 200


def overview(timeline_index: TimelineIndex, start_ns: int, end_ns: int) -> str:
    """The busy share over the trace as SVG, with the stretch between two moments marked."""
    low, high = timeline_index.trace.window
    if high <= low:
        return ""
    share = timeline_index.gpu_busy(Window.over(low, high - low, COLUMNS), COLUMNS)
    what = "GPU" if timeline_index.has_gpu else "CPU"
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
        f"{_steps(timeline_index, stretch)}</svg><figcaption>{text(title)}; the band is what the lanes below show."
        f"</figcaption></figure>"
    )


def _seen(style: str, left: float, right: float, bottom: int) -> str:
    """The stretch that the lanes show: a ground below what was busy, and a frame above it."""
    left, right = max(left, 1.0), min(max(right, left + 3), WIDTH - 1)
    return f'<rect class="{style}" x="{left:.1f}" y="1" width="{right - left:.1f}" height="{bottom}"/>'


def _steps(timeline_index: TimelineIndex, stretch: Stretch) -> str:
    """A line under each step; every other one thicker, so that neighbours are told apart."""
    all_steps = steps(timeline_index.trace)
    if not 0 < len(all_steps) <= MOST_STEPS:
        return ""
    left, right = stretch.place(all_steps.start).tolist(), stretch.place(all_steps.end).tolist()
    return "".join(
        f'<rect class="step" x="{a:.1f}" y="{HEIGHT - 9}" width="{max(b - a - 1, 1):.1f}" height="{3 + 3 * (i % 2)}">'
        f"<title>step {number}, {duration(int(end - start))}</title></rect>"
        for i, (a, b, number, start, end) in enumerate(
            zip(left, right, all_steps.number.tolist(), all_steps.start.tolist(), all_steps.end.tolist(), strict=True)
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


@frozen(eq=True)
class PaneOfReport:
    """A pane in the report, and which of its rows."""

    title: str
    pane: str
    by: str | None = None
    of_step: bool = False
    """True where only the rows of the step are listed."""
    limit: int = 30
    is_expected: bool = True
    """True where the report says so where it has no rows."""


PANES_OF_REPORT = (
    PaneOfReport("Steps", "steps"),
    PaneOfReport("Serving", "serving", is_expected=False),
    PaneOfReport("Serving by batch", "serving", "batch", is_expected=False),
    PaneOfReport("Layers", "layers", is_expected=False),
    PaneOfReport("Compilations", "compiles", is_expected=False),
    PaneOfReport("Kernels by name", "kernels", "name"),
    PaneOfReport("Kernels of the step", "kernels", of_step=True, limit=100),
    PaneOfReport("Operators", "ops"),
    PaneOfReport("No-GPU ops", "views", limit=15),
    PaneOfReport("Occupancy queries", "occupancy", "op", limit=20),
    PaneOfReport("Launches by call", "launches", "name", limit=20),
    PaneOfReport("Idle time by cause", "gaps", "cause"),
    PaneOfReport("Roofline", "roofline", limit=20),
    PaneOfReport("Memory by operator", "memory", "op", limit=20),
)
"""The panes of a report, in order; findings, lanes, health and summary are made below."""


def trace_report(trace: Trace, timeline_index: TimelineIndex, step: int | None = None, version: str = "") -> Report:
    """The report on a trace, with the lanes of a step; without one those that the app shows first.

    Raises: UsageError for a step that does not exist.
    """
    number = step if step is not None else median_step(trace)
    start, end = (
        stretch_of_step(trace, number)
        if number in step_labels(trace) and number is not None
        else (busiest_stretch(trace))
    )
    # Raises for a step that is not there.
    chosen(trace, number)
    failures = Failures()

    def make_section(title: str, make: Callable[[], Section | None]) -> Section | None:
        """A section of its own, or one that says that it failed."""
        return failures.make_or(f"The section {title}", make, lambda sentence: Section(title, (clean(sentence),)))

    summary = failures.make_or("The summary", lambda: pane_named("summary").build(trace), lambda _: None)
    absent = clean(" ".join(failures.sentences))
    facts = {} if summary is None else {str(row["key"]): row for row in summary.rows()}
    mark = DOUBTFUL * (summary is not None and summary.is_doubtful("value"))
    sections = [
        make_section("Findings", lambda: _findings(trace, failures)),
        make_section("Lanes", lambda: _lanes(trace, timeline_index, number, (start, end), failures)),
        *_panes(trace, number, failures),
        make_section("Health", lambda: _health(trace, failures)),
        make_section("Summary", lambda: _summary(pane_named("summary").build(trace), failures)),
    ]
    return Report(
        clean(trace.label),
        (*recorded_on(trace), clean(trace.format), f"{duration(trace.window[1] - trace.window[0])} recorded"),
        absent or failures.make_or("The verdict", lambda: _verdict(trace, facts, summary, mark), clean),
        _tiles(facts, mark),
        tuple(section for section in sections if section is not None),
        f"tracetui {version}".strip(),
        failures.sentences,
    )


def _verdict(trace: Trace, facts: dict[str, dict[str, Cell]], summary: Table | None, mark: str) -> str:
    """The verdict on the GPU, or why there is none; and a warning where the file is not whole."""
    sentences = []
    if trace.quality.is_part or trace.quality.partial:
        sentences.append("Only a part of the file could be read.")
    verdict = facts.get("verdict", {}).get("value")
    if verdict:
        words = clean(str(verdict))
        judged = verdict_of_trace(trace)
        text = judged.text if judged else words
        sentences.append(f"{mark}{text[:1].upper()}{text[1:]}.")
    elif summary is not None and summary.note:
        sentences.append(clean(summary.note))
    return " ".join(sentences)


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
    sentences = [clean(table.headline or table.note), *([order] if len(table) else []), *map(clean, table.failures)]
    return Section("Findings", tuple(sentences), findings_html(table, trace.label))


def _lanes(
    trace: Trace, timeline_index: TimelineIndex, step: int | None, stretch: tuple[int, int], failures: Failures
) -> Section:
    absent = shown_idle(trace, timeline_index, failures)
    known = step is not None
    figure = lanes_figure(timeline_index, *stretch, f"step {step}" if known else "start")
    where = f"Step {step}" if known else "The stretch in which most happens"
    at = f", {duration(stretch[0])} after the start of the trace" if stretch[0] > 0 else ", at the start of the trace"
    caption = f"{where}: {duration(stretch[1] - stretch[0])}{at}. Threads stand above, streams below."
    if figure.slices > figure.blocks:
        caption += (
            f" {count(figure.slices)} slices are drawn as {count(figure.blocks)} blocks: what is too narrow to see is "
            "merged, its height then says how much of it is filled."
        )
    if figure.hidden_lanes:
        caption += f" {count(figure.hidden_lanes)} more lanes have no room."
    title = f"Lanes of step {step}" if known else "Lanes"
    return Section(title, (caption, *absent), overview(timeline_index, *stretch) + figure.svg)


def shown_idle(trace: Trace, timeline_index: TimelineIndex, failures: Failures) -> tuple[str, ...]:
    """Draw the idle time of a trace in its lanes; the sentence of the failure where that fails."""

    def show() -> tuple[str, ...]:
        if timeline_index.has_gpu:
            timeline_index.show_idle(idle_blocks(trace))
        return ()

    return failures.make_or("The idle time in the lanes", show, lambda sentence: (clean(sentence),))


def _panes(trace: Trace, step: int | None, failures: Failures) -> list[Section]:
    """The panes that have something to list, and at the end what the others say about why they have not."""
    sections, absent = [], dict[str, list[str]]()
    for part in PANES_OF_REPORT:
        if part.of_step and step is None:
            part = replace(part, title="Kernels by start", of_step=False)
        build = partial(pane_named(part.pane).build, trace, step if part.of_step else None, part.by)
        table = failures.make_or(f"The section {part.title}", build, lambda sentence: Table(()).lacking([sentence]))
        failures.note(table.failures)
        if table.failures and not table.columns:
            sections.append(Section(part.title, (clean(table.note),)))
        elif len(table):
            sections.append(_pane(part, table, step))
        elif table.note and trace.is_torch and part.is_expected:
            absent.setdefault(clean(table.note), []).append(part.title)
    if absent:
        notes = tuple(f"{', '.join(titles)}: {note}" for note, titles in absent.items())
        sections.append(Section("Not in this trace", notes))
    return sections


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
    sentences = (found_nothing, *map(clean, table.failures))
    unhealthy = table.take(np.flatnonzero(~fine))
    if len(unhealthy) == 0:
        return Section("Health", sentences)
    return Section(
        "Health",
        sentences,
        table=unhealthy,
        pane="health",
    )


def _summary(summary: Table, failures: Failures) -> Section:
    """The facts that the trace holds, and the names of those that it does not."""
    failures.note(summary.failures)
    table = readable(summary)
    known = np.array([value is not None for value in (table["value"].cell(row) for row in range(len(table)))], bool)
    absent = [str(table["key"].cell(row)) for row in np.flatnonzero(~known).tolist()]
    note = f"Not in this trace: {', '.join(absent)}." if absent else ""
    table = replace(table.take(np.flatnonzero(known)), note=note)
    return Section("Summary", table=table, pane="summary", limit=100)


# What a report on two sides says: the statement, both timelines on one scale, and what changed as tables.

ROWS = 60
"""Of each table."""


def comparison_report(
    comparison: Comparison, pictures: tuple[TimelineIndex, TimelineIndex], version: str = ""
) -> Report:
    """The report on two sides; the pictures are those of their traces."""
    stretches = [_stretch(side) for side in (comparison.a, comparison.b)]
    length = max((end - start for start, end in stretches), default=0)
    timelines = [
        _timeline(side, mark, timeline_index, stretch, length, comparison.failures)
        for mark, side, timeline_index, stretch in zip(
            "AB", (comparison.a, comparison.b), pictures, stretches, strict=True
        )
    ]
    statement = comparison.sentences
    more = tuple(map(clean, statement[1:]))
    tables = _tables(comparison)
    return Report(
        f"{clean(comparison.a.name)} → {clean(comparison.b.name)}",
        tuple(head(comparison)),
        clean(statement[0]) if statement else "",
        (),
        (*((Section("What differs", more),) if more else ()), *timelines, *tables),
        f"tracetui {version}".strip(),
        comparison.failures.sentences,
    )


def _tables(comparison: Comparison) -> tuple[Section, ...]:
    more = "All of it: tracetui compare A B --show "
    makers: dict[str, Callable[[], Section]] = {
        "totals": lambda: Section(TITLES["totals"], table=comparison_readable("totals", comparison.totals), limit=100),
        "kernels": lambda: Section(
            TITLES["kernels"], table=comparison.kernels, pane="changed kernels", limit=ROWS, more=more + "kernels"
        ),
        "ops": lambda: Section(TITLES["ops"], table=comparison.ops, pane="changed ops", limit=ROWS, more=more + "ops"),
    }

    def failed(name: str, sentence: str) -> Section:
        return Section(TITLES[name], (clean(sentence),))

    tables = [
        comparison.failures.make_or(f"The section {TITLES[name]}", make, partial(failed, name))
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
    side: Side, mark: str, timeline_index: TimelineIndex, stretch: tuple[int, int], length: int, failures: Failures
) -> Section:
    """The lanes of the part that stands for the side, from its start, for as long as the longer of the two takes."""
    start, end = stretch
    absent = shown_idle(side.trace, timeline_index, failures)
    part = representative(side)
    name = f"{side.part_kind} {side.number[part]}" if part >= 0 else side.part_kind
    figure = lanes_figure(timeline_index, start, start + length, name, key=f"lanes-{mark.lower()}", until_ns=end)
    caption = f"{clean(side.name)}, {name}: {duration(end - start)} until its last work ends. Both sides have one scale"
    caption += "; what comes after that is pale." if end - start < length else "."
    return Section(f"Timeline of {mark}", (caption, *absent), figure.svg)


# What a report on a set of ranks says: who is late and why, the time of each rank, and the tables of the set.

RANK_BAR_WIDTH, ROW, NAMES, ENDS = 1140, 18, 92, 96
"""Of the drawing: its width, the height of a rank, and the room for what stands left and right of the bars."""
MAX_BARS = 64
"""Maximum ranks that are drawn, those first that others waited for most."""
_PARTS = (("busy", "busy"), ("exposed transfer", "transfer"), ("exposed waiting", "waiting"))
"""Parts of a bar, from the left: what it is, and its style."""
_SECTIONS = (
    ("ranks", "Ranks", 100),
    ("collectives", "Collectives, those first in which ranks came furthest apart", 40),
    ("matrix", "Who waited for whom", 40),
    ("groups", "Process groups", 40),
    ("steps", "Steps", 40),
)


def rank_report(ranks: RankSet, version: str = "") -> Report:
    """The report on a set of ranks."""

    def make_section(heading: str, make: Callable[[], Section | None]) -> Section | None:
        """A section of its own, or one that says that it failed."""
        return ranks.failures.make_or(heading, make, lambda sentence: Section(heading, (clean(sentence),)))

    sections = [
        make_section("Remarks", lambda: _remarks(ranks)),
        make_section("Time of each rank", lambda: _time(ranks)),
        *(make_section(heading, partial(_table, ranks, name, heading, limit)) for name, heading, limit in _SECTIONS),
    ]
    if ranks.run.missing or ranks.left_out:
        heading = "Files that are missing or left out"
        sections.append(make_section(heading, partial(_table, ranks, "files", heading)))
    return Report(
        clean(ranks.run.title),
        (clean(title(ranks)),),
        clean(headline(ranks)),
        ranks.failures.make_or("The numbers at the top", lambda: _rank_tiles(ranks), lambda _: ()),
        tuple(section for section in sections if section is not None),
        f"tracetui {version}".strip(),
        ranks.failures.sentences,
    )


def _table(ranks: RankSet, name: str, heading: str, limit: int = 40) -> Section | None:
    """A table of the set; nothing where it has no rows, unless it is that of files, which is asked for then."""
    table = TABLES[name](ranks)
    if name == "collectives":
        table = table.take(table.order("skew_us", descending=True))
    if not len(table) and name != "files":
        return None
    more = f"All of it: tracetui ranks FOLDER --show {name}" if name != "files" else ""
    return Section(
        heading,
        table=Table(table.columns, table.slices, "", table.doubts),
        pane=pane_name(name),
        limit=limit,
        more=more,
    )


def _rank_tiles(ranks: RankSet) -> tuple[Tile, ...]:
    attributed = ranks.waiting.attributed
    tiles = [Tile(f"of {count(ranks.run.world_size)} ranks are here", count(len(ranks)))]
    if len(ranks) > 1:
        tiles += [
            Tile("collectives", count(len(ranks.matches.instances))),
            Tile("in common", duration(ranks.run_ns)),
            Tile("waiting for each other, of all ranks", duration(float(attributed.time.sum()))),
            Tile("late rank" if len(ranks.late) == 1 else "late ranks", count(len(ranks.late))),
        ]
    return tuple(tiles)


def _remarks(ranks: RankSet) -> Section | None:
    """Late ranks that the headline has no room for, and what is missing, doubtful or odd."""
    top = headline(ranks)
    late = [words for each in ranks.late if (words := late_words(ranks, each)) not in top]
    sentences = late + remarks(ranks)
    return Section("Remarks", tuple(map(clean, sentences))) if sentences else None


def _time(ranks: RankSet) -> Section | None:
    """The time of the run of each rank as a bar."""
    table = TABLES["ranks"](ranks)
    parts, whole = bar_parts(table)
    if len(ranks) < 2 or whole <= 0:
        return None
    bar_count = min(len(table), MAX_BARS)
    rows = [_bar(index, str(table["rank"].cell(index)), parts[index], whole) for index in range(bar_count)]
    figure = (
        f'<figure class="ranks"><svg viewBox="0 0 {RANK_BAR_WIDTH} {ROW * bar_count}" role="img" '
        f'aria-label="Time of the run of each rank">{"".join(rows)}</svg>{_legend()}</figure>'
    )
    more = (
        f" The {count(bar_count)} ranks that others waited for most; the table has all."
        if bar_count < len(table)
        else ""
    )
    caption = f"Each bar is the run of a rank, {duration(1000 * whole)}; the rest of it the device did nothing.{more}"
    return Section("Time of each rank", (caption,), figure)


def _bar(index: int, rank: str, parts: tuple[float, float, float], whole: float) -> str:
    """A rank's line: its number, its bar, and how long it was busy."""
    room, left, drawn = RANK_BAR_WIDTH - NAMES - ENDS, float(NAMES), ""
    for value, (name, style) in zip(parts, _PARTS, strict=True):
        width = room * max(value, 0.0) / whole
        drawn += (
            f'<rect class="{style}" x="{left:.1f}" y="{ROW * index + 2}" width="{width:.1f}" height="{ROW - 4}">'
            f"<title>rank {text(rank)}: {name} {duration(1000 * value)}</title></rect>"
        )
        left += width
    middle = ROW * index + ROW - 5
    return (
        f'<text x="0" y="{middle}">rank {text(rank)}</text>{drawn}'
        f'<text class="quiet" x="{RANK_BAR_WIDTH}" y="{middle}" text-anchor="end">{duration(1000 * parts[0])}</text>'
    )


def _legend() -> str:
    squares = "".join(
        f'<li><svg width="12" height="12" aria-hidden="true"><rect class="{style}" width="12" height="12"/></svg>'
        f"{name}</li>"
        for name, style in _PARTS
    )
    return f'<ul class="legend">{squares}<li>right: busy</li></ul>'


CURVE_WIDTH, CURVE_HEIGHT, MAX_POINTS = 900, 160, 450
"""Size of the curve in pixels, and points that it has at most."""


def snapshot_report(history: DeviceHistory, version: str = "") -> Report:
    """The report on one device of a snapshot."""
    snapshot = history.snapshot
    sections = [Section("Active and reserved bytes over the events", figure=_curve(history))]
    if history.ooms:
        sections.insert(0, Section("Out of memory", out_of_memory(history, history.ooms[0])))
    for name in ("peak", "unfreed", "segments"):
        table = pane_table(history, name)
        sentences = tuple(clean(each) for each in (table.headline, table.note) if each)
        sections.append(Section(PANES[name].title, sentences, table=Table(table.columns), limit=20))
    first = out_of_memory(history, history.ooms[0])[0] if history.ooms else pane_table(history, "peak").headline
    tiles = (
        Tile("active at the peak", size(history.active[history.peak])),
        Tile("active at the end", size(history.active[-1])),
        Tile("reserved at the end", size(history.reserved[-1])),
        Tile("failed allocations", count(len(history.ooms))),
    )
    title = clean(snapshot.label)
    return Report(
        title, (summary_words(snapshot),), clean(first), tiles, tuple(sections), f"tracetui {version}".strip()
    )


def _curve(history: DeviceHistory) -> str:
    """Both curves as areas; of many events the highest of each stretch."""
    moments = len(history.active)
    edges = np.unique(np.linspace(0, moments - 1, min(MAX_POINTS, moments)).astype(np.int64))
    top = max(int(history.active.max()), int(history.reserved.max()), 1)
    across = CURVE_WIDTH * edges / max(int(edges[-1]), 1)

    def area(values: np.ndarray, style: str) -> str:
        heights = CURVE_HEIGHT * (1 - np.maximum.reduceat(values, edges) / top)
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(across.tolist(), heights.tolist(), strict=True))
        return f'<polygon points="0,{CURVE_HEIGHT} {points} {CURVE_WIDTH},{CURVE_HEIGHT}" {style}/>'

    reserved = area(history.reserved, 'fill="currentColor" fill-opacity="0.15"')
    active = area(history.active, 'fill="currentColor" fill-opacity="0.5"')
    box = f'viewBox="0 0 {CURVE_WIDTH} {CURVE_HEIGHT}" width="100%" role="img"'
    return f"<svg {box}><title>active (dark) and reserved (light), up to {size(top)}</title>{reserved}{active}</svg>"
