"""`--guess`, before a trace is opened: one or two questions, then for each expectation the guess and what was found."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tracetui.cli.verify import aligned, lesson_lines, verify, workload_of
from tracetui.safe_text import clean

if TYPE_CHECKING:
    from tracetui_workloads.api import Workload
    from tracetui_workloads.recording.launcher import Outcome

    from tracetui.verification import Verification


def guess_first(name: str, outcome: Outcome, is_opened: bool) -> str | None:
    """Ask the questions and show the answers; returns the view string of the chosen line, None for the default view.

    Enter skips a question and ctrl+d all of them; without a guess no answers are shown.
    """
    workload = workload_of(name)
    assert workload is not None, "a function of the user is refused before it is recorded"
    verification = verify(workload, outcome)
    try:
        guesses = ask(verification.questions)
        if not guesses:
            return None
        print_answers(workload, verification, guesses)
        return _chosen(verification) if is_opened else None
    except EOFError:
        print()
        return None


def guess_variants(names: Sequence[str], outcomes: Sequence[Outcome]) -> None:
    """Ask one question of each variant, then show the answers; `names` are the workloads of the outcomes."""
    workloads = [workload_of(name) for name in names]
    checked = [
        (workload, outcome, verify(workload, outcome))
        for workload, outcome in zip(workloads, outcomes, strict=True)
        if workload is not None and any(each.asks and each.applies(outcome.metadata) for each in workload.expects)
    ]
    asked: dict[int, str] = {}
    for index, (_, outcome, verification) in enumerate(checked):
        question = next(iter(verification.questions.values()))
        asked[index] = f"{outcome.metadata.get('variant')}: {question}"
    try:
        guesses = ask(asked)
    except EOFError:
        print()
        return
    for index, guess in guesses.items():
        workload, outcome, verification = checked[index]
        print(clean(f"{outcome.metadata.get('variant')}:"))
        line = next(iter(verification.questions))
        is_last = index == max(guesses)
        print_answers(workload, verification, {line: guess}, with_lesson=is_last)


def ask(questions: Mapping[int, str]) -> dict[int, str]:
    """The guesses by line number; skipped questions are left out.

    Raises: EOFError for ctrl+d.
    """
    told = "Guess first, then look. Enter skips a question." if questions else "tracetui: no question applies to this."
    print(told, file=sys.stderr)
    given = {line: input(clean(f"  {question} ")).strip() for line, question in questions.items()}
    return {line: guess for line, guess in given.items() if guess}


def print_answers(
    workload: Workload, verification: Verification, guesses: dict[int, str], with_lesson: bool = True
) -> None:
    """Print every line with guess, expected and found, then the lesson."""
    from tracetui.verification import answer_rows

    print("\n".join(aligned(answer_rows(verification, guesses))))
    if workload.lesson and with_lesson:
        print("\n".join(lesson_lines(workload)))


def _chosen(verification: Verification) -> str | None:
    """Ask for the line to open the trace at; None where Enter is pressed.

    Raises: EOFError for ctrl+d.
    """
    answer = input("Enter opens the trace, a number opens it where that line was found: ").strip()
    rows = verification.table.slices
    if rows is None or not (answer.isdecimal() and 0 < int(answer) <= len(rows)) or rows[int(answer) - 1] < 0:
        return None
    from tracetui.model.viewpoint import Viewpoint, view_string

    return view_string(Viewpoint(event=int(verification.trace.slices.event[rows[int(answer) - 1]])))
