"""A list of a trace whose details describe the row under the cursor: its numbers, and what it is made of, with bars.

What stands in the row itself is there at once. What comes from other tables, such as the families and causes of a step
or the shapes of an operator, is worked out in a thread once the cursor rests on it, and kept; every number is that of
the pane that lists it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from rich.cells import cell_len
from textual import on, work
from textual.message import Message
from textual.worker import get_current_worker

from tracetui.drawing.drawn_columns import (
    Piece,
    RowGraphics,
    StepTimes,
    odd_words,
    part_pieces,
    step_part_cells,
)
from tracetui.drawing.format import cell, cell_at, cut_name, evidence_parts
from tracetui.drawing.hues import FAMILY_HUES, SEVERITY_HUES, Hue, bar, sparkline, three_digits
from tracetui.drawing.overview.picture import hue_of
from tracetui.drawing.text.pictures import PICTURES, list_picture
from tracetui.errors import AnalysisFailed
from tracetui.frozen import frozen
from tracetui.idle.gaps import gap_before
from tracetui.kernel_names.slice_names import Family, short_kernel
from tracetui.model.intervals import Int64, Part
from tracetui.model.quantities import count, duration, short_percent
from tracetui.model.results import guarded
from tracetui.model.table import Table, TextKind
from tracetui.model.trace import Interrupted, Trace, interruptible
from tracetui.operators.key_averages import has_shapes
from tracetui.overview.overview_table import kept_overview
from tracetui.panes import PANES
from tracetui.text import clean
from tracetui.ui.trace.selection import describe_gap
from tracetui.ui.trace.slice_description import chain_of, describe, short_name
from tracetui.ui.widgets.details import DetailFact, DetailLine, fact_lines, folded
from tracetui.ui.widgets.tabbed_list import TabbedList
from tracetui.ui.widgets.table_view import TableView

SLICE_PANES = ("kernels", "launches", "occupancy", "gaps", "memory")
"""Panes of which a single row is one slice: its description is that of the slice."""
PARTED_PANES = ("kernels", "ops", "views", "steps")
"""Panes of which a row has parts that are worked out."""
EXAMPLE_PANES = ("kernels", "ops", "views", "roofline", "launches")
"""Panes of which a row stands for many slices, and the longest is described below it."""
MAX_BARS = 6
"""Maximum bars of a part of the details."""
MIN_LABEL = 24
"""Cells of a name below which a longer one has a line of its own."""
BAR_SHARE = 5
"""Cells of the details for each cell of a bar."""
_LEFT_OUT = ("id", "jump", "name", "title", "evidence", "advice", "key", "depth", "path",
             "off_median")  # fmt: skip
"""Columns that are no fact about a row: what it is called, and what has a line of its own."""

Lines = Callable[[int], Sequence[DetailLine]]
"""Lines for a width in cells."""


@frozen(eq=True)
class BarItem:
    """A line with a bar."""

    label: str
    micros: float
    hue: Hue = Hue.CPU
    remark: str = ""
    row: int = -1
    """The slice to which the line jumps, -1 for none."""


@frozen(eq=True)
class Bars:
    """Lines with bars on one scale, under a title."""

    title: str
    items: tuple[BarItem, ...]
    whole: float = 0.0
    """Time in µs of which shares are shown; 0 for no shares."""


@frozen(eq=True)
class RowParts:
    """Parts of a row."""

    bars: tuple[Bars, ...] = ()
    failure: str = ""
    """The sentence that says why it could not be worked out."""


def bar_lines(bars: Bars, width: int) -> list[DetailLine]:
    """Name, time, share and bar of each of some items."""
    if not bars.items:
        return []
    cells = max(width // BAR_SHARE, 6)
    longest = max(max(item.micros for item in bars.items), 1e-9)
    times = [three_digits(1000 * item.micros) for item in bars.items]
    shares = [short_percent(100 * item.micros / bars.whole) if bars.whole else "" for item in bars.items]
    right = [f"{time:>8} {share:>6}" if share else f"{time:>8}" for time, share in zip(times, shares, strict=True)]
    lines = [DetailLine(""), DetailLine(bars.title, "label")]
    for item, numbers in zip(bars.items, right, strict=True):
        room, remark = width - cells - len(numbers) - 2, f" {item.remark}" if item.remark else ""
        is_tall = cell_len(clean(item.label) + remark) > room < MIN_LABEL
        label = cut_name(clean(item.label), max((width if is_tall else room) - len(remark), 4)) + remark
        style = "link" if item.row >= 0 else "plain"
        if is_tall:
            # In a narrow pane a name stands above its numbers.
            lines.append(DetailLine(label, style, item.row))
            label, style = "", "plain"
        pieces = f"{label}{' ' * (room - cell_len(label))}{numbers} ", bar(item.micros / longest, cells)
        row = item.row if style == "link" else -1
        lines.append(DetailLine("".join(pieces), style, row, ((pieces[0], None), (pieces[1], item.hue))))
    return lines


def row_lines(
    trace: Trace,
    pane: str,
    by: str | None,
    table: Table,
    row: int,
    graphics: RowGraphics | None,
    parts: RowParts,
    has_slices: bool,
) -> Lines:
    """The details of a row of a listed table.

    `parts` is what was worked out about it; slices are described where `has_slices` says that this takes no time.
    """

    def make(width: int) -> list[DetailLine]:
        lines = _title_lines(pane, by, table, row, width)
        facts = list(_fact_lines(pane, by, table, row, width)) if pane != "findings" else []
        is_step = pane == "steps" and by is None
        if pane == "findings":
            lines += _finding_lines(trace, table, row, width)
        lines += [] if is_step else facts
        lines += _graphic_lines(table, row, graphics, width)
        for bars in parts.bars:
            lines += bar_lines(bars, width)
        # Of a step there are many numbers: what it was spent on comes first.
        lines += [DetailLine(""), *facts] if is_step else []
        lines += [DetailLine(piece, "label") for piece in folded(clean(parts.failure), width)]
        return [*lines, *(_slice_lines(trace, pane, table, row, width) if has_slices else ())]

    return make


def _title_lines(pane: str, by: str | None, table: Table, row: int, width: int) -> list[DetailLine]:
    if pane == "steps" and by is None:
        kind = table["kind"].cell(row)
        title = DetailLine(f"step {table['step'].cell(row)}{f', {kind}' if kind else ''}", "title")
        verdict = clean(str(table["verdict"].cell(row) or ""))
        return [title, *(DetailLine(piece) for piece in folded(verdict, width))]
    if pane == "findings":
        word = str(table["severity"].cell(row))
        head = DetailLine(word, pieces=((word, SEVERITY_HUES.get(word)),))
        return [head, *(DetailLine(text, "title") for text in folded(clean(str(table["title"].cell(row))), width))]
    column = table[_naming_column(pane, table)]
    text = cell(column, column.cell(row)).strip(" ▸▾")
    text = short_kernel(text) if column.spec.text is TextKind.KERNEL else text
    return [DetailLine(piece, "title") for piece in folded(clean(text), width)[:4]]


def _naming_column(pane: str, table: Table) -> str:
    """The column that says what a row is."""
    own = {"kernels": "short_name", "health": "check", "summary": "key"}.get(pane, "")
    keys = [each.name for each in table.columns if each.is_text and each.spec.is_key]
    return own if own in table else (keys or table.column_names)[0]


def _fact_lines(pane: str, by: str | None, table: Table, row: int, width: int) -> Iterator[DetailLine]:
    """The values of a row, sentences in full, in the order of the list."""
    naming = "" if pane == "steps" else _naming_column(pane, table)
    names = [name for name in PANES[pane].columns_by(by) if name in table and name not in _LEFT_OUT]
    for name in names or [name for name in table.column_names if name not in _LEFT_OUT]:
        column = table[name]
        is_link = name == "example" and table.slices is not None and table.slices[row] >= 0
        if column.cell(row) is None or name == naming or is_link:
            continue
        text = cell_at(column, row)
        if column.spec.text is TextKind.KERNEL:
            text = short_kernel(text)
        if column.unit == "%":
            text += " %"
        if column.spec.text is TextKind.PROSE:
            yield from (DetailLine(piece) for piece in ["", *folded(text, width)])
        else:
            yield from fact_lines(DetailFact(column.spec.heading.removesuffix(" %").replace("%", "share"), text), width)


def _graphic_lines(table: Table, row: int, graphics: RowGraphics | None, width: int) -> list[DetailLine]:
    """Drawings of the row: its time in each step, and of a step its parts."""
    if graphics is None:
        return []
    lines: list[DetailLine] = []
    if graphics.steps is not None and row < len(graphics.steps.times) and graphics.steps.times[row].any():
        lines += _steps_lines(graphics.steps, row, width)
    if graphics.odd and row < len(graphics.odd):
        parts = step_part_cells(graphics.parts, row, width)
        pieces = tuple(part_pieces(parts, plain=False))
        spent = {name: float(times[row]) for name, times in graphics.parts.items()}
        scale = ", ".join(f"{name} {three_digits(1000 * time)}" for name, time in spent.items() if time > 0)
        lines += [DetailLine(""), *(DetailLine(piece, "label") for piece in folded(scale, width))]
        lines.append(DetailLine("".join(text for text, _ in pieces), pieces=pieces))
        words = odd_words(graphics.odd[row]).strip()
        if words:
            lines += [DetailLine(piece) for piece in folded(f"against the median step: {words}", width)]
    return lines


def _steps_lines(steps: StepTimes, row: int, width: int) -> list[DetailLine]:
    line = sparkline(steps.times[row].tolist())
    out = steps.outlier(row)
    words = f" ▲ ×{out[1]:.1f} in step {steps.labels[out[0]]}" if out else ""
    pieces: tuple[Piece, ...] = ((line, Hue.NOTE), (words, Hue.MINOR))
    return [
        DetailLine(""),
        DetailLine(f"in steps {steps.labels[0]} to {steps.labels[-1]}, the median at half height", "label"),
        DetailLine((line + words)[:width], pieces=pieces),
    ]


def _finding_lines(trace: Trace, table: Table, row: int, width: int) -> Iterator[DetailLine]:
    """The evidence drawn and in words, the advice, and the example."""
    cost = table["cost_us"].cell(row)
    step = table["step"].cell(row)
    if cost is not None:
        yield from fact_lines(DetailFact("time", cell(table["cost_us"], cost)), width)
    hue = SEVERITY_HUES.get(str(table["severity"].cell(row)), Hue.NOTE)
    evidence = str(table["evidence"].cell(row) or "")
    parts = evidence_parts(evidence)
    items = tuple(BarItem(label, micros, hue) for label, micros in parts[:MAX_BARS])
    yield from bar_lines(Bars("evidence", items), width)
    if not items:
        yield from (DetailLine(piece) for piece in ["", *folded(clean(evidence), width)])
    yield from (DetailLine(piece) for piece in ["", *folded(f"→ {clean(str(table['advice'].cell(row) or ''))}", width)])
    example = int(table.slices[row]) if table.slices is not None else -1
    if example >= 0:
        where = f"{short_name(trace, example)}{f' in step {step}' if step is not None else ''}"
        yield DetailLine("")
        yield from fact_lines(DetailFact("example", where, example), width)


def _slice_lines(trace: Trace, pane: str, table: Table, row: int, width: int) -> Iterator[DetailLine]:
    """The longest slice that the row stands for, described, or a link to it."""
    example = int(table.slices[row]) if table.slices is not None else -1
    if example < 0 or pane in ("findings", "steps"):
        return
    if pane in EXAMPLE_PANES:
        yield from (DetailLine(""), DetailLine("the longest of them", "label"))
        yield from describe(trace, example, chain_of(trace, example), width)
    else:
        yield DetailLine("")
        yield from fact_lines(DetailFact("example", short_name(trace, example), example), width)


# What rows are made of, from other panes. Made in a thread.


def row_parts(trace: Trace, pane: str, by: str | None, table: Table, row: int, part: Part | None) -> RowParts:
    """Parts of a row of one of `PARTED_PANES`, from the tables of other panes."""
    bars: list[Bars] = []
    if pane == "steps" and by is None:
        bars = _step_parts(trace, int(str(table["step"].cell(row))))
    elif pane in ("ops", "views") and by is None:
        bars = _op_parts(trace, str(table.columns[0].cell(row)), part)
    elif pane == "kernels" and by is not None:
        bars = _kernel_parts(trace, table, row, by, part)
    return RowParts(tuple(bars))


def _step_parts(trace: Trace, number: int) -> list[Bars]:
    """Parts of a step, as its overview has them."""
    overview = kept_overview(trace, number)
    of = f"of the {duration(overview.ns)} after start-up" if overview.start_up else "of the period"

    def bars(title: str, section: str) -> Bars:
        listed = overview.of(section)[:MAX_BARS]
        return Bars(
            f"{title}, {of}",
            tuple(BarItem(each.name, (each.ns or 0) / 1000, hue_of(each), row=each.row) for each in listed),
            overview.ns / 1000,
        )

    return [bars("GPU by family", "gpu"), bars("idle because of", "idle"), bars("heaviest kernels", "kernel")]


def _op_parts(trace: Trace, name: str, part: Part | None) -> list[Bars]:
    """The kernels that an operator launched itself, and the shapes of its calls."""
    kernels = PANES["kernels"].build(trace, part)
    mine = np.flatnonzero(kernels["op"].equal(name))
    found = [_by_text(kernels, mine, "short_name", "its kernels")]
    if has_shapes(trace):
        shapes = PANES["ops"].build(trace, part, "shape")
        of_name = np.flatnonzero(shapes["name"].equal(name) & ~shapes["input_shapes"].nulls())
        is_on_gpu = bool(np.nan_to_num(shapes["device_total_us"].values[of_name]).any())
        measure = "device_total_us" if is_on_gpu else "cpu_total_us"
        spent = np.nan_to_num(shapes[measure].values[of_name].astype(np.float64))
        items = [
            BarItem(
                str(shapes["input_shapes"].cell(int(of_name[index]))),
                float(spent[index]),
                remark=f"×{count(int(str(shapes['calls'].cell(int(of_name[index])))))}",
            )
            for index in np.argsort(-spent, kind="stable")[:MAX_BARS].tolist()
        ]
        title = "shapes by GPU time" if is_on_gpu else "shapes by CPU time"
        found.append(Bars(title, tuple(items), float(spent.sum())))
    return found


def _kernel_parts(trace: Trace, table: Table, row: int, by: str, part: Part | None) -> list[Bars]:
    """The operators that launched the kernels of a group; of other groups than names its kernels as well."""
    kernels = PANES["kernels"].build(trace, part)
    key = table.columns[0]
    if key.name not in kernels:
        return []
    mine = np.flatnonzero(kernels[key.name].equal(key.cell(row)))
    found = [] if by == "name" else [_by_text(kernels, mine, "short_name", "its kernels")]
    return [*found, *([] if by == "op" else [_by_text(kernels, mine, "op", "launched by")])]


def _by_text(kernels: Table, rows: Int64, name: str, title: str) -> Bars:
    """The time of some kernels by the text of a column, the most first."""
    ids, dur = kernels[name].values[rows].astype(np.int64), kernels["dur_us"].values[rows].astype(np.float64)
    used, member = np.unique(ids, return_inverse=True)
    total, calls = np.bincount(member, dur, len(used)), np.bincount(member, minlength=len(used))
    longest = {int(m): int(rows[i]) for i, m in enumerate(member.tolist())}
    strings = kernels[name].strings or ()
    items = []
    for index in np.argsort(-total, kind="stable")[:MAX_BARS].tolist():
        label = strings[int(used[index])] if used[index] >= 0 else "unknown"
        family = Family.__members__.get(str(kernels["family"].cell(longest[index])).upper(), Family.OTHER)
        hue = FAMILY_HUES.get(family, Hue.OTHER)
        items.append(BarItem(label, float(total[index]), hue, f"×{count(int(calls[index]))}"))
    return Bars(title, tuple(items), float(total.sum()))


ROW_SECONDS = 0.05
"""Seconds that the cursor rests on a row before it is worked out what that is made of."""
MAX_KEPT_ROWS = 300
"""Maximum rows of which it is kept what they are made of."""

TableKey = tuple[str, Part | None, str | None]
"""Pane, the number of a step or a range of time, and grouping."""


class DescribedList(TabbedList):
    """The panes of a trace with what the details say of their rows."""

    @dataclass
    class WorkedOut(Message):
        """It is known what a row is made of."""

        key: TableKey
        row: int
        parts: RowParts

    def __init__(self, trace: Trace, tabs: Sequence[str], *, id: str | None = None) -> None:
        super().__init__(tabs, id=id)
        self.trace = trace
        self._drawn: dict[TableKey, RowGraphics | None] = {}
        """What is drawn in the rows of each table."""
        self._row_parts: dict[tuple[TableKey, int], RowParts] = {}
        """What rows are made of, as far as it was worked out."""
        self._followed_slices: Sequence[int] = ()

    @property
    def lists_gaps(self) -> bool:
        """True where the rows of the current pane are single gaps."""
        return self.pane == "gaps" and self.arrangements[self.pane].by is None

    def _key(self, pane: str) -> TableKey:
        """The table that a pane shows."""
        raise NotImplementedError

    @on(TableView.RowHighlighted)
    def _turn_to_row(self) -> None:
        self._explain_row()
        self.details.turn_to_row(True)

    def _explain_row(self) -> None:
        """Have the details say what the current row stands for, and draw the list where it has a drawing."""
        by = self.arrangement.by
        picture = list_picture(self.pane, by, self.view.table, self.view.row) if (self.pane, by) in PICTURES else None
        self.details.explain_row(self._row_explanation(), picture)

    def _row_explanation(self) -> Lines | None:
        """A function for the lines about the current row; None where that is the selected slice, or there is no row."""
        view, pane, by, row = self.view, self.pane, self.arrangement.by, self.view.row
        table, whole = view.table, self.table
        if table is None or whole is None or row < 0:
            return None
        if pane in SLICE_PANES and by is None:
            is_selected = view.located and view.slice_row in self._followed_slices[:1]
            return None if is_selected else self._slice_explanation(view.slice_row)
        key, is_waiting = self._key(pane), self.details.is_waiting
        parts = self._row_parts.get((key, row))
        if parts is None and pane in PARTED_PANES:
            self._work_out_row(key, whole, row)
        lines = row_lines(self.trace, pane, by, table, row, self._drawn.get(key), parts or RowParts(), not is_waiting)
        return partial(self._with_note, lines, self._note_below(whole))

    def _with_note(self, lines: Lines, note: str, width: int) -> Sequence[DetailLine]:
        """The lines about a row, and at their end the note of the list where not all of it stands below the rows."""
        if not note or self.view.is_below_whole:
            return lines(width)
        pieces = [DetailLine(piece) for piece in folded(clean(note), width)]
        return [*lines(width), DetailLine(""), DetailLine("about this list", "label"), *pieces]

    def _slice_explanation(self, slice_row: int) -> Lines | None:
        """A function for the lines about a slice that is not selected, or about the gap before it."""
        if slice_row < 0 or self.details.is_waiting:
            return None
        gap = gap_before(self.trace, slice_row) if self.lists_gaps else -1
        if gap >= 0:
            return partial(describe_gap, self.trace, gap, True)
        return partial(describe, self.trace, slice_row, chain_of(self.trace, slice_row))

    @work(thread=True, exclusive=True, group="row")
    def _work_out_row(self, key: TableKey, table: Table, row: int) -> None:
        """Work out what a row is made of, unless the cursor moves on at once."""
        worker = get_current_worker()
        time.sleep(ROW_SECONDS)
        pane, part, by = key
        try:
            with interruptible(lambda: not worker.is_cancelled), guarded("What the row is made of"):
                parts = row_parts(self.trace, pane, by, table, row, part)
        except Interrupted:
            return
        except AnalysisFailed as failure:
            parts = RowParts(failure=str(failure))
        self.post_message(self.WorkedOut(key, row, parts))

    @on(WorkedOut)
    def _take_parts(self, message: WorkedOut) -> None:
        message.stop()
        while len(self._row_parts) >= MAX_KEPT_ROWS:
            self._row_parts.pop(next(iter(self._row_parts)))
        self._row_parts[message.key, message.row] = message.parts
        if (message.key, message.row) == (self._key(self.pane), self.view.row):
            self._explain_row()
