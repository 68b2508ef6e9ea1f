"""`tracetui sql`: what is a trace and what a query, formats, files, ranks, the prompt."""

from __future__ import annotations

import builtins
import io
import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.support.paths import SAMPLES
from tracetui.cli import sql
from tracetui.cli.main import main

TRACE = str(SAMPLES / "mlp_eager_cpu.json.gz")
OTHER = str(SAMPLES / "mlp_compile_cpu.json.gz")
COUNT = "select count(*) n from ops"


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["sql", *words]) == 0
    return capsys.readouterr().out


def test_a_query_stands_behind_the_traces_or_behind_options(capsys):
    expected = printed(capsys, TRACE, COUNT, "--format", "csv")
    assert expected.startswith("n\n") and int(expected.split()[1]) > 3
    assert printed(capsys, TRACE, "--format", "csv", COUNT) == expected
    both = printed(
        capsys, TRACE, OTHER, "select (select count(*) from a.ops) x, 1 y from b.steps limit 1", "--format=csv"
    )
    assert both.split()[1].partition(",")[0] == expected.split()[1]


@pytest.mark.full
def test_formats_have_the_same_rows(capsys, tmp_path):
    query = "select name, calls, self_cpu_us from ops order by 3 desc limit 2"
    document = json.loads(printed(capsys, TRACE, query, "--format", "json"))
    assert document["schema"] == "tracetui/sql/1" and document["units"] == {"self_cpu_us": "us"}
    assert document["left_out"] == 0 and [row["name"] for row in document["rows"]] == ["aten::mm", "aten::gelu"]
    assert printed(capsys, TRACE, query, "--format", "csv").splitlines()[1].startswith("aten::mm,")
    assert printed(capsys, TRACE, query, "--format", "md").splitlines()[2].startswith("| `aten::mm` |")
    assert "aten::mm" in printed(capsys, TRACE, query).splitlines()[1]
    path = tmp_path / "rows.json"
    assert printed(capsys, TRACE, query, "-o", str(path)) == ""
    assert json.loads(path.read_text())["rows"] == document["rows"]
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "rows.parquet"
    assert printed(capsys, TRACE, query, "--format", "parquet", "-o", str(path)) == ""
    assert parquet.read_table(path).to_pylist() == pytest.approx(document["rows"])


def test_a_query_is_read_from_a_file_or_from_standard_input(capsys, tmp_path, monkeypatch):
    file = tmp_path / "count.sql"
    file.write_text(f"-- how many\n{COUNT};\n")
    expected = printed(capsys, TRACE, COUNT)
    assert printed(capsys, TRACE, "-f", str(file)) == expected
    monkeypatch.setattr("sys.stdin", io.StringIO(COUNT))
    assert printed(capsys, TRACE) == expected


@pytest.mark.full
def test_names_of_kernels_stand_as_they_are_compared(capsys, shared_trace):
    trace = str(shared_trace("d03_v100_2rank_5steps_mem_occ_nccl.json.gz"))
    query = (
        "select name, short_name, count(*) n from kernels where name like 'void at::%' group by all order by n limit 3"
    )
    rows = json.loads(printed(capsys, trace, query, "--format", "json"))["rows"]
    text = printed(capsys, trace, query, "--format", "md")
    assert text.count("`void at::native") == len(rows) == 3
    assert all(row["name"] != row["short_name"] for row in rows)


MISTAKES = {
    "no trace": ([COUNT], "Name a trace"),
    "two queries": ([TRACE, COUNT, "-f", "x.sql"], "leave one out"),
    "no file": ([TRACE, "-f", "x.sql"], "x.sql cannot be read"),
    "option": ([TRACE, COUNT, "--formt", "csv"], "--format"),
    "parquet": ([TRACE, COUNT, "--format", "parquet"], "-o FILE"),
    "ranks": ([TRACE, COUNT, "--ranks", "0"], "of a folder"),
    "seconds": ([TRACE, COUNT, "--seconds", "0"], "above 0"),
    "many": ([*[TRACE] * 27, "select 1 x"], "more than the 26"),
    "order": ([COUNT, TRACE], "comes last"),
    "nothing": ([TRACE, " "], "query is empty"),
    "view": ([TRACE, "select * from kernls"], "kernels"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_said(name, capsys):
    words, part = MISTAKES[name]
    assert main(["sql", *words]) != 0
    out, err = capsys.readouterr()
    assert out == "" and part in err and "Traceback" not in err


def test_limits_are_told_and_a_limit_of_time_fails(capsys):
    assert main(["sql", TRACE, "from range(10)", "--limit", "3"]) == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 4 and "7 more" in err
    assert main(["sql", TRACE, "select count(*) from range(100000000000)", "--seconds", "0.2"]) == 1


def test_a_file_is_not_replaced(capsys, tmp_path):
    path = tmp_path / "out.csv"
    path.write_text("mine")
    assert main(["sql", TRACE, COUNT, "--format", "csv", "-o", str(path)]) == 2
    assert path.read_text() == "mine"
    assert main(["sql", TRACE, COUNT, "--format", "csv", "-o", str(path), "--force"]) == 0
    assert path.read_text().startswith("n\n")


@pytest.mark.full
def test_a_folder_of_ranks_is_one_schema(capsys, shared_trace):
    folder = str(shared_trace("ranks/g4_gpu_tp2x2_2hosts"))
    query = "select rank, count(*) n from kernels group by all order by rank"
    assert printed(capsys, folder, query, "--format", "csv").split() == ["rank,n", "0,777", "1,777", "2,777", "3,777"]
    assert printed(capsys, folder, query, "--format", "csv", "--ranks", "1,3").split() == ["rank,n", "1,777", "3,777"]
    assert main(["sql", folder, query, "--ranks", "9"]) == 2


def typing(monkeypatch: pytest.MonkeyPatch, lines: Iterable[str | type[BaseException]], folder: Path) -> None:
    """Have lines typed at the prompt; a class of exception stands for a key such as ctrl+c."""
    left = iter(lines)

    def read(prompt: str) -> str:
        line = next(left, EOFError)
        if isinstance(line, str):
            return line
        raise line

    monkeypatch.setattr(builtins, "input", read)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr(sql, "_start_editing", lambda database: None)
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))


def test_queries_are_typed(capsys, monkeypatch, tmp_path):
    lines: list[str | type[BaseException]] = [
        COUNT + ";",
        "help",
        "select count(*) n",
        "from ops",
        "",
        "select nme from ops;",
        "select",
        KeyboardInterrupt,
        COUNT,
        "",
        "exit",
        COUNT + ";",
    ]
    typing(monkeypatch, lines, tmp_path)
    out = printed(capsys, TRACE)
    assert "describe kernels" in out
    assert out.count("\nn\n") + out.count(" n\n") == 3


def test_what_is_typed_is_kept_and_completed(monkeypatch, tmp_path):
    readline = pytest.importorskip("readline")
    from tests.support.app import training
    from tracetui.sql.database import Database

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(readline, "set_completer", lambda complete: completers.append(complete))
    completers: list[object] = []
    assert sql._start_editing(Database({"a": training()})) == tmp_path / "tracetui" / "sql_history"
    (complete,) = completers
    assert callable(complete) and [complete("laun", 0), complete("laun", 1)] == ["launches", None]
