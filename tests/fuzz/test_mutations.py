"""Damaged copies of the samples: nothing breaks, and no intact event is lost without a word."""

from __future__ import annotations

from random import Random

import pytest

from tests.fuzz import mutations


@pytest.mark.full
def test_what_is_left_of_damaged_samples() -> None:
    path = sorted(mutations.SAMPLES.glob("*.json.gz"))[0]
    original = mutations.read_original(path)
    assert original is not None
    lost = 0
    for seed in range(20):
        random = Random(seed)
        damaged = mutations.damage(original, random)
        try:
            lost += mutations.check(original, damaged, random)
            mutations.check_packed(original, random)
        except Exception as error:
            raise AssertionError(f"seed {seed}, {damaged.changes}: {error!r}") from error
    assert lost < 20


def test_the_oracle_notices_events_that_are_gone() -> None:
    original = mutations.read_original(sorted(mutations.SAMPLES.glob("*.json.gz"))[0])
    assert original is not None
    whole = mutations.Damaged([mutations.Part(original.data, 0)])
    start, end = original.spans[3]
    whole.replace(start + 1, start + 2, [mutations.Part(b"?")])
    assert whole.data[start + 1 : start + 2] == b"?"
    assert len(whole.data) == len(original.data)
    kept = sum(key is not None for key in original.keys)
    assert whole.intact(original).total() == kept - (original.keys[3] is not None)
    assert end > start
