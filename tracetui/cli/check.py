"""Check a trace against assertions, for a CI: a line each, exit code 1 when one does not hold.

EXPR compares names of the trace with values; a name stands for one step, the median over the complete ones:
  kernels == 5                         dur_us < 1.5ms                       90 <= summary.gpu_busy_pct <= 100
  op("aten::t").calls == 0             kernel("gemm").total_us < 200us      verdict ~ "compute"
  max(steps.dur_us) < 1.2 * median(steps.dur_us)                            sum(kernels.dur_us, family == "gemm") < 1ms
  count(kernels, name ~ "triton") > 0  findings("major") == 0 and doubts == 0
What the trace does not hold makes an assertion fail. `tracetui check --names TRACE` lists every name with its value;
docs/check.md has the whole language. TRACE may have a scope: trace.json#3 is a step, 'trace.json#forward' a name."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tracetui.cli.check_files import STANDARD, lines, refuse_outputs, write_results
from tracetui.cli.completion import completes_files
from tracetui.cli.reading import printable, read
from tracetui.cli.sides import split
from tracetui.errors import TracetuiError, UsageError

if TYPE_CHECKING:
    from tracetui.analysis.checking.mistake import Mistake
    from tracetui.analysis.checking.report import Report
    from tracetui.analysis.checking.verdict import Assertion
    from tracetui.analysis.comparing.sides.side import Side
    from tracetui.model.trace import Trace

HELP = "check assertions about a trace, for a CI"

FORMATS = ("text", "json", "junit", "md")
DOES_NOT_HOLD = 1
"""Exit code when an assertion does not hold."""
MOST = 1000
"""Assertions of one check."""
TOLD = 20
"""So many that are not understood are told."""

EXAMPLES = """\
examples:
  tracetui check trace.json.gz 'kernels_per_step == 5' 'gpu_idle_pct < 10'
  tracetui check trace.json.gz -f limits.txt --junit report.xml
  tracetui check new.json.gz --baseline main.json.gz                  nothing slower than before
  tracetui check new.json.gz 'dur_us <= baseline.dur_us + 5%' --baseline main.json.gz
  tracetui check --names trace.json.gz                                what can be asked

exit codes:
  0 all hold; 1 one does not, or the trace does not hold what it asks for; 2 an expression was not understood"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tracetui check`; expressions may stand before, between and behind options."""
    parser.epilog = EXAMPLES
    parser.allow_abbrev = False
    # Words behind an option are no positional argument of argparse any more.
    parser.set_defaults(parameters=[])
    trace = parser.add_argument("trace", metavar="TRACE", help="a trace, PATH#SCOPE, or - for standard input")
    completes_files(trace)
    parser.add_argument("expressions", nargs="*", metavar="EXPR", help="an assertion, in quotes")
    source = parser.add_argument(
        "-f", dest="files", action="append", default=[], metavar="FILE", help="assertions, one a line; # is a remark"
    )
    completes_files(source)
    parser.add_argument("--names", action="store_true", help="list the names of this trace with value, unit and help")
    _add_baseline(parser.add_argument_group("beside another trace"))
    _add_output(parser.add_argument_group("output"))
    parser.add_argument("--steps-by", metavar="NAME", help="an annotation that marks the steps, where there are none")
    parser.add_argument("--device", metavar="NAME", help="what the GPU is, where the trace does not say: H100")


def _add_baseline(group: argparse._ArgumentGroup) -> None:
    base = group.add_argument(
        "--baseline", metavar="B", help="a trace to compare with; without EXPR its times and counts are the limits"
    )
    completes_files(base)
    group.add_argument(
        "--not-slower", action="append", default=[], metavar="NAME", help="NAME must not be above the baseline's"
    )
    group.add_argument("--tolerance", metavar="5%", help="differences up to that are none")
    group.add_argument("--strict", action="store_true", help="fail where noise hides whether something is slower")


def _add_output(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--format", choices=FORMATS, default="text", help="what to print (default: text)")
    completes_files(group.add_argument("-o", dest="output", metavar="FILE", help="print into a file"))
    completes_files(group.add_argument("--junit", metavar="FILE", help="also write JUnit XML, whatever is printed"))
    group.add_argument("--force", action="store_true", help="overwrite files that are no earlier result of a check")


def run(options: argparse.Namespace) -> int:
    """Print what becomes of every assertion; the exit code is 1 where one does not hold.

    Raises: UsageError for arguments that make no sense, TraceError for a file, TracetuiError for a result that cannot
    be written. Expressions that are not understood are told here, all of them.
    """
    # Loads numpy by way of the units, which `--help` must not wait for.
    from tracetui.analysis.checking.mistake import Mistake

    _require_the_trace_first(options)
    try:
        return _names(options) if options.names else _check(options)
    except Mistake as mistake:
        _tell([mistake, *mistake.others])
        return mistake.exit_code


def _check(options: argparse.Namespace) -> int:
    from tracetui.analysis.checking.report import tolerance_of
    from tracetui.drawing.text.check_text import junit, render_check

    assertions, mistakes = _assertions(options)
    if options.tolerance is not None:
        tolerance_of(options.tolerance)
    refuse_outputs(options)
    if mistakes:
        _tell(mistakes)
        return _others_too(options, assertions)
    made = _report(options, assertions)
    write_results(render_check(made, options.format), junit(made) if options.junit else None, options)
    return 0 if made.passes else DOES_NOT_HOLD


def _report(options: argparse.Namespace, assertions: list[Assertion]) -> Report:
    from tracetui.analysis.checking.report import report, usual

    side, baseline = _sides(options)
    if baseline is not None and not assertions:
        assertions = usual(side, baseline)
    return report(side, assertions, baseline, options.tolerance, options.strict)


def _others_too(options: argparse.Namespace, assertions: list[Assertion]) -> int:
    """Tell what else is wrong, once some expressions could not be read; names are known by the trace alone."""
    from tracetui.analysis.checking.mistake import Mistake

    try:
        if assertions:
            _report(options, assertions)
    except Mistake as mistake:
        _tell([mistake, *mistake.others])
    except TracetuiError as error:
        print(f"tracetui: {printable(str(error))}", file=sys.stderr)
    return UsageError.exit_code


def _names(options: argparse.Namespace) -> int:
    """Print the names that can be used; an expression beside them makes no sense."""
    from tracetui.analysis.checking.namespace import names
    from tracetui.drawing.text.check_text import names_text
    from tracetui.drawing.text.export import render

    if options.format == "junit":
        raise UsageError("--names has no JUnit form: choose text, json or md.")
    refuse_outputs(options)
    side, _ = _sides(options)
    table = names(side)
    if options.format == "text":
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() and not options.output else None
        write_results(names_text(table, width), None, options)
    else:
        write_results(render(table, side.trace, "names", options.format), None, options)
    return 0


def _assertions(options: argparse.Namespace) -> tuple[list[Assertion], list[Mistake]]:
    """Everything that is to be checked, once each, in the order: given as words, from files, not slower.

    And what of it is no expression. Raises: UsageError where nothing is asked, or too much.
    """
    from tracetui.analysis.checking.mistake import Mistake
    from tracetui.analysis.checking.report import beside
    from tracetui.analysis.checking.verdict import assertion

    texts = [(text, "") for text in (*options.expressions, *options.parameters)]
    for path in options.files:
        texts += lines(path, options.trace)
    _require_a_question(options, len(texts))
    found: list[Assertion] = []
    mistakes: list[Mistake] = []
    for text, place in texts:
        try:
            found.append(assertion(text, place))
        except Mistake as mistake:
            mistakes.append(mistake)
    if mistakes:
        _require_quotes(options)
    found += map(beside, options.not_slower)
    # Readers of JUnit take two cases of one name for one.
    return list(dict.fromkeys(found)), mistakes


def _require_a_question(options: argparse.Namespace, count: int) -> None:
    """Raises: UsageError where nothing is asked, or too much, or what needs a baseline that there is not."""
    strange = [word for word in options.parameters if word.startswith("-") and " " not in word]
    if strange:
        raise UsageError(f"There is no option {strange[0]}; tracetui check --help lists them.")
    if count > MOST:
        raise UsageError(f"{count:,} expressions are too many for one check: at most {MOST:,}.")
    if (options.not_slower or options.tolerance or options.strict) and options.baseline is None:
        raise UsageError("--not-slower, --tolerance and --strict need a trace to compare with: --baseline B.")
    if not (count or options.not_slower or options.baseline):
        raise UsageError(
            "Say what to check, for example 'kernels == 5'; tracetui check --names TRACE lists what there is."
        )


def _require_the_trace_first(options: argparse.Namespace) -> None:
    """Raises: UsageError for a trace that stands among the expressions, or an expression where a trace should."""
    words = [*options.expressions, *options.parameters]
    files = [word for word in words if os.path.isfile(split(word).path)]
    if os.path.exists(split(options.trace).path) or options.trace == STANDARD:
        if files:
            raise UsageError(f"{files[0]} is a file, and no expression: a trace to compare with is --baseline B.")
        return
    if files:
        quoted = " ".join(shlex.quote(word) for word in (files[0], options.trace))
        raise UsageError(f"The trace comes first: tracetui check {quoted}.")
    if _is_understood(options.trace) and any(sign in options.trace for sign in "=<>~(") and not words:
        raise UsageError(f"The trace is missing: tracetui check TRACE {shlex.quote(options.trace)}.")


def _require_quotes(options: argparse.Namespace) -> None:
    """Raises: UsageError for words that are an expression together, and some of which are none alone."""
    words = [*options.expressions, *options.parameters]
    whole = " ".join(words)
    if len(words) > 1 and not any(" " in word for word in words) and _is_understood(whole):
        raise UsageError(f"Quote the expression, for the shell takes it apart: {shlex.quote(whole)}.")


def _is_understood(text: str) -> bool:
    from tracetui.analysis.checking.mistake import Mistake
    from tracetui.analysis.checking.verdict import assertion

    try:
        assertion(text)
    except Mistake:
        return False
    return True


def _sides(options: argparse.Namespace) -> tuple[Side, Side | None]:
    """The trace and the baseline; one file is read once."""
    from tracetui.analysis.comparing.sides.side import side

    first = split(options.trace)
    trace = _loaded(first.path, options)
    if options.baseline is None:
        return side(trace, first.scope), None
    same = options.baseline.startswith("#") and not os.path.exists(options.baseline)
    second = split(first.path + options.baseline if same else options.baseline)
    if os.path.realpath(first.path) == os.path.realpath(second.path):
        return side(trace, first.scope), side(trace, second.scope)
    return side(trace, first.scope), side(_loaded(second.path, options), second.scope)


def _loaded(path: str, options: argparse.Namespace) -> Trace:
    from tracetui.analysis.devices.limits import with_device
    from tracetui.analysis.linking.markers import with_steps

    trace = read(path)
    if options.device is not None:
        trace = with_device(trace, options.device)
    return trace if options.steps_by is None else with_steps(trace, options.steps_by)


def _tell(mistakes: Sequence[Mistake]) -> None:
    """Each as a sentence with its place, and the expression with a caret below."""
    from tracetui.analysis.checking.mistake import pointed

    for mistake in mistakes[:TOLD]:
        place = f"{mistake.place}: " if mistake.place else ""
        print(f"tracetui: {printable(place + str(mistake))}", file=sys.stderr)
        if mistake.text:
            text, caret = pointed(mistake.text, mistake.at)
            print(f"  {printable(text)}\n  {caret}", file=sys.stderr)
    if len(mistakes) > TOLD:
        print(f"tracetui: {len(mistakes) - TOLD:,} more are not understood.", file=sys.stderr)
