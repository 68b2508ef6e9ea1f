"""The invariants of `tests/support/invariants.py` over traces as they are; and that each of them can fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import invariants
from tests.support.build import kernel, launch, make_trace, op, step
from tests.support.invariants import INVARIANTS, Broken, broken
from tests.support.paths import SAMPLES
from tests.support.traces import given_traces, loaded
from tracetui.findings import Finding, Severity
from tracetui.idle.scope_times import idle_stretches
from tracetui.model.trace import Trace
from tracetui.reading.load import load

FOLDERS = ("", "crashes/", "edge/", "inference/", "pairs/", "pftrace/", "puzzlers/", "ranks/*/")
REFUSED = ("e19_metadata_only.json", "e29_git_lfs_pointer.json")
FILES = [f"{folder}*{end}" for folder in FOLDERS for end in (".json", ".json.gz", ".pftrace", ".pftrace.gz")]


@pytest.mark.parametrize("name", given_traces(*FILES, without=REFUSED))
@pytest.mark.full
def test_the_invariants_hold_of_a_real_trace(name: str, shared_trace: Callable[[str], Path]) -> None:
    assert list(broken(loaded(shared_trace(name)))) == []


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.json.gz")), ids=lambda path: path.name)
@pytest.mark.full
def test_the_invariants_hold_of_a_sample(path: Path) -> None:
    assert list(broken(load(str(path)))) == []


def late() -> Trace:
    """Two steps in which a kernel waits for an operator."""
    events = []
    for number in (1, 2):
        at = 1_000_000 * number
        events += [step(number, at, 900_000), op("aten::index", at + 1_000, 500_000)]
        events += [launch(at + 400_000, 5_000, number), kernel("k", at + 410_000, 300_000, correlation=number)]
    return make_trace(events)


def test_the_invariants_hold_of_a_trace_with_gaps() -> None:
    assert list(broken(late())) == []


def wrong_parts(trace: Trace) -> Any:
    """The idle stretches, one of them longer than it is."""
    parts = idle_stretches(trace)
    return replace(parts, end=parts.end + (np.arange(len(parts)) == 0))


def one_finding(cost: int, severity: Severity = Severity.NOTE, evidence: str = "") -> Callable[..., list[Finding]]:
    """A list of one finding about idle time."""
    return lambda trace, step=None: [Finding("host-sync", severity, "a title", evidence, "advice", cost=cost)]


WRONG: list[tuple[str, str, Any]] = [
    ("idle_stretches_cover_idle_time", "idle_stretches", wrong_parts),
    ("periods_make_the_scope", "step_periods", lambda trace: (np.array([0, 5]), np.array([10, 20]))),
    ("busy_and_idle_are_the_span", "idle_within", lambda trace, low, high: (high - low) // 2),
    ("findings_cost_no_more_than_their_scope", "finding_list", one_finding(10**9)),
    ("findings_cost_no_more_than_their_scope", "finding_list", one_finding(1_500_000)),
    ("names_take_no_longer_than_they_ran", "place_times", lambda trace, parts: {"aten::index": 1_000_001}),
    ("names_take_no_longer_than_they_ran", "finding_list", one_finding(1, evidence="longest in aten::index 1.01 ms")),
    ("one_number_for_one_thing", "Scope", lambda trace, step: type("Wrong", (), {"idle": 1, "time": 2})),
]
"""For each invariant an analysis that it looks at, and one that is wrong in its place."""


@pytest.mark.parametrize(("name", "analysis", "wrong"), WRONG)
def test_an_invariant_notices_what_is_wrong(
    name: str, analysis: str, wrong: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = late()
    INVARIANTS[name](trace)
    monkeypatch.setattr(invariants, analysis, wrong)
    with pytest.raises(Broken):
        INVARIANTS[name](trace)


def test_a_busy_gpu_with_a_major_finding_about_idle_time_is_a_contradiction(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = [launch(1_000 * number, 500, number) for number in range(1, 20)]
    trace = make_trace([*calls, *(kernel("k", 5_000 * number, 5_000, correlation=number) for number in range(1, 20))])
    INVARIANTS["verdict_agrees_with_findings"](trace)
    monkeypatch.setattr(invariants, "finding_list", one_finding(100, Severity.MAJOR))
    with pytest.raises(Broken):
        INVARIANTS["verdict_agrees_with_findings"](trace)
