"""What leaves the screen of a set of ranks: a row, a table, and the command that prints it."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
from textual.app import App

from tracetui.drawing.text import rank_text
from tracetui.model.quantities import counted
from tracetui.opening.rank_folder import RankSetName
from tracetui.ranks.rank_set import RankSet
from tracetui.ui.base.exports import (
    MARKDOWN_ROWS,
    ExportNotice,
    copy_out,
    exports_folder,
    home_path,
    reason,
    save,
)
from tracetui.ui.ranks.rank_list import RankList


def send_ranks(app: App[object], panes: RankList, ranks: RankSet | None) -> ExportNotice:
    """Copy the current row as Markdown, with what the set is above it."""
    table = panes.table
    if ranks is None or table is None or panes.view.row < 0:
        return "There is no row to copy.", True
    row = table.take(np.array([panes.view.row]))
    return copy_out(app, rank_text.as_markdown(ranks, row), "rank.md", "The row")


def send_ranks_command(app: App[object], panes: RankList, name: RankSetName) -> ExportNotice:
    """Copy the command line that prints the table."""
    words = ["tracetui", "ranks", *name.paths, "--show", panes.pane]
    words += ["--rank-pattern", name.options.pattern] if name.options.pattern else []
    words += ["--run", str(name.options.run)] if name.options.run != 1 else []
    if panes.arrangement.filter:
        words += ["--where", panes.arrangement.filter]
    text = shlex.join(words)
    return copy_out(app, text, "command.txt", text)


def export_ranks(panes: RankList, ranks: RankSet | None, where: str) -> ExportNotice:
    """Write the listed rows to a CSV file, and the first of them as Markdown beside it."""
    table, order = panes.table, panes.view.order
    if ranks is None or table is None or len(order) == 0:
        return "There is nothing to export in this tab.", True
    by = f"-by-{panes.arrangement.by}" if panes.arrangement.by else ""
    name = f"{Path(where).resolve().name or 'ranks'}-{panes.pane}{by}"
    try:
        path = save(rank_text.as_csv(table.take(order)), f"{name}.csv")
        save(rank_text.as_markdown(ranks, table.take(order[:MARKDOWN_ROWS])), f"{path.stem}.md")
    except OSError as error:
        return f"The table could not be written to {home_path(exports_folder())}: {reason(error)}.", True
    return f"{counted(len(order), 'row')} written to {home_path(path)}, as .md too", False
