"""The command line: exit codes, and what goes to which stream; in a process of its own where that matters."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.paths import ROOT, SAMPLES
from tests.support.pins import written
from tests.support.processes import COMMAND, tracetui, tracetui_process
from tests.support.waiting import PROCESS_SECONDS
from tracetui.cli.main import BLAS_THREADS, HUGE_PAGES, RECORDED, TRIED, main
from tracetui.panes import PANES
from tracetui.reading.load import load

EAGER = SAMPLES / "mlp_eager_cpu.json.gz"


@pytest.fixture
def shown(capsys) -> Callable[..., dict]:
    """A function for the object that `show ... --format json` prints, in this process: it is imported already."""

    def show(*words: object) -> dict:
        assert main(["show", *map(str, words), "--format", "json"]) == 0
        return json.loads(capsys.readouterr().out)

    return show


@pytest.mark.parametrize("pane", PANES)
@pytest.mark.parametrize("form", ["table", "json", "csv", "md"])
def test_every_pane_in_every_format(pane, form, capsys):
    assert main(["show", pane, str(EAGER), "--format", form]) == 0
    output = capsys.readouterr()
    assert output.out.endswith("\n")
    assert output.err == "" or form == "csv"


@pytest.mark.parametrize(("form", "begins"), [("folded", "whole trace;"), ("speedscope", '{"$schema":')])
def test_the_flame_tree_has_formats_of_its_own(form, begins, capsys):
    assert main(["show", "flame", str(EAGER), "--format", form]) == 0
    assert begins in capsys.readouterr().out
    assert main(["show", "ops", str(EAGER), "--format", form]) == 2
    assert "`tracetui show flame`" in capsys.readouterr().err


def test_a_range_of_time(shown):
    """Every pane takes one, and the pane of ranges has the same one in each notation."""
    rows = shown("range", EAGER, "--range", "300us+20us")["rows"]
    assert [rows[0][name] for name in ("what", "name", "total_us")] == ["range", "300us+20us", 20.0]
    assert rows == shown("range", EAGER, "--range", "@0.3ms+20000ns")["rows"]
    every, part = (shown("ops", EAGER, *words)["rows"] for words in ((), ("--range", "300us+20us")))
    assert 0 < sum(row["self_cpu_us"] for row in part) <= 20 < sum(row["self_cpu_us"] for row in every)


@pytest.mark.parametrize(
    "words", [("--range", "12us"), ("--range", "1us+2us", "--step", "3"), ("--range", "9s+1s"), ("--range=-9ms+3ms",)]
)
def test_what_is_no_range_of_time(words, capsys):
    try:
        assert main(["show", "kernels", str(EAGER), *words]) == 2
    except SystemExit as error:
        assert error.code == 2
    said = capsys.readouterr().err
    assert "12.5us+250us" in said or "exclude each other" in said or "is outside the trace, which lasts" in said


def test_the_app_opens_at_a_range_of_time(monkeypatch, capsys):
    begun = []

    def start(paths, step, at, options, ranks, follows):
        begun.append(at)
        return 0

    monkeypatch.setattr("tracetui.cli.open.require_terminal", lambda: None)
    monkeypatch.setattr("tracetui.cli.open.is_one_trace", lambda options: False)
    monkeypatch.setattr("tracetui.cli.open._keep_keyboard", lambda: None)
    monkeypatch.setattr("tracetui.ui.app.run", start)
    assert main(["open", str(EAGER), "--range", "0.1s+50ms"]) == 0
    assert begun == ["range=100000us+50000us"]
    assert main(["open", str(EAGER), "--range", "100"]) == 2
    assert "12.5us+250us" in capsys.readouterr().err


def test_a_pane_as_json():
    result = tracetui_process("show", "steps", EAGER, "--format", "json")
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    assert document["pane"] == "steps"
    assert document["trace"]["file"] == EAGER.name
    assert [row["step"] for row in document["rows"]] == [2, 3, 4]
    assert [column["name"] for column in document["columns"]] == list(document["rows"][0])


def test_csv_and_json_agree(shown):
    rows = list(csv.DictReader(io.StringIO(tracetui("show", "ops", EAGER, "--format", "csv").stdout)))
    assert [row["name"] for row in rows] == [row["name"] for row in shown("ops", EAGER)["rows"]]


def test_step_sort_where_and_limit(shown):
    everything = {row["name"]: row["calls"] for row in shown("ops", EAGER)["rows"]}
    one_step = {row["name"]: row["calls"] for row in shown("ops", EAGER, "--step", 4)["rows"]}
    assert one_step["aten::mm"] == 3
    assert everything["aten::mm"] == 9
    assert [row["name"] for row in shown("ops", EAGER, "--where", "GELU")["rows"]] == ["aten::gelu"]
    calls = [row["calls"] for row in shown("ops", EAGER, "--sort", "calls", "--limit", 3)["rows"]]
    assert calls == sorted(everything.values(), reverse=True)[:3]
    names = [row["name"] for row in shown("ops", EAGER, "--sort", "name")["rows"]]
    assert names == sorted(names, key=str.casefold)
    assert [row["name"] for row in shown("ops", EAGER, "--sort", "name:desc")["rows"]] == names[::-1]


def test_a_cut_table_says_so_on_standard_error():
    result = tracetui("show", "ops", EAGER, "--limit", 2)
    assert len(result.stdout.splitlines()) >= 3
    assert "2 of" in result.stderr


def test_standard_input():
    result = tracetui_process("show", "steps", "-", "--format", "json", input=EAGER.read_bytes())
    assert result.returncode == 0
    assert len(json.loads(result.stdout)["rows"]) == 3


def test_a_wrong_suffix_does_not_matter(shown, tmp_path):
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.decompress(EAGER.read_bytes()))
    assert len(shown("steps", path)["rows"]) == 3


@pytest.mark.parametrize(
    ("words", "listed"),
    [
        (["show", "kernals", EAGER], "Did you mean kernels?"),
        (["show", "ops", EAGER, "--sort", "callz"], "calls"),
        (["show", "ops", EAGER, "--step", "9"], "2"),
        (["show", "kernels", EAGER, "--by", "colour"], "name"),
        (["show", "ops", EAGER, "--limit", "-1"], "negative"),
        (["show", "ops"], "TRACE"),
        ([EAGER, "--nonsense"], "--nonsense"),
        (["shwo", "ops", EAGER], "Did you mean `tracetui show`?"),
    ],
)
def test_a_mistake_in_the_command_lists_what_there_is(words, listed):
    result = tracetui(*words)
    assert result.returncode == 2
    assert result.stdout == ""
    assert listed in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    "content",
    [b"", b"hello, this is no trace", b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 1\n"],
)
def test_a_file_that_is_no_trace(tmp_path, content):
    path = tmp_path / "odd.json"
    path.write_bytes(content)
    result = tracetui("show", "summary", path)
    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr.startswith("tracetui: ")
    assert "odd.json" in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs a file that opens and cannot be read")
def test_a_file_that_cannot_be_read_is_not_taken_for_the_output():
    result = tracetui("show", "ops", "/proc/self/mem")
    assert result.returncode == 1
    assert result.stderr.splitlines() == ["tracetui: mem cannot be read: Input/output error."]


def test_a_missing_file():
    for words in (["show", "summary", "absent.json"], ["absent.json"]):
        result = tracetui(*words)
        assert result.returncode == 1
        assert "absent.json" in result.stderr


def test_a_truncated_trace_is_shown_with_a_remark_and_exit_code_1(tmp_path):
    path = tmp_path / "cut.json"
    path.write_bytes(gzip.decompress(EAGER.read_bytes())[:-5000])
    result = tracetui("show", "steps", path, "--format", "json")
    assert result.returncode == 1
    assert json.loads(result.stdout)["trace"]["partial"] is True
    assert "cut off" in result.stderr


def test_without_a_terminal_one_trace_prints_its_overview_and_more_are_refused():
    result = tracetui("open", EAGER)
    assert result.returncode == 0
    assert result.stdout == tracetui("show", "overview", EAGER).stdout
    assert "where a step goes · step 2, the median of 3" in result.stdout and "\x1b" not in result.stdout
    result = tracetui("open", EAGER, EAGER)
    assert result.returncode == 2
    assert "tracetui show" in result.stderr


def test_help_and_version():
    assert "examples:" in tracetui("--help").stdout
    assert "kernels" in tracetui("show", "--help").stdout
    said = tracetui("--version").stdout
    assert said.startswith("tracetui ")
    assert TRIED in said
    assert said.splitlines()[-3].startswith("Events are read ")
    assert said.splitlines()[-2].startswith("gzip is inflated by zlib")
    assert said.splitlines()[-1] == "Only cells of the screen that change are written."
    pure = tracetui_process("--version", env={**os.environ, "TRACETUI_PURE": "1"}).stdout
    assert "Events are read in Python, as TRACETUI_PURE is set." in pure
    textual = tracetui_process("--version", env={**os.environ, "TRACETUI_NO_DIFFER": "1"}).stdout
    assert "Textual writes the screen, as TRACETUI_NO_DIFFER is set." in textual
    assert written()["torch"] == RECORDED[0]
    assert TRIED in " ".join((ROOT / "README.md").read_text().split())


def test_a_reader_that_stops_reading():
    child = subprocess.Popen(
        [*COMMAND, "show", "ops", str(EAGER), "--format", "json"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdout and child.stderr
    child.stdout.close()
    errors = child.stderr.read()
    child.stderr.close()
    assert child.wait(PROCESS_SECONDS) == 0
    assert errors == b""


def test_ctrl_c_ends_without_a_traceback():
    child = subprocess.Popen(
        [*COMMAND, "show", "ops", "-"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdin and child.stdout and child.stderr
    child.stdin.write(b'{"traceEvents": [\n' + b'{"ph": "M", "name": "x", "pid": 1}, \n' * 100_000)
    child.stdin.flush()
    time.sleep(0.3)
    os.kill(child.pid, signal.SIGINT)
    child.stdin.close()
    output, errors = child.stdout.read(), child.stderr.read()
    child.stdout.close()
    child.stderr.close()
    assert child.wait(PROCESS_SECONDS) == 130
    assert output == errors == b""


def test_an_annotation_can_stand_for_steps(shared_trace, capsys):
    path = str(shared_trace("d16_b300_tiny.json.gz"))
    name = "MoE[experts=8, tokens=512, topk=2, hidden=1024, intermediate=2048]"
    assert main(["show", "steps", path, "--steps-by", name, "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["step"], row["kernels"]) for row in rows] == [(1, 14), (2, 14), (3, 14)]
    assert main(["show", "steps", path, "--steps-by", "no such"]) == 2
    assert "cannot mark the steps" in capsys.readouterr().err


def test_output_that_cannot_be_written_is_one_sentence():
    command = [sys.executable, "-m", "tracetui", "show", "ops", str(SAMPLES / "mlp_eager_cpu.json.gz")]
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=PROCESS_SECONDS, check=False
        )
    assert result.returncode == 1
    assert result.stderr.splitlines() == ["tracetui: The output cannot be written: No space left on device."]


def test_a_condition_on_columns_filters_rows(shown):
    every = shown("ops", EAGER)["rows"]
    kept = shown("ops", EAGER, "--where", "self CPU > 1ms & !(op ~ mm) | calls == 9")["rows"]
    wanted = [r for r in every if (r["self_cpu_us"] > 1000 and "mm" not in r["name"]) or r["calls"] == 9]
    assert kept == wanted
    assert 0 < len(kept) < len(every)


@pytest.mark.parametrize(
    ("text", "caret", "said"),
    [("calls > ", 8, "ends where a value should follow"), ("colour == red", 0, "There is no column 'colour'")],
)
def test_a_filter_that_is_not_understood_is_pointed_at(text, caret, said, capsys):
    assert main(["show", "ops", str(EAGER), "--where", text]) == 2
    sentence, line, mark = capsys.readouterr().err.splitlines()
    assert said in sentence
    assert (line, mark) == (f"  {text}", " " * (caret + 2) + "^")


def test_a_filter_with_groups_is_about_the_groups(shown, capsys):
    rows = shown("ops", EAGER, "--by", "shape", "--where", "calls > 8")["rows"]
    assert rows and all(row["calls"] > 8 for row in rows)
    assert main(["show", "launches", str(EAGER), "--by", "op", "--where", "delay > 1us"]) == 2
    assert "With --by op a filter is about the groups." in capsys.readouterr().err
    assert main(["show", "ops", str(EAGER), "--where", "colour == red"]) == 2
    assert "With --by" not in capsys.readouterr().err


@pytest.mark.parametrize(("columns", "width"), [("70", 70), ("150", 150), ("12", 110), ("wide", 110), (None, 110)])
def test_findings_in_a_pipe_are_as_wide_as_columns_says(columns, width, capsys, monkeypatch, shared_trace):
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    assert main(["show", "findings", str(shared_trace("d16_b300_tiny.json.gz"))]) == 0
    titles = [line for line in capsys.readouterr().out.splitlines() if line.startswith(("major ", "minor "))]
    assert titles and {len(line) for line in titles} == {width}


def test_no_row_that_fits_is_said(capsys):
    assert main(["show", "ops", str(EAGER), "--where", "calls > 1_000_000"]) == 0
    assert "No row fits 'calls > 1_000_000' (of " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["show", "ops", str(EAGER), "--steps", "3"], ["--step", "--steps-by"]),
        (["show", "ops", "--lim", "3", str(EAGER)], ["--limit"]),
        (["show", "ops", str(EAGER), "--wher", "mm"], ["--where"]),
        (["check", str(EAGER), "kernels == 5", "--base", "x"], ["--baseline"]),
        (["compare", str(EAGER), str(EAGER), "--lmit", "2"], ["--limit"]),
        (["ranks", "nowhere", "--job=2"], ["--jobs"]),
    ],
)
def test_a_beginning_of_an_option_is_not_taken_for_it(words, meant, capsys):
    assert main(words) == 2
    output = capsys.readouterr()
    assert output.out == "" and len(output.err.splitlines()) == 1
    assert re.findall(r"--[\w-]+", output.err)[1:] == meant


@pytest.mark.parametrize(
    ("filter", "said"),
    [
        ("kernels=0", "=="),
        ("kernels =0", "=="),
        ("calls=3", "=="),
        ("op=aten::mm", "=="),
        ("calls > 1 & kernels=0", "=="),
        ("kernls=0", "kernels"),
        ("kernls>0", "kernels"),
        ("calls is 3", "=="),
        ("op: mm", "~"),
        ("", "--where"),
        (" ", "--where"),
    ],
)
def test_a_filter_that_is_no_condition_and_no_text_is_refused(filter, said, capsys):
    assert main(["show", "ops", str(EAGER), "--where", filter]) == 2
    output = capsys.readouterr()
    assert output.out == "" and said in output.err


@pytest.mark.parametrize("text", ["foo=3", "nowhere::mm", "at::native", "vectorized<4"])
def test_a_text_that_no_row_contains_stays_a_text(text, capsys):
    assert main(["show", "ops", str(EAGER), "--where", text]) == 0
    assert "No row contains" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["self_cpu_us", "self_cpu", "self CPU", "Self CPU", "self_c"])
def test_columns_have_the_same_names_in_every_option(name, shown):
    rows = shown("ops", EAGER, "--sort", name, "--where", f"{name} > 1ms", "--columns", f"{name},op")["rows"]
    times = [row["self_cpu_us"] for row in rows]
    assert times == sorted(times, reverse=True) and min(times) > 1000
    assert all(list(row) == ["self_cpu_us", "name"] for row in rows)


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--sort", "clls", "calls"),
        ("--sort", "calls:up", ":desc"),
        ("--sort", "", "calls"),
        ("--sort", ":desc", "calls"),
        ("--columns", "name,clls", "calls"),
        ("--columns", "s", "self_cpu_us"),
        ("--columns", ",", "calls"),
        ("--columns", "", "calls"),
    ],
)
def test_a_column_that_does_not_exist_is_refused_with_its_like(option, value, said, capsys):
    assert main(["show", "ops", str(EAGER), option, value]) == 2
    output = capsys.readouterr()
    assert output.out == "" and said in output.err


@pytest.mark.parametrize("form", ["json", "csv", "md", "table", "plain"])
def test_chosen_columns_are_there_in_every_format_and_no_others(form, capsys):
    form_words = ["--plain"] if form == "plain" else ["--format", form]
    # The total on the GPU is null in every row: what was asked for is shown all the same.
    words = ["--columns", "device_total_us,op", "--sort", "self_cpu", "--where", "calls > 1", "--limit", "2"]
    assert main(["show", "ops", str(EAGER), *words, *form_words]) == 0
    text = capsys.readouterr().out
    names = {"json": "device_total_us", "csv": "device_total_us,name\n"}
    assert names.get(form, "total GPU") in text and "aten::mm" in text
    assert "324" not in text and "self" not in text.partition("Self CPU time")[0]


def test_json_and_csv_have_all_columns_without_being_asked(shown):
    every = shown("ops", EAGER)["columns"]
    assert [each["name"] for each in every] == PANES["ops"].build(load(str(EAGER))).column_names
    assert shown("ops", EAGER, "--columns", "all")["columns"] == every


@pytest.mark.parametrize(("asked", "width"), [("80", 80), ("120", 120), ("0", 160), ("wide", 160), (None, 160)])
def test_a_table_in_a_pipe_is_as_wide_as_columns_says(asked, width, capsys, monkeypatch, shared_trace):
    trace = str(shared_trace("d08_b200_cuda13_ep_moe.json"))
    monkeypatch.delenv("COLUMNS", raising=False)
    if asked is not None:
        monkeypatch.setenv("COLUMNS", asked)
    assert main(["show", "kernels", trace, "--limit", "20"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = lines[: lines.index("")]
    assert width - 40 < max(map(len, rows)) <= width and len(rows) == 21
    assert "duration" in rows[0] and "--columns all" in lines[len(rows) + 1]
    assert main(["show", "kernels", trace, "--limit", "20", "--columns", "all"]) == 0
    whole = capsys.readouterr().out.splitlines()
    assert len(whole[0]) > 250 and len(whole[0].split("  ")) > len(rows[0].split("  "))


def test_gaps_are_listed_the_longest_first(shown, shared_trace):
    trace = shared_trace("d08_b200_cuda13_ep_moe.json")
    every = [row["dur_us"] for row in shown("gaps", trace)["rows"]]
    assert every == sorted(every, reverse=True) and len(every) > 100
    assert [row["dur_us"] for row in shown("gaps", trace, "--limit", 3)["rows"]] == every[:3]
    starts = [row["start_us"] for row in shown("gaps", trace, "--sort", "start:asc")["rows"]]
    assert starts == sorted(starts)


@pytest.mark.parametrize(("pane", "words"), [("health", []), ("steps", ["--by", "source"])])
def test_what_is_about_the_whole_trace_says_so_where_a_part_is_asked_for(pane, words, capsys):
    assert main(["show", pane, str(EAGER), *words, "--step", "4", "--format", "md"]) == 0
    output = capsys.readouterr()
    assert "whole trace" in output.err and "step 4" not in output.out.splitlines()[0]


def test_columns_of_ranks_are_chosen_too(capsys, shared_trace):
    folder = str(shared_trace("ranks/g1_input_4ranks"))
    assert main(["ranks", folder, "--columns", "rank,wait caused", "--sort", "rank:asc", "--format", "csv"]) == 0
    assert [line.split(",")[0] for line in capsys.readouterr().out.splitlines()] == ["rank", "0", "1", "2", "3"]
    assert main(["ranks", folder, "--columns", "rank,nothing"]) == 2
    assert main(["ranks", folder]) == 0
    assert max(map(len, capsys.readouterr().out.partition("\n\n")[2].partition("\n\n")[0].splitlines())) <= 160


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts threads")
def test_numpy_starts_no_threads_and_processes_of_the_user_may():
    program = (
        f"import os; from tracetui.cli.main import main; main(['show', 'steps', {str(EAGER)!r}])\n"
        f"print(len(os.listdir('/proc/self/task')), {BLAS_THREADS!r} in os.environ)"
    )
    environment = {name: value for name, value in os.environ.items() if name != BLAS_THREADS}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "1 False"


@pytest.mark.parametrize(("words", "asked", "expected"), [("show steps", "", False), ("show steps", "1", True)])
def test_numpy_asks_for_no_huge_pages_unless_the_user_wants_them(words, asked, expected):
    program = (
        f"from tracetui.cli.main import main; main([*{words.split()}, {str(EAGER)!r}])\n"
        "import numpy; print(numpy._core.multiarray._set_madvise_hugepage(False))"
    )
    environment = {name: value for name, value in os.environ.items() if name != HUGE_PAGES}
    environment |= {HUGE_PAGES: asked} if asked else {}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == str(expected)
