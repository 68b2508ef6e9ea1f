"""Print a pane of a trace as text, JSON, CSV or Markdown.

Times are microseconds from the start of the trace; a value that the trace does not hold is null (– as text).
Names and numbers are those of the tab of the same name in the app."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from tracetui.cli.arguments import add_opening, add_sort, add_trace, add_where, opening, row_count
from tracetui.cli.streams import console
from tracetui.cli.traces import read_trace
from tracetui.errors import UsageError

if TYPE_CHECKING:
    from tracetui.drawing.text.origin import Extent
    from tracetui.model.table import Table
    from tracetui.model.trace import Trace

HELP = "print a pane as text, JSON, CSV or Markdown"

PANE_NAMES = (
    "summary",
    "steps",
    "kernels",
    "ops",
    "views",
    "occupancy",
    "launches",
    "gaps",
    "roofline",
    "modules",
    "memory",
    "findings",
    "health",
)
"""The keys of `analysis.panes.PANES`, which needs numpy and which help and completion cannot wait for."""
FORMATS = ("table", "json", "csv", "md")
INCAPABLE = ("dumb", "unknown")
"""Types of terminals that can do nothing but print."""
SCREENFUL = 200
"""Rows of a table on a terminal where no limit is given."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tracetui show`."""
    parser.add_argument("pane", metavar="PANE", choices=PANE_NAMES, help="one of " + ", ".join(PANE_NAMES))
    add_trace(parser)
    parser.add_argument("--step", type=int, metavar="N", help="only the step with this number")
    add_sort(parser)
    parser.add_argument("--limit", type=row_count, metavar="N", help="print at most N rows")
    add_where(parser)
    parser.add_argument("--by", metavar="GROUP", help="group rows, for example kernels by name")
    add_opening(parser)
    parser.add_argument("--format", choices=FORMATS, default="table", help="what to print (default: table)")
    parser.add_argument(
        "--plain", action="store_true", help="one `name: value` per line, for a screen reader; so with TERM=dumb"
    )


def run(options: argparse.Namespace) -> int:
    """Print the pane; the exit code is 1 for a file that is cut off, of which what could be read is printed.

    Raises: UsageError for a step, column or grouping that does not exist; TraceError for the file.
    """
    # These load numpy, which `--help` must not wait for.
    from tracetui.analysis.panes import pane_named
    from tracetui.drawing.text.origin import Extent

    form = "plain" if wants_plain(options) else options.format
    trace = read_trace(options.trace, opening(options))
    table = pane_named(options.pane).build(trace, step=options.step, by=options.by)
    table = narrowed(table, options.where, options.sort)
    extent = Extent(options.step, options.by, options.where or "")
    write(table, trace, options.pane, form, options.limit, extent)
    # A script must notice that the numbers are those of a part.
    return 0 if not trace.quality.is_part else 1


def wants_plain(options: argparse.Namespace) -> bool:
    """Whether text is to be plain: it was asked for, or the terminal can show nothing else.

    Raises: UsageError when another form was asked for as well.
    """
    if options.plain and options.format != "table":
        raise UsageError(f"--plain and --format {options.format} are two forms: leave one out.")
    return bool(options.plain) or (
        options.format == "table" and sys.stdout.isatty() and os.environ.get("TERM", "") in INCAPABLE
    )


def narrowed(table: Table, where: str | None, sort: str | None) -> Table:
    """The rows that a filter keeps, in the order that was asked for.

    Raises: UsageError for an unknown column, Mistake for a filter that is not understood.
    """
    import numpy as np

    from tracetui.analysis.checking.row_filter import is_condition, kept_rows

    if where is not None:
        kept = np.flatnonzero(kept_rows(table, where))
        if len(kept) == 0 and len(table):
            verb = "fits" if is_condition(table, where) else "contains"
            table = replace(table, note=f"No row {verb} {where!r} (of {len(table):,}).")
        table = table.take(kept)
    if sort is None:
        return table
    words, _, direction = sort.partition(":")
    name = table.named(words)
    if name is None or direction not in {"", "asc", "desc"}:
        raise UsageError(
            f"Cannot sort by {sort!r}: name a column, or COL:asc or COL:desc. "
            f"There are {', '.join(table.column_names)}."
        )
    descending = direction == "desc" or (direction == "" and not table[name].is_text)
    return table.take(table.order(name, descending))


def write(table: Table, trace: Trace, pane: str, form: str, limit: int | None, extent: Extent | None = None) -> None:
    """Print a table in one of the formats, at most `limit` rows of it; `extent` says which part of the pane it is."""
    import numpy as np

    from tracetui.drawing.group_names import named_groups
    from tracetui.drawing.text import export, markdown, plain
    from tracetui.drawing.text import roofline_plot as scatter
    from tracetui.drawing.text.origin import WHOLE

    if form not in ("json", "csv") and extent is not None:
        table = named_groups(table, extent.by)
    on_screen = form == "table" and sys.stdout.isatty()
    if limit is None and on_screen:
        limit = SCREENFUL
    cut = limit is not None and len(table) > limit
    shown = table.take(np.arange(min(len(table), limit))) if limit is not None else table
    if form == "plain":
        sys.stdout.write(plain.plain_text(shown, trace, pane, replace(extent or WHOLE, rows=len(table))))
    elif not on_screen:
        text = export.render(shown, trace, pane, form, replace(extent or WHOLE, rows=len(table)))
        sys.stdout.write(text)
        if form == "md" and len(text) > markdown.COMMENT_LIMIT:
            print(
                f"tracetui: {len(text):,} characters; a comment on GitHub holds {markdown.COMMENT_LIMIT:,}. "
                "Try --limit 200, or --by to group.",
                file=sys.stderr,
            )
    else:
        width = shutil.get_terminal_size().columns
        if pane == "roofline":
            sys.stdout.writelines(f"{line}\n" for line in scatter.roofline_lines(table, min(width, 100)))
        console(sys.stdout, width=width).print(export.rich_table(shown, trace, pane, width))
    if cut:
        print(f"tracetui: {len(shown)} of {len(table)} rows; --limit shows more.", file=sys.stderr)
    if form == "csv":
        for sentence in filter(None, (table.headline, table.note)):
            print(f"tracetui: {sentence}", file=sys.stderr)
