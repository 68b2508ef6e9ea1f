"""The expectations of a workload: looked up in a trace for `--verify`, asked for `--guess`; and its lesson."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict, cast

from tracetui.cli.inputs import read_trace
from tracetui.cli.streams import remark
from tracetui.errors import UsageError
from tracetui.text import aligned, clean

if TYPE_CHECKING:
    from tracetui_workloads.api import Workload
    from tracetui_workloads.recording.launcher import Outcome

    from tracetui.verification import Verification

MAX_LESSON_CELLS = 120
"""Maximum width of a lesson."""


def workload_of(name: str) -> Workload | None:
    """The workload that a request names; None for a user's function, which has no expectations.

    Raises: UsageError for a workload that does not exist.
    """
    # Loads importlib.metadata to look for workloads of other packages.
    from tracetui_workloads.recording.launcher import BadRequest
    from tracetui_workloads.registry import find, is_function

    if is_function(name):
        return None
    try:
        return find(name)
    except BadRequest as error:
        raise UsageError(str(error)) from error


def require_expectations(name: str, option: str = "--verify") -> Workload:
    """The workload of a request with `--verify` or `--guess`, before it is recorded.

    Raises: UsageError where it has no expectations.
    """
    workload = workload_of(name)
    if workload is None or not workload.expects:
        raise UsageError(f"{option} is about the expectations of a workload, and {name} has none.")
    return workload


def verify(workload: Workload, outcome: Outcome) -> Verification:
    """Check the expectations of a workload that apply to a recording.

    Raises: TraceError when the trace cannot be read; Unanswerable for a metric that does not exist.
    """
    # Loads numpy, which a recording without `--verify` does not need.
    from tracetui import verification

    trace, ranks = read_trace(str(outcome.traces[0])), None
    if outcome.ranks:
        # Loads what reads many traces, which most recordings do not need.
        from tracetui.opening.rank_folder import open_rank_set

        ranks = open_rank_set([str(outcome.path)])
    return verification.verify(workload, dict(outcome.metadata), trace, ranks)


def print_verification(verification: Verification) -> None:
    """Print one line per expectation: that it holds or fails, the wanted and the found value."""
    from tracetui.verification import found_text

    rows = list(verification.table.rows())
    cells = [
        (
            "holds" if row["holds"] else "FAILS",
            str(row["expectation"]),
            f"wanted {row['wanted']}",
            f"found {found_text(row)}",
        )
        for row in rows
    ]
    for line in aligned(cells):
        print(line)
    for text, reason in dict.fromkeys(verification.skipped):
        print(clean(f"skipped  {text}: {reason}"))
    if not rows:
        remark("the workload has no expectations for such a recording.")


def print_lesson(workload: Workload) -> None:
    """Print the lesson of a workload to standard error, below a blank line."""
    if workload.lesson:
        remark("\n".join(["", *lesson_lines(workload)]), prefix="")


def lesson_lines(workload: Workload, indent: int = 0) -> list[str]:
    """The lesson of a workload, wrapped to the terminal less an indent."""
    width = max(min(shutil.get_terminal_size().columns, MAX_LESSON_CELLS) - indent, 20)
    return textwrap.wrap(clean(" ".join(workload.lesson.split())), width)


class ExpectationDocument(TypedDict):
    """An expectation, what was found for it, and the number of an event in the file that shows it."""

    expectation: str
    wanted: str
    found: str | None
    least: float | None
    most: float | None
    holds: bool
    metric: str
    of: str | None
    why: str | None
    event: int | None


class SkippedDocument(TypedDict):
    expectation: str
    reason: str


class VerificationDocument(TypedDict):
    holds: bool
    lines: list[ExpectationDocument]
    skipped: list[SkippedDocument]


def document(verification: Verification) -> VerificationDocument:
    """The verification as JSON for a script; `event` is the number of an example event in the file."""
    table, trace = verification.table, verification.trace
    rows = table.slices.tolist() if table.slices is not None else []
    events = [int(trace.slices.event[row]) if row >= 0 else None for row in rows]
    return {
        "holds": verification.holds,
        "lines": [
            cast(ExpectationDocument, {**row, "event": event}) for row, event in zip(table.rows(), events, strict=True)
        ],
        "skipped": [{"expectation": text, "reason": reason} for text, reason in verification.skipped],
    }


# `--guess`, before a trace is opened: one or two questions, then for each expectation the guess and the value in it.


def guess_first(name: str, outcome: Outcome, is_opened: bool) -> str | None:
    """Ask the questions and show the answers; returns the view string of the chosen line, None for the default view.

    Enter skips a question and ctrl+d all of them; without a guess no answers are shown.
    """
    workload = require_expectations(name, "--guess")
    verification = verify(workload, outcome)
    guesses = ask(verification.questions)
    if not guesses:
        return None
    print_answers(workload, verification, guesses)
    rows = verification.table.slices
    if not is_opened:
        return None
    try:
        answer = input("Enter opens the trace, a number opens it where that line was found: ").strip()
    except EOFError:
        print()
        return None
    if rows is None or not (answer.isdecimal() and 0 < int(answer) <= len(rows)) or rows[int(answer) - 1] < 0:
        return None
    from tracetui.model.viewpoint import Viewpoint, view_string

    return view_string(Viewpoint(event=int(verification.trace.slices.event[rows[int(answer) - 1]])))


def guess_variants(names: Sequence[str], outcomes: Sequence[Outcome]) -> None:
    """Ask one question of each variant, then show the answers; `names` are the workloads of the outcomes."""
    checked = [
        (workload, outcome.metadata.get("variant"), verify(workload, outcome))
        for workload, outcome in zip(map(workload_of, names), outcomes, strict=True)
        if workload is not None and any(each.asks and each.applies(outcome.metadata) for each in workload.expects)
    ]
    first = [next(iter(verification.questions.items())) for _, _, verification in checked]
    guesses = ask({index: f"{checked[index][1]}: {question}" for index, (_, question) in enumerate(first)})
    for index, guess in guesses.items():
        workload, variant, verification = checked[index]
        print(clean(f"{variant}:"))
        print_answers(workload, verification, {first[index][0]: guess}, with_lesson=index == max(guesses))


def ask(questions: Mapping[int, str]) -> dict[int, str]:
    """The guesses by line number; skipped questions are left out, and all of them with ctrl+d."""
    if questions:
        print("Guess first, then look. Enter skips a question.", file=sys.stderr)
    else:
        remark("no question applies to this.")
    try:
        guesses = {line: input(clean(f"  {question} ")).strip() for line, question in questions.items()}
    except EOFError:
        print()
        return {}
    return {line: guess for line, guess in guesses.items() if guess}


def print_answers(
    workload: Workload, verification: Verification, guesses: dict[int, str], with_lesson: bool = True
) -> None:
    """Print every line with guess, expected and found, then the lesson."""
    from tracetui.verification import answer_rows

    print("\n".join(aligned(answer_rows(verification, guesses))))
    if workload.lesson and with_lesson:
        print("\n".join(lesson_lines(workload)))
