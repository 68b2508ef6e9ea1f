"""Cells of tables as text, and the order of columns by importance.

A screen drops the last columns, a report has the same in the same order. The order of a pane is part of its
declaration, and those of the tables of ranks and comparisons stand beside these. Text output has all columns of a
table. `model/columns.py` declares the columns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module

import numpy as np
from rich.cells import cell_len, chop_cells, set_cell_size

from tracetui.frozen import frozen
from tracetui.model.intervals import Int64
from tracetui.model.quantities import ABSENT, count, duration, moment, operations, share, size
from tracetui.model.table import DOUBTFUL, Cell, Column, ColumnSpec, Table, coded
from tracetui.panes import PANES
from tracetui.text import clean


def shorten(text: str, width: int) -> str:
    """Text cut to `width` characters, its end replaced by `…` where something is missing."""
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"[:width]


MAX_CUT_WORD = 16
"""Letters of a word up to which it goes where a sentence is cut within it; of a longer one the begin stays."""


def whole_words(kept: str, text: str) -> str:
    """The begin of a sentence without the word in which it was cut, and without what joins that to the one before."""
    if text[len(kept) : len(kept) + 1].strip():
        head, space, tail = kept.rpartition(" ")
        kept = head if space and len(tail) <= MAX_CUT_WORD else kept
    return kept.rstrip(" ·,;:(")


def cell(column: Column, value: Cell) -> str:
    """A table cell as text, `–` for a value that the trace does not hold.

    Times, bytes and operations have their unit behind them; the unit of everything else stands in the heading.
    """
    if value is None:
        return ABSENT
    if isinstance(value, str):
        return clean(value)
    return _yes_or_no(value) if isinstance(value, bool) else _form(column.spec)(value)


def cell_at(column: Column, row: int) -> str:
    """The cell of a row as text, with the mark `~` before it where it is doubtful."""
    text = cell(column, column.cell(row))
    return f"{DOUBTFUL}{text}" if column.is_doubtful(row) else text


def number_texts(column: Column, rows: Int64) -> list[str]:
    """The cells of some rows of a column of numbers, as `cell_at` has them."""
    form = _yes_or_no if column.values.dtype.kind == "b" else _form(column.spec)
    values, is_null = column.values[rows].tolist(), column.nulls()[rows].tolist()
    texts = [ABSENT if unknown else form(value) for value, unknown in zip(values, is_null, strict=True)]
    if column.doubtful is not None:
        for at in np.flatnonzero(column.doubtful[rows]).tolist():
            texts[at] = f"{DOUBTFUL}{texts[at]}"
    return texts


def _yes_or_no(value: object) -> str:
    return "yes" if value else "no"


def _form(spec: ColumnSpec) -> Callable[[float], str]:
    """The writer of the numbers of a column."""
    if spec.unit == "us":
        return moment if spec.is_moment else _duration_of_us
    if spec.unit in _WRITERS:
        return _WRITERS[spec.unit]
    # Identifiers, such as a step's number or a correlation, are copied more than they are compared.
    whole = count if spec.unit or spec.name.endswith(("s", "count", "_total")) else str

    def plain(value: float) -> str:
        if isinstance(value, float):
            return count(value) if value.is_integer() else f"{value:,.2f}" if abs(value) >= 0.1 else f"{value:.3g}"
        return whole(value)

    return plain


def _duration_of_us(value: float) -> str:
    return duration(1000 * value)


_WRITERS: dict[str, Callable[[float], str]] = {"bytes": size, "flop": operations, "%": share}
"""Writers of numbers by their unit."""


def notes(table: Table) -> list[str]:
    """Lines below a table: its own note, and the columns that are doubtful."""
    lines = [clean(table.note)] if table.note else []
    if table.doubts:
        doubts = (
            f"{words}: {', '.join([table[name].spec.heading if name in table else name for name in names]) or 'all'}"
            for words, names in table.doubts.items()
        )
        lines.append(f"{DOUBTFUL} Doubtful, as health says: {'; '.join(doubts)}.")
    return lines


# Names for the groups of what has no name of its own: kernels under no annotation, calls of no operator. Pure.


def named_groups(table: Table, by: str | None) -> Table:
    """A grouped table to read: a group without a name is called `(no annotation)`, after what rows are grouped by."""
    key = table.columns[0]
    if by is None or key.strings is None or not key.nulls().any():
        return table
    used, index = np.unique(key.values, return_inverse=True)
    names = [f"(no {key.spec.heading})" if each < 0 else key.strings[each] for each in used.tolist()]
    return replace(table, columns=(coded(key.spec, index, names), *table.columns[1:]))


# Names cut to a width so that what tells them apart stays: the file of a path, the innermost of a chain. Pure.

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
    """A name cut to `cells`; `…` stands where something is missing.

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


# Words wrapped to a width in cells: lines break at spaces, and only a word longer than a line within it. Pure.
#
# A number keeps its unit.

_AMOUNT = re.compile(r"(?<=\d) (?=(?:%|ns|µs|ms|s|[kKMGTP]?i?B(?:/s)?|[kMGTP]?FLOP(?:/s)?)(?![\w]))")
_HELD = "\xa0"
MIN_CELLS = 8
"""Minimum cells of a line, however little room there is."""


def wrapped(text: str, cells: int) -> list[str]:
    """A text as lines of at most `cells`; at least one line."""
    cells = max(cells, MIN_CELLS)
    lines, line, used = [], "", 0
    for held in _AMOUNT.sub(_HELD, " ".join(text.split())).split(" "):
        word = held.replace(_HELD, " ")
        width = cell_len(word)
        if line and used + 1 + width <= cells:
            line, used = f"{line} {word}", used + 1 + width
            continue
        if line:
            lines.append(line)
        *whole, line = chop_cells(word, cells) if width > cells else [word]
        lines += whole
        used = cell_len(line)
    return [*lines, line] if line or not lines else lines


# Findings as cards: title, evidence and advice in full, the weight before and the saving behind them. Pure.

INDENT = 7
"""Cells kept for the weight before a title, and left free before the lines below it."""
MAX_TEXT_CELLS = 110
"""Maximum cells of a line of evidence or advice: longer lines are hard to read."""
ADVICE_SIGN = "→ "
TITLE, EVIDENCE, ADVICE = "title", "evidence", "advice"
"""Parts of a card."""


@frozen(eq=True)
class CardLine:
    """A line of a card."""

    text: str
    part: str
    """TITLE, EVIDENCE or ADVICE."""


Card = tuple[CardLine, ...]


def is_list_of_findings(table: Table) -> bool:
    """True where the rows of a table can be drawn as cards."""
    return all(name in table for name in ("severity", "title", "evidence", "advice", "cost_us"))


def finding_cards(table: Table, rows: Sequence[int], width: int) -> list[Card]:
    """The cards of some rows of the findings, each line at most `width` cells wide."""
    savings = []
    for row in rows:
        cost, step = table["cost_us"], table["step"].cell(row) if "step" in table else None
        words = [cell(cost, cost.cell(row))] if cost.cell(row) is not None else []
        savings.append(" · ".join([*words, *([f"step {step}"] if step is not None else [])]))
    room = max((cell_len(text) for text in savings), default=0)
    return [_card(table, row, saving, room, width) for row, saving in zip(rows, savings, strict=True)]


def _card(table: Table, row: int, saving: str, room: int, width: int) -> Card:
    text_cells = min(width - INDENT, MAX_TEXT_CELLS)
    title = wrapped(_card_words(table, "title", row), width - INDENT - (room + 2 if room else 0))
    first = f"{_card_words(table, 'severity', row):<{INDENT}}{title[0]}"
    if saving:
        first += " " * max(width - cell_len(first) - cell_len(saving), 2) + saving
    lines = [CardLine(first, TITLE), *(CardLine(" " * INDENT + line, TITLE) for line in title[1:])]
    if evidence := _card_words(table, "evidence", row):
        lines += [CardLine(" " * INDENT + line, EVIDENCE) for line in wrapped(evidence, text_cells)]
    if advice := _card_words(table, "advice", row):
        indents = [ADVICE_SIGN, " " * len(ADVICE_SIGN)]
        pieces = wrapped(advice, text_cells - len(ADVICE_SIGN))
        lines += [CardLine(" " * INDENT + indents[i > 0] + piece, ADVICE) for i, piece in enumerate(pieces)]
    return tuple(lines)


def _card_words(table: Table, name: str, row: int) -> str:
    return clean(str(table[name].cell(row) or ""))


# The evidence of a finding as parts with a time each, to be drawn. Pure.

_TIME = re.compile(r"(?<![\w.,])(\d[\d,]*(?:\.\d+)?) (ns|µs|ms|s)(?!\w)")
_CLAUSES = re.compile(r"[;,] ")
_LIMIT = re.compile(r"(?:below|under|over|above|of|longest|median) $")
"""Before a time that is a limit or that of one event: a bar would compare it with sums."""
_LEADING = re.compile(r"^(?:longest in|and|of|another) ")
_MICROS = {"ns": 0.001, "µs": 1.0, "ms": 1000.0, "s": 1_000_000.0}


def evidence_parts(text: str) -> list[tuple[str, float]]:
    """The sums of time that a sentence names, in µs, each with the words around it, in their order.

    `2,417 gaps below 1 ms, 143.37 ms; 3.96 ms in longer ones` is two parts. A time that stands alone belongs to the
    words before it.
    """
    parts: list[tuple[str, float]] = []
    before = ""
    for clause in filter(None, _CLAUSES.split(text)):
        times = [match for match in _TIME.finditer(clause) if not _LIMIT.search(clause[: match.start()])]
        if times:
            first = times[0]
            words = " ".join((clause[: first.start()].removesuffix(" for ") + " " + clause[first.end() :]).split())
            label = _LEADING.sub("", words) or before
            parts.append((label, float(first[1].replace(",", "")) * _MICROS[first[2]]))
        before = clause.strip()
    return parts


Rank = tuple[bool, bool, int, int]
"""Columns in order of their importance, the lowest first."""

COLUMN_FILES = {
    "ranks": "ranks.rank_tables",
    **dict.fromkeys(("changed kernels", "changed ops", "totals"), "comparing.change_rows"),
}
"""The file that declares the columns of a table that is no pane, as `COLUMN_ORDERS`."""


def column_names(pane: str, by: str | None = None) -> tuple[str, ...]:
    """Names of the columns of a pane or another table in order of importance; empty where nothing says which."""
    if pane in PANES:
        return PANES[pane].columns_by(by)
    file = COLUMN_FILES.get(pane.partition(" by ")[0])
    if file is None:
        return ()
    # Imported when it is first asked for, as the file of a pane is: a list of one trace needs neither.
    orders = import_module(f"tracetui.{file}").COLUMN_ORDERS
    return tuple(orders.get(f"{pane} by {by}", orders.get(pane, "")).split())


def ordered(table: Table, pane: str, by: str | None = None) -> list[Column]:
    """The columns of a table that are read first; all of them where nothing says which.

    The step is left out where all rows are of one, and of the steps themselves what is 0 in every one or is known of a
    server's steps only.
    """
    columns = [table[name] for name in column_names(pane, by) if name in table] or list(table.columns)
    if pane == "steps":
        # There are more columns than fit: what is 0 in every step says little.
        columns = [column for column in columns if not column.spec.of_servers or not column.nulls().all()]
        return [column for column in columns if not _is_zero(column)]
    return [
        column
        for column in columns
        if column.name != "step" or (len(column) > 1 and bool((column.values != column.values[0]).any()))
    ]


def importance(pane: str, by: str | None = None) -> Callable[[Column], Rank]:
    """A sort key for the columns of a pane; the lowest comes first.

    What says what a row is comes before all others, then by how far a column is a detail, and by its place in the list;
    in panes that keep their order, whose columns are details elsewhere, by its place first. What is 0 in every step
    is last.
    """
    ranks = {name: rank for rank, name in enumerate(column_names(pane, by))}
    keeps_order = pane in PANES and PANES[pane].keeps_order

    def rank_of(column: Column) -> Rank:
        spec = column.spec
        is_zero = pane == "steps" and _is_zero(column)
        place = ranks.get(column.name, len(ranks))
        return is_zero, not spec.is_key, *((place, spec.detail) if keeps_order else (spec.detail, place))

    return rank_of


def _is_zero(column: Column) -> bool:
    """True where a number is known to be 0 in every row."""
    is_known = len(column) > 0 and not column.is_text and not column.nulls().any()
    return is_known and not column.values.any()
