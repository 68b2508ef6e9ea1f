"""`tracetui check` as a process of its own would run it: exit codes, files, words between options, and help."""

from __future__ import annotations

import gzip
import json
import re
from xml.etree import ElementTree

import pytest

from tests.support.paths import ROOT, SAMPLES
from tests.support.processes import loaded_after
from tracetui.checking.functions import FIELDS, FUNCTIONS
from tracetui.checking.lists import LISTS, measured
from tracetui.checking.values import LITERALS
from tracetui.cli.main import main
from tracetui.comparing.side import side
from tracetui.reading.load import load

EAGER = str(SAMPLES / "mlp_eager_cpu.json.gz")
COMPILED = str(SAMPLES / "mlp_compile_cpu.json.gz")
DOCUMENT = (ROOT / "docs" / "check.md").read_text()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["cpu_ops == 35"], 0),
        (["cpu_ops == 35", "cpu_ops == 35"], 0),
        (["cpu_ops == 35", "dur_us < 1s"], 0),
        (["cpu_ops == 35", "dur_us < 1us"], 1),
        (["kernels == 5"], 1),
        (["kernals == 5"], 2),
        (["cpu_ops = 35"], 2),
        (["cpu_ops"], 2),
        ([], 2),
        (["--strict", "cpu_ops == 35"], 2),
        (["--nonsense", "cpu_ops == 35"], 2),
        (["--tolerance", "5", "--baseline", COMPILED], 2),
        (["-f", "absent.txt"], 2),
        (["--baseline", EAGER], 0),
        (["--baseline", COMPILED], 1),
        (["--baseline", COMPILED, "--tolerance", "50%"], 0),
        (["--baseline", COMPILED, "--not-slower", "cpu_ops"], 1),
        (["--baseline", "absent.json"], 1),
        (["--format", "md", "cpu_ops == 35", "--strict", "--baseline", EAGER, "dur_us < 1s"], 0),
        (["-1 < cpu_ops", "--format", "json", "0 - 1 < cpu_ops"], 0),
        (["--names"], 0),
        (["--names", "--format", "junit"], 2),
    ],
)
@pytest.mark.full
def test_exit_codes(words, code, capsys):
    try:
        found = main(["check", EAGER, *words])
    except SystemExit as exit:
        found = int(exit.code or 0)
    assert found == code
    output = capsys.readouterr()
    assert "Traceback" not in output.err
    assert bool(output.err) == (code == 2 or "absent.json" in words)
    assert bool(output.out) == (code != 2 and "absent.json" not in words)


def test_a_mistake_is_shown_with_a_caret(capsys):
    assert main(["check", EAGER, "cpu_ops == 35 and kernals < 3"]) == 2
    sentence, text, caret = capsys.readouterr().err.splitlines()
    assert sentence == "tracetui: There is no 'kernals'. Did you mean kernels?"
    assert text.strip() == "cpu_ops == 35 and kernals < 3"
    assert text[len(caret) - 1 :].startswith("kernals")


def test_assertions_in_a_file_and_junit_beside_the_text(tmp_path, capsys):
    limits = tmp_path / "limits.txt"
    limits.write_text("\ufeff# what must hold\n\ncpu_ops == 35  # as ever\n   # indented\nworkload == 'm#p'\n")
    report, text = tmp_path / "report.xml", tmp_path / "out.txt"
    code = main(["check", EAGER, "dur_us < 1s", "-f", str(limits), "--summary", f"junit={report}", "-o", str(text)])
    assert (code, capsys.readouterr().out) == (1, "")
    names = [case.get("name") for case in ElementTree.parse(report).iter("testcase")]
    assert names == ["dur_us < 1s", "cpu_ops == 35", "workload == 'm#p'"]
    assert text.read_text().splitlines()[-1] == "2 of 3 hold: 1 fails"


@pytest.mark.parametrize("content", [b"", b"# nothing\n", b"\xff\xfe\x00", b"cpu_ops == 35\nkernals == 2\n"])
def test_a_file_of_assertions_that_is_none(tmp_path, content, capsys):
    limits = tmp_path / "limits.txt"
    limits.write_bytes(content)
    assert main(["check", EAGER, "-f", str(limits)]) == 2
    assert capsys.readouterr().out == ""


def test_every_mistake_is_told_with_its_file_and_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("# remark\nkernals == 5\ncpu_ops == 35\n\ncpu_ops = 3\n")
    (tmp_path / "b.txt").write_text("dur_us < 1s\nnot any(gaps.dur > 1)\n")
    assert main(["check", EAGER, "cpu_ops", "-f", "a.txt", "-f", "b.txt"]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    told = [line for line in output.err.splitlines() if line.startswith("tracetui: ")]
    assert [line.removeprefix("tracetui: ").split(":")[0] for line in told] == [
        "a.txt, line 5",
        "cpu_ops is a value, and an assertion compares it with something",
        "a.txt, line 2",
        "b.txt, line 2",
    ]
    assert output.err.count("^") == 4


def test_of_many_mistakes_the_first_are_told(tmp_path, capsys):
    limits = tmp_path / "limits.txt"
    limits.write_text("".join(f"cpu_ops = {number}\n" for number in range(50)))
    assert main(["check", EAGER, "-f", str(limits)]) == 2
    error = capsys.readouterr().err
    assert error.count("^") == 20
    assert error.endswith("30 more are not understood.\n")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["cpu_ops == 35", EAGER], f"The trace comes first: tracetui check {EAGER} 'cpu_ops == 35'."),
        (["cpu_ops == 35", f"{EAGER}#3"], "The trace comes first"),
        (["cpu_ops == 35"], "The trace is missing: tracetui check TRACE 'cpu_ops == 35'."),
        ([EAGER, COMPILED], "--baseline B"),
        ([EAGER, "cpu_ops", "==", "35"], "Quote the expression, for the shell takes it apart: 'cpu_ops == 35'."),
        ([EAGER, "cpu_ops", "==", "35", "--format", "json"], "'cpu_ops == 35'"),
        ([EAGER, "--format", "json", "cpu_ops", "==", "35"], "'cpu_ops == 35'"),
        ([EAGER, "cpu_ops"], "in quotes"),
    ],
)
def test_arguments_that_are_mixed_up(words, says, capsys):
    assert main(["check", *words]) == 2
    output = capsys.readouterr()
    assert says in output.err and output.out == ""
    assert output.err.count("tracetui: ") == 1


def test_a_trace_that_is_absent_is_not_taken_for_an_expression(capsys):
    assert main(["check", "absent.json", "cpu_ops == 35"]) == 1
    assert "absent.json" in capsys.readouterr().err
    assert main(["check", "absent", "cpu_ops == 35"]) == 1
    assert main(["check", "kernels", "cpu_ops == 35"]) == 1


def test_what_else_is_wrong_is_told_beside_a_mistake(capsys):
    assert main(["check", "absent.json", "kernels =", "cpu_ops == 35"]) == 2
    error = capsys.readouterr().err
    assert "kernels =" in error and "absent.json" in error


def test_scopes_of_both_sides(capsys):
    assert main(["check", f"{EAGER}#3", "cpu_ops == 35", "count(steps) == 1", "steps == 1"]) == 0
    assert main(["check", f"{EAGER}#3", "--baseline", "#4", "cpu_ops == baseline.cpu_ops"]) == 0
    assert main(["check", f"{EAGER}#9", "cpu_ops == 35"]) == 2
    assert main(["check", f"{EAGER}#aten::mm", "kernels_per_step == 1", "count(runs) == 9"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "found 9, wanted 9" in lines[-2]


def test_a_trace_that_is_cut_off_fails_with_every_assertion_held(tmp_path, capsys):
    path = tmp_path / "cut.json"
    path.write_bytes(gzip.decompress((SAMPLES / "mlp_eager_cpu.json.gz").read_bytes())[:-5000])
    assert main(["check", str(path), "cpu_ops > 0", "--format", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["counts"]["holds"] == document["counts"]["missing"] == 1
    assert document["trace"]["partial"] is True


@pytest.mark.parametrize("form", ["text", "json", "md"])
@pytest.mark.full
def test_the_names_in_every_form(form, capsys):
    assert main(["check", "--names", EAGER, "--format", form]) == 0
    assert "cpu_ops" in capsys.readouterr().out


def test_help_loads_nothing_heavy_and_has_the_exit_codes(capsys):
    script = "from tracetui.cli.main import main\ntry: main(['check', '--help'])\nexcept SystemExit: pass"
    assert not loaded_after(script) & {"numpy", "textual", "rich", "orjson", "torch"}
    with pytest.raises(SystemExit):
        main(["check", "--help"])
    text = capsys.readouterr().out
    assert "--names" in text and "exit codes" in text


def test_the_document_names_everything():
    trace = load(EAGER)
    named = set(re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", DOCUMENT, flags=re.DOTALL)))
    words = {word for text in named for word in re.findall(r"[A-Za-zµ_/%0-9]+", text)}
    wanted = [
        *FUNCTIONS,
        *LISTS,
        *measured(side(trace)),
        *FIELDS,
        *(each for group in FIELDS.values() for each in group),
    ]
    assert [name for name in wanted if name not in words] == []
    assert [label for label in LITERALS if label not in DOCUMENT and not label.endswith("/s") and label != "μs"] == []


def test_every_example_of_the_document_is_understood():
    from tracetui.checking.parser import parsed

    lines = [line for block in re.findall(r"```text\n(.*?)```", DOCUMENT, re.S) for line in block.splitlines()]
    found = [line for line in lines if line.strip() and not line.startswith("#")]
    assert len(found) > 15
    for line in found:
        parsed(line)


def test_an_assertion_that_is_given_twice_is_checked_once(capsys):
    assert main(["check", EAGER, "cpu_ops == 35", " cpu_ops == 35 # again", "--format", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["checks"]) == 1


def test_summaries_stand_beside_what_is_printed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    asked = ["check", EAGER, "dur_us < 1us", "--summary", "md", "--summary", "junit", "--summary", "md=own.md"]
    assert main(asked) == 1
    assert capsys.readouterr().out.startswith("FAIL")
    assert {path.name for path in tmp_path.iterdir()} == {"tracetui-check.md", "tracetui-check.xml", "own.md"}
    assert (tmp_path / "own.md").read_text() == (tmp_path / "tracetui-check.md").read_text()
    assert main(asked) == 2, "they exist by now"


def test_in_github_actions_the_summary_is_added_to_that_of_the_job(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "job"))
    (tmp_path / "job").write_text("before\n")
    assert [main(["check", EAGER, "dur_us < 1s", "--summary", "md"]) for _ in range(2)] == [0, 0]
    text = (tmp_path / "job").read_text()
    assert text.startswith("before\n") and text.count("1 of 1 holds") == 2
    assert [path.name for path in tmp_path.iterdir()] == ["job"]
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "no" / "job"))
    capsys.readouterr()
    assert main(["check", EAGER, "dur_us < 1s", "--summary", "md"]) == 1
    output = capsys.readouterr()
    assert "1 of 1 holds" in output.out and "cannot be written" in output.err


@pytest.mark.parametrize("words", ["html", "md=", "md=-", "junit=-", "=x"])
def test_a_summary_that_makes_no_sense(words, capsys):
    assert main(["check", EAGER, "dur_us < 1s", "--summary", words]) == 2
    assert main(["check", EAGER, "--names", "--summary", "md"]) == 2
    assert capsys.readouterr().out == ""
