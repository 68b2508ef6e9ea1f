from dataclasses import replace

import numpy as np
import pytest
from textual.app import App, ComposeResult

from tests.support.build import Event, kernel, launch, make_trace, step
from tracetui.drawing.drawn_columns import drawn_columns, row_graphics
from tracetui.model import columns as col
from tracetui.model.table import ColumnSpec, Table, micros, numbers, texts
from tracetui.panes import PANES
from tracetui.ui.widgets.columns import ShownColumn, fitted, layout_of, placed, sorting_column, with_drawn
from tracetui.ui.widgets.tabbed_list import ListArrangement, arrange
from tracetui.ui.widgets.table_view import TableView


def table_of(count: int) -> Table:
    return Table(
        (
            numbers("index", np.arange(1, count + 1)),
            texts("short_name", [f"kernel {i % 7}" for i in range(count)]),
            micros("dur_us", np.arange(count) * 1000 % 5000),
        ),
        np.arange(count) + 100,
    )


class Listing(App[None]):
    def __init__(self, table: Table) -> None:
        super().__init__()
        self.table = table
        self.moves: list[tuple[int, int]] = []

    def compose(self) -> ComposeResult:
        yield TableView()

    def on_mount(self) -> None:
        view = self.query_one(TableView)
        view.show("kernels", self.table, np.arange(len(self.table)), note="No kernels here.")
        view.focus()

    def on_table_view_row_highlighted(self, message: TableView.RowHighlighted) -> None:
        self.moves.append((message.row, message.slice_row))

    @property
    def lines(self) -> list[str]:
        view = self.query_one(TableView)
        return [strip.text for strip in view.render_lines(view.size.region)]


async def test_keys_move_the_cursor_and_tell_the_slice() -> None:
    app = Listing(table_of(1000))
    async with app.run_test(size=(60, 12)) as pilot:
        await pilot.press("j", "j", "k")
        assert app.moves[-1] == (1, 101)
        await pilot.press("end")
        assert app.query_one(TableView).cursor == 999
        assert app.lines[-1].startswith("▸  1000")
        await pilot.press("j", "home", "ctrl+d")
        assert app.query_one(TableView).cursor == 10


async def test_a_placed_cursor_tells_nobody() -> None:
    app = Listing(table_of(50))
    async with app.run_test(size=(60, 12)) as pilot:
        assert app.query_one(TableView).put_cursor_on_slice(140)
        assert not app.query_one(TableView).put_cursor_on_slice(7)
        await pilot.pause()
        assert app.query_one(TableView).row == 40
        assert app.moves == []


async def test_a_click_selects_a_row() -> None:
    app = Listing(table_of(50))
    async with app.run_test(size=(60, 12)) as pilot:
        await pilot.click(TableView, offset=(5, 3))
        assert app.moves == [(2, 102)]


async def test_a_headline_stays_above_the_titles_and_moves_the_rows() -> None:
    words = "What the rows come to, in a sentence that is longer than one line of the list and even longer than two."
    app = Listing(replace(table_of(50), headline=words))
    async with app.run_test(size=(40, 12)) as pilot:
        assert app.lines[0].startswith(" What the rows come to, in a")
        assert app.lines[1].rstrip().endswith("…")
        assert "index" in app.lines[2] and app.lines[3].startswith("▸     1")
        await pilot.click(TableView, offset=(5, 5))
        assert app.moves[-1] == (2, 102)
        await pilot.click(TableView, offset=(5, 1))
        assert app.moves[-1] == (2, 102)
        await pilot.press("end")
        assert app.lines[0].startswith(" What the rows") and app.lines[-1].startswith("▸    50")
        await pilot.press("k")
        assert app.lines[-2].startswith("▸    49")
        await pilot.resize_terminal(40, 4)
        assert "index" in app.lines[0], "the rows need the room"
        await pilot.resize_terminal(140, 12)
        assert app.lines[0].strip() == words and "index" in app.lines[1]


async def test_an_empty_list_says_why() -> None:
    app = Listing(table_of(0))
    async with app.run_test(size=(60, 12)) as pilot:
        await pilot.press("j", "end", "enter", "ctrl+d")
        assert "No kernels here." in app.lines[1]
        assert app.moves in ([], [(-1, -1)] * len(app.moves))


async def test_a_million_rows_are_no_burden() -> None:
    count = 1_000_000
    app = Listing(Table((numbers("index", np.arange(count)),), np.arange(count)))
    async with app.run_test(size=(40, 12)) as pilot:
        await pilot.press("end", "k")
        assert app.moves[-1] == (count - 2, count - 2)
        assert len(app.query_one(TableView)._strips) < 100


def test_the_least_important_columns_are_dropped_first() -> None:
    layout = [
        ShownColumn(ColumnSpec("a", "A"), "A", 5),
        ShownColumn(ColumnSpec("b", "B", grow=1), "B", 10),
        ShownColumn(ColumnSpec("c", "C"), "C", 8),
    ]
    assert [(shown.spec.name, width) for shown, width in fitted(layout, 40)] == [("a", 5), ("b", 21), ("c", 8)]
    assert [shown.spec.name for shown, _ in fitted(layout, 20)] == ["a", "b"]


def test_a_verdict_is_read_in_full_before_the_number_beside_it() -> None:
    numbered = [ShownColumn(ColumnSpec(name, name), name, 8) for name in "abcde"]
    verdict = ShownColumn(col.VERDICT, "verdict", 18, 31)
    named = [(shown.spec.name, width) for shown, width in fitted([*numbered, verdict], 78)]
    assert named == [("a", 8), ("b", 8), ("c", 8), ("d", 8), ("verdict", 36)]
    # Where there is room for both, and where the column is no verdict, all stay.
    assert len(fitted([*numbered, verdict], 83)) == 6
    assert len(fitted([*numbered, ShownColumn(col.OP, "op", 18, 31)], 78)) == 6


def test_a_column_without_values_is_left_out() -> None:
    table = Table((numbers("index", [1]), texts("op", [None]), texts("short_name", ["gemm"])))
    assert [shown.spec.name for shown in layout_of("kernels", table)] == ["index", "short_name"]


def test_cells_are_cut_by_width_and_not_by_letters() -> None:
    assert placed("内核名称", 5, False) == "内核…"
    assert placed("ab", 4, True) == "  ab"


def test_sorting_and_filtering_survive_another_table() -> None:
    arrangement = ListArrangement(filter="kernel 1").sorted_by("dur_us", table_of(10))
    assert arrangement.descending
    assert arrange(table_of(30), arrangement).tolist() == [29, 8, 22, 1, 15]
    assert not arrangement.sorted_by("dur_us", table_of(10)).descending


def test_a_kind_that_is_unknown_everywhere_takes_no_room() -> None:
    """In a list of steps; where one is known the column stays."""
    kinds: list[list[str | None]] = [["unknown"] * 4, ["unknown", "decode", None, "unknown"]]
    for kind in kinds:
        period = micros(col.PERIOD_US, np.array([4, 2, 3, 1]) * 1000)
        table = Table((numbers(col.STEP, np.arange(4)), texts(col.KIND, kind), period))
        shown = [column.spec.name for column in layout_of("steps", table)]
        assert ("kind" in shown) == ("decode" in kind)


async def test_numbers_that_happen_to_be_in_order_have_no_arrow() -> None:
    """Only a column that sorts the rows by declaration, or that the user chose."""
    app = Listing(table_of(50))
    async with app.run_test(size=(60, 12)) as pilot:
        await pilot.pause()
        assert "▴" not in app.lines[0] and "▾" not in app.lines[0]


def test_the_time_by_which_a_table_comes_sorted_has_the_arrow() -> None:
    falling = np.arange(9, 0, -1) * 1000
    layout = layout_of("kernels", Table((numbers(col.CALLS, falling), micros(col.TOTAL_US, falling))))
    assert sorting_column(layout, ("total_us",)) == ("total_us", True)
    assert sorting_column(layout, ()) == (None, False)


async def test_sentences_below_the_rows_are_shown_as_far_as_they_have_room() -> None:
    app = Listing(table_of(3))
    async with app.run_test(size=(40, 12)) as pilot:
        view = app.query_one(TableView)
        view.below = "A layer is a repeat of kernels. " * 6
        for height, is_whole in ((12, True), (8, False), (4, False)):
            await pilot.resize_terminal(40, height)
            await pilot.pause()
            assert view.is_below_whole == is_whole
            assert app.lines[-1].rstrip().endswith(" …") == (height == 8)


@pytest.mark.parametrize("width", [120, 145, 600])
def test_what_is_off_the_median_of_steps_stands_in_the_list_once(width: int) -> None:
    """It is drawn where there is room for little, and not listed in words as well where there is room for all."""
    events: list[Event] = []
    for number, dur in enumerate((100, 100, 100, 150)):
        at = 1_000_000 * number
        events += [step(number, at, 900_000), launch(at + 10, 100, number + 1)]
        events.append(kernel("gemm", at + 1_000, 1_000 * dur, correlation=number + 1))
    trace = make_trace(events)
    table = PANES["steps"].build(trace)
    layout = layout_of("steps", table)
    names = [column.spec.name for column in layout]
    drawn = drawn_columns(table, row_graphics(trace, "steps", None, table), names, None, width)
    columns, _ = with_drawn(layout, drawn, 0, width)
    assert [column.title for column, _ in columns].count("Δ median") == 1
