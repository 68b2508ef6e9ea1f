"""In Python there are the tables of the commands, and mistakes are told as there."""

from __future__ import annotations

import gzip
import json
import pydoc
from dataclasses import fields
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas
import pytest

import tracetui
from tests.support.paths import SAMPLES
from tests.support.rank_files import write_ranks
from tests.support.rank_logs import size_reason, write_compiling_ranks
from tracetui.cli.main import main
from tracetui.errors import UsageError
from tracetui.linking.steps import steps
from tracetui.model.table import Table
from tracetui.model.trace import Trace
from tracetui.panes import PANE_FILES, PANES
from tracetui.ranks.rank_tables import TABLES
from tracetui.scripting import LoadedRanks, LoadedTrace, NamedTable

TRAIN = str(SAMPLES / "mlp_train_cpu.json.gz")
SAMPLE_TRACES = sorted(path.name for path in SAMPLES.glob("*.json.gz"))


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A simulated trace of a GPU."""
    folder = tmp_path_factory.mktemp("demo")
    assert main(["demo", "mlp", "--no-open", "-o", str(folder)]) == 0
    [path] = folder.iterdir()
    return str(path)


# The same numbers as text


def as_json(value: Any) -> Any:
    """A value as JSON has it."""
    if value is None or value is pandas.NA or (isinstance(value, float) and not np.isfinite(value)):
        return None
    return float(np.round(value, 3)) if isinstance(value, float) else value


def read_by_all(table: Table) -> dict[str, list[dict[str, Any]]]:
    """The rows as several libraries have them."""
    rows = {
        "pyarrow": table.to_arrow().to_pylist(),
        "polars": table.to_polars().to_dicts(),
        "pandas": table.to_pandas().astype(object).to_dict("records"),
    }
    with duckdb.connect() as connection:
        connection.register("given", table)
        found = connection.execute("select * from given").fetchall()
        rows["duckdb"] = [dict(zip(table.column_names, row, strict=True)) for row in found]
    return {name: [{key: as_json(row[key]) for key in row} for row in each] for name, each in rows.items()}


def facts_as_json(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of facts, whose values are numbers in JSON where they are some."""
    for row in rows:
        if "number" in row and "value" in row and row["number"] is not None:
            number = int(row["number"]) if float(row["number"]).is_integer() else row["number"]
            row["value"] = row["number"] = number
    return rows


def expect_the_same(path: str, capsys: pytest.CaptureFixture[str], step: int | None) -> None:
    """Every pane, as JSON and as each library has it, is one."""
    trace = tracetui.load(path, cache=False)
    part = [] if step is None else ["--step", str(step)]
    for pane in PANE_FILES:
        capsys.readouterr()
        assert main(["show", pane, path, "--format", "json", "--no-cache", *part]) == 0
        document = json.loads(capsys.readouterr().out)
        table = trace.table(pane, step=step)
        if largest := PANES[pane].largest_first:
            table = table.take(table.order(largest, descending=True))
        assert [column["name"] for column in document["columns"]] == table.column_names
        assert {c["name"]: c["unit"] for c in document["columns"] if c["unit"]} == table.units
        for reader, rows in read_by_all(table).items():
            assert facts_as_json(rows) == document["rows"], (pane, reader)
        remarks = table.to_pandas().attrs
        assert remarks.get("headline") == document.get("headline") and bool(remarks.get("note")) == ("note" in document)


@pytest.mark.parametrize("step", [None, 4])
@pytest.mark.full
def test_every_pane_of_a_gpu_trace_is_that_of_show(step, demo, capsys):
    expect_the_same(demo, capsys, step)


QUICK = "mlp_train_cpu.json.gz"
EVERY_SAMPLE = [name if name == QUICK else pytest.param(name, marks=pytest.mark.full) for name in SAMPLE_TRACES]


@pytest.mark.parametrize("name", EVERY_SAMPLE)
@pytest.mark.full
def test_every_pane_of_a_sample_trace_is_that_of_show(name, capsys):
    expect_the_same(str(SAMPLES / name), capsys, None)


def test_a_grouping_and_a_range_are_those_of_show(demo, capsys):
    trace = tracetui.load(demo, cache=False)
    for words, table in (
        (["--by", "name"], trace.table("kernels", by="name")),
        (["--range", "100us+500us", "--by", "name"], trace.table("kernels", range="100us+500us", by="name")),
    ):
        assert main(["show", "kernels", demo, "--format", "json", "--no-cache", *words]) == 0
        rows = json.loads(capsys.readouterr().out)["rows"]
        assert rows and read_by_all(table)["polars"] == rows


def test_a_comparison_is_that_of_the_command(capsys):
    eager, compiled = (str(SAMPLES / f"mlp_{name}_cpu.json.gz") for name in ("eager", "compile"))
    compared = tracetui.compare(eager, compiled)
    assert main(["compare", eager, compiled, "--format", "json", "--no-cache"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert repr(compared).splitlines() == document["statement"] and document["statement"][0] in compared._repr_html_()
    for name in ("totals", "ops", "kernels"):
        assert read_by_all(getattr(compared, name))["pyarrow"] == document[name]["rows"]


def test_two_steps_are_compared():
    trace = tracetui.load(TRAIN)
    compared = tracetui.compare(trace, trace, (2, "3"))
    assert [side.scope for side in (compared.a, compared.b)] == ["2", "3"] and compared.a.trace is trace


@pytest.mark.full
def test_ranks_are_those_of_the_command(tmp_path, capsys):
    folder = write_ranks(tmp_path / "run")
    ranks = tracetui.load_ranks(folder, cache=False)
    for name in TABLES:
        assert main(["ranks", str(folder), "--show", name, "--format", "json", "--no-cache"]) == 0
        rows = json.loads(capsys.readouterr().out)["rows"]
        # In JSON these two are lists.
        for row in (*rows, *(found := read_by_all(getattr(ranks, name))["polars"])):
            row.pop("causes", None), row.pop("late_steps", None)
        assert rows == found
    assert "4 ranks" in repr(ranks) and "<table>" in ranks._repr_html_()


# Names


def test_every_table_is_an_attribute_of_its_name():
    def named(owner: type) -> list[str]:
        return [name for name, value in vars(owner).items() if isinstance(value, NamedTable)]

    assert named(LoadedTrace) == [name for name in PANE_FILES if name != "counters"]
    assert named(LoadedRanks) == list(TABLES)
    assert {column.name for column in fields(Trace)} & set(PANE_FILES) == {"counters"}


def test_what_is_loaded_is_a_trace():
    trace = tracetui.load(TRAIN)
    assert isinstance(trace, tracetui.Trace) and len(steps(trace)) == len(trace.steps) == 3
    assert len(repr(trace)) < 100 and "<table>" in trace._repr_html_()
    assert trace.table("ops") is trace.ops


def test_steps_and_device_are_chosen(demo):
    assert tracetui.load(TRAIN, steps_by="mlp_train").steps_by == "mlp_train"
    assert "H100" in tracetui.load(demo, device="H100").devices[0].name


def test_the_class_can_be_documented():
    for owner, name in ((LoadedTrace, "summary"), (LoadedRanks, "matrix")):
        assert f"{name} = <" in pydoc.plain(pydoc.render_doc(owner))


# View strings


def test_view_strings_lead_to_rows_and_back(demo):
    trace = tracetui.load(demo)
    kernels = trace.table("kernels", step=3)
    views = trace.view_strings(kernels)
    assert len(set(views)) == len(kernels) > 0
    for row, view in enumerate(views):
        assert [*trace.at(f"s3/{view}").rows()] == [kernels.row(row)]
    gaps = trace.table("gaps", step=3)
    assert [*trace.at(f"s3/{trace.view_strings(gaps)[1]}").rows()] == [gaps.row(1)]
    assert str(trace.view_strings(gaps)[1]).startswith("g")
    assert len(trace.at("s3/gaps")) == len(trace.table("gaps", step=3))
    assert len(trace.at("range=100us+500us/kernels")) == len(trace.table("kernels", range="100us+500us"))
    assert trace.view_strings(trace.summary) == [None] * len(trace.summary)


# Mistakes


@pytest.mark.parametrize(
    ("mistake", "told"),
    [
        (lambda trace: trace.table("kernel"), "Did you mean kernels"),
        (lambda trace: trace.table("zzz"), "There are overview, summary"),
        (lambda trace: trace.table("ops", by="nme"), "shape"),
        (lambda trace: trace.table("ops", step=99), "numbered 2, 3, 4"),
        (lambda trace: trace.table("ops", step="4"), "column step"),
        (lambda trace: trace.table("ops", step=True), "column step"),
        (lambda trace: trace.table("ops", range="12"), "12.5us"),
        (lambda trace: trace.table("ops", range=12), "12.5us"),
        (lambda trace: trace.table("ops", range="900s+1us"), "outside the trace"),
        (lambda trace: trace.table("ops", step=3, range="1us+1us"), "leave one out"),
        (lambda trace: trace.at("zz/9"), "expected s3"),
        (lambda trace: trace.at("s3/kernels/e1"), "s3/launches"),
        (lambda trace: trace.at("s3/kernels/k1"), "index"),
        (lambda trace: trace.at("by=forward/s3/kernels"), "steps_by='forward'"),
        (lambda trace: tracetui.compare(trace, trace, "34"), "scopes"),  # type: ignore[arg-type]
        (lambda trace: tracetui.compare(trace, trace, ("99", "3")), "numbered 2, 3, 4"),
        (lambda trace: tracetui.load(TRAIN, steps_by="forwrd"), "forwrd"),
        (lambda trace: tracetui.load(TRAIN, device="H9999"), "H100"),
    ],
)
@pytest.mark.full
def test_mistakes_are_told(mistake, told):
    with pytest.raises(UsageError) as raised:
        mistake(tracetui.load(TRAIN))
    assert told in str(raised.value)


def test_a_table_of_ranks_that_does_not_exist(tmp_path):
    with pytest.raises(UsageError, match="collectives"):
        tracetui.load_ranks(write_ranks(tmp_path / "run"), cache=False).table("collective")


def test_a_file_that_is_cut_off_is_a_warning(tmp_path: Path):
    path = tmp_path / "cut.json"
    path.write_bytes(gzip.decompress(Path(TRAIN).read_bytes())[:-20_000])
    with pytest.warns(UserWarning, match=r"cut\.json is cut off at byte"):
        trace = tracetui.load(path)
    assert len(trace.ops)


def test_logs_of_torch_compile_beside_traces_are_read_unless_none_is_asked_for(tmp_path: Path) -> None:
    again = {0: [("0/0", 0, 3000, "")], 2: [("0/1", 0, 20_000, size_reason(3, 4))]}
    write_compiling_ranks(tmp_path, [{0: [("0/0", 0, 3000, "")]}, again])
    path = tmp_path / "rank1.json"
    assert [row["compile_id"] for row in tracetui.load(path, cache=False).compiles.rows()] == ["0/0", "0/1"]
    assert len(tracetui.load(path, cache=False, compile_log="none").compiles) == 0
    log = next(tmp_path.glob("*rank_0*.log"))
    assert len(tracetui.load(path, cache=False, compile_log=log).compiles) == 1
    assert len(tracetui.load_ranks(tmp_path, cache=False).compiles) == 3
    assert len(tracetui.load_ranks(tmp_path, cache=False, compile_log="none").compiles) == 0
