"""Two traces on one screen, by keys and text: the tutorial's MLP, eager beside compiled."""

from pathlib import Path
from threading import Event

import pytest
from textual.pilot import Pilot

from tests.support.app import opened, settle
from tests.support.build import op, step
from tests.support.compared_app import Compared, compared, shown
from tests.support.comparing import tutorial
from tests.support.comparing.recording import write
from tests.support.waiting import until
from tracetui.errors import UsageError
from tracetui.model.trace import Trace
from tracetui.opening.trace_opening import SideName
from tracetui.ui import open_comparison
from tracetui.ui.app import MAX_SCREENS, TraceApp
from tracetui.ui.base.keys import all_commands
from tracetui.ui.compare.compare_view import CompareScreen
from tracetui.ui.compare.shown_part import ShownPart
from tracetui.ui.opening.trace_picker import TracePicker
from tracetui.ui.trace.marks import ComparePicker
from tracetui.ui.trace.trace_screen import TraceScreen
from tracetui.ui.widgets.bar import Bar
from tracetui.ui.widgets.details import Details
from tracetui.ui.widgets.picker import HelpScreen
from tracetui.ui.widgets.statement import StatementView

SIZES = [(200, 50), (80, 24), (120, 40)]


@pytest.mark.full
async def test_two_traces_side_by_side(eager: SideName, compiled: SideName, monkeypatch: pytest.MonkeyPatch) -> None:
    """One app, as a person goes through it: to start it takes longer than all that is looked at."""
    written: list[str] = []

    def write_out(_: Trace) -> str:
        written.append("a trace")
        return written[-1]

    monkeypatch.setattr(Trace, "__repr__", write_out)
    async with shown(eager, compiled) as (app, pilot):
        for part in (
            the_change_that_saves_most_is_lit_in_both,
            panning_and_zooming_move_both,
            walking_through_a_lights_the_partners_in_b,
            selecting_in_the_timeline_of_b_lights_a,
            too_small_is_a_sentence_and_growing_brings_it_back,
            every_key_is_in_the_palette_and_the_help,
            both_steps_begin_at_the_same_cell,
            steps_move_in_both_and_instances_follow,
            swapping_turns_signs_round,
        ):
            await part(app, pilot)
            app.view.panes.view.focus()
            await settle(pilot)
    assert written == [], "textual describes its workers by their arguments, which is every column as text"


async def the_change_that_saves_most_is_lit_in_both(app: Compared, pilot: Pilot[int]) -> None:
    for size in SIZES:
        await pilot.resize_terminal(*size)
        await settle(pilot)
        assert app.listed("mark")[0] == "- fused"
        assert {tutorial.GELU, tutorial.MUL} <= app.highlighted(0)
        assert tutorial.GEGLU in app.highlighted(1)
        assert "eager.json" in app.text("#header") and "compiled.json" in app.text("#header")
        assert "701 → 642 µs" in app.view.compared.statement[0]
        assert "[4]   period 708.2 µs · CPU 106.1 µs" in app.text("#part-0").replace(" ▸", "")
        for lanes in app.view.timelines.lanes:
            assert lanes.size.height >= 3


async def panning_and_zooming_move_both(app: Compared, pilot: Pilot[int]) -> None:
    a, b = app.view.timelines.lanes
    # All of both, as it is at the beginning and not as a change of size left it, which is the same but for rounding.
    await pilot.press("0")
    before = a.window
    a.focus()
    await pilot.press("plus", "l", "l")
    await pilot.pause()
    assert a.window is not None and b.window is not None and a.window != before
    assert (a.window.first, a.window.ns_per_cell) == (b.window.first, b.window.ns_per_cell)
    b.focus()
    await pilot.press("h")
    await pilot.pause()
    assert a.window.first == b.window.first
    await pilot.press("0")
    await pilot.pause()
    assert a.window == before
    await pilot.resize_terminal(90, 30)
    await pilot.pause()
    assert (a.window.first, a.window.ns_per_cell) == (b.window.first, b.window.ns_per_cell)


async def walking_through_a_lights_the_partners_in_b(app: Compared, pilot: Pilot[int]) -> None:
    walked = []
    app.view.highlighted.selected = (-1, -1)
    for _ in range(5):
        await pilot.press("full_stop")
        await pilot.pause()
        walked.append((app.selected(0), app.selected(1)))
    gemm, fused = tutorial.GATE_UP, tutorial.GEGLU
    assert walked == [
        (gemm, gemm),
        (gemm, gemm),
        (tutorial.GELU, fused),
        (tutorial.MUL, fused),
        (tutorial.DOWN, tutorial.DOWN),
    ]
    assert app.listed("op")[app.view.panes.view.cursor] == "aten::mm"
    await pilot.press("full_stop")
    assert "A has no kernel after this one" in app.text("#hints")
    await pilot.press("comma")
    await pilot.pause()
    # What went into one kernel is lit together.
    assert tutorial.GELU in app.highlighted(0) and app.selected(0) == tutorial.MUL
    assert app.view.panes.view.located and app.view.panes.view.cursor == 0


async def selecting_in_the_timeline_of_b_lights_a(app: Compared, pilot: Pilot[int]) -> None:
    b = app.view.timelines.lanes[1]
    trace = app.view.compared.comparison.b.trace
    row = int(app.view.compared.parts[1].activities[2])
    b.focus()
    b._select(row)
    await pilot.pause()
    assert trace.name_of(row) == app.selected(1) == tutorial.GEGLU
    assert {tutorial.GELU, tutorial.MUL} <= app.highlighted(0)
    assert "B: " in app.text("#hints")


async def too_small_is_a_sentence_and_growing_brings_it_back(app: Compared, pilot: Pilot[int]) -> None:
    await pilot.resize_terminal(50, 10)
    await pilot.pause()
    assert not app.view.display
    await pilot.press("X")
    assert app.view.compared.sides[0].trace.label == "eager.json"
    await pilot.resize_terminal(80, 24)
    await pilot.pause()
    assert app.view.display and app.view.panes.view.has_focus


async def every_key_is_in_the_palette_and_the_help(app: Compared, pilot: Pilot[int]) -> None:
    titles = {found.binding.description for found in all_commands(app.screen)}
    assert {"Swap A and B", "Next kernel of A", "Open in its trace", "Pan left", "Fit the selection"} <= titles
    await pilot.press("question_mark")
    await pilot.pause()
    assert isinstance(app.screen, HelpScreen)
    shown_titles = {row[1] for row in app.screen._rows}
    assert {"Swap A and B", "Copy the row, copy the command", "change_us"} <= shown_titles
    await pilot.press("escape")


async def both_steps_begin_at_the_same_cell(app: Compared, pilot: Pilot[int]) -> None:
    first, second = (ShownPart(side, 0) for side in app.view.compared.sides)
    app.view.show_parts((first, second))
    await settle(pilot)
    await pilot.press("right_curly_bracket")
    await settle(pilot)
    assert [part.number for part in app.view.compared.parts] == [2, 3]
    windows = [lanes.window for lanes in app.view.timelines.lanes]
    cells = []
    for window, part in zip(windows, app.view.compared.parts, strict=True):
        assert window is not None
        cells.append((window.cell_of(part.start), window.first, window.ns_per_cell))
    assert cells[0] == cells[1]
    await pilot.press("left_curly_bracket")


async def steps_move_in_both_and_instances_follow(app: Compared, pilot: Pilot[int]) -> None:
    await pilot.press("right_square_bracket")
    await settle(pilot)
    assert [part.number for part in app.view.compared.parts] == [3, 3]
    assert "[3]" in app.text("#part-0") and "[3]" in app.text("#part-1")
    assert {tutorial.GELU, tutorial.MUL} <= app.highlighted(0)
    mine = set(app.view.compared.parts[0].activities.tolist())
    assert app.view.timelines.lanes[0].selected in mine
    app.view.timelines.lanes[0].focus()
    await pilot.press("right_curly_bracket")
    await settle(pilot)
    assert [part.number for part in app.view.compared.parts] == [4, 3]
    await pilot.press("right_square_bracket", "right_square_bracket")
    await settle(pilot)
    # Neither side moves where one cannot: the pair stays a pair.
    assert [part.number for part in app.view.compared.parts] == [4, 3]
    assert "A has no step after this one: } moves B alone" in app.text("#hints")


async def swapping_turns_signs_round(app: Compared, pilot: Pilot[int]) -> None:
    await pilot.press("X")
    await settle(pilot)
    assert app.view.compared.sides[0].trace.label == "compiled.json"
    assert app.listed("mark")[0] == "+ split"
    assert tutorial.GEGLU in app.highlighted(0) and tutorial.MUL in app.highlighted(1)
    assert app.text("#header").index("compiled.json") < app.text("#header").index("eager.json")


@pytest.mark.full
async def test_tabs_group_sort_search_and_filter(eager: SideName, compiled: SideName) -> None:
    async with shown(eager, compiled, (200, 50)) as (app, pilot):
        panes = app.view.panes
        await pilot.press("b")
        assert set(app.listed("family")) == {"gemm", "pointwise"}
        assert app.listed("change_us")[0] == pytest.approx(-59.8, abs=1)
        await pilot.press("b", "b", "b")
        assert panes.arrangement.by is None
        await pilot.press("2")
        await settle(pilot)
        assert panes.pane == "ops"
        assert "- fused" in app.listed("mark")
        await pilot.press("F", *"gelu", "enter")
        await pilot.pause()
        assert "aten::gelu" in app.listed("name") and len(app.listed("name")) < 4
        assert app.listed("name")[0] in app.highlighted(0) | app.highlighted(1)
        await pilot.press("escape", "slash", *"linear", "enter")
        await pilot.pause()
        assert app.listed("name")[panes.view.cursor] == "aten::linear"
        assert app.selected(0) == "aten::linear" and app.selected(1) == ""
        await pilot.press("escape", "3")
        await pilot.pause()
        assert "GPU busy" in app.listed("measure")
        assert app.listed("a")[app.listed("measure").index("kernels")] == "5"
        await pilot.press("o", "O")
        assert panes.arrangement.sort is not None


async def test_a_tab_is_found_as_it_was_left(eager: SideName, compiled: SideName) -> None:
    async with shown(eager, compiled, (200, 50)) as (app, pilot):
        view = app.view.panes.view
        await pilot.press("end")
        kernels = view.cursor
        assert kernels > 0
        for key, cursor in (("2", 0), ("3", 0), ("1", kernels)):
            await pilot.press(key)
            await settle(pilot)
            assert view.cursor == cursor, key


@pytest.mark.full
async def test_a_slice_opens_in_its_trace_and_back(eager: SideName, compiled: SideName) -> None:
    async with shown(eager, compiled) as (app, pilot):
        await pilot.press("g")
        await settle(pilot)
        assert isinstance(app.screen, TraceScreen) and app.screen.label == "eager.json"
        assert app.screen.trace.name_of(app.screen.view.selected) == tutorial.GELU
        assert app.screen.view.step == 4
        await pilot.press("full_stop", "backspace")
        await settle(pilot)
        assert isinstance(app.screen, CompareScreen)
        await pilot.press("G")
        await settle(pilot)
        assert isinstance(app.screen, TraceScreen) and app.screen.label == "compiled.json"
        await pilot.press("escape")
        await settle(pilot)
        assert isinstance(app.screen, CompareScreen)
        await pilot.press("g")
        await settle(pilot)
        assert isinstance(app.screen, TraceScreen) and app.screen.label == "eager.json"
        assert app.screen.trace.name_of(app.screen.view.selected) == tutorial.GELU


@pytest.mark.full
async def test_steps_of_one_trace_from_its_own_screen(eager: SideName) -> None:
    app = TraceApp([eager.path])
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(app, pilot)
        assert "c compare" in app.screen.query_one("#hints", Bar).text
        await pilot.press("c")
        await settle(pilot)
        assert isinstance(app.screen, ComparePicker)
        # A picker has a help, and never ends what is below.
        assert "? help" in app.screen.query_one("#hints", Bar).text
        await pilot.press("question_mark")
        await settle(pilot)
        assert isinstance(app.screen, HelpScreen)
        await pilot.press("escape", "escape")
        await settle(pilot)
        assert isinstance(app.screen, TraceScreen) and app.return_code is None
        # From the step of the median period, which is the last, to the one before.
        await pilot.press("left_square_bracket", "c")
        await settle(pilot)
        assert isinstance(app.screen, ComparePicker)
        await pilot.press("enter")
        await compared(app, pilot)
        assert isinstance(app.screen, CompareScreen)
        assert [side.scope for side in app.screen.view.compared.sides] == ["2", "3"]
        await pilot.press("2", "right_square_bracket")
        await settle(pilot)
        assert isinstance(app.screen, CompareScreen)
        assert [side.scope for side in app.screen.view.compared.sides] == ["3", "4"]
        assert app.screen.view.panes.pane == "ops"
        # A slice of it opens above, and backspace comes back to it as it was, however often.
        comparison = app.screen
        for _ in range(3):
            await pilot.press("j", "g")
            await settle(pilot)
            assert isinstance(app.screen, TraceScreen)
            await pilot.press("backspace")
            await settle(pilot)
            assert app.screen is comparison
        await pilot.press("escape")
        await settle(pilot)
        assert isinstance(app.screen, TraceScreen) and not app.screen.is_over_another


@pytest.mark.full
async def test_a_comparison_that_takes_long_says_so_and_escape_gives_it_up(
    eager: SideName, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on, ended = Event(), Event()

    def wait(*_: object) -> None:
        goes_on.wait(5)
        ended.set()
        raise UsageError("nobody waits for this")

    monkeypatch.setattr(open_comparison, "_side", wait)
    app = TraceApp([eager.path])
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(app, pilot)
        await pilot.press("c")
        await settle(pilot)
        await pilot.press("enter")
        hints = app.screen_stack[1].query_one("#hints", Bar)
        await until(pilot, lambda: "Comparing step 3 with step 4" in hints.text, "nobody knows what goes on")
        assert "esc gives up" in hints.text
        await pilot.press("escape")
        assert "Nothing is compared" in hints.text and isinstance(app.screen, TraceScreen)
        goes_on.set()
        await until(pilot, ended.is_set, "the comparison goes on")
        await settle(pilot)
        assert isinstance(app.screen, TraceScreen) and "nobody waits" not in hints.text
        # Escape has its own meaning again.
        assert not app.check_action("stop_comparing", ())


@pytest.mark.nightly
async def test_comparisons_of_slices_of_comparisons_end_somewhere(eager: SideName) -> None:
    app = TraceApp([eager.path])
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(app, pilot)
        depths: list[int] = []
        for _ in range(4):
            await pilot.press("c", "enter")
            await compared(app, pilot)
            assert isinstance(app.screen, CompareScreen)
            await pilot.press("j", "g")
            await settle(pilot)
            assert isinstance(app.screen, TraceScreen)
            depths.append(len(app.screen_stack))
        assert max(depths) <= MAX_SCREENS


async def test_two_traces_of_a_list(eager: SideName, compiled: SideName) -> None:
    app = TraceApp([str(Path(eager.path).parent)])
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        assert isinstance(app.screen, TracePicker)
        await pilot.press("c")
        assert "space" in app.screen.query_one("#title", Bar).text
        marked = str(app.screen.choices[0])
        await pilot.press("space", "j", "c")
        await compared(app, pilot)
        assert isinstance(app.screen, CompareScreen)
        assert app.screen.view.compared.paths[0] == marked
        assert set(app.screen.view.compared.paths) == {eager.path, compiled.path}
        # Back to the list, whose help closes before it, and it before the app.
        await pilot.press("backspace")
        await settle(pilot)
        assert isinstance(app.screen, TracePicker)
        await pilot.press("question_mark")
        await settle(pilot)
        assert isinstance(app.screen, HelpScreen)
        await pilot.press("escape", "escape")
        await settle(pilot)
        assert isinstance(app.screen, CompareScreen) and app.return_code is None


async def test_a_part_that_is_not_there_is_a_sentence(eager: SideName) -> None:
    async with shown(eager, SideName(eager.path, "9")) as (app, _):
        assert isinstance(app.failure, UsageError)
        assert "no step 9" in str(app.failure)
        assert app.return_code == 2


async def test_a_second_file_that_is_no_trace_is_a_sentence(eager: SideName, tmp_path: Path) -> None:
    (tmp_path / "odd.json").write_text("hello")
    async with shown(eager, SideName(str(tmp_path / "odd.json"))) as (app, _):
        assert "odd.json" in str(app.failure)
        assert app.return_code == 1


@pytest.mark.full
async def test_the_same_file_twice_says_so_and_an_error_within_the_app_leaves_it_open(
    eager: SideName, tmp_path: Path
) -> None:
    odd = tmp_path / "odd.json"
    odd.write_text('{"traceEvents": [')
    async with shown(eager, eager) as (app, pilot):
        assert "the same" in app.view.compared.statement[0]
        assert set(app.listed("mark")) <= {"= same", "? noise"}
        for name, said in (
            (SideName(str(odd)), "odd.json"),
            (eager._replace(scope="nothing"), "'nothing'"),
            (eager._replace(scope="mlp_fwd[7]"), "there is no run 7"),
        ):
            app._opener.start(eager, name)
            await settle(pilot)
            await compared(app, pilot)
            assert app.failure is None
            assert said in app.text("#hints")


@pytest.mark.full
async def test_what_leaves_the_app(eager: SideName, compiled: SideName, tmp_path: Path) -> None:
    folder = tmp_path / "data" / "tracetui" / "exports"
    async with shown(eager._replace(scope="3"), compiled._replace(scope="mlp_fwd[2]")) as (app, pilot):
        await pilot.press("y")
        text = (folder / "change.md").read_text()
        assert "fused into" in text and "eager.json#3" in text
        await pilot.press("Y")
        command = (folder / "command.txt").read_text()
        assert command == f"tracetui open '{eager.path}#3' '{compiled.path}#mlp_fwd[2]'"
        await pilot.press("e")
        assert "3 rows" in app.text("#hints")
        (made,) = folder.glob("*.csv")
        assert made.read_text().startswith("mark,")
        assert "|" in made.with_suffix(".md").read_text()


@pytest.mark.full
async def test_what_is_said_fits_or_is_one_key_away(eager: SideName, compiled: SideName) -> None:
    async with shown(eager, compiled, (80, 24)) as (app, pilot):
        said = app.view.query_one(StatementView)
        assert said.size.height == 1
        assert "V: all" in said.render_line(0).text
        await pilot.press("V")
        await pilot.pause()
        assert said.size.height > 5 and not app.view.timelines.display
        await pilot.press("escape", "i")
        await pilot.pause()
        assert app.view.timelines.display
        details = app.view.query_one(Details)
        assert details.has_focus
        text = "\n".join(line.text for line in details.lines)
        assert "149.6 µs in 2 calls" in text and tutorial.GEGLU in text and "A by step" in text
        await pilot.press("escape")
        assert app.view.panes.view.has_focus


async def test_resizing_while_loading(eager: SideName, compiled: SideName) -> None:
    app = Compared(eager, compiled)
    async with app.run_test(size=(200, 50)) as pilot:
        await pilot.resize_terminal(80, 24)
        await compared(app, pilot)
        assert app.listed("mark")[0] == "- fused"
        assert sum(lanes.size.height for lanes in app.view.timelines.lanes) < 12


@pytest.mark.full
async def test_without_a_gpu_operators_go_with_operators(tmp_path: Path) -> None:
    def events(gelu: int) -> list:
        found = []
        for number in range(3):
            at = number * 1_000_000
            found += [step(number + 1, at, 900_000), op("aten::mm", at + 10_000, 300_000)]
            found += [op("aten::gelu", at + 400_000, gelu), op("aten::mm", at + 700_000, 100_000)]
        return found

    a = SideName(str(write(events(200_000), tmp_path / "slow.json")))
    b = SideName(str(write(events(100_000), tmp_path / "fast.json")))
    async with shown(a, b) as (app, pilot):
        assert app.view.panes.pane == "ops"
        assert app.listed("name")[0] == "aten::gelu" and app.listed("mark")[0] == "- faster"
        app.view.highlighted.selected = (-1, -1)
        starts = []
        for _ in range(3):
            await pilot.press("full_stop")
            await pilot.pause()
            row = app.view.highlighted.selected[1]
            starts.append(
                int(app.view.compared.comparison.b.trace.slices.start[row]) - app.view.compared.parts[1].start
            )
        assert starts == [10_000, 400_000, 700_000]
        await pilot.press("1")
        await pilot.pause()
        assert "Neither side ran anything on a GPU" in app.view.panes.view.note


@pytest.mark.full
async def test_rows_in_which_nothing_changed_fold_and_z_lists_them(eager: SideName, compiled: SideName) -> None:
    async with shown(eager, compiled, (200, 50)) as (app, pilot):
        panes = app.view.panes
        await pilot.press("3")
        await settle(pilot)
        folded = app.listed("measure")
        left_out = "the same, z lists them"
        assert left_out in panes._bar.text
        await pilot.press("z")
        await settle(pilot)
        every = app.listed("measure")
        assert len(every) > len(folded) and set(folded) < set(every)
        assert left_out not in panes._bar.text
        await pilot.press("z")
        await settle(pilot)
        assert app.listed("measure") == folded
        await pilot.press("F", *"a == 0", "enter")
        await pilot.pause()
        assert set(app.listed("measure")) >= set(every) - set(folded)


async def test_noise_is_explained_where_it_stands(eager: SideName, compiled: SideName) -> None:
    async with shown(eager, compiled, (200, 50)) as (app, _):
        lines = [line.text for line in app.view.panes.details.lines]
        noise = next(line for line in lines if line.startswith("noise"))
        assert "unknown: each side is one step" in noise or "so much steps of one side differ" in noise
