"""What leaves the app: rows, view strings, panes, to the clipboard and to files; each says where it went.

The screen as an SVG file that needs nothing but itself: no font, picture or address from elsewhere.
"""

from __future__ import annotations

import errno
import re
from datetime import datetime
from pathlib import Path
from typing import Any

from textual.app import App

from tracetui.model.quantities import count
from tracetui.model.trace import Trace
from tracetui.safe_text import clean
from tracetui.ui.base.clipboard import exports_folder, home_path, load_tmux_buffer, save, save_copy
from tracetui.ui.trace.pane_list import PaneList

MONOSPACE = "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono'"
"""Fonts that may be there already; `monospace` follows them wherever they stand."""

_FETCHED = re.compile(r"@font-face\s*\{[^}]*\}\s*|<!--.*?-->\s*", re.DOTALL)


def self_contained(svg: str) -> str:
    """An SVG as Textual exports it, with fonts of the reader's own in place of those that would be fetched."""
    # What follows the styles is the screen: its words are left alone, whatever they are.
    head, end, screen = svg.partition("</style>")
    return _FETCHED.sub("", head).replace("Fira Code", MONOSPACE) + end + screen


MARKDOWN_ROWS = 200
"""So many rows of a pane are written as Markdown: about what a comment holds."""

_REMEDY = "XDG_DATA_HOME names another folder"

Said = tuple[str, bool]
"""A sentence for the user, and whether it is a warning."""


def send_row(app: App[object], panes: PaneList) -> Said:
    """Copy the current row of a list as Markdown."""
    row = panes.view.row
    if row < 0:
        return "There is no row to copy.", True
    return copy_out(app, panes.as_text("md", row), "row.md", "The row")


def send_view(app: App[object], text: str) -> Said:
    """Copy a view string."""
    return copy_out(app, text, "view.txt", f"{text}")


def export_pane(panes: PaneList, trace: Trace, step: int | None) -> Said:
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


def save_picture(app: App[Any], label: str) -> Said:
    """Write the screen as it is to an SVG file, named after what is shown and the time."""
    name = f"{stem(label)}-{datetime.now():%Y%m%d-%H%M%S}.svg"
    try:
        path = save(self_contained(app.export_screenshot(title=clean(label))), name)
    except OSError as error:
        return f"The picture could not be written to {home_path(exports_folder())}: {reason(error)}.", True
    return f"Picture of the screen written to {home_path(path)}", False


def stem(label: str) -> str:
    """The name of a trace without folder and suffixes."""
    return Path(label).name.split(".json")[0] or "trace"


def reason(error: OSError) -> str:
    """Why a file could not be written, and what helps, in words."""
    said = error.strerror or str(error)
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT):
        said += f" ({_REMEDY})"
    return said


def copy_out(app: App[object], text: str, name: str, what: str) -> Said:
    """Hand text to the clipboard and a file of this name, and say where it is; `what` begins the sentence."""
    app.copy_to_clipboard(text)
    places = ["clipboard (OSC 52)"]
    if load_tmux_buffer(text):
        places.append("tmux buffer")
    try:
        places.append(home_path(save_copy(text, name)))
    except OSError as error:
        return f"{what} is in: {', '.join(places)}; no file could be written: {reason(error)}", True
    return f"{what} is in: {', '.join(places)}", False
