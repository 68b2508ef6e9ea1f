"""A table as HTML: headings with units and explanations, numbers to the right, names as code, and what was cut."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracetui.drawing.column_order import ordered
from tracetui.drawing.report.section import Section
from tracetui.drawing.report.words import text
from tracetui.drawing.text.origin import Extent
from tracetui.drawing.text.readable_table import notes, shown_texts, telling
from tracetui.model.quantities import count
from tracetui.model.table import NULL, Column, Table, TextKind

NAME_WIDTH = 72
"""Characters of a name in a report."""
_NAMES = (TextKind.NAME, TextKind.DECODED, TextKind.KERNEL)


def shown_columns(section: Section) -> list[Column]:
    """The columns of a section's table that go on the page, in order."""
    if section.table is None:
        return []
    columns = telling(section.table)
    wanted = [column.name for column in ordered(section.table, section.pane, section.by)]
    known = {column.name: column for column in columns}
    return [known[name] for name in wanted if name in known]


def table_html(section: Section) -> str:
    """The table of a section with its notes; without rows only the notes."""
    table = section.table
    if table is None:
        return ""
    columns = shown_columns(section)
    if len(table) == 0 or not columns:
        return "".join(f'<p class="note">{text(note)}</p>' for note in ["No rows.", *notes(table)])
    shown = table.take(np.arange(min(len(table), section.limit)))
    kept = [shown[column.name] for column in columns]
    head = "".join(_heading(table, column) for column in kept)
    cells = [_cells(column, first=number == 0) for number, column in enumerate(kept)]
    rows = "\n".join(f"<tr>{''.join(row)}</tr>" for row in zip(*cells, strict=True))
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{text(section.title)}">'
        f"<table><thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>"
        f"{_below(section, table, columns)}"
    )


def _heading(table: Table, column: Column) -> str:
    said = f"{column.name}: {column.help}" if column.help else column.name
    number = ' class="n"' if column.is_number else ""
    return f'<th scope="col"{number} title="{text(said)}">{text(table.heading(column.name))}</th>'


def _cells(column: Column, first: bool) -> list[str]:
    """The cells of a column as HTML."""
    texts = shown_texts(column, NAME_WIDTH)
    opened, closed = ('<th scope="row"', "</th>") if first else ("<td", "</td>")
    if column.is_text:
        full = _full_texts(column, texts)
        return [
            f"{opened}{tip}>{_name(written) if column.spec.text in _NAMES else text(written)}{closed}"
            for written, tip in zip(texts, full, strict=True)
        ]
    # A doubtful number below 0 sorts as none.
    plain = column.doubtful is None
    values = (column.values if plain else np.where(column.unranked(), np.nan, column.values)).tolist()
    return [
        f'{opened} class="n"{_exact(written, value)}>{text(written)}{closed}'
        for written, value in zip(texts, values, strict=True)
    ]


def _name(written: str) -> str:
    return f"<code>{text(written)}</code>" if written != "–" else "–"


def _full_texts(column: Column, texts: Sequence[str]) -> list[str]:
    """A tooltip with the whole text, for cells that show less."""
    whole = [column.cell(row) for row in range(len(column))]
    return [
        f' title="{text(str(full)[:1000])}"' if full is not None and full != shown else ""
        for full, shown in zip(whole, texts, strict=True)
    ]


def _exact(written: str, value: float | int | bool) -> str:
    """The number behind a cell, for sorting, where its text is rounded or has a unit; nothing for null."""
    if value != value or value == NULL:
        return ' data-v=""'
    try:
        same = float(written.replace(",", "")) == value
    except ValueError:
        same = False
    return "" if same else f' data-v="{float(value):.6g}"'


def _below(section: Section, table: Table, columns: Sequence[Column]) -> str:
    """What was left out, the notes, and what the columns mean."""
    said = [Extent(rows=len(table)).left_out(min(len(table), section.limit))]
    hidden = len(telling(table)) - len(columns)
    if hidden:
        said.append(f"{count(hidden)} more column{'' if hidden == 1 else 's'} not shown.")
    if section.more and any(said):
        said.append(section.more)
    first = " ".join(part for part in said if part)
    remarks = "".join(f'<p class="note">{text(part)}</p>' for part in [first, *notes(table)] if part)
    explained = [column for column in columns if column.help]
    if not explained:
        return remarks
    terms = "".join(f"<dt>{text(c.spec.heading)}</dt><dd>{text(c.help)}</dd>" for c in explained)
    return f'{remarks}<details class="columns"><summary>What the columns mean</summary><dl>{terms}</dl></details>'
