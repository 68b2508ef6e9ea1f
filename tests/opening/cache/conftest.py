"""A cache of its own for every test, which takes traces of any size."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.own_cache import own_cache
from tracetui.reading.load import load


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder of the cache."""
    return own_cache(monkeypatch, tmp_path)


@pytest.fixture
def read_again(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the traces that were read from their files since."""
    paths: list[str] = []

    def counted(path, *more):
        paths.append(path)
        return load(path, *more)

    monkeypatch.setattr("tracetui.opening.kept_traces.read_file", counted)
    return paths
