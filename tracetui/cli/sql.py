"""Ask a trace with SQL: SELECT over slices, kernels, launches, gaps, steps and every pane.

Several traces are the schemas a, b, c, in their order: `a.kernels`. A folder with a trace of each rank is one schema
whose views have a column `rank`. Without a query standard input is read, or on a terminal queries are typed. Queries
read the views and nothing else. `show tables` lists the views, `describe kernels` the columns of one; docs/sql.md.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tracetui.cli.arguments import (
    Command,
    add_opening,
    add_output,
    completes_files,
    opening,
    row_count,
    similar_options,
)
from tracetui.cli.inputs import add_rank_choice, rank_numbers, read_trace
from tracetui.cli.show import DEFAULT_ROWS
from tracetui.cli.streams import complain, remark
from tracetui.errors import NotFound, TracetuiError, UsageError
from tracetui.opening.rank_folder import RankOptions, is_folder, picked_run, rank_runs_of
from tracetui.sql import MAX_MEMORY_MB, MAX_ROWS, MAX_SECONDS
from tracetui.text import clean

if TYPE_CHECKING:
    from tracetui.model.trace import Trace
    from tracetui.sql.database import Database, QueryResult

FORMATS = ("table", "json", "csv", "md", "parquet")
MAX_TRACES = 26
"""Traces that are open at once; so many have names of one letter."""
MAX_QUERY = 1 << 20
"""Bytes of a query that is read from a file."""
PROMPT, CONTINUED = "sql> ", "...> "
MAX_HISTORY = 1000
"""Lines that were typed and are kept for the next time."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tracetui sql`."""
    completes_files(
        parser.add_argument(
            "words", metavar="TRACE", nargs="+", help="traces, or a folder of ranks; and last the query in quotes"
        )
    )
    completes_files(parser.add_argument("-f", "--file", metavar="FILE", help="read the query from a file"))
    parser.add_argument("--format", choices=FORMATS, help="what to print (default: that of FILE's suffix, or table)")
    add_output(parser, "FILE", "write to a file; parquet needs one")
    parser.add_argument(
        "--limit",
        type=row_count,
        metavar="N",
        help=f"at most N rows (default: {MAX_ROWS:,}; on a terminal {DEFAULT_ROWS})",
    )
    parser.add_argument(
        "--seconds", type=float, default=MAX_SECONDS, help=f"stop a query after that (default: {MAX_SECONDS:g})"
    )
    parser.add_argument(
        "--memory",
        type=row_count,
        default=MAX_MEMORY_MB,
        metavar="MIB",
        help=f"memory of a query (default: {MAX_MEMORY_MB})",
    )
    parser.add_argument("--ranks", metavar="LIST", help="these ranks of a folder, such as 0,3-5")
    add_rank_choice(parser)
    add_opening(parser)
    # The query may stand behind options, where argparse takes no more words.
    parser.set_defaults(parameters=[])


def run(options: argparse.Namespace) -> int:
    """Answer a query, or those that are typed; the exit code is 1 where a limit was reached.

    Raises: UsageError for a query that is not understood, TraceError for a file, CannotWrite.
    """
    # These load numpy, which `--help` must not wait for.
    from tracetui.sql.database import Database, require_duckdb
    from tracetui.writing.output import require_writable

    require_duckdb()
    if options.format is None:
        suffix = Path(options.output or "").suffix[1:].lower()
        options.format = suffix if suffix in FORMATS else "table"
    if options.format == "parquet" and options.output in (None, "-"):
        raise UsageError("A parquet file is no text: name it with -o FILE.")
    if not 0 < options.seconds < 1e6 or options.memory < 1:
        raise UsageError("--seconds and --memory must be above 0.")
    if odd := [word for word in options.parameters if re.fullmatch(r"-\S+", word)]:
        meant = similar_options(odd[0], options.known_options)
        some = f" Did you mean {' or '.join(meant)}?" if meant else ""
        raise UsageError(f"There is no option {odd[0]}.{some}")
    paths, query = _parted([*options.words, *options.parameters])
    if query is not None and options.file is not None:
        raise UsageError("There is a query and -f: leave one out.")
    if query is None and (options.file is not None or not sys.stdin.isatty()):
        query = _read_query(options.file, paths)
    if options.output is not None:
        require_writable(options.output, [(path, "a trace that is read") for path in paths], options.force)
    traces, by_rank = _opened(paths, options)
    with closing(Database(traces, by_rank=by_rank, memory_mb=options.memory)) as database:
        if query is None:
            _prompt(database, options)
        else:
            _answer(database, query, options)
    return int(any(trace.quality.is_part for trace in traces.values()))


def _parted(words: list[str]) -> tuple[list[str], str | None]:
    """The traces and the query: the last word, where it has several words and is no file."""
    last = words[-1]
    if not last.strip():
        raise UsageError("The query is empty.")
    if odd := next((word for word in words[:-1] if re.search(r"\w\s+\w", word) and not os.path.lexists(word)), None):
        raise UsageError(f"There is no trace {odd!r:.80}. The query comes last: `tracetui sql trace.json 'select 1'`.")
    is_query = bool(re.search(r"\s", last.strip())) and not os.path.lexists(last)
    if is_query and len(words) == 1:
        raise UsageError(f"Name a trace before the query: `tracetui sql trace.json {last!r}`.")
    return (words[:-1], last) if is_query else (words, None)


def _read_query(path: str | None, traces: list[str]) -> str:
    if path is None and "-" in traces:
        raise UsageError("Standard input is the trace: give the query in quotes, or with -f.")
    try:
        if path is None or path == "-":
            return sys.stdin.read(MAX_QUERY)
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(MAX_QUERY)
    except OSError as error:
        raise NotFound(f"{path} cannot be read: {error.strerror}.") from None


def _opened(paths: list[str], options: argparse.Namespace) -> tuple[dict[str, Trace], bool]:
    """The traces by the name of their schema; and whether these are ranks."""
    folders = [path for path in paths if is_folder(path)]
    if folders and len(paths) > 1:
        raise UsageError(f"{folders[0]} is a folder of ranks: ask it alone, or name single traces.")
    if not folders and (options.ranks or options.rank_pattern):
        raise UsageError("--ranks and --rank-pattern choose among the ranks of a folder: name one.")
    named = {chr(ord("a") + number): path for number, path in enumerate(paths)}
    if folders:
        # It loads numpy.
        from tracetui.opening.rank_reading import summarise_files

        asked = RankOptions(options.rank_pattern, options.run_number)
        files = picked_run(rank_runs_of(paths, asked, summarise_files), asked).files
        named = {str(file.rank): file.path for file in files}
        if options.ranks:
            wanted = [str(rank) for rank in rank_numbers(options.ranks)]
            if missing := [rank for rank in wanted if rank not in named]:
                raise UsageError(f"There is no rank {missing[0]} in {folders[0]}; there are {', '.join(named)}.")
            named = {rank: named[rank] for rank in wanted}
    if len(named) > MAX_TRACES:
        some = "choose with --ranks 0,3-5" if folders else "name fewer"
        raise UsageError(f"{len(named)} traces are more than the {MAX_TRACES} that can be asked at once: {some}.")
    return {name: read_trace(path, opening(options)) for name, path in named.items()}, bool(folders)


def _answer(database: Database, query: str, options: argparse.Namespace) -> None:
    """Print or write the answer to a query."""
    from tracetui.writing.output import output, write_text

    on_screen = options.output is None and options.format == "table" and sys.stdout.isatty()
    limit = options.limit if options.limit is not None else DEFAULT_ROWS if on_screen else MAX_ROWS
    result = database.query(query, max_rows=limit, seconds=options.seconds)
    if options.format == "parquet":
        from tracetui.sql.database import write_parquet

        with TemporaryDirectory() as folder, output(options.output, options.force) as sink:
            write_parquet(result.table, path := str(Path(folder, "rows.parquet")))
            sink.write(Path(path).read_bytes())
    elif options.output is not None:
        write_text(options.output, _text(result, query, options.format), options.force)
    else:
        sys.stdout.write(_text(result, query, options.format))
    if result.is_cut:
        remark(f"{result.remark} --limit prints more.")


def _text(result: QueryResult, query: str, form: str) -> str:
    # These load numpy.
    from tracetui.drawing.text import export
    from tracetui.drawing.text.envelope import json_text

    table = result.table
    if form == "json":
        specs = [column.spec for column in table.columns]
        document = {
            "query": clean(query.strip()),
            "columns": [{"name": spec.name, "unit": spec.unit, "help": spec.help} for spec in specs],
            "rows": export.row_values(table),
            "is_cut": result.is_cut,
            "left_out": result.left_out,
        }
        return json_text("sql", document, specs)
    if form == "csv":
        return export.csv_rows(table)
    if form == "md":
        return "\n".join(export.lines(table, list(table.columns))) + "\n"
    return export.plain_rows(table, "sql", None, is_chosen=True)


# Queries that are typed.


def _prompt(database: Database, options: argparse.Namespace) -> None:
    """Answer queries that are typed, each up to `;` or an empty line, until ctrl+d."""
    print(f"Views: {', '.join(database.views[:8])} and others (show tables). A query ends with ; and ctrl+d ends all.")
    history = _start_editing(database)
    lines: list[str] = []
    while True:
        try:
            line = input(CONTINUED if lines else PROMPT)
            word = "" if lines else line.strip(" ;").lower()
            if word in ("exit", "quit"):
                break
            if word in ("help", "?"):
                print("show tables lists the views, describe kernels the columns of one; ctrl+d ends all.")
                continue
            lines.append(line)
            if (line.strip() and not line.rstrip().endswith(";")) or not "".join(lines).strip(" ;"):
                lines = [each for each in lines if each.strip()]
                continue
            query, lines = "\n".join(lines), []
            _answer(database, query, options)
        except TracetuiError as error:
            complain("\n".join([clean(str(error)), *map(clean, error.lines_below)]))
        except KeyboardInterrupt:
            print()
            lines = []
        except EOFError:
            print()
            break
    if history is not None:
        # It is where Python has it.
        import readline

        with suppress(OSError):
            history.parent.mkdir(parents=True, exist_ok=True)
            readline.set_history_length(MAX_HISTORY)
            readline.write_history_file(history)


def _start_editing(database: Database) -> Path | None:
    """Give the prompt history and completion; returns the file of the history, None where there is no readline."""
    try:
        # Not every Python has it.
        import readline
    except ImportError:
        return None
    from platformdirs import user_state_path

    def complete(text: str, number: int) -> str | None:
        return next(iter(database.completions(text)[number:]), None)

    history = user_state_path("tracetui", appauthor=False) / "sql_history"
    with suppress(OSError):
        readline.read_history_file(history)
    readline.set_completer(complete)
    readline.set_completer_delims(" \t\n,;()=<>+-*/")
    readline.parse_and_bind("tab: complete")
    return history


COMMANDS = {"sql": Command("ask a trace, several, or the ranks of a run with SQL", __doc__, add_arguments, run)}
