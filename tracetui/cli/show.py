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

from tracetui.cli.arguments import (
    Command,
    add_columns,
    add_opening,
    add_range,
    add_sort,
    add_trace,
    add_where,
    opening,
    row_count,
)
from tracetui.cli.inputs import read_trace
from tracetui.cli.snapshots import PANES as SNAPSHOT_PANES
from tracetui.cli.snapshots import is_snapshot_file, pane_of, print_rows
from tracetui.cli.streams import console, is_drawn, print_failures, remark
from tracetui.config import config
from tracetui.errors import UsageError
from tracetui.panes import PANE_FILES, WHOLE_TRACE, pane_named
from tracetui.text import clean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tracetui.drawing.text.readable_table import Extent
    from tracetui.model.intervals import Part
    from tracetui.model.table import Table
    from tracetui.model.trace import Trace

FORMATS = ("table", "json", "csv", "md")
READ_BY_EYE = ("table", "plain", "md")
"""Forms that have the columns of the settings; a script gets all columns, whatever these say."""
FLAME, FLAME_FORMATS = "flame", ("folded", "speedscope")
"""The pane that is a tree of times, and the formats that only it has."""
SOURCE = "source"
"""The pane whose rows are lines of files."""
DUMB_TERMINALS = ("dumb", "unknown")
"""Types of terminals that can do nothing but print."""
PICTURE_LINES = 20
"""Height of a drawing above a list."""
DEFAULT_ROWS = 200
"""Rows of a table on a terminal where no limit is given."""
OVERVIEW_CELLS, OVERVIEW_LINES = 100, 44
"""Size of an overview in text."""
MIN_WIDTH = 40
"""Minimum width in COLUMNS that is followed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tracetui show`."""
    parser.add_argument(
        "pane",
        metavar="PANE",
        choices=(*PANE_FILES, *SNAPSHOT_PANES),
        help=f"one of {', '.join(PANE_FILES)}; of a memory snapshot {', '.join(SNAPSHOT_PANES)}",
    )
    add_trace(parser)
    parser.add_argument("file", nargs="?", metavar="FILE", help="only lines of this file; of the pane source")
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--step", type=int, metavar="N", help="only the step with this number")
    add_range(part)
    part.add_argument(
        "--at",
        metavar="MOMENT",
        help="of a memory snapshot: peak, start, end, oom, the number of an event, or a time as 12.5ms",
    )
    add_sort(parser)
    parser.add_argument("--limit", type=row_count, metavar="N", help="print at most N rows")
    add_where(parser)
    add_columns(parser)
    parser.add_argument("--by", metavar="GROUP", help="group rows, for example kernels by name")
    add_opening(parser)
    formats = (*FORMATS, *FLAME_FORMATS)
    parser.add_argument(
        "--format", choices=formats, default="table", help="what to print (default: table); the last two: only flame"
    )
    parser.add_argument(
        "--plain", action="store_true", help="one `name: value` per line, for a screen reader; so with TERM=dumb"
    )


def run(options: argparse.Namespace) -> int:
    """Print the pane; the exit code is 1 for a file that is cut off, of which what could be read is printed, and where
    something is missing in the pane because an analysis failed.

    Raises: UsageError for a step, range, column or grouping that does not exist; TraceError for the file;
    AnalysisFailed for a pane that failed.
    """
    # These load numpy, which `--help` must not wait for.
    from tracetui.checking.row_filter import chosen_columns, filtered_and_sorted
    from tracetui.drawing.text.readable_table import Extent

    if options.format in FLAME_FORMATS and options.pane != FLAME:
        raise UsageError(f"--format {options.format} is for a tree of times: `tracetui show {FLAME}` has one.")
    if options.plain and options.format != "table":
        raise UsageError(f"--plain and --format {options.format} are two forms: leave one out.")
    # A terminal that can show nothing else gets plain text as well.
    is_dumb = sys.stdout.isatty() and os.environ.get("TERM", "") in DUMB_TERMINALS
    form = "plain" if options.plain or (options.format == "table" and is_dumb) else options.format
    if options.file is not None and options.pane != SOURCE:
        raise UsageError(f"Only the pane {SOURCE} is of a file behind the trace: leave {options.file} out.")
    if options.pane in SNAPSHOT_PANES or is_snapshot_file(options.trace):
        return _show_snapshot(options, form)
    if options.at is not None:
        raise UsageError("--at is a moment of a memory snapshot; of a trace --step or --range choose a part.")
    trace = read_trace(options.trace, opening(options))
    pane = pane_named(options.pane)
    part = pane.asked_part(trace, options.step, options.range)
    if options.by == "line" and "line" in pane.groups and "line" not in pane.offered(trace):
        raise UsageError("This trace does not say which line ran: --by function, or record it with --lines.")
    table = pane.build(trace, step=part, by=options.by)
    if options.file is not None:
        # Loads numpy.
        from tracetui.tables.source_table import of_file

        table = of_file(table, options.file)
    if options.pane == "overview" and form == "table" and not (options.columns or options.where or options.sort):
        print_overview(trace, part)
        return print_failures(table.failures) or int(trace.quality.is_part)
    columns = chosen_columns(table, options.columns)
    if columns is None and form in READ_BY_EYE:
        columns = [name for name in config().columns_of(options.pane, options.by) if name in table] or None
    first = f"{pane.largest_first}:desc" if pane.largest_first is not None and options.by is None else None
    table = filtered_and_sorted(table, options.where, options.sort if options.sort is not None else first, options.by)
    if part is not None and (options.pane, options.by) in WHOLE_TRACE:
        remark(f"{options.pane} is about the whole trace, whatever part is asked for.")
        part = None
    extent = Extent(part, options.by, options.where or "")
    write(table, trace, options.pane, form, options.limit, extent, columns)
    # A script must notice that the numbers are those of a part.
    return print_failures(table.failures) or int(trace.quality.is_part)


def _show_snapshot(options: argparse.Namespace, form: str) -> int:
    """Print a pane of a memory snapshot.

    Raises: UsageError for what it does not have; TraceError for the file.
    """
    import numpy as np

    from tracetui.checking.row_filter import chosen_columns, filtered_and_sorted
    from tracetui.drawing.text import snapshot_text
    from tracetui.drawing.text.export import LINE_CELLS

    history, moment, table = pane_of(options)
    columns = chosen_columns(table, options.columns)
    table = filtered_and_sorted(table, options.where, options.sort, options.by)
    on_screen = form == "table" and is_drawn()
    limit = DEFAULT_ROWS if options.limit is None and on_screen else options.limit
    visible = table if limit is None else table.take(np.arange(min(limit, len(table))))
    printed = visible if columns is None else visible.with_columns(columns)
    by = None if options.pane == "segments" else options.by or "line"
    width = None if on_screen else asked_width(os.environ) or LINE_CELLS
    print_rows(
        history.snapshot,
        printed,
        options.pane if by is None else f"{options.pane} by {by}",
        form,
        width,
        columns is not None,
        lambda: snapshot_text.as_json(history, printed, options.pane, by, moment),
    )
    if len(visible) < len(table):
        remark(f"{len(visible)} of {len(table)} rows; --limit shows more.")
    return 0


def print_overview(trace: Trace, part: Part | None) -> None:
    """Print the overview of a part as the screen draws it, in colours on a terminal that has some."""
    from textwrap import wrap

    from rich.segment import Segments

    from tracetui.drawing.overview.canvas import Look
    from tracetui.drawing.overview.picture import Picture, strip_cells
    from tracetui.drawing.text.readable_table import recorded_on
    from tracetui.overview.overview_table import kept_overview, strip_of

    on_screen = is_drawn()
    width = shutil.get_terminal_size().columns if on_screen else asked_width(os.environ) or OVERVIEW_CELLS
    width = max(width, MIN_WIDTH)
    overview = kept_overview(trace, part)
    encoding = (sys.stdout.encoding or "ascii").lower().replace("-", "")
    terminal = console(sys.stdout, width=width)
    colours = {None: 0, "standard": 16, "windows": 16}.get(terminal.color_system, 256)
    look = Look(colours if on_screen and not terminal.no_color else 0, plain=encoding != "utf8")
    picture = Picture(overview, strip_of(trace, overview, strip_cells(width)), width, OVERVIEW_LINES, look)
    print((" - " if look.plain else " · ").join([clean(trace.label), *recorded_on(trace)]))
    print("\n".join(wrap(clean(pane_named("findings").build(trace, part).headline), width)))
    if not look.colours:
        print("\n".join(filter(None, picture.canvas.text_lines())))
        return
    for line in range(picture.canvas.height):
        terminal.print(Segments(picture.canvas.segments(line)), end="\n")


def asked_width(environment: Mapping[str, str]) -> int | None:
    """The width that the variable COLUMNS asks for, None where it holds no width that text can be wrapped to."""
    words = environment.get("COLUMNS", "")
    return int(words) if words.isdecimal() and int(words[:6]) >= MIN_WIDTH else None


def write(
    table: Table,
    trace: Trace,
    pane: str,
    form: str,
    limit: int | None,
    extent: Extent,
    columns: list[str] | None = None,
) -> None:
    """Print a table in one of the formats, at most `limit` rows of it; `extent` says which part of the pane it is.

    Chosen columns are printed all, however wide the terminal is.
    """
    import numpy as np

    from tracetui.drawing.format import named_groups
    from tracetui.drawing.text import export

    if form not in ("json", "csv", *FLAME_FORMATS):
        table = named_groups(table, extent.by)
    on_screen = form == "table" and is_drawn()
    if limit is None and on_screen and sys.stdout.isatty():
        limit = DEFAULT_ROWS
    cut = limit is not None and len(table) > limit
    visible = table.take(np.arange(min(len(table), limit))) if limit is not None else table
    extent = replace(extent, rows=len(table), has_chosen_columns=columns is not None)
    printed = visible if columns is None else visible.with_columns(columns)
    if form in FLAME_FORMATS:
        from tracetui.drawing.flame import flame_text

        sys.stdout.write(flame_text(visible, form, f"{extent.words(pane)} of {trace.label}"))
    elif form == "plain":
        sys.stdout.write(export.plain_text(printed, trace, pane, extent))
    elif not on_screen or columns is not None:
        cells = asked_width(os.environ) or (export.CARD_CELLS if pane == "findings" else export.LINE_CELLS)
        length = 0
        for text in export.parts(printed, trace, pane, form, extent, cells):
            sys.stdout.write(text)
            length += len(text)
        if form == "md" and length > export.COMMENT_LIMIT:
            remark(
                f"{length:,} characters; a comment on GitHub holds {export.COMMENT_LIMIT:,}. "
                "Try --limit 200, or --by to group."
            )
    else:
        from tracetui.drawing.text.pictures import picture_lines

        width = shutil.get_terminal_size().columns
        drawn = picture_lines(pane, extent.by, table, min(width, 100), PICTURE_LINES)
        sys.stdout.writelines(f"{line}\n" for line in drawn)
        rows = export.rich_table(visible, trace, pane, width, extent.by, export.ALL_COLUMNS)
        console(sys.stdout, width=width).print(rows)
    if cut:
        remark(f"{len(visible)} of {len(table)} rows; --limit shows more.")
    if form in ("csv", *FLAME_FORMATS):
        for sentence in filter(None, (table.headline, table.note)):
            remark(sentence)


COMMANDS = {"show": Command("print a pane as text, JSON, CSV or Markdown", __doc__, add_arguments, run)}
