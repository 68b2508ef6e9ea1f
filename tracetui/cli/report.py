"""Write a report: one HTML file with findings, the lanes of a step and the tables; of two sides with what differs.

It is for a pull request or a mail and needs nothing but itself: no script, font or picture from elsewhere. Sides are
written as for `tracetui compare`: `A.json B.json`, or `A.json#3 A.json#4`."""

from __future__ import annotations

import argparse
import os
import re
import sys
from typing import TYPE_CHECKING

from tracetui.cli.completion import completes_files
from tracetui.cli.reading import printable
from tracetui.errors import TracetuiError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from tracetui.drawing.report.section import Report

HELP = "write one HTML file with findings, lanes and tables, or with what differs between two"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tracetui report`."""
    traces = parser.add_argument(
        "traces", nargs="+", metavar="TRACE", help="a trace, or two sides; - is standard input"
    )
    completes_files(traces)
    parser.add_argument("--step", type=int, metavar="N", help="whose lanes are drawn (default: the middle one)")
    parser.add_argument("-o", "--output", metavar="FILE", help="where to write it, - for standard output")
    parser.add_argument("--force", action="store_true", help="replace a file that is there")
    parser.add_argument("--steps-by", metavar="NAME", help="an annotation that marks the steps, where there are none")
    parser.add_argument("--device", metavar="NAME", help="what the GPU is, where the trace does not say: H100")


def run(options: argparse.Namespace) -> int:
    """Write the report and say where; the exit code is 1 for a file that is cut off.

    Raises: UsageError for a step that does not exist and a file that is there; TraceError for the trace.
    """
    path = _destination(options)
    # These load numpy, which `--help` must not wait for.
    from tracetui.drawing.report.page import page

    report, is_whole = _of_two(options) if len(options.traces) > 1 else _of_one(options)
    _write(path, page(report), options.force)
    return 0 if is_whole else 1


def _of_one(options: argparse.Namespace) -> tuple[Report, bool]:
    """The report on a trace, and whether its file is whole."""
    from tracetui import __version__
    from tracetui.analysis.devices.limits import with_device
    from tracetui.analysis.linking.markers import with_steps
    from tracetui.cli.reading import read
    from tracetui.drawing.report.trace_report import trace_report
    from tracetui.drawing.timeline.raster import Picture

    trace = read(options.traces[0])
    if options.device is not None:
        trace = with_device(trace, options.device)
    if options.steps_by is not None:
        trace = with_steps(trace, options.steps_by)
    return trace_report(trace, Picture(trace), options.step, __version__), trace.quality.truncated_at is None


def _of_two(options: argparse.Namespace) -> tuple[Report, bool]:
    """The report on two sides, and whether both files are whole.

    Raises: UsageError for options that speak of one trace.
    """
    from tracetui import __version__
    from tracetui.analysis.comparing.comparison import comparison
    from tracetui.cli.sides import read_sides
    from tracetui.drawing.report.comparison_report import comparison_report
    from tracetui.drawing.timeline.raster import Picture

    for name in ("step", "steps_by", "device"):
        if getattr(options, name) is not None:
            raise UsageError(f"--{name.replace('_', '-')} is for a report on one trace; a side may be `A.json#3`.")
    a, b = read_sides(options.traces)
    pictures = Picture(a.trace), Picture(b.trace)
    is_whole = all(side.trace.quality.truncated_at is None for side in (a, b))
    return comparison_report(comparison(a, b), pictures, __version__), is_whole


def _write(path: Path | None, html: str, replace: bool) -> None:
    """Write the page and say where.

    Raises: UsageError for a file that is there, TracetuiError when it cannot be written.
    """
    from tracetui.files import write_whole

    if path is None:
        sys.stdout.buffer.write(html.encode(errors="replace"))
        return
    try:
        write_whole(path, html, replace=replace)
    except FileExistsError:
        raise UsageError(_is_there(path)) from None
    except OSError as error:
        raise TracetuiError(f"The report cannot be written to {path}: {error.strerror}.") from None
    megabytes = len(html.encode(errors="replace")) / 1e6
    print(f"tracetui: wrote {printable(str(path))}, {megabytes:,.1f} MB", file=sys.stderr)


def _destination(options: argparse.Namespace) -> Path | None:
    """The file to write, None for standard output.

    Raises: UsageError when it is there already, or its folder is not.
    """
    from pathlib import Path

    if options.output == "-":
        return None
    if options.output is None and options.traces[0] == "-":
        raise UsageError("A report on standard input needs a name: -o FILE.")
    path = Path(options.output or f"{'-to-'.join(map(_stem, options.traces))}.report.html")
    if path.is_dir():
        raise UsageError(f"{path} is a folder; -o names a file.")
    if not path.parent.is_dir():
        raise UsageError(f"There is no folder {path.parent} to write the report to.")
    if path.exists() and any(_is_same(path, trace) for trace in options.traces):
        raise UsageError(f"{path} is the trace itself: name another file.")
    if path.is_file() and not options.force:
        raise UsageError(_is_there(path))
    return path


def _is_same(path: Path, written: str) -> bool:
    """Whether a file is the one that a trace or a side names."""
    from tracetui.cli.sides import split

    trace = split(written).path
    return os.path.exists(trace) and os.path.samefile(path, trace)


def _stem(trace: str) -> str:
    """The name of a trace without folder and suffixes, and its scope, for a file in the current folder."""
    name, _, scope = os.path.basename(trace.rstrip("/")).partition("#")
    kept = re.sub(r"\W+", "_", scope).strip("_")
    return "-".join(filter(None, (name.split(".json")[0], kept))) or "trace"


def _is_there(path: Path) -> str:
    return f"{path} is there already: --force replaces it, -o names another file."
