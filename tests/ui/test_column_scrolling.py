"""Columns that do not fit: every one of them can be scrolled to, in every pane and on every width."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.app import Shown, keys, shown, to_pane, training
from tests.support.serving import Served, decode, served
from tracetui.model.table import ColumnSpec, TextKind
from tracetui.model.trace import Trace
from tracetui.panes import PANES
from tracetui.ui.widgets.columns import ShownColumn, layout_of, scrolled

MAX_PRESSES = 60


def server() -> Trace:
    """A server whose steps have requests, kernels, pauses within and between them, and several sizes of a batch."""
    prefill = Served("execute_context_2(700)_generation_0(0)", 1_000, 90, [("nvjet_tst_128x128", 1_020, 80)])
    return served([*(decode(index, busy=20 + 10 * (index % 3), requests=1 + index % 3) for index in range(9)), prefill])


def reached(layout: list[ShownColumn], width: int) -> list[str]:
    """Columns that are on screen for some number of presses of the key."""
    seen: list[str] = []
    for skipped in range(len(layout) + 1):
        columns, is_more = scrolled(layout, skipped, width)
        seen += [each.spec.name for each, _ in columns]
        if not is_more:
            return seen
    raise AssertionError("there are always more columns")


@pytest.mark.parametrize("make", [server, training])
def test_every_column_of_every_pane_is_reached_on_every_width(make) -> None:
    trace = make()
    for name, pane in PANES.items():
        for by in (None, *pane.offered(trace)):
            table = pane.build(trace, None, by)
            layout = layout_of(name, table, by)
            for width in (18, 38, 58, 70, 78, 98, 118, 158, 198):
                missing = {each.spec.name for each in layout} - set(reached(layout, width))
                assert not missing, f"{name} by {by} at {width}: {sorted(missing)}"


@st.composite
def _layouts(draw: st.DrawFn) -> list[ShownColumn]:
    kinds = st.sampled_from([TextKind.WORD, TextKind.PROSE, TextKind.NAME])
    layout = []
    for index in range(draw(st.integers(1, 14))):
        grow, text = draw(st.integers(0, 2)), draw(kinds)
        spec = ColumnSpec(f"c{index}", f"c{index}", grow=grow, text=text, is_key=draw(st.booleans()))
        width = draw(st.integers(2, 30))
        layout.append(ShownColumn(spec, spec.name, width, width * draw(st.integers(0, 2)) * grow, draw(st.booleans())))
    return layout


@given(_layouts(), st.integers(2, 120))
def test_every_column_of_any_layout_is_reached(layout: list[ShownColumn], width: int) -> None:
    assert set(reached(layout, width)) == {each.spec.name for each in layout}


def test_the_names_stay_and_a_verdict_behind_numbers_is_none() -> None:
    numbers = [ShownColumn(ColumnSpec(name, name), name, 8) for name in "abcde"]
    name = ShownColumn(ColumnSpec("name", "name", grow=1, text=TextKind.NAME), "name", 12, 12, is_text=True)
    verdict = ShownColumn(ColumnSpec("verdict", "verdict", grow=1, text=TextKind.PROSE), "verdict", 12, 12, True)

    def names(layout: list[ShownColumn], skipped: int, width: int = 40) -> list[str]:
        return [each.spec.name for each, _ in scrolled(layout, skipped, width)[0]]

    assert names([name, *numbers], 1) == ["name", "b", "c"]
    assert names([numbers[0], name, *numbers[1:]], 1) == ["a", "name", "c"]
    assert names([numbers[0], verdict, *numbers[1:]], 1)[:2] == ["a", "b"]
    assert names([*numbers, name], 2)[:2] == ["a", "d"]
    # Where a column does not fit beside the name it is read without it.
    assert names([name, *numbers], 1, 20) == ["a"]


@pytest.mark.full
@pytest.mark.parametrize("size", [(80, 24), pytest.param((120, 40), marks=pytest.mark.nightly)])
@pytest.mark.parametrize("make", [server, training])
async def test_right_shows_the_heading_of_every_column(make, size: tuple[int, int]) -> None:
    async with shown(make(), size) as (app, pilot):
        for name in PANES:
            await keys(pilot, *to_pane(name))
            view = app.list
            if app.view.panes.pane != name or view.table is None or not len(view.order) or view._cards is not None:
                continue
            if name == "overview":
                # It is a picture.
                continue
            wanted = {each.title for each in layout_of(name, view.table, app.view.panes.arrangement.by)}
            seen = headings(app, wanted)
            for _ in range(MAX_PRESSES):
                await keys(pilot, "right")
                seen |= headings(app, wanted)
                if not view._more_columns:
                    break
            assert seen == wanted, f"{name}: {sorted(wanted - seen)}"
            assert not view._more_columns


def headings(app: Shown, wanted: set[str]) -> set[str]:
    """Those of some headings that are on screen in full."""
    view = app.list
    line = view._line(view._above - 1).text
    return {title for title in wanted if title in line and title in {each.title for each, _ in view._columns}}
