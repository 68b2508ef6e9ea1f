"""Compare two runs, two steps or two stretches of one trace: what differs, by more than noise, and why.
Of three sides or more one table: each of them beside the first.

A side is PATH or PATH#SCOPE; a scope alone is of the same trace:
  3 or 2:5        a step, or several; without a scope all complete steps
  forward         every run of an annotation, a Python function or an operator of that name
  forward[2]      its second run
  e120            the slice of event 120; all is the whole capture
  @12us+250us     a range of time: its start and length
Of two memory snapshots: who holds more at the peak of B than at that of A, by line.
Quote it in a shell: 'trace.json#unfused[2]'. A is before, B is after; numbers are medians over the parts, times in
microseconds."""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tracetui.cli.arguments import Command, add_opening, add_sort, add_where, completes_files, opening, row_count
from tracetui.cli.inputs import missing_side, named_sides, read_sides
from tracetui.cli.show import FORMATS
from tracetui.cli.snapshots import is_snapshot_file, print_rows, two_histories
from tracetui.cli.streams import console, is_drawn, print_failures, remark
from tracetui.errors import AnalysisFailed, UsageError
from tracetui.opening.trace_opening import SideName

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tracetui.comparing.side import Side
    from tracetui.comparing.statement import Comparison
    from tracetui.drawing.text.comparison_text import SeveralShown, Shown
    from tracetui.model.table import Table

SHOW_CHOICES = ("all", "totals", "kernels", "ops")
"""Values of `--show`; after the first the names of the tables."""
DEFAULT_ROWS, MIN_ROWS = 12, 5
"""Rows of each of three tables where there is no terminal to measure, and at least."""
OTHER_LINES = 10
"""Lines of a terminal that titles, headers, remarks and the prompt take."""
MAX_SIDES = 26
"""Maximum number of sides, whose names are letters."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tracetui compare`."""
    sides = parser.add_argument(
        "sides", nargs="+", metavar="SIDE", help="A and B, or more: PATH, PATH#SCOPE, #SCOPE or -"
    )
    completes_files(sides)
    parser.add_argument(
        "--show", choices=SHOW_CHOICES, default="all", help="one of the tables (default: all, cut to fit)"
    )
    parser.add_argument("--unfold", action="store_true", help="view ops and occupancy queries as rows of their own")
    add_sort(parser)
    parser.add_argument("--limit", type=row_count, metavar="N", help="print at most N rows of each table")
    add_where(parser)
    add_opening(parser)
    parser.add_argument("--format", choices=FORMATS, default="table", help="what to print (default: table)")


def run(options: argparse.Namespace) -> int:
    """Print the comparison; the exit code is 1 for a file that is cut off, of which what could be read is compared, and
    where a part of the comparison failed.

    Raises: UsageError for sides, scopes or columns that do not exist; TraceError for a file.
    """
    if any(map(is_snapshot_file, options.sides)):
        return _compare_snapshots(options)
    if len(options.sides) == 1:
        raise UsageError(missing_side(options.sides[0], opening(options)))
    names = named_sides(options.sides)
    _require_fitting(names, options)
    sides = read_sides(names, opening(options))
    if len(sides) > 2:
        table = several_shown(sides, names, options)
        _print_several(table, options.format)
        failures = table.several.failures
    else:
        # Loads numpy, which `--help` must not wait for.
        from tracetui.comparing.statement import Comparison

        compared = Comparison(*sides)
        _print_tables(compared, _chosen_tables(compared, options), options.format)
        failures = compared.failures
    return print_failures(failures.sentences) or int(any(side.trace.quality.is_part for side in sides))


def _compare_snapshots(options: argparse.Namespace) -> int:
    """Print what differs between two memory snapshots.

    Raises: UsageError for what is none, and for a column that does not exist; TraceError for a file.
    """
    import numpy as np

    from tracetui.checking.row_filter import filtered_and_sorted
    from tracetui.drawing.text.export import LINE_CELLS
    from tracetui.drawing.text.snapshot_text import difference_json
    from tracetui.snapshots.snapshot_tables import difference

    a, b = two_histories(options)
    table = filtered_and_sorted(difference(a, b), options.where, options.sort)
    visible = table if options.limit is None else table.take(np.arange(min(options.limit, len(table))))
    width = shutil.get_terminal_size().columns if is_drawn() else LINE_CELLS
    title = f"peak of {b.snapshot.label} beside that"
    print_rows(
        a.snapshot,
        visible,
        title,
        options.format,
        width,
        document=lambda: difference_json(a.snapshot, b.snapshot, visible),
    )
    return 0


def _require_fitting(names: Sequence[SideName], options: argparse.Namespace) -> None:
    """Raises: UsageError for options that do not go with the number of sides."""
    if len(names) == 2:
        if options.format == "csv" and options.show == "all":
            raise UsageError("CSV is one table: say which with --show totals, --show kernels or --show ops.")
        return
    if len(names) > MAX_SIDES:
        raise UsageError(f"At most {MAX_SIDES} sides can be compared, not {len(names)}.")
    if options.show in ("kernels", "ops"):
        raise UsageError(f"--show {options.show} is for two sides: name the one to compare with the first.")
    if options.unfold:
        raise UsageError("--unfold is for the operators of two sides: name the one to compare with the first.")


def _chosen_tables(compared: Comparison, options: argparse.Namespace) -> list[Shown]:
    """The tables that were asked for, in the order and to the length that was asked for.

    Raises: UsageError for a column that none of them has.
    """
    from tracetui.checking.row_filter import columns_meant, filtered_and_sorted
    from tracetui.drawing.text.comparison_text import Shown

    names = SHOW_CHOICES[1:] if options.show == "all" else (options.show,)
    tables = {name: _table(compared, name, options.unfold) for name in names}
    absent = {name: table for name, table in tables.items() if table.failures}
    tables = {name: table for name, table in tables.items() if name not in absent}
    column = (options.sort or "").partition(":")[0]
    sortable = [name for name, table in tables.items() if len(columns_meant(table, column)) == 1] or list(tables)
    limit, short = _limit(options, compared), options.show == "all" and options.sort is None
    filtered = _filtered(tables, options.where)
    arranged = {
        name: filtered_and_sorted(table, None, options.sort if name in sortable else None)
        for name, table in filtered.items()
    }
    return [Shown(name, (absent | arranged)[name], limit, short) for name in names]


def _filtered(tables: dict[str, Table], where: str | None) -> dict[str, Table]:
    """The tables with the rows that a filter keeps; none of a table that lacks a column which the filter names.

    Raises: ExpressionError for a filter that fits none of the tables.
    """
    # These load numpy, which `--help` must not wait for.
    import numpy as np

    from tracetui.checking.row_filter import filtered_and_sorted
    from tracetui.checking.values import ExpressionError

    kept: dict[str, Table | ExpressionError] = {}
    for name, table in tables.items():
        try:
            kept[name] = filtered_and_sorted(table, where, None)
        except ExpressionError as mistake:
            kept[name] = mistake
    mistakes = [each for each in kept.values() if isinstance(each, ExpressionError)]
    if mistakes and len(mistakes) == len(tables):
        raise mistakes[0]
    return {
        name: replace(tables[name].take(np.empty(0, np.int64)), note=str(each))
        if isinstance(each, ExpressionError)
        else each
        for name, each in kept.items()
    }


def _table(compared: Comparison, name: str, unfold: bool) -> Table:
    """A table of the comparison; one without columns that says why, where it could not be made."""
    # Loads numpy, which `--help` must not wait for.
    from tracetui.model.table import Table

    try:
        if name == "totals":
            return compared.totals
        if name == "kernels":
            return compared.kernels
        return compared.all_ops if unfold else compared.ops
    except AnalysisFailed as failure:
        return Table(()).lacking([str(failure)])


def _limit(options: argparse.Namespace, compared: Comparison) -> int | None:
    """The number of rows of each table that are printed; None for all."""
    if options.limit is not None or options.show != "all" or options.format == "json":
        given: int | None = options.limit
        return given
    if not sys.stdout.isatty():
        return DEFAULT_ROWS
    return max((shutil.get_terminal_size().lines - 2 * len(compared.sentences) - OTHER_LINES) // 3, MIN_ROWS)


def _print_tables(compared: Comparison, tables: list[Shown], form: str) -> None:
    from tracetui.drawing.text import comparison_text, export

    if form == "json":
        sys.stdout.write(comparison_text.as_json(compared, tables))
    elif form == "csv":
        sys.stdout.write(export.render(tables[0].cut, compared.a.trace, tables[0].name, "csv"))
    elif form == "md":
        sys.stdout.write(comparison_text.as_markdown(compared, tables))
    elif is_drawn():
        _draw(comparison_text.as_rich(compared, tables, shutil.get_terminal_size().columns))
    else:
        sys.stdout.write(comparison_text.as_plain(compared, tables))
    if len(tables) == 1 and form != "md" and tables[0].left_out:
        rows, total = len(tables[0].cut), len(tables[0].table)
        remark(f"{rows} of {total} rows; --limit shows more.")


def several_shown(
    sides: Sequence[Side], names: Sequence[SideName], options: argparse.Namespace | None = None
) -> SeveralShown:
    """The table of three sides or more that have been read; without options the short one.

    Raises: UsageError for a column that does not exist.
    """
    # `--help` must not wait for these.
    import numpy as np

    from tracetui.checking.row_filter import filtered_and_sorted
    from tracetui.comparing.statement import Several
    from tracetui.drawing.text.comparison_text import SeveralShown, key_rows
    from tracetui.model.table import Table

    several = Several(tuple(sides))
    try:
        totals = several.totals
    except AnalysisFailed as failure:
        totals = Table(()).lacking([str(failure)])
    commands = [_pair_command(names[0], other) for other in names[1:]]
    if options is None:
        short = key_rows(totals)
        return SeveralShown(several, short, commands, left_out=len(totals) - len(short))
    takes_all = options.show == "totals" or options.where or options.sort or options.format in ("json", "csv")
    table = totals
    if not totals.failures:
        table = filtered_and_sorted(totals if takes_all else key_rows(totals), options.where, options.sort)
    table = table if options.limit is None else table.take(np.arange(min(options.limit, len(table))))
    alone = options.show == "totals"
    return SeveralShown(several, table, commands, alone, 0 if options.where else len(totals) - len(table))


def _pair_command(first: SideName, other: SideName) -> str:
    """The command that prints two of the sides in full."""
    words = [f"{each.path}#{each.scope}" if each.scope else each.path for each in (first, other)]
    if first.path == other.path and other.scope:
        words[1] = f"#{other.scope}"
    return shlex.join(["tracetui", "compare", *words])


def _print_several(several: SeveralShown, form: str) -> None:
    from tracetui.drawing.text import comparison_text, export

    if form == "csv":
        sys.stdout.write(export.render(several.table, several.several.sides[0].trace, "totals", "csv"))
    elif form == "json":
        sys.stdout.write(comparison_text.several_as_json(several))
    elif form == "md":
        sys.stdout.write(comparison_text.several_as_markdown(several))
    elif is_drawn():
        _draw(comparison_text.several_as_rich(several, shutil.get_terminal_size().columns))
    else:
        sys.stdout.write(comparison_text.several_as_plain(several))


def _draw(drawn: RenderableType) -> None:
    """Print what rich draws, as wide as the terminal."""
    console(sys.stdout, width=shutil.get_terminal_size().columns).print(drawn)


COMMANDS = {"compare": Command("compare two traces, or two steps or stretches of one", __doc__, add_arguments, run)}
