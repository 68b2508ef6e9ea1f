"""Half a minute of random keys; `python -m tests.load.monkey` does it for as long as one likes."""

from __future__ import annotations

import pytest

from tests.load import monkey
from tests.support.paths import SAMPLES

KEYS = 400
"""That are pressed at least."""
SEED = 1
"""Of the keys; a longer run with others is for those who look for defects."""


@pytest.mark.nightly
def test_no_key_breaks_the_app():
    traces = [str(path) for path in sorted(SAMPLES.glob("*.json.gz"))[:3]]
    diary = monkey.play(traces, 24, SEED, least=KEYS)
    assert diary.keys >= KEYS
    assert diary.crashes == []
    assert diary.code == 0
    assert diary.slowest < monkey.POLL_SECONDS
