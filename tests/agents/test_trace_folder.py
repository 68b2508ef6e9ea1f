"""What an assistant can reach: files below the folder, and no others; nothing is written, and a change is noticed."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from tests.support.agents import rows, write_gpu_trace
from tests.support.paths import SAMPLES
from tracetui.agents import trace_folder
from tracetui.agents.tools import Tools
from tracetui.agents.trace_folder import MAX_KEPT, TraceFolder
from tracetui.errors import NotFound, TraceError, TracetuiError, UsageError


@pytest.fixture
def folder(tmp_path):
    """A folder with a trace, beside one that is not to be read."""
    (tmp_path / "inside" / "runs").mkdir(parents=True)
    write_gpu_trace(tmp_path / "inside" / "a.json", [10])
    write_gpu_trace(tmp_path / "secret.json", [10])
    return tmp_path / "inside"


def test_requests_are_read_from_a_file_in_the_folder_and_again_where_it_changed(folder):
    line = (
        "[2026-09-30 08:54:56] ReqTimeStats(rid={}, input_len=1, output_len=2, type=unified): queue_duration=1.00ms\n"
    )
    (folder / "runs/server.log").write_text(line.format("first"))
    (folder.parent / "secret.log").write_text(line.format("secret"))
    (folder / "link.log").symlink_to(folder.parent / "secret.log")
    tools = Tools(TraceFolder(str(folder)))
    text = tools.pane("a.json", "requests", requests="runs/server.log")
    assert [row["request"] for row in rows(text)] == ["first"]
    assert json.loads(text)["request_log"] == "server.log" and str(folder) not in text
    (folder / "runs/server.log").write_text(line.format("a") + line.format("b"))
    assert [row["request"] for row in rows(tools.pane("a.json", "requests", requests="runs/server.log"))] == ["a", "b"]
    assert rows(tools.pane("a.json", "requests")) == []
    for name in ("../secret.log", "link.log", str(folder.parent / "secret.log"), "https://host/a.log", "runs", "none"):
        with pytest.raises(TracetuiError):
            tools.pane("a.json", "requests", requests=name)


@pytest.mark.parametrize(
    "name",
    ["../secret.json", "runs/../../secret.json", "/etc/passwd", "https://host/a.json", "s3://b/a.json", "file:///etc/passwd",
     "memory://a.json", "../inside_too.json"],
)  # fmt: skip
def test_what_lies_outside_is_refused(folder, name):
    (folder.parent / "inside_too.json").write_text("{}")
    with pytest.raises(UsageError):
        TraceFolder(str(folder)).trace(name)


@pytest.mark.parametrize("name", ["b.json", "a\0.json", "a.json/x", "-", "runs/nothing", "~/a.json", "x" * 5000])
def test_what_does_not_exist_is_said(folder, name):
    with pytest.raises(NotFound):
        TraceFolder(str(folder)).trace(name)


def test_links_that_lead_out_are_refused_and_not_listed(folder):
    (folder / "out.json").symlink_to(folder.parent / "secret.json")
    (folder / "runs" / "up").symlink_to(folder.parent)
    (folder / "in.json").symlink_to(folder / "a.json")
    here = TraceFolder(str(folder))
    for name in ("out.json", "runs/up/secret.json"):
        with pytest.raises(UsageError):
            here.trace(name)
    assert [path.name for path in here.files()] == ["a.json", "in.json"]
    assert len(here.trace("in.json").slices) == 3


def test_ranks_behind_a_link_that_leads_out_are_refused(folder):
    (folder / "runs" / "rank0.json").symlink_to(folder.parent / "secret.json")
    with pytest.raises(UsageError):
        TraceFolder(str(folder)).ranks("runs", 1)


@pytest.mark.parametrize("name", ["", "runs"])
def test_a_folder_is_no_trace_and_a_pipe_is_not_waited_for(folder, name):
    os.mkfifo(folder / "pipe.json")
    here = TraceFolder(str(folder))
    for each in (name, "pipe.json"):
        with pytest.raises(UsageError):
            here.trace(each)
    assert [path.name for path in here.files()] == ["a.json"]


def test_graphs_are_not_looked_up_above_the_folder(folder, monkeypatch):
    (folder.parent / "kernel_annotations_rank0_x.json").write_text("{}")
    monkeypatch.setattr(trace_folder, "with_captures", lambda *args, **more: pytest.fail("it was looked up"))
    TraceFolder(str(folder)).trace("a.json")


def test_a_changed_file_is_read_again_and_an_unchanged_one_is_not(folder):
    here = TraceFolder(str(folder))
    first = here.trace("a.json")
    assert here.trace("a.json") is first
    write_gpu_trace(folder / "a.json", [10, 20, 30])
    assert len(here.trace("a.json").slices) == 7


def test_few_traces_are_kept_and_the_one_not_asked_for_goes_first(folder):
    names = [f"{number}.json" for number in range(MAX_KEPT + 1)]
    for name in names:
        shutil.copy(folder / "a.json", folder / name)
    here = TraceFolder(str(folder))
    kept = {name: here.trace(name) for name in names[:MAX_KEPT]}
    here.trace(names[0])
    here.trace(names[-1])
    assert here.trace(names[0]) is kept[names[0]]
    assert here.trace(names[1]) is not kept[names[1]]
    assert len(here._kept) == MAX_KEPT


def test_nothing_is_written(folder, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("TRACETUI_CACHE_SIZE")
    before = sorted(folder.rglob("*"))
    TraceFolder(str(folder)).trace("a.json")
    assert sorted(folder.rglob("*")) == before
    assert not (tmp_path / "cache").exists()


def test_what_takes_too_long_or_is_too_large_is_a_sentence(folder, monkeypatch):
    here = TraceFolder(str(folder))
    monkeypatch.setattr(trace_folder, "MAX_SECONDS", -1.0)
    with pytest.raises(UsageError, match="takes more than"):
        here.trace("a.json")
    monkeypatch.setattr(trace_folder, "MAX_FILE_BYTES", 1)
    with pytest.raises(UsageError, match="at most"):
        here.trace("a.json")
    monkeypatch.setattr(trace_folder, "MAX_ENTRIES", 0)
    with pytest.raises(UsageError):
        here.files()


def test_what_was_refused_is_not_kept(folder):
    here = TraceFolder(str(folder))
    (folder / "bad.json").write_text("no trace")
    for _ in range(2):
        with pytest.raises(TraceError):
            here.trace("bad.json")
    assert not here._kept


def test_files_are_described_with_their_rank_or_why_they_are_no_trace(folder):
    shutil.copy(SAMPLES / "linear_eager_cpu.json.gz", folder / "runs")
    (folder / "z.json").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n")
    here = TraceFolder(str(folder))
    found = {row["trace"]: row for row in here.described(here.files())}
    assert list(found) == ["a.json", "runs/linear_eager_cpu.json.gz", "z.json"]
    assert "is_no_trace" in found["z.json"] and "is_no_trace" not in found["a.json"]
    assert found["a.json"]["bytes"] == (folder / "a.json").stat().st_size


def test_a_folder_that_is_none_is_said(tmp_path):
    with pytest.raises(NotFound):
        TraceFolder(str(tmp_path / "nowhere"))
