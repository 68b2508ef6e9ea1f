"""`tracetui run WORKLOAD --compare`: record several variants one after the other, then compare them.

Two are compared in sentences, more in one table, each with the first; JSON compares each with the one before it.

Standard output is the paths of the traces, a line each as soon as it is there; what the comparison says goes to
standard error. A variant that cannot run here, or fails, does not keep the others from being recorded."""

from __future__ import annotations

import argparse
import json
import shlex
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, permutations
from typing import TYPE_CHECKING, Any

from tracetui_workloads.recording.launcher import BadRequest, Outcome, Request, keep_times, plan_variants

from tracetui.cli import run as run_command
from tracetui.cli.inputs import read_sides, read_trace
from tracetui.cli.verify import aligned, print_lesson, print_verification, require_expectations, verify, workload_of
from tracetui.cli.verify import document as verify_document
from tracetui.errors import CannotRun, RunFailed, UsageError
from tracetui.opening.trace_opening import SideName
from tracetui.text import clean

if TYPE_CHECKING:
    from pathlib import Path

    from tracetui.linking.complete_steps import UnprofiledTime
    from tracetui.verification import Verification


MAX_NAMES = 6
"""Maximum number of weights and inputs named in a sentence."""


@dataclass(frozen=True)
class RecordedVariant:
    """One variant and what became of it."""

    request: Request
    outcome: Outcome
    verification: Verification | None = None

    @property
    def name(self) -> str:
        """The variant's."""
        return self.request.variant

    @property
    def path(self) -> Path:
        """The trace, of several ranks that of the first.

        Raises: ValueError where there is none.
        """
        if not self.outcome.traces:
            raise ValueError(f"{self.name} was not recorded")
        return self.outcome.traces[0]


@dataclass(frozen=True)
class SharedOperands:
    """Which weights and inputs the variants have in common, by name."""

    same: Sequence[str]
    different: Sequence[str]
    """Those that not every variant has with the same numbers."""


@dataclass(frozen=True)
class VerifiedPair:
    """Two variants, and what the workload promises of them."""

    a: RecordedVariant
    b: RecordedVariant
    verification: Verification


@dataclass(frozen=True)
class Statement:
    """What the comparison of two variants says."""

    a: RecordedVariant
    b: RecordedVariant
    sentences: Sequence[str]


def run(options: argparse.Namespace) -> int:
    """Record the variants, say what they have in common, and compare them. Returns the exit code.

    Raises: UsageError; CannotRun or RunFailed when fewer than two were recorded.
    """
    requests = requests_of(options)
    for request in requests:
        if options.verify or options.guess:
            require_expectations(request.workload, "--verify" if options.verify else "--guess")
    variants = timed_in_turns(list(record_all(requests, options)), options)
    recorded = [variant for variant in variants if variant.outcome.path]
    is_enough = len(recorded) > 1 and not ends(variants[-1].outcome)
    is_opened = options.open and not (options.verify or options.json) and run_command.has_terminal()
    is_printed = is_enough and not is_opened
    compared = statements(recorded) if is_printed and (options.json or len(recorded) == 2) else []
    contrasted = list(verified_pairs(options.workload, recorded)) if options.verify and is_enough else []
    if options.json:
        print(json.dumps(document(variants, compared, contrasted), indent=2))
    if not is_enough:
        return _give_up(variants)
    if options.verify and not options.json:
        _print_pairs(options.workload, contrasted)
    if options.guess:
        # Loads numpy, which a recording need not wait for.
        from tracetui.cli.verify import guess_variants

        guess_variants([each.request.workload for each in recorded], [each.outcome for each in recorded])
    lines = table_lines(recorded) if is_printed and len(recorded) > 2 else statement_lines(compared)
    if any(each.outcome.ranks for each in recorded):
        print("tracetui: Of each variant the trace of rank 0 is compared.", file=sys.stderr)
    for line in [f"tracetui: {operands_sentence(recorded)}", *lines]:
        print(clean(line), file=sys.stderr)
    code = open_all([str(variant.path) for variant in recorded]) if is_opened else 0
    return code or exit_code(variants, contrasted)


def requests_of(options: argparse.Namespace) -> list[Request]:
    """What the command line asks for, one request for each variant.

    Raises: UsageError.
    """
    words = [word.strip() for word in options.compare.split(",") if word.strip()]
    given, argv = run_command.parameters_of(options), ["tracetui", *sys.argv[1:]]
    chosen = run_command.given_options(options)
    try:
        return plan_variants(options.workload, words, given, chosen, options.out, argv, options.table, options.force)
    except BadRequest as error:
        raise UsageError(str(error)) from error


def record_all(requests: Sequence[Request], options: argparse.Namespace) -> Iterator[RecordedVariant]:
    """Record one after the other and print the path of each; ends early after a mistake and after ctrl+c."""
    remarks: set[str] = set()
    for number, request in enumerate(requests, 1):
        outcome = run_command.record(request, options, f"{number}/{len(requests)}", remarks)
        verification = None
        if outcome.path is not None:
            if not options.json:
                print(clean(str(outcome.path)), flush=True)
            if options.verify:
                verification = _verified(request, outcome, options)
        elif outcome.failure and not ends(outcome):
            run_command.tell_details(outcome.failure, options)
            print(f"tracetui: {clean(f'{request.variant}: {outcome.failure}')}", file=sys.stderr)
        yield RecordedVariant(request, outcome, verification)
        if outcome.too_late or (outcome.failure and outcome.failure.ends_all):
            return


def timed_in_turns(variants: list[RecordedVariant], options: argparse.Namespace) -> list[RecordedVariant]:
    """The variants with times without the profiler that were measured in turns, also in their traces.

    What was not timed in turns keeps the time of its own recording.
    """
    timed = [each for each in variants if isinstance(each.outcome.metadata.get("unprofiled"), Mapping)]
    if len(timed) < 2 or ends(variants[-1].outcome):
        return variants
    found = dict(zip(map(id, timed), run_command.time_all([each.request for each in timed], options), strict=True))
    return [_with_times(each, found[id(each)]) if id(each) in found else each for each in variants]


def _with_times(variant: RecordedVariant, timed: Outcome) -> RecordedVariant:
    """The variant with its time, or a warning why it keeps the one of its recording."""
    reason = str(timed.failure or "")
    if not reason:
        try:
            return replace(variant, outcome=keep_times(variant.outcome, timed))
        except OSError as error:
            reason = f"{variant.path} cannot be written: {error.strerror}."
    print(f"tracetui: {clean(f'{variant.name} was not timed in turns with the others: {reason}')}", file=sys.stderr)
    return variant


def ends(outcome: Outcome) -> bool:
    """Whether nothing is compared after it: a mistake in the command, or somebody stopped it."""
    return outcome.is_cancelled or outcome.exit_code == UsageError.exit_code


def operands(recorded: Sequence[RecordedVariant]) -> SharedOperands:
    """Which weights and inputs the variants share, by the digests in their traces."""
    known = [dict(variant.outcome.metadata.get("operands") or {}) for variant in recorded]
    names = sorted({name for each in known for name in each})
    same = [name for name in names if len({each.get(name) for each in known}) == 1]
    return SharedOperands(same, [name for name in names if name not in same])


def operands_sentence(recorded: Sequence[RecordedVariant]) -> str:
    """The same as a sentence."""
    shared = operands(recorded)
    if shared.different:
        same = f" The same: {in_words(shared.same)}." if shared.same else ""
        return f"Weights or inputs that are not the same in all variants: {in_words(shared.different)}.{same}"
    if shared.same:
        return f"The weights and inputs are the same in all variants: {in_words(shared.same)}."
    return "Whether weights and inputs are the same in all variants is not known: none has a name."


def in_words(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    shown = ", ".join(names[:MAX_NAMES])
    return f"{shown} and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else shown


def statements(recorded: Sequence[RecordedVariant]) -> list[Statement]:
    """What the comparison of each variant with the one before it says.

    Raises: TraceError for a trace that cannot be read.
    """
    # These load numpy, which a recording need not wait for.
    from tracetui.comparing.statement import comparison

    sides = read_sides([SideName(str(variant.path)) for variant in recorded])
    pairs = zip(pairwise(recorded), pairwise(sides), strict=True)
    return [Statement(a, b, comparison(side_a, side_b).statement) for (a, b), (side_a, side_b) in pairs]


def statement_lines(statements: Sequence[Statement]) -> Iterator[str]:
    """The statements as lines, each below the command that says it again."""
    for each in statements:
        yield f"tracetui compare {shlex.quote(str(each.a.path))} {shlex.quote(str(each.b.path))}"
        yield from (f"  {sentence}" for sentence in each.sentences)


def table_lines(recorded: Sequence[RecordedVariant]) -> list[str]:
    """Three variants or more in one table, each compared with the first, and how to see a pair in full.

    Raises: TraceError for a trace that cannot be read.
    """
    # These load numpy and rich, which a recording need not wait for.
    from tracetui.cli.compare import several_shown
    from tracetui.drawing.text.comparison_text import several_as_plain

    names = [SideName(str(variant.path)) for variant in recorded]
    return several_as_plain(several_shown(read_sides(names), names)).splitlines()


def verified_pairs(name: str, recorded: Sequence[RecordedVariant]) -> Iterator[VerifiedPair]:
    """What the workload promises of two of its variants, for every two that were recorded.

    Raises: TraceError for a trace that cannot be read.
    """
    # Loads numpy, which a recording need not wait for.
    from tracetui.verification import contrasts_of, verify_pair

    workload = workload_of(name)
    if workload is None:
        return
    for a, b in permutations(recorded, 2):
        expected = contrasts_of(workload, a.outcome.metadata, b.outcome.metadata)
        if expected:
            traces = read_trace(str(a.path)), read_trace(str(b.path))
            yield VerifiedPair(a, b, verify_pair(expected, traces, (_label(a), _label(b))))


def _label(variant: RecordedVariant) -> str:
    return str(variant.outcome.metadata.get("label", ""))


def _print_pairs(name: str, contrasted: Sequence[VerifiedPair]) -> None:
    """Print what is promised of two variants, then the lesson."""
    for pair in contrasted:
        print(clean(f"{pair.a.name} beside {pair.b.name}"))
        print_verification(pair.verification)
    if workload := workload_of(name):
        print_lesson(workload)


def document(
    variants: Sequence[RecordedVariant], compared: Sequence[Statement], contrasted: Sequence[VerifiedPair] = ()
) -> dict[str, object]:
    """Everything for a script: each variant with its outcome, what they share, and each beside the one before it."""
    recorded = [variant for variant in variants if variant.outcome.path]
    common = operands(recorded) if len(recorded) > 1 else SharedOperands((), ())
    return {
        "variants": [_document(variant) for variant in variants],
        "operands": {"same": list(common.same), "different": list(common.different)},
        "comparisons": [
            {"a": each.a.name, "b": each.b.name, "paths": [str(each.a.path), str(each.b.path)]}
            | {"statement": list(each.sentences)}
            for each in compared
        ],
        "contrasts": [
            {"a": pair.a.name, "b": pair.b.name, "verification": verify_document(pair.verification)}
            for pair in contrasted
        ],
    }


def exit_code(variants: Sequence[RecordedVariant], contrasted: Sequence[VerifiedPair] = ()) -> int:
    """The exit code when enough was recorded to compare: a failure before a broken promise."""
    if any(variant.outcome.exit_code == RunFailed.exit_code for variant in variants):
        return RunFailed.exit_code
    broken = any(variant.verification and not variant.verification.holds for variant in variants)
    broken = broken or any(not pair.verification.holds for pair in contrasted)
    return run_command.DOES_NOT_HOLD if broken else 0


def open_all(paths: list[str]) -> int:
    """Open two beside each other in the app, or more in a table, each compared with the first."""
    # Textual takes a third of a second to import.
    from tracetui.ui.app import compare_all

    return compare_all(paths)


def _give_up(variants: Sequence[RecordedVariant]) -> int:
    """Say why there is no comparison; returns the exit code of what stopped it.

    Raises: UsageError, CannotRun or RunFailed for everything else.
    """
    last = variants[-1].outcome
    if last.is_cancelled:
        print(f"tracetui: {clean(str(last.failure or 'Cancelled.'))}", file=sys.stderr)
        return 128 + (last.stopped_by or signal.SIGINT)
    if last.exit_code == UsageError.exit_code:
        raise UsageError(f"{variants[-1].name}: {last.failure}")
    recorded = [variant.name for variant in variants if variant.outcome.path]
    reason = f"Only {recorded[0]} was recorded" if recorded else "No variant was recorded"
    cannot_run = all(variant.outcome.exit_code in (0, CannotRun.exit_code) for variant in variants)
    raise (CannotRun if cannot_run else RunFailed)(f"{reason}: there is nothing to compare.")


def _verified(request: Request, outcome: Outcome, options: argparse.Namespace) -> Verification:
    """What the variant's workload promises, looked up in its trace and printed."""
    verification = verify(require_expectations(request.workload), outcome)
    if not options.json:
        print_verification(verification)
    return verification


def _document(variant: RecordedVariant) -> dict[str, object]:
    more = {"verification": verify_document(variant.verification)} if variant.verification else {}
    return {"variant": variant.name, **run_command.document(variant.outcome), **more}


# `tracetui run WORKLOAD --bench`: the time of a step without the profiler; of several variants in turns.

BENCH_SECONDS = 10.0
"""Seconds for each variant, unless `--time-seconds` says otherwise."""


def run_bench(options: argparse.Namespace) -> int:
    """Time the workload, or its variants in turns, and print the times. Returns the exit code.

    Raises: UsageError, CannotRun or RunFailed when nothing was timed.
    """
    requests = bench_requests(options)
    outcomes = run_command.time_all(requests, options)
    if options.json:
        rows = zip(requests, outcomes, strict=True)
        print(json.dumps([bench_document(request, outcome) for request, outcome in rows], indent=2))
    else:
        timed = [(name_of(request), times_of(outcome)) for request, outcome in zip(requests, outcomes, strict=True)]
        print("\n".join(lines([(name, time) for name, time in timed if time is not None])))
    return _exit_code(requests, outcomes, options)


def bench_requests(options: argparse.Namespace) -> list[Request]:
    """What is timed: the workload, or each of its variants.

    Raises: UsageError, also for options that are about a trace.
    """
    if options.verify:
        raise UsageError("--bench writes no trace that --verify could look at: leave one of them out.")
    if options.time_seconds is None:
        options.time_seconds = BENCH_SECONDS
    elif not options.time_seconds:
        raise UsageError("--bench needs some --time-seconds.")
    if options.compare is None:
        return [run_command.request_of(options)]
    # Loads asyncio, which `--help` need not wait for.

    return requests_of(options)


def lines(timed: Sequence[tuple[str, UnprofiledTime]]) -> list[str]:
    """A line per variant: the median, its interval, and how it compares with the first."""
    from tracetui.model.quantities import duration

    cells = []
    for index, (name, time) in enumerate(timed):
        interval = ABSENT_INTERVAL
        if time.low_us is not None and time.high_us is not None:
            interval = f"{duration(1000 * time.low_us)} to {duration(1000 * time.high_us)}"
        versus = against_first(timed[0], time) if index else ""
        cells.append((name, f"{duration(1000 * time.median_us)} per step", interval, versus))
    return aligned(cells) if cells else []


ABSENT_INTERVAL = "too few samples for an interval"


def against_first(first: tuple[str, UnprofiledTime], time: UnprofiledTime) -> str:
    """How many times as fast or long as the first; nothing is claimed where the intervals overlap."""
    from tracetui.linking.complete_steps import time_ratio

    ratio = time_ratio(first[1], time)
    if ratio is None or not ratio.is_certain:
        return f"cannot tell from {first[0]}"
    if ratio.median < 1:
        return f"{1 / ratio.median:.2f} times as fast as {first[0]} ({1 / ratio.high:.2f} to {1 / ratio.low:.2f})"
    return f"{ratio.median:.2f} times as long as {first[0]} ({ratio.low:.2f} to {ratio.high:.2f})"


def times_of(outcome: Outcome) -> UnprofiledTime | None:
    """The time of an outcome, None where it failed."""
    from tracetui.linking.complete_steps import time_of_metadata

    return time_of_metadata(outcome.metadata)


def name_of(request: Request) -> str:
    """The variant, or the workload where there is one only."""
    return request.variant or request.workload


def bench_document(request: Request, outcome: Outcome) -> Mapping[str, Any]:
    """One variant for a script."""
    described = run_command.document(outcome)
    return {
        "variant": name_of(request),
        "device": described["device"],
        "notes": described["notes"],
        "failure": described["failure"],
        "unprofiled": outcome.metadata.get("unprofiled"),
        "load": outcome.metadata.get("load"),
    }


def _exit_code(requests: Sequence[Request], outcomes: Sequence[Outcome], options: argparse.Namespace) -> int:
    """The exit code, 0 where everything was timed.

    Raises: UsageError, CannotRun or RunFailed where the only one, or every one, was not.
    """
    failed = [(each, outcome) for each, outcome in zip(requests, outcomes, strict=True) if outcome.failure]
    for request, outcome in failed:
        if outcome.failure and (len(failed) < len(requests) or options.json or outcome.is_cancelled):
            print(f"tracetui: {clean(f'{name_of(request)}: {outcome.failure}')}", file=sys.stderr)
    if not failed:
        return 0
    worst = failed[0][1]
    if worst.is_cancelled:
        return 128 + (worst.stopped_by or signal.SIGINT)
    if len(failed) == len(requests) and not options.json and worst.exit_code in run_command.ERRORS:
        raise run_command.ERRORS[worst.exit_code](str(worst.failure))
    return worst.exit_code
