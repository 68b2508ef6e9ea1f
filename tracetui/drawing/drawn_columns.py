"""Columns of a list that are drawn from the numbers of its rows: bars, shares, time by step, parts of a step. Pure.

A column is a function from a row to pieces of text, each in a hue; it has no cells of its own in the table, and text
output does not have it. The time of a server's steps is a stacked bar by kind and batch: a part is a stretch of its
letter, on a screen of its hue with its letter in front. Purposes that run side by side have the busy time in
proportion to theirs (R3.85).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from functools import partial
from typing import NamedTuple

import numpy as np

from tracetui.drawing.hues import FAMILY_HUES, Hue, bar, sparkline, three_digits, whole_cells
from tracetui.frozen import frozen
from tracetui.kernel_names.slice_names import Family
from tracetui.linking.placement import step_labels
from tracetui.linking.steps import steps
from tracetui.model.intervals import Int64
from tracetui.model.quantities import rounded_percent, short_percent
from tracetui.model.table import Column, Table
from tracetui.model.trace import Float64, Trace
from tracetui.panes import PANES
from tracetui.tables.kernels import row_families, step_times
from tracetui.tables.step_table import COMMUNICATION, COMPUTE, CPU, IDLE, OddStep, odd_steps, scale_of_bars, step_parts

Piece = tuple[str, Hue | None]
"""Text, and its hue; None for the colour of the row."""

BARS = (6, 24)
"""Least and most cells of a bar."""
CELLS_PER_BAR_CELL = 9
"""Cells of a list for each cell of a bar."""
MIN_CELLS_OF_BARS = 60
"""Minimum cells of a list that has bars."""
MIN_CELLS_OF_TWO = 120
"""Minimum cells of a list in which a second column has one as well."""
MIN_CELLS_OF_STEPS = 86
"""Minimum cells of a list that has a column of steps: what is left beside the details on a screen of 140."""
SHARE_CELLS = 6
"""Cells of a share."""
ADD_UP = ("total_us", "self_device_us", "self_cpu_us")
"""Columns whose values add up to a whole, of which a row has a share."""
STANDS_OUT = 1.5
"""Times the median of a row from which on a step stands out."""
MIN_SHARE_TO_STAND_OUT = 0.005
"""Minimum difference of a step that stands out, as a share of the time of all rows in a step."""


@frozen(eq=True)
class DrawnColumn:
    """A column that is drawn."""

    title: str
    width: int
    pieces: Callable[[int, int, bool], list[Piece]]
    """The pieces of a row, at most as many cells as the second argument says; the third asks for textures."""
    after: str = ""
    """Name of the column behind which it stands; empty for the end of the row."""
    is_number: bool = False
    """True where its title stands at the right, as above numbers."""
    beside: int = 4
    """Number of the list's first columns that must fit beside it."""
    instead_of: str = ""
    """Name of the column that says the same in words, which is not listed beside it."""


@frozen
class StepTimes:
    """Time of each row of a table in each step."""

    labels: tuple[int, ...]
    """Numbers of the steps."""
    times: Float64
    """In µs, a line for each row."""

    def outlier(self, row: int) -> tuple[int, float] | None:
        """Index of the only step that stands out in a row, and by what factor; None where there is none."""
        times = self.times[row]
        middle = float(np.sort(times)[(len(times) - 1) // 2])
        if middle <= 0:
            return None
        whole = float(np.median(self.times.sum(axis=0)))
        out = np.flatnonzero(
            (times >= STANDS_OUT * middle) & (times - middle >= MIN_SHARE_TO_STAND_OUT * max(whole, 1e-9))
        )
        return (int(out[0]), float(times[out[0]]) / middle) if len(out) == 1 else None


@frozen
class RowGraphics:
    """Values that the drawn columns of a table need beside its cells."""

    bars: tuple[str, ...] = ()
    """Names of the columns that have a bar, the most important first."""
    families: Int64 | None = None
    """The family (`Family`) of what each row ran on the GPU, -1 for none; None where rows have no family."""
    steps: StepTimes | None = None
    odd: list[OddStep | None] = field(default_factory=list)
    """How each row differs from the others, of a list of steps."""
    sorts: tuple[str, ...] = ()
    """Names of the columns by one of which rows may come sorted."""
    parts: dict[str, Float64] = field(default_factory=dict)
    """Time in µs of each row by part, of a list of steps."""

    def hue(self, row: int) -> Hue:
        """The hue of a row's bar."""
        family = -1 if self.families is None else int(self.families[row])
        return FAMILY_HUES.get(Family(family), Hue.CPU) if family >= 0 else Hue.CPU


def drawn_columns(
    table: Table, graphics: RowGraphics, shown: list[str], sort: str | None, cells: int
) -> list[DrawnColumn]:
    """The columns to draw in a list `cells` wide that shows the columns `shown` and is sorted by `sort`."""
    if cells < MIN_CELLS_OF_BARS or len(table) == 0:
        return []
    drawn = _bars(table, graphics, shown, sort, cells)
    if set(table.column_names) >= SERVING_COLUMNS:
        width = min(max(cells // 3, MIN_STEP_BAR), MAX_STEP_BAR)
        after = "batch" if "batch" in table else "steps"
        pieces = partial(serving_pieces, table)
        drawn.insert(0, DrawnColumn("GEMM, attention, .., idle", width, pieces, after, beside=2))
    if graphics.parts and "period_us" in shown:
        drawn += step_columns(graphics.parts, graphics.odd, cells)
    if graphics.steps is not None and cells >= MIN_CELLS_OF_STEPS + len(graphics.steps.labels):
        drawn.append(_steps_column(graphics.steps))
    return drawn


def _bars(table: Table, graphics: RowGraphics, shown: list[str], sort: str | None, cells: int) -> list[DrawnColumn]:
    names = [name for name in graphics.bars if name in shown and not table[name].nulls().all()]
    if names and sort in shown and sort not in names:
        spec = table[str(sort)].spec
        names = [spec.name, *names[1:]] if spec.unit == "us" and not spec.is_moment else names
    width = min(max(cells // CELLS_PER_BAR_CELL, BARS[0]), BARS[1])
    drawn = []
    for name in names[: 1 + (cells >= MIN_CELLS_OF_TWO)]:
        if name in ADD_UP and "pct" not in shown:
            drawn.append(_share_column(table[name]))
        is_of_cpu = "cpu" in name
        drawn.append(_bar_column(table[name], graphics, width, Hue.CPU if is_of_cpu else None))
    return drawn


def _share_column(column: Column) -> DrawnColumn:
    values = np.nan_to_num(column.values.astype(np.float64))
    whole = max(float(values.sum()), 1e-9)

    def pieces(row: int, width: int, plain: bool) -> list[Piece]:
        text = short_percent(100 * float(values[row]) / whole) if values[row] > 0 else ""
        return [(f"{text:>{width}}", Hue.QUIET)]

    return DrawnColumn("%", SHARE_CELLS, pieces, column.name, is_number=True)


def _bar_column(column: Column, graphics: RowGraphics, width: int, hue: Hue | None) -> DrawnColumn:
    values = np.nan_to_num(column.values.astype(np.float64))
    longest = max(float(values.max(initial=0.0)), 1e-9)

    def pieces(row: int, width: int, plain: bool) -> list[Piece]:
        return [(bar(float(values[row]) / longest, width), hue or graphics.hue(row))]

    return DrawnColumn("", width, pieces, column.name)


def _steps_column(steps: StepTimes) -> DrawnColumn:
    """A line of the times in each step, the median at half height, and in words the one that stands out."""

    def pieces(row: int, width: int, plain: bool) -> list[Piece]:
        if not steps.times[row].any():
            return []
        line = sparkline(steps.times[row].tolist())
        out = steps.outlier(row)
        if out is None:
            return [(line, Hue.NOTE)]
        index, factor = out
        words = f" ▲ ×{factor:.1f} in {steps.labels[index]}"
        return [(line[:index], Hue.NOTE), (line[index], Hue.MINOR), (line[index + 1 :], Hue.NOTE), (words, Hue.MINOR)]

    title = f"steps {steps.labels[0]}…{steps.labels[-1]}"
    longest = max((len(str(label)) for label in steps.labels), default=0)
    return DrawnColumn(title, max(len(steps.labels) + len(" ▲ ×2.0 in ") + longest, len(title)), pieces)


# Steps: a bar of the parts on one scale, and the parts that are odd in words.

_PART_HUES = {COMPUTE: Hue.GEMM, COMMUNICATION: Hue.COMMUNICATION, IDLE: Hue.IDLE, CPU: Hue.FORWARD}
MIN_STEP_BAR, MAX_STEP_BAR = 12, 60
"""Cells of the longest bar of a step."""


def step_columns(spent: dict[str, Float64], odd: list[OddStep | None], cells: int) -> list[DrawnColumn]:
    """The bar of each step, all on one scale, and how it differs from the others."""
    words = [odd_words(each) for each in odd]

    def parts(row: int, width: int, plain: bool) -> list[Piece]:
        return part_pieces(step_part_cells(spent, row, width), plain)

    def pieces(row: int, width: int, plain: bool) -> list[Piece]:
        each = odd[row]
        return [(words[row][:width], Hue.MINOR if each is not None and each.parts else Hue.QUIET)]

    width, title = min(max(cells // 5, MIN_STEP_BAR), MAX_STEP_BAR), ", ".join(spent)
    drawn = [DrawnColumn(title if len(title) <= width else "spent on", width, parts, "period_us", beside=2)]
    if any(words):
        width = max(8, *map(len, words))
        drawn.append(DrawnColumn("Δ median", width, pieces, "period_us", beside=2, instead_of="off_median"))
    return drawn


def step_part_cells(parts: dict[str, Float64], row: int, width: int) -> list[tuple[Hue, int]]:
    """The parts of a step and their cells of a bar, all steps on one scale."""
    times = np.nan_to_num(np.stack(list(parts.values())))
    share = min(float(times[:, row].sum()) / scale_of_bars(times.sum(axis=0).tolist()), 1.0)
    cells = whole_cells(times[:, row].tolist(), round(share * width))
    return [(_PART_HUES[name], each) for name, each in zip(parts, cells, strict=True)]


def part_pieces(parts: list[tuple[Hue, int]], plain: bool) -> list[Piece]:
    """The parts of a bar by their cells: full blocks, idle time hatched, with textures where colours do not tell."""
    letters = [(hue.value.texture if plain else "╱" if hue is Hue.IDLE else "█", hue, cells) for hue, cells in parts]
    return [(letter * cells, hue) for letter, hue, cells in letters if cells]


def odd_words(odd: OddStep | None) -> str:
    """A step that is odd in words: `▲ +6 % idle +19.7 ms`; the change of its length alone where it is not."""
    if odd is None:
        return ""
    percent = round(100 * odd.change)
    change = f"{'+' if percent > 0 else '−' if percent < 0 else ''}{abs(percent)} %"
    if not odd.parts:
        return f"  {change}"
    parts = [f"{name} {'+' if us >= 0 else '−'}{three_digits(1000 * abs(us))}" for name, us in odd.parts]
    return f"▲ {change} {', '.join(parts)}"


# What a list needs, from the trace.


def row_graphics(trace: Trace, pane: str, by: str | None, table: Table, is_of_range: bool = False) -> RowGraphics:
    """The graphics of the table of a pane. Of a range of time there are no times by step."""
    bars = tuple(PANES[pane].bars.split())
    if pane == "steps" and by is None and table.slices is not None:
        listed = np.flatnonzero(np.isin(steps(trace).row, table.slices))
        parts = {name: times[listed] for name, times in step_parts(trace).items()}
        return RowGraphics(bars, odd=[odd_steps(trace)[index] for index in listed.tolist()], parts=parts)
    times = None if is_of_range else step_times(trace, pane, by, table)
    by_step = None if times is None else StepTimes(tuple(step_labels(trace)), times)
    sorts = () if PANES[pane].has_own_order else bars
    return RowGraphics(bars, row_families(trace, pane, by, table), by_step, sorts=sorts)


class ServingKind(NamedTuple):
    column: str
    hue: Hue
    letter: str
    name: str


SERVING_KINDS = (
    ServingKind("products_pct", Hue.GEMM, "g", "GEMM"),
    ServingKind("attention_pct", Hue.ATTENTION, "a", "attention"),
    ServingKind("comm_pct", Hue.COMMUNICATION, "c", "communication"),
    ServingKind("routing_pct", Hue.REDUCTION, "r", "routing"),
    ServingKind("quantise_pct", Hue.COPY, "q", "quantise"),
    ServingKind("sampling_pct", Hue.DATA, "s", "sampling"),
)
_SERVING_REST, _SERVING_IDLE = (
    ServingKind("", Hue.ELEMENTWISE, "e", "rest"),
    ServingKind("idle_pct", Hue.IDLE, "·", "idle"),
)
SERVING_COLUMNS = frozenset({"kind", "idle_pct", *(each.column for each in SERVING_KINDS)})
"""Columns of a table whose rows have bars."""
MIN_CELLS_OF_SHARES = 40
"""Minimum cells of a drawing of bars."""
MIN_NAMED_SHARE = 0.05
"""Minimum percent of a part that the legend names."""
MAX_LABEL_CELLS = 24
"""Maximum cells for what a bar is of."""


def serving_parts(table: Table, row: int) -> list[tuple[ServingKind, float]]:
    """The parts of a row in percent of its time, 100 together; empty for steps that ran nothing."""
    idle = float(table["idle_pct"].values[row])
    shares = [float(table[each.column].values[row]) for each in SERVING_KINDS]
    if np.isnan([idle, *shares]).any():
        return []
    busy = (100 - idle) / max(sum(shares), 100)
    served = [(each, share * busy) for each, share in zip(SERVING_KINDS, shares, strict=True)]
    rest = 100 - idle - sum(share for _, share in served)
    return [*served, (_SERVING_REST, max(rest, 0.0)), (_SERVING_IDLE, idle)]


def serving_pieces(table: Table, row: int, width: int, plain: bool) -> list[tuple[str, Hue | None]]:
    """The bar of a row in `width` cells, for a list."""
    bars = serving_parts(table, row)
    cells = whole_cells([share for _, share in bars], width)
    drawn: list[tuple[str, Hue | None]] = []
    for (kind, _), count in zip(bars, cells, strict=True):
        fill = kind.letter if plain or kind is _SERVING_IDLE else "█"
        drawn += [(kind.letter[:count], kind.hue), (fill * (count - 1), kind.hue)]
    return [(text, hue) for text, hue in drawn if text]


def share_lines(table: Table, width: int, height: int) -> list[str]:
    """A bar of each row, the first of them where there are more than fit, and what the letters stand for."""
    if not set(table.column_names) >= SERVING_COLUMNS or width < MIN_CELLS_OF_SHARES or height < 2:
        return []
    rows = [(row, bars) for row in range(len(table)) if (bars := serving_parts(table, row))][: height - 1]
    labels = [_label(table, row) for row, _ in rows]
    room = min(max(map(len, labels), default=0), MAX_LABEL_CELLS)
    lines = []
    for label, (_, bars) in zip(labels, rows, strict=True):
        cells = whole_cells([share for _, share in bars], width - room - 1)
        bar = ""
        for (kind, share), count in zip(bars, cells, strict=True):
            # The name and the share where they fit between two letters.
            texts = (f" {kind.name} {rounded_percent(share)} ", f" {rounded_percent(share)} ", "")
            bar += next(text for text in texts if len(text) <= max(count - 2, 0)).center(count, kind.letter)
        lines.append(f"{label[:room]:<{room}} {bar}")
    drawn = {kind for _, bars in rows for kind, share in bars if share >= MIN_NAMED_SHARE}
    legend = "  ".join(
        f"{kind.letter} {kind.name}" for kind in (*SERVING_KINDS, _SERVING_REST, _SERVING_IDLE) if kind in drawn
    )
    return [*lines, legend] if lines else []


def _label(table: Table, row: int) -> str:
    label = str(table["kind"].cell(row))
    if "batch" in table and table["batch"].cell(row) is not None:
        label += f" {table['batch'].cell(row)} {table['batch_unit'].cell(row)}"
    elif "batch" in table and table["kernels"].cell(row) is not None:
        label += f" {table['kernels'].cell(row):,.0f} kernels"
    return label
