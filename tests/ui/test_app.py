"""The whole app by keys and text, on a trace made by hand."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from textual.widgets import Static

from tests.support.app import keys, opened, settle, shown, to_pane, training
from tests.support.build import kernel, launch, make_trace, op, step
from tests.support.memory_events import Moment, with_memory
from tests.support.waiting import POLL_SECONDS, until
from tracetui.errors import UsageError
from tracetui.linking.steps import steps
from tracetui.model.trace import Trace
from tracetui.opening.trace_opening import OpenOptions
from tracetui.panes import PANES
from tracetui.reading.load_progress import LoadProgress
from tracetui.ui.app import TraceApp, run
from tracetui.ui.opening.loading_screen import LoadingScreen, progress_words
from tracetui.ui.opening.trace_picker import TracePicker
from tracetui.ui.trace.trace_screen import TraceScreen
from tracetui.ui.widgets.bar import Bar
from tracetui.ui.widgets.details import Details
from tracetui.ui.widgets.table_view import TableView

SIZES = [(200, 50), (80, 24)]


@pytest.mark.parametrize("size", SIZES)
async def test_the_first_view_is_the_middle_step_with_its_first_kernel(size: tuple[int, int]) -> None:
    async with shown(training(), size) as (app, _):
        assert "[2]" in app.text("#steps")
        assert app.selected == "gemm"
        assert app.list.slice_row == app.view.selected == app.view.lanes.selected
        assert "kernels 2" in app.view.panes.query_one(Bar).text
        assert app.view.window is not None
        assert app.view.window.start_ns <= 1_000_000 < 1_900_000 <= app.view.window.end_ns(app.view.lanes.cells)


async def test_stepping_moves_list_lanes_and_details_together() -> None:
    async with shown(training()) as (app, pilot):
        await pilot.press("full_stop")
        assert app.selected == "relu_kernel"
        assert app.list.cursor == 1
        highlighted = {app.trace.name_of(row) for row in app.view.lanes.highlighted}
        assert highlighted == {"cudaLaunchKernel", "aten::relu"}
        assert app.view.query_one(Details).lines[0].text == "relu_kernel"
        await pilot.press("full_stop")
        await settle(pilot)
        assert (app.selected, app.view.step) == ("gemm", 3)
        assert app.list.slice_row == app.view.selected
        await pilot.press("comma", "comma")
        await settle(pilot)
        assert (app.selected, app.view.step) == ("gemm", 2)


async def test_follow_goes_round_and_backspace_returns() -> None:
    async with shown(training()) as (app, pilot):
        names = []
        for _ in range(3):
            await pilot.press("g")
            names.append(app.selected)
        assert names == ["cudaLaunchKernel", "aten::linear", "gemm"]
        await pilot.press("backspace")
        assert app.selected == "aten::linear"


async def test_steps_are_switched_and_all_are_listed_at_once() -> None:
    async with shown(training()) as (app, pilot):
        await pilot.press("right_square_bracket")
        await settle(pilot)
        assert "[3]" in app.text("#steps")
        await pilot.press("A")
        await settle(pilot)
        assert len(app.list.order) == 6
        await pilot.press("A", "left_square_bracket")
        await settle(pilot)
        assert (app.view.step, len(app.list.order)) == (2, 2)


async def test_tabs_group_sort_and_filter() -> None:
    async with shown(training()) as (app, pilot):
        await pilot.press(*to_pane("ops"))
        table = app.view.panes.table
        assert table is not None
        assert "aten::view" in [row["name"] for row in table.rows()]
        await pilot.press(*to_pane("kernels"), "b")
        await settle(pilot)
        assert "by name" in app.view.panes.query_one(Bar).text
        await pilot.press("enter")
        await settle(pilot)
        group = app.view.panes.arrangement.group
        assert group is not None and group.label == "gemm"
        assert len(app.list.order) == 1
        await pilot.press("escape")
        await settle(pilot)
        assert app.view.panes.arrangement.by == "name"
        await keys(pilot, *"b" * len(PANES["kernels"].offered(app.trace)))
        assert app.view.panes.arrangement.by is None
        await pilot.press("o", "o")
        assert app.view.panes.arrangement.sort is not None
        await keys(pilot, "F", *"relu", "enter")
        assert len(app.list.order) == 1
        await pilot.press("escape")
        assert len(app.list.order) == 2


async def test_search_in_the_list_and_in_the_lanes() -> None:
    async with shown(training()) as (app, pilot):
        await keys(pilot, "slash", *"relu")
        assert app.selected == "relu_kernel"
        await pilot.press("enter")
        assert "1/1" in app.text("#hints")
        app.view.lanes.focus()
        await keys(pilot, "slash", *"LINEAR", "enter")
        assert app.selected == "aten::linear"
        assert "2/3" in app.text("#hints")
        await pilot.press("n")
        assert "3/3" in app.text("#hints")
        await pilot.press("n", "N")
        assert "3/3" in app.text("#hints")
        await keys(pilot, "slash", *"nowhere", "escape")
        assert not app.view.finder.search.text


async def test_marks_are_set_listed_and_visited() -> None:
    async with shown(training()) as (app, pilot):
        await pilot.press("m", "full_stop", "apostrophe", "enter")
        await pilot.pause()
        assert app.selected == "gemm"


async def test_copying_and_exporting_say_where(tmp_path: Path) -> None:
    async with shown(training(), (200, 50)) as (app, pilot):
        await pilot.press("y")
        assert "row.md" in app.text("#hints")
        assert "gemm" in app.clipboard and "|" in app.clipboard
        await pilot.press("Y")
        assert app.clipboard.startswith("s2/kernels/e")
        await pilot.press("e")
        assert "2 rows" in app.text("#hints")
        (written,) = (tmp_path / "data").rglob("*.csv")
        assert written.read_text().count("\n") == 3
        written.write_text("mine")
        await pilot.press("e", "y", "Y")
        names = {path.name for path in (tmp_path / "data").rglob("*.*")}
        stem = written.stem
        assert names == {f"{stem}{end}" for end in (".csv", ".md", "-2.csv", "-2.md")} | {"row.md", "view.txt"}
        assert written.read_text() == "mine"


async def test_steps_and_device_are_chosen_when_the_app_is_opened(tmp_path: Path) -> None:
    events = [
        {"ph": "X", "cat": "user_annotation", "name": "train", "pid": 1, "tid": 1, "ts": 1000 * number, "dur": 800}
        for number in range(4)
    ]
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": events}))
    app = TraceApp([str(path)], options=OpenOptions("train", "H100"))
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(app, pilot)
        header = app.screen.query_one("#header", Bar).text
        assert "H100 SXM" in header
        read = app.recent.get(str(path))
        assert read is not None and steps(read.trace).number.tolist() == [1, 2, 3, 4]
    app = TraceApp([str(path)], options=OpenOptions("nothing"))
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.failure is not None)
    assert "cannot mark the steps" in str(app.failure) and app.return_code == 2


async def test_the_header_says_that_the_device_was_chosen(tmp_path: Path) -> None:
    event = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 2}
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"deviceProperties": [{"id": 0, "name": "NVIDIA B200"}], "traceEvents": [event]}))
    app = TraceApp([str(path)], options=OpenOptions(device="H100"))
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(app, pilot)
        await until(pilot, lambda: "H100 SXM (--device)" in app.screen.query_one("#header", Bar).text)


async def test_a_view_string_opens_where_it_was_copied() -> None:
    async with shown(training(), at="s3/views/k2@2400us+100us") as (app, _):
        assert (app.view.step, app.selected, app.view.panes.pane) == (3, "relu_kernel", "views")
        assert app.view.window is not None
        assert app.view.window.start_ns == pytest.approx(2_400_000, abs=2_000)


async def test_a_step_that_does_not_exist_is_told() -> None:
    async with shown(training(), at="s9") as (app, _):
        assert "no step 9" in app.text("#hints")
        assert app.view.step == 2


async def test_from_the_overview_of_a_trace_without_gpu_keys_of_the_timeline_lead_to_the_operators() -> None:
    trace = make_trace([step(1, 0, 900), op("aten::add", 10, 100), op("aten::mul", 200, 100)])
    async with shown(trace, (120, 40), "overview") as (app, pilot):
        assert app.view.panes.overview.is_picture
        await keys(pilot, "a")
        assert app.view.panes.pane == "ops" and app.view.lanes.display
        assert "ProfilerActivity.CUDA" in app.list.note
        await keys(pilot, "full_stop", "g", "comma", *to_pane("kernels"), "enter", "b", "o", "e", "y", *to_pane("ops"))
        assert len(app.list.order) > 0


@pytest.mark.parametrize(
    "size", [(80, 24), *(pytest.param(each, marks=pytest.mark.full) for each in ((200, 50), (20, 5)))]
)
async def test_no_key_breaks_anything(size: tuple[int, int]) -> None:
    letters = "jkgGhladwsS0fxzmnNiyYebF"
    named = ["escape", "tab", "shift+tab", "enter", "backspace", "full_stop", "comma", "greater_than_sign", "plus"]
    async with shown(training(), size) as (app, pilot):
        for _ in range(2):
            await keys(pilot, *letters, "escape", *named, *"1234567", "tab")
        assert isinstance(app.screen, TraceScreen)


async def test_the_narrow_screen_toggles_the_details() -> None:
    async with shown(training(), (80, 24)) as (app, pilot):
        assert not app.view.query_one(Details).display
        await pilot.press("i")
        await pilot.pause()
        assert app.view.query_one(Details).display
        assert isinstance(app.focused, Details)
        await pilot.press("end", "k", "enter")
        assert app.selected == "cudaLaunchKernel"
        await pilot.press("i")
        assert isinstance(app.focused, TableView)


async def test_help_says_what_the_selected_slice_is() -> None:
    async with shown(training()) as (app, pilot):
        for key, title in ((".", "kernel"), ("g", "a launch of a kernel")):
            await pilot.press(key)
            await settle(pilot)
            await pilot.press("question_mark")
            about = str(app.screen.query_one("#about", Static).render())
            assert title in about.partition("\n")[0] and about.count(". ") >= 1
            await pilot.press("escape")


async def test_help_and_palette_list_every_command() -> None:
    async with shown(training()) as (app, pilot):
        await pilot.press("question_mark")
        table = app.screen.query_one(TableView).table
        assert table is not None
        titles = " ".join(str(table["does"].cell(i)) for i in range(len(table)))
        wanted = ("Next kernel", "Follow the link", "Copy the row", "Quit", "launch_delay_us")
        assert all(title in titles for title in wanted)
        await keys(pilot, "escape", "ctrl+p", *"all steps")
        await pilot.press("enter")
        await until(pilot, lambda: app.view.step is None)
        await settle(pilot)
        assert app.view.step is None


async def test_a_file_that_is_no_trace_ends_the_app_with_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text("version https://git-lfs.github.com/spec/v1\n")
    app = TraceApp([str(path)])
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.failure is not None)
    assert app.return_code == 1
    assert "bad.json" in str(app.failure)


async def test_a_folder_is_a_list_to_pick_from(tmp_path: Path) -> None:
    events = [{"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 5, "dur": 3}]
    (tmp_path / "one.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    (tmp_path / "package.json").write_text("{}")
    app = TraceApp([str(tmp_path)])
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        assert isinstance(app.screen, TracePicker)
        assert [Path(str(path)).name for path in app.screen.choices] == ["one.json"]
        await pilot.press("enter")
        await opened(app, pilot)
        assert "one.json" in app.screen.query_one("#header", Bar).text


async def test_escape_opens_what_was_read_so_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow_load(
        path: str, options: OpenOptions, progress: Callable[[LoadProgress], None], cancelled: Callable[[], bool]
    ) -> Trace:
        for done in range(1, 100 * int(POLL_SECONDS)):
            progress(LoadProgress(min(done, 499) * 1000, 500_000, done, "reading"))
            time.sleep(0.01)
            if cancelled():
                break
        trace = training()
        trace.quality.partial = cancelled()
        return trace

    monkeypatch.setattr("tracetui.ui.opening.loading_screen.open_trace", slow_load)
    app = TraceApp([str(tmp_path / "long.json")])
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: "events" in app.screen.query_one("#numbers", Bar).text)
        assert isinstance(app.screen, LoadingScreen)
        await pilot.press("escape")
        await opened(app, pilot)
        assert "PARTIAL" in app.screen.query_one("#header", Bar).text


def test_progress_is_said_in_words() -> None:
    words = progress_words(LoadProgress(2**20, 4 * 2**20, 12_345, "reading"), 0.5)
    assert words == "1.0 MiB of 4.0 MiB · 12,345 events · 2.0 MiB/s · 2 s left"
    assert "left" not in progress_words(LoadProgress(2**20, None, 5, "reading"), 1)
    cached = progress_words(LoadProgress(2**30, 2**30, 5, "linking"), 0.1, is_from_cache=True)
    assert "from the cache" in cached and "/s" not in cached


def test_a_view_string_with_an_unknown_pane_is_refused() -> None:
    with pytest.raises(UsageError, match="names no pane: 'garbage' is none"):
        run(["trace.json"], at="garbage")


async def test_following_a_link_says_where_one_is_now() -> None:
    trace = make_trace([op("aten::mm", 0, 100), launch(10, 20, 1), kernel("gemm", 200, 50, correlation=1)])
    async with shown(trace, (120, 40)) as (app, pilot):
        await pilot.press(*to_pane("kernels"), "g")
        await settle(pilot)
        assert "Now at cudaLaunchKernel" in app.text("#hints")
        await pilot.press("g", "g")
        await settle(pilot)
        assert "the first GPU activity launched by aten::mm" in app.text("#hints")


async def test_enter_on_the_row_of_all_steps_goes_to_the_step_that_is_listed() -> None:
    async with shown(training()) as (app, pilot):
        await keys(pilot, *to_pane("ops"))
        table = app.view.panes.table
        assert table is not None
        app.list.put_cursor(app.list.order.tolist().index(table["name"].equal("ProfilerStep*").nonzero()[0][0]))
        await keys(pilot, "enter")
        assert app.selected == "ProfilerStep#2" and app.view.step == 2
        assert len(app.view.finder.search.hits) == 3 and "2/3" in app.text("#hints")
        await keys(pilot, "n")
        assert app.selected == "ProfilerStep#3"


async def test_enter_on_a_row_without_slices_says_so_and_jumps_nowhere() -> None:
    """Allocations outside of all operators are a row of torch's table and no slice."""
    async with shown(with_memory([op("aten::relu", 100, 200)], [Moment(900, 1_000)])) as (app, pilot):
        await keys(pilot, *to_pane("ops"))
        app.view.panes.arrange_by(replace(app.view.panes.arrangement, by="event"))
        await settle(pilot)
        table, selected = app.view.panes.table, app.view.selected
        assert table is not None
        jumps = len(app.view.navigator.history.viewpoints)
        app.list.put_cursor(app.list.order.tolist().index(table["name"].equal("[memory]").nonzero()[0][0]))
        await keys(pilot, "enter")
        assert (app.view.selected, len(app.view.navigator.history.viewpoints)) == (selected, jumps)
        assert "[memory]" in app.text("#hints") and "no match" not in app.text("#hints")


async def test_the_cursor_of_steps_is_on_the_step_of_the_step_line() -> None:
    """Kernels of a backward thread run when the next step has begun: neither thread nor time say of which they are."""
    events = []
    for number in range(3):
        at, thread = 1_000_000 * number, ("1", "2")
        events += [
            step(number + 1, at, 900_000),
            op("aten::mm", at + 10_000, 9_000, lane=thread),
            launch(at + 11_000, 500, number + 1, lane=thread),
            kernel("gemm", at + 1_050_000, 500_000, correlation=number + 1),
        ]
    async with shown(make_trace(events)) as (app, pilot):
        assert (app.selected, app.view.step) == ("gemm", 2)
        await keys(pilot, "8")
        assert app.list.table is not None
        assert app.list.table["step"].cell(app.list.row) == 2 and app.list.located
        await keys(pilot, "right_square_bracket")
        assert app.list.table["step"].cell(app.list.row) == 3
        await keys(pilot, "k")
        assert app.view.step == 2 and app.list.table["step"].cell(app.list.row) == 2
