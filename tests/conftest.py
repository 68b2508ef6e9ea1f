"""What several tests need: the sample traces, and real traces where they are at hand."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
"""The checkout."""

SHARED = ROOT.parent / "shared" / "traces"
"""Real traces of other people, beside the checkout and never in it."""

SAMPLES = ROOT / "sample_traces"


@pytest.fixture
def shared_trace() -> Callable[[str], Path]:
    """A function from the name of a real trace to its path; skips the test where it is absent."""

    def find(name: str) -> Path:
        path = SHARED / name
        if not path.exists():
            pytest.skip(f"needs ../shared/traces/{name}, which is not there")
        return path

    return find


def pytest_configure() -> None:
    """Give hang-ups their meaning back, which a run under `nohup` has taken from them and from all that it starts."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
