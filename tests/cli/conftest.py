"""What a command says of a trace is the hazard here; that it is read has its tests in `reading/`."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _files_read_once(files_read_once: None) -> None:
    """For each test of a command."""
