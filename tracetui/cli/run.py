"""Record a trace of a workload on this machine, then open it.

WORKLOAD is one that `tracetui workloads` lists, or a function of your own: path/to/file.py:function or
package.module:function, which is called once per step. The recording runs in a process of its own, on the GPU
where there is one. Standard output is the path of the trace.

--compare records several variants one after the other, with the same weights and inputs, and opens them side by side:
eager, compile, those that `tracetui workloads WORKLOAD` lists, another function of your file, or NAME=VALUE."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tracetui_workloads.recording.protocol import HOW_IT_RUNS, OPTIONS, WHAT_IS_RECORDED, Options

from tracetui.cli import workloads as list_command
from tracetui.cli.arguments import add_differ, add_force, completes_files, switch_differ
from tracetui.cli.open import require_terminal
from tracetui.errors import CannotRun, RunFailed, TracetuiError, UsageError
from tracetui.text import clean

if TYPE_CHECKING:
    from tracetui_workloads.recording.launcher import Failure, Outcome, Request

HELP = "record a trace of a workload, or of your own function, and open it"

ERRORS: dict[int, type[TracetuiError]] = {2: UsageError, 3: CannotRun, 4: RunFailed}
"""What an exit code of a recording is raised as."""

DOES_NOT_HOLD = 1
"""Exit code of `--verify` when the trace shows something else than the workload promises."""

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
    _add_process(how)
    _add_options(what)
    what.add_argument("--table", action="store_true", help="torch's own table of sums, as text beside the trace")
    _add_what_becomes_of_it(parser.add_argument_group("what becomes of it"))


def run(options: argparse.Namespace) -> int:
    """Record, print the path, open the trace; or look up what it should show. Returns the exit code.

    Raises: UsageError, CannotRun or RunFailed when there is no trace.
    """
    switch_differ(options)
    if options.workload is None:
        return list_command.run(argparse.Namespace(name=None, json=options.json))
    require_guess(options)
    if options.bench:
        # Loads json and signal, which `--help` need not wait for.
        from tracetui.cli import variants

        return variants.run_bench(options)
    if options.compare is not None:
        # Loads asyncio and dataclasses, which `--help` need not wait for.
        from tracetui.cli import variants

        return variants.run(options)
    # Loads dataclasses, which `--help` need not wait for.
    from tracetui.cli.verify import json_document, print_lesson, print_verification, require_expectations, verify

    request = request_of(options)
    workload = require_expectations(request.workload) if options.verify else None
    if options.guess:
        require_expectations(request.workload, "--guess")
    outcome = record(request, options)
    verification = verify(workload, outcome) if workload and outcome.path else None
    if options.json:
        more = json_document(verification, workload) if verification and workload else {}
        print(json.dumps({**document(outcome), **more}, indent=2))
    if outcome.failure or outcome.path is None:
        return _fail(outcome, options)
    if not options.json:
        print(clean(str(outcome.path)), flush=True)
    if verification and workload:
        if not options.json:
            print_verification(verification)
            print_lesson(workload)
        return 0 if verification.holds else DOES_NOT_HOLD
    if not options.json and not outcome.too_late and has_terminal():
        return _look(request.workload, outcome, options)
    return 0


def _look(name: str, outcome: Outcome, options: argparse.Namespace) -> int:
    """Open the trace, after a guess where one is asked for."""
    view = None
    if options.guess:
        # Loads numpy, which a recording need not wait for.
        from tracetui.cli.verify import guess_first

        view = guess_first(name, outcome, options.open)
    if not options.open:
        return 0
    # Textual takes a third of a second to import.
    from tracetui.ui.app import run as run_app

    # A line that was chosen was found in the trace of the first rank.
    return run_app([str(outcome.traces[0] if view else outcome.path)], at=view)


def require_guess(options: argparse.Namespace) -> None:
    """Find out before anything is recorded whether `--guess` can ask somebody.

    Raises: UsageError where it cannot.
    """
    if not options.guess:
        return
    other = next((name for name in ("verify", "json", "bench") if getattr(options, name)), None)
    if other is not None:
        raise UsageError(f"--guess asks before a trace is opened, and --{other} opens none: leave one of them out.")
    if not (sys.stdin.isatty() and has_terminal()):
        raise UsageError("--guess asks its questions on a terminal, and there is none.")


def request_of(options: argparse.Namespace) -> Request:
    """What the command line asks for.

    Raises: UsageError.
    """
    # Loads asyncio, which `--help` need not wait for.
    from tracetui_workloads.recording.launcher import BadRequest, plan

    require_output(options)
    given, argv = parameters_of(options), ["tracetui", *sys.argv[1:]]
    try:
        return plan(options.workload, given, options_of(options), options.out, argv, options.table, options.force)
    except BadRequest as error:
        raise UsageError(str(error)) from error


def require_output(options: argparse.Namespace) -> None:
    """Find out before anything is recorded whether `-o` may be written.

    Raises: UsageError for a file that exists, without `--force`, and for the program that is recorded.
    """
    # These load asyncio and gzip, which `--help` need not wait for.
    from tracetui_workloads.recording.launcher import is_file_path

    from tracetui.writing.output import require_writable

    if options.out is not None and is_file_path(options.out):
        program = options.workload.rpartition(":")[0]
        require_writable(options.out, [(program, "the program")], options.force, makes_folder=True)


def parameters_of(options: argparse.Namespace) -> dict[str, int | float | str | bool]:
    """The workload's parameters as texts.

    Raises: UsageError for a word that is none.
    """
    given = parameters(options.given, options.parameters)
    for option in OPTIONS.values():
        value = getattr(options, option.name)
        if option.is_shared and value not in (None, *option.choices):
            # As `backend` of attention, whose values and those of torch.compile differ.
            given[option.name] = value
            setattr(options, option.name, None)
    return given


def options_of(options: argparse.Namespace) -> Options:
    """How to record.

    Raises: BadRequest for options that contradict each other.
    """
    return Options(**given_options(options))


def given_options(options: argparse.Namespace) -> dict[str, Any]:
    """The options of a recording that the command line has, by their names in `Options`."""
    values = {name: getattr(options, name) for name in OPTIONS}
    return {name: value for name, value in values.items() if value is not None}


def parameters(pairs: list[str], unknown: list[str]) -> dict[str, int | float | str | bool]:
    """Parameters as texts, from `-p name=value`, `--name value` and `--name=value`.

    Raises: UsageError for a word that is none of these.
    """
    values: dict[str, int | float | str | bool] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise UsageError(f"-p wants NAME=VALUE, not {pair}.")
        values[name.replace("-", "_")] = value
    words = iter(unknown)
    for word in words:
        name, equals, value = word.partition("=")
        text = value if equals else next(words, None)
        if not name.startswith("--") or text is None:
            raise UsageError(f"{word} is no option of `tracetui run`, and a parameter is --NAME VALUE after WORKLOAD.")
        values[name[2:].replace("-", "_")] = text
    return values


def record(
    request: Request, options: argparse.Namespace, part: str = "", known_remarks: set[str] | None = None
) -> Outcome:
    """Make the recording, with a progress bar on a terminal; `part` tells which of several it is, as in `1/2`."""
    from tracetui_workloads.recording.launcher import record_now

    from tracetui.cli.streams import RecordingProgress
    from tracetui.model.quantities import duration, size

    what = f"{request.workload} {request.variant}".rstrip()
    with RecordingProgress(f"{what} {part}".rstrip(), known_remarks=known_remarks) as bar:
        outcome = record_now(request, bar.hear, python=options.python, timeout=options.timeout or None)
    if outcome.path:
        done = f"recorded {what} on {outcome.device} in {duration(1e9 * outcome.seconds)}, {size(outcome.bytes)}"
        print(f"tracetui: {clean(done)}", file=sys.stderr)
    return outcome


def time_all(requests: Sequence[Request], options: argparse.Namespace) -> list[Outcome]:
    """Time steps without the profiler, several in turns, with a progress bar on a terminal."""
    from tracetui_workloads.recording.launcher import time_now

    from tracetui.cli.streams import RecordingProgress

    with RecordingProgress(f"{requests[0].workload} without the profiler", known_remarks=set()) as bar:
        return time_now(requests, bar.hear, python=options.python, timeout=options.timeout or None)


def document(outcome: Outcome) -> dict[str, object]:
    """The outcome for a script: `path` or `failure`, and what the trace says of itself."""
    failure = outcome.failure
    return {
        "path": str(outcome.path) if outcome.path else None,
        **({"ranks": [str(path) for path in outcome.traces]} if outcome.ranks else {}),
        "bytes": outcome.bytes,
        "seconds": round(outcome.seconds, 3),
        "device": outcome.device or None,
        "notes": list(outcome.notes),
        "recording": dict(outcome.metadata),
        "failure": None
        if failure is None
        else {
            "kind": failure.kind,
            "message": failure.message,
            "hint": failure.hint,
            "stage": failure.stage,
            "details": failure.details,
            "exit_code": outcome.exit_code,
        },
    }


def _fail(outcome: Outcome, options: argparse.Namespace) -> int:
    """Tell why there is no trace.

    Raises: UsageError, CannotRun or RunFailed, unless someone cancelled or reads JSON.
    """
    failure = outcome.failure
    assert failure is not None
    tell_details(failure, options)
    if options.json or outcome.exit_code not in ERRORS:
        print(f"tracetui: {clean(str(failure))}", file=sys.stderr)
        return outcome.exit_code
    raise ERRORS[outcome.exit_code](str(failure))


def tell_details(failure: Failure, options: argparse.Namespace) -> None:
    """Print the traceback or the end of the log where they are asked for, and after a crash."""
    is_wanted = (options.details and failure.kind != "cancelled") or failure.kind == "crash"
    if failure.details and is_wanted and not options.json:
        for line in failure.details.splitlines():
            print(f"  {clean(line)}", file=sys.stderr)


def has_terminal() -> bool:
    """Whether the app could be seen and steered."""
    try:
        require_terminal()
    except UsageError:
        return False
    return True


def _add_options(group: argparse._ArgumentGroup) -> None:
    """Declare the options of a recording that belong below a heading; what is not given stays None."""
    for option in OPTIONS.values():
        if option.group != group.title:
            continue
        words, default = (
            f"--{option.name.replace('_', '-')}",
            "" if option.default == "" else f" (default: {option.default})",
        )
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


def _add_process(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--python", default=sys.executable, metavar="PATH", help="the Python that has torch")
    group.add_argument(
        "--timeout", type=float, default=900.0, metavar="S", help="give up after S seconds, 0 for never (default: 900)"
    )


def _add_what_becomes_of_it(group: argparse._ArgumentGroup) -> None:
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
