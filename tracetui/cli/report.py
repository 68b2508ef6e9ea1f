"""Write a report: one HTML file with findings, the lanes of a step and the tables; of two sides with what differs; of a
folder with one trace per rank with who is late, where and why.

It is for a pull request or a mail and needs nothing but itself: no script, font or picture from elsewhere. Sides are
written as for `tracetui compare`: `A.json B.json`, or `A.json#3 A.json#4`."""

from __future__ import annotations

import argparse
import re
import sys
from typing import TYPE_CHECKING

from tracetui.cli.arguments import Command, add_opening, add_output, completes_files, opening
from tracetui.cli.inputs import (
    add_cluster,
    named_pair,
    read_rank_folder,
    read_sides,
    read_trace,
    require_no_cluster,
    split,
)
from tracetui.cli.snapshots import is_snapshot_file, read_history
from tracetui.cli.streams import print_failures, remark
from tracetui.errors import UsageError
from tracetui.files import url_name
from tracetui.opening.rank_folder import is_folder
from tracetui.opening.trace_opening import AS_RECORDED
from tracetui.text import clean, clean_lines

if TYPE_CHECKING:
    from tracetui.drawing.report.page import Report

STANDARD_STREAM = "-"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tracetui report`."""
    traces = parser.add_argument(
        "traces", nargs="+", metavar="TRACE", help="a trace, two sides, or a folder of ranks; - is standard input"
    )
    completes_files(traces)
    parser.add_argument("--step", type=int, metavar="N", help="whose lanes are drawn (default: the middle one)")
    add_output(parser, "FILE", "where to write it, - for standard output (default: TRACE.report.html, numbered)")
    add_opening(parser)
    add_cluster(parser)


def run(options: argparse.Namespace) -> int:
    """Write the report and say where; the exit code is 1 for a file that is cut off, and where a section failed.

    Raises: UsageError for a step that does not exist and a file that exists; TraceError for the trace.
    """
    # These load numpy, which `--help` must not wait for.
    from tracetui.drawing.report.page import page
    from tracetui.writing.output import require_writable

    if options.output is not None:
        inputs = [(split(name).path, "the trace") for name in options.traces]
        require_writable(options.output, inputs, options.force)
    elif options.traces[0] == STANDARD_STREAM:
        raise UsageError("A report on standard input needs a name: -o FILE.")
    if any(map(is_folder, options.traces)):
        report, is_whole = _of_ranks(options)
    elif any(map(is_snapshot_file, options.traces)):
        report, is_whole = _of_snapshot(options), True
    else:
        require_no_cluster(options)
        report, is_whole = _of_two(options) if len(options.traces) > 1 else _of_one(options)
    _write(page(report), options)
    return print_failures(report.failures) or int(not is_whole)


def _of_one(options: argparse.Namespace) -> tuple[Report, bool]:
    """The report on a trace, and whether its file is whole."""
    from tracetui import __version__
    from tracetui.drawing.report.reports import trace_report
    from tracetui.drawing.timeline.raster import TimelineIndex

    trace = read_trace(options.traces[0], opening(options))
    return trace_report(trace, TimelineIndex(trace), options.step, __version__), not trace.quality.is_part


def _of_ranks(options: argparse.Namespace) -> tuple[Report, bool]:
    """The report on the ranks of a folder, and whether all of their files are whole.

    Raises: UsageError for a second folder, and what is said about one trace; TraceError where there is no rank.
    """
    from tracetui import __version__
    from tracetui.drawing.report.reports import rank_report

    if len(options.traces) > 1:
        raise UsageError("A report on ranks is about one folder: `tracetui ranks` takes several.")
    if options.step is not None or opening(options)._replace(uses_cache=True) != AS_RECORDED:
        raise UsageError("--step, --steps-by, --device and the like are about one trace, not about a folder of ranks.")
    ranks = read_rank_folder(options.traces[0], options)
    return rank_report(ranks, __version__), not any(each.loss for each in ranks.summaries)


def _of_snapshot(options: argparse.Namespace) -> Report:
    """The report on a memory snapshot.

    Raises: UsageError for a second file, and for options of traces.
    """
    from tracetui import __version__
    from tracetui.drawing.report.reports import snapshot_report

    if len(options.traces) > 1:
        raise UsageError("A report on a memory snapshot is about one: `tracetui compare A B` prints what differs.")
    return snapshot_report(read_history(options.traces[0], options), __version__)


def _of_two(options: argparse.Namespace) -> tuple[Report, bool]:
    """The report on two sides, and whether both files are whole.

    Raises: UsageError for a step, which a side names itself.
    """
    from tracetui import __version__
    from tracetui.comparing.statement import Comparison
    from tracetui.drawing.report.reports import comparison_report
    from tracetui.drawing.timeline.raster import TimelineIndex

    if options.step is not None:
        raise UsageError("--step is for a report on one trace; a side may be `A.json#3`.")
    a, b = read_sides(named_pair(options.traces), opening(options))
    pictures = TimelineIndex(a.trace), TimelineIndex(b.trace)
    is_whole = all(not side.trace.quality.is_part for side in (a, b))
    return comparison_report(Comparison(a, b), pictures, __version__), is_whole


def _write(html: str, options: argparse.Namespace) -> None:
    """Write the page and say where.

    Raises: UsageError for a file that exists, CannotWrite when it cannot be written.
    """
    from tracetui.model.quantities import size
    from tracetui.writing.output import write_numbered_text, write_text

    if options.output == STANDARD_STREAM:
        sys.stdout.buffer.write(clean_lines(html).encode())
        return
    path = options.output or f"{'-to-'.join(map(_stem, options.traces))}.report.html"
    if options.output is not None or options.force:
        write_text(path, html, options.force)
    else:
        path = write_numbered_text(path, html)
    written = size(len(html.encode(errors="replace")))
    remark(f"wrote {clean(path)}, {written}")


def _stem(trace: str) -> str:
    """The name of a trace without folder and suffixes, and its scope, for a file in the current folder."""
    name, _, scope = url_name(trace).partition("#")
    kept = re.sub(r"\W+", "_", scope).strip("_")
    bare = re.split(r"\.(?:json|pftrace|perfetto-trace|pickle|sqlite|nsys-rep)", name)[0]
    return "-".join(filter(None, (bare, kept))) or "trace"


COMMANDS = {
    "report": Command(
        "write one HTML file with findings, lanes and tables, or with what differs between two",
        __doc__,
        add_arguments,
        run,
    )
}
