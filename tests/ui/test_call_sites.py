"""Rows by line, function and module on the screen, and from a group to its rows."""

from __future__ import annotations

import pytest

from tests.support.app import keys, shown, to_pane
from tests.support.build import Event, kernel, launch, make_trace, op
from tracetui.model.trace import Kind, Trace


def two_functions() -> Trace:
    """`long` launches two kernels, `short` one, and one is launched outside of both."""
    events = []
    for number, name in enumerate(["a.py(5): long", "a.py(9): short", "a.py(5): long", ""]):
        at = 10_000 + 500_000 * number
        events += [
            *([Event(name, at, 300_000, Kind.PYTHON)] if name else []),
            op("aten::mm", at + 10_000, 100_000),
            launch(at + 20_000, 5_000, number + 1),
            kernel("gemm", at + 200_000, 40_000 - 1_000 * number, correlation=number + 1),
        ]
    return make_trace(events)


def column(app: object, name: str) -> list[object]:
    table = app.list.table  # type: ignore[attr-defined]
    return [table[name].cell(int(row)) for row in app.list.order]  # type: ignore[attr-defined]


@pytest.mark.full
async def test_groups_by_function_lead_to_the_kernels_of_the_function() -> None:
    async with shown(two_functions(), (160, 45)) as (app, pilot):
        groups = list(app.view.panes.groupings)
        assert groups[-1:] == ["function"] and "line" not in groups
        await keys(pilot, *["b"] * len(groups))
        assert app.view.panes.arrangement.by == "function"
        assert column(app, "function") == ["a.py(5): long", "a.py(9): short", "(no function)"]
        await keys(pilot, "enter")
        assert column(app, "function") == ["a.py(5): long"] * 2
        await keys(pilot, "escape")
        await keys(pilot, "end", "enter")
        assert column(app, "function") == [None]


async def test_operators_by_function_lead_to_the_longest_call() -> None:
    async with shown(two_functions(), (160, 45)) as (app, pilot):
        await keys(pilot, *to_pane("ops"))
        await keys(pilot, *["b"] * len(app.view.panes.groupings))
        await keys(pilot, "enter")
        assert app.selected == "aten::mm" and app.view.lanes.has_focus
