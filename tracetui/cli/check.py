"""Check a trace against assertions, for a CI: a line each, exit code 1 when one does not hold.

EXPR compares names of the trace with values; a name is about a step: a count must be as said in every complete one, of
other numbers the median over them counts:
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
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

from tracetui.cli.arguments import Command, add_force, add_opening, completes_files, opening, similar_options
from tracetui.cli.inputs import add_cluster, read_rank_folder, read_sides, require_no_cluster, split
from tracetui.cli.snapshots import is_snapshot_file, read_history
from tracetui.cli.streams import CountProgress, complain, print_failures
from tracetui.errors import CannotWrite, TracetuiError, UsageError
from tracetui.files import is_url
from tracetui.opening.rank_folder import is_folder
from tracetui.opening.trace_opening import SideName
from tracetui.text import clean

if TYPE_CHECKING:
    from tracetui.checking.report import Assertion, CheckReport
    from tracetui.checking.values import ExpressionError
    from tracetui.comparing.side import Side
    from tracetui.ranks.rank_set import RankSet
    from tracetui.snapshots.history import DeviceHistory

FORMATS = ("text", "json", "junit", "md")
DOES_NOT_HOLD = 1
"""Exit code when an assertion does not hold."""
MAX_ASSERTIONS = 1000
"""Maximum number of assertions in one check."""
MAX_MISTAKES = 20
"""Maximum number of expressions that are not understood and explained."""
SUMMARIES = {"md": "md", "junit": "xml"}
"""Forms of `--summary`, each with the ending of its file."""
SUMMARY_FILE = "tracetui-check"
"""The file of a summary that names none, without its ending."""
STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
"""Names the file in which GitHub Actions looks for the summary of a job; other steps write there too."""
STANDARD_STREAM = "-"
"""Stands for standard input or output in place of a path."""

EXAMPLES = """\
examples:
  tracetui check trace.json.gz 'kernels_per_step == 5' 'gpu_idle_pct < 10'
  tracetui check trace.json.gz -f limits.txt --summary junit=report.xml --summary md
  tracetui check new.json.gz --baseline main.json.gz                  nothing slower than before
  tracetui check new.json.gz --history traces/                        nothing worse than in the runs before
  tracetui check new.json.gz 'dur_us <= baseline.dur_us + 5%' --baseline main.json.gz
  tracetui check --names trace.json.gz                                what can be asked
  tracetui check snapshot.pickle 'peak_bytes < 60GiB' 'ooms == 0'     a memory snapshot
  tracetui check run/ 'ranks.wait_caused_us.max < 2ms' 'ranks.missing == 0'   the ranks of a run

exit codes:
  0 all hold; 1 one does not, or the trace does not hold what it asks for, or an analysis failed, or a result cannot
  be written;
  2 an expression was not understood, or a file for results exists already (without --force) or has no folder"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tracetui check`; expressions may stand before, between and behind options."""
    parser.epilog = EXAMPLES
    # Words behind an option are no positional argument of argparse any more.
    parser.set_defaults(parameters=[])
    trace = parser.add_argument(
        "trace", metavar="TRACE", help="a trace, PATH#SCOPE, a folder of ranks, or - for standard input"
    )
    completes_files(trace)
    parser.add_argument("expressions", nargs="*", metavar="EXPR", help="an assertion, in quotes")
    source = parser.add_argument(
        "-f", dest="files", action="append", default=[], metavar="FILE", help="assertions, one a line; # is a remark"
    )
    completes_files(source)
    parser.add_argument("--names", action="store_true", help="list the names of this trace with value, unit and help")
    _add_baseline(parser.add_argument_group("beside another trace"))
    output = parser.add_argument_group("output")
    output.add_argument("--format", choices=FORMATS, default="text", help="what to print (default: text)")
    completes_files(output.add_argument("-o", dest="output", metavar="FILE", help="print into a file"))
    output.add_argument(
        "--summary",
        dest="summaries",
        action="append",
        default=[],
        metavar="md|junit[=FILE]",
        help=f"also write it as Markdown or JUnit XML, whatever is printed (default: {SUMMARY_FILE}.md or .xml; md in "
        f"GitHub Actions is added to the summary of the job)",
    )
    add_force(output)
    add_opening(parser)
    add_cluster(parser)


def _add_baseline(group: argparse._ArgumentGroup) -> None:
    base = group.add_argument(
        "--baseline", metavar="B", help="a trace to compare with; without EXPR its times and counts are the limits"
    )
    completes_files(base)
    group.add_argument(
        "--not-slower", action="append", default=[], metavar="NAME", help="NAME must not be above the baseline's"
    )
    group.add_argument("--tolerance", metavar="5%", help="differences up to that are none")
    runs = group.add_argument(
        "--history", metavar="FOLDER", help="fail where it is worse than the last runs in a folder, by more than noise"
    )
    completes_files(runs)
    group.add_argument("--strict", action="store_true", help="fail where noise hides whether something is slower")


def run(options: argparse.Namespace) -> int:
    """Print the outcome of each assertion; the exit code is 1 where one does not hold.

    Raises: UsageError for arguments that make no sense, TraceError for a file, TracetuiError for a result that cannot
    be written. Expressions that are not understood are printed here, all of them.
    """
    # Loads numpy by way of the units, which `--help` must not wait for.
    from tracetui.checking.values import ExpressionError

    _require_the_trace_first(options)
    try:
        return _names(options) if options.names else _check(options)
    except ExpressionError as mistake:
        _explain([mistake, *mistake.others])
        return mistake.exit_code


def _check(options: argparse.Namespace) -> int:
    from tracetui.checking.report import Status, tolerance_of
    from tracetui.drawing.text.check_text import render_check

    summaries = [_summary(words) for words in dict.fromkeys(options.summaries)]
    assertions, mistakes = _assertions(options)
    if options.tolerance is not None:
        tolerance_of(options.tolerance)
    _require_writable(options, summaries)
    if mistakes:
        _explain(mistakes)
        return _explain_others(options, assertions)
    report = _report(options, assertions)
    texts = [(path, render_check(report, form)) for form, path in summaries]
    _write_results(render_check(report, options.format), options, texts)
    broken = [outcome.why for outcome in report.outcomes if outcome.status == Status.ERROR]
    return print_failures([*broken, *report.failures]) or (0 if report.passes else DOES_NOT_HOLD)


def _report(options: argparse.Namespace, assertions: list[Assertion]) -> CheckReport:
    if is_folder(options.trace):
        from tracetui.checking.rank_and_snapshot_checks import rank_report

        return rank_report(_ranks(options), assertions)
    if is_snapshot_file(options.trace):
        from tracetui.checking.rank_and_snapshot_checks import snapshot_report

        return snapshot_report(_history(options), assertions)
    from tracetui.checking.report import report, usual

    side, baseline = _sides(options)
    if baseline is not None and not assertions:
        assertions = usual(side, baseline)
    checked = report(side, assertions, baseline, options.tolerance, options.strict)
    return checked if options.history is None else _with_history(checked, side, options)


def _with_history(checked: CheckReport, side: Side, options: argparse.Namespace) -> CheckReport:
    """The report with an outcome for each measure that must not be worse than in the last runs of a folder.

    Raises: UsageError for a part of a trace, of which runs are not.
    """
    from dataclasses import replace

    from tracetui.checking.report import CheckOutcome, Leaf, Status
    from tracetui.checking.values import Amount, unit_of
    from tracetui.comparing.noise import Change
    from tracetui.history.digest import digest
    from tracetui.history.series import history, like, run_of, verdicts
    from tracetui.model.quantities import quantity
    from tracetui.opening.rank_reading import SummaryWork

    if side.scope:
        raise UsageError(f"--history is for a whole trace, and #{side.scope} is a part of one.")
    with CountProgress("traces") as progress:
        known = history(options.history, work=SummaryWork(uses_cache=not options.no_cache), progress=progress.update)
    run, series = run_of(digest(side.trace), side.trace.path or options.trace, options.history), None
    series = like([each.without(run) for each in known.series], run)
    if series is None:
        why = f"No run in {options.history} has the program, the device and the steps of this trace."
        if like(known.series, run) is not None:
            why = f"The runs in {options.history} that are like this trace are copies of it, or were recorded later."
        outcome = CheckOutcome("not worse than before", Status.UNDECIDED, (), why)
        return replace(checked, outcomes=(*checked.outcomes, outcome), remarks=(*checked.remarks, *known.left_out))
    outcomes = []
    for each in verdicts(series, run):
        level, unit = each.before, unit_of(each.unit)
        status = {Change.MORE: Status.FAILS, Change.WITHIN_NOISE: Status.UNDECIDED}.get(each.change, Status.HOLDS)
        count = level.end - level.first
        limit = Amount(level.median + (0.0 if level.noise != level.noise else level.noise), unit)
        leaf = Leaf(each.name, int(status is Status.HOLDS), (Amount(each.value, unit),), ("<=", limit))
        few = "too few to tell their noise" if level.noise != level.noise else "which their noise hides"
        why = f"the {count} runs from {each.runs[0]} on have {{}}, {few}" if status is Status.UNDECIDED else ""
        why = why.format(quantity(level.median, each.unit))
        outcomes.append(CheckOutcome(f"{each.name}, {count} runs before", status, (leaf,), why))
    return replace(checked, outcomes=(*checked.outcomes, *outcomes), remarks=(*checked.remarks, *known.left_out))


def _ranks(options: argparse.Namespace) -> RankSet:
    """The set of ranks in the folder that is checked.

    Raises: UsageError for options that are those of one trace.
    """
    if options.baseline is not None:
        raise UsageError("A set of ranks has no baseline: --baseline is for one trace.")
    if options.history is not None:
        raise UsageError("A set of ranks has no history here: --history is for one trace.")
    return read_rank_folder(options.trace, options)


def _history(options: argparse.Namespace) -> DeviceHistory:
    """The device of a memory snapshot that is checked.

    Raises: UsageError for options that are those of a trace.
    """
    if options.baseline is not None:
        raise UsageError("A memory snapshot has no baseline: `tracetui compare` prints what differs between two.")
    return read_history(options.trace, options)


def _explain_others(options: argparse.Namespace, assertions: list[Assertion]) -> int:
    """Explain what else is wrong, once some expressions could not be read; names are known by the trace alone."""
    from tracetui.checking.values import ExpressionError

    try:
        if assertions:
            _report(options, assertions)
    except ExpressionError as mistake:
        _explain([mistake, *mistake.others])
    except TracetuiError as error:
        complain(clean(str(error)))
    return UsageError.exit_code


def _names(options: argparse.Namespace) -> int:
    """Print the names that can be used; an expression beside them makes no sense."""
    from tracetui.checking.namespace import names
    from tracetui.drawing.text.check_text import names_text
    from tracetui.drawing.text.export import render

    if options.format == "junit" or options.summaries:
        raise UsageError("--names has no JUnit form and no summary: choose --format text, json or md.")
    _require_writable(options)
    if is_folder(options.trace):
        from tracetui.checking.rank_and_snapshot_checks import rank_names

        if options.format != "text":
            raise UsageError("The names of a set of ranks are printed as text alone.")
        _write_results(names_text(rank_names(_ranks(options))), options)
        return 0
    if is_snapshot_file(options.trace):
        from tracetui.checking.rank_and_snapshot_checks import snapshot_names

        if options.format != "text":
            raise UsageError("The names of a memory snapshot are printed as text alone.")
        _write_results(names_text(snapshot_names(_history(options))), options)
        return 0
    side, _ = _sides(options)
    table = names(side)
    if options.format == "text":
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() and not options.output else None
        _write_results(names_text(table, width), options)
    else:
        _write_results(render(table, side.trace, "names", options.format), options)
    return print_failures(table.failures)


def _assertions(options: argparse.Namespace) -> tuple[list[Assertion], list[ExpressionError]]:
    """Everything that is to be checked, once each, in the order: given as words, from files, not slower.

    And the mistakes in texts that are no expression. Raises: UsageError where nothing is asked, or too much.
    """
    from tracetui.checking.report import assertion, beside
    from tracetui.checking.values import ExpressionError

    texts = [(text, "") for text in (*options.expressions, *options.parameters)]
    for path in options.files:
        texts += _lines(path, options.trace)
    _require_a_question(options, len(texts))
    assertions: list[Assertion] = []
    mistakes: list[ExpressionError] = []
    for text, source in texts:
        try:
            assertions.append(assertion(text, source))
        except ExpressionError as mistake:
            mistakes.append(mistake)
    words = [*options.expressions, *options.parameters]
    # Words that are an expression together, and some of which are none alone.
    if mistakes and len(words) > 1 and not any(" " in word for word in words) and _is_understood(" ".join(words)):
        quoted = shlex.quote(" ".join(words))
        raise UsageError(f"Quote the expression, for the shell takes it apart: {quoted}.")
    assertions += map(beside, options.not_slower)
    # Readers of JUnit take two cases of one name for one.
    return list(dict.fromkeys(assertions)), mistakes


def _require_a_question(options: argparse.Namespace, count: int) -> None:
    """Raises: UsageError where nothing is asked, or too much, or what needs a baseline that there is not."""
    unknown = [word for word in options.parameters if word.startswith("-") and " " not in word]
    if unknown:
        meant = similar_options(unknown[0], options.known_options)
        hint = f"Did you mean {' or '.join(meant)}?" if meant else "`tracetui check --help` lists them."
        raise UsageError(f"There is no option {unknown[0]}. {hint}")
    if count > MAX_ASSERTIONS:
        raise UsageError(f"{count:,} expressions are too many for one check: at most {MAX_ASSERTIONS:,}.")
    if (options.not_slower or options.tolerance) and options.baseline is None:
        raise UsageError("--not-slower and --tolerance need a trace to compare with: --baseline B.")
    if options.strict and options.baseline is None and options.history is None:
        raise UsageError("--strict needs a trace to compare with, --baseline B, or runs: --history FOLDER.")
    if options.history is not None and not os.path.isdir(options.history):
        raise UsageError(f"--history {options.history} is no folder: name the one that earlier traces lie in.")
    if not (count or options.not_slower or options.baseline or options.history):
        raise UsageError(
            "Say what to check, for example 'kernels == 5'; tracetui check --names TRACE lists what there is."
        )


def _require_the_trace_first(options: argparse.Namespace) -> None:
    """Raises: UsageError for a trace that stands among the expressions, or an expression where a trace should."""
    words = [*options.expressions, *options.parameters]
    files = [word for word in words if os.path.isfile(split(word).path)]
    if is_url(options.trace) or os.path.exists(split(options.trace).path) or options.trace == STANDARD_STREAM:
        if files:
            raise UsageError(f"{files[0]} is a file, and no expression: a trace to compare with is --baseline B.")
        return
    if files:
        quoted = " ".join(shlex.quote(word) for word in (files[0], options.trace))
        raise UsageError(f"The trace comes first: tracetui check {quoted}.")
    if _is_understood(options.trace) and any(sign in options.trace for sign in "=<>~(") and not words:
        raise UsageError(f"The trace is missing: tracetui check TRACE {shlex.quote(options.trace)}.")


def _is_understood(text: str) -> bool:
    from tracetui.checking.report import assertion
    from tracetui.checking.values import ExpressionError

    try:
        assertion(text)
    except ExpressionError:
        return False
    return True


def _sides(options: argparse.Namespace) -> tuple[Side, Side | None]:
    """The trace and the baseline."""
    require_no_cluster(options)
    first = split(options.trace)
    if options.baseline is None:
        return read_sides([first], opening(options))[0], None
    is_scope = options.baseline.startswith("#") and not os.path.exists(options.baseline)
    second = SideName(first.path, options.baseline[1:]) if is_scope else split(options.baseline)
    side, baseline = read_sides([first, second], opening(options))
    return side, baseline


def _lines(path: str, trace: str) -> list[tuple[str, str]]:
    """The expressions in a file, one a line and without those that are only a remark, each with file and line.

    Raises: UsageError for a file that cannot be read.
    """
    if path == STANDARD_STREAM and split(trace).path == STANDARD_STREAM:
        raise UsageError("Standard input cannot be both the trace and the assertions.")
    try:
        data = sys.stdin.buffer.read() if path == STANDARD_STREAM else Path(path).read_bytes()
        all_lines = data.decode("utf-8-sig").splitlines()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is no text in UTF-8 (byte {error.start:,}): assertions stand one a line.") from None
    title = "standard input" if path == STANDARD_STREAM else path
    numbered = ((line, f"{title}, line {number}") for number, line in enumerate(all_lines, 1))
    expressions = [(line, source) for line, source in numbered if line.split("#", 1)[0].strip()]
    if not expressions:
        raise UsageError(f"{path} holds no assertions.")
    return expressions


def _summary(words: str) -> tuple[str, str]:
    """The form of a summary and its file, which is empty where the summary of a job of GitHub Actions is meant.

    Raises: UsageError for another form, and for standard output.
    """
    form, equals, path = words.partition("=")
    if form not in SUMMARIES or (equals and not path):
        raise UsageError(f"--summary {words}: it is {' or '.join(SUMMARIES)}, or with a file of its own md=FILE.")
    if path == STANDARD_STREAM:
        raise UsageError(f"On standard output it is --format {form}; --summary takes a file.")
    if form == "md" and not path and os.environ.get(STEP_SUMMARY):
        return form, ""
    return form, path or f"{SUMMARY_FILE}.{SUMMARIES[form]}"


def _require_writable(options: argparse.Namespace, summaries: Sequence[tuple[str, str]] = ()) -> None:
    """Find out before any work whether `-o` and the summaries may be written.

    Raises: UsageError for a file that may not be written, and for two results in one file.
    """
    from tracetui.writing.output import require_writable

    output = [] if options.output in (None, STANDARD_STREAM) else [options.output]
    paths = [*output, *(path for _, path in summaries if path)]
    inputs = [(split(options.trace).path, "the trace")]
    if options.baseline is not None:
        inputs.append((split(options.baseline).path, "the baseline"))
    inputs += [(path, "the file of assertions") for path in options.files]
    for path in paths:
        require_writable(path, inputs, options.force)
    for a, b in combinations(paths, 2):
        if _is_one_file(a, b):
            raise UsageError(f"Two results are one file, {b}: name another, or leave one out.")


def _is_one_file(a: str, b: str) -> bool:
    from tracetui.files import open_already

    if os.path.exists(a) and os.path.exists(b):
        is_device = not os.path.isfile(a) or open_already(Path(a)) is not None
        return not is_device and os.path.samefile(a, b)
    return os.path.realpath(a) == os.path.realpath(b)


def _write_results(text: str, options: argparse.Namespace, summaries: Sequence[tuple[str, str]] = ()) -> None:
    """Print or write the results, and the summaries by path; text that cannot be written is printed.

    Raises: CannotWrite for what could not be written.
    """
    from tracetui.writing.output import append_text, write_text

    failures: list[str] = []
    is_printed = not options.output or options.output == STANDARD_STREAM
    for path, content in (*summaries, *([] if is_printed else [(options.output, text)])):
        try:
            if path:
                write_text(path, content, options.force)
            else:
                append_text(os.environ[STEP_SUMMARY], content)
        except (CannotWrite, UsageError) as error:
            failures.append(str(error))
            is_printed = is_printed or content is text
    if is_printed:
        sys.stdout.write(text)
        # What follows on standard error shall stand below it.
        sys.stdout.flush()
    if failures:
        raise CannotWrite(" ".join(failures))


def _explain(mistakes: Sequence[ExpressionError]) -> None:
    """Print each as a sentence with its place, and the expression with a caret below."""
    for mistake in mistakes[:MAX_MISTAKES]:
        source = f"{mistake.source}: " if mistake.source else ""
        complain("\n".join([clean(source + str(mistake)), *map(clean, mistake.lines_below)]))
    if len(mistakes) > MAX_MISTAKES:
        complain(f"{len(mistakes) - MAX_MISTAKES:,} more are not understood.")


COMMANDS = {"check": Command("check assertions about a trace, for a CI", __doc__, add_arguments, run)}
