"""The expectations of a workload, checked in its trace: for `--verify`, and for the answers to a guess."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tracetui.cli.traces import read_trace
from tracetui.errors import UsageError
from tracetui.safe_text import clean

if TYPE_CHECKING:
    from tracetui.model.table import Cell, Table
    from tracetui.model.trace import Trace
    from workloads.api import Expect, Workload
    from workloads.recording.launcher import Outcome

NEEDS_GPU = "needs a GPU"
ABSENT = "–"


@dataclass(frozen=True)
class Verification:
    """The expectations that were checked, and those that could not be."""

    trace: Trace
    table: Table
    """The table of `analysis.expectations`."""
    skipped: Sequence[tuple[str, str]] = ()
    """Expectations that apply to another device, each with the reason."""

    @property
    def holds(self) -> bool:
        """Whether every expectation that was checked holds."""
        return all(row["holds"] for row in self.table.rows())


def workload_of(name: str) -> Workload | None:
    """The workload that a request names; None for a user's function, which has no expectations.

    Raises: UsageError for a workload that does not exist.
    """
    # Loads importlib.metadata to look for workloads of other packages.
    from workloads.recording.launcher import BadRequest
    from workloads.registry import find, is_function

    if is_function(name):
        return None
    try:
        return find(name)
    except BadRequest as error:
        raise UsageError(str(error)) from error


def require_expectations(name: str) -> Workload:
    """The workload of a request with `--verify`, before it is recorded.

    Raises: UsageError where it has no expectations.
    """
    workload = workload_of(name)
    if workload is None or not workload.expects:
        raise UsageError(f"--verify checks the expectations of a workload, and {name} has none.")
    return workload


def verify(workload: Workload, outcome: Outcome) -> Verification:
    """Check the expectations of a workload that apply to a recording.

    Raises: TraceError when the trace cannot be read; Unanswerable for a metric that does not exist.
    """
    # These load numpy, which a recording without `--verify` does not need.
    from tracetui.analysis.expectation_metrics import Expectation
    from tracetui.analysis.expectations import expectations

    metadata = dict(outcome.metadata)
    wanted = [each for each in workload.expects if each.applies(metadata)]
    skipped = [(each.text, NEEDS_GPU) for each in workload.expects if each not in wanted and _on_gpu(each, metadata)]
    plain = [Expectation(each.text, each.metric, each.want, each.of, each.why) for each in wanted]
    trace = read_trace(str(outcome.path))
    return Verification(trace, expectations(trace, plain, str(metadata.get("label", ""))), skipped)


def print_verification(verification: Verification) -> None:
    """Print one line per expectation: whether it holds, the wanted and the found value."""
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
        print("tracetui: the workload has no expectations for such a recording.", file=sys.stderr)


def document(verification: Verification) -> dict[str, object]:
    """The verification as JSON for a script; `event` is the number of an example event in the file."""
    table, trace = verification.table, verification.trace
    rows = table.slices.tolist() if table.slices is not None else []
    events = [int(trace.slices.event[row]) if row >= 0 else None for row in rows]
    return {
        "holds": verification.holds,
        "lines": [{**row, "event": event} for row, event in zip(table.rows(), events, strict=True)],
        "skipped": [{"expectation": text, "reason": reason} for text, reason in verification.skipped],
    }


def found_text(row: dict[str, Cell]) -> str:
    """The found value as text; names of kernels are shortened."""
    text = row["found"]
    if text is None:
        return ABSENT
    if row["metric"] == "kernel_named":
        from tracetui.analysis.kernel_names import short_kernel

        return short_kernel(str(text))
    return str(text)


def aligned(cells: Sequence[Sequence[str]]) -> list[str]:
    """Rows of texts as lines with columns of equal width."""
    safe = [[clean(text) for text in row] for row in cells]
    widths = [max(map(len, column)) for column in zip(*safe, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in safe]


def _on_gpu(expect: Expect, metadata: dict[str, Any]) -> bool:
    """Whether a recording was on the CPU and the expectation would apply to it on a GPU."""
    on_cpu = str(metadata.get("device")).startswith("cpu")
    return on_cpu and expect.applies({**metadata, "device": "cuda:0"})
