"""Duration of a server's steps over their batch in braille: the median as a large dot, the 95th percentile small."""

from __future__ import annotations

import numpy as np

from tracetui.drawing.text.braille import MARGIN, MIN_HEIGHT, MIN_WIDTH, Axis, ends, framed, put_dots
from tracetui.model.table import Table

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
