"""The tree of modules on the screen: open and close rows, follow the selection, jump to the first call."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.app import Shown, keys, shown, to_pane
from tests.support.build import Event, kernel, launch, make_trace, op
from tracetui.model.table import Table, numbers, texts
from tracetui.model.trace import Kind, Trace
from tracetui.ui.trace.pane_parts import RowTree
from tracetui.ui.widgets.table_view import CLOSED, LEAF, OPEN


def net(calls: int = 2, layers: int = 30) -> Trace:
    """Calls of a model of many layers with a kernel each: more than are listed at first."""
    events, number = [], 0
    for call in range(calls):
        at = 1_000 + 4_000_000 * call
        events.append(Event("nn.Module: Net_0", at, 3_900_000, Kind.PYTHON))
        for layer in range(layers):
            number += 1
            begin = at + 1_000 + 100_000 * layer
            events += [
                Event(f"nn.Module: Linear_{layer}", begin, 90_000, Kind.PYTHON),
                op("aten::linear", begin + 100, 50_000),
                launch(begin + 200, 5_000, number),
                kernel("gemm", begin + 10_000, 50_000, correlation=number),
            ]
    return make_trace(events)


def listed(app: Shown) -> list[str]:
    table = app.list.table
    assert table is not None
    return [str(table.columns[0].cell(int(row))) for row in app.list.order]


@pytest.mark.full
async def test_rows_open_and_close_and_lead_to_the_first_call() -> None:
    async with shown(net(), (160, 45)) as (app, pilot):
        await keys(pilot, "C")
        assert listed(app) == ["▸ Net_0"]
        await keys(pilot, "enter")
        assert listed(app)[:3] == ["▾ Net_0", "    Linear_0", "    Linear_1"] and len(listed(app)) == 31
        # The cursor selects the first call.
        await keys(pilot, "j", "j")
        assert app.selected == "nn.Module: Linear_1"
        assert app.trace.slices.start[app.view.selected] == 102_000
        await keys(pilot, "enter")
        assert app.view.lanes.has_focus and app.view.window is not None
        assert app.view.window.start_ns < 102_000 < app.view.window.end_ns(app.view.lanes.cells) < 400_000


async def test_arrows_open_close_and_go_to_the_row_above() -> None:
    async with shown(net(), (160, 45)) as (app, pilot):
        await keys(pilot, "C", "right")
        assert len(listed(app)) == 31
        await keys(pilot, "j", "left")
        assert app.list.cursor == 0 and app.selected == "nn.Module: Net_0"
        await keys(pilot, "left")
        assert listed(app) == ["▸ Net_0"]
        await keys(pilot, "left", "h")
        assert listed(app) == ["▸ Net_0"]


@pytest.mark.full
async def test_the_cursor_follows_the_selection_to_the_innermost_listed_row() -> None:
    async with shown(net(), (160, 45)) as (app, pilot):
        await keys(pilot, "C", "enter", *to_pane("kernels"), "end")
        assert app.selected == "gemm"
        await keys(pilot, "C")
        # The last kernel is of the second call, whose row is that of the first.
        assert listed(app)[app.list.cursor].strip() == "Linear_29" and app.list.located
        await keys(pilot, "b", "b")
        assert app.view.panes.arrangement.by == "call"
        assert listed(app) == ["▸ Net_0", "▸ Net_0"] and app.list.cursor == 1


async def test_a_selection_outside_all_modules_leaves_the_cursor_on_the_first_row() -> None:
    outside = [op("aten::copy_", 10, 500), launch(20, 5, 900), kernel("copy", 100, 200, correlation=900)]
    async with shown(make_trace([*outside, *_events(net())]), (160, 45)) as (app, pilot):
        await keys(pilot, "home")
        assert app.selected == "copy"
        await keys(pilot, "C")
        assert listed(app) == ["▸ Net_0", "  (outside)"] and app.list.cursor == 0 and not app.list.located
        # Moved to, the row is that of the selection.
        await keys(pilot, "j")
        assert app.list.cursor == 1 and app.list.located


@pytest.mark.full
async def test_a_filter_or_a_sort_lists_rows_of_all_levels() -> None:
    async with shown(net(), (160, 45)) as (app, pilot):
        await keys(pilot, "C")
        await keys(pilot, "F", *"inear", "enter")
        assert len(listed(app)) == 30 and all("Linear" in text for text in listed(app))
        await keys(pilot, "left", "escape")
        assert listed(app) == ["▸ Net_0"]
        await keys(pilot, "o")
        assert len(listed(app)) == 31
        await keys(pilot, "left", "right", "e", "y", "Y")
        assert app.view.panes.pane == "modules"


async def test_open_rows_stay_open_in_another_step() -> None:
    events = [Event(f"ProfilerStep#{n}", 4_000_000 * (n - 1), 4_000_000, Kind.ANNOTATION) for n in (1, 2)]
    source = net()
    trace = make_trace([*events, *_events(source)])
    async with shown(trace, (160, 45)) as (app, pilot):
        await keys(pilot, "C", "left", "left", "left", "right")
        assert len(listed(app)) == 31
        before = app.view.step
        await keys(pilot, "right_square_bracket")
        assert app.view.step != before and len(listed(app)) == 31


def _events(trace: Trace) -> list[Event]:
    s = trace.slices
    return [
        Event(
            trace.name_of(row),
            int(s.start[row]),
            int(s.dur[row]),
            Kind(int(s.kind[row])),
            (trace.lanes[int(s.lane[row])].pid, trace.lanes[int(s.lane[row])].tid),
            int(s.correlation[row]),
        )
        for row in range(len(s))
    ]


@pytest.mark.parametrize("size", [(200, 50), (80, 24)])
@pytest.mark.full
async def test_a_trace_without_frames_says_what_to_record(size: tuple[int, int]) -> None:
    trace = make_trace([op("aten::mm", 0, 100), launch(10, 5, 1), kernel("gemm", 50, 10, correlation=1)])
    async with shown(trace, size) as (app, pilot):
        await keys(pilot, "C", "enter", "right", "left", "b", "b", "b", "end", "e", "y")
        assert "with_stack=True" in app.list.note or "functions" in app.list.note


async def test_a_trace_without_frames_is_not_listed_by_function() -> None:
    trace = make_trace([op("aten::mm", 0, 100), launch(10, 5, 1), kernel("gemm", 50, 10, correlation=1)])
    async with shown(trace, (120, 40)) as (app, pilot):
        await keys(pilot, "C")
        assert app.view.panes.arrangement.by is None and "with_stack=True" in app.list.note


async def test_without_modules_the_functions_are_listed() -> None:
    trace = make_trace([Event("a.py(1): main", 0, 900, Kind.PYTHON), Event("a.py(5): f", 10, 50, Kind.PYTHON)])
    async with shown(trace, (120, 40)) as (app, pilot):
        await keys(pilot, "C")
        assert listed(app) == ["▾ main", "    f"]
        assert app.list.below.startswith("Functions are listed: no nn.Module was called")


@given(st.lists(st.integers(0, 4), min_size=1, max_size=40), st.data())
def test_what_is_listed_agrees_with_a_slow_walk(steps: list[int], data: st.DataObject) -> None:
    depth = [0]
    for step in steps:
        depth.append(min(step, depth[-1] + 1))
    count = len(depth)
    names = texts("tree", [f"{'  ' * level}n" for level in depth])
    table = Table((names, numbers("depth", depth), texts("path", ["p"] * count)))
    tree = RowTree.of(table)
    tree.opened = np.array(data.draw(st.lists(st.booleans(), min_size=count, max_size=count)))
    wanted: list[int] = []
    stack: list[int] = []
    for row, level in enumerate(depth):
        stack = stack[:level]
        if all(tree.opened[above] for above in stack):
            wanted.append(row)
        stack.append(row)
        inner = row + 1 < count and depth[row + 1] > level
        assert tree.states[row] == ((OPEN if tree.opened[row] else CLOSED) if inner else LEAF)
    assert tree.listed().tolist() == wanted
