"""Queries over traces: duckdb in memory, that reads the columns where they are, and nothing else; the rows that a query
selected as a table with the units of the columns that they were taken from.

It opens no file, loads no extension and changes no setting. A view is made when a query names it. A query ends with a
sentence at limits of time, rows and memory.
"""

from __future__ import annotations

import re
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib.util import find_spec
from itertools import chain, count, takewhile
from typing import Any

import numpy as np

from tracetui.errors import TracetuiError, Unanswerable, UsageError, nearest
from tracetui.frozen import frozen
from tracetui.model import columns as col
from tracetui.model.table import NULL, Column, ColumnSpec, Strings, Table, TextKind, texts
from tracetui.model.trace import Interrupted, Trace, interruptible
from tracetui.panes import PANES
from tracetui.sql import MAX_MEMORY_MB, MAX_ROWS, MAX_SECONDS
from tracetui.sql.views import ARGS, EVENT, VIEWS, build_view, keys_of_args, lend
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


INSTALL = "pip install duckdb"
"""The extra `sql` in words."""
TICK = 0.05
"""Seconds between two looks at the time."""
RANK = "rank"
"""The column that tells the traces of a set of ranks apart."""
WORDS = ("select", "from", "where", "group by", "order by", "limit", "join", "using", "having", "describe", "with")
"""The words of SQL that are completed."""
_MIB = 1 << 20
_LIST_OF_VIEWS = re.compile(r"\s*show\s+(all\s+)?tables\s*;?\s*", re.IGNORECASE)
_limiting = threading.Lock()
"""The limit to the memory is one of the process: queries wait for each other."""


class QueryError(UsageError):
    """A query that is not understood, or that names something that there is not."""

    def __init__(self, sentence: str, lines: tuple[str, ...] = ()) -> None:
        """`lines` are the line of the query and a sign below the place."""
        super().__init__(sentence)
        self._lines = lines

    @property
    def lines_below(self) -> tuple[str, ...]:
        """The line of the query and a sign below the place."""
        return self._lines


class Database:
    """Views over one trace, over several by name (`a.kernels`), or over the ranks of a run."""

    def __init__(
        self, traces: Mapping[str, Trace], *, by_rank: bool = False, memory_mb: int = MAX_MEMORY_MB, threads: int = 2
    ) -> None:
        """A single trace has its views without a name in front; `by_rank` says that the names are numbers of ranks.

        Ranks share their views, in which the column `rank` tells their rows apart.
        Raises: UsageError where duckdb is not installed.
        """
        self._traces, self._by_rank, self._memory_mb = dict(traces), by_rank, memory_mb
        self._connection = _connect(memory_mb, threads)
        self._made: set[tuple[str, str]] = set()
        self._failed: dict[str, TracetuiError] = {}
        self._specs: dict[str, ColumnSpec] = {}
        self._is_flat = by_rank or len(self._traces) == 1
        for schema in () if self._is_flat else self._traces:
            self._connection.execute(f"create schema {_quoted(schema)}")

    @property
    def views(self) -> tuple[str, ...]:
        """The names of all views, as they are written in a query."""
        if self._is_flat:
            return tuple(VIEWS)
        schemas = [each if re.fullmatch(r"[a-z_][a-z0-9_]*", each) else _quoted(each) for each in self._traces]
        return tuple(f"{schema}.{name}" for schema in schemas for name in VIEWS)

    def completions(self, word: str) -> list[str]:
        """The views, columns of the views made so far, and words of SQL that begin with a word."""
        known = sorted({*self.views, *self._specs, *WORDS})
        return [each for each in known if each.startswith(word.casefold())]

    def completed(self, text: str) -> str:
        """The text with its last word completed as far as there is one way to."""
        word = re.split(r"[\s,;()=<>+*/-]", text)[-1]
        same = zip(*self.completions(word), strict=False)
        common = "".join(letters[0] for letters in takewhile(lambda each: len(set(each)) == 1, same))
        return text.removesuffix(word) + (common or word)

    def _helps(self) -> list[str]:
        names = [each.rpartition(".")[2] for each in self.views]
        return [VIEWS[name] or PANES[name].help for name in names]

    def query(
        self,
        sql: str,
        *,
        max_rows: int = MAX_ROWS,
        seconds: float = MAX_SECONDS,
        goes_on: Callable[[], bool] = lambda: True,
    ) -> QueryResult:
        """The rows that one SELECT (or DESCRIBE, SUMMARIZE, EXPLAIN, PIVOT) asks for.

        `goes_on` is asked again and again whether the answer is still wanted.
        Raises: QueryError for a query that is not understood or not allowed; Unanswerable at a limit; AnalysisFailed
        for a view that cannot be made; Interrupted once the answer is not wanted.
        """
        if _LIST_OF_VIEWS.fullmatch(sql):
            return QueryResult(Table((texts(col.VIEW, self.views), texts(col.HELP, self._helps()))))
        with interruptible(goes_on):
            self._make_views(sql)
        ends = time.monotonic() + seconds
        # A signal does not end a query, so that it runs in a thread; this one waits for ctrl+c and for the time.
        with _limiting, _memory_limit(self._memory_mb * _MIB), ThreadPoolExecutor(1) as executor:
            running = executor.submit(self._answer, sql, max_rows, ends)
            try:
                while not wait([running], TICK).done:
                    # An interrupt that comes before duckdb has begun is lost.
                    if time.monotonic() > ends or not goes_on():
                        self._connection.interrupt()
            except BaseException:
                while not wait([running], TICK).done:
                    self._connection.interrupt()
                raise
        try:
            return running.result()
        except Interrupted:
            if not goes_on():
                raise
            raise Unanswerable(f"The query took longer than {seconds:g} s and was stopped.") from None

    def close(self) -> None:
        """Give the columns back."""
        self._connection.close()

    def _answer(self, sql: str, max_rows: int, ends: float) -> QueryResult:
        # It is an extra.
        import duckdb

        try:
            return self._read(self._connection.sql(self._only_statement(sql)), max_rows, ends)
        except duckdb.InterruptException:
            raise Interrupted from None
        except (duckdb.OutOfMemoryException, MemoryError):
            raise Unanswerable(f"The query takes more memory than {self._memory_mb:,} MiB and was stopped.") from None
        except duckdb.Error as error:
            raise self._in_words(error) from None

    def _only_statement(self, sql: str) -> str:
        from duckdb import StatementType

        statements = self._connection.extract_statements(sql)
        if len(statements) != 1:
            raise QueryError("There is no query." if not statements else "One query at a time: there are several.")
        allowed = (StatementType.SELECT, StatementType.EXPLAIN)
        is_pivot = statements[0].type == StatementType.MULTI and sql.lstrip().lower().startswith("pivot")
        if statements[0].type not in allowed and not is_pivot:
            verb = statements[0].type.name.replace("_", " ")
            raise QueryError(f"{verb} is not allowed: a query reads the views, with SELECT, and changes nothing.")
        return str(statements[0].query)

    def _read(self, rows: Any, max_rows: int, ends: float) -> QueryResult:
        names, types = list(rows.columns), [str(each) for each in rows.types]
        read = ", ".join(f"{cast_for_reading(index, each)} as c{index}" for index, each in enumerate(types))
        arrays = list(rows.project(read).limit(max_rows + 1).fetchnumpy().values())
        table = result_table(names, types, arrays, self._specs)
        left_out: int | None = 0
        if len(table) > max_rows:
            table = table.take(np.arange(max_rows))
            left_out = self._rows_beyond(rows, max_rows)
        return QueryResult(self._jumping(table), left_out)

    def _rows_beyond(self, rows: Any, max_rows: int) -> int | None:
        # It is an extra.
        import duckdb

        with suppress(duckdb.InterruptException, duckdb.OutOfMemoryException):
            return int(rows.aggregate("count(*)").fetchall()[0][0]) - max_rows
        return None

    def _jumping(self, table: Table) -> Table:
        """The table with the slice of each row that has an event, where it is known of which trace it is."""
        if len(self._traces) != 1 or EVENT.name not in table or table[EVENT.name].values.dtype != np.int64:
            return table
        (trace,) = self._traces.values()
        row_of_event = np.full(trace.events + 1, -1, np.int64)
        row_of_event[trace.slices.event] = np.arange(len(trace.slices))
        events = table[EVENT.name].values.astype(np.int64)
        is_event = (events >= 0) & (events < trace.events)
        return replace(table, slices=row_of_event[np.where(is_event, events, -1)])

    def _make_views(self, sql: str) -> None:
        """Make the views whose names are words of the query, and that of args anew for the keys that it names."""
        words = {word.casefold() for word in re.findall(r"\w+", sql)}
        quoted = re.findall(r"'((?:[^']|'')*)'", sql)
        keys = frozenset(each.replace("''", "'") for each in quoted)
        for name in [each for each in VIEWS if each in words]:
            if self._is_flat:
                self._make("main", name, self._traces, keys)
            for schema, trace in {} if self._is_flat else self._traces.items():
                if schema.casefold() in words:
                    self._make(schema, name, {schema: trace}, keys)

    def _make(self, schema: str, name: str, traces: Mapping[str, Trace], quoted: frozenset[str]) -> None:
        """Make a view of the rows of some traces, unless it is there already."""
        if name != ARGS and (schema, name) in self._made:
            return
        selects = []
        try:
            for each, trace in traces.items():
                select = self._select(f"_{each}_{name}", trace, name, quoted)
                selects.append(f"select {int(each)} as {RANK}, * from ({select})" if self._by_rank else select)
        except TracetuiError as error:
            # Maybe the word is no view here; the query says so.
            self._failed[name] = error
            return
        view = f"{_quoted(schema)}.{name}"
        self._connection.execute(f"create or replace view {view} as {' union all by name '.join(selects)}")
        self._made.add((schema, name))

    def _select(self, lent: str, trace: Trace, name: str, quoted: frozenset[str]) -> str:
        keys: list[str] = []
        if name == ARGS:
            known = keys_of_args(trace)
            # Of rare events the keys may not be known.
            keys = sorted(quoted if quoted & set(known) else quoted | set(known))
        table = build_view(trace, name, keys)
        self._specs |= {column.name: column.spec for column in table.columns}
        return lend(self._connection, lent, table)

    def _in_words(self, error: Exception) -> TracetuiError:
        """The message of duckdb in a sentence, with the views that may have been meant."""
        message, _, place = str(error).partition("\n\nLINE ")
        kind, colon, text = message.partition(": ")
        text = " ".join((text if colon and kind.endswith("Error") else message).split())
        # The number of the line is that of a query around this one.
        number, _, line = place.partition(": ")
        lines = tuple(each.removeprefix(" " * len(f"LINE {number}: ")) for each in line.split("\n")) if line else ()
        if missing := re.search(r"(?:Table|Schema) with name \"?([^\"]+?)\"? does not exist", text):
            return self._no_view(missing[1])
        if "disabled by configuration" in text:
            text = "A query reads the views and no file, network or extension."
        return QueryError(text if text.endswith((".", "!", "?")) else f"{text}.", lines)

    def _no_view(self, name: str) -> TracetuiError:
        bare = name.rpartition(".")[2]
        if bare in self._failed:
            return self._failed[bare]
        some = nearest(name.casefold(), self.views, f"There are {', '.join(self.views)}.")
        return QueryError(f"There is no view {name}. {some}")


@contextmanager
def _memory_limit(most: int) -> Iterator[None]:
    """Refuse this process more than so many bytes beside what it has.

    duckdb counts what it groups, sorts and joins, but not what a function such as `repeat` makes of one row, which
    could take all memory there is and is not stopped by a timer.
    """
    taken = _data_of_process()
    if taken is None:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limits = [each for each in (taken + most, soft, hard) if each != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min(limits), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _data_of_process() -> int | None:
    """Bytes that the system counts against RLIMIT_DATA; None where it cannot be told."""
    if sys.platform != "linux":
        return None
    with suppress(OSError, ValueError), open("/proc/self/status", encoding="ascii", errors="replace") as status:
        for line in status:
            if line.startswith("VmData:"):
                return int(line.split()[1]) * 1024
    return None


def require_duckdb() -> None:
    """Raises: UsageError where duckdb is not installed."""
    if find_spec("duckdb") is None:
        raise UsageError(f"SQL needs duckdb, which is not installed: {INSTALL}.")


def _connect(memory_mb: int, threads: int) -> Any:
    require_duckdb()
    # It is an extra.
    import duckdb

    connection = duckdb.connect(
        ":memory:",
        config={
            "threads": threads,
            "memory_limit": f"{memory_mb}MiB",
            "temp_directory": "",
            "max_temp_directory_size": "0KB",
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "python_enable_replacements": False,
        },
    )
    for setting in ("enable_progress_bar=false", "enable_external_access=false", "lock_configuration=true"):
        connection.execute(f"set {setting}")
    return connection


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
