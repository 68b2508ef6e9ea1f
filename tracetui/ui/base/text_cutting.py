"""Cutting a line to a width without making another number of a number, or another file of a path. Pure."""

from __future__ import annotations

import re

from rich.cells import cell_len, set_cell_size

from tracetui.drawing.name_cutting import CUT

_NUMBER = re.compile(r"[-+]?[\d.,]*\d[\d.,]*(?:\s?(?:%|(?:ns|µs|ms|s|B|[KMGTP]iB)\b))?")
_PATH = re.compile(r"(?:~|\.)?/\S*/(?=\S)")


def cut_line(text: str, width: int) -> str:
    """Text in at most `width` cells; one that is cut ends in `…`, before a number that would have been cut."""
    if cell_len(text) <= width:
        return text
    kept = set_cell_size(text, max(width - 1, 0))
    for figures in _NUMBER.finditer(text):
        if figures.start() < len(kept) < figures.end():
            kept = kept[: figures.start()]
            break
    return (kept.rstrip() + CUT)[:width]


def fitting_line(text: str, width: int) -> str:
    """Text in at most `width` cells, for which the folders of a path give way before anything else."""
    folder_path = _PATH.search(text)
    if cell_len(text) > width and folder_path is not None:
        folders, missing = folder_path[0], cell_len(text) - width
        head = folders[: max(len(folders) - missing - 2, 0)]
        text = f"{text[: folder_path.start()]}{head}{CUT}/{text[folder_path.end() :]}"
    return cut_line(text, width)
