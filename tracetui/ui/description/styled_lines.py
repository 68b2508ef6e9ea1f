"""The lines of a description: text that already fits, and how it is painted. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_BREAK = re.compile(r"::|[/_]|:(?!:)|,(?!\d{3})")
"""After what a word that is longer than a line can go on in the next."""
_FOLDER = re.compile(r"[\w.]/(?=\w)")
"""In a path a line ends behind a folder where it can."""
_SPACE = re.compile(r" ")
_UNIT_BEHIND = re.compile(r"\d (?:%|[nµm]?s\b|[KMGTP]?i?B\b)")
_FIGURES = "0123456789.,"
_NUMBER = re.compile(rf"[{_FIGURES}]+$")
LABEL = 18
"""Cells kept for the labels of facts."""
MIN_CELLS_BESIDE_LABELS = 48
"""Minimum width at which a long value stands beside its label, and not below it."""
VALUE_INDENT = 2
"""Cells before a value below its label."""


@dataclass(frozen=True)
class DetailLine:
    """A line of a description, already short enough for the pane's width."""

    text: str
    style: str = "plain"
    """plain, title, label, fact, here or link."""
    row: int = -1
    """The slice to which the line jumps, -1 for none."""


@dataclass(frozen=True)
class DetailFact:
    """A label, a value in words, and the slice that it is about, -1 for none."""

    label: str
    value: str
    row: int = -1


def folded(text: str, width: int) -> list[str]:
    """Text cut into pieces of a width, at spaces; a word longer than that at signs in its last third."""
    width = max(width, 8)
    pieces = []
    while len(text) > width:
        cut = _cut(text, width)
        pieces.append(text[:cut].rstrip())
        text = text[cut:].lstrip()
    return [*pieces, text] if text else pieces


def _cut(text: str, width: int) -> int:
    """Where to cut a text that is longer than a width: words and numbers that fit stay whole."""
    spaces = [space.start() for space in _SPACE.finditer(text[: width + 1]) if text[: space.start()].strip()]
    if spaces:
        return next((at for at in reversed(spaces) if not _UNIT_BEHIND.match(text, max(at - 1, 0))), spaces[-1])
    folders = [match.end() for match in _FOLDER.finditer(text[:width]) if match.end() > width // 3]
    if folders:
        return folders[-1]
    for match in reversed(list(_BREAK.finditer(text[: width + 4], width * 2 // 3))):
        if match.end() <= width:
            return match.end()
    number = _NUMBER.search(text[:width]) if text[width] in _FIGURES else None
    return number.start() if number and number.start() else width


def fact_lines(fact: DetailFact, width: int) -> list[DetailLine]:
    """A fact with its label on the left; the value goes on below where it is long."""
    if width < MIN_CELLS_BESIDE_LABELS and len(fact.value) > width - LABEL and len(fact.label) < LABEL:
        indent = " " * VALUE_INDENT
        pieces = folded(fact.value, width - VALUE_INDENT)
        return [
            DetailLine(fact.label, "label"),
            *(DetailLine(indent + piece, row=fact.row if not index else -1) for index, piece in enumerate(pieces)),
        ]
    if len(fact.label) >= LABEL:
        return [DetailLine(piece, row=fact.row) for piece in folded(f"{fact.label}: {fact.value}", width)]
    pieces = folded(fact.value, width - LABEL) or [""]
    first = DetailLine(f"{fact.label:<{LABEL}}{pieces[0]}", "fact", fact.row)
    return [first, *(DetailLine(" " * LABEL + piece) for piece in pieces[1:])]


def sentence_lines(sentences: Sequence[str], width: int) -> list[DetailLine]:
    """Sentences one below the other, the first as a title, and a rule under the last."""
    lines: list[DetailLine] = []
    for index, sentence in enumerate(sentences):
        lines += [DetailLine(piece, "plain" if index else "title") for piece in folded(sentence, width)]
        lines.append(DetailLine(""))
    return [*lines[:-1], DetailLine("─" * width, "label")] if lines else []
