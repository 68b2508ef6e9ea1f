"""Names cut to a width so that what tells them apart stays: the file of a path, the innermost of a chain. Pure."""

from __future__ import annotations

import re

from rich.cells import cell_len, set_cell_size

CUT = "…"
CHAIN = " > "
"""Between the names of a chain, innermost last."""
PATH = " / "
"""Between the names of modules, innermost last."""
_PREFIX = re.compile(r"autograd::engine::evaluate_function: (?=\S)")
"""Stands before every backward operator that the engine runs."""
_FOLDER = re.compile(r"[^\s/()<>:\[\],]*/(?=[^\s/])")
_INSTANCE = re.compile(r"(?:nn\.Module: |[\s▸▾]*)\w+(_\d{1,6})")
"""A module by class and number."""
_FRAME = re.compile(r"\S+\.\w+\(\d+\): \S")


def cut_name(text: str, cells: int) -> str:
    """A name in at most so many cells; `…` stands where something is missing.

    What gives way first is the same in many names: the prefix of backward operators, the outer names of a chain, the
    folders of a path. Of a Python frame the beginning goes, of other names the end, but for the number of a module.
    """
    if _cells(text) <= cells:
        return text
    if prefix := _PREFIX.match(text):
        text = CUT + text[prefix.end() :]
    text = _without_outer(_without_outer(text, cells, CHAIN), cells, PATH)
    text = _without_folders(text, cells)
    if _cells(text) <= cells:
        return text
    if _FRAME.match(text.lstrip(CUT)) and CHAIN not in text:
        return _end(text, cells)
    instance = _INSTANCE.fullmatch(text)
    if instance is not None and cells > 2 * len(instance[1]):
        return set_cell_size(text, cells - 1 - len(instance[1])) + CUT + instance[1]
    return set_cell_size(text, cells - 1) + CUT if cells > 0 else ""


def _cells(text: str) -> int:
    """Cells of a text; those of many rows may be paths of thousands of names, which are counted letter by letter."""
    return len(text) if text.isascii() else cell_len(text)


def _without_outer(text: str, cells: int, between: str) -> str:
    """A chain without as many of its outer names as must go; the innermost stays."""
    if between not in text or _cells(text) <= cells:
        return text
    start = CUT + between.lstrip()
    outer, separator, kept = text.rpartition(between)
    if _cells(start + kept) > cells:
        return kept
    # From the innermost outwards, so that a long chain takes no longer than what is kept of it.
    while separator:
        outer, separator, name = outer.rpartition(between)
        if not separator or _cells(start + name + between + kept) > cells:
            break
        kept = name + between + kept
    return start + kept


def _without_folders(text: str, cells: int) -> str:
    """A path without as many of its outer folders as must go."""
    path = text.lstrip(CUT).lstrip("/")
    first, left = 0, _cells(path)
    while (_cells(text) if first == 0 else left + 2) > cells and (folder := _FOLDER.match(path, first)):
        first, left = folder.end(), left - _cells(folder[0])
    return f"{CUT}/{path[first:]}" if first else text


def _end(text: str, cells: int) -> str:
    """The end of a text, in cells."""
    kept = ""
    for letter in reversed(text):
        if cell_len(letter + kept) > cells - 1:
            break
        kept = letter + kept
    return (CUT + kept)[: max(cells, 0)]
