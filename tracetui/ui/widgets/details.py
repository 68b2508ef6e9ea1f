"""The details beside a list: lines cut to a width, and the widget that shows them, with links to slices to jump to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from typing import ClassVar

from rich.segment import Segment
from textual.binding import BindingType
from textual.events import Click
from textual.geometry import Region
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip

from tracetui.drawing.drawn_columns import Piece
from tracetui.drawing.text.pictures import ListPicture
from tracetui.errors import AnalysisFailed
from tracetui.frozen import frozen
from tracetui.model.results import guarded
from tracetui.text import clean
from tracetui.ui.base import keys
from tracetui.ui.base.keys import command
from tracetui.ui.widgets.surface import Scroller

_BREAK = re.compile(r"::|[/_]|:(?!:)|,(?!\d{3})")
"""After what a word that is longer than a line can go on in the next."""
_FOLDER = re.compile(r"[\w.]/(?=\w)")
"""In a path a line ends behind a folder where it can."""
_SPACE = re.compile(r" ")
_UNIT_BEHIND = re.compile(r"\d (?:%|[nµm]?s\b|[KMGTP]?i?B\b)")
_FIGURES = "0123456789.,"
_NUMBER = re.compile(rf"[{_FIGURES}]+$")
LABEL = 18
"""Cells kept for the labels of facts."""
MIN_CELLS_BESIDE_LABELS = 48
"""Minimum width at which a long value stands beside its label, and not below it."""
VALUE_INDENT = 2
"""Cells before a value below its label."""


@frozen(eq=True)
class DetailLine:
    """A line of a description, already short enough for the pane's width."""

    text: str
    style: str = "plain"
    """plain, title, label, fact, here or link."""
    row: int = -1
    """The slice to which the line jumps, -1 for none."""
    pieces: tuple[Piece, ...] = ()
    """The text in parts with a hue each; none where it has the style alone."""


@frozen(eq=True)
class DetailFact:
    """A label, a value in words, and the slice that it is about, -1 for none."""

    label: str
    value: str
    row: int = -1


def folded(text: str, width: int) -> list[str]:
    """Text cut into pieces of a width, at spaces; a word longer than that at signs in its last third."""
    width = max(width, 8)
    pieces = []
    while len(text) > width:
        cut = _cut(text, width)
        pieces.append(text[:cut].rstrip())
        text = text[cut:].lstrip()
    return [*pieces, text] if text else pieces


def _cut(text: str, width: int) -> int:
    """Index at which to cut a text that is longer than a width: words and numbers that fit stay whole."""
    spaces = [space.start() for space in _SPACE.finditer(text[: width + 1]) if text[: space.start()].strip()]
    if spaces:
        return next((at for at in reversed(spaces) if not _UNIT_BEHIND.match(text, max(at - 1, 0))), spaces[-1])
    folders = [match.end() for match in _FOLDER.finditer(text[:width]) if match.end() > width // 3]
    if folders:
        return folders[-1]
    for match in reversed(list(_BREAK.finditer(text[: width + 4], width * 2 // 3))):
        if match.end() <= width:
            return match.end()
    number = _NUMBER.search(text[:width]) if text[width] in _FIGURES else None
    return number.start() if number and number.start() else width


def fact_lines(fact: DetailFact, width: int) -> list[DetailLine]:
    """A fact with its label on the left; the value goes on below where it is long."""
    if width < MIN_CELLS_BESIDE_LABELS and len(fact.value) > width - LABEL and len(fact.label) < LABEL:
        indent = " " * VALUE_INDENT
        pieces = folded(fact.value, width - VALUE_INDENT)
        return [
            DetailLine(fact.label, "label"),
            *(DetailLine(indent + piece, row=fact.row if not index else -1) for index, piece in enumerate(pieces)),
        ]
    if len(fact.label) >= LABEL:
        return [DetailLine(piece, row=fact.row) for piece in folded(f"{fact.label}: {fact.value}", width)]
    pieces = folded(fact.value, width - LABEL) or [""]
    first = DetailLine(f"{fact.label:<{LABEL}}{pieces[0]}", "fact", fact.row)
    return [first, *(DetailLine(" " * LABEL + piece) for piece in pieces[1:])]


MAX_LINES_TO_A_LINK = 3
"""Maximum lines beyond the screen at which a link is gone to at once; to one further away lines are scrolled."""
WAITING_NOTE = "computing …"
"""Stands in the place of what is still being worked out."""
PICTURE_LINES = 16
"""Height of the drawing of a list."""


class Details(Scroller, can_focus=True):
    """Scrolling text about one slice; while focused, a cursor walks over the links in it."""

    HELP_WHERE = "details"

    BINDINGS: ClassVar[list[BindingType]] = [
        command(keys.DOWN, "move(1)", "Next link or line"),
        command(keys.UP, "move(-1)", "Previous link or line"),
        command(keys.PAGE_DOWN, "page(1)", "Scroll down"),
        command(keys.PAGE_UP, "page(-1)", "Scroll up"),
        command(keys.FIRST, "go(-1)", "Top of the details"),
        command(keys.LAST, "go(1)", "End of the details"),
        command(keys.ENTER, "jump", "Jump to the link", "Selects the slice that the line is about.", "jump"),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "details--plain",
        "details--title",
        "details--label",
        "details--here",
        "details--link",
        "details--cursor",
    }
    DEFAULT_CSS = """
    Details {
        padding: 0 1;
        .details--title { text-style: bold; }
        .details--label { color: $text-muted; }
        .details--here { color: $primary; text-style: bold; }
        .details--link { color: $foreground; }
        .details--cursor { background: $primary; color: $background; text-style: bold; }
    }
    """

    cursor: reactive[int] = reactive(-1, repaint=False, init=False)
    """Line of the link under the cursor, -1 for none."""

    class Chosen(Message):
        """A link was chosen: jump to its slice."""

        def __init__(self, row: int) -> None:
            super().__init__()
            self.row = row

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.lines: list[DetailLine] = []
        """The lines, from top to bottom."""
        self._width = -1
        self._make: Callable[[int], Sequence[DetailLine]] | None = None
        self._make_row: Callable[[int], Sequence[DetailLine]] | None = None
        """Makes the lines about the row under the cursor of the list; None where it has none."""
        self.describes_row = False
        """True where that row was moved to last, and not the selection."""
        self._pictured: ListPicture | None = None
        self._described: tuple[object, object, tuple[int, bool]] = None, None, (0, False)
        """The function that made the lines, the picture above them, their width and whether they wait."""
        self.is_waiting = False
        """True while the analyses that descriptions need are still running."""

    @property
    def text_width(self) -> int:
        """Cells of a line: beside the scroll bar."""
        return self.scrollable_content_region.width

    def explain(self, make: Callable[[int], Sequence[DetailLine]]) -> None:
        """Show the lines that a function makes for a width in cells; it is asked again when the width changes."""
        self._make = make
        if self.display:
            self._describe()

    def explain_row(
        self, make: Callable[[int], Sequence[DetailLine]] | None, pictured: ListPicture | None = None
    ) -> None:
        """Set what the row under the cursor of the list has to say, None for nothing, and the drawing of the list."""
        self._make_row, self._pictured = make, pictured
        if self.display and self.describes_row:
            self._describe()

    def turn_to_row(self, describes_row: bool) -> None:
        """Describe the row under the cursor of the list, or the selection."""
        if describes_row != self.describes_row:
            self.describes_row = describes_row
            if self.display:
                self._describe()

    def end_waiting(self) -> None:
        """Describe what is selected: what descriptions are made of is there."""
        if self.is_waiting:
            self.is_waiting = False
            if self.display:
                self._describe()

    def watch_cursor(self, old: int, new: int) -> None:
        """Paint the two links again."""
        self._repaint((old, new))

    def on_show(self) -> None:
        """Describe what was selected while the pane was hidden."""
        self._describe()

    def on_resize(self) -> None:
        """Wrap again."""
        self._describe()

    def render_line(self, y: int) -> Strip:
        """One line of the description."""
        width = self.text_width
        index = self.scroll_offset.y + y
        if index >= len(self.lines):
            return Strip.blank(width, self.rich_style)
        line = self.lines[index]
        if index == self.cursor and self.has_focus:
            segments = [Segment(line.text, self.get_component_rich_style("details--cursor"))]
        elif line.pieces:
            style = self.get_component_rich_style(f"details--{line.style}")
            segments = [Segment(text, self.hued(hue, style) if hue else style) for text, hue in line.pieces]
        elif line.style == "fact":
            label = self.get_component_rich_style("details--label")
            segments = [Segment(line.text[:LABEL], label), Segment(line.text[LABEL:], self.rich_style)]
        else:
            segments = [Segment(line.text, self.get_component_rich_style(f"details--{line.style}"))]
        return Strip(segments).adjust_cell_length(width, self.rich_style)

    def action_move(self, direction: int) -> None:
        """Go to the next link in a direction, or scroll by a line when there is none on screen."""
        links = [index for index, line in enumerate(self.lines) if line.row >= 0]
        ahead = [index for index in links if (index - self.cursor) * direction > 0]
        target = min(ahead, key=lambda index: abs(index - self.cursor), default=-1)
        top, bottom = self.scroll_offset.y, self.scroll_offset.y + self.size.height
        if target < 0 or not top - MAX_LINES_TO_A_LINK <= target < bottom + MAX_LINES_TO_A_LINK:
            self.scroll_to(y=top + direction, animate=False)
            return
        self.cursor = target
        if not top <= target < bottom:
            self.scroll_to(y=target if target < top else target - self.size.height + 1, animate=False)

    def action_page(self, pages: int) -> None:
        """Scroll by pages."""
        self.scroll_to(y=self.scroll_offset.y + pages * max(self.size.height - 1, 1), animate=False)

    def action_go(self, end: int) -> None:
        """Scroll to the top, or with 1 to the end."""
        self.scroll_to(y=self.max_scroll_y if end > 0 else 0, animate=False)

    def action_jump(self) -> None:
        """Select the slice under the cursor."""
        if 0 <= self.cursor < len(self.lines):
            self.post_message(self.Chosen(self.lines[self.cursor].row))

    def on_click(self, event: Click) -> None:
        """Jump to the link that was clicked."""
        index = self.scroll_offset.y + event.y
        if index < len(self.lines) and self.lines[index].row >= 0:
            self.cursor = index
            self.action_jump()

    def _describe(self) -> None:
        is_of_row = self.describes_row and self._make_row is not None
        make = self._make_row if is_of_row else self._make
        if make is None:
            return
        width = max(self.text_width, 10)
        # A key that selects a slice tells of it and then of its row, which is the same.
        pictured = self._pictured if is_of_row else None
        known_make, known_picture, known_look = self._described
        look = width, self.is_waiting
        if make is known_make and pictured is known_picture and look == known_look:
            return
        self._described = make, pictured, look
        above: list[DetailLine] = []
        if pictured is not None:
            above = [DetailLine(text) for text in pictured.lines(width, PICTURE_LINES)]
        lines: Sequence[DetailLine]
        try:
            with guarded("The description"):
                lines = [DetailLine(WAITING_NOTE, "label")] if self.is_waiting and not is_of_row else make(width)
        except AnalysisFailed as failure:
            lines = [DetailLine(piece, "title") for piece in folded(clean(str(failure)), width)]
            lines.append(DetailLine("─" * width, "label"))
        before, self.lines = self.lines, [*above, *lines]
        here = [index for index, line in enumerate(self.lines) if line.style == "here"]
        self.set_reactive(Details.cursor, here[0] if here else -1)
        self.set_length(len(self.lines))
        if self.scroll_offset.y or self.has_focus or self.text_width != self._width:
            self._width = self.text_width
            self.scroll_to(y=0, animate=False, force=True, immediate=True)
            self.refresh()
            return
        self._repaint(i for i, pair in enumerate(zip_longest(before, self.lines)) if pair[0] != pair[1])

    def _repaint(self, indices: Iterable[int]) -> None:
        """Paint only some of the lines again: most stay the same from one kernel to the next."""
        top, height, width = self.scroll_offset.y, self.size.height, self.outer_size.width
        regions = [Region(0, index - top, width, 1) for index in indices if top <= index < top + height]
        if regions:
            self.refresh(*regions)
