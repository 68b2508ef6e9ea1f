"""Queries in SQL, typed over a trace, with the rows that answer them; a row with an event leads to its slice."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.message import Message
from textual.worker import Worker, get_current_worker

from tracetui.drawing.text.export import csv_rows, lines
from tracetui.errors import TracetuiError
from tracetui.model.trace import Interrupted, Trace
from tracetui.sql.database import Database, QueryResult
from tracetui.text import clean
from tracetui.ui.base import keys
from tracetui.ui.base.exports import MARKDOWN_ROWS, save_list, stem
from tracetui.ui.base.keys import command
from tracetui.ui.base.overlay import Overlay
from tracetui.ui.widgets.bar import Bar, BarPart, HintsBar
from tracetui.ui.widgets.list_finder import SearchLine
from tracetui.ui.widgets.picker import HelpScreen, help_rows
from tracetui.ui.widgets.table_view import TableView

EXAMPLE = "select name, count(*) calls, sum(dur_us) from kernels group by all order by 3 desc"
WELCOME = f"A query is typed behind `sql` below, such as: {EXAMPLE}; show tables lists the views."


class SqlScreen(Overlay[int]):
    """The query, its rows, and the line in which it is typed; ends with a slice to go to, -1 for none."""

    BINDINGS: ClassVar[list[BindingType]] = [
        command(keys.COMMAND_LINE, "ask", "Type a query", "Up brings back those before.", "query", before_typing=True),
        command(keys.EXPORT, "export", "Export the rows", "As CSV and Markdown.", "export"),
        command(keys.ESCAPE, "leave", "Stop the query, or go back", "", "back"),
        command(keys.QUIT, "close", "Close the queries"),
        command(keys.HELP, "help", "Help", "Keys of the queries.", "help"),
    ]

    @dataclass
    class Answered(Message):
        """A query was answered, or not, and the sentence says why."""

        result: QueryResult | None
        sentence: str

    def __init__(self, trace: Trace, asked: list[str], query: str = "") -> None:
        """`asked` are the queries that were typed before, the last one at the end; `query` is answered at once."""
        super().__init__()
        self.trace, self.asked = trace, asked
        self.database = Database({"trace": trace})
        self.result: QueryResult | None = None
        self._first = query
        self._worker: Worker[None] | None = None
        """The thread of the query that runs."""
        self.table, self.search_line, self.hints = TableView(), SearchLine(), HintsBar()

    def compose(self) -> ComposeResult:
        """The parts, from top to bottom."""
        yield Bar(id="title")
        yield self.table
        yield Bar(id="note")
        yield self.search_line
        yield self.hints

    def on_mount(self) -> None:
        """Answer the query that it was opened with, or have one typed."""
        self._show(None, WELCOME)
        # `focus()` waits for a turn of the loop, and would take the focus from the line.
        self.set_focus(self.table)
        if self._first:
            self._ask(self._first)
        else:
            self.action_ask()

    def on_resize(self) -> None:
        """Fit the hints to the width."""
        self.hints.show_hints()

    def notice(self, text: str, warn: bool = False) -> None:
        """Show a notice in place of the key hints for a while."""
        self.hints.notice(text, warn)

    def action_ask(self) -> None:
        """Type a query."""
        if self._worker is None:
            self.search_line.open("sql", "", self.asked[-1] if self.asked else "", self.database.completed, self.asked)

    @on(SearchLine.Typed)
    def _typed(self, message: SearchLine.Typed) -> None:
        if not (message.accepted or message.given_up):
            return
        self.set_focus(self.table)
        self.search_line.close()
        self.hints.show_hints()
        # Who does not see that the line is open presses its key again.
        query = message.text.lstrip(": ").rstrip()
        if message.accepted and query:
            self._ask(query)

    def _ask(self, query: str) -> None:
        if query in self.asked:
            self.asked.remove(query)
        self.asked.append(query)
        self.query_one("#title", Bar).parts = (BarPart("sql ", "strong"), BarPart(clean(query)))
        self._show(None, "Running; esc stops it.")
        self._worker = self._answer(query)

    @work(thread=True, group="sql")
    def _answer(self, query: str) -> None:
        worker, started = get_current_worker(), time.monotonic()
        try:
            result = self.database.query(query, goes_on=lambda: not worker.is_cancelled)
        except Interrupted:
            return
        except TracetuiError as error:
            self.post_message(self.Answered(None, " ".join([str(error), *error.lines_below[:1]])))
        else:
            took = f"{len(result.table):,} rows in {time.monotonic() - started:.2f} s."
            self.post_message(self.Answered(result, f"{took} {result.remark}"))

    @on(Answered)
    def _take(self, message: Answered) -> None:
        if self._worker is not None:
            self._worker = None
            self._show(message.result, message.sentence)

    def _show(self, result: QueryResult | None, sentence: str) -> None:
        self.result = result
        table = result.table if result is not None else None
        note = clean(sentence) if table is None else "No rows."
        self.table.show("sql", table, np.arange(len(table) if table is not None else 0), note=note)
        self.query_one("#note", Bar).parts = (BarPart(clean(sentence) if table is not None else "", "dim"),)

    @on(TableView.RowChosen)
    def _go_into(self, message: TableView.RowChosen) -> None:
        if message.slice_row >= 0:
            self.dismiss(message.slice_row)
        else:
            self.notice("This row has no event to go to: select `event` too.")

    def action_export(self) -> None:
        """Write the rows as CSV and Markdown."""
        if self.result is None:
            self.notice("There are no rows to export.", warn=True)
            return
        table = self.result.table
        first = table.take(np.arange(min(len(table), MARKDOWN_ROWS)))
        markdown = "\n".join(lines(first, list(first.columns))) + "\n"
        self.notice(*save_list(f"{stem(self.trace.label)}-sql", csv_rows(table), markdown, "The rows", len(table)))

    def action_leave(self) -> None:
        """Stop the query that runs, or close."""
        if self._worker is not None:
            self._worker.cancel()
            self._worker = None
            self._show(None, "Stopped.")
        else:
            self.action_close()

    def action_close(self) -> None:
        """Back to the trace."""
        self.dismiss(-1)

    def action_help(self) -> None:
        """Show the keys."""
        table = self.result.table if self.result is not None else None
        self.app.push_screen(HelpScreen(help_rows(self, table), "Help: keys of the queries, and their columns"))
