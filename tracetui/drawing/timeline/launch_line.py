"""Operator, launch and kernel together: the windows that show all three, and the line from the launch to the start.

The window follows a selection in such a way that each step is seen: what is narrower than a cell is framed with what
launched it, and as long as it is wider the scale stays and the window moves no further than it has to.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracetui.drawing.timeline.cells import SPACE, Frame
from tracetui.drawing.timeline.palette import GROUND, Palette, codes
from tracetui.drawing.timeline.window import Window
from tracetui.frozen import frozen
from tracetui.linking.links import links
from tracetui.model.quantities import duration
from tracetui.model.table import NULL
from tracetui.model.trace import GPU_WORK, Kind, Trace
from tracetui.tables.occupancy import kernel_of_query

MIN_FRAMED_CELLS = 3
"""Cells that a framed kernel has at least; where the operator began too long before, less is framed."""
FRAME_MARGIN = 0.1
"""Share of what is framed on either side of it, which is a twelfth of the window."""
ALONE_MARGIN = 0.5
"""The same for a slice alone."""
NEIGHBOURS_MARGIN = 2.0
"""The same for a slice alone while steps are taken: what comes next is in sight."""
MAX_SHARE = 0.95
"""Share of the window up to which a stretch is moved into it as it is."""

Stretch = tuple[int, int]
"""Start and end in ns."""


class Launched(NamedTuple):
    """A GPU activity with its launch and the operator around that, as rows of slices; -1 for what is not known."""

    activity: int
    launch: int
    operator: int


def launched_with(trace: Trace, row: int) -> Launched:
    """The activity of a slice: itself, the first that a call launched, or what an occupancy query was made for."""
    joined, kind = links(trace), int(trace.slices.kind[row]) if row >= 0 else -1
    activity = row if kind in GPU_WORK else -1
    if kind == Kind.RUNTIME:
        work = joined.kernels_of(row)
        if len(work):
            return Launched(int(work[0]), row, int(joined.owner[row]))
        activity = kernel_of_query(trace, row)
    if activity < 0:
        return Launched(-1, -1, -1)
    return Launched(activity, int(joined.launch[activity]), int(joined.owner[activity]))


def _stretches(trace: Trace, row: int) -> list[Stretch]:
    """From the operator to the end of the activity, from the launch, and the activity alone; widest first.

    Of a slice that launched nothing it is that slice alone.
    """
    slices, these = trace.slices, launched_with(trace, row)
    activity = these.activity if these.activity >= 0 else row
    begin, end = int(slices.start[activity]), int(slices.end[activity])
    stretches = [(begin, end)]
    for cause in (these.launch, these.operator):
        if cause >= 0:
            begin, end = min(begin, int(slices.start[cause])), max(end, int(slices.end[activity]))
            stretches.append((begin, end))
    return stretches[::-1]


def framed(trace: Trace, row: int, cells: int, alone: float = ALONE_MARGIN, origin: int = 0) -> Window:
    """The window from the operator to the end of its kernel, or from the launch, in which the kernel has some cells.

    Where neither has room for it, the kernel with a share of its length (`alone`) on either side.
    """
    stretches = _stretches(trace, row)
    begin, end = stretches[-1]
    for low, high in stretches[:-1]:
        window = Window.fit(low, high, cells, FRAME_MARGIN, origin)
        if end - begin >= MIN_FRAMED_CELLS * window.ns_per_cell:
            return window
    return Window.fit(begin, end, cells, alone, origin)


def framed_next(trace: Trace, row: int, shown: Window, cells: int) -> Window:
    """The window after the one that is shown, when a slice is to be fitted again and again.

    First all three, then the selected slice alone, and back; where the three leave the kernel too narrow, first that
    alone, then from the launch on.
    """
    first, slices = framed(trace, row, cells, origin=shown.origin), trace.slices
    alone = Window.fit(int(slices.start[row]), int(slices.end[row]), cells, ALONE_MARGIN, shown.origin)
    if shown != first:
        return first
    return alone if first != alone else Window.fit(*_stretches(trace, row)[:2][-1], cells, FRAME_MARGIN, shown.origin)


def following(trace: Trace, row: int, shown: Window, cells: int, keeps_scale: bool = True) -> Window:
    """The window that shows a slice, and where there is room what launched it, on the way from the one that is shown.

    The scale stays as long as the kernel, or a slice that launched none, has a cell and fits. Unless the user chose it
    (`keeps_scale`), it also changes for a launch that can be shown only with another one.
    """
    stretches = _stretches(trace, row)
    begin, end = stretches[-1]
    is_linked = len(stretches) > 1
    if end - begin < shown.ns_per_cell or (is_linked and end - begin > MAX_SHARE * cells * shown.ns_per_cell):
        return framed(trace, row, cells, NEIGHBOURS_MARGIN, shown.origin)
    for low, high in stretches[:-1]:
        if high - low <= MAX_SHARE * cells * shown.ns_per_cell:
            return _moved(shown, low, high, cells)
    if is_linked and not keeps_scale:
        window, launched = framed(trace, row, cells, origin=shown.origin), stretches[-2][0]
        if window.start_ns <= launched:
            return window
    return shown.showing(begin, end, cells)


def _moved(window: Window, begin: int, end: int, cells: int) -> Window:
    """The window where it shows a stretch, else moved so that most of it is for what comes next in that direction."""
    left, right = window.start_ns, window.end_ns(cells)
    if begin >= left and end <= right:
        return window
    room = cells - (end - begin) / window.ns_per_cell
    behind = min(cells / 12, room / 2)
    if begin < left:
        return window.pan(int(window.cell_of(end) + 1 - cells + behind))
    return window.pan(int(window.cell_of(begin) - behind))


# The line: down from the end of the launch call, along one of the lines between, and down to the start on the stream.

DOWN, ALONG, INTO, OUT, HEAD = "┊", "┄", "╰", "╮", "▼"
"""Signs of the line: down, along, the corner below the launch, that above the kernel, and its end."""
RULE = ord("─")


@frozen(eq=True)
class LaunchLine:
    """A line between a launch and its GPU activity on a grid of cells."""

    rows: range
    """The rows of the grid between the two slices, from the top."""
    left: int
    """The first cell of the tracks."""
    call_end: int
    """The end of the launch call in ns."""
    start: int
    """The start of the activity in ns."""
    delay: int
    """From the start of the call to that of the activity in ns; NULL where it says nothing."""

    def draw(self, frame: Frame, window: Window, idle_rows: Collection[int], colours: Palette) -> None:
        """Draw it behind the slices: on cells that hold none, and on rows of idle time on those without words."""
        width = frame.shape[1] - self.left
        last = window.cell_of(self.start)
        first = min(window.cell_of(self.call_end), last)
        if not self.rows or width < 1 or last < 0 or first >= width:
            return
        free = np.array([self._free(frame, row, row in idle_rows, colours) for row in self.rows])
        low, high = max(first, 0), min(last, width - 1)
        texts = [duration(self.delay)] if self.delay != NULL else []
        texts = [f"launch → start {text}" for text in texts] + texts
        # A rule has words of its own: the line crosses it, and what it says does not stand there.
        is_rule = frame.chars[self.rows.start : self.rows.stop, self.left :] == RULE
        places = [_place(row, low, high, texts) for row in free & ~is_rule]
        # The row that has room for the words, no rule, and on which fewest slices cover the line.
        along = max(
            range(len(free)),
            key=lambda i: (len(places[i][1]), not is_rule[i].any(), int(free[i, low : high + 1].sum()), -i),
        )
        ink = GROUND if colours.mono else colours.highlighted
        for i, row in enumerate(self.rows):
            if i == along and first < last:
                signs = [ALONG] * (high + 1 - low)
                signs[0], signs[-1] = INTO if first == low else signs[0], OUT if last == high else signs[-1]
                cells = np.arange(low, high + 1)
            else:
                signs, cells = [DOWN], np.array([first if i < along else last])
            if i == len(self.rows) - 1 and last == cells[-1]:
                signs[-1] = HEAD
            is_free = (cells >= 0) & (cells < width)
            is_free[is_free] = free[i, cells[is_free]]
            frame.chars[row, self.left + cells[is_free]] = codes("".join(signs))[is_free]
            frame.fg[row, self.left + cells[is_free]] = ink
            frame.attributes[row, self.left + cells[is_free]] = 0
        at, text = places[along]
        if text:
            frame.write(self.rows[along], self.left + at - 1, codes(f" {text} "), ink)

    def _free(self, frame: Frame, row: int, is_idle: bool, colours: Palette) -> NDArray[np.bool_]:
        """The mask of the cells of a row that the line may take."""
        chars, ground = frame.chars[row, self.left :], frame.bg[row, self.left :]
        empty = (chars == SPACE) & (frame.attributes[row, self.left :] == 0)
        if is_idle:
            # Bars and dashes of idle time make way, words do not.
            empty |= chars > 127
        return np.asarray((empty | (chars == RULE)) & ((ground == GROUND) | (ground == colours.tint)))


def _place(free: NDArray[np.bool_], first: int, last: int, texts: list[str]) -> tuple[int, str]:
    """Place of the longest of some texts on a row: behind the line, within it or before it; "" for none."""
    for text in texts:
        within = [(first + last - len(text)) // 2 + 1] if last - first >= len(text) + 6 else []
        for at in (last + 2, *within, first - 1 - len(text)):
            if 1 <= at < len(free) - len(text) and free[at - 1 : at + len(text) + 1].all():
                return at, text
    return 0, ""
