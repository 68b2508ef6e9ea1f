"""The screen of three sides or more: their times as bars, what is said first of each, and their measures in a table.

The table is that of `tracetui compare A B C`; two of the sides are compared in full from here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import ClassVar

import numpy as np
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import Screen

from tracetui.comparing.statement import SIDE_NAMES, Headline, Several, side_names
from tracetui.drawing.text.comparison_text import SIGNS, key_rows, several_readable, side_words
from tracetui.drawing.text.headline_text import headline_lines
from tracetui.drawing.text.readable_table import words
from tracetui.errors import AnalysisFailed
from tracetui.model.table import ColumnSpec, Table, texts
from tracetui.model.trace import Trace
from tracetui.opening.trace_opening import SideName
from tracetui.text import clean
from tracetui.ui.base import keys
from tracetui.ui.base.keys import command
from tracetui.ui.base.overlay import AnalysisSafe, CompareAsked
from tracetui.ui.widgets.bar import Bar, BarPart, HintsBar
from tracetui.ui.widgets.picker import HelpScreen, Picker, help_rows
from tracetui.ui.widgets.statement import StackedLines, StatementView
from tracetui.ui.widgets.table_view import TableView

TITLE = "Several, each beside A"
_MEASURE = ColumnSpec("measure", "measure", width=24)
_PAIR = ColumnSpec("pair", "compare", width=30, grow=1)


class SeveralScreen(AnalysisSafe, Screen[None]):
    """Sides and first sentences above the table of their measures."""

    HELP_WHERE = "everywhere"

    BINDINGS: ClassVar[list[BindingType]] = [
        command(keys.COMPARE, "compare", "Compare two of them", "Any two, on one screen.", "two of them"),
        command(keys.STATEMENT, "statement", "All that is said", "In place of the table, and back.", "statement"),
        command(keys.ESCAPE, "leave", "Back", "To the table, then to the list of traces.", "back"),
        command(keys.BACK, "leave", "Back to where you were", "To the list of traces."),
        command(keys.HELP, "help", "Help", "Keys, and the signs of the table.", "help"),
    ]

    def __init__(self, several: Several, names: Sequence[SideName], totals: Table) -> None:
        """`totals` is `several.totals`, which takes a while to make."""
        super().__init__()
        self.several, self.names, self._totals = several, names, totals
        try:
            self._headline: Headline | None = several.headline
        except AnalysisFailed:
            # The sentences below say what could be made.
            self._headline = None
        self.bars, self.statement, self.table, self.hints = StackedLines(), StatementView(), TableView(), HintsBar()

    def compose(self) -> ComposeResult:
        """The sides with their first sentences, the table, the key hints."""
        yield Bar(id="title")
        yield self.bars
        yield self.statement
        yield self.table
        yield Bar(id="meaning")
        yield self.hints

    def on_mount(self) -> None:
        """Show the table, the measures that say most on top."""
        self.query_one("#title", Bar).parts = (BarPart(TITLE, "strong"), BarPart(f"   {SIGNS}", "dim"))
        self.statement.whole = True
        several = self.several
        named = zip(SIDE_NAMES, several.sides, strict=False)
        sides = [f"{name}  {clean(side.name)}: {side_words(several.failures, side)}" for name, side in named]
        later = zip(SIDE_NAMES[1:], several.openings, strict=False)
        openings = [f"{name} beside A: {clean(' '.join(sentences))}" for name, sentences in later]
        self.statement.sentences = (*sides, *openings)
        if self._headline is not None:
            self.bars.show(partial(headline_lines, self._headline))
        self._totals = ordered(self._totals)
        table = several_readable(self._totals, several.others)
        measures = texts(_MEASURE, [words(str(row["measure"])) for row in table.rows()])
        table = replace(table, columns=(measures, *table.columns[1:]))
        self.table.show("several", table, np.arange(len(table)))
        self.table.focus()
        self._explain(0)
        self.call_after_refresh(self.hints.show_hints)

    def on_resize(self) -> None:
        """Fit the parts to the new size."""
        self._share_height()
        self.hints.show_hints()

    def _share_height(self) -> None:
        """Give the bars and the sentences the lines that they need, the latter few where the table is shown."""
        self.bars.styles.height = bars = self.bars.wanted(self.size.width, self.size.height // 2 - 2)
        lines = self.size.height - 3 - bars if not self.table.display else self.size.height // 2 - 2 - bars
        self.statement.styles.height = self.statement.wanted(self.size.width, max(lines, 1))

    @property
    def traces(self) -> tuple[Trace, ...]:
        """The traces on screen."""
        return tuple(side.trace for side in self.several.sides)

    @on(TableView.RowChosen)
    def action_compare(self) -> None:
        """Pick two to compare in full."""
        names = side_names(self.several.sides)
        self.app.push_screen(PairPicker(names), self._compare)

    def _compare(self, pair: tuple[int, int] | None) -> None:
        if pair is not None:
            self.post_message(CompareAsked(self.names[pair[0]], self.names[pair[1]]))

    @on(StatementView.Clicked)
    def action_statement(self) -> None:
        """Show all sentences in place of the table, or the table again."""
        self.table.display = not self.table.display
        if self.table.display:
            self.table.focus()
        self._share_height()

    def action_leave(self) -> None:
        """Back to the table, then to the list of traces."""
        if not self.table.display:
            self.action_statement()
            return
        self.app.call_later(self.app.run_action, "app.traces")

    def action_help(self) -> None:
        """Show what the keys do."""
        self.app.push_screen(HelpScreen(help_rows(self, None), "Help: keys"))

    @on(TableView.RowHighlighted)
    def _move(self, message: TableView.RowHighlighted) -> None:
        self._explain(message.row)

    def _explain(self, row: int) -> None:
        """Say what the measure of a row is, and what stands in the way of saying more about it."""
        if not 0 <= row < len(self._totals):
            return
        cells = self._totals.row(row)
        remarks = [
            f"{name}: {cells[f'{name.lower()}_remark']}."
            for name in SIDE_NAMES[1 : len(self.names)]
            if cells[f"{name.lower()}_remark"]
        ]
        meaning = clean(" ".join([str(cells["about"] or ""), *remarks]))
        self.query_one("#meaning", Bar).parts = (BarPart(meaning, "dim"),)


class PairPicker(Picker[tuple[int, int]]):
    """Dismissed with the indices of the sides to compare, or None."""

    TITLE_TEXT = "Compare"
    PANE = "pairs"
    BINDINGS: ClassVar = []

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self._names = names

    def on_mount(self) -> None:
        """List the pairs, first those with A."""
        pairs = list(combinations(range(len(self._names)), 2))
        titles = [
            f"{SIDE_NAMES[one]} with {SIDE_NAMES[other]}: {clean(self._names[one])} → {clean(self._names[other])}"
            for one, other in pairs
        ]
        self.list_choices(pairs, Table((texts(_PAIR, titles),)), "")


def ordered(totals: Table) -> Table:
    """The rows that any side has a value in, the measures of a short table first."""
    names = [str(row["measure"]) for row in totals.rows()]
    first = [names.index(str(row["measure"])) for row in key_rows(totals).rows()]
    sides = [column for column in totals.columns if len(column.name) == 1]
    filled = [row for row in range(len(totals)) if any(column.cell(row) for column in sides)]
    return totals.take(np.array([*first, *(row for row in filled if row not in first)], np.int64))
