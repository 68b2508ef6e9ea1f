"""Build an operator of a trace again from its recorded inputs, and time it on this machine beside alternatives.

OP is an operator's name, whose longest variants by inputs are taken, or a view string such as k42 (the operator of
the 42nd kernel of a step) or e120. Without it, every variant is listed with whether it can be built again. It runs in
a process of its own with torch, with caches cleared, everything in turns; where the machine is too noisy to tell the
operator from itself no times are given. Inputs have random numbers: nothing of the recorded data is in a trace."""

from __future__ import annotations

import argparse
import sys

from tracetui.cli.arguments import add_force, add_opening, add_trace, completes_files, opening, row_count
from tracetui.cli.inputs import read_trace
from tracetui.cli.recording import ERRORS, print_failure
from tracetui.cli.streams import RecordingProgress, remark
from tracetui.errors import Unanswerable, UsageError

HELP = "build an operator of a trace again, and time it here beside alternatives"

MAX_VARIANTS = 2_000
"""Maximum variants that are tried for the list, the longest first."""
DEFAULT_VARIANTS = 1
"""Variants of an operator that are timed unless `--limit` says otherwise."""
DEFAULT_ROWS = 40
"""Lines of the list unless `--limit` says otherwise."""
EXAMPLES = """\
examples:
  tracetui verify trace.json                             what can be built again, and why not the rest
  tracetui verify trace.json addmm --vs compile,bf16     its longest variant, against alternatives
  tracetui verify trace.json k42 --script again.py       a program that does the same, to change or send

exit codes:
  0 done; 1 the machine is too noisy, or it cannot be built again; 2 not understood; 3 cannot run here (no torch, or
  recorded on another GPU); 4 failed; 130 cancelled"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tracetui verify`."""
    parser.epilog = EXAMPLES
    add_trace(parser)
    parser.add_argument("op", metavar="OP", nargs="?", help="an operator, or a view string as k42 (default: a list)")
    parser.add_argument(
        "--vs", metavar="A,B", default="", help="alternatives to time beside it: compile, channels_last, bf16, sdpa"
    )
    parser.add_argument("--step", type=int, metavar="N", help="calls, or kernels, of the step with this number")
    parser.add_argument("--limit", type=row_count, metavar="N", help="so many variants, the longest first")
    parser.add_argument("--seconds", type=float, default=10.0, help="seconds of timing for each (default: 10)")
    parser.add_argument(
        "--noise", type=float, default=5.0, metavar="PERCENT", help="noise up to which times are given (default: 5)"
    )
    completes_files(
        parser.add_argument("--script", metavar="FILE", help="write a program that does it again, and time nothing")
    )
    add_force(parser)
    parser.add_argument("--python", default=sys.executable, metavar="PATH", help="the Python that has torch")
    parser.add_argument("--timeout", type=float, default=900.0, metavar="S", help="give up after S seconds")
    parser.add_argument("--format", choices=("table", "json"), default="table", help="what to print (default: table)")
    add_opening(parser)


def run(options: argparse.Namespace) -> int:
    """List variants, time some or write a program. Returns the exit code.

    Raises: UsageError, Unanswerable; CannotRun or RunFailed where the child fails; TraceError for the file.
    """
    # These load numpy, which `--help` must not wait for.
    from tracetui_workloads.recording.launcher import record_now
    from tracetui_workloads.verifying.task import CHECK, SCRIPT, TIME, requested

    from tracetui.drawing.text.envelope import json_text
    from tracetui.drawing.text.verify_text import coverage_lines, verified_lines, verify_document
    from tracetui.linking.links import op_rows
    from tracetui.linking.placement import within
    from tracetui.tables.call_variants import call_variants, chosen_variants, read_alternatives, task_fields
    from tracetui.writing.output import require_writable, write_text

    alternatives = read_alternatives(options.vs)
    if not (0 < options.seconds < 1e4 and 0 < options.noise < 1e6):
        raise UsageError("--seconds and --noise must be above 0.")
    if options.op is None and (alternatives or options.script):
        raise UsageError("--vs and --script are about one operator: name it behind the trace.")
    if options.script:
        require_writable(options.script, [(options.trace, "the trace")], options.force)
    trace = read_trace(options.trace, opening(options))
    if options.op is None:
        kind, variants = CHECK, call_variants(trace, within(trace, op_rows(trace), options.step))
        asked = variants
    else:
        kind = SCRIPT if options.script else TIME
        variants = chosen_variants(trace, options.op, options.step)
        asked = variants[: options.limit or DEFAULT_VARIANTS]
    fields = task_fields(trace, asked[:MAX_VARIANTS], kind == TIME)
    fields |= {"alternatives": alternatives, "seconds": options.seconds, "max_noise": options.noise / 100}
    with requested(kind, **fields) as request, RecordingProgress("verify") as bar:
        outcome = record_now(request, bar.hear, python=options.python, timeout=options.timeout or None)
    if failure := outcome.failure:
        if outcome.exit_code in ERRORS:
            raise ERRORS[outcome.exit_code](str(failure))
        print_failure(failure)
        return outcome.exit_code
    if options.script:
        answer = outcome.metadata["operators"][0]
        if answer["why"] is not None:
            raise Unanswerable(f"{asked[0].name} cannot be built again: {answer['why']}.")
        write_text(options.script, answer["script"], options.force)
        return 0
    document = verify_document(trace, asked, outcome.metadata, kind == TIME)
    if options.format == "json":
        sys.stdout.write(json_text("verify", document, indented=True))
    elif kind == CHECK:
        limit = DEFAULT_ROWS if options.limit is None else options.limit
        print("\n".join(coverage_lines(document, limit)))
        if limit < len(document["operators"]):
            remark(f"{limit} of {len(document['operators'])} variants; --limit shows more.")
    else:
        print("\n\n".join("\n".join(verified_lines(row, document["machine"])) for row in document["operators"]))
        if len(asked) < len(variants):
            remark(f"{len(asked)} of {len(variants)} variants of {asked[0].name}; --limit shows more.")
    return int(kind == TIME and any(row["why"] or row.get("refused") for row in document["operators"]))
