"""The pinned versions: all of them, each within what is asked, none with a defect that its makers have told of."""

from __future__ import annotations

from packaging.version import Version

from tests.support import pins
from tests.support.pins import lowest

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


def test_every_package_is_pinned():
    assert set(pins.required()) <= set(pins.written())


def test_every_pin_is_within_what_is_asked():
    written = pins.written()
    refused = {
        name: str(requirement)
        for name, asked in pins.required().items()
        for requirement in asked
        if not requirement.specifier.contains(written[name], prereleases=True)
    }
    assert refused == {}


def test_no_pin_has_a_known_defect():
    written = pins.written()
    assert [name for name, (_, good) in ADVISORIES.items() if Version(written[name]) < Version(good)] == []


def test_the_lowest_versions_that_are_allowed_have_no_known_defect():
    for name, version in (text.split("==") for text in lowest()):
        if name in ADVISORIES:
            assert Version(version) >= Version(ADVISORIES[name][1]), ADVISORIES[name][0]
