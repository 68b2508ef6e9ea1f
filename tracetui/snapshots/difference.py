"""Two snapshots side by side: bytes held at the peak of each, by line or otherwise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tracetui.model import columns as col
from tracetui.model.quantities import size
from tracetui.model.table import Table, numbers, texts
from tracetui.snapshots.history import DeviceHistory
from tracetui.snapshots.holders import HOLDER, holders

_CHANGE = replace(col.CHANGE_BYTES, heading="change", help="Bytes of B less those of A.", is_key=True)
MAX_NAMED = 3


def difference(a: DeviceHistory, b: DeviceHistory, by: str = "line") -> Table:
    """The holders of both peaks, what changed most first; the changes add up to that of the peaks."""
    sides = [
        {
            str(row["holder"]): (int(row["bytes"] or 0), int(row["blocks"] or 0))
            for row in holders(each, each.peak, by).rows()
        }
        for each in (a, b)
    ]
    names = sorted({*sides[0], *sides[1]})
    columns = [np.array([side.get(name, (0, 0)) for name in names], np.int64).reshape(-1, 2) for side in sides]
    change = columns[1][:, 0] - columns[0][:, 0]
    order = np.argsort(-np.abs(change), kind="stable")
    most = [f"{names[row]} {_signed(int(change[row]))}" for row in order[:MAX_NAMED].tolist() if change[row]]
    peaks = int(a.active[a.peak]), int(b.active[b.peak])
    headline = f"The peak goes from {size(peaks[0])} (A) to {size(peaks[1])} (B), by {_signed(peaks[1] - peaks[0])}"
    table = Table(
        (
            texts(HOLDER, names),
            numbers(_CHANGE, change),
            numbers(col.BYTES_A, columns[0][:, 0]),
            numbers(col.BYTES_B, columns[1][:, 0]),
            numbers(col.BLOCKS_A, columns[0][:, 1]),
            numbers(col.BLOCKS_B, columns[1][:, 1]),
        ),
        headline=f"{headline}: {', '.join(most)}." if change.any() else f"{headline}: every holder has what it had.",
    )
    return table.take(order)


def _signed(change: int) -> str:
    return f"{'+' if change > 0 else ''}{size(change)}"
