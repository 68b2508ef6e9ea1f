"""The table of a set of ranks, and a late rank beside a median one, by keys and text."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from textual.pilot import Pilot

from tests.support.app import keys, settle
from tests.support.rank_files import write_ranks
from tests.support.rank_logs import size_reason, write_compiling_ranks
from tests.support.waiting import until
from tracetui.opening.rank_folder import RankOptions, RankSetName
from tracetui.opening.trace_opening import OpenOptions
from tracetui.ui.app import TraceApp
from tracetui.ui.base.keys import all_commands
from tracetui.ui.compare.compare_view import CompareScreen
from tracetui.ui.opening.trace_picker import TracePicker
from tracetui.ui.ranks.lanes_screen import MomentScreen, RankLanesScreen
from tracetui.ui.ranks.rank_list import compilation_lines
from tracetui.ui.ranks.rank_view import RankScreen, RankView
from tracetui.ui.trace.trace_screen import TraceScreen
from tracetui.ui.widgets.bar import Bar
from tracetui.ui.widgets.table_view import TableView


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_ranks(tmp_path / "run")


async def listed(app: TraceApp, pilot: Pilot[int]) -> RankView:
    """The view of the ranks once all tables are there."""
    await until(pilot, lambda: isinstance(app.screen, RankScreen), "the ranks are not shown")
    assert isinstance(app.screen, RankScreen)
    view = app.screen.view
    await until(pilot, lambda: view.panes.has("files"), "the tables are not there")
    await settle(pilot)
    return view


def column(view: RankView, name: str) -> list[object]:
    """The cells of a column as they are listed."""
    table = view.panes.table
    assert table is not None
    return [table[name].cell(int(row)) for row in view.panes.view.order]


@pytest.mark.full
async def test_a_folder_of_ranks_opens_their_table(run: Path) -> None:
    """One app, as a person goes through it: to start it takes longer than all that is looked at."""
    app = TraceApp([str(run)])
    async with app.run_test(size=(120, 40)) as pilot:
        view = await listed(app, pilot)
        for part in (
            the_late_rank_is_first_and_named,
            the_tabs_are_the_tables_of_the_command,
            all_sentences_take_the_place_of_the_tables_and_give_it_back,
            ranks_are_grouped_by_host,
            the_late_rank_is_shown_beside_another,
            marked_ranks_are_compared_and_drawn,
            a_rank_is_opened_alone_and_left_again,
            the_list_of_files_is_a_key_away,
        ):
            await part(app, pilot, view)
            assert app.screen is app.screen_stack[1], part.__name__


async def the_late_rank_is_first_and_named(app: TraceApp, pilot: Pilot[int], view: RankView) -> None:
    assert "4 ranks of 4" in view.query_one("#header", Bar).text
    assert view.statement.sentences[0].startswith("Rank 2 (node1) is late in every step")
    assert column(view, "rank")[0] == 2
    assert column(view, "cause")[0] == "kernels"
    lines = view.bars.text.splitlines()
    assert lines[0].endswith("made others wait") and lines[1].startswith("2 ") and lines[1].endswith("▲ kernels")


async def the_tabs_are_the_tables_of_the_command(app: TraceApp, pilot: Pilot[int], view: RankView) -> None:
    rows, described = {}, {}
    for key, name in zip("23456", ("collectives", "matrix", "groups", "steps", "files"), strict=True):
        await keys(pilot, key)
        assert view.panes.pane == name
        rows[name] = len(view.panes.view.order)
        described[name] = " ".join(line.text for line in view.panes.details.lines).strip()
    # Each tab describes its own row at once, and the list of files none.
    assert described["collectives"].startswith("allreduce of 4.0 MiB") and not described["files"]
    assert rows == {"collectives": 6, "matrix": 3, "groups": 1, "steps": 3, "files": 0}
    await keys(pilot, "1")


async def all_sentences_take_the_place_of_the_tables_and_give_it_back(
    app: TraceApp, pilot: Pilot[int], view: RankView
) -> None:
    for key, pane in (("V", "ranks"), ("escape", "ranks"), ("2", "collectives"), ("1", "ranks")):
        await keys(pilot, "V")
        assert not view.panes.display
        await keys(pilot, key)
        assert app.screen.has_class("-wide") and view.panes.display and not view.has_class("-statement")
        assert view.panes.pane == pane and app.screen.focused is view.panes.view


async def ranks_are_grouped_by_host(app: TraceApp, pilot: Pilot[int], view: RankView) -> None:
    await keys(pilot, "b")
    assert column(view, "host") == ["node1", "node0"]
    assert column(view, "worst_rank")[0] == 2
    await keys(pilot, "home", "enter")
    assert column(view, "rank") == [2, 3]
    await keys(pilot, "escape", "b")
    assert len(view.panes.view.order) == 4


async def the_late_rank_is_shown_beside_another(app: TraceApp, pilot: Pilot[int], view: RankView) -> None:
    await keys(pilot, "home", "enter")
    await until(pilot, lambda: isinstance(app.screen, MomentScreen), "the moment is not shown")
    await settle(pilot)
    first = app.screen
    assert isinstance(first, MomentScreen)
    said = first.view.statement.sentences
    assert said[0].startswith("Rank 2 arrives ") and " later" in said[0]
    assert "kernels" in said[1]
    a, b = first.view.compared.sides
    assert abs((int(a.end[0]) - int(a.start[0])) - (int(b.end[0]) - int(b.start[0]))) <= 1
    # The stretch before the collective begins with the same kernel on one axis, as far as the clocks tell.
    marks = [
        (lanes.mark_ns or 0) - int(side.start[0])
        for lanes, side in zip(first.view.timelines.lanes, (a, b), strict=True)
    ]
    assert abs(marks[0] - marks[1]) <= 1
    # The list is on its largest change, and lists no row for the sake of the collective.
    assert first.view.panes.view.cursor == 0 and first.view.panes.is_folded
    # The collective stays selected when the tables come, and so does what is selected after it.
    collective = first.view.highlighted.selected[1]
    assert "nccl" in b.trace.name_of(collective)
    assert first.view.highlighted.walked is not None and first.view.highlighted.walked.row == collective
    gemm = next(row for row in range(len(b.trace.slices)) if "gemm" in b.trace.name_of(row))
    for row in (gemm, collective):
        first.view.select(1, row)
        first.view.compared.compute([first.view.panes.pane])
        await settle(pilot)
        assert first.view.highlighted.selected[1] == row
    await keys(pilot, "n")
    await until(pilot, lambda: isinstance(app.screen, MomentScreen) and app.screen is not first, "no next collective")
    await settle(pilot)
    await keys(pilot, "escape")
    await until(pilot, lambda: isinstance(app.screen, RankScreen), "escape does not lead back")


async def marked_ranks_are_compared_and_drawn(app: TraceApp, pilot: Pilot[int], view: RankView) -> None:
    await keys(pilot, "home", "space", "j", "space")
    assert view.panes.marked == [2, column(view, "rank")[1]]
    await keys(pilot, "D")
    await until(pilot, lambda: isinstance(app.screen, RankLanesScreen), "no lanes")
    await settle(pilot)
    lanes = app.screen
    assert isinstance(lanes, RankLanesScreen) and len(lanes.traces) == 2
    await keys(pilot, "plus", "tab", "escape")
    await keys(pilot, "c")
    await until(pilot, lambda: isinstance(app.screen, CompareScreen), "no comparison")
    await settle(pilot)
    await keys(pilot, "escape")


async def a_rank_is_opened_alone_and_left_again(app: TraceApp, pilot: Pilot[int], view: RankView) -> None:
    await keys(pilot, "home", "g")
    await until(pilot, lambda: isinstance(app.screen, TraceScreen), "no trace")
    await settle(pilot)
    await keys(pilot, "backspace")
    await until(pilot, lambda: isinstance(app.screen, RankScreen), "backspace does not lead back")


async def the_list_of_files_is_a_key_away(app: TraceApp, pilot: Pilot[int], view: RankView) -> None:
    await keys(pilot, "t")
    picker = app.screen
    assert isinstance(picker, TracePicker)
    await until(pilot, lambda: len(picker.choices) == 5, "the set is not above the files")
    await keys(pilot, "home", "enter")
    await until(pilot, lambda: isinstance(app.screen, RankScreen), "the set is not opened from the list")


async def test_what_is_missing_stands_in_a_list(run: Path) -> None:
    (run / "rank1_trace.json").unlink()
    shutil.copyfile(run / "rank0_trace.json", run / "copy of rank0_trace.json")
    app = TraceApp([str(run)])
    async with app.run_test(size=(80, 24)) as pilot:
        view = await listed(app, pilot)
        await keys(pilot, "6")
        assert column(view, "rank") == [1, None]
        assert "there twice" in str(column(view, "why")[1])
        assert any("not here" in each for each in view.statement.sentences)


async def test_a_folder_with_few_ranks_among_other_traces_is_a_list(tmp_path: Path, run: Path) -> None:
    for number in range(9):
        (tmp_path / f"experiment{number}.json").write_text(
            '{"traceEvents": [{"ph": "X", "name": "a", "ts": 1, "dur": 1}]}'
        )
    app = TraceApp([str(tmp_path)])
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, TracePicker), "no list")
        picker = app.screen
        assert isinstance(picker, TracePicker)
        await until(pilot, lambda: len(picker.choices) == 14, "the ranks are not listed above the files")
        assert "4 ranks of 4" in str(picker.query_one(TableView).table["trace"].cell(0))  # type: ignore[index]


@pytest.mark.parametrize("size", [(200, 50), (80, 24), (60, 12)])
@pytest.mark.full
async def test_every_size_shows_rank_and_cause(run: Path, size: tuple[int, int]) -> None:
    app = TraceApp([str(run)])
    async with app.run_test(size=size) as pilot:
        view = await listed(app, pilot)
        assert view.panes.view.shown_columns[:2] == ["rank", "wait_caused_us"]
        assert view.panes.view.size.height >= 3
        assert {"open_rank", "lanes", "mark"} <= {each.binding.action for each in all_commands(app.screen)}


async def test_a_set_of_equal_ranks_blames_nobody(tmp_path: Path) -> None:
    app = TraceApp([str(write_ranks(tmp_path / "run", late=None))])
    async with app.run_test(size=(120, 40)) as pilot:
        view = await listed(app, pilot)
        assert view.statement.sentences[0].startswith("No rank stands out")


@pytest.mark.full
async def test_the_ranks_of_a_url_are_shown_and_one_of_them_opened(run: Path) -> None:
    memory = pytest.importorskip("fsspec", reason="fsspec is not installed").filesystem("memory")
    for path in run.iterdir():
        memory.pipe(f"/shown/run/{path.name}", path.read_bytes())
    folder = "memory://shown/run"
    app = TraceApp([folder], ranks=RankSetName((folder,)))
    async with app.run_test(size=(120, 40)) as pilot:
        view = await listed(app, pilot)
        assert column(view, "rank")[0] == 2
        await keys(pilot, "g")
        await until(pilot, lambda: isinstance(app.screen, TraceScreen), "the rank is not opened")
    memory.rm("/shown", recursive=True)


async def test_a_run_that_is_not_there_ends_the_app_with_a_sentence(run: Path) -> None:
    app = TraceApp([str(run)], ranks=RankSetName((str(run),), RankOptions(run=5)))
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.failure is not None, "nothing is said")
    assert str(app.failure).startswith("There is no run 5")


async def test_a_folder_of_logs_of_torch_compile_opens_as_a_set(tmp_path: Path) -> None:
    plans = [{0: [("0/0", 0, 3000, "")]}, {0: [("0/0", 0, 3000, "")], 2: [("0/1", 0, 20_000, size_reason(3, 4))]}]
    write_compiling_ranks(tmp_path / "traces", plans, logs=tmp_path / "logs")
    app = TraceApp([str(tmp_path / "logs")])
    async with app.run_test(size=(120, 40)) as pilot:
        view = await listed(app, pilot)
        assert column(view, "rank") == [1, 0]
        await until(pilot, lambda: view.panes.has("compiles"), "the compilations are not there")
        await keys(pilot, "7")
        assert column(view, "compile_id")[0] == "0/1"
        table = view.panes.table
        assert table is not None
        assert any("expected 3, actual 4" in line.text for line in compilation_lines(table, 0, 200))
        # There is no trace that these could open.
        await keys(pilot, "D", "1", "space", "j", "c")
        assert isinstance(app.screen, RankScreen)
        await keys(pilot, "enter")
        await until(pilot, lambda: isinstance(app.screen, TraceScreen), "the log of the rank is not there")
        assert isinstance(app.screen, TraceScreen)
        panes = app.screen.view.panes
        await until(pilot, lambda: panes.pane == "compiles", "its compilations are not listed")


async def test_ranks_get_the_logs_that_the_command_line_names(tmp_path: Path) -> None:
    plans = [{0: [("0/0", 0, 3000, "")]}, {2: [("0/1", 0, 20_000, size_reason(3, 4))]}]
    traces = write_compiling_ranks(tmp_path / "traces", plans, logs=tmp_path / "logs")
    app = TraceApp([str(traces)], options=OpenOptions(compile_log=str(tmp_path / "logs")))
    async with app.run_test(size=(120, 40)) as pilot:
        view = await listed(app, pilot)
        assert "2 logs of torch.compile" in view.query_one("#header", Bar).text
        await until(pilot, lambda: view.panes.has("compiles"), "the compilations are not there")
        await keys(pilot, "7")
        assert column(view, "compile_wait_us")[0] == 10_000
