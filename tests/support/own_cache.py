"""A cache of a test's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracetui.opening import cache_folder, kept_traces


def own_cache(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Path:
    """Switch on a cache below a folder that takes traces of any size; returns where it keeps them."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "caches"))
    monkeypatch.delenv(cache_folder.SIZE_VARIABLE)
    monkeypatch.setattr(kept_traces, "MIN_TRACE_BYTES", 0)
    return folder / "caches" / "tracetui" / "traces"
