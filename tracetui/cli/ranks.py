"""Say which rank of a run is late, where and why, from one trace per rank.

FOLDER is searched for traces of ranks; several folders, files, patterns and URLs may be named. What is missing, left
out or not certain is said below the table. Waits are in microseconds; a value that the traces do not tell is null (–
as text).
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from typing import TYPE_CHECKING

from tracetui.cli.arguments import Command, add_columns, add_sort, add_where, completes_files, row_count
from tracetui.cli.inputs import add_rank_logs, add_rank_set, read_rank_set
from tracetui.cli.show import DEFAULT_ROWS, FORMATS, asked_width
from tracetui.cli.streams import console, is_drawn, print_failures, remark

if TYPE_CHECKING:
    from tracetui.model.table import Table
    from tracetui.ranks.rank_set import RankSet

SHOW_CHOICES = ("ranks", "collectives", "matrix", "groups", "steps", "files", "compiles")
"""The keys of `ranks.rank_tables.TABLES`, which needs numpy and which help cannot wait for."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tracetui ranks`."""
    completes_files(
        parser.add_argument(
            "paths", metavar="FOLDER", nargs="+", help="folder, files or patterns with a trace of each rank"
        )
    )
    parser.add_argument("--show", choices=SHOW_CHOICES, default="ranks", help="which table (default: ranks)")
    add_rank_set(parser)
    add_rank_logs(parser)
    add_sort(parser)
    parser.add_argument("--limit", type=row_count, metavar="N", help="print at most N rows")
    add_where(parser)
    add_columns(parser)
    parser.add_argument("--format", choices=FORMATS, default="table", help="what to print (default: table)")


def run(options: argparse.Namespace) -> int:
    """Print a table of a set of ranks; the exit code is 1 where a file is cut off, of which what could be read counts.

    Raises: UsageError for a pattern, run or column that does not exist; TraceError where there is no rank.
    """
    # These load numpy, which `--help` must not wait for.
    from tracetui.checking.row_filter import filtered_and_sorted
    from tracetui.ranks.rank_tables import TABLES

    ranks = read_rank_set(options.paths, options)
    table = filtered_and_sorted(TABLES[options.show](ranks), options.where, options.sort)
    _write(ranks, table, options)
    return print_failures(ranks.failures.sentences) or int(any(each.loss for each in ranks.summaries))


def _write(ranks: RankSet, table: Table, options: argparse.Namespace) -> None:
    import numpy as np

    from tracetui.checking.row_filter import chosen_columns
    from tracetui.drawing.text import export, rank_text

    name, form = options.show, options.format
    on_screen = form == "table" and is_drawn()
    limit = DEFAULT_ROWS if options.limit is None and on_screen and sys.stdout.isatty() else options.limit
    visible = table if limit is None else table.take(np.arange(min(limit, len(table))))
    columns = chosen_columns(table, options.columns)
    is_chosen = columns is not None
    visible = visible if columns is None else visible.with_columns(columns)
    if form == "json":
        sys.stdout.write(rank_text.as_json(ranks, visible, name))
    elif form == "csv":
        sys.stdout.write(rank_text.as_csv(visible))
    elif form == "md":
        sys.stdout.write(rank_text.as_markdown(ranks, visible, is_chosen))
    elif on_screen and not is_chosen:
        width = shutil.get_terminal_size().columns
        console(sys.stdout, width=width).print(rank_text.as_rich(ranks, visible, name, width))
    else:
        width = asked_width(os.environ) or export.LINE_CELLS
        sys.stdout.write(rank_text.as_plain(ranks, visible, name, width, is_chosen))
    if len(visible) < len(table):
        remark(f"{len(visible)} of {len(table)} rows; --limit shows more.")
    if form == "csv":
        remark(rank_text.said(ranks))


COMMANDS = {"ranks": Command("one trace per rank: who is late, where, and why", __doc__, add_arguments, run)}
