"""`tracetui cache`, `--no-cache`, and what commands keep after their output."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.own_cache import own_cache
from tests.support.paths import ROOT, SAMPLES
from tracetui.cli.arguments import opening
from tracetui.cli.main import COMMANDS, build_parser, main
from tracetui.cli.settings import age
from tracetui.opening import cache_folder

TRACE = str(SAMPLES / "mlp_train_cpu.json.gz")


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A cache of the test's own, which takes traces of any size."""
    return own_cache(monkeypatch, tmp_path)


def listed(capsys: pytest.CaptureFixture[str]) -> list[dict]:
    assert main(["cache", "--format", "json"]) == 0
    return json.loads(capsys.readouterr().out)["traces"]


@pytest.mark.parametrize("pane", ["summary", "kernels", "ops", "findings", "health", "modules"])
@pytest.mark.full
def test_a_pane_says_the_same_of_a_trace_from_the_cache(pane: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["show", pane, TRACE, "--format", "json"]
    assert main([*words, "--no-cache"]) == 0
    anew = capsys.readouterr()
    assert listed(capsys) == []
    for _ in range(2):
        assert main(words) == 0
        assert capsys.readouterr() == anew
    assert [each["path"] for each in listed(capsys)] == [TRACE]


def test_a_trace_is_not_read_from_its_file_a_second_time(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["show", "summary", TRACE]) == 0

    def fail(*_: object) -> None:
        raise AssertionError("it was read again")

    monkeypatch.setattr("tracetui.opening.kept_traces.read_file", fail)
    assert main(["show", "steps", TRACE]) == 0
    assert main(["check", TRACE, "count(steps) > 0"]) == 0
    assert main(["compare", TRACE, "#3", "#4"]) == 0


def test_a_cut_of_a_trace_from_the_cache_is_the_same(tmp_path: Path) -> None:
    made = []
    for name in ("a.json", "b.json"):
        assert main(["cut", TRACE, "--steps", "3", "-o", str(tmp_path / name)]) == 0
        made.append((tmp_path / name).read_bytes())
    assert made[0] == made[1] and len(made[0]) > 1000


def test_the_list_and_clearing(capsys: pytest.CaptureFixture[str], tmp_path: Path, cache: Path) -> None:
    assert main(["cache"]) == 0
    assert capsys.readouterr().out == f"0 traces, 0 B of 10.0 GiB, in {cache}\n"
    other = tmp_path / "other\x1b[31m.json"
    other.write_text('[{"ph":"X","pid":1,"tid":1,"ts":1,"dur":9,"name":"a"}]')
    for path in (TRACE, str(other)):
        assert main(["show", "summary", path]) == 0
    capsys.readouterr()
    assert main(["cache"]) == 0
    first, second, last = capsys.readouterr().out.splitlines()
    assert "\x1b" not in first and "other" in first and " s ago  " in first and second.endswith(TRACE)
    assert last.startswith("2 traces, ")
    other.unlink()
    assert [each["current"] for each in listed(capsys)] == [False, True]
    assert main(["cache", "--clear", TRACE]) == 0
    assert capsys.readouterr().err.startswith("tracetui: removed 1 trace, ")
    next(cache.iterdir()).write_bytes(b"x" * 100)
    assert [each["path"] for each in listed(capsys)] == [None]
    assert main(["cache", "--clear"]) == 0
    assert "removed 1 trace, 100 B" in capsys.readouterr().err and not list(cache.iterdir())


def test_nothing_is_kept_of_a_trace_that_cannot_be_what_was_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "kernels", TRACE, "--step", "77"]) == 2
    assert capsys.readouterr().err and listed(capsys) == []


def test_every_command_that_takes_options_of_opening_takes_no_cache() -> None:
    parser = build_parser()
    commands = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction)).choices
    takes = {name for name, command in commands.items() if "--no-cache" in command._option_string_actions}
    assert takes < set(COMMANDS)
    assert takes == {
        "open",
        "show",
        "check",
        "compare",
        "cut",
        "explain",
        "merge",
        "perfetto",
        "ranks",
        "report",
        "history",
        "sql",
        "whatif",
        "verify",
    }
    for words in (["open", "x"], ["show", "ops", "x"], ["cut", "x", "-o", "y"], ["report", "x"]):
        assert opening(parser.parse_args(words)).uses_cache
        assert not opening(parser.parse_args([*words, "--no-cache"])).uses_cache


def test_ages() -> None:
    assert [age(seconds) for seconds in (-1, 0.4, 59, 60, 3599, 3600, 90_000)] == [
        *("0 s", "0 s", "59 s", "1 min", "59 min", "1 h", "1 d")
    ]


@pytest.mark.full
def test_a_home_that_is_missing_is_no_error(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "tracetui", "show", "summary", TRACE]
    for home in ("/nonexistent", "/dev/null"):
        variables = {"HOME": home, "PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
        said = subprocess.run(words, cwd=ROOT, env=variables, capture_output=True, text=True, check=True)
        assert "mlp_train" in said.stdout and said.stderr == ""


def test_a_size_that_is_none_is_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache_folder.SIZE_VARIABLE, "lots")
    assert main(["cache"]) == 0
    assert capsys.readouterr().err == (
        "tracetui: TRACETUI_CACHE_SIZE=lots is no size such as 20GB: the cache holds at most 10.0 GiB.\n"
    )
    monkeypatch.setenv(cache_folder.SIZE_VARIABLE, "20GB")
    assert main(["cache"]) == 0 and capsys.readouterr().err == ""


def test_clearing_what_is_not_kept_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "--clear", "nosuch.json"]) == 0
    assert "the cache holds nothing of nosuch.json" in capsys.readouterr().err
    assert main(["cache", "--clear"]) == 0
    assert "nothing of" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda folder: folder.parent.write_text("a file"), "cannot be made or opened: Not a directory"),
        (lambda folder: (folder.mkdir(parents=True), folder.chmod(0o777)), "is not yours alone"),
        (lambda folder: (folder.parent.mkdir(parents=True), folder.symlink_to("/tmp")), "cannot be made or opened"),
    ],
)
def test_why_nothing_can_be_kept_is_told(spoil, said, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(cache_folder, "user_cache_folder", lambda: tmp_path / "another")
    spoil(tmp_path / "another" / "traces")
    assert main(["cache"]) == 0
    told = capsys.readouterr().err
    assert "Nothing can be kept, every trace is read anew: " in told and said in told
    assert main(["show", "steps", TRACE]) == 0


def test_a_full_disk_is_told(capsys, monkeypatch):
    monkeypatch.setattr(cache_folder, "MIN_FREE_BYTES", 1 << 60)
    assert main(["cache"]) == 0
    assert "has less than 1 GB left" in capsys.readouterr().err


def test_nothing_is_told_of_a_cache_that_can_be_used_or_is_not_wanted(capsys, monkeypatch):
    assert main(["cache"]) == 0
    monkeypatch.setenv("TRACETUI_CACHE_SIZE", "0")
    monkeypatch.setattr(cache_folder, "MIN_FREE_BYTES", 1 << 60)
    assert main(["cache"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("command", [("show", "summary", TRACE), ("check", TRACE, "count(steps) > 0")])
def test_a_cache_that_others_can_write_to_is_told_once_by_every_command(command, capsys, cache):
    cache.mkdir(parents=True)
    cache.chmod(0o777)
    assert main([*command]) == 0
    assert capsys.readouterr().err.splitlines() == [
        f"tracetui: the cache is not used, as {cache} is a link, or others own it or may write to it: remove it."
    ]
    assert list(cache.iterdir()) == []
    assert main([*command, "--no-cache"]) == 0
    assert capsys.readouterr().err == ""
