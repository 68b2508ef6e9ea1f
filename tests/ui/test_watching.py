"""Traces that appear in a folder: listed once they are complete, and opened one after the other where that is asked."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from textual.widget import Widget

from tests.support.app import settle
from tests.support.paths import SAMPLES
from tests.support.waiting import until
from tracetui.cli.main import main
from tracetui.ui.app import TraceApp
from tracetui.ui.opening import trace_files
from tracetui.ui.opening.trace_files import FolderWatch
from tracetui.ui.opening.trace_picker import TracePicker
from tracetui.ui.trace.trace_screen import TraceScreen

SAMPLE = SAMPLES / "linear_eager_cpu.json.gz"
WHOLE = b'{"traceEvents": [{"ph": "X", "name": "a", "ts": 1, "dur": 2, "pid": 1, "tid": 1}]}'


@pytest.fixture
def watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FolderWatch:
    """A watch of an empty folder that looks whenever it is asked."""
    monkeypatch.setattr(trace_files, "MAX_SEARCH_SHARE", 1e9)
    watch = FolderWatch([str(tmp_path)])
    watch.begin()
    return watch


def test_a_trace_has_appeared_once_it_rests_and_ends_as_json_does(tmp_path: Path, watch: FolderWatch) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(WHOLE[:-10])
    assert watch.changes().appeared == [], "it may still grow"
    assert watch.changes().appeared == [], "it rests in the middle of an event"
    path.write_bytes(WHOLE)
    assert watch.changes().appeared == []
    assert watch.changes().appeared == [path]
    assert watch.changes().appeared == []


def test_a_trace_that_grows_has_not_appeared(tmp_path: Path, watch: FolderWatch) -> None:
    path = tmp_path / "t.json.gz"
    content = SAMPLE.read_bytes()
    for length in range(100, 1000, 100):
        path.write_bytes(content[:length])
        assert watch.changes().appeared == []
    path.write_bytes(content)
    assert [watch.changes().appeared for _ in range(3)] == [[], [path], []]


def test_what_is_written_anew_appears_again_and_what_goes_is_told(tmp_path: Path, watch: FolderWatch) -> None:
    path, note = tmp_path / "t.json", tmp_path / "config.json"
    path.write_bytes(WHOLE)
    note.write_text('{"rank": 1}')
    assert [watch.changes().appeared for _ in range(2)] == [[], [path]], "what is no trace is not told of"
    path.write_bytes(WHOLE.replace(b"2,", b"30,"))
    assert [watch.changes().appeared for _ in range(2)] == [[], [path]]
    path.unlink()
    change = watch.changes()
    assert change.gone == [path] and change.appeared == []


@pytest.mark.full
async def test_the_list_follows_its_folder_and_keeps_its_cursor(tmp_path: Path) -> None:
    shutil.copyfile(SAMPLE, tmp_path / "old.json.gz")
    os.utime(tmp_path / "old.json.gz", (1, 1))
    app = TraceApp([str(tmp_path)])
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, TracePicker) and len(app.screen.choices) == 1)
        picker = app.screen
        assert isinstance(picker, TracePicker)
        shutil.copyfile(SAMPLE, tmp_path / "new.json.gz")
        await until(pilot, lambda: len(picker.choices) == 2, "the new trace is not listed")
        await settle(pilot)
        view = picker.query_one("TableView", Widget)
        assert str(picker.choices[view.row]).endswith("old.json.gz"), "the cursor stays on its trace"  # type: ignore[attr-defined]
        (tmp_path / "old.json.gz").unlink()
        await until(pilot, lambda: len(picker.choices) == 1, "what has gone is listed")


@pytest.mark.full
async def test_every_new_trace_is_opened_where_that_is_asked(tmp_path: Path) -> None:
    app = TraceApp([str(tmp_path)], follows=True)

    def shows(name: str) -> bool:
        return isinstance(app.screen, TraceScreen) and app.screen.trace.label == name

    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, TracePicker))
        for name in ("first.json.gz", "second.json.gz"):
            shutil.copyfile(SAMPLE, tmp_path / name)
            await until(pilot, lambda name=name: shows(name), f"{name} is not opened")  # type: ignore[misc]


def test_only_a_folder_is_followed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracetui.cli.open.require_terminal", lambda: None)
    assert main(["open", str(SAMPLE), "--follow"]) == 2
    assert "--follow opens traces as they appear in a folder" in capsys.readouterr().err
