"""Tables as others take them: values, nulls and metadata of every reader, and memory that is let go of once."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from typing import Any

import duckdb
import numpy as np
import pandas
import polars
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.paths import ROOT
from tracetui.errors import CannotRun
from tracetui.model import arrow
from tracetui.model.table import (
    MAX_HTML_ROWS,
    MAX_HTML_TEXT,
    NULL,
    Cell,
    Column,
    ColumnSpec,
    Table,
    coded,
    numbers,
    texts,
)
from tracetui.text import clean

SPEC = ColumnSpec("self_us", "self", "Time of its own.", "us")


def small() -> Table:
    """Each type with a null, a text that stands twice, and remarks."""
    columns = (
        numbers(SPEC, [1.5, np.nan, 3.0]),
        numbers("count", np.array([7, NULL, 2**62])),
        numbers("flag", np.array([True, False, True])),
        coded("name", np.array([3, -1, 1]), ["unused", "é", "unused", "same", "same"]),
        texts("none", [None, None, None]),
    )
    return Table(columns, note="a note", headline="a headline", doubts={"not sure": ("count",), "of all": ()})


ROWS = [
    {"self_us": 1.5, "count": 7, "flag": True, "name": "same", "none": None},
    {"self_us": None, "count": None, "flag": False, "name": None, "none": None},
    {"self_us": 3.0, "count": 2**62, "flag": True, "name": "é", "none": None},
]


def rows_of(reader: str, given: Table) -> list[dict[str, Any]]:
    """The rows as a library has them, None for null."""
    if reader == "pyarrow":
        return given.to_arrow().to_pylist()
    if reader == "polars":
        return given.to_polars().to_dicts()
    if reader == "duckdb":
        with duckdb.connect() as connection:
            connection.register("given", given)
            found = connection.execute("select * from given")
            return [dict(zip(given.column_names, row, strict=True)) for row in found.fetchall()]
    if reader == "pandas":
        frame = given.to_pandas()
        return [
            {name: None if pandas.isna(value) else value for name, value in row.items()}
            for row in frame.astype(object).to_dict("records")
        ]
    arrays = given.to_numpy()
    lists = {name: [None if value != value else value for value in array.tolist()] for name, array in arrays.items()}
    return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]


READERS = ("pyarrow", "polars", "duckdb", "pandas", "numpy")


@pytest.fixture(params=["in C", "by pyarrow"])
def lent_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The two ways to lend."""
    if request.param == "in C" and arrow._called() is None:
        pytest.skip("arrow.c was not compiled")
    if request.param == "by pyarrow":
        monkeypatch.setattr(arrow, "_called", lambda: None)
    return str(request.param)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.full
def test_values_and_nulls(reader, lent_by):
    assert rows_of(reader, small()) == ROWS
    assert rows_of(reader, small().take(np.array([], np.int64))) == []
    assert rows_of(reader, small().take(np.array([2]))) == ROWS[2:]


def test_units_and_remarks_go_along(lent_by):
    taken = small().to_arrow()
    taken.validate(full=True)
    assert taken.field("self_us").metadata == {b"unit": b"us", b"heading": b"self", b"help": b"Time of its own."}
    remarks = {"headline": "a headline", "note": "a note", "doubts": "not sure (count) of all"}
    assert taken.schema.metadata == {key.encode(): text.encode() for key, text in remarks.items()}
    assert small().to_pandas().attrs == {"units": {"self_us": "us"}, **remarks}


def test_only_texts_that_occur_are_lent(lent_by):
    assert small().to_arrow()["name"].chunk(0).dictionary.to_pylist() == ["é", "same"]


def test_texts_of_a_trace_are_harmless(lent_by):
    hostile = Table((texts("name", ["a\x1b[31mb", "\ud800", "a\nb", "a b"]),))
    assert [row["name"] for row in rows_of("polars", hostile)] == ["a\ufffd[31mb", "\ufffd", "a b", "a b"]


def test_a_column_that_is_not_contiguous_and_a_table_without_columns(lent_by):
    every_other = Table((numbers("a", np.arange(10)[::2]), numbers("b", np.arange(10.0)[::-2])))
    assert every_other.to_arrow().to_pydict() == {"a": [0, 2, 4, 6, 8], "b": [9.0, 7.0, 5.0, 3.0, 1.0]}
    assert Table(()).to_arrow().num_rows == 0
    twice = Table((numbers("a", [1]), numbers("b", [2]), numbers("a", [3])))
    assert twice.to_arrow().to_pydict() == {"a": [1], "b": [2]}


CELLS: dict[str, Any] = {
    "floats": st.floats(allow_nan=False),
    "ints": st.integers(NULL + 1, 2**63 - 1),
    "texts": st.text(max_size=5),
}


@given(st.data(), st.sampled_from(sorted(CELLS)), st.sampled_from(["pyarrow", "polars", "duckdb", "numpy"]))
@pytest.mark.full
def test_any_column_comes_out_as_its_cells(data, kind, reader):
    cells: list[Cell] = data.draw(st.lists(st.none() | CELLS[kind], min_size=1, max_size=20))
    if kind == "texts":
        column = texts("c", cells)  # type: ignore[arg-type]
        cells = [None if cell is None else clean(str(cell)) for cell in cells]
    elif kind == "ints":
        column = numbers("c", np.array([NULL if cell is None else cell for cell in cells], np.int64))
    else:
        column = numbers("c", [np.nan if cell is None else cell for cell in cells])
    assert [row["c"] for row in rows_of(reader, Table((column,)))] == cells


# Letting go


def watched() -> tuple[Table, np.ndarray[Any, Any]]:
    """A table, and its values, whose references can be counted."""
    values = np.arange(1000.0)
    return Table((Column(SPEC, values), coded("name", np.arange(1000) % 7, list("abcdefg")))), values


def take_and_read(given: Table) -> None:
    assert pyarrow.table(given).num_rows == polars.DataFrame(given).height == 1000


def take_unread(given: Table) -> None:
    pyarrow.RecordBatchReader.from_stream(given).schema.names  # noqa: B018


def drop_capsule(given: Table) -> None:
    given.__arrow_c_stream__()


def take_twice(given: Table) -> None:
    capsule = given.__arrow_c_stream__()
    pyarrow.RecordBatchReader._import_from_c_capsule(capsule).read_all()
    with pytest.raises(pyarrow.ArrowInvalid):
        pyarrow.RecordBatchReader._import_from_c_capsule(capsule)


def keep_a_column(given: Table) -> None:
    """A child outlives its parent."""
    column = pyarrow.table(given)["self_us"]
    assert column.to_pylist()[-1] == 999.0


def drop_in_a_thread(given: Table) -> None:
    taken = [pyarrow.table(given)]
    thread = threading.Thread(target=taken.clear)
    thread.start()
    thread.join()


def query(given: Table) -> None:
    with duckdb.connect() as connection:
        connection.register("given", given)
        assert connection.execute("select count(distinct name) from given").fetchone() == (7,)
        assert connection.execute("select sum(self_us) from given").fetchone() == (499500.0,)


@pytest.mark.parametrize(
    "use", [take_and_read, take_unread, drop_capsule, take_twice, keep_a_column, drop_in_a_thread, query]
)
@pytest.mark.full
def test_nothing_is_kept_after_a_use(use, lent_by):
    given, values = watched()
    use(given)
    gc.collect()
    before = sys.getrefcount(values)
    for _ in range(5):
        use(given)
    gc.collect()
    assert sys.getrefcount(values) == before


def test_numbers_are_lent_without_a_copy_and_outlive_the_table():
    if arrow._called() is None:
        pytest.skip("arrow.c was not compiled")
    given, values = watched()
    taken = pyarrow.table(given)
    assert taken["self_us"].chunk(0).buffers()[1].address == values.ctypes.data
    del given, values
    gc.collect()
    assert taken["self_us"].to_pylist()[-1] == 999.0


FAILING = [lambda given: pyarrow.table(given)["x"], lambda given: len(given.__arrow_c_stream__())]


@pytest.mark.parametrize("fails", FAILING)
def test_an_exception_on_its_way_survives_the_release(fails, lent_by):
    """It would be lost in a callback in Python, and pyarrow would abort."""
    with pytest.raises((KeyError, TypeError)):
        fails(small())


@pytest.mark.full
def test_texts_too_long_for_a_column_are_an_error_of_the_reader(monkeypatch):
    if arrow._called() is None:
        pytest.skip("arrow.c was not compiled")
    monkeypatch.setattr(arrow, "MAX_TEXT_BYTES", 3)
    given, values = watched()
    before = sys.getrefcount(values)
    with pytest.raises(OSError, match="the column name have more than 3 bytes"):
        pyarrow.table(given)
    gc.collect()
    assert sys.getrefcount(values) == before


AT_EXIT = """
import duckdb, numpy, polars, pyarrow
from tracetui.model.table import Table, numbers, texts
given = Table((numbers("a", numpy.arange(5)), texts("b", list("abcde"))))
kept = pyarrow.table(given), polars.DataFrame(given)
unread = given.__arrow_c_stream__(), pyarrow.RecordBatchReader.from_stream(given)
duckdb.register("v", given)
relation = duckdb.sql("select * from v")
print("done")
"""


@pytest.mark.full
@pytest.mark.parametrize("pure", ["", "1"])
def test_what_is_still_lent_at_the_end_of_the_process_harms_nothing(pure):
    environment = {**os.environ, "TRACETUI_PURE": pure}
    done = subprocess.run([sys.executable, "-c", AT_EXIT], capture_output=True, text=True, env=environment, cwd=ROOT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


# Without a library


@pytest.mark.parametrize("name", ["pandas", "polars", "pyarrow"])
def test_a_library_that_is_missing_is_named(name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    convert = {"pandas": small().to_pandas, "polars": small().to_polars, "pyarrow": small().to_arrow}[name]
    with pytest.raises(CannotRun, match=f"pip install {name}"):
        convert()


def test_without_a_compiler_and_pyarrow_a_sentence_says_what_to_do(monkeypatch):
    monkeypatch.setattr(arrow, "_called", lambda: None)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(CannotRun, match="pip install pyarrow"):
        small().to_polars()
    assert small().to_pandas()["self_us"].tolist()[0] == 1.5


# In a notebook


def test_html_is_bounded_and_harmless():
    count = MAX_HTML_ROWS + 1
    hostile = Table(
        (texts("name", ["<script>alert(1)</script>&" + "x" * 1000] * count), numbers(SPEC, [1234.5] * count)),
        note="<img src=x onerror=y>",
        headline="<b>",
    )
    html = hostile._repr_html_()
    assert "<script" not in html and "<img" not in html and "<b>" not in html
    assert html.count("<tr>") == MAX_HTML_ROWS + 1 and f"{MAX_HTML_ROWS} of {count} rows" in html
    assert "<th>self (us)</th>" in html and "<td>1,234.5</td>" in html and "x" * MAX_HTML_TEXT not in html
    assert small()._repr_html_().count("<td></td>") == 6


def test_repr_is_one_line():
    assert repr(small()) == "<table of 3 rows: self_us, count, flag, name, none>"
