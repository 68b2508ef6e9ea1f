"""The shared parts of `tracetui run`, for one recording, variants and times: requests, progress, outcomes."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from tracetui_workloads.recording.protocol import OPTIONS, Options

from tracetui.cli.expectations import VerificationDocument
from tracetui.cli.open import require_terminal
from tracetui.cli.streams import complain, remark
from tracetui.errors import CannotRun, RunFailed, TracetuiError, UsageError
from tracetui.text import clean

if TYPE_CHECKING:
    from tracetui_workloads.recording.launcher import Failure, Outcome, Request

ERRORS: dict[int, type[TracetuiError]] = {2: UsageError, 3: CannotRun, 4: RunFailed}
"""The error that is raised for an exit code of a recording."""
DOES_NOT_HOLD = 1
"""Exit code of `--verify` when the trace shows something else than the workload promises."""


def requests_of(options: argparse.Namespace) -> list[Request]:
    """The requests of the command line: one, or one for each variant of `--compare`.

    Raises: UsageError, also for a file of `-o` that may not be written.
    """
    # Loads asyncio, which `--help` need not wait for.
    from tracetui_workloads.recording.launcher import BadRequest, is_file_path, plan, plan_variants

    if options.compare is None and options.out is not None and is_file_path(options.out):
        # Loads gzip.
        from tracetui.writing.output import require_writable

        program = options.workload.rpartition(":")[0]
        require_writable(options.out, [(program, "the program")], options.force, makes_folder=True)
    params = _parameters(options)
    chosen = given_options(options)
    end = (options.out, ["tracetui", *sys.argv[1:]], options.table, options.force)
    try:
        if options.compare is None:
            return [plan(options.workload, params, Options(**chosen), *end)]
        words = [word.strip() for word in options.compare.split(",") if word.strip()]
        return plan_variants(options.workload, words, params, chosen, *end)
    except BadRequest as error:
        raise UsageError(str(error)) from error


def given_options(options: argparse.Namespace) -> dict[str, Any]:
    """The options of a recording that the command line has, by their names in `Options`."""
    return {name: value for name in OPTIONS if (value := getattr(options, name)) is not None}


def _parameters(options: argparse.Namespace) -> dict[str, int | float | str | bool]:
    """The workload's parameters as texts, from `-p name=value`, `--name value` and `--name=value`.

    Raises: UsageError for a word that is none of these.
    """
    values: dict[str, int | float | str | bool] = {}
    for pair in options.given:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise UsageError(f"-p wants NAME=VALUE, not {pair}.")
        values[name.replace("-", "_")] = value
    words = iter(options.parameters)
    for word in words:
        name, equals, value = word.partition("=")
        text = value if equals else next(words, None)
        if not name.startswith("--") or text is None:
            raise UsageError(f"{word} is no option of `tracetui run`, and a parameter is --NAME VALUE after WORKLOAD.")
        values[name[2:].replace("-", "_")] = text
    for option in OPTIONS.values():
        value = getattr(options, option.name)
        if option.is_shared and value not in (None, *option.choices):
            # As `backend` of attention, whose values and those of torch.compile differ.
            values[option.name] = value
            setattr(options, option.name, None)
    return values


def record(
    request: Request, options: argparse.Namespace, part: str = "", known_remarks: set[str] | None = None
) -> Outcome:
    """Make a recording, with a progress bar on a terminal; `part` is its place among several, as in `1/2`."""
    from tracetui_workloads.recording.launcher import record_now

    from tracetui.cli.streams import RecordingProgress
    from tracetui.model.quantities import duration, size

    name = f"{request.workload} {request.variant}".rstrip()
    with RecordingProgress(f"{name} {part}".rstrip(), known_remarks=known_remarks) as bar:
        outcome = record_now(request, bar.hear, python=options.python, timeout=options.timeout or None)
    if outcome.path:
        done = f"recorded {name} on {outcome.device} in {duration(1e9 * outcome.seconds)}, {size(outcome.bytes)}"
        remark(clean(done))
    return outcome


def time_all(requests: Sequence[Request], options: argparse.Namespace) -> list[Outcome]:
    """Time steps without the profiler, several in turns, with a progress bar on a terminal."""
    from tracetui_workloads.recording.launcher import time_now

    from tracetui.cli.streams import RecordingProgress

    with RecordingProgress(f"{requests[0].workload} without the profiler", known_remarks=set()) as bar:
        return time_now(requests, bar.hear, python=options.python, timeout=options.timeout or None)


class FailureDocument(TypedDict):
    """The reason why there is no trace, and the exit code of `tracetui run`."""

    kind: str
    message: str
    hint: str
    stage: str
    details: str
    exit_code: int


class RecordingDocument(TypedDict):
    """A recording: `path` or `failure`, and as `recording` the metadata of the trace."""

    path: str | None
    ranks: NotRequired[list[str]]
    bytes: int
    seconds: float
    device: str | None
    notes: list[str]
    recording: dict[str, Any]
    failure: FailureDocument | None
    verification: NotRequired[VerificationDocument]
    lesson: NotRequired[str]


def document(outcome: Outcome) -> RecordingDocument:
    """The outcome for a script."""
    failure: FailureDocument | None = None
    if why := outcome.failure:
        failure = {
            "kind": why.kind,
            "message": why.message,
            "hint": why.hint,
            "stage": why.stage,
            "details": why.details,
            "exit_code": outcome.exit_code,
        }
    found: RecordingDocument = {
        "path": str(outcome.path) if outcome.path else None,
        "bytes": outcome.bytes,
        "seconds": round(outcome.seconds, 3),
        "device": outcome.device or None,
        "notes": list(outcome.notes),
        "recording": dict(outcome.metadata),
        "failure": failure,
    }
    if outcome.ranks:
        found["ranks"] = [str(path) for path in outcome.traces]
    return found


def print_details(failure: Failure, options: argparse.Namespace) -> None:
    """Print the traceback or the end of the log where they are asked for, and after a crash."""
    if not options.json and ((options.details and failure.kind != "cancelled") or failure.kind == "crash"):
        for line in failure.details.splitlines():
            print(f"  {clean(line)}", file=sys.stderr)


def print_failure(sentence: object, name: str = "") -> None:
    """Print why a recording, or that of the variant with a name, failed."""
    complain(clean(f"{name}: {sentence}" if name else str(sentence)))


def cancel_code(outcome: Outcome) -> int:
    """The exit code after a recording that was cancelled, also where that was too late for it."""
    return 128 + (outcome.stopped_by or signal.SIGINT)


def has_terminal() -> bool:
    """True where the app could be seen and steered."""
    try:
        require_terminal()
    except UsageError:
        return False
    return True
