"""The controller of a set of ranks: header, sentence, tabs with a table, details, key hints."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widget import Widget

from tracetui.drawing.text import rank_text
from tracetui.model.intervals import Int64
from tracetui.model.table import NULL
from tracetui.model.viewpoint import Viewpoint
from tracetui.opening.rank_folder import RankSetName
from tracetui.opening.rank_reading import SummaryWork
from tracetui.opening.trace_opening import SideName
from tracetui.ranks.moments import late_moment, range_of, worst_instance
from tracetui.ranks.rank_set import RankSet
from tracetui.ranks.rank_tables import collectives_order
from tracetui.ranks.sentences import headline, remarks, title
from tracetui.text import clean
from tracetui.ui.base import keys
from tracetui.ui.base.keys import command
from tracetui.ui.base.overlay import CompareAsked
from tracetui.ui.ranks.rank_list import (
    COLLECTIVES,
    COMPILES,
    FILES,
    GROUPS,
    MATRIX,
    RANK_KEYS,
    RANK_TAB_HELP,
    RANKS,
    STEPS,
    RankList,
    compilation_lines,
    group_lines,
    instance_lines,
    rank_lines,
    reading_table,
    send_ranks_command,
    step_worst,
)
from tracetui.ui.ranks.rank_reader import MomentAsked, RankLanesAsked, RankReader, RankTraceAsked
from tracetui.ui.widgets.bar import Bar, BarPart
from tracetui.ui.widgets.searchable_view import SEARCH_COMMANDS, SizedScreen, too_small
from tracetui.ui.widgets.statement import StackedLines, StatedView
from tracetui.ui.widgets.tabbed_list import ListArrangement
from tracetui.ui.widgets.table_view import TableView

MAX_MARKED = 8
"""Maximum ranks that are marked, and whose lanes are drawn together: each is opened in full."""
SENTENCE_SHARE = 0.3
"""Maximum share of the lines of the screen that the sentences have."""
LIST_TITLE_LINES = 2
"""Lines that the list needs beside its rows."""
MIN_BARS_HEIGHT = 20
"""Minimum lines of a screen that has bars above the list."""
MIN_BARS, LINES_PER_BAR = 4, 5
"""Ranks that are drawn as bars on the shortest screen, and lines of a higher one for each of them."""

RANK_COMMANDS: list[BindingType] = [
    command(
        keys.FOLLOW, "open_rank", "Open the rank alone", "Its trace, at the collective that it came late to.", "open"
    ),
    command(
        keys.SPACE,
        "mark",
        "Mark the rank",
        f"Up to 8: {keys.COMPARE} compares two, {keys.LANES} draws their lanes.",
        "mark",
    ),
    command(
        keys.COMPARE, "compare", "Compare two ranks", "The two that are marked, or the marked and this one.", "compare"
    ),
    command(keys.LANES, "lanes", "Lanes of ranks", "Of the marked ranks, or of the first, on one axis.", "lanes"),
    command(keys.STATEMENT, "statement", "All that is said", "Every sentence about the set, and back.", "all"),
    command(keys.DETAILS, "details", "Details of the row", "On a narrow screen: in place of the list.", "details"),
    *SEARCH_COMMANDS,
    *(
        command(keys.tab_key(key), f"tab('{name}')", f"Tab {name}", RANK_TAB_HELP[name])
        for name, key in RANK_KEYS.items()
    ),
    command(keys.COPY_ROW, "copy_row", "Copy the row", "As Markdown: to the clipboard and a file."),
    command(keys.COPY_VIEW, "copy_command", "Copy the command", "The command line that prints this table."),
    command(keys.EXPORT, "export", "Export the table", "The listed rows, to a CSV file and as Markdown."),
    command(keys.MAXIMISE, "maximise", "Maximise the part", "The part with the focus alone; again brings all back."),
    command(keys.NEXT_PART, "part(1)", "Next part of the screen", "List, details.", "parts"),
    command(keys.PREVIOUS_PART, "part(-1)", "Previous part of the screen", "List, details."),
]
"""In the order of the help."""


class RankView(StatedView):
    """A set of ranks on screen."""

    BINDINGS: ClassVar[list[BindingType]] = RANK_COMMANDS

    panes: RankList
    ROW_FILE = "rank.md"

    def __init__(self, name: RankSetName, work: SummaryWork | None = None) -> None:
        super().__init__(RankList())
        self.set_name = name
        self.where = " ".join(name.paths)
        """The folder, or the files."""
        self.bars = StackedLines(id="bars")
        self.reader = RankReader(self, name, work)
        self.ranks: RankSet | None = None
        """The set, None until all files are read."""

    def compose(self) -> ComposeResult:
        """The parts, from top to bottom."""
        yield Bar(id="header")
        yield self.statement
        yield self.bars
        yield self.panes
        yield Bar(id="meaning")
        yield self.search_line
        yield self.hints

    def on_mount(self) -> None:
        """Begin to read."""
        self.panes.view.focus()
        self.statement.sentences = ("Looking for the traces of ranks …",)
        self._show_header(self.where, "")
        self.reader.start()

    def on_unmount(self) -> None:
        """Stop reading: the screen is gone."""
        self.reader.stopping.set()

    def on_resize(self) -> None:
        """Fit the lines to the new size."""
        self._show_bars()
        self.hints.show_hints()

    # What comes from the reader

    @on(RankReader.Came)
    def _show_progress(self, message: RankReader.Came) -> None:
        message.stop()
        if self.ranks is not None:
            return
        words = "stopping …" if self.reader.stopping.is_set() else "esc shows what came"
        self._show_header(self.where, f"{message.done:,} of {message.total:,} files")
        self.statement.sentences = (f"Reading: {message.done:,} of {message.total:,} files; {words}.",)
        if self.reader.run is not None:
            folder = self.set_name.paths[0] if len(self.set_name.paths) == 1 else ""
            self.panes.take(RANKS, reading_table(self.reader.run, dict(self.reader.summaries), folder))

    @on(RankReader.Read)
    def _take_set(self, message: RankReader.Read) -> None:
        message.stop()
        ranks = self.ranks = message.ranks
        self._show_header(self.where, title(ranks))
        self.statement.sentences = tuple(
            clean(each) for each in filter(None, (headline(ranks), message.spending, *remarks(ranks)))
        )
        self.share_height()
        self.hints.show_hints()

    @on(RankReader.Made)
    def _take_table(self, message: RankReader.Made) -> None:
        message.stop()
        if isinstance(message.table, str):
            self.panes.fail(message.name, message.table)
        else:
            self.panes.take(message.name, message.table)
            if message.name == RANKS:
                self._show_bars()
        if message.name == self.panes.pane:
            self.panes.view.announce_row()

    def _show_bars(self) -> None:
        """Draw what the ranks spend the run on, those first that others waited for most."""
        ranks, table = self.ranks, self.panes.tables.get(RANKS)
        if ranks is not None and table is not None:
            self.bars.show(partial(rank_text.rank_bars, table, ranks.run_ns, self._max_bars))
        self.share_height()

    def _bar_lines(self, width: int, height: int) -> int:
        return 0 if self.has_class("-statement") or height < MIN_BARS_HEIGHT else self.bars.wanted(width, height // 3)

    @property
    def _max_bars(self) -> int:
        return max(self.size.height // LINES_PER_BAR, MIN_BARS)

    def _show_header(self, name: str, words: str) -> None:
        name, words = clean(name), clean(words)
        if len(name) + len(words) > self.app.size.width - 6:
            name = Path(name).resolve().name
        self.query_one("#header", Bar).parts = (BarPart(name, "strong"), BarPart(f"   {words}"))

    # What a row stands for

    def _index_of(self, rank: int | None) -> int:
        """Index of the rank with a number, -1 for none."""
        ranks = self.ranks
        return -1 if ranks is None or rank is None or rank not in ranks.ranks else ranks.ranks.index(rank)

    def _cell(self, name: str, row: int | None = None) -> int | None:
        """A number of the current row, None for none."""
        table, row = self.panes.table, self.panes.view.row if row is None else row
        value = table[name].cell(row) if table is not None and name in table and 0 <= row < len(table) else None
        return value if isinstance(value, int) else None

    @property
    def rank(self) -> int:
        """Index of the rank that the current row is about, -1 for none."""
        if self.panes.pane == RANKS and self.panes.arrangement.by:
            return self._index_of(self._cell("worst_rank"))
        names = {RANKS: "rank", COLLECTIVES: "last", MATRIX: "late_rank", STEPS: "late_rank", COMPILES: "rank"}
        return self._index_of(self._cell(names.get(self.panes.pane, "")))

    def _late_at(self) -> tuple[int, int, int | None]:
        """The operation, the rank that is late in it and the one beside it that the current row stands for."""
        ranks, late = self.ranks, self.rank
        if ranks is None or late < 0:
            return -1, -1, None
        pane = self.panes.pane
        if pane == COLLECTIVES:
            return int(collectives_order(ranks)[self.panes.view.row]), late, None
        if pane == MATRIX:
            waiting = self._index_of(self._cell("rank"))
            return worst_instance(ranks, late, waiting), late, waiting
        if pane == STEPS:
            step = self._cell("step")
            return step_worst(ranks, NULL if step is None else step, late), late, None
        return worst_instance(ranks, late), late, None

    @on(TableView.RowChosen)
    def _go_into(self, message: TableView.RowChosen) -> None:
        """Open what the row stands for: a group, the moment of a late rank, the collectives of a group."""
        if self.panes.pane == RANKS and self.panes.open_group(message.row):
            return
        if self.panes.pane == GROUPS and self.panes.view.text is not None:
            self._list_collectives(self.panes.view.text)
            return
        instance, late, beside = self._late_at()
        if self.ranks is None:
            self.notice("The ranks are still being read; esc shows what came.")
            return
        if self._open_log():
            return
        moment = late_moment(self.ranks, instance, late, beside) if instance >= 0 else None
        if moment is None:
            self.notice(self._no_moment())
        else:
            self.post_message(MomentAsked(self.ranks, moment))

    def _open_log(self) -> bool:
        """Open the compilations of the rank of a row, where there are logs alone."""
        ranks, rank = self.ranks, self._cell("rank")
        if ranks is None or len(ranks):
            return False
        path = next((each.path for each in ranks.logs if each.rank == rank), None)
        if path is not None:
            self.post_message(RankTraceAsked(path, Viewpoint(pane="compiles")))
        return path is not None

    def _no_moment(self) -> str:
        """The reason why there is no moment to open."""
        if self.panes.pane == FILES:
            return "What is not here, or was left out, cannot be opened."
        if self.panes.pane == COLLECTIVES:
            return "All ranks were in step at this collective, as far as their clocks tell."
        return f"Nobody waited for this rank: {keys.FOLLOW} opens its trace alone."

    def _list_collectives(self, words: str) -> None:
        """List the collectives of a group."""
        self.panes.arrangements[COLLECTIVES] = ListArrangement(filter=words)
        self.panes.open_tab(COLLECTIVES)
        self.panes.view.announce_row()

    @on(RankList.Opened)
    def _share_list(self) -> None:
        self.share_width()

    @on(TableView.RowHighlighted)
    @on(RankList.Opened)
    def _explain(self) -> None:
        """Describe the current row in the details."""
        ranks = self.ranks
        if ranks is None:
            self.panes.details.explain(lambda width: [])
            return
        instance, late, _ = self._late_at()
        if self.panes.pane == RANKS and self.panes.arrangement.by:
            self.panes.details.explain(partial(group_lines, ranks, self._members()))
        elif self.panes.pane == RANKS and late >= 0:
            self.panes.details.explain(partial(rank_lines, ranks, late))
        elif self.panes.pane == COLLECTIVES and self.panes.view.row >= 0:
            order = collectives_order(ranks)
            self.panes.details.explain(partial(instance_lines, ranks, int(order[self.panes.view.row]), None))
        elif self.panes.pane == COMPILES and self.panes.table is not None and self.panes.view.row >= 0:
            self.panes.details.explain(partial(compilation_lines, self.panes.table, self.panes.view.row))
        elif instance >= 0:
            self.panes.details.explain(partial(instance_lines, ranks, instance, late))
        else:
            self.panes.details.explain(lambda width: [])

    def _members(self) -> list[int]:
        """Indices of the ranks of the group at the current row."""
        whole, table, by = self.panes.tables.get(RANKS), self.panes.table, self.panes.arrangement.by
        if whole is None or table is None or by is None or self.panes.view.row < 0:
            return []
        members = whole[by].equal(table[by].cell(self.panes.view.row))
        return [self._index_of(int(rank)) for rank in whole["rank"].values[members].tolist()]

    # Commands

    def action_open_rank(self) -> None:
        """Open the trace of the rank alone, at the collective that it came late to."""
        ranks, index = self.ranks, self.rank
        if self._open_log():
            return
        if ranks is None or index < 0:
            self.notice("This row is about no rank that could be opened.")
            return
        instance = self._late_at()[0]
        viewpoint = Viewpoint()
        moment = late_moment(ranks, instance, index) if instance >= 0 else None
        if moment is not None:
            window = range_of(ranks, index, moment.window)
            viewpoint = Viewpoint(start_ns=window.start, length_ns=window.length)
        self.post_message(RankTraceAsked(ranks.summaries[index].header.path, viewpoint))

    def action_mark(self) -> None:
        """Mark the rank of the row, or take its mark away."""
        index, marked = self.rank, self.panes.marked
        if self.ranks is None or index < 0:
            self.notice("This row is about no rank that could be marked.")
            return
        rank = self.ranks.ranks[index]
        if rank in marked:
            marked.remove(rank)
        elif len(marked) < MAX_MARKED:
            marked.append(rank)
        else:
            self.notice(f"{MAX_MARKED} ranks are marked already; more are not opened at a time.", warn=True)
            return
        self.panes.show_marks()
        names = ", ".join(map(str, marked))
        several = f"{keys.COMPARE} compares, {keys.LANES} draws their lanes"
        then = several if len(marked) > 1 else f"{keys.COMPARE} compares it with the rank under the cursor"
        self.notice(f"Marked: {names}; {then}." if marked else "No rank is marked any more.")

    def action_compare(self) -> None:
        """Compare the two marked ranks, or the marked one with that of the row."""
        ranks, marked = self.ranks, [self._index_of(each) for each in self.panes.marked[:2]]
        if len(marked) == 1 and self.rank not in (-1, marked[0]):
            marked.append(self.rank)
        if ranks is None or len(marked) < 2:
            self.notice(f"Mark a rank with {keys.SPACE}, then press {keys.COMPARE} on another one.")
            return
        a, b = (SideName(ranks.summaries[each].header.path) for each in marked)
        self.post_message(CompareAsked(a, b))

    def action_lanes(self) -> None:
        """Draw the lanes of the marked ranks, or of the first in the list, on one axis."""
        ranks = self.ranks
        if ranks is None:
            return
        if not len(ranks):
            self.notice(self._no_moment())
            return
        members = [self._index_of(each) for each in self.panes.marked]
        table = self.panes.tables.get(RANKS)
        if not members and table is not None:
            order = self.panes.view.order if self.panes.pane == RANKS and not self.panes.arrangement.by else None
            rows = np.arange(len(table)) if order is None else order
            members = [self._index_of(int(each)) for each in table["rank"].values[rows[: MAX_MARKED // 2]].tolist()]
        instance, late, _ = self._late_at()
        moment = late_moment(ranks, instance, late) if instance >= 0 else None
        window = moment.window if moment is not None else ranks.window
        self.post_message(RankLanesAsked(ranks, tuple(each for each in members if each >= 0), window))

    def action_statement(self) -> None:
        """Show every sentence in place of the table, or the table again."""
        super().action_statement()
        is_whole = self.has_class("-statement")
        # A list that is not displayed loses the keys, and with it the view that closes the sentences would.
        self.statement.can_focus = is_whole
        self.give_keys(self.statement if is_whole else self.panes.view)

    def give_keys(self, part: Widget) -> None:
        """Give the keys to a part, the table among them, which is shown again in place of the sentences."""
        if self.has_class("-statement") and part is not self.statement:
            self.action_statement()
        super().give_keys(part)

    def list_text(self, format: str, rows: Int64, of_list: bool) -> str:
        """Rows of the table as `csv` or `md`, as Markdown with a sentence about the set above them."""
        table = self.panes.table
        if self.ranks is None or table is None:
            return ""
        part = table.take(rows)
        return rank_text.as_csv(part) if format == "csv" else rank_text.as_markdown(self.ranks, part)

    def export_name(self) -> str:
        """The name of the files of an export: the folder, the tab and its grouping."""
        by = f"-by-{self.panes.arrangement.by}" if self.panes.arrangement.by else ""
        return f"{Path(self.where).resolve().name or 'ranks'}-{self.panes.pane}{by}"

    def action_copy_command(self) -> None:
        """Copy the command line that prints this table."""
        self.notice(*send_ranks_command(self.app, self.panes, self.set_name))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Ranks can be marked and opened once they are read."""
        if action in ("open_rank", "mark", "compare", "lanes", "export", "copy_row"):
            return self.ranks is not None and not too_small(self.screen)
        return super().check_action(action, parameters)

    def reason(self, action: str) -> str:
        """The reason why a command makes no sense right now."""
        if self.ranks is None and action in ("open_rank", "mark", "compare", "lanes", "export", "copy_row"):
            return "The ranks are still being read; esc shows what came."
        return super().reason(action)

    # Parts

    @property
    def parts(self) -> list[Widget]:
        """List and details."""
        return [self.panes.view, self.panes.details]

    def action_split(self, lines: int) -> None:
        """There is nothing above the list that could be made larger."""

    @property
    def split_lines(self) -> tuple[int, int]:
        """No timeline."""
        return 0, self.size.height

    def share_width(self) -> None:
        """The details stand below the list, as wide: a short list leaves them the lines that it does not need."""
        lines = len(self.panes.view.order) + LIST_TITLE_LINES
        is_below = self.screen.has_class("-wide") and not self.screen.has_class("-short") and not self.maximised
        room = self.size.height - self.statement.size.height - self.bars.size.height
        self.panes.view.styles.height = lines if is_below and lines < room // 3 else None

    def share_height(self) -> None:
        """Lines for the sentences: the headline in full; the list has the rest."""
        width, height = self.size
        if self.has_class("-statement"):
            limit = height - 3
        else:
            limit = max(self.statement.verdict_lines(width), int(height * SENTENCE_SHARE) if height > 30 else 3)
        self.statement.styles.height = self.statement.wanted(width, max(min(limit, height - 6), 1))
        self.bars.styles.height = bars = self._bar_lines(width, height)
        # The bars in the list say the same of every rank.
        table = self.panes.tables.get(RANKS)
        self.panes.draw_bars(not bars or table is None or len(table) > self._max_bars)
        parts = (BarPart(rank_text.BAR_LEGEND, "dim"),) if self.panes.has_bars and self.ranks else ()
        self.query_one("#meaning", Bar).parts = parts
        self.share_width()


# The screen of a set of ranks.


class RankScreen(SizedScreen):
    """Composes one `RankView`; what is opened from it comes above it."""

    stays_below: ClassVar[bool] = True
    """A trace that is opened from it comes above it, to go back to it."""
    view: RankView
    can_leave: bool = True
    BINDINGS: ClassVar[list[BindingType]] = [
        command(keys.ESCAPE, "leave", "Stop reading, or back", "Shows what came; then back to the list.", "back"),
        command(keys.BACK, "leave", "Back to where you were", "To the list of traces."),
    ]

    def __init__(self, name: RankSetName, uses_cache: bool = True) -> None:
        super().__init__(RankView(name, SummaryWork(uses_cache=uses_cache)))
        self.set_name = name
        self.where = " ".join(name.paths)
        """The folder, or the files."""

    @property
    def label(self) -> str:
        """The folder."""
        return self.view.where

    def action_leave(self) -> None:
        """Stop reading and show what came; else go to the list of traces."""
        if self.view.ranks is None and not self.view.reader.stopping.is_set():
            self.view.reader.stopping.set()
        else:
            super().action_leave()
