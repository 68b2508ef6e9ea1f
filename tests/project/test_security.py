"""What SECURITY.md promises of the code as a whole: nothing is evaluated, and nothing opens a connection."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

from tests.support.paths import ROOT

READERS = sorted((ROOT / "tracetui").rglob("*.py"))
"""Everything that handles a trace; `workloads` runs the code that it is told to run."""

EVALUATING = {"eval", "exec", "compile", "__import__", "breakpoint"}
LOADING_CODE = {"pickle", "cPickle", "marshal", "shelve", "dill", "yaml", "code", "codeop", "runpy"}
CONNECTING = {"socket", "ssl", "http", "urllib", "urllib3", "requests", "httpx", "ftplib", "smtplib", "telnetlib"}
STARTING = {"subprocess", "multiprocessing", "pty"}
TEXT_ONLY = "urllib.parse"
"""A module of such a package that takes addresses apart, and connects to nothing."""
ALLOWED = {"socket": {"perfetto.py"}, "http": {"perfetto_server.py"}, "subprocess": {"exports.py"}}
"""The server on this machine, and tmux, to which text is given to copy."""


def imports_of(tree: ast.AST) -> Iterator[str]:
    """The top-level packages that a module imports, wherever the import is."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = [node.module]
        else:
            continue
        yield from (name.partition(".")[0] for name in names if name != TEXT_ONLY)


def test_a_module_that_connects_is_found_beside_one_that_only_reads_addresses():
    tree = ast.parse("from urllib.parse import quote\nimport urllib.parse, urllib.request\nfrom urllib import error")
    assert list(imports_of(tree)) == ["urllib", "urllib"]


def calls_of(tree: ast.AST) -> Iterator[str]:
    """The names of built-in functions that are called, and `os.NAME` of functions of os."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield f"{ast.unparse(node.func.value)}.{node.func.attr}"


@cache
def parsed() -> list[tuple[str, ast.AST]]:
    """Name and syntax tree of every module."""
    return [(path.name, ast.parse(path.read_text())) for path in READERS]


def test_nothing_is_evaluated_or_unpickled():
    found = {(name, call) for name, tree in parsed() for call in calls_of(tree) if call in EVALUATING}
    found |= {(name, package) for name, tree in parsed() for package in imports_of(tree) if package in LOADING_CODE}
    assert found == set()


def test_only_the_server_for_perfetto_knows_the_network_and_only_copying_starts_a_program():
    found = {
        (name, package)
        for name, tree in parsed()
        for package in imports_of(tree)
        if package in CONNECTING | STARTING and name not in ALLOWED.get(package, ())
    }
    assert found == set()
    shells = re.compile(r"os\.(system|popen|exec|spawn|posix_spawn|fork)")
    assert {(name, call) for name, tree in parsed() for call in calls_of(tree) if shells.match(call)} == set()


def test_every_promise_names_its_tests():
    """Each point of the list of promises ends with the tests that prove it."""
    promises = (ROOT / "SECURITY.md").read_text().partition("## How")[0]
    points = re.split(r"^\* ", promises, flags=re.MULTILINE)[1:]
    assert len(points) >= 7
    assert [point[:40] for point in points if not re.search(r"`[\w/]*test_\w+\.py`", point)] == []
