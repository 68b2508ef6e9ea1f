"""Groups in lists: their names, opening one and closing it again."""

import pytest

from tests.support.app import keys, settle, shown, training
from tests.support.build import kernel, launch, make_trace, op, step
from tests.support.compared_app import shown as compared
from tracetui.drawing.format import named_groups
from tracetui.model.table import Table, numbers, texts
from tracetui.opening.trace_opening import SideName


def two_streams():
    """Kernels on two streams, of which only one was launched by an operator."""
    events = [
        step(1, 0, 900_000),
        op("aten::mm", 10_000, 50_000),
        launch(20_000, 5_000, 1),
        launch(100_000, 5_000, 2),
        kernel("gemm", 60_000, 200_000, correlation=1),
        kernel("lonely", 120_000, 50_000, correlation=2, stream="stream 8"),
    ]
    return make_trace(events)


def listed(app) -> list[str]:
    table = app.list.table
    return [table["short_name"].cell(row) for row in app.list.order.tolist()]


async def grouped_by(app, pilot, by: str) -> None:
    while app.view.panes.arrangement.by != by:
        await keys(pilot, "b")
        await settle(pilot)


@pytest.mark.parametrize(
    ("by", "label", "rows"),
    [
        ("name", "gemm", ["gemm"]),
        ("op", "aten::mm", ["gemm"]),
        ("annotation", "(no annotation)", ["gemm", "lonely"]),
    ],
)
@pytest.mark.full
async def test_enter_opens_a_group_and_escape_closes_it(by: str, label: str, rows: list[str]) -> None:
    async with shown(two_streams()) as (app, pilot):
        await grouped_by(app, pilot, by)
        assert app.list.text == label
        await keys(pilot, "enter")
        assert listed(app) == rows
        assert f"{by} {label} {len(rows)}" in app.view.panes._bar.text
        await keys(pilot, "escape")
        assert app.view.panes.arrangement.by == by
        assert app.list.text == label


async def test_a_group_without_a_name_is_opened() -> None:
    async with shown(two_streams()) as (app, pilot):
        await grouped_by(app, pilot, "op")
        await keys(pilot, "j")
        assert app.list.text == "(no op)"
        await keys(pilot, "enter")
        assert listed(app) == ["lonely"]
        await keys(pilot, "escape")
        assert (app.list.text, app.list.cursor) == ("(no op)", 1)


@pytest.mark.full
async def test_the_group_of_a_stream_is_opened() -> None:
    async with shown(two_streams()) as (app, pilot):
        await grouped_by(app, pilot, "stream")
        names = []
        for _ in range(2):
            await keys(pilot, "enter")
            names += listed(app)
            await keys(pilot, "escape", "j")
        assert names == ["gemm", "lonely"]


async def test_escape_clears_the_filter_in_a_group_before_it_closes_the_group() -> None:
    async with shown(training()) as (app, pilot):
        for name in ("A", "b", "enter"):
            await keys(pilot, name)
        await keys(pilot, "F", *"step == 2", "enter")
        assert listed(app) == ["gemm"]
        await keys(pilot, "escape")
        assert listed(app) == ["gemm"] * 3
        await keys(pilot, "full_stop")
        assert app.selected == "gemm"
        await keys(pilot, "b")
        assert (app.view.panes.arrangement.group, app.view.panes.arrangement.by) == (None, "name")


@pytest.mark.full
async def test_a_group_of_changes_is_opened_and_closed(eager: SideName, compiled: SideName) -> None:
    async with compared(eager, compiled, (200, 50)) as (app, pilot):
        await keys(pilot, "b")
        family = app.listed("family")[1]
        await keys(pilot, "j", "enter")
        assert set(app.listed("family")) == {family}
        assert app.view.panes.change >= 0
        await keys(pilot, "escape")
        assert app.listed("family")[app.view.panes.view.cursor] == family
        assert len(app.listed("family")) > 1


def test_only_groups_without_a_name_are_given_one() -> None:
    table = Table((texts("op", ["a", None]), numbers("calls", [1, 2])))
    assert [row["op"] for row in named_groups(table, "op").rows()] == ["a", "(no op)"]
    assert named_groups(table, None) is table
    assert named_groups(table.take(table.order("calls")[:1]), "op").columns[0].strings is table.columns[0].strings
