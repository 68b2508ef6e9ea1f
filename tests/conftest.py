"""What several tests need: the sample traces, and real traces where they are at hand."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

# Textual reads this when it is imported: what a test draws must not depend on where it runs.
os.environ["TEXTUAL_COLOR_SYSTEM"] = "truecolor"
os.environ["TERM"] = "xterm-256color"
os.environ.pop("NO_COLOR", None)

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
