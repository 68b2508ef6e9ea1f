"""Traces that are read once for the tests that follow each other."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from tracetui.model.trace import Trace
from tracetui.reading.load import load


@lru_cache(maxsize=8)
def loaded(path: Path) -> Trace:
    """The trace of a file that no test writes, with the results of analyses that earlier tests asked for.

    A test that alters how a trace is read or analysed reads one of its own.
    """
    return load(str(path))
