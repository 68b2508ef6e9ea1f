"""Show how the step time and what it is spent on changed over the traces of a folder, and which run changed it.

Traces that can be compared (one program, device, kind of steps and rank) are a series. Of each trace a digest is read
once and kept (see `tracetui cache`). A change is told where it is more than the noise between the runs; docs/history.md
has the method. Times are medians over the complete steps of a run."""

from __future__ import annotations

import argparse
import os
import sys

from tracetui.cli.arguments import add_no_cache, completes_files, job_count
from tracetui.cli.streams import CountProgress, remark
from tracetui.errors import NotFound, UsageError

HELP = "a folder of traces over time: what changed, and with which run"
FORMATS = ("table", "json", "csv", "md")
ORDERS = ("time", "name", "git")
"""Orders of the runs of a series."""

EXAMPLES = """\
examples:
  tracetui history traces/                               in order of the time of recording
  tracetui history traces/ --by git                      in order of commits, of recordings of `tracetui run`
  tracetui history traces/ --metric 'kernel:*'           the time of each kernel
  tracetui check new.json --history traces/              is the new one worse than those before?
  git bisect run tracetui bisect --good good.json --bad bad.json -- tracetui run x.py:f"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tracetui history`."""
    parser.epilog = EXAMPLES
    completes_files(parser.add_argument("folder", metavar="FOLDER", help="a folder with traces, also in folders below"))
    parser.add_argument(
        "--by",
        choices=ORDERS,
        default="time",
        help="order of the runs: start of the recording, name of the file (run2 before run10), or commit "
        "(default: time)",
    )
    parser.add_argument(
        "--metric",
        action="append",
        default=[],
        metavar="NAME",
        help="list this measure, or those of a pattern such as 'module:*'; may be given more than once",
    )
    parser.add_argument("--format", choices=FORMATS, default="table", help="what to print (default: table)")
    parser.add_argument("--jobs", type=job_count, metavar="N", help="read with N processes (default: one per core)")
    add_no_cache(parser)


def run(options: argparse.Namespace) -> int:
    """Print the series of a folder.

    Raises: NotFound for a folder without traces; UsageError.
    """
    # These load numpy, which `--help` must not wait for.
    from tracetui.drawing.text import history_text
    from tracetui.history.series import history, require_measures
    from tracetui.opening.rank_reading import SummaryWork

    if not os.path.isdir(options.folder):
        raise (UsageError if os.path.exists(options.folder) else NotFound)(
            f"{options.folder} is no folder: name the folder that the traces lie in."
        )
    with CountProgress("traces") as progress:
        work = SummaryWork(options.jobs, uses_cache=not options.no_cache)
        known = history(options.folder, options.by, work, progress.update)
    if not known.series:
        raise NotFound(" ".join([f"No trace in {options.folder} or below can be shown.", *known.left_out]))
    require_measures(known.series, options.metric)
    if options.format == "json":
        sys.stdout.write(history_text.as_json(known, options.metric))
    elif options.format == "csv":
        sys.stdout.write(history_text.as_csv(known, options.metric))
    else:
        sys.stdout.write(history_text.as_text(known, options.metric, options.format))
    if options.format == "csv":
        for each in known.left_out:
            remark(each)
    return 0
