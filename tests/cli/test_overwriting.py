"""Where results may be written: never over what a check reads, and over nothing that another has made."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support.paths import ROOT, SAMPLES
from tracetui.cli.main import main
from tracetui.drawing.text.check_results import is_result
from tracetui.files import open_already, write_whole

EAGER = SAMPLES / "mlp_eager_cpu.json.gz"
LIMITS = "cpu_ops == 35\n"
BY_OTHERS = '<?xml version="1.0" encoding="utf-8"?><testsuites name="pytest tests"><testsuite/></testsuites>\n'


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a trace, a baseline, and assertions, in which the test runs."""
    shutil.copy(EAGER, tmp_path / "t.gz")
    shutil.copy(EAGER, tmp_path / "b.gz")
    (tmp_path / "limits.txt").write_text(LIMITS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("option", ["-o", "--junit"])
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
def test_what_a_check_reads_is_never_written_to(folder, option, force, target, says, capsys):
    (folder / "link").symlink_to("t.gz")
    os.link("t.gz", "hard")
    words = ["check", "t.gz#3", "-f", "limits.txt", "--baseline", "b.gz#3", option, target, *force]
    assert main(words) == 2
    output = capsys.readouterr()
    assert says in output.err and output.out == ""
    for name in ("t.gz", "b.gz"):
        assert (folder / name).read_bytes() == EAGER.read_bytes()
    assert (folder / "limits.txt").read_text() == LIMITS


def test_a_trace_on_standard_input_is_not_written_to(folder):
    words = [sys.executable, "-m", "tracetui", "check", "-", "cpu_ops == 35", "-o", "t.gz", "--force"]
    with open("t.gz", "rb") as trace:
        done = subprocess.run(words, stdin=trace, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": ROOT})
    assert (done.returncode, done.stdout) == (2, "")
    assert "the trace itself" in done.stderr
    assert (folder / "t.gz").read_bytes() == EAGER.read_bytes()


@pytest.mark.parametrize("other", ["X", "./X", "link"])
@pytest.mark.parametrize("is_there", [False, True])
def test_two_results_do_not_share_a_file(folder, other, is_there, capsys):
    (folder / "link").symlink_to("X")
    if is_there:
        (folder / "X").touch()
    assert main(["check", "t.gz", "cpu_ops == 35", "--junit", "X", "-o", other]) == 2
    assert "one file" in capsys.readouterr().err
    assert (folder / "X").exists() == is_there
    assert main(["check", "t.gz", "cpu_ops == 35", "--junit", os.devnull, "-o", os.devnull]) == 0


@pytest.mark.parametrize("form", ["text", "json", "md", "junit"])
@pytest.mark.parametrize("expression", ["cpu_ops == 35", "cpu_ops == 3", "kernels == 3"])
def test_an_earlier_result_is_replaced(folder, form, expression):
    words = ["check", "t.gz", "--format", form, "-o", "out", "--baseline", "b.gz"]
    codes = [main([*words, expression]), main([*words, expression, "dur_us < 1s"])]
    assert set(codes) <= {0, 1}
    assert "dur_us" in (folder / "out").read_text()
    codes = [main(["check", "t.gz", expression, "--junit", "x.xml"]) for _ in range(2)]
    assert set(codes) <= {0, 1}
    assert ElementTree.parse("x.xml").getroot().tag == "testsuites"


@pytest.mark.parametrize("form", ["text", "json", "md"])
def test_an_earlier_list_of_names_is_replaced(folder, form):
    assert [main(["check", "t.gz", "--names", "--format", form, "-o", "names"]) for _ in range(2)] == [0, 0]
    assert "cpu_ops" in (folder / "names").read_text()


@pytest.mark.parametrize("option", ["-o", "--junit"])
@pytest.mark.parametrize("content", ["notes\n", BY_OTHERS, "2 of 3 hold\n", "ok then\n", '{"passes":1}', "\x00"])
def test_a_file_of_another_stays_unless_forced(folder, option, content, capsys):
    (folder / "mine").write_text(content)
    words = ["check", "t.gz", "cpu_ops == 35", option, "mine"]
    assert main(words) == 2
    assert "--force" in capsys.readouterr().err
    assert (folder / "mine").read_text() == content
    assert main([*words, "--force"]) == 0
    with open("mine", "rb") as file:
        assert is_result(file)


def test_an_empty_file_is_nobodys(folder):
    (folder / "mine").touch()
    assert main(["check", "t.gz", "cpu_ops == 35", "-o", "mine"]) == 0
    assert (folder / "mine").read_text().endswith("1 of 1 holds\n")


def test_the_end_of_a_long_result_is_looked_at():
    text = "".join(f"ok  kernels == {number}\n" for number in range(1000))
    assert is_result(io.BytesIO(f"{text}1000 of 1000 hold\n".encode()))
    assert not is_result(io.BytesIO(f"{text}and so on\n".encode()))


@pytest.mark.parametrize("option", ["-o", "--junit"])
def test_results_are_told_even_where_they_cannot_be_written(folder, option, capsys):
    assert main(["check", "t.gz", "cpu_ops == 35", option, "absent/x"]) == 1
    output = capsys.readouterr()
    assert output.out.endswith("1 of 1 holds\n")
    assert "absent/x cannot be written" in output.err
    assert main(["check", "t.gz", "cpu_ops == 35", option, str(folder)]) == 2


def test_a_dash_is_standard_output(folder, capsys):
    assert main(["check", "t.gz", "cpu_ops == 35", "-o", "-"]) == 0
    assert capsys.readouterr().out.endswith("1 of 1 holds\n")
    assert main(["check", "t.gz", "cpu_ops == 35", "--junit", "-"]) == 2
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


def test_the_json_of_a_check_is_known_again(folder):
    main(["check", "t.gz", "cpu_ops == 35", "--format", "json", "-o", "out.json"])
    assert json.loads((folder / "out.json").read_text())["passes"] is True
    with open("out.json", "rb") as file:
        assert is_result(file)
