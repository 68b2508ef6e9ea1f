"""Copying out of the app: by the terminal's own means, and to a file, whose path is said.

The escape sequence that asks a terminal to copy (OSC 52) is dropped by some terminals and by tmux as it
comes, so inside tmux its paste buffer is loaded as well, and a file always gets the text.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from platformdirs import user_data_path

from tracetui.files import write_numbered, write_whole
from tracetui.safe_text import clean_lines


def exports_folder() -> Path:
    """Where copies and exported panes go."""
    return user_data_path("tracetui", appauthor=False) / "exports"


def save(text: str, name: str) -> Path:
    """Write text to a file among the exports and return its path; where the name is taken, it gets a number.

    Raises: OSError when it cannot be written; then there is no part of it.
    """
    return write_numbered(_path(name), clean_lines(text))


def save_copy(text: str, name: str) -> Path:
    """Write what was copied to a file among the exports, which holds the last copy, as the clipboard does.

    Raises: OSError when it cannot be written; then there is no part of it.
    """
    path = _path(name)
    write_whole(path, clean_lines(text))
    return path


def _path(name: str) -> Path:
    folder = exports_folder()
    folder.mkdir(parents=True, exist_ok=True)
    return folder / re.sub(r"[^\w.#-]+", "_", name)


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
