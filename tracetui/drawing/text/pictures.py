"""Drawings above lists, on a terminal and in the details of the screen."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tracetui.drawing.drawn_columns import share_lines
from tracetui.drawing.timeline.window import layers_per_shade
from tracetui.frozen import frozen
from tracetui.model.quantities import duration
from tracetui.model.table import Table
from tracetui.tables.layers import MIN_ODD_RATIO

# Plots in braille: dots on two logarithmic axes with their numbers; two by four dots in a cell.
#
# A dot that falls on another one shares its cell.

Float64 = NDArray[np.float64]

BLANK = 0x2800
_DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]], np.uint8)
"""Bits of a braille letter, by row and column of the dot."""
MARGIN = 8
"""Cells for the numbers beside the vertical axis."""
MIN_WIDTH, MIN_HEIGHT = 24, 6
"""Minimum cells of a plot."""


@frozen(eq=True)
class Axis:
    """Decimal logarithms along a number of dots."""

    low: float
    high: float
    dots: int

    @classmethod
    def over(cls, values: Sequence[float], dots: int) -> Axis:
        """An axis with room around some values."""
        low, high = min(values), max(values)
        room = max((high - low) * 0.05, 0.15)
        return cls(low - room, high + room, dots)

    def indices(self, values: Float64) -> NDArray[np.int64]:
        """Number of the dot of each value; those outside of the axis are out of range."""
        found: NDArray[np.int64] = np.floor((values - self.low) / (self.high - self.low) * self.dots).astype(np.int64)
        return found

    def labels(self, dots_per_cell: int) -> dict[int, str]:
        """Numbers at powers of ten, or at 1, 2 and 5 of each where there are few, by cell."""
        decades = range(math.floor(self.low), math.ceil(self.high) + 1)
        steps = (1,) if self.high - self.low > 2 else (1, 2, 5)
        marks = [math.log10(step) + decade for decade in decades for step in steps]
        inside = [mark for mark in marks if self.low <= mark < self.high]
        return {int(self.indices(np.array([mark]))[0]) // dots_per_cell: f"{10**mark:g}" for mark in inside}


def framed(grid: NDArray[np.bool_], across: Axis, up: Axis, title: str, unit: str) -> list[str]:
    """Lines of a plot: the unit of the vertical axis, the dots, and the horizontal axis with its numbers and unit."""
    rows, columns = grid.shape[0] // 4, grid.shape[1] // 2
    labels = up.labels(4)
    # Braille letters of a grid of dots.
    cells = grid.reshape(rows, 4, columns, 2).transpose(0, 2, 1, 3)
    codes = (cells * _DOTS).sum(axis=(2, 3), dtype=np.uint32) + BLANK
    # An empty braille letter is no space: some fonts draw a box for it.
    lines = ["".join(map(chr, row)).replace(chr(BLANK), " ") for row in codes.tolist()]
    body = [f"{labels.get(rows - 1 - row, ''):>{MARGIN}}┤{line}" for row, line in enumerate(lines)]
    return [
        f"{title:>{MARGIN}}",
        *body,
        f"{'':>{MARGIN}}└{'─' * columns}",
        _below(across.labels(2), columns, unit),
    ]


def ends(values: Float64) -> tuple[float, float]:
    """The least and the largest value."""
    return float(values.min()), float(values.max())


def put_dots(grid: NDArray[np.bool_], across: NDArray[np.int64], up: NDArray[np.int64]) -> None:
    """Set dots, counted from the lower left corner."""
    inside = (across >= 0) & (across < grid.shape[1]) & (up >= 0) & (up < grid.shape[0])
    grid[grid.shape[0] - 1 - up[inside], across[inside]] = True


def _below(labels: dict[int, str], columns: int, unit: str) -> str:
    """The numbers under the horizontal axis, each centred below its dot, and what they count."""
    line = [" "] * columns
    line[columns - len(unit) :] = unit
    for place, text in sorted(labels.items()):
        first = max(place - len(text) // 2, 0)
        span = slice(max(first - 1, 0), first + len(text) + 1)
        if first + len(text) < columns - len(unit) and not "".join(line[span]).strip():
            line[first : first + len(text)] = text
    return " " * (MARGIN + 1) + "".join(line)


# Duration of a server's steps over their batch in braille: the median as a large dot, the 95th percentile small.

MIN_BATCHES = 2
"""Minimum sizes of batches of a kind that is drawn."""


def batch_lines(table: Table, width: int = 80, height: int = 14) -> list[str]:
    """A plot for each kind of step with batches of several sizes; `table` is that of serving by batch."""
    if not {"batch_size", "median_us", "p95_us", "kind", "batch_unit", "gpu_busy_us"} <= set(table.column_names):
        return []
    size, median, high = (table[name].values.astype(np.float64) for name in ("batch_size", "median_us", "p95_us"))
    good = np.isfinite(size) & np.isfinite(median) & (size > 0) & (median > 0)
    kinds = [table["kind"].cell(row) for row in range(len(table))]
    # Without a GPU the steps take their time on the CPU.
    measured = "CPU time" if table["gpu_busy_us"].nulls().all() else "GPU span"
    lines: list[str] = []
    for kind in dict.fromkeys(kinds):
        mine = good & np.array([each == kind for each in kinds], bool)
        if len(np.unique(size[mine])) >= MIN_BATCHES:
            unit = str(table["batch_unit"].cell(int(np.flatnonzero(mine)[0])))
            points = size[mine], median[mine] / 1000, high[mine] / 1000
            lines += _plot(f"{measured} of {kind}, ms", unit, points, (width, height))
    return lines


def _plot(
    title: str, unit: str, points: tuple[np.ndarray, np.ndarray, np.ndarray], extent: tuple[int, int]
) -> list[str]:
    """One plot; empty where the space is too small."""
    width, height = extent
    columns, rows = width - MARGIN - 1, height - 3
    if width < MIN_WIDTH or height < MIN_HEIGHT:
        return []
    x, median, high = (np.log10(values) for values in points)
    across, up = Axis.over(ends(x), columns * 2), Axis.over([*ends(median), *ends(high)], rows * 4)
    grid = np.zeros((rows * 4, columns * 2), bool)
    put_dots(grid, across.indices(x), up.indices(high))
    for right, above in ((0, 0), (1, 0), (0, 1), (1, 1)):
        put_dots(grid, across.indices(x) + right, up.indices(median) + above)
    return framed(grid, across, up, title, unit)


# A roofline in braille: rate over arithmetic intensity, both logarithmic, under the roof of the device.

DECADES = 5
"""Height of the vertical axis at most."""
MARK = "◆"
"""Stands where the marked row is."""
NEGLIGIBLE, LARGE = 0.001, 0.05
"""Shares of the time below which a row is not drawn, and from which on its point is large."""


@frozen(eq=True)
class Roof:
    """The limit of a device: flat at its peak rate, sloping where memory bandwidth bounds it."""

    tflops: float
    gbps: float

    def at(self, intensity: Float64) -> Float64:
        """Attainable TFLOP/s at an intensity in FLOP per byte."""
        return np.minimum(self.tflops, intensity * self.gbps / 1000)


def scatter(
    intensity: Float64,
    tflops: Float64,
    roofs: Sequence[Roof] = (),
    width: int = 80,
    height: int = 20,
    heavy: NDArray[np.bool_] | None = None,
    marked: int = -1,
) -> list[str]:
    """Lines of `width` cells: points by FLOP per byte and TFLOP/s, the roofs above them, axes with their numbers.

    Points that are `heavy` are four times as large, the `marked` one is a diamond. Points without a number, at 0, or
    far below the roof are left out; empty where nothing is left or the space is too small.
    """
    good = np.isfinite(intensity) & np.isfinite(tflops) & (intensity > 0) & (tflops > 0)
    x, y = np.log10(intensity[good]), np.log10(tflops[good])
    columns, rows = width - MARGIN - 1, height - 3
    if len(x) == 0 or width < MIN_WIDTH or height < MIN_HEIGHT:
        return []
    ridges = [math.log10(1000 * roof.tflops / roof.gbps) for roof in roofs]
    across = Axis.over([*ends(x), *ridges], columns * 2)
    tops = [float(y.max()), *(math.log10(roof.tflops) for roof in roofs)]
    up = Axis.over([max(float(y.min()), max(tops) - DECADES), *tops], rows * 4)
    grid = np.zeros((rows * 4, columns * 2), bool)
    for roof in roofs:
        line = np.log10(
            roof.at(10 ** (across.low + (np.arange(across.dots) + 0.5) * (across.high - across.low) / across.dots))
        )
        put_dots(grid, np.arange(columns * 2), up.indices(line))
    put_dots(grid, across.indices(x), up.indices(y))
    if heavy is not None:
        large = heavy[good]
        for right, above in ((1, 0), (0, 1), (1, 1)):
            put_dots(grid, across.indices(x[large]) + right, up.indices(y[large]) + above)
    lines = framed(grid, across, up, "TFLOP/s", "FLOP/byte")
    if marked >= 0 and good[marked]:
        at = np.log10(np.array([intensity[marked], tflops[marked]]))
        column, row = int(across.indices(at)[0]) // 2, rows - 1 - int(up.indices(at)[1]) // 4
        if 0 <= column < columns and 0 <= row < rows:
            # A line of numbers stands above the dots, the axis before them.
            text, place = lines[row + 1], MARGIN + 1 + column
            lines[row + 1] = f"{text[:place]}{MARK}{text[place + 1 :]}"
    return lines


def roofline_lines(table: Table, width: int = 80, height: int = 20, marked: int = -1) -> list[str]:
    """The drawing of the roofline pane: a point per row, a roof per precision; empty where no row has a rate.

    Rows with less than a thousandth of the time are left out, those with a twentieth of it are large, and one row may
    be marked: it is drawn however little time it has.
    """
    names = ("intensity", "tflops", "peak_tflops", "peak_gbps", "total_us")
    intensity, tflops, peaks, bandwidth, time = (table[name].values.astype(np.float64) for name in names)
    share = time / max(float(time.sum()), 1e-9)
    is_drawn = share >= NEGLIGIBLE
    if marked >= 0:
        is_drawn[marked] = True
    tflops = np.where(is_drawn, tflops, np.nan)
    drawn = np.isfinite(tflops) & np.isfinite(intensity) & np.isfinite(peaks) & np.isfinite(bandwidth)
    roofs = sorted(set(zip(peaks[drawn].tolist(), bandwidth[drawn].tolist(), strict=True)))
    return scatter(intensity, tflops, [Roof(*roof) for roof in roofs], width, height, share >= LARGE, marked)


MIN_BATCH_LINES = 12
"""Minimum lines of the plot of times by batch, below the bars where both fit."""


def served_lines(table: Table, width: int, height: int) -> list[str]:
    """The bars of the batches above the plot of their times, where a list has no bars of its own beside it."""
    bars = share_lines(table, width, height)
    return [*bars, *batch_lines(table, width, max(height - len(bars), MIN_BATCH_LINES))]


# The layers of a step over time, those of each shape of step as a strip: layers in turn in two shades, odd ones apart.

_SHADES, _ODD, _BESIDE = "▒█", "▲", "·"
"""Letters of layers by their number, of odd ones, and of what is before, between and behind them."""
_ODD_NUMBER = re.compile(r"(\d+) \(")
"""Pattern of the numbers of odd layers in the table of parts."""


@frozen(eq=True)
class _Stretch:
    """A part of a step: its time in µs from the first kernel, and the number of the layer, 0 for what is none."""

    start: float
    end: float
    layer: int
    is_odd: bool = False
    is_last: bool = False


def layer_lines(table: Table, width: int = 80, height: int = 14) -> list[str]:
    """Two lines for each shape of step: its layers over time, and below them the numbers of first, last and odd ones.

    Where layers are too narrow for a shade each, several share one, and the second line has how many.
    `table` is that of layers, in which those of a series are drawn as equally long, or that by layer.
    """
    columns, lines = width - MARGIN - 1, []
    for kind, stretches in _steps_of_layers(table)[: height // 2] if columns >= MIN_WIDTH else []:
        whole = max(max(each.end for each in stretches), 1e-9)
        strip, labels = [_BESIDE] * columns, dict[int, str]()
        own = [each.end - each.start for each in stretches if each.layer]
        together = layers_per_shade(float(np.median(own or [0.0])) * columns / whole)
        # Odd layers come last: they are seen however narrow they are.
        for each in sorted(stretches, key=lambda each: each.is_odd):
            first = min(int(each.start / whole * columns), columns - 1)
            last = max(round(each.end / whole * columns), first + 1)
            letter = _ODD if each.is_odd else _SHADES[-(-each.layer // together) % 2] if each.layer else _BESIDE
            strip[first:last] = letter * (min(last, columns) - first)
            if each.layer == 1 or each.is_last or each.is_odd:
                text = str(each.layer)
                labels.setdefault(min((first + last - 1) // 2, columns - 1 - (len(text) + 1) // 2), text)
        below = _below(labels, columns, "")[MARGIN:]
        for words in (f"({together} layers per shade)", f"({together} per shade)") if together > 1 else ():
            free = below.find(" " * (len(words) + 2), 1)
            if free >= 0:
                below = f"{below[: free + 1]}{words}{below[free + 1 + len(words) :]}"
                break
        lines += [f"{kind[:MARGIN]:>{MARGIN}}│{''.join(strip)}", f"{duration(1000 * whole):>{MARGIN}}{below.rstrip()}"]
    return lines


def _steps_of_layers(table: Table) -> list[tuple[str, list[_Stretch]]]:
    """The kind of each shape of step, and its parts in order of time."""
    shapes: list[tuple[str, list[_Stretch]]] = []
    rows = list(table.rows())
    for index, row in enumerate(rows):
        start, took = float(row["from_start_us"] or 0), float(row["median_us"] or 0)
        is_layer = "layer" in row
        if not shapes or (row["layer"] == row["series"] == 1 if is_layer else start == 0):
            shapes.append((str(row["kind"] or "step"), []))
        stretches, after = shapes[-1][1], rows[index + 1] if index + 1 < len(rows) else None
        if is_layer:
            is_odd = not 1 / MIN_ODD_RATIO < float(row["to_median"] or 1) < MIN_ODD_RATIO
            is_last = after is None or after["layer"] == 1
            stretches.append(_Stretch(start, start + took, int(row["layer"] or 0), is_odd, is_last))
            continue
        count, odd = int(row["layers"] or 1), set(_ODD_NUMBER.findall(str(row["odd"] or "")))
        end = max(start + count * took, start)
        if after is not None and float(after["from_start_us"] or 0) > start:
            end = float(after["from_start_us"] or 0)
        edges = np.linspace(start, end, count + 1).tolist()
        for number, (low, high) in enumerate(pairwise(edges), 1 if row["layers"] else 0):
            stretches.append(_Stretch(low, high, number, str(number) in odd, number == count and bool(row["layers"])))
    return shapes


Drawing = Callable[[Table, int, int], list[str]]
"""The lines of a drawing of a table, given width and height in cells; empty where there is nothing to draw."""
PICTURES: dict[tuple[str, str | None], Drawing] = {
    ("layers", None): layer_lines,
    ("layers", "layer"): layer_lines,
    ("roofline", None): roofline_lines,
    ("serving", None): share_lines,
    ("serving", "batch"): served_lines,
}
"""The drawing of a pane and grouping."""


@frozen(eq=True)
class ListPicture:
    """The drawing of a list; that of the same table, which is compared by identity, is the same."""

    pane: str
    by: str | None
    table: Table
    row: int = -1
    """The row that is marked in it, -1 for none."""

    def lines(self, width: int, height: int) -> list[str]:
        """Its lines; none where the table has nothing to draw."""
        if (self.pane, self.by) == ("roofline", None):
            return roofline_lines(self.table, width, height, self.row)
        return picture_lines(self.pane, self.by, self.table, width, height)


def list_picture(pane: str, by: str | None, table: Table | None, row: int = -1) -> ListPicture | None:
    """The drawing of a list with a row marked, None where its pane and grouping have none."""
    return None if table is None or (pane, by) not in PICTURES else ListPicture(pane, by, table, row)


def picture_lines(pane: str, by: str | None, table: Table, width: int, height: int) -> list[str]:
    """The drawing of a table of a pane; empty where it has none."""
    draw = PICTURES.get((pane, by))
    return draw(table, width, height) if draw else []
