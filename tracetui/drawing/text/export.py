"""A table as text: JSON, CSV, Markdown, plain columns, or a rich table for a terminal.

Numbers are the same in every form. JSON and CSV carry all columns and full names; what is read by eye leaves out
columns that hold nothing, shortens names, and where a line is full drops columns and says which. Columns that were
chosen by name are all there, in every form.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NotRequired, TypedDict

import numpy as np
import orjson
from rich.cells import cell_len

from tracetui.drawing.format import (
    ADVICE,
    EVIDENCE,
    TITLE,
    Rank,
    cell,
    finding_cards,
    importance,
    is_list_of_findings,
    notes,
)
from tracetui.drawing.text.envelope import json_text
from tracetui.drawing.text.readable_table import (
    DECIMALS,
    NAME_WIDTH,
    WHOLE,
    Extent,
    TraceFacts,
    as_read,
    chosen,
    cut_text,
    distinct_texts,
    facts,
    recorded_on,
    remarks,
    shown_texts,
    telling,
    versions,
)
from tracetui.model.intervals import Int64
from tracetui.model.quantities import ABSENT
from tracetui.model.table import DOUBTFUL, Cell, Column, ColumnSpec, Table, TextKind
from tracetui.model.trace import Trace
from tracetui.text import clean

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

# A table to be heard or searched: `name: value`, one per line, a block of lines per row, and nothing else.
#
# No colours, boxes, bars, alignment or shortened names: what a screen reader speaks, and what a terminal shows that
# can do nothing. Columns are called what they are on the screen, and `--sort` takes these words, so that what was
# heard can be typed.

UNKNOWN = "not known"
"""Stands where the trace holds no value: a dash is not spoken."""
DOUBTFUL_SUFFIX = " (doubtful)"


def plain_text(table: Table, trace: Trace, pane: str, extent: Extent = WHOLE) -> str:
    """A pane in this form, its title, trace and number of rows first, with a line break at its end."""
    rows = len(table) if extent.rows is None else extent.rows
    lines = [f"{extent.words(pane)} of {clean(trace.label)}", f"rows: {rows}"]
    if len(table) != rows:
        lines.append(f"printed: {len(table)}")
    if table.headline:
        lines.append(f"headline: {clean(table.headline)}")
    is_summary = pane == "summary" and not extent.has_chosen_columns
    table = as_read(table, pane) if is_summary else table
    body = ["", *pairs(table)] if is_summary else blocks(table, is_chosen=extent.has_chosen_columns)
    # Columns without a value, and what else must be known.
    empty = [column.spec.heading for column in table.columns if len(table) and column.nulls().all()]
    said = [f"without a value: {', '.join(empty)}"] if empty else []
    said += notes(table)
    return "\n".join([*lines, *body, *(["", *said] if said else [])]) + "\n"


def blocks(table: Table, title: str = "row", is_chosen: bool = False) -> list[str]:
    """Every row as its number and the values that it has, an empty line above each; of chosen columns all."""
    columns = [column for column in table.columns if is_chosen or not column.nulls().all()]
    labels = [column.spec.heading + DOUBTFUL_SUFFIX * table.is_doubtful(column.name) for column in columns]
    lines = []
    for row in range(len(table)):
        values = (
            f"{spoken(column, column.cell(row))}{DOUBTFUL_SUFFIX * column.is_doubtful(row)}" for column in columns
        )
        lines += ["", f"{title} {row + 1}", *map(": ".join, zip(labels, values, strict=True))]
    return lines


def pairs(table: Table) -> list[str]:
    """A table of facts, whose first two columns are a name and a value, as one line for each."""
    names, values = table.columns[:2]
    return [f"{spoken(names, names.cell(row))}: {spoken(values, values.cell(row))}" for row in range(len(table))]


def spoken(column: Column, value: Cell) -> str:
    """A cell in full."""
    return UNKNOWN if value is None else " ".join(cell(column, value).split())


# A table as Markdown that can be pasted into a pull request: where it comes from, the table, what to know below it.
#
# Names stand as code, everything else is escaped, so that nothing out of a trace is read as markup, a link or a
# mention. Columns that say the same in every row become a sentence; a row of many columns stands upright.

NARROW = 8
"""So many columns are read at once; beyond them repetition is taken out, and a single row turned upright."""
COMMENT_LIMIT = 65_536
"""Characters that a comment or the description of a pull request on GitHub may have."""

# An underscore within a word is no markup, next to another one it may be: __0__.
_MARKUP = re.compile(r"[\\`*\[\]<>|~]|(?<![^\W_])_|_(?![^\W_])|&(?=#?\w+;)")
_MENTION = re.compile(r"@(?=\w)")
_NAME = re.compile(r"(?P<before>\(?)(?P<name>(?=\S*(?:[<_#]|::))[\w#:<].*?)(?P<after>[).,;:]*)")
"""A word that is a name: it holds what no word of English does."""
_BLOCK = re.compile(r"(?=[#+-]|\d+[.)](?:\s|$))\d*")


def markdown(table: Table, trace: Trace, pane: str, extent: Extent = WHOLE) -> str:
    """The table under a line that says what it is and where it comes from, with a line break at its end."""
    is_chosen = extent.has_chosen_columns
    table = table if is_chosen else as_read(table, pane)
    known = map(prose, recorded_on(trace))
    words = prose(extent.words(pane))
    head, comma, rest = words.partition(",")
    parts = [" · ".join([f"**{head}**{comma}{rest}{comma} of {code(clean(trace.label))}", *known])]
    columns = chosen(table) if is_chosen else telling(table)
    said = [extent.left_out(len(table)), *remarks(table, columns)]
    if table.headline:
        parts.append(sentence(clean(table.headline)))
    if len(table) == 0:
        said = ["No rows.", clean(table.note)]
    elif len(table) == 1 and len(columns) > NARROW and not is_chosen:
        # One row as lines of column and value.
        pairs = ((_heading(table, column), _cells(column)[0]) for column in columns)
        parts.append("\n".join([_row(("column", "value")), _row(("---", "---")), *map(_row, pairs)]))
    else:
        varying, same = (columns, "") if is_chosen else _varying(columns)
        parts += ["\n".join(lines(table, varying)), same]
    # A paragraph of its own does not begin like a list or a heading.
    parts += [
        _BLOCK.sub(lambda sign: sign[0] + "\\", prose(text), count=1) if _BLOCK.match(text) else prose(text)
        for text in said
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def code(text: str) -> str:
    """Text as a code span within a table, verbatim whatever characters it has."""
    if not text.strip() or text == ABSENT:
        return text.strip()
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    # A table is cut at its bars before code spans are looked for; the backslash goes at the same time.
    return f"{fence}{pad}{text.replace('|', chr(92) + '|')}{pad}{fence}"


def prose(text: str) -> str:
    """Text with markup and mentions escaped."""
    return _MENTION.sub("@<!-- -->", _MARKUP.sub(lambda found: "\\" + found[0], text))


def sentence(text: str) -> str:
    """A sentence with names of kernels and scopes as code; scopes would be read as links."""
    words = []
    for word in text.split(" "):
        parts = None if "|" in word else _NAME.fullmatch(word)
        words.append(prose(parts["before"]) + code(parts["name"]) + prose(parts["after"]) if parts else prose(word))
    return " ".join(words)


def lines(table: Table, columns: Sequence[Column], width: int = NAME_WIDTH) -> list[str]:
    """The lines of the table itself, names cut to `width`."""
    ends = [column.is_number for column in columns]
    return [
        _row(_heading(table, column) for column in columns),
        _row("---:" if at_end else "---" for at_end in ends),
        *map(_row, zip(*(_cells(column, width) for column in columns), strict=True)),
    ]


def _heading(table: Table, column: Column) -> str:
    # One mark alone strikes nothing out.
    return prose(column.spec.heading) + DOUBTFUL * table.is_doubtful(column.name)


def _varying(columns: list[Column]) -> tuple[list[Column], str]:
    """The columns that tell rows apart, and what the others say, as a sentence; all of them where there are few."""
    if len(columns) <= NARROW or len(columns[0]) < 2:
        return columns, ""
    same = [c for c in columns[1:] if not c.spec.is_key and (c.values == c.values[0]).all()]
    said = ", ".join(f"{prose(column.spec.heading)} {_cells(column)[0]}" for column in same)
    return [column for column in columns if column not in same], f"In every row: {said}." if said else ""


def _cells(column: Column, width: int = NAME_WIDTH) -> list[str]:
    texts = [text.strip() for text in shown_texts(column, width)]
    if not column.is_text:
        return texts
    write = _WRITERS.get(column.spec.text, prose)
    made = {text: write(text) for text in set(texts)}
    return [made[text] for text in texts]


_WRITERS = {
    **dict.fromkeys((TextKind.NAME, TextKind.KERNEL, TextKind.RECORDED, TextKind.DECODED), code),
    TextKind.REMARK: sentence,
}


def _row(texts: Iterable[str]) -> str:
    return "| " + " | ".join(texts) + " |"


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
"""A remark on how to see columns that were left out."""
_CARD_STYLES = {TITLE: "bold", EVIDENCE: "", ADVICE: "dim"}


def render(
    table: Table, trace: Trace, pane_name: str, form: str, extent: Extent = WHOLE, cells: int | None = None
) -> str:
    """The table as `json`, `csv`, `md` or `table` (plain columns), with a line break at its end.

    As `table` findings are wrapped, and columns dropped, to a width of `cells`; without it no column is.

    Raises: KeyError for another form.
    """
    if form == "table":
        return "".join(_plain_parts(table, pane_name, extent, cells))
    return _FORMS[form](table, trace, pane_name, extent)


PART_ROWS = 20_000
"""Rows of a part."""


def parts(
    table: Table, trace: Trace, pane_name: str, form: str, extent: Extent = WHOLE, cells: int | None = None
) -> Iterator[str]:
    """The text of `render` in parts; long lists in columns, as JSON and CSV are never whole in memory."""
    if form == "table":
        yield from _plain_parts(table, pane_name, extent, cells)
        return
    if form not in ("json", "csv") or len(table) <= PART_ROWS:
        yield render(table, trace, pane_name, form, extent, cells)
        return
    slices = (table.take(np.arange(at, min(at + PART_ROWS, len(table)))) for at in range(0, len(table), PART_ROWS))
    if form == "csv":
        for number, each in enumerate(slices):
            text = csv_rows(each)
            yield text if number == 0 else text.partition("\n")[2]
        return
    around = _json(table.take(np.arange(0)), trace, pane_name, extent)
    # Within a text of JSON there is a sign in front of a quote.
    head, empty, tail = around.partition('"rows":[]')
    if not empty:
        # What is said of the trace is nothing for orjson.
        yield render(table, trace, pane_name, form, extent, cells)
        return
    yield f"{head}{empty.removesuffix(']')}"
    for number, each in enumerate(slices):
        rows = orjson.dumps(table_document(each)["rows"]).decode()
        yield f"{',' * (number > 0)}{rows[1:-1]}"
    yield f"]{tail}"


def rich_table(
    table: Table, trace: Trace, pane_name: str, width: int = 120, by: str | None = None, offer: str = ""
) -> RenderableType:
    """The table for a terminal of `width` columns, with what was left out and the table's note below it.

    By the pane and its grouping it is known which columns are read first; `offer` says how to see the others.
    """
    # A pipe needs none of rich but the widths of letters.
    from rich.console import Group
    from rich.text import Text

    if not len(table):
        return Text(_nothing(table))
    table = as_read(table, pane_name)
    title = Text(f"{pane_name} · {clean(trace.label)}", style="dim")
    above = [Text(clean(table.headline))] if table.headline else []
    if is_list_of_findings(table):
        cards = [
            Text("\n").join(Text(line.text, style=_CARD_STYLES[line.part]) for line in card)
            for card in finding_cards(table, range(len(table)), width)
        ]
        return Group(title, *above, *(part for card in cards for part in (Text(), card)), *map(_remark, notes(table)))
    header, lines, said = _layout(table, pane_name, width, by, offer)
    body = [Text(line, no_wrap=True, overflow="crop") for line in lines]
    return Group(title, *above, Text(header, style="bold"), *body, *map(_remark, said))


def rich_rows(table: Table, pane_name: str, width: int) -> RenderableType:
    """A table of more than one trace for a terminal: headline, rows, and remarks."""
    from rich.console import Group
    from rich.text import Text

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
    return "".join(_joined(table, header, lines, said))


def row_values(table: Table) -> list[dict[str, Cell]]:
    """The rows as JSON values: null for unknown cells, floats rounded."""
    values = [_values(column) for column in table.columns]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*values, strict=True)]


def _remark(text: str) -> Text:
    from rich.text import Text

    return Text(text, style="dim")


class ColumnFacts(TypedDict):
    name: str
    heading: str
    unit: str
    help: str


class Doubt(TypedDict):
    """A reason for doubt, and the columns concerned; none named is all of them."""

    doubt: str
    columns: list[str]


class TableDocument(TypedDict):
    """A table: what its columns are, and an object for each row."""

    headline: NotRequired[str]
    columns: list[ColumnFacts]
    rows: list[dict[str, Cell]]
    note: NotRequired[str]
    doubts: NotRequired[list[Doubt]]


class PaneDocument(TableDocument):
    """A pane of a trace, grouped by `by` where that is no null."""

    trace: TraceFacts
    pane: str
    by: str | None


def _json(table: Table, trace: Trace, pane_name: str, extent: Extent) -> str:
    document: PaneDocument = {"trace": facts(trace), "pane": pane_name, "by": extent.by, **table_document(table)}
    return json_text(
        "check-names" if pane_name == "names" else "show", document, (column.spec for column in table.columns)
    )


def table_document(table: Table) -> TableDocument:
    """Columns, rows, headline and remarks of a table, for JSON."""
    names = table.column_names
    values = dict(zip(names, map(_values, table.columns), strict=True))
    if {"value", "number"} <= values.keys():
        # A column of facts holds words and numbers; here a number is one.
        values["number"] = [
            int(value) if isinstance(value, float) and value.is_integer() else value for value in values["number"]
        ]
        pairs = zip(values["value"], values["number"], strict=True)
        values["value"] = [text if number is None else number for text, number in pairs]
    document: TableDocument = {
        "columns": [column_facts(column.spec) for column in table.columns],
        "rows": [dict(zip(names, row, strict=True)) for row in zip(*values.values(), strict=True)],
    }
    if table.headline:
        document["headline"] = clean(table.headline)
    if table.note:
        document["note"] = table.note
    if table.doubts:
        document["doubts"] = [{"doubt": words, "columns": list(names)} for words, names in table.doubts.items()]
    return document


def column_facts(spec: ColumnSpec) -> ColumnFacts:
    """The description of a column, for whoever reads the rows elsewhere."""
    return {"name": spec.name, "heading": spec.heading, "unit": spec.unit, "help": spec.help}


def csv_rows(table: Table) -> str:
    """The rows as CSV below the names of the columns."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table.column_names)
    columns = [
        # A spreadsheet would take such a text for a formula and evaluate it.
        [f"'{value}" if isinstance(value, str) and value.startswith(FORMULA_SIGNS) else value for value in values]
        if column.is_text
        else values
        for column, values in zip(table.columns, map(_values, table.columns), strict=True)
    ]
    writer.writerows(zip(*columns, strict=True))
    return out.getvalue()


def _plain_parts(table: Table, pane_name: str, extent: Extent, width: int | None) -> Iterator[str]:
    if not len(table):
        yield _nothing(table) + "\n"
        return
    if extent.has_chosen_columns:
        yield from _joined(table, *_layout(table, pane_name, None, is_chosen=True))
        return
    if is_list_of_findings(table):
        cards = finding_cards(table, range(len(table)), width or CARD_CELLS)
        _, header, *more = (text for card in cards for text in ("", *(line.text for line in card)))
        yield from _joined(table, header, more, notes(table))
        return
    yield from _joined(table, *_layout(as_read(table, pane_name), pane_name, width, extent.by, ALL_COLUMNS))


def _joined(table: Table, header: str, lines: Iterable[str], said: Sequence[str]) -> Iterator[str]:
    """The text of a table in parts, with a line break at the end of each."""
    above = [clean(table.headline), ""] if table.headline else []
    yield "".join(f"{line}\n" for line in (*above, header))
    rest = iter(lines)
    while part := list(islice(rest, PART_ROWS)):
        yield "\n".join(part) + "\n"
    yield "".join(f"{line}\n" for line in ([""] if said else []) + [*said])


_FORMS: dict[str, Callable[[Table, Trace, str, Extent], str]] = {
    "json": _json,
    "csv": lambda table, trace, pane_name, extent: csv_rows(table),
    "md": markdown,
}


def _values(column: Column) -> list[Cell]:
    """The column as plain Python objects, None for null, floats rounded."""
    if column.strings is not None:
        used = {int(i): clean(column.strings[int(i)]) for i in np.unique(column.values) if int(i) >= 0}
        return list(map(used.get, column.values.tolist()))
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


def _layout(
    table: Table, pane_name: str, width: int | None, by: str | None = None, offer: str = "", is_chosen: bool = False
) -> tuple[str, Iterator[str], list[str]]:
    """Header, lines and remarks of aligned columns, within a width where there is one."""
    columns = chosen(table) if is_chosen else telling(table)
    cells = {column.name: distinct_texts(column) for column in columns}
    widths = {
        name: max(cell_len(table.heading(name)), max(map(len if _is_narrow(texts) else cell_len, texts), default=0))
        for name, (texts, _) in cells.items()
    }
    dropped = [] if width is None else _drop(columns, widths, width, importance(pane_name, by))
    kept = [column for column in columns if column not in dropped]
    if width is not None:
        _squeeze(kept, widths, width)
    padded = []
    for column in kept:
        room, (texts, index) = widths[column.name], cells[column.name]
        if column.is_text:
            texts = [cut_text(column, text, room) for text in texts]
        padded.append((_pad(texts, room, not column.is_number), index))
    heads = [_pad([table.heading(column.name)], widths[column.name], not column.is_number)[0] for column in kept]
    return GAP.join(heads).rstrip(), _lines(padded), remarks(table, columns, dropped, offer)


def _lines(padded: Sequence[tuple[Sequence[str], Int64]]) -> Iterator[str]:
    """The lines of a table, given the texts of each column and the one of each row."""
    for at in range(0, len(padded[0][1]), PART_ROWS):
        part = [map(texts.__getitem__, index[at : at + PART_ROWS].tolist()) for texts, index in padded]
        yield from (GAP.join(row).rstrip() for row in zip(*part, strict=True))


def _is_narrow(texts: Iterable[str]) -> bool:
    """True where every letter takes one cell."""
    text = "".join(texts)
    return text.isascii() or all(cell_len(letter) == 1 for letter in set(text))


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


def _pad(texts: Sequence[str], width: int, left: bool) -> list[str]:
    """Texts with spaces behind them, or before them, so that they take `width` cells."""
    if _is_narrow(texts):
        return [text.ljust(width) for text in texts] if left else [text.rjust(width) for text in texts]
    spaces = (" " * (width - cell_len(text)) for text in texts)
    return [text + space if left else space + text for text, space in zip(texts, spaces, strict=True)]
