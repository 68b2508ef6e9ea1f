"""Reads tables of an SQLite file that anybody may have written, and rows of it again for arguments after loading.

Nothing in the file is executed: views, triggers, virtual tables and computed columns in place of a known table are
refused, and statements may do nothing but read. Every value is checked, as SQLite lets any type stand in any column.
`exported` has `nsys` make such a file of a report, below the cache, where it is kept until the report changes.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import sqlite3
import subprocess
import time
from array import array
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, suppress
from itertools import chain
from pathlib import Path
from typing import IO, Any, NamedTuple
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from tracetui.errors import NotATrace, NotFound, OtherKind, TraceError
from tracetui.files import is_url, user_cache_folder
from tracetui.model.intervals import Int64
from tracetui.model.table import NULL
from tracetui.reading.columns import Gathered
from tracetui.reading.nsight.tables import ABSENT_AT_ZERO, ARGUMENTS, COPIES, KERNELS
from tracetui.text import clean

MAX_OBJECTS = 10_000
"""Maximum tables, indices and the like of a file."""
MAX_VALUE_BYTES = 1 << 26
"""Maximum bytes of a text, and of a row."""
MAX_RECORDS = 100_000
"""Maximum rows of a table that describes something: processes, threads, devices."""
_LIMITS = (
    (sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES),
    (sqlite3.SQLITE_LIMIT_SQL_LENGTH, 1 << 18),
    (sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 50),
    (sqlite3.SQLITE_LIMIT_ATTACHED, 0),
    (sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH, 1),
    (sqlite3.SQLITE_LIMIT_WORKER_THREADS, 0),
)
_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_PRAGMA}
_PRAGMAS = ("trusted_schema=off", "cell_size_check=on", "mmap_size=0", "query_only=on")
MAX_QUOTED = 200
"""Maximum characters of what is quoted in a sentence."""
READ_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""Errors of a damaged file; messages and names of columns in it may be no UTF-8."""
_ROWS = 1 << 14
"""Rows that are fetched at once."""
_STEPS = 1 << 16
"""Steps of SQLite's machine between two looks at whether to go on."""


def connect(path: str, cancelled: Callable[[], bool] = lambda: False, is_short: bool = False) -> sqlite3.Connection:
    """A connection that reads a file and nothing else; texts come as bytes.

    `is_short` lets it read what there is of a file that is cut off, which SQLite refuses otherwise.

    Raises: one of READ_ERRORS.
    """
    name = quote(os.fsencode(os.path.abspath(path)))
    connection = sqlite3.connect(f"file:{name}?mode=ro&immutable=1", uri=True, check_same_thread=False)
    connection.text_factory = bytes
    for limit, value in _LIMITS:
        connection.setlimit(limit, value)
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")
    if is_short:
        connection.execute("PRAGMA writable_schema=on")
    connection.set_progress_handler(cancelled, _STEPS)
    connection.set_authorizer(lambda action, *_: sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY)
    return connection


def is_cut_off(path: str) -> bool:
    """Tell whether a file has fewer pages than its header says."""
    with open(path, "rb") as file:
        header = file.read(100)
        size = file.seek(0, os.SEEK_END)
    page = int.from_bytes(header[16:18], "big")
    # The number of pages counts only where the last change wrote it.
    return header[24:28] == header[92:96] and size < (1 << 16 if page == 1 else page) * int.from_bytes(
        header[28:32], "big"
    )


class Rows(NamedTuple):
    """Rows of a table by the number that SQLite gives each; all arrays have one entry per row."""

    rowid: Int64
    """Ascending."""
    columns: dict[str, Int64]
    """Whole numbers by column, `NULL` where there is none, also for a column that the table lacks."""

    def where(self, mask: NDArray[np.bool_]) -> Rows:
        """The rows of a mask."""
        return Rows(self.rowid[mask], {name: values[mask] for name, values in self.columns.items()})

    def __len__(self) -> int:
        return len(self.rowid)


class Database:
    """The tables of a file."""

    def __init__(
        self,
        path: str,
        label: str,
        known: Collection[str],
        cancelled: Callable[[], bool] = lambda: False,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """Open a file; `known` are the names of tables that will be read.

        `check` is called now and then, and raises what ends the reading.

        Raises: NotATrace for a file that SQLite cannot open, and for one with anything else in place of a known table.
        """
        self._label, self._cancelled, self._check = label, cancelled, check
        self.damage = ""
        """The first damage that was met, as the end of a sentence; what stands before it was read."""
        self.wrong = 0
        """Values of another type than their column should have."""
        self.lacks: list[str] = []
        """Tables that lack a column without which they mean nothing."""
        self._columns: dict[str, dict[str, str]] = {}
        self.is_short = is_cut_off(path)
        """True where the file is shorter than it says."""
        if self.is_short:
            self.damage = "it is cut off"
        try:
            self._connection = connect(path, cancelled, self.is_short)
            self._read_schema({each.casefold() for each in known})
        except READ_ERRORS as error:
            raise NotATrace(f"{label} cannot be read as SQLite ({one_line(error)}): copy or export it anew.") from error

    def _read_schema(self, known: set[str]) -> None:
        sql = "SELECT type, name, tbl_name, rootpage, sql FROM sqlite_master"
        objects = self._connection.execute(sql).fetchmany(MAX_OBJECTS + 1)
        if len(objects) > MAX_OBJECTS:
            raise NotATrace(f"{self._label} has more than {MAX_OBJECTS:,} tables, as no export has: it is not opened.")
        for kind, name, owner, page, made_by in objects:
            kind, name, owner = (_text(each) for each in (kind, name, owner))
            if kind == "index" or (name.casefold() not in known and owner.casefold() not in known):
                if kind == "table" and page:
                    self._columns[name] = {}
                continue
            is_virtual = kind == "table" and (not page or b"VIRTUAL" in (made_by or b"")[:20].upper())
            if kind != "table" or is_virtual:
                what = "virtual table" if is_virtual else kind
                raise NotATrace(
                    f"{self._label} has a {what} where an export has the plain table {owner}: it is not opened."
                )
            self._columns[name] = self._columns_of(name)

    def _columns_of(self, table: str) -> dict[str, str]:
        """The names of a table's columns by the same in lower case.

        Raises: NotATrace for columns that are computed, or hide the number of a row.
        """
        info = self._connection.execute(f"PRAGMA table_xinfo({_quoted(table)})").fetchall()
        names = {_text(row[1]).casefold(): _text(row[1]) for row in info}
        if "rowid" in names or any(row[6] for row in info):
            raise NotATrace(f"{self._label} has columns in the table {table} that no export has: it is not opened.")
        return names

    def __contains__(self, table: str) -> bool:
        return any(each.casefold() == table.casefold() for each in self._columns)

    def has_column(self, table: str, column: str) -> bool:
        """True where a known table has a column."""
        return table in self and column.casefold() in self._columns_named(table)

    def _columns_named(self, table: str) -> dict[str, str]:
        return next((names for each, names in self._columns.items() if each.casefold() == table.casefold()), {})

    def others(self, known: Collection[str]) -> list[str]:
        """Tables beside the known ones that have rows with a time."""
        taken = {each.casefold() for each in known}
        others = []
        for table in sorted(self._columns):
            if table.casefold() not in taken:
                try:
                    timed = {"start", "timestamp"} & set(self._columns_of(table))
                    if timed and self._connection.execute(f"SELECT rowid FROM {_quoted(table)} LIMIT 1").fetchone():
                        others.append(one_line(table))
                except (*READ_ERRORS, NotATrace):
                    continue
        return others

    def numbers(self, table: str, required: Sequence[str], optional: Sequence[str] = ()) -> Rows:
        """Whole numbers of a table, without the rows that lack a required one, which count as wrong.

        Of a table that is damaged, what stands before the damage; no rows of one that is missing, or lacks a column.
        """
        names = (*required, *optional)
        present = [name for name in names if self.has_column(table, name)]
        if table in self and not set(required) <= set(present):
            self.lacks.append(table)
        if not present or not set(required) <= set(present):
            return Rows(np.empty(0, np.int64), {name: np.empty(0, np.int64) for name in names})
        gathered = Gathered("rowid", *present)
        # What is absent is a number in all rows, so that they need no look at each value.
        columns = ", ".join(
            f"CASE WHEN {_quoted(each)} IS NULL THEN {NULL} ELSE {_quoted(each)} END" for each in present
        )
        for rows in self._fetch(table, columns):
            chunk = self._whole(rows)
            gathered.add(rowid=chunk[:, 0], **{name: chunk[:, at + 1] for at, name in enumerate(present)})
        taken = {name: gathered.take(name, "i8") for name in ("rowid", *present)}
        rowid = taken.pop("rowid")
        absent = np.broadcast_to(np.int64(NULL), len(rowid))
        whole = Rows(rowid, {name: taken.get(name, absent) for name in names})
        kept = np.ones(len(rowid), bool)
        for name in required:
            kept &= whole.columns[name] != NULL
        if kept.all():
            return whole
        self.wrong += int(np.count_nonzero(~kept))
        return whole.where(kept)

    def values(self, table: str, column: str, wanted: Int64) -> list[Any]:
        """The value in a column of some rows, whatever it is; texts are bytes, and None stands for what is missing."""
        if not self.has_column(table, column):
            return [None] * len(wanted)
        gathered = Gathered("rowid")
        values: list[Any] = []
        for rows in self._fetch(table, _quoted(column)):
            numbers, some = zip(*rows, strict=True)
            gathered.add(rowid=np.array(numbers, np.int64))
            values += some
        rowid = gathered.take("rowid", "i8")
        if np.array_equal(rowid, wanted):
            return values
        # The last one is None.
        at = np.searchsorted(rowid, wanted)
        is_there = np.append(rowid, NULL)[at] == wanted
        return list(map([*values, None].__getitem__, np.where(is_there, at, len(values)).tolist()))

    def records(self, table: str) -> list[dict[str, Any]]:
        """The rows of a table that describes something, by column; texts are decoded."""
        names = list(self._columns_named(table).values())
        if not names:
            return []
        records: list[dict[str, Any]] = []
        for rows in self._fetch(table, ", ".join(map(_quoted, names))):
            records += [
                {
                    name: _text(value) if isinstance(value, bytes) else value
                    for name, value in zip(names, row[1:], strict=True)
                }
                for row in rows
            ]
            if len(records) > MAX_RECORDS:
                raise NotATrace(
                    f"{self._label} has more than {MAX_RECORDS:,} rows in {table}, as no export has: it is not opened."
                )
        return records

    def _fetch(self, table: str, columns: str) -> Iterator[list[tuple[Any, ...]]]:
        """Rows of a table, each with its number in front, some at a time; they end at the first damage."""
        before = NULL
        try:
            cursor = self._connection.execute(
                f"SELECT rowid, {columns} FROM {_quoted(table)} NOT INDEXED ORDER BY rowid"
            )
            while rows := cursor.fetchmany(_ROWS):
                numbers = np.array([row[0] for row in rows], np.int64)
                if numbers[0] <= before or (np.diff(numbers) <= 0).any():
                    # A page that several others lead to is read again and again.
                    raise sqlite3.DatabaseError("rows repeat")
                before = int(numbers[-1])
                self._check()
                yield rows
        except READ_ERRORS as error:
            if not self._cancelled():
                self.damage = self.damage or f"the table {table} cannot be read to its end ({one_line(error)})"

    def _whole(self, rows: list[tuple[Any, ...]]) -> Int64:
        """Rows as numbers, `NULL` for anything that is no whole number."""
        try:
            flat = array("q", chain.from_iterable(rows))
        except TypeError:
            values = list(chain.from_iterable(rows))
            self.wrong += sum(type(value) is not int for value in values)
            flat = array("q", [value if type(value) is int else NULL for value in values])
        return np.frombuffer(flat, np.int64).reshape(len(rows), -1)

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()


def one_line(error: object) -> str:
    """The message of SQLite, which may quote the file, for a sentence."""
    return " ".join(str(error).split())[:MAX_QUOTED]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


FEW = 64
"""Rows that are looked up one by one; for more a stretch of the table is read."""


class RowStore:
    """The rows of a file by the number of their event; the importer's `EventStore`.

    Reading raises TraceError when the file has changed or gone.
    """

    def __init__(
        self,
        path: str,
        label: str,
        stretches: list[tuple[str, int, Int64]],
        is_short: bool = False,
        file: IO[bytes] | None = None,
    ) -> None:
        """`stretches` are tables, each with the number of its first event and the numbers of its rows.

        `is_short` is true of a file that is cut off; `file` is the temporary one at `path`, which goes with the store.
        """
        self._path, self._label, self._is_short, self._file = path, label, is_short, file
        self._stretches = stretches
        self._firsts = [first for _, first, _ in stretches]
        self._identity = self._current()

    def event(self, index: int) -> dict[str, Any]:
        """The arguments of one event, under `args`."""
        number = bisect_right(self._firsts, index) - 1
        keys = list(self._keys(number))
        values = self.args(np.array([index], np.int64), keys)
        args = {key: value for key, (value,) in zip(keys, values, strict=True) if value is not None}
        return {"args": args}

    def args(self, indices: Int64, keys: Sequence[str]) -> list[list[Any]]:
        """For each key the values of `args[key]` of many events, None where an event has no such key."""
        columns: list[list[Any]] = [[None] * len(indices) for _ in keys]
        order = np.argsort(indices, kind="stable")
        numbers = np.searchsorted(self._firsts, indices[order], side="right") - 1
        for rows in np.split(order, np.flatnonzero(np.diff(numbers)) + 1) if len(order) else []:
            number = bisect_right(self._firsts, int(indices[rows[0]])) - 1
            wanted = [key for key in keys if key in self._keys(number)]
            if number < 0 or not wanted:
                continue
            values = self._values(number, indices[rows] - self._firsts[number], wanted)
            for key, column in zip(keys, columns, strict=True):
                if key in wanted:
                    for row, value in zip(rows.tolist(), values[wanted.index(key)], strict=True):
                        column[row] = value
        return columns

    def _keys(self, number: int) -> dict[str, str | tuple[str, ...]]:
        """The arguments that rows of a table may have."""
        table = self._stretches[number][0] if number >= 0 else ""
        keys = dict(ARGUMENTS.get(table, {}))
        if table == KERNELS:
            keys["shared memory"] = ("staticSharedMemory", "dynamicSharedMemory")
        if table == COPIES:
            keys["memory bandwidth (GB/s)"] = ("bytes", "start", "end")
        return keys

    def _values(self, number: int, wanted: Int64, keys: Sequence[str]) -> list[list[Any]]:
        """For each key its values in some rows of a table, which ascend."""
        table, _, rowids = self._stretches[number]
        rowid = rowids[wanted]
        self._check()
        sources = [self._keys(number)[key] for key in keys]
        names = dict.fromkeys(chain.from_iterable((each,) if isinstance(each, str) else each for each in sources))
        selected: list[str] = []
        records: list[tuple[Any, ...]] = []
        # Of a damaged table some rows can be read.
        with suppress(*READ_ERRORS), closing(connect(self._path, is_short=self._is_short)) as connection:
            info = connection.execute(f'PRAGMA table_xinfo("{table}")').fetchall()
            present = {row[1].decode("utf-8", "replace").casefold() for row in info}
            selected = [name for name in names if name.casefold() in present]
            columns = ", ".join(f'"{name}"' for name in ("rowid", *selected))
            query = f'SELECT {columns} FROM "{table}" NOT INDEXED WHERE rowid'
            if len(rowid) <= FEW:
                for each in rowid.tolist():
                    records += connection.execute(f"{query} = ?", (each,)).fetchall()
            else:
                ends = int(rowid[0]), int(rowid[-1])
                for row in connection.execute(f"{query} BETWEEN ? AND ? ORDER BY rowid", ends):
                    records.append(row)
        rows = {row[0]: row[1:] for row in records}
        none = (None,) * len(selected)
        chosen = [rows.get(each, none) for each in rowid.tolist()]
        return [_argument(key, of, selected, chosen) for key, of in zip(keys, sources, strict=True)]

    def _check(self) -> None:
        """Raise TraceError where the file is not the one that was read."""
        if self._current() != self._identity:
            raise TraceError(f"{self._label} has changed since it was opened: open it again to see arguments.")

    def _current(self) -> tuple[int, int, int]:
        try:
            status = os.stat(self._path)
        except OSError as error:
            raise TraceError(f"{self._label} cannot be read any more: {error.strerror}.") from error
        return status.st_ino, status.st_size, status.st_mtime_ns


def _argument(key: str, of: str | tuple[str, ...], selected: list[str], rows: Sequence[tuple[Any, ...]]) -> list[Any]:
    """The values of an argument in some rows, of which some columns were selected."""
    names = (of,) if isinstance(of, str) else of
    if not set(names) <= set(selected):
        return [None] * len(rows)
    at = [selected.index(name) for name in names]
    if isinstance(of, str):
        values = [each.decode("utf-8", "replace") if isinstance(each := row[at[0]], bytes) else each for row in rows]
        return [None if each == 0 else each for each in values] if key in ABSENT_AT_ZERO else values
    parts = [[row[number] for number in at] for row in rows]
    whole = [all(type(each) is int for each in part) for part in parts]
    if key == "shared memory":
        return [sum(part) if good else None for part, good in zip(parts, whole, strict=True)]
    if key == "memory bandwidth (GB/s)":
        # Bytes per nanosecond are GB/s.
        return [
            round(part[0] / (part[2] - part[1]), 3) if good and part[2] > part[1] else None
            for part, good in zip(parts, whole, strict=True)
        ]
    absent = [key in ABSENT_AT_ZERO and not any(part) for part in parts]
    return [part if good and not none else None for part, good, none in zip(parts, whole, absent, strict=True)]


TIMEOUT_SECONDS = 1800.0
"""Seconds that one export may take."""
MAX_EXPORTS = 8
"""Maximum exports that are kept; the one that was not used for the longest goes first."""
_POLL_SECONDS = 0.1


def exported(path: str, cancelled: Callable[[], bool] = lambda: False) -> str:
    """The path of an export of a report, which is made where there is none of the report as it is now.

    Raises: OtherKind where `nsys` is not installed; NotATrace where it makes no export; NotFound for a report that
    cannot be read.
    """
    name = Path(path).name
    command = shlex.join(["nsys", "export", "--type", "sqlite", "-o", f"{Path(name).stem}.sqlite", name])
    what, advice = "an Nsight Systems report", f"run `{command}` where nsys is installed, and open what it writes"
    if is_url(path):
        raise OtherKind(name, what, advice)
    try:
        status = os.stat(path)
    except OSError as error:
        raise NotFound(f"{path} cannot be read: {error.strerror or error}.") from error
    full = os.path.realpath(path)
    about = f"{full}\0{status.st_size}\0{status.st_mtime_ns}".encode("utf-8", "surrogateescape")
    target = user_cache_folder() / "nsys" / f"{hashlib.blake2b(about, digest_size=16).hexdigest()}.sqlite"
    if target.is_file():
        with suppress(OSError):
            os.utime(target)
        return str(target)
    program = shutil.which("nsys")
    if program is None:
        raise OtherKind(name, what, advice)
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise NotATrace(f"{target.parent} cannot be made, for the export of {name}: {error.strerror}.") from error
    part = target.with_name(f"{target.stem}.{os.getpid()}.part.sqlite")
    try:
        _run(
            [program, "export", "--type", "sqlite", "--force-overwrite", "true", "-o", str(part), full], name, cancelled
        )
        if not part.is_file():
            raise NotATrace(f"nsys made no export of {name}: run `{command}` to see why.")
        os.replace(part, target)
    finally:
        with suppress(OSError):
            part.unlink()
    with suppress(OSError):
        files = sorted(target.parent.glob("*.sqlite"), key=lambda file: -file.stat().st_mtime)
        for file in files[MAX_EXPORTS:]:
            file.unlink()
    return str(target)


def _run(command: list[str], name: str, cancelled: Callable[[], bool]) -> None:
    """Run nsys to its end.

    Raises: NotATrace where it fails, takes too long, or nobody waits any more.
    """
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
        )
    except OSError as error:
        raise NotATrace(f"nsys cannot be started: {error.strerror or error}.") from error
    ends = time.monotonic() + TIMEOUT_SECONDS
    while True:
        try:
            _, errors = process.communicate(timeout=_POLL_SECONDS)
            break
        except subprocess.TimeoutExpired:
            if cancelled() or time.monotonic() > ends:
                process.kill()
                process.communicate()
                why = "was stopped" if cancelled() else f"took longer than {TIMEOUT_SECONDS:.0f} s"
                raise NotATrace(f"The export of {name} {why}.") from None
    if process.returncode:
        lines = errors.decode("utf-8", "replace").strip().splitlines()
        raise NotATrace(
            f"nsys cannot export {name}: {clean(lines[-1][:300]) if lines else f'exit {process.returncode}'}"
        )
