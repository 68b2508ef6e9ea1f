"""The report on a memory snapshot: what failed, the curve, who holds the peak, what is not freed, segments."""

from __future__ import annotations

import numpy as np

from tracetui.drawing.report.page import Report, Section, Tile
from tracetui.model.quantities import count, size
from tracetui.model.table import Table
from tracetui.snapshots.history import DeviceHistory
from tracetui.snapshots.snapshot_tables import PANES, out_of_memory, pane_table, summary_words
from tracetui.text import clean

WIDTH, HEIGHT, POINTS = 900, 160, 450
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
    edges = np.unique(np.linspace(0, moments - 1, min(POINTS, moments)).astype(np.int64))
    top = max(int(history.active.max()), int(history.reserved.max()), 1)
    across = WIDTH * edges / max(int(edges[-1]), 1)

    def area(values: np.ndarray, style: str) -> str:
        heights = HEIGHT * (1 - np.maximum.reduceat(values, edges) / top)
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(across.tolist(), heights.tolist(), strict=True))
        return f'<polygon points="0,{HEIGHT} {points} {WIDTH},{HEIGHT}" {style}/>'

    reserved = area(history.reserved, 'fill="currentColor" fill-opacity="0.15"')
    active = area(history.active, 'fill="currentColor" fill-opacity="0.5"')
    box = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="100%" role="img"'
    return f"<svg {box}><title>active (dark) and reserved (light), up to {size(top)}</title>{reserved}{active}</svg>"
