"""The flame view: an icicle of modules, operators and kernels over the whole screen, by GPU, CPU or idle time.

It lies over the trace: what is looked at there (a step, a range, all) is looked at here. The tree is made in a thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.events import Click, MouseScrollDown, MouseScrollUp
from textual.message import Message
from textual.worker import get_current_worker

from tracetui.drawing.flame import Icicle, Look, flame_text
from tracetui.drawing.format import shorten
from tracetui.drawing.timeline.cells import Frame
from tracetui.errors import TracetuiError
from tracetui.linking.links import links
from tracetui.linking.placement import step_labels
from tracetui.model.intervals import Int64, Part, TimeRange
from tracetui.model.quantities import counted, rounded_percent
from tracetui.model.table import Table
from tracetui.model.trace import Interrupted, Kind, Trace, interruptible
from tracetui.panes import PANES
from tracetui.tables.flame import CPU, FRAMES, GPU, IDLE, MEASURES, MODULES, OPERATORS, ROWS, by_of
from tracetui.tables.modules import no_frames
from tracetui.text import clean
from tracetui.ui.base import keys
from tracetui.ui.base.exports import home_path, not_written, save, stem
from tracetui.ui.base.keys import command
from tracetui.ui.base.overlay import Overlay
from tracetui.ui.widgets.bar import Bar, BarPart, HintsBar
from tracetui.ui.widgets.details import WAITING_NOTE
from tracetui.ui.widgets.list_finder import SearchLine
from tracetui.ui.widgets.surface import Surface

FLAME = "flame"
"""The pane that is shown, which has no tab."""
_MEASURE_WORDS = {GPU: "GPU time", CPU: "CPU time", IDLE: "idle time"}
_ROW_WORDS = {MODULES: "modules", OPERATORS: "operators", FRAMES: "Python frames"}
WHEEL_LINES = 2
"""Lines by which the wheel scrolls."""


@dataclass
class FlamePlace:
    """Place at which the flame view of a trace was left."""

    rows: str = MODULES
    measure: str = GPU
    top: tuple[str, ...] = ()
    """Path of the row that had the whole width."""
    cursor: tuple[str, ...] = ()


class FlameView(Surface, can_focus=True):
    """The icicle and its cursor."""

    HELP_WHERE = "in the flame view"
    BINDINGS: ClassVar[list[BindingType]] = [
        command(keys.DOWN, "move(1)", "Row below", "The largest of those below."),
        command(keys.UP, "move(-1)", "Row above"),
        command(keys.LEFT, "turn(-1)", "Row to the left", "Of the same level."),
        command(keys.RIGHT, "turn(1)", "Row to the right", "Of the same level."),
        command(keys.FIRST, "go(0)", "First row", "That which has the whole width."),
        command(keys.ENTER, "choose", "Go in", "Again: to its longest slice in the timeline.", "in"),
    ]
    DEFAULT_CSS = """
    FlameView { height: 1fr; margin: 0 1; }
    """

    class Moved(Message):
        """The cursor is on another row, or another row has the whole width."""

    class Chosen(Message):
        """The row that has the whole width was chosen once more."""

    def __init__(self) -> None:
        super().__init__()
        self.icicle: Icicle | None = None
        self.look = Look()

    def show(self, icicle: Icicle | None, place: FlamePlace) -> None:
        """Show a tree, at the place that it was left at as far as it has that."""
        self.keep_place(place)
        self.icicle = icicle
        rows: dict[tuple[str, ...], int] = {}
        if icicle is not None:
            for row in range(len(icicle.table)):
                # Of equal paths the first.
                rows.setdefault(_path(icicle.table, row), row)
        top, cursor = (_nearest(rows, path) for path in (place.top, place.cursor))
        self._see(replace(self.look, top=top, cursor=cursor if self._is_below(cursor, top) else top, hits=frozenset()))

    def keep_place(self, place: FlamePlace) -> None:
        """Keep the top row and the cursor in `place`, unless the tree is empty."""
        if self.icicle is not None:
            place.top, place.cursor = (_path(self.icicle.table, row) for row in (self.look.top, self.look.cursor))

    def mark(self, hits: Int64) -> None:
        """Mark the rows that were searched for."""
        self._see(replace(self.look, hits=frozenset(hits.tolist())))

    def put_cursor(self, row: int) -> None:
        """Put the cursor on a row, going out as far as that takes."""
        if self.icicle is None:
            return
        top = self.look.top
        while not self._is_below(row, top):
            top = int(self.icicle.parent[top])
        self._see(replace(self.look, top=top, cursor=row))

    def zoom_out(self) -> bool:
        """Give the row above the whole width; False where there is none."""
        if self.icicle is None or self.look.top <= 0:
            return False
        self._see(replace(self.look, top=int(self.icicle.parent[self.look.top]), cursor=self.look.top))
        return True

    def draw(self, last: Frame | None) -> Frame | None:
        """The lines that are on screen."""
        if self.icicle is None:
            return None
        look = replace(self.look, dark=self.app.current_theme.dark, plain=self.colours.is_plain)
        return self.icicle.draw(look, *self.size, self.colours)

    def on_resize(self) -> None:
        """Keep the cursor on screen."""
        self._see(self.look)

    def action_move(self, direction: int) -> None:
        """Go to the row above, or to the largest below."""
        if self.icicle is None:
            return
        below = [row for row in self.icicle.children(self.look.cursor) if self.icicle.total[row] > 0]
        if direction > 0 and below:
            self._see(replace(self.look, cursor=below[0]))
        elif direction < 0 and self.look.cursor != self.look.top:
            self._see(replace(self.look, cursor=int(self.icicle.parent[self.look.cursor])))

    def action_turn(self, direction: int) -> None:
        """Go to the next row of the same level that is on screen, or else to the next one below the same row."""
        if self.icicle is None or self.look.cursor == self.look.top:
            return
        level = int(self.icicle.depth[self.look.cursor] - self.icicle.depth[self.look.top])
        cells = self.icicle.cells(self.look.top, self.size.width, level + 1)
        rows = [cell.row for cell in cells if cell.line == level]
        if self.look.cursor not in rows:
            above = int(self.icicle.parent[self.look.cursor])
            rows = [row for row in self.icicle.children(above) if self.icicle.total[row] > 0]
        index = rows.index(self.look.cursor) + direction
        if 0 <= index < len(rows):
            self._see(replace(self.look, cursor=rows[index]))

    def action_go(self, line: int) -> None:
        """Go to the row that has the whole width."""
        self._see(replace(self.look, cursor=self.look.top))

    def action_choose(self) -> None:
        """Give the row of the cursor the whole width; where it has that, ask for its slice."""
        if self.icicle is None:
            return
        if self.look.cursor == self.look.top:
            self.post_message(self.Chosen())
        else:
            self._see(replace(self.look, top=self.look.cursor, first=0))

    def on_click(self, event: Click) -> None:
        """Put the cursor on what is under the mouse; a double click goes in."""
        if self.icicle is None:
            return
        line = event.y + self.look.first
        cells = self.icicle.cells(self.look.top, self.size.width, line + 1)
        for cell in cells:
            if cell.line == line and cell.left <= event.x < cell.left + cell.width:
                self._see(replace(self.look, cursor=cell.row))
                if event.chain > 1:
                    self.action_choose()

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        """Scroll down."""
        event.stop()
        self._scroll(WHEEL_LINES)

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        """Scroll up."""
        event.stop()
        self._scroll(-WHEEL_LINES)

    def _scroll(self, lines: int) -> None:
        if self.icicle is not None:
            deepest = int(self.icicle.depth.max()) - int(self.icicle.depth[self.look.top])
            first = min(max(self.look.first + lines, 0), max(deepest + 1 - self.size.height, 0))
            self.look = replace(self.look, first=first)
            self.changed()

    def _is_below(self, row: int, top: int) -> bool:
        return self.icicle is not None and top in self.icicle.path(row)

    def _see(self, look: Look) -> None:
        """Show what is to be seen, the lines scrolled so far that the cursor is among them."""
        if self.icicle is not None:
            line = int(self.icicle.depth[look.cursor] - self.icicle.depth[look.top])
            height = max(self.size.height, 1)
            look = replace(look, first=min(max(look.first, line + 2 - height, 0), line))
        self.look = look
        self.changed()
        self.post_message(self.Moved())


def _path(table: Table, row: int) -> tuple[str, ...]:
    """The names of a row and those around it, without the first, which differs from part to part."""
    return tuple(str(table["path"].cell(row)).split(";")[1:])


def _nearest(rows: dict[tuple[str, ...], int], path: tuple[str, ...]) -> int:
    """The row of a path, or of the longest beginning of it that there is."""
    while path not in rows and path:
        path = path[:-1]
    return rows.get(path, 0)


class FlameScreen(Overlay[tuple[int, str]]):
    """The icicle with a title, what is known of the row under the cursor, and the keys; ends with a slice to go to.

    The result is the slice and the measure, the slice -1 for none.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        command(keys.FLAME, "measure", "GPU time, CPU time or idle time", "What the width stands for.", "time"),
        command(keys.GROUP, "group", "Modules, operators or frames", "What the rows are.", "rows"),
        command(keys.SEARCH, "search", "Search", "Marks names, and says their share.", "search", before_typing=True),
        command(keys.NEXT_MATCH, "hit(1)", "Next match"),
        command(keys.PREVIOUS_MATCH, "hit(-1)", "Previous match"),
        command(keys.NEXT, "hit(1)", "Next match"),
        command(keys.PREVIOUS, "hit(-1)", "Previous match"),
        command(keys.FOLLOW, "follow", "Go to the longest slice", "In the timeline.", "timeline"),
        command(keys.PREVIOUS_STEP, "step(-1)", "Previous step", "", "step"),
        command(keys.NEXT_STEP, "step(1)", "Next step", "", "step"),
        command(keys.ALL_STEPS, "all_steps", "The whole trace", "Or the step again."),
        command(keys.EXPORT, "export", "Export", "As folded text, and for speedscope.", "export"),
        command(keys.ESCAPE, "leave", "Go out", "From a search, a row, the view.", "back"),
        command(keys.QUIT, "close", "Close the flame view"),
        command(keys.HELP, "help", "Help", "Keys of the flame view.", "help"),
    ]
    DEFAULT_CSS = """
    FlameScreen {
        #note { height: 1fr; display: none; }
        &.-empty #note { display: block; }
        &.-empty FlameView { display: none; }
        #row { background: $panel; }
    }
    """

    @dataclass
    class Built(Message):
        """A tree is ready, or there is none and the sentence says why."""

        key: tuple[Part | None, str | None]
        icicle: Icicle | None
        note: str = ""

    def __init__(self, trace: Trace, part: Part | None, place: FlamePlace) -> None:
        super().__init__()
        self.trace, self.part, self.place = trace, part, place
        self._opened_with = part
        self.flame, self.hints, self.search_line = FlameView(), HintsBar(), SearchLine()
        self._note = WAITING_NOTE
        self._search = ""
        self._hits: Int64 = np.empty(0, np.int64)

    def compose(self) -> ComposeResult:
        """The parts, from top to bottom."""
        yield Bar(id="title")
        yield self.flame
        yield Bar(id="note")
        yield Bar(id="row")
        yield self.search_line
        yield self.hints

    def on_mount(self) -> None:
        """Have the tree made."""
        if not len(links(self.trace).gpu):
            self.place.measure = CPU
        self.flame.focus()
        self._ask()

    def on_resize(self) -> None:
        """Fit the lines to the width."""
        self._show_words()
        self.hints.show_hints()

    def notice(self, text: str, warn: bool = False) -> None:
        """Show a notice in place of the key hints for a while."""
        self.hints.notice(text, warn)

    @property
    def _key(self) -> tuple[Part | None, str | None]:
        return self.part, by_of(self.place.rows, self.place.measure)

    def _ask(self) -> None:
        """Have the current tree made."""
        self._note = WAITING_NOTE
        self._show_words()
        self._build(*self._key)

    @work(thread=True, exclusive=True, group="flame")
    def _build(self, part: Part | None, by: str | None) -> None:
        worker = get_current_worker()
        try:
            with interruptible(lambda: not worker.is_cancelled):
                icicle = Icicle(PANES[FLAME].build(self.trace, part, by)).prepared()
        except Interrupted:
            return
        except TracetuiError as error:
            self.post_message(self.Built((part, by), None, str(error)))
        else:
            self.post_message(self.Built((part, by), icicle, icicle.table.note))

    @on(Built)
    def _take(self, message: Built) -> None:
        if message.key != self._key:
            return
        icicle, self._note = message.icicle, message.note
        if icicle is not None and not icicle.total[:1].any():
            self._note = f"There is no {_MEASURE_WORDS[self.place.measure]} in {self._part_words}. {message.note}"
            icicle = None
        self.set_class(icicle is None, "-empty")
        self.flame.show(icicle, self.place)
        self._find(self._search)
        self.hints.show_hints()

    @property
    def _part_words(self) -> str:
        if isinstance(self.part, TimeRange):
            return self.part.text
        return "the whole trace" if self.part is None else f"step {self.part}"

    @property
    def table(self) -> Table | None:
        """The rows of the icicle, None while there is none."""
        return self.flame.icicle.table if self.flame.icicle is not None else None

    @on(FlameView.Moved)
    def _follow_cursor(self) -> None:
        self.flame.keep_place(self.place)
        self._show_words()

    def _show_words(self) -> None:
        """Name the tree at the top, and describe the row under the cursor below the icicle."""
        rows, measure = self.place.rows, self.place.measure
        choices = (("P", measure, _MEASURE_WORDS), ("b", rows, _ROW_WORDS))
        parts = [BarPart(f"flame · {self._part_words}", "strong"), *_choice_parts(choices, False)]
        if sum(len(part.text) for part in parts) > self.size.width - 2:
            parts = [parts[0], *_choice_parts(choices, True)]
        room = self.size.width - 2 - sum(len(part.text) for part in parts)
        self.query_one("#title", Bar).parts = (*parts, *self._way(room))
        self.query_one("#note", Bar).parts = (BarPart(clean(self._note)),)
        self.query_one("#row", Bar).parts = self._row_words()

    def _way(self, room: int) -> tuple[BarPart, ...]:
        """The rows above the one that has the whole width, as far as they fit."""
        icicle, top = self.flame.icicle, self.flame.look.top
        if icicle is None or top == 0:
            return ()
        words = "   in " + " › ".join(icicle.name(row) for row in icicle.path(top)[1:])
        return (BarPart(words if len(words) <= room else f"   in {icicle.name(top)}", "dim"),)

    def _row_words(self) -> tuple[BarPart, ...]:
        icicle = self.flame.icicle
        if icicle is None:
            return ()
        row = self.flame.look.cursor
        words = f"  {icicle.words(row, _MEASURE_WORDS[self.place.measure])}"
        name = shorten(icicle.name(row), max(self.size.width // 3, 24))
        return BarPart(name, "strong"), BarPart(self._found_words(), "warn"), BarPart(words)

    def _found_words(self) -> str:
        icicle = self.flame.icicle
        if not self._search or icicle is None:
            return ""
        if not len(self._hits):
            return f"   {clean(self._search)!r}: no match"
        share = rounded_percent(100 * icicle.share(self._hits))
        return f"   {clean(self._search)!r}: {counted(len(self._hits), 'row')}, {share} of all"

    def action_measure(self) -> None:
        """Go to the next of GPU time, CPU time and idle time."""
        measures = MEASURES if len(links(self.trace).gpu) else (CPU,)
        if len(measures) == 1:
            self.notice("Nothing ran on a GPU: there is CPU time alone.")
            return
        self.place.measure = _next(measures, self.place.measure)
        self._ask()

    def action_group(self) -> None:
        """Go to the next kind of rows."""
        has_frames = len(self.trace.slices.of_kind(Kind.PYTHON)) > 0
        self.place.rows = _next(ROWS if has_frames else (MODULES, OPERATORS), self.place.rows)
        if not has_frames and self.place.rows == MODULES:
            self.notice(no_frames(self.trace))
        self._ask()

    def action_step(self, direction: int) -> None:
        """Go to the step before or after."""
        labels = step_labels(self.trace)
        index = labels.index(self.part) + direction if self.part in labels else 0
        if not 0 <= index < len(labels):
            self.notice(
                f"This is the {'last' if direction > 0 else 'first'} step." if labels else "There are no steps."
            )
            return
        self.part = labels[index]
        self._ask()

    def action_all_steps(self) -> None:
        """Show the whole trace, or again the part that it was opened with."""
        self.part = None if self.part is not None else self._opened_with
        self._ask()

    def action_search(self) -> None:
        """Type a name to look for."""
        self.search_line.open("search", "flame", self._search)

    @on(SearchLine.Typed)
    def _typed(self, message: SearchLine.Typed) -> None:
        self._find("" if message.given_up else message.text)
        self.search_line.show_count(self._found_words().strip())
        if not message.given_up and len(self._hits) and not message.accepted:
            largest = self.flame.icicle.total[self._hits].argmax() if self.flame.icicle is not None else 0
            self.flame.put_cursor(int(self._hits[largest]))
        if message.given_up or message.accepted:
            self.set_focus(self.flame)
            self.search_line.close()
            self.hints.show_hints()

    def _find(self, text: str) -> None:
        """Look a name up, and mark the rows that have it."""
        self._search = text
        icicle = self.flame.icicle
        self._hits = icicle.matches(text) if icicle is not None else self._hits[:0]
        self.flame.mark(self._hits)

    def action_hit(self, direction: int) -> None:
        """Go to the next or previous match, going round at the ends."""
        if not len(self._hits):
            self.notice("There is no search whose matches could be walked: / searches.")
            return
        here = self.flame.look.cursor
        index = int(np.searchsorted(self._hits, here + (direction > 0))) - (direction < 0)
        self.flame.put_cursor(int(self._hits[index % len(self._hits)]))

    @on(FlameView.Chosen)
    def action_follow(self) -> None:
        """Close, and go to the longest slice of the row."""
        slices = self.table.slices if self.table is not None else None
        row = int(slices[self.flame.look.cursor]) if slices is not None else -1
        if row < 0:
            self.notice("No slice of the timeline stands for this row.")
        else:
            self.dismiss((row, self.place.measure))

    def action_leave(self) -> None:
        """Go out of a search, a row, or the view."""
        if self._search:
            self._find("")
        elif not self.flame.zoom_out():
            self.action_close()

    def action_close(self) -> None:
        """Back to the trace."""
        self.dismiss((-1, self.place.measure))

    def action_export(self) -> None:
        """Write the tree as folded text, and for speedscope."""
        if self.table is None:
            self.notice("There is nothing to export.", warn=True)
            return
        part = "all" if self.part is None else self._part_words.replace(" ", "")
        name = f"{stem(self.trace.label)}-flame-{self.place.rows}-{self.place.measure}-{part}"
        try:
            path = save(flame_text(self.table, "folded", name), f"{name}.folded")
            save(flame_text(self.table, "speedscope", name), f"{path.stem}.speedscope.json")
        except OSError as error:
            self.notice(*not_written("The flame view", error))
            return
        self.notice(f"Folded text written to {home_path(path)}, beside it {path.stem}.speedscope.json")

    def action_help(self) -> None:
        """Show the keys."""
        # The help is needed only once it is asked for.
        from tracetui.ui.widgets.picker import HelpScreen, help_rows

        self.app.push_screen(HelpScreen(help_rows(self, self.table), "Help: keys of the flame view, and its columns"))


def _next(names: Sequence[str], current: str) -> str:
    return names[(names.index(current) + 1) % len(names)]


def _choice_parts(choices: Sequence[tuple[str, str, dict[str, str]]], chosen_alone: bool) -> list[BarPart]:
    """Choices that a key goes through, the current one set off."""
    parts = []
    for key, chosen, words in choices:
        parts += [BarPart("   "), BarPart(key, "key")]
        for each, word in words.items():
            if each == chosen:
                parts += [BarPart(" "), BarPart(f" {word} ", "current")]
            elif not chosen_alone:
                parts += [BarPart(" "), BarPart(word, "dim")]
    return parts
