"""Copies and exports: text to the clipboard and to files, whose paths are named, and pictures of the screen.

The escape sequence that asks a terminal to copy (OSC 52) is dropped by some terminals and by tmux as it
comes, so inside tmux its paste buffer is loaded as well, and a file always gets the text.
"""

from __future__ import annotations

import errno
import os
import re
import shlex
import subprocess
from datetime import datetime
from pathlib import Path
from typing import Any

from platformdirs import user_data_path
from textual.app import App, SuspendNotSupported

from tracetui.files import write_numbered, write_whole
from tracetui.model.quantities import counted
from tracetui.text import clean, clean_lines

MONOSPACE = "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono'"
"""Fonts that may be there already; `monospace` follows them wherever they stand."""

_FETCHED = re.compile(r"@font-face\s*\{[^}]*\}\s*|<!--.*?-->\s*", re.DOTALL)


MARKDOWN_ROWS = 200
"""Maximum rows of a pane written as Markdown: about what a comment holds."""

ExportNotice = tuple[str, bool]
"""A sentence for the user, and whether it is a warning."""


def exports_folder() -> Path:
    """The folder of copies and exported panes."""
    return user_data_path("tracetui", appauthor=False) / "exports"


def save(text: str, name: str) -> Path:
    """Write text to a file among the exports and return its path; where the name is taken, it gets a number.

    Raises: OSError when it cannot be written; then there is no part of it.
    """
    return write_numbered(export_path(name), clean_lines(text))


def export_path(name: str) -> Path:
    """The path of an export of a name; its folder is made.

    Raises: OSError when the folder cannot be made.
    """
    folder = exports_folder()
    folder.mkdir(parents=True, exist_ok=True)
    return folder / re.sub(r"[^\w.#+-]+", "_", name)


def open_in_editor(app: App[Any], text: str, name: str) -> ExportNotice:
    """Write text to a file among the exports, and have `$VISUAL` or `$EDITOR` open it while the app is away."""
    try:
        path = save(text, name)
        words = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "")
        if not words:
            return f"Written to {path}; $EDITOR, which would open it, is not set.", False
        with app.suspend():
            code = subprocess.run([*words, str(path)], check=False).returncode
    except SuspendNotSupported:
        return f"Written to {path}; no editor can be opened here.", True
    except (OSError, ValueError) as error:
        return f"{name} cannot be opened in an editor: {error}.", True
    return f"{path} was open in {words[0]}" + (f", which ended with {code}." if code else "."), bool(code)


def load_tmux_buffer(text: str) -> bool:
    """Hand text to the tmux that the app runs in, if any; True when tmux took it."""
    if not os.environ.get("TMUX"):
        return False
    try:
        done = subprocess.run(
            ["tmux", "load-buffer", "-w", "-"],
            input=text.encode(),
            capture_output=True,
            timeout=2,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def home_path(path: Path) -> str:
    """A path as a person types it, with `~` for the home folder."""
    home = str(Path.home())
    text = str(path)
    return "~" + text[len(home) :] if text.startswith(home + os.sep) else text


def stem(label: str) -> str:
    """The name of a trace without folder and suffixes."""
    return re.split(r"\.(?:json|pftrace)", Path(label).name)[0] or "trace"


def reason(error: OSError) -> str:
    """The reason why a file could not be written, and what helps, in words."""
    words = error.strerror or str(error)
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT):
        words += " (XDG_DATA_HOME names another folder)"
    return words


def not_written(what: str, error: OSError) -> ExportNotice:
    """The warning that an export could not be written; the sentence begins with `what`."""
    return f"{what} could not be written to {home_path(exports_folder())}: {reason(error)}.", True


def copy_out(app: App[object], text: str, name: str, what: str) -> ExportNotice:
    """Copy text to the clipboard and to a file of this name; the sentence about it begins with `what`."""
    app.copy_to_clipboard(text)
    destinations = ["clipboard (OSC 52)"]
    if load_tmux_buffer(text):
        destinations.append("tmux buffer")
    try:
        # The file holds the last copy, as the clipboard does.
        path = export_path(name)
        write_whole(path, clean_lines(text))
        destinations.append(home_path(path))
    except OSError as error:
        return f"{what} is in: {', '.join(destinations)}; no file could be written: {reason(error)}", True
    return f"{what} is in: {', '.join(destinations)}", False


def save_list(name: str, csv: str, markdown: str, what: str, rows: int) -> ExportNotice:
    """Write a list of some rows as CSV, and the Markdown of the first `MARKDOWN_ROWS` beside it; name without suffix.

    `what` begins the sentence about a failure; the one about success names both files.
    """
    try:
        path = save(csv, f"{name}.csv")
        beside = save(markdown, f"{path.stem}.md")
    except OSError as error:
        return not_written(what, error)
    first = f", the first {MARKDOWN_ROWS} to" if rows > MARKDOWN_ROWS else " and"
    name = beside.suffix if beside.stem == path.stem else beside.name
    return f"{counted(rows, 'row')} written to {home_path(path)}{first} {name}", False


def save_picture(app: App[Any], label: str) -> ExportNotice:
    """Write the screen as it is to an SVG file, named after what is shown and the time."""
    name = f"{stem(label)}-{datetime.now():%Y%m%d-%H%M%S}.svg"
    try:
        path = save(self_contained(app.export_screenshot(title=clean(label))), name)
    except OSError as error:
        return not_written("The picture", error)
    return f"Picture of the screen written to {home_path(path)}", False


def self_contained(svg: str) -> str:
    """An SVG as Textual exports it, with fonts of the reader's own in place of those that would be fetched."""
    # What follows the styles is the screen: its words are left alone, whatever they are.
    head, end, screen = svg.partition("</style>")
    return _FETCHED.sub("", head).replace("Fira Code", MONOSPACE) + end + screen
