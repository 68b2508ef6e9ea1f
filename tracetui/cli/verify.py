"""Build an operator of a trace again from its recorded inputs, and time it on this machine beside alternatives.

OP is an operator's name, whose longest variant by inputs is taken, or a view string such as k42 (the operator of the
42nd kernel of a step) or e120. Without it, all variants are listed, each with the view string that chooses it, and
what cannot be built again. It runs in a
process of its own with torch, with caches cleared, everything in turns; where the machine is too noisy to tell the
operator from itself no times are given. Inputs have random numbers: nothing of the recorded data is in a trace."""

from __future__ import annotations

import argparse
import re
import sys

from tracetui.cli.arguments import Command, add_force, add_opening, add_trace, completes_files, opening, row_count
from tracetui.cli.inputs import read_trace
from tracetui.cli.recording import ERRORS, print_failure
from tracetui.cli.streams import RecordingProgress, remark
from tracetui.errors import Unanswerable, UsageError

MAX_NAMED = 5
"""Maximum other variants whose view strings are named."""
EXAMPLES = """\
examples:
  tracetui verify trace.json                             what can be built again, and why not the rest
  tracetui verify trace.json addmm --vs compile,bf16     its longest variant, against alternatives
  tracetui verify trace.json k42 --script again.py       a program that does the same, to change or send

exit codes:
  0 done; 1 the machine is too noisy, or it cannot be built again; 2 not understood; 3 cannot run here (no torch, or
  the device is another); 4 failed; 130 cancelled"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tracetui verify`."""
    parser.epilog = EXAMPLES
    add_trace(parser)
    parser.add_argument("op", metavar="OP", nargs="?", help="an operator, or a view string as k42 (default: a list)")
    parser.add_argument(
        "--vs", metavar="A,B", default="", help="alternatives to time beside it: compile, channels_last, bf16, sdpa"
    )
    parser.add_argument(
        "--noise", type=float, default=5.0, metavar="PERCENT", help="noise up to which times are given (default: 5)"
    )
    parser.add_argument(
        "--seconds", type=float, default=5.0, metavar="S", help="time for each of what is timed (default: 5)"
    )
    completes_files(
        parser.add_argument("--script", metavar="FILE", help="write a program that does it again, and time nothing")
    )
    add_force(parser)
    parser.add_argument("--limit", type=row_count, default=40, metavar="N", help="lines of the list (default: 40)")
    parser.add_argument("--python", default=sys.executable, metavar="PATH", help="the Python that has torch")
    parser.add_argument("--format", choices=("table", "json"), default="table", help="what to print (default: table)")
    add_opening(parser)


def run(options: argparse.Namespace) -> int:
    """List variants, time one or write a program. Returns the exit code.

    Raises: UsageError, Unanswerable; CannotRun or RunFailed where the child fails; TraceError for the file.
    """
    # These load numpy, which `--help` must not wait for.
    from tracetui_workloads.recording.launcher import record_now
    from tracetui_workloads.verifying.task import ALTERNATIVES, CHECK, SCRIPT, TIME, requested

    from tracetui.agents.window_text import row_of
    from tracetui.drawing.text.envelope import json_text
    from tracetui.drawing.text.verify_text import coverage_lines, verified_lines, verify_document
    from tracetui.model.viewpoint import read_view_string
    from tracetui.tables.call_variants import (
        all_variants,
        read_alternatives,
        require_buildable,
        task_fields,
        variant_at,
        variants_named,
        view_of,
    )
    from tracetui.writing.output import require_writable, write_text

    alternatives = read_alternatives(options.vs, ALTERNATIVES)
    if not 0 < options.noise < 1e6:
        raise UsageError("--noise must be above 0.")
    if not 0 < options.seconds < 1e6:
        raise UsageError("--seconds must be above 0.")
    if options.op is None and (alternatives or options.script):
        raise UsageError("--vs and --script are about one operator: name it behind the trace.")
    if options.script:
        require_writable(options.script, [(options.trace, "the trace")], options.force)
    trace = read_trace(options.trace, opening(options))
    kind = CHECK if options.op is None else SCRIPT if options.script else TIME
    if options.op is None:
        variants = all_variants(trace)
    elif re.fullmatch(r"(.*/)?[ek]\d{1,18}", options.op):
        variants = [variant_at(trace, row_of(trace, read_view_string(options.op)))]
    else:
        variants = variants_named(trace, options.op)
        if len(variants) > 1:
            views = ", ".join(view_of(trace, each) for each in variants[1 : 1 + MAX_NAMED])
            remark(f"The longest of {len(variants):,} variants by inputs; next: {views}. Without OP all are listed.")
    if kind != CHECK:
        variants = variants[:1]
        require_buildable(trace, variants[0], kind == TIME)
    fields = task_fields(trace, [each for each in variants if not each.why])
    if not fields["operators"]:
        raise Unanswerable("There are no operators of aten in this trace, and no others can be built again.")
    fields |= {"alternatives": alternatives, "max_noise": options.noise / 100, "seconds": options.seconds}
    with requested(kind, **fields) as request, RecordingProgress("verify", in_lines=True) as bar:
        outcome = record_now(request, bar.hear, python=options.python)
    if failure := outcome.failure:
        if outcome.exit_code in ERRORS:
            raise ERRORS[outcome.exit_code](str(failure))
        print_failure(failure)
        return outcome.exit_code
    document = verify_document(trace, variants, outcome.metadata, kind == TIME)
    row = document["operators"][0]
    if options.script:
        if row["why"] is not None:
            raise Unanswerable(f"{row['op']} cannot be built again: {row['why']}.")
        write_text(options.script, outcome.metadata["operators"][0]["script"], options.force)
        return 0
    if options.format == "json":
        sys.stdout.write(json_text("verify", document, indented=True))
    elif kind == TIME:
        print("\n".join(verified_lines(row, document["machine"], "`--noise PERCENT` allows more")))
    else:
        print("\n".join(coverage_lines(document, options.limit)))
        if options.limit < len(document["operators"]):
            remark(f"{options.limit} of {len(document['operators'])} variants; --limit shows more.")
    return int(kind == TIME and bool(row["why"] or row.get("refused")))


COMMANDS = {
    "verify": Command(
        "build an operator of a trace again, and time it here beside alternatives", __doc__, add_arguments, run
    )
}
