"""What every test needs: real traces where they are at hand, an order, and signals that mean what they say."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Generator, Iterator
from functools import cache
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.support import signals
from tests.support.paths import SHARED
from tracetui.errors import AnalysisFailed

# Where Python is told to keep nothing of what it compiles, hundreds of processes would each compile the package again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# What a test reads is read from its file, and no test leaves anything with the user. Tests of the cache have one each.
os.environ["TRACETUI_CACHE_SIZE"] = "0"

# Settings, colours and silence are those that a test asks for.
os.environ["TRACETUI_CONFIG"] = ""
for name in ("NO_COLOR", "FORCE_COLOR", "TRACETUI_QUIET", "TRACETUI_THEME"):
    os.environ.pop(name, None)

# How long an example takes, to make or to try, says more of what else the machine does. A run has as many examples as
# notice what breaks outright; by night there are `many`.
settings.register_profile(
    "tracetui", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=30
)
settings.register_profile("many", settings.get_profile("tracetui"), max_examples=300)
settings.register_profile(
    "mutants", deadline=None, max_examples=50, derandomize=True, database=None, phases=(Phase.explicit, Phase.generate)
)
settings.load_profile("tracetui")


@pytest.fixture
def shared_trace() -> Callable[[str], Path]:
    """A function from the name of a real trace to its path; skips the test where it is absent."""

    def find(name: str) -> Path:
        path = SHARED / name
        if not path.exists():
            pytest.skip(f"needs ../shared/traces/{name}, which is not there")
        return path

    return find


@pytest.fixture
def breaks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """A function that has an analysis fail, by its module and name; reports go into a folder of the test's own."""
    from tests.support.failing import fail

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("tracetui.crash_report._written", {})
    return lambda name: monkeypatch.setattr(name, fail)


@pytest.fixture
def files_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands read a file that stays as it is once, for tests of what they say of a trace."""
    from tests.support.traces import read_once

    monkeypatch.setattr("tracetui.opening.kept_traces.read_file", read_once)


@pytest.fixture(autouse=True)
def no_hidden_defect(request: pytest.FixtureRequest) -> Iterator[None]:
    """No test passes because a defect of an analysis costs a pane alone; those about just that ask for `breaks`."""
    from tracetui.model import results

    defects: list[Exception] = []
    told = results.failure_of

    def noted(what: str, error: Exception) -> AnalysisFailed:
        defects.append(error)
        return told(what, error)

    with mock.patch.object(results, "failure_of", noted):
        yield
    if defects and "breaks" not in request.fixturenames:
        raise defects[0]


FIRST = ("workloads", "terminal", "browser", "load", "ui", "comparing", "writing", "cli")
"""Folders of tests that take long, those that take longest first."""


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage while tests are collected, and later not among what was: almost all of it stays."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start what takes long first: at the end all who run tests are to have something left to do."""
    here = Path(__file__).parent
    rank = {here / folder: rank for rank, folder in enumerate(FIRST)}

    @cache
    def of_folder(folder: Path) -> int:
        return rank[folder] if folder in rank else len(FIRST) if folder == here else of_folder(folder.parent)

    items.sort(key=lambda item: of_folder(item.path.parent))


def pytest_configure() -> None:
    """Let signals mean something again: `nohup`, `&` in a script and some CI runners start programs that ignore them.

    Every process that a test starts would inherit it, and never hear of ctrl+c.
    """
    signals.restore()
