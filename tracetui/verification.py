"""Expectations that workloads have of their traces: checked, asked before the answer is seen, and explained.

The command line and the screen show the same lines.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tracetui.frozen import frozen
from tracetui.kernel_names.slice_names import short_kernel
from tracetui.ranks.rank_tables import RANK_METRICS
from tracetui.tables.expectations import Expectation, Observed, contrasts, expectation_table, look

if TYPE_CHECKING:
    from tracetui_workloads.api import Contrast, Expect, Workload

    from tracetui.model.table import Cell, Table
    from tracetui.model.trace import Trace
    from tracetui.ranks.rank_set import RankSet

NEEDS_GPU = "needs a GPU"
NEEDS_RANKS = "needs the traces of all ranks"
ABSENT = "–"
MAX_QUESTIONS = 2
"""Maximum number of questions before a trace is opened."""
MAX_LESSON_CELLS = 100
"""Maximum width of a lesson with what its trace shows."""


@frozen(eq=True)
class Verification:
    """The expectations that were checked, and those that could not be."""

    trace: Trace
    """The trace, of several ranks that of the first."""
    table: Table
    """The table of `analysis.expectations`."""
    skipped: Sequence[tuple[str, str]] = ()
    """Expectations that apply to another device, each with the reason."""
    asks: Sequence[str] = ()
    """The question of each line; empty where nobody is asked."""

    @property
    def holds(self) -> bool:
        """True where every expectation that was checked holds."""
        return all(row["holds"] for row in self.table.rows())

    @property
    def questions(self) -> dict[int, str]:
        """The first questions by line number."""
        asked = {line: question for line, question in enumerate(self.asks) if question}
        first = {question: line for line, question in reversed(asked.items())}
        kept = sorted(first.values())[:MAX_QUESTIONS]
        return {line: asked[line] for line in kept}


def verify(workload: Workload, metadata: Mapping[str, Any], trace: Trace, ranks: RankSet | None = None) -> Verification:
    """Check the expectations of a workload that apply to a recording, given its metadata.

    Of a recording by several ranks the trace is that of the first; without `ranks` expectations of all are skipped.
    Raises: Unanswerable for a metric that does not exist.
    """
    applying = [each for each in workload.expects if each.applies(metadata)]
    wanted = [each for each in applying if ranks is not None or each.metric not in RANK_METRICS]
    skipped = [(each.text, NEEDS_RANKS) for each in applying if each not in wanted]
    skipped += [(each.text, NEEDS_GPU) for each in workload.expects if each not in applying and _on_gpu(each, metadata)]
    plain = [Expectation(each.text, each.metric, each.want, each.of, each.why) for each in wanted]
    label = str(metadata.get("label", ""))
    found = [_found(each, trace, ranks, label) for each in plain]
    return Verification(trace, expectation_table(plain, found), skipped, [each.asks for each in wanted])


def _found(expected: Expectation, trace: Trace, ranks: RankSet | None, label: str) -> Observed:
    """The result of one expectation in the trace, or in that of every rank."""
    if ranks is not None and expected.metric in RANK_METRICS:
        return RANK_METRICS[expected.metric](ranks, expected)
    return look(trace, expected, label)


def contrasts_of(
    workload: Workload, metadata_a: Mapping[str, Any], metadata_b: Mapping[str, Any]
) -> Sequence[Contrast]:
    """The contrasts of a workload that apply to two recorded variants, A before B."""
    names = (metadata_a.get("variant"), metadata_b.get("variant"))
    return [
        each
        for each in workload.contrasts
        if (each.a, each.b) == names and each.applies(metadata_a) and each.applies(metadata_b)
    ]


def verify_pair(
    expected: Sequence[Contrast],
    traces: tuple[Trace, Trace],
    labels: tuple[str, str],
) -> Verification:
    """Check contrasts of two traces.

    Raises: Unanswerable for a metric that does not exist.
    """
    plain = [Expectation(each.text, each.metric, each.want, each.of, each.why) for each in expected]
    return Verification(traces[0], contrasts(*traces, plain, *labels))


def answer_rows(verification: Verification, guesses: Mapping[int, str]) -> list[tuple[str, ...]]:
    """A heading, then a row per line: its number, the expectation, guess, expected and found, and the explanation."""
    cells: list[tuple[str, ...]] = [("", "", "guess", "expected", "found", "")]
    for line, row in enumerate(verification.table.rows()):
        explanation = str(row["why"] or "") if row["holds"] else "not as expected"
        guess = guesses.get(line, ABSENT)
        cells.append((str(line + 1), str(row["expectation"]), guess, str(row["wanted"]), found_text(row), explanation))
    return cells


def lesson_lines(workload: Workload, verification: Verification) -> list[str]:
    """The lesson, then each expectation with what was wanted and found, and why; and the sources."""
    lines = textwrap.wrap(" ".join(workload.lesson.split()), MAX_LESSON_CELLS)
    for row in verification.table.rows():
        lines += ["", str(row["expectation"]), f"  expected  {row['wanted']}", f"  found     {found_text(row)}"]
        remark = str(row["why"] or "") if row["holds"] else "This is not as expected."
        lines += textwrap.wrap(remark, MAX_LESSON_CELLS, initial_indent="  ", subsequent_indent="  ")
    for text, reason in dict.fromkeys(verification.skipped):
        lines += ["", text, f"  {reason}"]
    return [*lines, *(["", "sources"] if workload.see else []), *(f"  {source}" for source in workload.see)]


def found_text(row: Mapping[str, Cell]) -> str:
    """The found value as text; names of kernels are shortened."""
    text = row["found"]
    if text is None:
        return ABSENT
    return short_kernel(str(text)) if row["metric"] == "kernel_named" else str(text)


def recording_metadata(trace: Trace) -> Mapping[str, Any]:
    """Metadata that the recorder wrote into a trace; empty for a trace of another origin."""
    value: Any = trace.metadata.get("tracetui")
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    return value if isinstance(value, dict) else {}


def _on_gpu(expect: Expect, metadata: Mapping[str, Any]) -> bool:
    """True where a recording was on the CPU and the expectation would apply to it on a GPU."""
    on_cpu = str(metadata.get("device")).startswith("cpu")
    return on_cpu and expect.applies({**metadata, "device": "cuda:0"})
