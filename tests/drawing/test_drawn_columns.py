"""Columns of lists that are drawn: which there is room for, where the bar stands, and what a step's words say."""

import numpy as np
import pytest

from tracetui.drawing.drawn_columns import (
    RowGraphics,
    StepTimes,
    drawn_columns,
    odd_words,
    part_pieces,
    step_part_cells,
)
from tracetui.drawing.format import cell_at, evidence_parts
from tracetui.drawing.hues import Hue
from tracetui.kernel_names.slice_names import Family
from tracetui.model import columns as col
from tracetui.model.table import Table, micros, numbers, texts
from tracetui.tables.step_table import OddStep, scale_of_bars

NAMES = ["name", "calls", "self_device_us", "self_cpu_us"]


def _ops() -> Table:
    return Table(
        (
            texts(col.OP_NAME, ["aten::mm", "all_reduce", "aten::t"]),
            numbers(col.CALLS, np.array([3, 2, 9])),
            micros(col.SELF_DEVICE_US, np.array([60_000, 20_000, 0])),
            micros(col.SELF_CPU_US, np.array([1_000, 2_000, 4_000])),
        )
    )


def _text(pieces: list[tuple[str, Hue | None]]) -> str:
    return "".join(text for text, _ in pieces)


def test_a_bar_is_on_the_scale_of_the_largest_and_in_the_hue_of_its_row() -> None:
    families = np.array([Family.GEMM, Family.COMMUNICATION, -1])
    share, bar = drawn_columns(_ops(), RowGraphics(("self_device_us",), families), NAMES, None, 90)
    assert share.pieces(0, 6, False)[0][0].strip() == "75 %"
    assert bar.pieces(0, 9, False) == [("█" * 9, Hue.GEMM)]
    assert bar.pieces(1, 9, False) == [("███", Hue.COMMUNICATION)]
    assert _text(bar.pieces(2, 9, False)) == ""


@pytest.mark.parametrize(
    ("sort", "after"), [(None, "self_device_us"), ("self_cpu_us", "self_cpu_us"), ("calls", "self_device_us")]
)
def test_the_bar_moves_to_the_time_that_sorts(sort: str | None, after: str) -> None:
    assert drawn_columns(_ops(), RowGraphics(("self_device_us",)), NAMES, sort, 90)[-1].after == after


def test_a_narrow_list_has_no_bars() -> None:
    assert drawn_columns(_ops(), RowGraphics(("self_device_us",)), NAMES, None, 50) == []


def test_only_one_step_stands_out() -> None:
    """Of two that are long none is the odd one, and a row without time has none."""
    times = np.array([[10.0, 10, 10, 20], [10.0, 20, 20, 10], [0.0, 0, 0, 0]])
    steps = StepTimes((2, 3, 4, 6), times)
    assert steps.outlier(0) == (3, 2.0)
    assert steps.outlier(1) is None and steps.outlier(2) is None


def test_an_odd_step_in_words_names_what_grew_first() -> None:
    assert (
        odd_words(OddStep(4, -0.027, (("comm", 59_500.0), ("idle", -68_300.0))))
        == "▲ −3 % comm +59.5 ms, idle −68.3 ms"
    )
    assert odd_words(OddStep(0, 0.004, ())).strip() == "0 %"
    assert odd_words(None) == ""


def test_the_parts_of_steps_are_on_one_scale() -> None:
    """The longest step fills the bar; without colours textures tell the parts apart."""
    parts = {"compute": np.array([40.0, 20.0]), "comm": np.array([20.0, 10.0]), "idle": np.array([40.0, 10.0])}
    assert [cells for _, cells in step_part_cells(parts, 0, 10)] == [4, 2, 4]
    assert sum(cells for _, cells in step_part_cells(parts, 1, 10)) == 4
    assert len({text[0] for text, _ in part_pieces(step_part_cells(parts, 0, 10), plain=True)}) == 3


def test_evidence_is_drawn_from_its_sums_and_not_from_limits() -> None:
    text = "2,417 gaps below 1 ms, 143.37 ms; 3.96 ms in longer ones; 4,458 launches of 8.0 µs in the median"
    assert evidence_parts(text) == [("2,417 gaps below 1 ms", 143_370.0), ("in longer ones", 3_960.0)]


@pytest.mark.parametrize(
    ("lengths", "scale"),
    [([1022, 20, 59], 59), ([40, 30, 20], 40), ([20, 1022, 59], 1022), ([7], 7), ([], 1e-9), ([9, 0, 0], 9)],
)
def test_a_first_step_far_longer_than_the_others_is_not_the_scale_of_their_bars(
    lengths: list[float], scale: float
) -> None:
    assert scale_of_bars(lengths) == scale


def test_a_factor_has_two_decimals_on_both_sides_of_one() -> None:
    column = numbers(col.TO_MEDIAN, np.array([0.994, 1.004, 2.5]))
    assert [cell_at(column, row) for row in range(3)] == ["0.99", "1.00", "2.50"]
