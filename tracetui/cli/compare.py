"""Compare two runs, two steps or two stretches of one trace: what differs, by more than noise, and why.
Of three sides or more one table: each of them beside the first.

A side is PATH or PATH#SCOPE; a scope alone is of the same trace:
  3 or 2:5        a step, or several; without a scope all complete steps
  forward         every run of an annotation, a Python function or an operator of that name
  forward[2]      its second run
  e120            the slice of event 120; all is the whole capture
Quote it in a shell: 'trace.json#unfused[2]'. A is before, B is after; numbers are medians over the parts, times in
microseconds."""

from __future__ import annotations

import argparse
import shutil
import sys
from typing import TYPE_CHECKING

from tracetui.cli import several
from tracetui.cli.completion import completes_files
from tracetui.cli.show import FORMATS, narrowed, whole_number
from tracetui.cli.sides import one_side, read_all, written
from tracetui.errors import UsageError

if TYPE_CHECKING:
    from tracetui.analysis.comparing.comparison import Comparison
    from tracetui.drawing.text.comparison_text import Shown
    from tracetui.model.table import Table

HELP = "compare two traces, or two steps or stretches of one"

SHOWN = ("all", "totals", "kernels", "ops")
"""What `--show` takes; after the first the names of the tables."""
SHORT, SHORTEST = 12, 5
"""Rows of each of three tables where there is no terminal to measure, and at least."""
LINES_AROUND = 10
"""Lines of a terminal that titles, headers, remarks and the prompt take."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tracetui compare`."""
    sides = parser.add_argument(
        "sides", nargs="+", metavar="SIDE", help="A and B, or more: PATH, PATH#SCOPE, #SCOPE or -"
    )
    completes_files(sides)
    parser.add_argument("--show", choices=SHOWN, default="all", help="one of the tables (default: all, cut to fit)")
    parser.add_argument("--unfold", action="store_true", help="view ops and occupancy queries as rows of their own")
    parser.add_argument(
        "--sort", metavar="COL", help="sort by a column, numbers largest first; COL:asc and COL:desc say how"
    )
    parser.add_argument("--limit", type=whole_number, metavar="N", help="print at most N rows of each table")
    parser.add_argument("--where", metavar="TEXT", help="only rows in which some text holds TEXT")
    parser.add_argument("--format", choices=FORMATS, default="table", help="what to print (default: table)")


def run(options: argparse.Namespace) -> int:
    """Print the comparison; the exit code is 1 for a file that is cut off, of which what could be read is compared.

    Raises: UsageError for sides, scopes or columns that do not exist; TraceError for a file.
    """
    if len(options.sides) == 1:
        raise UsageError(one_side(options.sides[0]))
    sides = written(options.sides)
    if len(sides) > 2:
        return several.run(sides, options)
    if options.format == "csv" and options.show == "all":
        raise UsageError("CSV is one table: say which with --show totals, --show kernels or --show ops.")
    a, b = read_all(sides)
    # These load numpy, which `--help` must not wait for.
    from tracetui.analysis.comparing.comparison import comparison

    told = comparison(a, b)
    _write(told, _chosen(told, options), options.format)
    return 0 if all(side.trace.quality.truncated_at is None for side in (a, b)) else 1


def _chosen(told: Comparison, options: argparse.Namespace) -> list[Shown]:
    """The tables that were asked for, in the order and to the length that was asked for.

    Raises: UsageError for a column that none of them has.
    """
    from tracetui.drawing.text.comparison_text import Shown

    names = SHOWN[1:] if options.show == "all" else (options.show,)
    tables = {name: _table(told, name, options.unfold) for name in names}
    column = (options.sort or "").partition(":")[0]
    able = [name for name in names if column in tables[name]] or list(names)
    limit, short = _limit(options, len(told.statement)), options.show == "all" and options.sort is None
    return [
        Shown(name, narrowed(table, options.where, options.sort if name in able else None), limit, short)
        for name, table in tables.items()
    ]


def _table(told: Comparison, name: str, unfold: bool) -> Table:
    found = {"totals": lambda: told.totals, "kernels": lambda: told.kernels}
    found["ops"] = lambda: told.all_ops if unfold else told.ops
    return found[name]()


def _limit(options: argparse.Namespace, sentences: int) -> int | None:
    """How many rows of each table are printed; None for all."""
    if options.limit is not None or options.show != "all" or options.format == "json":
        given: int | None = options.limit
        return given
    if not sys.stdout.isatty():
        return SHORT
    return max((shutil.get_terminal_size().lines - 2 * sentences - LINES_AROUND) // 3, SHORTEST)


def _write(told: Comparison, tables: list[Shown], form: str) -> None:
    from tracetui.drawing.text import comparison_text, export

    if form == "json":
        sys.stdout.write(comparison_text.as_json(told, tables))
    elif form == "csv":
        sys.stdout.write(export.render(tables[0].cut, told.a.trace, tables[0].name, "csv"))
    elif form == "md":
        sys.stdout.write(comparison_text.as_markdown(told, tables))
    elif sys.stdout.isatty():
        # rich is 60 ms that a pipe need not pay for.
        from rich.console import Console

        width = shutil.get_terminal_size().columns
        Console(width=width, highlight=False).print(comparison_text.as_rich(told, tables, width))
    else:
        sys.stdout.write(comparison_text.as_plain(told, tables))
    if len(tables) == 1 and form != "md" and tables[0].left_out:
        shown = tables[0]
        print(f"tracetui: {len(shown.cut)} of {len(shown.table)} rows; --limit shows more.", file=sys.stderr)
