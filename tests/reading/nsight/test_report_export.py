"""Reports of Nsight Systems: `nsys` makes an export where it is installed, once; elsewhere the command is told."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.support.nsight import training
from tracetui.errors import NotATrace, NotFound, OtherKind
from tracetui.model.trace import Kind
from tracetui.reading.load import load
from tracetui.reading.nsight import database


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "my run; rm -rf x.nsys-rep"
    path.write_bytes(b"\x01\0\x02\0 anything")
    monkeypatch.setattr(database, "user_cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()
    return path


def install(folder: Path, body: str) -> None:
    """An `nsys` that runs some Python with the arguments in `words`, and notes them in a file."""
    program = folder / "bin" / "nsys"
    note = folder / "calls"
    begin = "import sys, shutil, time\nwords = sys.argv"
    program.write_text(f"#!{sys.executable}\n{begin}\nopen({str(note)!r}, 'a').write(f'{{words}}\\n')\n{body}\n")
    program.chmod(0o700)


def test_without_nsys_the_command_is_told(report: Path) -> None:
    with pytest.raises(OtherKind) as raised:
        load(str(report))
    assert "`nsys export --type sqlite -o 'my run; rm -rf x.sqlite' 'my run" in str(raised.value)
    report.unlink()
    with pytest.raises(NotFound):
        load(str(report))


def test_nsys_is_run_once_until_the_report_changes(report: Path, tmp_path: Path) -> None:
    export = training(2).write(tmp_path / "made.sqlite")
    install(tmp_path, f"shutil.copy({export!r}, words[words.index('-o') + 1])")
    for _ in range(2):
        trace = load(str(report))
        assert (trace.label, trace.path) == (report.name, str(report))
        assert len(trace.slices.of_kind(Kind.KERNEL)) == 4
        assert trace.event_of(0)
    calls = (tmp_path / "calls").read_text().splitlines()
    assert len(calls) == 1 and repr(str(report)) in calls[0]
    os.utime(report, ns=(1, 1))
    load(str(report))
    assert len((tmp_path / "calls").read_text().splitlines()) == 2


def test_what_nsys_says_when_it_fails_is_told(report: Path, tmp_path: Path) -> None:
    install(tmp_path, "sys.exit('Importer error: \\x1b[31mold report')")
    with pytest.raises(NotATrace, match="Importer error") as raised:
        load(str(report))
    assert "\x1b" not in str(raised.value) and "\n" not in str(raised.value)
    install(tmp_path, "pass")
    with pytest.raises(NotATrace, match="made no export"):
        load(str(report))


def test_an_export_may_be_given_up(report: Path, tmp_path: Path) -> None:
    install(tmp_path, "time.sleep(60)")
    with pytest.raises(NotATrace, match="was stopped"):
        load(str(report), cancelled=lambda: (tmp_path / "calls").exists())
    assert not list((tmp_path / "cache").rglob("*.sqlite"))
