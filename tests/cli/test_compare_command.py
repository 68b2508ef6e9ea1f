"""`tracetui compare`: how sides are written, what is printed in each format, and how mistakes are told."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import pytest

from tests.support.comparing import tutorial
from tests.support.comparing.played import compiled, eager, played
from tests.support.comparing.recording import write
from tests.support.paths import ROOT, SAMPLES
from tests.support.waiting import PROCESS_SECONDS
from tracetui.cli.inputs import named_pair, split
from tracetui.cli.main import main
from tracetui.errors import UsageError
from tracetui.opening.trace_opening import SideName

EAGER, COMPILED = SAMPLES / "mlp_eager_cpu.json.gz", SAMPLES / "mlp_compile_cpu.json.gz"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The tutorial's MLP as two files, which no test writes to."""
    folder = tmp_path_factory.mktemp("pair")
    files = [write(tutorial.mlp_events(mode), folder / f"{mode}.json") for mode in (tutorial.EAGER, tutorial.COMPILED)]
    return str(files[0]), str(files[1])


def printed(capsys, *words: object) -> str:
    assert main(["compare", *map(str, words)]) == 0
    return capsys.readouterr().out


def told(capsys, *words: object) -> dict:
    return json.loads(printed(capsys, *words, "--format", "json"))


def refused(capsys, *words: object) -> str:
    """What is said of a command that is not understood."""
    assert main(["compare", *map(str, words)]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert len(output.err.splitlines()) == 1
    return output.err


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with files of awkward names."""
    monkeypatch.chdir(tmp_path)
    for name in ("t.json", "u.json", "odd#3.json", "t.json#4", "#x"):
        (tmp_path / name).write_text("{}")


@pytest.mark.parametrize(
    ("word", "path", "scope"),
    [
        ("t.json", "t.json", ""),
        ("t.json#3", "t.json", "3"),
        ("t.json#", "t.json", ""),
        ("t.json#unfused[2]", "t.json", "unfused[2]"),
        ("t.json#Optimizer.step#AdamW.step", "t.json", "Optimizer.step#AdamW.step"),
        ("odd#3.json", "odd#3.json", ""),
        ("odd#3.json#2:5", "odd#3.json", "2:5"),
        ("t.json#4", "t.json#4", ""),
        ("-#3", "-", "3"),
        ("absent.json#3#4", "absent.json", "3#4"),
    ],
)
def test_path_and_scope(here, word, path, scope):
    assert split(word) == SideName(path, scope)


@pytest.mark.parametrize(
    ("words", "sides"),
    [
        (["t.json", "u.json"], [("t.json", ""), ("u.json", "")]),
        (["t.json#3", "#5"], [("t.json", "3"), ("t.json", "5")]),
        (["t.json", "#3", "#5"], [("t.json", "3"), ("t.json", "5")]),
        (["t.json", "#3"], [("t.json", ""), ("t.json", "3")]),
        (["t.json", "#x"], [("t.json", ""), ("#x", "")]),
        (["-", "t.json"], [("-", ""), ("t.json", "")]),
        (["-", "#3", "#5"], [("-", "3"), ("-", "5")]),
    ],
)
def test_two_sides(here, words, sides):
    assert [tuple(side) for side in named_pair(words)] == sides


@pytest.mark.parametrize(
    "words",
    [
        ["t.json"],
        ["#3", "t.json"],
        ["t.json", "3", "4"],
        ["t.json#3", "#4", "#5"],
        ["t.json", "u.json", "#3"],
        ["a"] * 4,
    ],
)
def test_words_that_name_no_two_sides(here, words):
    with pytest.raises(UsageError, match=r"A\.json B\.json"):
        named_pair(words)


def test_the_statement_stands_on_top_of_the_tables(capsys, pair):
    text = printed(capsys, *pair)
    places = [text.index(part) for part in ("A  eager.json", "* GPU time per step", "Per part", "GPU work", "CPU work")]
    assert places == sorted(places)
    assert "triton_poi_fused__unsafe_view_gelu_mul_0" in text
    assert re.search(r"^gone +aten::linear +3 → 0 ", text, re.MULTILINE)
    assert re.search(r"^fused into +gelu.*1", text, re.MULTILINE)


def test_two_steps_of_one_trace_are_read_once(capsys, monkeypatch):
    read: list[str] = []
    from tracetui.reading.load import load

    def noted(path: str, *more):
        read.append(path)
        return load(path, *more)

    monkeypatch.setattr("tracetui.opening.kept_traces.read_file", noted)
    found = told(capsys, EAGER, "#3", "#4")
    assert read == [str(EAGER)]
    assert (found["a"]["scope"], found["b"]["scope"]) == ("3", "4")
    assert (found["a"]["numbers"], found["b"]["numbers"]) == ([3], [4])


def test_json_has_everything(capsys, pair):
    found = told(capsys, *pair)
    assert list(found) == ["schema", "tool", "units", "a", "b", "headline", "statement", "totals", "kernels", "ops"]
    assert (found["a"]["compiled"], found["b"]["compiled"]) == (False, True)
    assert found["a"]["devices"] == ["NVIDIA A100-SXM4-80GB"]
    kernels = {row["mark"] for row in found["kernels"]["rows"]}
    assert "fused into" in kernels
    assert [column["name"] for column in found["ops"]["columns"]] == list(found["ops"]["rows"][0])
    measures = {row["measure"]: row for row in found["totals"]["rows"]}
    assert (measures["kernels"]["a"], measures["kernels"]["b"]) == (5, 4)
    assert any("8 % less" in sentence for sentence in found["statement"])


@pytest.mark.full
def test_one_table_as_csv_agrees_with_json(capsys, pair):
    for name in ("totals", "kernels", "ops"):
        rows = list(csv.DictReader(io.StringIO(printed(capsys, *pair, "--show", name, "--format", "csv"))))
        wanted = told(capsys, *pair, "--show", name)[name]["rows"]
        assert len(rows) == len(wanted) > 0
        for row, other in zip(rows, wanted, strict=True):
            assert list(row) == list(other)
            assert row == {key: "" if value is None else str(value) for key, value in other.items()}


def test_markdown_is_ready_for_a_pull_request(capsys, pair):
    text = printed(capsys, *pair, "--format", "md")
    assert text.startswith("**Comparison**, from A to B · A: `eager.json`, 3 steps")
    assert "\n- GPU time per step " in text
    for title in ("**Per part**", "**GPU work**", "**CPU work**"):
        assert title in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) > 20
    assert all(line.endswith("|") for line in rows)


@pytest.mark.full
def test_markdown_has_names_as_code_in_full_and_numbers_at_the_right(capsys, pair):
    text = printed(capsys, *pair, "--format", "md")
    [row] = [line for line in text.splitlines() if line.startswith("| fused into | `gelu")]
    assert "`gelu<bf16> vec4, mul<bf16> vec4 → fused" in row
    assert "…" not in text
    assert "\\<" not in text
    became = "gelu and mul became `triton_poi_fused__unsafe_view_gelu_mul_0` ("
    assert became in text
    headers = [line for line in text.splitlines() if line.startswith("| ---")]
    assert headers[0].startswith("| --- | ---: | ---: | ---: | ---: | --- |")
    assert headers[1].startswith("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---")
    alone = printed(capsys, *pair, "--format", "md", "--show", "kernels", "--where", "no such kernel")
    assert "No rows. No row contains 'no such kernel'" in alone


def test_a_scope_in_markdown_is_no_link(capsys, tmp_path):
    path = write(played(eager(), compiled()), tmp_path / "a.json")
    other = write(played(eager(), eager()), tmp_path / "b.json")
    text = printed(capsys, path, other, "--format", "md")
    assert "compare `#1` or `#2`." in text


@pytest.mark.full
def test_an_overview_is_cut_and_says_by_how_much(capsys, pair):
    text = printed(capsys, *pair)
    more = re.search(r"^Per part · (\d+) more: --show totals$", text, re.MULTILINE)
    assert more
    every = told(capsys, *pair)["totals"]["rows"]
    assert int(more[1]) == len(every) - 12
    assert len(printed(capsys, *pair, "--show", "totals").splitlines()) >= len(every)


@pytest.mark.full
def test_sort_where_and_limit(capsys, pair):
    rows = told(capsys, *pair, "--show", "ops", "--sort", "calls_a", "--limit", "2")["ops"]["rows"]
    assert [row["calls_a"] for row in rows] == sorted((row["calls_a"] for row in rows), reverse=True)
    assert len(rows) == 2
    found = told(capsys, *pair, "--where", "GELU")
    assert {row["name"] for row in found["ops"]["rows"]} >= {"aten::gelu"}
    assert all("gelu" in json.dumps(row).casefold() for name in ("kernels", "ops") for row in found[name]["rows"])
    sorted_anyway = told(capsys, *pair, "--sort", "calls_a")
    assert len(sorted_anyway["totals"]["rows"]) == len(told(capsys, *pair)["totals"]["rows"])


def test_a_text_that_stands_nowhere_is_told(capsys, pair):
    text = printed(capsys, *pair, "--where", "zzzz")
    assert text.count("No row contains 'zzzz'") == 3


@pytest.mark.full
def test_unfold_gives_view_ops_rows(capsys, pair):
    folded = {row["name"] for row in told(capsys, *pair)["ops"]["rows"]}
    assert {row["name"] for row in told(capsys, *pair, "--unfold")["ops"]["rows"]} - folded >= {"aten::t", "aten::view"}


def test_a_trace_without_a_gpu_has_no_table_of_kernels(capsys):
    assert "GPU work" not in printed(capsys, EAGER, COMPILED)
    assert printed(capsys, EAGER, COMPILED, "--show", "kernels").startswith("No rows.")


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ((EAGER,), "quote it"),
        ((EAGER, "#9"), "numbered 2, 3, 4"),
        ((EAGER, "#nothing"), "no step, annotation"),
        ((EAGER, COMPILED, "--format", "csv"), "--show totals"),
        ((EAGER, COMPILED, "--sort", "colour"), "measure"),
        ((EAGER, COMPILED, "--show", "ops", "--sort", "measure"), "calls_a"),
        (("#3", EAGER), "without a trace"),
    ],
)
def test_a_mistake_is_told_with_what_there_is(capsys, words, hint):
    assert hint in refused(capsys, *words)


def test_a_file_that_is_not_there(capsys, tmp_path):
    assert main(["compare", str(EAGER), str(tmp_path / "absent.json#3")]) == 1
    assert "absent.json" in capsys.readouterr().err


def test_a_cut_file_is_compared_as_far_as_it_goes(capsys, pair, tmp_path):
    cut = tmp_path / "cut.json"
    cut.write_bytes(Path(pair[0]).read_bytes()[:-9000])
    assert main(["compare", str(cut), pair[1]]) == 1
    output = capsys.readouterr()
    assert "A was not read to its end" in output.out
    assert "cut off" in output.err


@pytest.mark.full
def test_standard_input_may_be_one_side():
    result = subprocess.run(
        [sys.executable, "-m", "tracetui", "compare", "-", str(COMPILED), "--format", "json"],
        cwd=ROOT,
        input=EAGER.read_bytes(),
        capture_output=True,
        timeout=PROCESS_SECONDS,
    )
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["b"]["compiled"] is True


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a terminal to draw on")
@pytest.mark.parametrize(("lines", "columns"), [(24, 80), (50, 200), (40, 60)])
@pytest.mark.full
def test_on_a_terminal_nothing_is_wider_than_it(pair, lines, columns):
    text = on_a_terminal(pair, lines, columns)
    assert max(map(len, text.splitlines())) <= columns
    assert "gelu and mul became" in re.sub(r"\s+", " ", text)


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a terminal to draw on")
@pytest.mark.full
def test_on_a_narrow_terminal_the_verdict_stays(pair):
    text = on_a_terminal(pair, 40, 60)
    narrower = on_a_terminal(pair, 40, 50)
    assert re.search(r"^measure +A +B +(B - A +)?(B / A +)?change$", narrower, re.MULTILINE)
    assert re.search(r"^measure +A +B +.*change$", text, re.MULTILINE)
    assert re.search(r"^kernels .* less$", text, re.MULTILINE)
    assert re.search(r"^mark +kernel ", text, re.MULTILINE)


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a terminal to draw on")
@pytest.mark.full
def test_several_on_a_narrow_terminal(pair):
    text = on_a_terminal((*pair, pair[0]), 40, 60)
    assert max(map(len, text.splitlines())) <= 60
    assert re.search(r"^measure +A +B +C$", text, re.MULTILINE)


@lru_cache
def on_a_terminal(sides: tuple[str, ...], lines: int, columns: int) -> str:
    """What the command prints on a terminal of that size; the same words on the same size are run once."""
    import fcntl
    import struct
    import termios

    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    command = [sys.executable, "-m", "tracetui", "compare", *sides]
    # These would be believed before the terminal.
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    child = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=theirs, stderr=subprocess.DEVNULL)
    os.close(theirs)
    parts = []
    try:
        while part := os.read(ours, 65536):
            parts.append(part)
    except OSError:
        pass  # Linux ends a terminal this way.
    os.close(ours)
    assert child.wait(PROCESS_SECONDS) == 0
    return re.sub(r"\x1b\[[0-9;]*m|\r", "", b"".join(parts).decode())


def test_a_condition_filters_the_tables_that_have_its_columns(capsys, pair):
    found = told(capsys, *pair, "--where", "change_us < 0 & calls_a > 0")
    assert found["kernels"]["rows"] and all(row["change_us"] < 0 for row in found["kernels"]["rows"])
    assert found["totals"]["rows"] == []
    assert "no column 'change_us'" in found["totals"]["note"]
