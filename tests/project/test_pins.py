"""The pinned versions: one for each package that `pyproject.toml` asks, within what it asks, none with a known defect.

Nothing here looks at the packages that are installed or at an index: what is released tomorrow changes no result.
Whether the pins fit each other and leave none out is asked in the environment that they are written from (`make pins`).
"""

from __future__ import annotations

import re

from packaging.requirements import Requirement
from packaging.version import Version

from tests.support import pins
from tests.support.paths import ROOT
from tests.support.pins import lowest, plain, project

ADVISORIES = {
    # What it is about, and the first version without it, as of November 2026.
    "orjson": ("GHSA-hx9q-6w63-j58v", "3.11.6"),
    "pygments": ("GHSA-5239-wwwm-4pmq", "2.20.0"),
    "linkify-it-py": ("GHSA-8m2q-wq3r-6hq8", "2.1.1"),
    "markdown-it-py": ("PYSEC-2023-23", "2.2.0"),
    "numpy": ("PYSEC-2021-857", "1.21"),
    "click": ("PYSEC-2026-2132", "8.3.3"),
}
"""Packages for which advisories are known."""


def test_what_is_asked_is_pinned_within_what_is_asked():
    written = pins.written()
    extras = project()["optional-dependencies"]
    asked = [Requirement(text) for text in [*project()["dependencies"], *extras["dev"], *extras["workloads"]]]
    assert len(asked) > 20
    refused = [
        str(each)
        for each in asked
        if not each.specifier.contains(written.get(plain(each.name), "0.dev0"), prereleases=True)
    ]
    assert refused == []


def test_everything_that_runs_the_tests_installs_by_the_pins():
    for name in ("README.md", "CONTRIBUTING.md", ".ci/run", "tests/constraints.txt"):
        commands = re.findall(r"pip install\b.*?'\.\[dev\]'", (ROOT / name).read_text())
        assert commands, name
        assert [each for each in commands if " -c tests/constraints.txt " not in each] == []


def test_what_is_installed_decides_nothing(monkeypatch):
    """As if an index had served a release that asks for more than the pins have."""
    released = {"textual": [Requirement("textual>=999")], "new-package": [Requirement("new-package")]}
    monkeypatch.setattr(pins, "required", lambda *_: released)
    monkeypatch.setattr(pins, "installed", lambda _: "999")
    test_what_is_asked_is_pinned_within_what_is_asked()


def test_no_pin_has_a_known_defect():
    written = pins.written()
    assert [name for name, (_, good) in ADVISORIES.items() if Version(written[name]) < Version(good)] == []


def test_the_lowest_versions_that_are_allowed_have_no_known_defect():
    for name, version in (text.split("==") for text in lowest()):
        if name in ADVISORIES:
            assert Version(version) >= Version(ADVISORIES[name][1]), ADVISORIES[name][0]
