"""The rule about gradients that are recorded for no backward pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from tests.support.build import Event, annotation, op, python, step
from tests.support.findings import MS, ids, one
from tests.support.memory_events import Moment, with_memory
from tracetui.findings.scope import Severity
from tracetui.model.trace import Trace

MIB = 1 << 20
START = 100 * MIB
NEXT_BATCH = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


MARKS: dict[str, Callable[[int, int], list[Event]]] = {
    "steps": lambda index, begin: [step(index, begin, 9 * MS)],
    "annotations": lambda _, begin: [annotation("batch", begin, 9 * MS)],
    "frames": lambda _, begin: [python("eval.py(7): predict", begin, 9 * MS)],
    "loader": lambda _, begin: [annotation(NEXT_BATCH, begin, MS // 2)],
    "nothing": lambda _, begin: [],
}
"""What tells where iterations begin."""


def _forward(
    kept: Sequence[int],
    sequence: bool = True,
    advances: bool = True,
    marks: str = "steps",
    more: Sequence[Event] = (),
    device: tuple[int, int] = (1, 0),
) -> Trace:
    """Iterations that each allocate 50 MiB, free them, and keep some MiB."""
    events: list[Event] = [*more]
    moments, total, number = [], START, 0
    for index, mebibytes in enumerate(kept):
        begin = index * 10 * MS
        events += MARKS[marks](index, begin)
        for call in range(3):
            args = {"Sequence number": number} if sequence else {}
            events.append(op("aten::mm", begin + (call + 1) * MS, MS // 2, args=args))
            number += advances
        for at, mine in ((1, 50 * MIB), (2, mebibytes * MIB), (3, -50 * MIB)):
            total += mine
            moments.append(Moment(begin + at * MS + 1, mine, total=total, device=device))
    return with_memory(events, moments)


def test_memory_that_grows_in_every_step_without_a_backward_pass_misses_no_grad():
    finding = one(_forward([10, 10, 10, 10]), "missing-no-grad")
    assert finding.title.startswith("Memory grows by 10.0 MiB in every step: autograd records")
    assert finding.evidence.startswith("GPU 0: 100.0 → 140.0 MiB in 4 steps; ")
    assert (finding.cost, finding.severity) == (None, Severity.MAJOR)


@pytest.mark.parametrize("marks", ["annotations", "frames", "loader"])
def test_what_repeats_serves_for_steps(marks):
    # Between four reads of a batch lie three iterations.
    finding = one(_forward([10, 10, 10, 10][: 4 if marks == "loader" else 3], marks=marks), "missing-no-grad")
    assert "in every iteration" in finding.title and "100.0 → 130.0 MiB in 3 iterations; " in finding.evidence


def test_memory_of_the_host_counts_where_there_is_no_other():
    assert one(_forward([10, 10, 10], device=(0, -1)), "missing-no-grad").evidence.startswith("CPU: 100.0 → 130.0 MiB")


@pytest.mark.parametrize(
    "trace",
    [
        _forward([10, 10]),
        _forward([3, 3, 3]),
        _forward([10, 10, 0, 10]),
        _forward([40, 20, 10, 4]),
        _forward([900, 10, 10, 10]),
        _forward([10, 10, 10, 10], marks="nothing"),
        _forward([10, 10, 10], marks="loader"),
        _forward([10, 10, 10], sequence=False),
        _forward([10, 10, 10], advances=False),
        _forward([10, 10, 10], more=[op("autograd::engine::evaluate_function: MmBackward0", 5 * MS, MS)]),
        _forward([10, 10, 10], more=[annotation("Optimizer.step#SGD.step", 5 * MS, MS)]),
    ],
    ids=[
        "two steps",
        "under a tenth",
        "not in every step",
        "a cache that fills up",
        "loaded in the first step",
        "nothing that repeats",
        "two iterations between batches",
        "no sequence numbers",
        "sequence numbers that stand still",
        "a backward pass",
        "an optimizer",
    ],
)
def test_memory_that_grows_otherwise_is_no_finding(trace):
    assert "missing-no-grad" not in ids(trace)
