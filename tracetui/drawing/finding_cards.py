"""Findings as cards: title, evidence and advice in full, the weight before and the saving behind them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from tracetui.drawing.format import cell
from tracetui.drawing.text_wrapping import wrapped
from tracetui.model.table import Table
from tracetui.safe_text import clean

INDENT = 7
"""Cells kept for the weight before a title, and left free before the lines below it."""
MAX_TEXT_CELLS = 110
"""Maximum cells of a line of evidence or advice: longer lines are hard to read."""
ADVICE_SIGN = "→ "
TITLE, EVIDENCE, ADVICE = "title", "evidence", "advice"
"""Parts of a card."""


@dataclass(frozen=True)
class CardLine:
    """A line of a card."""

    text: str
    part: str
    """TITLE, EVIDENCE or ADVICE."""


Card = tuple[CardLine, ...]


def is_list_of_findings(table: Table) -> bool:
    """Whether the rows of a table can be drawn as cards."""
    return all(name in table for name in ("severity", "title", "evidence", "advice", "cost_us"))


def finding_cards(table: Table, rows: Sequence[int], width: int) -> list[Card]:
    """The cards of some rows of the findings, each line at most `width` cells wide."""
    savings = [_saving(table, row) for row in rows]
    room = max((cell_len(text) for text in savings), default=0)
    return [_card(table, row, saving, room, width) for row, saving in zip(rows, savings, strict=True)]


def _card(table: Table, row: int, saving: str, room: int, width: int) -> Card:
    text_cells = min(width - INDENT, MAX_TEXT_CELLS)
    title = wrapped(_words(table, "title", row), width - INDENT - (room + 2 if room else 0))
    first = f"{_words(table, 'severity', row):<{INDENT}}{title[0]}"
    if saving:
        first += " " * max(width - cell_len(first) - cell_len(saving), 2) + saving
    lines = [CardLine(first, TITLE), *(CardLine(" " * INDENT + line, TITLE) for line in title[1:])]
    if evidence := _words(table, "evidence", row):
        lines += [CardLine(" " * INDENT + line, EVIDENCE) for line in wrapped(evidence, text_cells)]
    if advice := _words(table, "advice", row):
        indents = [ADVICE_SIGN, " " * len(ADVICE_SIGN)]
        pieces = wrapped(advice, text_cells - len(ADVICE_SIGN))
        lines += [CardLine(" " * INDENT + indents[i > 0] + piece, ADVICE) for i, piece in enumerate(pieces)]
    return tuple(lines)


def _saving(table: Table, row: int) -> str:
    """What fixing it could save at most, and the step of the example, as far as they are known."""
    cost, step = table["cost_us"], table["step"].cell(row) if "step" in table else None
    words = [cell(cost, cost.cell(row))] if cost.cell(row) is not None else []
    return " · ".join([*words, *([f"step {step}"] if step is not None else [])])


def _words(table: Table, name: str, row: int) -> str:
    return clean(str(table[name].cell(row) or ""))
