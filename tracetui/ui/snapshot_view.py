"""The screen of a memory snapshot: a curve with a cursor, and below it the live memory there by owner.

The curve is of active and reserved bytes over the events of a device. The controller has a header, sentences, the
curve, tabs with who holds what, details and key hints.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import ClassVar

import numpy as np
from rich.segment import Segment
from rich.style import Style
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.events import Click
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from tracetui.drawing.hues import is_plain
from tracetui.drawing.text import export, snapshot_text
from tracetui.model.intervals import Int64
from tracetui.model.memory_snapshot import MemorySnapshot
from tracetui.model.quantities import ABSENT, count, duration, percent, size
from tracetui.model.table import Table
from tracetui.snapshots.history import DeviceHistory, history_of
from tracetui.snapshots.snapshot_tables import (
    GROUPINGS,
    PANES,
    chosen_history,
    frames_of,
    out_of_memory,
    pane_table,
    summary_words,
)
from tracetui.text import clean
from tracetui.ui.base import keys
from tracetui.ui.base.exports import copy_out
from tracetui.ui.base.keys import command
from tracetui.ui.widgets.bar import Bar, BarPart, FocusedPart
from tracetui.ui.widgets.details import DetailFact, DetailLine, fact_lines, folded
from tracetui.ui.widgets.searchable_view import SEARCH_COMMANDS, SizedScreen
from tracetui.ui.widgets.statement import StatedView
from tracetui.ui.widgets.tabbed_list import ListArrangement, Tab, TabbedList
from tracetui.ui.widgets.table_view import TableView

EIGHTHS = " ▁▂▃▄▅▆▇█"
RESERVED, CURSOR, PEAK_SIGN, OOM_SIGN = "░", "┃", "▲", "✖"
_ASCII = str.maketrans(
    {**dict.fromkeys("▁▂▃▄", "."), **dict.fromkeys("▅▆▇█", "#"), "░": ":", "┃": "|", "▲": "^", "✖": "x"}
)
SCALE_CELLS = 11
"""Cells of the numbers at the left."""
ZOOM = 4
"""Factor of one press."""


class CurveView(Widget, can_focus=True):
    """The curve of one device. The cursor is a moment: a number of events."""

    HELP_WHERE = "curve"
    COMPONENT_CLASSES: ClassVar[set[str]] = {"curve--active", "curve--reserved", "curve--cursor", "curve--scale"}
    DEFAULT_CSS = """
    CurveView { height: 8; padding: 0 1; }
    CurveView .curve--active { color: $primary; }
    CurveView .curve--reserved { color: $secondary; }
    CurveView .curve--cursor { color: $accent; text-style: bold; }
    CurveView .curve--scale { color: $text-muted; }
    CurveView:focus .curve--scale { color: $accent; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        command(keys.LEFT, "pan(-1)", "Cursor earlier", "By a cell of the curve.", "cursor"),
        command(keys.RIGHT, "pan(1)", "Cursor later", "By a cell of the curve.", "cursor"),
        command(keys.PAGE_UP, "pan(-10)", "Cursor ten cells earlier"),
        command(keys.PAGE_DOWN, "pan(10)", "Cursor ten cells later"),
        command(keys.FIRST, "go(0)", "Cursor before the first event"),
        command(keys.LAST, "go(1)", "Cursor at the end"),
    ]

    cursor: reactive[int] = reactive(0)
    """The moment."""

    class Moved(Message):
        """The user moved the cursor."""

    def __init__(self, history: DeviceHistory, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.history = history
        self._window = 0, history.count
        """First and last moment on screen."""

    def show(self, history: DeviceHistory) -> None:
        """Draw another device."""
        self.history, self._window = history, (0, history.count)
        self.refresh()

    def watch_cursor(self) -> None:
        """Keep the cursor on screen."""
        low, high = self._window
        if not low <= self.cursor <= high:
            self._center(high - low)

    def action_pan(self, cells: int) -> None:
        """Move the cursor by cells, at least by an event each."""
        low, high = self._window
        step = max((high - low) // max(self._cells, 1), 1)
        self._go(self.cursor + cells * step)

    def action_go(self, end: int) -> None:
        """Move the cursor to the first or the last moment."""
        self._go(end * self.history.count)

    def zoom(self, direction: int) -> None:
        """Show fewer events about the cursor, or more; 0 shows all."""
        low, high = self._window
        length = self.history.count if not direction else (high - low) // ZOOM if direction > 0 else (high - low) * ZOOM
        self._center(min(max(length, 8), self.history.count))

    def _center(self, length: int) -> None:
        low = min(max(self.cursor - length // 2, 0), max(self.history.count - length, 0))
        self._window = low, min(low + length, self.history.count)
        self.refresh()

    def _go(self, moment: int) -> None:
        self.cursor = min(max(moment, 0), self.history.count)
        self.post_message(self.Moved())

    def on_click(self, event: Click) -> None:
        """Put the cursor where the pointer is."""
        column = event.x - 1 - SCALE_CELLS
        if 0 <= column < self._cells:
            low, high = self._window
            self._go(low + (high - low) * column // max(self._cells - 1, 1))

    # Drawing

    @property
    def _cells(self) -> int:
        return max(self.size.width - SCALE_CELLS, 1)

    def _edges(self) -> Int64:
        """First moment of each cell."""
        low, high = self._window
        edges: Int64 = low + (high - low + 1) * np.arange(self._cells) // self._cells
        return edges

    def _column(self, moment: int) -> int:
        return int(np.searchsorted(self._edges(), moment, side="right")) - 1

    @property
    def words(self) -> str:
        """The cursor in words: event, time, and the heights of the curves."""
        history, moment = self.history, self.cursor
        at = history.at_us(moment)
        parts = [f"event {count(moment)} of {count(history.count)}"]
        parts += [duration(at * 1000)] if at is not None else []
        parts.append(f"active {size(history.active[moment])}")
        if history.pending[moment]:
            parts.append(f"freed, not completed {size(history.pending[moment])}")
        return " · ".join([*parts, f"reserved {size(history.reserved[moment])}"])

    def render_line(self, y: int) -> Strip:
        """A line of the curve, or of its marks below it."""
        width, height = self.size
        rows = height - 1
        texts = self._marks() if y == rows else self._row(y, rows)
        plain = is_plain(os.environ)
        segments = [Segment(text.translate(_ASCII) if plain else text, style) for text, style in texts]
        return Strip(segments).adjust_cell_length(width, self.rich_style)

    def _row(self, y: int, rows: int) -> list[tuple[str, Style]]:
        history, edges = self.history, self._edges()
        top = max(int(history.reserved.max(initial=0)), int(history.active.max(initial=0)), 1)
        last = self._window[1] + 1
        active = np.maximum.reduceat(history.active[:last], edges) * (8 * rows) / top
        reserved = np.maximum.reduceat(history.reserved[:last], edges) * (8 * rows) / top
        floor = 8 * (rows - 1 - y)
        eighths = np.clip(np.ceil(active - floor), 0, 8).astype(np.int64)
        is_reserved = reserved > floor
        cursor = self._column(self.cursor)
        label = size(top) if y == 0 else size(top / 2) if y == rows // 2 else ""
        pieces = [(f"{label:>{SCALE_CELLS - 1}} ", self._look("scale"))]
        for column, (filled, below) in enumerate(zip(eighths.tolist(), is_reserved.tolist(), strict=True)):
            if column == cursor:
                pieces.append((CURSOR, self._look("cursor")))
            elif filled:
                pieces.append((EIGHTHS[filled], self._look("active")))
            else:
                pieces.append((RESERVED if below else " ", self._look("reserved")))
        return pieces

    def _marks(self) -> list[tuple[str, Style]]:
        """The peak and failed allocations, and the cursor in words."""
        low, high = self._window
        cells = [" "] * self._cells
        for moment, sign in [(self.history.peak, PEAK_SIGN), *((each, OOM_SIGN) for each in self.history.ooms[:1000])]:
            if low <= moment <= high:
                cells[self._column(moment)] = sign
        return [(" " * SCALE_CELLS, self.rich_style), ("".join(cells), self._look("cursor"))]

    def _look(self, name: str) -> Style:
        return self.get_component_rich_style(f"curve--{name}")


PEAK, LIVE, SEGMENTS, UNFREED, OOM = PANES
SNAPSHOT_KEYS = dict(zip(PANES, "12345", strict=True))
"""The key of each tab."""
AT_CURSOR = (LIVE, SEGMENTS)
"""Tabs about the moment of the cursor; the others have a moment of their own, to which it goes."""
MAX_FRAMES = 40
"""Frames of a stack that the details list."""
CURVE_SHARE = 4
"""The curve has one line of so many."""

SNAPSHOT_COMMANDS: list[BindingType] = [
    command(keys.NEXT, "moment(1)", "Cursor later", "By a cell of the curve.", "cursor"),
    command(keys.PREVIOUS, "moment(-1)", "Cursor earlier", "By a cell of the curve.", "cursor"),
    command(keys.ZOOM_IN, "zoom(1)", "Zoom into the curve", "About the cursor.", "zoom"),
    command(keys.ZOOM_OUT, "zoom(-1)", "Zoom out of the curve", "About the cursor.", "zoom"),
    command(keys.FIT_ALL, "fit_trace", "The whole curve"),
    command(keys.DEVICE, "next_device", "Next device", "Where the snapshot has several."),
    command(keys.STATEMENT, "statement", "All that is said", "Every sentence, and back.", "all"),
    command(keys.DETAILS, "details", "Details of the row", "On a narrow screen: in place of the list.", "details"),
    *SEARCH_COMMANDS,
    *(
        command(keys.tab_key(key), f"tab('{name}')", f"Tab {PANES[name].title}", PANES[name].help)
        for name, key in SNAPSHOT_KEYS.items()
    ),
    command(keys.COPY_ROW, "copy_row", "Copy the row", "As Markdown: to the clipboard and a file."),
    command(keys.COPY_VIEW, "copy_command", "Copy the command", "The command line that prints this table."),
    command(keys.EXPORT, "export", "Export the table", "The listed rows, to a CSV file and as Markdown."),
    command(keys.MAXIMISE, "maximise", "Maximise the part", "The part with the focus alone; again brings all back."),
    command(keys.NEXT_PART, "part(1)", "Next part of the screen", "List, curve, details.", "parts"),
    command(keys.PREVIOUS_PART, "part(-1)", "Previous part of the screen", "List, curve, details."),
]
"""In the order of the help."""


class SnapshotList(TabbedList):
    """The tables of one device of a snapshot at the moment of the cursor."""

    def __init__(self, history: DeviceHistory) -> None:
        super().__init__(tuple(PANES))
        self.history = history
        self.moment = history.peak
        """The moment of the cursor."""
        self._made: dict[tuple[str, int, str | None], Table] = {}

    @property
    def table(self) -> Table:
        """The rows of the current tab."""
        pane, by = PANES[self.pane], self.arrangement.by
        moment = self.moment if self.pane in AT_CURSOR else pane.moment(self.history)
        key = self.pane, moment, by
        if key not in self._made:
            if len(self._made) > 32:
                self._made.clear()
            self._made[key] = pane_table(self.history, self.pane, moment, by)
        return self._made[key]

    @property
    def groupings(self) -> Sequence[str]:
        """The ways to name holders, but the one that is used without any."""
        return [each for each in GROUPINGS if each != "line"] if PANES[self.pane].is_grouped else ()

    def take(self, history: DeviceHistory, moment: int) -> None:
        """Show another device or moment, the cursor where it was."""
        if history is not self.history:
            self._made.clear()
        self.history, self.moment = history, moment
        self._show(self.view.cursor)
        self.view.announce_row()

    def arrange_by(self, arrangement: ListArrangement, select_first: bool = False) -> None:
        """Sort, filter or group the current tab."""
        self.arrangements[self.pane] = arrangement
        self._show(0)
        self.view.announce_row()

    def _readable(self, table: Table) -> Table:
        # The sentence stands above the tabs.
        return Table(table.columns)

    def _missing_note(self) -> str:
        return ""

    def _tabs(self) -> Sequence[Tab]:
        ooms = count(len(self.history.ooms)) if self.history.ooms else ""
        return [
            Tab(name, pane.title, ooms if name == OOM else "", SNAPSHOT_KEYS[name], name == OOM and not ooms)
            for name, pane in PANES.items()
        ]


class SnapshotView(StatedView):
    """A memory snapshot on screen."""

    BINDINGS: ClassVar[list[BindingType]] = SNAPSHOT_COMMANDS
    panes: SnapshotList
    ROW_FILE = "holder.md"

    def __init__(self, snapshot: MemorySnapshot, path: str) -> None:
        history = chosen_history(snapshot, None)
        super().__init__(SnapshotList(history))
        self.snapshot, self.path = snapshot, path
        self.curve = CurveView(history)

    @property
    def history(self) -> DeviceHistory:
        """The device that is shown."""
        return self.panes.history

    def compose(self) -> ComposeResult:
        """The parts, from top to bottom."""
        yield Bar(id="header")
        yield self.statement
        yield self.curve
        yield Bar(id="meaning")
        yield self.panes
        yield self.search_line
        yield self.hints

    def on_mount(self) -> None:
        """Begin with what went wrong, or else with the peak."""
        self._show_device()
        # Textual gives the keys to the curve, which comes first.
        self.call_after_refresh(self.panes.view.focus)

    def _show_device(self) -> None:
        words = f"   {summary_words(self.snapshot)}"
        self.query_one("#header", Bar).parts = (BarPart(clean(self.snapshot.label), "strong"), BarPart(words))
        name = OOM if self.history.ooms else PEAK
        if self.panes.pane == name:
            self._turn_to_tab()
        else:
            self.panes.open_tab(name)

    def on_resize(self) -> None:
        """Fit the lines to the new size."""
        self.share_height()
        self.hints.show_hints()

    def focused_part(self) -> FocusedPart:
        """The part of the screen that the keys go to, and its name."""
        return (self.curve, "curve") if self.curve.has_focus else super().focused_part()

    # The cursor, the list below it, and what is said

    @on(SnapshotList.Opened)
    def _turn_to_tab(self) -> None:
        """Put the cursor at the moment that the tab is about."""
        pane = self.panes.pane
        if pane not in AT_CURSOR:
            self.panes.moment = PANES[pane].moment(self.history)
        self.curve.cursor = self.panes.moment
        self._say()

    @on(CurveView.Moved)
    def _move(self) -> None:
        """Show who holds what at the cursor."""
        if self.panes.pane not in AT_CURSOR:
            self.panes.moment = self.curve.cursor
            by = self.panes.arrangement.by
            self.panes.arrangements[LIVE] = ListArrangement(by=by)
            self.panes.open_tab(LIVE)
        self.panes.take(self.history, self.curve.cursor)
        self._say()

    def _say(self) -> None:
        table = self.panes.table
        if self.panes.pane == OOM:
            sentences = out_of_memory(self.history, PANES[OOM].moment(self.history))
        else:
            sentences = tuple(filter(None, (table.headline, table.note)))
        self.statement.sentences = tuple(clean(each) for each in sentences)
        self.query_one("#meaning", Bar).parts = (BarPart(self.curve.words, "dim"),)
        self.share_height()
        self._explain()

    def action_moment(self, cells: int) -> None:
        """Move the cursor."""
        self.curve.action_pan(cells)

    def action_zoom(self, direction: int) -> None:
        """Show fewer events of the curve, or more."""
        self.curve.zoom(direction)

    def action_fit_trace(self) -> None:
        """Show all events."""
        self.curve.zoom(0)

    def action_next_device(self) -> None:
        """Show the next device of the snapshot."""
        history = history_of(self.snapshot, (self.history.device + 1) % self.snapshot.device_count)
        self.panes.take(history, history.peak)
        self.curve.show(history)
        self._show_device()
        self.notice(f"Device {history.device} of {self.snapshot.device_count}.")

    @on(TableView.RowHighlighted)
    def _explain(self) -> None:
        """Describe the current row in the details."""
        self.panes.details.explain(partial(self._lines, self.panes.table, self.panes.view.row))

    def _lines(self, table: Table, row: int, width: int) -> list[DetailLine]:
        if not 0 <= row < len(table):
            return []
        columns = table.columns
        lines = [DetailLine(piece, "title") for piece in folded(clean(str(columns[0].cell(row) or ABSENT)), width)]
        for column in columns[1:]:
            value = column.cell(row)
            if value is not None and column.name != "stack":
                lines += fact_lines(DetailFact(column.spec.heading, _written(value, column.unit)), width)
        stack = table["stack"].cell(row) if "stack" in table else None
        if isinstance(stack, int):
            lines += [DetailLine(""), DetailLine("Stack of most of it", "title")]
            frames = frames_of(self.snapshot).listing(stack)
            shown = [piece for frame in frames[:MAX_FRAMES] for piece in folded(clean(frame), width)]
            lines += [DetailLine(piece) for piece in shown]
        return lines

    @on(TableView.RowChosen)
    def _go_into(self) -> None:
        """Go to the details, which list the stack."""
        if self.screen.has_class("-wide"):
            self.give_keys(self.panes.details)
        else:
            self.action_details()

    # Copies and exports

    def list_text(self, format: str, rows: Int64, of_list: bool) -> str:
        """Rows of the table as `csv` or `md`."""
        part = self.panes.table.take(rows)
        return export.csv_rows(part) if format == "csv" else snapshot_text.as_markdown(self.snapshot, part, self._words)

    def export_name(self) -> str:
        """The name of the files of an export."""
        return f"{self.snapshot.label.partition('.')[0]}-{self._words.replace(' ', '-')}"

    @property
    def _words(self) -> str:
        by = self.panes.arrangement.by or "line"
        return f"{self.panes.pane} by {by}" if PANES[self.panes.pane].is_grouped else self.panes.pane

    def action_copy_command(self) -> None:
        """Copy the command line that prints this table."""
        # Needs shlex, which nothing else here does.
        import shlex

        words = ["tracetui", "show", self.panes.pane, self.path]
        words += ["--at", str(self.panes.moment)] if self.panes.pane in AT_CURSOR else []
        words += ["--by", self.panes.arrangement.by] if self.panes.arrangement.by else []
        words += ["--device", str(self.history.device)] if self.snapshot.device_count > 1 else []
        text = shlex.join(words)
        self.notice(*copy_out(self.app, text, "command.txt", text))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """There is another device where there are several."""
        if action == "next_device":
            return self.snapshot.device_count > 1
        return super().check_action(action, parameters)

    def reason(self, action: str) -> str:
        """The reason why a command makes no sense right now."""
        return "The snapshot has one device." if action == "next_device" else super().reason(action)

    # Parts

    @property
    def parts(self) -> list[Widget]:
        """List, curve and details."""
        return [self.panes.view, self.curve, self.panes.details]

    def action_split(self, lines: int) -> None:
        """The curve has its share of the lines."""

    def action_sideways(self, direction: int) -> None:
        """Move the cursor from a part that has nothing to move to the side."""
        self.curve.action_pan(direction)

    @property
    def split_lines(self) -> tuple[int, int]:
        """Lines of the curve, and of curve and list together."""
        return self.curve.size.height, self.size.height

    def share_height(self) -> None:
        """Lines for the sentences, the verdict in full, and for the curve; the list has the rest."""
        width, height = self.size
        if self.has_class("-statement"):
            limit = height - 3
        else:
            limit = max(self.statement.verdict_lines(width), 5 if height > 30 else 3)
        self.statement.styles.height = self.statement.wanted(width, max(min(limit, height - 8), 1))
        is_alone = bool(self.maximised) or self.has_class("-statement")
        self.curve.styles.height = 0 if is_alone else min(max(height // CURVE_SHARE, 4), 12)
        self.share_width()


def _written(value: object, unit: str) -> str:
    """A cell in full."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        number = float(value)
        return {"bytes": size, "us": lambda us: duration(us * 1000), "%": percent}.get(unit, count)(number)
    return clean(str(value))


class SnapshotScreen(SizedScreen):
    """Composes one `SnapshotView`."""

    view: SnapshotView
    can_leave: bool = True
    BINDINGS: ClassVar[list[BindingType]] = [
        command(keys.BACK, "leave", "Back to where you were", "To the list of traces."),
    ]

    def __init__(self, snapshot: MemorySnapshot, path: str) -> None:
        super().__init__(SnapshotView(snapshot, path))

    @property
    def label(self) -> str:
        """The file's name."""
        return self.view.snapshot.label
