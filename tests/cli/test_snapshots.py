"""Memory snapshots on the command line: `show`, `check`, `compare`, `report`, and `open` without a terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.memory_snapshots import MIB, FakeAllocator, fragmented, frame, write
from tracetui.cli.main import main
from tracetui.snapshots.snapshot_tables import PANES

SAMPLE = str(Path(__file__).parents[2] / "sample_traces" / "linear_compile_cpu.json.gz")


@pytest.fixture
def path(tmp_path: Path) -> str:
    return write(tmp_path / "oom.pickle", fragmented().snapshot())


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(words) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("pane", PANES)
@pytest.mark.parametrize("form", ["table", "json", "csv", "md"])
@pytest.mark.full
def test_every_pane_in_every_form(pane: str, form: str, path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        "64.0 MiB" in printed(capsys, "show", pane, path, "--format", form)
        or form == "csv"
        or pane in ("unfreed", "oom")
    )


def test_rows_filters_columns_and_moments(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = json.loads(printed(capsys, "show", "live", path, "--at", "oom", "--format", "json"))
    assert (shown["active_bytes"], shown["reserved_bytes"]) == (32 * MIB, 64 * MIB)
    assert [row["bytes"] for row in shown["rows"]] == [32 * MIB]
    assert shown["schema"].startswith("tracetui/snapshot/")
    assert "holder" in printed(
        capsys, "show", "peak", path, "--by", "stack", "--columns", "holder,bytes", "--limit", "1"
    )
    assert printed(capsys, "show", "live", path, "--at", "start", "--format", "csv").count("\n") == 1
    assert "holder: train.py:11 forward" in printed(capsys, "show", "oom", path, "--plain")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["kernels"], "memory snapshot, which has no kernels"),
        (["peak", "--step", "3"], "--step is about a trace"),
        (["peak", "--at", "soon"], "is no moment"),
        (["unfreed", "--at", "end"], "about the end"),
        (["peak", "--device", "7"], "no device 7"),
        (["segments", "--by", "line"], "cannot be grouped"),
        (["peak", "--by", "kernel"], "there are line, stack"),
        (["live", "--at", "999999"], "has 37 events"),
    ],
)
def test_what_makes_no_sense_is_told(
    words: list[str], said: str, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", words[0], path, *words[1:]]) == 2
    assert said in capsys.readouterr().err


def test_a_trace_is_no_snapshot(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "peak", SAMPLE]) == 1
    assert "is no memory snapshot" in capsys.readouterr().err
    assert main(["show", "kernels", SAMPLE, "--at", "peak"]) == 2
    assert main(["compare", SAMPLE, path]) == 2
    assert main(["report", path, path, "-o", "-"]) == 2


def test_checks(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["check", path, "peak_bytes == 64MiB", "largest_free_bytes == 4MiB", "ooms == 1", "count(oom) == 1"]) == 0
    )
    assert main(["check", path, "ooms == 0"]) == 1
    assert main(["check", path, "kernels == 5"]) == 2
    assert main(["check", path, "ooms == 1", "--baseline", path]) == 2
    capsys.readouterr()
    assert "unfreed_bytes" in printed(capsys, "check", "--names", path)


def test_two_are_compared_by_who_holds_their_peaks(
    path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = FakeAllocator()
    fake.alloc(80 * MIB, [frame(5)])
    fake.alloc(MIB, [frame(6)])
    other = write(tmp_path / "b.pickle", fake.snapshot())
    rows = json.loads(printed(capsys, "compare", path, other, "--format", "json"))["rows"]
    assert [(row["holder"], row["change_bytes"]) for row in rows] == [
        ("train.py:5 forward", 16 * MIB),
        ("train.py:6 forward", MIB),
    ]


def test_a_report_and_what_open_prints_into_a_pipe(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    page = printed(capsys, "report", path, "-o", "-")
    assert "Out of memory" in page
    assert "<svg" in page
    assert "16.0 MiB was asked for" in printed(capsys, "open", path)
