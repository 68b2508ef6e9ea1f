"""A list over a `Table`: one row of cells per line, one cursor, drawn from columns and an order array.

No object per row is ever made, so a million rows cost what ten do: only lines on screen are turned into text,
and a cursor move repaints two of them. Textual's DataTable holds every cell.
"""

from __future__ import annotations

from textwrap import wrap
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.binding import BindingType
from textual.color import Color as Background
from textual.events import Click
from textual.geometry import Region
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip

from tracetui.drawing.drawn_columns import Piece, RowGraphics, drawn_columns
from tracetui.drawing.format import (
    CUT,
    TITLE,
    is_list_of_findings,
    shorten,
)
from tracetui.drawing.hues import Hue
from tracetui.drawing.timeline.grid import FOCUS_SIGN
from tracetui.model.table import Table
from tracetui.text import clean
from tracetui.ui.base import keys
from tracetui.ui.base.keys import command
from tracetui.ui.widgets.columns import (
    CARD_TITLE_GAP,
    GAP,
    CardRows,
    ShownColumn,
    layout_of,
    placed,
    row_pieces,
    sorting_column,
    with_drawn,
)
from tracetui.ui.widgets.surface import Scroller

MAX_KEPT_LAYOUTS = 64
"""Maximum tables whose columns are not measured again when they are shown again."""
MAX_HEADLINE_LINES = 2
"""Maximum lines of the sentence above the rows."""
MIN_ROWS_BELOW_HEADLINE = 3
"""Minimum rows for which there is room below it."""
_MARKS = {"": " ", "elsewhere": "▹", "cursor": "▸", "resting": "▸"}
"""What stands before a row, by the look of the cursor on it."""
_QUIET_WORDS = ("ok", "fine")
"""Words for how severe something is by which all of the row is quiet."""
LEAF, CLOSED, OPEN = 0, 1, 2
"""States of a row of a tree; a leaf has nothing below it."""


class TableView(Scroller, can_focus=True):
    """A scrolling list with a header line."""

    HELP_WHERE = "list"

    BINDINGS: ClassVar[list[BindingType]] = [
        command(keys.DOWN, "move(1)", "Next row"),
        command(keys.UP, "move(-1)", "Previous row"),
        command(keys.FIRST, "go(0)", "First row"),
        command(keys.LAST, "go(-1)", "Last row"),
        command(keys.PAGE_DOWN, "page(1)", "Page down"),
        command(keys.PAGE_UP, "page(-1)", "Page up"),
        command(
            keys.RIGHT, "columns(1)", "Columns to the right", "Where › says there are more. Opens a row of a tree."
        ),
        command(keys.LEFT, "columns(-1)", "Columns to the left", "Back to the first ones. Closes a row of a tree."),
        command(keys.ENTER, "choose", "Go into the row", "Shows what the row stands for.", "go into"),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "table--headline",
        "table--header",
        "table--cursor",
        "table--resting",
        "table--elsewhere",
        "table--note",
        "table--title",
        "table--evidence",
        "table--advice",
    }
    DEFAULT_CSS = """
    TableView {
        height: 1fr;
        .table--headline { text-style: bold; }
        .table--header { color: $text-muted; text-style: bold; }
        &:focus .table--header { color: $primary; text-style: bold underline; }
        .table--cursor { background: $primary; color: $background; text-style: bold; }
        .table--resting { background: $primary-muted; color: $foreground; }
        .table--elsewhere { color: $foreground; }
        .table--note { color: $text-muted; }
        .table--title { text-style: bold; }
        .table--advice { color: $text-muted; }
    }
    """

    cursor: reactive[int] = reactive(0, repaint=False, init=False)
    """Place of the current row in the list, from 0."""

    located: reactive[bool] = reactive(True, repaint=False, init=False)
    """True where the current row stands for the selection; if not, it is only where the list was left."""

    class RowHighlighted(Message):
        """The user moved the cursor."""

        def __init__(self, view: TableView, slice_row: int, row: int) -> None:
            super().__init__()
            self.view = view
            self.table = view.table
            """The listed table; by the time that the message is read the view may list another one."""
            self.slice_row = slice_row
            """Row in `Trace.slices`, -1 when the row stands for none."""
            self.row = row
            """Row of the table."""

        @property
        def control(self) -> TableView:
            """The list, for `@on` selectors."""
            return self.view

    class RowChosen(RowHighlighted):
        """The user pressed enter or clicked the current row again."""

    class RowOpened(Message):
        """The user wants a closed row of a tree open, or an open one closed."""

        def __init__(self, view: TableView, row: int) -> None:
            super().__init__()
            self.view, self.row = view, row

    class HeaderClicked(Message):
        """The user clicked a column's title."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.table: Table | None = None
        self.order: NDArray[np.int64] = np.empty(0, np.int64)
        self.states: NDArray[np.int64] | None = None
        """Of the rows of a tree: `LEAF`, `CLOSED` or `OPEN`."""
        self.note = ""
        """The sentence in place of rows when there are none."""
        self.below = ""
        """Sentences below the last row, as far as they have room."""
        self._headline: list[str] = []
        self._graphics = RowGraphics()
        self._layouts: dict[tuple[int, str, str | None], tuple[Table, list[ShownColumn]]] = {}
        self._cards: CardRows | None = None
        """The rows where they are cards of several lines; None where a row is a line."""
        self._layout: list[ShownColumn] = []
        self._columns: list[tuple[ShownColumn, int]] = []
        self._fitted = 0
        self._skipped = 0
        self._more_columns = False
        self._sort: tuple[str | None, bool] = (None, False)
        self._strips: dict[tuple[int, str], Strip] = {}

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
        """Show rows of a table in the given order, the cursor on a place; without a table only the note."""
        self.states, self._graphics = states, graphics or RowGraphics()
        self.table, self.order, self.note = table, order, note
        before, self._layout = self._layout, self._layout_of(pane, table, by) if table is not None else []
        self._sort = sort if sort[0] is not None else sorting_column(self._layout, self._graphics.sorts)
        if [column.spec.name for column in before] != [column.spec.name for column in self._layout]:
            self._skipped = 0
        self._fit()
        self._place_rows()
        with self.prevent(TableView.RowHighlighted):
            self.set_reactive(TableView.cursor, max(0, min(cursor, len(order) - 1)))
        self._reveal()
        self.refresh()

    def keep_layout(self, pane: str, table: Table, by: str | None, layout: list[ShownColumn]) -> None:
        """Keep the columns of a table that were measured elsewhere, before it is shown."""
        while len(self._layouts) >= MAX_KEPT_LAYOUTS:
            self._layouts.pop(next(iter(self._layouts)))
        # The table is kept with its layout, so that no other gets its id.
        self._layouts[id(table), pane, by] = table, layout

    def _layout_of(self, pane: str, table: Table, by: str | None) -> list[ShownColumn]:
        """The columns of a table; those of the tables shown last are kept, since measuring them takes a while."""
        key = (id(table), pane, by)
        if key not in self._layouts:
            self.keep_layout(pane, table, by, layout_of(pane, table, by))
        return self._layouts[key][1]

    @property
    def _above(self) -> int:
        """Lines above the rows: those of the headline, and that of the titles."""
        return len(self._headline) + 1

    @property
    def lines_below(self) -> list[str]:
        """The lines of the sentences below the rows that have room; where some have none the last ends in `…`."""
        if not self.below or not len(self.order):
            return []
        width = max(self.size.width - 4, 10)
        lines = _wrapped(clean(self.below), width)
        room = max(self.size.height - self._above - self._row_lines - 1, 0)
        if len(lines) <= room or room == 0:
            return lines[:room]
        last = lines[room - 1]
        while cell_len(last) + 2 > width and " " in last:
            last = last.rpartition(" ")[0]
        return [*lines[: room - 1], f"{last} {CUT}"]

    @property
    def is_below_whole(self) -> bool:
        """True where all of the sentences below the rows are on screen."""
        return bool(self.lines_below) and not self.lines_below[-1].endswith(f" {CUT}")

    @property
    def _row_lines(self) -> int:
        return len(self.order) if self._cards is None else len(self._cards)

    @property
    def row(self) -> int:
        """The current row of the table, -1 when the list is empty."""
        return int(self.order[self.cursor]) if self.cursor < len(self.order) else -1

    @property
    def slice_row(self) -> int:
        """The slice behind the current row, -1 when there is none."""
        row = self.row
        if row < 0 or self.table is None or self.table.slices is None:
            return -1
        return int(self.table.slices[row])

    @property
    def text(self) -> str | None:
        """The first column of the current row, where that is text."""
        if self.table is None or self.row < 0:
            return None
        cell = self.table.columns[0].cell(self.row)
        return cell if isinstance(cell, str) else None

    def put_cursor(self, cursor: int) -> None:
        """Move the cursor without telling anyone: the selection already is there."""
        self.cursor = max(0, min(cursor, len(self.order) - 1))

    def announce_row(self) -> None:
        """Post which row is current, as if the user had moved there."""
        if self.row >= 0:
            self.located = True
            self.post_message(self.RowHighlighted(self, self.slice_row, self.row))

    def put_cursor_on_slice(self, slice_row: int) -> bool:
        """Move the cursor to the row of a slice, silently; False when no row stands for it."""
        if self.table is None or self.table.slices is None:
            return False
        if slice_row < 0 or self.slice_row == slice_row:
            return slice_row >= 0
        indices = np.flatnonzero(self.table.slices[self.order] == slice_row)
        if len(indices):
            self.put_cursor(int(indices[0]))
        return bool(len(indices))

    @property
    def shown_columns(self) -> list[str]:
        """Names of the columns that are on screen."""
        return [column.spec.name for column, _ in self._columns if column.drawn is None]

    def validate_cursor(self, cursor: int) -> int:
        """Keep the cursor on the list."""
        return max(0, min(cursor, len(self.order) - 1))

    def watch_cursor(self, old: int, new: int) -> None:
        """Scroll when the row is not on screen, else repaint the two lines."""
        if self._reveal():
            return
        self.refresh(self._region(old), self._region(new))

    def watch_located(self) -> None:
        """Repaint the line of the cursor."""
        self.refresh(self._region(self.cursor))

    def action_move(self, rows: int) -> None:
        """Move the cursor by some rows; a card that is taller than the list is scrolled through first."""
        first, lines = self._extent(self.cursor)
        top, height = self.scroll_offset.y, max(self.size.height - self._above, 1)
        hidden = first + lines - top - height if rows > 0 else top - first
        if lines > height and hidden > 0:
            self.scroll_to(y=top + rows, animate=False, force=True, immediate=True)
            return
        self._move_to(self.cursor + rows)

    def action_page(self, pages: int) -> None:
        """Move the cursor by pages."""
        lines = pages * max(self.size.height - self._above - 1, 1)
        if self._cards is None:
            self._move_to(self.cursor + lines)
            return
        index = self._cards.index_at(max(self._cards.top(self.cursor) + lines, 0))
        self._move_to(index if index != self.cursor else self.cursor + pages)

    def action_go(self, index: int) -> None:
        """Move the cursor to a place, -1 for the last."""
        self._move_to(index if index >= 0 else len(self.order) - 1)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Columns are scrolled while there are some that do not fit."""
        if action == "columns":
            if self._unfolds(int(str(parameters[0]))):
                return True
            return self._more_columns if parameters[0] == 1 else self._skipped > 0
        return True

    def action_columns(self, direction: int) -> None:
        """Scroll by a column; the names stay. In a tree, open or close the row."""
        if self._unfolds(direction):
            if direction < 0 and self.states is not None and int(self.states[self.row]) != OPEN:
                self._move_to(self._index_above())
            else:
                self.post_message(self.RowOpened(self, self.row))
            return
        self._skipped = max(self._skipped + direction, 0)
        self._fit()
        self.refresh()

    def _unfolds(self, direction: int) -> bool:
        """True where the current row can be opened, or closed, or left for the row above."""
        if self.states is None or self.row < 0 or self.table is None:
            return False
        if direction > 0:
            return int(self.states[self.row]) == CLOSED
        return self._skipped == 0 and (int(self.states[self.row]) == OPEN or self.table["depth"].cell(self.row) != 0)

    def _index_above(self) -> int:
        """Index in the list of the row of the tree above the current one."""
        depth = self.table["depth"].values[self.order] if self.table is not None else np.zeros(1)
        return int(np.flatnonzero(depth[: self.cursor] < depth[self.cursor])[-1])

    def action_choose(self) -> None:
        """Post that the current row was chosen."""
        if self.row >= 0:
            self.post_message(self.RowChosen(self, self.slice_row, self.row))

    def on_click(self, event: Click) -> None:
        """Select the row, choose it when it is current already, or sort by the title."""
        line = event.y - self._above
        if line == -1:
            self._click_header(event.x)
        index = self._index_at(self.scroll_offset.y + line)
        if line < 0 or index >= len(self.order):
            return
        if event.chain > 1:
            self.action_choose()
        else:
            self._move_to(index)

    def on_resize(self) -> None:
        """Fit the columns and the headline to the new size."""
        self._fit()
        self._place_rows()
        self._reveal()

    def notify_style_update(self) -> None:
        """Drop the lines that were drawn in other colours."""
        super().notify_style_update()
        self._strips.clear()

    def render_lines(self, crop: Region) -> list[Strip]:
        """The lines of a region of the widget, straight from the columns."""
        if self._fitted != self.size.width:
            # A style that hides the neighbour may widen the list after its last resize event.
            self._fit()
        lines = [self._line(y) for y in range(crop.y, crop.bottom)]
        filters = self.get_line_filters()
        if filters:
            background = self.background_colors[1]
            lines = [self._filtered(line, background) for line in lines]
        if crop.column_span == (0, self.size.width):
            return lines
        return [line.crop(*crop.column_span) for line in lines]

    def _move_to(self, index: int) -> None:
        before = self.cursor
        self.put_cursor(index)
        if self.cursor != before or index == before:
            self.announce_row()

    def _fit(self) -> None:
        """Choose the columns for the width that there is."""
        self._strips.clear()
        self._fitted = self.size.width
        self._cards = None
        if self.table is not None and is_list_of_findings(self.table):
            # One cell each for the mark of the cursor and the edge, and one between the text and the scroll bar.
            self._cards = CardRows(self.table, self.order, self._fitted - 3)
            self._columns, self._more_columns = [(column, 0) for column in self._layout], False
            return
        width = self._fitted - 2
        names = [column.spec.name for column in self._layout]
        drawn = [] if self.table is None else drawn_columns(self.table, self._graphics, names, self._sort[0], width)
        self._columns, self._more_columns = with_drawn(self._layout, drawn, self._skipped, width)

    def _place_rows(self) -> None:
        """Write the headline for the size that there is, and begin the rows below it."""
        self._headline = self._headline_lines()
        lines = self._row_lines
        self.set_length(lines + self._above if lines else 0)

    def _headline_lines(self) -> list[str]:
        """The sentence above the rows, as many lines of it as leave room for some rows."""
        words = clean(self.table.headline) if self.table is not None and len(self.order) else ""
        room = min(MAX_HEADLINE_LINES, self.size.height - 1 - MIN_ROWS_BELOW_HEADLINE)
        if not words or room < 1:
            return []
        width = max(self._fitted - 2, 10)
        lines = _wrapped(words, width)
        return lines if len(lines) <= room else [*lines[: room - 1], shorten(" ".join(lines[room - 1 :]), width)]

    def _reveal(self) -> bool:
        """Scroll so that the cursor is on screen; True when that moved anything."""
        height = max(self.size.height - self._above, 1)
        top = self.scroll_offset.y
        first, lines = self._extent(self.cursor)
        wanted = min(max(top, first + lines - height), first)
        if wanted == top:
            return False
        self.scroll_to(y=wanted, animate=False, force=True, immediate=True)
        return True

    def _extent(self, index: int) -> tuple[int, int]:
        """The first line of a row, and its number of lines."""
        return (index, 1) if self._cards is None else (self._cards.top(index), self._cards.height(index))

    def _region(self, index: int) -> Region:
        """The region of a row on the screen."""
        first, lines = self._extent(index)
        return Region(0, first - self.scroll_offset.y + self._above, self.size.width, lines)

    def _index_at(self, line: int) -> int:
        """The row to which a line belongs; beyond the last where there is none."""
        return line if self._cards is None else self._cards.index_at(line)

    def _click_header(self, x: int) -> None:
        left = 1
        for column, width in self._columns:
            width = width or cell_len(column.title) + len(CARD_TITLE_GAP) - GAP
            if left <= x < left + width + GAP:
                if column.drawn is None:
                    self.post_message(self.HeaderClicked(column.spec.name))
                return
            left += width + GAP

    def _line(self, y: int) -> Strip:
        width = self.size.width
        if not len(self.order) or self.table is None:
            return self._note_line(y, width)
        if y < len(self._headline):
            return _strip(f" {self._headline[y]}", width, self._style("headline"))
        y -= len(self._headline)
        if y == 0 and self._cards is not None:
            titles = (column.title + self._arrow(column) for column, _ in self._columns)
            return _strip(self._focus_sign + CARD_TITLE_GAP.join(titles), width, self._style("header"))
        if y == 0:
            titles = (
                placed(column.title + self._arrow(column), cells, self._is_at_right(column))
                for column, cells in self._columns
            )
            text = ("‹" if self._skipped else self._focus_sign) + (" " * GAP).join(titles)
            if self._more_columns:
                text = f"{placed(text, width - 2, right=False)}›"
            return _strip(text, width, self._style("header"))
        line = self.scroll_offset.y + y - 1
        index = self._index_at(line)
        if index >= len(self.order):
            place, below = line - self._row_lines - 1, self.lines_below
            if 0 <= place < len(below):
                return _strip(f"  {below[place]}", width, self._style("note"))
            return Strip.blank(width, self.rich_style)
        current = index == self.cursor
        if self._cards is not None:
            is_first = line == self._cards.top(index)
            return self._card_strip(line, is_first, self._look() if current else "", width)
        look = self._look() if current else ""
        strip = self._strips.get((index, look))
        if strip is None:
            if len(self._strips) > 1000:
                self._strips.clear()
            # Without hues, as on the row of the cursor, textures tell parts apart.
            plain = self.is_plain or look == "cursor"
            pieces = row_pieces(self.table, int(self.order[index]), self._columns, plain)
            strip = self._pieces_strip([(_MARKS[look], None), *pieces], look, width)
            self._strips[index, look] = strip
        return strip

    @property
    def _focus_sign(self) -> str:
        return FOCUS_SIGN if self.has_focus else " "

    def _is_at_right(self, column: ShownColumn) -> bool:
        """True for a column whose title stands at the right."""
        if column.drawn is not None:
            return column.drawn.is_number
        return self.table is not None and self.table[column.spec.name].is_number

    def _arrow(self, column: ShownColumn) -> str:
        """The arrow behind the title of the column that sorts."""
        name, descending = self._sort
        return "" if column.spec.name != name else "▾" if descending else "▴"

    def _card_strip(self, line: int, is_first: bool, look: str, width: int) -> Strip:
        """A line of a card; of the current one the title is marked."""
        assert self._cards is not None
        card, pieces = self._cards.line(line)
        mark = _MARKS[look] if is_first else " "
        is_marked = look in ("cursor", "resting") and card.part == TITLE
        return self._pieces_strip([(mark, None), *pieces], look if is_marked else card.part, width)

    def _pieces_strip(self, pieces: list[Piece], look: str, width: int) -> Strip:
        """Pieces as a line; on the row of the cursor, whose ground is bright, the hues give way."""
        style = self._style(look) if look else self.rich_style
        if look == "" and any(hue is Hue.QUIET and text.strip() in _QUIET_WORDS for text, hue in pieces):
            style = self.hued(Hue.QUIET, style)
        segments: list[Segment] = []
        for text, hue in pieces:
            own = style if hue is None or look == "cursor" else self.hued(hue, style)
            if segments and segments[-1].style is own:
                segments[-1] = Segment(segments[-1].text + text, own)
            else:
                segments.append(Segment(text, own))
        return Strip(segments).adjust_cell_length(width, style)

    def _look(self) -> str:
        """The style of the current row."""
        if not self.located:
            return "elsewhere"
        return "cursor" if self.has_focus else "resting"

    def _note_line(self, y: int, width: int) -> Strip:
        lines = _wrapped(self.note, max(width - 4, 10))
        text = "  " + lines[y - 1] if 0 < y <= len(lines) else "" if y else self._focus_sign
        return _strip(text, width, self._style("note"))

    def _style(self, name: str) -> Style:
        return self.get_component_rich_style(f"table--{name}")

    def _filtered(self, line: Strip, background: Background) -> Strip:
        for each in self.get_line_filters():
            line = line.apply_filter(each, background)
        return line


def _strip(text: str, width: int, style: Style) -> Strip:
    return Strip([Segment(text, style)]).adjust_cell_length(width, style)


def _wrapped(text: str, width: int) -> list[str]:
    """A note as lines; it is our own text with plain letters, so letters are cells."""
    return [line for paragraph in text.split("\n") for line in wrap(paragraph, width) or [""]]
