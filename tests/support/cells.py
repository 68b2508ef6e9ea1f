"""Cells of whole columns, to compare two tables."""

from __future__ import annotations

import numpy as np


def cells_of(column, shift):
    """What a column's `cell` gives for every row, floats moved by `shift` and rounded."""
    values, strings = column.values, column.strings
    if strings is not None:
        return [None if number < 0 else strings[number] for number in values.tolist()]
    if values.dtype.kind == "f":
        values = np.round(values + shift, 3)
    return [None if null else value for value, null in zip(values.tolist(), column.nulls().tolist(), strict=True)]
