"""Walking through two traces: from step to step, to the ends of a part, and what is said and lit on the way."""

from pathlib import Path

import numpy as np
import pytest
from textual.pilot import Pilot

from tests.support.app import settle
from tests.support.build import op, step
from tests.support.compared_app import Compared, compared, shown
from tests.support.comparing import tutorial
from tests.support.comparing.recording import record, write
from tests.support.paths import SAMPLES
from tracetui.model.quantities import duration
from tracetui.opening.trace_opening import OpenOptions, SideName
from tracetui.ui.compare.compare_view import CompareScreen
from tracetui.ui.opening.loading_screen import LoadingScreen
from tracetui.ui.trace.trace_screen import TraceScreen
from tracetui.ui.widgets.bar import Bar
from tracetui.ui.widgets.details import Details
from tracetui.ui.widgets.statement import StatementView

pytestmark = pytest.mark.full


@pytest.fixture(autouse=True)
def _long_folder(_own_folder: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "a_rather_long_folder" / "data"))


def scopes(app: Compared) -> list[str]:
    return [side.scope for side in app.view.compared.sides]


async def press(pilot: Pilot[int], *keys: str) -> None:
    for key in keys:
        await pilot.press(key)
        await settle(pilot)


async def test_two_steps_of_one_trace(eager: SideName, monkeypatch: pytest.MonkeyPatch) -> None:
    app = Compared(eager._replace(scope="2"), eager._replace(scope="3"))
    said: list[str] = []
    begin = LoadingScreen.__init__

    def noted(screen: LoadingScreen, path: str, options: OpenOptions, remark: str = "") -> None:
        said.append(remark)
        begin(screen, path, options, remark)

    monkeypatch.setattr(LoadingScreen, "__init__", noted)
    async with app.run_test(size=(120, 40)) as pilot:
        await compared(app, pilot)
        assert said == [""], "one file is read once, and not called the first of two"
        for part in (
            one_of_two_single_steps_moves_alone,
            a_pair_never_collapses,
            other_steps_keep_the_screen_as_it_is,
        ):
            await part(app, pilot)


async def one_of_two_single_steps_moves_alone(app: Compared, pilot: Pilot[int]) -> None:
    await press(pilot, "right_curly_bracket")
    assert scopes(app) == ["2", "4"]
    assert "eager.json#4" in app.text("#header")
    await press(pilot, "right_curly_bracket")
    assert scopes(app) == ["2", "4"] and "B has no step after this one" in app.text("#hints")
    app.view.timelines.lanes[0].focus()
    await press(pilot, "right_curly_bracket")
    assert scopes(app) == ["3", "4"]


async def a_pair_never_collapses(app: Compared, pilot: Pilot[int]) -> None:
    await press(pilot, "right_square_bracket")
    assert scopes(app) == ["3", "4"]
    assert "B has no step after this one: } moves A alone" in app.text("#hints")
    await press(pilot, "left_square_bracket", "left_square_bracket")
    assert scopes(app) == ["2", "3"]
    assert "A has no step before this one: { moves B alone" in app.text("#hints")


async def other_steps_keep_the_screen_as_it_is(app: Compared, pilot: Pilot[int]) -> None:
    screen, panes = app.screen, app.view.panes
    a, b = app.view.timelines.lanes
    place = app.listed("short_name").index(app.listed("short_name")[-1])
    panes.view.cursor = place
    wanted = [app.listed(name)[place] for name in ("short_name", "op")]
    a.focus()
    await press(pilot, "plus", "plus", "l")
    assert a.window is not None
    before = a.window.first, a.window.ns_per_cell
    await press(pilot, "right_square_bracket")
    assert scopes(app) == ["3", "4"] and app.screen is screen and a.has_focus
    assert [(each.window.first, each.window.ns_per_cell) for each in (a, b) if each.window] == [before, before]
    assert a.window.origin == app.view.compared.parts[0].start
    assert [app.listed(name)[panes.view.cursor] for name in ("short_name", "op")] == wanted
    assert app.view.highlighted.selected[0] in app.view.compared.parts[0].activities
    panes.view.focus()
    await press(pilot, "b", "left_square_bracket")
    assert panes.arrangement.by == "family" and set(app.listed("family")) == {"gemm", "pointwise"}
    assert app.view.compared.statement and "Comparing" not in app.view.compared.statement[0]


async def test_a_walk_within_a_part(eager: SideName, compiled: SideName) -> None:
    async with shown(eager, compiled) as (app, pilot):
        await what_is_walked_to_is_described(app, pilot)
        await walking_in_a_lane_ends_with_the_part(app, pilot)
        app.view.panes.view.focus()
        await sorting_by_calls_sorts_by_those_of_a(app, pilot)


async def walking_in_a_lane_ends_with_the_part(app: Compared, pilot: Pilot[int]) -> None:
    a = app.view.timelines.lanes[0]
    last = int(app.view.compared.parts[0].activities[-1])
    a.focus()
    a._select(last)
    await press(pilot, "full_stop")
    assert a.selected == last
    assert "A has nothing after this slice on its row in step 4" in app.text("#hints")
    first = int(app.view.compared.parts[0].activities[0])
    a._select(first)
    await press(pilot, "comma")
    assert a.selected == first and "before this" in app.text("#hints")
    await press(pilot, "full_stop")
    assert a.selected == int(app.view.compared.parts[0].activities[1])


async def what_is_walked_to_is_described(app: Compared, pilot: Pilot[int]) -> None:
    app.view.highlighted.selected = (-1, -1)
    await press(pilot, "full_stop", "full_stop", "full_stop")
    row, trace = app.view.highlighted.selected[0], app.view.compared.comparison.a.trace
    assert app.text("#hints").startswith("A: kernel 3 of 5: gelu")
    lines = [line.text for line in app.view.query_one(Details).lines]
    facts = {line[:18].strip(): line[18:] for line in lines}
    assert facts["in A"] == "kernel 3 of 5"
    assert facts["lasts"] == f"{int(trace.slices.dur[row]) / 1000:.1f} µs"
    assert facts["starts at"] == duration(int(trace.slices.start[row]) - app.view.compared.parts[0].start)
    # The list leads again: the slice is no longer what the details are about.
    app.view.panes.view.focus()
    await press(pilot, "j")
    assert "kernel 3 of 5" not in app.text("#hints")
    assert "lasts" not in {line.text[:18].strip() for line in app.view.query_one(Details).lines}


async def sorting_by_calls_sorts_by_those_of_a(app: Compared, pilot: Pilot[int]) -> None:
    await press(pilot, *["o"] * (app.view.panes.view.shown_columns.index("calls_a") + 1))
    assert app.view.panes.arrangement.sort == "calls_a"
    assert "calls▾" in app.view.panes.view.render_lines(app.view.panes.view.size.region)[0].text


async def test_on_a_small_terminal(eager: SideName, compiled: SideName) -> None:
    async with shown(eager, compiled, (80, 24)) as (app, pilot):
        await columns_that_do_not_fit_are_said_and_scrolled_to(app, pilot)
        await one_press_comes_back_and_the_last_line_says_which(app, pilot)
        await a_message_keeps_the_name_of_its_file(app, pilot)
        for width in (120, 80, 60):
            await pilot.resize_terminal(width, 24)
            await settle(pilot)
            lines_never_cut_a_number(app)
    async with shown(eager._replace(scope="2"), compiled._replace(scope="2"), (60, 20)) as (app, _):
        the_verdict_takes_two_lines_where_it_must(app)


async def columns_that_do_not_fit_are_said_and_scrolled_to(app: Compared, pilot: Pilot[int]) -> None:
    view = app.view.panes.view
    assert {"calls_a", "change_us", "a_us", "b_us"} <= set(view.shown_columns)
    header = "".join(segment.text for segment in view._line(0))
    assert header.rstrip().endswith("›") and "calls" in header
    before = list(view.shown_columns)
    await press(pilot, "l", "l")
    header = "".join(segment.text for segment in view._line(0))
    assert header.startswith("‹")
    assert view.shown_columns[:2] == before[:2] and set(view.shown_columns) - set(before)
    await press(pilot, "h", "left", "h")
    assert view.shown_columns == before


async def a_message_keeps_the_name_of_its_file(app: Compared, pilot: Pilot[int]) -> None:
    await press(pilot, "ctrl+s")
    said = app.text("#hints")
    assert len(said) <= 78 and "…/" in said and said.rstrip().endswith(".svg") and "eager" in said


async def one_press_comes_back_and_the_last_line_says_which(app: Compared, pilot: Pilot[int]) -> None:
    await press(pilot, "g")
    assert isinstance(app.screen, TraceScreen)
    assert "back" in app.screen.query_one("#hints", Bar).text
    app.screen.notice("something that was said")
    await press(pilot, "escape")
    assert isinstance(app.screen, CompareScreen)
    await press(pilot, "g", "backspace")
    assert isinstance(app.screen, CompareScreen)
    hints = app.text("#hints")
    assert all(word in hints for word in ("tab parts", "? help", "q quit")) and len(hints) <= 78


def lines_never_cut_a_number(app: Compared) -> None:
    whole = {word for side in "01" for word in app.text(f"#part-{side}").split()}
    assert {"busy", "703.2"} <= whole or "busy" not in whole
    for bar in app.view.query(Bar):
        shown_text = "".join(text for text, _ in bar._fitting(bar.size.width))
        assert len(shown_text.rstrip()) <= bar.size.width
        if shown_text.rstrip() != bar.text.rstrip():
            kept = shown_text.rstrip("… ")
            assert shown_text.endswith("…") and not (kept[-1:].isdigit() and bar.text[len(kept)] in "0123456789.,")


def the_verdict_takes_two_lines_where_it_must(app: Compared) -> None:
    said = app.view.query_one(StatementView)
    assert len(app.view.compared.statement[0]) > 60 and said.size.height >= 1
    text = " ".join("".join(seg.text for seg in said.render_line(y)).strip() for y in range(said.size.height))
    # The line with the ratio above it takes the place of its second line.
    assert text.startswith(app.view.compared.statement[0][: 70 if said.size.height > 1 else 40])
    # The last word before the mark for more is whole.
    last = text.partition(" … V: all")[0].split()[-1]
    assert last in " ".join(app.view.compared.statement).split()


async def test_the_whole_capture_has_no_neighbour(eager: SideName) -> None:
    async with shown(eager._replace(scope="all"), eager._replace(scope="2")) as (app, pilot):
        await press(pilot, "right_square_bracket")
        assert scopes(app) == ["all", "2"] and "A is the whole capture" in app.text("#hints")
        await press(pilot, "right_curly_bracket")
        assert scopes(app) == ["all", "3"]


async def test_calls_without_a_partner_light_their_group(tmp_path: Path) -> None:
    programs = [(parts, tutorial._stack_calls(tutorial.EAGER, parts)) for parts in (16, 1)]
    a, b = (SideName(str(write(record("stack", calls), tmp_path / f"in_{parts}.json"))) for parts, calls in programs)
    async with shown(a, b) as (app, pilot):
        assert "16 → 1" in {str(each).strip() for each in app.listed("calls_a")}
        compared = app.view.compared
        trace = compared.sides[0].trace
        unmatched = [
            row
            for row in compared.parts[0].activities.tolist()
            if not len(compared.partners.of(0, row)) and "tanh" in trace.name_of(row)
        ]
        assert unmatched
        app.view.select(0, unmatched[0])
        await settle(pilot)
        assert {name for name in app.highlighted(1) if "tanh" in name}
        assert len(app.view.timelines.lanes[0].highlighted) >= 16
        assert "no match of its own" in app.text("#hints")


async def test_an_operator_lights_the_kernel_that_it_went_into_on_the_cpu() -> None:
    a, b = (SideName(str(SAMPLES / f"mlp_{how}_cpu.json.gz")) for how in ("eager", "compile"))
    async with shown(a, b) as (app, _):
        assert app.listed("name")[0] == "aten::gelu" and app.listed("mark")[0] == "- fused"
        assert "aten::gelu" in app.highlighted(0)
        assert any(name.startswith("graph_0_cpp_fused") for name in app.highlighted(1))
        part = app.view.compared.parts[1]
        assert part.side.part_of(np.array([app.view.highlighted.selected[1]]))[0] == part.part
        # The same from the timeline.
        app.view.select(0, int(app.view.compared.parts[0].calls_named("op", "aten::gelu")[0]))
        assert any(name.startswith("graph_0_cpp_fused") for name in app.highlighted(1))


async def test_fit_fills_the_window_with_the_group_of_the_side_in_focus(tmp_path: Path) -> None:
    def events(at: int) -> list:
        return [
            each
            for number in range(2)
            for each in (
                step(number + 1, number * 1_000_000, 900_000),
                op("aten::mm", number * 1_000_000 + at, 4_000),
                op("aten::gelu", number * 1_000_000 + 500_000, 1_000),
            )
        ]

    a = SideName(str(write(events(10_000), tmp_path / "a.json")))
    b = SideName(str(write(events(800_000), tmp_path / "b.json")))
    async with shown(a, b) as (app, pilot):
        for side, at in ((0, 10_000), (1, 800_000)):
            lanes = app.view.timelines.lanes[side]
            row = int(app.view.compared.parts[side].calls_named("op", "aten::mm")[0])
            app.view.select(side, row)
            lanes.focus()
            await press(pilot, "f")
            assert lanes.window is not None
            width = lanes.window.ns_per_cell * lanes.cells
            assert 4_000 < width < 4 * 4_000
            start = lanes.window.start_ns - app.view.compared.parts[side].start
            assert start < at and at + 4_000 < start + width
        app.view.panes.view.focus()
        # From the list: what lies too far apart is not shown as two slivers.
        app.view.select(0, int(app.view.compared.parts[0].calls_named("op", "aten::mm")[0]))
        await press(pilot, "f")
        assert lanes.window is not None and lanes.window.ns_per_cell * lanes.cells < 4 * 4_000


async def test_the_timelines_have_what_the_list_does_not_need(tmp_path: Path) -> None:
    events = [step(1, 0, 900_000)]
    events += [op(f"aten::level{depth}", 10_000 + depth * 100, 500_000 - depth * 300) for depth in range(14)]
    name = SideName(str(write(events, tmp_path / "deep.json")), "all")
    async with shown(name, name, (200, 50)) as (app, _):
        heights = [lanes.size.height for lanes in app.view.timelines.lanes]
        assert sum(heights) > 25 and min(heights) >= 12
        assert app.view.panes.size.height >= min(len(app.listed("name")) + 2, 12)
