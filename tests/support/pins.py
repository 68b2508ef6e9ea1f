"""The versions that the tests were last run with.

`python -m tests.support.pins > tests/constraints.txt` writes them anew.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution

from packaging.requirements import Requirement
from packaging.version import Version

from tests.support.paths import ROOT

PINS = ROOT / "tests" / "constraints.txt"
HEADER = """\
# The versions that the tests were last run with: pip install -c tests/constraints.txt -e '.[dev]'
# Written by `make pins`.
"""


def written() -> dict[str, str]:
    """The version of each package in the file."""
    lines = [line for line in PINS.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split("==") for line in lines)


def required(extras: tuple[str, ...] = ("dev",)) -> dict[str, list[Requirement]]:
    """What the project asks of each package, itself or by way of others, as far as it is installed here."""
    found: dict[str, list[Requirement]] = {}
    waiting = [("tracetui", extras)]
    seen = set(waiting)
    while waiting:
        for requirement in _of(*waiting.pop()):
            name = plain(requirement.name)
            found.setdefault(name, []).append(requirement)
            following = (name, tuple(sorted(requirement.extras)))
            if following not in seen:
                seen.add(following)
                waiting.append(following)
    return found


def installed(name: str) -> str | None:
    """The version of a package that is installed here, without the mark of a build; None where it is not."""
    try:
        return Version(distribution(name).version).public
    except PackageNotFoundError:
        return None


def plain(name: str) -> str:
    """A package's name as all its spellings are written."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _of(name: str, extras: tuple[str, ...]) -> Iterator[Requirement]:
    try:
        texts = distribution(name).requires or []
    except PackageNotFoundError:
        return
    for text in texts:
        requirement = Requirement(text)
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield requirement


def main() -> None:
    """Print the file; `make pins` has asked pip before whether the packages fit each other."""
    print(HEADER, end="")
    for name in sorted(required()):
        if version := installed(name):
            print(f"{name}=={version}")


if __name__ == "__main__":
    main()


def project() -> dict:
    """What `pyproject.toml` says of the project."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def lowest() -> list[str]:
    """Every dependency at the lowest version that is allowed."""
    found = [re.fullmatch(r"([\w-]+)>=([\d.]+).*", text) for text in project()["dependencies"]]
    return [f"{match[1]}=={match[2]}" for match in found if match]
