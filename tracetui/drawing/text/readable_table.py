"""What of a table is read by eye: which columns say something, their cells as texts, and the remarks below.

The same for columns on a terminal, Markdown and a report; JSON and CSV carry everything.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracetui.drawing.format import cell_at, shorten
from tracetui.drawing.name_cutting import cut_name
from tracetui.kernel_names.slice_names import short_kernel
from tracetui.model.quantities import ABSENT
from tracetui.model.table import DOUBTFUL, Column, Table, TextKind
from tracetui.safe_text import clean

NAME_WIDTH = 60
"""Characters of a name in a table."""


def telling(table: Table) -> list[Column]:
    """The columns without those that hold nothing, and without long names beside short ones."""
    columns = [column for column in table.columns if not len(table) or not column.nulls().all()]
    if any(column.name == "short_name" for column in columns):
        columns = [column for column in columns if column.name != "name"]
    return columns


def shown_texts(column: Column, width: int = NAME_WIDTH) -> list[str]:
    """The column as texts to read, names shortened to `width`."""
    if column.strings is None:
        return [cell_at(column, row) for row in range(len(column))]
    shown = {-1: ABSENT}
    for i in np.unique(column.values).tolist():
        if i >= 0:
            text = column.strings[i]
            text = clean(short_kernel(text) if column.spec.text is TextKind.KERNEL else text)
            shown[i] = text if column.spec.text is TextKind.PROSE else cut_text(column, text, width)
    return [shown[i] for i in column.values.tolist()]


def cut_text(column: Column, text: str, width: int) -> str:
    """A text of a column in `width` characters; of a name what tells it from others stays."""
    return cut_name(text, width) if column.spec.text is TextKind.NAME else shorten(text, width)


def remarks(table: Table, shown: Sequence[Column], dropped: Sequence[Column] = (), offer: str = "") -> list[str]:
    """What a reader must know below a table: columns that are not there, and the table's own note.

    `offer` says how columns that were dropped are shown.
    """
    seen = {column.name for column in [*shown, *dropped]} | {"name"}
    empty = [column.spec.heading for column in table.columns if column.name not in seen]
    said = []
    if dropped:
        names = ", ".join(column.spec.heading for column in dropped)
        said.append(f"Not shown for want of width: {names}{f' ({offer})' if offer else ''}.")
    if empty:
        said.append(f"Without a value in these rows: {', '.join(empty)}.")
    return [*said, *notes(table)]


def notes(table: Table) -> list[str]:
    """The table's own note, and which columns are doubtful."""
    said = [clean(table.note)] if table.note else []
    if table.doubts:
        doubts = (f"{words}: {', '.join(_headings(table, names)) or 'all'}" for words, names in table.doubts.items())
        said.append(f"{DOUBTFUL} Doubtful, as health says: {'; '.join(doubts)}.")
    return said


def _headings(table: Table, names: Sequence[str]) -> list[str]:
    """The headings of columns of a table; what is no column of it keeps its name."""
    return [table[name].spec.heading if name in table else name for name in names]
