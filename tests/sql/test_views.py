"""Every pane is its view, row for row; what is lent is not copied; what a query gives back is what was lent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import duckdb
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from tests.support.app import training
from tests.support.build import kernel, launch, make_trace, op
from tests.support.memory_events import copied, two_ops
from tests.support.paths import SAMPLES, SHARED
from tests.support.traces import loaded
from tracetui.drawing.text.export import row_values
from tracetui.errors import TraceError
from tracetui.model.table import NULL, Table, coded, micros, numbers, texts
from tracetui.model.trace import Counter, Trace
from tracetui.panes import PANES
from tracetui.reading.load import load
from tracetui.sql.database import Database, result_table
from tracetui.sql.views import lend

ALL = 10**9
MOST_BYTES = 1_700_000
"""Size of the largest shared trace whose panes are all compared."""
MOST_SLICES = 200_000


def rows(trace: Trace, query: str) -> list[dict[str, Any]]:
    """The rows of a query as JSON holds them."""
    return row_values(Database({"a": trace}).query(query, max_rows=ALL).table)


def differing(trace: Trace) -> Iterator[str]:
    """The panes that are not their view."""
    database = Database({"a": trace})
    for name in PANES:
        table = PANES[name].build(trace)
        view = database.query(f"select * from {name}", max_rows=ALL).table
        if set(view.column_names) - set(table.column_names) - {"event"}:
            yield f"{name}: columns"
        elif row_values(view.with_columns(list(dict.fromkeys(table.column_names)))) != row_values(table):
            yield name


@pytest.mark.parametrize("make", [training, copied, two_ops, lambda: make_trace([])])
@pytest.mark.full
def test_panes_of_made_traces_are_their_views(make):
    assert list(differing(make())) == []


@pytest.mark.parametrize("name", ["mlp_train_cpu", "combined_compile_cpu"])
@pytest.mark.full
def test_panes_of_recorded_traces_are_their_views(name):
    assert list(differing(loaded(SAMPLES / f"{name}.json.gz"))) == []


def shared_paths() -> list[str]:
    """The shared traces that are not large."""
    paths = sorted(path for path in SHARED.rglob("*.json*") if path.stat().st_size <= MOST_BYTES)
    return [str(path.relative_to(SHARED)) for path in paths if path.name not in ("expected.json", "findings.json")]


@pytest.mark.nightly
@pytest.mark.parametrize("name", shared_paths())
def test_panes_of_shared_traces_are_their_views(name, shared_trace):
    try:
        trace = load(str(shared_trace(name)))
    except TraceError:
        pytest.skip("is no trace")
    if len(trace.slices) > MOST_SLICES:
        pytest.skip("has many slices")
    assert list(differing(trace)) == []


class Connection:
    """A connection that keeps what is lent to it."""

    def __init__(self) -> None:
        self.lent: dict[str, Mapping[str, Any]] = {}

    def register(self, name: str, columns: Mapping[str, Any]) -> None:
        self.lent[name] = columns

    def execute(self, sql: str) -> None:
        pass

    def unregister(self, name: str) -> None:
        pass


def test_columns_are_lent_and_not_copied():
    table = PANES["kernels"].build(training())
    connection = Connection()
    lend(connection, "kernels", table)
    lent = list(connection.lent["kernels"].values())
    assert all(any(values is column.values for values in lent) for column in table.columns)
    slices = training()
    connection = Connection()
    database = Database({"a": slices})
    database._connection = connection
    database._make_views("slices")
    arrays = list(connection.lent["_a_slices"].values())
    for column in (slices.slices.start, slices.slices.dur, slices.slices.event, slices.slices.name):
        assert any(column is each for each in arrays)


@given(
    st.lists(
        st.tuples(
            st.one_of(st.just(NULL), st.integers(-(2**53), 2**53)),
            st.floats(allow_infinity=False),
            st.one_of(st.none(), st.text(st.characters(codec="utf-8", exclude_characters="\0"))),
            st.booleans(),
        )
    )
)
@pytest.mark.full
def test_what_is_lent_comes_back(values):
    whole, real, text, truth = (list(column) for column in zip(*values, strict=True)) if values else ([], [], [], [])
    table = Table(
        (
            numbers("whole", np.array(whole, np.int64)),
            numbers("real", np.array(real, np.float64)),
            texts("text", text),
            numbers("truth", np.array(truth, bool)),
        )
    )
    connection = duckdb.connect(":default:")
    found = connection.sql(lend(connection, "lent", table))
    types = [str(each) for each in found.types]
    back = result_table(table.column_names, types, list(found.fetchnumpy().values()), {})
    assert list(back.rows()) == list(table.rows())


def test_slices_have_their_times_and_parents():
    trace = make_trace([op("outer", 1_500, 9_000), op("inner", 2_000, 1_001), kernel("gemm", 4_000, 2_500)])
    columns = "event, name, kind, start_us, dur_us, self_us, parent_event, stream"
    assert rows(trace, f"select {columns} from slices order by event") == [
        dict(zip(columns.split(", "), row, strict=True))
        for row in (
            (0, "outer", "cpu_op", 1.5, 9.0, 7.999, None, None),
            (1, "inner", "cpu_op", 2.0, 1.001, 1.001, 0, None),
            (2, "gemm", "kernel", 4.0, 2.5, 2.5, None, 7),
        )
    ]


def test_links_lead_from_an_activity_to_its_causes():
    found = rows(training(), "select link, count(*) n from links group by all order by link")
    assert found == [{"link": "launch", "n": 6}, {"link": "op", "n": 12}]
    query = "select cause_event from links join slices using (event) where link = 'launch' and name = 'gemm'"
    assert [row["cause_event"] for row in rows(training(), query)] == [3, 11, 19]


def test_samples_are_those_of_all_counters():
    times = np.array([1_000, 2_000])
    counters = [Counter("p", "power", "", times, np.array([1.5, 2.0]), "W"), Counter("p", "b", "x", times, np.ones(2))]
    found = rows(make_trace([op("a", 0, 1)], counters=tuple(counters)), "select * from samples")
    assert [(row["counter"], row["time_us"], row["sample"], row["unit"]) for row in found][:2] == [
        ("power", 1.0, 1.5, "W"),
        ("power", 2.0, 2.0, "W"),
    ]
    assert [row["event"] for row in found] == [None] * 4


def test_args_are_those_of_the_keys_that_a_query_names():
    events = [
        op("a", 0, 10, args={"Input Dims": [[1, 2]], "id": 7}),
        launch(2, 3, 1, args={"id": 8, "cbid": 211}),
        kernel("k", 5, 5, correlation=1, args={"grid": [4, 2, 1], "text": "it's"}),
    ]
    database = Database({"a": make_trace(events)})

    def found(query: str) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in row_values(database.query(query).table)]

    assert found("select event, value from args where key = 'id' order by 1") == [(0, "7"), (1, "8")]
    assert found("select event, value from args where key = 'grid'") == [(2, "[4,2,1]")]
    assert found("select event from args where value = 'it''s'") == [(2,)]
    assert found("select count(*), count(distinct key) from args") == [(6, 5)]


def test_an_integer_of_time_is_in_microseconds_only_in_slices():
    """Panes have floats in microseconds already: none is divided again."""
    whole = [
        (name, column.name)
        for trace in (training(), copied(), loaded(SAMPLES / "mlp_train_cpu.json.gz"))
        for name in PANES
        for column in PANES[name].build(trace).columns
        if column.unit == "us" and column.values.dtype.kind == "i" and not column.is_text
    ]
    assert whole == []


def test_texts_that_are_no_unicode_are_lent():
    table = Table((coded("name", np.array([0, 1, -1]), ["\ud800", "a\x1b[31m"]), micros("at_us", np.arange(3))))
    with duckdb.connect() as connection:
        assert connection.sql(lend(connection, "lent", table)).fetchall() == [
            ("?", 0.0),
            ("a\x1b[31m", 0.001),
            (None, 0.002),
        ]
