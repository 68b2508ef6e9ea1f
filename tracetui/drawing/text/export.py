"""A table as text: JSON, CSV, Markdown, plain columns, or a rich table for a terminal.

Numbers are the same in every form. JSON and CSV carry all columns and full names; what is read by eye leaves out
columns that hold nothing, shortens names, and where a line is full drops columns and says which. Columns that were
chosen by name are all there, in every form.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import orjson
from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.text import Text

from tracetui.drawing.column_order import Rank, importance
from tracetui.drawing.finding_cards import (
    ADVICE,
    EVIDENCE,
    TITLE,
    Card,
    finding_cards,
    is_list_of_findings,
)
from tracetui.drawing.text.markdown import markdown
from tracetui.drawing.text.origin import DECIMALS, WHOLE, Extent, facts, versions
from tracetui.drawing.text.readable_table import cut_text, notes, remarks, shown_texts, telling
from tracetui.drawing.text.summary_words import as_read
from tracetui.model.table import Cell, Column, ColumnSpec, Table, TextKind
from tracetui.model.trace import Trace
from tracetui.safe_text import clean

__all__ = ["facts", "render", "rich_table", "versions"]

FORMULA_SIGNS = ("=", "+", "-", "@")
"""With one of these a text begins that a spreadsheet evaluates."""
NARROWEST_NAME = 16
"""Characters to which names shrink before columns are dropped."""
GAP = "  "
"""Between two columns."""
CARD_CELLS = 110
"""Width of the cards of findings where there is no terminal and none is asked for."""
LINE_CELLS = 160
"""Width of a table where there is no terminal and none is asked for: names are wider than on most terminals."""
ALL_COLUMNS = "--columns all shows them"
"""How columns that were left out are shown."""
_CARD_STYLES = {TITLE: "bold", EVIDENCE: "", ADVICE: "dim"}


def render(
    table: Table, trace: Trace, pane_name: str, form: str, extent: Extent = WHOLE, cells: int | None = None
) -> str:
    """The table as `json`, `csv`, `md` or `table` (plain columns), with a line break at its end.

    As `table` findings are wrapped, and columns dropped, to a width of `cells`; without it no column is.

    Raises: KeyError for another form.
    """
    if form == "table":
        return _plain(table, pane_name, extent, cells)
    return _FORMS[form](table, trace, pane_name, extent)


def rich_table(
    table: Table, trace: Trace, pane_name: str, width: int = 120, by: str | None = None, offer: str = ""
) -> RenderableType:
    """The table for a terminal of `width` columns, with what was left out and the table's note below it.

    By the pane and its grouping it is known which columns are read first; `offer` says how to see the others.
    """
    if not len(table):
        return Text(_nothing(table))
    table = as_read(table, pane_name)
    title = Text(f"{pane_name} · {clean(trace.label)}", style="dim")
    above = [Text(clean(table.headline))] if table.headline else []
    if is_list_of_findings(table):
        cards = [_styled(card) for card in finding_cards(table, range(len(table)), width)]
        return Group(title, *above, *(part for card in cards for part in (Text(), card)), *map(_remark, notes(table)))
    header, lines, said = _layout(table, pane_name, width, by, offer)
    body = [Text(line, no_wrap=True, overflow="crop") for line in lines]
    return Group(title, *above, Text(header, style="bold"), *body, *map(_remark, said))


def rich_rows(table: Table, pane_name: str, width: int) -> RenderableType:
    """A table that is of no single trace, for a terminal: its headline, its rows, and what is said below them."""
    if not len(table):
        return Text(_nothing(table))
    header, lines, said = _layout(table, pane_name, width, offer=ALL_COLUMNS)
    above = [Text(clean(table.headline)), Text()] if table.headline else []
    body = [Text(line, no_wrap=True, overflow="crop") for line in lines]
    return Group(*above, Text(header, style="bold"), *body, *map(_remark, said))


def plain_rows(table: Table, pane_name: str, width: int | None, is_chosen: bool = False) -> str:
    """The same in plain columns, with a line break at its end; those that were chosen all, in any width."""
    if not len(table):
        return _nothing(table) + "\n"
    if is_chosen:
        header, lines, said = _layout(table, pane_name, None, is_chosen=True)
    else:
        header, lines, said = _layout(table, pane_name, width, offer=ALL_COLUMNS)
    return _joined(table, [header, *lines], said)


def row_values(table: Table) -> list[dict[str, Cell]]:
    """The rows as JSON holds them: null for what is not known, floats rounded."""
    values = [_values(column) for column in table.columns]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*values, strict=True)]


def _remark(text: str) -> Text:
    return Text(text, style="dim")


def _styled(card: Card) -> Text:
    return Text("\n").join(Text(line.text, style=_CARD_STYLES[line.part]) for line in card)


def _json(table: Table, trace: Trace, pane_name: str, extent: Extent) -> str:
    names = table.column_names
    values = dict(zip(names, map(_values, table.columns), strict=True))
    if {"value", "number"} <= values.keys():
        # A column of facts holds words and numbers; here a number is one.
        values["number"] = list(map(_whole, values["number"]))
        pairs = zip(values["value"], values["number"], strict=True)
        values["value"] = [text if number is None else number for text, number in pairs]
    document = {
        "trace": facts(trace),
        "pane": pane_name,
        **({"headline": clean(table.headline)} if table.headline else {}),
        "columns": [column_facts(column.spec) for column in table.columns],
        "rows": [dict(zip(names, row, strict=True)) for row in zip(*values.values(), strict=True)],
    }
    if table.note:
        document["note"] = table.note
    if table.doubts:
        document["doubts"] = [{"doubt": words, "columns": list(names)} for words, names in table.doubts.items()]
    return orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE).decode()


def column_facts(spec: ColumnSpec) -> dict[str, str]:
    """What a column is, for whoever reads the rows elsewhere."""
    return {"name": spec.name, "heading": spec.heading, "unit": spec.unit, "help": spec.help}


def _csv(table: Table, trace: Trace, pane_name: str, extent: Extent) -> str:
    return csv_rows(table)


def csv_rows(table: Table) -> str:
    """The rows as CSV below the names of the columns."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table.column_names)
    writer.writerows(zip(*map(_csv_values, table.columns), strict=True))
    return out.getvalue()


def _csv_values(column: Column) -> list[Cell]:
    """The values of a column, with `'` before texts that a spreadsheet would take for a formula and evaluate."""
    values = _values(column)
    if not column.is_text:
        return values
    return [f"'{value}" if isinstance(value, str) and value.startswith(FORMULA_SIGNS) else value for value in values]


def _plain(table: Table, pane_name: str, extent: Extent, width: int | None) -> str:
    if not len(table):
        return _nothing(table) + "\n"
    if extent.has_chosen_columns:
        header, lines, said = _layout(table, pane_name, None, is_chosen=True)
        return _joined(table, [header, *lines], said)
    if is_list_of_findings(table):
        return _plain_cards(table, width or CARD_CELLS)
    table = as_read(table, pane_name)
    header, lines, said = _layout(table, pane_name, width, extent.by, ALL_COLUMNS)
    return _joined(table, [header, *lines], said)


def _plain_cards(table: Table, cells: int) -> str:
    cards = finding_cards(table, range(len(table)), cells)
    return _joined(table, [text for card in cards for text in ("", *(line.text for line in card))][1:], notes(table))


def _joined(table: Table, lines: Sequence[str], said: Sequence[str]) -> str:
    above = [clean(table.headline), ""] if table.headline else []
    return "\n".join([*above, *lines, *([""] if said else []), *said]) + "\n"


_FORMS: dict[str, Callable[[Table, Trace, str, Extent], str]] = {
    "json": _json,
    "csv": _csv,
    "md": markdown,
}


def _values(column: Column) -> list[Cell]:
    """The column as plain Python objects, None for null, floats rounded."""
    if column.strings is not None:
        used = {int(i): clean(column.strings[int(i)]) for i in np.unique(column.values) if int(i) >= 0}
        return [used.get(i) for i in column.values.tolist()]
    values: list[Cell] = column.values.tolist()
    if column.values.dtype.kind == "f":
        floats = np.asarray(column.values, np.float64)
        values = np.round(floats, DECIMALS).tolist()
        unknown = ~np.isfinite(floats)
    else:
        unknown = column.nulls()
    for row in np.flatnonzero(unknown).tolist():
        values[row] = None
    return values


def _whole(value: Cell) -> Cell:
    """A number without a fraction as an integer."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _layout(
    table: Table, pane_name: str, width: int | None, by: str | None = None, offer: str = "", is_chosen: bool = False
) -> tuple[str, list[str], list[str]]:
    """Header, lines and remarks of aligned columns, within a width where there is one."""
    columns = list(table.columns) if is_chosen else telling(table)
    cells = {column.name: shown_texts(column) for column in columns}
    widths = {name: max(map(cell_len, [table.heading(name), *texts])) for name, texts in cells.items()}
    dropped = [] if width is None else _drop(columns, widths, width, importance(pane_name, by))
    kept = [column for column in columns if column not in dropped]
    if width is not None:
        _squeeze(kept, widths, width)
    padded = []
    for column in kept:
        room = widths[column.name]
        texts = [table.heading(column.name), *(cut_text(column, text, room) for text in cells[column.name])]
        padded.append([_pad(text, room, not column.is_number) for text in texts])
    header, *lines = [GAP.join(row).rstrip() for row in zip(*padded, strict=True)]
    return header, lines, remarks(table, columns, dropped, offer)


def _drop(
    columns: Sequence[Column], widths: Mapping[str, int], width: int, rank: Callable[[Column], Rank]
) -> list[Column]:
    """The columns that a terminal has no room for even when every name is as short as may be, the last by rank."""
    least = {column.name: _least(column, widths[column.name]) for column in columns}
    kept, dropped = list(columns), []
    while len(kept) > 2 and _total(least[column.name] for column in kept) > width:
        # The first column says what a row is.
        worst = max(reversed(kept[1:]), key=rank)
        kept.remove(worst)
        dropped.append(worst)
    return dropped


def _least(column: Column, width: int) -> int:
    """Cells that a column needs: a number and prose all of theirs, a name as many as tell it from others."""
    if column.is_number or column.spec.text is TextKind.PROSE:
        return width
    return min(width, max(NARROWEST_NAME, len(column.spec.heading)))


def _squeeze(columns: Sequence[Column], widths: dict[str, int], width: int) -> None:
    """Narrow the widest names, one character at a time, until the columns fit."""
    names = [column.name for column in columns if _least(column, widths[column.name]) < widths[column.name]]
    while names and _total(widths[column.name] for column in columns) > width:
        widest = max(names, key=widths.__getitem__)
        if widths[widest] <= len(widest):
            break
        widths[widest] -= 1


def _total(widths: Iterable[int]) -> int:
    parts = list(widths)
    return sum(parts) + len(GAP) * (len(parts) - 1)


def _nothing(table: Table) -> str:
    return " ".join(["No rows.", *(clean(text) for text in (table.headline, table.note) if text)])


def _pad(text: str, width: int, left: bool) -> str:
    space = " " * (width - cell_len(text))
    return text + space if left else space + text
