"""Filtering a list by a text or by a condition on columns, as it is typed."""

import pytest

from tests.support.app import keys, settle, shown, training
from tests.support.compared_app import shown as compared
from tracetui.opening.trace_opening import SideName
from tracetui.ui.widgets.list_finder import TypedText


def rows(app) -> list[str]:
    table = app.list.table
    return [table["short_name"].cell(row) for row in app.list.order.tolist()]


async def test_a_condition_on_columns_filters_and_escape_clears_it() -> None:
    async with shown(training()) as (app, pilot):
        await keys(pilot, "F", *"dur > 100us & op ~ linear", "enter")
        assert rows(app) == ["gemm"]
        assert "filter 'dur > 100us" in app.view.panes._bar.text
        await keys(pilot, "escape")
        assert len(rows(app)) == 2


async def test_rows_stay_until_a_condition_is_whole_and_the_mistake_is_pointed_at() -> None:
    async with shown(training()) as (app, pilot):
        await keys(pilot, "F", *"dur > ")
        assert len(rows(app)) == 2
        below = app.view.search_line.below.text
        assert below.strip() == "^ The expression ends where a value should follow."
        assert below.index("^") == len("filter ") + 1 + len("dur > ")
        await keys(pilot, *"100")
        assert rows(app) == ["gemm"]
        assert app.view.search_line.below.text == ""


async def test_a_mistyped_column_keeps_the_rows_of_the_condition_before_it() -> None:
    async with shown(training()) as (app, pilot):
        await keys(pilot, "F", *"dur > 100us & ")
        kept, tab = rows(app), "filter 'dur > 100us'"
        assert kept
        for letter in "opp ~ mm":
            await keys(pilot, letter)
            assert rows(app) == kept
        assert tab in app.view.panes._bar.text
        assert "no column 'opp'" in app.view.search_line.below.text
        await keys(pilot, "enter")
        assert rows(app) == kept and tab in app.view.panes._bar.text
        await keys(pilot, *["backspace"] * len("opp ~ mm"), *"zzz", "enter")
        # A word that is accepted is a text, which no row contains.
        assert rows(app) == [] and "No row fits" in app.list.note


async def test_enter_does_not_accept_what_is_not_understood() -> None:
    async with shown(training()) as (app, pilot):
        await keys(pilot, "F", *"colour == red", "enter")
        assert app.view.search_line.is_open
        assert "There is no column 'colour'" in app.view.search_line.below.text
        assert len(rows(app)) == 2
        await keys(pilot, *["backspace"] * len("colour == red"))
        await keys(pilot, *"relu", "enter")
        assert not app.view.search_line.is_open
        assert rows(app) == ["relu_kernel"]


async def test_tab_completes_the_name_of_a_column() -> None:
    async with shown(training()) as (app, pilot):
        await keys(pilot, "F", *"gemm | la")
        assert app.view.search_line.below.text.startswith("tab launch_")
        await keys(pilot, "tab")
        await keys(pilot, *"delay_us < 1ms")
        assert app.view.search_line.query_one(TypedText).value == "gemm | launch_delay_us < 1ms"
        assert len(rows(app)) == 2


async def test_the_beginning_of_a_name_that_stands_nowhere_keeps_the_rows_while_it_is_typed() -> None:
    async with shown(training()) as (app, pilot):
        await keys(pilot, "F", *"dur")
        assert len(rows(app)) == 2
        await keys(pilot, "enter")
        assert rows(app) == []
        assert "No row contains 'dur'" in app.list.note


async def test_a_condition_that_does_not_fit_other_rows_says_so() -> None:
    async with shown(training()) as (app, pilot):
        await keys(pilot, "F", *"gap > 0us", "enter")
        await keys(pilot, "b")
        await settle(pilot)
        assert rows(app) == []
        assert "does not fit this list: There is no column 'gap'" in app.list.note
        await keys(pilot, "escape")
        assert len(rows(app)) == 2


@pytest.mark.full
async def test_changes_of_a_comparison_are_filtered_by_columns(eager: SideName, compiled: SideName) -> None:
    async with compared(eager, compiled, (200, 50)) as (app, pilot):
        await keys(pilot, "F", *"family == gemm & change_us < 0", "enter")
        listed = app.listed("family")
        assert listed and set(listed) == {"gemm"}
        await keys(pilot, "F", *"family == gemm & b > 1s", "enter")
        assert app.listed("family") == []
        assert "No row fits" in app.view.panes.view.note


async def test_the_keys_that_end_a_filter_are_not_said_to_work_elsewhere() -> None:
    async with shown(training()) as (app, pilot):
        await keys(pilot, "F", *"relu", "enter")
        assert "works" not in app.text("#hints")
        await keys(pilot, "F", *"relu", "escape")
        assert "works" not in app.text("#hints")


@pytest.mark.full
async def test_a_filter_of_thousands_of_characters_is_named_in_short() -> None:
    async with shown(training()) as (app, pilot):
        await keys(pilot, "F", *("名" + "x" * 300), "enter")
        assert rows(app) == []
        assert "No row contains '名xxx" in app.list.note and len(app.list.note) < 200
        await keys(pilot, "F", *"relu")
        # Both at once: escape is for what enter has ended.
        await keys(pilot, "enter", "escape")
        assert app.view.panes.arrangement.filter == ""


async def test_what_a_pattern_matches_is_listed_below_it() -> None:
    async with shown(training()) as (app, pilot):
        await keys(pilot, "F", *"op ~ lin")
        assert app.view.search_line.below.text.strip() == "matches aten::linear"
        await keys(pilot, *" & ")
        assert not app.view.search_line.below.text.startswith("matches")
