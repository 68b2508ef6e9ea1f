"""Files that commands have read before are not read again: what a command says of a trace is the hazard here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from unittest import mock

import pytest

from tracetui.files import is_url
from tracetui.model.trace import Trace
from tracetui.opening import kept_traces
from tracetui.opening.cache_folder import TraceIdentity, identity_of
from tracetui.reading.load_progress import LoadProgress

_read_file = kept_traces.read_file


@lru_cache(maxsize=8)
def _read(path: str, identity: TraceIdentity) -> Trace:
    return _read_file(path, None, None)


def _read_once(
    path: str, progress: Callable[[LoadProgress], None] | None, cancelled: Callable[[], bool] | None
) -> Trace:
    """A trace without results; what is no plain file is read as it is."""
    identity = None if is_url(path) else identity_of(path)
    return _read_file(path, progress, cancelled) if identity is None else replace(_read(path, identity), cache={})


@pytest.fixture(autouse=True)
def _files_read_once() -> Iterator[None]:
    with mock.patch.object(kept_traces, "read_file", _read_once):
        yield
