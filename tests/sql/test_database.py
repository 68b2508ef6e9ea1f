"""Queries: locked down, limited, of several traces, in sentences where something is wrong."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from tests.support.app import training
from tests.support.build import make_trace, op
from tracetui.errors import AnalysisFailed, Unanswerable, UsageError
from tracetui.model.table import Table
from tracetui.model.trace import Interrupted, Trace
from tracetui.sql import views
from tracetui.sql.database import INSTALL, Database, QueryError

FOREVER = "select count(*) from range(100000000000)"


def database() -> Database:
    return Database({"a": training()})


REFUSED = [
    "select * from '{}'",
    "select * from read_csv('{}')",
    "select * from read_text('{}')",
    "select * from read_parquet('https://example.com/x.parquet')",
    "select * from glob('/*')",
    "select * from sniff_csv('{}')",
    "explain analyze select * from read_text('{}')",
    "pivot (select * from read_csv('{}')) on a using count(*)",
    "select * from query('select * from read_text(''{}'')')",
    "copy kernels to '{}.copy'",
    "export database '{}.copy'",
    "attach '{}.copy' as other",
    "install httpfs",
    "load httpfs",
    "set enable_external_access = true",
    "set memory_limit = '100GB'",
    "reset lock_configuration",
    "pragma threads = 100",
    "select getenv('HOME')",
    "select * from outside",
    "call pragma_version()",
    "create table mine as select 1",
    "insert into kernels values (1)",
    "drop view kernels",
    "begin",
    "select 1; select 2",
    "",
    "-- nothing",
]


@pytest.mark.parametrize("query", REFUSED)
@pytest.mark.full
def test_a_query_reads_views_and_nothing_else(query, tmp_path):
    outside = tmp_path / "secret"
    outside.write_text("never,shown\n")
    with pytest.raises(QueryError) as refused:
        database().query(query.format(outside))
    assert "never" not in str(refused.value)
    assert str(refused.value).endswith((".", "?", "!"))
    assert [path.name for path in tmp_path.iterdir()] == ["secret"]


LARGE = [
    "select repeat('x', 1000000000)",
    "select length(repeat('x', 1000000000)) from kernels",
    "select generate_series(1, 1000000000)",
    "select printf('%2000000000d', 1)",
    "select array_agg(range) from range(100000000)",
    "select string_agg(repeat('x', 1000), ',') from range(10000000)",
]


@pytest.mark.parametrize("query", LARGE)
@pytest.mark.full
def test_memory_is_limited(query):
    with pytest.raises(Unanswerable, match="more memory than 200 MiB"):
        Database({"a": training()}, memory_mb=200).query(query)


def test_the_process_may_take_memory_again_afterwards():
    limited = Database({"a": training()}, memory_mb=200)
    with pytest.raises(Unanswerable):
        limited.query(LARGE[0])
    assert len(bytearray(400 << 20)) == 400 << 20
    assert len(limited.query("from kernels").table) == 6


@pytest.mark.parametrize(
    "query", [FOREVER, "with recursive t(n) as (select 1 union all select n + 1 from t) from t order by n"]
)
def test_time_is_limited(query):
    started = time.monotonic()
    with pytest.raises(Unanswerable, match="longer than"):
        database().query(query, seconds=0.2)
    assert time.monotonic() - started < 20


def test_a_query_that_is_not_wanted_ends():
    wanted = threading.Event()
    wanted.set()
    threading.Timer(0.2, wanted.clear).start()
    asked = database()
    with pytest.raises(Interrupted):
        asked.query(FOREVER, goes_on=wanted.is_set)
    assert len(asked.query("from kernels").table) == 6


def test_rows_are_limited_and_those_left_out_counted():
    asked = database()
    answer = asked.query("select range as number from range(1000)", max_rows=10)
    assert (len(answer.table), answer.left_out, answer.is_cut) == (10, 990, True)
    assert "990 more" in answer.remark
    answer = asked.query("from kernels", max_rows=6)
    assert (len(answer.table), answer.left_out, answer.remark) == (6, 0, "")


def test_rows_that_take_too_long_to_count_are_not_counted():
    answer = database().query("select range from range(100000000000)", max_rows=3, seconds=0.5)
    assert (len(answer.table), answer.left_out) == (3, None)


def test_rows_with_an_event_jump_to_its_slice():
    trace = training()
    table = Database({"a": trace}).query("select event, dur_us from kernels union all select -1, 0").table
    assert table.slices is not None
    assert [trace.name_of(row) if row >= 0 else "" for row in table.slices.tolist()] == [
        *["gemm", "relu_kernel"] * 3,
        "",
    ]


def test_columns_have_the_units_of_their_names():
    table = database().query("select dur_us, sum(dur_us) total_us, sum(index) n, 1.5 share_pct from kernels group by 1")
    assert [column.unit for column in table.table.columns] == ["us", "us", "", "%"]
    assert table.table["n"].values.dtype.kind == "i"


def test_columns_of_one_name_are_told_apart():
    assert database().query("select 1 a, 2 a, 3 a_1").table.column_names == ["a", "a_1", "a_1_1"]


def test_several_traces_are_schemas():
    two = Database({"a": training(), "b": make_trace([op("alone", 0, 5)])})
    query = "select (select count(*) from a.slices) x, (select count(*) from b.slices) y"
    assert list(two.query(query).table.rows()) == [{"x": 24, "y": 1}]
    with pytest.raises(QueryError, match=r"a\.kernels or b\.kernels|b\.kernels or a\.kernels"):
        two.query("from kernels")
    assert "b.args" in two.views


def test_ranks_are_a_column():
    ranks = Database({"0": training(), "3": make_trace([op("alone", 0, 5)])}, by_rank=True)
    answer = ranks.query("select rank, count(*) n from slices group by all order by rank").table
    assert list(answer.rows()) == [{"rank": 0, "n": 24}, {"rank": 3, "n": 1}]


MISTAKES = {
    "select * from kernls": "kernels",
    "select * from kernel": "kernels",
    "select nme from kernels": "name",
    "select * from steps.kernels": "There is no view",
}


@pytest.mark.parametrize("query", MISTAKES)
def test_near_names_are_suggested(query):
    with pytest.raises(QueryError) as mistake:
        database().query(query)
    assert MISTAKES[query] in str(mistake.value)


def test_the_place_of_a_mistake_is_shown():
    with pytest.raises(QueryError) as mistake:
        database().query("select name\nfrm kernels")
    line, sign = mistake.value.lines_below
    assert line == "frm kernels" and line[sign.index("^") :].startswith("kernels")


def test_views_are_made_when_they_are_named(monkeypatch):
    made: list[str] = []

    def build(trace: Trace, name: str, *more: Any) -> Table:
        made.append(name)
        return views.build_view(trace, name, *more)

    monkeypatch.setattr("tracetui.sql.database.build_view", build)
    asked = database()
    asked.query("select count(*) from kernels where name <> 'gaps of'")
    asked.query("select count(*) from Kernels")
    assert made == ["kernels", "gaps"]


def test_a_view_that_failed_says_so_and_costs_no_other(breaks):
    breaks("tracetui.tables.kernels._columns")
    asked = database()
    with pytest.raises(AnalysisFailed):
        asked.query("from kernels")
    assert len(asked.query("select 'kernels' word from slices").table) == 24


def test_show_and_describe_list_views_and_columns():
    asked = database()
    assert {"slices", "args", "kernels"} <= {str(row["view"]) for row in asked.query("SHOW TABLES;").table.rows()}
    assert {"column_name": "dur_us", "column_type": "DOUBLE"}.items() <= {
        row["column_name"]: row for row in asked.query("describe kernels").table.rows()
    }["dur_us"].items()
    assert len(asked.query("summarize kernels").table)
    assert asked.query("pivot kernels on name using sum(dur_us)").table.column_names[-2:] == ["gemm", "relu_kernel"]


def test_words_are_completed():
    asked = database()
    assert asked.completed("select count(*) from kern") == "select count(*) from kernels"
    assert asked.completed("select zzz") == "select zzz"
    asked.query("from launches")
    assert "launches" in asked.completions("laun")
    assert "queue_delay_us" in asked.completions("queue_de")


def test_what_is_not_installed_is_said(monkeypatch):
    monkeypatch.setattr("tracetui.sql.database.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=INSTALL):
        database()
