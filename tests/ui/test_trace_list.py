"""The list of traces: facts that are read in the background and cached, sorting, marks of several."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.app import keys, settle
from tests.support.histories import write_trace
from tests.support.paths import SAMPLES
from tests.support.waiting import until
from tracetui.comparing.statement import Several
from tracetui.history.series import history
from tracetui.opening import cache_folder
from tracetui.ui.app import TraceApp
from tracetui.ui.compare.compare_view import CompareScreen
from tracetui.ui.compare.several_screen import SeveralScreen
from tracetui.ui.opening import trace_files, trace_picker
from tracetui.ui.opening.trace_files import (
    UNREADABLE,
    FactsCache,
    TraceFacts,
    TraceFile,
    facts_from,
    is_cheap,
    read_facts,
    trace_file,
)
from tracetui.ui.opening.trace_picker import TracePicker, names_of, sorted_rows
from tracetui.ui.trace.trace_screen import TraceScreen
from tracetui.ui.widgets.bar import Bar
from tracetui.ui.widgets.table_view import TableView


def files(*sizes: int) -> list[TraceFile]:
    return [TraceFile(Path(f"/t/{chr(97 + i)}.json"), size, 1000.0 + i) for i, size in enumerate(sizes)]


def test_facts_are_kept_until_the_file_changes(tmp_path):
    where = tmp_path / "cache" / "facts.json"
    (file,) = files(5)
    facts = TraceFacts("H100", 3, 15, 38.0, "GPU-bound")
    FactsCache(where).put(file, facts)
    assert FactsCache(where).get(file) == facts
    assert FactsCache(where).get(TraceFile(file.path, 6, file.modified)) is None
    assert FactsCache(where).get(TraceFile(file.path, 5, file.modified + 1)) is None


@pytest.mark.parametrize("text", ["", "[]", "{", '{"/t/a.json": 3}', '{"/t/a.json": [1, 2, []]}', "\x00"])
def test_a_cache_that_is_damaged_is_empty(tmp_path, text):
    (tmp_path / "facts.json").write_text(text)
    assert FactsCache(tmp_path / "facts.json").get(files(5)[0]) is None


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path):
    (tmp_path / "file").write_text("")
    cache = FactsCache(tmp_path / "file" / "facts.json")
    (file,) = files(5)
    cache.put(file, UNREADABLE)
    assert cache.get(file) == UNREADABLE


def test_the_cache_forgets_the_oldest(tmp_path, monkeypatch):
    monkeypatch.setattr(trace_files, "MAX_CACHED_TRACES", 2)
    cache = FactsCache(tmp_path / "facts.json")
    several = files(1, 2, 3)
    for file in several:
        cache.put(file, UNREADABLE)
    assert [cache.get(file) is not None for file in several] == [False, True, True]


def test_values_of_a_wrong_type_are_left_out():
    assert facts_from({"gpu": 3, "steps": "x", "kernels": True, "busy_pct": None, "verdict": ""}) == TraceFacts()


def test_large_files_are_not_read():
    assert is_cheap(TraceFile(Path("a.json.gz"), 1 << 20, 0.0))
    assert not is_cheap(TraceFile(Path("a.json.gz"), 1 << 30, 0.0))
    assert is_cheap(TraceFile(Path("a.json"), 100 << 20, 0.0))


def test_rows_are_sorted_and_what_is_not_known_comes_last():
    several = files(5, 50, 7)
    facts = {"/t/b.json": TraceFacts("H100", 3, 2_000, 9.0, "x"), "/t/c.json": TraceFacts("A100", 20, 30, 80.0, "w")}
    orders = {
        ("changed", True): [2, 1, 0],
        ("size", True): [1, 2, 0],
        ("kernels", True): [1, 2, 0],
        ("kernels", False): [2, 1, 0],
        ("steps", True): [2, 1, 0],
        ("gpu", False): [2, 1, 0],
        ("busy", False): [1, 2, 0],
        ("trace", False): [0, 1, 2],
    }
    assert {key: sorted_rows(several, facts, *key) for key in orders} == orders


def test_names_leave_out_the_folder_that_all_files_are_in():
    several = [TraceFile(Path(path), 1, 0.0) for path in ("/a/b/c/x.json", "/a/b/y.json", "/a/b/d/z.json.gz")]
    assert names_of(several) == ["c/x.json", "y.json", "d/z.json.gz"]
    assert names_of(several[:1]) == ["/a/b/c/x.json"]


async def test_facts_of_a_trace_are_those_of_its_summary():
    facts = await read_facts(SAMPLES / "mlp_eager_cpu.json.gz")
    assert (facts.steps, facts.gpu, facts.busy_pct) == (3, None, None)


async def test_a_file_that_is_no_trace_has_no_facts(tmp_path):
    (tmp_path / "x.json").write_text("{")
    assert await read_facts(tmp_path / "x.json") == UNREADABLE


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """A folder with three traces of one event, whose facts are told here."""
    folder = tmp_path / "runs"
    folder.mkdir()
    for number, name in enumerate(("one", "two", "three")):
        path = folder / f"{name}.json"
        path.write_text(json.dumps({"traceEvents": [{"ph": "X", "name": name, "ts": 1, "dur": 2, "pid": 1, "tid": 1}]}))
        os.utime(path, (1000 + number, 1000 + number))
    asked = []

    async def told(path: Path) -> TraceFacts:
        asked.append(path.stem)
        return TraceFacts("H100\x1b[31m", len(path.stem), 10 * len(path.stem), 50.0, "GPU-bound")

    monkeypatch.setattr(trace_picker, "is_cheap", lambda file: True)
    monkeypatch.setattr(trace_picker, "read_facts", told)
    return folder, asked


async def listed(pilot) -> TableView:
    await until(pilot, lambda: isinstance(pilot.app.screen, TracePicker) and pilot.app.screen.choices, "no list")
    await settle(pilot)
    return pilot.app.screen.query_one(TableView)


def column(view: TableView, name: str) -> list[str]:
    assert view.table is not None
    return [str(view.table[name].cell(int(row))) for row in view.order]


@pytest.mark.parametrize("size", [(200, 50), (80, 24)])
async def test_the_list_shows_and_sorts_facts_and_keeps_the_cursor(runs, size):
    folder, asked = runs
    async with TraceApp([str(folder)]).run_test(size=size) as pilot:
        view = await listed(pilot)
        assert asked == ["three", "two", "one"]
        assert column(view, "verdict") == ["GPU-bound"] * 3
        assert column(view, "kernels") == ["50", "30", "30"]
        assert "\x1b" not in "".join(column(view, "gpu"))
        assert {"trace", "verdict", "busy"} <= set(view.shown_columns)
        await keys(pilot, "j")
        current = view.row
        await keys(pilot, *["o"] * 5)
        assert column(view, "kernels") == ["50", "30", "30"] and view.row == current
        await keys(pilot, "O")
        assert column(view, "kernels") == ["30", "30", "50"] and view.row == current
    async with TraceApp([str(folder)]).run_test(size=size) as pilot:
        view = await listed(pilot)
        assert len(asked) == 3, "the second time they are in the cache"
        assert column(view, "verdict") == ["GPU-bound"] * 3


async def test_step_times_over_the_runs_are_those_of_kept_digests(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.delenv(cache_folder.SIZE_VARIABLE)
    monkeypatch.setattr(trace_picker, "is_cheap", lambda file: False)
    folder = tmp_path / "runs"
    folder.mkdir()
    for number in range(6):
        slow = 1200 if number == 5 else 1000
        path = write_trace(folder / f"run{number}.json", [slow + 1, slow, slow - 1], number)
        os.utime(path, (1000 + number, 1000 + number))
    async with TraceApp([str(folder)]).run_test(size=(160, 40)) as pilot:
        view = await listed(pilot)
        assert view.table is not None and "step_times" not in view.table
    history(str(folder))
    (folder / "new.json").write_bytes((folder / "run0.json").read_bytes())
    async with TraceApp([str(folder)]).run_test(size=(160, 40)) as pilot:
        view = await listed(pilot)
        await until(pilot, lambda: view.table is not None and "step_times" in view.table, "no step times")
        lines = [line.split() for line in column(view, "step_times")]
        assert lines[0] == ["None"] and "step_times" in view.shown_columns
        assert lines[1][0] == "▄▄▄▄▄█" and lines[1][-2:] == ["+20", "%"] and lines[6][:1] == ["▄"]


async def test_a_title_and_what_went_wrong_stay_above_the_list(runs):
    folder, _ = runs
    app = TraceApp([str(folder)])
    async with app.run_test(size=(120, 40)) as pilot:
        await listed(pilot)
        app.push_screen(TracePicker([str(folder)], "It broke.", title="Compare with which trace?"))
        await listed(pilot)
        await until(pilot, lambda: app.screen.query_one("#title", Bar).text == "Compare with which trace?   It broke.")


@pytest.mark.full
async def test_several_traces_are_marked_and_stay_so(runs):
    folder, _ = runs
    app = TraceApp([str(folder)])
    async with app.run_test(size=(120, 40)) as pilot:
        view = await listed(pilot)
        await keys(pilot, "c")
        assert "Mark one trace" in app.screen.query_one("#title", Bar).text
        await keys(pilot, "space", "j", "j", "space")
        assert column(view, "mark") == ["A", "", "B"]
        await keys(pilot, "c")
        await until(pilot, lambda: isinstance(app.screen, CompareScreen), "nothing is compared")
        assert isinstance(app.screen, CompareScreen)
        assert [trace.label for trace in app.screen.traces] == ["three.json", "one.json"]
        await settle(pilot)
        await keys(pilot, "escape")
        view = await listed(pilot)
        assert column(view, "mark") == ["A", "", "B"]
        await keys(pilot, "space")
        assert column(view, "mark") == ["", "", "A"]


@pytest.mark.full
async def test_more_than_two_marked_traces_are_one_table_from_which_two_are_compared():
    """The table has the numbers of `tracetui compare A B C`."""
    names = [SAMPLES / f"{name}_cpu.json.gz" for name in ("mlp_eager", "mlp_compile", "linear_eager")]
    app = TraceApp(list(map(str, names)))
    async with app.run_test(size=(120, 40)) as pilot:
        view = await listed(pilot)
        for name in names:
            view.put_cursor([str(text) for text in column(view, "trace")].index(name.name))
            await keys(pilot, "space")
        assert "c compares them all with A" in app.screen.query_one("#title", Bar).text
        await keys(pilot, "c")
        await until(pilot, lambda: isinstance(app.screen, SeveralScreen), "nothing is compared")
        screen = app.screen
        assert isinstance(screen, SeveralScreen)
        assert [trace.label for trace in screen.traces] == [name.name for name in names]
        await until(pilot, lambda: screen.table.table is not None, "there is no table")
        table = screen.table.table
        assert table is not None
        rows = {str(row["measure"]): [str(row[side]).split() for side in "ABC"] for row in table.rows()}
        expected = Several(screen.several.sides).totals
        of_ops: dict[str, Any] = next(row for row in expected.rows() if row["measure"] == "cpu_ops")
        assert [words[0] for words in rows["CPU ops"]] == [f"{of_ops[side]:.0f}" for side in "abc"]
        assert rows["CPU ops"][1][1] == f"÷{of_ops['a'] / of_ops['b']:.2f}"
        said = screen.statement.sentences
        assert [line[0] for line in said] == ["A", "B", "C", "B", "C"] and "CPU time per step" in said[3]
        await keys(pilot, "V")
        assert not screen.table.display
        await keys(pilot, "escape")
        assert screen.table.display and app.screen is screen
        await keys(pilot, "c", "j", "enter")
        await until(pilot, lambda: isinstance(app.screen, CompareScreen), "the two are not compared")
        assert isinstance(app.screen, CompareScreen)
        assert [trace.label for trace in app.screen.traces] == [names[0].name, names[2].name]
        await settle(pilot)
        await keys(pilot, "escape")
        assert app.screen is screen
        await keys(pilot, "escape")
        view = await listed(pilot)
        assert sorted(column(view, "mark")) == ["A", "B", "C"]


@pytest.mark.parametrize("size", [(200, 50), (80, 24), (60, 12)])
@pytest.mark.full
async def test_the_table_of_several_fits_the_terminal(runs, size):
    folder, _ = runs
    app = TraceApp([str(folder)])
    async with app.run_test(size=size) as pilot:
        await listed(pilot)
        await keys(pilot, "space", "j", "space", "j", "space", "c")
        await until(pilot, lambda: isinstance(app.screen, SeveralScreen), "nothing is compared")
        await settle(pilot)
        screen = app.screen
        assert isinstance(screen, SeveralScreen)
        assert screen.table.size.height >= 3 and screen.table.has_focus
        assert screen.table.shown_columns[0] == "measure" and "A" in screen.table.shown_columns
        await keys(pilot, "question_mark")
        assert app.screen is not screen


async def test_the_enter_of_a_sorted_list_opens_the_trace_under_the_cursor(runs):
    folder, _ = runs
    app = TraceApp([str(folder)])
    async with app.run_test(size=(120, 40)) as pilot:
        view = await listed(pilot)
        await keys(pilot, "o")
        assert [Path(text).stem for text in column(view, "trace")] == ["one", "three", "two"]
        await keys(pilot, "home", "enter")
        await until(pilot, lambda: not isinstance(app.screen, TracePicker), "nothing is opened")
        await settle(pilot)
        assert trace_file(folder / "one.json") is not None
        assert isinstance(app.screen, TraceScreen)
        assert app.screen.traces[0].label == "one.json"


async def test_a_folder_that_is_too_large_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "trace.json").write_text('{"traceEvents": []}')
    monkeypatch.setattr(trace_files, "MAX_SEARCHED_ENTRIES", 2)
    app = TraceApp([str(tmp_path)])
    async with app.run_test(size=(140, 40)) as pilot:
        await until(pilot, lambda: bool(getattr(app.screen, "choices", None)), "nothing is listed")
        await settle(pilot)
        title = app.screen.query_one("#title", Bar).text
        assert "was searched up to 3 files and folders: name a folder below it" in title
