"""The project's own files agree with each other."""

from __future__ import annotations

import re
import tomllib

import tracetui
from tests.support.paths import ROOT
from tracetui.cli.questions import INSTALL
from tracetui.opening import dask_cluster
from tracetui.reading import remote_files
from tracetui.sql import database

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
BUILD = PYPROJECT["tool"]["hatch"]["build"]["targets"]


def package(requirement):
    """The name in a requirement."""
    return re.findall(r"[\w-]+", requirement)[0]


def test_the_version_is_one():
    assert PROJECT["version"] == tracetui.__version__
    assert f"## {tracetui.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_every_dependency_has_its_reason():
    table = (ROOT / "CONTRIBUTING.md").read_text().partition("\n## Dependencies")[2]
    reasons = re.findall(r"^\| ([\w-]+) ?(?:\(.*?\) )?\|", table, re.MULTILINE)
    extras = PROJECT["optional-dependencies"]
    own = [each for name in ("workloads", "fast", "remote", "cluster", "sql", "mcp") for each in extras[name]]
    wanted = {package(each) for each in [*PROJECT["dependencies"], *own]}
    assert wanted == set(reasons) - {"package"}


def test_every_development_dependency_is_named():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    for requirement in PROJECT["optional-dependencies"]["dev"]:
        assert package(requirement) in text


def test_what_a_message_says_to_install_is_what_the_extra_has():
    extras = PROJECT["optional-dependencies"]
    told_by_extra = {
        "remote": remote_files.INSTALL,
        "cluster": dask_cluster.INSTALL,
        "mcp": INSTALL,
        "sql": database.INSTALL,
    }
    for name, told in told_by_extra.items():
        assert told.split() == ["pip", "install", *map(package, extras[name])]


def test_nothing_tells_to_install_tracetui_from_an_index():
    """None has it: pip is told a checkout or an address, and a checkout of the user's own is not ours."""
    files = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "tracetui").rglob("*.py")]
    commands = [
        each
        for file in files
        for each in re.findall(r"pip install [^&`\n]*\btracetui\b(?!_)[^&`\n]*", file.read_text())
    ]
    assert commands
    assert [each for each in commands if not re.search(r"['\"]tracetui(\[\w+\])? @ (git\+|\$INSTALL)", each)] == []


def test_ci_runs_what_the_readme_says():
    [line] = re.findall(r"^    (.*pytest.*)", (ROOT / "README.md").read_text(), re.MULTILINE)
    commands = [part.replace(".venv/bin/", "") for part in line.split(" && ")]
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    assert commands[0] == "python3 -m venv .venv" and 'python3 -m venv "$environment"' in lines
    assert len(commands) == 3 and [each for each in commands[1:] if each not in lines] == []


def test_the_source_package_has_what_the_readme_links_to():
    included = {*BUILD["sdist"]["include"], "README.md", "LICENSE", "pyproject.toml"}
    linked = {
        link.partition("/")[0] for link in re.findall(r"\]\((?!https?:)([^)#]+)", (ROOT / "README.md").read_text())
    }
    assert linked <= included
    assert all((ROOT / each).exists() for each in included)


def test_the_classifiers_name_pythons_that_are_allowed():
    named = [re.fullmatch(r"Programming Language :: Python :: 3\.(\d+)", each) for each in PROJECT["classifiers"]]
    minors = [int(found[1]) for found in named if found]
    assert PROJECT["requires-python"] == f">=3.{minors[0]}"
    assert minors == list(range(minors[0], minors[-1] + 1))
