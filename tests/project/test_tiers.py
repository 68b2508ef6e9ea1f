"""Every test is of one tier, the files that start the tiers agree on it, and no test depends on another."""

from __future__ import annotations

import re
import shlex
import tomllib
from itertools import pairwise

import pytest

from tests.support.paths import ROOT

PYTEST = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
MAKEFILE, CI, CONTRIBUTING, README = (
    (ROOT / name).read_text() for name in ("Makefile", ".ci/run", "CONTRIBUTING.md", "README.md")
)
MARKS: list[set[str]] = [set(), {"full"}, {"full", "smoke"}, {"nightly"}, {"full", "nightly"}]
"""What a test may be marked with."""


def target(name: str) -> str:
    """The recipe of a target of the Makefile."""
    found = re.search(rf"^{name}:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    assert found is not None, f"there is no {name}"
    return found[1]


def selected_by(command: str) -> str:
    """The expression after the last `-m` that is not Python's own."""
    words = shlex.split(command, comments=True)
    return [after for word, after in pairwise(words) if word == "-m" and after != "pytest"][-1]


TIERS = {
    "quick": selected_by(PYTEST["addopts"]),
    "rest": selected_by(target("test-rest")),
    "nightly": selected_by(target("nightly").splitlines()[0]),
}


@pytest.mark.parametrize("marks", MARKS, ids=lambda marks: "+".join(sorted(marks)) or "none")
def test_a_test_is_of_one_tier(marks: set[str]) -> None:
    names = {name: name in marks for name in ("full", "smoke", "nightly")}
    assert sum(bool(eval(expression, {}, names)) for expression in TIERS.values()) == 1


def test_the_marks_are_declared() -> None:
    assert {line.partition(":")[0] for line in PYTEST["markers"]} == set().union(*MARKS)


def test_ci_runs_both_tiers_and_ends_with_a_summary() -> None:
    commands = [line for line in CI.splitlines() if line.strip() and not line.startswith("#")]
    assert commands[-3] == "python -m pytest", "the README's command"
    assert commands[-2] == "make -j2 check TEST=true", "without running the quick tests twice"
    assert commands[-1].startswith("python -m pytest ") and selected_by(commands[-1]) == TIERS["rest"]
    assert "set -e" in CI


def test_the_tiers_are_documented() -> None:
    assert "python -m pytest" in README
    for command in ("python -m pytest", "make test`", "make test-rest", "make test-all", "make nightly"):
        assert command in CONTRIBUTING, command
    assert re.search(r"^test-all: test test-rest$", MAKEFILE, re.MULTILINE)


IMPORT = re.compile(r"^[ \t]*(?:from (tests[\w.]*) import|import)\b( *\([^)]*\)|[^(\n]+)", re.MULTILINE)
"""Matches an import, with the folder or module of `tests` that it is from, and the names."""


def imported_tests(source: str) -> list[str]:
    """The test modules, and `conftest`, that a module imports, or from which it imports."""
    words = [word for parts in IMPORT.findall(source) for part in parts for word in re.split(r"[.\s,()]+", part)]
    return sorted({word for word in words if word.startswith("test_") or word == "conftest"})


def test_an_import_of_a_test_is_found() -> None:
    source = "from tests.ui.test_app import a\nfrom tests.ui import (\n    test_keys,\n)\nimport tests.conftest\n"
    assert imported_tests(source) == ["conftest", "test_app", "test_keys"]


def test_no_test_imports_another() -> None:
    """What two tests need is in `tests/support`."""
    sources = {path: path.read_text() for path in (ROOT / "tests").rglob("*.py") if path.name != "test_tiers.py"}
    assert {str(path): names for path, source in sources.items() if (names := imported_tests(source))} == {}
