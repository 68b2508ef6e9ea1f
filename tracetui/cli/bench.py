"""`tracetui run WORKLOAD --bench`: the time of a step without the profiler; of several variants in turns."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tracetui.cli import run as run_command
from tracetui.cli.verify import aligned
from tracetui.errors import UsageError
from tracetui.safe_text import clean

if TYPE_CHECKING:
    from tracetui_workloads.recording.launcher import Outcome, Request

    from tracetui.linking.unprofiled import UnprofiledTime

BENCH_SECONDS = 10.0
"""Seconds for each variant, unless `--time-seconds` says otherwise."""


def run(options: argparse.Namespace) -> int:
    """Time the workload, or its variants in turns, and print the times. Returns the exit code.

    Raises: UsageError, CannotRun or RunFailed when nothing was timed.
    """
    requests = requests_of(options)
    outcomes = run_command.time_all(requests, options)
    if options.json:
        rows = zip(requests, outcomes, strict=True)
        print(json.dumps([document(request, outcome) for request, outcome in rows], indent=2))
    else:
        timed = [(name_of(request), times_of(outcome)) for request, outcome in zip(requests, outcomes, strict=True)]
        print("\n".join(lines([(name, time) for name, time in timed if time is not None])))
    return _exit_code(requests, outcomes, options)


def requests_of(options: argparse.Namespace) -> list[Request]:
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
    from tracetui.cli.variants import requests_of as variants_of

    return variants_of(options)


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
    from tracetui.linking.unprofiled import time_ratio

    ratio = time_ratio(first[1], time)
    if ratio is None or not ratio.is_certain:
        return f"cannot tell from {first[0]}"
    if ratio.median < 1:
        return f"{1 / ratio.median:.2f} times as fast as {first[0]} ({1 / ratio.high:.2f} to {1 / ratio.low:.2f})"
    return f"{ratio.median:.2f} times as long as {first[0]} ({ratio.low:.2f} to {ratio.high:.2f})"


def times_of(outcome: Outcome) -> UnprofiledTime | None:
    """The time of an outcome, None where it failed."""
    from tracetui.linking.unprofiled import time_of_metadata

    return time_of_metadata(outcome.metadata)


def name_of(request: Request) -> str:
    """The variant, or the workload where there is one only."""
    return request.variant or request.workload


def document(request: Request, outcome: Outcome) -> Mapping[str, Any]:
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
