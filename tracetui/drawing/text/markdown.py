"""A table as Markdown that can be pasted into a pull request: where it comes from, the table, what to know below it.

Names stand as code, everything else is escaped, so that nothing out of a trace is read as markup, a link or a
mention. Columns that say the same in every row become a sentence; a row of many columns stands upright.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from tracetui.drawing.text.origin import WHOLE, Extent, recorded_on
from tracetui.drawing.text.readable_table import NAME_WIDTH, NAMES, remarks, shown_texts, telling
from tracetui.drawing.text.summary_words import readable
from tracetui.model.quantities import ABSENT
from tracetui.model.table import Column, Table
from tracetui.model.trace import Trace
from tracetui.safe_text import clean

NARROW = 8
"""So many columns are read at once; beyond them repetition is taken out, and a single row turned upright."""
ESSENTIAL = ("name", "short_name", "kernel", "op", "api", "dur_us", "total_us", "calls", "evidence", "advice")
"""Columns that stay, even where they say the same in every row."""
TOLD = ("remark",)
"""Columns of words with names among them."""
COMMENT_LIMIT = 65_536
"""Characters that a comment or the description of a pull request on GitHub may have."""

_UNITS = (("_pct", "percent"),)
# An underscore within a word is no markup, next to another one it may be: __0__.
_MARKUP = re.compile(r"[\\`*\[\]<>|~]|(?<![^\W_])_|_(?![^\W_])|&(?=#?\w+;)")
_MENTION = re.compile(r"@(?=\w)")
_NAME = re.compile(r"(?P<before>\(?)(?P<name>(?=\S*(?:[<_#]|::))[\w#:<].*?)(?P<after>[).,;:]*)")
"""A word that is a name: it holds what no word of English does."""
_BLOCK = re.compile(r"(?=[#+-]|\d+[.)](?:\s|$))\d*")


def markdown(table: Table, trace: Trace, pane: str, extent: Extent = WHOLE) -> str:
    """The table under a line that says what it is and where it comes from, with a line break at its end."""
    if pane == "summary":
        table = readable(table)
        table = replace(table, columns=table.columns[:2])
    parts = [_title(trace, pane, extent, table)]
    columns = telling(table)
    said = [extent.left_out(len(table)), *remarks(table, columns)]
    if len(table) == 0:
        said = ["No rows.", clean(table.note)]
    elif len(table) == 1 and len(columns) > NARROW:
        parts.append(_upright(table, columns, pane))
    else:
        varying, same = _varying(columns, pane)
        parts += ["\n".join(lines(table, varying, pane)), same]
    parts += map(_paragraph, said)
    return "\n\n".join(part for part in parts if part) + "\n"


def code(text: str) -> str:
    """Text as a code span within a table: it reads exactly as it is, whatever it holds."""
    if not text.strip() or text == ABSENT:
        return text.strip()
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    # A table is cut at its bars before code spans are looked for; the backslash goes at the same time.
    return f"{fence}{pad}{text.replace('|', chr(92) + '|')}{pad}{fence}"


def prose(text: str) -> str:
    """Words in which nothing is read as markup, nor mentions anybody."""
    return _MENTION.sub("@<!-- -->", _MARKUP.sub(lambda found: "\\" + found[0], text))


def sentence(text: str) -> str:
    """A sentence in which what is no word stands as code: names of kernels, and scopes, which would be links."""
    return " ".join(_word(word) for word in text.split(" "))


def _word(text: str) -> str:
    found = _NAME.fullmatch(text)
    if found is None or "|" in text:
        return prose(text)
    return prose(found["before"]) + code(found["name"]) + prose(found["after"])


def _title(trace: Trace, pane: str, extent: Extent, table: Table) -> str:
    ends = [f"in `{end}` {unit}" for end, unit in _UNITS if any(name.endswith(end) for name in table.column_names)]
    units = [f"columns ending {', '.join(ends)}"] if ends else []
    known = [*map(prose, recorded_on(trace)), *units]
    words = prose(extent.words(pane))
    head, comma, rest = words.partition(",")
    return " · ".join([f"**{head}**{comma}{rest}{comma} of {code(clean(trace.label))}", *known])


def lines(
    table: Table, columns: Sequence[Column], pane: str, width: int = NAME_WIDTH, right: Collection[str] = ()
) -> list[str]:
    """The lines of the table itself, names cut to `width`; columns of words that are numbers are named in `right`."""
    ends = [not column.is_text or column.name in right for column in columns]
    return [
        _row(_heading(table, column) for column in columns),
        _row("---:" if at_end else "---" for at_end in ends),
        *map(_row, zip(*(_cells(column, pane, width) for column in columns), strict=True)),
    ]


def _heading(table: Table, column: Column) -> str:
    # One mark alone strikes nothing out.
    return prose(column.name) + table.titled(column.name)[len(column.name) :]


def _upright(table: Table, columns: Sequence[Column], pane: str) -> str:
    """One row as lines of column and value."""
    pairs = ((_heading(table, column), _cells(column, pane)[0]) for column in columns)
    return "\n".join([_row(("column", "value")), _row(("---", "---")), *map(_row, pairs)])


def _varying(columns: list[Column], pane: str) -> tuple[list[Column], str]:
    """The columns that tell rows apart, and what the others say, as a sentence; all of them where there are few."""
    if len(columns) <= NARROW or len(columns[0]) < 2:
        return columns, ""
    same = [c for c in columns[1:] if c.name not in ESSENTIAL and (c.values == c.values[0]).all()]
    said = ", ".join(f"{prose(column.name)} {_cells(column, pane)[0]}" for column in same)
    return [column for column in columns if column not in same], f"In every row: {said}." if said else ""


def _cells(column: Column, pane: str, width: int = NAME_WIDTH) -> list[str]:
    texts = [text.strip() for text in shown_texts(column, pane, width)]
    if not column.is_text:
        return texts
    write = code if column.name in NAMES else sentence if column.name in TOLD else prose
    made = {text: write(text) for text in set(texts)}
    return [made[text] for text in texts]


def _row(texts: Iterable[str]) -> str:
    return "| " + " | ".join(texts) + " |"


def _paragraph(text: str) -> str:
    """Words as a paragraph of their own, which does not begin like a list or a heading."""
    return _BLOCK.sub(lambda found: found[0] + "\\", prose(text), count=1) if _BLOCK.match(text) else prose(text)
