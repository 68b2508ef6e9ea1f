"""Marking two parts of a trace with space and comparing them with c."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot

from tests.support.app import Shown, keys, opened, settle, shown, training
from tests.support.build import Event, kernel, launch, make_trace, op
from tests.support.waiting import until
from tracetui.comparing.side import side
from tracetui.errors import UsageError
from tracetui.model.trace import Kind, Trace
from tracetui.ui.app import TraceApp
from tracetui.ui.compare.compare_view import CompareScreen
from tracetui.ui.compare.several_screen import SeveralScreen
from tracetui.ui.trace.marks import MarkedPart, part_of_slice
from tracetui.ui.trace.trace_screen import TraceScreen


def variants() -> Trace:
    """`slow` is called twice, `fast` once; each call launches kernels, and there is a module and an annotation."""
    events = [Event("a.py(1): main", 0, 9_000_000, Kind.PYTHON)]
    number = 0
    for index, (name, count) in enumerate([("a.py(5): slow", 3), ("a.py(9): fast", 1), ("a.py(5): slow", 3)]):
        at = 100_000 + 2_000_000 * index
        events += [Event(name, at, 1_500_000, Kind.PYTHON), Event("nn.Module: Net_0", at + 10, 1_400_000, Kind.PYTHON)]
        events += [Event("note", at + 20, 1_300_000, Kind.ANNOTATION)]
        for each in range(count):
            number += 1
            begin = at + 10_000 + 100_000 * each
            events += [
                op("aten::mm", begin, 50_000),
                launch(begin + 10_000, 5_000, number),
                kernel("gemm", begin + 30_000, 40_000, correlation=number),
            ]
    return make_trace(events)


async def compared(app: Shown, pilot: Pilot[int]) -> tuple[str, str]:
    """The scopes of the comparison that is opened."""
    await until(pilot, lambda: isinstance(app.screen, CompareScreen), "nothing is compared")
    screen = app.screen
    assert isinstance(screen, CompareScreen)
    a, b = screen.view.compared.sides
    return a.scope, b.scope


def screen(app: Shown) -> TraceScreen:
    shown_screen = app.screen
    assert isinstance(shown_screen, TraceScreen)
    return shown_screen


@pytest.mark.full
async def test_two_single_calls_of_the_tree_are_compared() -> None:
    async with shown(variants(), (160, 45)) as (app, pilot):
        await keys(pilot, "C", "b", "b")
        assert app.view.panes.arrangement.by == "call"
        await keys(pilot, "home", "j", "left", "left", "right", "j", "space")
        assert [part.scope for part in screen(app).marked_parts] == ["slow[1]"]
        assert "space marks another one" in app.text("#hints")
        await keys(pilot, "left", "j", "space")
        assert [part.title for part in screen(app).marked_parts] == ["slow[1]", "fast"]
        await keys(pilot, "c")
        assert await compared(app, pilot) == ("slow[1]", "fast")
        await keys(pilot, "escape")
        assert screen(app).marked_parts == []


async def test_one_mark_is_compared_with_what_is_current() -> None:
    async with shown(variants(), (160, 45)) as (app, pilot):
        groups = list(app.view.panes.groupings)
        await keys(pilot, *["b"] * (groups.index("function") + 1))
        await keys(pilot, "home", "space", "j")
        await keys(pilot, "c")
        assert await compared(app, pilot) == ("a.py(5): slow", "a.py(9): fast")


@pytest.mark.full
async def test_steps_and_sources_of_steps_are_parts_too() -> None:
    async with shown(training(), (160, 45)) as (app, pilot):
        await keys(pilot, "8", "home", "space", "end", "space", "c")
        assert await compared(app, pilot) == ("1", "3")
    async with shown(variants(), (160, 45)) as (app, pilot):
        await keys(pilot, "B", "home", "space")
        (part,) = screen(app).marked_parts
        assert part == MarkedPart("note", 3) and part.title == "note (3 runs)"


async def test_a_mark_goes_when_it_is_set_again_and_the_last_one_is_replaced() -> None:
    async with shown(training(), (160, 45)) as (app, pilot):
        await keys(pilot, "8", "home", "space", "j", "space", "j", "space")
        assert [part.scope for part in screen(app).marked_parts] == ["1", "3"]
        await keys(pilot, "space", "home", "space")
        assert screen(app).marked_parts == [] and "No longer marked: step 1." in app.text("#hints")
        # Without a mark, c offers what it always did.
        await keys(pilot, "c")
        assert not isinstance(app.screen, TraceScreen | CompareScreen)


async def test_a_kernel_is_no_part() -> None:
    async with shown(variants(), (160, 45)) as (app, pilot):
        await keys(pilot, "1", "space")
        assert screen(app).marked_parts == [] and "compared with nothing" in app.text("#hints")
        await keys(pilot, "M", "space", "9", "space")
        assert screen(app).marked_parts == []


@pytest.mark.parametrize(
    ("name", "scope"),
    [("a.py(9): fast", "fast"), ("a.py(5): slow", "slow[1]"), ("nn.Module: Net_0", "Net_0[1]"), ("note", "note[1]")],
)
def test_the_scope_of_a_slice_is_its_run(name: str, scope: str) -> None:
    trace = variants()
    row = next(row for row in range(len(trace.slices)) if trace.name_of(row) == name)
    assert part_of_slice(trace, row) == MarkedPart(scope, 1)


def test_a_run_within_a_run_is_named_by_its_event() -> None:
    trace = make_trace([Event("f.py(1): f", 0, 100, Kind.PYTHON), Event("f.py(1): f", 10, 50, Kind.PYTHON)])
    assert part_of_slice(trace, 0) == MarkedPart("f", 1)
    assert part_of_slice(trace, 1) == MarkedPart(f"e{trace.slices.event[1]}", 1)
    assert part_of_slice(trace, -1) is None


def namesakes() -> Trace:
    """Two networks that each call a module `Norm_0`, the second one twice."""
    events = []
    for index, (net, calls) in enumerate((("A_0", 1), ("B_0", 2))):
        at = 1_000_000 * index
        events += [Event(f"nn.Module: {net}", at, 900_000, Kind.PYTHON)]
        for each in range(calls):
            begin, number = at + 10_000 + 200_000 * each, 10 * index + each + 1
            events += [Event("nn.Module: Norm_0", begin, 100_000, Kind.PYTHON), op("aten::mm", begin + 10, 50_000)]
            events += [launch(begin + 20, 5_000, number), kernel("k", begin + 30_000, 20_000, correlation=number)]
    return make_trace(events)


async def test_namesakes_of_the_tree_are_compared_with_each_other() -> None:
    async with shown(namesakes(), (160, 45)) as (app, pilot):
        await keys(pilot, "C", "home", "j", "space")
        assert [part.title for part in screen(app).marked_parts] == ["/A_0/Norm_0"]
        await keys(pilot, "j", "right", "j", "space")
        assert [part.title for part in screen(app).marked_parts] == ["/A_0/Norm_0", "/B_0/Norm_0 (2 runs)"]
        await keys(pilot, "c")
        assert await compared(app, pilot) == ("/A_0/Norm_0", "/B_0/Norm_0")


async def test_a_group_of_a_module_is_marked_by_its_path_where_it_has_namesakes() -> None:
    async with shown(namesakes(), (160, 45)) as (app, pilot):
        groups = list(app.view.panes.groupings)
        await keys(pilot, *["b"] * (groups.index("module") + 1))
        await keys(pilot, "home", "space")
        (part,) = screen(app).marked_parts
        table = app.view.panes.view.table
        assert table is not None
        assert part.scope == "/" + str(table.columns[0].cell(app.view.panes.view.row)).replace(" / ", "/")
        assert part.scope in ("/A_0/Norm_0", "/B_0/Norm_0")


def test_a_path_names_the_calls_below_a_module() -> None:
    trace = namesakes()
    runs = {scope: len(side(trace, scope)) for scope in ("Norm_0", "A_0/Norm_0", "/B_0/Norm_0", "/B_0 / Norm_0[2]")}
    assert runs == {"Norm_0": 3, "A_0/Norm_0": 1, "/B_0/Norm_0": 2, "/B_0 / Norm_0[2]": 1}
    for wrong in ("/Norm_0", "B_0/A_0", "A_0/Norm_0[2]", "/"):
        with pytest.raises(UsageError):
            side(trace, wrong)


def test_a_path_of_functions_is_that_of_their_tree() -> None:
    trace = variants()
    assert len(side(trace, "/main/slow/Net_0")) == 2
    assert len(side(trace, "fast/Net_0")) == 1


@pytest.mark.full
async def test_the_variants_of_a_puzzler_are_two_keys_away(shared_trace) -> None:
    app = TraceApp([str(shared_trace("puzzlers/fusion_mwe_trace.json.gz"))])
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(app, pilot)
        await pilot.press("c", "enter")
        await until(pilot, lambda: isinstance(app.screen, SeveralScreen), "nothing is compared")
        await settle(pilot)
        screen = app.screen
        assert isinstance(screen, SeveralScreen)
        for ratio in ("8.45x faster", "2.54x faster", "10.27x faster", "fused, compiled 4.04x faster"):
            assert ratio in screen.bars.text
        # Any two of them in full: the last row is C with D.
        await pilot.press("enter", "end", "enter")
        await until(pilot, lambda: isinstance(app.screen, CompareScreen), "no two are compared")
        await settle(pilot)
        assert isinstance(app.screen, CompareScreen)
        assert [each.scope for each in app.screen.view.compared.sides] == ["unfused[2]", "fused[2]"]
        assert app.screen.view.bars.text.startswith("unfused, compiled → fused, compiled    4.04x faster")
