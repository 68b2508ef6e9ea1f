"""A table as Markdown that can be pasted into a pull request: where it comes from, the table, what to know below it.

Names stand as code, everything else is escaped, so that nothing out of a trace is read as markup, a link or a
mention. Columns that say the same in every row become a sentence; a row of many columns stands upright.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tracetui.drawing.text.origin import WHOLE, Extent, recorded_on
from tracetui.drawing.text.readable_table import NAME_WIDTH, remarks, shown_texts, telling
from tracetui.drawing.text.summary_words import as_read
from tracetui.model.quantities import ABSENT
from tracetui.model.table import DOUBTFUL, Column, Table, TextKind
from tracetui.model.trace import Trace
from tracetui.safe_text import clean

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
    parts = [_title(trace, pane, extent)]
    columns = list(table.columns) if is_chosen else telling(table)
    said = [extent.left_out(len(table)), *remarks(table, columns)]
    if table.headline:
        parts.append(sentence(clean(table.headline)))
    if len(table) == 0:
        said = ["No rows.", clean(table.note)]
    elif len(table) == 1 and len(columns) > NARROW and not is_chosen:
        parts.append(_upright(table, columns))
    else:
        varying, same = (columns, "") if is_chosen else _varying(columns)
        parts += ["\n".join(lines(table, varying)), same]
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


def _title(trace: Trace, pane: str, extent: Extent) -> str:
    known = map(prose, recorded_on(trace))
    words = prose(extent.words(pane))
    head, comma, rest = words.partition(",")
    return " · ".join([f"**{head}**{comma}{rest}{comma} of {code(clean(trace.label))}", *known])


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


def _upright(table: Table, columns: Sequence[Column]) -> str:
    """One row as lines of column and value."""
    pairs = ((_heading(table, column), _cells(column)[0]) for column in columns)
    return "\n".join([_row(("column", "value")), _row(("---", "---")), *map(_row, pairs)])


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


_WRITERS = {TextKind.NAME: code, TextKind.KERNEL: code, TextKind.DECODED: code, TextKind.REMARK: sentence}


def _row(texts: Iterable[str]) -> str:
    return "| " + " | ".join(texts) + " |"


def _paragraph(text: str) -> str:
    """Words as a paragraph of their own, which does not begin like a list or a heading."""
    return _BLOCK.sub(lambda found: found[0] + "\\", prose(text), count=1) if _BLOCK.match(text) else prose(text)
