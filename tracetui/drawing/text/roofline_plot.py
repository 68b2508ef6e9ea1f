"""A roofline in braille: rate over arithmetic intensity, both logarithmic, under the roof of the device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracetui.drawing.text.braille import MARGIN, MIN_HEIGHT, MIN_WIDTH, Axis, Float64, ends, framed, put_dots
from tracetui.model.table import Table

DECADES = 5
"""Height of the vertical axis at most."""
NEGLIGIBLE, LARGE = 0.001, 0.05
"""Shares of the time below which a row is not drawn, and from which on its point is large."""


@dataclass(frozen=True)
class Roof:
    """What a device can do: flat at its rate, sloping where memory feeds too slowly."""

    tflops: float
    gbps: float

    def at(self, intensity: Float64) -> Float64:
        """TFLOP/s that can be reached at so many FLOP per byte."""
        return np.minimum(self.tflops, intensity * self.gbps / 1000)


def scatter(
    intensity: Float64,
    tflops: Float64,
    roofs: Sequence[Roof] = (),
    width: int = 80,
    height: int = 20,
    heavy: NDArray[np.bool_] | None = None,
) -> list[str]:
    """Lines of `width` cells: points by FLOP per byte and TFLOP/s, the roofs above them, axes with their numbers.

    Points that are `heavy` are four times as large. Points without a number, at 0, or far below the roof are left out;
    empty where nothing is left or the space is too small.
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
        line = np.log10(roof.at(10 ** across.values()))
        put_dots(grid, np.arange(columns * 2), up.indices(line))
    put_dots(grid, across.indices(x), up.indices(y))
    if heavy is not None:
        large = heavy[good]
        for right, above in ((1, 0), (0, 1), (1, 1)):
            put_dots(grid, across.indices(x[large]) + right, up.indices(y[large]) + above)
    return framed(grid, across, up, "TFLOP/s", "FLOP/byte")


def roofline_lines(table: Table, width: int = 80, height: int = 20) -> list[str]:
    """The drawing of the roofline pane: a point per row, a roof per precision; empty where no row has a rate.

    Rows with less than a thousandth of the time are left out, those with a twentieth of it are large.
    """
    names = ("intensity", "tflops", "peak_tflops", "peak_gbps", "total_us")
    intensity, tflops, peaks, bandwidth, time = (table[name].values.astype(np.float64) for name in names)
    share = time / max(float(time.sum()), 1e-9)
    tflops = np.where(share >= NEGLIGIBLE, tflops, np.nan)
    drawn = np.isfinite(tflops) & np.isfinite(intensity) & np.isfinite(peaks) & np.isfinite(bandwidth)
    roofs = sorted(set(zip(peaks[drawn].tolist(), bandwidth[drawn].tolist(), strict=True)))
    return scatter(intensity, tflops, [Roof(*roof) for roof in roofs], width, height, share >= LARGE)
