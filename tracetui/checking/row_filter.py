"""The rows of a list that a filter keeps: those with a text in them, or those for which a condition holds.

A condition is an expression of `tracetui check` over the columns of the list: `dur > 100us & op ~ mm`. A column is
named by its name, its heading, or the beginning of either, or else the end of its name, where only one column fits. A
word that stands for itself is a text that a row must contain; so is the whole filter where it is no condition.
"""

from __future__ import annotations

import ast
import re
from dataclasses import replace

import numpy as np

from tracetui.checking.parser import HEADING, Path, bare_words, parsed, written_path
from tracetui.checking.tree_evaluator import TreeEvaluator, matcher
from tracetui.checking.values import (
    ANSWER,
    TEXT,
    YES,
    ExpressionError,
    Rows,
    Value,
    nearest,
    text_value,
)
from tracetui.errors import MAX_SUGGESTED_NAMES, UsageError
from tracetui.model.intervals import Bool
from tracetui.model.table import Column, Table

_UNIT_ENDINGS = ("_us", "_pct", "_bytes", "_ns")
"""Ends of the names of columns that a short form leaves out."""
_SIGNS = r"(?:[<>]=?|[=!]=?|!?~|[≤≥≠])"
_SPACED_SIGN = re.compile(rf"\s(?:{_SIGNS}|&&?|\|\|?)(?:\s|$)")
_COMPARED_NAME = re.compile(rf"(?:^|[&|(!]|\b(?:and|or|not)\b)\s*({HEADING.pattern})\s*(?:[<>~≤≥≠=]|![=~])")
_ANY_COMPARISON = re.compile(rf"\s*({HEADING.pattern})\s*(?:[<>~≤≥≠=]|![=~])=?\s*[^\s<>=~]")
_COMPARED_IN_WORDS = re.compile(
    r"\s*(\w+)(?:\s*:(?!:)|\s(?:is|in|not|like|contains|equals|equal|between|above|below|over|under|greater|less|more)\b)"
)
_TYPED_NAME = re.compile(rf"(?:^|[&|(!]|\b(?:and|or|not)\b)\s*({HEADING.pattern}|)$")
_NAMED_TEXT = re.compile(
    rf"(?:^|[&|(!]|\b(?:and|or|not)\b)\s*({HEADING.pattern})\s*(!?~|[=!]=)\s*[\"']?([^&|()\"']*[^&|()\"'\s])[\"']?\s*$"
)
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")


def kept_rows(table: Table, text: str) -> Bool:
    """Mask of the rows that a filter keeps.

    Raises: ExpressionError, with the position, for a condition that is not understood or does not fit the columns.
    """
    wanted = text.strip()
    if _QUOTED.fullmatch(wanted):
        return table.matching(wanted[1:-1])
    if not is_condition(table, text):
        return table.matching(text)
    evaluator = RowEvaluator(table)
    try:
        answer = evaluator.condition(parsed(text, of_list=True), evaluator.rows, "A filter")
    except ExpressionError as error:
        error.text = text
        raise
    return np.broadcast_to(answer.values == YES, len(table))


def is_condition(table: Table, text: str) -> bool:
    """True where a filter is a condition: it compares a column, negates a text, or has an operator between spaces.

    Names of kernels have signs in them as well, but these are not set off by spaces.
    """
    if text.lstrip().startswith("!") or _SPACED_SIGN.search(text):
        return True
    return any(columns_meant(table, match[1]) for match in _COMPARED_NAME.finditer(text))


def ends_in_word(table: Table, text: str) -> bool:
    """True where a condition ends in a word of its own, which may become the column of a comparison."""
    return is_condition(table, text) and _TYPED_NAME.search(text.rstrip()) is not None


def completions(table: Table, text: str) -> list[str]:
    """Names of the columns that the last word of a filter can become; none where no name is expected."""
    if (match := _TYPED_NAME.search(text.rstrip())) is None:
        return []
    return [column.name for column in _beginning(table, _plain(match[1]))]


def completed(table: Table, text: str) -> str:
    """The filter with its last word completed: as far as all completions agree, or to the first where they do not."""
    names, match = completions(table, text), _TYPED_NAME.search(text.rstrip())
    if not names or match is None or not match[1]:
        return text
    common = shared_beginning(names)
    is_longer = common.startswith(match[1]) and len(common) > len(match[1])
    return text[: match.start(1)] + (common if is_longer else names[0])


def texts_meant(table: Table, text: str) -> list[str]:
    """The texts of a column that a pattern at the end of a filter matches, those in most rows first.

    Empty where no pattern stands there, or nothing matches it.
    """
    match = _NAMED_TEXT.search(text)
    meant = columns_meant(table, match[1]) if match else []
    if match is None or len(meant) != 1 or meant[0].strings is None:
        return []
    strings, ids = meant[0].strings, np.asarray(meant[0].values, np.int64)
    rows, fits = np.bincount(ids[ids >= 0]), matcher(match[3], whole="=" in match[2])
    ids_that_fit = [number for number in np.flatnonzero(rows).tolist() if fits(strings[number])]
    return [strings[number] for number in sorted(ids_that_fit, key=lambda number: -int(rows[number]))]


def shared_beginning(names: list[str]) -> str:
    """The longest text with which all names begin."""
    first, last = min(names), max(names)
    same = next((index for index, letter in enumerate(first) if last[index : index + 1] != letter), len(first))
    return first[:same]


class RowEvaluator(TreeEvaluator):
    """Evaluates a condition for every row of a table."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.rows = Rows("the list", table)

    def condition(self, node: ast.expr, row: Rows | None, taker: str) -> Value:
        """The answer of a condition for each row; a text in place of a condition asks for the rows that contain it.

        Raises: ExpressionError for what is no condition.
        """
        text = bare_words(node)
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        elif any(columns_meant(self._table, part) for part in re.split("[-/]", text)):
            text = ""
        if text:
            return Value(self._table.matching(text).astype(np.int8), ANSWER, self.rows)
        return super().condition(node, row, taker)

    def path_value(self, path: Path, row: Rows | None) -> Value:
        """The values of a column.

        Raises: ExpressionError for a column that does not exist, or a name that may be several.
        """
        part = path[0]
        if not part.is_plain or len(path) > 1:
            sentence = f"{written_path(path)}: a filter compares columns, and has no functions and parts."
            raise ExpressionError(sentence, part.at)
        return self.rows[column_meant(self._table, part.name, part.at).name]

    def compared_values(self, node: ast.Compare, row: Rows | None) -> list[Value]:
        """The compared values; a word behind a column of texts is a text, also where a column has that name.

        Raises: ExpressionError for a column that does not exist.
        """
        first = self.value(node.left, row) if isinstance(node.left, ast.Name) else None
        if first is None or first.unit != TEXT:
            return super().compared_values(node, row)
        words = map(bare_words, node.comparators)
        others = zip(words, node.comparators, strict=True)
        return [first, *(text_value(word, fixed=True) if word else self.value(each, row) for word, each in others)]


def column_meant(table: Table, words: str, at: int = 0, option: str = "") -> Column:
    """The one column that a name means, which stands `at` some position of a text, or in an `option`.

    Raises: ExpressionError for a column that does not exist, or a name that may be several.
    """
    meant, where = columns_meant(table, words), f"{option}: " if option else ""
    if len(meant) > 1:
        several = " or ".join(column.name for column in meant[:MAX_SUGGESTED_NAMES])
        raise ExpressionError(f"{where}{words!r} may be {several}.", at)
    if not meant:
        names = table.column_names
        offer = nearest(words, names, f"There are {', '.join(names)}.")
        raise ExpressionError(f"{where}{'t' if option else 'T'}here is no column {words!r}. {offer}", at)
    return meant[0]


def misspelt(table: Table, text: str) -> ExpressionError | None:
    """The error of a filter that no row contains and that was meant as a condition: it compares nearly a column."""
    sentence = "No row contains this text"
    if match := _ANY_COMPARISON.match(text):
        offer = nearest(match[1], table.column_names, " ").strip()
        sentence = f"{sentence}, and there is no column {match[1]!r}. {offer}" if offer else ""
    elif (match := _COMPARED_IN_WORDS.match(text)) and len(columns_meant(table, match[1])) == 1:
        comparisons = f"{match[1]} ==, !=, <, <=, >, >= a value, {match[1]} ~ a part of a text"
        sentence = f"{sentence}. Signs compare a column: {comparisons}."
    if not match or not sentence:
        return None
    error = ExpressionError(sentence, match.start(1))
    error.text = text
    return error


def columns_meant(table: Table, words: str) -> list[Column]:
    """The columns that a name may mean: the one of that name or heading, else those that begin so, else end so."""
    plain, given = _plain(words), words.strip().casefold()
    for names, wanted in (
        (_name, given),
        (_whole_heading, given),
        (_name, plain),
        (_heading, plain),
        (_without_unit, plain),
    ):
        meant = [column for column in table.columns if wanted and names(column) == wanted]
        if meant:
            return meant[:1] if names in (_name, _whole_heading) else meant
    if not plain:
        return []
    return _beginning(table, plain) or [each for each in table.columns if _without_unit(each).endswith(f"_{plain}")]


def _beginning(table: Table, plain: str) -> list[Column]:
    """The columns of which the name or the heading begins with a word."""
    return [
        column for column in table.columns if any(name.startswith(plain) for name in (_name(column), _heading(column)))
    ]


def _name(column: Column) -> str:
    return column.name.casefold()


def _whole_heading(column: Column) -> str:
    """The heading with its signs: `#`, or `comm %` beside `comm`."""
    return column.spec.heading.casefold()


def _heading(column: Column) -> str:
    return _plain(column.spec.heading)


def _without_unit(column: Column) -> str:
    name = column.name.casefold()
    return next((name.removesuffix(ending) for ending in _UNIT_ENDINGS if name.endswith(ending)), name)


def _plain(words: str) -> str:
    """Words as they are compared: `Self CPU %` is `self_cpu`."""
    return re.sub(r"\W+", "_", words.casefold().replace("→", " to ")).strip("_")


# What a command asks of the table of a pane: columns, rows and their order.


def chosen_columns(table: Table, words: str | None) -> list[str] | None:
    """The names of the columns that `--columns` asks for, each once; None where it is not given.

    Raises: UsageError for a column that does not exist.
    """
    if words is None:
        return None
    if words.strip().casefold() == "all":
        return table.column_names
    names = [part.strip() for part in words.split(",") if part.strip()]
    if not names:
        raise UsageError(f"--columns names no column; there are {', '.join(table.column_names)}, or all.")
    return list(dict.fromkeys(column_meant(table, name, option=f"--columns {words}").name for name in names))


def filtered_and_sorted(table: Table, where: str | None, sort: str | None, by: str | None = None) -> Table:
    """The rows that a filter keeps, in the order that was asked for; grouped rows (`by`) are filtered as groups.

    Raises: UsageError for an unknown column, ExpressionError for a filter that is not understood.
    """
    if where is not None:
        if not where.strip():
            raise UsageError("--where asks for no text and no condition: leave it out for all rows.")
        try:
            kept = np.flatnonzero(kept_rows(table, where))
        except ExpressionError as mistake:
            if by is not None:
                mistake.args = (f"{mistake} With --by {by} a filter is about the groups.",)
            raise
        if len(kept) == 0 and len(table):
            if not is_condition(table, where) and (meant := misspelt(table, where)) is not None:
                raise meant
            verb = "fits" if is_condition(table, where) else "contains"
            table = replace(table, note=f"No row {verb} {where!r} (of {len(table):,}).")
        table = table.take(kept)
    if sort is None:
        return table
    words, colon, direction = sort.partition(":")
    if direction not in {"asc", "desc"} and colon:
        raise UsageError(f"--sort {sort}: behind the column stands :asc or :desc, not :{direction}.")
    name = column_meant(table, words, option=f"--sort {sort}").name
    descending = direction == "desc" or (direction == "" and not table[name].is_text)
    return table.take(table.order(name, descending))
