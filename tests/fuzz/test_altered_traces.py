"""Every pane of real traces whose meaning is changed: no exception, no hang, no number that is none, no odd share."""

from __future__ import annotations

import json
from random import Random

import pytest

from tests.support import altered_traces
from tests.support.altered_traces import ALTERATIONS, altered, faults_of, originals, read, tried
from tests.support.paths import SAMPLES, SHARED

EACH = 36
"""Altered traces of each original: 2,000 and more where all originals are there."""
FIRST = 4
"""Those of them that the full tier tries; the others are nightly."""
GROUPS = 16
"""Each takes its share of the originals, so that a failure is told before all have run."""


@pytest.mark.nightly
@pytest.mark.parametrize(("seed", "each"), [(0, FIRST), pytest.param(FIRST, EACH - FIRST, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("group", range(GROUPS))
def test_every_pane_of_altered_traces_can_be_made(group, seed, each):
    results = dict(tried(each, seed, originals()[group::GROUPS], quick=True))
    assert {name: faults for name, faults in results.items() if faults} == {}


@pytest.mark.parametrize("name", sorted(ALTERATIONS))
@pytest.mark.full
def test_every_alteration_of_a_trace(name, monkeypatch):
    """One of each, so that a way of altering that no longer works is seen at once."""
    monkeypatch.setattr(altered_traces, "ALTERATIONS", {name: ALTERATIONS[name]})
    monkeypatch.setattr(Random, "sample", lambda self, names, k: list(names)[:k])
    original = read(SAMPLES / "mlp_eager_cpu.json.gz")
    assert original is not None
    data, names = altered(original, 7)
    assert names[0] == name and json.loads(data)["traceEvents"]
    assert faults_of(data) == []


def test_a_seed_makes_the_same_trace_again():
    original = read(SAMPLES / "mlp_eager_cpu.json.gz")
    assert original is not None
    assert altered(original, 3) == altered(original, 3)
    assert altered(original, 3) != altered(original, 4)
    assert len(originals()) >= 16


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs the traces beside the checkout")
@pytest.mark.parametrize("path", sorted((SHARED / "crashes").glob("*.json")), ids=lambda path: path.stem)
@pytest.mark.full
def test_traces_that_ended_a_pane(path):
    assert faults_of(path.read_bytes()) == []
