"""Tables of a comparison as text: which rows an overview leaves out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.support.comparing import tutorial
from tracetui.comparing.side import side
from tracetui.comparing.statement import Comparison
from tracetui.drawing.text.comparison_text import Shown
from tracetui.model.table import Column, coded, texts


def test_rows_in_which_nothing_changed_are_left_out_of_an_overview_alone() -> None:
    told = Comparison(side(tutorial.mlp()), side(tutorial.mlp(tutorial.COMPILED)))
    same = replace(told.kernels, columns=tuple(_all_same(column) for column in told.kernels.columns))
    half = np.arange(len(told.kernels)) % 2 == 0
    mixed = replace(
        told.kernels,
        columns=tuple(
            replace(column, values=np.where(half, column.values, _all_same(column).values))
            if column.name == "change_us"
            else coded(column.spec, np.where(half, 0, 1), ["faster", "same"])
            if column.name == "mark"
            else column
            for column in told.kernels.columns
        ),
    )
    short, whole = (Shown("kernels", mixed, None, is_short) for is_short in (True, False))
    assert (len(short.readable), short.unread) == (int(half.sum()), int((~half).sum()))
    assert (len(whole.readable), whole.unread) == (len(mixed), 0)
    assert len(short.cut) == len(mixed), "JSON has every row"
    assert len(Shown("kernels", same, None, True).readable) == len(same)


def _all_same(column: Column) -> Column:
    if column.name == "mark":
        return texts(column.spec, ["same"] * len(column))
    return replace(column, values=np.zeros(len(column))) if column.name == "change_us" else column
