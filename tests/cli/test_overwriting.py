"""One rule for every file that a command writes: what exists stays without --force, and an input stays always."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT, SAMPLES
from tracetui.cli.main import main
from tracetui.files import open_already, write_whole

EAGER = SAMPLES / "mlp_eager_cpu.json.gz"
LIMITS = "cpu_ops == 35\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a trace, a baseline, and assertions, in which the test runs."""
    shutil.copy(EAGER, tmp_path / "t.gz")
    shutil.copy(EAGER, tmp_path / "b.gz")
    (tmp_path / "limits.txt").write_text(LIMITS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("option", ["-o", "--summary=junit="])
@pytest.mark.parametrize("force", [[], ["--force"]])
@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("t.gz", "the trace itself"),
        ("./t.gz", "the trace itself"),
        ("link", "the trace itself"),
        ("hard", "the trace itself"),
        ("b.gz", "the baseline itself"),
        ("limits.txt", "the file of assertions itself"),
    ],
)
@pytest.mark.full
def test_what_a_check_reads_is_never_written_to(folder, option, force, target, says, capsys):
    (folder / "link").symlink_to("t.gz")
    os.link("t.gz", "hard")
    words = ["check", "t.gz#3", "-f", "limits.txt", "--baseline", "b.gz#3", f"{option}{target}", *force]
    assert main(words) == 2
    output = capsys.readouterr()
    assert says in output.err and output.out == ""
    for name in ("t.gz", "b.gz"):
        assert (folder / name).read_bytes() == EAGER.read_bytes()
    assert (folder / "limits.txt").read_text() == LIMITS


@pytest.mark.full
def test_a_trace_on_standard_input_is_not_written_to(folder):
    words = [sys.executable, "-m", "tracetui", "check", "-", "cpu_ops == 35", "-o", "t.gz", "--force"]
    with open("t.gz", "rb") as trace:
        done = subprocess.run(words, stdin=trace, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": ROOT})
    assert (done.returncode, done.stdout) == (2, "")
    assert "the trace itself" in done.stderr
    assert (folder / "t.gz").read_bytes() == EAGER.read_bytes()


@pytest.mark.parametrize("other", ["X", "./X", "link"])
@pytest.mark.parametrize("is_there", [False, True])
@pytest.mark.full
def test_two_results_do_not_share_a_file(folder, other, is_there, capsys):
    (folder / "link").symlink_to("X")
    if is_there:
        (folder / "X").touch()
    assert main(["check", "t.gz", "cpu_ops == 35", "--summary", "junit=X", "-o", other, "--force"]) == 2
    assert "one file" in capsys.readouterr().err
    assert (folder / "X").exists() == is_there
    assert main(["check", "t.gz", "cpu_ops == 35", "--summary", f"junit={os.devnull}", "-o", os.devnull]) == 0


WRITERS = {
    "check -o": ["check", "t.gz", "cpu_ops == 35", "-o"],
    "check --summary": ["check", "t.gz", "cpu_ops == 35", "--summary=junit="],
    "names": ["check", "t.gz", "--names", "-o"],
    "cut": ["cut", "t.gz", "--steps", "3", "-o"],
    "repair": ["repair", "t.gz", "-o"],
    "report": ["report", "t.gz", "-o"],
    "report of two": ["report", "t.gz#3", "b.gz#3", "-o"],
}
"""A command for each way to write a file, whose last word the path is added to."""


@pytest.fixture(params=WRITERS)
def words(request, folder):
    return WRITERS[request.param]


@pytest.mark.full
def test_what_exists_stays_unless_forced(folder, words, capsys):
    (folder / "mine.json").write_text("mine")
    assert main([*words[:-1], words[-1] + "mine.json"]) == 2
    output = capsys.readouterr()
    assert output.err == "tracetui: mine.json exists already: name another file, or --force replaces it.\n"
    assert output.out == ""
    assert (folder / "mine.json").read_text() == "mine"
    assert main([*words[:-1], words[-1] + "mine.json", "--force"]) == 0
    assert (folder / "mine.json").read_text() != "mine"


@pytest.mark.parametrize(
    ("path", "says"), [("sub", "sub is a folder: name a file in it."), ("no/x.json", "there is no folder no.")]
)
@pytest.mark.full
def test_no_file_can_be_there(folder, words, path, says, capsys):
    (folder / "sub").mkdir()
    for force in ([], ["--force"]):
        assert main([*words[:-1], words[-1] + path, *force]) == 2
        output = capsys.readouterr()
        assert says in output.err and output.out == ""
    assert list((folder / "sub").iterdir()) == []
    assert not (folder / "no").exists()


@pytest.mark.parametrize("force", [[], ["--force"]])
@pytest.mark.full
def test_an_input_is_never_written_to(folder, words, force, capsys):
    (folder / "link.gz").symlink_to("t.gz")
    os.link("t.gz", "hard.gz")
    for name in ("t.gz", "./t.gz", "link.gz", "hard.gz", *(["b.gz"] if "b.gz#3" in words else [])):
        assert main([*words[:-1], words[-1] + name, *force]) == 2
        assert "the trace itself" in capsys.readouterr().err
    assert (folder / "t.gz").read_bytes() == EAGER.read_bytes()


def test_a_link_to_nothing_is_not_followed(folder, words, capsys):
    (folder / "link.json").symlink_to("elsewhere.json")
    assert main([*words[:-1], words[-1] + "link.json"]) == 2
    assert "exists already" in capsys.readouterr().err
    assert main([*words[:-1], words[-1] + "link.json", "--force"]) == 0
    assert not (folder / "link.json").is_symlink()
    assert (folder / "link.json").stat().st_size > 0
    assert not (folder / "elsewhere.json").exists()


@pytest.mark.full
def test_a_link_to_a_file_stays_one(folder, words):
    (folder / "file.json").write_text("old")
    (folder / "link.json").symlink_to("file.json")
    assert main([*words[:-1], words[-1] + "link.json", "--force"]) == 0
    assert (folder / "link.json").is_symlink()
    assert (folder / "file.json").read_text() != "old"


@pytest.mark.full
def test_a_file_that_is_replaced_keeps_its_mode(folder, words):
    (folder / "out.json").write_text("old")
    (folder / "out.json").chmod(0o600)
    assert main([*words[:-1], words[-1] + "out.json", "--force"]) == 0
    assert stat.S_IMODE((folder / "out.json").stat().st_mode) == 0o600


def test_the_default_name_of_a_report_is_numbered(folder):
    (folder / "t.gz.report.html").symlink_to("elsewhere")
    assert [main(["report", "t.gz"]) for _ in range(2)] == [0, 0]
    assert main(["report", "t.gz", "--force"]) == 0
    names = {path.name for path in folder.glob("*.html")}
    assert names == {"t.gz.report.html", "t.gz.report-2.html", "t.gz.report-3.html"}
    assert not (folder / "elsewhere").exists()
    assert not (folder / "t.gz.report.html").is_symlink()


@pytest.mark.parametrize("option", ["-o", "--summary=junit="])
def test_results_are_printed_even_where_they_cannot_be_written(folder, option, capsys, monkeypatch):
    def full(*_, **more):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    monkeypatch.setattr(os, "link", full)
    assert main(["check", "t.gz", "cpu_ops == 35", f"{option}x"]) == 1
    output = capsys.readouterr()
    assert output.out.endswith("1 of 1 holds\n")
    assert "x cannot be written: No space left on device" in output.err
    assert not (folder / "x").exists()


def test_a_dash_is_standard_output(folder, capsys):
    assert main(["check", "t.gz", "cpu_ops == 35", "-o", "-"]) == 0
    assert capsys.readouterr().out.endswith("1 of 1 holds\n")
    assert main(["check", "t.gz", "cpu_ops == 35", "--summary", "junit=-"]) == 2
    assert "--format junit" in capsys.readouterr().err
    assert not (folder / "-").exists()


SCRIPT = """\
import sys; from pathlib import Path; from tracetui.files import write_whole
print("first"); write_whole(Path(sys.argv[1]), "second\\n"); print("third")
"""


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="descriptors have no names on this system")
@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "link"])
@pytest.mark.parametrize("mode", ["w", "a"])
def test_what_is_open_already_is_written_on_and_not_begun_anew(folder, name, mode):
    (folder / "link").symlink_to("/dev/stdout")
    (folder / "log").write_text("before\n")
    number = os.stat("log").st_ino
    with open("log", mode) as log:
        subprocess.run(
            [sys.executable, "-c", SCRIPT, name], stdout=log, check=True, env=os.environ | {"PYTHONPATH": ROOT}
        )
    kept = "before\n" if mode == "a" else ""
    assert (folder / "log").read_text() == f"{kept}first\nsecond\nthird\n"
    assert os.stat("log").st_ino == number


def test_a_pipe_is_written_to(folder):
    words = [sys.executable, "-c", SCRIPT, "/dev/stdout"]
    done = subprocess.run(words, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": ROOT})
    assert (done.stdout, done.stderr) == ("first\nsecond\nthird\n", "")


def test_a_circle_of_links_and_plain_files_are_not_open_already(folder):
    (folder / "a").symlink_to("b")
    (folder / "b").symlink_to("a")
    (folder / "7").touch()
    for name in ("a", "7", "t.gz", "absent", os.devnull):
        assert open_already(Path(name)) is None
    write_whole(Path("7"), "text")
    assert (folder / "7").read_text() == "text"
