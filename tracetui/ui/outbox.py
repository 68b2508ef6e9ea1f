"""What leaves the app: rows, view strings, panes, to the clipboard and to files; each says where it went."""

from __future__ import annotations

from pathlib import Path

from textual.app import App

from tracetui.drawing.format import count
from tracetui.model.trace import Trace
from tracetui.ui.clipboard import home_path, load_tmux_buffer, save
from tracetui.ui.pane_list import PaneList

Said = tuple[str, bool]
"""A sentence for the user, and whether it is a warning."""


def send_row(app: App[object], panes: PaneList) -> Said:
    """Copy the current row of a list as Markdown."""
    row = panes.view.row
    if row < 0:
        return "There is no row to copy.", True
    return _copy(app, panes.as_text("md", row), "row.md", "The row")


def send_view(app: App[object], text: str) -> Said:
    """Copy a view string."""
    return _copy(app, text, "view.txt", f"{text}")


def export_pane(panes: PaneList, trace: Trace, step: int | None) -> Said:
    """Write the listed rows of a pane to a CSV file."""
    rows = len(panes.view.order)
    if panes.table is None or rows == 0:
        return "There is nothing to export in this pane.", True
    which = "all" if step is None else f"step{step}"
    stem = Path(trace.label).name.split(".json")[0]
    try:
        path = save(panes.as_text("csv"), f"{stem}-{panes.pane}-{which}.csv")
    except OSError as error:
        return f"The pane could not be written: {error}", True
    return f"{count(rows)} rows written to {home_path(path)}", False


def _copy(app: App[object], text: str, name: str, what: str) -> Said:
    app.copy_to_clipboard(text)
    places = ["clipboard (OSC 52)"]
    if load_tmux_buffer(text):
        places.append("tmux buffer")
    try:
        places.append(home_path(save(text, name)))
    except OSError as error:
        return f"{what} is in: {', '.join(places)}; no file could be written: {error}", True
    return f"{what} is in: {', '.join(places)}", False
