"""Names for the groups of what has no name of its own: kernels under no annotation, calls of no operator. Pure."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tracetui.model.table import Table, coded


def named_groups(table: Table, by: str | None) -> Table:
    """A grouped table to read: a group without a name is called `(no annotation)`, after what rows are grouped by."""
    key = table.columns[0]
    if by is None or key.strings is None or not key.nulls().any():
        return table
    used, index = np.unique(key.values, return_inverse=True)
    names = [f"(no {key.spec.heading})" if each < 0 else key.strings[each] for each in used.tolist()]
    return replace(table, columns=(coded(key.spec, index, names), *table.columns[1:]))
