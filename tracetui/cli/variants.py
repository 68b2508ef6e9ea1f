"""`tracetui run WORKLOAD --compare`: record several variants one after the other, then compare them; and `--bench`.

Two are compared in sentences, more in one table, each with the first; JSON compares each with the one before it.

Standard output is the paths of the traces, a line each as soon as it is there; the comparison goes to standard error. A
variant that cannot run here, or fails, does not keep the others from being recorded."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from tracetui_workloads.recording.launcher import Outcome, Request, keep_times

from tracetui.cli import expectations
from tracetui.cli.expectations import VerificationDocument
from tracetui.cli.inputs import read_sides, read_trace
from tracetui.cli.recording import (
    DOES_NOT_HOLD,
    ERRORS,
    FailureDocument,
    RecordingDocument,
    cancel_code,
    document,
    has_terminal,
    print_details,
    print_failure,
    record,
    time_all,
)
from tracetui.cli.streams import remark
from tracetui.errors import CannotRun, RunFailed, UsageError
from tracetui.frozen import frozen
from tracetui.opening.trace_opening import SideName
from tracetui.text import aligned, clean

if TYPE_CHECKING:
    from tracetui.linking.step_kinds import UnprofiledTime
    from tracetui.verification import Verification

MAX_NAMES = 6
"""Maximum number of weights and inputs named in a sentence."""


@frozen(eq=True)
class RecordedVariant:
    """One variant and the outcome of its recording."""

    request: Request
    outcome: Outcome
    verification: Verification | None = None

    @property
    def path(self) -> Path:
        """The trace, of several ranks that of the first.

        Raises: ValueError where there is none.
        """
        if not self.outcome.traces:
            raise ValueError(f"{self.request.variant} was not recorded")
        return self.outcome.traces[0]


class VariantNames(TypedDict):
    a: str
    b: str


@frozen(eq=True)
class VariantPair:
    """Two variants side by side: the sentences of their comparison, or the expectations of the workload."""

    a: RecordedVariant
    b: RecordedVariant
    sentences: Sequence[str] = ()
    verification: Verification | None = None

    @property
    def names(self) -> VariantNames:
        """The names of both variants, for JSON."""
        return {"a": self.a.request.variant, "b": self.b.request.variant}


def compare_variants(requests: Sequence[Request], options: argparse.Namespace) -> int:
    """Record the variants, print the weights and inputs that they share, and compare them. Returns the exit code.

    Two are compared in sentences, more in one table, each with the first.
    Raises: CannotRun or RunFailed when fewer than two were recorded; TraceError for a trace that cannot be read.
    """
    variants = timed_in_turns(list(record_all(requests, options)), options)
    recorded = [variant for variant in variants if variant.outcome.path]
    is_enough = len(recorded) > 1 and not ends(variants[-1].outcome)
    is_opened = options.open and not (options.verify or options.json) and has_terminal()
    is_printed = is_enough and not is_opened
    compared: list[VariantPair] = []
    names = [SideName(str(variant.path)) for variant in recorded]
    if is_printed and (options.json or len(recorded) == 2):
        # Loads numpy, which a recording need not wait for.
        from tracetui.comparing.statement import Comparison

        sides = pairwise(read_sides(names))
        compared = [
            VariantPair(a, b, Comparison(*pair).statement)
            for (a, b), pair in zip(pairwise(recorded), sides, strict=True)
        ]
    contrasted = list(verified_pairs(options.workload, recorded)) if options.verify and is_enough else []
    if options.json:
        # Loads orjson, which `--help` must not wait for.
        from tracetui.drawing.text.envelope import json_text

        sys.stdout.write(json_text("run-compare", variants_document(variants, compared, contrasted), indented=True))
    if not is_enough:
        return _give_up(variants)
    if options.verify and not options.json:
        for pair in contrasted:
            print(clean(f"{pair.a.request.variant} beside {pair.b.request.variant}"))
            if pair.verification:
                expectations.print_verification(pair.verification)
        if workload := expectations.workload_of(options.workload):
            expectations.print_lesson(workload)
    if options.guess:
        expectations.guess_variants([each.request.workload for each in recorded], [each.outcome for each in recorded])
    if any(each.outcome.ranks for each in recorded):
        remark("Of each variant the trace of rank 0 is compared.")
    lines = [f"tracetui: {operands_sentence(recorded)}"]
    if is_printed and len(recorded) > 2:
        # These load numpy and rich, which a recording need not wait for.
        from tracetui.cli.compare import several_shown
        from tracetui.drawing.text.comparison_text import several_as_plain

        lines += several_as_plain(several_shown(read_sides(names), names)).splitlines()
    for pair in compared:
        paths = (shlex.quote(str(each.path)) for each in (pair.a, pair.b))
        lines += [f"tracetui compare {' '.join(paths)}", *(f"  {sentence}" for sentence in pair.sentences)]
    for line in lines:
        remark(clean(line), prefix="")
    if is_opened:
        # Textual takes a third of a second to import.
        from tracetui.ui.app import compare_all

        if code := compare_all([str(variant.path) for variant in recorded]):
            return code
    # A failure before a broken expectation.
    if any(variant.outcome.exit_code == RunFailed.exit_code for variant in variants):
        return RunFailed.exit_code
    verifications = [*(each.verification for each in variants), *(each.verification for each in contrasted)]
    holds = [verification.holds for verification in verifications if verification]
    return 0 if all(holds) else DOES_NOT_HOLD


def record_all(requests: Sequence[Request], options: argparse.Namespace) -> Iterator[RecordedVariant]:
    """Record one after the other and print the path of each; ends early after a mistake and after ctrl+c."""
    remarks: set[str] = set()
    for number, request in enumerate(requests, 1):
        outcome = record(request, options, f"{number}/{len(requests)}", remarks)
        verification = None
        if outcome.path is not None:
            if not options.json:
                print(clean(str(outcome.path)), flush=True)
            if options.verify:
                verification = expectations.verify(expectations.require_expectations(request.workload), outcome)
                if not options.json:
                    expectations.print_verification(verification)
        elif outcome.failure and not ends(outcome):
            print_details(outcome.failure, options)
            print_failure(outcome.failure, request.variant)
        yield RecordedVariant(request, outcome, verification)
        if outcome.too_late or (outcome.failure and outcome.failure.ends_all):
            return


def timed_in_turns(variants: list[RecordedVariant], options: argparse.Namespace) -> list[RecordedVariant]:
    """The variants with times without the profiler that were measured in turns, also in their traces.

    A variant that was not timed in turns keeps the time of its own recording, with a warning why.
    """
    timed = [each for each in variants if isinstance(each.outcome.metadata.get("unprofiled"), Mapping)]
    if len(timed) < 2 or ends(variants[-1].outcome):
        return variants
    outcomes = dict(zip(map(id, timed), time_all([each.request for each in timed], options), strict=True))
    result = []
    for variant in variants:
        times = outcomes.get(id(variant))
        reason = str(times.failure or "") if times else ""
        if times and not reason:
            try:
                variant = replace(variant, outcome=keep_times(variant.outcome, times))
            except OSError as error:
                reason = f"{variant.path} cannot be written: {error.strerror}."
        if reason:
            print_failure(f"{variant.request.variant} was not timed in turns with the others: {reason}")
        result.append(variant)
    return result


def ends(outcome: Outcome) -> bool:
    """True where nothing is compared after it: a mistake in the command, or somebody stopped it."""
    return outcome.is_cancelled or outcome.exit_code == UsageError.exit_code


def operands(recorded: Sequence[RecordedVariant]) -> tuple[list[str], list[str]]:
    """The names of weights and inputs that all variants share, by the digests in their traces, and of the others."""
    known = [dict(variant.outcome.metadata.get("operands") or {}) for variant in recorded]
    names = sorted({name for each in known for name in each})
    same = [name for name in names if len({each.get(name) for each in known}) == 1]
    return same, [name for name in names if name not in same]


def operands_sentence(recorded: Sequence[RecordedVariant]) -> str:
    same, different = operands(recorded)
    if different:
        others = f" The same: {in_words(same)}." if same else ""
        return f"Weights or inputs that are not the same in all variants: {in_words(different)}.{others}"
    if same:
        return f"The weights and inputs are the same in all variants: {in_words(same)}."
    return "Whether weights and inputs are the same in all variants is not known: none has a name."


def in_words(names: Sequence[str]) -> str:
    """The first `MAX_NAMES` names, and the number of further ones."""
    first = ", ".join(names[:MAX_NAMES])
    return f"{first} and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else first


def verified_pairs(name: str, recorded: Sequence[RecordedVariant]) -> Iterator[VariantPair]:
    """The expectations that the workload has of two variants, for all pairs that were recorded.

    Raises: TraceError for a trace that cannot be read.
    """
    # Loads numpy, which a recording need not wait for.
    from tracetui.verification import contrasts_of, verify_pair

    workload = expectations.workload_of(name)
    if workload is None:
        return
    for a, b in permutations(recorded, 2):
        if expected := contrasts_of(workload, a.outcome.metadata, b.outcome.metadata):
            traces = read_trace(str(a.path)), read_trace(str(b.path))
            label_a, label_b = (str(each.outcome.metadata.get("label", "")) for each in (a, b))
            yield VariantPair(a, b, verification=verify_pair(expected, traces, (label_a, label_b)))


class VariantDocument(RecordingDocument):
    """A variant and its recording."""

    variant: str


class OperandsDocument(TypedDict):
    """The names of weights and inputs that all variants share, and of the others."""

    same: list[str]
    different: list[str]


class ComparedVariants(VariantNames):
    """The sentences about two variants."""

    paths: list[str]
    statement: list[str]


class ContrastedVariants(VariantNames):
    """A promise of the workload about two variants."""

    verification: VerificationDocument


class VariantsDocument(TypedDict):
    """Several variants, and what came of comparing them."""

    variants: list[VariantDocument]
    operands: OperandsDocument
    comparisons: list[ComparedVariants]
    contrasts: list[ContrastedVariants]


def variants_document(
    variants: Sequence[RecordedVariant], compared: Sequence[VariantPair], contrasted: Sequence[VariantPair]
) -> VariantsDocument:
    """JSON for a script: the variants with their outcomes, their operands, and the comparisons."""
    recorded = [variant for variant in variants if variant.outcome.path]
    same, different = operands(recorded) if len(recorded) > 1 else ([], [])
    rows: list[VariantDocument] = []
    for variant in variants:
        rows.append({"variant": variant.request.variant, **document(variant.outcome)})
        if variant.verification:
            rows[-1]["verification"] = expectations.document(variant.verification)
    return {
        "variants": rows,
        "operands": {"same": same, "different": different},
        "comparisons": [
            {**pair.names, "paths": [str(pair.a.path), str(pair.b.path)], "statement": list(pair.sentences)}
            for pair in compared
        ],
        "contrasts": [
            {**pair.names, "verification": expectations.document(pair.verification)}
            for pair in contrasted
            if pair.verification
        ],
    }


def _give_up(variants: Sequence[RecordedVariant]) -> int:
    """Print why there is no comparison; returns the exit code of the recording that was cancelled.

    Raises: UsageError, CannotRun or RunFailed for everything else.
    """
    last = variants[-1].outcome
    if last.is_cancelled:
        print_failure(last.failure or "Cancelled.")
        return cancel_code(last)
    if last.exit_code == UsageError.exit_code:
        raise UsageError(f"{variants[-1].request.variant}: {last.failure}")
    recorded = [variant.request.variant for variant in variants if variant.outcome.path]
    reason = f"Only {recorded[0]} was recorded" if recorded else "No variant was recorded"
    cannot_run = all(variant.outcome.exit_code in (0, CannotRun.exit_code) for variant in variants)
    raise (CannotRun if cannot_run else RunFailed)(f"{reason}: there is nothing to compare.")


# `tracetui run WORKLOAD --bench`: the time of a step without the profiler; of several variants in turns.


class TimesDocument(TypedDict):
    """The time of a step of a variant without the profiler, as its trace would hold it, and the load meanwhile."""

    variant: str
    device: str | None
    notes: list[str]
    failure: FailureDocument | None
    unprofiled: dict[str, Any] | None
    load: dict[str, Any] | None


class BenchDocument(TypedDict):
    variants: list[TimesDocument]


def print_times(requests: Sequence[Request], options: argparse.Namespace) -> int:
    """Time the workload, or its variants in turns, and print the times. Returns the exit code, 0 where all were timed.

    Raises: UsageError, CannotRun or RunFailed where the only one, or each of them, failed.
    """
    from tracetui.linking.step_kinds import time_of_metadata

    outcomes = time_all(requests, options)
    results = [(each.variant or each.workload, outcome) for each, outcome in zip(requests, outcomes, strict=True)]
    if options.json:
        # Loads orjson, which `--help` must not wait for.
        from tracetui.drawing.text.envelope import json_text

        rows: list[TimesDocument] = []
        for name, outcome in results:
            found, metadata = document(outcome), outcome.metadata
            rows.append(
                {
                    "variant": name,
                    "device": found["device"],
                    "notes": found["notes"],
                    "failure": found["failure"],
                    "unprofiled": metadata.get("unprofiled"),
                    "load": metadata.get("load"),
                }
            )
        sys.stdout.write(json_text("run-bench", BenchDocument(variants=rows), indented=True))
    else:
        times = [(name, time_of_metadata(outcome.metadata)) for name, outcome in results]
        print("\n".join(time_lines([(name, time) for name, time in times if time is not None])))
    failed = [(name, outcome) for name, outcome in results if outcome.failure]
    for name, outcome in failed:
        if len(failed) < len(results) or options.json or outcome.is_cancelled:
            print_failure(outcome.failure, name)
    if not failed:
        return 0
    worst = failed[0][1]
    if worst.is_cancelled:
        return cancel_code(worst)
    if len(failed) == len(results) and not options.json and worst.exit_code in ERRORS:
        raise ERRORS[worst.exit_code](str(worst.failure))
    return worst.exit_code


def time_lines(timed: Sequence[tuple[str, UnprofiledTime]]) -> list[str]:
    """A line per variant: the median, its interval, and how it compares with the first."""
    from tracetui.model.quantities import duration

    cells = []
    for index, (name, time) in enumerate(timed):
        interval = "too few samples for an interval"
        if time.low_us is not None and time.high_us is not None:
            interval = f"{duration(1000 * time.low_us)} to {duration(1000 * time.high_us)}"
        versus = against_first(timed[0], time) if index else ""
        cells.append((name, f"{duration(1000 * time.median_us)} per step", interval, versus))
    return aligned(cells) if cells else []


def against_first(first: tuple[str, UnprofiledTime], time: UnprofiledTime) -> str:
    """The ratio to the first as text; nothing is claimed where the intervals overlap."""
    from tracetui.linking.step_kinds import time_ratio

    ratio = time_ratio(first[1], time)
    if ratio is None or not ratio.is_certain:
        return f"cannot tell from {first[0]}"
    if ratio.median < 1:
        return f"{1 / ratio.median:.2f} times as fast as {first[0]} ({1 / ratio.high:.2f} to {1 / ratio.low:.2f})"
    return f"{ratio.median:.2f} times as long as {first[0]} ({ratio.low:.2f} to {ratio.high:.2f})"
