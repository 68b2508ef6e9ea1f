"""A compositor that asks widgets for the lines that changed, and for no others.

Textual's own asks every widget that overlaps the smallest rectangle around all changes for all of its lines: for one
line at the top and one at the bottom, that is the whole screen. It stands in for a method of Textual that may change
without notice; `tests/ui/test_row_compositor.py` compares the two.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise

from textual._compositor import ChopsUpdate, Compositor
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

Span = tuple[int, int, int]
"""A line of the screen, and the columns from and before which it changed."""


class RowCompositor(Compositor):
    """Paints the changed lines of a screen."""

    def render_partial_update(self) -> ChopsUpdate | None:
        """What changed since the last update, None for nothing."""
        regions = self._dirty_regions.copy()
        self._dirty_regions.clear()
        spans = [span for span in self._regions_to_spans(regions) if 0 <= span[0] < self.size.height]
        if not spans:
            return None
        painting = _Painting(self.cuts, spans)
        for widget, (region, clip) in self.visible_widgets.items():
            painting.take(widget, region, region.intersection(clip))
            if not painting.missing:
                break
        return ChopsUpdate(painting.chops, spans, painting.ends)


class _Painting:
    """The pieces of the changed lines, filled from the front of the screen to the back."""

    def __init__(self, cuts: list[list[int]], spans: Iterable[Span]) -> None:
        """`cuts` are the columns of each line at which a widget begins or ends."""
        self._cuts = cuts
        self.chops: list[dict[int, Strip | None]] = [{} for _ in cuts]
        """The pieces of each line by their first column; None where nothing changed."""
        self.ends: list[list[int]] = [[] for _ in cuts]
        """The columns behind these pieces."""
        self.missing: dict[int, set[int]] = defaultdict(set)
        """The first columns of pieces that are wanted and not there yet, by line."""
        for y, left, right in spans:
            self.chops[y] = dict.fromkeys(cuts[y][:-1])
            self.ends[y] = cuts[y][1:]
            self.missing[y] |= {x for x, end in pairwise(cuts[y]) if x < right and end > left}

    def take(self, widget: Widget, region: Region, seen: Region) -> None:
        """Fill in what is wanted and seen of a widget."""
        left, right = seen.column_span
        wanted = [
            y for y, columns in self.missing.items() if y in seen.line_range and any(left <= x < right for x in columns)
        ]
        for first, count in _runs(wanted):
            asked = Region(seen.x - region.x, first - region.y, seen.width, count)
            for y, strip in enumerate(widget.render_lines(asked), first):
                self._fill(y, strip, left, right)

    def _fill(self, y: int, strip: Strip, left: int, right: int) -> None:
        columns = [x for x in self._cuts[y] if left <= x <= right]
        pieces = strip.divide([x - left for x in columns[1:]]) if len(columns) > 2 else [strip]
        chops, missing = self.chops[y], self.missing[y]
        for x, piece in zip(columns, pieces, strict=False):
            if x in missing:
                missing.discard(x)
                chops[x] = piece
        if not missing:
            del self.missing[y]


def _runs(lines: list[int]) -> Iterator[tuple[int, int]]:
    """First line and number of lines of each stretch without a hole; `lines` ascend."""
    begin = 0
    for index in range(1, len(lines) + 1):
        if index == len(lines) or lines[index] != lines[index - 1] + 1:
            yield lines[begin], index - begin
            begin = index
