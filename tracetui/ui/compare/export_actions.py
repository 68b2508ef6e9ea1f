"""What leaves the comparison: a row, a table, and the command that opens it again."""

from __future__ import annotations

import shlex

import numpy as np
from textual.app import App

from tracetui.comparing.comparison import Comparison
from tracetui.comparing.side import Side
from tracetui.drawing.text import comparison_text
from tracetui.drawing.text.export import render
from tracetui.model.quantities import count
from tracetui.model.table import Table
from tracetui.ui.base.exports import (
    MARKDOWN_ROWS,
    ExportNotice,
    copy_out,
    exports_folder,
    home_path,
    reason,
    save,
    stem,
)
from tracetui.ui.compare.compare_list import CompareList


def send_change(app: App[object], panes: CompareList, comparison: Comparison) -> ExportNotice:
    """Copy the current row as Markdown, with what is compared above it."""
    table = panes.table
    if table is None or panes.view.row < 0:
        return "There is no row to copy.", True
    return copy_out(app, _markdown(comparison, panes, table.take(np.array([panes.view.row]))), "change.md", "The row")


def send_command(app: App[object], paths: tuple[str, str], comparison: Comparison) -> ExportNotice:
    """Copy the command line that opens the comparison again."""
    if "-" in paths:
        return "What came in through a pipe cannot be opened again: there is no command to copy.", True
    a, b = comparison.a, comparison.b
    if a.trace.steps_by != b.trace.steps_by:
        return "A and B have steps of different names: there is no command that opens both.", True
    steps_by = ["--steps-by", a.trace.steps_by] if a.trace.steps_by else []
    text = shlex.join(["tracetui", "open", *map(_written, paths, (a, b)), *steps_by])
    return copy_out(app, text, "command.txt", text)


def export_changes(panes: CompareList, comparison: Comparison) -> ExportNotice:
    """Write the listed rows to a CSV file, and the first of them as Markdown beside it."""
    table, order = panes.table, panes.view.order
    if table is None or len(order) == 0:
        return "There is nothing to export in this tab.", True
    by = f"-by-{panes.arrangement.by}" if panes.arrangement.by else ""
    name = (
        "-".join(
            stem(side.name) if not side.scope else f"{stem(side.trace.label)}#{side.scope}"
            for side in (comparison.a, comparison.b)
        )
        + f"-{panes.pane}{by}"
    )
    try:
        path = save(render(table.take(order), comparison.a.trace, panes.pane, "csv"), f"{name}.csv")
        save(_markdown(comparison, panes, table.take(order[:MARKDOWN_ROWS])), f"{path.stem}.md")
    except OSError as error:
        return f"The table could not be written to {home_path(exports_folder())}: {reason(error)}.", True
    return f"{count(len(order))} row{'' if len(order) == 1 else 's'} written to {home_path(path)}, as .md too", False


def _markdown(comparison: Comparison, panes: CompareList, table: Table) -> str:
    if panes.arrangement.by:
        return render(table, comparison.a.trace, panes.pane, "md")
    return comparison_text.as_markdown(comparison, [comparison_text.Shown(panes.pane, table, None)])


def _written(path: str, side: Side) -> str:
    return f"{path}#{side.scope}" if side.scope else path
