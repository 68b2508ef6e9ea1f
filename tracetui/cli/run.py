"""Record a trace of a workload on this machine, then open it.

WORKLOAD is one that `tracetui workloads` lists, or a function of your own: path/to/file.py:function or
package.module:function, which is called once per step. The recording runs in a process of its own, on the GPU
where there is one. Standard output is the path of the trace.

--compare records several variants one after the other, with the same weights and inputs, and opens them side by side:
eager, compile, those that `tracetui workloads WORKLOAD` lists, another function of your file, or NAME=VALUE."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from tracetui_workloads.recording.protocol import HOW_IT_RUNS, OPTIONS, WHAT_IS_RECORDED

from tracetui.cli import workloads as list_command
from tracetui.cli.arguments import Command, add_differ, add_force, completes_files, switch_differ
from tracetui.cli.recording import (
    DOES_NOT_HOLD,
    ERRORS,
    document,
    has_terminal,
    print_details,
    print_failure,
    record,
    requests_of,
)
from tracetui.errors import UsageError
from tracetui.text import clean

if TYPE_CHECKING:
    from tracetui_workloads.recording.launcher import Request

BENCH_SECONDS = 10.0
"""Seconds of timing for each variant with `--bench`, unless `--time-seconds` says otherwise."""

EXAMPLES = """\
examples:
  tracetui run matmul_add --size 4096                    a workload with a parameter of its own
  tracetui run mlp --compile                             the same program compiled
  tracetui run attention --impl sdpa -p backend=flash
  tracetui run train.py:step -p batch=8 --stack          a function of your own
  tracetui run linear --no-open --json                   for a script
  tracetui run linear --verify                           does the trace show what it should?
  tracetui run mlp --compare eager,compile               record both, then compare
  tracetui run attention --compare naive,inplace,flash
  tracetui run mlp --compile --compare batch=8,batch=64
  tracetui run mlp --compare eager,compile --bench       times without the profiler, and no trace

exit codes:
  0 done; 1 --verify found something else; 2 not understood, or OUT exists; 3 cannot run here (no torch, GPU, Triton
  or compiler; with --compare: fewer than two could); 4 failed; 130 cancelled; 129, 131 or 143 by a signal"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tracetui run`; an option that is none of them is a parameter of the workload."""
    parser.epilog = EXAMPLES
    parser.set_defaults(parameters=[])
    workload = parser.add_argument("workload", nargs="?", metavar="WORKLOAD", help="a workload, or FILE.py:FUNCTION")
    completes_files(workload)
    parser.add_argument(
        "-p", dest="given", action="append", default=[], metavar="NAME=VALUE", help="a parameter; also --NAME VALUE"
    )
    how, what = parser.add_argument_group(HOW_IT_RUNS), parser.add_argument_group(WHAT_IS_RECORDED)
    _add_options(how)
    how.add_argument("--python", default=sys.executable, metavar="PATH", help="the Python that has torch")
    how.add_argument(
        "--timeout", type=float, default=900.0, metavar="S", help="give up after S seconds, 0 for never (default: 900)"
    )
    _add_options(what)
    what.add_argument("--table", action="store_true", help="torch's own table of sums, as text beside the trace")
    group = parser.add_argument_group("what becomes of it")
    out = group.add_argument(
        "-o", "--out", metavar="OUT", help="a file, or a folder (default: traces/NAME/TAG.json.gz, numbered)"
    )
    completes_files(out)
    add_force(group)
    group.add_argument(
        "--compare", metavar="V1,V2", help="record these variants, or all, and compare them; -o is then a folder"
    )
    group.add_argument(
        "--bench", action="store_true", help="write no trace: time a step without the profiler, variants in turns"
    )
    group.add_argument("--no-open", dest="open", action="store_false", help="do not open the trace afterwards")
    group.add_argument("--guess", action="store_true", help="ask a question or two about the trace before it is opened")
    group.add_argument(
        "--verify",
        action="store_true",
        help="look up what the trace should show; do not open it, exit 1 if it does not",
    )
    group.add_argument("--json", action="store_true", help="print the outcome as JSON, and do not open the trace")
    group.add_argument("--details", action="store_true", help="when it fails, also print the traceback")
    add_differ(group)


def _add_options(group: argparse._ArgumentGroup) -> None:
    """Declare the options of a recording that belong below a heading; what is not given stays None."""
    for option in OPTIONS.values():
        if option.group != group.title:
            continue
        words, default = option.flag, "" if option.default == "" else f" (default: {option.default})"
        if option.default is False:
            group.add_argument(words, action="store_true", default=None, help=option.help)
            continue
        if option.is_shared:
            # Other values are for the parameter of that name.
            values: dict[str, Any] = {"metavar": option.name.upper()}
            default = f": {', '.join(map(str, option.choices))}{default}"
        elif option.choices:
            values = {"choices": option.choices}
        else:
            values = {"metavar": option.name.upper() if isinstance(option.default, str) else "N"}
        group.add_argument(words, type=type(option.default), help=f"{option.help}{default}", **values)


def run(options: argparse.Namespace) -> int:
    """Record, print the path, open the trace; or look up what it should show. Returns the exit code.

    Raises: UsageError, CannotRun or RunFailed when there is no trace.
    """
    switch_differ(options)
    if options.workload is None:
        return list_command.run(argparse.Namespace(name=None, json=options.json))
    _require_guess_and_bench(options)
    requests = requests_of(options)
    if options.verify or options.guess:
        # Looks for workloads of other packages.
        from tracetui.cli.expectations import require_expectations

        for request in requests:
            require_expectations(request.workload, "--verify" if options.verify else "--guess")
    if not options.bench and options.compare is None:
        return _record_one(requests[0], options)
    # Loads what compares times, which `--help` need not wait for.
    from tracetui.cli.variants import compare_variants, print_times

    return print_times(requests, options) if options.bench else compare_variants(requests, options)


def _require_guess_and_bench(options: argparse.Namespace) -> None:
    """Check before anything is recorded that `--guess` has a terminal, and `--bench` a time and no trace to look at.

    Raises: UsageError where not.
    """
    if options.guess:
        other = next((name for name in ("verify", "json", "bench") if getattr(options, name)), None)
        if other is not None:
            raise UsageError(f"--guess asks before a trace is opened, and --{other} opens none: leave one of them out.")
        if not (sys.stdin.isatty() and has_terminal()):
            raise UsageError("--guess asks its questions on a terminal, and there is none.")
    if options.bench:
        if options.verify:
            raise UsageError("--bench writes no trace that --verify could look at: leave one of them out.")
        if options.time_seconds is None:
            options.time_seconds = BENCH_SECONDS
        elif not options.time_seconds:
            raise UsageError("--bench needs some --time-seconds.")


def _record_one(request: Request, options: argparse.Namespace) -> int:
    """Record, print the path or the outcome as JSON, then verify, ask or open. Returns the exit code.

    Raises: UsageError, CannotRun or RunFailed when there is no trace, unless someone cancelled or reads JSON.
    """
    from tracetui.cli import expectations

    outcome = record(request, options)
    workload = expectations.workload_of(request.workload) if options.verify else None
    verification = expectations.verify(workload, outcome) if workload and outcome.path else None
    if options.json:
        found = document(outcome)
        if verification and workload:
            found["verification"] = expectations.document(verification)
            found["lesson"] = " ".join(workload.lesson.split())
        # Loads orjson, which `--help` must not wait for.
        from tracetui.drawing.text.envelope import json_text

        sys.stdout.write(json_text("run", found, indented=True))
    if failure := outcome.failure:
        print_details(failure, options)
        if not options.json and outcome.exit_code in ERRORS:
            raise ERRORS[outcome.exit_code](str(failure))
        print_failure(failure)
        return outcome.exit_code
    if not options.json:
        print(clean(str(outcome.path)), flush=True)
    if verification and workload:
        if not options.json:
            expectations.print_verification(verification)
            expectations.print_lesson(workload)
        return 0 if verification.holds else DOES_NOT_HOLD
    if options.json or outcome.too_late or not has_terminal():
        return 0
    view = expectations.guess_first(request.workload, outcome, options.open) if options.guess else None
    if not options.open:
        return 0
    # Textual takes a third of a second to import.
    from tracetui.ui.app import run as run_app

    # A line that was chosen was found in the trace of the first rank.
    return run_app([str(outcome.traces[0] if view else outcome.path)], at=view)


COMMANDS = {
    "run": Command("record a trace of a workload, or of your own function, and open it", __doc__, add_arguments, run)
}
