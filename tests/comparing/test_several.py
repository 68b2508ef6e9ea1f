"""Three sides or more: one table against the first, in every format, and what is refused."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from tests.support.comparing import tutorial
from tests.support.comparing.played import compiled, eager, played, trace_of
from tests.support.comparing.recording import write
from tests.support.traces import loaded
from tracetui.cli.inputs import named_sides
from tracetui.cli.main import main
from tracetui.comparing.change_rows import paired
from tracetui.comparing.side import side
from tracetui.comparing.statement import Several
from tracetui.errors import UsageError
from tracetui.opening.trace_opening import SideName

PUZZLE = "puzzlers/fusion_mwe_trace.json.gz"
FOUR = ("#unfused[1]", "#fused[1]", "#unfused[2]", "#fused[2]")


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """The tutorial's MLP run in three ways."""
    modes = (tutorial.EAGER, tutorial.COMPILED, tutorial.FUSED)
    return [str(write(tutorial.mlp_events(mode), tmp_path / f"{mode}.json")) for mode in modes]


def printed(capsys, *words: object) -> str:
    assert main(["compare", *map(str, words)]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "sides"),
    [
        (["a", "b", "c"], [("a", ""), ("b", ""), ("c", "")]),
        (["a", "#1", "#2", "#3"], [("a", "1"), ("a", "2"), ("a", "3")]),
        (["a#1", "#2", "b#1", "#2"], [("a", "1"), ("a", "2"), ("b", "1"), ("b", "2")]),
        (["a#1", "b", "c#f"], [("a", "1"), ("b", ""), ("c", "f")]),
        (["-", "#1", "#2", "#3"], [("-", "1"), ("-", "2"), ("-", "3")]),
    ],
)
def test_how_sides_are_named(words, sides):
    assert named_sides(words) == tuple(SideName(*each) for each in sides)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["a", "b", "#3"], "not clear whether b is"),
        (["#3", "a", "b"], "without a trace"),
        (["a", "3", "4"], "quote it"),
    ],
)
def test_what_names_no_sides(words, hint):
    with pytest.raises(UsageError, match=hint):
        named_sides(words)


def test_each_is_held_against_the_first_as_a_pair_would_be():
    sides = [side(trace) for trace in (tutorial.mlp(), tutorial.mlp(tutorial.COMPILED), tutorial.mlp(tutorial.FUSED))]
    rows = {str(row["measure"]): row for row in Several(tuple(sides)).totals.rows()}
    for letter, other in zip("bc", sides[1:], strict=True):
        for name, total in paired(sides[0], other).items():
            assert rows[name][f"{letter}_change"] == total.change.value
            assert rows[name][letter] == total.difference.b.median
            assert rows[name]["a"] == total.difference.a.median


def test_a_measure_that_one_alone_has_is_nothing_of_the_others():
    copied = trace_of(eager(), eager())
    sides = [side(trace) for trace in (copied, copied, tutorial.matmul_add(tutorial.COMPILED))]
    row = {str(row["measure"]): row for row in Several(tuple(sides)).totals.rows()}["copy_us"]
    assert (row["a"], row["b"], row["c_change"]) == (0, 0, "more")


def test_what_is_said_of_each_names_it():
    mixed = trace_of(eager(), compiled())
    sides = [side(trace) for trace in (trace_of(eager(), eager()), trace_of(eager(3), eager(3)), mixed)]
    openings = Several(tuple(sides)).openings
    assert openings[0][0].startswith("GPU time per step 200 → 150 µs: 25 % less")
    assert openings[1][0].startswith("The steps of C differ in what they run (8 and 4 kernels)")
    assert len(openings[1]) == 1
    same = Several((sides[0], sides[1], sides[0])).openings[1]
    assert same == ("A and C are the same: nothing differs.",)
    remark = {row["measure"]: row["c_remark"] for row in Several(tuple(sides)).totals.rows()}["kernels"]
    assert remark == "the parts of C differ in what they run"


@pytest.mark.full
def test_as_text(capsys, files):
    text = printed(capsys, *files)
    lines = text.splitlines()
    assert [line[:3] for line in lines if line[1:3] == "  "][:3] == ["A  ", "B  ", "C  "]
    assert re.search(r"^\* B: GPU time per step 70\d → 64\d µs: 8 % less", text, re.MULTILINE)
    assert re.search(r"^kernels +5 +4 ÷1\.25 +4 ÷1\.25$", text, re.MULTILINE)
    more = re.search(r"^Per part, each with A · (\d+) more: --show totals$", text, re.MULTILINE)
    assert more
    whole = printed(capsys, *files, "--show", "totals").partition("\n\n")[0].splitlines()
    shown = text[more.end() :].partition("\n\n")[0].split("\n")[2:]
    assert len(whole) - 1 == len(shown) + int(more[1])
    assert not [line for line in whole if line.startswith("*")]


def test_of_another_program_there_are_no_factors(capsys, files, tmp_path):
    other = write(played(eager(9), eager(9)), tmp_path / "other.json")
    text = printed(capsys, files[0], other, files[1])
    assert "* B: These are different programs: of A's GPU time 0 % has a match in B, " in text
    assert re.search(r"^kernels +5 +18 +4 ÷1\.25$", text, re.MULTILINE)


@pytest.mark.full
def test_the_commands_print_each_pair(capsys, files):
    text = printed(capsys, *files)
    commands = [line.partition("tracetui ")[2] for line in text.splitlines() if "tracetui compare" in line]
    assert len(commands) == 2
    for command, name in zip(commands, ("compile.json", "fused.json"), strict=True):
        assert main(shlex.split(command)) == 0
        assert f"B  {name}" in capsys.readouterr().out


def test_as_json_and_csv(capsys, files):
    found = json.loads(printed(capsys, *files, "--format", "json"))
    assert [row["mark"] for row in found["sides"]] == ["A", "B", "C"]
    assert [row["compiled"] for row in found["sides"]] == [False, True, False]
    assert [(row["a"], row["b"]) for row in found["statements"]] == [("A", "B"), ("A", "C")]
    assert all(row["statement"] and row["command"].startswith("tracetui compare ") for row in found["statements"])
    rows = list(csv.DictReader(io.StringIO(printed(capsys, *files, "--format", "csv"))))
    assert rows == [{k: "" if v is None else str(v) for k, v in row.items()} for row in found["totals"]["rows"]]


def test_as_markdown(capsys, files):
    text = printed(capsys, *files, "--format", "md")
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    aligned = [token.attrs.get("style", "") for token in tokens if token.type == "th_open"]
    assert aligned == ["", *["text-align:right"] * 3]
    assert "| `kernels` | 5 | 4 ÷1.25 | 4 ÷1.25 |" in text
    alone = printed(capsys, *files, "--format", "md", "--show", "totals")
    assert alone.startswith("| measure |")
    assert "graph_launches" in alone


@pytest.mark.full
def test_rows_are_sorted_chosen_and_cut(capsys, files):
    rows = json.loads(printed(capsys, *files, "--format", "json", "--sort", "b_ratio", "--limit", "2"))["totals"][
        "rows"
    ]
    assert len(rows) == 2
    assert rows[0]["b_ratio"] >= rows[1]["b_ratio"] > 1
    text = printed(capsys, *files, "--where", "gpu_idle")
    assert "gpu_idle_pct" in text
    assert "cpu_us" not in text.partition("Per part")[2]
    assert "No row contains 'zzz'" in printed(capsys, *files, "--where", "zzz")


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("--show", "kernels"), "--show kernels is for two sides"),
        (("--show", "ops"), "--show ops is for two sides"),
        (("--unfold",), "--unfold is for the operators of two"),
        (("--sort", "colour"), "b_ratio"),
    ],
)
def test_what_speaks_of_two_sides_is_refused(capsys, files, words, hint):
    assert main(["compare", *files, *words]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert hint in output.err


def test_there_are_as_many_as_letters(capsys, files):
    assert main(["compare", *files[:1] * 27]) == 2
    assert "At most 26" in capsys.readouterr().err


def test_a_cut_file_among_them(capsys, files, tmp_path):
    cut = tmp_path / "cut.json"
    cut.write_bytes(Path(files[0]).read_bytes()[:-9000])
    assert main(["compare", files[0], files[1], str(cut)]) == 1
    assert "* C: C was not read to its end" in capsys.readouterr().out


def test_the_four_variants_of_the_puzzle(capsys, shared_trace):
    text = printed(capsys, shared_trace(PUZZLE), *FOUR)
    for letter, times in zip("BCD", ("8.45", "2.54", "10.27"), strict=True):
        assert re.search(rf"^\* {letter}: GPU per run, .* {times} times as fast", text, re.MULTILINE)
    assert re.search(r"^gpu_span_us .* ÷8\.45 .* ÷2\.54 .* ÷10\.27$", text, re.MULTILINE)
    assert re.search(r"^kernels +36 +5 ÷7\.20 +19 ÷1\.89 +4 ÷9\.00$", text, re.MULTILINE)
    # Of C and D not all launches were recorded.
    assert re.search(r"^launches +36 +5 ÷7\.20 +– +–$", text, re.MULTILINE)
    trace = loaded(shared_trace(PUZZLE))
    rows = {row["measure"]: row for row in Several(tuple(side(trace, each[1:]) for each in FOUR)).totals.rows()}
    assert rows["launches"]["d_remark"] == "D: the launches of 2 of 4 GPU activities were not recorded"


def test_runs_of_one_file(capsys, tmp_path):
    path = write(played(eager(), eager(3), compiled(), steps=False), tmp_path / "a.json")
    text = printed(capsys, path, "#f[1]", "#f[2]", "#f[3]")
    assert f"In full: tracetui compare '{path}#f[1]' '#f[2]'" in text
    assert re.search(r"^kernels +8 +6 ÷1\.33 +4 ÷2\.00$", text, re.MULTILINE)
