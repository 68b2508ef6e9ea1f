"""Copying rows and view strings of a trace, and writing its panes to files; each says where it went."""

from __future__ import annotations

from textual.app import App

from tracetui.model.quantities import count
from tracetui.model.trace import Trace
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
from tracetui.ui.trace.pane_list import PaneList


def send_row(app: App[object], panes: PaneList) -> ExportNotice:
    """Copy the current row of a list as Markdown."""
    row = panes.view.row
    if row < 0:
        return "There is no row to copy.", True
    return copy_out(app, panes.as_text("md", row), "row.md", "The row")


def send_view(app: App[object], text: str) -> ExportNotice:
    """Copy a view string."""
    return copy_out(app, text, "view.txt", f"{text}")


def export_pane(panes: PaneList, trace: Trace, step: int | None) -> ExportNotice:
    """Write the listed rows of a pane to a CSV file, and the first of them as Markdown beside it."""
    rows = len(panes.view.order)
    if panes.table is None or rows == 0:
        return "There is nothing to export in this pane.", True
    which = "all" if step is None else f"step{step}"
    by = f"-by-{panes.arrangement.by}" if panes.arrangement.by else ""
    name = f"{stem(trace.label)}-{panes.pane}{by}-{which}"
    try:
        path = save(panes.as_text("csv"), f"{name}.csv")
        save(panes.as_text("md", most=MARKDOWN_ROWS), f"{path.stem}.md")
    except OSError as error:
        return f"The pane could not be written to {home_path(exports_folder())}: {reason(error)}.", True
    first = f"the first {MARKDOWN_ROWS} " if rows > MARKDOWN_ROWS else ""
    return f"{count(rows)} row{'' if rows == 1 else 's'} written to {home_path(path)}, {first}beside it as .md", False
