"""The guess before a trace is opened: one or two questions, then for each expectation the guess and what was found."""

from __future__ import annotations

import shutil
import sys
import textwrap
from typing import TYPE_CHECKING

from tracetui.cli.verify import ABSENT, Verification, aligned, found_text, verify, workload_of
from tracetui.safe_text import clean

if TYPE_CHECKING:
    from tracetui.model.table import Cell
    from workloads.recording.launcher import Outcome

COUNTS = ("kernels_per_forward", "ops_per_step", "calls_per_step")
"""Metrics that are asked for, in order of preference."""
FUSES = "what fuses?"
"""The question about a fused kernel; the text of its expectation would give the answer away."""


def guess_first(name: str, outcome: Outcome, is_opened: bool) -> str | None:
    """Ask the questions and show the answers; returns the view string of the chosen line, None for the default view.

    Enter skips a question and ctrl+d all of them; without a guess no answers are shown.
    """
    workload = workload_of(name)
    if workload is None or not any(each.applies(outcome.metadata) for each in workload.expects):
        return None
    verification = verify(workload, outcome)
    try:
        guesses = ask(verification)
        if not guesses:
            return None
        print("\n".join(answers(verification, guesses)))
        if workload.lesson:
            print(textwrap.fill(clean(" ".join(workload.lesson.split())), shutil.get_terminal_size().columns))
        return _chosen(verification) if is_opened else None
    except EOFError:
        print()
        return None


def ask(verification: Verification) -> dict[int, str]:
    """The guesses by line number; skipped questions are left out.

    Raises: EOFError for ctrl+d.
    """
    asked = questions(verification)
    if asked:
        print("Guess first, then look. Enter skips a question.", file=sys.stderr)
    given = {line: input(clean(f"  {question} ")).strip() for line, question in asked.items()}
    return {line: guess for line, guess in given.items() if guess}


def questions(verification: Verification) -> dict[int, str]:
    """At most two questions by line number: one about a count, and one about fusion."""
    rows = list(verification.table.rows())
    counted = [(COUNTS.index(str(row["metric"])), line) for line, row in enumerate(rows) if row["metric"] in COUNTS]
    fused = [line for line, row in enumerate(rows) if _is_fusion(row)]
    asked = {line: f"{rows[line]['expectation']}?" for _, line in sorted(counted)[:1]}
    return asked | dict.fromkeys(fused[:1], FUSES)


def answers(verification: Verification, guesses: dict[int, str]) -> list[str]:
    """Numbered lines: the expectation, the guess, the expected and the found value, and the explanation."""
    cells = [("", "", "guess", "expected", "found", "")]
    for line, row in enumerate(verification.table.rows()):
        explanation = str(row["why"] or "") if row["holds"] else "not as expected"
        guess = guesses.get(line, ABSENT)
        cells.append((str(line + 1), str(row["expectation"]), guess, str(row["wanted"]), found_text(row), explanation))
    return aligned(cells)


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


def _is_fusion(row: dict[str, Cell]) -> bool:
    return str(row["metric"]).endswith("_named") and "fused" in str(row["wanted"])
