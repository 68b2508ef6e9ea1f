"""The rows that a query selected, as a table with the units of the columns that they were taken from."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, count
from typing import Any

import numpy as np

from tracetui.frozen import frozen
from tracetui.model.table import NULL, Column, ColumnSpec, Strings, Table, TextKind
from tracetui.text import clean

UNITS = {"us": "us", "ns": "ns", "pct": "%", "bytes": "bytes", "flops": "flop", "gbps": "GB/s"}
"""Units by the last word of a column's name, where the name is none of a view's."""
MAX_EXACT = 1 << 53
"""Integers up to here are exact as floats."""
FLOATS = ("FLOAT", "DOUBLE", "DECIMAL")
WIDE = ("HUGEINT", "UHUGEINT", "UBIGINT", "BIGNUM")
"""Integers that 64 bits may not hold: sums and hashes."""
INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")


@frozen
class QueryResult:
    """The answer to a query."""

    table: Table
    """At most as many rows as were asked for; where `event` is selected, each row jumps to its slice."""
    left_out: int | None = 0
    """Rows beyond these; None where there are some and counting them would have taken too long."""

    @property
    def is_cut(self) -> bool:
        """True where there are more rows than these."""
        return self.left_out != 0

    @property
    def remark(self) -> str:
        """A sentence about the rows that were left out; empty where there are none."""
        if not self.is_cut:
            return ""
        more = "an unknown number of" if self.left_out is None else f"{self.left_out:,}"
        return f"The first {len(self.table):,} rows; {more} more were left out."


def cast_for_reading(index: int, sql_type: str) -> str:
    """The expression that has a result's column, counted from 0, arrive as a plain array."""
    base = sql_type.partition("(")[0]
    if base in INTEGERS or sql_type in ("DOUBLE", "VARCHAR", "BOOLEAN"):
        return f"#{index + 1}"
    if (base in FLOATS or base in WIDE) and not sql_type.endswith("]"):
        return f"#{index + 1}::double"
    return f"#{index + 1}::varchar"


def result_table(
    names: Sequence[str],
    sql_types: Sequence[str],
    arrays: Sequence[np.ndarray[Any, Any]],
    known: Mapping[str, ColumnSpec],
) -> Table:
    """A table of arrays as duckdb returns them; columns of a name in `known` are declared as there."""
    columns: dict[str, Column] = {}
    for given, sql_type, array in zip(map(clean, names), sql_types, arrays, strict=True):
        # Two columns may have one name, which a row of JSON cannot.
        name = next(each for each in chain([given], (f"{given}_{n}" for n in count(1))) if each not in columns)
        nulls = np.ma.getmaskarray(array)
        values = np.ma.getdata(array)
        spec = _spec(name, known, is_text=values.dtype == object)
        columns[name] = _column(spec, sql_type, values, nulls)
    return Table(tuple(columns.values()))


def _spec(name: str, known: Mapping[str, ColumnSpec], is_text: bool) -> ColumnSpec:
    spec = known.get(name)
    if spec is None:
        spec = ColumnSpec(
            name, name, text=TextKind.NAME, unit="" if is_text else UNITS.get(re.split(r"\W|_", name)[-1], "")
        )
    # The words above it are those of the query, and names stand as they are compared.
    text = TextKind.NAME if spec.text is TextKind.KERNEL else spec.text
    return replace(spec, heading=name, is_key=True, text=text)


def _column(spec: ColumnSpec, sql_type: str, values: np.ndarray[Any, Any], nulls: np.ndarray[Any, Any]) -> Column:
    if values.dtype == object or (values.dtype == bool and nulls.any()):
        strings = Strings()
        rows = zip(values.tolist(), nulls.tolist(), strict=True)
        ids = [
            -1 if null or text is None else strings.intern(str(text).lower() if isinstance(text, bool) else str(text))
            for text, null in rows
        ]
        return Column(spec, np.array(ids, np.int32), strings)
    if values.dtype == bool:
        return Column(spec, values)
    is_whole = values.dtype.kind in "iu" or (sql_type in WIDE and bool((np.abs(values[~nulls]) <= MAX_EXACT).all()))
    if is_whole:
        return Column(spec, np.where(nulls, NULL, np.where(nulls, 0, values).astype(np.int64)))
    return Column(spec, np.where(nulls, np.nan, values.astype(np.float64)))


def write_parquet(table: Table, path: str) -> None:
    """Write a table as a parquet file, which must not be there yet."""
    # It is an extra.
    import duckdb

    from tracetui.sql.views import lend

    with duckdb.connect(":memory:") as connection:
        select = lend(connection, "rows", table)
        connection.execute(f"copy ({select}) to '{path.replace(chr(39), chr(39) * 2)}' (format parquet)")
