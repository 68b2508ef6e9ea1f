"""Open traces in the app: lanes, steps, kernels and the details of what is selected.

A trace is JSON, Perfetto's .pftrace or an export of Nsight Systems (.sqlite), plain or packed (gzip, zstd), and known
by its content; it may be a URL. A folder, or nothing, offers the traces in it; `-` is standard input. Two traces are
compared, and so are two parts of one: `A.json#3 B.json#3`, `A.json '#3' '#4'` (see `tracetui compare --help` for what
can stand behind #)."""

from __future__ import annotations

import argparse
import codecs
import os
import sys

from tracetui.cli.arguments import Command, add_differ, add_opening, add_range, completes_files, opening, switch_differ
from tracetui.cli.inputs import add_rank_choice, named_pair, read_trace, split
from tracetui.cli.snapshots import is_snapshot_file, print_state
from tracetui.cli.streams import label_of, remark
from tracetui.errors import NotFound, UsageError
from tracetui.files import is_url
from tracetui.opening.rank_folder import AS_NAMED, RankOptions, RankSetName, is_folder
from tracetui.opening.trace_opening import SideName
from tracetui.reading.load_progress import collector_off
from tracetui.text import clean


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tracetui open`."""
    traces = parser.add_argument("traces", nargs="*", metavar="TRACE", help="a trace, a folder of them, or -")
    completes_files(traces)
    parser.add_argument("--step", type=int, metavar="N", help="start at the step with this number")
    add_opening(parser)
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--at", metavar="VIEW", help="start at a view string, as `Y` in the app copies it")
    add_range(place, "start with lists of what ran in a range of time: its start and length, as 12.5us+250us")
    parser.add_argument(
        "--follow", action="store_true", help="open every trace that appears in the folder, once it is written"
    )
    add_rank_choice(parser)
    add_differ(parser)


def run(options: argparse.Namespace) -> int:
    """Start the app and return its exit code.

    Raises: NotFound for a missing file; UsageError without a terminal.
    """
    switch_differ(options)
    traces: list[str] = options.traces
    sides = _sides(traces, options)
    for path in traces if sides is None else [side.path for side in sides]:
        if path != "-" and not is_url(path) and not os.path.exists(path):
            raise NotFound(f"{path} does not exist.")
    ranks = None if sides is not None else _ranks(traces, options)
    if options.follow and not (all(map(os.path.isdir, traces)) and ranks is None and sides is None):
        raise UsageError("--follow opens traces as they appear in a folder of this machine: name that alone.")
    if not sys.stdout.isatty() and is_one_trace(options):
        if is_snapshot_file(traces[0]):
            return print_state(traces[0], options)
        return print_instead(options)
    require_terminal()
    if "-" in traces and sys.stdin.isatty():
        raise UsageError("Standard input is the terminal: pipe a trace in, as in `zcat t.json.gz | tracetui -`.")
    _keep_keyboard()
    remark(f"opening {clean(', '.join(map(label_of, traces))) or 'this folder'}")
    # Textual takes a third of a second to import; the line above is on the screen by then.
    with collector_off():
        from tracetui.ui.app import compare, run

    if sides is None:
        return run(traces, options.step, _view(options), opening(options), ranks, options.follow)
    return compare(*sides, options=opening(options))


def _ranks(traces: list[str], options: argparse.Namespace) -> RankSetName | None:
    """The set of ranks that is asked for; None where the app is to find out what a folder holds.

    Raises: UsageError for a choice of ranks without a folder, and for a URL in a list of traces.
    """
    chosen = RankOptions(options.rank_pattern, options.run_number)
    is_folder_alone = len(traces) == 1 and is_folder(traces[0])
    if chosen != AS_NAMED and not is_folder_alone:
        raise UsageError("--run and --rank-pattern choose among the ranks of a folder: name one folder.")
    if len(traces) > 1 and (listed := [path for path in traces if is_url(path)]):
        raise UsageError(f"{listed[0]} is a URL, and a list is of files of this machine: name one or two.")
    is_asked = chosen != AS_NAMED or (is_folder_alone and is_url(traces[0]))
    return RankSetName(tuple(traces), chosen) if is_asked else None


def _view(options: argparse.Namespace) -> str:
    """The view string at which the app starts.

    Raises: UsageError for what is no range of time.
    """
    if options.range is None:
        return str(options.at or "")
    # It loads numpy, which `--help` must not wait for.
    from tracetui.model.intervals import read_time_range

    return f"range={read_time_range(options.range).text}"


def _sides(traces: list[str], options: argparse.Namespace) -> tuple[SideName, SideName] | None:
    """The sides where two traces, or two parts of one, are to be compared; None for a list, or a trace alone.

    Raises: UsageError for a part of a trace without another one, and for options that place one trace.
    """
    scoped = any(word.startswith("#") or split(word).scope for word in traces)
    if not scoped and (len(traces) != 2 or any(map(is_folder, traces))):
        return None
    if options.step is not None or options.at or options.range:
        raise UsageError("Two traces are compared: write the step behind the path, as in `A.json#3 B.json#3`.")
    if len(traces) == 1:
        raise UsageError(f"{traces[0]} names a part of a trace to compare, but with nothing: --step N opens at a step.")
    return named_pair(traces)


def is_one_trace(options: argparse.Namespace) -> bool:
    """True where a single trace is asked for, of which an overview can be printed in place of a screen."""
    traces = options.traces
    return len(traces) == 1 and not is_folder(traces[0]) and not options.at and "#" not in os.path.basename(traces[0])


def print_instead(options: argparse.Namespace) -> int:
    """Print the overview where the output is no terminal: `tracetui TRACE | cat`."""
    from tracetui.cli.show import print_overview
    from tracetui.idle.scope_times import median_step
    from tracetui.model.intervals import read_time_range

    trace = read_trace(options.traces[0], opening(options))
    part = read_time_range(options.range) if options.range is not None else options.step
    print_overview(trace, part if part is not None else median_step(trace))
    return int(trace.quality.is_part)


def require_terminal() -> None:
    """Refuse to start the app where it could not be seen or steered.

    Raises: UsageError that names the text command instead.
    """
    instead = "print a pane as text instead, for example `tracetui show summary TRACE`."
    if os.environ.get("TERM", "") in {"dumb", "unknown"}:
        raise UsageError(f"The app cannot draw on a terminal of type {os.environ['TERM']}; {instead}")
    if not (sys.stdout.isatty() and sys.stderr.isatty()):
        raise UsageError(f"The app needs a terminal to draw on; {instead}")
    encoding = codecs.lookup(sys.stdout.encoding or "ascii").name
    if encoding != "utf-8":
        raise UsageError(f"The app draws with characters that the output encoding {encoding} lacks; {instead}")
    if not sys.stdin.isatty() and not os.access("/dev/tty", os.R_OK):
        raise UsageError(f"The app needs a keyboard; {instead}")


def _keep_keyboard() -> None:
    """Put the terminal back on file descriptor 0, where keys are read, and what was there into `sys.stdin`."""
    if sys.stdin.isatty():
        return
    sys.stdin = os.fdopen(os.dup(0), "r")
    keyboard = os.open("/dev/tty", os.O_RDONLY)
    os.dup2(keyboard, 0)
    os.close(keyboard)


COMMANDS = {"open": Command("open traces in the app; what `tracetui TRACE` does", __doc__, add_arguments, run)}
