"""The list of a trace's panes, which draws the overview as a picture whose parts are entered.

An entry is a row of the overview's table: the cursor goes from one to the next that lies in a direction on the screen.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from textual import work
from textual.events import Click
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.worker import get_current_worker

from tracetui.drawing.drawn_columns import RowGraphics
from tracetui.drawing.overview.canvas import Item, Look
from tracetui.drawing.overview.picture import Picture, strip_cells
from tracetui.model.intervals import Part
from tracetui.model.table import Table
from tracetui.model.trace import Trace
from tracetui.overview.facts import Entry, Overview
from tracetui.overview.overview_table import Strip as TimeStrip
from tracetui.overview.overview_table import kept_overview, strip_of
from tracetui.ui.widgets.surface import colour_count
from tracetui.ui.widgets.table_view import TableView

NAME = "overview"


class OverviewList(TableView):
    """A list that draws the table of the pane `overview` as a picture, and every other table as it is."""

    class Drawn(Message):
        """The strip of time for a width is there."""

        def __init__(self, overview: Overview, cells: int, strip: TimeStrip) -> None:
            super().__init__()
            self.overview, self.cells, self.strip = overview, cells, strip

    def __init__(self, trace: Trace, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.trace = trace
        self.part: Part | None = None
        """What the overview is of."""
        self.sketch: Overview | None = None
        """What is known of the overview while it is being made."""
        self._overview: Overview | None = None
        self._is_moved = False
        """True once the user has moved the cursor over a picture: until then it is on the first entry."""
        self._picture: Picture | None = None
        self._strip: tuple[Overview, int, TimeStrip] | None = None

    @property
    def is_picture(self) -> bool:
        """True while the overview is drawn."""
        return self._overview is not None

    @property
    def entry(self) -> Entry | None:
        """The entry under the cursor."""
        return self._overview.entries[self.row] if self._overview is not None and self.row >= 0 else None

    @property
    def where(self) -> str:
        """Kind of the rows about the place in the program: `line`, `module`, `operator`."""
        return self._overview.where if self._overview is not None else ""

    def show(
        self,
        pane: str,
        table: Table | None,
        order: NDArray[np.int64],
        cursor: int = 0,
        sort: tuple[str | None, bool] = (None, False),
        note: str = "",
        by: str | None = None,
        states: NDArray[np.int64] | None = None,
        graphics: RowGraphics | None = None,
    ) -> None:
        """Show rows of a table, or the overview."""
        is_picture = pane == NAME and table is not None and len(table) > 0
        # The table was made from one of the two: it is there.
        self._overview = (self.sketch or kept_overview(self.trace, self.part)) if is_picture else None
        self._picture = None
        if is_picture and table is not None:
            order, sort = np.arange(len(table)), (None, False)
        super().show(pane, table, order, cursor, sort, note, by, states, graphics)
        if is_picture:
            self.located = True
            self._enter(cursor)

    def _enter(self, cursor: int) -> None:
        """Put the cursor on an entry, or on the first that can be entered."""
        items = self._drawn.canvas.items if self._drawn is not None else []
        wanted = cursor if self._is_moved else 0
        if items and not any(item.index == wanted for item in items):
            wanted = next((item.index for item in items if self._section(item) == "todo"), items[0].index)
        if items:
            self.put_cursor(wanted)

    def _move_to(self, index: int) -> None:
        self._is_moved |= self.is_picture
        super()._move_to(index)

    def _section(self, item: Item) -> str:
        return self._overview.entries[item.index].section if self._overview is not None else ""

    @property
    def _drawn(self) -> Picture | None:
        """The picture at the size that the list has beside its scroll bar, None before it has one."""
        overview, size = self._overview, self.size
        if overview is None or size.width < 20 or size.height < 5:
            return None
        if self._picture is None:
            width = size.width - 1
            cells = strip_cells(width)
            known = self._strip
            strip = known[2] if known is not None and known[0] is overview and known[1] == cells else None
            if strip is None:
                self._make_strip(overview, cells)
            look = Look(colour_count(self.app), self.app.current_theme.dark)
            self._picture = Picture(overview, strip, width, size.height, look)
        return self._picture

    @work(thread=True, exclusive=True, group="strip")
    def _make_strip(self, overview: Overview, cells: int) -> None:
        """Find out what ran when."""
        strip = strip_of(self.trace, overview, cells)
        if not get_current_worker().is_cancelled:
            self.post_message(self.Drawn(overview, cells, strip))

    def on_overview_list_drawn(self, message: OverviewList.Drawn) -> None:
        """Draw it, unless another part is shown by now."""
        message.stop()
        if message.overview is self._overview:
            self._strip = message.overview, message.cells, message.strip
            self._redraw()

    def on_resize(self) -> None:
        """Draw at the new size."""
        super().on_resize()
        self._redraw()

    def notify_style_update(self) -> None:
        """Draw in other colours."""
        super().notify_style_update()
        self._redraw()

    def _redraw(self) -> None:
        if self._overview is not None:
            self._picture = None
            self._enter(self.cursor)
            self.refresh()

    def watch_cursor(self, old: int, new: int) -> None:
        """Repaint the lines of both entries."""
        if not self.is_picture:
            super().watch_cursor(old, new)
            return
        lines = [item.y for item in map(self._item, (old, new)) if item is not None]
        self.refresh(*(Region(0, line, self.size.width, 1) for line in lines))

    def _item(self, index: int) -> Item | None:
        picture = self._drawn
        return next((item for item in picture.canvas.items if item.index == index), None) if picture else None

    def _reveal(self) -> bool:
        return False if self.is_picture else super()._reveal()

    def _place_rows(self) -> None:
        if self.is_picture:
            self.set_length(0)
        else:
            super()._place_rows()

    def action_move(self, rows: int) -> None:
        """Go down or up: to the next entry that lies there."""
        if self.is_picture:
            self._go(0, rows)
        else:
            super().action_move(rows)

    def action_columns(self, direction: int) -> None:
        """Go right or left: to the next part that lies there."""
        if self.is_picture:
            self._go(direction, 0)
        else:
            super().action_columns(direction)

    def action_page(self, pages: int) -> None:
        """Go to the last or first entry of the column."""
        if not self.is_picture:
            super().action_page(pages)
            return
        for _ in range(8):
            self._go(0, pages)

    def action_go(self, index: int) -> None:
        """Go to the first or the last entry."""
        picture = self._drawn
        if not self.is_picture or picture is None or not picture.canvas.items:
            super().action_go(index)
        else:
            self._move_to(picture.canvas.items[-1 if index < 0 else 0].index)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Every direction leads somewhere on a picture."""
        return True if self.is_picture and action == "columns" else super().check_action(action, parameters)

    def _go(self, dx: int, dy: int) -> None:
        here, picture = self._item(self.cursor), self._drawn
        if here is None or picture is None:
            return

        def distance(item: Item) -> float:
            """Distance to an entry in the direction; what is not in it is out of reach."""
            down, right = item.y - here.y, item.x - here.x
            ahead = down * dy if dy else right * dx
            if ahead <= 0:
                return float("inf")
            return ahead + (8.0 * abs(right) / 10 if dy else 20.0 * abs(down))

        best = min(picture.canvas.items, key=distance)
        if distance(best) < float("inf"):
            self._move_to(best.index)

    def on_click(self, event: Click) -> None:
        """Go to the entry that was clicked; enter the current one."""
        picture = self._drawn
        if not self.is_picture or picture is None:
            super().on_click(event)
            return
        items = [item for item in picture.canvas.items if item.y == event.y and item.x <= event.x]
        if not items:
            return
        item = max(items, key=lambda each: each.x)
        if event.chain > 1 or item.index == self.cursor:
            self.action_choose()
        else:
            self._move_to(item.index)

    def _line(self, y: int) -> Strip:
        picture = self._drawn
        if picture is None:
            return super()._line(y)
        selected = self._item(self.cursor)
        if y >= picture.canvas.height:
            return Strip.blank(self.size.width, self.rich_style)
        segments = picture.canvas.segments(y, selected, self.rich_style)
        return Strip(segments).adjust_cell_length(self.size.width, self.rich_style)
