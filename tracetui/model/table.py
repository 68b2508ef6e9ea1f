"""Tables: the result of every analysis, which screen, text, JSON, CSV and Markdown print.

A column is one numpy array. Text is stored as ids into a `Strings`, so a million rows of kernel names cost
four bytes each. A value that the trace does not hold is null and never 0: NaN in a float column, NULL in an integer
column, -1 in a text column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from enum import Enum, auto
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tracetui.errors import CannotRun
from tracetui.frozen import frozen
from tracetui.text import clean

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

# Interned strings: an event stores a small number, the text is kept once.


class Strings(Sequence[str]):
    """A list of distinct texts in which the index of a text is its id.

    `intern` gives the id of a text and adds it when it is new; indexing goes back. Ids are never reused.
    """

    __slots__ = ("_ids", "_texts")

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._texts: list[str] = []
        self._ids: dict[str, int] = {}
        for text in texts:
            self.intern(text)

    def intern(self, text: str) -> int:
        """Return the id of `text`, adding it when it is new."""
        number = self._ids.get(text)
        if number is None:
            number = self._ids[text] = len(self._texts)
            self._texts.append(text)
        return number

    def find(self, text: str) -> int:
        """Return the id of `text`, or -1 when no event carries it."""
        return self._ids.get(text, -1)

    def __getitem__(self, key):  # type: ignore[no-untyped-def]
        return self._texts[key]

    def __len__(self) -> int:
        return len(self._texts)

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __contains__(self, text: object) -> bool:
        return text in self._ids


NULL = -(1 << 63)
"""Null in an integer column."""
DOUBTFUL = "~"
"""Behind the title of a column of which some numbers are doubtful."""

Cell = int | float | str | bool | None


class TextKind(Enum):
    """The kind of a column's texts, which decides how they are cut, sorted and set."""

    WORD = auto()
    """Words of our own."""
    PROSE = auto()
    """Words that say little when they are cut: they never are."""
    REMARK = auto()
    """Words with names among them."""
    NAME = auto()
    """A name or value out of the program, which is set apart from words; its end may be cut."""
    DECODED = auto()
    """The work of a kernel, decoded from its name; cut in its middle, since variants differ in their ends."""
    KERNEL = auto()
    """The name of a kernel as recorded: shown decoded, and cut in its middle."""
    RECORDED = auto()
    """The same where it was asked for as it is."""


@frozen(eq=True)
class ColumnSpec:
    """The meaning of a column and its look, in every table."""

    name: str
    """Stable name in JSON and CSV, for sorting and in the language of `check`; ends in its unit (`dur_us`)."""
    heading: str
    """The words above it, on the screen, in text and in a report."""
    help: str = ""
    """One sentence: what the number is."""
    unit: str = ""
    """`us`, `ns`, `%`, `bytes`, `flop`, `GB/s`, or nothing."""
    text: TextKind = TextKind.WORD
    width: int = 20
    """Cells that a text gets on the screen at most, or at least where it grows; a number has as many as it needs."""
    grow: int = 0
    """Share of the width that is left over on the screen."""
    detail: int = 0
    """Level of detail: a narrow terminal leaves out columns of the highest first."""
    is_key: bool = False
    """True where it identifies or ranks a row, and stays even where all rows have the same value."""
    is_moment: bool = False
    """True for a position in time, written in full in its unit."""
    is_signed: bool = False
    """True where its texts begin with `+` or `-`, by which they are coloured."""
    of_servers: bool = False
    """True where only the steps of inference servers have it: in a list of steps it is left out if all are null."""
    is_number_text: bool = False
    """True where its texts are numbers, which are aligned to the right."""

    def but(self, *, heading: str | None = None, help: str | None = None) -> ColumnSpec:
        """The same column where it means something more particular."""
        return replace(
            self, heading=self.heading if heading is None else heading, help=self.help if help is None else help
        )


@frozen
class Column:
    """A sequence of values, and their declaration.

    `values` is float64 (NaN is null), int64 (NULL is null), bool, or int32 ids into `strings` (-1 is null).
    """

    spec: ColumnSpec
    values: NDArray[np.generic]
    strings: Sequence[str] | None = None
    doubtful: NDArray[np.bool_] | None = None
    """Mask of the cells that are marked `~`; of these a number below 0 measures nothing and is not ranked."""

    @property
    def name(self) -> str:
        """The stable name."""
        return self.spec.name

    @property
    def unit(self) -> str:
        """The unit of the values."""
        return self.spec.unit

    @property
    def help(self) -> str:
        """One sentence: what the number is."""
        return self.spec.help

    def __len__(self) -> int:
        return len(self.values)

    @property
    def is_text(self) -> bool:
        """True where the values are ids of texts."""
        return self.strings is not None

    @property
    def is_number(self) -> bool:
        """True where the cells are read as numbers, which are aligned to the right and never cut."""
        return not self.is_text or self.spec.is_number_text

    def cell(self, row: int) -> Cell:
        """The value at a row as a plain Python object, None for null."""
        value = self.values[row].item()
        if self.strings is not None:
            return None if value < 0 else self.strings[int(value)]
        if value == NULL or value != value:
            return None
        return value  # type: ignore[no-any-return]

    def nulls(self) -> NDArray[np.bool_]:
        """Mask of the rows without a value."""
        if self.strings is not None:
            return np.asarray(self.values < 0)  # type: ignore[operator]
        if self.values.dtype.kind == "f":
            return np.isnan(self.values)  # type: ignore[no-any-return]
        if self.values.dtype.kind == "i":
            return np.asarray(self.values == NULL)
        return np.zeros(len(self.values), bool)

    def codes(self) -> tuple[NDArray[np.int32], list[str]]:
        """Indices, -1 for null, into the distinct texts that occur, which are made harmless; for a column of texts."""
        strings, ids = self.strings or (), self.values.astype(np.int64)
        used = np.flatnonzero(np.bincount(ids + 1)) - 1
        used = used[used >= 0]
        indices: dict[str, int] = {}
        # The last entry is that of -1, no text.
        code = np.full(int(used.max(initial=-1)) + 2, -1, np.int32)
        code[used] = [indices.setdefault(clean(strings[number]), len(indices)) for number in used.tolist()]
        return code[ids], list(indices)

    def unranked(self) -> NDArray[np.bool_]:
        """Mask of the rows that sort behind all others: those without a value, and doubtful numbers below 0."""
        if self.doubtful is None:
            return self.nulls()
        return np.asarray(self.nulls() | (self.doubtful & (self.values < 0)))  # type: ignore[operator]

    def is_doubtful(self, row: int) -> bool:
        """True where the cell of a row is marked `~`."""
        return self.doubtful is not None and bool(self.doubtful[row])

    def matching(self, holds: Callable[[str], bool]) -> NDArray[np.bool_]:
        """Mask of the rows whose text satisfies `holds`, which is called once per distinct text."""
        strings, ids = self.strings or (), self.values.astype(np.int64)
        used = np.flatnonzero(np.bincount(ids + 1)) - 1
        # The last entry is that of -1, no text.
        matches = np.zeros(int(used.max(initial=-1)) + 2, bool)
        matches[used] = [number >= 0 and holds(strings[number]) for number in used.tolist()]
        return matches[ids]

    def equal(self, value: Cell) -> NDArray[np.bool_]:
        """Mask of the rows with a value; None asks for those without one."""
        if value is None:
            return self.nulls()
        if self.strings is not None:
            return self.matching(lambda each: each == value)
        return np.asarray(self.values == value)

    def take(self, rows: NDArray[np.integer]) -> Column:
        """The same column with the given rows in the given order."""
        return replace(self, values=self.values[rows], doubtful=None if self.doubtful is None else self.doubtful[rows])


def numbers(column: ColumnSpec | str, values: object, unit: str = "", help: str = "") -> Column:
    """A numeric column; integers stay integers, everything else becomes float64."""
    array = np.asarray(values)
    if array.dtype != np.bool_:
        array = array.astype(np.int64 if array.dtype.kind in "iu" else np.float64, copy=False)
    return Column(_spec(column, unit, help), array)


def micros(
    column: ColumnSpec | str,
    nanoseconds: NDArray[np.generic],
    help: str = "",
    null: NDArray[np.bool_] | None = None,
    doubtful: NDArray[np.bool_] | None = None,
) -> Column:
    """A column of microseconds from integer nanoseconds; `null` masks rows without a value, `doubtful` marked ones."""
    values = np.asarray(nanoseconds, np.float64) / 1000
    if null is not None:
        values = np.where(null, np.nan, values)
    return Column(_spec(column, "us", help), values, doubtful=doubtful)


def texts(column: ColumnSpec | str, values: Sequence[str | None], help: str = "") -> Column:
    """A text column from one Python string per row; for tables that are short."""
    strings = Strings()
    ids = np.fromiter((-1 if text is None else strings.intern(text) for text in values), np.int32, len(values))
    return Column(_spec(column, "", help), ids, strings)


def coded(
    column: ColumnSpec | str,
    ids: NDArray[np.integer],
    strings: Sequence[str],
    help: str = "",
    doubtful: NDArray[np.bool_] | None = None,
) -> Column:
    """A text column from ids into `strings`; -1 is null, `doubtful` masks marked texts."""
    return Column(_spec(column, "", help), np.asarray(ids, np.int32), strings, doubtful)


def missing(column: ColumnSpec | str, rows: int, unit: str = "", help: str = "") -> Column:
    """A column of nulls, for a value that this trace or this version cannot give; `help` says why."""
    return Column(_spec(column, unit, help), np.full(rows, np.nan))


def _spec(column: ColumnSpec | str, unit: str, help: str) -> ColumnSpec:
    """The declaration of a column; one that has only a name is headed by it."""
    return ColumnSpec(column, column, help, unit) if isinstance(column, str) else column


MAX_HTML_ROWS = 20
"""Maximum rows of a table in a notebook."""
MAX_HTML_TEXT = 200
"""Maximum characters of a text in it."""


@frozen
class Table:
    """Columns of one length, and the slice behind each row."""

    columns: tuple[Column, ...]
    slices: NDArray[np.int64] | None = None
    """Row in `Trace.slices` to which each table row jumps, -1 for none; None when no row jumps."""
    note: str = ""
    """A sentence to print with the table: a caveat, or missing data and how to record it."""
    doubts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Reasons for doubt about numbers here, in words, and the columns concerned; () is all of them."""
    headline: str = ""
    """A sentence to print above the rows that sums them up."""
    failures: tuple[str, ...] = ()
    """Sentences about results that are missing because an analysis failed; the note has them too."""

    def __post_init__(self) -> None:
        lengths = {len(column) for column in self.columns}
        if self.slices is not None:
            lengths.add(len(self.slices))
        if len(lengths) > 1:
            raise ValueError(f"columns of different lengths: {sorted(lengths)}")

    def __len__(self) -> int:
        return len(self.columns[0]) if self.columns else 0

    def lacking(self, failures: Sequence[str]) -> Table:
        """The table with sentences about results that are missing in it."""
        if not failures:
            return self
        note = " ".join([*failures, *([self.note] if self.note else [])])
        return replace(self, note=note, failures=(*self.failures, *failures))

    @property
    def column_names(self) -> list[str]:
        """The columns' names, in order."""
        return [column.name for column in self.columns]

    def is_doubtful(self, name: str) -> bool:
        """True where some numbers of a column are doubtful."""
        return any(name in columns for columns in self.doubts.values())

    def heading(self, name: str) -> str:
        """The words above a column, with the mark `~` where some of its numbers are doubtful."""
        words = self[name].spec.heading
        return words + DOUBTFUL if self.is_doubtful(name) else words

    def with_columns(self, names: Sequence[str]) -> Table:
        """The columns of these names alone, in their order, with their doubts.

        Raises: KeyError for an unknown column.
        """
        doubts = {words: tuple(each for each in of if each in names) for words, of in self.doubts.items()}
        kept = {words: names for words, names in doubts.items() if names or not self.doubts[words]}
        return replace(self, columns=tuple(self[name] for name in names), doubts=kept)

    def __getitem__(self, name: str) -> Column:
        return self._by_name[name]

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        # A list on the screen looks up every cell; of two columns of one name the first is meant.
        return {column.name: column for column in reversed(self.columns)}

    def row(self, index: int) -> dict[str, Cell]:
        """One row as a dictionary."""
        return {column.name: column.cell(index) for column in self.columns}

    def rows(self) -> Iterator[dict[str, Cell]]:
        """All rows as dictionaries; for short tables and for export."""
        return (self.row(index) for index in range(len(self)))

    def take(self, rows: NDArray[np.integer]) -> Table:
        """The given rows in the given order."""
        slices = None if self.slices is None else self.slices[rows]
        return replace(self, columns=tuple(column.take(rows) for column in self.columns), slices=slices)

    def order(
        self, name: str, descending: bool = False, shown: Callable[[str], str] | None = None
    ) -> NDArray[np.int64]:
        """Row numbers sorted by a column, stable, nulls and doubtful numbers below 0 last in either direction.

        Texts are compared as `shown` makes them, without regard to case.
        Raises: KeyError for an unknown column.
        """
        column = self[name]
        keys: NDArray[np.generic] = column.values
        if column.strings is not None:
            used, index = np.unique(column.values, return_inverse=True)
            read = [column.strings[number] if number >= 0 else "" for number in used.tolist()]
            compared = [(shown(text) if shown else text).casefold() for text in read]
            ranks = np.empty(len(used), np.int64)
            ranks[sorted(range(len(used)), key=compared.__getitem__)] = np.arange(len(used))
            keys = ranks[index]
        if descending:
            keys = -keys.astype(np.float64 if keys.dtype.kind == "f" else np.int64)
        nulls = column.unranked()
        present = np.flatnonzero(~nulls)
        return np.concatenate([present[np.argsort(keys[present], kind="stable")], np.flatnonzero(nulls)])

    def matching(self, text: str) -> NDArray[np.bool_]:
        """Mask of the rows in which some text column contains `text`, without regard to case."""
        wanted = text.casefold()
        mask = np.zeros(len(self), bool)
        for column in self.columns:
            if column.strings is not None:
                mask |= column.matching(lambda each: wanted in each.casefold())
        return mask

    # Tables for other libraries, each of which is imported when it is asked for.

    @property
    def units(self) -> dict[str, str]:
        """The unit of each column that has one."""
        return {column.name: column.unit for column in self._by_name.values() if column.unit}

    @property
    def remarks(self) -> dict[str, str]:
        """Sentences about the table beside its rows, by the words `headline`, `note` and `doubts`."""
        doubts = (f"{words} ({', '.join(names)})" if names else words for words, names in self.doubts.items())
        sentences = {"headline": self.headline, "note": self.note, "doubts": " ".join(doubts)}
        return {name: clean(text) for name, text in sentences.items() if text}

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """A capsule with the rows as an Arrow stream, which pyarrow, polars, duckdb and others take a table by.

        Texts are a dictionary of those that occur. Fields have `unit`, `heading` and `help` as metadata, the schema has
        the remarks. A schema that is asked for is not followed.
        """
        # Few tables leave the process this way.
        from tracetui.model.arrow import Lent, stream_capsule

        lent = []
        for name, column in reversed(self._by_name.items()):
            values, texts = column.codes() if column.is_text else (column.values, None)
            about = {"unit": column.unit, "heading": column.spec.heading, "help": column.help}
            about = {key: clean(text) for key, text in about.items() if text}
            lent.append(Lent(clean(name), values, column.nulls(), texts, about))
        return stream_capsule(lent, len(self), self.remarks)

    def to_arrow(self) -> pyarrow.Table:
        """The table of pyarrow, with units and remarks as metadata.

        Raises: CannotRun without pyarrow.
        """
        return _library("pyarrow").table(self)

    def to_polars(self) -> polars.DataFrame:
        """The data frame of polars; texts are categorical.

        Raises: CannotRun without polars.
        """
        return _library("polars").DataFrame(self)

    def to_pandas(self) -> pandas.DataFrame:
        """The data frame of pandas, with `units` and the remarks in its `attrs`.

        Texts are categorical, and integers with nulls are `Int64`. Raises: CannotRun without pandas.
        """
        library = _library("pandas")
        values: dict[str, Any] = {}
        for name, column in reversed(self._by_name.items()):
            if column.is_text:
                values[name] = library.Categorical.from_codes(*column.codes())
            elif column.values.dtype.kind == "i" and column.nulls().any():
                values[name] = library.arrays.IntegerArray(column.values.astype(np.int64), column.nulls())
            else:
                values[name] = column.values
        frame = library.DataFrame(values)
        frame.attrs = {"units": self.units, **self.remarks}
        return frame

    def to_numpy(self) -> dict[str, NDArray[Any]]:
        """An array for each column: texts as objects with None for null, floats with NaN, integers with nulls masked.

        Arrays of numbers are those of the table: copy them before you change one.
        """
        arrays: dict[str, NDArray[Any]] = {}
        for name, column in reversed(self._by_name.items()):
            if column.is_text:
                codes, texts = column.codes()
                arrays[name] = np.array([*texts, None], object)[codes]
            elif column.values.dtype.kind == "i" and (nulls := column.nulls()).any():
                arrays[name] = np.ma.MaskedArray(column.values, nulls)
            else:
                arrays[name] = column.values
        return arrays

    def __repr__(self) -> str:
        return f"<table of {len(self):,} rows: {', '.join(map(clean, self.column_names))}>"

    def _repr_html_(self) -> str:
        """The first rows for a notebook, with units in the headings, between the headline and the other remarks."""
        # Its table of all entities is for notebooks alone.
        from html import escape

        visible = range(min(len(self), MAX_HTML_ROWS))
        heads = [self.heading(each.name) + (f" ({each.unit})" if each.unit else "") for each in self.columns]
        rows = ["".join(_html("td", _shown(column, row)) for column in self.columns) for row in visible]
        body = _html("tr", "".join(_html("th", escape(clean(head))) for head in heads))
        body += "".join(_html("tr", row) for row in rows)
        count = f"{len(visible)} of {len(self):,} rows" if len(visible) < len(self) else f"{len(self):,} rows"
        remarks = {name: _html("p", escape(text)) for name, text in self.remarks.items()}
        headline = remarks.pop("headline", "")
        return "".join((headline, _html("table", body), _html("p", count), *remarks.values()))


def _html(tag: str, content: str) -> str:
    return f"<{tag}>{content}</{tag}>"


def _shown(column: Column, row: int) -> str:
    """A cell as HTML."""
    value = column.cell(row)
    if value is None:
        return ""
    if isinstance(value, str):
        from html import escape

        text = clean(value)
        return escape(text if len(text) <= MAX_HTML_TEXT else f"{text[: MAX_HTML_TEXT - 1]}…")
    mark = DOUBTFUL if column.is_doubtful(row) else ""
    return mark + (f"{value:,.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value))


def _library(name: str) -> Any:
    """A library that takes tables.

    Raises: CannotRun where it is not installed.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise CannotRun(f"This needs {name}, which cannot be imported here ({error}): pip install {name}.") from error
