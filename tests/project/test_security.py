"""What SECURITY.md promises of the code as a whole: nothing is evaluated, and nothing opens a connection."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
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
ALLOWED = {
    "socket": {"attach_listener.py", "perfetto.py"},
    "http": {"perfetto_server.py"},
    "subprocess": {"database.py", "exports.py", "series.py", "history.py"},
    "multiprocessing": {"rank_reading.py"},
}
"""The server on this machine; tmux, to which text is given to copy; git, which tells the order of commits; the command
that the user names to record with; and workers, which read the traces of ranks."""


def imports_of(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The top-level packages that a module imports, wherever the import is."""
    for node in nodes:
        if isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = [node.module]
        else:
            continue
        yield from (name.partition(".")[0] for name in names if name != TEXT_ONLY)


def test_a_module_that_connects_is_found_beside_one_that_only_reads_addresses():
    tree = ast.parse("from urllib.parse import quote\nimport urllib.parse, urllib.request\nfrom urllib import error")
    assert list(imports_of(ast.walk(tree))) == ["urllib", "urllib"]


def calls_of(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The names of functions that are called, and `os.NAME` of those of a module."""
    for node in nodes:
        function = node.func if isinstance(node, ast.Call) else None
        if isinstance(function, ast.Name):
            yield function.id
        elif isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
            yield f"{function.value.id}.{function.attr}"


_WORDS = "|".join(sorted(LOADING_CODE | CONNECTING | STARTING))
SUSPECTED = re.compile(
    rf"(?<![\w.])(?:{'|'.join(sorted(EVALUATING))})\b|^\s*(?:import|from)\b.*\b(?:{_WORDS})\b|\bos\.\w", re.MULTILINE
)
"""Matches a module that may do any of it; others are not parsed."""


@cache
def parsed() -> list[tuple[str, list[ast.AST]]]:
    """Name, and the imports and calls, of every module that is suspected."""
    kinds = (ast.Import, ast.ImportFrom, ast.Call)
    sources = [(path.name, path.read_text()) for path in READERS]
    return [
        (name, [node for node in ast.walk(ast.parse(source)) if isinstance(node, kinds)])
        for name, source in sources
        if SUSPECTED.search(source)
    ]


def test_nothing_is_evaluated_or_unpickled():
    found = {(name, call) for name, nodes in parsed() for call in calls_of(nodes) if call in EVALUATING}
    found |= {(name, package) for name, nodes in parsed() for package in imports_of(nodes) if package in LOADING_CODE}
    assert found == set()


def test_only_the_server_for_perfetto_knows_the_network_and_only_copying_and_workers_start_a_program():
    found = {
        (name, package)
        for name, nodes in parsed()
        for package in imports_of(nodes)
        if package in CONNECTING | STARTING and name not in ALLOWED.get(package, ())
    }
    assert found == set()
    shells = re.compile(r"os\.(system|popen|exec|spawn|posix_spawn|fork)")
    calls = {(name, call) for name, nodes in parsed() for call in calls_of(nodes)}
    assert ("source.py", "os.open") in calls
    assert {(name, call) for name, call in calls if shells.match(call)} == set()


def test_every_promise_names_its_tests():
    """Each point of the list of promises ends with the tests that prove it."""
    promises = (ROOT / "SECURITY.md").read_text().partition("## How")[0]
    points = re.split(r"^\* ", promises, flags=re.MULTILINE)[1:]
    assert len(points) >= 7
    assert [point[:40] for point in points if not re.search(r"`[\w/]*test_\w+\.py`", point)] == []
